//! Mistakes that one could really make in a library that logs in software. Each is a switch;
//! verification must catch each.

use crate::design::planted_bugs;

planted_bugs! {
    StoreBeforeLog, "store-before-log", "the fence behind the undo entry is missing, so the store and what evicts its line may overtake the entry";
    SetTooSmall, "set-too-small", "the write set has room for 96 lines of a thread; what is stored beyond that is logged, and not flushed";
    LastLineForgotten, "last-line-forgotten", "the walk over a thread's write set ends one line early";
    DramForgotten, "dram-forgotten", "the library flushes what the shared cache holds, and forgets lines that were evicted to the DRAM";
    CommitBeforeFlush, "commit-before-flush", "the commit record is written first, and then the write set is flushed";
    AnnounceAtEnd, "announce-at-end", "output leaves the machine when its epoch ends, not when the commit record is durable";
    CopiesTogether, "copies-together", "both copies of the commit record are written at once, so one cut can tear both";
    LogKept, "log-kept", "the commit does not truncate the log, so the entries of the epoch that just ended stay live";
    SlotCounterWraps, "slot-counter-wraps", "the counter of log slots has seven bits, so the 129th entry of an epoch overwrites the first";
    TornEntryAccepted, "torn-entry-accepted", "recovery takes a torn undo entry for a whole one";
    StaleEntryAccepted, "stale-entry-accepted", "recovery does not look at the generation, and applies entries that earlier epochs left behind";
    LogEmptiedFirst, "log-emptied-first", "recovery truncates the log before it has put the old bytes back";
}
