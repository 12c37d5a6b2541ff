//! What modules tell of what they were asked: requests at the controller, rows at the banks, transfers.

use super::{Event, Fact, Kind, Part, Track, Value, When};
use crate::controller::{Path, Request, Served};
use crate::line::LINE_BYTES;
use crate::memory::{Memory, Traffic};
use crate::module::Operation;
use crate::physical_map::Place;
use crate::time::Cycles;

impl Traffic {
    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WriteBack => "write-back",
            Self::Flush => "flush",
            Self::Log => "log",
            Self::Metadata => "metadata",
        }
    }
}

const fn requests(module: usize, name: &'static str) -> Track {
    Track::new(Kind::Requests, Part::Module(module), name)
}

/// Where the transfers over a module's link are drawn.
const fn link(module: usize) -> Track {
    Track::new(Kind::Links, Part::Module(module), "link")
}

const fn name_of(path: Path, over_link: &'static str, inside: &'static str) -> &'static str {
    match path {
        Path::Link => over_link,
        Path::Inside => inside,
    }
}

impl Memory {
    /// A module has read bytes of a row.
    #[cold]
    pub(crate) fn draw_read(
        &mut self,
        place: Place,
        bytes: usize,
        path: Path,
        served: Served,
        now: Cycles,
    ) {
        let module = place.module;
        let facts = [
            ("module_offset", Value::Address(place.offset)),
            ("bytes", Value::Number(bytes as u64)),
            ("waited_for_entry", Value::Number(served.accepted - now)),
        ];
        let name = name_of(path, "read", "read inside");
        self.draw_request(module, ["reads", "read queue"], name, served, &facts);
        if self.modules[module].posted.is_none() {
            let row_cycles = self.modules[module].controller.row_cycles().0;
            let row = [served.start, served.start + row_cycles];
            self.draw_row(place, name, row, &facts[..2]);
        }
        if path == Path::Link {
            self.draw_transfer(module, "read", bytes, served.crossed);
        }
    }

    /// A module has accepted a write, which survives when `written` says.
    #[cold]
    pub(crate) fn draw_write(
        &mut self,
        (operation, request): (&Operation, &Request),
        (at_media, written): (Served, Served),
        now: Cycles,
    ) {
        let &Operation {
            module,
            address,
            home,
            bytes,
            traffic,
            ..
        } = operation;
        let home = home.wrapping_mul(LINE_BYTES as u64);
        let facts = [
            ("address", Value::Address(address)),
            ("home_line", Value::Address(home)),
            ("bytes", Value::Number(bytes as u64)),
            ("waited_for_entry", Value::Number(at_media.accepted - now)),
            ("durable_cycle", Value::Number(written.done)),
        ];
        let name = traffic.name();
        self.draw_request(module, ["writes", "write queue"], name, at_media, &facts);
        let controller = &self.modules[module].controller;
        if self.modules[module].posted.is_none() {
            let row = [at_media.start, at_media.start + controller.row_cycles().1];
            let offset = request.address;
            self.draw_row(Place { module, offset }, name, row, &facts[..3]);
        }
        if request.path == Path::Link {
            self.draw_transfer(module, "write", bytes, at_media.crossed);
        }
    }

    /// A request from its acceptance to its end, and the queue that it is in.
    fn draw_request(
        &mut self,
        module: usize,
        [track, queue]: [&'static str; 2],
        name: &'static str,
        served: Served,
        facts: &[Fact],
    ) {
        let [from, until] = [served.accepted, served.done.max(served.accepted)];
        self.draw(|| Event::span(requests(module, track), name, [from, until], facts));
        for change in [When::Change(from, 1), When::Change(until, -1)] {
            self.draw(|| Event::level(requests(module, queue), change));
        }
    }

    fn draw_row(&mut self, place: Place, name: &'static str, row: [Cycles; 2], facts: &[Fact]) {
        let bank = self.modules[place.module].placement().bank(place.offset);
        let track = Track::new(Kind::Banks, Part::Module(place.module), "bank").numbered(bank);
        self.draw(|| Event::span(track, name, row, facts));
    }

    /// Bytes were on a module's link until then.
    fn draw_transfer(&mut self, module: usize, name: &'static str, bytes: usize, until: Cycles) {
        let took = self.modules[module].controller.transfer_cycles(bytes);
        let span = [until.saturating_sub(took), until];
        let facts = [("bytes", Value::Number(bytes as u64))];
        self.draw(|| Event::span(link(module), name, span, &facts));
    }

    /// Sends bytes over a module's link that no bank has a part in. Returns when they have arrived.
    pub(crate) fn cross(&mut self, module: usize, bytes: usize, now: Cycles) -> Cycles {
        let controller = &mut self.modules[module].controller;
        let arrived = controller.cross(now, bytes);
        if self.draws() {
            let until = arrived - self.modules[module].controller.latency();
            self.draw_transfer(module, "message", bytes, until);
        }
        arrived
    }

    /// The DRAM in front of the NVM was at work for a line.
    #[inline]
    pub(crate) fn draw_dram(&mut self, name: &'static str, line: u64, when: [Cycles; 2]) {
        let track = Track::new(Kind::Requests, Part::Dram, "accesses");
        self.draw(|| Event::span(track, name, when, &[super::line_fact(line)]));
    }
}
