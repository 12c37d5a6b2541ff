//! Address spaces: what is mapped where, and the page tables that cache the answer.
//!
//! Always true: mappings do not overlap, start and end on pages, and lie below [`SPACE_END`];
//! a page-table entry exists only inside a mapping and allows nothing that the mapping forbids.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut, Range};

use serde::{Deserialize, Serialize};

use crate::frames::Frames;
use crate::machine::{PAGE_BYTES, SpaceId};
pub(crate) use crate::mapping::{Backing, Mapping, Purpose, later_written};
use crate::page_table::{
    ALL_PAGES, EXECUTE, KEPT, LOCKED, NOT_FORKED, PageTables, READ, WIPED, WRITE, frame_of,
};
use crate::vfs::InodeId;

/// First address beyond user space (48-bit addresses, lower half).
pub(crate) const SPACE_END: u64 = 1 << 47;
/// The first thread's stack ends here.
pub(crate) const STACK_TOP: u64 = SPACE_END - PAGE_BYTES;
/// Mappings without a wished-for address are placed downwards from here.
pub(crate) const PLACEMENT_TOP: u64 = SPACE_END - (1 << 30);
/// The lowest address that can be mapped.
pub(crate) const LOWEST: u64 = 0x1_0000;
/// The page that holds the signal-return trampoline.
pub(crate) const TRAMPOLINE: u64 = STACK_TOP;

/// A loaded ELF file, for symbols.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LoadedImage {
    pub inode: InodeId,
    /// What was added to the file's virtual addresses.
    pub bias: u64,
    /// First and last address it occupies.
    pub start: u64,
    pub end: u64,
}

/// An address space.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AddressSpace {
    /// Where its page tables begin.
    root: u32,
    /// Processes that live in it: more than one after `vfork`.
    pub users: u32,
    /// Where the heap begins.
    pub break_start: u64,
    /// The present program break.
    pub break_now: u64,
    /// By start address.
    pub mappings: BTreeMap<u64, Mapping>,
    /// What was loaded where.
    pub images: Vec<LoadedImage>,
    pub page_faults: u64,
    /// What was found when gaps were looked for, by the logarithm of their length.
    #[serde(skip)]
    searched: BTreeMap<u32, Searched>,
}

/// There is no gap of so many bytes above an address, where a mapping begins or placement does.
#[derive(Clone, Copy, Debug)]
struct Searched {
    gap_bytes: u64,
    above: u64,
}

impl AddressSpace {
    /// The slot of its first page table.
    #[inline]
    pub fn root(&self) -> u32 {
        self.root
    }

    /// The mapping that holds an address, with its start.
    pub fn find(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (&start, mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end).then_some((start, mapping))
    }

    /// True if nothing is mapped in the range.
    pub fn is_free(&self, range: &Range<u64>) -> bool {
        self.mappings
            .range(..range.end)
            .next_back()
            .is_none_or(|(_, last)| last.end <= range.start)
    }

    /// True if every byte of the range is mapped.
    pub fn is_covered(&self, range: &Range<u64>) -> bool {
        self.covered(range) == *range
    }

    /// As much of a range, from its start on, as is mapped.
    pub fn covered(&self, range: &Range<u64>) -> Range<u64> {
        let mut at = range.start;
        while at < range.end {
            match self.find(at) {
                Some((_, mapping)) => at = mapping.end,
                None => return range.start..at,
            }
        }
        range.clone()
    }

    /// The highest free place for `length` bytes below the placement top. What earlier searches went
    /// past is not looked at again.
    pub fn find_gap(&mut self, length: u64) -> Option<u64> {
        let class = length.max(1).ilog2();
        let known = self.searched.get(&class);
        let known = known.filter(|known| known.gap_bytes <= length);
        let mut known = known.copied().unwrap_or(Searched {
            gap_bytes: length,
            above: PLACEMENT_TOP,
        });
        let mut top = known.above;
        let mut passes = true;
        let mut floor = LOWEST;
        for (&start, mapping) in self.mappings.range(..top).rev() {
            let gap = top.saturating_sub(mapping.end);
            if mapping.end <= top && gap >= length {
                floor = mapping.end;
                break;
            }
            top = top.min(start);
            passes &= gap < known.gap_bytes;
            if passes {
                known.above = top;
            }
        }
        self.searched.insert(class, known);
        (top >= floor && top - floor >= length).then(|| top - length)
    }

    /// A gap became larger that ends at an address or above.
    fn gap_opened(&mut self, end: u64) {
        let above = self.mappings.range(end..).next();
        let top = above.map_or(PLACEMENT_TOP, |(&start, _)| start.min(PLACEMENT_TOP));
        for known in self.searched.values_mut() {
            known.above = known.above.max(top);
        }
    }

    /// Makes `address` a boundary between mappings.
    pub fn split_at(&mut self, address: u64) {
        let Some((start, &mapping)) = self.find(address) else {
            return;
        };
        if start == address {
            return;
        }
        self.mappings.insert(
            start,
            Mapping {
                end: address,
                ..mapping
            },
        );
        self.mappings
            .insert(address, mapping.advanced(address - start));
    }

    /// Takes the mappings of the range out (not their pages) for good, and returns them.
    pub fn remove(&mut self, range: &Range<u64>) -> Vec<(u64, Mapping)> {
        let taken = self.take(range);
        if let Some((_, last)) = taken.last() {
            self.gap_opened(last.end);
        }
        taken
    }

    /// Takes the mappings of the range out (not their pages) and returns them; others are to be put
    /// in their place.
    pub fn take(&mut self, range: &Range<u64>) -> Vec<(u64, Mapping)> {
        self.split_at(range.start);
        self.split_at(range.end);
        let starts: Vec<u64> = self
            .mappings
            .range(range.clone())
            .map(|(&start, _)| start)
            .collect();
        starts
            .into_iter()
            .filter_map(|start| self.mappings.remove(&start).map(|mapping| (start, mapping)))
            .collect()
    }

    /// Puts a mapping in, joining it with equal neighbours so that the map stays short.
    pub fn insert(&mut self, mut start: u64, mut mapping: Mapping) {
        if let Some((&before, left)) = self.mappings.range(..start).next_back() {
            let continued = left.advanced(start - before);
            if left.end == start && joins(&continued, &mapping) {
                mapping.backing = left.backing;
                start = before;
            }
        }
        if let Some(&right) = self.mappings.get(&mapping.end)
            && joins(&mapping.advanced(mapping.end - start), &right)
        {
            self.mappings.remove(&mapping.end);
            mapping.end = right.end;
        }
        self.mappings.insert(start, mapping);
    }

    /// True if the inode is mapped somewhere.
    pub fn maps_inode(&self, inode: InodeId) -> bool {
        self.mappings
            .values()
            .any(|mapping| mapping.inode() == Some(inode))
    }

    /// The saved form holds only sane mappings; an error says what is not.
    pub fn validate(&self) -> Result<(), &'static str> {
        let mut last_end = 0;
        for (&start, mapping) in &self.mappings {
            let aligned = (start | mapping.end) % PAGE_BYTES == 0;
            if !aligned || start < last_end || mapping.end <= start || mapping.end > SPACE_END {
                return Err("mappings overlap or lie outside user space");
            }
            if mapping.permissions & !(READ | WRITE | EXECUTE | KEPT) != 0 {
                return Err("a mapping has unknown permissions");
            }
            if let Backing::File { offset, .. } = mapping.backing
                && (offset % PAGE_BYTES != 0 || offset.checked_add(SPACE_END).is_none())
            {
                return Err("a mapping's file offset is not on a page");
            }
            last_end = mapping.end;
        }
        if self.break_start > self.break_now || self.break_now > SPACE_END {
            return Err("the program break is outside user space");
        }
        Ok(())
    }
}

/// All address spaces. A number is used again after its space is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spaces {
    /// By number less one.
    spaces: Vec<Option<AddressSpace>>,
    tables: PageTables,
}

impl Spaces {
    /// Spaces from their saved parts; the caller has checked that they belong together.
    pub fn from_parts(spaces: Vec<Option<AddressSpace>>, tables: PageTables) -> Self {
        Self { spaces, tables }
    }

    /// By number less one.
    pub fn slots(&self) -> &[Option<AddressSpace>] {
        &self.spaces
    }

    pub fn tables(&self) -> &PageTables {
        &self.tables
    }

    #[inline]
    pub fn get(&self, id: SpaceId) -> Option<&AddressSpace> {
        self.spaces.get((id.0 as usize).wrapping_sub(1))?.as_ref()
    }

    /// Every space with its number.
    pub fn iter(&self) -> impl Iterator<Item = (SpaceId, &AddressSpace)> {
        let spaces = self.spaces.iter().zip(1..);
        spaces.filter_map(|(space, number)| Some((SpaceId(number), space.as_ref()?)))
    }

    /// An empty space with one user.
    pub fn create(&mut self) -> SpaceId {
        let root = self.tables.new_root();
        self.insert(AddressSpace {
            root,
            users: 1,
            ..AddressSpace::default()
        })
    }

    fn insert(&mut self, space: AddressSpace) -> SpaceId {
        let free = self.spaces.iter().position(Option::is_none);
        let index = free.unwrap_or(self.spaces.len());
        if index == self.spaces.len() {
            self.spaces.push(None);
        }
        self.spaces[index] = Some(space);
        SpaceId(index as u32 + 1)
    }

    /// A copy of a space, for `fork`: frames are shared, and of private pages neither side may
    /// write the common frame. Tells how many pages there are.
    pub fn fork(&mut self, parent: SpaceId, frames: &mut Frames) -> (SpaceId, u64) {
        let root = self.tables.new_root();
        let mut child = AddressSpace {
            root,
            users: 1,
            page_faults: 0,
            ..self[parent].clone()
        };
        child
            .mappings
            .retain(|_, one| one.permissions & NOT_FORKED == 0);
        // Locks on memory are the parent's alone.
        for mapping in child.mappings.values_mut() {
            mapping.permissions &= !LOCKED;
        }
        let (from, mut leaves) = (self[parent].root, Vec::new());
        let copied = child
            .mappings
            .iter()
            .filter(|(_, one)| one.permissions & WIPED == 0);
        for (&start, mapping) in copied {
            let range = pages(&(start..mapping.end));
            self.tables.update(from, range, |page, leaf| {
                frames.retain(frame_of(leaf));
                let common = if mapping.shared { leaf } else { leaf & !WRITE };
                leaves.push((page, common));
                common
            });
        }
        for &(page, leaf) in &leaves {
            self.tables.set(root, page, leaf);
        }
        (self.insert(child), leaves.len() as u64)
    }

    /// Takes a space away, its pages first; returns its mappings.
    pub fn remove(&mut self, id: SpaceId, frames: &mut Frames) -> BTreeMap<u64, Mapping> {
        let place = self.spaces.get_mut((id.0 as usize).wrapping_sub(1));
        let Some(space) = place.and_then(Option::take) else {
            return BTreeMap::new();
        };
        self.tables.update(space.root, ALL_PAGES, |_, leaf| {
            frames.release(frame_of(leaf));
            0
        });
        self.tables.free_root(space.root);
        while self.spaces.last().is_some_and(Option::is_none) {
            self.spaces.pop();
        }
        space.mappings
    }

    /// The page-table entry of a page; zero if there is none.
    #[inline]
    pub fn leaf(&self, id: SpaceId, page: u64) -> u64 {
        match self.get(id) {
            Some(space) => self.tables.get(space.root, page),
            None => 0,
        }
    }

    /// Sets the page-table entry of a page.
    pub fn set_leaf(&mut self, id: SpaceId, page: u64, leaf: u64) {
        let root = self[id].root;
        self.tables.set(root, page, leaf);
    }

    /// Calls `change(page, entry) -> entry` for every page in the range that has an entry.
    pub fn update(&mut self, id: SpaceId, pages: Range<u64>, change: impl FnMut(u64, u64) -> u64) {
        let root = self[id].root;
        self.tables.update(root, pages, change);
    }

    /// Every page of a space that has an entry, in order.
    pub fn for_each_page(&self, id: SpaceId, visit: impl FnMut(u64, u64)) {
        self.tables.for_each(self[id].root, visit);
    }

    /// True if the inode is mapped somewhere.
    pub fn map_inode(&self, inode: InodeId) -> bool {
        self.iter().any(|(_, space)| space.maps_inode(inode))
    }
}

impl Index<SpaceId> for Spaces {
    type Output = AddressSpace;

    /// The space of a live process; a saved state in which a process has none is not restored.
    fn index(&self, id: SpaceId) -> &AddressSpace {
        self.get(id).expect("a live process has an address space")
    }
}

impl IndexMut<SpaceId> for Spaces {
    fn index_mut(&mut self, id: SpaceId) -> &mut AddressSpace {
        let place = self.spaces.get_mut((id.0 as usize).wrapping_sub(1));
        place
            .and_then(Option::as_mut)
            .expect("a live process has an address space")
    }
}

/// True if `right` continues what `left` would be at that place.
fn joins(left: &Mapping, right: &Mapping) -> bool {
    left.permissions == right.permissions
        && left.shared == right.shared
        && left.purpose == right.purpose
        && match (left.backing, right.backing) {
            (Backing::Anonymous, Backing::Anonymous) => true,
            (
                Backing::File {
                    inode: a,
                    offset: x,
                    limit: u64::MAX,
                },
                Backing::File {
                    inode: b,
                    offset: y,
                    limit: u64::MAX,
                },
            ) => a == b && x == y,
            _ => false,
        }
}

/// The page numbers that a byte range touches.
pub(crate) fn pages(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The highest gap, looked for from the top each time.
    fn highest_gap(space: &AddressSpace, length: u64) -> Option<u64> {
        let mut top = PLACEMENT_TOP;
        for (&start, mapping) in space.mappings.range(..PLACEMENT_TOP).rev() {
            if mapping.end <= top && top - mapping.end >= length {
                return Some(top - length);
            }
            top = top.min(start);
        }
        (top >= LOWEST && top - LOWEST >= length).then(|| top - length)
    }

    #[test]
    fn what_was_looked_through_before_changes_no_answer() {
        for seed in 1..=20_u64 {
            let mut state = seed;
            let mut below = |bound: u64| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                (state >> 33) % bound
            };
            let mut space = AddressSpace::default();
            for step in 0..2000 {
                let length = (1 + below(9)) * PAGE_BYTES;
                let gap = space.find_gap(length);
                assert_eq!(gap, highest_gap(&space, length), "seed {seed}, step {step}");
                let mapping = |start: u64, length: u64, permissions| Mapping {
                    end: start + length,
                    permissions,
                    shared: false,
                    backing: Backing::Anonymous,
                    purpose: Purpose::Plain,
                };
                let area = PLACEMENT_TOP - 2000 * PAGE_BYTES;
                match (below(4), gap) {
                    (0, _) => {
                        let start = area + below(2010) * PAGE_BYTES;
                        space.remove(&(start..start + length));
                    }
                    (1, _) => {
                        let start = area + below(2010) * PAGE_BYTES;
                        for (at, found) in space.take(&(start..start + length)) {
                            let permissions = below(4);
                            space.insert(at, mapping(at, found.end - at, permissions));
                        }
                    }
                    // A gap is not always taken.
                    (2, Some(start)) => space.insert(start, mapping(start, length, below(2))),
                    (3, Some(start)) if start > area => {
                        space.insert(start, mapping(start, length, READ));
                    }
                    _ => {}
                }
            }
        }
    }
}
