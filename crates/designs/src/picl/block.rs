//! A block of the undo log on its way to the NVM, and where it is drawn.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::LineNumber;
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Track, Value};

use super::level::Level;
use super::log::{self, slot_address};
use super::space::Place;
use super::{Because, InCacheLog};
use crate::rows;

/// Flushes of the undo buffer, from the first byte sent until the block is durable.
const UNDO_LOG: Track = Track::of_design("undo log");

/// Records of the epoch registers, each from its being sent until it is durable.
pub(super) const REGISTERS: Track = Track::of_design("epoch registers");

impl Because {
    const fn name(self) -> &'static str {
        match self {
            Self::Full => "flush of a full buffer",
            Self::Evicted => "flush for an eviction",
            Self::Scanned => "flush for the scan",
        }
    }
}

impl<L: Level> InCacheLog<L> {
    /// Asks the host for where the log will have the next entry, which goes there with its whole block.
    #[inline(always)]
    pub(super) fn prefetch_entry(&self, hardware: &Hardware) {
        let block_bytes = self.parameters.undo_buffer_bytes as u64;
        let block = slot_address(&self.log_area, self.space.next_slots[0], block_bytes);
        let entry = block + log::bytes_until(self.buffer.len()) as u64;
        hardware.memory.arena.prefetch(entry);
    }

    /// Writes what is in the undo buffer as a block of the log. Returns when it is durable.
    pub(super) fn write_block(
        &self,
        hardware: &mut Hardware,
        (place, bytes): (&Place, &[u8]),
        because: Because,
        now: Cycles,
    ) -> Cycles {
        let block_bytes = self.parameters.undo_buffer_bytes as u64;
        let address = slot_address(&self.log_area, place.slot, block_bytes);
        let Hardware {
            memory, statistics, ..
        } = &mut *hardware;
        let lines = &mut self.buffer.iter().map(|entry| entry.line);
        let entries = (
            log::ENTRY_BYTES,
            lines as &mut dyn Iterator<Item = LineNumber>,
        );
        let durable = match memory.post_entries(address, bytes, entries, now, statistics) {
            Some(_) => now, // There nobody waits for an entry.
            None => rows::write(hardware, address, bytes, Traffic::Log, now, 0).durable,
        };
        let facts = [("entries", Value::Number(self.buffer.len() as u64))];
        (hardware.memory).draw_span(UNDO_LOG, because.name(), [now, durable], &facts);
        durable
    }
}
