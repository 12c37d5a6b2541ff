//! The overflow list: lines for which neither table has room. The tables go on in it, without
//! associativity, so that a line that leaves the caches after the epoch should have ended has a
//! place too.

use std::collections::BTreeMap;

use perdure_hardware::line::LineNumber;

use super::version::Versions;

/// The list.
#[derive(Clone, Debug, Default)]
pub struct Overflow {
    index: BTreeMap<LineNumber, u32>,
    versions: Vec<Versions>,
    free: Vec<u32>,
}

impl Overflow {
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

    /// Takes a line in, if there is a slot below `capacity`.
    pub fn add(&mut self, line: LineNumber, versions: Versions, capacity: usize) -> Option<usize> {
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None if self.versions.len() < capacity => {
                self.versions.push(Versions::default());
                self.versions.len() - 1
            }
            None => return None,
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
        } = self;
        index.retain(|_, slot| {
            let goes = versions[*slot as usize].is_free();
            if goes {
                free.push(*slot);
            }
            !goes
        });
    }
}
