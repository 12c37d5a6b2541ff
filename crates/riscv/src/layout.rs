//! How hits look in a machine's memory, for whoever makes code of its own.

#[cfg(doc)]
use crate::Memory;
use crate::instruction::LINE_BYTES;

/// What [`Memory::load_hit`], [`Memory::store_hit`] and [`Memory::fetch_again`] do, as offsets in bytes.
///
/// ```text
/// load or store of 1, 2, 4 or 8 bytes at address a:
///   entry = entries + entry_bytes × ((a >> s1 ^ a >> s2 ^ a >> s3) % entries)     for the index_shifts
///   hits    if the word at entry + read_tag, for a store write_tag, is a & Layout::tag_mask(bytes)
///   then    *accesses += 1, for a store *stores += 1
///           word at (word at entry + stamp) = *accesses
///           the bytes are at (word at entry + bytes) + a % 64, little-endian
/// fetch of a block with hint h:
///   record = records + record_bytes × (h's slot, 32 bits)
///   hits    if the word at record is h's word, 64 bits
///   then    *uses += 1, *fetches += 1, word at record + record_stamp = *uses
/// ```
///
/// All words have 64 bits; the counters wrap. Where nothing hits, nothing is changed; ask the memory. A block
/// may begin while the hart has retired fewer than `*limit` instructions.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Layout {
    /// Three shifts, none below the logarithm of `entry_bytes`.
    pub index_shifts: [u32; 3],
    /// A power of two.
    pub entries: u64,
    /// A power of two.
    pub entry_bytes: u64,
    pub read_tag: usize,
    pub write_tag: usize,
    pub bytes: usize,
    pub stamp: usize,
    pub hint_slot: usize,
    pub hint_word: usize,
    /// A power of two.
    pub record_bytes: u64,
    pub record_stamp: usize,
}

impl Layout {
    /// What an access of so many bytes keeps of its address, to be compared with a tag: beside the line's
    /// number the low bits, which must be zero where it is aligned. An aligned access lies within its line.
    pub const fn tag_mask(bytes: u64) -> u64 {
        !(LINE_BYTES - 1) | (bytes - 1)
    }
}

/// Where a hart's hits are made: see [`Layout`]. The addresses stay as long as the memory is not moved. What
/// is there may change whenever the memory is asked for something, during which nobody else may use it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Direct {
    pub entries: *mut u64,
    pub accesses: *mut u64,
    pub stores: *mut u64,
    pub records: *mut u64,
    pub uses: *mut u64,
    pub fetches: *mut u64,
    /// [`Memory::limit`].
    pub limit: *const u64,
}
