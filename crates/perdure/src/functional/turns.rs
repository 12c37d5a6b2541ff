//! Whose turn it is on the one hart, and for how long.
//!
//! Always true here: turns follow from the seed, from the program, and from who may run; never from whoever
//! watches.

use std::collections::BTreeSet;

use perdure_hardware::random::Random;
use perdure_linux::ThreadId;

use super::{Functional, HART, Stop, Unwatched, Watcher};

/// Instructions that a thread has before another one's turn.
pub(super) const SLICE: u64 = 1_000_000;
/// The same where it is drawn: some power of two below this, and some part of that.
const DRAWN_SLICES: u64 = 12;
/// So many stores to persistent memory, at most, are in a turn that ends behind one.
const DRAWN_STORES: u64 = 8;

/// Who may run.
#[derive(Clone, Debug, Default)]
pub(super) enum Turns {
    /// Every thread.
    #[default]
    All,
    /// One thread.
    Only(ThreadId),
    /// All but those that wait for an operation of their own to begin, until so much is retired.
    Without {
        threads: BTreeSet<ThreadId>,
        until: u64,
    },
}

impl Functional {
    /// From now on, threads have turns of drawn lengths.
    pub fn draw_turns(&mut self, seed: u64) {
        self.schedule = Some(Random::new(seed));
        self.slice_end = self.hart.retired;
    }

    /// A turn begins now.
    pub(super) fn begin_slice(&mut self) {
        let waits = self.kernel.has_ready();
        self.has_threads |= waits;
        self.stores_left = u64::MAX;
        let length = match &mut self.schedule {
            Some(random) if waits => {
                // What another thread sees before it is durable is seen right behind a store.
                if random.below(2) == 0 {
                    self.stores_left = 1 + random.below(DRAWN_STORES);
                }
                let most = 1 << (1 + random.below(DRAWN_SLICES));
                1 + random.below(most)
            }
            _ => SLICE,
        };
        self.slice_end = self.hart.retired + length;
    }

    /// A turn is over.
    pub(super) fn end_slice<W: Watcher>(&mut self, watcher: &mut W) {
        self.enter(watcher, |kernel, hart, door| {
            kernel.preempt(HART, hart, door)
        });
        self.begin_slice();
        let patience_is_over =
            matches!(self.turns, Turns::Without { until, .. } if self.hart.retired >= until);
        if patience_is_over {
            self.let_operations_begin(watcher);
        }
    }

    /// Lets whoever runs next begin its turn, without an instruction of it.
    pub fn begin_turn<W: Watcher>(&mut self, watcher: &mut W) {
        while self.find_work(watcher).is_none() && self.running.is_none() && self.ended.is_none() {}
    }

    /// Whoever runs is at the end of its turn.
    pub(super) fn turn_is_over(&self) -> bool {
        self.hart.retired >= self.slice_end || self.stores_left == 0
    }

    /// From now on this thread alone runs; whichever runs makes room for it.
    pub fn give_turn_to(&mut self, thread: ThreadId) {
        self.turns = Turns::Only(thread);
        if self.running.is_some_and(|running| running.thread != thread) {
            self.set_aside();
        }
    }

    /// The threads that could run now.
    pub fn ready(&self) -> BTreeSet<ThreadId> {
        let running = self.running.map(|running| running.thread);
        self.kernel.ready().chain(running).collect()
    }

    /// Whoever runs makes room.
    pub(super) fn set_aside(&mut self) {
        self.kernel.set_aside(HART, &self.hart);
        self.running = None;
        self.lookaside.reservation = None;
    }

    /// Has the kernel take a thread next that may run. False if none will ever be ready.
    fn has_turn<W: Watcher>(&mut self, watcher: &mut W) -> bool {
        match &self.turns {
            Turns::All => true,
            Turns::Only(thread) => self.kernel.bring_forward(|id| id == *thread),
            Turns::Without { threads, .. } => {
                if !self.kernel.bring_forward(|id| !threads.contains(&id)) {
                    self.let_operations_begin(watcher);
                }
                true
            }
        }
    }

    /// A thread for the hart, if it has none; why there is none.
    pub(super) fn find_work<W: Watcher>(&mut self, watcher: &mut W) -> Option<Stop> {
        let now = self.hart.retired + self.skipped_ns;
        if self.kernel.next_deadline_ns().is_some_and(|due| due <= now) {
            self.kernel.wake_sleepers(now);
            self.look_for_end();
        }
        // Whoever was stopped within a block may be at the end of its turn.
        if self.running.is_some() && self.turn_is_over() {
            self.end_slice(watcher);
        }
        if self.running.is_some() || self.ended.is_some() {
            return None;
        }
        if !self.has_turn(watcher) {
            return Some(Stop::Deadlock);
        }
        let mut unwatched = Unwatched;
        let (running, _) = self.with_kernel(&mut unwatched, |kernel, hart, door| {
            kernel.schedule(HART, hart, door)
        });
        self.running = running;
        self.begin_slice();
        self.look_for_end();
        if self.running.is_some() || self.ended.is_some() {
            return None;
        }
        match self.kernel.next_change_ns() {
            None => Some(Stop::Deadlock),
            Some(change) => {
                self.skipped_ns += change.saturating_sub(now);
                self.kernel.wake_sleepers(change);
                self.look_for_end();
                None
            }
        }
    }
}
