//! The NVM behind its controller: which bytes it has, and when they become durable.
//!
//! Always true here:
//! - The arena holds the newest bytes that the controller has accepted, so that a read sees writes
//!   that still wait (a real controller snoops its write queue). Each write that is not durable
//!   yet stands in `waiting` with the bytes that it displaced: queue and array have swapped
//!   contents, nothing is stored twice, and cutting the power is swapping back.
//! - A line's writes become durable in the order of acceptance ([`crate::controller`] says which
//!   others do).
//! - Where there is DRAM in front of the NVM, the arena holds the DRAM's newer bytes, too, and what
//!   the NVM has of these lines is kept aside, to be swapped back likewise.
//! - A write is in flight from `start` to `done`. A cut between the two may tear it at the
//!   granularity of eight bytes; a cut before `start` loses it, because the queue is volatile.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::arena::Arena;
use crate::bank::Use;
use crate::contract::Contract;
use crate::controller::{Controller, Opened, WriteRequest, Written};
use crate::dram::Dram;
use crate::line::{LINE_BYTES, Line, LineNumber};
use crate::posted::PostedWrites;
use crate::random::Random;
use crate::specification::Specification;
use crate::statistics::Statistics;
use crate::time::Cycles;

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

#[derive(Clone, Debug)]
enum Displaced {
    Line(Line),
    Block(Box<[u8]>),
}

impl Displaced {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Line(line) => &line.0,
            Self::Block(bytes) => bytes,
        }
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    start: Cycles,
    done: Cycles,
    address: u64,
    displaced: Displaced,
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

/// What a power cut took away or tore: enough to give it back, so that one run can be cut many
/// times.
#[derive(Debug, Default)]
pub struct Lost {
    /// Address and bytes as they were before the cut, in the order in which they were taken.
    restore: Vec<(u64, Box<[u8]>)>,
    /// Writes that had been accepted and are gone.
    pub writes_lost: usize,
    /// Writes that were in flight.
    pub writes_in_flight: usize,
}

/// Chooses, word by word, which parts of a torn write reached the media.
#[derive(Clone, Debug)]
pub struct Tear(Random);

impl Tear {
    /// A deterministic chooser.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// Mixes `new` into `old`: nothing, everything, a prefix, or any subset of the 8-byte words.
    pub fn apply(&mut self, old: &mut [u8], new: &[u8]) {
        let words = new.len().div_ceil(8);
        let kind = self.0.bits() % 4;
        let prefix = self.0.bits() as usize % (words + 1);
        for (index, (old, new)) in old.chunks_mut(8).zip(new.chunks(8)).enumerate() {
            let arrived = match kind {
                0 => false,
                1 => index < prefix,
                2 => index >= prefix,
                _ => self.0.bits() & 1 == 1,
            };
            if arrived {
                old.copy_from_slice(new);
            }
        }
    }
}

/// The controller and the media.
#[derive(Debug)]
pub struct Memory {
    /// The media's bytes with every accepted write applied.
    pub arena: Arena,
    /// The DRAM in front of it, if there is one.
    dram: Option<Dram>,
    /// Filled with the start and end of every write, if present.
    pub persistence_times: Option<Vec<Cycles>>,
    /// What the design is held to, if it is.
    pub(crate) contract: Option<Box<Contract>>,
    waiting: VecDeque<Waiting>,
    /// Nothing that was durable at this time will be asked for again.
    horizon: Cycles,
    /// Lines here hold processor and kernel contexts; only statistics care.
    context_range: Range<u64>,
    controller: Controller,
    /// Instead of the controller, for writes.
    posted: Option<PostedWrites>,
}

impl Memory {
    /// Memory after the specification over the given bytes.
    pub fn new(specification: &Specification, arena: Arena, context_range: Range<u64>) -> Self {
        Self {
            arena,
            dram: Dram::new(specification),
            persistence_times: None,
            contract: cfg!(debug_assertions).then(Box::default),
            waiting: VecDeque::new(),
            horizon: 0,
            context_range,
            controller: Controller::new(specification),
            posted: PostedWrites::new(specification),
        }
    }

    /// The bank of an address.
    #[inline]
    pub fn bank(&self, address: u64) -> usize {
        self.controller.placement().bank(address)
    }

    /// When a write to this address would start if it came at `now`.
    pub fn could_start_at(&self, address: u64, now: Cycles) -> Cycles {
        if self.posted.is_some() {
            return now;
        }
        self.controller.could_start_at(address, now)
    }

    /// Says where programs and the kernel have their addresses ([`Controller::interleave_home`]).
    pub fn interleave_home(&mut self, home: Range<u64>) {
        self.controller.interleave_home(home);
    }

    /// Times the read of a line for a miss; its bytes are in the arena. Returns when they arrive.
    pub fn read(&mut self, line: LineNumber, now: Cycles, statistics: &mut Statistics) -> Cycles {
        if let Some(dram) = &mut self.dram
            && dram.holds(line)
        {
            statistics.dram_reads += 1;
            return dram.access(line, now);
        }
        let address = line * LINE_BYTES as u64;
        self.check("reads", address, LINE_BYTES, now);
        let opened = self.open_row(address, LINE_BYTES, LINE_BYTES, Use::Read, now, statistics);
        let done = self.controller.send(opened, LINE_BYTES);
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
        let accepted = dram.access(line, now);
        Accepted {
            accepted,
            durable: accepted,
        }
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
        let opened = self.open_row(address, length, length, Use::Read, now, statistics);
        statistics.nvm_design_reads += 1;
        *self.operations(length, Traffic::Log, statistics) += 1;
        self.controller.send(opened, length)
    }

    /// Reads a row into its bank's buffer: so many bytes of it, which lie within `span`.
    fn open_row(
        &mut self,
        address: u64,
        span: usize,
        bytes: usize,
        what: Use,
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Opened {
        let opened = self.controller.open_row(address, span, what, now);
        statistics.nvm_reads += 1;
        statistics.nvm_read_bytes += bytes as u64;
        statistics.nvm_read_wait_cycles += opened.start - now;
        opened
    }

    /// Copies whole rows, or parts of them, within the memory module: nothing crosses the link.
    /// `from` and `to` lie at the same offset in their rows. All rows are read, then written, and each
    /// write is durable by itself.
    #[allow(clippy::too_many_arguments, reason = "both ends of the copy")]
    pub fn copy_within(
        &mut self,
        from: u64,
        to: u64,
        length: usize,
        traffic: Traffic,
        now: Cycles,
        not_before: Cycles,
        statistics: &mut Statistics,
    ) -> Accepted {
        let row = 1 << self.controller.placement().row_shift();
        for (what, address) in [("reads", from), ("writes", to)] {
            let room = if from % row == to % row {
                self.room(address, length, false)
            } else {
                Err("at another offset in its row than the other end of the copy")
            };
            if !self.hold(what, address, length, room, now) {
                return Accepted::at(now);
            }
        }
        let placement = self.controller.placement().clone();
        let by_row = |place| placement.by_row(place, length as u64);
        // Where lines are dealt out, all that a row has of the range is one operation.
        let counted = |place, bytes: usize| {
            let by_lines = placement.unit_shift(place) < placement.row_shift();
            if by_lines { length } else { bytes }
        };
        let mut opened = now;
        for row in by_row(from) {
            let (start, span, bytes) = extent(&row);
            let read = self.open_row(start, span, bytes, Use::ReadWithin, now, statistics);
            opened = opened.max(self.controller.end_read(read));
            statistics.nvm_design_reads += 1;
            *self.operations(counted(start, bytes), traffic, statistics) += 1;
        }
        let after = not_before.max(opened);
        let newest: Box<[u8]> = self.arena.slice(from, length).into();
        let mut done = Accepted::at(now);
        for row in by_row(to) {
            let (address, span, bytes) = extent(&row);
            let request = WriteRequest {
                address,
                length: span,
                crosses_link: false,
                not_before: after,
            };
            let counted = counted(address, bytes);
            let (home, size) = (address / LINE_BYTES as u64, (bytes, counted));
            let written = self.accept(&request, home, size, traffic, now, statistics);
            for (place, piece) in row {
                let displaced = Displaced::Block(self.arena.slice(place, piece).into());
                let at = (place - to) as usize;
                self.arena.write(place, &newest[at..at + piece]);
                self.wait(&written, place, displaced);
            }
            done.accepted = written.accepted;
            done.durable = done.durable.max(written.done);
        }
        done
    }

    /// Whether a range is in the NVM, and in one row of it if it has to be.
    fn room(&self, address: u64, length: usize, in_one_row: bool) -> Result<(), &'static str> {
        let end = address.checked_add(length as u64);
        if length == 0 || end.is_none_or(|end| end > self.arena.len()) {
            return Err("which are not in the NVM");
        }
        let last = address + length as u64 - 1;
        let shift = self.controller.placement().unit_shift(address);
        if in_one_row && address >> shift != last >> shift {
            return Err("which do not lie within one row (nvm.row_bytes)");
        }
        Ok(())
    }

    /// Holds the design to its contract, if that is wanted: no request before the hook was asked, no
    /// block across rows. False if the request cannot even be carried out.
    #[inline]
    fn check(&mut self, what: &str, address: u64, length: usize, now: Cycles) -> bool {
        if self.contract.is_none() {
            return true;
        }
        let room = self.room(address, length, true);
        self.hold(what, address, length, room, now)
    }

    fn hold(
        &mut self,
        what: &str,
        address: u64,
        length: usize,
        room: Result<(), &str>,
        now: Cycles,
    ) -> bool {
        let Some(contract) = &mut self.contract else {
            return true;
        };
        contract.request(what, (address, length), room, now, self.horizon);
        room.is_ok()
    }

    /// The counter of operations of that kind.
    fn operations<'s>(
        &self,
        length: usize,
        traffic: Traffic,
        statistics: &'s mut Statistics,
    ) -> &'s mut u64 {
        if length >> self.controller.placement().row_shift() > 0 {
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
        let behind = self.dram.as_mut().and_then(|dram| dram.catches_up(line));
        let displaced = Displaced::Line(behind.unwrap_or(*self.arena.line(address)));
        self.arena.write_line(address, bytes);
        let place = (address, LINE_BYTES, home);
        let done = self.write(place, displaced, traffic, now, not_before, statistics);
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
        let displaced = Displaced::Block(self.arena.slice(address, bytes.len()).into());
        self.arena.write(address, bytes);
        let place = (address, bytes.len(), home);
        self.write(place, displaced, traffic, now, not_before, statistics)
    }

    /// Accepts the write of bytes that lie together.
    #[inline]
    fn write(
        &mut self,
        (address, length, home): (u64, usize, LineNumber),
        displaced: Displaced,
        traffic: Traffic,
        now: Cycles,
        not_before: Cycles,
        statistics: &mut Statistics,
    ) -> Accepted {
        let request = WriteRequest {
            address,
            length,
            crosses_link: true,
            not_before,
        };
        let written = self.accept(&request, home, (length, length), traffic, now, statistics);
        self.wait(&written, address, displaced);
        Accepted {
            accepted: written.accepted,
            durable: written.done,
        }
    }

    /// Accepts one row operation that writes so many bytes, and counts it as one of so many.
    #[inline]
    fn accept(
        &mut self,
        request: &WriteRequest,
        home: LineNumber,
        (bytes, counted): (usize, usize),
        traffic: Traffic,
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Written {
        let written = match &mut self.posted {
            Some(posted) => posted.write(request.address, bytes, home, now),
            None => self.controller.write(request, now),
        };
        while self
            .waiting
            .front()
            .is_some_and(|write| write.done <= self.horizon)
        {
            self.waiting.pop_front();
        }
        if let Some(times) = &mut self.persistence_times {
            times.extend([written.start, written.done]);
        }
        statistics.nvm_writes += 1;
        statistics.nvm_written_bytes_total += bytes as u64;
        statistics.nvm_write_queue_wait_cycles += written.accepted - now;
        *self.operations(counted, traffic, statistics) += 1;
        *match traffic {
            Traffic::WriteBack | Traffic::Flush
                if self.context_range.contains(&request.address) =>
            {
                &mut statistics.nvm_written_bytes_context
            }
            Traffic::WriteBack | Traffic::Flush => &mut statistics.nvm_written_bytes_data,
            Traffic::Log => &mut statistics.nvm_written_bytes_log,
            Traffic::Metadata => &mut statistics.nvm_written_bytes_metadata,
        } += bytes as u64;
        written
    }

    /// Keeps what an accepted write displaced, until it is durable and nobody asks any more.
    #[inline]
    fn wait(&mut self, written: &Written, address: u64, displaced: Displaced) {
        self.waiting.push_back(Waiting {
            start: written.start,
            done: written.done,
            address,
            displaced,
        });
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
    }

    /// The latest time so promised. Work is done ahead of time here and there, so what is durable by
    /// then, and not what is durable by some request's time, may be forgotten.
    pub fn horizon(&self) -> Cycles {
        self.horizon
    }

    /// When the last accepted write will be durable, for whoever waits for that.
    pub fn quiet_at(&self) -> Cycles {
        match &self.posted {
            Some(posted) => posted.quiet_at(),
            None => self.controller.quiet_at(),
        }
    }

    /// When the NVM is done with every write that it was given.
    pub fn drained_at(&self) -> Cycles {
        match &self.posted {
            Some(posted) => posted.drained_at(),
            None => self.controller.quiet_at(),
        }
    }

    /// Where writes are posted: this design's cost is that it waits until they are durable. Others do
    /// not wait for anything there.
    pub fn count_durability(&mut self) {
        if let Some(posted) = &mut self.posted {
            posted.count_durability();
        }
    }

    /// Where writes are posted to the banks of the lines that they belong to: writes a block of several
    /// lines' entries, each as a write by itself, of so many bytes, to its line's bank. What else is in the
    /// block takes no time. Returns when the last of them is durable; nothing is done elsewhere.
    pub fn post_entries(
        &mut self,
        address: u64,
        bytes: &[u8],
        entries: (usize, &mut dyn Iterator<Item = LineNumber>),
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Option<Cycles> {
        let posted = (self.posted.as_mut()).filter(|posted| posted.by_home_line())?;
        self.arena.write(address, bytes);
        let (length, lines) = entries;
        let mut durable = now;
        for line in lines {
            durable = durable.max(posted.write(address, length, line, now).done);
            statistics.nvm_writes += 1;
            statistics.nvm_operations_random += 1;
        }
        statistics.nvm_written_bytes_total += bytes.len() as u64;
        statistics.nvm_written_bytes_log += bytes.len() as u64;
        Some(durable)
    }

    /// When everything accepted for a line will be durable; 0 if nothing waits.
    pub fn durable_at(&self, line: LineNumber) -> Cycles {
        let address = line * LINE_BYTES as u64;
        let newest = self.waiting.iter().rev().find(|write| {
            let end = write.address + write.displaced.bytes().len() as u64;
            (write.address..end).contains(&address)
        });
        newest.map_or(0, |write| write.done)
    }

    /// Cuts the power at `at`: the arena then holds what survived.
    pub fn power_off(&mut self, at: Cycles, tear: &mut Tear) -> Lost {
        let mut lost = Lost::default();
        // Newest first: what the DRAM holds is newer than what waits for the same line.
        for (line, bytes) in self.dram.iter().flat_map(Dram::behind) {
            let address = line * LINE_BYTES as u64;
            lost.restore
                .push((address, self.arena.line(address).0.into()));
            self.arena.write_line(address, bytes);
            lost.writes_lost += 1;
        }
        for write in self.waiting.iter().rev().filter(|write| write.done > at) {
            let displaced = write.displaced.bytes();
            let newest: Box<[u8]> = self.arena.slice(write.address, displaced.len()).into();
            if write.start <= at {
                let mut torn = displaced.to_vec();
                tear.apply(&mut torn, &newest);
                self.arena.write(write.address, &torn);
                lost.writes_in_flight += 1;
            } else {
                self.arena.write(write.address, displaced);
                lost.writes_lost += 1;
            }
            lost.restore.push((write.address, newest));
        }
        lost
    }

    /// What energy backup writes after the cut.
    pub fn drain(&mut self, lost: &mut Lost, address: u64, bytes: &[u8]) {
        let old = self.arena.slice(address, bytes.len()).into();
        lost.restore.push((address, old));
        self.arena.write(address, bytes);
    }

    /// Lines that recovery loaded into the DRAM, where the arena has them by now, with what the NVM
    /// has there.
    pub fn load_dram(&mut self, behind: BTreeMap<LineNumber, Line>) {
        if let Some(dram) = &mut self.dram {
            for (line, bytes) in behind {
                dram.falls_behind(line, &bytes);
            }
        }
    }

    /// Undoes a cut.
    pub fn power_back(&mut self, lost: &Lost) {
        for (address, bytes) in lost.restore.iter().rev() {
            self.arena.write(*address, bytes);
        }
    }
}

/// Of what one row has of a range: where it starts, how far it reaches, and its bytes.
fn extent(row: &[(u64, usize)]) -> (u64, usize, usize) {
    let start = row.first().map_or(0, |first| first.0);
    let end = row.last().map_or(0, |last| last.0 + last.1 as u64);
    let bytes = row.iter().map(|piece| piece.1).sum();
    (start, (end - start) as usize, bytes)
}
