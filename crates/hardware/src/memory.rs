//! Memory: the bytes of the physical address space, and the modules that have them.
//!
//! Always true here:
//! - The arena holds the newest bytes that the controllers have accepted; what that displaced, and is
//!   not lost yet should the power fail, stands in each module's [`crate::waiting`].
//! - The map says which module has an address. No request spans two modules.
//! - A line's writes become durable in the order of acceptance ([`crate::controller`] says which
//!   others do).
//! - Where there is DRAM in front of the NVM, the arena holds the DRAM's newer bytes, too, and what
//!   the NVM has of these lines is kept aside, to be swapped back likewise.

use std::ops::Range;

use crate::arena::Arena;
use crate::contract::Contract;
use crate::controller::{Path, Request, Served};
use crate::device::{Admission, HostAccess};
use crate::dram::Dram;
use crate::energy::EnergyReserve;
use crate::event::EventQueue;
use crate::line::{LINE_BYTES, Line, LineNumber};
use crate::module::{Module, Operation};
use crate::persist_order::PersistOrder;
use crate::physical_map::{PhysicalMap, Place, RegionKind};
use crate::specification::Specification;
use crate::statistics::Statistics;
use crate::time::Cycles;
use crate::timeline::{NotCopied, Timeline};
use crate::trace::Traced;
pub use crate::waiting::{Lost, Tear};
use crate::watched::Watched;

/// What a write's bytes are for, as the statistics count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// An evicted line: program or kernel data (contexts are told apart by address).
    WriteBack,
    /// The same bytes written because the design wants them durable: a cache flush or scan, or a
    /// copy from where the design kept them to where they belong.
    Flush,
    /// Undo or redo log.
    Log,
    /// Epoch registers, tables and other metadata of a design.
    Metadata,
}

/// When an accepted write passed its stations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The queue had room and took it; the sender may go on.
    pub accepted: Cycles,
    /// It is durable.
    pub durable: Cycles,
}

impl Accepted {
    /// Accepted and durable at once: what nothing was written for.
    pub fn at(now: Cycles) -> Self {
        Self {
            accepted: now,
            durable: now,
        }
    }
}

/// All memory of the machine.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The modules' bytes with every accepted write applied.
    pub arena: Arena,
    pub(crate) map: PhysicalMap,
    pub(crate) modules: Vec<Module>,
    /// The DRAM in front of the NVM, if there is one.
    pub(crate) dram: Option<Dram>,
    /// Where the persistence domain reaches further than the media.
    pub(crate) reserve: Option<EnergyReserve>,
    /// Filled with the start and end of every write, if present.
    pub persistence_times: Option<Vec<Cycles>>,
    /// Filled for a verifier, if present.
    pub trace: Option<Vec<Traced>>,
    /// What somebody hears of some lines, if anybody does.
    pub watched: Option<Box<Watched>>,
    /// What is drawn of the run, if somebody draws.
    pub timeline: NotCopied<Timeline>,
    /// What is kept of the order of its writes, if somebody wants to know.
    pub persist_order: NotCopied<PersistOrder>,
    /// What the design is held to, if it is.
    pub(crate) contract: Option<Box<Contract>>,
    /// When which device wants to be woken.
    pub(crate) device_events: EventQueue,
    /// Nothing that was durable at this time will be asked for again.
    horizon: Cycles,
    /// Lines here hold processor and kernel contexts; only statistics care.
    context_range: Range<u64>,
}

impl Memory {
    /// Memory after the specification over the given bytes.
    pub fn new(specification: &Specification, arena: Arena, context_range: Range<u64>) -> Self {
        Self {
            arena,
            map: specification.physical_map(),
            modules: Module::all(specification),
            dram: Dram::new(specification),
            reserve: EnergyReserve::new(specification),
            persistence_times: None,
            trace: None,
            watched: None,
            timeline: NotCopied::default(),
            persist_order: NotCopied::default(),
            contract: cfg!(debug_assertions).then(Box::default),
            device_events: EventQueue::default(),
            horizon: 0,
            context_range,
        }
    }

    /// What lies where.
    pub fn map(&self) -> &PhysicalMap {
        &self.map
    }

    /// The modules, by their numbers in the map.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The bank of an address, in its module.
    #[inline]
    pub fn bank(&self, address: u64) -> usize {
        let place = self.map.locate(address);
        self.modules[place.module].placement().bank(place.offset)
    }

    /// When a write to this address would start if it came at `now`.
    pub fn could_start_at(&self, address: u64, now: Cycles) -> Cycles {
        let place = self.map.locate(address);
        self.modules[place.module].could_start_at(place.offset, now)
    }

    /// Says where programs and the kernel have their addresses
    /// ([`Controller::interleave_home`](crate::controller::Controller::interleave_home)).
    pub fn interleave_home(&mut self, home: Range<u64>) {
        for (number, module) in self.modules.iter_mut().enumerate() {
            module.interleave_home(self.map.share(number, &home));
        }
    }

    /// Times the read of a line for a miss; its bytes are in the arena. Returns when they arrive.
    pub fn read(&mut self, line: LineNumber, now: Cycles, statistics: &mut Statistics) -> Cycles {
        if let Some(dram) = &mut self.dram
            && dram.holds(line)
        {
            statistics.dram_reads += 1;
            let done = dram.access(line, now);
            self.draw_dram("read", line, [now, done]);
            return done;
        }
        let address = line * LINE_BYTES as u64;
        self.check("reads", address, LINE_BYTES, now);
        let done = self.read_over_link(address, LINE_BYTES, now, statistics);
        self.copy_to_dram(line, done, statistics);
        done
    }

    /// Keeps a line that goes to or comes from the NVM in the DRAM, too, behind everybody's back.
    #[inline]
    fn copy_to_dram(&mut self, line: LineNumber, now: Cycles, statistics: &mut Statistics) {
        if let Some(dram) = &mut self.dram {
            statistics.dram_writes += 1;
            dram.access(line, now);
        }
    }

    /// Times an access of the design to what the DRAM keeps beside a line; nothing without DRAM. Returns
    /// when it is over.
    pub fn occupy_dram(&mut self, line: LineNumber, now: Cycles) -> Cycles {
        (self.dram.as_mut()).map_or(now, |dram| dram.occupy(line, now))
    }

    /// Accepts an evicted line that need not be durable: into the DRAM if there is one, else into
    /// the NVM. In the DRAM it is done, and survives no power cut. A design that uses this writes
    /// such lines to the NVM by [`Self::write_line`] only.
    pub fn write_back(
        &mut self,
        line: LineNumber,
        bytes: &Line,
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Accepted {
        let Some(dram) = &mut self.dram else {
            return self.write_line(line, bytes, Traffic::WriteBack, now, 0, statistics);
        };
        let address = line * LINE_BYTES as u64;
        dram.falls_behind(line, self.arena.line(address));
        self.arena.write_line(address, bytes);
        statistics.dram_writes += 1;
        let done = dram.access(line, now);
        self.draw_dram("write-back", line, [now, done]);
        Accepted::at(done)
    }

    /// Sends a line that the DRAM alone holds to the NVM, for cache-block instructions.
    pub fn write_through(
        &mut self,
        line: LineNumber,
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Option<Accepted> {
        if !self.dram.as_ref().is_some_and(|dram| dram.is_ahead(line)) {
            return None;
        }
        statistics.dram_written_through += 1;
        let bytes = *self.arena.line(line * LINE_BYTES as u64);
        Some(self.write_line(line, &bytes, Traffic::Flush, now, 0, statistics))
    }

    /// Times a read that a design makes for itself, of bytes within one row: one row operation and
    /// the transfer. Returns when the bytes arrive.
    pub fn read_block(
        &mut self,
        address: u64,
        length: usize,
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Cycles {
        if !self.check("reads", address, length, now) {
            return now;
        }
        let place = self.map.locate(address);
        self.count_design_read(place.module, length, Traffic::Log, statistics);
        self.read_over_link(address, length, now, statistics)
    }

    /// Reads bytes within a row for the processor.
    #[inline(always)]
    fn read_over_link(
        &mut self,
        address: u64,
        length: usize,
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Cycles {
        let place = self.map.locate(address);
        let access = HostAccess {
            address,
            length,
            written: None,
        };
        let latency = self.link_latency(place);
        let arrived = now + latency;
        let not_before = match self.admit(place.module, &access, arrived, statistics) {
            Admission::Admitted { at } | Admission::Held { at, .. } => at,
            Admission::Answered { at } => {
                return self.cross(place.module, length, at);
            }
        };
        let way = (Path::Link, not_before);
        let read = self.read_row(place, (length, length), way, arrived, statistics);
        let when = [not_before.max(arrived), read];
        if self.trace.is_some() {
            self.trace_host(place.module, (address, length), false, when);
        }
        read + latency
    }

    /// What a message to or from a place takes on its way.
    #[inline]
    fn link_latency(&self, place: Place) -> Cycles {
        self.modules[place.module].controller.latency()
    }

    /// Reads so many bytes of a row, which lie within `span`. Returns when they are where they were
    /// asked for.
    #[inline(always)]
    pub(crate) fn read_row(
        &mut self,
        place: Place,
        (span, bytes): (usize, usize),
        (path, not_before): (Path, Cycles),
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Cycles {
        let request = Request {
            address: place.offset,
            length: span,
            path,
            not_before,
        };
        let module = &mut self.modules[place.module];
        let (served, kind) = (module.read(&request, bytes, now), module.kind);
        if self.draws() {
            self.draw_read(place, bytes, path, served, now);
        }
        if kind != RegionKind::Persistent {
            return served.done;
        }
        statistics.nvm_reads += 1;
        statistics.nvm_read_bytes += bytes as u64;
        statistics.nvm_read_wait_cycles += served.start - now;
        served.done
    }

    /// Whether a range is in the NVM, and in one row of it if it has to be.
    pub(crate) fn room(
        &self,
        address: u64,
        length: usize,
        in_one_row: bool,
    ) -> Result<(), &'static str> {
        let end = address.checked_add(length as u64);
        if length == 0 || end.is_none_or(|end| end > self.map.bytes()) {
            return Err("which are not in the NVM");
        }
        let (first, last) = (address, address + length as u64 - 1);
        let (first, last) = (self.map.locate(first), self.map.locate(last));
        let shift = (self.modules[first.module].placement()).unit_shift(first.offset);
        let one_row = first.module == last.module && first.offset >> shift == last.offset >> shift;
        if in_one_row && !one_row {
            return Err("which do not lie within one row (nvm.row_bytes)");
        }
        Ok(())
    }

    /// Counts a read that a design makes for itself as an operation of so many bytes.
    pub(crate) fn count_design_read(
        &self,
        module: usize,
        length: usize,
        traffic: Traffic,
        statistics: &mut Statistics,
    ) {
        if self.modules[module].kind == RegionKind::Persistent {
            statistics.nvm_design_reads += 1;
            *self.operations(module, length, traffic, statistics) += 1;
        }
    }

    /// The counter of operations of that kind.
    fn operations<'s>(
        &self,
        module: usize,
        length: usize,
        traffic: Traffic,
        statistics: &'s mut Statistics,
    ) -> &'s mut u64 {
        if length >> self.modules[module].placement().row_shift() > 0 {
            &mut statistics.nvm_operations_sequential
        } else if traffic == Traffic::WriteBack {
            &mut statistics.nvm_operations_write_back
        } else {
            &mut statistics.nvm_operations_random
        }
    }

    /// Accepts the write of a line. It starts at the media no earlier than `not_before`, for
    /// designs that order one write behind another.
    pub fn write_line(
        &mut self,
        line: LineNumber,
        bytes: &Line,
        traffic: Traffic,
        now: Cycles,
        not_before: Cycles,
        statistics: &mut Statistics,
    ) -> Accepted {
        self.write_line_of(line, line, bytes, traffic, now, not_before, statistics)
    }

    /// The same for bytes that belong to the program's line `home`, and lie elsewhere.
    #[allow(clippy::too_many_arguments, reason = "whose line, and where")]
    pub fn write_line_of(
        &mut self,
        home: LineNumber,
        line: LineNumber,
        bytes: &Line,
        traffic: Traffic,
        now: Cycles,
        not_before: Cycles,
        statistics: &mut Statistics,
    ) -> Accepted {
        let address = line * LINE_BYTES as u64;
        if !self.check("writes", address, LINE_BYTES, now) {
            return Accepted::at(now);
        }
        let place = self.map.locate(address);
        let access = HostAccess::write(address, &bytes.0);
        let arrives = now + self.link_latency(place);
        let admission = self.admit(place.module, &access, arrives, statistics);
        let behind = self.dram.as_mut().and_then(|dram| dram.catches_up(line));
        let displaced = behind.as_ref().unwrap_or(self.arena.line(address));
        self.modules[place.module].displaces(&displaced.0);
        self.arena.write_line(address, bytes);
        let range = (address, LINE_BYTES, home);
        let when = (admission, not_before);
        let done = self.write(place, range, traffic, now, when, statistics);
        self.copy_to_dram(line, done.accepted, statistics);
        done
    }

    /// Accepts the write of a block that lies within one row: one row operation.
    pub fn write_block(
        &mut self,
        address: u64,
        bytes: &[u8],
        traffic: Traffic,
        now: Cycles,
        not_before: Cycles,
        statistics: &mut Statistics,
    ) -> Accepted {
        let home = address / LINE_BYTES as u64;
        self.write_block_of(home, address, bytes, traffic, now, not_before, statistics)
    }

    /// The same for bytes that belong to the program's line `home`.
    #[allow(clippy::too_many_arguments, reason = "whose bytes, and where")]
    pub fn write_block_of(
        &mut self,
        home: LineNumber,
        address: u64,
        bytes: &[u8],
        traffic: Traffic,
        now: Cycles,
        not_before: Cycles,
        statistics: &mut Statistics,
    ) -> Accepted {
        if !self.check("writes", address, bytes.len(), now) {
            return Accepted::at(now);
        }
        let place = self.map.locate(address);
        let access = HostAccess::write(address, bytes);
        let arrives = now + self.link_latency(place);
        let admission = self.admit(place.module, &access, arrives, statistics);
        self.displace(place.module, address, bytes);
        let range = (address, bytes.len(), home);
        let when = (admission, not_before);
        self.write(place, range, traffic, now, when, statistics)
    }

    /// Writes bytes of a module, which keeps what they displace: they are accepted next.
    #[inline]
    pub(crate) fn displace(&mut self, module: usize, address: u64, bytes: &[u8]) {
        let displaced = self.arena.slice(address, bytes.len());
        self.modules[module].displaces(&displaced);
        self.arena.write(address, bytes);
    }

    /// Accepts the write of bytes that lie together, over the link. Where that takes long, its sender may go
    /// on as soon as it knows that there will be room, and knows last that the bytes are durable.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "whose bytes, and where")]
    fn write(
        &mut self,
        place: Place,
        (address, length, home): (u64, usize, LineNumber),
        traffic: Traffic,
        now: Cycles,
        (admission, not_before): (Admission, Cycles),
        statistics: &mut Statistics,
    ) -> Accepted {
        let operation = Operation {
            module: place.module,
            address,
            home,
            bytes: length,
            counted: length,
            traffic,
        };
        let (Admission::Admitted { at } | Admission::Held { at, .. } | Admission::Answered { at }) =
            admission;
        let latency = self.link_latency(place);
        let way = (Path::Link, not_before.max(at));
        let arrives = now + latency;
        let written = self.write_row(&operation, place.offset, way, arrives, statistics);
        let begins = way.1.max(arrives);
        let written = match admission {
            Admission::Held { kept, .. } => {
                let held = self.held(written, kept.max(not_before));
                if let Some(device) = &mut self.modules[place.module].device {
                    device.settled(address, kept, [held.durable, written.durable]);
                }
                held
            }
            Admission::Admitted { .. } | Admission::Answered { .. } => written,
        };
        let last = &mut self.modules[place.module].last_accepted;
        *last = written.accepted.max(*last);
        let when = [begins, written.durable];
        if self.trace.is_some() {
            self.trace_host(place.module, (address, length), true, when);
        }
        Accepted {
            accepted: written.accepted - latency,
            durable: written.durable + latency,
        }
    }

    /// A write that waits in a device, which keeps it from then on.
    #[cold]
    fn held(&mut self, written: Accepted, kept: Cycles) -> Accepted {
        let accepted = kept.max(written.accepted);
        if let Some(times) = &mut self.persistence_times {
            times.push(accepted);
        }
        Accepted {
            accepted,
            durable: accepted.min(written.durable),
        }
    }

    /// Writes bytes of a row that lie together, from `offset` in their module on.
    #[inline(always)]
    pub(crate) fn write_row(
        &mut self,
        operation: &Operation,
        offset: u64,
        (path, not_before): (Path, Cycles),
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Accepted {
        let request = Request {
            address: offset,
            length: operation.bytes,
            path,
            not_before,
        };
        let written = self.accept(&request, operation, now, statistics);
        self.keep_displaced(operation, &written, (operation.address, operation.bytes));
        Accepted {
            accepted: written.accepted,
            durable: written.done,
        }
    }

    /// Accepts one row operation that writes, and counts it.
    #[inline(always)]
    pub(crate) fn accept(
        &mut self,
        request: &Request,
        operation: &Operation,
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Served {
        let (bytes, traffic) = (operation.bytes, operation.traffic);
        let module = &mut self.modules[operation.module];
        let at_media = module.write(request, bytes, operation.home, now);
        module.waiting.forget_until(self.horizon);
        let end = operation.address + request.length as u64;
        let written = module.durable(at_media, &(operation.address..end), request.not_before);
        let kind = module.kind;
        self.hear_write(operation, &written);
        if self.draws() {
            self.draw_write((operation, request), (at_media, written), now);
        }
        if kind != RegionKind::Persistent {
            return written;
        }
        if let Some(reserve) = &mut self.reserve {
            reserve.queues(written.accepted, at_media.done, bytes, self.horizon);
        }
        if self.persistence_times.is_some() {
            self.note_times(&written);
        }
        statistics.nvm_writes += 1;
        statistics.nvm_written_bytes_total += bytes as u64;
        statistics.nvm_write_queue_wait_cycles += written.accepted - now;
        *self.operations(operation.module, operation.counted, traffic, statistics) += 1;
        *match traffic {
            Traffic::WriteBack | Traffic::Flush
                if self.context_range.contains(&operation.address) =>
            {
                &mut statistics.nvm_written_bytes_context
            }
            Traffic::WriteBack | Traffic::Flush => &mut statistics.nvm_written_bytes_data,
            Traffic::Log => &mut statistics.nvm_written_bytes_log,
            Traffic::Metadata => &mut statistics.nvm_written_bytes_metadata,
        } += bytes as u64;
        written
    }

    /// What the NVM has of a line, with every write that it has accepted: the arena has the DRAM's
    /// newer bytes, if there are any.
    pub fn nvm_line(&self, line: LineNumber) -> &Line {
        let behind = self.dram.as_ref().and_then(|dram| dram.behind_of(line));
        behind.unwrap_or_else(|| self.arena.line(line * LINE_BYTES as u64))
    }

    /// Promises that no cut will come at or before `time` any more.
    pub fn forget_until(&mut self, time: Cycles) {
        self.horizon = time;
        if let Some(timeline) = self.timeline() {
            timeline.comes_to(time);
        }
    }

    /// The latest time so promised. Work is done ahead of time here and there, so what is durable by
    /// then, and not what is durable by some request's time, may be forgotten.
    pub fn horizon(&self) -> Cycles {
        self.horizon
    }

    /// When the last accepted write will be durable, for whoever waits for that.
    pub fn quiet_at(&self) -> Cycles {
        let quiet = self.modules.iter().map(Module::quiet_at);
        quiet.max().unwrap_or(0)
    }

    /// When the NVM is done with every write that it was given.
    pub fn drained_at(&self) -> Cycles {
        let persistent = (self.modules.iter()).filter(|one| one.kind == RegionKind::Persistent);
        persistent.map(Module::drained_at).max().unwrap_or(0)
    }

    /// When everything accepted for a line will be durable, `now` at the soonest.
    pub fn durable_at(&self, line: LineNumber, now: Cycles) -> Cycles {
        let address = line * LINE_BYTES as u64;
        let module = &self.modules[self.map.locate(address).module];
        (module.waiting).durable_at(&(address..address + LINE_BYTES as u64), now)
    }
}
