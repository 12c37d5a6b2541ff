//! A block of the undo log on its way to the NVM, and where it is drawn.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::LineNumber;
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Track, Value};

use super::filter::Filter;
use super::level::Level;
use super::log::{self, Header, slot_address};
use super::space::Place;
use super::{Because, Flushed, InCacheLog};
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
        let entry = block + log::bytes_until(self.buffer.entries().len()) as u64;
        hardware.memory.arena.prefetch(entry);
    }

    /// Writes the undo buffer as a block of the log. Returns when it is durable.
    pub(super) fn write_block(
        &mut self,
        hardware: &mut Hardware,
        (place, header): (&Place, Header),
        because: Because,
        now: Cycles,
    ) -> Cycles {
        let block_bytes = self.parameters.undo_buffer_bytes;
        let address = slot_address(&self.log_area, place.slot, block_bytes as u64);
        let row_bytes = hardware.specification.nvm.row_bytes;
        let Hardware {
            memory, statistics, ..
        } = &mut *hardware;
        let (bytes, entries) = self.buffer.seal(header, block_bytes, row_bytes);
        let lines = &mut entries.iter().map(|entry| entry.line);
        let entries = (
            log::ENTRY_BYTES,
            lines as &mut dyn Iterator<Item = LineNumber>,
        );
        let durable = match memory.post_entries(address, bytes, entries, now, statistics) {
            Some(_) => now, // There nobody waits for an entry.
            None => rows::write(hardware, address, bytes, Traffic::Log, now, 0).durable,
        };
        let facts = [("entries", Value::Number(self.buffer.entries().len() as u64))];
        (hardware.memory).draw_span(UNDO_LOG, because.name(), [now, durable], &facts);
        durable
    }

    /// Forgets the blocks that everybody finds durable; the last of them.
    pub(super) fn forget_past(&mut self, horizon: Cycles) -> Option<Flushed> {
        let mut past = None;
        while self
            .flushed
            .front()
            .is_some_and(|block| block.reachable <= horizon)
        {
            past = self.flushed.pop_front();
        }
        past
    }

    /// Empties the undo buffer: its filter, and the lines of its entries. What a block that is past had is
    /// used again.
    pub(super) fn empty_buffer(&mut self, past: Option<Flushed>) -> (Filter, Vec<LineNumber>) {
        let (mut filter, mut lines) = past.map_or_else(
            || (Filter::new(self.parameters.bloom_filter_bits), Vec::new()),
            |past| (past.filter, past.lines),
        );
        filter.clear();
        lines.clear();
        lines.extend(self.buffer.entries().iter().map(|entry| entry.line));
        self.buffer.clear();
        (std::mem::replace(&mut self.filter, filter), lines)
    }
}
