//! The overflow list: lines for which neither table has room. The tables go on in it, without
//! associativity, so that a line that leaves the caches after the epoch should have ended has a
//! place too.
//!
//! Slots are taken from one bank after another, so that lines of a flush do not wait for each
//! other.

use std::collections::BTreeMap;

use perdure_hardware::line::LineNumber;

use super::version::Versions;

/// The list.
#[derive(Clone, Debug)]
pub struct Overflow {
    index: BTreeMap<LineNumber, u32>,
    versions: Vec<Versions>,
    /// Free slots of each bank; slot *s* is in bank *s* mod banks.
    free: Vec<Vec<u32>>,
    capacity: usize,
    /// The bank whose turn it is.
    turn: usize,
}

impl Overflow {
    /// An empty list with so many slots, over so many banks.
    pub fn new(capacity: usize, banks: usize) -> Self {
        Self {
            index: BTreeMap::new(),
            versions: Vec::new(),
            free: vec![Vec::new(); banks],
            capacity,
            turn: 0,
        }
    }

    /// True if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The slot of a line.
    #[inline]
    pub fn find(&self, line: LineNumber) -> Option<usize> {
        if self.index.is_empty() {
            return None;
        }
        self.index.get(&line).map(|&slot| slot as usize)
    }

    /// Takes a line in, if there is a slot for it.
    pub fn add(&mut self, line: LineNumber, versions: Versions) -> Option<usize> {
        if self.index.len() == self.capacity {
            return None;
        }
        let slot = loop {
            let bank = self.turn;
            self.turn = (self.turn + 1) % self.free.len();
            if let Some(slot) = self.free[bank].pop() {
                break slot as usize;
            }
            // Slots are first used in their order, so that a bank has a new one or another's turn
            // comes first.
            let fresh = self.versions.len();
            if fresh < self.capacity && fresh % self.free.len() == bank {
                self.versions.push(Versions::default());
                break fresh;
            }
        };
        self.versions[slot] = versions;
        self.index.insert(line, slot as u32);
        Some(slot)
    }

    /// What the slot says.
    pub fn value(&self, slot: usize) -> &Versions {
        &self.versions[slot]
    }

    /// What the slot says.
    pub fn value_mut(&mut self, slot: usize) -> &mut Versions {
        &mut self.versions[slot]
    }

    /// All entries with their slots, in the order of the lines.
    pub fn iter(&self) -> impl Iterator<Item = (usize, LineNumber, &Versions)> {
        self.index
            .iter()
            .map(|(&line, &slot)| (slot as usize, line, &self.versions[slot as usize]))
    }

    /// Changes every entry.
    pub fn change_all(&mut self, mut change: impl FnMut(&mut Versions)) {
        for &slot in self.index.values() {
            change(&mut self.versions[slot as usize]);
        }
    }

    /// Gives up entries that track nothing and whose slots no checkpoint needs.
    pub fn sweep(&mut self) {
        let Self {
            index,
            versions,
            free,
            ..
        } = self;
        let banks = free.len();
        index.retain(|_, slot| {
            let goes = versions[*slot as usize].is_free();
            if goes {
                free[*slot as usize % banks].push(*slot);
            }
            !goes
        });
    }
}
