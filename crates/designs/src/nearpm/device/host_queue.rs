//! The host read/write queue (section 5.2, steps 1b to 3b): what the processor reads and writes waits while
//! it conflicts with a command.

use perdure_hardware::device::{Admission, HostAccess, Inside};
use perdure_hardware::line::Line;
use perdure_hardware::time::Cycles;

use super::{NearPmDevice, drawn};
use crate::nearpm::record::SavedWrite;

/// A write that waits in the host queue.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub saved: SavedWrite,
    pub kept: Cycles,
    /// It survives at the banks.
    pub settled: Cycles,
}

impl NearPmDevice {
    pub(super) fn admitted(
        &mut self,
        inside: &mut Inside,
        access: &HostAccess,
        now: Cycles,
    ) -> Admission {
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
                self.counters.delayed_cycles += clear - now;
                let at = if self.flaws.reads_pass { now } else { clear };
                Admission::Admitted { at }
            }
            Some(_) if (clear == now && !behind) || self.flaws.writes_pass => {
                Admission::Admitted { at: now }
            }
            Some(written) => {
                let held = self.hold(access.address, written, now, clear);
                if let Admission::Held { kept, at } = held {
                    drawn::draw_held(inside, access.address, [kept, at]);
                }
                held
            }
        }
    }

    pub(super) fn settles(&mut self, address: u64, kept: Cycles, [came, durable]: [Cycles; 2]) {
        let mut held = self.held.iter_mut().rev();
        if let Some(one) = held.find(|one| one.saved.address == address && one.kept == kept) {
            (one.kept, one.settled) = (came, durable);
        }
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
