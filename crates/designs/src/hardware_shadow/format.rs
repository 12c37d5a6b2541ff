//! What a shadow scheme writes about itself: a mapping table, a radix tree of 8-byte words, and the
//! record that commits an epoch. Also used by `software-shadow`.
//!
//! ```text
//! log area   root        a word for each 64 × 64 × 64 lines of memory
//!            nodes       64 words each, three levels; those of the last are leaves
//!            slots       64 bytes each, `copies` of them in a group, a group for each mapped line
//!
//! word of root or inner node     number of the node + 1; 0: no line there is mapped
//! word of a leaf      0..28      group
//!                    28..30      place of the newest version
//!                    30..32      place of the version before it
//!                    32..64      epoch that wrote the newest
//! ```
//!
//! A *place* is 0 for the line's home address, or the number of a slot in its group. A word is never
//! torn, so a table that is being updated can be read: a word whose epoch is not committed stands
//! for the version before.
//!
//! The record vouches for the table: it carries the sum of a checksum of each mapping that its epoch
//! leaves, which the controller keeps up to date by adding and subtracting.

use std::ops::Range;

use perdure_hardware::line::{LINE_BYTES, LineNumber};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::bytes::{Sealed, checksum};
use crate::copies::CommitRecord;
use crate::layout::Layout;
use crate::surviving::{Corruption, Surviving};

/// Words of a node.
pub const NODE_WORDS: u64 = 64;
/// Bytes of a node.
pub const NODE_BYTES: u64 = 8 * NODE_WORDS;
/// Levels of nodes below the root.
pub const LEVELS: u32 = 3;
/// Groups that a word can name.
const MOST_GROUPS: u64 = 1 << 28;

/// Where a version of a line is: 0 at home, else in that slot of its group.
pub type Place = u8;

/// The home address.
pub const HOME: Place = 0;

// ---- Where everything lies ---------------------------------------------------------------------

/// Units of one size, dealt out to the banks in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Area {
    start: u64,
    unit_bytes: u64,
    /// Consecutive bytes of one bank, or a unit if that is larger.
    chunk_bytes: u64,
    banks: u64,
    capacity: u64,
}

impl Area {
    fn new(range: Range<u64>, unit_bytes: u64, row_bytes: u64, banks: u64) -> Self {
        let chunk_bytes = row_bytes.max(unit_bytes);
        let start = range.start.next_multiple_of(chunk_bytes);
        let stripes = range.end.saturating_sub(start) / (chunk_bytes * banks);
        Self {
            start,
            unit_bytes,
            chunk_bytes,
            banks,
            capacity: stripes * banks * (chunk_bytes / unit_bytes),
        }
    }

    fn address(&self, index: u64) -> u64 {
        let per_chunk = self.chunk_bytes / self.unit_bytes;
        let (round, bank) = (index / self.banks, index % self.banks);
        let chunk = round / per_chunk * self.banks + bank;
        self.start + chunk * self.chunk_bytes + round % per_chunk * self.unit_bytes
    }
}

/// Where everything lies. Recovery makes the same map from the boot record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Slots of a group: versions of a line beside that at home.
    pub copies: u64,
    /// Of the media.
    pub row_bytes: u64,
    /// Of the media.
    pub banks: u64,
    root: Range<u64>,
    nodes: Area,
    slots: Area,
}

impl Map {
    /// The map of a machine; `None` if a number is absurd, or the log area has no room for a node
    /// and a group in each bank.
    pub fn new(layout: &Layout, [copies, row_bytes, banks]: [u64; 3]) -> Option<Self> {
        let sensible = (1..=2).contains(&copies)
            && row_bytes.is_power_of_two()
            && (Record::BYTES as u64..=1 << 16).contains(&row_bytes)
            && (1..=1 << 16).contains(&banks);
        if !sensible {
            return None;
        }
        let area = &layout.log_area;
        let lines = layout.frames.end.div_ceil(LINE_BYTES as u64);
        let start = area.start.checked_next_multiple_of(row_bytes)?;
        let root = start..start.checked_add(8 * lines.div_ceil(NODE_WORDS.pow(LEVELS)))?;
        // Dense memory takes 8 bytes of leaf for a group; the rest is for memory that is not.
        let split = root.end + area.end.checked_sub(root.end)? / 4;
        let nodes = Area::new(root.end..split, NODE_BYTES, row_bytes, banks);
        let slots = Area::new(split..area.end, LINE_BYTES as u64, row_bytes, banks);
        let map = Self {
            copies,
            row_bytes,
            banks,
            root,
            nodes,
            slots,
        };
        (map.nodes.capacity > 0 && map.groups() > 0).then_some(map)
    }

    /// What the boot record keeps.
    pub fn boot_numbers(&self) -> [u64; 4] {
        [self.copies, self.row_bytes, self.banks, 0]
    }

    /// Nodes that there is room for.
    pub fn nodes(&self) -> u64 {
        self.nodes.capacity
    }

    /// Groups that there is room for.
    pub fn groups(&self) -> u64 {
        (self.slots.capacity / self.copies).min(MOST_GROUPS)
    }

    /// The table's bytes: root and nodes.
    pub fn table(&self) -> Range<u64> {
        self.root.start..self.nodes.address(self.nodes.capacity - 1) + NODE_BYTES
    }

    /// Address of a root word.
    pub fn root_word(&self, index: u64) -> u64 {
        self.root.start + 8 * index
    }

    /// Address of a word of a node.
    pub fn node_word(&self, node: u64, index: u64) -> u64 {
        self.nodes.address(node) + 8 * index
    }

    /// The line of NVM in which a version of a line is.
    #[inline]
    pub fn place(&self, line: LineNumber, group: u32, place: Place) -> LineNumber {
        if place == HOME {
            return line;
        }
        let slot = u64::from(group) * self.copies + u64::from(place) - 1;
        self.slots.address(slot) / LINE_BYTES as u64
    }

    /// The place that is neither of these two, or the one that is not the newest where there are
    /// only two.
    pub fn other_place(&self, newest: Place, before: Place) -> Place {
        if self.copies == 1 {
            1 - newest
        } else {
            3 - newest - before
        }
    }

    /// All root words that are not zero, with the lines below them.
    pub fn walk(
        &self,
        image: &Surviving,
        mut leaf_word: impl FnMut(LineNumber, u64) -> Result<(), Corruption>,
    ) -> Result<(), Corruption> {
        let words = (self.root.end - self.root.start) / 8;
        self.walk_words(image, self.root.start, words, 0, LEVELS, &mut leaf_word)
    }

    fn walk_words(
        &self,
        image: &Surviving,
        start: u64,
        words: u64,
        prefix: u64,
        levels: u32,
        leaf_word: &mut impl FnMut(LineNumber, u64) -> Result<(), Corruption>,
    ) -> Result<(), Corruption> {
        let bytes = image.read(start, 8 * words as usize)?;
        for (index, bytes) in (0..).zip(bytes.as_chunks().0) {
            let (word, below) = (u64::from_le_bytes(*bytes), prefix * NODE_WORDS + index);
            if word == 0 {
                continue;
            }
            if levels == 0 {
                leaf_word(below, word)?;
                continue;
            }
            if word > self.nodes.capacity {
                return Err(Corruption {
                    what: "mapping table: a node that is none",
                    address: start + 8 * index,
                });
            }
            let node = self.nodes.address(word - 1);
            self.walk_words(image, node, NODE_WORDS, below, levels - 1, leaf_word)?;
        }
        Ok(())
    }
}

// ---- Words of leaves ---------------------------------------------------------------------------

/// What a leaf says about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The line's group of slots.
    pub group: u32,
    /// Place of the newest version.
    pub newest: Place,
    /// Place of the version before it.
    pub before: Place,
    /// Epoch that wrote the newest.
    pub epoch: u32,
}

impl Mapping {
    /// Its word.
    pub fn encode(self) -> u64 {
        u64::from(self.epoch) << 32
            | u64::from(self.before) << 30
            | u64::from(self.newest) << 28
            | u64::from(self.group)
    }

    /// The mapping that a word stands for.
    pub fn decode(word: u64) -> Self {
        Self {
            group: word as u32 & (MOST_GROUPS as u32 - 1),
            newest: (word >> 28 & 3) as Place,
            before: (word >> 30 & 3) as Place,
            epoch: (word >> 32) as u32,
        }
    }
}

/// What a committed mapping adds to the record's sum; a line at home adds nothing.
pub fn check_of(line: LineNumber, group: u32, place: Place) -> u64 {
    if place == HOME {
        return 0;
    }
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&line.to_le_bytes());
    bytes[8..].copy_from_slice(&(u64::from(group) << 8 | u64::from(place)).to_le_bytes());
    checksum(&bytes)
}

// ---- The record --------------------------------------------------------------------------------

/// The record that commits an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Record {
    /// Counts records; the larger one is the newer.
    pub number: u64,
    /// The newest committed epoch.
    pub epoch: u64,
    /// Lines whose version of that epoch is not at home. None: memory at home is that epoch's.
    pub lines: u64,
    /// The sum of [`check_of`] over them.
    pub sum: u64,
}

impl Sealed for Record {
    const MAGIC: &'static [u8; 8] = b"SHADOWMP";
    /// No more than the smallest row.
    const BYTES: usize = 64;
}

impl CommitRecord for Record {
    const DAMAGED: &'static str = "the commit record of the mapping table: both copies are damaged";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nothing_overlaps_and_neighbours_are_in_different_banks() {
        for (row_bytes, banks, copies) in [(2048, 16, 2), (64, 16, 2), (512, 3, 1), (4096, 1, 1)] {
            let layout = Layout::new(2, 16 << 20);
            let map = Map::new(&layout, [copies, row_bytes, banks]).expect("it fits");
            let [copies, row_bytes, banks, _] = map.boot_numbers();
            assert_eq!(
                Map::new(&layout, [copies, row_bytes, banks]).as_ref(),
                Some(&map)
            );
            let mut used = BTreeSet::new();
            let mut take = |address: u64, bytes: u64| {
                assert!(layout.log_area.contains(&address));
                assert!(address + bytes <= layout.log_area.end);
                assert!(
                    (address..address + bytes)
                        .step_by(8)
                        .all(|at| used.insert(at))
                );
            };
            for word in map.root.clone().step_by(8) {
                take(word, 8);
            }
            for node in 0..map.nodes() {
                take(map.node_word(node, 0), NODE_BYTES);
            }
            for group in 0..map.groups() as u32 {
                for place in 1..=copies as Place {
                    let address = map.place(7, group, place) * LINE_BYTES as u64;
                    take(address, LINE_BYTES as u64);
                    let next = map.place(7, group + 1, place) * LINE_BYTES as u64;
                    let bank = |at| at / row_bytes % banks;
                    assert!(banks <= copies || bank(address) != bank(next));
                }
            }
            assert!(map.table().end <= map.place(7, 0, 1) * LINE_BYTES as u64);
            assert_eq!(map.place(7, 0, HOME), 7);
        }
    }

    #[test]
    fn words_and_records_come_back() {
        let mapping = Mapping {
            group: (1 << 28) - 1,
            newest: 2,
            before: 1,
            epoch: 0xdead_beef,
        };
        assert_eq!(Mapping::decode(mapping.encode()), mapping);
        let record = Record {
            number: 3,
            epoch: 2,
            lines: 5,
            sum: 77,
        };
        let bytes = record.encode();
        assert_eq!(bytes.len(), Record::BYTES);
        assert_eq!(Record::decode(&bytes, false), Some(record));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Record::decode(&damaged, false), None, "byte {at}");
        }
    }
}
