//! The reference: for each line its newest bytes, whether memory has them, and the version of the
//! last store. It is also the policy under test's eyes: every hook compares what it is told.

use crate::support::Random;
use perdure_hardware::arena::Arena;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, Version};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Cause, CrossVersionStore, Evicted, Eviction, Policy, Transfer};
use perdure_hardware::time::Cycles;

use super::walk::Sabotage;

/// What versions mean in a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// Nothing: every store leaves `Version::NONE`.
    None,
    /// One for the machine.
    Machine,
    /// One for the machine, and a cross-version store also sets the shared cache's tag.
    MachineNoted,
    /// One for each sharing group; they differ from each other.
    SharingGroup,
    /// One for each hart; they differ from each other, in a sharing group too.
    Hart,
}

/// What a program would say about a line.
#[derive(Clone, Debug)]
pub struct LineModel {
    pub newest: Line,
    /// Stored to since memory got its bytes.
    pub dirty: bool,
    /// Of the last store, `NONE` once memory has the bytes.
    pub version: Version,
}

/// What happened, to be compared with the statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub fills: u64,
    pub stores: u64,
    pub cross_version_stores: u64,
    pub replacements: u64,
    pub cache_blocks: u64,
    pub flushed: u64,
    pub transfers: u64,
}

pub struct Model {
    pub versions: Versions,
    /// By hart.
    pub current: Vec<Version>,
    pub first: LineNumber,
    pub lines: Vec<LineModel>,
    /// The one store that may be told now, with what it leaves of its line.
    pub expected_store: Option<(usize, LineNumber, Line)>,
    /// Every store has to be told, not only those that cross versions.
    pub every_store: bool,
    /// The line that a cache-block instruction works on now.
    pub cache_block: Option<LineNumber>,
    /// When what the last one wrote will be durable.
    pub cache_block_durable: Cycles,
    /// The lines that the flush under way has written out so far, in its order.
    pub flush: Option<Vec<LineNumber>>,
    /// When the access under way began: no hook may be called before.
    pub began: Cycles,
    pub counts: Counts,
    pub sabotage: Sabotage,
}

impl LineModel {
    /// So many lines from `first` on with random bytes, which memory has, or zeros.
    pub fn some(
        random: &mut Random,
        arena: &mut Arena,
        first: LineNumber,
        count: usize,
    ) -> Vec<Self> {
        (0..count)
            .map(|index| {
                let mut newest = Line::ZERO;
                if !random.once_in(3) {
                    newest.0.fill_with(|| random.next() as u8);
                    arena.write((first + index as u64) * LINE_BYTES as u64, &newest.0);
                }
                Self {
                    newest,
                    dirty: false,
                    version: Version::NONE,
                }
            })
            .collect()
    }
}

impl Model {
    pub fn line(&self, line: LineNumber) -> &LineModel {
        &self.lines[(line - self.first) as usize]
    }

    pub fn line_mut(&mut self, line: LineNumber) -> &mut LineModel {
        &mut self.lines[(line - self.first) as usize]
    }

    /// Memory has got the newest bytes.
    pub fn written_back(&mut self, line: LineNumber) {
        let model = self.line_mut(line);
        model.dirty = false;
        model.version = Version::NONE;
    }
}

impl Policy for Model {
    fn current_version(&self, hart: usize) -> Version {
        self.current[hart]
    }

    fn store(&mut self, hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        assert!(now >= self.began, "a store's hook before the store");
        assert_eq!(
            self.expected_store.take(),
            Some((store.hart, store.line, *store.new)),
            "a store that should not be told, or is another, or whose line isn't the newest: {store:?}"
        );
        let line = self.line(store.line);
        assert_eq!(store.version, line.version, "old version of {store:?}");
        assert_eq!(
            *store.old, line.newest,
            "what is stored over isn't the newest: {store:?}"
        );
        if self.versions == Versions::MachineNoted {
            hardware.set_llc_version_of(store, self.current[store.hart]);
        }
        let mut unchanged = *store.new;
        let written = store.offset..store.offset + store.length;
        unchanged.0[written.clone()].copy_from_slice(&store.old.0[written]);
        assert_eq!(unchanged, *store.old, "it writes elsewhere, too: {store:?}");
        self.counts.stores += 1;
        self.counts.cross_version_stores += u64::from(store.version != self.current[store.hart]);
        now + 3
    }

    fn sees_every_store(&self) -> bool {
        self.every_store
    }

    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        assert!(now >= self.began, "an eviction's hook before the access");
        let line = self.line(eviction.line);
        assert!(line.dirty, "a clean line goes to memory: {eviction:?}");
        assert_eq!(eviction.bytes, line.newest, "bytes of {eviction:?}");
        assert_eq!(eviction.version, line.version, "version of {eviction:?}");
        let cause = if let Some(lines) = &mut self.flush {
            lines.push(eviction.line);
            self.counts.flushed += 1;
            Cause::Flush
        } else if self.cache_block == Some(eviction.line) {
            self.counts.cache_blocks += 1;
            Cause::CacheBlock
        } else {
            self.counts.replacements += 1;
            Cause::Replacement
        };
        assert_eq!(eviction.cause, cause);
        self.written_back(eviction.line);
        if self.sabotage == Sabotage::LoseReplacements && cause == Cause::Replacement {
            return Evicted {
                accepted: now,
                durable: now,
            };
        }
        let traffic = if cause == Cause::Flush {
            Traffic::Flush
        } else {
            Traffic::WriteBack
        };
        let accepted = hardware.memory.write_line(
            eviction.line,
            &eviction.bytes,
            traffic,
            now,
            0,
            &mut hardware.statistics,
        );
        if cause == Cause::CacheBlock {
            self.cache_block_durable = accepted.durable;
        }
        Evicted {
            accepted: accepted.accepted,
            durable: accepted.durable,
        }
    }

    fn fill(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        assert!(now >= self.began, "a fill's hook before the access");
        self.counts.fills += 1;
        let model = self.line(line);
        assert!(
            !model.dirty,
            "line {line:#x} is dirty somewhere, yet filled"
        );
        let (bytes, arrived) = hardware.read_memory(line, now);
        assert_eq!(bytes, model.newest, "the fill of line {line:#x} is old");
        if self.sabotage == Sabotage::FillZeros && self.counts.fills > 100 {
            return (Line([0; LINE_BYTES]), arrived);
        }
        (bytes, arrived)
    }

    fn transfer(&mut self, hardware: &mut Hardware, transfer: &Transfer, now: Cycles) -> Cycles {
        assert!(now >= self.began, "a transfer's hook before the access");
        assert_ne!(transfer.to, Some(transfer.from), "{transfer:?}");
        let line = self.line(transfer.line);
        assert!(line.dirty, "a clean line was handed over: {transfer:?}");
        assert_eq!(transfer.version, line.version, "version of {transfer:?}");
        let slot = hardware.llc.find(transfer.line).expect("inclusion");
        assert_eq!(*hardware.llc.data(slot), line.newest, "{transfer:?}");
        self.counts.transfers += 1;
        now + 2
    }

    fn fired(&mut self, _hardware: &mut Hardware, event: u32, _now: Cycles) {
        panic!("nobody scheduled event {event}");
    }
}
