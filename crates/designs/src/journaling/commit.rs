//! The end of an epoch, for which the world stands still: flush, journal, commit, copy home, retire.
//!
//! ```text
//! flush      each dirty line of the caches into blocks of the journal, a row each, and the
//!            addresses of what was evicted before
//! record     when all that is durable: the commit record, copy 0, then copy 1
//! copy home  when that is durable: each evicted line, read back from its redo slot by rows, and
//!            each flushed line, which is still in the cache
//! retire     when that is durable: the record that names no block, copy 0; harts go on when it is
//!            durable, and copy 1 follows
//! ```
//!
//! Everything is handed to the controller in one call, in the order of slots and of the flush; the
//! write queue is the only window. Each write carries the time before which it may not start. Events at
//! the ends of the four stages move [`Stage`], and announce the epoch.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::Evicted;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::Track;

use super::journal::{Builder, Kind};
use super::registers::Record;
use super::{Journaling, SUPERSEDED};
use crate::bytes::Sealed;
use crate::copies::COPIES;

/// The journal is durable.
pub const EVENT_JOURNALED: u32 = 0;
/// Both copies of the commit record are.
pub const EVENT_COMMITTED: u32 = 1;
/// All lines are home.
pub const EVENT_HOME: u32 = 2;
/// The journal is retired, and harts go on.
pub const EVENT_RETIRED: u32 = 3;

/// How far the end of the last epoch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is over: an epoch executes.
    Executing,
    /// The caches are being flushed into the journal.
    Flushing,
    /// The commit record is being written.
    Recording,
    /// Lines are being copied home.
    CopyingHome,
    /// The journal is being retired.
    Retiring,
}

impl Journaling {
    /// A dirty line of the flush: into the block that fills, whatever was known of it before.
    pub(super) fn journal_line(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        bytes: &Line,
        now: Cycles,
    ) -> Evicted {
        if !self.flaws.keeps_stale_copy_after_flush
            && let Some(slot) = self.forget(line)
        {
            self.counters.superseded += 1;
            if let Some(line_of_slot) = self.slots.get_mut(slot as usize) {
                *line_of_slot = SUPERSEDED;
            }
        }
        self.flushed.push(line);
        self.lines.push_line(line, bytes);
        let accepted = if self.lines.is_full() {
            self.write_block(hardware, Kind::Lines, now)
        } else {
            now
        };
        // Who flushes waits for the whole journal, not for one line.
        Evicted {
            accepted,
            durable: accepted,
        }
    }

    /// Writes the block that fills, one row operation, and starts the next. Returns when it was
    /// accepted.
    fn write_block(&mut self, hardware: &mut Hardware, kind: Kind, now: Cycles) -> Cycles {
        let (builder, traffic): (&mut Builder, _) = match kind {
            Kind::Lines => (&mut self.lines, Traffic::Log),
            Kind::Addresses => (&mut self.addresses, Traffic::Metadata),
        };
        if builder.is_empty() {
            return now;
        }
        let bytes = builder.seal(self.record_number + 1, self.blocks as u32);
        let address = self.map.block_address(self.blocks);
        self.blocks += 1;
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let done = memory.write_block(address, bytes, traffic, now, 0, statistics);
        builder.clear();
        done.accepted
    }

    /// The addresses of everything that was evicted and not flushed since. The table holds them.
    fn journal_addresses(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        let mut time = now;
        for slot in 0..self.slots.len() {
            let line = self.slots[slot];
            if line == SUPERSEDED {
                continue;
            }
            let redo = self.map.slot_line(slot as u32) * LINE_BYTES as u64;
            let bytes = hardware.memory.arena.line(redo);
            self.addresses.push_address(line, slot as u32, bytes);
            if self.addresses.is_full() {
                time = self.write_block(hardware, Kind::Addresses, time);
            }
        }
        self.write_block(hardware, Kind::Addresses, time)
    }

    /// Writes a record, copy 1 behind copy 0. Returns when each is durable.
    fn write_record(
        &mut self,
        hardware: &mut Hardware,
        epoch: u64,
        blocks: u64,
        now: Cycles,
        not_before: Cycles,
    ) -> [Cycles; 2] {
        self.record_number += 1;
        let record = Record {
            number: self.record_number,
            epoch,
            blocks,
        };
        let bytes = record.encode();
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let mut after = not_before;
        COPIES.map(|copy| {
            after = memory
                .write_block(copy, &bytes, Traffic::Metadata, now, after, statistics)
                .durable;
            after
        })
    }

    /// Copies every line of the journal home, in no case before `committed`. Returns when the last
    /// one was accepted.
    fn copy_home(&mut self, hardware: &mut Hardware, committed: Cycles) -> Cycles {
        let time = self.copy_evicted(hardware, committed);
        self.copy_flushed(hardware, time, committed)
    }

    /// Lines in redo slots. A row is read while the lines of the one before it are written: there
    /// are two row buffers.
    fn copy_evicted(&mut self, hardware: &mut Hardware, committed: Cycles) -> Cycles {
        let mut time = committed;
        let rows = self.map.slot_rows(self.slots.len());
        let mut next = self.read_row(hardware, 0..rows, time);
        while let Some((row, arrived)) = next {
            next = self.read_row(hardware, row + 1..rows, time);
            time = time.max(arrived);
            let Hardware {
                memory, statistics, ..
            } = hardware;
            for (line, slot) in live_slots(&self.map, &self.slots, row) {
                let bytes = *memory
                    .arena
                    .line(self.map.slot_line(slot) * LINE_BYTES as u64);
                let done =
                    memory.write_line(line, &bytes, Traffic::Flush, time, committed, statistics);
                time = done.accepted;
            }
        }
        time
    }

    /// Reads the first of some rows that holds a live line, up to the last one. Returns which and
    /// when it arrives.
    fn read_row(
        &self,
        hardware: &mut Hardware,
        mut rows: std::ops::Range<u64>,
        now: Cycles,
    ) -> Option<(u64, Cycles)> {
        let last = |row| live_slots(&self.map, &self.slots, row).last();
        let (row, last) = rows.find_map(|row| Some((row, last(row)?.1)))?;
        let first = self.map.slots_of_row(row).next()?;
        let start = self.map.slot_line(first) * LINE_BYTES as u64;
        let end = (self.map.slot_line(last) + 1) * LINE_BYTES as u64;
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let arrived = memory.read_block(start, (end - start) as usize, now, statistics);
        Some((row, arrived))
    }

    /// Lines that were flushed just now: they are still in the last-level cache, clean, and are
    /// read there once more.
    fn copy_flushed(&mut self, hardware: &mut Hardware, now: Cycles, committed: Cycles) -> Cycles {
        const AHEAD: usize = 8;
        let port_cycles = hardware.specification.llc.port_cycles;
        let mut time = now;
        for (index, &line) in self.flushed.iter().enumerate() {
            if let Some(ahead) = self.flushed.get(index + AHEAD) {
                hardware.memory.arena.prefetch(ahead * LINE_BYTES as u64);
            }
            let ready = hardware.take_llc_port(hardware.llc.set_of(line), time, port_cycles);
            let cached = hardware.llc.find(line);
            let cached = cached.expect("a flush leaves lines cached, and harts stand still");
            let bytes = *hardware.llc.data(cached);
            let Hardware {
                memory, statistics, ..
            } = hardware;
            time = memory
                .write_line(line, &bytes, Traffic::Flush, ready, committed, statistics)
                .accepted;
        }
        time
    }

    /// Blocks that the journal will have when the one that fills and the addresses are written.
    fn blocks_at_the_end(&self) -> u64 {
        let addresses = self.slots.iter().filter(|&&line| line != SUPERSEDED);
        let per_block = Kind::Addresses.entries(self.map.block_bytes());
        let more = addresses.count().div_ceil(per_block);
        self.blocks + u64::from(!self.lines.is_empty()) + more as u64
    }

    /// The whole of it. Returns when harts may go on.
    pub(super) fn commit(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        self.stage = Stage::Flushing;
        let mut time = hardware.flush(self, now).ready;
        if self.flaws.forgets_last_block {
            self.lines.clear();
        }
        if self.flaws.forgets_overflow {
            for &slot in self.overflow.values() {
                self.slots[slot as usize] = SUPERSEDED;
            }
        }
        let epoch = self.executing;
        let early = (self.flaws.commits_before_journal).then(|| {
            let blocks = self.blocks_at_the_end();
            self.write_record(hardware, epoch, blocks, time, 0)
        });
        time = self.write_block(hardware, Kind::Lines, time);
        time = self.journal_addresses(hardware, time);

        // Evictions may still be in the queue, too: all that was accepted must be durable.
        let journaled = hardware.memory.quiet_at().max(time);
        let blocks = self.blocks;
        if self.flaws.goes_home_before_commit {
            time = self.copy_home(hardware, time);
        }
        let [_, committed] =
            early.unwrap_or_else(|| self.write_record(hardware, epoch, blocks, time, journaled));

        if self.flaws.retires_before_home {
            self.write_record(hardware, epoch, 0, time, committed);
        }
        time = self.copy_home(hardware, committed);
        let home = hardware.memory.quiet_at().max(time);
        let [retired, _] = if self.flaws.never_retires || self.flaws.retires_before_home {
            [home; 2]
        } else {
            self.write_record(hardware, epoch, 0, time, home)
        };

        let stages = [
            ("flush into the journal", journaled),
            ("commit record", committed),
            ("copy home", home),
            ("retire", retired),
        ];
        (hardware.memory).draw_stages(Track::of_design("commit"), now, &stages);
        for (at, event) in [
            (journaled, EVENT_JOURNALED),
            (committed, EVENT_COMMITTED),
            (home, EVENT_HOME),
            (retired, EVENT_RETIRED),
        ] {
            hardware.events.schedule(at, event);
        }
        self.executing += 1;
        self.begin();
        retired
    }

    /// An epoch begins: nothing is in the redo buffer.
    fn begin(&mut self) {
        if !self.flaws.keeps_table_after_commit {
            self.table.clear();
        }
        self.overflow.clear();
        self.asked = false;
        self.slots.clear();
        self.flushed.clear();
        self.blocks = 0;
    }
}

/// The slots of a row whose lines were not flushed since, with these lines.
fn live_slots(
    map: &super::journal::Map,
    slots: &[LineNumber],
    row: u64,
) -> impl Iterator<Item = (LineNumber, u32)> {
    map.slots_of_row(row)
        .map_while(|slot| {
            let line = *slots.get(slot as usize)?;
            Some((line, slot))
        })
        .filter(|(line, _)| *line != SUPERSEDED)
}
