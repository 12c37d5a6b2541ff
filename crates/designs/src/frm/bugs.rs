//! Mistakes that one could really make in FRM. Each is a switch; verification must catch each.

use crate::design::planted_bugs;

planted_bugs! {
    ModifyBeforeLog, "modify-before-log", "the in-place write does not wait until the undo record is durable";
    FillSkipsBuffer, "fill-skips-buffer", "a miss reads the home address although a newer eviction of the line waits in the buffer";
    ForwardUndo, "forward-undo", "recovery applies the log from oldest to newest, so the newest record of a line wins";
    CommitBeforeDurable, "commit-before-durable", "the commit record is written when the last flushed line was accepted, not when it is durable";
    CommitLeavesBuffer, "commit-leaves-buffer", "the epoch commits while evictions still wait in the buffer";
    FlushSkipsLog, "flush-skips-log", "flushed lines go home without an undo record, as if the epoch were committed already";
    AnnounceAtEnd, "announce-at-end", "output leaves the machine when its epoch ends, not when the commit record is durable";
    CopiesTogether, "copies-together", "both copies of the commit record are written at once, so one cut can tear both";
    TornRecordAccepted, "torn-record-accepted", "recovery takes a torn undo record for a whole one";
    StaleRecordAccepted, "stale-record-accepted", "recovery does not look at the generation, and applies records that earlier epochs left behind";
    LogEmptiedFirst, "log-emptied-first", "recovery empties the log before it has put the old bytes back";
    GenerationKept, "generation-kept", "the commit record keeps the log's generation, so the records of the epoch that just ended stay live";
    SlotCounterWraps, "slot-counter-wraps", "the counter of log slots has eight bits, so the 257th record of an epoch overwrites the first";
}
