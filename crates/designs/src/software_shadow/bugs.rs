//! Mistakes that one could really make in a library that shadows in software. Each is a switch;
//! verification must catch each.

use crate::design::planted_bugs;

planted_bugs! {
    WrittenInPlace, "written-in-place", "a line that leaves the caches goes where its committed version is";
    FillFromCommitted, "fill-from-committed", "a miss reads the version that the table names, although a newer one was evicted since";
    SetTooSmall, "set-too-small", "the write set has room for 96 lines of a thread; what is stored beyond that is neither flushed nor mapped";
    DramForgotten, "dram-forgotten", "the library flushes the lines that are still cached, and forgets those that were evicted to the DRAM";
    CommitBeforeTable, "commit-before-table", "the commit record is written before the table that it speaks of";
    AnnounceAtEnd, "announce-at-end", "output leaves the machine when its epoch ends, not when the commit record is durable";
    CopiesTogether, "copies-together", "both copies of the commit record are written at once, so one cut can tear both";
    BeforeForgotten, "before-forgotten", "table words name the home address as the place of the version before, wherever that is";
    PointerForgotten, "pointer-forgotten", "the word that names a new leaf is not written";
    TornRecordAccepted, "torn-record-accepted", "recovery takes a torn commit record for a whole one";
    NewestTaken, "newest-taken", "recovery takes the newest version that the table names, whatever epoch is committed";
    RetiresFirst, "retires-first", "recovery records that every line is at home before it has copied the lines there";
}
