//! What recovery takes: its reads and writes, charged to a controller, link and banks like the
//! machine's, which stand idle when the power comes back.
//!
//! Recovery is a program that runs on the machine's processor, and whose computing costs nothing:
//! - It reads lines through a cache of the last-level cache's size (direct-mapped, cold), so that what
//!   it looks at twice is read once. Lines of one row that are read together are one row operation.
//! - It reads ahead: a read waits for a place in the read queue, not for the read before it.
//! - What it writes comes from what it has read, so a write is accepted no earlier than the bytes
//!   that were asked for before it have arrived.
//! - Where there is DRAM in front of the NVM, lines are loaded into it likewise.
//!
//! Where modules have devices, these recover before it, all at once, each with its own module's banks: over
//! no link, with no cache, and what one writes comes from what it has read itself.
//!
//! It is over when all has arrived and is durable.

use std::ops::Range;

use smallvec::SmallVec;

use crate::controller::{Controller, Path, Request};
use crate::dram::Dram;
use crate::line::{LINE_BYTES, LineNumber, lines_of};
use crate::physical_map::{PhysicalMap, Piece, Place};
use crate::placement::Row;
use crate::specification::Specification;
use crate::time::Cycles;

/// What a recovery did, and how long that took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryCost {
    /// From the first read until all is done.
    pub cycles: Cycles,
    /// Row reads at the NVM.
    pub reads: u64,
    /// Bytes read there.
    pub read_bytes: u64,
    /// Row writes at the NVM.
    pub writes: u64,
    /// Bytes written there.
    pub written_bytes: u64,
    /// Lines loaded into DRAM.
    pub loaded_lines: u64,
}

/// The clock of one recovery.
#[derive(Debug)]
pub struct RecoveryClock {
    map: PhysicalMap,
    /// Of each module.
    controllers: Vec<Controller>,
    dram: Option<Dram>,
    /// By set, one more than the line that is cached there.
    cached: Vec<LineNumber>,
    /// How whoever recovers now reads and writes.
    path: Path,
    /// When it began.
    began: Cycles,
    /// When everything that it has read so far has arrived.
    arrived: Cycles,
    /// When the last device had what it had read.
    devices_arrived: Cycles,
    /// When all lines that were loaded are in the DRAM.
    loaded: Cycles,
    cost: RecoveryCost,
}

impl RecoveryClock {
    /// The power has just come back. Programs and the kernel have their addresses in `home`.
    pub fn new(specification: &Specification, home: Range<u64>) -> Self {
        let lines = specification.llc.bytes_per_hart * specification.harts / LINE_BYTES;
        let map = specification.physical_map();
        let mut controllers = Controller::all(specification);
        for (module, controller) in controllers.iter_mut().enumerate() {
            controller.interleave_home(map.share(module, &home));
        }
        Self {
            map,
            controllers,
            dram: Dram::new(specification),
            cached: vec![0; lines.max(1)],
            path: Path::Link,
            began: 0,
            arrived: 0,
            devices_arrived: 0,
            loaded: 0,
            cost: RecoveryCost::default(),
        }
    }

    /// What is read and written from now on is a device's, which recovers beside the others.
    pub fn device_begins(&mut self) {
        self.devices_arrived = self.devices_arrived.max(self.arrived);
        (self.path, self.arrived) = (Path::Inside, 0);
    }

    /// The devices have recovered, and software begins when all have.
    pub fn devices_end(&mut self) {
        self.path = Path::Link;
        self.began = self.cost().cycles.max(self.devices_arrived);
        self.arrived = self.began;
    }

    /// Recovery reads bytes.
    pub fn read(&mut self, address: u64, length: usize) {
        if let Some(place) = self.one_piece(address, length) {
            let bytes = match self.path {
                Path::Link => self.miss(address, length) * LINE_BYTES,
                Path::Inside => length,
            };
            return self.read_row(place, bytes);
        }
        for (piece, row) in self.rows(address, length) {
            let bytes = match self.path {
                Path::Link => self.miss_row(&piece, &row) * LINE_BYTES,
                Path::Inside => row.iter().map(|piece| piece.1).sum(),
            };
            self.read_row(place_of(&piece, &row), bytes);
        }
    }

    /// Reads so many bytes of a row, if any.
    fn read_row(&mut self, place: Place, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let request = self.request(place, bytes);
        let served = self.controllers[place.module].read(&request, self.began);
        self.arrived = self.arrived.max(served.done);
        self.cost.reads += 1;
        self.cost.read_bytes += bytes as u64;
    }

    /// Recovery writes bytes.
    #[inline]
    pub fn write(&mut self, address: u64, length: usize) {
        let caches = self.path == Path::Link;
        if let Some(place) = self.one_piece(address, length) {
            if caches {
                self.miss(address, length);
            }
            return self.write_row(place, length);
        }
        for (piece, row) in self.rows(address, length) {
            if caches {
                self.miss_row(&piece, &row);
            }
            let bytes = row.iter().map(|piece| piece.1).sum();
            self.write_row(place_of(&piece, &row), bytes);
        }
    }

    #[inline]
    fn write_row(&mut self, place: Place, bytes: usize) {
        let request = self.request(place, bytes);
        self.controllers[place.module].write(&request, self.arrived);
        self.cost.writes += 1;
        self.cost.written_bytes += bytes as u64;
    }

    #[inline(always)]
    fn request(&self, place: Place, bytes: usize) -> Request {
        Request {
            address: place.offset,
            length: bytes,
            path: self.path,
            not_before: 0,
        }
    }

    /// Where a range lies, if all of it is one piece of one row, as most are.
    #[inline(always)]
    fn one_piece(&self, address: u64, length: usize) -> Option<Place> {
        let place = self.map.plain(address, length)?;
        let placement = self.controllers[place.module].placement();
        (placement.is_one_piece(place.offset, length)).then_some(place)
    }

    /// What each row of each module has of a range, by places in the module. Most often it is one row.
    fn rows(&self, address: u64, length: usize) -> SmallVec<[(Piece, Row); 1]> {
        let pieces = self.map.pieces(address..address + length as u64);
        let rows = pieces.flat_map(|piece| {
            let placement = self.controllers[piece.place.module].placement();
            let rows = placement.rows(piece.place.offset, piece.length as usize);
            rows.into_iter().map(move |row| (piece, row))
        });
        rows.collect()
    }

    /// Recovery loads a line into the DRAM.
    pub fn load(&mut self, line: LineNumber) {
        let Some(dram) = &mut self.dram else {
            return;
        };
        self.loaded = self.loaded.max(dram.access(line, self.arrived));
        self.cost.loaded_lines += 1;
    }

    /// What it came to.
    pub fn cost(&self) -> RecoveryCost {
        let written = self.controllers.iter().map(Controller::quiet_at);
        let written = written.max().unwrap_or(0);
        let cycles = (self.arrived).max(self.loaded).max(written);
        RecoveryCost {
            cycles,
            ..self.cost
        }
    }

    /// How many lines of bytes were not cached; they are from now on.
    #[inline(always)]
    fn miss(&mut self, address: u64, length: usize) -> usize {
        lines_of(address, length)
            .filter(|&line| self.cache(line))
            .count()
    }

    /// The same of what one row has of a piece.
    fn miss_row(&mut self, piece: &Piece, row: &[(u64, usize)]) -> usize {
        let pieces = row.iter().map(|&(offset, length)| {
            self.miss(piece.address + (offset - piece.place.offset), length)
        });
        pieces.sum()
    }

    /// True if the line was not cached; it is from now on.
    #[inline(always)]
    fn cache(&mut self, line: LineNumber) -> bool {
        let sets = self.cached.len() as u64;
        let set = if sets.is_power_of_two() {
            line & (sets - 1)
        } else {
            line % sets
        };
        std::mem::replace(&mut self.cached[set as usize], line + 1) != line + 1
    }
}

/// Where what one row has of a piece begins.
fn place_of(piece: &Piece, row: &[(u64, usize)]) -> Place {
    Place {
        offset: row[0].0,
        ..piece.place
    }
}
