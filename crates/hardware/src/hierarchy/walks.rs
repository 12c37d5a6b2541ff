//! Walks over whole caches that designs drive: cleaning a line wherever it is, flushing the caches, and
//! looking for old versions.
//!
//! Always true here: a walk takes the ports of what it looks at, and copies stay where they are, clean.

use crate::cache::{Slot, State};
use crate::coherence::{Request, transition};
use crate::hierarchy::Hardware;
use crate::line::{LINE_BYTES, Line, LineNumber, Version};
use crate::policy::{Cause, Evicted, Eviction, Policy, Reason};
use crate::time::Cycles;

/// What a cache flush did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Dirty lines that were written out.
    pub lines: u64,
    /// The last line was accepted.
    pub ready: Cycles,
    /// All of them are durable, as far as the design's answers say.
    pub durable: Cycles,
}

/// What a step of a walk over a sharing group's tags did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Dirty versions that departed.
    pub versions: u64,
    /// When the last of them was accepted.
    pub ready: Cycles,
}

impl Hardware {
    /// Makes a line of the shared cache and its private copies clean; holders keep their copies.
    /// Returns the newest bytes if they were newer than memory's, whether a private cache had
    /// them, and when they were at hand. The caller writes them.
    pub fn clean<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        slot: Slot,
        snoop_private: bool,
        now: Cycles,
    ) -> (Option<Line>, bool, Cycles) {
        let (newer, from_private, ready) = self.take_newer(policy, slot, snoop_private, now);
        (newer.map(|(bytes, _)| bytes), from_private, ready)
    }

    /// [`Self::clean`], with the version that the newest bytes carried.
    pub(crate) fn take_newer<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        slot: Slot,
        snoop_private: bool,
        now: Cycles,
    ) -> (Option<(Line, Version)>, bool, Cycles) {
        let version_before = self.llc.word(slot).version();
        let mut ready = now;
        let mut from_private = false;
        if snoop_private {
            let change = transition(self.directory(slot), Request::Clean, 0);
            let word = self.llc.word(slot).with_dirty(false);
            let was_dirty = self.llc.word(slot).dirty();
            self.llc.set_word(slot, word);
            ready = self.snoop(policy, slot, change.snoop, None, now);
            from_private = self.llc.word(slot).dirty();
            if was_dirty {
                self.llc
                    .set_word(slot, self.llc.word(slot).with_dirty(true));
            }
        }
        let word = self.llc.word(slot);
        self.llc
            .set_word(slot, word.with_dirty(false).with_version(Version::NONE));
        let newer = word.dirty() || version_before != Version::NONE;
        let newest = newer.then(|| (*self.llc.data(slot), word.version()));
        if let Some((bytes, _)) = &newest {
            self.leaves(word.line(), bytes);
        }
        (newest, from_private, ready)
    }

    /// Replaces a line that an inclusive shared cache has, and every private copy of it, as if room were
    /// needed: if it is dirty, it goes to [`Policy::evict`]. Returns when its way is free.
    pub fn replace<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        line: LineNumber,
        now: Cycles,
    ) -> Cycles {
        let Some(slot) = self.llc.find(line) else {
            return now;
        };
        let port_cycles = self.specification.llc.port_cycles;
        let start = self.take_llc_port(self.llc.set_of(line), now, port_cycles);
        self.evict_llc(policy, slot, start + port_cycles)
    }

    /// The set that a walk over the whole last-level cache visits as its `step`-th: neighbours in
    /// the walk lie a row apart in memory, so that what it writes keeps all banks busy.
    pub fn set_in_walk(&self, step: usize) -> usize {
        let lines_per_row = self.specification.nvm.row_bytes / LINE_BYTES;
        strided(step, self.llc.sets(), lines_per_row)
    }

    /// Flushes the caches: every dirty line goes to [`Policy::evict`] with [`Cause::Flush`], in the
    /// order of [`Self::set_in_walk`], and stays cached, clean. Looking at a set takes a cycle; the
    /// harts are meant to stand still meanwhile.
    pub fn flush<P: Policy + ?Sized>(&mut self, policy: &mut P, now: Cycles) -> Flushed {
        let port_cycles = self.specification.llc.port_cycles;
        let mut flushed = Flushed {
            lines: 0,
            ready: now,
            durable: now,
        };
        for step in 0..self.llc.sets() {
            let set = self.set_in_walk(step);
            flushed.ready += 1;
            for way in 0..self.llc.ways() {
                let slot = Slot((set * self.llc.ways() + way) as u32);
                let word = self.llc.word(slot);
                let may_be_dirty = word.dirty() || word.state() == State::Exclusive;
                if !self.llc.occupied(slot) || !may_be_dirty {
                    continue;
                }
                let start = self.take_llc_port(set, flushed.ready, port_cycles) + port_cycles;
                let (newer, _, at_hand) = self.take_newer(policy, slot, true, start);
                flushed.ready = at_hand;
                let Some((bytes, version)) = newer else {
                    continue;
                };
                let eviction = Eviction {
                    line: word.line(),
                    bytes,
                    version,
                    cause: Cause::Flush,
                };
                let Evicted { accepted, durable } = self.evict(policy, &eviction, at_hand);
                flushed.lines += 1;
                flushed.ready = flushed.ready.max(accepted);
                flushed.durable = flushed.durable.max(durable);
            }
        }
        flushed.durable = flushed.durable.max(flushed.ready);
        self.statistics.flush_lines += flushed.lines;
        self.draw_flush(flushed.lines, [now, flushed.ready]);
        flushed
    }

    /// A step of a walk over the tags of a sharing group's L2: every dirty version in a set that is not
    /// the current one of any of its harts departs, and the copies stay, clean ([`Reason::Walk`]). The
    /// L1D's versions of these lines do likewise, if it `looks_above`. It takes the L2's port for a
    /// cycle, and for another one for each version.
    pub fn walk_set<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        group: usize,
        set: usize,
        looks_above: bool,
        now: Cycles,
    ) -> Walked {
        let harts = self.groups[group].harts.clone();
        let first = policy.current_version(harts.start);
        let ways = self.groups[group].l2.ways();
        let mut walked = Walked {
            versions: 0,
            ready: now,
        };
        for way in 0..ways {
            let slot = Slot((set * ways + way) as u32);
            if !self.groups[group].l2.occupied(slot) {
                continue;
            }
            let line = self.groups[group].l2.word(slot).line();
            let mut newer_above = false;
            let mut older = None;
            if let Some((hart, above)) = self.modified_above(group, slot) {
                let (core, l2) = self.core_and_group(hart);
                let version = core.l1d.word(above).version();
                newer_above = !looks_above || version == policy.current_version(hart);
                if !newer_above {
                    older = core.push_down(l2, line, true);
                }
            }
            let l2 = &mut self.groups[group].l2;
            let word = l2.word(slot);
            let version = word.version();
            let mut others = harts.clone().skip(1);
            let old = word.state() == State::Modified
                && version != first
                && !others.any(|hart| version == policy.current_version(hart));
            let newest = old.then(|| (*l2.data(slot), word.version()));
            if old {
                let known = policy.departed_version(word.version());
                let clean = word.with_state(State::Exclusive).with_version(known);
                l2.set_word(slot, clean);
                if !newer_above {
                    self.set_version_above(group, slot, known);
                }
            }
            walked.versions += u64::from(older.is_some()) + u64::from(old);
            for version in [older, newest] {
                let ready = walked.ready;
                walked.ready = self.depart(policy, group, line, version, Reason::Walk, ready);
            }
            // Clean copies are what the shared cache or memory has.
            if let Some((bytes, version)) = newest.filter(|_| !newer_above) {
                let free = self.put_llc(policy, line, &bytes, version, true, walked.ready);
                walked.ready = walked.ready.max(free);
            }
        }
        let port_free = &mut self.groups[group].port_free;
        *port_free = (*port_free).max(now) + 1 + walked.versions;
        walked
    }

    /// Sets of the cache that has most of them, of those that are walked side by side: data caches, L2s,
    /// and slices of the shared cache.
    pub fn most_sets(&self) -> usize {
        let l1ds = self.cores.iter().map(|core| core.l1d.sets());
        let l2s = self.groups.iter().map(|group| group.l2.sets());
        let slice = self.llc.sets().div_ceil(self.specification.harts);
        l1ds.chain(l2s).fold(slice, usize::max)
    }
}

/// The `step`-th of `sets` numbers, each once, with strides of `wanted` or the greatest power of two
/// below that which divides them.
fn strided(step: usize, sets: usize, wanted: usize) -> usize {
    let at = step * wanted.min(1 << sets.trailing_zeros());
    at % sets + at / sets
}

#[cfg(test)]
mod tests {
    use super::strided;

    #[test]
    fn a_walk_visits_every_set_once() {
        for sets in [1, 4, 12, 32, 48, 96, 4096] {
            let mut visited: Vec<_> = (0..sets).map(|step| strided(step, sets, 32)).collect();
            if sets == 4096 {
                assert_eq!(visited[..3], [0, 32, 64]);
                assert_eq!(visited[127..130], [4064, 1, 33]);
            }
            visited.sort_unstable();
            assert!(visited.into_iter().eq(0..sets), "{sets} sets");
        }
    }
}
