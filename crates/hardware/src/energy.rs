//! What the machine's reserve of energy would have to drain if the power failed: bytes that write queues
//! in the persistence domain hold, and lines that are dirty in the caches where these are in it.
//!
//! A store's bytes go to its line at once, also where the core's store buffer holds it back in time; so
//! the store buffers' bytes are counted with the lines.
//!
//! Always true here: the peak is that of the moments at which something came in. Nothing is counted
//! unless the domain reaches further than the media.

use crate::line::{LINE_BYTES, LineNumber};
use crate::specification::{Domain, Specification};
use crate::time::Cycles;

#[derive(Clone, Copy, Debug)]
struct Queued {
    accepted: Cycles,
    at_media: Cycles,
    bytes: u64,
}

/// The count.
#[derive(Clone, Debug)]
pub(crate) struct EnergyReserve {
    queued: Vec<Queued>,
    /// Of all these together.
    queued_bytes: u64,
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
            queued: Vec::new(),
            queued_bytes: 0,
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

    fn bytes_at(&self, time: Cycles) -> u64 {
        let held = |one: &&Queued| one.accepted <= time && time < one.at_media;
        let queued: u64 = self.queued.iter().filter(held).map(|one| one.bytes).sum();
        queued + self.dirty_lines * LINE_BYTES as u64
    }

    /// A queue has accepted a write, which will be at the media then. Nothing that was there at `horizon`
    /// can be held together with what comes later.
    pub fn queues(&mut self, accepted: Cycles, at_media: Cycles, bytes: usize, horizon: Cycles) {
        let bytes = bytes as u64;
        self.queued.push(Queued {
            accepted,
            at_media,
            bytes,
        });
        self.queued_bytes += bytes;
        // Most often it is not more than the peak even if nothing of what is remembered has gone.
        if self.is_below_peak() {
            return;
        }
        self.queued.retain(|one| one.at_media > horizon);
        self.queued_bytes = self.queued.iter().map(|one| one.bytes).sum();
        if self.is_below_peak() {
            return;
        }
        // What was dated ahead, and is held together with it, came in at a moment that counts as well.
        let moments = self.queued.iter().map(|one| one.accepted);
        let moments = moments.filter(|time| (accepted + 1..at_media).contains(time));
        let most = moments.fold(self.bytes_at(accepted), |most, time| {
            most.max(self.bytes_at(time))
        });
        self.peak_bytes = self.peak_bytes.max(most);
    }

    fn is_below_peak(&self) -> bool {
        self.queued_bytes + self.dirty_lines * LINE_BYTES as u64 <= self.peak_bytes
    }

    /// A line has become dirty in the caches.
    pub fn becomes_dirty(&mut self, line: LineNumber, now: Cycles) {
        if self.set_dirty(line, true) {
            self.dirty_lines += 1;
        }
        if self.keeps_caches() {
            self.peak_bytes = self.peak_bytes.max(self.bytes_at(now));
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
                queued: Vec::new(),
                queued_bytes: 0,
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
