//! What PiCL counts.

perdure_hardware::counters! {
    /// The counters.
    pub struct Counters {
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
        log_bytes_live_peak, "picl.log_live_peak", "bytes", gauge "most bytes of log that were live at once";
        log_collections, "picl.collections", "collections", "garbage collections of the log that reclaimed something";
        log_collect_cycles, "picl.collect_cycles", "cycles", "the kernel's work for them, part of kernel.work";
        log_super_blocks_collected, "picl.super_blocks_collected", "blocks", "super-blocks that expired and were reclaimed";
        log_extents, "picl.log_extents", "extents", gauge "log regions handed out by the kernel";
    }
    equal(undo_entries, undo_entries_from_clean + undo_entries_from_committed);
    equal(undo_flushes_partial, undo_flushes_forced + undo_flushes_by_scan);
    at_most(undo_flushes_partial, undo_flushes);
    at_most(bloom_false_matches, bloom_matches);
    at_most(bloom_matches, bloom_queries);
}
