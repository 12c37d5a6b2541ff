//! `ThyNVM`'s byte formats in NVM: the commit record, the tables that a checkpoint lists, and where
//! checkpoint regions A and B lie.
//!
//! ```text
//! record (two copies)
//!           0  u64  magic "THYNVMCR"
//!           8  u64  number: counts records; the larger one is the newer
//!          16  u64  epoch
//!          24  u64  table entries: pages, 32 … blocks, 40 … overflowed lines
//!         120  u64  checksum
//!
//! table block (the tables of record n are in area n mod 2)
//!           0  u64  magic "THYNVMTB"
//!           8  u64  number of its record
//!          16  u64  its index
//!          24  u64 each: table entries, in the order pages, blocks, overflowed lines:
//!                  page or line number << 24 | slot << 1 | region (0: A, 1: B)
//!          -8  u64  checksum
//! ```
//!
//! A unit that is not listed is at home. Slots are units of 64 bytes or 4 KiB. Where a table slot's
//! place is in its region spreads what is written together over the banks: ways of a set lie in
//! different banks, and so do neighbours in memory, which have the same way of neighbouring sets.

use std::ops::Range;

use perdure_hardware::line::LINE_BYTES;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::version::Place;
use crate::bytes::{Sealed, Writer, sealed, unsealed};
use crate::copies::{COPIES, CommitRecord};
use crate::layout::BootRecord;
use crate::surviving::{Corruption, Surviving};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// Lines of a page.
pub const PAGE_LINES: u64 = PAGE_BYTES / LINE_BYTES as u64;

const TABLE_MAGIC: u64 = u64::from_le_bytes(*b"THYNVMTB");

const TABLE_HEADER_BYTES: u64 = 24;
const CHECKSUM_BYTES: u64 = 8;
const LISTED_BYTES: u64 = 8;

/// Most overflowed lines that there is ever room for.
const OVERFLOW_LIMIT: u64 = 1 << 20;
/// Slots are numbered in so many bits.
const SLOT_BITS: u32 = 23;

/// Kinds of units, in the order in which a checkpoint lists them and recovery brings them home: a
/// block or an overflowed line is newer than the page that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In the page translation table.
    Page,
    /// In the block translation table.
    Block,
    /// In the overflow list.
    Overflow,
}

/// All kinds.
pub const KINDS: [Kind; 3] = [Kind::Page, Kind::Block, Kind::Overflow];

/// The commit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Record {
    /// Counts records.
    pub number: u64,
    /// The epoch at whose end the checkpoint stands.
    pub epoch: u64,
    /// Table entries of each kind.
    pub listed: [u64; 3],
}

impl Sealed for Record {
    const MAGIC: &'static [u8; 8] = b"THYNVMCR";
}

impl CommitRecord for Record {
    const DAMAGED: &'static str = "ThyNVM's commit record: both copies are damaged";
}

/// A unit that a checkpoint needs from a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Page or line number.
    pub key: u64,
    /// Table slot.
    pub slot: usize,
    /// Region; never home.
    pub place: Place,
}

impl Listed {
    /// The table entry.
    pub fn encode(self) -> u64 {
        self.key << (SLOT_BITS + 1) | (self.slot as u64) << 1 | u64::from(self.place == Place::B)
    }

    /// The unit.
    pub fn decode(word: u64) -> Self {
        Self {
            key: word >> (SLOT_BITS + 1),
            slot: (word >> 1 & ((1 << SLOT_BITS) - 1)) as usize,
            place: if word & 1 == 0 { Place::A } else { Place::B },
        }
    }
}

/// The design's part of the boot record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Entries of the block translation table.
    pub block_entries: u64,
    /// Entries of the page translation table.
    pub page_entries: u64,
    /// Ways of both.
    pub table_ways: u64,
    /// Lines for which the overflow list has room.
    pub overflow_entries: u64,
    /// Rows over which consecutive slots of blocks are spread, and their size.
    pub spread_rows: u64,
    /// Bytes of such a row.
    pub spread_row_bytes: u64,
    /// Bytes of a table block: one row operation.
    pub table_block_bytes: u64,
}

impl Shape {
    /// The shape for a machine, with as much room for overflowed lines as there is; `None` if not
    /// even the tables' slots fit.
    pub fn fitting(
        area_bytes: u64,
        block_entries: u64,
        page_entries: u64,
        table_ways: u64,
        banks: u64,
        row_bytes: u64,
    ) -> Option<Self> {
        let mut shape = Self {
            block_entries,
            page_entries,
            table_ways,
            overflow_entries: 0,
            spread_rows: banks.min(64),
            spread_row_bytes: row_bytes.min(PAGE_BYTES),
            table_block_bytes: row_bytes.min(PAGE_BYTES),
        };
        let rest = area_bytes.checked_sub(shape.bytes()?)?;
        // Two slots, two table entries with their share of headers, and rounding up.
        let slack = 4 * (shape.spread_rows * shape.spread_row_bytes + PAGE_BYTES);
        shape.overflow_entries =
            (rest.saturating_sub(slack) / (2 * LINE_BYTES as u64 + 24)).min(OVERFLOW_LIMIT);
        Some(shape)
    }

    /// As the boot record keeps it.
    pub fn encode(&self) -> [u64; 4] {
        [
            self.block_entries << 32 | self.page_entries,
            self.overflow_entries,
            self.spread_rows << 32 | self.spread_row_bytes,
            self.table_ways << 32 | self.table_block_bytes,
        ]
    }

    fn decode([tables, overflow_entries, spread, blocks]: [u64; 4]) -> Option<Self> {
        let shape = Self {
            block_entries: tables >> 32,
            page_entries: tables & 0xffff_ffff,
            table_ways: blocks >> 32,
            overflow_entries,
            spread_rows: spread >> 32,
            spread_row_bytes: spread & 0xffff_ffff,
            table_block_bytes: blocks & 0xffff_ffff,
        };
        let row = |bytes: u64| bytes.is_power_of_two() && (256..=PAGE_BYTES).contains(&bytes);
        (row(shape.spread_row_bytes)
            && row(shape.table_block_bytes)
            && shape.table_ways > 0
            && shape.block_entries.is_multiple_of(shape.table_ways)
            && shape.page_entries.is_multiple_of(shape.table_ways)
            && (1..=64).contains(&shape.spread_rows)
            && shape.block_entries.max(shape.page_entries) < 1 << SLOT_BITS
            && overflow_entries <= OVERFLOW_LIMIT)
            .then_some(shape)
    }

    /// Table entries that one table block holds.
    pub fn listed_per_block(&self) -> usize {
        ((self.table_block_bytes - TABLE_HEADER_BYTES - CHECKSUM_BYTES) / LISTED_BYTES) as usize
    }

    fn entries(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Page => self.page_entries,
            Kind::Block => self.block_entries,
            Kind::Overflow => self.overflow_entries,
        }
    }

    /// Bytes of one table area.
    fn tables_bytes(&self) -> u64 {
        let all = self.block_entries + self.page_entries + self.overflow_entries;
        let blocks = all.div_ceil(self.listed_per_block() as u64);
        (blocks * self.table_block_bytes).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes of the slots of one kind in one region.
    fn slots_bytes(&self, kind: Kind) -> u64 {
        let entries = self.entries(kind);
        match kind {
            Kind::Page => entries * PAGE_BYTES,
            Kind::Block | Kind::Overflow => {
                let stripe = self.spread_rows * self.spread_row_bytes;
                let stripes = (entries * LINE_BYTES as u64).div_ceil(stripe);
                (stripes * stripe).next_multiple_of(PAGE_BYTES)
            }
        }
    }

    /// Bytes of everything.
    fn bytes(&self) -> Option<u64> {
        let slots: u64 = KINDS.iter().map(|&kind| self.slots_bytes(kind)).sum();
        2u64.checked_mul(self.tables_bytes() + slots)
    }
}

/// Where everything lies in the log area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regions {
    /// What it is made of.
    pub shape: Shape,
    tables: [u64; 2],
    /// Region A's and B's start, for each kind.
    slots: [[u64; 2]; 3],
    area: Range<u64>,
}

impl Regions {
    /// Regions of that shape; `None` if they do not fit.
    pub fn new(shape: Shape, area: Range<u64>) -> Option<Self> {
        let mut end = area.start;
        let mut take = |bytes: u64| {
            let start = end;
            end += bytes;
            start
        };
        let tables = [(); 2].map(|()| take(shape.tables_bytes()));
        let slots = KINDS.map(|kind| [(); 2].map(|()| take(shape.slots_bytes(kind))));
        (end <= area.end).then_some(Self {
            shape,
            tables,
            slots,
            area,
        })
    }

    /// As the boot record says.
    pub fn of(boot: &BootRecord) -> Result<Self, Corruption> {
        Shape::decode(boot.design)
            .and_then(|shape| Self::new(shape, boot.layout.log_area.clone()))
            .ok_or(Corruption {
                what: "boot record: not one of ThyNVM",
                address: 0,
            })
    }

    /// Address of a table block.
    pub fn table_block(&self, number: u64, index: usize) -> u64 {
        self.tables[(number % 2) as usize] + index as u64 * self.shape.table_block_bytes
    }

    /// Address of a unit's version.
    #[inline]
    pub fn address(&self, kind: Kind, key: u64, slot: usize, place: Place) -> u64 {
        let region = match place {
            Place::Home if kind == Kind::Page => return key * PAGE_BYTES,
            Place::Home => return key * LINE_BYTES as u64,
            Place::A => 0,
            Place::B => 1,
        };
        let start = self.slots[kind as usize][region];
        let slot = match kind {
            Kind::Page | Kind::Block => self.turned(slot as u64),
            Kind::Overflow => slot as u64,
        };
        if kind == Kind::Page {
            return start + slot * PAGE_BYTES;
        }
        let lines = self.shape.spread_row_bytes / LINE_BYTES as u64;
        let (column, row) = (slot / self.shape.spread_rows, slot % self.shape.spread_rows);
        let stripe = column / lines * self.shape.spread_rows + row;
        start + stripe * self.shape.spread_row_bytes + column % lines * LINE_BYTES as u64
    }

    /// A table's slot with its way turned by the number of its set.
    #[inline]
    fn turned(&self, slot: u64) -> u64 {
        let ways = self.shape.table_ways;
        let set = slot / ways;
        set * ways + (slot + set) % ways
    }

    /// The bytes of a table block.
    pub fn encode_table_block(&self, number: u64, index: usize, listed: &[u64]) -> Vec<u8> {
        let mut writer = Writer::new(TABLE_MAGIC);
        writer.u64(number).u64(index as u64);
        for &word in listed {
            writer.u64(word);
        }
        sealed(writer, self.shape.table_block_bytes as usize)
    }

    /// Everything that a record lists, in the order in which it comes home.
    pub fn read_tables(
        &self,
        image: &Surviving,
        record: &Record,
        protected: &Range<u64>,
    ) -> Result<Vec<(Kind, Listed)>, Corruption> {
        let damaged = |what, address| Corruption { what, address };
        for (kind, count) in KINDS.into_iter().zip(record.listed) {
            if count > self.shape.entries(kind) {
                let what = "commit record: more table entries than the tables have";
                return Err(damaged(what, COPIES[0]));
            }
        }
        let total = record.listed.iter().sum::<u64>() as usize;
        let mut kinds = KINDS
            .into_iter()
            .zip(record.listed)
            .flat_map(|(kind, count)| std::iter::repeat_n(kind, count as usize));
        let mut all = Vec::with_capacity(total);
        for index in 0..total.div_ceil(self.shape.listed_per_block()) {
            let address = self.table_block(record.number, index);
            let bytes = image.read(address, self.shape.table_block_bytes as usize)?;
            let mut reader = unsealed(&bytes, TABLE_MAGIC)
                .ok_or_else(|| damaged("a table block of the checkpoint is damaged", address))?;
            if (reader.u64(), reader.u64()) != (record.number, index as u64) {
                return Err(damaged("a table block is not this checkpoint's", address));
            }
            for kind in kinds.by_ref().take(self.shape.listed_per_block()) {
                let listed = Listed::decode(reader.u64());
                let unit_bytes = match kind {
                    Kind::Page => PAGE_BYTES,
                    Kind::Block | Kind::Overflow => LINE_BYTES as u64,
                };
                let home = listed.key * unit_bytes;
                if (listed.slot as u64) >= self.shape.entries(kind)
                    || home < protected.start
                    || home + unit_bytes > protected.end
                {
                    return Err(damaged("a table entry outside memory or tables", address));
                }
                all.push((kind, listed));
            }
        }
        Ok(all)
    }
}
