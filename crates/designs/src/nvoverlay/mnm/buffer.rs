//! The battery-backed write-back buffer of an OMC (§IV-E): it absorbs versions that are written
//! back again and again in one epoch, and makes a version durable at once.
//!
//! A version has its address in NVM from the start, so that at power-off the battery only has to
//! write lines to their addresses. What is on its way from the buffer to the media stays under the
//! battery until it has arrived.
//!
//! Always true here:
//! - Each set's entries form a list from the most to the least recently used.
//! - `leaving` is in the order in which the writes become durable.

use std::collections::VecDeque;

use perdure_hardware::line::{Line, LineNumber};
use perdure_hardware::time::Cycles;

use super::format::{PAGE_LINES, page_of};
use crate::mix::Table;

const NONE: u32 = u32::MAX;

/// A line of an epoch.
pub type Key = (LineNumber, u64);

/// A version in the buffer.
#[derive(Clone, Debug)]
pub struct Held {
    /// Line and epoch.
    pub key: Key,
    /// Where it goes.
    pub address: u64,
    /// Its bytes.
    pub bytes: Line,
    /// From when on the battery guards them.
    pub since: Cycles,
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy, Debug)]
struct Set {
    newest: u32,
    oldest: u32,
    held: u32,
}

/// The buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// OMCs among which pages are dealt out in turn; this one has every so many-th.
    omcs: u64,
    ways: u32,
    sets: Vec<Set>,
    held: Vec<Held>,
    vacant: Vec<u32>,
    index: Table<Key, u32>,
    leaving: VecDeque<(Cycles, Held)>,
}

/// What became of a version that came to the buffer.
#[derive(Debug)]
pub enum Put {
    /// It replaced the bytes of the same version.
    Again,
    /// It has an entry.
    New,
    /// It has an entry, and this one lost its own.
    Displaced(Held),
}

impl Buffer {
    /// The empty buffer of one of so many OMCs; without sets there is none.
    pub fn new(omcs: usize, sets: usize, ways: usize) -> Self {
        let empty = Set {
            newest: NONE,
            oldest: NONE,
            held: 0,
        };
        Self {
            omcs: omcs as u64,
            ways: ways as u32,
            sets: vec![empty; sets],
            held: Vec::new(),
            vacant: Vec::new(),
            index: Table::default(),
            leaving: VecDeque::new(),
        }
    }

    /// True if there is one.
    pub fn exists(&self) -> bool {
        !self.sets.is_empty()
    }

    fn set_of(&self, key: Key) -> usize {
        let (page, line) = page_of(key.0);
        let nth_of_mine = page / self.omcs * PAGE_LINES as u64 + u64::from(line);
        (nth_of_mine % self.sets.len() as u64) as usize
    }

    fn unlink(&mut self, at: u32) {
        let Held {
            key, newer, older, ..
        } = self.held[at as usize];
        let set = self.set_of(key);
        match newer {
            NONE => self.sets[set].newest = older,
            _ => self.held[newer as usize].older = older,
        }
        match older {
            NONE => self.sets[set].oldest = newer,
            _ => self.held[older as usize].newer = newer,
        }
        self.sets[set].held -= 1;
    }

    fn link(&mut self, at: u32) {
        let set = self.set_of(self.held[at as usize].key);
        let newest = self.sets[set].newest;
        self.held[at as usize].newer = NONE;
        self.held[at as usize].older = newest;
        match newest {
            NONE => self.sets[set].oldest = at,
            _ => self.held[newest as usize].newer = at,
        }
        self.sets[set].newest = at;
        self.sets[set].held += 1;
    }

    fn take(&mut self, at: u32) -> Held {
        self.unlink(at);
        let held = self.held[at as usize].clone();
        self.index.remove(&held.key);
        self.vacant.push(at);
        held
    }

    /// A version comes.
    pub fn put(&mut self, key: Key, address: u64, bytes: &Line, since: Cycles) -> Put {
        if let Some(&at) = self.index.get(&key) {
            self.unlink(at);
            self.link(at);
            let held = &mut self.held[at as usize];
            held.bytes = *bytes;
            held.since = since;
            return Put::Again;
        }
        let set = self.sets[self.set_of(key)];
        let displaced = (set.held == self.ways).then(|| self.take(set.oldest));
        let new = Held {
            key,
            address,
            bytes: *bytes,
            since,
            newer: NONE,
            older: NONE,
        };
        let at = if let Some(at) = self.vacant.pop() {
            self.held[at as usize] = new;
            at
        } else {
            self.held.push(new);
            self.held.len() as u32 - 1
        };
        self.index.insert(key, at);
        self.link(at);
        displaced.map_or(Put::New, Put::Displaced)
    }

    /// Takes out all versions of epochs up to one, by their addresses.
    pub fn take_until(&mut self, epoch: u64) -> Vec<Held> {
        let mut places: Vec<u32> = Vec::new();
        for set in &self.sets {
            let mut at = set.oldest;
            while at != NONE {
                let held = &self.held[at as usize];
                if held.key.1 <= epoch {
                    places.push(at);
                }
                at = held.newer;
            }
        }
        let mut taken: Vec<Held> = places.into_iter().map(|at| self.take(at)).collect();
        taken.sort_unstable_by_key(|held| held.address);
        taken
    }

    /// The write of a version that was taken out has been accepted.
    pub fn leave(&mut self, held: Held, durable: Cycles) {
        self.leaving.push_back((durable, held));
    }

    /// Forgets writes that have arrived.
    pub fn settle(&mut self, now: Cycles) {
        while self
            .leaving
            .front()
            .is_some_and(|(durable, _)| *durable <= now)
        {
            self.leaving.pop_front();
        }
    }

    /// What the battery writes if the power fails at a time, in order: addresses and bytes.
    /// `forgetful` is a planted bug.
    pub fn drain(&self, at: Cycles, forgetful: bool) -> impl Iterator<Item = (u64, &Line)> {
        let leaving = self
            .leaving
            .iter()
            .filter(move |(durable, _)| *durable > at && !forgetful)
            .map(|(_, held)| held);
        let inside = self.sets.iter().flat_map(|set| {
            std::iter::successors(self.held.get(set.oldest as usize), |held| {
                self.held.get(held.newer as usize)
            })
        });
        leaving
            .chain(inside)
            .filter(move |held| held.since <= at)
            .map(|held| (held.address, &held.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_of_a_set_goes_and_is_guarded_until_it_has_arrived() {
        let mut buffer = Buffer::new(1, 2, 2);
        let line = |byte| Line([byte; 64]);
        for (number, byte) in [(0, 1), (2, 2), (1, 3)] {
            let put = buffer.put((number, 5), number * 64, &line(byte), 10);
            assert!(matches!(put, Put::New));
        }
        let again = buffer.put((0, 5), 0, &line(9), 11);
        assert!(matches!(again, Put::Again));
        let Put::Displaced(victim) = buffer.put((4, 6), 256, &line(4), 12) else {
            panic!("line 2 was the oldest of its set");
        };
        assert_eq!(victim.key, (2, 5));
        buffer.leave(victim, 700);
        let drained = |buffer: &Buffer, at| -> Vec<(u64, u8)> {
            buffer
                .drain(at, false)
                .map(|(at, line)| (at, line.0[0]))
                .collect()
        };
        assert_eq!(drained(&buffer, 20), [(128, 2), (0, 9), (256, 4), (64, 3)]);
        assert_eq!(drained(&buffer, 11), [(128, 2), (0, 9), (64, 3)]);
        buffer.settle(700);
        assert_eq!(drained(&buffer, 20), [(0, 9), (256, 4), (64, 3)]);
        let taken: Vec<Key> = buffer.take_until(5).iter().map(|held| held.key).collect();
        assert_eq!(taken, [(0, 5), (1, 5)]);
        assert_eq!(drained(&buffer, 20), [(256, 4)]);
    }
}
