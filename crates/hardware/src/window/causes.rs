//! What the cycles of an out-of-order core were spent on, and what it counts beside them.

use super::{Alone, LEVELS, Window};
use crate::statistics::Statistics;
use crate::time::Cycles;
use crate::timeline::Wait;

/// What a cycle of the present was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Dispatch,
    FrontEnd,
    Mispredict,
    ReorderBuffer,
    IssueQueue,
    LoadQueue,
    StoreQueue,
    Fence,
    Flush,
    Atomic,
    Other,
    Trap,
    Outside,
}

pub(super) const CAUSES: usize = Cause::Outside as usize + 1;

/// What happened, beside cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) head_stalls: u64,
    pub(super) transfers: u64,
    pub(super) mispredicts: u64,
    pub(super) forwarded: u64,
    pub(super) miss_waits: [Cycles; LEVELS],
}

impl Cause {
    /// What a core waits for, for people.
    const fn name(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::FrontEnd => "front end",
            Self::Mispredict => "mispredicted branch",
            Self::ReorderBuffer => "reorder buffer full",
            Self::IssueQueue => "issue queue full",
            Self::LoadQueue => "load queue full",
            Self::StoreQueue => "store queue full",
            Self::Fence => "fence",
            Self::Flush => "persist operation",
            Self::Atomic => "atomic",
            Self::Other => "instruction at the head",
            Self::Trap => "trap",
            Self::Outside => "outside",
        }
    }
}

impl Window {
    /// From now on, keeps what it waits for until somebody takes it.
    pub fn keep_waits(&mut self) {
        self.waits.0.get_or_insert_default();
    }

    /// What it waited for since the last time, in the order of time.
    pub fn take_waits(&mut self) -> Vec<Wait> {
        (self.waits.0.as_deref_mut()).map_or_else(Vec::new, std::mem::take)
    }

    /// It waits for something, between those times. What others let it wait for they tell themselves.
    #[inline(always)]
    pub(super) fn tell(&mut self, cause: Cause, from: Cycles, until: Cycles) {
        if self.waits.0.is_some() {
            self.keep_wait(cause, from, until);
        }
    }

    #[cold]
    fn keep_wait(&mut self, cause: Cause, from: Cycles, until: Cycles) {
        if let Some(waits) = &mut self.waits.0
            && cause != Cause::Outside
            && from < until
        {
            let name = cause.name();
            match waits.last_mut() {
                Some(last) if last.name == name && last.until == from => last.until = until,
                _ => waits.push(Wait { name, from, until }),
            }
        }
    }

    /// Adds what was counted.
    pub fn report(&self, statistics: &mut Statistics) {
        let sums = [
            (Cause::Dispatch, &mut statistics.window_dispatch_cycles),
            (Cause::FrontEnd, &mut statistics.window_front_end_cycles),
            (Cause::Mispredict, &mut statistics.window_mispredict_cycles),
            (
                Cause::ReorderBuffer,
                &mut statistics.window_reorder_buffer_cycles,
            ),
            (Cause::IssueQueue, &mut statistics.window_issue_queue_cycles),
            (Cause::LoadQueue, &mut statistics.window_load_queue_cycles),
            (Cause::StoreQueue, &mut statistics.window_store_queue_cycles),
            (Cause::Fence, &mut statistics.window_fence_cycles),
            (Cause::Flush, &mut statistics.window_flush_cycles),
            (Cause::Atomic, &mut statistics.window_atomic_cycles),
            (Cause::Other, &mut statistics.window_other_cycles),
            (Cause::Trap, &mut statistics.window_trap_cycles),
            (Cause::Outside, &mut statistics.window_outside_cycles),
        ];
        for (cause, sum) in sums {
            *sum += self.cycles[cause as usize];
        }
        statistics.window_cycles += self.present;
        statistics.window_head_stalls += self.counts.head_stalls;
        statistics.window_transfers += self.counts.transfers;
        statistics.window_mispredicts += self.counts.mispredicts;
        statistics.window_forwarded += self.counts.forwarded;
        let [l1d, l2, llc] = self.counts.miss_waits;
        statistics.window_l1d_miss_wait_cycles += l1d;
        statistics.window_l2_miss_wait_cycles += l2;
        statistics.window_llc_miss_wait_cycles += llc;
    }
}

impl Alone {
    pub(super) fn cause(self) -> Cause {
        match self {
            Self::Fence => Cause::Fence,
            Self::Flush => Cause::Flush,
            Self::Atomic => Cause::Atomic,
            Self::Other => Cause::Other,
        }
    }
}
