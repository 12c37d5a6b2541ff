//! The cache hierarchy: how a transaction walks L1 → L2 → last-level cache → memory, moving real
//! bytes and gathering time.
//!
//! Always true between transactions:
//! - Inclusion: a line in an L1 is in its sharing group's L2 (`sharing_group.rs`); a line in an L2 is in
//!   the last-level cache, if that is inclusive (what happens if it is not stands in `noninclusive.rs`).
//! - The directory (which sharing groups hold each line, and whether one does exclusively) is exact.
//! - An L1 or L2 word in state Modified means that its bytes are newer than the next level's; the
//!   last-level word's dirty bit means that they are newer than memory's.
//! - The newest bytes of a line are, in this order: the Modified L1D's, the Modified L2's, the
//!   last-level cache's, memory's.
//! - A lookaside entry is never more permissive than the L1 line behind it.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::arena::{Arena, Digest};
use crate::cache::{Cache, Slot, State, Word};
use crate::calendar::Calendar;
use crate::coherence::{Directory, Request, Snoop, transition};
use crate::combining::CombiningBuffers;
use crate::core_timing::CoreTiming;
use crate::event::EventQueue;
use crate::line::{LINE_BYTES, Line, LineNumber, Version};
use crate::lookaside::Lookaside;
use crate::memory::Memory;
use crate::noninclusive::FullMap;
use crate::policy::{
    Cause, CrossVersionStore, Departure, Evicted, Eviction, Policy, PolicyFailure, Reason, Transfer,
};
use crate::sharing_group::{SharingGroup, members};
use crate::specification::Specification;
use crate::statistics::Statistics;
use crate::time::Cycles;
use crate::trace::Traced;

/// Slots of time that a port's calendar remembers.
const PORT_SLOTS: usize = 4096;

/// The granularity of [`Statistics::pages_written`].
const PAGE_BYTES: u64 = 4096;

/// One hart's private part of the machine. All of it is lost at power-off.
#[derive(Clone, Debug)]
pub struct Core {
    /// Instruction cache.
    pub l1i: Cache,
    /// Data cache.
    pub l1d: Cache,
    /// Its own number.
    pub hart: usize,
    /// The sharing group whose L2 it uses.
    pub group: usize,
    /// The hit path's table.
    pub lookaside: Lookaside,
    /// Its clock.
    pub timing: CoreTiming,
    /// Stores that go around the caches, and wait.
    pub combining: CombiningBuffers,
    /// Data accesses so far: statistic and clock of L1D replacement in one.
    pub accesses: u64,
    /// Of these, writes.
    pub stores: u64,
    /// Instruction-cache accesses so far.
    pub fetches: u64,
    /// The line reserved by LR.
    pub reservation: Option<LineNumber>,
    /// A line of this version came, and [`Policy::is_ahead`] said that the sharing group has to come to
    /// a newer one first. Whoever runs the hart sees to that before the access is made again.
    pub ahead: Option<Version>,
}

/// What a store does: to which piece of its line, and what to its bytes.
pub type Change<'c> = (Range<usize>, &'c mut dyn FnMut(&mut [u8]));

/// The substrate: cores, shared cache, memory, events and counters.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// What it was built from.
    pub specification: Specification,
    /// Private parts, one for each hart.
    pub cores: Vec<Core>,
    /// Second-level caches, each with the harts that share it.
    pub groups: Vec<SharingGroup>,
    /// Shared cache. A word in state Exclusive has one holder that owns the line.
    pub llc: Cache,
    pub(crate) holders: Vec<u64>,
    /// The directory, if the shared cache is not inclusive.
    pub(crate) full_map: Option<FullMap>,
    /// Of each slice of the shared cache.
    ports: Vec<Calendar>,
    /// Controller and media.
    pub memory: Memory,
    /// Timed events.
    pub events: EventQueue,
    /// Counters.
    pub statistics: Statistics,
    /// Set by a policy that cannot go on.
    pub failure: Option<PolicyFailure>,
    /// Set when a policy broke its contract.
    pub breach: Option<PolicyFailure>,
    /// Filled for a verifier, if present.
    pub trace: Option<Vec<Traced>>,
    /// How often the version changed, plus one; and for each page, what that was when a store last
    /// found an older version in it. Not hardware: it measures the program's write set.
    generation: u32,
    page_generations: Vec<u32>,
}

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

/// A line that a request brought to a hart. Modified if it came from another sharing group, dirty.
pub(crate) struct Granted {
    pub bytes: Line,
    pub state: State,
    pub version: Version,
    pub ready: Cycles,
}

/// A version, with its bytes, that is in the way of a newer one.
pub(crate) type Older = Option<(Line, Version)>;

impl Hardware {
    /// Cold caches over the given bytes.
    pub fn new(specification: Specification, arena: Arena, context_range: Range<u64>) -> Self {
        let cores = (0..specification.harts)
            .map(|hart| {
                let private =
                    |cache: &crate::specification::Private| Cache::new(cache.bytes, cache.ways, 1);
                let l1d = private(&specification.l1d);
                Core {
                    l1i: private(&specification.l1i),
                    hart,
                    group: hart / specification.l2.harts,
                    lookaside: Lookaside::new(l1d.sets() * l1d.ways()),
                    l1d,
                    timing: CoreTiming::new(&specification.core),
                    combining: CombiningBuffers::default(),
                    accesses: 0,
                    stores: 0,
                    fetches: 0,
                    reservation: None,
                    ahead: None,
                }
            })
            .collect();
        let shared = &specification.llc;
        let llc = Cache::new(shared.bytes_per_hart, shared.ways, specification.harts);
        Self {
            cores,
            groups: SharingGroup::all(&specification),
            holders: vec![0; llc.sets() * llc.ways()],
            full_map: FullMap::new(&specification),
            ports: vec![Calendar::new(PORT_SLOTS); specification.harts],
            llc,
            memory: Memory::new(&specification, arena, context_range),
            events: EventQueue::default(),
            statistics: Statistics::default(),
            failure: None,
            breach: None,
            trace: None,
            generation: 1,
            page_generations: vec![0; (specification.physical_map().bytes() / PAGE_BYTES) as usize],
            specification,
        }
    }

    // ---- Data accesses ---------------------------------------------------------------------

    /// Brings a line into a hart's L1D to be read. Returns where it is and when it came.
    pub fn load<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) -> (Slot, Cycles) {
        self.reach(policy, hart, line, false, now)
    }

    /// Stores bytes into a line, from `offset` on. Returns where the line is and when the store is done.
    pub fn store<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        (offset, bytes): (usize, &[u8]),
        now: Cycles,
    ) -> (Slot, Cycles) {
        let piece = offset..offset + bytes.len();
        let mut copy = |stored: &mut [u8]| stored.copy_from_slice(bytes);
        self.update(policy, hart, line, (piece, &mut copy), now)
    }

    /// Brings a line into a hart's L1D with the right to write it, and makes a change to a piece of its
    /// bytes, once they are there. It is afterwards Modified and carries the current version. Nothing is
    /// changed if the hart is behind the line ([`Core::ahead`]). Every store comes by here, except those
    /// that hit the lookaside.
    pub fn update<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        change: Change,
        now: Cycles,
    ) -> (Slot, Cycles) {
        let (slot, mut ready) = self.reach(policy, hart, line, true, now);
        if self.cores[hart].ahead.is_none() {
            ready = self.own(policy, hart, line, slot, ready);
        }
        if self.cores[hart].ahead.is_none() {
            ready = self.write(policy, hart, slot, change, ready);
        }
        (slot, ready)
    }

    fn reach<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        write: bool,
        now: Cycles,
    ) -> (Slot, Cycles) {
        let core = &mut self.cores[hart];
        core.accesses += 1;
        core.stores += u64::from(write);
        let stamp = core.accesses;
        let (slot, ready) = match core.l1d.find(line) {
            Some(slot) => (slot, now),
            None => self.fill_l1d(policy, hart, line, write, now),
        };
        *self.cores[hart].l1d.stamp_mut(slot) = stamp;
        (slot, ready)
    }

    /// Lets accesses to the line at a virtual address hit an L1D slot from now on: loads, and stores
    /// that nobody has to be asked about.
    pub fn let_hit<P: Policy + ?Sized>(
        &mut self,
        policy: &P,
        hart: usize,
        address: u64,
        slot: Slot,
        may_write: bool,
    ) {
        let core = &mut self.cores[hart];
        let word = core.l1d.word(slot);
        let writable = may_write
            && word.state() == State::Modified
            && word.version() == policy.current_version(hart)
            && !policy.sees_every_store();
        core.lookaside
            .install(address, &mut core.l1d, slot, writable);
    }

    /// Ownership of a line in the hart's L1D.
    fn own<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        slot: Slot,
        now: Cycles,
    ) -> Cycles {
        let word = self.cores[hart].l1d.word(slot);
        if word.state() != State::Shared {
            return now;
        }
        self.statistics.l1d_upgrades += 1;
        let (version, ready) = self.upgrade_l1d(policy, hart, line, now);
        let owned = word.with_state(State::Exclusive).with_version(version);
        self.cores[hart].l1d.set_word(slot, owned);
        ready
    }

    /// Writes to a line that the hart owns: version, then bytes.
    fn write<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        slot: Slot,
        (piece, change): Change,
        now: Cycles,
    ) -> Cycles {
        let mut ready = now;
        let word = self.cores[hart].l1d.word(slot);
        let line = word.line();
        let group = self.cores[hart].group;
        let current = policy.current_version(hart);
        if let Some(contract) = &mut self.memory.contract {
            contract.version(hart, current, self.generation);
        }
        let crosses = word.version() != current;
        if let Some(trace) = &mut self.trace
            && (crosses || word.state() != State::Modified)
        {
            trace.push(Traced::Stored {
                group,
                line,
                old: Box::new(*self.cores[hart].l1d.data(slot)),
            });
        }
        if crosses {
            self.statistics.cross_version_stores += 1;
            self.note_page(line);
            if word.state() == State::Modified && policy.keeps_versions() {
                // Immutable by now: the L2 keeps it, the store goes on in place.
                let (core, l2) = self.core_and_group(hart);
                let older = core.write_down(l2, slot, true);
                ready = self.depart(policy, group, line, older, Reason::StoreEviction, ready);
            }
        }
        if crosses || policy.sees_every_store() {
            let old = *self.cores[hart].l1d.data(slot);
            let mut new = old;
            change(&mut new.0[piece.clone()]);
            let store = CrossVersionStore {
                hart,
                group,
                line,
                version: word.version(),
                old,
                new,
                offset: piece.start,
                length: piece.len(),
            };
            ready = self.asking("store", ready, |hardware| {
                policy.store(hardware, &store, ready)
            });
            *self.cores[hart].l1d.data_mut(slot) = new;
        } else {
            change(&mut self.cores[hart].l1d.data_mut(slot).0[piece]);
        }
        let word = word
            .with_state(State::Modified)
            .with_version(policy.current_version(hart));
        self.cores[hart].l1d.set_word(slot, word);
        self.memory.becomes_dirty(line, ready);
        ready
    }

    /// The right to write a line that the hart's L1D holds shared. Returns the line's version and
    /// when.
    fn upgrade_l1d<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) -> (Version, Cycles) {
        let l2 = &self.groups[self.cores[hart].group].l2;
        let slot = l2
            .find(line)
            .expect("inclusion: a line in an L1 is in its sharing group's L2");
        let word = l2.word(slot);
        let (version, ready) = if word.state() == State::Shared {
            self.upgrade(policy, hart, line, now)
        } else {
            // The sharing group has it: a sibling shares it.
            (word.version(), self.take_l2_port(hart, now))
        };
        let (_, ready) = self.ask_siblings(policy, hart, line, Request::Write, ready);
        (version, ready)
    }

    /// When a hart's L2 has answered.
    fn take_l2_port(&self, hart: usize, now: Cycles) -> Cycles {
        let free = self.groups[self.cores[hart].group].port_free;
        now.max(free) + self.specification.l2.latency_cycles
    }

    /// Tells the policy of a dirty version that leaves a sharing group, if there is one.
    #[inline]
    pub(crate) fn depart<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        group: usize,
        line: LineNumber,
        version: Older,
        reason: Reason,
        now: Cycles,
    ) -> Cycles {
        let Some((bytes, version)) = version else {
            return now;
        };
        *match reason {
            Reason::Capacity => &mut self.statistics.version_capacity,
            Reason::StoreEviction => &mut self.statistics.version_store_evictions,
            Reason::Invalidation => &mut self.statistics.version_invalidations,
            Reason::Downgrade => &mut self.statistics.version_downgrades,
            Reason::Walk => &mut self.statistics.version_walks,
            Reason::CacheBlock => &mut self.statistics.version_cache_blocks,
        } += 1;
        let departure = Departure {
            group,
            line,
            bytes,
            version,
            reason,
        };
        self.asking("depart", now, |hardware| {
            policy.depart(hardware, &departure, now)
        })
    }

    /// A line from outside the caches.
    #[inline(always)]
    pub(crate) fn fill<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        line: LineNumber,
        now: Cycles,
    ) -> (Line, Cycles) {
        let shown = self.fills(policy, line);
        let (bytes, arrived) =
            self.asking("fill", now, |hardware| policy.fill(hardware, line, now));
        self.filled(line, shown, &bytes, now);
        (bytes, arrived)
    }

    /// A dirty line leaves the caches.
    #[inline(always)]
    pub(crate) fn evict<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        eviction: &Eviction,
        now: Cycles,
    ) -> Evicted {
        self.leaves(eviction.line, &eviction.bytes);
        let evicted = self.asking("evict", now, |hardware| {
            policy.evict(hardware, eviction, now)
        });
        if eviction.cause == Cause::Replacement {
            self.replaced(policy, eviction.line, &eviction.bytes, now);
        }
        evicted
    }

    fn note_page(&mut self, line: LineNumber) {
        let page = &mut self.page_generations[(line * LINE_BYTES as u64 / PAGE_BYTES) as usize];
        if *page != self.generation {
            *page = self.generation;
            self.statistics.pages_written += 1;
        }
    }

    fn fill_l1d<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        write: bool,
        now: Cycles,
    ) -> (Slot, Cycles) {
        self.statistics.l1d_misses += 1;
        self.prefetch_miss(line);
        let mut now = now;
        if !self.cores[hart].combining.is_empty() {
            now = self.send_combined_line(policy, hart, line, now);
        }
        let request = if write { Request::Write } else { Request::Read };
        let granted = self.ask_l2(policy, hart, line, request, now);
        let keeps = policy.keeps_versions();
        let (core, group) = self.core_and_group(hart);
        let slot = core.l1d.victim(line);
        let victim = core.l1d.word(slot).line();
        let older = core.evict_l1d(group, slot, keeps);
        // An L1 copy starts clean: Modified in the L2 is Exclusive above it.
        let state = granted.state.min(State::Exclusive);
        core.l1d
            .set_word(slot, Word::new(line, state, false, granted.version));
        *core.l1d.data_mut(slot) = granted.bytes;
        let group = core.group;
        self.depart(policy, group, victim, older, Reason::StoreEviction, now);
        (slot, granted.ready)
    }

    /// Fetches an instruction line into a hart's L1I.
    pub fn fetch<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) -> (Slot, Cycles) {
        self.cores[hart].fetches += 1;
        if let Some(slot) = self.cores[hart].l1i.find(line) {
            self.cores[hart].l1i.touch(slot);
            return (slot, now);
        }
        self.statistics.l1i_misses += 1;
        let (core, group) = self.core_and_group(hart);
        let older = core.push_down(group, line, policy.keeps_versions());
        let group = core.group;
        self.depart(policy, group, line, older, Reason::StoreEviction, now);
        let granted = self.ask_l2(policy, hart, line, Request::Fetch, now);
        let (core, group) = self.core_and_group(hart);
        let slot = core.l1i.victim(line);
        core.evict_l1i(group, slot);
        let l1i = &mut core.l1i;
        l1i.set_word(slot, Word::new(line, State::Shared, false, Version::NONE));
        *l1i.data_mut(slot) = granted.bytes;
        l1i.touch(slot);
        (slot, granted.ready)
    }

    /// A line as the L2 can give it to an L1, filling the L2 on a miss.
    fn ask_l2<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        request: Request,
        now: Cycles,
    ) -> Granted {
        self.statistics.l2_accesses += 1;
        let ready = self.take_l2_port(hart, now);
        let number = self.cores[hart].group;
        let l2 = &mut self.groups[number].l2;
        if let Some(slot) = l2.find(line) {
            l2.touch(slot);
            let mut ready = ready;
            if request == Request::Write && l2.word(slot).state() == State::Shared {
                (_, ready) = self.upgrade(policy, hart, line, ready);
            }
            let (most, ready) = self.ask_siblings(policy, hart, line, request, ready);
            let l2 = &self.groups[number].l2;
            let word = l2.word(slot);
            return Granted {
                bytes: *l2.data(slot),
                state: word.state().min(most),
                version: word.version(),
                ready,
            };
        }
        self.statistics.l2_misses += 1;
        self.prefetch_departure(hart, line);
        let mut granted = self.ask_llc(policy, hart, line, request, ready);
        let slot = self.groups[number].l2.victim(line);
        if self.groups[number].l2.occupied(slot) {
            let free = self.evict_l2(policy, number, slot, granted.ready);
            granted.ready = granted.ready.max(free);
        }
        let group = &mut self.groups[number];
        let word = Word::new(line, granted.state, false, granted.version);
        group.l2.set_word(slot, word);
        *group.l2.data_mut(slot) = granted.bytes;
        group.l2.touch(slot);
        group.came_for(hart, slot, granted.state);
        granted
    }

    /// Ownership of a line that the hart's sharing group holds shared. Returns the line's version and
    /// when.
    fn upgrade<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) -> (Version, Cycles) {
        let granted = self.ask_llc(policy, hart, line, Request::Write, now);
        let l2 = &mut self.groups[self.cores[hart].group].l2;
        let slot = l2
            .find(line)
            .expect("inclusion: a line shared in a sharing group is in its L2");
        let word = l2
            .word(slot)
            .with_state(State::Exclusive)
            .with_version(granted.version);
        l2.set_word(slot, word);
        (granted.version, granted.ready)
    }

    // ---- The shared cache ------------------------------------------------------------------

    /// Takes the port of the slice that holds a set; returns when it was free.
    pub fn take_llc_port(&mut self, set: usize, now: Cycles, cycles: Cycles) -> Cycles {
        let slice = set * self.ports.len() / self.llc.sets();
        let start = now.max(self.ports[slice].reserve(now, cycles) - cycles);
        self.statistics.llc_port_wait_cycles += start - now;
        start
    }

    fn ask_llc<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        request: Request,
        now: Cycles,
    ) -> Granted {
        self.statistics.llc_accesses += 1;
        let port_cycles = self.specification.llc.port_cycles;
        let start = self.take_llc_port(self.llc.set_of(line), now, port_cycles);
        let mut ready = start + self.specification.llc.latency_cycles;
        if self.full_map.is_some() {
            return self.ask_apart(policy, hart, line, request, ready);
        }
        let slot = if let Some(slot) = self.llc.find(line) {
            slot
        } else {
            let (slot, arrived) = self.fill_llc(policy, line, ready);
            ready = arrived;
            slot
        };
        self.llc.touch(slot);
        let group = self.cores[hart].group;
        let change = transition(self.directory(slot), request, group as u32);
        ready = self.snoop(policy, slot, change.snoop, Some(group), ready);
        self.set_directory(slot, change.next);
        Granted {
            bytes: *self.llc.data(slot),
            state: change.grant,
            version: self.llc.word(slot).version(),
            ready,
        }
    }

    fn fill_llc<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        line: LineNumber,
        now: Cycles,
    ) -> (Slot, Cycles) {
        self.statistics.llc_misses += 1;
        let slot = self.llc.victim(line);
        self.prefetch_replacement(slot);
        // The read goes out first; the victim leaves through a buffer behind it.
        let (bytes, arrived) = self.fill(policy, line, now);
        let mut ready = arrived;
        if self.llc.occupied(slot) {
            ready = ready.max(self.evict_llc(policy, slot, now));
        }
        self.llc
            .set_word(slot, Word::new(line, State::Shared, false, Version::NONE));
        *self.llc.data_mut(slot) = bytes;
        self.holders[slot.0 as usize] = 0;
        (slot, ready)
    }

    fn evict_llc<P: Policy + ?Sized>(&mut self, policy: &mut P, slot: Slot, now: Cycles) -> Cycles {
        let recall = transition(self.directory(slot), Request::Recall, 0);
        let now = self.snoop(policy, slot, recall.snoop, None, now);
        let word = self.llc.word(slot);
        let mut free = now;
        if word.dirty() {
            self.statistics.llc_write_backs += 1;
            let eviction = Eviction {
                line: word.line(),
                bytes: *self.llc.data(slot),
                version: word.version(),
                cause: Cause::Replacement,
            };
            free = self.evict(policy, &eviction, now).accepted;
        }
        self.llc.invalidate(slot);
        self.holders[slot.0 as usize] = 0;
        free
    }

    pub(crate) fn directory(&self, slot: Slot) -> Directory {
        Directory {
            holders: self.holders[slot.0 as usize],
            exclusive: self.llc.word(slot).state() == State::Exclusive,
        }
    }

    fn set_directory(&mut self, slot: Slot, directory: Directory) {
        self.holders[slot.0 as usize] = directory.holders;
        let state = if directory.exclusive {
            State::Exclusive
        } else {
            State::Shared
        };
        self.llc
            .set_word(slot, self.llc.word(slot).with_state(state));
    }

    /// Carries a snoop out: private copies change state, the newest bytes come to the shared cache.
    pub(crate) fn snoop<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        slot: Slot,
        snoop: Snoop,
        requester: Option<usize>,
        now: Cycles,
    ) -> Cycles {
        let (targets, after) = match snoop {
            Snoop::None => return now,
            Snoop::Invalidate(holders) => (holders, State::Invalid),
            Snoop::Downgrade(owner) => (1 << owner, State::Shared),
            Snoop::Clean(owner) => (1 << owner, State::Exclusive),
        };
        let mut ready = now + self.specification.llc.snoop_cycles;
        let line = self.llc.word(slot).line();
        for group in members(targets) {
            self.statistics.snoops += 1;
            if let Some((bytes, version)) = self.surrender(group, line, after) {
                *self.llc.data_mut(slot) = bytes;
                let word = self.llc.word(slot).with_dirty(true).with_version(version);
                self.llc.set_word(slot, word);
                let transfer = Transfer {
                    from: group,
                    to: requester,
                    line,
                    version,
                };
                ready = self.asking("transfer", ready, |hardware| {
                    policy.transfer(hardware, &transfer, ready)
                });
            }
        }
        ready
    }

    /// What a sharing group had newer than the shared cache: changes its copies to `after` (Invalid,
    /// Shared, or Exclusive and clean) and hands over bytes and version if they were modified there.
    #[inline(always)]
    fn surrender(
        &mut self,
        group: usize,
        line: LineNumber,
        after: State,
    ) -> Option<(Line, Version)> {
        let given = self.give_up(group, line, after, |_| Version::NONE)?;
        given.dirty.then_some((given.bytes, given.version))
    }

    /// A line leaves an L2, and with it the sharing group. Returns when the way is free.
    fn evict_l2<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        group: usize,
        slot: Slot,
        now: Cycles,
    ) -> Cycles {
        let line = self.groups[group].l2.word(slot).line();
        if self.full_map.is_some() {
            return self.evict_l2_apart(policy, group, line, now);
        }
        let surrendered = self.surrender(group, line, State::Invalid);
        let shared = self
            .llc
            .find(line)
            .expect("inclusion: a line in an L2 is in the shared cache");
        if let Some((bytes, version)) = surrendered {
            self.statistics.l2_write_backs += 1;
            let port_cycles = self.specification.llc.port_cycles;
            self.take_llc_port(self.llc.set_of(line), now, port_cycles);
            *self.llc.data_mut(shared) = bytes;
            let word = self.llc.word(shared).with_dirty(true).with_version(version);
            self.llc.set_word(shared, word);
        }
        let change = transition(self.directory(shared), Request::Evict, group as u32);
        self.set_directory(shared, change.next);
        now
    }

    // ---- Asking the host for what a miss will touch ----------------------------------------
    // Simulated misses are host misses: these three took a fifth off a random one.

    /// What the shared cache knows of a line, and the line in memory, before the L2 has answered.
    #[inline(always)]
    fn prefetch_miss(&self, line: LineNumber) {
        self.memory.arena.prefetch(line * LINE_BYTES as u64);
        self.prefetch_llc(line);
    }

    /// What the shared cache knows of the line that will leave the L2 to make room.
    #[inline(always)]
    fn prefetch_departure(&self, hart: usize, line: LineNumber) {
        let l2 = &self.groups[self.cores[hart].group].l2;
        let victim = l2.victim(line);
        if l2.occupied(victim) {
            self.prefetch_llc(l2.word(victim).line());
        }
    }

    /// The way of the shared cache that will be replaced, and where its bytes will go.
    #[inline(always)]
    fn prefetch_replacement(&self, slot: Slot) {
        crate::prefetch(self.llc.data(slot));
        let word = self.llc.word(slot);
        if self.llc.occupied(slot) && word.dirty() {
            self.memory.arena.prefetch(word.line() * LINE_BYTES as u64);
        }
    }

    #[inline(always)]
    fn prefetch_llc(&self, line: LineNumber) {
        self.llc.prefetch(line);
        if let Some(map) = &self.full_map {
            return map.prefetch(line);
        }
        crate::prefetch(&raw const self.holders[self.llc.set_of(line) * self.llc.ways()]);
    }

    // ---- What designs drive ----------------------------------------------------------------

    /// Reads a line at its home address: bytes and time of arrival.
    #[inline(always)]
    pub fn read_memory(&mut self, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        let arrived = self.memory.read(line, now, &mut self.statistics);
        (*self.memory.arena.line(line * LINE_BYTES as u64), arrived)
    }

    /// Sets the version tag of a line in the shared cache, which holds it by inclusion whenever a
    /// sharing group does.
    pub fn set_llc_version(&mut self, line: LineNumber, version: Version) {
        if let Some(slot) = self.llc.find(line) {
            self.llc
                .set_word(slot, self.llc.word(slot).with_version(version));
        }
    }

    /// Empties a hart's instruction cache: later fetches see what stores left in the L2.
    pub fn flush_l1i(&mut self, hart: usize) {
        let (core, group) = self.core_and_group(hart);
        for slot in 0..core.l1i.sets() * core.l1i.ways() {
            core.evict_l1i(group, Slot(slot as u32));
        }
    }

    /// Mappings changed: no access may hit without being translated again.
    pub fn kill_lookasides(&mut self) {
        for core in &mut self.cores {
            core.lookaside.kill_all();
        }
    }

    /// The current version of every hart changed: the next store to any line must ask.
    pub fn version_changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        for core in &mut self.cores {
            core.lookaside.revoke_all_writes();
        }
    }

    /// The current version of one hart changed.
    pub fn version_changed_of(&mut self, hart: usize) {
        self.generation = self.generation.wrapping_add(1);
        self.cores[hart].lookaside.revoke_all_writes();
    }

    /// The current version changed of the harts of one sharing group.
    pub fn version_changed_in(&mut self, group: usize) {
        self.generation = self.generation.wrapping_add(1);
        for core in &mut self.cores[self.groups[group].harts.clone()] {
            core.lookaside.revoke_all_writes();
        }
    }

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
        flushed
    }

    // ---- For verifiers and reports ---------------------------------------------------------

    /// The newest bytes of a line, wherever they are. Charges nothing and changes nothing.
    pub fn peek<P: Policy + ?Sized>(&self, policy: &P, line: LineNumber) -> Line {
        let mut newest = self
            .peek_cached(line)
            .unwrap_or_else(|| policy.peek(self, line));
        self.lay_combined_over(line, &mut newest);
        newest
    }

    /// The newest bytes of a cached line.
    fn peek_cached(&self, line: LineNumber) -> Option<Line> {
        if let Some(map) = &self.full_map {
            return self.peek_apart(map, line);
        }
        let slot = self.llc.find(line)?;
        let mut newer = None;
        if self.llc.word(slot).state() == State::Exclusive {
            let owner = self.holders[slot.0 as usize].trailing_zeros() as usize;
            newer = self.dirty_in(owner, line);
        }
        Some(*newer.unwrap_or_else(|| self.llc.data(slot)))
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
        if self.full_map.is_some() {
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
        self.memory.report(&mut statistics);
        statistics
    }

    /// Checks inclusion, directory and single ownership over the whole hierarchy; for tests.
    pub fn audit<P: Policy + ?Sized>(&self, policy: &P) -> Result<(), String> {
        self.audit_groups()?;
        if let Some(map) = &self.full_map {
            return self.audit_apart(policy, map);
        }
        for (number, group) in self.groups.iter().enumerate() {
            for (_, word) in group.l2.iter() {
                let Some(slot) = self.llc.find(word.line()) else {
                    let line = word.line();
                    return Err(format!(
                        "sharing group {number}: line {line:#x} in l2, not in llc"
                    ));
                };
                self.directory(slot).audit(number, word)?;
            }
        }
        for (slot, word) in self.llc.iter() {
            for (number, group) in self.groups.iter().enumerate() {
                let held = group.l2.find(word.line()).is_some();
                if held != (self.holders[slot.0 as usize] >> number & 1 != 0) {
                    return Err(format!(
                        "line {:#x}: directory wrong about sharing group {number}",
                        word.line()
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The `step`-th of `sets` numbers, each once, with strides of `wanted` or the greatest power of two
/// below that which divides them.
fn strided(step: usize, sets: usize, wanted: usize) -> usize {
    let at = step * wanted.min(1 << sets.trailing_zeros());
    at % sets + at / sets
}

impl Directory {
    /// Checks what it says against the word of a line in a sharing group's L2.
    pub(crate) fn audit(&self, group: usize, word: Word) -> Result<(), String> {
        let owns = self.exclusive && self.holders == 1 << group;
        if self.holders >> group & 1 == 0 || owns != (word.state() > State::Shared) {
            return Err(format!(
                "sharing group {group}: line {:#x} is {:?} in l2, directory says {self:?}",
                word.line(),
                word.state()
            ));
        }
        Ok(())
    }
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
