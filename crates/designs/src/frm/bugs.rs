//! Mistakes that one could really make in FRM. Each is a switch; verification must catch each.

crate::planted_bugs! {
    modifies_before_log, "modify-before-log", "the in-place write does not wait until the undo record is durable";
    fills_past_buffer, "fill-skips-buffer", "a miss reads the home address although a newer eviction of the line waits in the buffer";
    undoes_forward, "forward-undo", "recovery applies the log from oldest to newest, so the newest record of a line wins";
    commits_before_durable, "commit-before-durable", "the commit record is written when the last flushed line was accepted, not when it is durable";
    commit_leaves_buffer, "commit-leaves-buffer", "the epoch commits while evictions still wait in the buffer";
    flushes_past_log, "flush-skips-log", "flushed lines go home without an undo record, as if the epoch were committed already";
    announces_at_end, "announce-at-end", "output leaves the machine when its epoch ends, not when the commit record is durable";
    writes_copies_together, "copies-together", "both copies of the commit record are written at once, so one cut can tear both";
    accepts_torn_record, "torn-record-accepted", "recovery takes a torn undo record for a whole one";
    accepts_stale_record, "stale-record-accepted", "recovery does not look at the generation, and applies records that earlier epochs left behind";
    empties_log_first, "log-emptied-first", "recovery empties the log before it has put the old bytes back";
    keeps_generation, "generation-kept", "the commit record keeps the log's generation, so the records of the epoch that just ended stay live";
    slot_counter_wraps, "slot-counter-wraps", "the counter of log slots has eight bits, so the 257th record of an epoch overwrites the first";
}
