//! The parameters, and which machines they are possible on.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::link::Link;
use perdure_hardware::specification::Domain;
use perdure_hardware::time::Cycles;
use serde::{Deserialize, Serialize};

use super::geometry::Geometry;
use super::record;
use crate::design::ImpossibleParameter;

/// How devices that work on the same object agree on when it is done (section 5.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// They tell each other, off the critical path: a log is deleted when all have done what is before.
    Delayed,
    /// They do not: programs poll, and record commits themselves.
    Software,
    /// Nobody does.
    None,
}

/// Who sees to it that devices see what the processor's caches have, and the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coherence {
    /// Programs: they write back what a unit will read, and flush what it will write.
    Software,
    /// The link's protocol, as the paper hopes of CXL: a command takes the lines out of the caches.
    Hardware,
}

/// The `nearpm` section of the configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Units of a device.
    pub units: usize,
    /// Their clock.
    pub clock_mhz: u64,
    /// Entries of a device's request FIFO.
    pub fifo_entries: usize,
    /// Writes of the processor that a device holds while they conflict with a command.
    pub host_queue_entries: usize,
    /// Megabytes a second of the bus inside a device.
    pub bus_mb_per_s: u64,
    /// What a unit reads or writes at once, where it uses its DMA engine.
    pub burst_bytes: usize,
    /// Bursts of a unit that may be under way.
    pub bursts: usize,
    /// Cycles of the units' clock from a command's arrival to its dispatch, if nothing is in its way.
    pub dispatch_cycles: u64,
    /// Cycles of the units' clock that the DMA engine takes to begin; the load/store unit, which copies up to
    /// a line, takes none.
    pub dma_cycles: u64,
    /// Cycles of the units' clock for which the metadata generator works on an entry or on a deletion.
    pub metadata_cycles: u64,
    /// Cycles of the units' clock for which a unit computes over a line, where an operation does.
    pub compute_cycles: u64,
    /// How devices agree.
    pub sync: Sync,
    /// Who keeps caches and devices in agreement.
    pub coherence: Coherence,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            units: 4,
            clock_mhz: 300,
            fifo_entries: 32,
            host_queue_entries: 64,
            bus_mb_per_s: 4000,
            burst_bytes: 1024,
            bursts: 4,
            dispatch_cycles: 4,
            dma_cycles: 4,
            metadata_cycles: 2,
            compute_cycles: 8,
            sync: Sync::Delayed,
            coherence: Coherence::Software,
        }
    }
}

/// The parameters as a device counts.
#[derive(Clone, Debug)]
pub struct Settings {
    pub units: usize,
    pub fifo_entries: usize,
    pub host_queue_entries: usize,
    pub burst_bytes: usize,
    pub bursts: usize,
    /// A cycle of the units.
    pub unit_cycle: Cycles,
    pub dispatch: Cycles,
    pub dma: Cycles,
    pub metadata: Cycles,
    pub compute: Cycles,
    pub sync: Sync,
    pub coherence: Coherence,
}

impl Parameters {
    /// In cycles of the machine.
    pub(super) fn settings(&self, core_mhz: u64) -> Settings {
        let cycles = |count: u64| (count * core_mhz).div_ceil(self.clock_mhz);
        Settings {
            units: self.units,
            fifo_entries: self.fifo_entries,
            host_queue_entries: self.host_queue_entries,
            burst_bytes: self.burst_bytes,
            bursts: self.bursts,
            unit_cycle: cycles(1),
            dispatch: cycles(self.dispatch_cycles),
            dma: cycles(self.dma_cycles),
            metadata: cycles(self.metadata_cycles),
            compute: cycles(self.compute_cycles),
            sync: self.sync,
            coherence: self.coherence,
        }
    }

    /// The bus inside a device.
    pub(super) fn bus(&self, core_mhz: u64) -> Link {
        Link::new(self.bus_mb_per_s * 1_000_000, core_mhz)
    }
}

/// The devices of a machine: how the region is dealt out, and the modules' numbers.
pub(super) fn devices_of(
    hardware: &Hardware,
) -> Result<(Geometry, Vec<usize>), ImpossibleParameter> {
    let none = || {
        let problem = "nearpm needs persistent memory beside DRAM whose modules all have a device: take the machine nearpm, or give each [[module]] of the region device_bytes = 4096 and set nvm.bytes = 0";
        ImpossibleParameter::new("module", "none", problem)
    };
    let specification = &hardware.specification;
    let map = hardware.memory.map();
    let granule = specification
        .modules
        .iter()
        .find(|one| one.device_bytes > 0);
    let granule = granule.ok_or_else(none)?.interleaving_bytes;
    Geometry::of(map, granule).ok_or_else(none)
}

/// Refuses what cannot be.
pub(super) fn check(
    parameters: &Parameters,
    hardware: &Hardware,
    geometry: &Geometry,
) -> Result<(), ImpossibleParameter> {
    for (key, value, most) in [
        ("nearpm.units", parameters.units, record::UNITS_MAX),
        (
            "nearpm.fifo_entries",
            parameters.fifo_entries,
            record::FIFO_MAX,
        ),
        (
            "nearpm.host_queue_entries",
            parameters.host_queue_entries,
            record::HELD_MAX,
        ),
        ("nearpm.bursts", parameters.bursts, 64),
    ] {
        let problem = format!("must be 1 to {most}");
        ImpossibleParameter::unless((1..=most).contains(&value), key, value, problem)?;
    }
    for (key, value, least, most) in [
        ("nearpm.clock_mhz", parameters.clock_mhz, 1, 100_000),
        ("nearpm.bus_mb_per_s", parameters.bus_mb_per_s, 1, 1_000_000),
        (
            "nearpm.dispatch_cycles",
            parameters.dispatch_cycles,
            0,
            1000,
        ),
        ("nearpm.dma_cycles", parameters.dma_cycles, 0, 1000),
        (
            "nearpm.metadata_cycles",
            parameters.metadata_cycles,
            0,
            1000,
        ),
        ("nearpm.compute_cycles", parameters.compute_cycles, 0, 1000),
    ] {
        let problem = format!("must be {least} to {most}");
        ImpossibleParameter::unless((least..=most).contains(&value), key, value, problem)?;
    }
    let burst = parameters.burst_bytes;
    ImpossibleParameter::unless(
        burst.is_power_of_two() && (64..=4096).contains(&burst),
        "nearpm.burst_bytes",
        burst,
        "must be a power of two, 64 to 4096",
    )?;
    check_devices(hardware, geometry)
}

/// Refuses devices that cannot be.
fn check_devices(hardware: &Hardware, geometry: &Geometry) -> Result<(), ImpossibleParameter> {
    ImpossibleParameter::unless(
        geometry.devices <= 8,
        "module",
        geometry.devices,
        "nearpm has at most 8 devices: that many modules may share the region, by their count or one by one",
    )?;
    let granule = geometry.granule;
    ImpossibleParameter::unless(
        (record::BYTES..=record::RESERVED / 8).contains(&granule),
        "module.interleaving_bytes",
        granule,
        format!(
            "must be {} to {}, so that each device has room for what its energy saves",
            record::BYTES,
            record::RESERVED / 8
        ),
    )?;
    let domain = hardware.specification.persistence.domain;
    ImpossibleParameter::unless(
        domain == Domain::Adr,
        "persistence.domain",
        format!("{domain:?}").to_lowercase(),
        "nearpm has its queues in the persistence domain: write \"adr\"",
    )
}
