//! Every counter of the machine: one line each, with its public name, unit and meaning.

use serde::Serialize;

/// A counter's value beside what it means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Described {
    /// Public, dotted name.
    pub name: &'static str,
    /// Value.
    pub value: u64,
    /// Unit.
    pub unit: &'static str,
    /// One line.
    pub meaning: &'static str,
}

macro_rules! statistics {
    ($($field:ident, $name:literal, $unit:literal, $meaning:literal;)*) => {
        /// The counters, all zero at the start of a run.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Statistics { $(#[doc = $meaning] pub $field: u64,)* }

        impl Statistics {
            /// All counters in a fixed order.
            pub fn describe(&self) -> Vec<Described> {
                vec![$(Described { name: $name, value: self.$field, unit: $unit, meaning: $meaning },)*]
            }

            /// What was counted since an earlier moment. Greatest values and sizes, which are no
            /// counts, stay as they are now.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self {
                    epoch_to_persisted_longest_cycles: self.epoch_to_persisted_longest_cycles,
                    log_bytes_live_peak: self.log_bytes_live_peak,
                    log_extents: self.log_extents,
                    nvm_drained_at_cycle: self.nvm_drained_at_cycle,
                    nvoverlay_master_bytes_now: self.nvoverlay_master_bytes_now,
                    nvoverlay_master_leaves: self.nvoverlay_master_leaves,
                    nvoverlay_master_lines: self.nvoverlay_master_lines,
                    nvoverlay_extents: self.nvoverlay_extents,
                    nvoverlay_pool_bytes_peak: self.nvoverlay_pool_bytes_peak,
                    ..Self { $($field: self.$field - earlier.$field,)* }
                }
            }
        }
    };
}

statistics! {
    l1i_accesses, "l1i.accesses", "accesses", "instruction-cache accesses: one for each basic block or line entered";
    l1i_misses, "l1i.misses", "accesses", "instruction-cache accesses that missed";
    l1d_accesses, "l1d.accesses", "accesses", "data-cache accesses by loads, stores and atomics, those of the kernel included";
    l1d_stores, "l1d.stores", "accesses", "data-cache accesses that wrote";
    l1d_misses, "l1d.misses", "accesses", "data-cache accesses whose line was not in the L1";
    l1d_upgrades, "l1d.upgrades", "accesses", "writes to a line held shared, which asked the directory for ownership";
    l2_accesses, "l2.accesses", "accesses", "L1 misses, instruction and data, that looked into the L2";
    l2_misses, "l2.misses", "accesses", "of these, the ones that missed";
    l2_snoops, "l2.snoops", "snoops", "L1 copies that an L2 asked to give up or share a line, for another hart that uses it";
    llc_accesses, "llc.accesses", "accesses", "requests that reached the last-level cache";
    llc_misses, "llc.misses", "accesses", "of these, the ones that missed";
    llc_port_wait_cycles, "llc.port_wait", "cycles", "time that requests waited for a last-level cache port";
    snoops, "coherence.snoops", "snoops", "private copies asked to give up, share or clean a line";
    l2_write_backs, "l2.write_backs", "lines", "dirty lines that left a private cache for the last-level cache";
    llc_write_backs, "llc.write_backs", "lines", "dirty lines evicted from the last-level cache to memory";
    dirty_transfers, "versions.passed_dirty", "lines", "dirty lines that went from one private cache straight to another, to be written there";
    version_capacity, "versions.departed.capacity", "versions", "dirty versions that left a sharing group because its L2 needed the room";
    version_store_evictions, "versions.departed.store_eviction", "versions", "dirty versions that left because a newer one took their place in the L2";
    version_invalidations, "versions.departed.invalidation", "versions", "dirty versions that left because another sharing group wrote the line";
    version_downgrades, "versions.departed.downgrade", "versions", "dirty versions that left because another sharing group read the line";
    version_walks, "versions.departed.walk", "versions", "dirty versions that a tag walker found to be old";
    version_cache_blocks, "versions.departed.cache_block", "versions", "dirty versions that a cache-block instruction sent out";
    cross_version_stores, "versions.cross_stores", "stores", "stores that found their line with an older version, or none";
    pages_written, "versions.pages_written", "pages", "4 KiB pages in which such a store was the first since the version changed";
    cleaned_lines, "cache_block.cleaned", "lines", "dirty lines written to memory by cache-block instructions";
    store_buffer_stall_cycles, "core.store_buffer_stall", "cycles", "time that cores waited for a free store-buffer entry";
    memory_stall_cycles, "core.memory_stall", "cycles", "time that cores waited for loads, fetches and atomics";
    fence_stall_cycles, "core.fence_stall", "cycles", "time that cores waited at fences";
    kernel_cycles, "kernel.work", "cycles", "the kernel's own work, its memory accesses apart";
    persist_stall_cycles, "core.persist_stall", "cycles", "time that harts waited for an epoch to be persisted (output commit)";
    epochs_committed, "epoch.committed", "epochs", "epochs that ended";
    epochs_forced, "epoch.forced", "epochs", "of these, the ones ended early for output commit";
    epochs_overflowed, "epoch.overflowed", "epochs", "of these, the ones ended early because the design ran out of room";
    epochs_persisted, "epoch.persisted", "epochs", "epochs announced as persisted";
    epoch_to_persisted_cycles, "epoch.to_persisted", "cycles", "time from an epoch's end to when it was announced as persisted, of all epochs together";
    epoch_to_persisted_longest_cycles, "epoch.to_persisted_longest", "cycles", "the longest of these times";
    epoch_wait_cycles, "epoch.wait", "cycles", "time that the machine stood still because too many epochs were outstanding";
    flush_lines, "flush.lines", "lines", "dirty lines written out by synchronous cache flushes";
    flush_stall_cycles, "flush.stall", "cycles", "time that the machine stood still for synchronous flushes and commits";
    translation_lookups, "translation.lookups", "look-ups", "look-ups of a design's translation table, by evictions";
    translation_misses, "translation.misses", "look-ups", "of these, the ones that found no entry";
    translation_overflows, "translation.overflows", "entries", "entries for which a design's table or buffer had no room";
    context_lines, "epoch.context_lines", "lines", "lines stored to save processor and kernel contexts at epoch ends";
    undo_entries, "picl.undo_entries", "entries", "undo entries created";
    undo_entries_from_clean, "picl.undo_entries.from_clean", "entries", "of these, for lines that were clean (ValidFrom is PersistedEID)";
    undo_entries_from_committed, "picl.undo_entries.from_committed", "entries", "of these, for lines that an earlier epoch had modified (ValidFrom is TaggedEID)";
    undo_flushes, "picl.undo_flushes", "blocks", "undo-buffer flushes: sequential block writes to the log";
    undo_flushes_forced, "picl.undo_flushes.forced", "blocks", "of these, flushed early because an eviction matched the bloom filter";
    undo_flushes_by_scan, "picl.undo_flushes.by_scan", "blocks", "of these, flushed at the end of a cache scan";
    undo_flushes_partial, "picl.undo_flushes.partial", "blocks", "of these, flushed before they were full";
    undo_buffer_wait_cycles, "picl.undo_buffer_wait", "cycles", "time that stores waited because both undo buffers were busy";
    bloom_queries, "picl.bloom_queries", "lines", "lines to be written in place, for which the undo buffers' bloom filters were asked";
    bloom_matches, "picl.bloom_matches", "lines", "of these, the ones that matched, and waited for a block of the log";
    bloom_false_matches, "picl.bloom_false_matches", "lines", "of these, the ones that the block had no undo entry for";
    register_records, "picl.register_records", "records", "register records written to advance PersistedEID";
    acs_scans, "picl.acs_scans", "scans", "asynchronous cache scans finished";
    acs_lines, "picl.acs_lines", "lines", "lines that the scans wrote in place";
    acs_snoops, "picl.acs_snoops", "snoops", "of these, the ones whose newest bytes were in a private cache";
    log_bytes_live_peak, "picl.log_live_peak", "bytes", "most bytes of log that were live at once";
    log_collections, "picl.collections", "collections", "garbage collections of the log that reclaimed something";
    log_collect_cycles, "picl.collect_cycles", "cycles", "the kernel's work for them, part of kernel.work";
    log_super_blocks_collected, "picl.super_blocks_collected", "blocks", "super-blocks that expired and were reclaimed";
    log_extents, "picl.log_extents", "extents", "log regions handed out by the kernel";
    journaling_redo_fills, "journaling.redo_fills", "reads", "misses answered by the redo buffer in place of the home address";
    journaling_superseded, "journaling.superseded", "lines", "evicted lines whose redo slot became worthless because a flush wrote newer bytes";
    frm_merged, "frm.merged", "evictions", "evictions that replaced the bytes of one still pending in the controller's buffer";
    frm_buffer_wait_cycles, "frm.buffer_wait", "cycles", "time that evictions waited for an entry of the buffer";
    frm_buffer_fills, "frm.buffer_fills", "lines", "misses answered by the buffer, without a read of the NVM";
    shadow_copies_on_write, "shadow-paging.copies_on_write", "pages", "pages copied to a shadow page because a write missed in the translation table";
    shadow_retained_hits, "shadow-paging.retained_hits", "pages", "retained entries whose page was written again, without a copy";
    shadow_retained_replaced, "shadow-paging.retained_replaced", "pages", "retained entries given up for another page";
    shadow_overflow_rewrites, "shadow-paging.overflow_rewrites", "lines", "evictions of a line that was kept aside already";
    shadow_pages_written_back, "shadow-paging.pages_written_back", "pages", "pages copied home by commits";
    thynvm_pages_promoted, "thynvm.pages_promoted", "pages", "pages tracked as such from then on, because their blocks were written often in an epoch";
    thynvm_pages_demoted, "thynvm.pages_demoted", "pages", "pages tracked as such no longer, because they were written seldom in an epoch";
    thynvm_pages_spilled, "thynvm.pages_spilled", "pages", "pages tracked as such because the block table had no room for one of their lines";
    thynvm_page_copies, "thynvm.page_copies", "pages", "pages copied to where their working version goes, at the first write in an epoch";
    thynvm_units_brought_home, "thynvm.units_brought_home", "units", "versions of blocks and pages copied home in the background";
    thynvm_blocks_merged, "thynvm.blocks_merged", "blocks", "idle blocks written to the page that they lie in, which is tracked as such";
    thynvm_clean_ups, "thynvm.clean_ups", "records", "checkpoints recorded again without what had come home";
    nvoverlay_versions, "nvoverlay.versions", "versions", "versions that arrived at the OMCs";
    nvoverlay_versions_redundant, "nvoverlay.versions.redundant", "versions", "of these, the ones whose line had a version of that epoch already";
    nvoverlay_buffer_hits, "nvoverlay.buffer_hits", "versions", "redundant ones that were still in the OMC buffer";
    nvoverlay_index_bytes, "nvoverlay.index_bytes", "bytes", "bytes of epoch indexes written";
    nvoverlay_master_bytes, "nvoverlay.master_bytes", "bytes", "bytes written to the master tables";
    nvoverlay_master_bytes_now, "nvoverlay.master_bytes_now", "bytes", "size of the master tables";
    nvoverlay_master_leaves, "nvoverlay.master_leaves", "leaves", "of these, leaves of 512 bytes; inner nodes have 4 KiB";
    nvoverlay_master_lines, "nvoverlay.master_lines", "lines", "lines that they map";
    nvoverlay_epochs_merged, "nvoverlay.epochs_merged", "epochs", "epochs merged into the master tables, empty ones included";
    nvoverlay_compactions, "nvoverlay.compactions", "compactions", "compactions of old epochs";
    nvoverlay_compaction_bytes, "nvoverlay.compaction_bytes", "bytes", "bytes that they wrote";
    nvoverlay_extents, "nvoverlay.extents", "extents", "regions of NVM granted by the kernel";
    nvoverlay_pool_bytes_peak, "nvoverlay.pool_bytes_peak", "bytes", "most bytes of them in use at once";
    nvoverlay_space_wait_cycles, "nvoverlay.space_wait", "cycles", "time that versions waited for a region or for a compaction";
    dram_reads, "dram.reads", "lines", "misses answered by the DRAM in front of the NVM";
    dram_writes, "dram.writes", "lines", "lines written to it: evicted ones, and those that came from the NVM";
    dram_written_through, "dram.written_through", "lines", "lines that it alone held and that a cache-block instruction sent to the NVM";
    nvm_reads, "nvm.reads", "operations", "row reads at the NVM";
    nvm_design_reads, "nvm.design_reads", "operations", "of these, the ones made by the design, not for a miss";
    nvm_read_bytes, "nvm.read_bytes", "bytes", "bytes read from the NVM";
    nvm_read_wait_cycles, "nvm.read_wait", "cycles", "time that reads waited in the controller";
    nvm_writes, "nvm.writes", "operations", "row writes at the NVM";
    nvm_write_queue_wait_cycles, "nvm.write_queue_wait", "cycles", "time that senders waited for a write-queue entry";
    nvm_drained_at_cycle, "nvm.drained_at", "cycles", "when the NVM is done with every write that it was given so far";
    nvm_operations_sequential, "nvm.operations.sequential", "operations", "operations that read or wrote a whole row, all by the design";
    nvm_operations_random, "nvm.operations.random", "operations", "smaller reads and writes by the design: flushed and scanned lines, log, tables, registers";
    nvm_operations_write_back, "nvm.operations.write_back", "operations", "evicted lines written";
    nvm_written_bytes_data, "nvm.written_bytes.data", "bytes", "bytes written for program and kernel data, at home or where the design keeps them";
    nvm_written_bytes_log, "nvm.written_bytes.log", "bytes", "bytes written to a log";
    nvm_written_bytes_metadata, "nvm.written_bytes.metadata", "bytes", "bytes written to registers and tables of a design";
    nvm_written_bytes_context, "nvm.written_bytes.context", "bytes", "bytes written at home for saved contexts";
    nvm_written_bytes_total, "nvm.written_bytes.total", "bytes", "all bytes written to the NVM";
}

impl Statistics {
    /// Sums that must add up; returns what doesn't.
    pub fn check_conservation(&self) -> Result<(), String> {
        let sums = [
            (
                "nvm.written_bytes.total = data + log + metadata + context",
                self.nvm_written_bytes_total,
                self.nvm_written_bytes_data
                    + self.nvm_written_bytes_log
                    + self.nvm_written_bytes_metadata
                    + self.nvm_written_bytes_context,
            ),
            (
                "nvm.operations: sequential + random + write_back = nvm.writes + nvm.design_reads",
                self.nvm_operations_sequential
                    + self.nvm_operations_random
                    + self.nvm_operations_write_back,
                self.nvm_writes + self.nvm_design_reads,
            ),
            (
                "picl.undo_entries = from_clean + from_committed",
                self.undo_entries,
                self.undo_entries_from_clean + self.undo_entries_from_committed,
            ),
            (
                "picl.undo_flushes.partial = forced + by_scan",
                self.undo_flushes_partial,
                self.undo_flushes_forced + self.undo_flushes_by_scan,
            ),
            (
                "l2.accesses = l1i.misses + l1d.misses",
                self.l2_accesses,
                self.l1i_misses + self.l1d_misses,
            ),
        ];
        for (rule, left, right) in sums {
            if left != right {
                return Err(format!(
                    "statistics do not add up: {rule}: {left} ≠ {right}"
                ));
            }
        }
        let bounds = [
            (
                "l1d.misses ≤ l1d.accesses",
                self.l1d_misses,
                self.l1d_accesses,
            ),
            (
                "l1d.stores ≤ l1d.accesses",
                self.l1d_stores,
                self.l1d_accesses,
            ),
            (
                "l1i.misses ≤ l1i.accesses",
                self.l1i_misses,
                self.l1i_accesses,
            ),
            ("l2.misses ≤ l2.accesses", self.l2_misses, self.l2_accesses),
            (
                "64 × nvm.reads ≤ nvm.read_bytes",
                64 * self.nvm_reads,
                self.nvm_read_bytes,
            ),
            (
                "llc.misses ≤ llc.accesses",
                self.llc_misses,
                self.llc_accesses,
            ),
        ];
        for (rule, left, right) in bounds {
            if left > right {
                return Err(format!(
                    "statistics do not add up: {rule}: {left} > {right}"
                ));
            }
        }
        Ok(())
    }
}
