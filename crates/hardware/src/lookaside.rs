//! The lookaside: a small direct-mapped table in front of each L1 data cache that makes a hit one
//! compare.
//!
//! An entry folds translation, tag match, coherence state, version and alignment into its two
//! tags. `read_tag` is the virtual address of a line that the L1 holds; `write_tag` equals it only
//! while the line is also Modified *and* carries the hart's current version. Whatever changes
//! one of these facts must make the compare fail: the hierarchy kills an entry on eviction, invalidation
//! and mapping changes, and revokes write tags on downgrades, cleans and epoch ends. The lookaside is an
//! accelerator of the simulator, not a modelled structure: with it or without it, every statistic and
//! every cycle is the same.

use std::mem::offset_of;

use crate::cache::{Cache, Slot};
use crate::line::{LINE_BYTES, Line};

/// Entries; a power of two.
pub const ENTRIES: usize = 256;

/// A tag that no aligned access can match.
const NEVER: u64 = u64::MAX;

/// One entry.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub struct Entry {
    /// Virtual address of the line, if loads may hit.
    pub read_tag: u64,
    /// Virtual address of the line, if stores may hit.
    pub write_tag: u64,
    /// The line's bytes in the L1.
    pub bytes: *mut u8,
    /// The line's time of last use in the L1.
    pub stamp: *mut u64,
}

const EMPTY: Entry = Entry {
    read_tag: NEVER,
    write_tag: NEVER,
    bytes: std::ptr::null_mut(),
    stamp: std::ptr::null_mut(),
};

const NO_ENTRY: u16 = u16::MAX;
const NO_SLOT: u32 = u32::MAX;

/// The table of one hart.
#[derive(Debug)]
pub struct Lookaside {
    entries: Box<[Entry; ENTRIES]>,
    /// Entry → L1 slot.
    slots: Box<[u32; ENTRIES]>,
    /// L1 slot → entry.
    entry_of_slot: Vec<u16>,
    /// A store may hit something: some entry was installed for stores since they were all revoked.
    any_writable: bool,
}

/// A copy is empty: entries point into the L1 that they were installed for.
impl Clone for Lookaside {
    fn clone(&self) -> Self {
        Self::new(self.entry_of_slot.len())
    }
}

// SAFETY: the pointers point into the L1 cache of the same `Core`, which moves between threads as a
// whole and keeps its buffers on the heap; nothing is shared.
unsafe impl Send for Lookaside {}

/// By how much an address is shifted for each of the three numbers whose exclusive or, less its high bits, is
/// the number of its entry. Hashed, because power-of-two strides would otherwise share one entry.
pub const INDEX_SHIFTS: [u32; 3] = [6, 14, 23];

/// The entry for a virtual address.
#[inline(always)]
pub fn index_of(address: u64) -> usize {
    entry_offset(address) / size_of::<Entry>()
}

/// The same, in bytes from the first entry: fewer steps of the host than by its number.
#[inline(always)]
pub fn entry_offset(address: u64) -> usize {
    const SHIFT: u32 = size_of::<Entry>().ilog2();
    const { assert!(size_of::<Entry>().is_power_of_two()) };
    let [first, second, third] = INDEX_SHIFTS.map(|shift| address >> (shift - SHIFT));
    (first ^ second ^ third) as usize & (ENTRIES - 1) << SHIFT
}

/// What an access of so many bytes keeps of its address, to be compared with a tag: beside the line's number
/// the low bits, which must be zero where it is aligned. An aligned access lies within its line.
#[inline(always)]
pub const fn tag_mask(bytes: usize) -> u64 {
    !(LINE_BYTES as u64 - 1) | (bytes as u64 - 1)
}

/// Where an entry has what, for whoever reads it by itself (`Port::direct`).
impl Entry {
    /// The tag that loads compare.
    pub const READ_TAG: usize = offset_of!(Entry, read_tag);
    /// The one that stores compare.
    pub const WRITE_TAG: usize = offset_of!(Entry, write_tag);
    /// The address of the line's bytes.
    pub const BYTES: usize = offset_of!(Entry, bytes);
    /// The address of the line's time of last use.
    pub const STAMP: usize = offset_of!(Entry, stamp);
}

impl Lookaside {
    /// An empty table for an L1 of so many slots.
    pub fn new(slots: usize) -> Self {
        Self {
            entries: Box::new([EMPTY; ENTRIES]),
            slots: Box::new([NO_SLOT; ENTRIES]),
            entry_of_slot: vec![NO_ENTRY; slots],
            any_writable: false,
        }
    }

    /// Where the entries are, for the hit path.
    #[inline(always)]
    pub fn entries_mut(&mut self) -> *mut Entry {
        self.entries.as_mut_ptr()
    }

    /// The L1 slot of the entry for a virtual address that an access has just hit.
    #[inline(always)]
    pub fn slot_hit(&self, address: u64) -> Slot {
        Slot(self.slots[index_of(address)])
    }

    /// Lets accesses to the line at a virtual address hit an L1 slot.
    #[inline(always)]
    pub fn install(&mut self, address: u64, l1: &mut Cache, slot: Slot, writable: bool) {
        let index = index_of(address);
        self.kill(slot); // The same line under another virtual address.
        if self.slots[index] != NO_SLOT {
            self.entry_of_slot[self.slots[index] as usize] = NO_ENTRY;
        }
        let tag = address & !63;
        let bytes: *mut Line = l1.data_mut(slot);
        self.entries[index] = Entry {
            read_tag: tag,
            write_tag: if writable { tag } else { NEVER },
            bytes: bytes.cast(),
            stamp: l1.stamp_mut(slot),
        };
        self.any_writable |= writable;
        self.slots[index] = slot.0;
        self.entry_of_slot[slot.0 as usize] = index as u16;
    }

    /// No access may hit this slot any more.
    #[inline(always)]
    pub fn kill(&mut self, slot: Slot) {
        let index = std::mem::replace(&mut self.entry_of_slot[slot.0 as usize], NO_ENTRY);
        if index != NO_ENTRY {
            self.entries[index as usize] = EMPTY;
            self.slots[index as usize] = NO_SLOT;
        }
    }

    /// No store may hit this slot any more.
    #[inline(always)]
    pub fn revoke_write(&mut self, slot: Slot) {
        let index = self.entry_of_slot[slot.0 as usize];
        if index != NO_ENTRY {
            self.entries[index as usize].write_tag = NEVER;
        }
    }

    /// No store may hit anything any more: the current version changed.
    pub fn revoke_all_writes(&mut self) {
        if std::mem::take(&mut self.any_writable) {
            for entry in self.entries.iter_mut() {
                entry.write_tag = NEVER;
            }
        }
    }

    /// Nothing may hit any more: mappings changed.
    pub fn kill_all(&mut self) {
        self.entries.fill(EMPTY);
        self.slots.fill(NO_SLOT);
        self.entry_of_slot.fill(NO_ENTRY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entrys_number_is_what_the_shifts_say() {
        let mut random = crate::random::Random::new(1);
        for _ in 0..10_000 {
            let address = random.below(u64::MAX);
            let [first, second, third] = INDEX_SHIFTS.map(|shift| address >> shift);
            let number = (first ^ second ^ third) as usize % ENTRIES;
            assert_eq!(index_of(address), number, "{address:#x}");
            assert_eq!(
                entry_offset(address),
                number * size_of::<Entry>(),
                "{address:#x}"
            );
        }
    }
}
