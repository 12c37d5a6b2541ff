//! Asking the host for what a miss will touch. Simulated misses are host misses: the first three of
//! these took a fifth off a random one.
//!
//! Always true here: nothing changes, and no time passes.

use crate::cache::Slot;
use crate::hierarchy::Hardware;
use crate::line::{LINE_BYTES, LineNumber};

impl Hardware {
    /// What the shared cache knows of a line, and the line in memory, before the L2 has answered.
    #[inline(always)]
    pub(super) fn prefetch_miss(&self, line: LineNumber) {
        self.memory.arena.prefetch(line * LINE_BYTES as u64);
        self.prefetch_llc(line);
    }

    /// What the L2 has of the line that will leave a hart's L1D to make room.
    #[inline(always)]
    pub(super) fn prefetch_displaced(&self, hart: usize, victim: Slot) {
        let core = &self.cores[hart];
        let below = core.below[victim.0 as usize];
        self.groups[core.group].l2.prefetch_slot(below);
    }

    /// The bytes of the line that will leave the L2 to make room, and what the shared cache has of it.
    #[inline(always)]
    pub(super) fn prefetch_departure(&self, group: usize, victim: Slot) {
        let group = &self.groups[group];
        crate::prefetch(group.l2.data(victim));
        if let Some(&shared) = group.below.get(victim.0 as usize) {
            self.llc.prefetch_slot(shared);
            self.directories.prefetch_slot(shared);
        } else if group.l2.occupied(victim) {
            self.prefetch_llc(group.l2.word(victim).line());
        }
    }

    /// The way of the shared cache that will be replaced, and where its bytes will go.
    #[inline(always)]
    pub(super) fn prefetch_replacement(&self, slot: Slot) {
        crate::prefetch(self.llc.data(slot));
        let word = self.llc.word(slot);
        if self.llc.occupied(slot) && word.dirty() {
            self.memory.arena.prefetch(word.line() * LINE_BYTES as u64);
        }
    }

    /// The bytes of a line in the shared cache, and where they will go: some time after
    /// [`Self::prefetch_llc`], which has what is looked at here.
    #[inline(always)]
    pub fn prefetch_eviction(&self, line: LineNumber) {
        if let Some(slot) = self.llc.find(line) {
            crate::prefetch(self.llc.data(slot));
            self.memory.arena.prefetch(line * LINE_BYTES as u64);
        }
    }

    /// What the shared cache knows of a line.
    #[inline(always)]
    pub fn prefetch_llc(&self, line: LineNumber) {
        self.llc.prefetch(line);
        self.directories.prefetch(&self.llc, line);
    }
}
