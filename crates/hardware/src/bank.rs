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

use crate::line::LINE_BYTES;
use crate::ring::Ring;
use crate::time::Cycles;

/// Places that are remembered; before the oldest of them, none is free.
const PLACES: usize = 128;

/// So many of the newest are looked at one by one.
const NEAR: usize = 12;

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

/// Between two moments no request of so many cycles finds a place: places are taken, and none becomes free.
#[derive(Clone, Copy, Debug, Default)]
struct Packed {
    cycles: Cycles,
    from: Cycles,
    until: Cycles,
}

/// How many of the places that are remembered write to which lines, by the last bits of these lines' numbers:
/// most bytes that somebody asks about are written by none of them.
#[derive(Clone, Debug)]
struct Written {
    lines: Box<[u8; LINES]>,
    /// How many write to more than one line.
    longer: usize,
}

const LINES: usize = 1024;

impl Written {
    /// The one line in which bytes lie, as it is counted.
    #[inline(always)]
    fn line([start, end]: [u64; 2]) -> Option<usize> {
        let line = start / LINE_BYTES as u64;
        ((end - 1) / LINE_BYTES as u64 == line).then_some(line as usize % LINES)
    }

    #[inline(always)]
    fn add(&mut self, bytes: [u64; 2]) {
        match Self::line(bytes) {
            Some(line) => self.lines[line] += 1,
            None => self.longer += 1,
        }
    }

    #[inline(always)]
    fn take(&mut self, bytes: [u64; 2]) {
        match Self::line(bytes) {
            Some(line) => self.lines[line] -= 1,
            None => self.longer -= 1,
        }
    }

    /// False if no place writes any of these bytes.
    #[inline(always)]
    fn perhaps(&self, bytes: &Range<u64>) -> bool {
        let line = Self::line([bytes.start, bytes.end]);
        self.longer > 0 || line.is_none_or(|line| self.lines[line] > 0)
    }
}

/// The bank.
#[derive(Clone, Debug)]
pub struct Bank {
    places: Ring<Place>,
    /// Of reads, and of writes.
    packed: [Packed; 2],
    written: Written,
    /// When the latest place ends: every request asks, and the ring would take 13 host instructions to say.
    free_at: Cycles,
    /// When the latest place ends that is no longer remembered.
    forgotten_until: Cycles,
}

impl Default for Bank {
    fn default() -> Self {
        Self {
            places: Ring::new(PLACES),
            packed: [Packed::default(); 2],
            written: Written {
                lines: vec![0; LINES].try_into().expect("so many"),
                longer: 0,
            },
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
        if time <= self.forgotten_until {
            return 0;
        }
        // From the newest back, because few lie ahead of most who ask.
        let mut first = self.places.len();
        let near = first.saturating_sub(NEAR);
        while first > near && self.places.at(first - 1).end > time {
            first -= 1;
        }
        if first > near {
            return first;
        }
        let (mut start, mut end) = (0, first);
        while start < end {
            let middle = usize::midpoint(start, end);
            if self.places.at(middle).end > time {
                end = middle;
            } else {
                start = middle + 1;
            }
        }
        start
    }

    /// The first place of so many cycles that begins no earlier than `start`, at which those before
    /// `first` are over: where in the order, and when it begins.
    #[inline]
    fn free_place(&self, first: usize, start: Cycles, cycles: Cycles) -> (usize, Cycles) {
        let (mut index, mut start) = (first, start);
        while index < self.places.len() {
            let place = self.places.at(index);
            if start + cycles <= place.start {
                break;
            }
            start = place.end;
            index += 1;
        }
        (index, start)
    }

    /// When a write of so many cycles would start if it came at `now`.
    pub fn could_start_at(&self, now: Cycles, cycles: Cycles) -> Cycles {
        let start = now.max(self.forgotten_until);
        self.free_place(self.first_after(start), start, cycles).1
    }

    /// The first place for such a request where it does not pass one that it must come behind.
    fn place_between(
        &mut self,
        what: Use,
        bytes: &Range<u64>,
        earliest: Cycles,
        cycles: Cycles,
    ) -> (usize, Cycles) {
        let start = earliest.max(self.forgotten_until);
        if what != Use::Read && self.written.perhaps(bytes) {
            let first = self.first_after(start);
            let mut index = self.places.len();
            while index > first {
                let place = self.places.at(index - 1);
                if place.written[0] < bytes.end && bytes.start < place.written[1] {
                    return self.free_place(index, place.end, cycles);
                }
                index -= 1;
            }
        }
        self.first_place(usize::from(what == Use::Write), start, cycles)
    }

    /// The first place that begins no earlier than `start`, found from where one of the same kind was found.
    #[inline]
    fn first_place(&mut self, kind: usize, start: Cycles, cycles: Cycles) -> (usize, Cycles) {
        let packed = self.packed[kind];
        let known = cycles >= packed.cycles && (packed.from..=packed.until).contains(&start);
        let from = if known { packed.until } else { start };
        let found = self.free_place(self.first_after(from), from, cycles);
        if !known || cycles == packed.cycles {
            self.packed[kind] = Packed {
                cycles,
                from: if known { packed.from } else { start },
                until: found.1,
            };
        }
        found
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
        if what == Use::Write {
            self.written.add(written);
        }
        if let Some(oldest) = self.places.insert(index, place) {
            self.forgotten_until = oldest.end;
            if oldest.written != [0, 0] {
                self.written.take(oldest.written);
            }
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

    /// A bank that looks at all places for each request.
    #[derive(Default)]
    struct Plain {
        places: Vec<Place>,
        forgotten_until: Cycles,
    }

    impl Plain {
        fn take(
            &mut self,
            what: Use,
            bytes: Range<u64>,
            earliest: Cycles,
            cycles: Cycles,
        ) -> Cycles {
            let mut start = earliest.max(self.forgotten_until);
            let mut at = self.places.partition_point(|place| place.end <= start);
            let ahead = &self.places[at..];
            let overlaps =
                |place: &Place| place.written[0] < bytes.end && bytes.start < place.written[1];
            if let Some(same) = ahead
                .iter()
                .rposition(overlaps)
                .filter(|_| what != Use::Read)
            {
                start = ahead[same].end;
                at += same + 1;
            }
            while let Some(place) = self
                .places
                .get(at)
                .filter(|next| start + cycles > next.start)
            {
                start = place.end;
                at += 1;
            }
            let written = match what {
                Use::Write => [bytes.start, bytes.end],
                Use::Read | Use::ReadWithin => [0, 0],
            };
            let end = start + cycles;
            self.places.insert(
                at,
                Place {
                    start,
                    end,
                    written,
                },
            );
            if self.places.len() > PLACES {
                self.forgotten_until = self.places.remove(0).end;
            }
            start
        }
    }

    /// What is remembered of where nothing fits, and of which lines are written, changes nothing: for who
    /// asks in the order of time, for who asks as of the same time again and again, and for who asks as of
    /// any time.
    #[test]
    fn what_it_remembers_answers_as_looking_does() {
        let seed = 13;
        for (lines, blocks) in [(8, 16), (4000, 16), (4000, 100_000)] {
            for (pace, late) in [(700, 1), (300, 1), (300, 200_000), (20_000, 1)] {
                let mut random = Random::new(seed);
                let (mut bank, mut plain) = (Bank::default(), Plain::default());
                let mut now = 0;
                for step in 0..20_000 {
                    if pace < 10_000 || step % 40 == 0 {
                        now += random.bits() % pace;
                    }
                    let late = random.bits() % late * u64::from(random.below(4) == 0);
                    let earliest = Cycles::saturating_sub(now, late);
                    let uses = [
                        Use::Read,
                        Use::ReadWithin,
                        Use::Write,
                        Use::Write,
                        Use::Write,
                    ];
                    let what = uses[random.below(5) as usize];
                    let cycles = if what == Use::Write { 700 } else { 250 };
                    let cycles = cycles + random.below(20) / 19 * 100;
                    let start = random.below(lines) * LINE_BYTES as u64;
                    let length = if random.below(blocks) == 0 { 2048 } else { 64 };
                    let bytes = start + random.below(2) * 8..start + length;
                    let told = format!("seed {seed}, {lines} lines, pace {pace}, step {step}");
                    let taken = bank.take(what, bytes.clone(), earliest, cycles);
                    assert_eq!(taken, plain.take(what, bytes, earliest, cycles), "{told}");
                }
            }
        }
    }
}
