//! `nearpm`: near-data devices in the memory modules that copy, log and delete (Seneviratne, Liu, Seemakhupt
//! and Khan, *NearPM: A Near-Data Processing System for Storage-Class Applications*, EuroSys 2023).
//!
//! A program stores commands to a device page ([`command`]); the memory controller puts their words together
//! and sends each to every device that its operand spans (section 6.1). Devices translate addresses by a
//! table that the MMU vouches for ([`table`], section 5.4), work on their own module's bytes ([`device`],
//! section 5.2), whatever a command has their units do with these ([`operations`]), and keep partitioned
//! persist ordering (section 4): with the processor, whose accesses to what a command works on wait, and with
//! each other, because a log is deleted when all of them are done.
//!
//! Programs and their transactions are software (`guest/nearpm.h`). What is lost with the power is the
//! program; what it finds again is its pool, where everything has been done that a device had taken
//! ([`recovery`]), and in it the log by which it rolls back.
//!
//! Always true here:
//! - Commands of a thread come to every device in the order in which it sent them, and what it writes
//!   afterwards comes behind them.
//! - A sender goes on when every device that gets its command will have room for it when it comes.

mod area;
mod bugs;
mod command;
mod counters;
mod device;
mod geometry;
pub mod operations;
mod packet;
mod parameters;
mod points;
mod record;
mod recovery;
mod table;

use std::collections::BTreeSet;
use std::ops::Range;

use perdure_hardware::counters::Counters as _;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, line_of};
use perdure_hardware::memory::Traffic;
use perdure_hardware::persist::{Effect, Persist};
use perdure_hardware::policy::{
    DeviceAccess, DeviceAnswer, DeviceBytes, Evicted, Eviction, Policy,
};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

pub use area::{Entry, Kind, entry_at};
use bugs::Flaws;
use command::Asked;
pub use command::{Assembly, Command, Fault, Opcode};
pub use counters::Counters;
use device::{NearPmDevice, PORT_COMMAND, PORT_MAP, Place, STATUS};
pub use geometry::Geometry;
use packet::{Packet, encode_mapping};
pub use parameters::{Coherence, Parameters, Sync};
use parameters::{check, devices_of};
pub use points::{POINT_AREA, POINT_DONE, POINT_SYNCHRONISED, POINT_TAKEN};
use table::AddressTable;

use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered};
use crate::epochs::NoEpochs;
use crate::layout::Layout;
use crate::oracle::PartitionedPersistOrdering;
use crate::surviving::{Interrupted, Surviving};

/// Adds a page to a pool of the thread's: the first operand is an address in it, the second says `pool |
/// thread << 8 | first << 16 | number of the virtual page << 24`. Answers 0, or why not.
pub const MAP: u16 = 0x14 << 3;
/// Takes a pool of the thread's away: the second operand says `pool | thread << 8`.
pub const UNMAP: u16 = MAP + 1;

/// Why a page cannot be added.
mod refusal {
    /// It does not lie behind the one before.
    pub const APART: u64 = 1;
    /// No device has it.
    pub const ELSEWHERE: u64 = 2;
    /// There is no such entry.
    pub const INDEX: u64 = 3;
}

const PAGE: u64 = 4096;

/// The memory controller's part. All of it is lost with the power.
#[derive(Clone)]
pub struct NearPm {
    geometry: Geometry,
    /// Their numbers.
    modules: Vec<usize>,
    /// Where each device's page begins.
    ports: Vec<u64>,
    /// What the devices have, too, but for entries that are `unsent`.
    table: AddressTable,
    unsent: BTreeSet<usize>,
    assembly: Assembly,
    /// Which thread runs on which hart.
    threads: Vec<u32>,
    /// Commands so far.
    number: u64,
    coherence: Coherence,
    flaws: Flaws,
    counters: Counters,
}

impl NearPm {
    /// The device whose page an address is in, and where there.
    fn port_of(&self, address: u64) -> Option<(usize, u64)> {
        let mut ports = self.ports.iter().enumerate();
        ports.find_map(|(device, start)| {
            let at = address.checked_sub(*start).filter(|at| *at < PAGE)?;
            Some((device, at))
        })
    }

    /// A whole command: it goes to every device that its operand spans. Returns when its sender goes on.
    fn send(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        mut command: Command,
        now: Cycles,
    ) -> Cycles {
        if self.flaws.narrow_threads {
            command.thread &= 1;
        }
        let owner = self.threads[hart];
        let asked = Asked::of(command.opcode);
        let (devices, operands) = self.spans(&command, asked, owner);
        self.count(asked, devices);
        // What is refused for its size reads nothing.
        let most = asked.and_then(Asked::operand_bytes_max).unwrap_or(0);
        let reads = u64::from(command.size) <= most;
        self.counters.stale += u64::from(reads && self.is_stale(hardware, operands.first()));
        let mut now = self.cohere(hardware, hart, &operands, now);
        for index in std::mem::take(&mut self.unsent) {
            if let Some(mapping) = self.table.get(index) {
                let bytes = encode_mapping(index, mapping);
                for port in &self.ports {
                    let (memory, statistics) = (&mut hardware.memory, &mut hardware.statistics);
                    memory.device_store(port + PORT_MAP, &bytes, now, statistics);
                }
            }
        }
        self.number += 1;
        let packet = Packet {
            command,
            owner,
            devices,
            number: self.number,
        };
        for device in (0..self.ports.len()).filter(|device| devices & 1 << device != 0) {
            let at = self.ports[device] + PORT_COMMAND;
            let (memory, statistics) = (&mut hardware.memory, &mut hardware.statistics);
            let taken = memory.device_store(at, &packet.encode(), now, statistics);
            // The link is not used before there will be room at its other end.
            let sent = taken - memory.latency_of_link(self.modules[device]);
            if !self.flaws.acknowledges_early {
                now = now.max(sent);
            }
        }
        now
    }

    /// The devices that get a command, and the bytes that it works on, those first that it reads. One that
    /// nobody can make sense of goes to the first device, which says so.
    fn spans(&self, command: &Command, asked: Option<Asked>, owner: u32) -> (u8, Vec<Range<u64>>) {
        let found = asked.and_then(|asked| {
            asked.operand_bytes_max()?;
            let pool = self.table.of(command.pool, command.thread, owner).ok()?;
            let size = u64::from(command.size);
            let operand = pool.translate(command.operand, size)?;
            let second = match asked {
                Asked::Operation(one) => (one.second_bytes)(size),
                Asked::Transaction(_) => 0,
            };
            let second = (second > 0).then(|| pool.translate(command.second, second));
            Some(std::iter::once(operand).chain(second.flatten()).collect())
        });
        let operands: Vec<_> = found.unwrap_or_default();
        let devices = match (asked, operands.first()) {
            (Some(asked), _) if asked.is_for_all() => self.geometry.all(),
            (_, Some(operand)) if !operand.is_empty() && self.flaws.splits_wrong => {
                1 << self.geometry.device(operand.start)
            }
            (_, Some(operand)) if !operand.is_empty() => self.geometry.devices_of(operand),
            _ => 1,
        };
        (devices, operands)
    }

    fn count(&mut self, asked: Option<Asked>, devices: u8) {
        let counters = &mut self.counters;
        counters.commands += 1;
        counters.duplicated += u64::from(devices.count_ones() > 1);
        *match asked {
            Some(Asked::Operation(one)) => (one.counter)(counters),
            Some(Asked::Transaction(Opcode::UndologCreate)) => &mut counters.undo,
            Some(Asked::Transaction(Opcode::CheckpointCreate)) => &mut counters.checkpoints,
            Some(Asked::Transaction(Opcode::CommitLog)) => &mut counters.commits,
            _ => &mut counters.others,
        } += 1;
    }

    /// Whether caches have newer bytes of what a command reads than the devices see.
    fn is_stale(&self, hardware: &Hardware, operand: Option<&Range<u64>>) -> bool {
        let lines = operand.map_or(0..0, |one| line_of(one.start)..line_of(one.end + 63));
        self.coherence == Coherence::Software
            && lines.take(PAGE as usize).any(|line| {
                let there = hardware.memory.arena.line(line * LINE_BYTES as u64);
                hardware.peek(self, line) != *there
            })
    }

    /// On a link that keeps caches coherent: what a command reads is written back first, and caches keep it;
    /// what it writes leaves them.
    fn cohere(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        operands: &[Range<u64>],
        now: Cycles,
    ) -> Cycles {
        if self.coherence == Coherence::Software {
            return now;
        }
        let mut done = now;
        for (operand, effect) in operands.iter().zip([Effect::Clean, Effect::Flush]) {
            for line in line_of(operand.start)..=line_of(operand.end - 1) {
                let persist = Persist::behind_stores(hart, line, effect);
                done = done.max(hardware.persist(self, &persist, now));
            }
        }
        done
    }

    fn map(&mut self, hart: usize, physical: u64, words: u64) -> u64 {
        let (pool, thread) = (words as u8, (words >> 8) as u8);
        let (first, virtual_page) = (words >> 16 & 1 == 1, words >> 24);
        let Some(index) = AddressTable::index(pool, thread) else {
            return refusal::INDEX;
        };
        let physical = physical / PAGE * PAGE;
        if !Self::pool_data(&self.geometry.region).contains(&physical) {
            return refusal::ELSEWHERE;
        }
        let page = table::page(self.threads[hart], virtual_page * PAGE, physical);
        if !self.table.add_page(index, &page, first) {
            return refusal::APART;
        }
        self.unsent.insert(index);
        0
    }
}

impl Policy for NearPm {
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let (line, bytes) = (eviction.line, &eviction.bytes);
        let done = memory.write_line(line, bytes, Traffic::WriteBack, now, 0, statistics);
        done.into()
    }

    fn thread_runs(&mut self, _: &mut Hardware, hart: usize, thread: u32, now: Cycles) -> Cycles {
        self.threads[hart] = thread;
        now
    }

    fn device_access(
        &mut self,
        hardware: &mut Hardware,
        access: &mut DeviceAccess,
        now: Cycles,
    ) -> DeviceAnswer {
        let Some((device, at)) = self.port_of(access.address) else {
            return DeviceAnswer::Admitted { at: now };
        };
        let DeviceBytes::Store(bytes) = &access.bytes else {
            return DeviceAnswer::Admitted { at: now };
        };
        let (memory, statistics) = (&mut hardware.memory, &mut hardware.statistics);
        match (device, at, *bytes) {
            (0, PORT_COMMAND, word) if word.len() == 4 => {
                let word = u32::from_le_bytes(std::array::from_fn(|byte| word[byte]));
                let whole = self.assembly.take(self.threads[access.hart], word);
                let at = whole.map_or(now, |command| {
                    self.send(hardware, access.hart, command, now)
                });
                DeviceAnswer::Answered { at }
            }
            (0, at, bytes) if STATUS.contains(&at) => {
                for port in &self.ports {
                    memory.device_store(port + at, bytes, now, statistics);
                }
                DeviceAnswer::Answered { at: now }
            }
            // What else there is belongs to the controller and the devices.
            _ => DeviceAnswer::Answered { at: now },
        }
    }

    fn fired(&mut self, _: &mut Hardware, _: u32, _: Cycles) {}

    fn takes_address(&self, function: u16) -> bool {
        function == MAP
    }

    fn instruction(
        &mut self,
        _: &mut Hardware,
        hart: usize,
        function: u16,
        [address, words]: [u64; 2],
        now: Cycles,
    ) -> Option<(u64, Cycles)> {
        match function {
            MAP => Some((self.map(hart, address, words), now)),
            UNMAP => {
                let index = AddressTable::index(words as u8, (words >> 8) as u8);
                let own = index.filter(|index| {
                    let entry = self.table.get(*index);
                    entry.is_some_and(|entry| entry.owner == self.threads[hart])
                });
                let Some(index) = own else {
                    return Some((refusal::INDEX, now));
                };
                let nothing = table::Mapping {
                    bytes: 0,
                    ..table::page(0, 0, 0)
                };
                self.table.set(index, Some(nothing));
                self.unsent.insert(index);
                Some((0, now))
            }
            _ => None,
        }
    }
}

// ---- What the design states about itself ---------------------------------------------------

impl Design for NearPm {
    const NAME: &'static str = "nearpm";
    const SUMMARY: &'static str =
        "devices in the memory modules that copy, log and delete, in partitioned persist ordering";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    const INSTRUCTIONS: &'static [(u16, &'static str)] =
        &[(MAP, "nearpm_map"), (UNMAP, "nearpm_unmap")];
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[
        &[],
        &[
            "nearpm.units=1",
            "nearpm.fifo_entries=2",
            "nearpm.host_queue_entries=2",
        ],
        &[
            "nearpm.clock_mhz=50",
            "nearpm.bursts=1",
            "nearpm.burst_bytes=64",
        ],
    ];
    type Epochs = NoEpochs;
    type Promise = PartitionedPersistOrdering;
    type Parameters = Parameters;
    type Counters = Counters;

    fn pool_data(region: &Range<u64>) -> Range<u64> {
        region.start + record::RESERVED..region.end
    }

    fn start(
        parameters: &Parameters,
        _: &Layout,
        hardware: &mut Hardware,
        _: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        let (geometry, modules) = devices_of(hardware)?;
        check(parameters, hardware, &geometry)?;
        let flaws = Flaws::of(bug);
        let map = hardware.memory.map();
        let page_of = |module: &usize| {
            let mut pages = map.regions().iter();
            let found =
                pages.find(|one| map.is_device(one.addresses.start) && one.modules == [*module]);
            found.map(|one| one.addresses.start)
        };
        let ports: Vec<u64> = modules.iter().filter_map(page_of).collect();
        let mhz = hardware.specification.core.frequency_mhz;
        for (index, module) in modules.iter().enumerate() {
            let place = Place {
                index,
                geometry: geometry.clone(),
                ports: ports.clone(),
            };
            let settings = parameters.settings(mhz);
            let device = NearPmDevice::new(place, settings, parameters.bus(mhz), flaws);
            hardware.memory.install(*module, Box::new(device));
        }
        Ok(Self {
            threads: (0..hardware.cores.len() as u32).collect(),
            geometry,
            modules,
            ports,
            table: AddressTable::default(),
            unsent: BTreeSet::new(),
            assembly: Assembly::default(),
            number: 0,
            coherence: parameters.coherence,
            flaws,
            counters: Counters::default(),
        })
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        if let Some(region) = image.pools().first().cloned() {
            recovery::recover(image, &region, &Flaws::of(bug))?;
        }
        Ok(Recovered::default())
    }

    fn phase(&self) -> &'static str {
        if self.assembly.begun() > 0 {
            "command half sent"
        } else if self.number == 0 {
            "no command yet"
        } else {
            "commands sent"
        }
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn counters_with(&self, hardware: &Hardware) -> Counters {
        let devices = self.modules.iter().filter_map(|module| {
            let device = hardware.memory.device::<NearPmDevice>(*module)?;
            Some(&device.counters)
        });
        devices.fold(self.counters(), |all, one| all.together(one))
    }

    fn remarks(&self) -> Vec<String> {
        let stale = self.counters.stale;
        let said = (stale > 0).then(|| {
            format!(
                "{stale} commands read memory of which the caches had newer bytes: write back what a command reads before it is sent"
            )
        });
        said.into_iter().collect()
    }

    fn paths(_: &Statistics, own: &Counters) -> Vec<(&'static str, u64)> {
        vec![
            ("command for several devices", own.duplicated),
            ("waited for room in a FIFO", own.fifo_wait_cycles),
            ("waited for a conflicting command", own.conflict_wait_cycles),
            ("waited for a unit", own.unit_wait_cycles),
            ("write held", own.held_writes),
            ("read delayed", own.delayed_reads),
            ("read answered by a host queue", own.answered_reads),
            ("waited for other devices", own.sync_wait_cycles),
            ("completion came early", own.early_messages),
            ("command refused", own.faults),
        ]
    }
}
