//! The undo log in NVM: the format of a record, and where each lies.
//!
//! Each eviction of the executing epoch has one record of one slot, numbered from 0. Records carry
//! the log's *generation*: the number of the commit record that emptied the log last. A record of
//! another generation belongs to an epoch that is over, or to an attempt that a power cut ended.
//!
//! ```text
//! record  0  u64  magic "FRMUNDO1"
//!         8  u64  generation
//!        16  u64  index in the log
//!        24  u64  all records below this index were durable when this one was issued
//!        32  u64  line number
//!        40  64 bytes, the line as it was at its home address
//!       104  zero
//!       120  u64  checksum of all before it (xxh3)
//! ```
//!
//! Consecutive records lie in consecutive rows, and so in different banks, which write them in
//! parallel: a *stripe* is as many rows as there are banks, and is filled row by row, a slot each.

use std::ops::Range;

use perdure_hardware::line::{LINE_BYTES, LineNumber};

use crate::bytes::{checksum, word};
use crate::surviving::{Corruption, Surviving};

/// Bytes of a record's slot. Slots never cross rows.
pub const SLOT_BYTES: usize = 128;

const MAGIC: u64 = u64::from_le_bytes(*b"FRMUNDO1");
const OLD_AT: usize = 40;
const SEAL_AT: usize = SLOT_BYTES - 8;

/// What a line held before an eviction overwrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of the log.
    pub generation: u64,
    /// Position in the log.
    pub index: u64,
    /// Records below this index were durable when this one was issued.
    pub durable_below: u64,
    /// The line.
    pub line: LineNumber,
    /// Its bytes before.
    pub old: [u8; LINE_BYTES],
}

impl Record {
    /// Its bytes.
    pub fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        let numbers = [
            MAGIC,
            self.generation,
            self.index,
            self.durable_below,
            self.line,
        ];
        for (place, number) in slot.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        slot[OLD_AT..OLD_AT + LINE_BYTES].copy_from_slice(&self.old);
        let seal = checksum(&slot[..SEAL_AT]);
        slot[SEAL_AT..].copy_from_slice(&seal.to_le_bytes());
        slot
    }

    /// The record, if its bytes are whole. `ignore_checksum` is a planted bug.
    #[inline(always)]
    pub fn decode(slot: &[u8], ignore_checksum: bool) -> Option<Self> {
        let slot: &[u8; SLOT_BYTES] = slot.try_into().ok()?;
        let number = |at: usize| word(slot, at / 8);
        if number(0) != MAGIC || (number(SEAL_AT) != checksum(&slot[..SEAL_AT]) && !ignore_checksum)
        {
            return None;
        }
        Some(Self {
            generation: number(8),
            index: number(16),
            durable_below: number(24),
            line: number(32),
            old: *slot[OLD_AT..].first_chunk().expect("a line"),
        })
    }
}

/// Where the log's slots are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    start: u64,
    row_bytes: u64,
    stripe_rows: u64,
    /// Records that it has room for.
    pub capacity: u64,
}

impl Log {
    /// The log that an area has room for. None if that is not even one row of slots.
    pub fn within(area: &Range<u64>, bytes: u64, row_bytes: u64, banks: u64) -> Option<Self> {
        let start = area.start.next_multiple_of(row_bytes);
        let end = area.end.min(start.saturating_add(bytes));
        let rows = end.saturating_sub(start) / row_bytes;
        let stripe_rows = banks.min(rows);
        let slots_per_row = row_bytes / SLOT_BYTES as u64;
        let stripes = rows.checked_div(stripe_rows)?;
        let capacity = stripes * stripe_rows * slots_per_row;
        (capacity > 0).then_some(Self {
            start,
            row_bytes,
            stripe_rows,
            capacity,
        })
    }

    /// Rows that consecutive records take in turn.
    pub fn stripe_rows(&self) -> u64 {
        self.stripe_rows
    }

    /// Three numbers that describe it to recovery, together with the area.
    pub fn numbers(&self) -> [u64; 3] {
        [self.row_bytes, self.stripe_rows, self.capacity]
    }

    /// The log of these numbers, if there can be such a log in the area.
    pub fn of_numbers(area: &Range<u64>, numbers: [u64; 3]) -> Option<Self> {
        let [row_bytes, stripe_rows, capacity] = numbers;
        let rows_fit = row_bytes.is_power_of_two()
            && (SLOT_BYTES as u64..=1 << 20).contains(&row_bytes)
            && stripe_rows > 0;
        let slots_per_stripe = (row_bytes / SLOT_BYTES as u64).checked_mul(stripe_rows)?;
        if !rows_fit || !capacity.is_multiple_of(slots_per_stripe) {
            return None;
        }
        let start = area.start.next_multiple_of(row_bytes);
        let end = capacity
            .checked_mul(SLOT_BYTES as u64)?
            .checked_add(start)?;
        (end <= area.end).then_some(Self {
            start,
            row_bytes,
            stripe_rows,
            capacity,
        })
    }

    /// Address of a slot.
    pub fn address(&self, index: u64) -> u64 {
        let slots_per_row = self.row_bytes / SLOT_BYTES as u64;
        let (round, row) = (index / self.stripe_rows, index % self.stripe_rows);
        let (stripe, slot) = (round / slots_per_row, round % slots_per_row);
        let row = stripe * self.stripe_rows + row;
        self.start + row * self.row_bytes + slot * SLOT_BYTES as u64
    }

    /// The record of that index and generation, if it is there and whole.
    #[inline(always)]
    pub fn record(
        &self,
        image: &Surviving,
        index: u64,
        generation: u64,
    ) -> Result<Option<Record>, Corruption> {
        let found = self.any_record(image, index, false)?;
        Ok(found.filter(|record| record.generation == generation && record.index == index))
    }

    /// Whatever whole record is there. `ignore_checksum` is a planted bug.
    #[inline(always)]
    pub fn any_record(
        &self,
        image: &Surviving,
        index: u64,
        ignore_checksum: bool,
    ) -> Result<Option<Record>, Corruption> {
        if index >= self.capacity {
            return Ok(None);
        }
        let slot = image.read(self.address(index), SLOT_BYTES)?;
        Ok(Record::decode(&slot, ignore_checksum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_written_or_not_at_all() {
        let record = Record {
            generation: 7,
            index: 3,
            durable_below: 2,
            line: 1 << 40,
            old: std::array::from_fn(|at| at as u8),
        };
        let slot = record.encode();
        assert_eq!(Record::decode(&slot, false), Some(record));
        for at in 0..SLOT_BYTES {
            let mut damaged = slot;
            damaged[at] ^= 1;
            assert_eq!(Record::decode(&damaged, false), None, "byte {at}");
        }
        assert_eq!(Record::decode(&slot[..120], false), None);
    }

    #[test]
    fn every_slot_is_elsewhere_and_consecutive_ones_are_in_other_banks() {
        let (row, banks) = (512, 8);
        for bytes in [512, 3 * 512, 8 * 512, 37 * 512 + 100, 1 << 20] {
            let area = 4096..4096 + (1 << 16);
            let log = Log::within(&area, bytes, row, banks).unwrap();
            assert_eq!(Log::of_numbers(&area, log.numbers()), Some(log));
            let mut taken = std::collections::BTreeSet::new();
            for index in 0..log.capacity {
                let address = log.address(index);
                assert!(address >= area.start && address + SLOT_BYTES as u64 <= area.end);
                assert!(address < area.start + bytes.max(row));
                assert!(address.is_multiple_of(SLOT_BYTES as u64) && taken.insert(address));
                let bank = |index| log.address(index) / row % banks;
                let rows = log.numbers()[1];
                assert!(index == 0 || rows == 1 || bank(index) != bank(index - 1));
            }
        }
        assert_eq!(Log::within(&(4096..4600), 1 << 20, row, banks), None);
        assert_eq!(Log::of_numbers(&(0..1 << 20), [0, 0, 0]), None);
        assert_eq!(Log::of_numbers(&(0..1 << 20), [512, 8, u64::MAX]), None);
    }
}
