//! Writes that a module has accepted and that are not durable yet, and what a power cut does to them.
//!
//! Always true here:
//! - The arena holds the newest bytes that a controller has accepted, so that a read sees writes that
//!   still wait (a real controller snoops its write queue). Each write that is not durable yet stands
//!   here with the bytes that it displaced: queue and array have swapped contents, nothing is stored
//!   twice, and cutting the power is swapping back.
//! - Writes of the same bytes become durable in the order in which they stand.
//! - A write is in flight from `start` to `done`. A cut between the two may tear it at the granularity
//!   of eight bytes; a cut before `start` loses it.

use std::collections::VecDeque;
use std::ops::Range;

use crate::arena::Arena;
use crate::controller::Served;
use crate::random::Random;
use crate::time::Cycles;

/// What a power cut took away or tore: enough to give it back, so that one run can be cut many
/// times.
#[derive(Clone, Debug, Default)]
pub struct Lost {
    /// Address and bytes as they were before the cut, in the order in which they were taken.
    restore: Vec<(u64, Box<[u8]>)>,
    /// Writes that had been accepted and are gone.
    pub writes_lost: usize,
    /// Writes that were in flight.
    pub writes_in_flight: usize,
    /// Bytes that devices saved with what energy they have.
    pub saved_bytes: u64,
}

impl Lost {
    /// Puts other bytes at an address, and keeps what was there.
    pub(crate) fn replace(&mut self, arena: &mut Arena, address: u64, bytes: &[u8]) {
        let old = arena.slice(address, bytes.len()).into();
        self.restore.push((address, old));
        arena.write(address, bytes);
    }

    /// Gives everything back.
    pub(crate) fn restore(&self, arena: &mut Arena) {
        for (address, bytes) in self.restore.iter().rev() {
            arena.write(*address, bytes);
        }
    }
}

/// Chooses, word by word, which parts of a torn write reached the media.
#[derive(Clone, Debug)]
pub struct Tear(Random);

impl Tear {
    /// A deterministic chooser.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// Mixes `new` into `old`: nothing, everything, a prefix, or any subset of the 8-byte words.
    pub fn apply(&mut self, old: &mut [u8], new: &[u8]) {
        let words = new.len().div_ceil(8);
        let kind = self.0.bits() % 4;
        let prefix = self.0.bits() as usize % (words + 1);
        for (index, (old, new)) in old.chunks_mut(8).zip(new.chunks(8)).enumerate() {
            let arrived = match kind {
                0 => false,
                1 => index < prefix,
                2 => index >= prefix,
                _ => self.0.bits() & 1 == 1,
            };
            if arrived {
                old.copy_from_slice(new);
            }
        }
    }
}

/// Bytes that come last, and go first.
#[derive(Clone, Debug, Default)]
struct Bytes {
    kept: Vec<u8>,
    /// So many at the beginning have gone.
    gone: usize,
}

/// From so many on, the room of those that have gone is used again.
const GONE_BYTES: usize = 64 << 10;

impl Bytes {
    /// Those that have not gone.
    fn all(&self) -> &[u8] {
        &self.kept[self.gone..]
    }

    #[inline(always)]
    fn go(&mut self, length: usize) {
        self.gone += length;
        if self.gone >= GONE_BYTES.max(self.kept.len() / 2) {
            self.move_up();
        }
    }

    #[cold]
    fn move_up(&mut self) {
        self.kept.drain(..self.gone);
        self.gone = 0;
    }
}

#[derive(Clone, Copy, Debug)]
struct Write {
    start: Cycles,
    done: Cycles,
    /// By then it is durable, and all before it.
    all_done: Cycles,
    address: u64,
    length: usize,
}

/// The writes of one module, in the order of acceptance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    writes: VecDeque<Write>,
    /// What they displaced, in the same order, and last what the write displaces that is being accepted.
    displaced: Bytes,
}

impl Waiting {
    /// A write displaces these bytes, and is accepted next.
    #[inline(always)]
    pub fn displaces(&mut self, bytes: &[u8]) {
        self.displaced.kept.extend_from_slice(bytes);
    }

    /// It was accepted.
    #[inline(always)]
    pub fn push(&mut self, served: &Served, address: u64, length: usize) {
        let before = self.writes.back().map_or(0, |write| write.all_done);
        self.writes.push_back(Write {
            start: served.start,
            done: served.done,
            all_done: before.max(served.done),
            address,
            length,
        });
    }

    /// Nothing that was durable at this time will be asked for again.
    #[inline(always)]
    pub fn forget_until(&mut self, horizon: Cycles) {
        while let Some(write) = self.writes.front().filter(|write| write.done <= horizon) {
            self.displaced.go(write.length);
            self.writes.pop_front();
        }
    }

    /// When the last write of any of these bytes will be durable, if that is later than `now`; else `now`.
    /// It looks at no more writes than become durable later, and at those accepted behind them.
    pub fn durable_at(&self, bytes: &Range<u64>, now: Cycles) -> Cycles {
        let later = (self.writes.iter().rev()).take_while(|write| write.all_done > now);
        let same = later.filter(|write| {
            let end = write.address + write.length as u64;
            write.address < bytes.end && bytes.start < end
        });
        same.fold(now, |durable, write| durable.max(write.done))
    }

    /// The writes that are not durable at `at`: their addresses, how long they are, when each begins at the
    /// media, and when it is done.
    pub fn until(&self, at: Cycles) -> impl Iterator<Item = (u64, usize, [Cycles; 2])> {
        let waiting = self.writes.iter().filter(move |write| write.done > at);
        waiting.map(|write| (write.address, write.length, [write.start, write.done]))
    }

    /// Cuts the power at `at`.
    pub fn power_off(&self, arena: &mut Arena, at: Cycles, tear: &mut Tear, lost: &mut Lost) {
        let mut before = self.displaced.all();
        for write in self.writes.iter().rev() {
            let displaced;
            (before, displaced) = before.split_at(before.len() - write.length);
            if write.done <= at {
                continue;
            }
            if write.start <= at {
                let mut torn = displaced.to_vec();
                tear.apply(&mut torn, &arena.slice(write.address, write.length));
                lost.replace(arena, write.address, &torn);
                lost.writes_in_flight += 1;
            } else {
                lost.replace(arena, write.address, displaced);
                lost.writes_lost += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a list of all writes: enough of them that the room of the oldest is used again, forgotten
    /// now and then, and the power cut at times that nobody has promised to forget.
    #[test]
    fn a_cut_leaves_what_was_durable() {
        let seed = 3;
        let mut random = Random::new(seed);
        let mut arena = Arena::new(1 << 16).unwrap();
        let mut durable = arena.clone();
        let mut waiting = Waiting::default();
        let (mut open, mut done) = (VecDeque::new(), 0);
        for step in 0..4000 {
            let length = [8, 64, 72, 2048][random.below(4) as usize];
            let address = random.below(arena.len() - length as u64);
            let bytes: Vec<u8> = (0..length).map(|_| random.bits() as u8).collect();
            waiting.displaces(&arena.slice(address, length));
            arena.write(address, &bytes);
            done += random.below(3);
            let served = Served {
                accepted: 0,
                crossed: 0,
                start: done,
                done,
            };
            waiting.push(&served, address, length);
            open.push_back((done, address, bytes));
            let at = Cycles::saturating_sub(done, random.below(40));
            waiting.forget_until(at);
            while let Some((_, address, bytes)) = open.pop_front_if(|write| write.0 <= at) {
                durable.write(address, &bytes);
            }
            let mut lost = Lost::default();
            waiting.power_off(&mut arena, at, &mut Tear::new(seed), &mut lost);
            let told = format!("seed {seed}, step {step}");
            assert_eq!(arena.differing_lines(&durable), [0; 0], "{told}");
            assert_eq!(lost.writes_lost, open.len(), "{told}");
            lost.restore(&mut arena);
        }
    }
}
