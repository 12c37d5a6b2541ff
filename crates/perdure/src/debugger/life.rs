//! One life of a machine on a debugger's time line: copies of it along the way, and how it ends.
//!
//! Always true here: a life has its beginning among its copies; the others are thinned, so that there are
//! never more than so many, evenly spread as far as the life has been lived.

use std::collections::BTreeMap;

use perdure_hardware::time::Cycles;

use super::head::Head;
use crate::campaign::tear_seed;
use crate::machine::Ended;

/// How far apart copies are at first, in moments.
const FIRST_SPACING: u64 = 1 << 20;

/// A power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// When, in the life's time.
    pub cycle: Cycles,
    /// What torn writes leave.
    pub tear_seed: u64,
}

impl Cut {
    /// The one that `perdure cut --at` makes then.
    pub fn at(cycle: Cycles) -> Self {
        Self {
            cycle,
            tear_seed: tear_seed(1, cycle),
        }
    }
}

/// How a life ends.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// The power fails.
    Cut(Cut),
    /// The programs are over.
    Finished(Option<Ended>),
    /// The machine cannot go on.
    Failed(String),
}

/// One life.
pub(super) struct Life {
    /// By moment.
    heads: BTreeMap<u64, Head>,
    spacing: u64,
    most: usize,
    /// The cut that is to come.
    pub planned: Option<Cut>,
    /// How it ended and when, where that is known.
    pub end: Option<(u64, End)>,
    /// The last moment at which something can be looked at, where that is known.
    pub last: Option<u64>,
    /// What it went on with, for people.
    pub began: String,
}

impl Life {
    /// One that begins, with at most so many copies.
    pub fn new(head: Head, most: usize, began: String) -> Self {
        Self {
            heads: BTreeMap::from([(head.moment(), head)]),
            spacing: FIRST_SPACING,
            most,
            planned: None,
            end: None,
            last: None,
            began,
        }
    }

    /// Its first moment.
    pub fn start(&self) -> u64 {
        self.heads.keys().next().copied().unwrap_or(0)
    }

    /// The next moment at which a copy is wanted by one who stands there.
    pub fn next_copy(&self, moment: u64) -> u64 {
        let last = self.heads.range(..=moment).next_back();
        last.map_or(moment, |(at, _)| at.saturating_add(self.spacing))
    }

    /// Keeps a copy, if one is wanted there.
    pub fn keep(&mut self, head: &Head) {
        let moment = head.moment();
        if moment < self.next_copy(moment) {
            return;
        }
        self.heads.insert(moment, head.clone());
        thin(&mut self.heads, &mut self.spacing, self.most.max(2));
    }

    /// The last copy that stands at a moment or before it.
    pub fn before(&self, moment: u64) -> Option<&Head> {
        Some(self.heads.range(..=moment).next_back()?.1)
    }

    /// The last copy on which everything up to a time is still to happen.
    pub fn before_cycle(&self, cycle: Cycles) -> Option<&Head> {
        let mut heads = self.heads.values().rev();
        heads.find(|head| head.machine.time() <= cycle)
    }

    /// The moments of the copies before one, the last one first.
    pub fn moments_before(&self, moment: u64) -> impl Iterator<Item = u64> {
        self.heads.range(..moment).rev().map(|(at, _)| *at)
    }

    /// Forgets what lies behind a moment.
    pub fn forget_after(&mut self, moment: u64) {
        self.heads.split_off(&(moment.max(self.start()) + 1));
        (self.end, self.last) = (None, None);
    }

    /// It ends then, and the moment `last` is the last to look at.
    pub fn ends(&mut self, moment: u64, end: End, last: u64) {
        (self.end, self.last) = (Some((moment, end)), Some(last));
    }
}

/// Doubles the spacing of what is kept by moments until no more than so many are left.
fn thin<T>(kept: &mut BTreeMap<u64, T>, spacing: &mut u64, most: usize) {
    while kept.len() > most {
        *spacing *= 2;
        let mut last = None;
        kept.retain(|&at, _| {
            let stays = last.is_none_or(|last| at - last >= *spacing);
            if stays {
                last = Some(at);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, FIRST_SPACING, thin};

    #[test]
    fn spacing_doubles_until_copies_fit() {
        let (mut kept, mut spacing) = (BTreeMap::from([(0, 0)]), FIRST_SPACING);
        for step in 1..2000 {
            let at = step * FIRST_SPACING;
            let last = *kept.keys().next_back().expect("the first stays");
            if at - last < spacing {
                continue;
            }
            kept.insert(at, step);
            thin(&mut kept, &mut spacing, 16);
            assert!(kept.len() <= 16 && kept.contains_key(&0));
        }
        assert!(kept.len() >= 8);
    }
}
