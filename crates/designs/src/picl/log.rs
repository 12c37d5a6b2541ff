//! The undo log in NVM (PiCL §III-D, §IV-B): block format. Where the next block goes is in
//! [`super::space`].
//!
//! One flush of the undo buffer is one block, written in one row operation. Blocks form a chain:
//! each names its predecessor's slot and, because slots are allocated two ahead, those of the next two
//! blocks. So recovery finds the block after one that is not whole, and that one says whether the
//! other had been durable: then it was damaged, and else it is the log's end, which a cut has torn.
//! Where rows are shorter than blocks, a block takes as many row operations as its entries need,
//! and what lies behind them in its slot is not part of it.
//!
//! ```text
//! block   0  u64  sequence number << 16 | entries << 8 | flags; the number is never reused
//!                 flag 1: no more was written than the entries need, and else the whole block
//!                 flag 2: the block before it was still on its way when this one was issued
//!         8  u64  checksum over all else that was written (xxh3)
//!        16  u32  predecessor's slot, or NO_SLOT
//!        20  u32  successor's slot
//!        24  u32  the successor's successor's
//!        28  u32  SystemEID when the block was flushed, low 32 bits
//!        32  entries of 72 bytes:
//!              0  u64  line number << 16 | ValidFrom tag << 8 | ValidTill tag
//!              8  64 bytes, the line as it was
//! ```
//!
//! A super-block is 4 KiB of consecutive blocks and expires as a whole, with the largest ValidTill
//! of its entries. ValidTill is always the SystemEID of creation, so it never falls along the log.

use std::borrow::Cow;
use std::ops::Range;

use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};

use super::epoch_id::EpochIds;
use crate::bytes::checksum;

/// Bytes of a super-block, the unit of expiry.
pub const SUPER_BLOCK_BYTES: u64 = 4096;

/// Names no slot.
pub const NO_SLOT: u32 = u32::MAX;

const HEADER_BYTES: usize = 32;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 8 + LINE_BYTES;

/// Entries that a block of so many bytes holds.
pub const fn entries_per_block(block_bytes: usize) -> usize {
    (block_bytes - HEADER_BYTES) / ENTRY_BYTES
}

/// Bytes of a block up to the end of so many entries.
pub const fn bytes_until(entries: usize) -> usize {
    HEADER_BYTES + entries * ENTRY_BYTES
}

/// An undo entry: `line` held `bytes` from the end of ValidFrom until it changed in ValidTill. In a block
/// that is read, they are where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<Bytes = Line> {
    /// The line.
    pub line: LineNumber,
    /// First epoch at whose end the line held these bytes.
    pub valid_from: u64,
    /// First epoch at whose end it no longer did.
    pub valid_till: u64,
    /// The bytes.
    pub bytes: Bytes,
}

impl<Bytes> Entry<Bytes> {
    /// True if going back to the end of `epoch` needs these bytes.
    pub fn covers(&self, epoch: u64) -> bool {
        self.valid_from <= epoch && epoch < self.valid_till
    }
}

/// A block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Position in the log.
    pub sequence: u64,
    /// Where the block before it is.
    pub predecessor: u32,
    /// Where the two blocks after it will be.
    pub successors: [u32; 2],
    /// SystemEID when it was flushed.
    pub system: u32,
    /// The block before it was still on its way when this one was issued. All others were durable:
    /// there are two undo buffers.
    pub follows_unfinished: bool,
}

const ONLY_ENTRIES: u8 = 1;
const FOLLOWS_UNFINISHED: u8 = 2;

/// An undo buffer: a block that fills, with its entries as they will be written.
#[derive(Clone)]
pub struct UndoBuffer {
    /// Room for the header, and the entries.
    block: Vec<u8>,
    /// The entries without their bytes, which the block has.
    entries: Vec<Entry<()>>,
}

impl UndoBuffer {
    /// One without entries.
    pub fn empty() -> Self {
        Self {
            block: vec![0; HEADER_BYTES],
            entries: Vec::new(),
        }
    }

    /// Its entries without their bytes, oldest first.
    pub fn entries(&self) -> &[Entry<()>] {
        &self.entries
    }

    /// Adds an entry.
    #[inline(always)]
    pub fn push(&mut self, entry: Entry<&Line>, ids: EpochIds) {
        let tags =
            u64::from(ids.tag(entry.valid_from).0) << 8 | u64::from(ids.tag(entry.valid_till).0);
        let word = entry.line << 16 | tags;
        self.block.extend_from_slice(&word.to_le_bytes());
        self.block.extend_from_slice(&entry.bytes.0);
        self.entries.push(Entry {
            line: entry.line,
            valid_from: entry.valid_from,
            valid_till: entry.valid_till,
            bytes: (),
        });
    }

    /// What to write of the block, which then takes no more entries: all of it if it fits a row, else no
    /// more than it needs. And its entries.
    pub fn seal(
        &mut self,
        header: Header,
        block_bytes: usize,
        row_bytes: usize,
    ) -> (&[u8], &[Entry<()>]) {
        let count = self.entries.len();
        let (length, mut flags) = if block_bytes <= row_bytes {
            (block_bytes, 0)
        } else {
            (bytes_until(count), ONLY_ENTRIES)
        };
        if header.follows_unfinished {
            flags |= FOLLOWS_UNFINISHED;
        }
        self.block.resize(length, 0);
        let first = header.sequence << 16 | (count as u64) << 8 | u64::from(flags);
        self.block[..8].copy_from_slice(&first.to_le_bytes());
        let [successor, after_it] = header.successors;
        let numbers = [header.predecessor, successor, after_it, header.system];
        for (place, number) in self.block[16..HEADER_BYTES]
            .chunks_exact_mut(4)
            .zip(numbers)
        {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let seal = seal_of(&self.block);
        self.block[8..16].copy_from_slice(&seal.to_le_bytes());
        (&self.block, &self.entries)
    }

    /// Forgets its entries.
    pub fn clear(&mut self) {
        self.block.truncate(HEADER_BYTES);
        self.entries.clear();
    }

    /// Shows the old bytes of a line that wait in it.
    pub fn show(&self, line: LineNumber, show: &mut dyn FnMut(String, &Line)) {
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.line != line {
                continue;
            }
            let (from, till) = (entry.valid_from, entry.valid_till);
            let place = format!("the undo buffer, as of epoch {from} to before {till}");
            let end = bytes_until(index + 1);
            let bytes = &self.block[end - LINE_BYTES..end];
            show(place, &Line(bytes.try_into().expect("a line")));
        }
    }
}

fn seal_of(block: &[u8]) -> u64 {
    // The first word is mixed in so that the checksum covers it although it comes first.
    let first = u64::from_le_bytes(block[..8].try_into().expect("eight bytes"));
    checksum(&block[16..]) ^ first.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A block as read from NVM.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    bytes: Cow<'a, [u8]>,
    count: usize,
    /// Its header.
    pub header: Header,
}

impl<'a> Block<'a> {
    /// The block, if its bytes are whole. `ignore_checksum` is a planted bug.
    pub fn decode(bytes: impl Into<Cow<'a, [u8]>>, ignore_checksum: bool) -> Option<Self> {
        let bytes = bytes.into();
        let word =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let first = long(0);
        let (count, flags) = ((first >> 8) as u8, first as u8);
        let sealed = match flags & ONLY_ENTRIES {
            0 => &bytes[..],
            _ => bytes.get(..bytes_until(count.into()))?,
        };
        if long(8) != seal_of(sealed) && !ignore_checksum {
            return None;
        }
        let header = Header {
            sequence: first >> 16,
            predecessor: word(16),
            successors: [word(20), word(24)],
            system: word(28),
            follows_unfinished: flags & FOLLOWS_UNFINISHED != 0,
        };
        let count = usize::from(count).min(entries_per_block(sealed.len()));
        Some(Self {
            bytes,
            count,
            header,
        })
    }

    /// The same with a copy of the bytes, of which nothing is borrowed.
    pub fn into_owned(self) -> Block<'static> {
        Block {
            bytes: Cow::Owned(self.bytes.into_owned()),
            count: self.count,
            header: self.header,
        }
    }

    /// Its entries, oldest first. Epochs are counted back from the header's SystemEID, itself the
    /// newest one, no newer than `newest`, with those low 32 bits.
    #[inline]
    pub fn entries(
        &self,
        ids: EpochIds,
        newest: u64,
    ) -> impl DoubleEndedIterator<Item = Entry<&[u8; LINE_BYTES]>> + Clone {
        let system =
            newest.wrapping_sub(newest.wrapping_sub(u64::from(self.header.system)) & 0xffff_ffff);
        self.bytes[HEADER_BYTES..][..self.count * ENTRY_BYTES]
            .chunks_exact(ENTRY_BYTES)
            .map(move |place| {
                let (word, line) = place.split_at(8);
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                let valid_till = ids.epoch(word & 0xff, system);
                Entry {
                    line: word >> 16,
                    valid_from: ids.epoch(word >> 8 & 0xff, valid_till),
                    valid_till,
                    bytes: line.try_into().expect("a line"),
                }
            })
    }

    /// The largest ValidTill of its entries: that of the newest one.
    pub fn valid_till(&self, ids: EpochIds, newest: u64) -> Option<u64> {
        self.entries(ids, newest)
            .next_back()
            .map(|entry| entry.valid_till)
    }
}

/// Address of a slot. Regions are handed out one after another from the log area, so that slots
/// are consecutive.
pub fn slot_address(area: &Range<u64>, slot: u32, block_bytes: u64) -> u64 {
    area.start + u64::from(slot) * block_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries_of(block: &Block, ids: EpochIds, newest: u64) -> Vec<Entry> {
        let entries = block.entries(ids, newest).map(|entry| Entry {
            line: entry.line,
            valid_from: entry.valid_from,
            valid_till: entry.valid_till,
            bytes: Line(*entry.bytes),
        });
        entries.collect()
    }

    fn written(header: Header, entries: &[Entry], ids: EpochIds, row_bytes: usize) -> Vec<u8> {
        let mut buffer = UndoBuffer::empty();
        for entry in entries {
            let (line, valid_from, valid_till) = (entry.line, entry.valid_from, entry.valid_till);
            let bytes = &entry.bytes;
            buffer.push(
                Entry {
                    line,
                    valid_from,
                    valid_till,
                    bytes,
                },
                ids,
            );
        }
        buffer.seal(header, 2048, row_bytes).0.to_vec()
    }

    #[test]
    fn a_block_comes_back_as_written_or_not_at_all() {
        let ids = EpochIds::new(4);
        let entries: Vec<_> = (0..entries_per_block(2048) as u64)
            .map(|index| Entry {
                line: 1000 + index,
                valid_from: 30 - index % 5,
                valid_till: 31 + index / 20,
                bytes: Line([index as u8; 64]),
            })
            .collect();
        assert_eq!(entries.len(), 28);
        let header = Header {
            sequence: 7,
            predecessor: 3,
            successors: [5, 6],
            system: 32,
            follows_unfinished: true,
        };
        let bytes = written(header, &entries, ids, 2048);
        let block = Block::decode(&bytes, false).unwrap();
        assert_eq!(block.header, header);
        assert_eq!(entries_of(&block, ids, 40), entries);
        for at in 0..2048 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(
                Block::decode(&damaged, false).is_none(),
                "byte {at} is not covered"
            );
        }
    }

    #[test]
    fn a_block_of_several_rows_is_as_long_as_its_entries() {
        let ids = EpochIds::new(4);
        let entry = Entry {
            line: 1000,
            valid_from: 3,
            valid_till: 5,
            bytes: Line([7; 64]),
        };
        let header = Header {
            sequence: 7,
            predecessor: 3,
            successors: [5, 6],
            system: 6,
            follows_unfinished: false,
        };
        for count in 1..=entries_per_block(2048) {
            let entries = vec![entry; count];
            let written = written(header, &entries, ids, 64);
            assert_eq!(written.len(), 32 + 72 * count);
            // Behind them lies what an older block has left.
            let mut slot = vec![0xa5; 2048];
            slot[..written.len()].copy_from_slice(&written);
            let block = Block::decode(&slot, false).unwrap();
            assert_eq!(entries_of(&block, ids, 9), entries);
            for at in 0..written.len() {
                slot[at] ^= 1;
                assert!(Block::decode(&slot, false).is_none(), "byte {at}");
                slot[at] ^= 1;
            }
        }
    }
}
