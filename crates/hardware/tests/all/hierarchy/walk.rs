//! The random walk: one step is one event, followed by the comparison of everything.

mod persists;

use perdure_hardware::arena::{Arena, Digest};
use perdure_hardware::cache::{Cache, Slot, State};
use perdure_hardware::core_timing::AccessKind;
use perdure_hardware::hierarchy::{Flushed, Hardware};
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, Version};
use perdure_hardware::lookaside::{ENTRIES, Entry, index_of};
use perdure_hardware::memory::Traffic;
use perdure_hardware::persist::Effect;
use perdure_hardware::policy::{Cause, Evicted, Eviction, Policy};
use perdure_hardware::specification::CoreModel;
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

use super::model::{Counts, LineModel, Model, Versions};
use super::{PersistMistake, streams::Streams};
use crate::support::{Random, share_l2s, tiny};

/// A mistake in the policy or in how the hardware is driven, to test the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    None,
    LoseReplacements,
    FillZeros,
    ScanSkipsPrivate,
    FlushSkipsPrivate,
    KeepWriteTags,
    Persists(PersistMistake),
}

#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub harts: usize,
    /// Harts that share an L2.
    pub sharing: usize,
    pub versions: Versions,
    pub steps: usize,
    /// Hits go through the lookaside, as an engine's do; nothing observable may depend on it.
    pub lookaside: bool,
    pub kept_digest: bool,
    /// The policy wants to be told of every store.
    pub every_store: bool,
    /// Of the prefetchers; then accesses are often as far apart, and stores find lines in memory.
    pub degree: usize,
    pub sabotage: Sabotage,
}

#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub statistics: Statistics,
    pub counts: Counts,
    pub clocks: Vec<Cycles>,
    pub digest: Digest,
}

/// Programs run at virtual addresses: each line has two, with different places in the lookaside.
pub const ALIAS_BYTES: u64 = 1 << 26;

pub struct Walk<'a> {
    pub options: &'a Options,
    pub random: Random,
    pub hardware: Hardware,
    pub model: Model,
    pub retired: Vec<Cycles>,
    pub loads: u64,
    pub stores: u64,
    pub fetches: u64,
    /// Writes that found their line shared in the L2.
    pub upgrades: u64,
    pub scanned: u64,
    streams: Streams,
    /// When each hart's stores are done or have written their lines, and what it flushed is durable.
    pub posted: Vec<Cycles>,
    written: Vec<Cycles>,
    pub durable: Vec<Cycles>,
    /// The instruction line as the hart fetched it, and whether the hart itself stored to it since.
    pub fetched: Vec<Vec<Option<(Line, bool)>>>,
}

pub fn walk(options: &Options) -> Outcome {
    println!("{options:?}");
    let mut walk = Walk::new(options);
    for step in 0..options.steps {
        walk.step();
        walk.hardware
            .audit(&walk.model)
            .and_then(|()| walk.audit())
            .unwrap_or_else(|problem| panic!("{options:?}: step {step}: {problem}"));
        if step % 64 == 0 {
            walk.compare_digests();
            walk.nothing_is_twice_in_one_cache();
        }
    }
    walk.compare_statistics();
    walk.end()
}

impl<'a> Walk<'a> {
    fn new(options: &'a Options) -> Self {
        let mut random = Random(options.seed);
        let mut specification = tiny(options.harts);
        share_l2s(&mut specification, options.sharing);
        if random.once_in(4) {
            specification.core.model = CoreModel::TimingSimple;
        }
        let mut arena = Arena::new(specification.nvm.bytes).expect("address space");
        specification.prefetcher.degree = options.degree;
        let first = 0x4321 + random.below(64) as u64;
        let streams = Streams::new(options.harts, options.degree > 0);
        let (first, lines) = streams.room(first, 8 + random.below(36 * options.harts));
        let lines = LineModel::some(&mut random, &mut arena, first, lines);
        if options.kept_digest {
            arena.keep_digest(0..specification.nvm.bytes);
        }
        let mut hardware = Hardware::new(specification, arena, 0..0);
        if let Sabotage::Persists(mistake) = options.sabotage {
            hardware.plant(Some(mistake));
        }
        let current = (0..options.harts).map(|hart| match options.versions {
            Versions::None => Version::NONE,
            Versions::Machine | Versions::MachineNoted => Version(1),
            Versions::SharingGroup => Version(100 * (hart / options.sharing) as u16),
            Versions::Hart => Version(100 * hart as u16),
        });
        let current = current.collect();
        Self {
            options,
            random,
            retired: vec![0; options.harts],
            fetched: vec![vec![None; lines.len()]; options.harts],
            model: Model {
                versions: options.versions,
                current,
                first,
                lines,
                expected_store: None,
                every_store: options.every_store,
                cache_block: None,
                cache_block_durable: 0,
                flush: None,
                began: 0,
                counts: Counts::default(),
                sabotage: options.sabotage,
            },
            hardware,
            loads: 0,
            stores: 0,
            fetches: 0,
            upgrades: 0,
            scanned: 0,
            streams,
            posted: vec![0; options.harts],
            written: vec![0; options.harts],
            durable: vec![0; options.harts],
        }
    }

    pub fn now(&self, hart: usize) -> Cycles {
        self.hardware.cores[hart].timing.now(self.retired[hart])
    }

    pub fn range(&self) -> std::ops::Range<u64> {
        0..self.hardware.specification.nvm.bytes
    }

    /// One event, mostly by the hart that is behind, as a run loop would have it.
    fn step(&mut self) {
        let mut hart = self.random.below(self.options.harts);
        if !self.random.once_in(4) {
            hart = (0..self.options.harts)
                .min_by_key(|&hart| self.now(hart))
                .expect("a hart");
        }
        let lines = self.model.lines.len();
        let line = self.model.first + self.streams.next(&mut self.random, hart, lines) as u64;
        self.model.began = self.now(hart);
        match self.random.below(101) {
            0..35 => self.load(hart, line),
            35..70 => self.store(hart, line),
            70..82 => self.fetch(hart, line),
            82..85 => self.persist(hart, line, Effect::Clean),
            85..88 => self.persist(hart, line, Effect::Flush),
            88..92 => self.scan(hart),
            92..95 => self.next_version(hart),
            95..97 => self.fence(hart),
            97 => {
                let past = self.now(hart).min(self.hardware.memory.quiet_at() / 2);
                self.hardware.memory.forget_until(past);
            }
            98 => {
                self.hardware.flush_l1i(hart);
                self.fetched[hart].fill(None);
            }
            99 => self.load_reserved(hart, line),
            _ => self.flush(),
        }
        self.retired[hart] += 1 + self.random.below(50) as u64;
    }

    // ---- Events ----------------------------------------------------------------------------

    /// A data access as an engine makes it: the lookaside first. A store has an offset and its bytes.
    /// Returns the line's bytes afterwards, and when the access is done.
    fn access(
        &mut self,
        hart: usize,
        line: LineNumber,
        stored: Option<(usize, &[u8])>,
    ) -> (Line, Cycles) {
        let now = self.now(hart);
        let alias = if self.random.once_in(4) {
            ALIAS_BYTES
        } else {
            0
        };
        let installs = !self.random.once_in(4);
        let address = alias + line * LINE_BYTES as u64;
        if self.options.lookaside {
            let entry = self.entry(hart, index_of(address));
            let tag = if stored.is_some() {
                entry.write_tag
            } else {
                entry.read_tag
            };
            if tag == address {
                let core = &mut self.hardware.cores[hart];
                core.accesses += 1;
                core.stores += u64::from(stored.is_some());
                let slot = core.l1d.find(line).expect("audited");
                *core.l1d.stamp_mut(slot) = core.accesses;
                let data = core.l1d.data_mut(slot);
                if let Some((offset, bytes)) = stored {
                    data.0[offset..][..bytes.len()].copy_from_slice(bytes);
                }
                return (*data, now);
            }
        }
        let (hardware, model) = (&mut self.hardware, &mut self.model);
        let (slot, ready) = match stored {
            Some(stored) => hardware.store(model, hart, line, stored, now),
            None => hardware.load(model, hart, line, now),
        };
        if self.options.lookaside && installs {
            hardware.let_hit(model, hart, address, slot, true);
        }
        assert!(ready >= now, "an access ends before it began");
        (*hardware.cores[hart].l1d.data(slot), ready)
    }

    pub fn entry(&mut self, hart: usize, index: usize) -> Entry {
        let entries = self.hardware.cores[hart].lookaside.entries_mut();
        assert!(index < ENTRIES);
        // SAFETY: the table has `ENTRIES` entries and lives as long as the core.
        unsafe { *entries.add(index) }
    }

    fn load(&mut self, hart: usize, line: LineNumber) {
        let now = self.now(hart);
        let (bytes, ready) = self.access(hart, line, None);
        assert_eq!(
            bytes,
            self.model.line(line).newest,
            "what hart {hart} loads from line {line:#x} isn't the newest"
        );
        self.loads += 1;
        (self.hardware).accessed(hart, AccessKind::Load, now, ready);
        assert_eq!(self.now(hart), ready, "a load waits for its line");
    }

    fn load_reserved(&mut self, hart: usize, line: LineNumber) {
        self.load(hart, line);
        self.hardware.cores[hart].reservation = Some(line);
    }

    fn store(&mut self, hart: usize, line: LineNumber) {
        let now = self.now(hart);
        let group = self.hardware.group_of(hart);
        let l2 = &self.hardware.groups[group].l2;
        let shared = |slot| l2.word(slot).state() == State::Shared;
        self.upgrades += u64::from(l2.find(line).is_some_and(shared));
        let current = self.model.current[hart];
        let newest = self.model.line(line).newest;
        let length = 1 << self.random.below(7);
        let offset = self.random.below(LINE_BYTES / length) * length;
        let mut changed = newest;
        changed.0[offset..][..length].fill_with(|| self.random.next() as u8);
        let may_be_told = self.options.every_store || self.options.degree > 0;
        if may_be_told || self.model.line(line).version != current {
            self.model.expected_store = Some((hart, line, changed));
        }
        let stored = (offset, &changed.0[offset..][..length]);
        let (bytes, ready) = self.access(hart, line, Some(stored));
        assert_eq!(bytes, changed, "what a store leaves isn't the newest");
        if self.options.degree > 0 && self.model.line(line).version == current {
            self.model.expected_store = None;
        }
        assert_eq!(
            self.model.expected_store, None,
            "a store by hart {hart} was not told"
        );
        *self.model.line_mut(line) = LineModel {
            newest: changed,
            dirty: true,
            version: current,
        };
        self.stores += 1;
        let index = (line - self.model.first) as usize;
        if let Some((_, own_store)) = &mut self.fetched[hart][index] {
            *own_store = true;
        }
        for (other, core) in self.hardware.cores.iter().enumerate() {
            assert!(
                other == hart || core.reservation != Some(line),
                "hart {other}'s reservation outlived hart {hart}'s store"
            );
        }
        self.post(hart, AccessKind::Store, now, ready);
    }

    /// A fetch sees every other hart's stores. A hart's own it need not see before a FENCE.I: the
    /// instruction cache then still holds what it held.
    fn fetch(&mut self, hart: usize, line: LineNumber) {
        let now = self.now(hart);
        let misses = self.hardware.statistics.l1i_misses;
        let (slot, ready) = self.hardware.fetch(&mut self.model, hart, line, now);
        let bytes = *self.hardware.cores[hart].l1i.data(slot);
        let newest = self.model.line(line).newest;
        let fetched = &mut self.fetched[hart][(line - self.model.first) as usize];
        if self.hardware.statistics.l1i_misses > misses {
            *fetched = Some((newest, false));
        }
        let (before, own_store) = fetched.expect("a hit was a miss once");
        let expected = if own_store { before } else { newest };
        assert_eq!(
            bytes, expected,
            "what hart {hart} fetches from line {line:#x} isn't the newest"
        );
        self.fetches += 1;
        (self.hardware).accessed(hart, AccessKind::Fetch, now, ready);
    }

    fn post(&mut self, hart: usize, kind: AccessKind, now: Cycles, ready: Cycles) {
        (self.hardware).accessed(hart, kind, now, ready);
        self.posted[hart] = self.posted[hart].max(ready);
        let store = Cycles::from(kind == AccessKind::Store);
        self.written[hart] = self.written[hart].max(store * ready);
        assert!(self.now(hart) <= self.posted[hart].max(now));
    }

    /// Cleans one set of the shared cache, as a background scan does.
    fn scan(&mut self, hart: usize) {
        let set = self.random.below(self.hardware.llc.sets());
        self.scan_set(hart, set);
    }

    pub fn scan_set(&mut self, hart: usize, set: usize) {
        let mut now = self.hardware.take_llc_port(set, self.now(hart), 1);
        let slots: Vec<_> = self.hardware.llc.set(set).collect();
        for (slot, word) in slots {
            let line = word.line();
            let modified = self.private().any(|cache| {
                cache
                    .find(line)
                    .is_some_and(|slot| cache.word(slot).state() == State::Modified)
            });
            let snoop = self.options.sabotage != Sabotage::ScanSkipsPrivate;
            let (newer, from_private, ready) =
                self.hardware.clean(&mut self.model, slot, snoop, now);
            assert!(ready >= now);
            now = ready;
            let model = self.model.line(line);
            assert_eq!(
                newer,
                model.dirty.then_some(model.newest),
                "cleaned line {line:#x}"
            );
            assert_eq!(from_private, modified, "where line {line:#x} was newest");
            if let Some(bytes) = newer {
                self.scanned += 1;
                now = self
                    .hardware
                    .memory
                    .write_line(
                        line,
                        &bytes,
                        Traffic::WriteBack,
                        now,
                        0,
                        &mut self.hardware.statistics,
                    )
                    .accepted;
                self.model.written_back(line);
            }
        }
    }

    /// Flushes the caches, as a design with synchronous commits does: all harts stand still, every
    /// dirty line is written out once, in the order of the walk, and stays cached, clean.
    fn flush(&mut self) {
        let now = (0..self.options.harts).map(|hart| self.now(hart)).max();
        let now = now.expect("a hart");
        self.model.began = now;
        let lines = (self.model.first..).zip(&self.model.lines);
        let dirty: Vec<_> = lines
            .filter(|(_, line)| line.dirty)
            .map(|(number, _)| number)
            .collect();
        let cached = self.cached();
        self.model.flush = Some(Vec::new());
        let flushed = if self.options.sabotage == Sabotage::FlushSkipsPrivate {
            self.flush_shared_cache_alone(now)
        } else {
            self.hardware.flush(&mut self.model, now)
        };
        let mut lines = self.model.flush.take().expect("just put there");
        let step_of = self.steps_of_sets();
        assert!(
            lines.is_sorted_by_key(|&line| step_of[self.hardware.llc.set_of(line)]),
            "the flush goes by the walk over the sets: {lines:x?}"
        );
        lines.sort_unstable();
        assert_eq!(lines, dirty, "the flush writes each dirty line once");
        assert_eq!(flushed.lines, dirty.len() as u64, "lines of the flush");
        let sets = self.hardware.llc.sets() as u64;
        assert!(
            flushed.ready >= now + sets,
            "the flush looks at a set a cycle"
        );
        let durable = dirty
            .iter()
            .map(|&line| self.hardware.memory.durable_at(line, 0));
        assert!(
            flushed.durable >= durable.max().unwrap_or(flushed.ready),
            "the flush is durable before its lines are"
        );
        assert_eq!(self.cached(), cached, "the flush drops nothing");
        self.hardware.newer_lines(&self.model, &mut |line, _| {
            panic!("the flush left line {line:#x} newer than memory");
        });
        for hart in 0..self.options.harts {
            self.retired[hart] += flushed.ready.saturating_sub(self.now(hart));
        }
    }

    /// When a walk over the shared cache comes to each set: once.
    fn steps_of_sets(&self) -> Vec<usize> {
        let sets = self.hardware.llc.sets();
        let mut steps = vec![None; sets];
        for step in 0..sets {
            let visited = steps[self.hardware.set_in_walk(step)].replace(step);
            assert_eq!(visited, None, "the walk comes to a set twice");
        }
        steps.into_iter().flatten().collect()
    }

    /// The mistake of a flush that never asks private caches.
    fn flush_shared_cache_alone(&mut self, now: Cycles) -> Flushed {
        let mut flushed = Flushed {
            lines: 0,
            ready: now + self.hardware.llc.sets() as u64,
            durable: now,
        };
        for slot in 0..self.hardware.llc.sets() * self.hardware.llc.ways() {
            let slot = Slot(slot as u32);
            let word = self.hardware.llc.word(slot);
            if !self.hardware.llc.occupied(slot) {
                continue;
            }
            let (newer, ..) = self.hardware.clean(&mut self.model, slot, false, now);
            if let Some(bytes) = newer {
                let eviction = Eviction {
                    line: word.line(),
                    bytes,
                    version: word.version(),
                    cause: Cause::Flush,
                };
                let Evicted { accepted, durable } =
                    self.model.evict(&mut self.hardware, &eviction, now);
                flushed.lines += 1;
                flushed.ready = flushed.ready.max(accepted);
                flushed.durable = flushed.durable.max(durable);
            }
        }
        flushed
    }

    /// Lines in each cache.
    fn cached(&self) -> Vec<usize> {
        let caches = self.private().chain([&self.hardware.llc]);
        caches.map(|cache| cache.iter().count()).collect()
    }

    /// Every L1 and L2.
    pub fn private(&self) -> impl Iterator<Item = &Cache> {
        let l1s = self.hardware.cores.iter();
        let l2s = self.hardware.groups.iter();
        l1s.flat_map(|core| [&core.l1i, &core.l1d])
            .chain(l2s.map(|group| &group.l2))
    }

    fn next_version(&mut self, hart: usize) {
        let group = self.hardware.groups[self.hardware.group_of(hart)]
            .harts
            .clone();
        let changed = match self.options.versions {
            Versions::None => return,
            Versions::Machine | Versions::MachineNoted => 0..self.options.harts,
            Versions::SharingGroup => group,
            Versions::Hart => hart..hart + 1,
        };
        let before = self.model.current[hart].0;
        let next = Version(before / 100 * 100 + (before % 100 + 1) % 16);
        self.model.current[changed].fill(next);
        if self.options.sabotage == Sabotage::KeepWriteTags {
            return;
        }
        match self.options.versions {
            Versions::SharingGroup => {
                (self.hardware).version_changed_in(self.hardware.group_of(hart));
            }
            Versions::Hart => self.hardware.version_changed_of(hart),
            Versions::None | Versions::Machine | Versions::MachineNoted => {
                self.hardware.version_changed();
            }
        }
    }
}
