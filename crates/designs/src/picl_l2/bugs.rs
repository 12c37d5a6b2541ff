//! Mistakes that one could really make in PiCL with its tags in the L2s: those of PiCL itself, which
//! the common code knows by their names, and some of this level's own.

crate::planted_bugs! {
    keeps_capacity_on_chip, "capacity-stays-on-chip", "a dirty line that an L2 replaces goes to the last-level cache alone, and in place only when it leaves that, as if that were scanned, too";
    tag_outlives_epoch, "tag-outlives-epoch", "clean copies keep their tags, so that the first store of an epoch with the same tag finds its own and logs nothing";
    keeps_tag_in_private, "tag-stays-in-private", "a cross-epoch store in an L1 does not update the EID in the L2, so the scan misses the line";
    scans_past_private, "scan-skips-private", "the scan writes the L2's stale copy and never asks the L1";
    evicts_before_flush, "evict-before-flush", "an evicted line is written in place although its undo entry is still in the on-chip buffer";
    no_undo_for_clean, "no-undo-for-clean", "the first store to a clean line creates no undo entry";
    valid_from_too_late, "valid-from-too-late", "the undo entry of a clean line gets ValidFrom = last committed epoch in place of PersistedEID";
    announces_before_flush, "announce-before-flush", "PersistedEID is recorded after the scan without flushing the undo buffer first";
    persists_without_scan, "persist-without-scan", "PersistedEID advances when the scan starts, not when it has finished";
    releases_at_commit, "release-at-commit", "output leaves the machine when its epoch commits, not when it is persisted";
    collects_early, "early-collection", "log super-blocks are reclaimed one epoch before they expire";
    compares_plain_epochs, "plain-epoch-compare", "EID tags are compared as plain integers, without regard to wrap-around";
    scans_log_forward, "forward-scan", "recovery applies the log from oldest to newest, so the newest entry for a line wins";
    ignores_checksum, "checksum-ignored", "recovery takes a torn log block for a whole one";
}
