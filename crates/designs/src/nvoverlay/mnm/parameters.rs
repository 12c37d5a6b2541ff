//! Parameters of the mapping, which are keys of the design's section.

use serde::{Deserialize, Serialize};

use super::format::{ADDRESS_BITS, OMCS_MAX, PAGE_BYTES};
use crate::design::ImpossibleParameter;
use crate::layout::Layout;

/// Parameters of the mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MnmParameters {
    /// Overlay memory controllers (OMCs), among which pages of 4 KiB are dealt out in turn.
    pub omcs: usize,
    /// Sets of the battery-backed OMC buffer, over all OMCs; 0 for none.
    pub buffer_sets: usize,
    /// Its associativity, a line of 64 bytes for each way. A single set is divided by ways.
    pub buffer_ways: usize,
    /// Most bytes of NVM that the kernel grants for snapshots.
    pub pool_limit_bytes: u64,
    /// Bytes that it grants at a time.
    pub pool_extent_bytes: u64,
    /// The interrupt in which it does so, in cycles.
    pub pool_extent_interrupt_cycles: u64,
    /// Versions that an OMC enters in its master table, or copies in a compaction, in one step; an
    /// index block is a step, too. Versions of a page are entered together, and take as many steps
    /// as they would by themselves.
    pub merge_entries_per_step: usize,
    /// Shortest time between two steps of background work, in cycles.
    pub merge_step_cycles: u64,
    /// What a message takes, from a sharing group to the master OMC or from one OMC to another, in
    /// cycles.
    pub message_cycles: u64,
}

impl Default for MnmParameters {
    fn default() -> Self {
        Self {
            omcs: 4,
            buffer_sets: 1,
            buffer_ways: 1024,
            pool_limit_bytes: 1 << 30,
            pool_extent_bytes: 128 << 20,
            pool_extent_interrupt_cycles: 5000,
            merge_entries_per_step: 16,
            merge_step_cycles: 64,
            message_cycles: 30,
        }
    }
}

impl MnmParameters {
    /// Sets and ways of one OMC's buffer.
    pub(super) fn buffer_of_omc(&self) -> (usize, usize) {
        if self.buffer_sets.is_multiple_of(self.omcs) {
            (self.buffer_sets / self.omcs, self.buffer_ways)
        } else {
            (self.buffer_sets, self.buffer_ways / self.omcs)
        }
    }

    /// Refuses what cannot be, naming the key in the design's section.
    pub(super) fn check(&self, layout: &Layout) -> Result<(), ImpossibleParameter> {
        let area = layout.log_area.end - layout.log_area.start;
        let divided = self.buffer_sets.is_multiple_of(self.omcs.max(1))
            || self.buffer_ways.is_multiple_of(self.omcs.max(1));
        ImpossibleParameter::unless(
            (1..=OMCS_MAX).contains(&self.omcs),
            "nvoverlay.omcs",
            self.omcs,
            format!("1 to {OMCS_MAX} are possible"),
        )?;
        ImpossibleParameter::unless(
            self.buffer_sets == 0 || self.buffer_ways > 0,
            "nvoverlay.buffer_ways",
            self.buffer_ways,
            "at least 1; for no buffer, set nvoverlay.buffer_sets = 0",
        )?;
        ImpossibleParameter::unless(
            divided && self.buffer_sets.saturating_mul(self.buffer_ways) <= 1 << 24,
            "nvoverlay.buffer_sets",
            self.buffer_sets,
            format!(
                "sets or nvoverlay.buffer_ways = {} must be a multiple of nvoverlay.omcs = {}, \
                 and there are at most 16777216 entries",
                self.buffer_ways, self.omcs
            ),
        )?;
        ImpossibleParameter::unless(
            self.pool_extent_bytes.is_multiple_of(PAGE_BYTES)
                && (2 * self.omcs as u64 * PAGE_BYTES..=area).contains(&self.pool_extent_bytes),
            "nvoverlay.pool_extent_bytes",
            self.pool_extent_bytes,
            format!(
                "a multiple of 4096, at least two pages for each OMC, at most the log area's \
                 {area} bytes (a quarter of nvm.bytes)"
            ),
        )?;
        ImpossibleParameter::unless(
            self.pool_limit_bytes >= self.pool_extent_bytes,
            "nvoverlay.pool_limit_bytes",
            self.pool_limit_bytes,
            "at least nvoverlay.pool_extent_bytes",
        )?;
        ImpossibleParameter::unless(
            layout.log_area.end <= 1 << (ADDRESS_BITS - 8),
            "nvm.bytes",
            layout.log_area.end,
            "at most 1 TiB",
        )?;
        ImpossibleParameter::unless(
            self.merge_entries_per_step > 0,
            "nvoverlay.merge_entries_per_step",
            self.merge_entries_per_step,
            "at least 1",
        )?;
        ImpossibleParameter::unless(
            self.merge_step_cycles > 0,
            "nvoverlay.merge_step_cycles",
            self.merge_step_cycles,
            "at least 1",
        )
    }
}
