//! A NearPM device (section 5, figures 8 to 12): request FIFO, dispatcher, units, host queue.
//!
//! When a command comes in, all that will become of it is worked out at once: when the FIFO has room, when
//! the dispatcher lets it go, which unit takes it, and when its reads and writes are at the banks, which it
//! shares with the processor. Its bytes are moved at once, too, as of the moment at which it came in: nothing
//! that comes later may come before it, and what the processor writes meanwhile is kept from the banks.
//!
//! Always true here:
//! - Commands are taken and dispatched in the order in which they come ([`InFlight::taken`],
//!   [`InFlight::dispatched`]); what works on the same bytes begins when the other is done.
//! - A command counts from the moment at which it is taken: then it is done, or saved ([`super::record`]).
//! - A write of the processor that touches what a command works on survives in the host queue, and is at the
//!   banks when the command is done; a read of it waits.

mod decode;
mod dispatch;
mod drawn;
mod handler;
mod host_queue;
mod units;

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use perdure_hardware::device::{Admission, Device, HostAccess, Inside, Recovery};
use perdure_hardware::link::Link;
use perdure_hardware::time::Cycles;

use super::area::{Area, Fill};
use super::bugs::Flaws;
use super::command::Fault;
use super::counters::Counters;
use super::geometry::Geometry;
use super::packet::{Packet, decode_mapping};
use super::parameters::Settings;
use super::record::{self, Record, SavedCommand};
use super::table::AddressTable;
use crate::bytes::overlap;
use host_queue::Held;

/// Offsets in the device page that the memory controller and the other devices use.
pub(super) const PORT_COMMAND: u64 = 0;
pub(super) const PORT_MAP: u64 = 0x200;
pub(super) const PORT_PEER: u64 = 0x300;
/// Offsets that programs read.
const DEVICES: u64 = 0x008;
const GRANULE: u64 = 0x010;
const UNITS: u64 = 0x018;
const SYNC: u64 = 0x020;
const COHERENCE: u64 = 0x028;
/// By thread, how many of its commands are not done, and the first fault; a store takes that back.
pub(super) const STATUS: Range<u64> = 0x400..0x800;
/// By index of the address table, where the pool lies, from the region's start.
const POOLS: Range<u64> = 0x800..0x1000;

/// A thread's log.
#[derive(Clone, Debug)]
struct Log {
    area: Area,
    range: Range<u64>,
    /// The transaction that runs.
    running: u64,
    fill: Fill,
    /// By half, when the entries are dead that were there last.
    free: [Cycles; 2],
    /// When all entries of the transaction that runs survive.
    ready: Cycles,
}

/// A command that was taken.
#[derive(Clone, Debug)]
struct InFlight {
    saved: SavedCommand,
    /// The FIFO has it.
    taken: Cycles,
    /// A unit has it.
    dispatched: Cycles,
    /// It is done; of a commit, on all devices.
    done: Cycles,
    /// The bytes that it works on, and whether it writes them.
    touches: Vec<(Range<u64>, bool)>,
    unit: usize,
    /// Of a commit, when this device has done what is before it.
    ready: Cycles,
}

impl InFlight {
    /// Whether an access to some bytes and the command must not pass each other.
    fn conflicts(&self, bytes: &Range<u64>, writes: bool) -> bool {
        let mut touches = self.touches.iter();
        touches.any(|(own, written)| (writes || *written) && overlap(own, bytes))
    }
}

/// The device.
#[derive(Clone, Debug)]
pub struct NearPmDevice {
    index: usize,
    geometry: Geometry,
    /// Where every device's page begins.
    ports: Vec<u64>,
    settings: Settings,
    /// The bus inside the device: what units read, and what they write.
    bus: [Link; 2],
    table: AddressTable,
    logs: BTreeMap<(u8, u8), Log>,
    taken: VecDeque<InFlight>,
    held: VecDeque<Held>,
    units: Vec<Cycles>,
    /// Until then, one of them at least works.
    active_until: Cycles,
    last_taken: Cycles,
    last_dispatched: Cycles,
    /// How many commands and writes have come in.
    order: u64,
    /// By command, the devices that are done with what is before it, and when.
    remote: BTreeMap<u64, Vec<(usize, Cycles)>>,
    /// By thread, faults that it has not taken back: since when, of a command of which opcode.
    faults: BTreeMap<u8, Vec<(Cycles, Fault, u8)>>,
    /// A program has heard that the devices have recovered.
    recovery_told: bool,
    flaws: Flaws,
    pub(super) counters: Counters,
}

/// A device of a machine.
pub(super) struct Place {
    pub index: usize,
    pub geometry: Geometry,
    pub ports: Vec<u64>,
}

impl NearPmDevice {
    pub(super) fn new(place: Place, settings: Settings, bus: Link, flaws: Flaws) -> Self {
        Self {
            index: place.index,
            geometry: place.geometry,
            ports: place.ports,
            bus: [bus.clone(), bus],
            table: AddressTable::default(),
            logs: BTreeMap::new(),
            taken: VecDeque::new(),
            held: VecDeque::new(),
            units: vec![0; settings.units],
            active_until: 0,
            last_taken: 0,
            last_dispatched: 0,
            order: 0,
            remote: BTreeMap::new(),
            faults: BTreeMap::new(),
            recovery_told: false,
            flaws,
            counters: Counters::default(),
            settings,
        }
    }

    /// Lets go of what no cut can bring back.
    fn forget_until(&mut self, horizon: Cycles) {
        while (self.taken.front()).is_some_and(|one| one.done <= horizon) {
            self.taken.pop_front();
        }
        while (self.held.front()).is_some_and(|one| one.settled <= horizon) {
            self.held.pop_front();
        }
    }

    // ---- What programs read -----------------------------------------------------------------------

    fn status(&self, thread: u8, now: Cycles) -> u64 {
        let under_way = self
            .taken
            .iter()
            .filter(|one| one.saved.thread == thread && one.taken <= now && now < one.done);
        let mut faults = self.faults.get(&thread).into_iter().flatten();
        let first = faults.find(|(since, ..)| *since <= now);
        let fault = first.map_or(0, |(_, fault, opcode)| {
            (*fault as u64) << 32 | u64::from(*opcode) << 40
        });
        under_way.count() as u64 | fault
    }

    fn register(&self, at: u64, now: Cycles) -> u64 {
        match at {
            DEVICES => self.geometry.devices as u64,
            GRANULE => self.geometry.granule,
            UNITS => self.settings.units as u64,
            SYNC => self.settings.sync as u64,
            COHERENCE => self.settings.coherence as u64,
            _ if STATUS.contains(&at) => self.status(((at - STATUS.start) / 8) as u8, now),
            _ if POOLS.contains(&at) => {
                let pool = self.table.get(((at - POOLS.start) / 8) as usize);
                pool.map_or(u64::MAX, |pool| {
                    pool.physical_start - self.geometry.region.start
                })
            }
            _ => 0,
        }
    }

    fn map(&mut self, bytes: &[u8; 40]) {
        let (index, mapping) = decode_mapping(bytes);
        let before = self.table.get(index).copied();
        let again = before.is_some_and(|before| {
            before.owner == mapping.owner && before.physical_start == mapping.physical_start
        });
        if !again {
            self.logs.remove(&((index % 16) as u8, (index / 16) as u8));
        }
        self.table
            .set(index, (mapping.bytes > 0).then_some(mapping));
    }
}

impl NearPmDevice {
    /// Commands that are taken, and not done; of these, what energy saves.
    fn commands_at(&self, at: Cycles) -> impl Iterator<Item = &InFlight> {
        self.taken.iter().filter(move |one| {
            let lost = if at < one.dispatched {
                self.flaws.saves_no_queue
            } else {
                self.flaws.saves_no_units
            };
            one.taken <= at && at < one.done && !lost
        })
    }

    /// Writes that the host queue keeps; of these, what energy saves.
    fn writes_at(&self, at: Cycles) -> impl Iterator<Item = &Held> {
        let kept = move |one: &&Held| one.kept <= at && at < one.settled;
        (self.held.iter()).filter(move |one| kept(one) && !self.flaws.saves_no_writes)
    }
}

impl Device for NearPmDevice {
    fn copy(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn load(&mut self, inside: &mut Inside, at: u64, bytes: &mut [u8], now: Cycles) -> Cycles {
        self.forget_until(inside.horizon());
        // A load pushes what was stored before it.
        let now = now.max(self.last_taken);
        let value = self.register(at / 8 * 8, now).to_le_bytes();
        let from = (at % 8) as usize;
        let length = bytes.len().min(8 - from);
        bytes[..length].copy_from_slice(&value[from..from + length]);
        now
    }

    fn store(&mut self, inside: &mut Inside, at: u64, bytes: &[u8], now: Cycles) -> Cycles {
        match (at, bytes) {
            (PORT_COMMAND, bytes) => {
                let packet = bytes.try_into().map(Packet::decode);
                packet.map_or(now, |packet| self.take(inside, &packet, now))
            }
            (PORT_MAP, bytes) => {
                if let Ok(bytes) = <&[u8; 40]>::try_from(bytes) {
                    self.map(bytes);
                }
                now
            }
            (PORT_PEER, bytes) => {
                if let Ok(message) = bytes.try_into() {
                    self.hear(inside, message, now);
                }
                now
            }
            (at, _) if STATUS.contains(&at) => {
                let thread = ((at - STATUS.start) / 8) as u8;
                if let Some(faults) = self.faults.get_mut(&thread) {
                    faults.retain(|(since, ..)| *since > now);
                }
                now
            }
            _ => now,
        }
    }

    fn admit(&mut self, inside: &mut Inside, access: &HostAccess, now: Cycles) -> Admission {
        self.admitted(inside, access, now)
    }

    fn settled(&mut self, address: u64, kept: Cycles, when: [Cycles; 2]) {
        self.settles(address, kept, when);
    }

    fn power_off(&self, at: Cycles, save: &mut dyn FnMut(u64, &[u8])) {
        let record = Record {
            device: self.index,
            commands: self.commands_at(at).map(|one| one.saved.clone()).collect(),
            writes: self.writes_at(at).map(|one| one.saved.clone()).collect(),
        };
        if !record.commands.is_empty() || !record.writes.is_empty() {
            let place = self.geometry.record(self.index);
            save(place, &record.encode(&self.geometry));
        }
    }

    /// The same without the bytes: something comes in all the time.
    fn energy_bytes(&self, at: Cycles) -> u64 {
        record::bytes_of(self.commands_at(at).count(), self.writes_at(at).count())
    }

    /// Devices recover together, because they have to agree: [`super::recovery`].
    fn recovery(&self) -> Recovery {
        |_, _| Ok(())
    }
}
