//! The address mapping table (section 5.4): from a pool of a thread to where it lies in memory.
//!
//! Programs name virtual addresses. The MMU vouches for each page of a pool as the thread maps it
//! ([`super::MAP`]), so that an entry covers pages that the thread may store to, in one piece, and nothing
//! else: the boundary check that the paper's section 9 leaves open. An entry serves the thread of the system
//! that made it, and no other.

use std::ops::Range;

use super::command::Fault;

/// Threads and pools that an entry's index can name: four bits of each.
const NUMBERS: usize = 16;
const PAGE: u64 = 4096;

/// A pool of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The thread of the system whose it is.
    pub owner: u32,
    /// Where the program sees it.
    pub virtual_start: u64,
    /// Where it lies.
    pub physical_start: u64,
    /// How long it is.
    pub bytes: u64,
}

impl Mapping {
    /// Where bytes lie that the program sees there.
    pub fn translate(&self, address: u64, bytes: u64) -> Option<Range<u64>> {
        let from = address.checked_sub(self.virtual_start)?;
        let end = from.checked_add(bytes)?;
        (end <= self.bytes).then(|| self.physical_start + from..self.physical_start + end)
    }

    /// All of it.
    pub fn physical(&self) -> Range<u64> {
        self.physical_start..self.physical_start + self.bytes
    }
}

/// The table.
#[derive(Clone, Debug)]
pub struct AddressTable(Vec<Option<Mapping>>);

impl Default for AddressTable {
    fn default() -> Self {
        Self(vec![None; NUMBERS * NUMBERS])
    }
}

impl AddressTable {
    /// The index of a pool of a thread, if it can have one.
    pub fn index(pool: u8, thread: u8) -> Option<usize> {
        let (pool, thread) = (usize::from(pool), usize::from(thread));
        (pool < NUMBERS && thread < NUMBERS).then_some(thread * NUMBERS + pool)
    }

    /// The entry of an index.
    pub fn get(&self, index: usize) -> Option<&Mapping> {
        self.0.get(index)?.as_ref()
    }

    /// Makes an entry, or takes one away.
    pub fn set(&mut self, index: usize, mapping: Option<Mapping>) {
        self.0[index] = mapping;
    }

    /// The entry that a thread of the system may use under these numbers.
    pub fn of(&self, pool: u8, thread: u8, owner: u32) -> Result<&Mapping, Fault> {
        let index = Self::index(pool, thread).ok_or(Fault::Pool)?;
        let mapping = self.get(index).ok_or(Fault::Pool)?;
        (mapping.owner == owner)
            .then_some(mapping)
            .ok_or(Fault::Pool)
    }

    /// One more page of a pool, which the MMU has found to be its thread's to store to. With `first`, the
    /// entry begins. False if the page does not lie behind the one before.
    pub fn add_page(&mut self, index: usize, page: &Mapping, first: bool) -> bool {
        let entry = &mut self.0[index];
        match entry {
            Some(pool) if !first => {
                let behind = pool.owner == page.owner
                    && pool.virtual_start + pool.bytes == page.virtual_start
                    && pool.physical_start + pool.bytes == page.physical_start;
                pool.bytes += if behind { PAGE } else { 0 };
                behind
            }
            _ => {
                *entry = Some(*page);
                true
            }
        }
    }
}

/// A page by itself.
pub fn page(owner: u32, virtual_start: u64, physical_start: u64) -> Mapping {
    Mapping {
        owner,
        virtual_start,
        physical_start,
        bytes: PAGE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_covers_the_pages_that_were_vouched_for_and_no_byte_more() {
        let mut table = AddressTable::default();
        let index = AddressTable::index(3, 2).expect("small numbers");
        assert!(table.add_page(index, &page(7, 0x10_0000, 0x8000), true));
        assert!(table.add_page(index, &page(7, 0x10_1000, 0x9000), false));
        assert!(
            !table.add_page(index, &page(7, 0x10_2000, 0xb000), false),
            "a gap"
        );
        assert!(
            !table.add_page(index, &page(8, 0x10_2000, 0xa000), false),
            "another's"
        );
        let pool = table.of(3, 2, 7).expect("its owner");
        assert_eq!(pool.translate(0x10_0ff8, 16), Some(0x8ff8..0x9008));
        assert_eq!(pool.translate(0x10_1000, 4096), Some(0x9000..0xa000));
        for (address, bytes) in [
            (0x10_1000, 4097),
            (0xf_ffff, 1),
            (0x10_2000, 1),
            (u64::MAX, 2),
        ] {
            assert_eq!(pool.translate(address, bytes), None);
        }
        assert_eq!(table.of(3, 2, 8), Err(Fault::Pool));
        assert_eq!(table.of(3, 1, 7), Err(Fault::Pool));
        assert_eq!(AddressTable::index(16, 0), None);
    }
}
