//! The victim persistence cache: lines that left the caches and may not go home yet, with what they wait for.
//!
//! A line waits for the wraps of its *dependence set*: those that were open, or closed and not home, when it
//! left the caches. As wraps go home in the order of their closes, the closed ones of a set are all before
//! one number. An open one joins them when it is closed.
//!
//! Always true here:
//! - Of a line at most one copy is held: what left the caches last.
//! - What waits for no open wrap stands in the queue, by what it still waits for.

use std::collections::{BTreeMap, BTreeSet};

use perdure_hardware::line::{Line, LineNumber};
use perdure_hardware::time::Cycles;

/// Where a held line's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// In the victim cache.
    Here(Line),
    /// In a slot of the spill area.
    Spilled(u32),
}

/// What a line waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependences {
    /// Open wraps.
    pub open: BTreeSet<u32>,
    /// All wraps whose close order is below this.
    pub closed_below: u64,
}

/// A held line.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its bytes.
    pub bytes: Bytes,
    /// The log line that came next after it: its bytes have what was recorded before.
    pub since: u64,
    /// What it waits for.
    pub dependences: Dependences,
    /// It goes home no earlier than this.
    pub not_before: Cycles,
}

/// All held lines.
#[derive(Clone, Debug)]
pub struct Victims {
    capacity: usize,
    held: BTreeMap<LineNumber, Held>,
    /// Lines that wait for no open wrap, by what they wait for.
    queue: BTreeSet<(u64, LineNumber)>,
    /// By open wrap, lines that wait, or have waited, for it.
    waiting: BTreeMap<u32, BTreeSet<LineNumber>>,
    here: usize,
    slots: u32,
    slots_used: u32,
    free_slots: Vec<u32>,
}

impl Victims {
    /// Room for so many lines, and so many slots for more.
    pub fn new(capacity: usize, slots: u32) -> Self {
        Self {
            capacity,
            held: BTreeMap::new(),
            queue: BTreeSet::new(),
            waiting: BTreeMap::new(),
            here: 0,
            slots,
            slots_used: 0,
            free_slots: Vec::new(),
        }
    }

    /// True if another line has room.
    pub fn has_room(&self) -> bool {
        self.here < self.capacity
    }

    /// Lines in the cache, and lines in slots.
    pub fn filled(&self) -> (usize, usize) {
        (self.here, self.held.len() - self.here)
    }

    /// A line, if it is held.
    pub fn get(&self, line: LineNumber) -> Option<&Held> {
        self.held.get(&line)
    }

    /// The same, to be changed, but for what it waits for.
    pub fn get_mut(&mut self, line: LineNumber) -> Option<&mut Held> {
        self.held.get_mut(&line)
    }

    /// All held lines, in order.
    pub fn lines(&self) -> impl Iterator<Item = LineNumber> + '_ {
        self.held.keys().copied()
    }

    /// A slot of the spill area.
    pub fn take_slot(&mut self) -> Option<u32> {
        self.free_slots.pop().or_else(|| {
            let slot = self.slots_used;
            self.slots_used += u32::from(slot < self.slots);
            (slot < self.slots).then_some(slot)
        })
    }

    /// Holds a line.
    pub fn put(&mut self, line: LineNumber, held: Held) {
        self.remove(line);
        self.here += usize::from(matches!(held.bytes, Bytes::Here(_)));
        for &wrap in &held.dependences.open {
            self.waiting.entry(wrap).or_default().insert(line);
        }
        if held.dependences.open.is_empty() {
            self.queue.insert((held.dependences.closed_below, line));
        }
        self.held.insert(line, held);
    }

    /// A line is held no more.
    pub fn remove(&mut self, line: LineNumber) -> Option<Held> {
        let held = self.held.remove(&line)?;
        self.queue.remove(&(held.dependences.closed_below, line));
        match held.bytes {
            Bytes::Here(_) => self.here -= 1,
            Bytes::Spilled(slot) => self.free_slots.push(slot),
        }
        Some(held)
    }

    /// A wrap is closed: whatever waits for it waits for all closes below `closed_below` from now on; for
    /// nothing more than before if the wrap had no records.
    pub fn closes(&mut self, wrap: u32, closed_below: Option<u64>) {
        for line in self.waiting.remove(&wrap).unwrap_or_default() {
            let Some(held) = self.held.get_mut(&line) else {
                continue;
            };
            let dependences = &mut held.dependences;
            if !dependences.open.remove(&wrap) {
                continue;
            }
            let below = closed_below.unwrap_or(0);
            dependences.closed_below = dependences.closed_below.max(below);
            if dependences.open.is_empty() {
                self.queue.insert((dependences.closed_below, line));
            }
        }
    }

    /// The line that waits for the least, and for no open wrap.
    pub fn next_home(&self) -> Option<(LineNumber, &Held)> {
        let &(_, line) = self.queue.first()?;
        Some((line, self.held.get(&line)?))
    }
}
