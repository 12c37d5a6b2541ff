//! The strand buffer (§III-B, §IV-C): lines on their way home, on the memory module, and what of them lies in
//! the overflow log.
//!
//! A line that arrives is *valid*; with its strand's group it becomes *committed*, and may go home. Of a line
//! there is one valid and one committed version at most that is not on its way home.
//!
//! Everything has its time: what is committed, and what has gone home, when the power fails at a moment is
//! known for every moment that may still come.
//!
//! Always true here:
//! - A committed version is kept until its bytes are durable at home, or a newer version is committed.
//! - Bytes of what lies in the log are in the log, and nowhere else.

use std::collections::{BTreeMap, VecDeque};

use perdure_hardware::line::{Line, LineNumber};
use perdure_hardware::time::Cycles;

use super::sgst::Strand;
use crate::mix::Table;

/// A version in the buffer; no other one ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    place: u32,
    serial: u32,
}

/// Where a version's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// In the buffer.
    Here(Line),
    /// In a slot of the overflow log.
    Logged(u32),
}

/// A version of a line.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    serial: u32,
    /// The line.
    pub line: LineNumber,
    /// Its bytes.
    pub bytes: Bytes,
    /// The strand that stored to it last, until it is committed.
    pub strand: Strand,
    /// When it is committed; never, as far as is known.
    pub committed: Cycles,
    /// When it is durable at home, or of no use any more; not as far as is known.
    pub gone: Cycles,
}

const NEVER: Cycles = Cycles::MAX;

/// The versions of a line: places plus one, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Places {
    valid: u32,
    committed: u32,
}

/// How full it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Lines in the buffer.
    pub here: usize,
    /// Lines in the log.
    pub logged: usize,
    /// Of both, committed ones.
    pub committed_here: usize,
    /// Of both, committed ones.
    pub committed_logged: usize,
}

/// The buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    capacity: usize,
    /// Lines of which there is any: few most of the time, so that the host's caches hold it.
    index: Table<LineNumber, Places>,
    held: Vec<Held>,
    free: Vec<u32>,
    serial: u32,
    /// Committed versions, in the order in which they go home.
    queue: VecDeque<Ticket>,
    /// Versions with the time at which they are gone.
    leaving: VecDeque<(Cycles, u32)>,
    /// Those that are gone, for cuts before that.
    left: VecDeque<(Cycles, u32)>,
    /// Slots of the log that are free, from when on, and the first that was never used.
    free_slots: Vec<(u32, Cycles)>,
    slots_used: u32,
    slots: u32,
    filled: Filled,
}

/// Puts a version where its time is, which is near the end.
fn put_in_order(queue: &mut VecDeque<(Cycles, u32)>, version: (Cycles, u32)) {
    let later = queue.iter().rev().take_while(|other| **other > version);
    queue.insert(queue.len() - later.count(), version);
}

impl Buffer {
    /// An empty buffer for so many lines, with a log of so many slots.
    pub fn new(capacity: usize, slots: u32) -> Self {
        Self {
            capacity,
            index: Table::default(),
            held: Vec::new(),
            free: Vec::new(),
            serial: 0,
            queue: VecDeque::new(),
            leaving: VecDeque::new(),
            left: VecDeque::new(),
            free_slots: Vec::new(),
            slots_used: 0,
            slots,
            filled: Filled::default(),
        }
    }

    /// How full it is.
    pub fn filled(&self) -> Filled {
        self.filled
    }

    /// True if another line has room.
    pub fn has_room(&self) -> bool {
        self.filled.here < self.capacity
    }

    fn places(&self, line: LineNumber) -> Places {
        self.index.get(&line).copied().unwrap_or_default()
    }

    fn set_places(&mut self, line: LineNumber, places: Places) {
        if places == Places::default() {
            self.index.remove(&line);
        } else {
            self.index.insert(line, places);
        }
    }

    fn at(&self, place: u32) -> Option<&Held> {
        (self.held.get((place as usize).checked_sub(1)?)).filter(|held| held.serial != 0)
    }

    fn ticket(&self, place: u32) -> Option<Ticket> {
        let serial = self.at(place)?.serial;
        let place = place - 1;
        Some(Ticket { place, serial })
    }

    /// The version of a ticket, as long as it is neither gone nor on its way.
    fn waiting(&mut self, ticket: Ticket) -> Option<&mut Held> {
        let held = &mut self.held[ticket.place as usize];
        (held.serial == ticket.serial && held.gone == NEVER).then_some(held)
    }

    /// The valid version of a line.
    pub fn valid(&self, line: LineNumber) -> Option<(Ticket, &Held)> {
        let place = self.places(line).valid;
        Some((self.ticket(place)?, self.at(place)?))
    }

    /// The committed version of a line that was committed last.
    pub fn committed(&self, line: LineNumber) -> Option<(Ticket, &Held)> {
        let place = self.places(line).committed;
        Some((self.ticket(place)?, self.at(place)?))
    }

    /// The newest version of a line.
    pub fn newest(&self, line: LineNumber) -> Option<&Held> {
        let places = self.places(line);
        self.at(places.valid).or_else(|| self.at(places.committed))
    }

    /// Lines of which there is any.
    pub fn lines(&self) -> impl Iterator<Item = LineNumber> + '_ {
        let held = self
            .held
            .iter()
            .enumerate()
            .filter(|(_, held)| held.serial != 0);
        held.filter_map(|(place, held)| {
            let places = self.places(held.line);
            let newest = [places.valid, places.committed];
            let newest = newest.into_iter().find(|&place| place != 0)?;
            (newest as usize == place + 1).then_some(held.line)
        })
    }

    /// A line that has no valid version gets one.
    pub fn put(&mut self, line: LineNumber, bytes: Bytes, strand: Strand) -> Ticket {
        self.serial += 1;
        let serial = self.serial;
        let held = Held {
            serial,
            line,
            bytes,
            strand,
            committed: NEVER,
            gone: NEVER,
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.held.push(held);
            self.held.len() as u32 - 1
        });
        self.held[place as usize] = held;
        match bytes {
            Bytes::Here(_) => self.filled.here += 1,
            Bytes::Logged(_) => self.filled.logged += 1,
        }
        let valid = place + 1;
        self.set_places(
            line,
            Places {
                valid,
                ..self.places(line)
            },
        );
        Ticket { place, serial }
    }

    /// A version gets other bytes, where they are, from a strand.
    pub fn replace(&mut self, ticket: Ticket, bytes: &Line, strand: Strand) {
        if let Some(held) = self.waiting(ticket) {
            held.strand = strand;
            if let Bytes::Here(here) = &mut held.bytes {
                *here = *bytes;
            }
        }
    }

    /// The committed version of a line, if it is here and not on its way: for a planted bug.
    pub fn overwritable(&self, line: LineNumber) -> Option<(Ticket, &Held)> {
        let here = |held: &Held| held.gone == NEVER && matches!(held.bytes, Bytes::Here(_));
        self.committed(line).filter(|(_, held)| here(held))
    }

    /// A committed version is valid again: a planted bug.
    pub fn uncommit(&mut self, ticket: Ticket, bytes: &Line, strand: Strand) {
        self.replace(ticket, bytes, strand);
        let Some(held) = self.waiting(ticket) else {
            return;
        };
        held.committed = NEVER;
        let line = held.line;
        let Places { committed, .. } = self.places(line);
        let places = Places {
            valid: committed,
            committed: 0,
        };
        self.set_places(line, places);
        self.filled.committed_here -= 1;
    }

    /// The strand that a version is of from now on.
    pub fn rename(&mut self, ticket: Ticket, strand: Strand) {
        if let Some(held) = self.waiting(ticket) {
            held.strand = strand;
        }
    }

    /// A version is committed at a time, and takes the place of an older one that still waits. False if it
    /// was committed or given up before; else whether there was such an older one.
    pub fn commit(&mut self, ticket: Ticket, at: Cycles) -> Option<bool> {
        let held = self
            .waiting(ticket)
            .filter(|held| held.committed == NEVER)?;
        held.committed = at;
        let (line, here) = (held.line, matches!(held.bytes, Bytes::Here(_)));
        *self.committed_count(here) += 1;
        let older = self.committed(line).map(|(ticket, _)| ticket);
        let superseded = older.is_some_and(|older| self.leaves(older, at));
        let committed = ticket.place + 1;
        self.set_places(
            line,
            Places {
                valid: 0,
                committed,
            },
        );
        self.queue.push_back(ticket);
        Some(superseded)
    }

    fn committed_count(&mut self, here: bool) -> &mut usize {
        if here {
            &mut self.filled.committed_here
        } else {
            &mut self.filled.committed_logged
        }
    }

    /// A version is gone at a time. False if it was to be gone before.
    pub fn leaves(&mut self, ticket: Ticket, at: Cycles) -> bool {
        let Some(held) = self.waiting(ticket) else {
            return false;
        };
        held.gone = at;
        put_in_order(&mut self.leaving, (at, ticket.place));
        true
    }

    /// Other bytes of a line, which are no strand's, will be durable at home at a time: what is here of it is
    /// of no use to anybody who reads, and none to a cut after that.
    pub fn forget(&mut self, line: LineNumber, at: Cycles) {
        let versions = [self.valid(line), self.committed(line)];
        let tickets = versions.map(|version| version.map(|(ticket, _)| ticket));
        for ticket in tickets.into_iter().flatten() {
            self.leaves(ticket, at);
        }
        self.set_places(line, Places::default());
    }

    /// The version of a ticket that waits.
    pub fn held(&self, ticket: Ticket) -> &Held {
        &self.held[ticket.place as usize]
    }

    /// The committed version that goes home next.
    pub fn next_home(&mut self) -> Option<Ticket> {
        while let Some(&ticket) = self.queue.front() {
            if self.waiting(ticket).is_some() {
                return Some(ticket);
            }
            self.queue.pop_front();
        }
        None
    }

    /// A valid version, whichever came first: a planted bug.
    pub fn any_valid(&self) -> Option<Ticket> {
        let valid =
            |held: &&Held| held.serial != 0 && held.committed == NEVER && held.gone == NEVER;
        let held = self
            .held
            .iter()
            .filter(valid)
            .min_by_key(|held| held.serial)?;
        Some(self.valid(held.line)?.0)
    }

    /// When the next version is gone.
    pub fn next_gone(&self) -> Option<Cycles> {
        self.leaving.front().map(|(gone, _)| *gone)
    }

    /// Gives room up that is free by now. What no cut before the horizon can ask for is forgotten.
    pub fn settle(&mut self, now: Cycles, horizon: Cycles) {
        while self.next_gone().is_some_and(|gone| gone <= now) {
            let Some((gone, place)) = self.leaving.pop_front() else {
                return;
            };
            let held = &self.held[place as usize];
            let (line, committed) = (held.line, held.committed);
            let here = match held.bytes {
                Bytes::Here(_) => {
                    self.filled.here -= 1;
                    true
                }
                Bytes::Logged(slot) => {
                    self.filled.logged -= 1;
                    self.free_slots.push((slot, gone));
                    false
                }
            };
            if committed != NEVER {
                *self.committed_count(here) -= 1;
            }
            let mut places = self.places(line);
            for known in [&mut places.valid, &mut places.committed] {
                if *known == place + 1 {
                    *known = 0;
                }
            }
            self.set_places(line, places);
            put_in_order(&mut self.left, (gone, place));
        }
        while let Some(&(gone, place)) = self.left.front()
            && gone <= horizon
        {
            self.left.pop_front();
            self.held[place as usize].serial = 0;
            self.free.push(place);
        }
    }

    /// A free slot of the log, and when it is: harts whose clocks lag behind may find one that will be.
    pub fn take_slot(&mut self) -> Option<(u32, Cycles)> {
        self.free_slots.pop().or_else(|| {
            let slot = self.slots_used;
            (slot < self.slots).then(|| {
                self.slots_used += 1;
                (slot, 0)
            })
        })
    }

    /// What the capacitors write if the power fails at a time: of each line the version that was committed
    /// last, if it is not home yet. `valid` and `oldest` are planted bugs.
    pub fn power_off(&self, at: Cycles, valid: bool, oldest: bool) -> BTreeMap<LineNumber, Held> {
        let mut last: BTreeMap<LineNumber, Held> = BTreeMap::new();
        for held in self.held.iter().filter(|held| held.serial != 0) {
            let committed = held.committed <= at || valid && held.committed == NEVER;
            if !committed || held.gone <= at {
                continue;
            }
            let other = last.get(&held.line).map(|other| other.committed);
            if other.is_none_or(|other| (held.committed > other) != oldest) {
                last.insert(held.line, *held);
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(byte: u8) -> Bytes {
        Bytes::Here(Line([byte; 64]))
    }

    fn found(buffer: &Buffer, at: Cycles) -> Vec<(LineNumber, u8)> {
        let last = buffer.power_off(at, false, false);
        let byte = |held: &Held| match held.bytes {
            Bytes::Here(bytes) => bytes.0[0],
            Bytes::Logged(slot) => slot as u8,
        };
        last.iter()
            .map(|(&line, held)| (line, byte(held)))
            .collect()
    }

    #[test]
    fn what_is_committed_is_kept_until_it_is_home_or_a_newer_one_is_committed() {
        let mut buffer = Buffer::new(2, 4);
        let first = buffer.put(100, line(1), 0);
        assert_eq!(found(&buffer, 50), []);
        assert_eq!(buffer.commit(first, 60), Some(false));
        let second = buffer.put(100, line(2), 1);
        assert!(!buffer.has_room());
        assert_eq!(found(&buffer, 59), []);
        assert_eq!(found(&buffer, 60), [(100, 1)]);
        // Superseded while it still waits.
        assert_eq!(buffer.commit(second, 80), Some(true));
        assert_eq!(buffer.commit(second, 90), None);
        assert_eq!(found(&buffer, 79), [(100, 1)]);
        assert_eq!(found(&buffer, 80), [(100, 2)]);
        let next = buffer.next_home().expect("one waits");
        assert_eq!((next, buffer.held(next).line), (second, 100));
        assert!(buffer.leaves(second, 120));
        assert!(buffer.next_home().is_none());
        buffer.settle(130, 70);
        assert!(buffer.has_room() && buffer.newest(100).is_none());
        assert_eq!(found(&buffer, 119), [(100, 2)]);
        assert_eq!(found(&buffer, 120), []);
        buffer.settle(130, 130);
        assert_eq!(buffer.put(101, line(7), 3).place, 1);
    }

    #[test]
    fn a_slot_of_the_log_is_free_again_when_its_line_is_home() {
        let mut buffer = Buffer::new(1, 1);
        let (slot, _) = buffer.take_slot().expect("one");
        let logged = buffer.put(5, Bytes::Logged(slot), 0);
        assert_eq!(buffer.take_slot(), None);
        assert_eq!(buffer.filled().logged, 1);
        buffer.commit(logged, 10);
        assert_eq!(buffer.filled().committed_logged, 1);
        buffer.leaves(logged, 20);
        buffer.settle(20, 0);
        assert_eq!(buffer.filled(), Filled::default());
        assert_eq!(buffer.take_slot(), Some((slot, 20)));
    }
}
