//! Mistakes that one could really make in PiCL with its tags in the L2s: those of PiCL itself, which
//! the common code knows by their names, and some of this level's own.

use crate::design::planted_bugs;

planted_bugs! {
    CapacityStaysOnChip, "capacity-stays-on-chip", "a dirty line that an L2 replaces goes to the last-level cache alone, and in place only when it leaves that, as if that were scanned, too";
    TagOutlivesEpoch, "tag-outlives-epoch", "clean copies keep their tags, so that the first store of an epoch with the same tag finds its own and logs nothing";
    TagStaysInPrivate, "tag-stays-in-private", "a cross-epoch store in an L1 does not update the EID in the L2, so the scan misses the line";
    ScanSkipsPrivate, "scan-skips-private", "the scan writes the L2's stale copy and never asks the L1";
    EvictBeforeFlush, "evict-before-flush", "an evicted line is written in place although its undo entry is still in the on-chip buffer";
    NoUndoForClean, "no-undo-for-clean", "the first store to a clean line creates no undo entry";
    ValidFromTooLate, "valid-from-too-late", "the undo entry of a clean line gets ValidFrom = last committed epoch in place of PersistedEID";
    AnnounceBeforeFlush, "announce-before-flush", "PersistedEID is recorded after the scan without flushing the undo buffer first";
    PersistWithoutScan, "persist-without-scan", "PersistedEID advances when the scan starts, not when it has finished";
    ReleaseAtCommit, "release-at-commit", "output leaves the machine when its epoch commits, not when it is persisted";
    EarlyCollection, "early-collection", "log super-blocks are reclaimed one epoch before they expire";
    PlainEpochCompare, "plain-epoch-compare", "EID tags are compared as plain integers, without regard to wrap-around";
    ForwardScan, "forward-scan", "recovery applies the log from oldest to newest, so the newest entry for a line wins";
    ChecksumIgnored, "checksum-ignored", "recovery takes a torn log block for a whole one";
}
