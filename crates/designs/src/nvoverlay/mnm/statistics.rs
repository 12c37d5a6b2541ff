//! What the mapping counts.

/// Declares the counters with name, unit and meaning as one table, in which they are listed, too.
macro_rules! counters {
    ($($field:ident, $unit:literal, $meaning:literal;)*) => {
        /// Counters and gauges of the mapping, since start.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct MnmStatistics { $(#[doc = concat!($meaning, " [", $unit, "]")] pub $field: u64,)* }

        impl MnmStatistics {
            /// Name, unit, meaning and value of each.
            pub fn list(&self) -> Vec<(&'static str, &'static str, &'static str, u64)> {
                vec![$((stringify!($field), $unit, $meaning, self.$field),)*]
            }
        }
    };
}

counters! {
    versions, "versions", "versions that arrived at the OMCs";
    versions_redundant, "versions", "of these, the ones whose line had a version of that epoch already";
    versions_late, "versions", "of these, the ones of an epoch that had been declared complete, which are dropped";
    buffer_hits, "versions", "redundant ones that were still in the OMC buffer";
    buffer_evictions, "versions", "versions that the OMC buffer wrote to the NVM to make room";
    data_bytes, "bytes", "bytes of versions written to the NVM, compaction apart";
    segments, "segments", "segments of the pool that were given to overlay pages";
    index_blocks, "blocks", "blocks of epoch indexes written";
    index_bytes, "bytes", "bytes of epoch indexes written";
    register_writes, "records", "register records written";
    register_bytes, "bytes", "bytes of them";
    epochs_indexed, "epochs", "epochs whose index is complete, empty ones included";
    epochs_merged, "epochs", "epochs merged into the master tables, empty ones included";
    merged_versions, "versions", "versions entered in the master tables by merges";
    master_bytes, "bytes", "bytes written to the master tables";
    master_nodes, "nodes", "nodes of 4 KiB that the master tables have now";
    master_leaves, "nodes", "nodes of 512 bytes that they have now";
    master_lines, "lines", "lines that they map now";
    compactions, "compactions", "compactions finished";
    compactions_waited, "compactions", "of these, the ones that an insertion had to wait for";
    compaction_copies, "versions", "versions that compactions copied";
    compaction_bytes, "bytes", "bytes that compactions wrote: copies, base indexes and master entries";
    versions_discarded, "versions", "versions that compactions left out, because a newer one is no newer than the horizon";
    units_freed, "units", "units of 256 bytes that compactions freed";
    extents, "extents", "extents of the pool that the kernel has granted by now";
    extent_interrupts, "interrupts", "of these, the ones granted by an interrupt since start";
    space_wait_cycles, "cycles", "time that insertions waited for extents and compactions";
    units_used_peak, "units", "most units of the pool in use at once";
}
