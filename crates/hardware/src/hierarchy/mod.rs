//! The cache hierarchy: how a transaction walks L1 → L2 → last-level cache → memory, moving real
//! bytes and gathering time.
//!
//! Always true between transactions:
//! - Inclusion: a line in an L1 is in its sharing group's L2 (`sharing_group.rs`); a line in an L2 is in
//!   the last-level cache, if that is inclusive (what happens if it is not stands in `apart.rs`).
//! - The directory (which sharing groups hold each line, and whether one does exclusively) is exact.
//! - An L1 or L2 word in state Modified means that its bytes are newer than the next level's; the
//!   last-level word's dirty bit means that they are newer than memory's.
//! - The newest bytes of a line are, in this order: the Modified L1D's, the Modified L2's, the
//!   last-level cache's, memory's.
//! - A lookaside entry is never more permissive than the L1 line behind it.

mod apart;
mod asked;
mod audit;
mod hints;
mod newest;
mod second;
mod shared;
mod siblings;
mod versions;
mod walks;
mod whereabouts;

use std::ops::Range;

use crate::arena::{Arena, PAGE_BYTES};
use crate::cache::{Cache, Slot, State, Word};
use crate::calendar::Calendar;
use crate::coherence::Request;
use crate::combining::CombiningBuffers;
use crate::core_timing::CoreTiming;
use crate::directories::Directories;
use crate::event::EventQueue;
use crate::line::{LINE_BYTES, Line, LineNumber, Version};
use crate::lookaside::Lookaside;
use crate::memory::Memory;
use crate::mistaken::PersistMistake;
use crate::pages::Sparse;
use crate::policy::{Policy, PolicyFailure, Reason};
use crate::prefetcher::Prefetcher;
use crate::sharing_group::SharingGroup;
use crate::specification::Specification;
use crate::statistics::Statistics;
use crate::time::Cycles;
use crate::timeline;
use crate::trace::Traced;

pub use walks::{Flushed, Walked};
pub use whereabouts::{Held, InFlight};

/// Slots of time that a port's calendar remembers.
const PORT_SLOTS: usize = 4096;

/// One hart's private part of the machine. All of it is lost at power-off.
#[derive(Clone, Debug)]
pub struct Core {
    /// Instruction cache.
    pub l1i: Cache,
    /// How often it was emptied, as far as that is counted: lines that came before may have had other bytes.
    pub(crate) code_generation: u32,
    /// Data cache.
    pub l1d: Cache,
    /// By its slots, where the L2 has the same line.
    pub(crate) below: Box<[Slot]>,
    /// Its own number.
    pub hart: usize,
    /// The sharing group whose L2 it uses.
    pub group: usize,
    /// The hit path's table.
    pub lookaside: Lookaside,
    /// Its clock.
    pub timing: CoreTiming,
    /// What asks for lines ahead, if anything does.
    pub prefetcher: Option<Box<Prefetcher>>,
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
    /// The access is one that a device does not take: it faults, and whoever runs the hart says so.
    pub refused: bool,
    /// The instruction at hand has waited for what it is behind, and its access is not made yet: it faults,
    /// and runs again.
    pub again: bool,
    /// It has waited for bytes to be durable: nobody may see what it does next before it happens. Whoever
    /// runs the hart lets those go first who are behind it.
    pub waited: bool,
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
    /// Who holds which line.
    pub(crate) directories: Directories,
    /// The bytes of the line that was last asked of a shared cache that is not inclusive, until the L2 has
    /// them: nobody asks for another one in between.
    came: Line,
    /// Of each slice of the shared cache.
    ports: Vec<Calendar<PORT_SLOTS>>,
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
    /// A mistake that is planted.
    pub(crate) persist_mistake: Option<PersistMistake>,
    /// Of these lines somebody has to hear when a hart loads from one for the first time under a version:
    /// none, unless the design or a verifier says so ([`Self::hear_loads`]). What it costs is the
    /// simulation's time alone.
    pub(crate) loads_heard: Range<LineNumber>,
    /// How often the version changed, plus one; and for each page, what that was when a store last
    /// found an older version in it. Not hardware: it measures the program's write set.
    generation: u32,
    page_generations: Sparse<u32>,
}

/// A line that a request brought to a hart. Modified if it came from another sharing group, dirty.
pub(crate) struct Granted {
    /// Where whoever was asked has it, and its bytes: the L2, or an inclusive shared cache. (Where that is
    /// not inclusive, [`Hardware::came`] has them.)
    pub slot: Slot,
    pub state: State,
    pub version: Version,
    pub ready: Cycles,
}

/// A version with its bytes: one in the way of a newer one, or one that is newer than what lies below.
pub(crate) type Older = Option<(Line, Version)>;

impl Hardware {
    /// Cold caches over the given bytes.
    pub fn new(specification: Specification, arena: Arena, context_range: Range<u64>) -> Self {
        let cores = (0..specification.harts)
            .map(|hart| {
                let private =
                    |cache: &crate::specification::Private| Cache::new(cache.bytes, cache.ways, 1);
                let l1d = private(&specification.l1d);
                let slots = l1d.sets() * l1d.ways();
                Core {
                    l1i: private(&specification.l1i),
                    code_generation: 0,
                    hart,
                    group: hart / specification.l2.harts,
                    lookaside: Lookaside::new(slots),
                    l1d,
                    below: vec![Slot::default(); slots].into(),
                    timing: CoreTiming::new(&specification, slots),
                    prefetcher: Prefetcher::new(&specification.prefetcher, slots),
                    combining: CombiningBuffers::default(),
                    accesses: 0,
                    stores: 0,
                    fetches: 0,
                    reservation: None,
                    ahead: None,
                    refused: false,
                    again: false,
                    waited: false,
                }
            })
            .collect();
        let pages = specification.lines().div_ceil(PAGE_BYTES / LINE_BYTES);
        let shared = &specification.llc;
        let llc = Cache::new(shared.bytes_per_hart, shared.ways, specification.harts);
        Self {
            cores,
            groups: SharingGroup::all(&specification),
            directories: Directories::new(&specification, &llc),
            came: Line::ZERO,
            ports: vec![Calendar::default(); specification.harts],
            llc,
            memory: Memory::new(&specification, arena, context_range),
            events: EventQueue::default(),
            statistics: Statistics::default(),
            failure: None,
            breach: None,
            persist_mistake: None,
            loads_heard: 0..0,
            generation: 1,
            page_generations: Sparse::new(pages).expect("less than the arena's list of pages"),
            specification,
        }
    }

    /// Brings a line into a hart's L1D to be read. Returns where it is and when it came.
    #[inline(always)]
    pub fn load<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) -> (Slot, Cycles) {
        let (slot, ready) = self.reach(policy, hart, line, false, now);
        if !self.loads_heard.contains(&line) || self.cores[hart].ahead.is_some() {
            return (slot, ready);
        }
        let version = self.version_loaded(hart, slot, line);
        (slot, self.ask_load(policy, hart, (line, version), ready))
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

    #[inline(always)]
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
        let request = if write { Request::Write } else { Request::Read };
        let found = core.l1d.find(line);
        let (slot, ready) = if let Some(slot) = found {
            (slot, now)
        } else {
            self.miss_l1d(policy, hart, line, request, now)
        };
        let core = &mut self.cores[hart];
        *core.l1d.stamp_mut(slot) = stamp;
        if core.prefetcher.is_none() {
            return (slot, ready);
        }
        let came = self.asked_for(policy, hart, (line, slot), found.is_none(), now);
        let ready = ready.max(came);
        if self.cores[hart].l1d.word(slot).line() == line {
            return (slot, ready);
        }
        // What was brought took its place, in the L2 or below.
        self.statistics.prefetches_regretted += 1;
        let (slot, ready) = self.fill_l1d(policy, hart, line, request, ready);
        *self.cores[hart].l1d.stamp_mut(slot) = stamp;
        (slot, ready)
    }

    /// Lets accesses to the line at a virtual address hit an L1D slot from now on: loads, and stores
    /// that nobody has to be asked about.
    #[inline(always)]
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
            && !self.memory.is_watched(word.line())
            && word.version() == policy.current_version(hart)
            && !policy.sees_every_store();
        core.lookaside
            .install(address, &mut core.l1d, slot, writable);
    }

    /// True if nobody has to hear of a blocking access that the lookaside could answer: then it is made like
    /// any other that hits. (A reserve of energy looks at what waits whenever a store comes by.)
    #[inline(always)]
    pub fn lets_atomics_hit(&self) -> bool {
        self.loads_heard.is_empty() && !self.memory.keeps_caches()
    }

    /// Holds the design to the version that it says is its hart's, before a store.
    #[inline(always)]
    pub fn check_version<P: Policy + ?Sized>(&mut self, policy: &P, hart: usize) {
        if let Some(contract) = &mut self.memory.contract {
            contract.version(hart, policy.current_version(hart), self.generation);
        }
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
        self.check_version(policy, hart);
        let crosses = word.version() != current;
        let told = crosses || policy.sees_every_store();
        if self.memory.trace.is_some() && (told || word.state() != State::Modified) {
            self.trace_store(hart, slot);
        }
        if crosses && word.state() == State::Modified && policy.keeps_versions() {
            // Immutable by now: the L2 keeps it, the store goes on in place.
            let (core, l2) = self.core_and_group(hart);
            let older = core.write_down(l2, slot, true);
            ready = self.depart(policy, group, line, older, Reason::StoreEviction, ready);
        }
        // Being told may bring the policy to another version.
        let mut version = current;
        if told {
            let old = *self.cores[hart].l1d.data(slot);
            let mut new = old;
            change(&mut new.0[piece.clone()]);
            let stored = (line, Some(slot), word.version());
            ready = self.ask_store(policy, hart, stored, [&old, &new], &piece, ready);
            *self.cores[hart].l1d.data_mut(slot) = new;
            version = policy.current_version(hart);
        } else {
            change(&mut self.cores[hart].l1d.data_mut(slot).0[piece]);
        }
        let word = word.with_state(State::Modified).with_version(version);
        self.cores[hart].l1d.set_word(slot, word);
        self.memory.becomes_dirty(line, ready);
        if self.memory.watched.is_some() {
            self.hear_store(hart, slot, ready);
        }
        ready
    }

    /// Tells whoever verifies that a hart is about to store to the line in an L1D slot.
    #[cold]
    fn trace_store(&mut self, hart: usize, slot: Slot) {
        let core = &self.cores[hart];
        if let Some(trace) = &mut self.memory.trace {
            trace.push(Traced::Stored {
                group: core.group,
                hart,
                line: core.l1d.word(slot).line(),
                old: Box::new(*core.l1d.data(slot)),
            });
        }
    }

    pub(crate) fn fill_l1d<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        request: Request,
        now: Cycles,
    ) -> (Slot, Cycles) {
        self.prefetch_miss(line);
        let l1d = &self.cores[hart].l1d;
        let (mut slot, changes) = (l1d.victim(line), l1d.changes());
        self.prefetch_displaced(hart, slot);
        let mut now = now;
        if !self.cores[hart].combining.is_empty() {
            now = self.send_combined_line(policy, hart, line, now);
        }
        let granted = self.ask_l2(policy, hart, line, request, now);
        let keeps = policy.keeps_versions();
        let (core, group) = self.core_and_group(hart);
        // None of its lines was used meanwhile, but some may have left.
        if core.l1d.changes() != changes {
            slot = core.l1d.victim(line);
        }
        let victim = core.l1d.word(slot).line();
        let older = core.evict_l1d(group, slot, keeps);
        core.below[slot.0 as usize] = granted.slot;
        // An L1 copy starts clean: Modified in the L2 is Exclusive above it.
        let state = granted.state.min(State::Exclusive);
        core.l1d
            .set_word(slot, Word::new(line, state, false, granted.version));
        *core.l1d.data_mut(slot) = *group.l2.data(granted.slot);
        if let Some(prefetcher) = &mut core.prefetcher {
            prefetcher.refilled(slot);
        }
        let group = core.group;
        // The request went out first; the victim's older version leaves the L2 behind it.
        let free = self.depart(policy, group, victim, older, Reason::StoreEviction, now);
        (slot, granted.ready.max(free))
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
        let (asked, below) = (now, self.below());
        let (core, group) = self.core_and_group(hart);
        let older = core.push_down(group, line, policy.keeps_versions());
        let group = core.group;
        let now = self.depart(policy, group, line, older, Reason::StoreEviction, now);
        let granted = self.ask_l2(policy, hart, line, Request::Fetch, now);
        let (core, group) = self.core_and_group(hart);
        let slot = core.l1i.victim(line);
        core.evict_l1i(group, slot);
        let l1i = &mut core.l1i;
        l1i.set_word(slot, Word::code(line, core.code_generation));
        *l1i.data_mut(slot) = *group.l2.data(granted.slot);
        l1i.touch(slot);
        if self.memory.draws() {
            let when = [asked, granted.ready];
            self.draw_l1(hart, timeline::L1I, "fetch miss", line, when, below);
        }
        (slot, granted.ready)
    }
}
