//! The journal in NVM: where redo slots and blocks lie, and what a block says.
//!
//! A *redo slot* holds the 64 bytes of one evicted line and nothing else; slots are handed out in
//! the order of first eviction, and lie as lines of home do (`nvm.home_interleaving`): they take the
//! rows of a stripe in turn, one for each bank, or fill one row after another. Either way a stripe is
//! full after as many slots as it has lines, so that a commit reads them back row by row.
//!
//! ```text
//! log area   first half    blocks, a row each
//!            second half   redo slots: slot k of a stripe of `spread` rows is line k / spread of
//!                          the stripe's row k mod spread
//! ```
//!
//! *Blocks* are written at the end of an epoch, each in one row operation:
//!
//! ```text
//! block   0  u64  XXH3 checksum of the rest of the block, up to its last entry
//!         8  u64  number of the commit record that names it
//!        16  u32  index of the block in its journal
//!        20  u16  kind: 1 lines, 2 addresses
//!        22  u16  entries
//!        24  u64  addresses: the sum of the checks of the slots that it names; lines: zero
//!        32  entries
//!              lines, 72 bytes: u64 line number, then the 64 bytes of the line
//!              addresses, 8 bytes: line number << 24 | slot
//! ```

use std::ops::Range;

use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};

use crate::bytes::checksum;

const HEADER_BYTES: usize = 32;
const LINE_ENTRY_BYTES: usize = 8 + LINE_BYTES;
const ADDRESS_BYTES: usize = 8;
const SLOT_BITS: u32 = 24;

/// Slots that an address can name.
pub const MOST_SLOTS: u64 = 1 << SLOT_BITS;

/// The smallest row that holds a block worth writing.
pub const LEAST_ROW_BYTES: usize = 256;

/// What a block's entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Flushed lines with their bytes.
    Lines = 1,
    /// Evicted lines, whose bytes are in redo slots.
    Addresses = 2,
}

impl Kind {
    const fn entry_bytes(self) -> usize {
        match self {
            Self::Lines => LINE_ENTRY_BYTES,
            Self::Addresses => ADDRESS_BYTES,
        }
    }

    /// Entries that a block of so many bytes holds.
    pub const fn entries(self, block_bytes: usize) -> usize {
        (block_bytes - HEADER_BYTES) / self.entry_bytes()
    }
}

/// Where everything lies. Recovery makes the same map from the boot record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    blocks: Range<u64>,
    slots: Range<u64>,
    row_bytes: u64,
    spread: u64,
}

impl Map {
    /// The map of a log area on media with such rows, so many of which take slots in turn: the banks
    /// that lines of home are dealt out to, or 1.
    pub fn new(log_area: &Range<u64>, row_bytes: u64, spread: u64) -> Self {
        let stripe = row_bytes * spread;
        // Only an aligned stripe has a row of every bank.
        let start = log_area.start.next_multiple_of(stripe);
        let half = log_area.end.saturating_sub(start) / 2 / stripe * stripe;
        Self {
            blocks: start..start + half,
            slots: start + half..start + 2 * half,
            row_bytes,
            spread,
        }
    }

    /// Blocks that there is room for.
    pub fn block_capacity(&self) -> u64 {
        (self.blocks.end - self.blocks.start) / self.row_bytes
    }

    /// Redo slots that there is room for.
    pub fn slot_capacity(&self) -> u64 {
        ((self.slots.end - self.slots.start) / LINE_BYTES as u64).min(MOST_SLOTS)
    }

    /// Bytes of a block: a row.
    pub fn block_bytes(&self) -> usize {
        self.row_bytes as usize
    }

    /// Where a block lies.
    pub fn block_address(&self, index: u64) -> u64 {
        self.blocks.start + index * self.row_bytes
    }

    /// The line of NVM that a slot is.
    #[inline]
    pub fn slot_line(&self, slot: u32) -> LineNumber {
        let lines = self.row_bytes / LINE_BYTES as u64;
        let (stripe, place) = (
            u64::from(slot) / (lines * self.spread),
            u64::from(slot) % (lines * self.spread),
        );
        let row = stripe * self.spread + place % self.spread;
        line_of(self.slots.start + row * self.row_bytes) + place / self.spread
    }

    /// Rows that hold the first `slots` slots.
    pub fn slot_rows(&self, slots: usize) -> u64 {
        let stripe = self.row_bytes / LINE_BYTES as u64 * self.spread;
        let (whole, rest) = (slots as u64 / stripe, slots as u64 % stripe);
        whole * self.spread + rest.min(self.spread)
    }

    /// The slots of a row, in the order of their addresses.
    pub fn slots_of_row(&self, row: u64) -> impl Iterator<Item = u32> + use<> {
        let lines = self.row_bytes / LINE_BYTES as u64;
        let first = row / self.spread * self.spread * lines + row % self.spread;
        let spread = self.spread;
        (0..lines).map(move |column| (first + column * spread) as u32)
    }
}

/// What vouches for a slot's bytes: the controller keeps it in the table, and the block that names
/// the slot carries the sum.
pub fn check_of(line: LineNumber, slot: u32, bytes: &Line) -> u64 {
    checksum(&bytes.0) ^ address_entry(line, slot).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn address_entry(line: LineNumber, slot: u32) -> u64 {
    line << SLOT_BITS | u64::from(slot)
}

/// A block being filled, on chip.
#[derive(Clone, Debug)]
pub struct Builder {
    kind: Kind,
    entries: usize,
    checks: u64,
    bytes: Vec<u8>,
    block_bytes: usize,
}

impl Builder {
    /// An empty block.
    pub fn new(kind: Kind, block_bytes: usize) -> Self {
        let mut bytes = Vec::with_capacity(block_bytes);
        bytes.resize(HEADER_BYTES, 0);
        Self {
            kind,
            entries: 0,
            checks: 0,
            bytes,
            block_bytes,
        }
    }

    /// True if it has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// True if it has no room for another entry.
    pub fn is_full(&self) -> bool {
        self.entries == self.kind.entries(self.block_bytes)
    }

    /// Adds a flushed line.
    pub fn push_line(&mut self, line: LineNumber, bytes: &Line) {
        debug_assert!(self.kind == Kind::Lines && !self.is_full());
        self.bytes.extend_from_slice(&line.to_le_bytes());
        self.bytes.extend_from_slice(&bytes.0);
        self.entries += 1;
    }

    /// Adds the address of an evicted line, whose slot holds these bytes.
    pub fn push_address(&mut self, line: LineNumber, slot: u32, bytes: &Line) {
        debug_assert!(self.kind == Kind::Addresses && !self.is_full());
        self.bytes
            .extend_from_slice(&address_entry(line, slot).to_le_bytes());
        self.checks = self.checks.wrapping_add(check_of(line, slot, bytes));
        self.entries += 1;
    }

    /// The finished block, up to its last entry.
    pub fn seal(&mut self, commit: u64, index: u32) -> &[u8] {
        let header = &mut self.bytes[..HEADER_BYTES];
        header[8..16].copy_from_slice(&commit.to_le_bytes());
        header[16..20].copy_from_slice(&index.to_le_bytes());
        header[20..22].copy_from_slice(&(self.kind as u16).to_le_bytes());
        header[22..24].copy_from_slice(&(self.entries as u16).to_le_bytes());
        header[24..32].copy_from_slice(&self.checks.to_le_bytes());
        let seal = checksum(&self.bytes[8..]);
        self.bytes[..8].copy_from_slice(&seal.to_le_bytes());
        &self.bytes
    }

    /// Starts the next block.
    pub fn clear(&mut self) {
        self.bytes.truncate(HEADER_BYTES);
        self.entries = 0;
        self.checks = 0;
    }
}

/// A block as read from NVM.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// What its entries are.
    pub kind: Kind,
    /// The sum of its slots' checks.
    pub checks: u64,
    entries: &'a [u8],
}

impl<'a> Block<'a> {
    /// The block with this index of the journal of this commit record, if its bytes are whole.
    /// `bytes` is the whole row.
    pub fn decode(bytes: &'a [u8], commit: u64, index: u32) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let long =
            |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let short =
            |at: usize| u16::from_le_bytes(header[at..at + 2].try_into().expect("two bytes"));
        let kind = match short(20) {
            1 => Kind::Lines,
            2 => Kind::Addresses,
            _ => return None,
        };
        let length = usize::from(short(22)) * kind.entry_bytes();
        let entries = rest.get(..length)?;
        let whole = long(0) == checksum(&bytes[8..HEADER_BYTES + length]);
        let named = long(8) == commit && long(16) as u32 == index;
        (whole && named).then_some(Self {
            kind,
            checks: long(24),
            entries,
        })
    }

    /// Flushed lines; none in a block of addresses.
    pub fn lines(self) -> impl Iterator<Item = (LineNumber, Line)> + use<'a> {
        let entries = if self.kind == Kind::Lines {
            self.entries
        } else {
            &[]
        };
        entries.chunks_exact(LINE_ENTRY_BYTES).map(|entry| {
            let (line, data) = entry.split_at(8);
            let mut bytes = Line::ZERO;
            bytes.0.copy_from_slice(data);
            let line = u64::from_le_bytes(line.try_into().expect("eight bytes"));
            (line, bytes)
        })
    }

    /// Evicted lines with their slots; none in a block of lines.
    pub fn addresses(self) -> impl Iterator<Item = (LineNumber, u32)> + use<'a> {
        let entries = if self.kind == Kind::Addresses {
            self.entries
        } else {
            &[]
        };
        entries.chunks_exact(ADDRESS_BYTES).map(|entry| {
            let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
            (entry >> SLOT_BITS, (entry & (MOST_SLOTS - 1)) as u32)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use perdure_hardware::placement::bank_of_row;

    use super::*;

    #[test]
    fn a_block_comes_back_as_written_or_not_at_all() {
        let lines: Vec<_> = (0..Kind::Lines.entries(2048) as u64)
            .map(|index| (1000 + index, Line([index as u8; LINE_BYTES])))
            .collect();
        assert_eq!(lines.len(), 28);
        let mut builder = Builder::new(Kind::Lines, 2048);
        for (line, bytes) in &lines {
            assert!(!builder.is_full());
            builder.push_line(*line, bytes);
        }
        assert!(builder.is_full());
        let bytes = builder.seal(7, 3).to_vec();
        assert_eq!(bytes.len(), 2048, "a full block fills its row");
        let block = Block::decode(&bytes, 7, 3).unwrap();
        assert_eq!(block.lines().collect::<Vec<_>>(), lines);
        assert_eq!(block.addresses().count(), 0);
        assert!(Block::decode(&bytes, 8, 3).is_none(), "of another commit");
        assert!(Block::decode(&bytes, 7, 4).is_none(), "of another place");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(
                Block::decode(&damaged, 7, 3).is_none(),
                "byte {at} is not covered"
            );
        }
        builder.clear();
        assert!(builder.is_empty());
    }

    #[test]
    fn addresses_fill_a_row_and_vouch_for_their_slots() {
        assert_eq!(Kind::Addresses.entries(2048), 252);
        let mut builder = Builder::new(Kind::Addresses, 2048);
        let bytes = [Line([1; LINE_BYTES]), Line([2; LINE_BYTES])];
        builder.push_address((1 << 40) - 2, 0xff_ffff, &bytes[0]);
        builder.push_address(5, 0, &bytes[1]);
        let mut row = builder.seal(1, 0).to_vec();
        row.resize(2048, 0xee);
        let block = Block::decode(&row, 1, 0).unwrap();
        let found: Vec<_> = block.addresses().collect();
        assert_eq!(found, [((1 << 40) - 2, 0xff_ffff), (5, 0)]);
        let sum = |first: &Line, second: &Line| {
            check_of(found[0].0, found[0].1, first)
                .wrapping_add(check_of(found[1].0, found[1].1, second))
        };
        assert_eq!(block.checks, sum(&bytes[0], &bytes[1]));
        assert_ne!(block.checks, sum(&bytes[1], &bytes[0]), "slots exchanged");
    }

    #[test]
    fn slots_take_the_rows_of_a_stripe_in_turn_and_fill_them() {
        let map = Map::new(&(4096..4096 + (1 << 20)), 512, 4);
        assert_eq!(map.slot_capacity(), (1 << 19) / 64);
        let mut seen = BTreeSet::new();
        for slot in 0..map.slot_capacity() as u32 {
            let line = map.slot_line(slot);
            assert!(seen.insert(line), "slot {slot} lies on another");
            assert!(map.slots.contains(&(line * 64)));
            let row = (line * 64 - map.slots.start) / 512;
            assert_eq!(row % 4, u64::from(slot % 4), "slots take rows in turn");
            let place = map.slots_of_row(row).position(|other| other == slot);
            assert_eq!(place, Some((line % 8) as usize));
            assert!(row < map.slot_rows(slot as usize + 1));
            assert!(map.slot_rows(slot as usize) <= map.slot_rows(slot as usize + 1));
        }
        assert_eq!(map.slot_rows(0), 0);
        assert_eq!(map.slot_rows(3), 3);
        assert_eq!(map.slot_rows(32), 4, "eight lines in each of four rows");
        assert_eq!(map.slot_rows(33), 5);
    }

    #[test]
    fn where_home_is_dealt_out_by_rows_slots_follow_each_other() {
        let map = Map::new(&(4096..4096 + (1 << 20)), 512, 1);
        let first = map.slot_line(0);
        for slot in 0..map.slot_capacity() as u32 {
            assert_eq!(map.slot_line(slot), first + u64::from(slot));
        }
        assert!(map.slots_of_row(2).eq(16..24));
        assert_eq!([0, 1, 8, 9].map(|slots| map.slot_rows(slots)), [0, 1, 1, 2]);
    }

    /// The rows of a stripe are in as many banks, wherever the log area begins.
    #[test]
    fn a_stripe_of_slots_has_a_row_of_every_bank() {
        for start in (1..=64).map(|page| page * 4096) {
            let map = Map::new(&(start..start + (1 << 20)), 2048, 8);
            let bank = |slot| bank_of_row(map.slot_line(slot) / 32, 8);
            let banks: BTreeSet<_> = (0..8).map(bank).collect();
            assert_eq!(banks.len(), 8, "log area from {start}");
        }
    }
}
