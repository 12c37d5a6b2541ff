//! The hierarchy whose last-level cache is not inclusive, under a policy that keeps versions,
//! against a reference that knows nothing of caches.
//!
//! A random walk of loads, stores, fetches, cache-block instructions, tag walks and version advances
//! by one to four harts whose caches hold a few lines each, in sharing groups of one, two or four. The
//! reference keeps the newest bytes of each line and, for each version that a store made, its final
//! bytes. After every step:
//! - every access saw the newest bytes, and no sharing group got ahead of a line that it saw;
//! - every version that departed had its final bytes (or, while it still is the newest, what the
//!   line had then);
//! - in the end, when every sharing group has advanced and every tag has been walked, every version has
//!   departed, the last time with its final bytes. Nothing was lost, nothing was mixed.

use std::collections::BTreeMap;

use perdure_hardware::arena::Arena;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, Version};
use perdure_hardware::memory::Traffic;
use perdure_hardware::persist::{Effect, Persist};
use perdure_hardware::policy::{
    Cause, CrossVersionStore, Departure, Evicted, Eviction, Policy, Reason,
};
use perdure_hardware::specification::Inclusion;
use perdure_hardware::time::Cycles;

use crate::support::{Random, seeds, share_l2s, tiny};

/// A mistake in the policy, to test the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    None,
    /// Memory forgets which version it holds.
    ForgetMemoryVersion,
    /// A sharing group goes on although it saw a newer version.
    StayBehind,
    /// What departs because another sharing group reads the line is lost.
    LoseDowngrades,
    /// What departs because a newer version takes its place is lost.
    LoseStoreEvictions,
}

struct Tracker {
    sabotage: Sabotage,
    sharing: usize,
    /// By sharing group.
    current: Vec<u16>,
    first: LineNumber,
    /// Newest bytes and their version.
    newest: Vec<(Line, u16)>,
    /// Final bytes of the versions that are not the newest any more.
    finals: BTreeMap<(LineNumber, u16), Line>,
    departed: BTreeMap<(LineNumber, u16), Line>,
    memory: BTreeMap<LineNumber, u16>,
    passes_dirty: bool,
    /// How long whoever makes a version depart has to wait, and until when that is in this transaction.
    departs_for: Cycles,
    departed_at: Cycles,
}

impl Tracker {
    fn at(&mut self, line: LineNumber) -> &mut (Line, u16) {
        &mut self.newest[(line - self.first) as usize]
    }
}

impl Policy for Tracker {
    fn current_version(&self, hart: usize) -> Version {
        Version(self.current[hart / self.sharing])
    }

    fn store(&mut self, _: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        let current = self.current[store.group];
        let (bytes, version) = *self.at(store.line);
        assert_eq!(*store.old, bytes, "{store:?} is not over the newest bytes");
        assert_eq!(store.version, Version(version), "{store:?}");
        if self.sabotage == Sabotage::None {
            assert!(version < current, "{store:?} by version {current}");
        }
        self.finals.insert((store.line, version), bytes);
        self.at(store.line).1 = current;
        now
    }

    fn keeps_versions(&self) -> bool {
        true
    }

    fn depart(&mut self, _: &mut Hardware, departure: &Departure, now: Cycles) -> Cycles {
        let Departure {
            line,
            bytes,
            version,
            ..
        } = *departure;
        let key = (line, version.0);
        let newest = *self.at(line);
        let expected = match self.finals.get(&key) {
            Some(bytes) => *bytes,
            None => newest.0,
        };
        assert!(version.0 <= newest.1, "{departure:?}");
        assert_eq!(bytes, expected, "bytes of {departure:?}");
        let lost = match self.sabotage {
            Sabotage::LoseDowngrades => departure.reason == Reason::Downgrade,
            Sabotage::LoseStoreEvictions => departure.reason == Reason::StoreEviction,
            _ => false,
        };
        if !lost {
            self.departed.insert(key, bytes);
        }
        self.departed_at = self.departed_at.max(now + self.departs_for);
        now + self.departs_for
    }

    fn passes_dirty(&self, _: usize, _: Version) -> bool {
        self.passes_dirty
    }

    fn memory_version(&self, line: LineNumber) -> Version {
        if self.sabotage == Sabotage::ForgetMemoryVersion {
            return Version(0);
        }
        Version(self.memory.get(&line).copied().unwrap_or(0))
    }

    fn is_ahead(&self, group: usize, version: Version, _: bool) -> bool {
        version.0 > self.current[group] && self.sabotage != Sabotage::StayBehind
    }

    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        assert_ne!(eviction.cause, Cause::Flush);
        self.memory.insert(eviction.line, eviction.version.0);
        let (line, bytes) = (eviction.line, &eviction.bytes);
        let statistics = &mut hardware.statistics;
        let done = hardware
            .memory
            .write_line(line, bytes, Traffic::WriteBack, now, 0, statistics);
        done.into()
    }

    fn fired(&mut self, _: &mut Hardware, _: u32, _: Cycles) {}
}

struct Walk {
    random: Random,
    hardware: Hardware,
    tracker: Tracker,
    harts: usize,
    clock: Cycles,
}

impl Walk {
    fn new(seed: u64, (harts, sharing): (usize, usize), sabotage: Sabotage) -> Self {
        let mut random = Random(seed);
        let mut specification = tiny(harts);
        share_l2s(&mut specification, sharing);
        specification.llc.inclusion = Inclusion::NonInclusive;
        // Smaller than the L2s together, now and then.
        specification.llc.bytes_per_hart = [1, 2, 4][random.below(3)] * 4 * LINE_BYTES;
        specification
            .validate()
            .expect("a machine that can be built");
        let arena = Arena::new(specification.nvm.bytes).expect("address space");
        let lines = 4 + random.below(40);
        Self {
            hardware: Hardware::new(specification, arena, 0..0),
            tracker: Tracker {
                sabotage,
                sharing,
                current: vec![1; harts.div_ceil(sharing)],
                first: 0x4321,
                newest: vec![(Line::ZERO, 0); lines],
                finals: BTreeMap::new(),
                departed: BTreeMap::new(),
                memory: BTreeMap::new(),
                passes_dirty: random.once_in(2),
                departs_for: random.below(2) as Cycles * 1000,
                departed_at: 0,
            },
            random,
            harts,
            clock: 0,
        }
    }

    fn line(&mut self) -> LineNumber {
        self.tracker.first + self.random.below(self.tracker.newest.len()) as u64
    }

    /// Advances a sharing group that was shown a version ahead of its own; true if the access is to be
    /// made again.
    fn catch_up(&mut self, hart: usize) -> bool {
        let Some(version) = self.hardware.cores[hart].ahead.take() else {
            return false;
        };
        self.advance(self.hardware.group_of(hart), version.0);
        true
    }

    fn advance(&mut self, group: usize, to: u16) {
        assert!(to > self.tracker.current[group]);
        self.tracker.current[group] = to;
        self.hardware.version_changed_in(group);
    }

    /// The version of a hart's sharing group.
    fn current(&self, hart: usize) -> u16 {
        self.tracker.current[self.hardware.group_of(hart)]
    }

    fn walk_set(&mut self, group: usize, set: usize) {
        let (tracker, now) = (&mut self.tracker, self.clock);
        let walked = self.hardware.walk_set(tracker, group, set, true, now);
        self.waited(walked.ready);
    }

    /// Nothing is done before what it made depart is out of the way.
    fn waited(&mut self, ready: Cycles) {
        let departed_at = std::mem::take(&mut self.tracker.departed_at);
        assert!(
            ready >= departed_at,
            "done at {ready}, not at {departed_at}"
        );
    }

    fn step(&mut self) {
        self.clock += 10;
        let (now, hart, line) = (self.clock, self.random.below(self.harts), self.line());
        match self.random.below(100) {
            0..40 => self.load(hart, line, now),
            40..72 => self.store(hart, line, now),
            72..80 => self.fetch(hart, line, now),
            80..83 => {
                let effect = if self.random.once_in(2) {
                    Effect::Flush
                } else {
                    Effect::Clean
                };
                let persist = Persist::behind_stores(hart, line, effect);
                let ready = self.hardware.persist(&mut self.tracker, &persist, now);
                self.waited(ready);
            }
            83..90 => {
                let to = self.current(hart) + 1 + self.random.below(3) as u16;
                self.advance(self.hardware.group_of(hart), to);
            }
            _ => {
                let group = self.hardware.group_of(hart);
                let set = self.random.below(self.hardware.groups[group].l2.sets());
                self.walk_set(group, set);
            }
        }
        // It looks at the whole directory, which is a map of all lines.
        if self.random.once_in(100) {
            self.hardware.audit(&self.tracker).expect("the audit");
        }
        let newest = self.tracker.at(line).0;
        assert_eq!(self.hardware.peek(&self.tracker, line), newest, "{line:#x}");
    }

    fn load(&mut self, hart: usize, line: LineNumber, now: Cycles) {
        loop {
            let (slot, ready) = self.hardware.load(&mut self.tracker, hart, line, now);
            self.waited(ready);
            let newest = *self.tracker.at(line);
            let core = &self.hardware.cores[hart];
            assert_eq!(*core.l1d.data(slot), newest.0, "a load of line {line:#x}");
            if !self.catch_up(hart) {
                assert!(newest.1 <= self.current(hart), "a load ran ahead");
                return;
            }
        }
    }

    fn store(&mut self, hart: usize, line: LineNumber, now: Cycles) {
        loop {
            let at = self.random.below(LINE_BYTES);
            let byte = [self.random.next() as u8];
            let stored = (at, &byte[..]);
            let (slot, ready) = (self.hardware).store(&mut self.tracker, hart, line, stored, now);
            self.waited(ready);
            let (mut bytes, version) = *self.tracker.at(line);
            if self.catch_up(hart) {
                assert_eq!(self.hardware.peek(&self.tracker, line), bytes, "{line:#x}");
                continue;
            }
            assert_eq!(version, self.current(hart));
            bytes.0[at] = byte[0];
            let data = self.hardware.cores[hart].l1d.data(slot);
            assert_eq!(*data, bytes, "a store over line {line:#x}");
            self.tracker.at(line).0 = bytes;
            return;
        }
    }

    fn fetch(&mut self, hart: usize, line: LineNumber, now: Cycles) {
        self.hardware.flush_l1i(hart);
        let (slot, ready) = self.hardware.fetch(&mut self.tracker, hart, line, now);
        self.waited(ready);
        let newest = self.tracker.at(line).0;
        assert_eq!(*self.hardware.cores[hart].l1i.data(slot), newest);
        self.catch_up(hart);
    }

    fn end(&mut self) {
        let newest = *self.tracker.current.iter().max().expect("a sharing group") + 1;
        for group in 0..self.hardware.groups.len() {
            self.advance(group, newest);
            for set in 0..self.hardware.groups[group].l2.sets() {
                self.walk_set(group, set);
            }
            assert_eq!(self.hardware.dirty_versions(group).count(), 0);
        }
        self.hardware.audit(&self.tracker).expect("the audit");
        let tracker = &self.tracker;
        let last = tracker.newest.iter().zip(tracker.first..);
        let last = last.map(|(&(bytes, version), line)| ((line, version), bytes));
        let finals = tracker.finals.iter().map(|(&key, &bytes)| (key, bytes));
        for ((line, version), bytes) in finals.chain(last).filter(|((_, version), _)| *version > 0)
        {
            assert_eq!(
                tracker.departed.get(&(line, version)),
                Some(&bytes),
                "version {version} of line {line:#x} did not depart as it was"
            );
        }
    }
}

/// Harts, and how many of them share an L2: private ones, shared ones, and a last one with fewer.
const SHAPES: [(usize, usize); 9] = [
    (1, 1),
    (2, 1),
    (3, 1),
    (4, 1),
    (2, 2),
    (4, 2),
    (4, 4),
    (3, 2),
    (5, 4),
];

fn walk(seed: u64, shape: (usize, usize), sabotage: Sabotage) -> Walk {
    println!("seed {seed}, {shape:?}, {sabotage:?}");
    let mut walk = Walk::new(seed, shape, sabotage);
    for _ in 0..3000 {
        walk.step();
    }
    walk.end();
    walk
}

#[test]
fn every_version_departs_as_it_was_and_everybody_sees_the_newest() {
    for shape in SHAPES {
        for seed in seeds(6) {
            walk(seed, shape, Sabotage::None);
        }
    }
}

#[test]
fn a_walk_reaches_every_reason_to_depart() {
    for shape in [(3, 1), (4, 2)] {
        let statistics =
            (0..12).map(|seed| walk(seed, shape, Sabotage::None).hardware.statistics());
        let mut least = [0; 8];
        let mut l2_snoops = 0;
        for one in statistics {
            let counts = [
                one.version_capacity,
                one.version_store_evictions,
                one.version_invalidations,
                one.version_downgrades,
                one.version_walks,
                one.version_cache_blocks,
                one.dirty_transfers,
                one.llc_write_backs,
            ];
            for (least, count) in least.iter_mut().zip(counts) {
                *least += count;
            }
            l2_snoops += one.l2_snoops;
        }
        assert!(least.iter().all(|&count| count > 50), "{least:?}");
        assert_eq!(l2_snoops > 1000, shape.1 > 1, "{l2_snoops}");
    }
}

#[test]
#[should_panic(expected = "ran ahead")]
fn a_memory_that_forgets_versions_is_noticed() {
    walk(1, (3, 1), Sabotage::ForgetMemoryVersion);
}

#[test]
#[should_panic(expected = "a load ran ahead")]
fn a_group_that_stays_behind_is_noticed() {
    for seed in 0..5 {
        walk(seed, (3, 1), Sabotage::StayBehind);
    }
}

#[test]
#[should_panic(expected = "did not depart as it was")]
fn a_lost_version_is_noticed() {
    walk(1, (3, 1), Sabotage::LoseDowngrades);
}

/// One sharing group: nothing but siblings and the L1's capacity makes a version displace another one.
#[test]
#[should_panic(expected = "did not depart as it was")]
fn a_version_lost_between_siblings_is_noticed() {
    walk(1, (4, 4), Sabotage::LoseStoreEvictions);
}

/// A policy whose versions end where a sharing group does.
struct Forgets {
    current: Version,
}

impl Policy for Forgets {
    fn current_version(&self, _: usize) -> Version {
        self.current
    }

    fn store(&mut self, _: &mut Hardware, _: &CrossVersionStore, now: Cycles) -> Cycles {
        now
    }

    fn departed_version(&self, _: Version) -> Version {
        Version::NONE
    }

    fn evict(&mut self, _: &mut Hardware, _: &Eviction, now: Cycles) -> Evicted {
        Evicted {
            accepted: now,
            durable: now,
        }
    }

    fn fired(&mut self, _: &mut Hardware, _: u32, _: Cycles) {}
}

#[test]
fn a_walked_version_is_forgotten_in_every_l1() {
    let mut specification = tiny(3);
    specification.llc.inclusion = Inclusion::NonInclusive;
    share_l2s(&mut specification, 4);
    let arena = Arena::new(specification.nvm.bytes).expect("address space");
    let mut hardware = Hardware::new(specification, arena, 0..0);
    for (line, readers) in [(0x4321, &[][..]), (0x4322, &[1][..]), (0x4323, &[0, 1][..])] {
        let mut policy = Forgets {
            current: Version(1),
        };
        hardware.store(&mut policy, 2, line, (0, &[1]), 10);
        for &reader in readers {
            hardware.load(&mut policy, reader, line, 20);
        }
        policy.current = Version(2);
        let set = hardware.groups[0].l2.set_of(line);
        assert_eq!(hardware.walk_set(&mut policy, 0, set, true, 30).versions, 1);
        for hart in readers.iter().copied().chain([2]) {
            let l1d = &hardware.cores[hart].l1d;
            let word = l1d.word(l1d.find(line).expect("it stays"));
            assert_eq!(word.version(), Version::NONE, "hart {hart}: {word:?}");
        }
        hardware.audit(&policy).expect("the audit");
    }
}
