//! Undo entries on their way to the log in NVM, whose format is that of [`frm`](crate::frm::log).
//!
//! Harts log side by side, so an entry may be durable before one with a smaller index is, and a power
//! cut may leave a hole. No entry is written before the one that is as many places before it as the log
//! has banks is durable, and all before that one: behind the first hole, whole entries lie only within
//! that window. Recovery ([`frm`](crate::frm::recovery)) does not stop at the hole: it takes every entry
//! before it, goes on to the window's end, and takes those that are whole there, too.

use std::iter::once;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{Line, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::PolicyFailure;
use perdure_hardware::time::Cycles;

use super::{InFlight, SoftwareLogging};
use crate::epochs::END_EPOCH;
use crate::frm::log::{Record, SLOT_BYTES};
use crate::picl::log::ENTRY_BYTES;
use crate::rows;

impl SoftwareLogging {
    /// Writes an undo entry. Returns when it is durable.
    pub(super) fn log(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        old: &Line,
        now: Cycles,
    ) -> Cycles {
        if self.next_index + self.reserve >= self.log.capacity && !self.asked_to_end {
            self.asked_to_end = true;
            hardware.events.schedule(now, END_EPOCH);
        }
        let index = self.next_index;
        if index >= self.log.capacity {
            let message = format!(
                "the undo log is full: one epoch has stored to {index} lines, and the system call under way goes on; raise software-logging.log_limit_bytes and nvm.bytes, or shorten epochs"
            );
            hardware.failure.get_or_insert(PolicyFailure(message));
            return now;
        }
        self.next_index += 1;
        let horizon = hardware.memory.horizon();
        while (self.in_flight.front()).is_some_and(|entry| entry.durable <= horizon) {
            self.in_flight.pop_front();
        }
        // Another hart may have logged ahead of this one's time: only what is durable by now counts.
        let durable = (self.in_flight.iter()).take_while(|entry| entry.durable <= now);
        let durable_below = index - (self.in_flight.len() - durable.count()) as u64;
        let window = self.log.stripe_rows() as usize;
        let nearest = self.in_flight.len().checked_sub(window);
        let not_before = nearest.map_or(0, |nearest| self.in_flight[nearest].all_durable);
        let record = Record {
            generation: self.generation,
            index,
            durable_below,
            line,
            old: old.0,
        };
        let slot = if self.flaws.slot_counter_wraps {
            index % 128
        } else {
            index
        };
        let address = self.log.address(slot);
        let (bytes, log) = (record.encode(), Traffic::Log);
        let Hardware {
            memory, statistics, ..
        } = &mut *hardware;
        let entry = (ENTRY_BYTES, &mut once(line) as &mut dyn Iterator<Item = _>);
        let durable = match memory.post_entries(address, &bytes, entry, now, statistics) {
            Some(durable) => durable,
            None => rows::write(hardware, address, &bytes, log, now, not_before).durable,
        };
        let live = self.next_index * SLOT_BYTES as u64;
        let peak = &mut self.counters.log_bytes_live_peak;
        *peak = live.max(*peak);
        let before = self.in_flight.back().map_or(0, |last| last.all_durable);
        self.in_flight.push_back(InFlight {
            line,
            durable,
            all_durable: durable.max(before),
        });
        durable
    }
}
