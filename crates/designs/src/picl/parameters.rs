//! The keys of `picl` and `picl-l2`, and what they may be.

use perdure_hardware::time::Cycles;
use serde::{Deserialize, Serialize};

use super::level::Keys;
use super::log::SUPER_BLOCK_BYTES;
use crate::design::ImpossibleParameter;

/// The `picl` section of the configuration, and the `picl-l2` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Width of EID tags (§IV-A: 4 bits are sufficient).
    pub eid_bits: u32,
    /// How many epochs the cache scan trails behind the commit (§III-C).
    pub acs_gap: u64,
    /// Sets of the EID array that the scan looks at in one step; a set takes one cycle.
    pub acs_sets_per_step: usize,
    /// Size of one undo buffer, and of a block in the log (§III-B). There are two buffers. One row
    /// holds a block, or as many as it needs.
    pub undo_buffer_bytes: usize,
    /// Size of a buffer's bloom filter (§III-B).
    pub bloom_filter_bits: usize,
    /// Size of a log region that the kernel hands out (§IV-B: e.g. 128 MB).
    pub log_extent_bytes: u64,
    /// Most log that the kernel hands out.
    pub log_limit_bytes: u64,
    /// The interrupt in which it does.
    pub log_extent_interrupt_cycles: Cycles,
    /// The kernel's work to reclaim one super-block.
    pub log_collect_cycles: Cycles,
    /// Of `picl-l2`. False: a line that another sharing group reads stays dirty, as no machine can have it.
    pub coherence_evicts: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            eid_bits: 4,
            acs_gap: 3,
            acs_sets_per_step: 16,
            undo_buffer_bytes: 2048,
            bloom_filter_bits: 4096,
            log_extent_bytes: 128 << 20,
            log_limit_bytes: 1 << 30,
            log_extent_interrupt_cycles: 5000,
            log_collect_cycles: 100,
            coherence_evicts: true,
        }
    }
}

impl Parameters {
    pub(super) fn validate(&self, keys: &Keys, area_bytes: u64) -> Result<(), ImpossibleParameter> {
        ImpossibleParameter::unless(
            (2..=8).contains(&self.eid_bits),
            keys.eid_bits,
            self.eid_bits,
            "must be 2 to 8",
        )?;
        let most = (1u64 << self.eid_bits) - 3;
        ImpossibleParameter::unless(
            self.acs_gap <= most,
            keys.acs_gap,
            self.acs_gap,
            format!(
                "must be at most {most} with {} EID bits, so that outstanding epochs can be told apart",
                self.eid_bits
            ),
        )?;
        ImpossibleParameter::unless(
            self.acs_sets_per_step > 0,
            keys.acs_sets_per_step,
            0,
            "must be at least 1",
        )?;
        ImpossibleParameter::unless(
            self.undo_buffer_bytes.is_power_of_two()
                && (128..=4096).contains(&self.undo_buffer_bytes),
            keys.undo_buffer_bytes,
            self.undo_buffer_bytes,
            "must be a power of two, 128 to 4096",
        )?;
        ImpossibleParameter::unless(
            self.bloom_filter_bits.is_power_of_two()
                && (64..=1 << 20).contains(&self.bloom_filter_bits),
            keys.bloom_filter_bits,
            self.bloom_filter_bits,
            "must be a power of two, 64 to 1048576",
        )?;
        ImpossibleParameter::unless(
            self.log_extent_bytes >= 4 * SUPER_BLOCK_BYTES
                && self.log_extent_bytes.is_multiple_of(SUPER_BLOCK_BYTES),
            keys.log_extent_bytes,
            self.log_extent_bytes,
            format!("must be a multiple of {SUPER_BLOCK_BYTES}, four of these at least"),
        )?;
        ImpossibleParameter::unless(
            self.log_limit_bytes >= self.log_extent_bytes && self.log_limit_bytes <= area_bytes,
            keys.log_limit_bytes,
            self.log_limit_bytes,
            format!(
                "must be at least {} = {} and at most a quarter of nvm.bytes = {area_bytes}",
                keys.log_extent_bytes, self.log_extent_bytes
            ),
        )
    }
}
