//! What the mapping counts.

/// Counters and gauges of the mapping, since start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MnmStatistics {
    /// Versions that arrived at the OMCs [versions].
    pub versions: u64,
    /// Of these, the ones whose line had a version of that epoch already [versions].
    pub versions_redundant: u64,
    /// Of these, the ones of an epoch that had been declared complete, which are dropped [versions].
    pub versions_late: u64,
    /// Redundant ones that were still in the OMC buffer [versions].
    pub buffer_hits: u64,
    /// Versions that the OMC buffer wrote to the NVM to make room [versions].
    pub buffer_evictions: u64,
    /// Bytes of versions written to the NVM, compaction apart [bytes].
    pub data_bytes: u64,
    /// Segments of the pool that were given to overlay pages [segments].
    pub segments: u64,
    /// Blocks of epoch indexes written [blocks].
    pub index_blocks: u64,
    /// Bytes of epoch indexes written [bytes].
    pub index_bytes: u64,
    /// Register records written [records].
    pub register_writes: u64,
    /// Bytes of them [bytes].
    pub register_bytes: u64,
    /// Epochs whose index is complete, empty ones included [epochs].
    pub epochs_indexed: u64,
    /// Epochs merged into the master tables, empty ones included [epochs].
    pub epochs_merged: u64,
    /// Versions entered in the master tables by merges [versions].
    pub merged_versions: u64,
    /// Bytes written to the master tables [bytes].
    pub master_bytes: u64,
    /// Nodes of 4 KiB that the master tables have now [nodes].
    pub master_nodes: u64,
    /// Nodes of 512 bytes that they have now [nodes].
    pub master_leaves: u64,
    /// Lines that they map now [lines].
    pub master_lines: u64,
    /// Compactions finished [compactions].
    pub compactions: u64,
    /// Of these, the ones that an insertion had to wait for [compactions].
    pub compactions_waited: u64,
    /// Versions that compactions copied [versions].
    pub compaction_copies: u64,
    /// Bytes that compactions wrote: copies, base indexes and master entries [bytes].
    pub compaction_bytes: u64,
    /// Versions that compactions left out, because a newer one is no newer than the horizon [versions].
    pub versions_discarded: u64,
    /// Units of 256 bytes that compactions freed [units].
    pub units_freed: u64,
    /// Extents of the pool that the kernel has granted by now [extents].
    pub extents: u64,
    /// Of these, the ones granted by an interrupt since start [interrupts].
    pub extent_interrupts: u64,
    /// Time that insertions waited for extents and compactions [cycles].
    pub space_wait_cycles: u64,
    /// Most units of the pool in use at once [units].
    pub units_used_peak: u64,
}
