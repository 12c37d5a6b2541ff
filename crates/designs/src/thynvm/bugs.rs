//! Mistakes that one could really make in `ThyNVM`. Each is a switch; verification must catch each.

use crate::design::planted_bugs;

planted_bugs! {
    RecordBeforeData, "record-before-data", "the commit record is written first, and then the tables that it counts";
    RecordCopiesTogether, "record-copies-together", "both copies of the commit record are written at the same time";
    AnnounceAtEpochEnd, "announce-at-epoch-end", "output leaves the machine when its epoch ends, not when the checkpoint is durable";
    OverPenultimate, "over-penultimate", "a working version is written over the penultimate checkpoint's while the last one is still in flight";
    OverLast, "over-last", "a working version is written over the last checkpoint's";
    CopyHomeEarly, "copy-home-early", "idle versions are copied home when the epoch ends, before its checkpoint is durable";
    OverflowForgotten, "overflow-forgotten", "a checkpoint's tables leave out the overflow list";
    StaleEntryListed, "stale-entry-listed", "a block that moved to its page stays in the tables that checkpoints list";
    HalfPageCopied, "half-page-copied", "a new version of a page starts with its first half only";
    FillSkipsPages, "fill-skips-pages", "a miss looks for blocks and overflowed lines, never for pages";
    CleanUpForgetsRewritten, "clean-up-forgets-rewritten", "tables that are cleaned up leave out units that were copied home and written again since";
    BlocksBeforePages, "blocks-before-pages", "recovery brings blocks home before pages, whose older bytes win";
    ClearedTooSoon, "cleared-too-soon", "recovery records empty tables before it brings versions home";
    ChecksumIgnored, "checksum-ignored", "recovery takes a torn commit record for a whole one";
}
