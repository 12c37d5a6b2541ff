//! Mistakes that one could really make in a redo journal. Each is a switch; verification must catch
//! each.

use crate::design::planted_bugs;

planted_bugs! {
    SnoopMissed, "snoop-missed", "a miss reads the home address although the newest bytes are in the redo buffer";
    RewriteDropped, "rewrite-dropped", "a line that is evicted again in its epoch leaves older bytes in one in eight redo slots, and everybody reads those";
    OverflowInPlace, "overflow-in-place", "a line for which the translation table has no room is written home at once";
    OverflowForgotten, "overflow-forgotten", "the lines of the overflow list are neither listed in the journal nor copied home";
    StaleCopyAfterFlush, "stale-copy-after-flush", "a line evicted earlier in the epoch and flushed at its end keeps its table entry, whose older bytes are applied too";
    TableSurvivesCommit, "table-survives-commit", "translations are kept after the commit although redo slots are handed out afresh";
    LastBlockForgotten, "last-block-forgotten", "the block that the flush left partly filled is not written to the journal";
    CommitBeforeJournal, "commit-before-journal", "the commit record is written before the last blocks of the journal";
    AnnounceBeforeCommit, "announce-before-commit", "output leaves when the journal is durable, before its commit record is";
    HomeBeforeCommit, "home-before-commit", "lines are copied home without waiting for the commit record";
    RetireBeforeHome, "retire-before-home", "the record that retires the journal is written before the lines are copied home";
    NeverRetired, "never-retired", "no record retires the journal, so the next epoch's evictions overwrite redo slots that a durable record names";
    TornRecordAccepted, "torn-record-accepted", "recovery takes a torn register record for a whole one";
    RetireBeforeApplying, "retire-before-applying", "recovery retires the journal first and applies it then, so a second cut loses it";
    OneCopyTrusted, "one-copy-trusted", "recovery writes home while only one copy of the registers says that the epoch is committed";
}
