//! Mistakes that one could really make in a redo journal. Each is a switch; verification must catch
//! each.

crate::planted_bugs! {
    misses_snoop, "snoop-missed", "a miss reads the home address although the newest bytes are in the redo buffer";
    drops_rewrite, "rewrite-dropped", "a line that is evicted again in its epoch leaves older bytes in one in eight redo slots, and everybody reads those";
    overflows_in_place, "overflow-in-place", "a line for which the translation table has no room is written home at once";
    forgets_overflow, "overflow-forgotten", "the lines of the overflow list are neither listed in the journal nor copied home";
    keeps_stale_copy_after_flush, "stale-copy-after-flush", "a line evicted earlier in the epoch and flushed at its end keeps its table entry, whose older bytes are applied too";
    keeps_table_after_commit, "table-survives-commit", "translations are kept after the commit although redo slots are handed out afresh";
    forgets_last_block, "last-block-forgotten", "the block that the flush left partly filled is not written to the journal";
    commits_before_journal, "commit-before-journal", "the commit record is written before the last blocks of the journal";
    announces_before_commit, "announce-before-commit", "output leaves when the journal is durable, before its commit record is";
    goes_home_before_commit, "home-before-commit", "lines are copied home without waiting for the commit record";
    retires_before_home, "retire-before-home", "the record that retires the journal is written before the lines are copied home";
    never_retires, "never-retired", "no record retires the journal, so the next epoch's evictions overwrite redo slots that a durable record names";
    accepts_torn_record, "torn-record-accepted", "recovery takes a torn register record for a whole one";
    retires_before_applying, "retire-before-applying", "recovery retires the journal first and applies it then, so a second cut loses it";
    trusts_one_copy, "one-copy-trusted", "recovery writes home while only one copy of the registers says that the epoch is committed";
}
