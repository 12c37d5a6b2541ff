//! The frames of pools: who may have one, and how many hold it.
//!
//! Always true here:
//! - A frame that the durable table names is handed out to nobody else before a table is durable that does
//!   not name it: otherwise a cut could show one pool another one's bytes.
//! - What is handed out has been zeroed, unless its holder said that it will write every byte; whoever
//!   commits brings it to where it survives before the table that names it.

use std::collections::BTreeSet;
use std::ops::Range;

use super::table::{Area, Table};

/// In a cell beside the number of holders: the durable table names the frame.
const DURABLE: u32 = 1 << 31;

/// The allocator.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    /// The number of the area's first frame.
    first_frame: u64,
    usable: Range<u32>,
    /// By frame of the area, as far as any was ever handed out.
    counts: Vec<u32>,
    /// Below the end of `counts`, those that may be handed out.
    free: BTreeSet<u32>,
    /// Without a holder, but in the durable table.
    waiting: Vec<u32>,
    /// Handed out, or cut off in the middle, since the last commit.
    fresh: BTreeSet<u32>,
    /// Handed out since any table was written.
    unnamed: BTreeSet<u32>,
}

impl Cells {
    /// Those of an area whose durable table this is: each page of a pool has one holder.
    pub fn new(area: &Area, table: &Table) -> Self {
        let usable = area.frames();
        let mut cells = Self {
            first_frame: area.first_frame(),
            counts: vec![0; usable.start as usize],
            usable,
            free: BTreeSet::new(),
            waiting: Vec::new(),
            fresh: BTreeSet::new(),
            unnamed: BTreeSet::new(),
        };
        let named: BTreeSet<u32> = cells.named(table).collect();
        let end = named.last().map_or(0, |last| *last as usize + 1);
        cells.counts.resize(end.max(cells.counts.len()), 0);
        for index in cells.usable.start..cells.counts.len() as u32 {
            if named.contains(&index) {
                cells.counts[index as usize] = DURABLE | 1;
            } else {
                cells.free.insert(index);
            }
        }
        cells
    }

    fn named(&self, table: &Table) -> impl Iterator<Item = u32> {
        let first = self.first_frame;
        let extents = table.pools.iter().flat_map(|pool| &pool.extents);
        extents.flat_map(move |extent| {
            let start = (extent.frame - first) as u32;
            start..start + extent.pages as u32
        })
    }

    fn index(&self, frame: u64) -> Option<usize> {
        let index = frame.checked_sub(self.first_frame)?;
        (index < self.counts.len() as u64 && index >= u64::from(self.usable.start))
            .then_some(index as usize)
    }

    /// True if the frame is one of these, and was handed out once.
    pub fn has(&self, frame: u64) -> bool {
        self.index(frame).is_some()
    }

    /// How many may be handed out.
    pub fn left(&self) -> u64 {
        let untouched = self.usable.end - self.counts.len() as u32;
        u64::from(untouched) + self.free.len() as u64
    }

    /// The lowest frame that may be had, with one holder.
    pub fn take(&mut self) -> Option<u64> {
        let index = match self.free.pop_first() {
            Some(index) => index,
            None if self.counts.len() < self.usable.end as usize => {
                self.counts.push(0);
                self.counts.len() as u32 - 1
            }
            None => return None,
        };
        self.counts[index as usize] = 1;
        self.fresh.insert(index);
        self.unnamed.insert(index);
        Some(self.first_frame + u64::from(index))
    }

    /// Number of holders.
    pub fn holders(&self, frame: u64) -> u32 {
        let index = self.index(frame);
        index.map_or(0, |index| self.counts[index] & !DURABLE)
    }

    /// One more holder.
    pub fn retain(&mut self, frame: u64) {
        if let Some(index) = self.index(frame) {
            self.counts[index] += 1;
        }
    }

    /// One holder less. `early` is a mistake: then the frame does not wait for the next table.
    pub fn release(&mut self, frame: u64, early: bool) {
        let Some(index) = self.index(frame) else {
            return;
        };
        self.counts[index] -= 1;
        match self.counts[index] {
            DURABLE if !early => self.waiting.push(index as u32),
            0 | DURABLE => {
                self.free.insert(index as u32);
            }
            _ => {}
        }
    }

    /// The bytes of a frame have to be durable with the next table.
    pub fn refresh(&mut self, frame: u64) {
        if let Some(index) = self.index(frame) {
            self.fresh.insert(index as u32);
        }
    }

    /// The frames whose bytes have to be durable before the next table is, once.
    pub fn take_fresh(&mut self) -> Vec<u64> {
        let fresh = std::mem::take(&mut self.fresh);
        self.held(&fresh)
    }

    /// The frames that no table has named yet.
    pub fn unnamed(&self) -> Vec<u64> {
        self.held(&self.unnamed)
    }

    /// Of some cells, the frames that somebody holds.
    fn held(&self, cells: &BTreeSet<u32>) -> Vec<u64> {
        let frames = cells
            .iter()
            .map(|index| self.first_frame + u64::from(*index));
        frames.filter(|frame| self.holders(*frame) > 0).collect()
    }

    /// A table is durable: what it does not name may be handed out.
    pub fn committed(&mut self, table: &Table) {
        for cell in &mut self.counts {
            *cell &= !DURABLE;
        }
        let named: Vec<u32> = self.named(table).collect();
        for index in named {
            self.counts[index as usize] |= DURABLE;
        }
        for index in std::mem::take(&mut self.waiting) {
            self.free.insert(index);
        }
        self.unnamed.clear();
    }
}
