//! PiCL's registers in NVM (§IV-B, "a memory location in NVM for … PersistedEID"), and how a record
//! gets there.
//!
//! There are two copies of the record, in different rows, written one after the other: copy 1 is
//! started when copy 0 is durable, and nothing that depends on the record happens before copy 1 is
//! durable too. So one copy is always whole, and damage to one copy after the fact never brings an
//! older state back.
//!
//! Besides PersistedEID the record says where recovery finds the log: blocks below a sequence number
//! were durable when it was written, and behind them the chain goes on. Nobody waits for a record
//! but who waits for PersistedEID. This is our addition; the paper does not say how recovery finds the
//! end of the log.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::block::REGISTERS;
use super::level::Level;
use super::log::NO_SLOT;
use super::{EVENT_REGISTERS, InCacheLog};
use crate::bytes::Sealed;
use crate::copies::{COPIES, CommitRecord};
use crate::rows;

/// The registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Record {
    /// Counts records; the larger one is the newer.
    pub number: u64,
    /// The newest fully persisted epoch.
    pub persisted: u64,
    /// Blocks below this sequence number were durable when it was written.
    pub durable_below: u64,
    /// The slot of the last of them, or [`NO_SLOT`].
    pub last_slot: u64,
    /// The slots of the two blocks after it.
    pub next_slots: [u64; 2],
    /// Recovery needs no block below this sequence number.
    pub oldest_needed: u64,
}

impl Record {
    /// A slot as the log has it.
    pub fn slot(number: u64) -> u32 {
        u32::try_from(number).unwrap_or(NO_SLOT)
    }
}

impl Sealed for Record {
    const MAGIC: &'static [u8; 8] = b"PICLREG2";
}

impl CommitRecord for Record {
    const DAMAGED: &'static str = "PiCL's registers: both copies are damaged";
}

/// How far the register record being written has come.
#[derive(Clone, Copy)]
pub(super) enum Writing {
    Nothing,
    Copy0 { record: Record, durable: Cycles },
    Copy1 { record: Record, durable: Cycles },
}

impl<L: Level> InCacheLog<L> {
    /// The record that says what is durable at `time`.
    pub(super) fn record_at(&mut self, time: Cycles) -> Record {
        self.record_number += 1;
        let counts_unfinished = self.flaws.record_counts_unfinished;
        let mut on_their_way = self.flushed.iter();
        let oldest = on_their_way.find(|block| block.reachable > time && !counts_unfinished);
        let space = &self.space;
        let all = (space.next_sequence, space.last_slot, space.next_slots);
        let (durable_below, last_slot, next_slots) = oldest.map_or(all, |block| {
            let next_slots = [block.place.slot, block.place.successors[0]];
            (block.sequence, block.place.predecessor, next_slots)
        });
        let persisted = self.to_announce.max(self.persisted);
        Record {
            number: self.record_number,
            persisted,
            durable_below,
            last_slot: u64::from(last_slot),
            next_slots: next_slots.map(u64::from),
            oldest_needed: self.space.oldest_needed(persisted).min(durable_below),
        }
    }

    fn write_copy(hardware: &mut Hardware, copy: usize, record: &Record, now: Cycles) -> Cycles {
        debug_assert!(COPIES[copy].is_multiple_of(Record::BYTES as u64));
        let bytes = record.encode();
        rows::write(hardware, COPIES[copy], &bytes, Traffic::Metadata, now, 0).durable
    }

    /// Starts a record in the background unless one is under way.
    pub(super) fn start_record(&mut self, hardware: &mut Hardware, now: Cycles) {
        if !matches!(self.writing, Writing::Nothing) {
            return;
        }
        let record = self.record_at(now);
        let durable = Self::write_copy(hardware, 0, &record, now);
        (hardware.memory).draw_span(REGISTERS, "copy 0", [now, durable], &[]);
        self.writing = Writing::Copy0 { record, durable };
        if self.flaws.writes_copies_together {
            let durable = Self::write_copy(hardware, 1, &record, now);
            self.writing = Writing::Copy1 { record, durable };
            hardware.events.schedule(durable, EVENT_REGISTERS);
        }
        self.counters.register_records += 1;
        hardware.events.schedule(durable, EVENT_REGISTERS);
    }

    /// A copy of the record became durable.
    pub(super) fn registers_written(&mut self, hardware: &mut Hardware, now: Cycles) {
        match self.writing {
            Writing::Copy0 { record, durable } if durable <= now => {
                let durable = Self::write_copy(hardware, 1, &record, now);
                self.writing = Writing::Copy1 { record, durable };
                (hardware.memory).draw_span(REGISTERS, "copy 1", [now, durable], &[]);
                hardware.events.schedule(durable, EVENT_REGISTERS);
            }
            Writing::Copy1 { record, durable } if durable <= now => {
                self.writing = Writing::Nothing;
                self.record_durable(hardware, &record, now);
            }
            // With a planted bug that writes both copies at once.
            _ => {}
        }
    }

    fn record_durable(&mut self, hardware: &mut Hardware, record: &Record, now: Cycles) {
        if record.persisted > self.persisted {
            hardware.statistics.epochs_persisted += record.persisted - self.persisted;
            self.persisted = record.persisted;
            let early = u64::from(self.flaws.collects_early);
            self.collect(hardware, self.persisted + early);
            if self.space.live_bytes() < self.full.nearly_bytes {
                self.next_request_bytes = self.full.nearly_bytes;
            }
        }
        if self.to_announce > self.persisted {
            self.start_record(hardware, now);
        }
        self.start_scan_if_due(hardware, now);
    }
}
