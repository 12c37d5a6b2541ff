//! Units: DMA engine, load/store unit, metadata generator (figure 9).

use std::collections::VecDeque;
use std::ops::Range;

use perdure_hardware::device::Inside;
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;

use super::decode::Doing;
use super::{InFlight, Log, NearPmDevice};
use crate::nearpm::area;
use crate::nearpm::command::Opcode;
use crate::nearpm::pieces::reset_writes;
use crate::nearpm::points::{POINT_DONE, accessed, reached};

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
