//! On which harts a thread may run, where that is not everywhere (`sched_setaffinity`).
//!
//! Always true: a set has at least one hart of the machine, and never all of them. A thread that may no
//! longer run where it runs goes when it next enters the kernel, at the latest when its time slice is over.

use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::machine::ThreadId;
use crate::vfs::report::{list_of, mask_of};

/// A set of harts, a bit each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HartSet(Vec<u64>);

impl HartSet {
    /// The first so many.
    pub fn all(harts: usize) -> Self {
        let mut all = Self(vec![0; harts.div_ceil(64)]);
        for hart in 0..harts {
            all.0[hart / 64] |= 1 << (hart % 64);
        }
        all
    }

    /// Those of the first so many that a program's mask names.
    pub fn named(mask: &[u8], harts: usize) -> Self {
        let mut named = Self::all(harts);
        for (number, word) in named.0.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            let given = mask.get(number * 8..).unwrap_or_default();
            let given = &given[..given.len().min(8)];
            bytes[..given.len()].copy_from_slice(given);
            *word &= u64::from_le_bytes(bytes);
        }
        named
    }

    pub fn contains(&self, hart: usize) -> bool {
        (self.0.get(hart / 64)).is_some_and(|word| word >> (hart % 64) & 1 != 0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// True for what a thread may be bound to on a machine with so many harts.
    pub fn is_some_of(&self, harts: usize) -> bool {
        let all = Self::all(harts);
        let inside = |(own, all): (&u64, &u64)| own & !all == 0;
        self.0.len() == all.0.len()
            && self.0.iter().zip(&all.0).all(inside)
            && !self.is_empty()
            && *self != all
    }

    /// As programs have it.
    pub fn mask(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// As `/proc` writes it: the words of `/sys`, without the digits that no hart needs.
    pub fn words(&self, harts: usize) -> String {
        let texts = mask_of(|hart| self.contains(hart), harts);
        let digits = harts.div_ceil(4) + harts.div_ceil(32) - 1;
        texts[texts.len() - digits..].to_owned()
    }

    /// As a list: `0-2,5`.
    pub fn list(&self, harts: usize) -> String {
        let mut runs: Vec<String> = Vec::new();
        let mut hart = 0;
        while hart < harts {
            let first = hart;
            while hart < harts && self.contains(hart) {
                hart += 1;
            }
            if hart > first {
                runs.push(list_of(first..hart));
            } else {
                hart += 1;
            }
        }
        runs.join(",")
    }
}

impl Kernel {
    /// The harts on which a thread may run.
    pub(crate) fn harts_of(&self, thread: ThreadId) -> HartSet {
        let own = self.rare.affinities.get(&thread).cloned();
        own.unwrap_or_else(|| HartSet::all(self.settings.harts))
    }

    /// From now on a thread may run on these harts only.
    pub(crate) fn bind(&mut self, thread: ThreadId, harts: HartSet) {
        if harts == HartSet::all(self.settings.harts) {
            self.rare.affinities.remove(&thread);
        } else {
            self.rare.affinities.insert(thread, harts);
        }
    }

    #[inline]
    pub(crate) fn may_run(&self, thread: ThreadId, hart: usize) -> bool {
        let all = &self.rare.affinities;
        all.is_empty() || all.get(&thread).is_none_or(|own| own.contains(hart))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_linux_does() {
        let some = HartSet::named(&[0b10_0111, 0, 0, 0, 1, 0, 0, 0, 0xff], 40);
        assert_eq!(some.list(40), "0-2,5,32");
        assert_eq!(some.words(40), "01,00000027");
        assert_eq!(HartSet::all(3).words(3), "7");
        assert_eq!(HartSet::all(32).words(32), "ffffffff");
        assert_eq!(HartSet::all(65).list(65), "0-64");
        assert_eq!(HartSet::all(65).words(65), "1,ffffffff,ffffffff");
        assert!(HartSet::named(&[0b1000], 3).is_empty());
        assert_eq!(HartSet::named(&[0xff; 128], 70), HartSet::all(70));
        assert_eq!(HartSet::named(&[1, 2], 70).mask().len(), 16);
    }
}
