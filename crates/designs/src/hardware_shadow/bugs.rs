//! Mistakes that one could really make in an overlapped shadow scheme. Each is a switch;
//! verification must catch each. `software-shadow` has those in the mapping table and in recovery, too,
//! by the same names.

crate::planted_bugs! {
    overwrites_old_version, "old-version-overwritten", "a store to a line that the checkpoint under way still needs does not save the line's bytes first";
    misplaces_old_version, "old-version-misplaced", "a line of the checkpoint under way that is evicted goes to the executing epoch's place";
    has_two_places, "two-places", "the executing epoch's version takes the place of the last checkpoint's, as if the one under way were committed already";
    fills_from_checkpoint, "fill-from-checkpoint", "a miss reads the version that the table names, although a newer one was evicted since";
    ends_walk_early, "walk-ends-early", "the walk over the lines to be persisted ends one line early";
    commits_with_table, "commit-with-table", "the commit record is written when the table is durable, without waiting for the lines";
    commits_before_durable, "commit-before-durable", "the commit record is written when the last line was accepted, not when it is durable";
    announces_at_end, "announce-at-end", "output leaves the machine when its epoch ends, not when the commit record is durable";
    writes_copies_together, "copies-together", "both copies of the commit record are written at once, so one cut can tear both";
    forgets_version_before, "before-forgotten", "table words name the home address as the place of the version before, wherever that is";
    forgets_pointer, "pointer-forgotten", "the word that names a new leaf is not written";
    accepts_torn_record, "torn-record-accepted", "recovery takes a torn commit record for a whole one";
    takes_newest, "newest-taken", "recovery takes the newest version that the table names, whatever epoch is committed";
    retires_first, "retires-first", "recovery records that every line is at home before it has copied the lines there";
}
