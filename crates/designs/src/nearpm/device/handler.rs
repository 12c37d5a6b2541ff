//! The multi-device handler (section 5.3.2, figures 11 and 12).

use perdure_hardware::device::Inside;
use perdure_hardware::time::Cycles;

use super::{InFlight, NearPmDevice, PORT_PEER, drawn};
use crate::bytes::word;
use crate::nearpm::area::{self, Fill};
use crate::nearpm::parameters::Sync;
use crate::nearpm::points::{POINT_SYNCHRONISED, reached};

impl NearPmDevice {
    /// A commit: the device is done when the transaction's entries are, and tells the others. It deletes the
    /// log when all are; alone, or where devices do not agree, at once.
    pub(super) fn begin_commit(&mut self, inside: &mut Inside, one: &mut InFlight, key: (u8, u8)) {
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
    pub(super) fn hear(&mut self, inside: &mut Inside, message: &[u8; 16], now: Cycles) {
        let (number, device) = (word(message, 0), word(message, 1) as usize);
        let known = self.taken.iter().any(|one| one.saved.number == number);
        self.counters.early_messages += u64::from(!known);
        self.remote.entry(number).or_default().push((device, now));
        self.synchronise(inside, number);
    }

    /// From *executing* to *all complete*: if every device has said that it is done with what is before a
    /// commit, the log is deleted.
    pub(super) fn synchronise(&mut self, inside: &mut Inside, number: u64) {
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
        drawn::draw_commit(inside, &self.taken[at], complete);
        self.units[unit] = done;
        self.counters.busy_cycles += done - dispatched;
    }
}
