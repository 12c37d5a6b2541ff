//! A bounded queue of the controller: how many requests it holds when.
//!
//! Always true here: an entry is taken from acceptance to completion. A request that is dated ahead
//! takes its entry from then on only, so it keeps nobody waiting before; but in start order it takes it
//! at once.

use std::ops::Range;

use crate::ring::Ring;
use crate::specification::Scheduling;
use crate::time::Cycles;

/// Requests that are remembered, for each entry, if nothing else is said: those that are over, and those that
/// were dated ahead.
const REMEMBERED: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Request {
    accepted: Cycles,
    done: Cycles,
    /// When it is done, so many others hold an entry; not counted in start order.
    others: usize,
}

/// The queue.
#[derive(Clone, Debug)]
pub struct Queue {
    entries: usize,
    scheduling: Scheduling,
    /// In the order of completion; in start order, that of acceptance.
    requests: Ring<Request>,
    /// Whenever a request is done within these times, no entry is free.
    full: Range<Cycles>,
    /// When somebody asked last who had to look, and how many held an entry then.
    asked: (Cycles, usize),
}

impl Queue {
    /// An empty queue.
    pub fn new(entries: usize, scheduling: Scheduling) -> Self {
        Self::remembering(entries * REMEMBERED, entries, scheduling)
    }

    /// One that remembers so many requests, for who knows how many may be dated ahead.
    pub fn remembering(remembered: usize, entries: usize, scheduling: Scheduling) -> Self {
        Self {
            entries,
            scheduling,
            requests: Ring::new(remembered),
            full: 0..0,
            asked: (0, 0),
        }
    }

    /// When there is an entry for a request that comes at `now`.
    #[inline]
    pub fn admit(&mut self, now: Cycles) -> Cycles {
        let Some(last) = self.requests.len().checked_sub(self.entries) else {
            return now;
        };
        if self.scheduling == Scheduling::StartOrder {
            let first = self.requests.take_first();
            return first.map_or(now, |first| now.max(first.done));
        }
        // As soon as this one is over, fewer than `entries` wait.
        if self.requests.at(last).done <= now {
            return now;
        }
        self.admit_behind(now)
    }

    /// The same where not so many are over.
    fn admit_behind(&mut self, now: Cycles) -> Cycles {
        let later = self.requests.first(|one| one.done > now);
        if self.asked.0 != now {
            let waiting = self.requests.from(later);
            let holding = waiting.filter(|one| one.accepted <= now).count();
            self.asked = (now, holding);
        }
        if self.asked.1 < self.entries {
            return now;
        }
        // What is full stays so, for only more come to hold an entry then.
        let next = self.requests.at(later).done;
        let looked = if self.full.contains(&next) {
            self.requests.first(|one| one.done >= self.full.end)
        } else {
            later
        };
        let mut ends = self.requests.from(looked);
        let free = ends.find(|one| one.others < self.entries);
        self.full = next..free.expect("an empty queue has an entry").done;
        self.full.end
    }

    /// Takes the entry.
    #[inline]
    pub fn hold(&mut self, accepted: Cycles, done: Cycles) {
        let (mut index, mut others) = (self.requests.len(), 0);
        if self.scheduling == Scheduling::Fcfs {
            while index > 0 && self.requests.at(index - 1).done > done {
                index -= 1;
                others += usize::from(self.requests.at(index).accepted <= done);
            }
            self.count(index, accepted);
        }
        let request = Request {
            accepted,
            done,
            others,
        };
        let holds = |one: &Request, time| one.accepted <= time && time < one.done;
        self.asked.1 += usize::from(holds(&request, self.asked.0));
        if let Some(forgotten) = self.requests.insert(index, request) {
            self.asked.1 -= usize::from(holds(&forgotten, self.asked.0));
        }
    }

    /// One that holds an entry from `accepted` on is still there when those before `end` are done.
    #[inline]
    fn count(&mut self, end: usize, accepted: Cycles) {
        let mut index = end;
        while index > 0 && self.requests.at(index - 1).done >= accepted {
            index -= 1;
            self.requests.at_mut(index).others += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

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

    /// The first moment from `now` on at which fewer than `entries` requests are held.
    fn by_definition(requests: &[(Cycles, Cycles)], entries: usize, now: Cycles) -> Cycles {
        let held = |time: Cycles| {
            let at = |&&(accepted, done): &&(Cycles, Cycles)| accepted <= time && time < done;
            requests.iter().filter(at).count()
        };
        let later = requests.iter().map(|request| request.1);
        let mut times: Vec<Cycles> = later.filter(|&done| done > now).chain([now]).collect();
        times.sort_unstable();
        (times.into_iter().find(|&time| held(time) < entries)).expect("all are done at last")
    }

    #[test]
    fn a_request_is_admitted_as_soon_as_an_entry_is_free() {
        // Who asks in the order of time, who asks again and again as of the same time, and who asks as of
        // a time that has long been.
        for (pace, late) in [(300, 1), (1, 1), (20, 1), (30, 20_000)] {
            requests_are_admitted_by_definition(pace, late);
        }
    }

    /// Requests up to `pace` cycles apart, a quarter of them up to `late` cycles late.
    fn requests_are_admitted_by_definition(pace: u64, late: u64) {
        let seed = 11;
        let mut random = Random::new(seed);
        for entries in [1, 2, 5, 32] {
            let mut queue = Queue::new(entries, Scheduling::Fcfs);
            let mut held: Vec<(Cycles, Cycles)> = Vec::new();
            let mut now = 0;
            for _ in 0..2000 {
                now += random.bits() % pace;
                let late = random.bits() % late * u64::from(random.below(4) == 0);
                let asked = Cycles::saturating_sub(now, late);
                let admitted = queue.admit(asked);
                let expected = by_definition(&held, entries, asked);
                let told = format!("seed {seed}, {entries} entries, pace {pace}");
                assert_eq!(admitted, expected, "{told}");
                let ahead = if random.bits().is_multiple_of(16) {
                    3000
                } else {
                    0
                };
                let done = admitted + ahead + 100 + random.bits() % (200 * entries as u64);
                queue.hold(admitted + ahead, done);
                held.push((admitted + ahead, done));
                held.sort_by_key(|request| request.1);
                held.drain(..held.len().saturating_sub(entries * REMEMBERED));
            }
        }
    }
}
