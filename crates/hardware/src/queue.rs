//! A bounded queue of the controller: how many requests it holds when.
//!
//! Always true here: an entry is taken from acceptance to completion. A request that is dated ahead
//! takes its entry from then on only, so it keeps nobody waiting before; but in start order it takes it
//! at once.

use std::collections::VecDeque;

use crate::specification::Scheduling;
use crate::time::Cycles;

/// Requests that are remembered, for each entry: those that are over, and those that were dated ahead.
const REMEMBERED: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Request {
    accepted: Cycles,
    done: Cycles,
}

/// The queue.
#[derive(Clone, Debug)]
pub struct Queue {
    entries: usize,
    scheduling: Scheduling,
    /// In the order of completion; in start order, that of acceptance.
    requests: VecDeque<Request>,
}

impl Queue {
    /// An empty queue.
    pub fn new(entries: usize, scheduling: Scheduling) -> Self {
        Self {
            entries,
            scheduling,
            requests: VecDeque::with_capacity(entries * REMEMBERED + 1),
        }
    }

    /// When there is an entry for a request that comes at `now`.
    #[inline]
    pub fn admit(&mut self, now: Cycles) -> Cycles {
        if self.scheduling != Scheduling::Fcfs {
            let full = self.requests.len() >= self.entries;
            let first = full.then(|| self.requests.pop_front()).flatten();
            return first.map_or(now, |request| now.max(request.done));
        }
        let first = (self.requests).partition_point(|request| request.done <= now);
        let mut waiting = self.requests.range(first..);
        let mut time = now;
        while waiting.len() >= self.entries
            && (waiting.clone())
                .filter(|request| request.accepted <= time)
                .count()
                >= self.entries
        {
            time = waiting.next().map_or(time, |request| request.done);
        }
        time
    }

    /// Takes the entry.
    #[inline]
    pub fn hold(&mut self, accepted: Cycles, done: Cycles) {
        let at = match self.scheduling {
            Scheduling::StartOrder => self.requests.len(),
            Scheduling::Fcfs => (self.requests).partition_point(|request| request.done <= done),
        };
        self.requests.insert(at, Request { accepted, done });
        if self.requests.len() > self.entries * REMEMBERED {
            self.requests.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_takes_the_next_when_the_first_is_done() {
        let mut queue = Queue::new(2, Scheduling::Fcfs);
        queue.hold(0, 700);
        queue.hold(0, 500);
        assert_eq!(queue.admit(10), 500);
        queue.hold(500, 1200);
        assert_eq!(queue.admit(600), 700);
        assert_eq!(queue.admit(700), 700);
    }

    #[test]
    fn what_is_dated_ahead_takes_its_entry_then() {
        let mut queue = Queue::new(1, Scheduling::Fcfs);
        queue.hold(10_000, 10_700);
        assert_eq!(queue.admit(5), 5);
        queue.hold(5, 705);
        assert_eq!(queue.admit(100), 705);
        assert_eq!(queue.admit(10_500), 10_700);
    }
}
