//! The directory of the shared cache, in one of two forms: beside its tags, if it is inclusive, or apart
//! from them. The protocol (`coherence.rs`) is the same.
//!
//! Always true here: a line has one directory, which knows exactly who holds it.

use crate::array::Array;
use crate::cache::{Cache, Slot};
use crate::coherence::Directory;
use crate::line::{LINE_BYTES, LineNumber};
use crate::pages::Sparse;
use crate::specification::{Inclusion, Specification};

/// The two forms. All of it is lost at power-off.
#[derive(Clone, Debug)]
pub(crate) enum Directories {
    /// By slot of the shared cache, the holders of its line. Its word is Exclusive if one owns it.
    InTags(Array<u64>),
    /// By line.
    Apart(FullMap),
}

impl Directories {
    /// The form that the specification asks for, for a shared cache that holds nothing.
    pub fn new(specification: &Specification, shared: &Cache) -> Self {
        match specification.llc.inclusion {
            Inclusion::NonInclusive => Self::Apart(FullMap::new(specification)),
            Inclusion::Inclusive | Inclusion::ByDesign => {
                Self::InTags(Array::zeros(shared.sets() * shared.ways()))
            }
        }
    }

    /// The map, if they lie apart.
    #[inline(always)]
    pub fn apart(&self) -> Option<&FullMap> {
        match self {
            Self::InTags(_) => None,
            Self::Apart(map) => Some(map),
        }
    }

    /// The holders of the line of a slot.
    #[inline(always)]
    pub fn holders(&self, slot: Slot) -> u64 {
        match self {
            Self::InTags(holders) => holders[slot.0 as usize],
            Self::Apart(_) => unreachable!("only asked where the tags are the directory"),
        }
    }

    /// Changes the holders of the line of a slot.
    #[inline(always)]
    pub fn set_holders(&mut self, slot: Slot, now: u64) {
        match self {
            Self::InTags(holders) => holders[slot.0 as usize] = now,
            Self::Apart(_) => unreachable!("only asked where the tags are the directory"),
        }
    }

    /// Asks the host for the holders of the line of a slot.
    #[inline(always)]
    pub fn prefetch_slot(&self, slot: Slot) {
        if let Self::InTags(holders) = self {
            crate::prefetch(&raw const holders[slot.0 as usize]);
        }
    }

    /// Asks the host for what they know of a line.
    #[inline(always)]
    pub fn prefetch(&self, shared: &Cache, line: LineNumber) {
        match self {
            Self::InTags(holders) => {
                let set = &holders[shared.set_of(line) * shared.ways()..][..shared.ways()];
                for way in set.iter().step_by(LINE_BYTES / size_of::<u64>()) {
                    crate::prefetch(way);
                }
            }
            Self::Apart(map) => map.prefetch(line),
        }
    }
}

/// The directory as a map of all lines of memory: holders in the low bits, exclusivity in the top
/// one. What it costs to look into is part of the shared cache's latency.
#[derive(Clone, Debug)]
pub(crate) struct FullMap(Sparse<u64>);

const EXCLUSIVE: u64 = 1 << 63;

impl FullMap {
    /// An empty one.
    fn new(specification: &Specification) -> Self {
        let words = Sparse::new(specification.lines());
        Self(words.expect("less than the arena's list of pages"))
    }

    /// What it knows of a line.
    #[inline(always)]
    pub fn get(&self, line: LineNumber) -> Directory {
        let word = *self.0.get(line as usize);
        Directory {
            holders: word & !EXCLUSIVE,
            exclusive: word & EXCLUSIVE != 0,
        }
    }

    /// Changes it.
    pub fn set(&mut self, line: LineNumber, directory: Directory) {
        let exclusive = if directory.exclusive { EXCLUSIVE } else { 0 };
        *self.0.get_mut(line as usize) = directory.holders | exclusive;
    }

    /// Who holds each line that somebody holds.
    pub fn held(&self) -> impl Iterator<Item = (LineNumber, u64)> {
        let words = self.0.written().filter(|(_, word)| **word != 0);
        words.map(|(line, &word)| (line as LineNumber, word & !EXCLUSIVE))
    }

    #[inline(always)]
    fn prefetch(&self, line: LineNumber) {
        crate::prefetch(self.0.get(line as usize));
    }
}
