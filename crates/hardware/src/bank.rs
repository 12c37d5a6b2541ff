//! A bank of the media: who uses it when.
//!
//! Requests are timed as they walk the hierarchy, so one takes its place in its bank when the
//! controller accepts it, and with it the moment at which it will be durable. A later request takes the
//! first place that is long enough and not before it can start: among requests that come in the order
//! of their times, that is the order of their coming, and one that was dated ahead keeps nobody waiting
//! who is done before it.
//!
//! Always true here:
//! - Places do not overlap, and stand in the order of time.
//! - A write comes after every write of the same bytes that was accepted before it, and so does a read
//!   within the module, which nothing that still waits can answer.

use std::ops::Range;

use crate::ring::Ring;
use crate::time::Cycles;

/// Places that are remembered; before the oldest of them, none is free.
const PLACES: usize = 128;

/// What takes a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A read whose bytes the controller has, should they wait to be written.
    Read,
    /// A read within the module.
    ReadWithin,
    /// A write.
    Write,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    start: Cycles,
    end: Cycles,
    /// From where to where bytes are written; nothing for a read.
    written: [u64; 2],
}

/// The bank.
#[derive(Clone, Debug)]
pub struct Bank {
    places: Ring<Place>,
    /// When the latest place ends: every request asks, and the ring would take 13 host instructions to say.
    free_at: Cycles,
    /// When the latest place ends that is no longer remembered.
    forgotten_until: Cycles,
}

impl Default for Bank {
    fn default() -> Self {
        Self {
            places: Ring::new(PLACES),
            free_at: 0,
            forgotten_until: 0,
        }
    }
}

impl Bank {
    /// When it will have done all that it was given.
    #[inline(always)]
    pub fn free_at(&self) -> Cycles {
        self.free_at
    }

    /// The first of the places that end later than a moment.
    #[inline]
    fn first_after(&self, time: Cycles) -> usize {
        // From the newest back, because few lie ahead of those who ask.
        let ahead = self.places.from(0).rev();
        self.places.len() - ahead.take_while(|place| place.end > time).count()
    }

    /// The first place of so many cycles that begins no earlier than `start`, at which those before
    /// `first` are over: where in the order, and when it begins.
    #[inline]
    fn free_place(&self, first: usize, start: Cycles, cycles: Cycles) -> (usize, Cycles) {
        let mut start = start;
        for (ahead, place) in self.places.from(first).enumerate() {
            if start + cycles <= place.start {
                return (first + ahead, start);
            }
            start = place.end;
        }
        (self.places.len(), start)
    }

    /// When a write of so many cycles would start if it came at `now`.
    pub fn could_start_at(&self, now: Cycles, cycles: Cycles) -> Cycles {
        let start = now.max(self.forgotten_until);
        self.free_place(self.first_after(start), start, cycles).1
    }

    /// The first place for such a request where it does not pass one that it must come behind.
    fn place_between(
        &self,
        what: Use,
        bytes: &Range<u64>,
        earliest: Cycles,
        cycles: Cycles,
    ) -> (usize, Cycles) {
        let start = earliest.max(self.forgotten_until);
        let first = self.first_after(start);
        if what != Use::Read {
            let mut ahead = self.places.from(first).enumerate();
            let same = ahead.rfind(|(_, place)| {
                let [start, end] = place.written;
                start < bytes.end && bytes.start < end
            });
            if let Some((ahead, same)) = same {
                return self.free_place(first + ahead + 1, same.end, cycles);
            }
        }
        self.free_place(first, start, cycles)
    }

    /// Takes a place of so many cycles, `earliest` at the earliest; returns when it begins.
    #[inline]
    pub fn take(
        &mut self,
        what: Use,
        bytes: Range<u64>,
        earliest: Cycles,
        cycles: Cycles,
    ) -> Cycles {
        let (index, start) = if earliest >= self.free_at {
            (self.places.len(), earliest)
        } else {
            self.place_between(what, &bytes, earliest, cycles)
        };
        let end = start + cycles;
        let written = match what {
            Use::Write => [bytes.start, bytes.end],
            Use::Read | Use::ReadWithin => [0, 0],
        };
        let place = Place {
            start,
            end,
            written,
        };
        self.free_at = self.free_at.max(end);
        if let Some(oldest) = self.places.insert(index, place) {
            self.forgotten_until = oldest.end;
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const LINE: Range<u64> = 0..64;

    #[test]
    fn what_comes_in_the_order_of_time_goes_in_it() {
        let mut bank = Bank::default();
        assert_eq!(bank.take(Use::Write, LINE, 100, 700), 100);
        assert_eq!(bank.take(Use::Read, 64..128, 110, 250), 800);
        assert_eq!(bank.take(Use::Write, 128..192, 120, 700), 1050);
        assert_eq!(bank.free_at(), 1750);
    }

    #[test]
    fn what_is_dated_ahead_keeps_nobody_waiting_who_is_done_before() {
        let mut bank = Bank::default();
        assert_eq!(bank.take(Use::Write, LINE, 10_000, 700), 10_000);
        assert_eq!(bank.could_start_at(0, 700), 0);
        assert_eq!(bank.take(Use::Read, 64..128, 0, 250), 0);
        assert_eq!(bank.take(Use::Write, 64..128, 9400, 700), 10_700);
        assert_eq!(bank.take(Use::Write, 128..192, 9300, 700), 9300);
        assert_eq!(bank.could_start_at(9000, 700), 11_400);
        assert_eq!(bank.could_start_at(9000, 300), 9000);
    }

    #[test]
    fn writes_of_the_same_bytes_keep_their_order_and_reads_within_the_module_see_them() {
        let mut bank = Bank::default();
        assert_eq!(bank.take(Use::Write, LINE, 10_000, 700), 10_000);
        assert_eq!(bank.take(Use::Write, 0..2048, 0, 700), 10_700);
        assert_eq!(bank.take(Use::ReadWithin, 32..33, 0, 250), 11_400);
        assert_eq!(bank.take(Use::Read, LINE, 0, 250), 0, "the queue has them");
    }

    /// Places never overlap, none begins early, the same bytes keep their order, and no request
    /// leaves an earlier place that was long enough.
    #[test]
    fn random_requests() {
        let seed = 7;
        let mut random = Random::new(seed);
        let mut bank = Bank::default();
        let mut taken: Vec<(Cycles, Cycles, Range<u64>)> = Vec::new();
        let mut now = 0;
        for _ in 0..20_000 {
            now += random.bits() % 1400;
            let ahead = if random.bits().is_multiple_of(8) {
                5000
            } else {
                1
            };
            let earliest = now + random.bits() % ahead;
            let cycles = [250, 700][(random.bits() % 2) as usize];
            let line = random.bits() % 8 * 64;
            let bytes = line..line + 64;
            let start = bank.take(Use::Write, bytes.clone(), earliest, cycles);
            assert!(start >= earliest);
            let recent = &taken[taken.len().saturating_sub(PLACES / 2)..];
            let after = |floor: Cycles| {
                let mut candidates: Vec<_> = recent.iter().map(|place| place.1).collect();
                candidates.push(0);
                let fits = |at: &Cycles| {
                    (recent.iter()).all(|place| at + cycles <= place.0 || place.1 <= *at)
                };
                let at = candidates.into_iter().map(|at| at.max(floor));
                at.filter(fits).min()
            };
            let same = recent.iter().filter(|place| place.2 == bytes);
            let floor = same.map(|place| place.1).max().unwrap_or(0);
            assert_eq!(Some(start), after(floor.max(earliest)), "seed {seed}");
            taken.push((start, start + cycles, bytes));
        }
    }
}
