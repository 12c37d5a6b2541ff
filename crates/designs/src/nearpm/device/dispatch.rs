//! The request FIFO and the dispatcher (section 5.2, steps 1a to 6a).

use std::ops::Range;

use perdure_hardware::device::Inside;
use perdure_hardware::time::Cycles;

use super::decode::Work;
use super::{InFlight, NearPmDevice};
use crate::nearpm::command::{Asked, Fault};
use crate::nearpm::operations;
use crate::nearpm::packet::Packet;
use crate::nearpm::parameters::Sync;
use crate::nearpm::points::{POINT_TAKEN, reached};
use crate::nearpm::record::SavedCommand;

/// For how long a unit hangs.
const HANGS: Cycles = 1 << 44;

impl NearPmDevice {
    /// A command arrives. Returns when the FIFO has taken it.
    pub(super) fn take(&mut self, inside: &mut Inside, packet: &Packet, arrived: Cycles) -> Cycles {
        self.forget_until(inside.horizon());
        self.counters.taken += 1;
        let taken = self.room_at(arrived);
        self.counters.fifo_wait_cycles += taken - arrived.max(self.last_taken).min(taken);
        self.last_taken = taken;
        let command = packet.command;
        let asked = Asked::of(command.opcode);
        let work = (self.decode(inside, packet, asked)).and_then(|work| self.that_can_begin(work));
        if let Err(fault) = &work {
            self.counters.faults += 1;
            let faults = self.faults.entry(command.thread).or_default();
            faults.push((taken, *fault, command.opcode));
        }
        // What is refused does nothing, and nothing when it is replayed.
        let done_as = if work.is_ok() { command.opcode } else { 0 };
        let work = work.unwrap_or_else(|_| Work::nothing());
        let order = self.next_order();
        let number = packet.number;
        let agree = self.settings.sync == Sync::Delayed && packet.devices.count_ones() > 1;
        let operand = (work.touches.first()).map_or(0..0, |(bytes, _)| bytes.clone());
        self.tell_taken(inside, (packet, done_as, agree), (&operand, &work), taken);
        let (unit, dispatched) = self.dispatch(&work, taken);
        let mut one = InFlight {
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
                operand: operand.start,
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
        if asked.is_none() && self.flaws.hangs && self.units_that_live() > 1 {
            one.done = one.dispatched + HANGS;
            self.done(inside, number, one.done);
        }
        self.execute(inside, &mut one, work.kind);
        self.units[unit] = one.done;
        if one.done < Cycles::MAX {
            self.counters.busy_cycles += one.done - dispatched;
            self.works(dispatched, one.done);
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

    /// Refuses what would wait for a transaction that never ends, because others have no such log: of any
    /// other end all devices have heard before the next command comes.
    fn that_can_begin(&self, work: Work) -> Result<Work, Fault> {
        let mut never = self.taken.iter().filter(|one| one.done == Cycles::MAX);
        let conflicts = |one: &InFlight| {
            let mut touches = work.touches.iter();
            touches.any(|(bytes, writes)| one.conflicts(bytes, *writes))
        };
        if work.not_before == Cycles::MAX || never.any(conflicts) {
            return Err(Fault::NoLog);
        }
        Ok(work)
    }

    /// The last one never hangs, or threads would wait for it, and others look after them, until time ends.
    fn units_that_live(&self) -> usize {
        self.units.iter().filter(|free| **free < HANGS).count()
    }

    /// Whoever verifies hears of a command.
    fn tell_taken(
        &self,
        inside: &mut Inside,
        (packet, done_as, agree): (&Packet, u8, bool),
        (operand, work): (&Range<u64>, &Work),
        taken: Cycles,
    ) {
        let (module, command) = (inside.module(), &packet.command);
        let start = self.geometry.region.start;
        let second_and_pool = match operations::find(done_as) {
            Some(_) => [work.second, start + work.area.start, start + work.area.end],
            None => [0; 3],
        };
        let of = [
            packet.number,
            self.index as u64,
            done_as.into(),
            packet.devices.into(),
            agree.into(),
            u64::from(command.pool) | u64::from(command.thread) << 8,
            operand.start,
            operand.end,
            second_and_pool[0],
            second_and_pool[1],
            second_and_pool[2],
        ];
        inside.tell(|| reached(module, POINT_TAKEN, taken, &of));
    }

    /// When the FIFO has room for what arrives.
    fn room_at(&self, arrived: Cycles) -> Cycles {
        let place = self.taken.len().checked_sub(self.settings.fifo_entries);
        let room = place.map_or(0, |place| self.taken[place].dispatched);
        arrived.max(room).max(self.last_taken)
    }

    /// A unit works so long, and does not wait for other devices. Units begin in the order in which this
    /// hears of it.
    fn works(&mut self, from: Cycles, to: Cycles) {
        self.counters.active_cycles += to.saturating_sub(from.max(self.active_until));
        self.active_until = self.active_until.max(to);
    }

    pub(super) fn next_order(&mut self) -> u64 {
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
}
