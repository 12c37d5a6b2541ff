//! How a core turns what it retires, and what it waits for, into time.
//!
//! A core is told of each access that the instruction at hand made: what it was, when it was made, and
//! when its line came. It is told when what persist operations wrote will be durable, and of fences;
//! and it says when it goes on. Instructions are executed in program order, whatever the model.
//!
//! Always true here:
//! - A hart's local time is its retired instructions plus its stalls, and only this file knows stalls. An
//!   out-of-order core may retire several in a cycle: its stalls are then below zero, modulo 2^64.
//! - An access that hits the L1 is part of its instruction's one cycle: a core in order need not be told of
//!   it. An out-of-order core is told of every instruction and every access ([`crate::window`]).
//! - Stores are done in program order, none before its line has come.
//! - Time only goes forward, except where a clock is set because the hart has a past.

use std::collections::VecDeque;

use crate::persist::{Fence, Order};
use crate::specification::{CoreModel, Specification};
use crate::statistics::Statistics;
use crate::time::Cycles;
use crate::window::{Alone, Instruction, Window, Work};

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
    /// A persist operation, behind what its order says.
    Persist(Order),
    /// A store that goes around the caches: for it, memory has taken it at `ready`.
    Around,
    /// A store into a buffer beside the caches, which has room for it at `ready`.
    Combined,
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
    /// Stores and persist operations under way: when the entry of each is free, in order.
    store_buffer: VecDeque<Cycles>,
    /// When the bytes of the last store will be in their line.
    stores_written: Cycles,
    /// When the last store will be done, and the last persist operation that stores wait for.
    stores_done: Cycles,
    /// When the last persist operation that stores do not wait for will be done.
    persists_done: Cycles,
    /// When everything that this hart's persist operations wrote will be durable.
    persists_durable: Cycles,
    /// An out-of-order core has one.
    window: Option<Box<Window>>,
}

impl CoreTiming {
    /// A core at time 0 that has retired nothing, with an L1D of so many slots.
    pub fn new(specification: &Specification, slots: usize) -> Self {
        let core = &specification.core;
        let hit_cycles = specification.l1d.latency_cycles;
        let window = || Box::new(Window::new(&core.window, hit_cycles, slots));
        Self {
            window: (core.model == CoreModel::OutOfOrder).then(window),
            ..Self::without_window(core.model, core.store_buffer_entries)
        }
    }

    /// A core without a window.
    fn without_window(model: CoreModel, store_buffer_entries: usize) -> Self {
        Self {
            model,
            store_buffer_entries,
            stalls: 0,
            store_buffer: VecDeque::new(),
            stores_written: 0,
            stores_done: 0,
            persists_done: 0,
            persists_durable: 0,
            window: None,
        }
    }

    /// It is `now` for a hart that has retired so many instructions: it has a past.
    pub fn set_clock(&mut self, retired: u64, now: Cycles) {
        self.stalls = now.wrapping_sub(retired);
    }

    /// The local time of a hart that has retired so many instructions.
    #[inline(always)]
    pub fn now(&self, retired: u64) -> Cycles {
        retired.wrapping_add(self.stalls)
    }

    /// For how long it has stood still; below zero, modulo 2^64, where it retires several at once.
    #[inline(always)]
    pub fn stood_still(&self) -> Cycles {
        self.stalls
    }

    /// How many instructions the hart will have retired at `time`, if it does not wait before.
    #[inline(always)]
    pub fn retired_at(&self, time: Cycles) -> u64 {
        time.saturating_sub(self.stalls)
    }

    /// The core stands still for so long.
    #[inline]
    pub fn stand_still(&mut self, cycles: Cycles) {
        self.stalls = self.stalls.wrapping_add(cycles);
    }

    /// The core, which is at `now`, stands still until then. Returns for how long.
    #[inline]
    pub fn stand_still_until(&mut self, now: Cycles, until: Cycles) -> Cycles {
        let wait = until.saturating_sub(now);
        self.stalls = self.stalls.wrapping_add(wait);
        wait
    }

    /// An access that was made at `now` has its line at `ready`. A store waits in the store buffer,
    /// which drains in order, and the core only waits for a free entry: a load that follows takes its
    /// bytes from the line at once (store-to-load forwarding). For anything else the core waits.
    #[inline]
    pub fn accessed(
        &mut self,
        kind: AccessKind,
        now: Cycles,
        ready: Cycles,
        statistics: &mut Statistics,
    ) {
        use AccessKind::{Around, Atomic, Combined, Fetch, Load, Persist, Persistence, Store};
        if self.window.is_some() {
            return self.accessed_in_window(kind, now, ready, statistics);
        }
        let order = match kind {
            Store => Some(Order::Stores),
            Persist(order @ (Order::Stores | Order::Line)) => Some(order),
            Persist(Order::Accesses) | Around | Atomic | Combined | Fetch | Load | Persistence => {
                None
            }
        };
        match (self.model, order) {
            (CoreModel::InOrder, Some(order)) => {
                statistics.store_buffer_stall_cycles += self.buffer(order, now, ready);
                if kind == Store {
                    self.stores_written = self.stores_done;
                }
            }
            _ => statistics.memory_stall_cycles += self.stand_still_until(now, ready),
        }
    }

    /// Puts a store, or what is ordered like one or by its line alone, into the store buffer. Returns
    /// for how long the core waited for an entry.
    fn buffer(&mut self, order: Order, now: Cycles, ready: Cycles) -> Cycles {
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
        let done = match order {
            Order::Stores | Order::Accesses => &mut self.stores_done,
            Order::Line => &mut self.persists_done,
        };
        *done = ready.max(*done);
        let before = self.store_buffer.back().copied();
        let free = before.unwrap_or(0).max(*done);
        self.store_buffer.push_back(free);
        wait
    }

    /// When a persist operation that is made at `now` may begin: when every earlier store has written its
    /// line. (Which of them wrote the operation's own line is not known here: stores that hit do not come
    /// by. So one that is ordered by its line alone waits as long, and only later stores tell the orders
    /// apart.) Operations that follow one another do not wait for each other to begin.
    #[inline]
    pub fn persist_begins(&self, now: Cycles) -> Cycles {
        now.max(self.stores_written)
    }

    /// What a persist operation of this hart wrote will be durable then.
    pub fn persists_until(&mut self, durable: Cycles) {
        self.persists_durable = self.persists_durable.max(durable);
    }

    /// The same, and what earlier ones wrote is forgotten: a planted mistake.
    pub(crate) fn only_persist_until(&mut self, durable: Cycles) {
        self.persists_durable = durable;
    }

    /// True if something that persist operations wrote is not durable at `now`, or one of them is not done.
    #[inline]
    pub fn is_before_persists(&self, now: Cycles) -> bool {
        self.persists_done.max(self.persists_durable) > now
    }

    /// The core, which is at `now`, carries a fence out. Returns for how long it waits. Loads have their
    /// bytes by then in every model.
    pub fn fence(&mut self, fence: Fence, now: Cycles) -> Cycles {
        self.fence_behind(fence, now, now)
    }

    /// The same, behind what was sent for it until `sent`.
    pub fn fence_behind(&mut self, fence: Fence, now: Cycles, sent: Cycles) -> Cycles {
        let mut until = now.max(sent);
        if fence.stores {
            until = until.max(self.stores_done);
        }
        if fence.persists {
            until = until.max(self.persists_done).max(self.persists_durable);
        }
        if fence.stores && fence.persists {
            self.store_buffer.clear();
        }
        if let Some(window) = &mut self.window
            && window.is_at_work()
        {
            window.completes(until);
            return until - now;
        }
        self.stand_still_until(now, until)
    }
}

/// What an out-of-order core is told beside.
impl CoreTiming {
    /// How many instructions the hart has retired when its clock stands at `time`, if it retires no more:
    /// as long as it has retired fewer, `time` has not come.
    #[inline(always)]
    pub fn retired_before(&self, time: Cycles) -> u64 {
        let stalls = self.stalls.cast_signed();
        let time = i64::try_from(time).unwrap_or(i64::MAX);
        u64::try_from(time.saturating_sub(stalls)).unwrap_or(0)
    }

    /// The window of an out-of-order core, for what it is told of accesses.
    #[inline(always)]
    pub fn window(&mut self) -> Option<&mut Window> {
        self.window.as_deref_mut()
    }

    /// When an out-of-order core makes the accesses of the instruction at hand.
    #[inline(always)]
    pub fn issued(&self) -> Cycles {
        self.window.as_ref().map_or(0, |window| window.issued())
    }

    /// A hart that has retired so many instructions begins the next one.
    #[inline]
    pub fn begin(&mut self, instruction: Instruction, retired: u64) {
        let clock = self.now(retired);
        if let Some(window) = &mut self.window {
            window.begin(instruction, clock);
        }
    }

    /// The instruction has been carried out, and is about to count as retired; see [`Window::end`].
    #[inline]
    pub fn end(&mut self, work: Work, behind: u64, target: Option<u64>) {
        if let Some(window) = &mut self.window {
            let (passed, written) = window.end(work, behind, target);
            self.stores_written = self.stores_written.max(written);
            self.stores_done = self.stores_done.max(written);
            self.stalls = self.stalls.wrapping_add(passed).wrapping_sub(1);
        }
    }

    /// The hart, which has retired so many instructions, leaves the program for the kernel.
    pub fn trap(&mut self, retired: u64) {
        let clock = self.now(retired);
        if let Some(window) = &mut self.window {
            let wait = window.trap(clock);
            self.stand_still(wait);
        }
    }

    /// The hart, which has retired so many instructions, begins the one at hand again when it has waited for
    /// what it is behind.
    pub fn again(&mut self, retired: u64) {
        let clock = self.now(retired);
        if let Some(window) = &mut self.window {
            let wait = window.again(clock);
            self.stand_still(wait);
        }
    }

    /// Adds what was counted here.
    pub(crate) fn report(&self, statistics: &mut Statistics) {
        if let Some(window) = &self.window {
            window.report(statistics);
        }
    }

    /// [`CoreTiming::accessed`] for an out-of-order core: of the instruction at hand, or of the kernel and
    /// the design, whom the hart waits for as a core in order does.
    #[cold]
    fn accessed_in_window(
        &mut self,
        kind: AccessKind,
        now: Cycles,
        ready: Cycles,
        statistics: &mut Statistics,
    ) {
        let Some(window) = &mut self.window else {
            return;
        };
        match kind {
            AccessKind::Fetch => window.fetched(ready),
            AccessKind::Persist(order @ (Order::Stores | Order::Line)) => {
                let done = match order {
                    Order::Line => &mut self.persists_done,
                    _ => &mut self.stores_done,
                };
                *done = ready.max(*done);
                match order {
                    _ if !window.is_at_work() => {
                        let free = window.store_by_kernel(now, ready);
                        statistics.store_buffer_stall_cycles += self.stand_still_until(now, free);
                    }
                    Order::Line => window.post(ready),
                    _ => window.completes(ready),
                }
            }
            AccessKind::Store if !window.is_at_work() => {
                self.stores_written = self.stores_written.max(ready);
                self.stores_done = self.stores_done.max(ready);
                let free = window.store_by_kernel(now, ready);
                statistics.store_buffer_stall_cycles += self.stand_still_until(now, free);
            }
            AccessKind::Store | AccessKind::Combined if window.is_at_work() => {
                window.line_comes(ready);
            }
            _ if window.is_at_work() => {
                if matches!(kind, AccessKind::Around | AccessKind::Persistence) {
                    window.wait_at_head(Alone::Other);
                }
                window.completes(ready);
            }
            _ => statistics.memory_stall_cycles += self.stand_still_until(now, ready),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(model: CoreModel) -> CoreTiming {
        CoreTiming::without_window(model, 2)
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
        use AccessKind::{Load, Persist, Store};
        let mut timing = core(CoreModel::InOrder);
        let made = [
            (Store, 100),
            (Persist(Order::Stores), 50),
            (Store, 200),
            (Load, 120),
        ];
        // The third finds both entries taken; the first of them is free at 100. The second is done
        // at 100, too, not before the first.
        assert_eq!(times(&mut timing, &made), [0, 0, 100, 120]);
        assert_eq!(
            timing.fence(Fence::FULL, 120),
            80,
            "the last store is done at 200"
        );
    }

    #[test]
    fn timing_simple_waits_for_everything() {
        use AccessKind::{Load, Store};
        let mut timing = core(CoreModel::TimingSimple);
        let made = [(Store, 100), (Load, 120), (Store, 110)];
        assert_eq!(times(&mut timing, &made), [100, 120, 120]);
        assert_eq!(timing.fence(Fence::FULL, 120), 0);
    }

    #[test]
    fn a_fence_waits_for_what_was_sent_to_memory() {
        let mut timing = core(CoreModel::InOrder);
        timing.persists_until(70);
        timing.persists_until(40);
        assert_eq!(
            timing.fence(Fence::STORES, 10),
            0,
            "it does not ask for them"
        );
        assert_eq!(timing.fence(Fence::FULL, 10), 60);
        assert_eq!((timing.now(0), timing.fence(Fence::FULL, 70)), (60, 0));
    }

    #[test]
    fn stores_do_not_stay_behind_what_is_ordered_by_its_line() {
        use AccessKind::{Persist, Store};
        for (order, done) in [(Order::Line, 100), (Order::Stores, 300)] {
            let mut timing = core(CoreModel::InOrder);
            times(&mut timing, &[(Persist(order), 300), (Store, 100)]);
            assert_eq!(timing.fence(Fence::STORES, 0), done, "{order:?}");
            assert_eq!(timing.fence(Fence::FULL, done), 300 - done, "{order:?}");
        }
    }

    #[test]
    fn a_persist_operation_begins_behind_stores_and_not_behind_its_like() {
        use AccessKind::{Load, Persist, Store};
        let mut timing = core(CoreModel::InOrder);
        assert_eq!(timing.persist_begins(5), 5);
        times(&mut timing, &[(Store, 100), (Persist(Order::Stores), 300)]);
        assert_eq!(
            timing.persist_begins(5),
            100,
            "the store's line comes at 100"
        );
        times(&mut timing, &[(Load, 120), (Store, 130)]);
        assert_eq!(
            timing.persist_begins(120),
            300,
            "that store is behind the clean"
        );
        assert_eq!(timing.persist_begins(400), 400);
        let mut simple = core(CoreModel::TimingSimple);
        times(&mut simple, &[(Store, 100)]);
        assert_eq!(simple.persist_begins(100), 100);
    }

    #[test]
    fn a_hart_waits_for_what_keeps_everything_behind_it() {
        use AccessKind::{Combined, Load, Persist, Store};
        for model in [CoreModel::InOrder, CoreModel::TimingSimple] {
            let mut timing = core(model);
            let made = [
                (Persist(Order::Accesses), 300),
                (Load, 10),
                (Combined, 250),
                (Combined, 350),
            ];
            assert_eq!(times(&mut timing, &made), [300, 300, 300, 350], "{model:?}");
        }
        let mut timing = core(CoreModel::InOrder);
        times(&mut timing, &[(Store, 100)]);
        assert_eq!(
            timing.fence_behind(Fence::FULL, 0, 70),
            100,
            "not one after the other"
        );
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
