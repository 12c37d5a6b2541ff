//! Flushes and fences that take time and make nothing durable, and stores that nothing ever makes durable.
//!
//! Always true here: each is counted where the program has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use perdure_linux::ThreadId;
use perdure_riscv::Barrier;

use super::pending::History;
use crate::functional::{At, Wait};

/// What is wasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wasted {
    /// A flush of a line of which everything is durable.
    CleanFlush,
    /// A flush of a line that was flushed since it was last stored to.
    SecondFlush,
    /// A fence with nothing to wait for.
    IdleFence,
    /// A store that was not durable at the end.
    NeverDurable,
    /// Bytes that are stored and never read.
    NeverRead,
}

impl Wasted {
    /// True of what takes time.
    pub fn takes_time(self) -> bool {
        matches!(self, Self::CleanFlush | Self::SecondFlush | Self::IdleFence)
    }

    /// In a report.
    pub fn word(self) -> &'static str {
        match self {
            Self::CleanFlush => "flush-of-clean-line",
            Self::SecondFlush => "flushed-twice",
            Self::IdleFence => "fence-without-work",
            Self::NeverDurable => "never-durable",
            Self::NeverRead => "never-read",
        }
    }
}

/// The counts.
#[derive(Clone, Debug, Default)]
pub struct Waste {
    /// By kind and address of the instruction: what was retired before each time.
    pub times: BTreeMap<(Wasted, u64), Vec<u64>>,
    stored: BTreeSet<ThreadId>,
}

impl Waste {
    fn count(&mut self, what: Wasted, pc: u64, retired: u64) {
        self.times.entry((what, pc)).or_default().push(retired);
    }

    /// A thread stores to persistent memory.
    pub fn stores(&mut self, thread: ThreadId) {
        self.stored.insert(thread);
    }

    /// A flush writes nothing back, be it that an earlier one does.
    pub fn flushes(&mut self, at: &At, again: bool) {
        let what = if again {
            Wasted::SecondFlush
        } else {
            Wasted::CleanFlush
        };
        self.count(what, at.pc, at.retired);
    }

    /// A fence finds no flush to wait for. Those that order other things, too, are not counted.
    pub fn fences(&mut self, wait: Wait, at: &At) {
        let persists = matches!(
            wait,
            Wait::Barrier(Barrier::Sfence | Barrier::DsbIsh) | Wait::Fence(1, 1)
        );
        if persists && !self.stored.contains(&at.thread) {
            self.count(Wasted::IdleFence, at.pc, at.retired);
        }
    }

    /// A thread has waited.
    pub fn waited(&mut self, thread: ThreadId) {
        self.stored.remove(&thread);
    }

    /// The run ends with this.
    pub fn ends(&mut self, lines: &BTreeMap<u64, Arc<History>>) {
        for history in lines.values() {
            for store in &history.stores {
                self.count(Wasted::NeverDurable, store.at.pc, store.at.retired);
            }
        }
    }
}
