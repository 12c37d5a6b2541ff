//! Moments at which no operation is under way, of programs with threads: from time to time a thread that
//! wants to begin one waits until all others have ended theirs.
//!
//! Always true here: a thread waits no longer than for a while, and not where nobody else can run; then it
//! begins, whatever else is under way.

use std::collections::{BTreeMap, BTreeSet};

use perdure_linux::ThreadId;
use perdure_riscv::{Access, Mark};

use super::calls::Arrival;
use super::turns::Turns;
use super::{At, Functional, Watcher};
use crate::call_stack::Memory;

/// Operations after which the next one waits.
const OPERATIONS: u64 = 6;
/// Instructions for which it does, at most.
const PATIENCE: u64 = 100_000;

/// Who has an operation under way, and who waits to begin one.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathering {
    /// Begun since none was under way.
    begun: u64,
    open: BTreeSet<ThreadId>,
    waiting: BTreeMap<ThreadId, (Mark, At)>,
}

impl Functional {
    /// From now on there is a moment now and then at which no operation is under way.
    pub fn gather_operations(&mut self) {
        self.gathering = Some(Gathering::default());
    }

    /// Numbers of operations are the program's own, and not how many calls came before.
    pub fn says_numbers(&self) -> bool {
        self.calls.is_empty()
    }

    /// From now on nobody waits for others before an operation, and turns are as they are given.
    pub fn let_operations_be(&mut self) {
        self.gathering = None;
        self.turns = Turns::All;
    }

    /// What a thread has said of operations, and what its calls and returns say.
    pub(super) fn tell_of_operations<W: Watcher>(
        &mut self,
        watcher: &mut W,
        thread: ThreadId,
        arrival: Option<Arrival>,
        mark: Option<(Mark, At)>,
    ) -> bool {
        let mut pauses = false;
        if let Some((mark, at)) = mark {
            pauses |= self.operation(watcher, mark, &at);
        }
        let called = arrival.and_then(|arrival| {
            let upper_end = self.upper_end_of_stack();
            let hart = (&self.hart, upper_end);
            self.calls.mark(thread, hart, arrival)
        });
        if let Some((mark, thread)) = called {
            let at = self.now(thread);
            pauses |= self.operation(watcher, mark, &at);
        }
        pauses
    }

    /// The address that stacks begin below, as far as it is of interest.
    fn upper_end_of_stack(&self) -> u64 {
        let mut bytes = [0; 8];
        let place = self.calls.upper_end(&self.hart);
        let read = place.and_then(|place| Memory::read(self, place, &mut bytes, Access::Load));
        read.map_or(u64::MAX, |()| u64::from_le_bytes(bytes))
    }

    /// An operation begins or ends. True if the watcher wants to look.
    fn operation<W: Watcher>(&mut self, watcher: &mut W, mark: Mark, at: &At) -> bool {
        let Some(gathering) = &mut self.gathering else {
            return !watcher.marks(&self.pool, mark, &[], at);
        };
        if mark == Mark::OperationEnds {
            gathering.open.remove(&at.thread);
            let pauses = !watcher.marks(&self.pool, mark, &[], at);
            let is_quiet = self
                .gathering
                .as_ref()
                .is_some_and(|all| all.open.is_empty());
            return pauses | (is_quiet && self.let_operations_begin(watcher));
        }
        if gathering.open.is_empty() {
            gathering.begun = 0;
        } else if gathering.begun >= OPERATIONS && !gathering.open.contains(&at.thread) {
            gathering.waiting.insert(at.thread, (mark, *at));
            let threads = gathering.waiting.keys().copied().collect();
            let until = match self.turns {
                Turns::Without { until, .. } => until,
                _ => self.hart.retired + PATIENCE,
            };
            self.turns = Turns::Without { threads, until };
            self.set_aside();
            return false;
        }
        gathering.begun += 1;
        gathering.open.insert(at.thread);
        !watcher.marks(&self.pool, mark, &[], at)
    }

    /// Operations begin that have waited. True if the watcher wants to look.
    pub(super) fn let_operations_begin<W: Watcher>(&mut self, watcher: &mut W) -> bool {
        let Some(gathering) = &mut self.gathering else {
            return false;
        };
        self.turns = Turns::All;
        let waiting = std::mem::take(&mut gathering.waiting);
        gathering.begun = waiting.len() as u64;
        gathering.open.extend(waiting.keys());
        let mut pauses = false;
        for (mark, at) in waiting.into_values() {
            pauses |= !watcher.marks(&self.pool, mark, &[], &at);
        }
        pauses
    }
}
