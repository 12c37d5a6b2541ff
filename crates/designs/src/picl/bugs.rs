//! Mistakes that one could really make in PiCL. Each is a switch; verification must catch each.

use perdure_hardware::time::Cycles;

crate::planted_bugs! {
    evicts_before_flush, "evict-before-flush", "an evicted line is written in place although its undo entry is still in the on-chip buffer";
    scans_log_forward, "forward-scan", "recovery applies the log from oldest to newest, so the newest entry for a line wins";
    valid_from_too_late, "valid-from-too-late", "the undo entry of a clean line gets ValidFrom = last committed epoch in place of PersistedEID";
    scans_past_private, "scan-skips-private", "the cache scan writes the last-level cache's stale copy and never asks the private caches";
    announces_before_flush, "announce-before-flush", "PersistedEID is recorded after the scan without flushing the undo buffer first";
    compares_plain_epochs, "plain-epoch-compare", "EID tags are compared as plain integers, without regard to wrap-around";
    collects_early, "early-collection", "log super-blocks are reclaimed one epoch before they expire";
    releases_at_commit, "release-at-commit", "output leaves the machine when its epoch commits, not when it is persisted";
    keeps_tag_in_private, "tag-stays-in-private", "a cross-epoch store in a private cache does not update the EID at the last-level cache, so the scan misses the line";
    no_undo_for_clean, "no-undo-for-clean", "the first store to a clean line creates no undo entry";
    writes_line_beside_block, "line-beside-block", "an evicted line is written in place while the log block with its undo entry is still on its way";
    waits_for_own_block_only, "own-block-only", "an evicted line waits for the log block with its own undo entry, and not for the block before it, at which recovery ends";
    loses_entry_when_busy, "entry-lost-when-busy", "a store that finds both undo buffers on their way leaves its undo entry out, and does not wait";
    trusts_stale_block, "stale-block-trusted", "recovery does not look at sequence numbers, and follows the chain into a block that an earlier use of the slot has left";
    reuses_slot_early, "slot-reused-early", "super-blocks are reclaimed when the scan starts that lets them expire, and their slots used again while the register record still needs them";
    record_counts_unfinished, "record-counts-unfinished", "a register record counts log blocks as durable that are still on their way";
    ignores_checksum, "checksum-ignored", "recovery takes a torn log block for a whole one";
    writes_copies_together, "register-copies-together", "both copies of a register record are written at once, so that one cut tears both";
    records_beside_lines, "record-beside-lines", "PersistedEID is recorded when the scan has written its last line, while lines are still on their way";
    starts_registers_anew, "registers-start-anew", "after a recovery PersistedEID starts at zero, as at the first boot";
    persists_without_scan, "persist-without-scan", "PersistedEID advances when the scan starts, not when it has finished";
}

impl Flaws {
    /// ValidFrom of a clean line's undo entry: PersistedEID, but for the flaw.
    pub fn valid_from_of_clean(self, persisted: u64, system: u64) -> u64 {
        if self.valid_from_too_late {
            system - 1
        } else {
            persisted
        }
    }

    /// What PersistedEID is when a machine starts in the memory of an epoch: that, but for the flaw.
    pub fn persisted_at_start(self, epoch: u64) -> u64 {
        if self.starts_registers_anew { 0 } else { epoch }
    }

    /// When a line may be written in place whose undo entry is in a block on its way: when recovery
    /// reaches the block, but for the flaws.
    pub fn behind_block(self, durable: Cycles, reachable: Cycles) -> Cycles {
        if self.writes_line_beside_block {
            0
        } else if self.waits_for_own_block_only {
            durable
        } else {
            reachable
        }
    }
}
