//! The mapping table while the power is on: the copy that the controller (or the library) looks
//! things up in, and the update of the table in NVM at the end of an epoch.
//!
//! Always true here:
//! - A line that was stored to has a group, and keeps it.
//! - Its *working place*, in which the executing epoch's version goes, is neither the place of the
//!   newest version that a table word names nor that of the version before it. With two places,
//!   the version before is not kept, because the newest is committed when an epoch begins.
//! - `current` is the place that was written last: the newest bytes outside the caches.

use std::collections::BTreeMap;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::{Accepted, Memory, Traffic};
use perdure_hardware::policy::Evicted;
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

use super::bugs::Flaws;
use super::format::{HOME, LEVELS, Map, Mapping, NODE_WORDS, Place, Record, check_of};
use crate::bytes::Sealed;
use crate::copies::{COPIES, CommitRecord};
use crate::layout::Layout;

/// What is known of a line.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    group: u32,
    /// Place of the newest version that has a table word.
    pub newest: Place,
    /// Place of the version before it.
    pub before: Place,
    /// Place that was written last.
    pub current: Place,
    /// Epoch of the last store.
    pub stored: u64,
}

/// A line that was never stored to.
const UNMAPPED: Known = Known {
    group: u32::MAX,
    newest: HOME,
    before: 2,
    current: HOME,
    stored: 0,
};

/// The lines of a leaf, and the leaf's node.
#[derive(Clone, Debug)]
struct Leaf {
    first: LineNumber,
    node: u64,
    lines: [Known; NODE_WORDS as usize],
}

/// There is no room for another line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Lines that have slots.
    pub lines: u64,
}

/// In what pieces the table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// 8 bytes; neighbours in a row are combined.
    Word,
    /// Whole lines, as flush instructions write them.
    Line,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Table {
    flaws: Flaws,
    /// Where everything lies.
    pub map: Map,
    /// For each 64 lines of memory, the number of their leaf + 1.
    index: Vec<u32>,
    leaves: Vec<Leaf>,
    /// Inner nodes, by level (the root's words name those of level 0) and first line.
    inner: BTreeMap<(u32, LineNumber), u64>,
    nodes: u64,
    groups: u64,
    /// Words of inner nodes and the root that NVM has not got yet.
    pointers: Vec<(u64, u64)>,
    /// What the next record says.
    record: Record,
}

impl Table {
    /// An empty table, in NVM that holds an epoch at home, with its boot record and commit record.
    pub fn new(
        map: Map,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        flaws: Flaws,
    ) -> Self {
        let harts = hardware.cores.len();
        let arena = &mut hardware.memory.arena;
        layout.put_boot_record(harts, map.boot_numbers(), arena);
        // What is left of an older table. Nobody knows any more how far it went.
        let table = map.table();
        let written: Vec<u64> = arena
            .written_pages()
            .filter(|page| (table.start.saturating_sub(4095)..table.end).contains(page))
            .collect();
        for page in written {
            let (start, end) = (page.max(table.start), (page + 4096).min(table.end));
            arena.write(start, &vec![0; (end - start) as usize]);
        }
        // After a recovery, numbers go on; at first boot there is no record.
        let record = Record {
            number: Record::left(arena).map_or(0, |record| record.number + 1),
            epoch,
            lines: 0,
            sum: 0,
        };
        record.put(arena);
        let lines = layout.frames.end / LINE_BYTES as u64;
        Self {
            flaws,
            map,
            index: vec![0; lines.div_ceil(NODE_WORDS) as usize],
            leaves: Vec::new(),
            inner: BTreeMap::new(),
            nodes: 0,
            groups: 0,
            pointers: Vec::new(),
            record,
        }
    }

    // ---- Look-ups --------------------------------------------------------------------------

    /// What is known of a line, if it was ever stored to.
    #[inline]
    pub fn known(&self, line: LineNumber) -> Option<&Known> {
        let leaf = *self.index.get((line / NODE_WORDS) as usize)?;
        let leaf = self.leaves.get((leaf as usize).wrapping_sub(1))?;
        let known = &leaf.lines[(line % NODE_WORDS) as usize];
        (known.group != UNMAPPED.group).then_some(known)
    }

    /// The same, to change it; a line that was never stored to gets its slots.
    pub fn stored_to(&mut self, line: LineNumber) -> Result<&mut Known, Full> {
        let full = Full { lines: self.groups };
        let leaf = match self.index[(line / NODE_WORDS) as usize] {
            0 => self.add_leaf(line / NODE_WORDS * NODE_WORDS).ok_or(full)?,
            leaf => leaf as usize - 1,
        };
        let known = &mut self.leaves[leaf].lines[(line % NODE_WORDS) as usize];
        if known.group == UNMAPPED.group {
            if self.groups == self.map.groups() {
                return Err(full);
            }
            known.group = self.groups as u32;
            self.groups += 1;
        }
        Ok(known)
    }

    fn add_leaf(&mut self, first: LineNumber) -> Option<usize> {
        // As many nodes may be needed, from the root down.
        if self.nodes + u64::from(LEVELS) > self.map.nodes() {
            return None;
        }
        let mut span = NODE_WORDS.pow(LEVELS);
        let mut word = self.map.root_word(first / span);
        let mut node = 0;
        for level in 0..LEVELS {
            let key = (level, first / span * span);
            node = *self.inner.entry(key).or_insert_with(|| {
                self.nodes += 1;
                self.pointers.push((word, self.nodes));
                self.nodes - 1
            });
            span /= NODE_WORDS;
            word = self.map.node_word(node, first / span % NODE_WORDS);
        }
        self.leaves.push(Leaf {
            first,
            node,
            lines: [UNMAPPED; NODE_WORDS as usize],
        });
        self.index[(first / NODE_WORDS) as usize] = self.leaves.len() as u32;
        Some(self.leaves.len() - 1)
    }

    /// The line of NVM in which a place of a line is.
    #[inline]
    pub fn place(&self, line: LineNumber, known: &Known, place: Place) -> LineNumber {
        self.map.place(line, known.group, place)
    }

    /// The newest bytes of a line outside the caches.
    #[inline]
    pub fn newest_at(&self, line: LineNumber) -> LineNumber {
        self.known(line)
            .map_or(line, |known| self.place(line, known, known.current))
    }

    /// Where the newest version of a line is that a table word names.
    pub fn newest_place(&self, line: LineNumber) -> LineNumber {
        self.known(line)
            .map_or(line, |known| self.place(line, known, known.newest))
    }

    /// Shows every line whose newest bytes are not at home, in the order in which leaves were made.
    pub fn displaced(&self, show: &mut dyn FnMut(LineNumber)) {
        for leaf in &self.leaves {
            let lines = (leaf.first..).zip(&leaf.lines);
            lines
                .filter(|(_, known)| known.current != HOME)
                .for_each(|(line, _)| show(line));
        }
    }

    /// What is known of a line, to change it, and its leaf's node.
    fn known_mut(&mut self, line: LineNumber) -> Option<(&mut Known, u64)> {
        let leaf = (self.index[(line / NODE_WORDS) as usize] as usize).checked_sub(1)?;
        let leaf = &mut self.leaves[leaf];
        let known = &mut leaf.lines[(line % NODE_WORDS) as usize];
        (known.group != UNMAPPED.group).then_some((known, leaf.node))
    }

    /// Notes that a line's bytes are written to a place. Returns the line of NVM that it is; `None`
    /// if there was no room for the line's slots.
    pub fn written_to(
        &mut self,
        line: LineNumber,
        choose: impl FnOnce(&Map, &Known) -> Place,
    ) -> Option<LineNumber> {
        let place = choose(&self.map, self.known(line)?);
        let (known, _) = self.known_mut(line)?;
        known.current = place;
        let group = known.group;
        Some(self.map.place(line, group, place))
    }

    // ---- The end of an epoch ---------------------------------------------------------------

    /// The epoch ends in which these lines were stored to: their working places become the newest.
    /// Returns the table words that say so, with their addresses.
    pub fn switch(&mut self, lines: &[LineNumber], epoch: u64) -> Vec<(u64, u64)> {
        let mut words = std::mem::take(&mut self.pointers);
        if self.flaws.forgets_pointer {
            words.pop();
        }
        for &line in lines {
            let Some(&known) = self.known(line) else {
                continue; // The run has failed for want of room.
            };
            let working = self.map.other_place(known.newest, known.before);
            let (old, new) = (
                check_of(line, known.group, known.newest),
                check_of(line, known.group, working),
            );
            self.record.sum = self.record.sum.wrapping_sub(old).wrapping_add(new);
            self.record.lines += u64::from(working != HOME);
            self.record.lines -= u64::from(known.newest != HOME);
            let mapping = Mapping {
                group: known.group,
                newest: working,
                before: if self.flaws.forgets_version_before {
                    HOME
                } else {
                    known.newest
                },
                epoch: epoch as u32,
            };
            if let Some((known, node)) = self.known_mut(line) {
                (known.newest, known.before) = (working, known.newest);
                let address = self.map.node_word(node, line % NODE_WORDS);
                words.push((address, mapping.encode()));
            }
        }
        words
    }

    /// The record that commits an epoch with the table as it is.
    pub fn next_record(&mut self, epoch: u64) -> Record {
        self.record.number += 1;
        self.record.epoch = epoch;
        self.record
    }

    /// Writes table words, in the order of their addresses. Returns when the last piece was accepted,
    /// and when all are durable.
    pub fn write(
        &self,
        memory: &mut Memory,
        mut words: Vec<(u64, u64)>,
        grain: Grain,
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Accepted {
        words.sort_unstable();
        let mut done = Accepted::at(now);
        for (address, bytes) in pieces(memory, &words, grain, self.map.row_bytes) {
            let (metadata, at) = (Traffic::Metadata, done.accepted);
            let one = memory.write_block(address, &bytes, metadata, at, 0, statistics);
            done.accepted = one.accepted;
            done.durable = done.durable.max(one.durable);
        }
        done
    }
}

/// Combines words, in the order of their addresses, into the pieces that are written.
fn pieces(
    memory: &Memory,
    words: &[(u64, u64)],
    grain: Grain,
    row_bytes: u64,
) -> Vec<(u64, Vec<u8>)> {
    let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
    for &(address, word) in words {
        let last = pieces.last_mut();
        match grain {
            Grain::Word => match last {
                Some((start, bytes))
                    if *start + bytes.len() as u64 == address && address % row_bytes != 0 =>
                {
                    bytes.extend_from_slice(&word.to_le_bytes());
                }
                _ => pieces.push((address, word.to_le_bytes().to_vec())),
            },
            Grain::Line => {
                let start = address / LINE_BYTES as u64 * LINE_BYTES as u64;
                let offset = (address - start) as usize;
                let mut line = match last {
                    Some((at, _)) if *at == start => pieces.pop().map_or(Vec::new(), |last| last.1),
                    _ => memory.arena.slice(start, LINE_BYTES).to_vec(),
                };
                line[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
                pieces.push((start, line));
            }
        }
    }
    pieces
}

/// Writes one copy of a commit record; returns when it is durable.
pub fn write_record(hardware: &mut Hardware, copy: usize, record: &Record, now: Cycles) -> Cycles {
    let Hardware {
        memory, statistics, ..
    } = hardware;
    let (place, metadata) = (COPIES[copy], Traffic::Metadata);
    let done = memory.write_block(place, &record.encode(), metadata, now, now, statistics);
    done.durable
}

/// Writes a version of the line `home` to its place.
pub fn write_version(
    hardware: &mut Hardware,
    home: LineNumber,
    to: LineNumber,
    bytes: &Line,
    traffic: Traffic,
    now: Cycles,
) -> Evicted {
    let Hardware {
        memory, statistics, ..
    } = hardware;
    let done = memory.write_line_of(home, to, bytes, traffic, now, 0, statistics);
    done.into()
}
