//! A NearPM device (section 5, figures 8 to 12): request FIFO, dispatcher, units, host queue.
//!
//! When a command comes in, all that will become of it is worked out at once: when the FIFO has room, when the
//! dispatcher lets it go, which unit takes it, and when its reads and writes are at the banks, which it shares
//! with the processor. Its bytes are moved at once, too, as of the moment at which it came in: nothing that
//! comes later may come before it, and what the processor writes meanwhile is kept from the banks.
//!
//! Always true here:
//! - Commands are taken and dispatched in the order in which they come ([`Taken::taken`],
//!   [`Taken::dispatched`]); what works on the same bytes begins when the other is done.
//! - A command counts from the moment at which it is taken: then it is done, or saved ([`super::record`]).
//! - A write of the processor that touches what a command works on survives in the host queue, and is at the
//!   banks when the command is done; a read of it waits.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use perdure_hardware::device::{Admission, Device, HostAccess, Inside, Recovery};
use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::link::Link;
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::{Accessor, Traced};

use super::area::{self, Area, Fill};
use super::bugs::Flaws;
use super::command::{COMMAND_BYTES, Command, Fault, Opcode};
use super::counters::Counters;
use super::geometry::Geometry;
use super::parameters::{Settings, Sync};
use super::record::{Record, SavedCommand, SavedWrite};
use super::table::{AddressTable, Mapping};

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

/// What a device tells whoever verifies ([`Traced::Reached`]): a command is taken; `of` is its number, the
/// device's, its opcode, who else has it, and whether they agree on when it is done.
pub const POINT_TAKEN: u16 = 1;
/// Its part of a command is done, or of what is before a commit; `of` is number and device.
pub const POINT_DONE: u16 = 2;
/// All devices' parts are; `of` is number and device.
pub const POINT_SYNCHRONISED: u16 = 3;
/// Bytes that programs leave to the devices from then on: first and last.
pub const POINT_AREA: u16 = 4;

/// A command as it travels: the sender's thread of the system, the devices that get it, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub command: Command,
    pub owner: u32,
    pub devices: u8,
    pub number: u64,
}

impl Packet {
    pub fn encode(&self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[..COMMAND_BYTES].copy_from_slice(&self.command.encode());
        bytes[24..28].copy_from_slice(&self.owner.to_le_bytes());
        bytes[28] = self.devices;
        bytes[32..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; 40]) -> Self {
        Self {
            command: Command::decode(&std::array::from_fn(|at| bytes[at])),
            owner: u32::from_le_bytes(std::array::from_fn(|at| bytes[24 + at])),
            devices: bytes[28],
            number: u64::from_le_bytes(std::array::from_fn(|at| bytes[32 + at])),
        }
    }
}

/// An entry of the address table as it travels.
pub(super) fn encode_mapping(index: usize, mapping: &Mapping) -> [u8; 40] {
    let first = index as u64 | u64::from(mapping.owner) << 32;
    let words = [
        first,
        mapping.virtual_start,
        mapping.physical_start,
        mapping.bytes,
        0,
    ];
    let mut bytes = [0; 40];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

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
struct Taken {
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

impl Taken {
    /// Whether an access to some bytes and the command must not pass each other.
    fn conflicts(&self, bytes: &Range<u64>, writes: bool) -> bool {
        let mut touches = self.touches.iter();
        touches.any(|(own, written)| {
            (writes || *written) && own.start < bytes.end && bytes.start < own.end
        })
    }
}

/// A write that waits in the host queue.
#[derive(Clone, Debug)]
struct Held {
    saved: SavedWrite,
    kept: Cycles,
    /// It survives at the banks.
    settled: Cycles,
}

/// What a command comes to.
struct Work {
    kind: Doing,
    touches: Vec<(Range<u64>, bool)>,
    /// It begins no earlier, whatever the dispatcher finds.
    not_before: Cycles,
    entry: u64,
    second: u64,
    transaction: u64,
    area: Range<u64>,
}

enum Doing {
    Nothing,
    Entries(area::Kind, Vec<area::Logged>, u64),
    Copies(Vec<(Range<u64>, u64)>),
    Commit((u8, u8)),
    Reset(Box<Log>, (u8, u8)),
}

impl Work {
    fn nothing() -> Self {
        Self {
            kind: Doing::Nothing,
            touches: Vec::new(),
            not_before: 0,
            entry: 0,
            second: 0,
            transaction: 0,
            area: 0..0,
        }
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
    coherent: bool,
    /// The bus inside the device: what units read, and what they write.
    bus: [Link; 2],
    table: AddressTable,
    logs: BTreeMap<(u8, u8), Log>,
    taken: VecDeque<Taken>,
    held: VecDeque<Held>,
    units: Vec<Cycles>,
    last_taken: Cycles,
    last_dispatched: Cycles,
    /// How many commands and writes have come in.
    order: u64,
    /// By command, the devices that are done with what is before it, and when.
    remote: BTreeMap<u64, Vec<(usize, Cycles)>>,
    /// By thread, faults and when they were taken back.
    faults: BTreeMap<u8, Vec<(Cycles, Option<(Fault, u8)>)>>,
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
    pub coherent: bool,
}

impl NearPmDevice {
    pub(super) fn new(place: Place, settings: Settings, bus: Link, flaws: Flaws) -> Self {
        Self {
            index: place.index,
            geometry: place.geometry,
            ports: place.ports,
            coherent: place.coherent,
            bus: [bus.clone(), bus],
            table: AddressTable::default(),
            logs: BTreeMap::new(),
            taken: VecDeque::new(),
            held: VecDeque::new(),
            units: vec![0; settings.units],
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

    // ---- The request FIFO and the dispatcher (section 5.2, steps 1a to 6a) -----------------------

    /// A command arrives. Returns when the FIFO has taken it.
    fn take(&mut self, inside: &mut Inside, packet: &Packet, arrived: Cycles) -> Cycles {
        self.forget_until(inside.horizon());
        self.counters.taken += 1;
        let taken = self.room_at(arrived);
        self.counters.fifo_wait_cycles += taken - arrived.max(self.last_taken).min(taken);
        self.last_taken = taken;
        let command = packet.command;
        let opcode = Opcode::of(command.opcode);
        let work = self.decode(inside, packet, opcode);
        if let Err(fault) = &work {
            self.counters.faults += 1;
            let faults = self.faults.entry(command.thread).or_default();
            faults.push((taken, Some((*fault, command.opcode))));
        }
        // What is refused does nothing, and nothing when it is replayed.
        let done_as = if work.is_ok() { command.opcode } else { 0 };
        let work = work.unwrap_or_else(|_| Work::nothing());
        let order = self.next_order();
        let number = packet.number;
        let agree = self.settings.sync == Sync::Delayed && packet.devices.count_ones() > 1;
        let (module, index) = (inside.module(), self.index as u64);
        let (opcode_number, devices) = (command.opcode.into(), packet.devices.into());
        let of = [number, index, opcode_number, devices, agree.into()];
        inside.tell(|| reached(module, POINT_TAKEN, taken, &of));
        let (unit, dispatched) = self.dispatch(&work, taken);
        let mut one = Taken {
            saved: SavedCommand {
                opcode: done_as,
                pool: command.pool,
                thread: command.thread,
                // Those that it agrees with on when it is done.
                devices: if agree {
                    packet.devices
                } else {
                    1 << self.index
                },
                size: command.size,
                order,
                number,
                operand: work.touches.first().map_or(0, |(bytes, _)| bytes.start),
                second: work.second,
                entry: work.entry,
                transaction: work.transaction,
                area: work.area.clone(),
            },
            taken,
            dispatched,
            done: dispatched,
            touches: work.touches,
            unit,
            ready: dispatched,
        };
        if opcode.is_none() && self.flaws.hangs {
            one.done = Cycles::MAX >> 8;
        }
        self.execute(inside, &mut one, work.kind);
        self.units[unit] = one.done;
        if one.done < Cycles::MAX {
            self.counters.busy_cycles += one.done - dispatched;
        }
        self.taken.push_back(one);
        let waiting = self
            .taken
            .iter()
            .rev()
            .take_while(|one| one.dispatched > taken);
        self.counters.fifo_peak = self.counters.fifo_peak.max(waiting.count() as u64);
        self.synchronise(inside, number);
        taken
    }

    /// When the FIFO has room for what arrives.
    fn room_at(&self, arrived: Cycles) -> Cycles {
        let place = self.taken.len().checked_sub(self.settings.fifo_entries);
        let room = place.map_or(0, |place| self.taken[place].dispatched);
        arrived.max(room).max(self.last_taken)
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// When a command goes to a unit, and to which: behind what is before it, when nothing works on its bytes
    /// (figure 10, steps 2a to 4a), and a unit is free.
    fn dispatch(&mut self, work: &Work, taken: Cycles) -> (usize, Cycles) {
        let decoded = taken + self.settings.dispatch;
        let behind = self.last_dispatched + self.settings.unit_cycle;
        let ready = decoded.max(behind);
        let conflicting = self.taken.iter().filter(|one| {
            let mut touches = work.touches.iter();
            touches.any(|(bytes, writes)| one.conflicts(bytes, *writes))
        });
        let conflicts = conflicting
            .map(|one| one.done)
            .fold(work.not_before, Cycles::max);
        let clear = if self.flaws.ignores_requests {
            ready.max(work.not_before)
        } else {
            ready.max(conflicts)
        };
        let units = self.units.iter().copied().enumerate();
        let (unit, free) = units.min_by_key(|(_, free)| *free).expect("a unit");
        let dispatched = clear.max(free);
        self.counters.conflict_wait_cycles += clear - ready;
        self.counters.unit_wait_cycles += dispatched - clear;
        self.last_dispatched = dispatched;
        (unit, dispatched)
    }

    // ---- Decoding (steps 2a and 3a, section 5.4) --------------------------------------------------

    fn decode(
        &mut self,
        inside: &mut Inside,
        packet: &Packet,
        opcode: Option<Opcode>,
    ) -> Result<Work, Fault> {
        let command = &packet.command;
        let opcode = opcode.ok_or(Fault::Opcode)?;
        if opcode == Opcode::Recover {
            let told = std::mem::replace(&mut self.recovery_told, true);
            return if told {
                Err(Fault::Recovered)
            } else {
                Ok(Work::nothing())
            };
        }
        let pool = self.pool(packet)?;
        let operand = match opcode.operand_bytes_max() {
            None => 0..0,
            Some(most) => {
                let size = u64::from(command.size);
                if size == 0 || size > most {
                    return Err(Fault::Size);
                }
                self.translate(&pool, command.operand, size)?
            }
        };
        let key = (command.pool, command.thread);
        match opcode {
            Opcode::UndologCreate => self.entries(area::Kind::Undo, key, &operand, &pool),
            Opcode::CheckpointCreate => self.entries(area::Kind::Checkpoint, key, &operand, &pool),
            Opcode::ShadowCopy | Opcode::Copy => {
                let size = operand.end - operand.start;
                let to = self.translate(&pool, command.second, size)?;
                self.copies(&operand, &to)
            }
            Opcode::ApplyLog => self.records(inside, &operand, &pool),
            Opcode::CommitLog => self.commit(key),
            Opcode::LogReset => self.lay_log(inside, &operand, Some(command.second), key),
            Opcode::LogAttach => self.lay_log(inside, &operand, None, key),
            Opcode::Recover => Ok(Work::nothing()),
        }
    }

    fn pool(&self, packet: &Packet) -> Result<Mapping, Fault> {
        let Command { pool, thread, .. } = packet.command;
        let found = self.table.of(pool, thread, packet.owner);
        if let (Err(_), true) = (found, self.flaws.ignores_owner) {
            let index = AddressTable::index(pool, thread).ok_or(Fault::Pool)?;
            return self.table.get(index).copied().ok_or(Fault::Pool);
        }
        found.copied()
    }

    fn translate(&self, pool: &Mapping, address: u64, bytes: u64) -> Result<Range<u64>, Fault> {
        let found = pool.translate(address, bytes);
        if let (None, true) = (&found, self.flaws.ignores_bounds) {
            let start = address
                .wrapping_sub(pool.virtual_start)
                .wrapping_add(pool.physical_start);
            let region = &self.geometry.region;
            let end = start.saturating_add(bytes);
            return (region.start <= start && end <= region.end)
                .then_some(start..end)
                .ok_or(Fault::Bounds);
        }
        found.ok_or(Fault::Bounds)
    }

    fn entries(
        &mut self,
        kind: area::Kind,
        key: (u8, u8),
        operand: &Range<u64>,
        pool: &Mapping,
    ) -> Result<Work, Fault> {
        let log = self.logs.get_mut(&key).ok_or(Fault::NoLog)?;
        let area = self.geometry.relative(&log.range);
        let before = log.fill;
        let half = log.area.half(log.running);
        let mut fill = before;
        let placed = area::place(&self.geometry, self.index, half, operand, &mut fill);
        let placed = placed.ok_or(Fault::LogFull)?;
        log.fill = fill;
        let free = log.free[(log.running % 2) as usize];
        let mut touches: Vec<_> = vec![(operand.clone(), false)];
        touches.extend(placed.iter().map(|one| {
            let bytes = one.data.end - one.data.start;
            (one.entry..one.entry + area::LINE + bytes, true)
        }));
        Ok(Work {
            kind: Doing::Entries(kind, placed, log.running),
            touches,
            not_before: if self.flaws.reuses_halves { 0 } else { free },
            entry: (before.piece as u64) << 32 | before.offset,
            second: pool.physical_start,
            transaction: log.running,
            area,
        })
    }

    /// The device's part of a copy: pieces that lie together where they come from and where they go.
    fn copies(&self, from: &Range<u64>, to: &Range<u64>) -> Result<Work, Fault> {
        if from.start < to.end && to.start < from.end {
            return Err(Fault::Overlap);
        }
        let pieces = copy_pieces(&self.geometry, self.index, from, to.start)?;
        Ok(Work {
            touches: vec![(from.clone(), false), (to.clone(), true)],
            kind: Doing::Copies(pieces),
            second: to.start,
            ..Work::nothing()
        })
    }

    /// The device's part of a redo log.
    fn records(&self, inside: &Inside, log: &Range<u64>, pool: &Mapping) -> Result<Work, Fault> {
        let mut read = |at: u64, length: usize| inside.bytes(at, length).to_vec();
        let records = redo_records(&self.geometry, self.index, log, &pool.physical(), &mut read)?;
        let mut touches = vec![(log.clone(), false)];
        let homes = records
            .iter()
            .map(|(from, to)| (*to..to + (from.end - from.start), true));
        touches.extend(homes);
        Ok(Work {
            kind: Doing::Copies(records),
            touches,
            second: pool.physical_start,
            // Where the pool ends, which records may not pass.
            entry: pool.physical_start + pool.bytes,
            ..Work::nothing()
        })
    }

    fn commit(&mut self, key: (u8, u8)) -> Result<Work, Fault> {
        let log = self.logs.get(&key).ok_or(Fault::NoLog)?;
        Ok(Work {
            kind: Doing::Commit(key),
            touches: vec![(log.area.header..log.area.header + area::LINE, true)],
            transaction: log.running,
            area: self.geometry.relative(&log.range),
            ..Work::nothing()
        })
    }

    fn lay_log(
        &self,
        inside: &mut Inside,
        range: &Range<u64>,
        number: Option<u64>,
        key: (u8, u8),
    ) -> Result<Work, Fault> {
        let pages = [range.start, range.end];
        if pages.iter().any(|end| !end.is_multiple_of(4096)) {
            return Err(Fault::NoLog);
        }
        let area = Area::new(&self.geometry, self.index, range).ok_or(Fault::NoLog)?;
        let header = inside.bytes(area.header, 16);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let committed = match number {
            Some(number) => number,
            None if word(0) == area::HEADER_MAGIC => word(area::COMMITTED as usize),
            None => return Err(Fault::NoLog),
        };
        let log = Log {
            running: committed + 1,
            fill: Fill::default(),
            free: [0; 2],
            ready: 0,
            range: range.clone(),
            area,
        };
        let module = inside.module();
        inside.tell(|| reached(module, POINT_AREA, 0, &[range.start, range.end]));
        Ok(Work {
            touches: vec![(range.clone(), number.is_some())],
            area: self.geometry.relative(range),
            second: committed,
            kind: Doing::Reset(Box::new(log), key),
            ..Work::nothing()
        })
    }

    // ---- Units (figure 9) -------------------------------------------------------------------------

    fn execute(&mut self, inside: &mut Inside, one: &mut Taken, kind: Doing) {
        let number = one.saved.number;
        match kind {
            Doing::Nothing => {}
            Doing::Entries(kind, entries, transaction) => {
                let mut now = one.dispatched;
                for entry in entries {
                    let base = one.saved.second;
                    let logged = (kind, transaction, entry.data.start - base);
                    let (moved, done) = self.log(inside, number, logged, &entry, now);
                    (now, one.done) = (moved, one.done.max(done));
                    self.counters.entries += 1;
                }
                let key = (one.saved.pool, one.saved.thread);
                if let Some(log) = self.logs.get_mut(&key) {
                    log.ready = log.ready.max(one.done);
                }
                self.done(inside, number, one.done);
            }
            Doing::Copies(pieces) => {
                let mut now = one.dispatched;
                for (from, to) in pieces {
                    let (moved, done) = self.copy(inside, number, &from, to, now);
                    (now, one.done) = (moved, one.done.max(done));
                }
                self.done(inside, number, one.done);
            }
            Doing::Commit(key) => self.begin_commit(inside, one, key),
            Doing::Reset(log, key) => {
                if one.saved.opcode == Opcode::LogReset as u8 {
                    one.done = self.reset(inside, number, &log, one.dispatched);
                }
                self.logs.insert(key, *log);
                self.done(inside, number, one.done);
            }
        }
    }

    fn done(&self, inside: &mut Inside, number: u64, at: Cycles) {
        let of = [number, self.index as u64];
        let module = inside.module();
        inside.tell(|| reached(module, POINT_DONE, at, &of));
    }

    /// Makes an entry: the bytes, and when they have passed, the metadata generator's header. Returns when the
    /// unit has passed them on, and when all is durable.
    fn log(
        &mut self,
        inside: &mut Inside,
        number: u64,
        (kind, transaction, target): (area::Kind, u64, u64),
        entry: &area::Logged,
        now: Cycles,
    ) -> (Cycles, Cycles) {
        let bytes = entry.data.end - entry.data.start;
        let data = inside.bytes(entry.data.start, bytes as usize).to_vec();
        let (moved, copied) = self.copy(inside, number, &entry.data, entry.entry + area::LINE, now);
        if self.flaws.no_metadata {
            return (moved, copied);
        }
        let header = area::header_of(kind, transaction, target, &data);
        let generated = moved + self.settings.metadata;
        let written = self.write(inside, number, entry.entry, &header, generated);
        (generated, copied.max(written))
    }

    /// Copies bytes that lie together, burst by burst. Returns when the unit has passed the last one on, and
    /// when all are durable.
    fn copy(
        &mut self,
        inside: &mut Inside,
        number: u64,
        from: &Range<u64>,
        to: u64,
        now: Cycles,
    ) -> (Cycles, Cycles) {
        let all = from.end - from.start;
        let begins = now
            + if all > area::LINE {
                self.settings.dma
            } else {
                0
            };
        let (mut moved, mut done) = (begins, begins);
        let mut under_way = VecDeque::new();
        let mut at = from.start;
        let burst = self.settings.burst_bytes as u64;
        while at < from.end {
            let end = ((at / burst + 1) * burst).min(from.end);
            let length = (end - at) as usize;
            let free = (under_way.len() == self.settings.bursts).then(|| under_way.pop_front());
            let asked = begins.max(free.flatten().unwrap_or(0));
            let read = inside.read(at, length, asked);
            let bytes = inside.bytes(at, length).to_vec();
            let module = inside.module();
            inside.tell(|| accessed(module, number, at, length, None, [asked, read]));
            moved = self.bus[0].reserve(read, length);
            done = done.max(self.write(inside, number, to + (at - from.start), &bytes, moved));
            under_way.push_back(moved);
            at = end;
        }
        self.counters.copied_bytes += all;
        (moved, done)
    }

    /// A unit writes. Returns when that is durable.
    fn write(
        &mut self,
        inside: &mut Inside,
        number: u64,
        address: u64,
        bytes: &[u8],
        now: Cycles,
    ) -> Cycles {
        let sent = self.bus[1].reserve(now, bytes.len());
        let written = inside.write(address, bytes, Traffic::Log, sent, 0);
        let module = inside.module();
        let when = [now, written.durable];
        inside.tell(|| {
            accessed(
                module,
                number,
                address,
                bytes.len(),
                Some(bytes.into()),
                when,
            )
        });
        written.durable
    }

    /// Lays an empty log down: its header, and nothing where the first entries would be.
    fn reset(&mut self, inside: &mut Inside, number: u64, log: &Log, now: Cycles) -> Cycles {
        let mut done = now;
        for (address, bytes) in reset_writes(&log.area, log.running - 1) {
            done = done.max(self.write(inside, number, address, &bytes, now));
        }
        done
    }

    // ---- The multi-device handler (section 5.3.2, figures 11 and 12) -------------------------------

    /// A commit: the device is done when the transaction's entries are, and tells the others. It deletes the
    /// log when all are; alone, or where devices do not agree, at once.
    fn begin_commit(&mut self, inside: &mut Inside, one: &mut Taken, key: (u8, u8)) {
        let Some(log) = self.logs.get_mut(&key) else {
            return;
        };
        let entries = if self.flaws.deletes_early {
            0
        } else {
            log.ready
        };
        one.ready = one.dispatched.max(entries);
        log.running += 1;
        log.fill = Fill::default();
        log.ready = 0;
        // Nobody begins with the half before the deletion has said when.
        log.free[(one.saved.transaction % 2) as usize] = Cycles::MAX;
        one.done = Cycles::MAX;
        let (number, ready) = (one.saved.number, one.ready);
        self.done(inside, number, ready);
        if self.settings.sync == Sync::Delayed {
            let told = if self.flaws.tells_early {
                one.taken
            } else {
                ready
            };
            for device in (0..self.geometry.devices).filter(|device| *device != self.index) {
                if one.saved.devices & 1 << device != 0 {
                    let mut message = number.to_le_bytes().to_vec();
                    message.extend((self.index as u64).to_le_bytes());
                    self.counters.messages += 1;
                    inside.store(self.ports[device] + PORT_PEER, &message, told);
                }
            }
        }
    }

    /// Another device is done with what is before a commit.
    fn hear(&mut self, inside: &mut Inside, message: &[u8; 16], now: Cycles) {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| message[at + byte]));
        let (number, device) = (word(0), word(8) as usize);
        let known = self.taken.iter().any(|one| one.saved.number == number);
        self.counters.early_messages += u64::from(!known);
        self.remote.entry(number).or_default().push((device, now));
        self.synchronise(inside, number);
    }

    /// From *executing* to *all complete*: if every device has said that it is done with what is before a
    /// commit, the log is deleted.
    fn synchronise(&mut self, inside: &mut Inside, number: u64) {
        let at = self
            .taken
            .iter()
            .rposition(|one| one.saved.number == number);
        let Some(at) = at.filter(|at| self.taken[*at].done == Cycles::MAX) else {
            return;
        };
        let one = &self.taken[at];
        let agrees = self.settings.sync == Sync::Delayed && !self.flaws.does_not_wait;
        let others = one.saved.devices & !(1 << self.index);
        let heard = self.remote.get(&number).map_or(&[][..], Vec::as_slice);
        let complete = (0..self.geometry.devices)
            .filter(|device| agrees && others & 1 << device != 0)
            .map(|device| {
                heard
                    .iter()
                    .find(|(of, _)| *of == device)
                    .map(|(_, when)| *when)
            })
            .try_fold(one.ready, |latest, when| Some(latest.max(when?)));
        let Some(complete) = complete else {
            return;
        };
        self.remote.remove(&number);
        self.counters.sync_wait_cycles += complete - one.ready;
        let (transaction, unit) = (one.saved.transaction, one.unit);
        let (key, dispatched) = ((one.saved.pool, one.saved.thread), one.dispatched);
        let module = inside.module();
        let of = [number, self.index as u64];
        inside.tell(|| reached(module, POINT_SYNCHRONISED, complete, &of));
        let begins = complete + self.settings.metadata;
        let Some(header) = self.logs.get(&key).map(|log| log.area.header) else {
            return;
        };
        let place = header + area::COMMITTED;
        let done = self.write(inside, number, place, &transaction.to_le_bytes(), begins);
        if let Some(log) = self.logs.get_mut(&key) {
            log.free[(transaction % 2) as usize] = done;
        }
        self.taken[at].done = done;
        self.units[unit] = done;
        self.counters.busy_cycles += done - dispatched;
    }

    // ---- What programs read -----------------------------------------------------------------------

    fn status(&self, thread: u8, now: Cycles) -> u64 {
        let under_way = self
            .taken
            .iter()
            .filter(|one| one.saved.thread == thread && one.taken <= now && now < one.done);
        let mut first = None;
        for (at, fault) in self.faults.get(&thread).into_iter().flatten() {
            if *at <= now {
                first = if fault.is_none() {
                    None
                } else {
                    first.or(*fault)
                };
            }
        }
        let fault = first.map_or(0, |(fault, opcode)| {
            (fault as u64) << 32 | u64::from(opcode) << 40
        });
        under_way.count() as u64 | fault
    }

    fn register(&self, at: u64, now: Cycles) -> u64 {
        match at {
            DEVICES => self.geometry.devices as u64,
            GRANULE => self.geometry.granule,
            UNITS => self.settings.units as u64,
            SYNC => self.settings.sync as u64,
            COHERENCE => u64::from(self.coherent),
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
}

fn reached(module: usize, point: u16, at: Cycles, of: &[u64]) -> Traced {
    Traced::Reached {
        module,
        point,
        of: of.into(),
        at,
    }
}

fn accessed(
    module: usize,
    command: u64,
    address: u64,
    length: usize,
    wrote: Option<Box<[u8]>>,
    when: [Cycles; 2],
) -> Traced {
    Traced::Accessed {
        module,
        by: Accessor::Device { command },
        address,
        length,
        wrote,
        when,
    }
}

/// A device's part of a copy. A piece whose bytes would go to another device is none.
pub(super) fn copy_pieces(
    geometry: &Geometry,
    device: usize,
    from: &Range<u64>,
    to: u64,
) -> Result<Vec<(Range<u64>, u64)>, Fault> {
    let mut pieces = Vec::new();
    for own in geometry.own(device, from) {
        let target = to + (own.start - from.start);
        let target = target..target + (own.end - own.start);
        let mut at = own.start;
        for piece in geometry.granules(&target) {
            if geometry.device(piece.start) != device {
                return Err(Fault::Crosses);
            }
            let length = piece.end - piece.start;
            pieces.push((at..at + length, piece.start));
            at += length;
        }
    }
    Ok(pieces)
}

/// The bytes of a redo log's records that a device has, and where they go. A record has an entry's format.
pub(super) fn redo_records(
    geometry: &Geometry,
    device: usize,
    log: &Range<u64>,
    pool: &Range<u64>,
    read: &mut dyn FnMut(u64, usize) -> Vec<u8>,
) -> Result<Vec<(Range<u64>, u64)>, Fault> {
    let mut records = Vec::new();
    for own in geometry.own(device, log) {
        let mut at = own.start.next_multiple_of(area::LINE);
        while let Some(entry) = area::entry_at(at, own.end, read) {
            let size = entry.bytes.len() as u64;
            let to = pool.start.checked_add(entry.target).ok_or(Fault::Damaged)?;
            let end = to.checked_add(size).filter(|end| *end <= pool.end);
            end.ok_or(Fault::Damaged)?;
            let from = at + area::LINE;
            records.extend(copy_pieces(geometry, device, &(from..from + size), to)?);
            at = from + size.next_multiple_of(area::LINE);
        }
    }
    Ok(records)
}

/// What lays an empty log down.
pub(super) fn reset_writes(area: &Area, committed: u64) -> Vec<(u64, Vec<u8>)> {
    let mut header = vec![0; LINE_BYTES];
    header[..8].copy_from_slice(&area::HEADER_MAGIC.to_le_bytes());
    header[8..16].copy_from_slice(&committed.to_le_bytes());
    let firsts = [0, 1].map(|half| (area.half(half)[0].start, vec![0; LINE_BYTES]));
    firsts.into_iter().chain([(area.header, header)]).collect()
}

impl Device for NearPmDevice {
    fn copy(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn std::any::Any {
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
                self.faults.entry(thread).or_default().push((now, None));
                now
            }
            _ => now,
        }
    }

    fn admit(&mut self, inside: &mut Inside, access: &HostAccess, now: Cycles) -> Admission {
        self.forget_until(inside.horizon());
        let bytes = access.address..access.address + access.length as u64;
        let writes = access.written.is_some();
        let conflicting = self
            .taken
            .iter()
            .filter(|one| one.conflicts(&bytes, writes));
        let clear = conflicting.map(|one| one.done).fold(now, Cycles::max);
        let same = |one: &Held| access.touches(&(one.saved.address..one.saved.address + 64));
        let behind = self.held.iter().any(|one| one.settled > now && same(one));
        match access.written {
            None if behind => {
                self.counters.answered_reads += 1;
                Admission::Answered {
                    at: now + self.settings.unit_cycle,
                }
            }
            None => {
                self.counters.delayed_reads += u64::from(clear > now);
                let at = if self.flaws.reads_pass { now } else { clear };
                Admission::Admitted { at }
            }
            Some(_) if (clear == now && !behind) || self.flaws.writes_pass => {
                Admission::Admitted { at: now }
            }
            Some(written) => self.hold(access.address, written, now, clear),
        }
    }

    fn settled(&mut self, address: u64, kept: Cycles, [came, durable]: [Cycles; 2]) {
        let mut held = self.held.iter_mut().rev();
        if let Some(one) = held.find(|one| one.saved.address == address && one.kept == kept) {
            (one.kept, one.settled) = (came, durable);
        }
    }

    fn power_off(&self, at: Cycles, save: &mut dyn FnMut(u64, &[u8])) {
        let commands = self.taken.iter().filter(|one| {
            let lost = if at < one.dispatched {
                self.flaws.saves_no_queue
            } else {
                self.flaws.saves_no_units
            };
            one.taken <= at && at < one.done && !lost
        });
        let writes = (self.held.iter())
            .filter(|one| one.kept <= at && at < one.settled && !self.flaws.saves_no_writes);
        let record = Record {
            device: self.index,
            commands: commands.map(|one| one.saved.clone()).collect(),
            writes: writes.map(|one| one.saved.clone()).collect(),
        };
        if !record.commands.is_empty() || !record.writes.is_empty() {
            save(
                self.geometry.record(self.index),
                &record.encode(&self.geometry),
            );
        }
    }

    /// Devices recover together, because they have to agree: [`super::recovery`].
    fn recovery(&self) -> Recovery {
        |_, _| Ok(())
    }
}

impl NearPmDevice {
    fn map(&mut self, bytes: &[u8; 40]) {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at * 8 + byte]));
        let index = (word(0) as u32) as usize;
        let mapping = Mapping {
            owner: (word(0) >> 32) as u32,
            virtual_start: word(1),
            physical_start: word(2),
            bytes: word(3),
        };
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

    /// Keeps a write of the processor until what it conflicts with is done: for which there is room when the
    /// oldest that the queue keeps has left it.
    fn hold(&mut self, address: u64, bytes: &[u8], now: Cycles, clear: Cycles) -> Admission {
        let mut leaving: Vec<_> = self.held.iter().map(|one| one.settled).collect();
        leaving.retain(|settled| *settled > now);
        leaving.sort_unstable();
        self.counters.held_peak = self.counters.held_peak.max(leaving.len() as u64 + 1);
        let place = leaving.len().checked_sub(self.settings.host_queue_entries);
        let kept = place.map_or(now, |place| leaving[place]);
        self.counters.held_writes += 1;
        self.counters.held_cycles += clear - now;
        let order = self.next_order();
        self.held.push_back(Held {
            saved: SavedWrite {
                order,
                address,
                bytes: Line(std::array::from_fn(|at| {
                    bytes.get(at).copied().unwrap_or(0)
                })),
            },
            kept,
            settled: Cycles::MAX,
        });
        Admission::Held {
            kept,
            at: clear.max(kept),
        }
    }
}
