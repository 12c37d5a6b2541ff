//! Mistakes that one could really make in PiCL. Each is a switch; verification must catch each.

use crate::design::planted_bugs;

planted_bugs! {
    EvictBeforeFlush, "evict-before-flush", "an evicted line is written in place although its undo entry is still in the on-chip buffer";
    ForwardScan, "forward-scan", "recovery applies the log from oldest to newest, so the newest entry for a line wins";
    ValidFromTooLate, "valid-from-too-late", "the undo entry of a clean line gets ValidFrom = last committed epoch in place of PersistedEID";
    ScanSkipsPrivate, "scan-skips-private", "the cache scan writes the last-level cache's stale copy and never asks the private caches";
    AnnounceBeforeFlush, "announce-before-flush", "PersistedEID is recorded after the scan without flushing the undo buffer first";
    PlainEpochCompare, "plain-epoch-compare", "EID tags are compared as plain integers, without regard to wrap-around";
    EarlyCollection, "early-collection", "log super-blocks are reclaimed one epoch before they expire";
    ReleaseAtCommit, "release-at-commit", "output leaves the machine when its epoch commits, not when it is persisted";
    TagStaysInPrivate, "tag-stays-in-private", "a cross-epoch store in a private cache does not update the EID at the last-level cache, so the scan misses the line";
    NoUndoForClean, "no-undo-for-clean", "the first store to a clean line creates no undo entry";
    LineBesideBlock, "line-beside-block", "an evicted line is written in place while the log block with its undo entry is still on its way";
    OwnBlockOnly, "own-block-only", "an evicted line waits for the log block with its own undo entry, and not for the block before it, at which recovery ends";
    EntryLostWhenBusy, "entry-lost-when-busy", "a store that finds both undo buffers on their way leaves its undo entry out, and does not wait";
    StaleBlockTrusted, "stale-block-trusted", "recovery does not look at sequence numbers, and follows the chain into a block that an earlier use of the slot has left";
    SlotReusedEarly, "slot-reused-early", "super-blocks are reclaimed when the scan starts that lets them expire, and their slots used again while the register record still needs them";
    RecordCountsUnfinished, "record-counts-unfinished", "a register record counts log blocks as durable that are still on their way";
    ChecksumIgnored, "checksum-ignored", "recovery takes a torn log block for a whole one";
    CopiesTogether, "register-copies-together", "both copies of a register record are written at once, so that one cut tears both";
    RecordBesideLines, "record-beside-lines", "PersistedEID is recorded when the scan has written its last line, while lines are still on their way";
    RegistersStartAnew, "registers-start-anew", "after a recovery PersistedEID starts at zero, as at the first boot";
    PersistWithoutScan, "persist-without-scan", "PersistedEID advances when the scan starts, not when it has finished";
}
