//! Undo entries on their way to the log in NVM, whose format is that of [`frm`](crate::frm::log).
//!
//! Entries become durable in the order of their indices, because the controller starts the writes of
//! a log in the order in which it gets them: so recovery finds a prefix of them whole.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{Line, LineNumber};
use perdure_hardware::memory::{Accepted, Memory, Traffic};
use perdure_hardware::policy::PolicyFailure;
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

use super::SoftwareLogging;
use super::bugs::Bug;
use crate::design::END_EPOCH;
use crate::frm::log::{Record, SLOT_BYTES};

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
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let address = self.log.address(slot);
        let (bytes, log) = (record.encode(), Traffic::Log);
        let done = write_rows(
            memory,
            self.row_bytes,
            address,
            &bytes,
            log,
            now,
            0,
            statistics,
        );
        let live = self.next_index * SLOT_BYTES as u64;
        statistics.log_bytes_live_peak = statistics.log_bytes_live_peak.max(live);
        self.in_flight.push_back((line, done.durable));
        done.durable
    }
}

/// Writes bytes that may lie in several rows. Returns when the last piece was accepted, and when all
/// are durable.
#[allow(
    clippy::too_many_arguments,
    reason = "those of Memory::write_block, and the row"
)]
pub(super) fn write_rows(
    memory: &mut Memory,
    row_bytes: usize,
    address: u64,
    bytes: &[u8],
    traffic: Traffic,
    now: Cycles,
    not_before: Cycles,
    statistics: &mut Statistics,
) -> Accepted {
    let mut done = Accepted {
        accepted: now,
        durable: now,
    };
    let mut at = 0;
    while at < bytes.len() {
        let place = address + at as u64;
        let room = row_bytes - place as usize % row_bytes;
        let piece = &bytes[at..bytes.len().min(at + room)];
        let one = memory.write_block(place, piece, traffic, done.accepted, not_before, statistics);
        done.accepted = one.accepted;
        done.durable = done.durable.max(one.durable);
        at += piece.len();
    }
    done
}
