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
use crate::line::{LINE_BYTES, Line};
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

/// The bytes that a write displaced.
#[derive(Clone, Debug)]
pub(crate) enum Displaced {
    Line(Line),
    Block(Box<[u8]>),
}

impl Displaced {
    /// Writes bytes, and keeps what they displace.
    #[inline]
    pub fn by(arena: &mut Arena, address: u64, bytes: &[u8]) -> Self {
        if let Ok(line) = bytes.try_into()
            && address.is_multiple_of(LINE_BYTES as u64)
        {
            return Self::Line(arena.replace_line(address, &Line(line)));
        }
        let displaced = Self::Block(arena.slice(address, bytes.len()).into());
        arena.write(address, bytes);
        displaced
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Line(line) => &line.0,
            Self::Block(bytes) => bytes,
        }
    }
}

#[derive(Clone, Debug)]
struct Write {
    start: Cycles,
    done: Cycles,
    /// By then it is durable, and all before it.
    all_done: Cycles,
    address: u64,
    displaced: Displaced,
}

/// The writes of one module, in the order of acceptance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting(VecDeque<Write>);

impl Waiting {
    /// A write was accepted.
    #[inline(always)]
    pub fn push(&mut self, served: &Served, address: u64, displaced: Displaced) {
        let before = self.0.back().map_or(0, |write| write.all_done);
        self.0.push_back(Write {
            start: served.start,
            done: served.done,
            all_done: before.max(served.done),
            address,
            displaced,
        });
    }

    /// Nothing that was durable at this time will be asked for again.
    #[inline(always)]
    pub fn forget_until(&mut self, horizon: Cycles) {
        while self.0.front().is_some_and(|write| write.done <= horizon) {
            self.0.pop_front();
        }
    }

    /// When the last write of any of these bytes will be durable, if that is later than `now`; else `now`.
    /// It looks at no more writes than become durable later, and at those accepted behind them.
    pub fn durable_at(&self, bytes: &Range<u64>, now: Cycles) -> Cycles {
        let later = (self.0.iter().rev()).take_while(|write| write.all_done > now);
        let same = later.filter(|write| {
            let end = write.address + write.displaced.bytes().len() as u64;
            write.address < bytes.end && bytes.start < end
        });
        same.fold(now, |durable, write| durable.max(write.done))
    }

    /// The writes that are not durable at `at`: their addresses, how long they are, when each begins at the
    /// media, and when it is done.
    pub fn until(&self, at: Cycles) -> impl Iterator<Item = (u64, usize, [Cycles; 2])> {
        let waiting = self.0.iter().filter(move |write| write.done > at);
        waiting.map(|write| {
            let length = write.displaced.bytes().len();
            (write.address, length, [write.start, write.done])
        })
    }

    /// Cuts the power at `at`.
    pub fn power_off(&self, arena: &mut Arena, at: Cycles, tear: &mut Tear, lost: &mut Lost) {
        for write in self.0.iter().rev().filter(|write| write.done > at) {
            let displaced = write.displaced.bytes();
            if write.start <= at {
                let mut torn = displaced.to_vec();
                tear.apply(&mut torn, &arena.slice(write.address, displaced.len()));
                lost.replace(arena, write.address, &torn);
                lost.writes_in_flight += 1;
            } else {
                lost.replace(arena, write.address, displaced);
                lost.writes_lost += 1;
            }
        }
    }
}
