//! Undo entries on their way to the log in NVM, whose format is that of [`frm`](crate::frm::log).
//!
//! Entries become durable in the order of their indices, because the controller starts the writes of
//! a log in the order in which it gets them: so recovery finds a prefix of them whole.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{Line, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::PolicyFailure;
use perdure_hardware::time::Cycles;

use super::SoftwareLogging;
use super::bugs::Bug;
use crate::design::END_EPOCH;
use crate::frm::log::{Record, SLOT_BYTES};
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
        // What is durable by now needs no watching: no write starts before this entry's.
        while self.in_flight.front().is_some_and(|&(_, at)| at <= now) {
            self.in_flight.pop_front();
        }
        let record = Record {
            generation: self.generation,
            index,
            durable_below: index - self.in_flight.len() as u64,
            line,
            old: *old,
        };
        let slot = match self.bug {
            Some(Bug::SlotCounterWraps) => index % 128,
            _ => index,
        };
        let address = self.log.address(slot);
        let done = rows::write(hardware, address, &record.encode(), Traffic::Log, now, 0);
        let live = self.next_index * SLOT_BYTES as u64;
        let peak = &mut hardware.statistics.log_bytes_live_peak;
        *peak = live.max(*peak);
        self.in_flight.push_back((line, done.durable));
        done.durable
    }
}
