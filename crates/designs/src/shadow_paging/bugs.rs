//! Mistakes that one could really make in shadow paging. Each is a switch; verification must catch
//! each.

use crate::design::planted_bugs;

planted_bugs! {
    HomeBeforeCommit, "home-before-commit", "written pages are copied home before the commit record is durable";
    CommitBeforeTable, "commit-before-table", "the commit record is written before the table that it speaks of";
    TableBeforeFlush, "table-before-flush", "the table is taken before the cache flush, so pages first written by the flush are not in it";
    RetireBeforeHome, "retire-before-home", "the commit is recorded as retired before its pages are home";
    ReleaseBeforeCommit, "release-before-commit", "output leaves the machine when its epoch ends, before the commit record is durable";
    ShadowNotSnooped, "shadow-not-snooped", "a fill reads the home address of a page that was written in this epoch";
    OverflowNotInTable, "overflow-not-in-table", "the commit's table lists pages only, so recovery forgets lines that were kept aside";
    OverflowKept, "overflow-kept", "lines kept aside stay in the list after the commit that brought them home";
    HitNotMarked, "hit-not-marked", "the first write that hits a retained entry does not mark its page as written";
    ReplacedWithoutCopy, "replaced-without-copy", "a page that takes over a retained entry is not copied, so its shadow page still holds the other page's lines";
    LineBeforeCopy, "line-before-copy", "the evicted line is written first, and the page's copy then overwrites it";
    TornRecordAccepted, "torn-record-accepted", "recovery takes a torn register record for a whole one";
    RecoveryRetiresFirst, "recovery-retires-first", "recovery records the commit as retired before it has copied the pages home";
}
