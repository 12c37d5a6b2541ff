//! What NVOverlay counts.

perdure_hardware::counters! {
    /// The counters.
    pub struct Counters {
        versions, "nvoverlay.versions", "versions", "versions that arrived at the OMCs";
        versions_redundant, "nvoverlay.versions.redundant", "versions", "of these, the ones whose line had a version of that epoch already";
        buffer_hits, "nvoverlay.buffer_hits", "versions", "redundant ones that were still in the OMC buffer";
        index_bytes, "nvoverlay.index_bytes", "bytes", "bytes of epoch indexes written";
        master_bytes, "nvoverlay.master_bytes", "bytes", "bytes written to the master tables";
        master_bytes_now, "nvoverlay.master_bytes_now", "bytes", gauge "size of the master tables";
        master_leaves, "nvoverlay.master_leaves", "leaves", gauge "of these, leaves of 512 bytes; inner nodes have 4 KiB";
        master_lines, "nvoverlay.master_lines", "lines", gauge "lines that they map";
        epochs_merged, "nvoverlay.epochs_merged", "epochs", "epochs merged into the master tables, empty ones included";
        compactions, "nvoverlay.compactions", "compactions", "compactions of old epochs";
        compaction_bytes, "nvoverlay.compaction_bytes", "bytes", "bytes that they wrote";
        extents, "nvoverlay.extents", "extents", gauge "regions of NVM granted by the kernel";
        pool_bytes_peak, "nvoverlay.pool_bytes_peak", "bytes", gauge "most bytes of them in use at once";
        space_wait_cycles, "nvoverlay.space_wait", "cycles", "time that versions waited for a region or for a compaction";
    }
    at_most(versions_redundant, versions);
}
