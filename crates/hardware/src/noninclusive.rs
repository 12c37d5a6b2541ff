//! The hierarchy with a last-level cache that is not inclusive: what happens between the L2s, the
//! shared cache and memory then.
//!
//! The shared cache is filled by lines that leave the L2s, dirty or clean, and by the newest bytes
//! of lines that come to be shared; a line that comes from memory goes past it. It replaces lines
//! without asking the L2s. So its tags cannot be the directory, which lies apart, as a full map.
//!
//! Always true between transactions, beside what `hierarchy.rs` says:
//! - A sharing group that holds a line Exclusive or Shared, and not Modified, holds the bytes that the
//!   shared cache has, or memory if that has none.
//! - If the policy keeps versions ([`Policy::keeps_versions`]): a sharing group holds at most two dirty
//!   versions of a line, the newer one in one of its L1Ds, the older one in the L2; and every copy,
//!   clean or dirty, carries the version of its bytes.

use crate::cache::{Slot, State, Word};
use crate::coherence::{Directory, Request, Snoop, transition};
use crate::hierarchy::{Granted, Hardware};
use crate::line::{LINE_BYTES, Line, LineNumber, Version};
use crate::persist::{Effect, Persist};
use crate::policy::{Cause, Eviction, Policy, Reason};
use crate::sharing_group::members;
use crate::specification::{Inclusion, Specification};
use crate::time::Cycles;
use crate::trace::Traced;

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
    /// An empty one, if the specification asks for it.
    pub fn new(specification: &Specification) -> Option<Self> {
        let lines = (specification.physical_map().bytes() / LINE_BYTES as u64) as usize;
        (specification.llc.inclusion == Inclusion::NonInclusive).then(|| Self {
            words: vec![0; lines],
            touched: vec![false; lines.div_ceil(PIECE)],
        })
    }

    #[inline(always)]
    fn get(&self, line: LineNumber) -> Directory {
        let word = self.words[line as usize];
        Directory {
            holders: word & !EXCLUSIVE,
            exclusive: word & EXCLUSIVE != 0,
        }
    }

    fn set(&mut self, line: LineNumber, directory: Directory) {
        let exclusive = if directory.exclusive { EXCLUSIVE } else { 0 };
        self.words[line as usize] = directory.holders | exclusive;
        self.touched[line as usize / PIECE] = true;
    }

    #[inline(always)]
    pub fn prefetch(&self, line: LineNumber) {
        crate::prefetch(&raw const self.words[line as usize]);
    }
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
    fn map(&mut self) -> &mut FullMap {
        self.full_map
            .as_mut()
            .expect("only called where the directory lies apart")
    }

    /// [`Hardware::ask_llc`], after the port: the directory, then whoever has the bytes.
    pub(crate) fn ask_apart<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        request: Request,
        now: Cycles,
    ) -> Granted {
        let requester = self.cores[hart].group;
        let before = self.map().get(line);
        let change = transition(before, request, requester as u32);
        self.map().set(line, change.next);
        let mut granted = Granted {
            bytes: Line::ZERO,
            state: change.grant,
            version: Version::NONE,
            ready: now,
        };
        let (targets, after) = match change.snoop {
            Snoop::None | Snoop::Clean(_) => (0, State::Shared),
            Snoop::Invalidate(holders) => (holders, State::Invalid),
            Snoop::Downgrade(owner) => (1 << owner, State::Shared),
        };
        let mut given = None;
        if targets != 0 {
            granted.ready += self.specification.llc.snoop_cycles;
            for group in members(targets) {
                self.statistics.snoops += 1;
                let kept = |version| policy.departed_version(version);
                given = self.give_up(group, line, after, kept).or(given);
            }
        }
        if let Some(given) = given {
            granted.version = given.version;
            // Dirty only if it was the one owner, whom `targets` then is.
            let owner = targets.trailing_zeros() as usize;
            let reason = if after == State::Invalid {
                Reason::Invalidation
            } else {
                Reason::Downgrade
            };
            let older = given.older;
            granted.ready = self.depart(policy, owner, line, older, reason, granted.ready);
            let newest = given.dirty.then_some((given.bytes, given.version));
            if after == State::Invalid
                && given.dirty
                && policy.passes_dirty(requester, given.version)
            {
                self.statistics.dirty_transfers += 1;
                granted.state = State::Modified;
            } else if given.dirty {
                granted.ready = self.depart(policy, owner, line, newest, reason, granted.ready);
                let (bytes, version) = (&given.bytes, given.version);
                let free = self.put_llc(policy, line, bytes, version, true, granted.ready);
                granted.ready = granted.ready.max(free);
                granted.version = policy.departed_version(given.version);
            }
            granted.bytes = given.bytes;
        } else if before.holders >> requester & 1 != 0 {
            // An upgrade: the bytes are there.
            (granted.bytes, granted.version) = self.groups[requester].copy(line);
        } else if let Some(slot) = self.llc.find(line) {
            self.llc.touch(slot);
            (granted.bytes, granted.version) =
                (*self.llc.data(slot), self.llc.word(slot).version());
        } else if before.holders != 0 {
            let sharer = before.holders.trailing_zeros() as usize;
            self.statistics.snoops += 1;
            granted.ready += self.specification.llc.snoop_cycles;
            (granted.bytes, granted.version) = self.groups[sharer].copy(line);
        } else {
            self.statistics.llc_misses += 1;
            (granted.bytes, granted.ready) = self.fill(policy, line, now);
            granted.version = policy.memory_version(line);
        }
        if let Some(trace) = &mut self.trace {
            let group = requester;
            trace.push(Traced::Observed { group, line });
        }
        if policy.is_ahead(requester, granted.version, request == Request::Write) {
            self.cores[hart].ahead = Some(granted.version);
        }
        granted
    }

    /// Puts bytes that leave an L2 into the shared cache. Returns when its way was free.
    fn put_llc<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        line: LineNumber,
        bytes: &Line,
        version: Version,
        dirty: bool,
        now: Cycles,
    ) -> Cycles {
        let set = self.llc.set_of(line);
        let start = self.take_llc_port(set, now, self.specification.llc.port_cycles);
        let mut free = now;
        let (slot, dirty) = if let Some(slot) = self.llc.find(line) {
            (slot, dirty || self.llc.word(slot).dirty())
        } else {
            let slot = self.llc.victim(line);
            let word = self.llc.word(slot);
            if self.llc.occupied(slot) && word.dirty() {
                self.statistics.llc_write_backs += 1;
                let eviction = Eviction {
                    line: word.line(),
                    bytes: *self.llc.data(slot),
                    version: word.version(),
                    cause: Cause::Replacement,
                };
                free = self.evict(policy, &eviction, start).accepted;
            }
            (slot, dirty)
        };
        let known = policy.departed_version(version);
        let word = Word::new(line, State::Shared, dirty, known);
        self.llc.set_word(slot, word);
        *self.llc.data_mut(slot) = *bytes;
        self.llc.touch(slot);
        free
    }

    /// A line leaves an L2, and with it the sharing group. Returns when the way is free.
    pub(crate) fn evict_l2_apart<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        group: usize,
        line: LineNumber,
        now: Cycles,
    ) -> Cycles {
        let given = self
            .give_up(group, line, State::Invalid, |version| version)
            .expect("the line that is replaced is there");
        let before = self.map().get(line);
        let change = transition(before, Request::Evict, group as u32);
        self.map().set(line, change.next);
        let mut free = self.depart(policy, group, line, given.older, Reason::Capacity, now);
        if given.dirty {
            self.statistics.l2_write_backs += 1;
            let newest = Some((given.bytes, given.version));
            free = self.depart(policy, group, line, newest, Reason::Capacity, free);
        }
        let (bytes, version) = (&given.bytes, given.version);
        let placed = self.put_llc(policy, line, bytes, version, given.dirty, now);
        free.max(placed)
    }

    /// True if a sharing group has newer bytes of a line than the shared cache.
    pub(crate) fn dirty_inside(&self, line: LineNumber) -> bool {
        let Some(map) = &self.full_map else {
            return false;
        };
        let directory = map.get(line);
        let owner = directory.holders.trailing_zeros() as usize;
        directory.exclusive && self.dirty_in(owner, line).is_some()
    }

    /// [`Hardware::persist`], after the port.
    pub(crate) fn persist_apart<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        persist: &Persist,
        now: Cycles,
    ) -> Cycles {
        let line = persist.line;
        let before = self.map().get(line);
        let mut ready = now;
        let mut newest = None;
        if before.exclusive {
            let owner = before.holders.trailing_zeros() as usize;
            self.statistics.snoops += 1;
            ready += self.specification.llc.snoop_cycles;
            let kept = |version| policy.departed_version(version);
            let given = self.give_up(owner, line, State::Exclusive, kept);
            let given = given.expect("the directory is exact");
            newest = given.dirty.then_some((given.bytes, given.version));
            for version in [given.older, newest] {
                ready = self.depart(policy, owner, line, version, Reason::CacheBlock, ready);
            }
        }
        if let Some(slot) = self.llc.find(line) {
            let word = self.llc.word(slot);
            if let Some((bytes, version)) = newest {
                *self.llc.data_mut(slot) = bytes;
                let known = policy.departed_version(version);
                self.llc
                    .set_word(slot, word.with_dirty(false).with_version(known));
            } else if word.dirty() {
                newest = Some((*self.llc.data(slot), word.version()));
                self.llc.set_word(slot, word.with_dirty(false));
            }
        }
        ready = if let Some((bytes, version)) = newest {
            let eviction = Eviction {
                line,
                bytes,
                version,
                cause: Cause::CacheBlock,
            };
            self.send_out(policy, persist, &eviction, ready)
        } else {
            self.send_through(persist, ready)
        };
        if persist.effect == Effect::Flush {
            for group in members(before.holders) {
                self.statistics.snoops += 1;
                self.give_up(group, line, State::Invalid, |version| version);
            }
            self.map().set(line, Directory::default());
            if let Some(slot) = self.llc.find(line) {
                self.llc.invalidate(slot);
            }
        }
        ready
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

    /// Shows every cached copy's word and lets the caller change its version: for designs that
    /// recycle version numbers.
    pub fn retag(&mut self, mut retagged: impl FnMut(Version) -> Version) {
        let l1ds = self.cores.iter_mut().map(|core| &mut core.l1d);
        let l2s = self.groups.iter_mut().map(|group| &mut group.l2);
        for cache in l1ds.chain(l2s).chain([&mut self.llc]) {
            for slot in 0..cache.sets() * cache.ways() {
                let slot = Slot(slot as u32);
                if cache.occupied(slot) {
                    let word = cache.word(slot);
                    cache.set_word(slot, word.with_version(retagged(word.version())));
                }
            }
        }
    }

    /// The versions of all dirty lines in a sharing group's private caches, with their lines.
    pub fn dirty_versions(&self, group: usize) -> impl Iterator<Item = (LineNumber, Version)> + '_ {
        let group = &self.groups[group];
        let l1ds = self.cores[group.harts.clone()].iter();
        let caches = l1ds.map(|core| &core.l1d).chain([&group.l2]);
        caches.flat_map(|cache| {
            cache
                .iter()
                .filter(|(_, word)| word.state() == State::Modified)
                .map(|(_, word)| (word.line(), word.version()))
        })
    }

    // ---- For verifiers and reports ---------------------------------------------------------

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

    /// Checks directory and single ownership, and what clean lines hold. What is below the caches is
    /// where the policy has it, which need not be the home address.
    pub(crate) fn audit_apart<P: Policy + ?Sized>(
        &self,
        policy: &P,
        map: &FullMap,
    ) -> Result<(), String> {
        for (number, group) in self.groups.iter().enumerate() {
            for (slot, word) in group.l2.iter() {
                let line = word.line();
                map.get(line).audit(number, word)?;
                let below = match self.llc.find(line) {
                    Some(below) => *self.llc.data(below),
                    None => policy.peek(self, line),
                };
                if self.dirty_in(number, line).is_none() && *group.l2.data(slot) != below {
                    return Err(format!(
                        "sharing group {number}: line {line:#x} is clean in l2 and differs from what is below"
                    ));
                }
            }
        }
        for (line, &word) in map.words.iter().enumerate().filter(|(_, word)| **word != 0) {
            let mut holders = members(word & !EXCLUSIVE);
            let absent = holders.find(|&group| {
                let l2 = &self.groups[group].l2;
                l2.find(line as LineNumber).is_none()
            });
            if let Some(group) = absent {
                return Err(format!(
                    "line {line:#x}: directory wrong about sharing group {group}"
                ));
            }
        }
        Ok(())
    }
}
