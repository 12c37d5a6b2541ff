//! The master mapping table `M_master` (§V-C, figure 10): for each line its newest recoverable
//! version, as a five-level radix tree in NVM. Nine address bits each from bits 39, 30, 21 and 12,
//! then bits 6 to 11.
//!
//! ```text
//! node    512 entries, 4 KiB; at the last level 64 entries, 512 bytes
//! entry   u64: bits 6–47  NVM address / 64 of the next node, or of the version's bytes
//!              bits 0–5 and 48–63  check over that and the entry's own address
//!              all zero: none
//! ```
//!
//! An update is planned first: new nodes come complete, with everything below them, and are durable
//! before the one entry that links them is written. Each entry is one 8-byte word, which no power
//! cut tears. So the tree is whole at every moment, and what a cut leaves of an update is some of
//! its entries.
//!
//! Always true here:
//! - A node that an entry names was written completely since it was allocated.
//! - Entries of one node change by aligned spans of 8 to 64 bytes.

use std::collections::BTreeMap;

use perdure_hardware::line::{LINE_BYTES, LineNumber};

use super::format::{ADDRESS_BITS, PAGE_LINES, UNIT_BYTES, u64_at};
use crate::snapshots::Source;
use crate::surviving::Corruption;

const ENTRY_BYTES: u64 = 8;
const LEVELS: usize = 5;
const SHIFTS: [u32; LEVELS] = [27 + 6, 18 + 6, 9 + 6, 6, 0];
const ADDRESS_MASK: u64 = ((1 << ADDRESS_BITS) - 1) & !(LINE_BYTES as u64 - 1);

/// Units of a node that has further nodes below it.
pub const NODE_UNITS: u32 = 16;
/// Units of a node of the last level.
pub const LEAF_UNITS: u32 = 2;

/// Entries of a node at a level.
const fn fanout(level: usize) -> u64 {
    if level == LEVELS - 1 { 64 } else { 512 }
}

const fn units(level: usize) -> u32 {
    if level == LEVELS - 1 {
        LEAF_UNITS
    } else {
        NODE_UNITS
    }
}

fn node_bytes(level: usize) -> usize {
    (fanout(level) * ENTRY_BYTES) as usize
}

fn check_bits(target: u64, place: u64) -> u64 {
    let mut mixed = (target ^ place.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 32;
    mixed = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ mixed >> 29) & !ADDRESS_MASK
}

/// The word at `place` that names `target`.
pub fn encode(target: u64, place: u64) -> u64 {
    debug_assert_eq!(target & !ADDRESS_MASK, 0);
    target | check_bits(target, place)
}

/// What the word at `place` names.
fn decode(word: u64, place: u64) -> Result<Option<u64>, Corruption> {
    if word == 0 {
        return Ok(None);
    }
    let target = word & ADDRESS_MASK;
    if target == 0 || word != encode(target, place) {
        return Err(Corruption {
            what: "master table: an entry is damaged",
            address: place,
        });
    }
    Ok(Some(target))
}

fn place(node: u64, line: LineNumber, level: usize) -> u64 {
    node + (line >> SHIFTS[level]) % fanout(level) * ENTRY_BYTES
}

fn entry<S: Source>(source: &S, place: u64) -> Result<Option<u64>, S::Error> {
    let word = u64_at(&source.bytes(place, ENTRY_BYTES as usize)?, 0);
    Ok(decode(word, place)?)
}

/// Looks lines up; remembers the way to the last page.
#[derive(Clone, Debug)]
pub struct Lookup {
    root: u64,
    /// The last page, and its leaf.
    recent: Option<(u64, Option<u64>)>,
}

impl Lookup {
    /// In the table with that root.
    pub fn new(root: u64) -> Self {
        Self { root, recent: None }
    }

    /// Where the newest recoverable version of a line is.
    pub fn find<S: Source>(
        &mut self,
        source: &S,
        line: LineNumber,
    ) -> Result<Option<u64>, S::Error> {
        let page = line / PAGE_LINES as u64;
        let leaf = match self.recent {
            Some((recent, leaf)) if recent == page => leaf,
            _ => {
                let mut node = Some(self.root);
                for level in 0..LEVELS - 1 {
                    let Some(address) = node else { break };
                    node = entry(source, place(address, line, level))?;
                }
                self.recent = Some((page, node));
                node
            }
        };
        match leaf {
            Some(leaf) => entry(source, place(leaf, line, LEVELS - 1)),
            None => Ok(None),
        }
    }
}

/// What a scan comes across.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A node: its address and units.
    Node(u64, u32),
    /// A version: its line and the address of its bytes.
    Version(LineNumber, u64),
}

/// Shows all nodes and versions of the table with that root, in the order of addresses.
pub fn scan<S: Source>(
    source: &S,
    root: u64,
    show: &mut impl FnMut(Found) -> Result<(), S::Error>,
) -> Result<(), S::Error> {
    scan_below(source, root, 0, 0, show)
}

fn scan_below<S: Source>(
    source: &S,
    node: u64,
    level: usize,
    first_line: LineNumber,
    show: &mut impl FnMut(Found) -> Result<(), S::Error>,
) -> Result<(), S::Error> {
    if !node.is_multiple_of(UNIT_BYTES) {
        return Err(Corruption {
            what: "master table: a node that is not aligned",
            address: node,
        }
        .into());
    }
    show(Found::Node(node, units(level)))?;
    let bytes = source.bytes(node, node_bytes(level))?;
    for index in 0..fanout(level) {
        let at = index * ENTRY_BYTES;
        let Some(target) = decode(u64_at(&bytes, at as usize), node + at)? else {
            continue;
        };
        let line = first_line + (index << SHIFTS[level]);
        if level == LEVELS - 1 {
            show(Found::Version(line, target))?;
        } else {
            scan_below(source, target, level + 1, line, show)?;
        }
    }
    Ok(())
}

/// An update, planned.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// New nodes: address and bytes. Durable before any of the updates starts.
    pub nodes: Vec<(u64, Vec<u8>)>,
    /// Spans of entries in nodes that are linked: address and bytes.
    pub updates: Vec<(u64, Vec<u8>)>,
    /// Lines that the table did not map before.
    pub new_lines: u64,
}

/// Why an update cannot be planned.
#[derive(Debug)]
pub enum Unplanned<E> {
    /// The pool has no room for a node; nothing was allocated.
    NoRoom,
    /// The table cannot be read.
    Unreadable(E),
}

/// Plans to enter versions. `allocate` gives the address of so many units, `release` takes them
/// back if the plan comes to nothing.
pub fn plan<S: Source>(
    source: &S,
    root: u64,
    versions: impl Iterator<Item = (LineNumber, u64)>,
    allocate: &mut impl FnMut(u32) -> Option<u64>,
    release: &mut impl FnMut(u64, u32),
) -> Result<Plan, Unplanned<S::Error>> {
    let mut nodes: BTreeMap<u64, (usize, Vec<u8>)> = BTreeMap::new();
    let mut words: BTreeMap<u64, u64> = BTreeMap::new();
    let mut new_lines = 0;
    let mut enter = |(line, version): (LineNumber, u64)| {
        let mut node = root;
        for level in 0..LEVELS {
            let at = place(node, line, level);
            let fresh = nodes.get(&node);
            let found = match (fresh, words.get(&at)) {
                (Some((_, bytes)), _) => {
                    let word = u64_at(bytes, (at - node) as usize);
                    (word != 0).then_some(word & ADDRESS_MASK)
                }
                (None, Some(word)) => Some(word & ADDRESS_MASK),
                (None, None) => entry(source, at).map_err(Unplanned::Unreadable)?,
            };
            let target = if level == LEVELS - 1 {
                new_lines += u64::from(found.is_none());
                version
            } else if let Some(next) = found {
                next
            } else {
                let below = level + 1;
                let next = allocate(units(below)).ok_or(Unplanned::NoRoom)?;
                nodes.insert(next, (below, vec![0; node_bytes(below)]));
                next
            };
            if level == LEVELS - 1 || found.is_none() {
                let word = encode(target, at);
                match nodes.get_mut(&node) {
                    Some((_, bytes)) => {
                        bytes[(at - node) as usize..][..8].copy_from_slice(&word.to_le_bytes());
                    }
                    None => {
                        words.insert(at, word);
                    }
                }
            }
            node = target;
        }
        Ok(())
    };
    let mut versions = versions;
    if let Err(why) = versions.try_for_each(&mut enter) {
        for (&address, &(level, _)) in &nodes {
            release(address, units(level));
        }
        return Err(why);
    }
    let updates = spans(source, &words).map_err(Unplanned::Unreadable)?;
    Ok(Plan {
        nodes: nodes
            .into_iter()
            .map(|(address, (_, bytes))| (address, bytes))
            .collect(),
        updates,
        new_lines,
    })
}

/// Gathers words of one 64-byte line in one span, with the words that lie between.
fn spans<S: Source>(
    source: &S,
    words: &BTreeMap<u64, u64>,
) -> Result<Vec<(u64, Vec<u8>)>, S::Error> {
    let mut spans: Vec<(u64, Vec<u8>)> = Vec::new();
    for (&at, word) in words {
        if let Some((start, bytes)) = spans.last_mut()
            && *start / LINE_BYTES as u64 == at / LINE_BYTES as u64
        {
            let end = *start + bytes.len() as u64;
            bytes.extend_from_slice(&source.bytes(end, (at - end) as usize)?);
            bytes.extend_from_slice(&word.to_le_bytes());
        } else {
            spans.push((at, word.to_le_bytes().to_vec()));
        }
    }
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use perdure_hardware::arena::Arena;

    use super::*;

    /// A table in an arena whose nodes are allocated one after another.
    struct Rig {
        arena: Arena,
        next: u64,
    }

    impl Rig {
        fn new() -> Self {
            let arena = Arena::new(64 << 20).expect("memory for the arena");
            Self { arena, next: 8192 }
        }

        fn plan(&mut self, versions: &[(LineNumber, u64)], room: usize) -> Option<Plan> {
            let mut left = room;
            let next = &mut self.next;
            let before = *next;
            let mut allocate = |units: u32| {
                left = left.checked_sub(1)?;
                let address = *next;
                *next += u64::from(units) * UNIT_BYTES;
                Some(address)
            };
            let mut released = 0;
            let mut release = |_, units: u32| released += u64::from(units) * UNIT_BYTES;
            let entered = versions.iter().copied();
            match plan(&self.arena, 4096, entered, &mut allocate, &mut release) {
                Ok(plan) => Some(plan),
                Err(Unplanned::NoRoom) => {
                    assert_eq!(released, *next - before);
                    *next = before;
                    None
                }
                Err(Unplanned::Unreadable(why)) => panic!("{why}"),
            }
        }

        fn scan(&self) -> Vec<(LineNumber, u64)> {
            let mut all = Vec::new();
            scan(&self.arena, 4096, &mut |found| {
                if let Found::Version(line, at) = found {
                    all.push((line, at));
                }
                Ok(())
            })
            .expect("the table is whole");
            all
        }
    }

    #[test]
    fn a_planned_table_holds_what_was_entered_at_every_step_of_its_writing() {
        let mut rig = Rig::new();
        let mut model = BTreeMap::new();
        for round in 0..20u64 {
            let versions: Vec<_> = (0..40)
                .map(|index| {
                    let far = (index % 4) * 0x3_1415_9265 * (round % 3);
                    let line = (round * 13 + index * 7) % 600 + far % (1 << 42);
                    (line, (1 + round * 40 + index) * 64)
                })
                .collect();
            let before = rig.scan();
            assert!(rig.plan(&versions, 0).is_none() || round > 0);
            let plan = rig.plan(&versions, usize::MAX).expect("there is room");
            for (address, bytes) in &plan.nodes {
                rig.arena.write(*address, bytes);
            }
            assert_eq!(rig.scan(), before, "new nodes are not seen before the link");
            model.extend(versions.iter().copied());
            for (address, bytes) in &plan.updates {
                assert!(address / 64 == (address + bytes.len() as u64 - 1) / 64);
                rig.arena.write(*address, bytes);
                rig.scan();
            }
            assert_eq!(rig.scan(), model.clone().into_iter().collect::<Vec<_>>());
        }
        let mut lookup = Lookup::new(4096);
        for line in 0..700 {
            let found = lookup.find(&rig.arena, line).expect("the table is whole");
            assert_eq!(found, model.get(&line).copied());
        }
    }

    #[test]
    fn a_damaged_entry_is_found() {
        let mut rig = Rig::new();
        let plan = rig.plan(&[(5, 6400), (70, 128)], 9).expect("there is room");
        for (address, bytes) in plan.nodes.iter().chain(&plan.updates) {
            rig.arena.write(*address, bytes);
        }
        let places: Vec<u64> = (4096..rig.next)
            .step_by(8)
            .filter(|&at| u64_at(&rig.arena.slice(at, 8), 0) != 0)
            .collect();
        assert_eq!(places.len(), 7, "three links, two leaves, two versions");
        for place in places {
            for bit in 0..64 {
                let word = u64_at(&rig.arena.slice(place, 8), 0);
                rig.arena.write(place, &(word ^ 1 << bit).to_le_bytes());
                let result = scan(&rig.arena, 4096, &mut |_| Ok(()));
                assert!(result.is_err(), "bit {bit} of the entry at {place:#x}");
                rig.arena.write(place, &word.to_le_bytes());
            }
        }
    }
}
