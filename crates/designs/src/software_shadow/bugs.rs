//! Mistakes that one could really make in a library that shadows in software. Each is a switch;
//! verification must catch each.

crate::planted_bugs! {
    writes_in_place, "written-in-place", "a line that leaves the caches goes where its committed version is";
    fills_from_committed, "fill-from-committed", "a miss reads the version that the table names, although a newer one was evicted since";
    set_too_small, "set-too-small", "the write set has room for 96 lines of a thread; what is stored beyond that is neither flushed nor mapped";
    forgets_dram, "dram-forgotten", "the library flushes the lines that are still cached, and forgets those that were evicted to the DRAM";
    commits_before_table, "commit-before-table", "the commit record is written before the table that it speaks of";
    announces_at_end, "announce-at-end", "output leaves the machine when its epoch ends, not when the commit record is durable";
    writes_copies_together, "copies-together", "both copies of the commit record are written at once, so one cut can tear both";
    forgets_version_before, "before-forgotten", "table words name the home address as the place of the version before, wherever that is";
    forgets_pointer, "pointer-forgotten", "the word that names a new leaf is not written";
    accepts_torn_record, "torn-record-accepted", "recovery takes a torn commit record for a whole one";
    takes_newest, "newest-taken", "recovery takes the newest version that the table names, whatever epoch is committed";
    retires_first, "retires-first", "recovery records that every line is at home before it has copied the lines there";
}
