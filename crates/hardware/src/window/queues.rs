//! Structures with a bounded number of entries that are taken in program order: each remembers when its
//! entries are free.
//!
//! Always true here: the times at which entries are asked for never go back.

use crate::time::Cycles;

/// Entries that are freed in the order in which they were taken.
#[derive(Clone, Debug)]
pub(super) struct InOrder {
    /// A ring of a power of two of places: for each that was taken, when it is free.
    free: Box<[Cycles]>,
    /// Where the entry is that is taken next, and that which has been taken as many times before as there are
    /// entries.
    next: usize,
    oldest: usize,
}

impl InOrder {
    pub(super) fn new(entries: usize) -> Self {
        let places = entries.next_power_of_two();
        Self {
            free: vec![0; places].into(),
            next: 0,
            oldest: places - entries,
        }
    }

    /// When the entry that is taken next is free.
    #[inline(always)]
    pub(super) fn next_free(&self) -> Cycles {
        self.free[self.oldest & (self.free.len() - 1)]
    }

    /// Takes it until then.
    #[inline(always)]
    pub(super) fn take(&mut self, until: Cycles) {
        let last = self.free.len() - 1;
        self.free[self.next & last] = until;
        self.next += 1;
        self.oldest += 1;
    }
}

/// Entries that are freed in any order, or in that in which they were taken.
#[derive(Clone, Debug)]
pub(super) struct Either {
    free: Box<[Cycles]>,
    next: usize,
    any: bool,
}

impl Either {
    pub(super) fn new(entries: usize, any: bool) -> Self {
        Self {
            free: vec![0; entries].into(),
            next: 0,
            any,
        }
    }

    /// When there is an entry for who comes at `now`.
    #[inline(always)]
    pub(super) fn next_free(&mut self, now: Cycles) -> Cycles {
        let next = self.free[self.next];
        if next <= now {
            return now;
        }
        if self.any {
            return self.look_further(now);
        }
        next
    }

    #[inline(never)]
    fn look_further(&mut self, now: Cycles) -> Cycles {
        let (before, after) = self.free.split_at(self.next);
        let free = |&until: &Cycles| until <= now;
        if let Some(found) = after.iter().position(free) {
            self.next += found;
            return now;
        }
        if let Some(found) = before.iter().position(free) {
            self.next = found;
            return now;
        }
        let first = (self.free.iter().enumerate()).min_by_key(|(_, until)| **until);
        let (next, &until) = first.expect("there is an entry at least");
        self.next = next;
        until
    }

    /// Takes the entry that was found last until then.
    #[inline(always)]
    pub(super) fn take(&mut self, until: Cycles) {
        self.free[self.next] = until;
        self.next += 1;
        if self.next == self.free.len() {
            self.next = 0;
        }
    }
}

/// Cycles that a [`Leaving`] queue looks ahead. Who leaves later counts as leaving then.
const AHEAD: usize = 1 << 14;

/// Entries that are freed in any order, where somebody comes with every instruction: the queue counts who
/// leaves when.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    entries: usize,
    held: usize,
    /// All who left until then are gone.
    passed: Cycles,
    /// A ring: how many leave in each cycle from there on.
    leave: Box<[u16; AHEAD]>,
}

impl Leaving {
    pub(super) fn new(entries: usize) -> Self {
        Self {
            entries,
            held: 0,
            passed: 0,
            leave: vec![0; AHEAD].try_into().expect("as many as that"),
        }
    }

    /// When there is an entry for who comes at `now`.
    #[inline(always)]
    pub(super) fn next_free(&mut self, now: Cycles) -> Cycles {
        if self.passed < now {
            self.pass_until(now);
        }
        while self.held >= self.entries {
            self.pass();
        }
        self.passed
    }

    #[inline(always)]
    fn pass_until(&mut self, now: Cycles) {
        while self.passed < now && self.held > 0 {
            self.pass();
        }
        self.passed = now;
    }

    /// Those who leave in the next cycle are gone.
    #[inline(always)]
    fn pass(&mut self) {
        self.passed += 1;
        let left = std::mem::take(&mut self.leave[self.passed as usize % AHEAD]);
        self.held -= usize::from(left);
    }

    /// Takes an entry until then.
    #[inline(always)]
    pub(super) fn take(&mut self, until: Cycles) {
        if until > self.passed {
            let last = self.passed + AHEAD as Cycles - 1;
            self.leave[until.min(last) as usize % AHEAD] += 1;
            self.held += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_free_when_the_oldest_is() {
        let mut queue = InOrder::new(2);
        queue.take(30);
        queue.take(20);
        assert_eq!(queue.next_free(), 30, "not 20: they are freed in order");
        queue.take(40);
        assert_eq!(queue.next_free(), 20);
    }

    #[test]
    fn an_entry_is_free_when_any_is() {
        let mut queue = Either::new(2, false);
        queue.take(30);
        queue.take(20);
        assert_eq!(queue.next_free(5), 30, "in order");
        let mut queue = Either::new(2, true);
        for until in [30, 20] {
            assert_eq!(queue.next_free(5), 5);
            queue.take(until);
        }
        assert_eq!(queue.next_free(5), 20);
        queue.take(50);
        assert_eq!(queue.next_free(20), 30);
        assert_eq!(queue.next_free(35), 35);
    }

    #[test]
    fn a_queue_that_counts_agrees_with_one_that_lists() {
        let mut random = crate::random::Random::new(9);
        for entries in [1, 3, 64] {
            let (mut counts, mut lists) = (Leaving::new(entries), Either::new(entries, true));
            let mut now = 0;
            for _ in 0..5000 {
                now += random.below(6) * random.below(2);
                let free = lists.next_free(now);
                assert_eq!(counts.next_free(now), free, "{entries} entries");
                now = free;
                let until = now + 1 + random.below(40) * random.below(50);
                counts.take(until);
                lists.take(until);
            }
        }
        let mut queue = Leaving::new(1);
        queue.take(1 << 40);
        assert_eq!(
            queue.next_free(1),
            AHEAD as Cycles - 1,
            "it looks no further"
        );
    }
}
