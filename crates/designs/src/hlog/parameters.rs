//! The parameters, and which machines they are possible on.

use std::ops::Range;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::specification::Domain;
use serde::{Deserialize, Serialize};

use super::log::Layout;
use crate::design::ImpossibleParameter;

/// Log lines that there must be at least, and a hart may have to itself.
const LEAST_LINES: u64 = 8;

/// The `hlog` section of the configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// The log.
    pub log_bytes: u64,
    /// Log lines of wraps that are not home yet, in the controller.
    pub buffer_bytes: u64,
    /// Capacity of the victim persistence cache.
    pub victim_bytes: u64,
    /// Its access time.
    pub victim_latency_ns: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            log_bytes: 4 << 20,
            buffer_bytes: 64 << 10,
            victim_bytes: 1 << 20,
            victim_latency_ns: 30.0,
        }
    }
}

/// Refuses logs and buffers that cannot be.
pub(super) fn check(
    parameters: &Parameters,
    hardware: &Hardware,
    region: &Range<u64>,
) -> Result<(), ImpossibleParameter> {
    let Parameters {
        log_bytes,
        buffer_bytes,
        victim_bytes,
        victim_latency_ns,
    } = *parameters;
    let line = LINE_BYTES as u64;
    let whole = |key, bytes: u64| {
        let problem = "must be lines of 64 bytes, one at least";
        ImpossibleParameter::unless(
            bytes >= line && bytes.is_multiple_of(line),
            key,
            bytes,
            problem,
        )
    };
    let eadr = hardware.specification.persistence.domain == Domain::Eadr;
    ImpossibleParameter::unless(
        !eadr,
        "persistence.domain",
        "eadr",
        "caches that survive would keep wraps that are not closed: write \"adr\" or \"media\"",
    )?;
    whole("hlog.log_bytes", log_bytes)?;
    whole("hlog.buffer_bytes", buffer_bytes)?;
    whole("hlog.victim_bytes", victim_bytes)?;
    let (least, most) = (
        LEAST_LINES * hardware.cores.len() as u64,
        Layout::most_lines(region),
    );
    ImpossibleParameter::unless(
        (least..=most).contains(&(log_bytes / line)),
        "hlog.log_bytes",
        log_bytes,
        format!(
            "must be {} to {}: {LEAST_LINES} lines for each hart, and a thirty-second of the persistent memory",
            least * line,
            most * line
        ),
    )?;
    ImpossibleParameter::unless(
        (0.0..=1e6).contains(&victim_latency_ns),
        "hlog.victim_latency_ns",
        victim_latency_ns,
        "must be 0 to 1,000,000 ns",
    )
}
