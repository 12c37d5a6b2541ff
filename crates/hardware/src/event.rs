//! Timed events: one queue, fired in order of time, ties in order of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Cycles;

/// The queue. An event is a number whose meaning belongs to whoever scheduled it.
#[derive(Clone, Debug, Default)]
pub struct EventQueue {
    heap: BinaryHeap<Reverse<(Cycles, u64, u32)>>,
    scheduled: u64,
    /// Of the events that were scheduled since somebody last asked, the earliest.
    earliest: Option<Cycles>,
}

impl EventQueue {
    /// Fires `event` at `time`.
    pub fn schedule(&mut self, time: Cycles, event: u32) {
        self.heap.push(Reverse((time, self.scheduled, event)));
        self.scheduled += 1;
        self.see_earliest(time);
    }

    /// The earliest event that was scheduled since this was last asked; the end of time if none was.
    pub(crate) fn take_earliest(&mut self) -> Cycles {
        self.earliest.take().unwrap_or(Cycles::MAX)
    }

    /// An event was scheduled for that time.
    pub(crate) fn see_earliest(&mut self, time: Cycles) {
        self.earliest = Some(self.earliest.map_or(time, |earliest| earliest.min(time)));
    }

    /// When the next event fires; the end of time if there is none.
    pub fn next_time(&self) -> Cycles {
        self.heap
            .peek()
            .map_or(Cycles::MAX, |Reverse((time, ..))| *time)
    }

    /// Takes the next event if it is due at `time`.
    pub fn take_due(&mut self, time: Cycles) -> Option<(Cycles, u32)> {
        if self.next_time() > time {
            return None;
        }
        self.heap
            .pop()
            .map(|Reverse((time, _, event))| (time, event))
    }
}
