//! Units: DMA engine, load/store unit, metadata generator (figure 9).

use std::collections::VecDeque;
use std::ops::Range;

use perdure_hardware::device::Inside;
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;

use super::decode::Doing;
use super::{InFlight, Log, NearPmDevice, drawn};
use crate::nearpm::area::{self, reset_writes};
use crate::nearpm::command::Opcode;
use crate::nearpm::operations::{Makes, Step};
use crate::nearpm::points::{POINT_DONE, accessed, reached};

/// What a unit has read at once.
struct Burst {
    at: u64,
    bytes: Vec<u8>,
    /// It has it.
    moved: Cycles,
}

impl NearPmDevice {
    pub(super) fn execute(&mut self, inside: &mut Inside, one: &mut InFlight, kind: Doing) {
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
            Doing::Steps(steps) => {
                let mut now = one.dispatched;
                for step in &steps {
                    let (moved, done) = self.step(inside, number, step, now);
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
        drawn::draw_command(inside, one);
    }

    pub(super) fn done(&self, inside: &mut Inside, number: u64, at: Cycles) {
        let of = [number, self.index as u64];
        let module = inside.module();
        inside.tell(|| reached(module, POINT_DONE, at, &of));
    }

    /// Makes an entry: the bytes, and when they have passed, the metadata generator's header. Returns when
    /// the unit has passed them on, and when all is durable.
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

    /// A step of an operation. Returns when the unit is through with it, and when all is durable.
    fn step(
        &mut self,
        inside: &mut Inside,
        number: u64,
        step: &Step,
        now: Cycles,
    ) -> (Cycles, Cycles) {
        let Makes::Result(compute) = step.makes else {
            return self.copy(inside, number, &step.from, step.to, now);
        };
        let (mut read, mut computed) = (Vec::new(), now);
        let mut pass = |unit: &mut Self, _: &mut Inside, burst: &Burst| {
            let lines = (burst.bytes.len() as u64).div_ceil(area::LINE);
            computed = computed.max(burst.moved) + lines * unit.settings.compute;
            read.extend(&burst.bytes);
            [computed; 2]
        };
        let (through, _) = self.stream(inside, number, &step.from, now, &mut pass);
        let written = self.write(inside, number, step.to, &compute(&read), through);
        (through, written)
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
        self.counters.copied_bytes += from.end - from.start;
        let mut pass = |unit: &mut Self, inside: &mut Inside, burst: &Burst| {
            let to = to + (burst.at - from.start);
            let written = unit.write(inside, number, to, &burst.bytes, burst.moved);
            [burst.moved, written]
        };
        self.stream(inside, number, from, now, &mut pass)
    }

    /// Reads bytes that lie together, burst by burst, and does something with each: `pass` says when the unit
    /// has room for another one in its place, and when what has come of it is durable. Returns the same of
    /// the last burst, and of all.
    fn stream(
        &mut self,
        inside: &mut Inside,
        number: u64,
        from: &Range<u64>,
        now: Cycles,
        pass: &mut dyn FnMut(&mut Self, &mut Inside, &Burst) -> [Cycles; 2],
    ) -> (Cycles, Cycles) {
        let begins = now
            + if from.end - from.start > area::LINE {
                self.settings.dma
            } else {
                0
            };
        let (mut passed, mut done) = (begins, begins);
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
            let moved = self.bus[0].reserve(read, length);
            let [free, durable] = pass(self, inside, &Burst { at, bytes, moved });
            (passed, done) = (free, done.max(durable));
            under_way.push_back(free);
            at = end;
        }
        (passed, done)
    }

    /// A unit writes. Returns when that is durable.
    pub(super) fn write(
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
}
