//! A bounded queue of the controller: how many requests it holds when.
//!
//! Always true here: an entry is taken from acceptance to completion. A request that is dated ahead
//! takes its entry from then on only, so it keeps nobody waiting before; but in start order it takes it
//! at once.

use std::ops::Range;

use crate::specification::Scheduling;
use crate::time::{Cycles, join};

/// Requests that are remembered, for each entry, if nothing else is said: those that are over, and those that
/// were dated ahead.
const REMEMBERED: usize = 4;

/// When a request takes its entry, and when it gives it back.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    accepted: Cycles,
    done: Cycles,
}

impl Request {
    #[inline(always)]
    fn holds(&self, time: Cycles) -> bool {
        self.accepted <= time && time < self.done
    }
}

/// The queue.
#[derive(Clone, Debug)]
pub struct Queue {
    entries: usize,
    scheduling: Scheduling,
    remembered: Remembered,
    /// At all of these moments no entry is free, those left out at which a request was open that is
    /// forgotten.
    full: Range<Cycles>,
    /// When the latest of all requests takes its entry.
    latest: Cycles,
    /// How many others hold an entry is kept of each request. Nobody needs it but who comes when many take
    /// their entries later, as a recovery does.
    counts: bool,
    /// Requests since somebody did.
    unasked: usize,
    /// When somebody asked last who had to look, and how many held an entry then; kept like the others.
    asked: (Cycles, usize),
}

/// After so many requests of which none needed them, the others are no longer counted.
const UNASKED: usize = 1024;

/// So many that take their entries later are looked at one by one.
const FEW: usize = 16;

/// No moment.
const NEVER: Cycles = Cycles::MAX;

/// The newest requests in the order of completion; in start order, in that of acceptance. They lie side by
/// side, with room behind them, so that they are looked through and counted many at a time.
#[derive(Clone, Debug)]
struct Remembered {
    /// How many are kept.
    room: usize,
    /// Where they lie in the lists.
    range: Range<usize>,
    requests: Box<[Request]>,
    /// When each is done, so many others hold an entry, if that is counted.
    others: Box<[u16]>,
    /// About where it is looked for those that are done then.
    hints: [usize; 2],
    /// When the last was done of those that are no longer kept.
    forgotten_until: Cycles,
}

/// When requests are done that are looked for again and again.
#[derive(Clone, Copy, Debug)]
enum Hint {
    /// When somebody asked last.
    Asked,
    /// When the queue, which was full, had an entry.
    Free,
}

impl Remembered {
    fn new(room: usize) -> Self {
        let places = 2 * room.max(1);
        assert!(
            room < usize::from(u16::MAX),
            "others are counted in 16 bits"
        );
        Self {
            room: room.max(1),
            range: 0..0,
            requests: vec![Request::default(); places].into(),
            others: vec![0; places].into(),
            hints: [0; 2],
            forgotten_until: 0,
        }
    }

    #[inline(always)]
    fn requests(&self) -> &[Request] {
        &self.requests[self.range.clone()]
    }

    /// The first in the order that is so, where all behind it are: found by steps from where it last was.
    #[inline(always)]
    fn first(&mut self, hint: Hint, is_so: impl Fn(&Request) -> bool) -> usize {
        let mut at = self.hints[hint as usize].clamp(self.range.start, self.range.end);
        while at > self.range.start && is_so(&self.requests[at - 1]) {
            at -= 1;
        }
        while at < self.range.end && !is_so(&self.requests[at]) {
            at += 1;
        }
        self.hints[hint as usize] = at;
        at
    }

    /// Moves them to the beginning of the lists: there is no place behind the last one.
    #[cold]
    fn make_room(&mut self) {
        self.requests.copy_within(self.range.clone(), 0);
        self.others.copy_within(self.range.clone(), 0);
        for hint in &mut self.hints {
            *hint = hint.saturating_sub(self.range.start);
        }
        self.range = 0..self.range.len();
    }

    /// Takes away the first, if there are more than there is room for.
    #[inline(always)]
    fn forget(&mut self) -> Option<Request> {
        (self.range.len() > self.room).then(|| {
            let first = self.requests[self.range.start];
            self.range.start += 1;
            self.forgotten_until = self.forgotten_until.max(first.done);
            first
        })
    }

    /// Puts a request behind all others.
    #[inline(always)]
    fn push(&mut self, request: Request) {
        if self.range.end == self.requests.len() {
            self.make_room();
        }
        self.requests[self.range.end] = request;
        self.range.end += 1;
    }

    /// Puts a request in its place in the order of completion, which is returned, and counts who holds an
    /// entry beside it, if that is kept.
    #[inline(always)]
    fn insert<const COUNTS: bool>(&mut self, request: Request) -> usize {
        self.push(request);
        let Range { start, end } = self.range;
        let (requests, others) = (&mut self.requests[start..end], &mut self.others[start..end]);
        let mut place = requests.len() - 1;
        let mut beside = 0;
        while place > 0 && requests[place - 1].done > request.done {
            requests[place] = requests[place - 1];
            if COUNTS {
                others[place] = others[place - 1];
                beside += u16::from(requests[place].accepted <= request.done);
            }
            place -= 1;
        }
        requests[place] = request;
        if COUNTS {
            others[place] = beside;
        }
        start + place
    }

    /// The same, and counts it beside others. `hint` says about where those stand that are done when it is
    /// accepted.
    #[inline(always)]
    fn insert_counted(&mut self, request: Request, hint: Hint) {
        let place = self.insert::<true>(request);
        for hint in &mut self.hints {
            *hint += usize::from(place <= *hint);
        }
        // One that holds an entry from `accepted` on is still there when those before it are done.
        let first = self.first(hint, |one| one.done >= request.accepted);
        if first < place {
            for others in &mut self.others[first..place] {
                *others += 1;
            }
        }
    }

    /// Counts all, of whom the latest took its entry then.
    fn count_all(&mut self, latest: Cycles) {
        let end = self.range.end;
        for place in self.range.clone() {
            let done = self.requests[place].done;
            let later = &self.requests[place + 1..end];
            let others = if latest <= done {
                later.len()
            } else {
                later.iter().filter(|later| later.accepted <= done).count()
            };
            self.others[place] = others as u16;
        }
    }
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
            remembered: Remembered::new(remembered),
            full: 0..0,
            latest: 0,
            counts: false,
            unasked: 0,
            asked: (NEVER, 0),
        }
    }

    /// When there is an entry for a request that comes at `now`.
    #[inline]
    pub fn admit(&mut self, now: Cycles) -> Cycles {
        let requests = self.remembered.requests();
        let Some(last) = requests.len().checked_sub(self.entries) else {
            return now;
        };
        if self.scheduling == Scheduling::StartOrder {
            let first = requests[0].done;
            self.remembered.range.start += 1;
            return now.max(first);
        }
        // As soon as this one is over, fewer than `entries` wait.
        let over = requests[last].done;
        if over <= now {
            return now;
        }
        self.admit_late(now, over)
    }

    /// The same where more are not over.
    fn admit_late(&mut self, now: Cycles, over: Cycles) -> Cycles {
        if self.latest <= now {
            // All of them hold an entry.
            join(&mut self.full, now..over);
            return over;
        }
        let known = self.full.contains(&now) && self.remembered.forgotten_until <= now;
        if known && self.latest <= self.full.end {
            // From then on all of them do.
            self.full.end = self.full.end.max(over);
            return self.full.end;
        }
        if !self.counts {
            if let Some(admitted) = self.admit_beside_few(now) {
                return admitted;
            }
            self.counts = true;
            self.unasked = 0;
            self.asked = (NEVER, 0);
            self.remembered.count_all(self.latest);
        }
        self.admit_behind(now)
    }

    /// The same where few take their entries later; nothing where many do.
    fn admit_beside_few(&mut self, now: Cycles) -> Option<Cycles> {
        let requests = self.remembered.requests();
        let mut ahead = [0; FEW];
        let mut few = 0;
        let open = requests.iter().rev().take_while(|one| one.done > now);
        let mut holding = 0;
        for request in open {
            if request.accepted <= now {
                holding += 1;
            } else {
                *ahead.get_mut(few)? = request.accepted;
                few += 1;
            }
        }
        if holding < self.entries {
            return Some(now);
        }
        // When each of these is done, all behind it hold an entry that have taken theirs.
        let first = requests.len() - (holding + few);
        let mut open = requests[first..].iter().map(|one| one.done).zip(0..);
        let over = open.find(|&(time, before)| {
            let later = ahead[..few].iter().filter(|&&accepted| accepted > time);
            holding + few - 1 - before - later.count() < self.entries
        });
        let (over, _) = over.expect("an empty queue has an entry");
        join(&mut self.full, now..over);
        Some(over)
    }

    /// The same where all are counted.
    fn admit_behind(&mut self, now: Cycles) -> Cycles {
        let remembered = &mut self.remembered;
        let later = remembered.first(Hint::Asked, |one| one.done > now);
        if self.asked.0 != now {
            let open = &remembered.requests[later..remembered.range.end];
            let holding = open.iter().filter(|one| one.accepted <= now).count();
            self.asked = (now, holding);
        }
        let holding = self.asked.1;
        if remembered.range.end - later > holding + FEW {
            self.unasked = 0;
        }
        if holding < self.entries {
            return now;
        }
        // What is full stays so, for only more come to hold an entry then.
        let next = remembered.requests[later].done;
        let looked = if self.full.contains(&next) {
            let end = self.full.end;
            remembered.first(Hint::Free, |one| one.done >= end)
        } else {
            later
        };
        let mut others = remembered.others[looked..remembered.range.end].iter();
        let free = others.position(|&others| usize::from(others) < self.entries);
        let free = looked + free.expect("an empty queue has an entry");
        remembered.hints[Hint::Free as usize] = free;
        let over = remembered.requests[free].done;
        join(&mut self.full, now..over);
        over
    }

    /// Takes the entry.
    #[inline]
    pub fn hold(&mut self, accepted: Cycles, done: Cycles) {
        let request = Request { accepted, done };
        self.latest = self.latest.max(accepted);
        if self.scheduling == Scheduling::StartOrder {
            self.remembered.push(request);
            self.remembered.forget();
            return;
        }
        if self.counts {
            self.hold_counted(request);
        } else {
            self.remembered.insert::<false>(request);
            self.remembered.forget();
        }
    }

    /// The same where it is counted who holds an entry beside whom.
    fn hold_counted(&mut self, request: Request) {
        let hint = if request.accepted == self.full.end {
            Hint::Free
        } else {
            Hint::Asked
        };
        self.remembered.insert_counted(request, hint);
        self.asked.1 += usize::from(request.holds(self.asked.0));
        if let Some(forgotten) = self.remembered.forget() {
            self.asked.1 -= usize::from(forgotten.holds(self.asked.0));
        }
        self.unasked += 1;
        self.counts = self.unasked < UNASKED;
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
        for (pace, late) in [(300, 1), (1, 1), (20, 1), (20, 300), (30, 20_000)] {
            requests_are_admitted_by_definition(pace, late, 1);
        }
    }

    /// As a recovery does that reads ahead: more ask at one time than are remembered.
    #[test]
    fn many_ask_as_of_the_same_time_that_has_long_been() {
        for at_once in [24, 100, 700] {
            requests_are_admitted_by_definition(2000 * at_once, 1, at_once);
            requests_are_admitted_by_definition(30 * at_once, 20_000, at_once);
        }
    }

    /// Requests up to `pace` cycles apart, a quarter of them up to `late` cycles late, so many at once.
    fn requests_are_admitted_by_definition(pace: u64, late: u64, at_once: u64) {
        let seed = 11;
        let mut random = Random::new(seed);
        for entries in [1, 2, 5, 32] {
            let mut queue = Queue::new(entries, Scheduling::Fcfs);
            let mut held: Vec<(Cycles, Cycles)> = Vec::new();
            let (mut now, mut asked) = (0, 0);
            for step in 0..2000 {
                if step % at_once == 0 {
                    now += random.bits() % pace;
                    let late = random.bits() % late * u64::from(random.below(4) == 0);
                    asked = Cycles::saturating_sub(now, late);
                }
                let admitted = queue.admit(asked);
                let expected = by_definition(&held, entries, asked);
                let told = format!(
                    "seed {seed}, {entries} entries, pace {pace}, {at_once} at once, step {step}"
                );
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
