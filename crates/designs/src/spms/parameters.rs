//! The parameters, and which machines they are possible on.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::specification::Domain;
use serde::{Deserialize, Serialize};

use crate::design::ImpossibleParameter;

/// Which strands are committed no later than a strand, beside those that stored to its lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// None: §IV-B.
    #[default]
    Paper,
    /// Ours: those from whose lines it has loaded are of its group.
    Reads,
    /// Ours: these, and those that its thread has begun before.
    Thread,
}

/// The `spms` section of the configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Bits of a tag that name the core.
    pub cid_bits: u32,
    /// Bits of a tag that name the thread on its core.
    pub tid_bits: u32,
    /// Bits of a tag that name the strand of its thread.
    pub sid_bits: u32,
    /// Entries of the SGST.
    pub sgst_entries: usize,
    /// Capacity of the strand buffer.
    pub buffer_bytes: u64,
    /// Its access time.
    pub buffer_latency_ns: f64,
    /// Which strands are committed no later than a strand.
    pub order: Order,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            cid_bits: 3,
            tid_bits: 2,
            sid_bits: 7,
            sgst_entries: 4096,
            buffer_bytes: 16 << 20,
            buffer_latency_ns: 30.0,
            order: Order::Paper,
        }
    }
}

/// Refuses tables and buffers that cannot be.
pub(super) fn check(
    parameters: &Parameters,
    hardware: &Hardware,
) -> Result<(), ImpossibleParameter> {
    let Parameters {
        cid_bits,
        tid_bits,
        sid_bits,
        sgst_entries,
        buffer_bytes,
        buffer_latency_ns,
        order: _,
    } = *parameters;
    let harts = hardware.cores.len();
    let eadr = hardware.specification.persistence.domain == Domain::Eadr;
    ImpossibleParameter::unless(
        !eadr,
        "persistence.domain",
        "eadr",
        "caches that survive would keep strands that are not committed: write \"adr\" or \"media\"",
    )?;
    ImpossibleParameter::unless(
        cid_bits < 16 && harts <= 1 << cid_bits,
        "spms.cid_bits",
        cid_bits,
        format!("names 2^{cid_bits} harts, and the machine has {harts}"),
    )?;
    let bits = cid_bits.saturating_add(tid_bits).saturating_add(sid_bits);
    ImpossibleParameter::unless(
        bits <= 15,
        "spms.sid_bits",
        sid_bits,
        format!(
            "with {cid_bits} of CID and {tid_bits} of TID, a tag has {bits} bits: 15 are possible"
        ),
    )?;
    ImpossibleParameter::unless(
        (1..=1 << bits).contains(&sgst_entries),
        "spms.sgst_entries",
        sgst_entries,
        format!("a tag of {bits} bits names 1 to {}", 1 << bits),
    )?;
    ImpossibleParameter::unless(
        buffer_bytes >= LINE_BYTES as u64 && buffer_bytes.is_multiple_of(LINE_BYTES as u64),
        "spms.buffer_bytes",
        buffer_bytes,
        "must be lines of 64 bytes, one at least",
    )?;
    ImpossibleParameter::unless(
        (0.0..=1e6).contains(&buffer_latency_ns),
        "spms.buffer_latency_ns",
        buffer_latency_ns,
        "must be 0 to 1,000,000 ns",
    )
}
