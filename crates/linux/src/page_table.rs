//! Page tables: virtual page number to frame and permissions, four levels of nine bits.
//!
//! Always true: all address spaces take their tables from one arena; a space is named by the slot
//! of its root. An inner entry is one more than the slot of the next table, or zero; a leaf entry
//! is zero or a frame number with [`VALID`]. Virtual page numbers are below 2^36.

use std::ops::Range;

use perdure_riscv::Access;

use crate::arena::Arena;
use crate::machine::{MemoryType, Translation};

/// Leaf entry: loads are allowed.
pub(crate) const READ: u64 = 1;
/// Leaf entry: stores are allowed now.
pub(crate) const WRITE: u64 = 2;
/// Leaf entry: instruction fetch is allowed.
pub(crate) const EXECUTE: u64 = 4;
/// Of mappings alone: `mlock`. Nothing is ever paged out, so it only counts.
pub(crate) const LOCKED: u64 = 16;
/// Of mappings alone: where a page lies is durable before a store to it is let through (`MAP_SYNC`).
pub(crate) const SYNC: u64 = 64;
/// Of mappings alone: a shared one that may not be written now may be later.
pub(crate) const MAY_WRITE: u64 = 512;
/// Of mappings alone: a child does not get it (`MADV_DONTFORK`), or gets it empty (`MADV_WIPEONFORK`).
pub(crate) const NOT_FORKED: u64 = 1024;
pub(crate) const WIPED: u64 = 2048;
/// What a mapping keeps when its permissions change.
pub(crate) const KEPT: u64 = LOCKED | SYNC | TYPE | MAY_WRITE | NOT_FORKED | WIPED;
/// Of mappings and leaf entries: the memory type, a number of two bits.
pub(crate) const TYPE: u64 = 3 << TYPE_SHIFT;
const TYPE_SHIFT: u32 = 7;
/// Leaf entry: a device takes what is loaded and stored there.
pub(crate) const DEVICE: u64 = 32;
/// Leaf entry: there is a frame.
pub(crate) const VALID: u64 = 8;

const FRAME_SHIFT: u32 = 12;
const BITS: u32 = 9;
const MASK: u64 = (1 << BITS) - 1;
const LEVELS: u32 = 4;

/// A leaf entry.
pub(crate) fn entry(frame: u64, permissions: u64) -> u64 {
    frame << FRAME_SHIFT | permissions & (READ | WRITE | EXECUTE | TYPE) | VALID
}

const TYPES: [MemoryType; 4] = [
    MemoryType::WriteBack,
    MemoryType::WriteThrough,
    MemoryType::Uncached,
    MemoryType::WriteCombining,
];

/// A memory type as the permissions of a mapping have it.
pub(crate) fn of_type(memory_type: MemoryType) -> u64 {
    (memory_type as u64) << TYPE_SHIFT
}

/// The memory type of a mapping's permissions or of a leaf entry.
#[inline]
pub(crate) fn type_of(entry: u64) -> MemoryType {
    TYPES[((entry & TYPE) >> TYPE_SHIFT) as usize]
}

/// The frame number of a leaf entry.
#[inline]
pub(crate) fn frame_of(entry: u64) -> u64 {
    entry >> FRAME_SHIFT
}

/// What the page tables say of a virtual page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leaf(pub(crate) u64);

impl Leaf {
    /// Where the page lies, if the access is allowed now.
    #[inline(always)]
    pub fn to(self, access: Access) -> Option<Translation> {
        let need = match access {
            Access::Fetch => EXECUTE,
            Access::Load => READ,
            Access::Store => WRITE,
        };
        (self.0 & need != 0).then(|| Translation {
            physical_frame: frame_of(self.0),
            writable: self.0 & WRITE != 0,
            executable: self.0 & EXECUTE != 0,
            memory_type: type_of(self.0),
        })
    }
}

/// A page table of the last level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LeafTable(u32);

/// Pages whose entries are in one table.
pub const TABLE_PAGES: u64 = 1 << BITS;

/// All virtual page numbers.
pub(crate) const ALL_PAGES: Range<u64> = 0..1 << (BITS * LEVELS);

/// The table that an inner entry names.
#[inline]
fn next_table(entry: u64) -> u32 {
    (entry - 1) as u32
}

/// The tables of all address spaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageTables {
    tables: Arena<512>,
    /// How many tables were given back.
    released: u64,
}

impl PageTables {
    pub fn arena(&self) -> &Arena<512> {
        &self.tables
    }

    /// The root of a new address space.
    pub fn new_root(&mut self) -> u32 {
        self.tables.allocate()
    }

    /// Gives back the root of an address space that has no pages any more.
    pub fn free_root(&mut self, root: u32) {
        self.release(root);
    }

    /// Gives back a table, which may be another one's then.
    fn release(&mut self, slot: u32) {
        self.tables.release(slot);
        self.released += 1;
    }

    /// As long as this is the same, a table is what it was.
    #[inline]
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Page tables from a saved arena, checked: every table is reached from exactly one place, and
    /// every leaf satisfies `leaf_is_valid`.
    pub fn from_arena(
        tables: Arena<512>,
        roots: &[u32],
        mut leaf_is_valid: impl FnMut(u64) -> bool,
    ) -> Result<Self, &'static str> {
        let mut reached = vec![false; tables.slots().len()];
        let mut claim = |slot: u64| match reached.get_mut(slot as usize) {
            Some(seen) => !std::mem::replace(seen, true),
            None => false,
        };
        for &slot in tables.free_slots() {
            if !claim(u64::from(slot)) {
                return Err("a free page table is named twice or does not exist");
            }
            if tables.get(slot).iter().any(|&word| word != 0) {
                return Err("a free page table is not empty");
            }
        }
        if !roots.iter().all(|&root| claim(u64::from(root))) {
            return Err("a root page table is named twice or does not exist");
        }
        let mut waiting: Vec<(u32, u32)> = roots.iter().map(|&root| (root, LEVELS)).collect();
        while let Some((slot, level)) = waiting.pop() {
            for &word in tables.get(slot).iter().filter(|&&word| word != 0) {
                if level == 1 {
                    if word & VALID == 0 || !leaf_is_valid(word) {
                        return Err("a page-table entry names no frame in use");
                    }
                    continue;
                }
                if !claim(word - 1) {
                    return Err("a page table is reached twice or does not exist");
                }
                waiting.push((next_table(word), level - 1));
            }
        }
        Ok(Self {
            tables,
            released: 0,
        })
    }

    /// The leaf entry of a page; zero if there is none.
    #[inline]
    pub fn get(&self, root: u32, page: u64) -> u64 {
        (self.leaf_table(root, page)).map_or(0, |table| self.leaf(table, page))
    }

    /// The table that has, or would have, the leaf entry of a page.
    #[inline]
    pub fn leaf_table(&self, root: u32, page: u64) -> Option<LeafTable> {
        if page >> (BITS * LEVELS) != 0 {
            return None;
        }
        let mut slot = root;
        for level in (1..LEVELS).rev() {
            let next = self.tables.get(slot)[(page >> (level * BITS) & MASK) as usize];
            if next == 0 {
                return None;
            }
            slot = next_table(next);
        }
        Some(LeafTable(slot))
    }

    /// The leaf entry of a page in its table; zero if there is none.
    #[inline(always)]
    pub fn leaf(&self, table: LeafTable, page: u64) -> u64 {
        self.tables.get(table.0)[(page & MASK) as usize]
    }

    /// Sets the leaf entry of a page.
    pub fn set(&mut self, root: u32, page: u64, leaf: u64) {
        let mut slot = root;
        for level in (1..LEVELS).rev() {
            let index = (page >> (level * BITS) & MASK) as usize;
            let next = self.tables.get(slot)[index];
            slot = if next == 0 {
                let new = self.tables.allocate();
                self.tables.get_mut(slot)[index] = u64::from(new) + 1;
                new
            } else {
                next_table(next)
            };
        }
        self.tables.get_mut(slot)[(page & MASK) as usize] = leaf;
    }

    /// Calls `change(page, entry) -> entry` for every page in the range that has an entry, in
    /// order, and frees tables that become empty.
    pub fn update(
        &mut self,
        root: u32,
        pages: Range<u64>,
        mut change: impl FnMut(u64, u64) -> u64,
    ) {
        if pages.start < pages.end {
            self.update_below(root, LEVELS, 0, &pages, &mut change);
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
            } else if self.update_below(next_table(word), level - 1, page, pages, change) {
                self.release(next_table(word));
                0
            } else {
                word
            };
            self.tables.get_mut(slot)[index as usize] = new;
        }
        self.tables.get(slot).iter().all(|&word| word == 0)
    }

    /// How many tables must be made before a page can have an entry.
    pub fn missing(&self, root: u32, page: u64) -> u64 {
        let mut slot = root;
        for level in (1..LEVELS).rev() {
            let next = self.tables.get(slot)[(page >> (level * BITS) & MASK) as usize];
            if next == 0 {
                return u64::from(level);
            }
            slot = next_table(next);
        }
        0
    }

    /// How many tables an address space has.
    pub fn count(&self, root: u32) -> u64 {
        self.count_below(root, LEVELS)
    }

    fn count_below(&self, slot: u32, level: u32) -> u64 {
        if level == 1 {
            return 1;
        }
        let words = self.tables.get(slot).iter().filter(|&&word| word != 0);
        let below = words.map(|&word| self.count_below(next_table(word), level - 1));
        1 + below.sum::<u64>()
    }

    /// Every page that has an entry, in order.
    pub fn for_each(&self, root: u32, mut visit: impl FnMut(u64, u64)) {
        self.visit_below(root, LEVELS, 0, &mut visit);
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
                self.visit_below(next_table(word), level - 1, page, visit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_its_mapping_s_memory_type() {
        for memory_type in TYPES {
            let leaf = entry(77, READ | LOCKED | SYNC | of_type(memory_type));
            assert_eq!(type_of(leaf), memory_type);
            assert_eq!((frame_of(leaf), leaf & (WRITE | DEVICE)), (77, 0));
        }
    }

    #[test]
    fn entries_are_found_updated_and_their_tables_freed() {
        let mut table = PageTables::default();
        let (root, other) = (table.new_root(), table.new_root());
        table.set(other, 1, entry(77, READ));
        let pages = [0, 1, 511, 512, 1 << 18, (1 << 35) - 1];
        for (index, &page) in pages.iter().enumerate() {
            table.set(root, page, entry(index as u64 + 1, READ));
        }
        for (index, &page) in pages.iter().enumerate() {
            assert_eq!(frame_of(table.get(root, page)), index as u64 + 1);
        }
        assert_eq!(table.get(root, 2), 0);
        assert_eq!(table.get(root, u64::MAX >> 12), 0);
        assert_eq!((table.count(root), table.count(other)), (10, 4));
        let missing = [5, 1024, 1 << 19, 1 << 34].map(|page| table.missing(root, page));
        assert_eq!(missing, [0, 1, 2, 3]);
        let mut seen = Vec::new();
        table.update(root, 1..513, |page, word| {
            seen.push(page);
            word | WRITE
        });
        assert_eq!(seen, [1, 511, 512]);
        table.update(root, ALL_PAGES, |_, _| 0);
        table.for_each(root, |page, _| panic!("page {page} is left"));
        assert_eq!(frame_of(table.get(other, 1)), 77);
        table.update(other, ALL_PAGES, |_, _| 0);
        let tables = table.arena();
        assert_eq!(
            tables.free_slots().len() + 2,
            tables.slots().len(),
            "only the roots are in use"
        );
    }
}
