//! The newest bytes of memory, wherever they are, for verifiers and reports.
//!
//! Always true here: looking costs nothing and changes nothing.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::arena::Digest;
use crate::cache::State;
use crate::directories::FullMap;
use crate::hierarchy::Hardware;
use crate::line::{LINE_BYTES, Line, LineNumber};
use crate::policy::Policy;
use crate::statistics::Statistics;

impl Hardware {
    /// The newest bytes of a line, wherever they are. Charges nothing and changes nothing.
    pub fn peek<P: Policy + ?Sized>(&self, policy: &P, line: LineNumber) -> Line {
        let mut newest = self
            .peek_cached(line)
            .unwrap_or_else(|| policy.peek(self, line));
        self.lay_combined_over(line, &mut newest);
        newest
    }

    /// The newest bytes of a cached line.
    pub(super) fn peek_cached(&self, line: LineNumber) -> Option<Line> {
        if let Some(map) = self.directories.apart() {
            return self.peek_apart(map, line);
        }
        let slot = self.llc.find(line)?;
        let mut newer = None;
        if self.llc.word(slot).state() == State::Exclusive {
            let owner = self.directories.holders(slot).trailing_zeros() as usize;
            newer = self.dirty_in(owner, line);
        }
        Some(*newer.unwrap_or_else(|| self.llc.data(slot)))
    }

    /// The newest bytes of a cached line.
    pub(crate) fn peek_apart(&self, map: &FullMap, line: LineNumber) -> Option<Line> {
        let directory = map.get(line);
        let mut newest = None;
        if directory.exclusive {
            newest = self.dirty_in(directory.holders.trailing_zeros() as usize, line);
        }
        let shared = || self.llc.find(line).map(|slot| self.llc.data(slot));
        newest.or_else(shared).copied()
    }

    /// A sharing group's newest bytes of a line, if they are newer than what is below.
    pub(crate) fn dirty_in(&self, number: usize, line: LineNumber) -> Option<&Line> {
        let l2 = &self.groups[number].l2;
        let slot = l2.find(line)?;
        if let Some((hart, above)) = self.modified_above(number, slot) {
            return Some(self.cores[hart].l1d.data(above));
        }
        (l2.word(slot).state() == State::Modified).then(|| l2.data(slot))
    }

    /// Shows every line whose newest bytes, in the caches or where the design keeps them, differ
    /// from those at its home address, each once.
    pub fn newer_lines<P: Policy + ?Sized>(
        &self,
        policy: &P,
        show: &mut dyn FnMut(LineNumber, &Line),
    ) {
        let buffers = self.cores.iter().flat_map(|core| core.combining.iter());
        let combined: BTreeSet<_> = buffers.map(|combined| combined.line).collect();
        let home = |line: LineNumber| self.memory.arena.line(line * LINE_BYTES as u64);
        let mut differing = |line: LineNumber, newest: &Line| {
            if newest != home(line) && !combined.contains(&line) {
                show(line, newest);
            }
        };
        for (_, word) in self.llc.iter() {
            let newest = self.peek_cached(word.line()).expect("it is cached");
            differing(word.line(), &newest);
        }
        if self.directories.apart().is_some() {
            self.private_only(&mut differing);
        }
        policy.displaced(&mut |line| {
            if self.peek_cached(line).is_none() {
                differing(line, &policy.peek(self, line));
            }
        });
        for &line in &combined {
            let newest = self.peek(policy, line);
            if newest != *home(line) {
                show(line, &newest);
            }
        }
    }

    /// Shows every dirty line that the shared cache does not have.
    pub(crate) fn private_only(&self, show: &mut dyn FnMut(LineNumber, &Line)) {
        for (number, group) in self.groups.iter().enumerate() {
            for (_, word) in group.l2.iter() {
                let line = word.line();
                if self.llc.find(line).is_none()
                    && let Some(newest) = self.dirty_in(number, line)
                {
                    show(line, newest);
                }
            }
        }
    }

    /// The digest of memory as programs see it: the kept digest of the array, with what the caches
    /// and the design hold laid over it.
    pub fn coherent_digest<P: Policy + ?Sized>(&self, policy: &P, range: &Range<u64>) -> Digest {
        let mut digest = self.memory.arena.digest_of(range.clone());
        self.newer_lines(policy, &mut |line, newest| {
            let address = line * LINE_BYTES as u64;
            if range.contains(&address) {
                digest.replace(address, &self.memory.arena.line(address).0, &newest.0);
            }
        });
        digest
    }

    /// The counters, those kept by the cores included.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.statistics.clone();
        statistics.l1d_accesses = self.cores.iter().map(|core| core.accesses).sum();
        statistics.l1i_accesses = self.cores.iter().map(|core| core.fetches).sum();
        statistics.l1d_stores = self.cores.iter().map(|core| core.stores).sum();
        for core in &self.cores {
            core.timing.report(&mut statistics);
        }
        self.memory.report(&mut statistics);
        statistics
    }

    /// True if a sharing group has newer bytes of a line than the shared cache.
    pub(crate) fn dirty_inside(&self, line: LineNumber) -> bool {
        let Some(map) = self.directories.apart() else {
            return false;
        };
        let directory = map.get(line);
        let owner = directory.holders.trailing_zeros() as usize;
        directory.exclusive && self.dirty_in(owner, line).is_some()
    }
}
