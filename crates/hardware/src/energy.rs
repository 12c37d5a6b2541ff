//! What the machine's reserve of energy would have to drain if the power failed: bytes that write queues
//! in the persistence domain hold, and lines that are dirty in the caches where these are in it.
//!
//! A store's bytes go to its line at once, also where the core's store buffer holds it back in time; so
//! the store buffers' bytes are counted with the lines.
//!
//! Always true here: the peak is that of the moments at which something came in. Nothing is counted
//! unless the domain reaches further than the media.

use std::collections::VecDeque;

use crate::line::{LINE_BYTES, LineNumber};
use crate::specification::{Domain, Specification};
use crate::time::Cycles;

/// How many bytes the queues hold from then on, until the next step.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: Cycles,
    bytes: u64,
}

/// What the queues hold over time, and will hold.
#[derive(Clone, Debug, Default)]
struct Queued(VecDeque<Step>);

impl Queued {
    /// Where the first step is that begins later.
    #[inline]
    fn behind(&self, time: Cycles) -> usize {
        self.0.partition_point(|step| step.from <= time)
    }

    fn bytes_at(&self, time: Cycles) -> u64 {
        (self.behind(time).checked_sub(1)).map_or(0, |place| self.0[place].bytes)
    }

    /// The step that begins then, of as many bytes as there were.
    #[inline]
    fn step_at(&mut self, from: Cycles) -> usize {
        let place = self.behind(from);
        let before = place.checked_sub(1).map(|before| self.0[before]);
        if before.is_some_and(|step| step.from == from) {
            return place - 1;
        }
        let bytes = before.map_or(0, |step| step.bytes);
        self.0.insert(place, Step { from, bytes });
        place
    }

    /// Holds so many more for a time. Returns the most that are held then.
    #[inline]
    fn hold(&mut self, from: Cycles, until: Cycles, bytes: u64) -> u64 {
        if until <= from {
            return self.bytes_at(from);
        }
        let first = self.step_at(from);
        let end = self.step_at(until);
        let mut most = 0;
        for step in self.0.range_mut(first..end) {
            step.bytes += bytes;
            most = most.max(step.bytes);
        }
        most
    }

    /// Nobody will ask for what was before.
    #[inline]
    fn forget_until(&mut self, horizon: Cycles) {
        while self.0.get(1).is_some_and(|step| step.from <= horizon) {
            self.0.pop_front();
        }
    }
}

/// The count.
#[derive(Clone, Debug)]
pub(crate) struct EnergyReserve {
    queued: Queued,
    /// A bit for each line of memory, where the caches are kept.
    dirty: Option<Vec<u64>>,
    dirty_lines: u64,
    peak_bytes: u64,
}

impl EnergyReserve {
    /// Nothing to drain yet; `None` if nothing ever is.
    pub fn new(specification: &Specification) -> Option<Self> {
        let domain = specification.persistence.domain;
        (domain != Domain::Media).then(|| Self {
            queued: Queued::default(),
            dirty: (domain == Domain::Eadr).then(|| vec![0; specification.lines().div_ceil(64)]),
            dirty_lines: 0,
            peak_bytes: 0,
        })
    }

    /// True if the caches are kept.
    pub fn keeps_caches(&self) -> bool {
        self.dirty.is_some()
    }

    /// Most bytes at once.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// A queue has accepted a write, which will be at the media then. Nothing that was there at `horizon`
    /// can be held together with what comes later.
    #[cold]
    pub fn queues(&mut self, accepted: Cycles, at_media: Cycles, bytes: usize, horizon: Cycles) {
        self.queued.forget_until(horizon);
        let most = self.queued.hold(accepted, at_media, bytes as u64);
        self.peak_bytes = self.peak_bytes.max(most + self.dirty_bytes());
    }

    fn dirty_bytes(&self) -> u64 {
        self.dirty_lines * LINE_BYTES as u64
    }

    /// A line has become dirty in the caches.
    pub fn becomes_dirty(&mut self, line: LineNumber, now: Cycles) {
        if self.set_dirty(line, true) {
            self.dirty_lines += 1;
        }
        if self.keeps_caches() {
            let held = self.queued.bytes_at(now) + self.dirty_bytes();
            self.peak_bytes = self.peak_bytes.max(held);
        }
    }

    /// A line's newest bytes leave the caches.
    pub fn becomes_clean(&mut self, line: LineNumber) {
        if self.set_dirty(line, false) {
            self.dirty_lines -= 1;
        }
    }

    /// Notes whether a line is dirty, where the caches are kept. True if that is new.
    fn set_dirty(&mut self, line: LineNumber, dirty: bool) -> bool {
        let Some(words) = &mut self.dirty else {
            return false;
        };
        let (word, bit) = (&mut words[line as usize / 64], 1 << (line % 64));
        let before = *word;
        *word = if dirty { before | bit } else { before & !bit };
        *word != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Without taking notice of what cannot be more than the peak: at each moment at which something came in.
    fn peak(writes: &[(Cycles, Cycles, u64)]) -> u64 {
        let held = |time: Cycles| {
            let held = writes.iter().filter(|one| (one.0..one.1).contains(&time));
            held.map(|one| one.2).sum()
        };
        let moments = writes.iter().map(|one| held(one.0));
        moments.max().unwrap_or(0)
    }

    #[test]
    fn the_peak_is_that_of_all_moments_at_which_something_came_in() {
        for seed in 1..=50 {
            let mut random = Random::new(seed);
            let mut reserve = EnergyReserve {
                queued: Queued::default(),
                dirty: None,
                dirty_lines: 0,
                peak_bytes: 0,
            };
            let mut writes = Vec::new();
            let mut now = 0;
            for _ in 0..200 {
                now += random.below(30);
                let accepted = now + random.below(60);
                let write = (accepted, accepted + 1 + random.below(200), 64);
                writes.push(write);
                reserve.queues(write.0, write.1, 64, now);
                assert_eq!(reserve.peak_bytes(), peak(&writes), "seed {seed}");
            }
        }
    }
}
