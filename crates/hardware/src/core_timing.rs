//! How a core turns what it retires, and what it waits for, into time.
//!
//! A core is told of each access that the instruction at hand made: what it was, when it was made, and
//! when its line came. It is told when what cache-block instructions wrote will be durable, and of fences;
//! and it says when it goes on. Instructions are executed in program order, whatever the model.
//!
//! Always true here:
//! - A hart's local time is its retired instructions plus its stalls, and only this file knows stalls.
//! - An access that hits the L1 is part of its instruction's one cycle: a core need not be told of it.
//! - Stores are done in program order, none before its line has come.
//! - Time only goes forward, except where a clock is set because the hart has a past.

use std::collections::VecDeque;

use crate::specification::{Core, CoreModel};
use crate::statistics::Statistics;
use crate::time::Cycles;

/// What an access was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Of instructions.
    Fetch,
    /// A load.
    Load,
    /// A store.
    Store,
    /// A load and a store in one, or one of a pair with a reservation.
    Atomic,
    /// A cache-block instruction.
    CacheBlock,
    /// Not an access but a persistence instruction, for whose answer the hart waits.
    Persistence,
}

/// The clock of one core. All of it is lost at power-off.
#[derive(Clone, Debug)]
pub struct CoreTiming {
    model: CoreModel,
    store_buffer_entries: usize,
    /// Time that the core did not retire instructions.
    stalls: Cycles,
    /// Stores that wait for their line: when each will be done, in order.
    store_buffer: VecDeque<Cycles>,
    /// When the last store will be done.
    stores_done: Cycles,
    /// When everything that this hart's cache-block instructions wrote will be durable.
    persists_durable: Cycles,
}

impl CoreTiming {
    /// A core at time 0 that has retired nothing.
    pub fn new(core: &Core) -> Self {
        Self {
            model: core.model,
            store_buffer_entries: core.store_buffer_entries,
            stalls: 0,
            store_buffer: VecDeque::new(),
            stores_done: 0,
            persists_durable: 0,
        }
    }

    /// It is `now` for a hart that has retired so many instructions: it has a past.
    pub fn set_clock(&mut self, retired: u64, now: Cycles) {
        self.stalls = now - retired;
    }

    /// The local time of a hart that has retired so many instructions.
    #[inline(always)]
    pub fn now(&self, retired: u64) -> Cycles {
        retired + self.stalls
    }

    /// How many instructions the hart will have retired at `time`, if it does not wait before.
    #[inline(always)]
    pub fn retired_at(&self, time: Cycles) -> u64 {
        time.saturating_sub(self.stalls)
    }

    /// The core stands still for so long.
    #[inline]
    pub fn stand_still(&mut self, cycles: Cycles) {
        self.stalls += cycles;
    }

    /// The core, which is at `now`, stands still until then. Returns for how long.
    #[inline]
    pub fn stand_still_until(&mut self, now: Cycles, until: Cycles) -> Cycles {
        let wait = until.saturating_sub(now);
        self.stalls += wait;
        wait
    }

    /// An access that was made at `now` has its line at `ready`. A store waits in the store buffer, which
    /// drains in order, and the core only waits for a free entry: a load that follows takes its bytes
    /// from the line at once (store-to-load forwarding). For anything else the core waits.
    pub fn accessed(
        &mut self,
        kind: AccessKind,
        now: Cycles,
        ready: Cycles,
        statistics: &mut Statistics,
    ) {
        let buffered = match kind {
            AccessKind::Store | AccessKind::CacheBlock => self.model == CoreModel::InOrder,
            AccessKind::Fetch | AccessKind::Load | AccessKind::Atomic | AccessKind::Persistence => {
                false
            }
        };
        if buffered {
            statistics.store_buffer_stall_cycles += self.buffer_store(now, ready);
        } else {
            statistics.memory_stall_cycles += self.stand_still_until(now, ready);
        }
    }

    /// Puts a store into the store buffer. Returns for how long the core waited for an entry.
    fn buffer_store(&mut self, now: Cycles, ready: Cycles) -> Cycles {
        if ready <= now {
            return 0;
        }
        while self.store_buffer.front().is_some_and(|&done| done <= now) {
            self.store_buffer.pop_front();
        }
        let mut wait = 0;
        if self.store_buffer.len() == self.store_buffer_entries
            && let Some(free) = self.store_buffer.pop_front()
        {
            wait = self.stand_still_until(now, free);
        }
        self.stores_done = self.stores_done.max(ready);
        self.store_buffer.push_back(self.stores_done);
        wait
    }

    /// What a cache-block instruction of this hart wrote will be durable then.
    pub fn persists_until(&mut self, durable: Cycles) {
        self.persists_durable = self.persists_durable.max(durable);
    }

    /// The core, which is at `now`, waits until earlier stores are done and what earlier cache-block
    /// instructions wrote is durable. Returns for how long.
    pub fn drain(&mut self, now: Cycles) -> Cycles {
        self.store_buffer.clear();
        self.stand_still_until(now, self.stores_done.max(self.persists_durable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(model: CoreModel) -> CoreTiming {
        CoreTiming::new(&Core {
            model,
            frequency_mhz: 2000,
            store_buffer_entries: 2,
        })
    }

    /// Makes accesses one after the other, each in the cycle in which the one before let go: what it was
    /// and when its line comes. Returns the local time after each.
    fn times(timing: &mut CoreTiming, accesses: &[(AccessKind, Cycles)]) -> Vec<Cycles> {
        let mut statistics = Statistics::default();
        let mut goes_on = |&(kind, ready)| {
            timing.accessed(kind, timing.now(0), ready, &mut statistics);
            timing.now(0)
        };
        accesses.iter().map(&mut goes_on).collect()
    }

    #[test]
    fn a_store_waits_for_an_entry_and_not_for_its_line() {
        use AccessKind::{CacheBlock, Load, Store};
        let mut timing = core(CoreModel::InOrder);
        let made = [(Store, 100), (CacheBlock, 50), (Store, 200), (Load, 120)];
        // The third finds both entries taken; the first of them is free at 100. The second is done
        // at 100, too, not before the first.
        assert_eq!(times(&mut timing, &made), [0, 0, 100, 120]);
        assert_eq!(timing.drain(120), 80, "the last store is done at 200");
    }

    #[test]
    fn timing_simple_waits_for_everything() {
        use AccessKind::{Load, Store};
        let mut timing = core(CoreModel::TimingSimple);
        let made = [(Store, 100), (Load, 120), (Store, 110)];
        assert_eq!(times(&mut timing, &made), [100, 120, 120]);
        assert_eq!(timing.drain(120), 0);
    }

    #[test]
    fn a_fence_waits_for_what_was_sent_to_memory() {
        let mut timing = core(CoreModel::InOrder);
        timing.persists_until(70);
        timing.persists_until(40);
        assert_eq!(timing.drain(10), 60);
        assert_eq!((timing.now(0), timing.drain(70)), (60, 0));
    }

    #[test]
    fn a_clock_that_was_set_goes_on_from_there() {
        let mut timing = core(CoreModel::InOrder);
        timing.set_clock(1_000, 5_000);
        assert_eq!(
            (timing.now(1_001), timing.retired_at(5_010)),
            (5_001, 1_010)
        );
        timing.stand_still(7);
        assert_eq!((timing.now(1_001), timing.retired_at(3)), (5_008, 0));
    }
}
