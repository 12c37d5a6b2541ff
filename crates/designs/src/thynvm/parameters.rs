//! The keys of `thynvm`, what they may be, and where everything goes with them.

use perdure_hardware::hierarchy::Hardware;
use serde::{Deserialize, Serialize};

use super::format::{Regions, Shape};
use crate::design::ImpossibleParameter;
use crate::layout::Layout;

/// The `thynvm` section of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Entries of the block translation table; a block is a line.
    pub block_entries: usize,
    /// Entries of the page translation table; a page is 4 KiB.
    pub page_entries: usize,
    /// Associativity of both.
    pub table_ways: usize,
    /// A page whose blocks were written at least so often in an epoch is tracked as a page.
    pub promote_writes: u32,
    /// A page that was written at most so often in an epoch is no longer tracked as a page.
    pub demote_writes: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            block_entries: 2048,
            page_entries: 4096,
            table_ways: 16,
            promote_writes: 22,
            demote_writes: 16,
        }
    }
}

impl Parameters {
    pub(super) fn validate(&self) -> Result<(), ImpossibleParameter> {
        ImpossibleParameter::unless(
            (1..=64).contains(&self.table_ways),
            "thynvm.table_ways",
            self.table_ways,
            "must be 1 to 64",
        )?;
        for (key, entries) in [
            ("thynvm.block_entries", self.block_entries),
            ("thynvm.page_entries", self.page_entries),
        ] {
            ImpossibleParameter::unless(
                (1..=1 << 20).contains(&entries) && entries.is_multiple_of(self.table_ways),
                key,
                entries,
                format!(
                    "must be a multiple of thynvm.table_ways = {}, at most 1048576",
                    self.table_ways
                ),
            )?;
        }
        ImpossibleParameter::unless(
            self.promote_writes > self.demote_writes,
            "thynvm.promote_writes",
            self.promote_writes,
            format!(
                "must be more than thynvm.demote_writes = {}, or pages would change to and fro",
                self.demote_writes
            ),
        )
    }

    /// Where everything goes on this machine.
    pub(super) fn regions(
        &self,
        layout: &Layout,
        hardware: &Hardware,
    ) -> Result<Regions, ImpossibleParameter> {
        let nvm = &hardware.specification.nvm;
        let llc_lines = hardware.llc.sets() * hardware.llc.ways();
        let area = layout.log_area.clone();
        ImpossibleParameter::unless(
            nvm.row_bytes >= 256,
            "nvm.row_bytes",
            nvm.row_bytes,
            "must be at least 256 under thynvm: a block of its tables is one row operation",
        )?;
        Shape::fitting(
            area.end - area.start,
            self.block_entries as u64,
            self.page_entries as u64,
            self.table_ways as u64,
            nvm.banks as u64,
            nvm.row_bytes as u64,
        )
        .filter(|shape| shape.overflow_entries >= llc_lines as u64)
        .and_then(|shape| Regions::new(shape, area))
        .ok_or_else(|| {
            let problem = format!(
                "with thynvm.block_entries = {}: two slots for each entry, the tables, and room for the {llc_lines} lines of the last-level cache do not fit in a quarter of nvm.bytes = {}; take fewer entries or more memory",
                self.block_entries, nvm.bytes
            );
            ImpossibleParameter::new("thynvm.page_entries", self.page_entries, problem)
        })
    }
}
