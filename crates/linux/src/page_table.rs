//! Page tables: virtual page number to frame and permissions, four levels of nine bits.
//!
//! Always true: table 0 is the root; an inner entry is the slot of the next table or zero; a leaf
//! entry is zero or a frame number with [`VALID`]. Virtual page numbers are below 2^36.

use std::ops::Range;

use crate::arena::Arena;

/// Leaf entry: loads are allowed.
pub(crate) const READ: u64 = 1;
/// Leaf entry: stores are allowed now.
pub(crate) const WRITE: u64 = 2;
/// Leaf entry: instruction fetch is allowed.
pub(crate) const EXECUTE: u64 = 4;
/// Leaf entry: there is a frame.
pub(crate) const VALID: u64 = 8;

const FRAME_SHIFT: u32 = 12;
const BITS: u32 = 9;
const MASK: u64 = (1 << BITS) - 1;
const LEVELS: u32 = 4;

/// A leaf entry.
pub(crate) fn entry(frame: u64, permissions: u64) -> u64 {
    frame << FRAME_SHIFT | permissions | VALID
}

/// The frame number of a leaf entry.
#[inline]
pub(crate) fn frame_of(entry: u64) -> u64 {
    entry >> FRAME_SHIFT
}

/// The tables of one address space.
#[derive(Clone, Debug)]
pub(crate) struct PageTable {
    tables: Arena<512>,
}

impl PageTable {
    pub fn new() -> Self {
        let mut tables = Arena::default();
        tables.allocate();
        Self { tables }
    }

    pub fn tables(&self) -> &Arena<512> {
        &self.tables
    }

    /// Page tables from a saved arena, checked: every table is reached at most once, and every
    /// leaf satisfies `leaf_is_valid`.
    pub fn from_arena(
        tables: Arena<512>,
        mut leaf_is_valid: impl FnMut(u64) -> bool,
    ) -> Result<Self, &'static str> {
        let count = tables.slots().len();
        let mut reached = vec![false; count];
        if count == 0 {
            return Err("no root page table");
        }
        for &slot in tables.free_slots() {
            match reached.get_mut(slot as usize) {
                Some(seen) if !*seen && slot != 0 => *seen = true,
                _ => return Err("a free page table is named twice or does not exist"),
            }
            if tables.get(slot).iter().any(|&word| word != 0) {
                return Err("a free page table is not empty");
            }
        }
        let mut waiting = vec![(0_u32, LEVELS)];
        reached[0] = true;
        while let Some((slot, level)) = waiting.pop() {
            for &word in tables.get(slot).iter().filter(|&&word| word != 0) {
                if level == 1 {
                    if word & VALID == 0 || !leaf_is_valid(word) {
                        return Err("a page-table entry names no frame in use");
                    }
                    continue;
                }
                match reached.get_mut(word as usize) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return Err("a page table is reached twice or does not exist"),
                }
                waiting.push((word as u32, level - 1));
            }
        }
        Ok(Self { tables })
    }

    /// The leaf entry of a page; zero if there is none.
    #[inline]
    pub fn get(&self, page: u64) -> u64 {
        if page >> (BITS * LEVELS) != 0 {
            return 0;
        }
        let mut slot = 0;
        for level in (1..LEVELS).rev() {
            let next = self.tables.get(slot)[(page >> (level * BITS) & MASK) as usize];
            if next == 0 {
                return 0;
            }
            slot = next as u32;
        }
        self.tables.get(slot)[(page & MASK) as usize]
    }

    /// Sets the leaf entry of a page.
    pub fn set(&mut self, page: u64, leaf: u64) {
        let mut slot = 0;
        for level in (1..LEVELS).rev() {
            let index = (page >> (level * BITS) & MASK) as usize;
            let next = self.tables.get(slot)[index];
            slot = if next == 0 {
                let new = self.tables.allocate();
                self.tables.get_mut(slot)[index] = u64::from(new);
                new
            } else {
                next as u32
            };
        }
        self.tables.get_mut(slot)[(page & MASK) as usize] = leaf;
    }

    /// Calls `change(page, entry) -> entry` for every page in the range that has an entry, in
    /// order, and frees tables that become empty.
    pub fn update(&mut self, pages: Range<u64>, mut change: impl FnMut(u64, u64) -> u64) {
        if pages.start < pages.end {
            self.update_below(0, LEVELS, 0, &pages, &mut change);
        }
    }

    /// True if the table at `slot` is empty afterwards.
    fn update_below(
        &mut self,
        slot: u32,
        level: u32,
        base: u64,
        pages: &Range<u64>,
        change: &mut impl FnMut(u64, u64) -> u64,
    ) -> bool {
        let shift = (level - 1) * BITS;
        let first = pages.start.saturating_sub(base) >> shift;
        let last = ((pages.end - 1 - base) >> shift).min(MASK);
        for index in first..=last {
            let word = self.tables.get(slot)[index as usize];
            if word == 0 {
                continue;
            }
            let page = base + (index << shift);
            let new = if level == 1 {
                change(page, word)
            } else if self.update_below(word as u32, level - 1, page, pages, change) {
                self.tables.release(word as u32);
                0
            } else {
                word
            };
            self.tables.get_mut(slot)[index as usize] = new;
        }
        self.tables.get(slot).iter().all(|&word| word == 0)
    }

    /// Every page that has an entry, in order.
    pub fn for_each(&self, mut visit: impl FnMut(u64, u64)) {
        self.visit_below(0, LEVELS, 0, &mut visit);
    }

    fn visit_below(&self, slot: u32, level: u32, base: u64, visit: &mut impl FnMut(u64, u64)) {
        let shift = (level - 1) * BITS;
        for (index, &word) in self.tables.get(slot).iter().enumerate() {
            if word == 0 {
                continue;
            }
            let page = base + ((index as u64) << shift);
            if level == 1 {
                visit(page, word);
            } else {
                self.visit_below(word as u32, level - 1, page, visit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_updated_and_their_tables_freed() {
        let mut table = PageTable::new();
        let pages = [0, 1, 511, 512, 1 << 18, (1 << 35) - 1];
        for (index, &page) in pages.iter().enumerate() {
            table.set(page, entry(index as u64 + 1, READ));
        }
        for (index, &page) in pages.iter().enumerate() {
            assert_eq!(frame_of(table.get(page)), index as u64 + 1);
        }
        assert_eq!(table.get(2), 0);
        assert_eq!(table.get(u64::MAX >> 12), 0);
        let mut seen = Vec::new();
        table.update(1..513, |page, word| {
            seen.push(page);
            word | WRITE
        });
        assert_eq!(seen, [1, 511, 512]);
        table.update(0..1 << 36, |_, _| 0);
        table.for_each(|page, _| panic!("page {page} is left"));
        let tables = table.tables();
        assert_eq!(
            tables.free_slots().len() + 1,
            tables.slots().len(),
            "only the root is in use"
        );
    }
}
