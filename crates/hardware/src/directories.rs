//! The directory of the shared cache, in one of two forms: beside its tags, if it is inclusive, or apart
//! from them. The protocol (`coherence.rs`) is the same.
//!
//! Always true here: a line has one directory, which knows exactly who holds it.

use crate::cache::{Cache, Slot};
use crate::coherence::Directory;
use crate::line::LineNumber;
use crate::specification::{Inclusion, Specification};

/// The two forms. All of it is lost at power-off.
#[derive(Clone, Debug)]
pub(crate) enum Directories {
    /// By slot of the shared cache, the holders of its line. Its word is Exclusive if one owns it.
    InTags(Vec<u64>),
    /// By line.
    Apart(FullMap),
}

impl Directories {
    /// The form that the specification asks for, for a shared cache that holds nothing.
    pub fn new(specification: &Specification, shared: &Cache) -> Self {
        match specification.llc.inclusion {
            Inclusion::NonInclusive => Self::Apart(FullMap::new(specification)),
            Inclusion::Inclusive | Inclusion::ByDesign => {
                Self::InTags(vec![0; shared.sets() * shared.ways()])
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

    /// Asks the host for what they know of a line.
    #[inline(always)]
    pub fn prefetch(&self, shared: &Cache, line: LineNumber) {
        match self {
            Self::InTags(holders) => {
                crate::prefetch(&raw const holders[shared.set_of(line) * shared.ways()]);
            }
            Self::Apart(map) => map.prefetch(line),
        }
    }
}

/// The directory as a map of all lines of memory: holders in the low bits, exclusivity in the top
/// one. What it costs to look into is part of the shared cache's latency.
#[derive(Debug)]
pub(crate) struct FullMap {
    words: Vec<u64>,
    /// Pieces of it that were ever set.
    touched: Vec<bool>,
}

/// Words in a piece: a page of the host's.
const PIECE: usize = 512;

/// What was never touched takes no memory of the host's, in a copy neither.
impl Clone for FullMap {
    fn clone(&self) -> Self {
        let mut words = vec![0; self.words.len()];
        let pieces = self.words.chunks(PIECE).zip(words.chunks_mut(PIECE));
        for ((from, to), _) in pieces.zip(&self.touched).filter(|(_, touched)| **touched) {
            to.copy_from_slice(from);
        }
        let touched = self.touched.clone();
        Self { words, touched }
    }
}

const EXCLUSIVE: u64 = 1 << 63;

impl FullMap {
    /// An empty one.
    fn new(specification: &Specification) -> Self {
        let lines = specification.lines();
        Self {
            words: vec![0; lines],
            touched: vec![false; lines.div_ceil(PIECE)],
        }
    }

    /// What it knows of a line.
    #[inline(always)]
    pub fn get(&self, line: LineNumber) -> Directory {
        let word = self.words[line as usize];
        Directory {
            holders: word & !EXCLUSIVE,
            exclusive: word & EXCLUSIVE != 0,
        }
    }

    /// Changes it.
    pub fn set(&mut self, line: LineNumber, directory: Directory) {
        let exclusive = if directory.exclusive { EXCLUSIVE } else { 0 };
        self.words[line as usize] = directory.holders | exclusive;
        self.touched[line as usize / PIECE] = true;
    }

    /// Who holds each line that somebody holds.
    pub fn held(&self) -> impl Iterator<Item = (LineNumber, u64)> {
        let words = (0..).zip(&self.words).filter(|(_, word)| **word != 0);
        words.map(|(line, &word)| (line, word & !EXCLUSIVE))
    }

    #[inline(always)]
    fn prefetch(&self, line: LineNumber) {
        crate::prefetch(&raw const self.words[line as usize]);
    }
}
