//! Mistakes with what becomes durable when, planted to see whether they are noticed.
//!
//! Always true here: a machine without one is asked about it only where a line is written back, a fence
//! waits, or memory accepts a write; never where an access hits.

use crate::cache::State;
use crate::controller::Served;
use crate::hierarchy::Hardware;
use crate::line::{Line, LineNumber};
use crate::module::Module;
use crate::persist::{Order, Persist};
use crate::time::Cycles;

/// A mistake with persist operations, fences, or the persistence domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersistMistake {
    /// Fences wait for stores alone.
    FencesForStoresAlone,
    /// Fences forget what persist operations leave in the caches.
    FencesForgetCleans,
    /// Fences wait for the last persist operation alone.
    FencesForLast,
    /// Atomic accesses wait for nothing.
    AtomicsForNothing,
    /// A hart that has waited for bytes to be durable goes on ahead of others, who see what it does next
    /// before it happens.
    SeenEarly,
    /// An operation misses what the L1D of another hart has newer.
    MissesOtherHarts,
    /// An operation that is ordered by its line passes the stores to it that are in its hart's L1D.
    PassesItsStores,
    /// Later accesses stay behind an operation until memory has taken its bytes, durable or not.
    GoesOnEarly,
    /// Bytes count as durable when the shared cache has given them up.
    DurableAtCoherence,
    /// A line that is clean counts as durable, while its write still waits.
    CleanIsDurable,
    /// A write queue in the persistence domain loses every other entry at power-off, for a while.
    QueueLosesEntries,
    /// It takes a line word by word.
    QueueTakesWords,
    /// Where caches are kept, those of harts are not.
    KeepsSharedCacheOnly,
}

/// For how long an entry of the write queue is in danger, cycles.
const DANGER_CYCLES: Cycles = 400;

impl Hardware {
    /// Plants a mistake, or takes out the one that is there.
    pub fn plant(&mut self, mistake: Option<PersistMistake>) {
        self.persist_mistake = mistake;
        for module in &mut self.memory.modules {
            module.persist_mistake = mistake;
        }
    }

    /// True if this mistake is planted.
    #[inline]
    pub fn is_mistaken(&self, mistake: PersistMistake) -> bool {
        self.persist_mistake == Some(mistake)
    }

    /// True if a hart's data cache has a line that is newer than below.
    fn is_newer_in(&self, hart: usize, line: LineNumber) -> bool {
        let l1d = &self.cores[hart].l1d;
        (l1d.find(line)).is_some_and(|slot| l1d.word(slot).state() == State::Modified)
    }

    /// True if a mistake makes an operation pass over newer bytes.
    pub(crate) fn mistaken_about(&self, persist: &Persist) -> bool {
        let mut harts = 0..self.cores.len();
        match self.persist_mistake {
            Some(PersistMistake::MissesOtherHarts) => {
                harts.any(|hart| hart != persist.hart && self.is_newer_in(hart, persist.line))
            }
            Some(PersistMistake::PassesItsStores) => {
                persist.order == Order::Line && self.is_newer_in(persist.hart, persist.line)
            }
            _ => false,
        }
    }

    /// Drops what a mistake does not keep at power-off, of lines that are newer in the caches.
    pub(crate) fn without_harts(&self, newer: &mut Vec<(LineNumber, Line)>) {
        if self.is_mistaken(PersistMistake::KeepsSharedCacheOnly) {
            let harts = 0..self.cores.len();
            newer.retain(|&(line, _)| harts.clone().all(|hart| !self.is_newer_in(hart, line)));
        }
    }
}

impl Module {
    /// When what the queue took is durable, with a mistake in it.
    pub(crate) fn taken(&self, written: Served) -> Served {
        let by_words = self.persist_mistake == Some(PersistMistake::QueueTakesWords);
        let done = written.done + if by_words { DANGER_CYCLES } else { 0 };
        Served { done, ..written }
    }

    /// When that survives, whatever its sender was told.
    #[inline(always)]
    pub(crate) fn survives(&self, written: &Served) -> Served {
        let loses = self.persist_mistake == Some(PersistMistake::QueueLosesEntries);
        let is_odd = self.counters.writes % 2 == 1;
        let later = if loses && is_odd { DANGER_CYCLES } else { 0 };
        Served {
            start: written.start + later,
            done: written.done + later,
            ..*written
        }
    }
}
