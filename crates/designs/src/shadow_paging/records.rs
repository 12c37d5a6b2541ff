//! What shadow paging writes about itself: registers that commit an epoch, and the table of what
//! must still be copied home for it.
//!
//! Always true here:
//! - There are two copies of the registers, in different rows, written one after the other: copy 1
//!   is started when copy 0 is durable, and nothing that depends on a record happens before copy 1
//!   is durable too. So one copy is always whole.
//! - A record is newer than another if its number is larger; a block of the table belongs to the
//!   record of the same number and to no other.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::bytes::{Sealed, Writer, sealed, unsealed};
use crate::copies::{COPIES, CommitRecord};
use crate::surviving::{Corruption, Surviving};

use super::places::Places;

const TABLE_MAGIC: u64 = u64::from_le_bytes(*b"SHADOWTB");

/// The registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Record {
    /// Counts records.
    pub number: u64,
    /// The newest committed epoch.
    pub epoch: u64,
    /// Its pages whose newest bytes are in shadow pages: so many words of the table.
    pub pages: u64,
    /// Its lines that were kept aside: so many more words. If both are zero, the commit is retired:
    /// memory at home is that epoch's.
    pub lines: u64,
}

impl Sealed for Record {
    const MAGIC: &'static [u8; 8] = b"SHADOWRG";
}

impl CommitRecord for Record {
    const DAMAGED: &'static str = "shadow paging's registers: both copies are damaged";
}

impl Record {
    /// The record that says that this one's pages and lines are home.
    #[must_use]
    pub fn retired(&self) -> Self {
        Self {
            number: self.number + 1,
            pages: 0,
            lines: 0,
            ..*self
        }
    }
}

fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

// ---- The table ---------------------------------------------------------------------------------
// Words: first one for each written page (page number and shadow page), then one for each line kept
// aside (the line's number; the place is that of the word's index).

/// Bits of a page's word that name its shadow page.
const FRAME_BITS: u32 = 24;

/// Magic, number, index, and the checksum at the end.
const BLOCK_OVERHEAD_BYTES: u64 = 32;

/// The word of a page.
pub fn page_word(page: u64, frame: u64) -> u64 {
    page << FRAME_BITS | frame
}

/// Page and shadow page of a word.
pub fn page_of_word(word: u64) -> (u64, u64) {
    (word >> FRAME_BITS, word & ((1 << FRAME_BITS) - 1))
}

/// Words that a block takes.
pub fn table_block_words(row_bytes: u64) -> u64 {
    (row_bytes - BLOCK_OVERHEAD_BYTES) / 8
}

/// Blocks for so many words.
pub fn table_blocks(words: u64, row_bytes: u64) -> u64 {
    words.div_ceil(table_block_words(row_bytes))
}

/// Bytes of a block with so many words: whole lines.
fn block_bytes(words: u64) -> usize {
    (BLOCK_OVERHEAD_BYTES + 8 * words).next_multiple_of(64) as usize
}

/// A block of the table of the record of that number.
pub fn encode_block(number: u64, index: u64, words: &[u64]) -> Vec<u8> {
    let mut writer = Writer::new(TABLE_MAGIC);
    writer.u64(number).u64(index);
    for &word in words {
        writer.u64(word);
    }
    sealed(writer, block_bytes(words.len() as u64))
}

/// All words of a record's table.
pub fn read_table(
    image: &Surviving,
    places: &Places,
    record: &Record,
) -> Result<Vec<u64>, Corruption> {
    if record.pages > places.shadow_pages || record.lines > places.overflow_lines {
        return Err(Corruption {
            what: "shadow paging's registers: more pages or lines than there is room for",
            address: COPIES[0],
        });
    }
    let total = record.pages + record.lines;
    let per_block = table_block_words(places.row_bytes);
    let mut table = Vec::with_capacity(total as usize);
    for index in 0..table_blocks(total, places.row_bytes) {
        let words = per_block.min(total - index * per_block);
        let address = places.table_block(index);
        let bytes = image.read(address, block_bytes(words))?;
        let belongs = unsealed(&bytes, TABLE_MAGIC)
            .is_some_and(|mut reader| (reader.u64(), reader.u64()) == (record.number, index));
        if !belongs {
            return Err(Corruption {
                what: "the table of a committed epoch: a damaged block",
                address,
            });
        }
        table.extend(words_of(&bytes).skip(3).take(words as usize));
    }
    Ok(table)
}
