//! Copies within a memory module: whole rows, or parts of them, that never cross the link.

use crate::controller::{Path, Request};
use crate::line::LINE_BYTES;
use crate::memory::{Accepted, Memory, Traffic};
use crate::module::Operation;
use crate::physical_map::Place;
use crate::statistics::Statistics;
use crate::time::Cycles;

impl Memory {
    /// Copies whole rows, or parts of them, within a memory module: nothing crosses the link. `from` and
    /// `to` lie at the same offset in their rows, and each range lies together in the same module. All
    /// rows are read, then written, and each write is durable by itself.
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
        for (what, address) in [("reads", from), ("writes", to)] {
            let room = self.room_for_copy(from, to, (address, length));
            if !self.hold(what, address, length, room, now) {
                return Accepted::at(now);
            }
        }
        let (source, target) = (self.map.locate(from), self.map.locate(to));
        let module = target.module;
        let placement = self.modules[module].placement().clone();
        // Where lines are dealt out, all that a row has of the range is one operation.
        let counted = |place, bytes: usize| {
            let by_lines = placement.unit_shift(place) < placement.row_shift();
            if by_lines { length } else { bytes }
        };
        let mut opened = now;
        for row in placement.by_row(source.offset, length as u64) {
            let (offset, span, bytes) = extent(&row);
            let place = Place { module, offset };
            let done = self.read_row(place, (span, bytes), (Path::Inside, 0), now, statistics);
            opened = opened.max(done);
            self.count_design_read(module, counted(offset, bytes), traffic, statistics);
        }
        let after = not_before.max(opened);
        let newest: Box<[u8]> = self.arena.slice(from, length).into();
        let mut done = Accepted::at(now);
        for row in placement.by_row(target.offset, length as u64) {
            let (offset, span, bytes) = extent(&row);
            let request = Request {
                address: offset,
                length: span,
                path: Path::Inside,
                not_before: after,
            };
            let start = to + (offset - target.offset);
            let operation = Operation {
                module,
                address: start,
                home: start / LINE_BYTES as u64,
                bytes,
                counted: counted(offset, bytes),
                traffic,
            };
            let written = self.accept(&request, &operation, now, statistics);
            for (offset, piece) in row {
                let at = (offset - target.offset) as usize;
                let address = to + at as u64;
                self.displace(module, address, &newest[at..at + piece]);
                self.keep_displaced(&operation, &written, (address, piece));
            }
            done.accepted = written.accepted;
            done.durable = done.durable.max(written.done);
        }
        done
    }

    /// Whether one of the two ranges of a copy is in memory, and fits the other.
    fn room_for_copy(
        &self,
        from: u64,
        to: u64,
        (address, length): (u64, usize),
    ) -> Result<(), &'static str> {
        self.room(address, length, false)?;
        let place = self.map.locate(to);
        let row = 1 << self.modules[place.module].placement().row_shift();
        if self.map.locate(from).offset % row != place.offset % row {
            return Err("at another offset in its row than the other end of the copy");
        }
        let one_piece = |start: u64| {
            let range = start..start + length as u64;
            let mut pieces = self.map.pieces(range);
            pieces.next().is_some_and(|piece| {
                piece.length == length as u64 && piece.place.module == place.module
            })
        };
        if !one_piece(address) {
            return Err("which do not lie together in the module of the other end of the copy");
        }
        Ok(())
    }
}

/// Of what one row has of a range: where it starts, how far it reaches, and its bytes.
fn extent(row: &[(u64, usize)]) -> (u64, usize, usize) {
    let start = row.first().map_or(0, |first| first.0);
    let end = row.last().map_or(0, |last| last.0 + last.1 as u64);
    let bytes = row.iter().map(|piece| piece.1).sum();
    (start, (end - start) as usize, bytes)
}
