//! Mistakes that one could really make in a library that logs in software. Each is a switch;
//! verification must catch each.

use crate::frm;

crate::planted_bugs! {
    stores_before_log, "store-before-log", "the fence behind the undo entry is missing, so the store and what evicts its line may overtake the entry";
    set_too_small, "set-too-small", "the write set has room for 96 lines of a thread; what is stored beyond that is logged, and not flushed";
    forgets_last_line, "last-line-forgotten", "the walk over a thread's write set ends one line early";
    forgets_dram, "dram-forgotten", "the library flushes what the shared cache holds, and forgets lines that were evicted to the DRAM";
    commits_before_flush, "commit-before-flush", "the commit record is written first, and then the write set is flushed";
    announces_at_end, "announce-at-end", "output leaves the machine when its epoch ends, not when the commit record is durable";
    writes_copies_together, "copies-together", "both copies of the commit record are written at once, so one cut can tear both";
    keeps_log, "log-kept", "the commit does not truncate the log, so the entries of the epoch that just ended stay live";
    slot_counter_wraps, "slot-counter-wraps", "the counter of log slots has seven bits, so the 129th entry of an epoch overwrites the first";
    accepts_torn_entry, "torn-entry-accepted", "recovery takes a torn undo entry for a whole one";
    accepts_stale_entry, "stale-entry-accepted", "recovery does not look at the generation, and applies entries that earlier epochs left behind";
    empties_log_first, "log-emptied-first", "recovery truncates the log before it has put the old bytes back";
}

impl Flaws {
    /// Those of recovery, which is FRM's.
    pub fn of_recovery(self) -> frm::bugs::Flaws {
        frm::bugs::Flaws {
            accepts_torn_record: self.accepts_torn_entry,
            accepts_stale_record: self.accepts_stale_entry,
            empties_log_first: self.empties_log_first,
            ..frm::bugs::Flaws::default()
        }
    }
}
