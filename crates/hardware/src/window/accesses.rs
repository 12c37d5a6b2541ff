//! The accesses of an out-of-order core: which entries a miss needs before it may go out, what a load takes
//! from where, and when a store is written.
//!
//! Always true here: a line is asked for once; who comes while it is on its way waits for it.

use super::Window;
use crate::cache::Slot;
use crate::hierarchy::{Core, Hardware};
use crate::line::LineNumber;
use crate::specification::StoreOrder;
use crate::time::Cycles;

/// Words that are known to have a store on its way to them; a power of two.
pub(super) const FORWARDS: usize = 256;

/// Bytes of a word of eight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Word {
    number: u64,
    /// Which of its bytes; 0 for none.
    bytes: u8,
}

/// The last store to a word, or to another one in the same place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forward {
    word: Word,
    /// When these are there.
    ready: Cycles,
    /// When they are written.
    written: Cycles,
}

impl Window {
    /// What the instruction at hand asks for is in none of the first so many levels. Returns when each of
    /// them has an entry for the miss.
    pub fn miss(&mut self, levels: usize) -> Cycles {
        let mut at = self.issued();
        for (queue, waits) in (self.misses.iter_mut().zip(&mut self.counts.miss_waits)).take(levels)
        {
            let admitted = queue.admit(at);
            *waits += admitted - at;
            at = admitted;
        }
        self.at_hand.misses = (levels, at);
        at
    }

    /// True if each of the first so many levels has a free entry for one more miss.
    pub(crate) fn has_entries(&mut self, levels: usize, at: Cycles) -> bool {
        let mut queues = self.misses.iter_mut().take(levels);
        queues.all(|queue| queue.admit(at) == at)
    }

    /// A line that nobody has asked for is on its way to an L1D slot, and comes at `ready`.
    pub(crate) fn prefetched(&mut self, levels: usize, slot: Slot, since: Cycles, ready: Cycles) {
        for queue in self.misses.iter_mut().take(levels) {
            queue.hold(since, ready);
        }
        self.arrivals[slot.0 as usize] = ready;
        self.latest_arrival = self.latest_arrival.max(ready);
    }

    /// A line came to an L1D slot at `ready`, for the instruction at hand.
    fn came(&mut self, slot: Slot, ready: Cycles) -> Cycles {
        let arrival = &mut self.arrivals[slot.0 as usize];
        let (levels, since) = std::mem::take(&mut self.at_hand.misses);
        if levels > 0 {
            for queue in self.misses.iter_mut().take(levels) {
                queue.hold(since, ready);
            }
            *arrival = ready;
            self.latest_arrival = self.latest_arrival.max(ready);
        }
        (*arrival).max(ready)
    }

    /// The instruction at hand loads bytes of a line that came, or was there, at `ready`.
    #[inline]
    pub fn load(&mut self, slot: Slot, (address, bytes): (u64, usize), ready: Cycles) {
        let issued = self.issued();
        let mut data = if self.latest_arrival > issued || ready > issued {
            self.came(slot, ready)
        } else {
            ready
        };
        let needed = Word::of(address, bytes);
        let forward = &self.forwards[needed.place()];
        let both = forward.word.bytes & needed.bytes;
        if forward.word.number == needed.number && forward.written > issued && both != 0 {
            if both == needed.bytes {
                data = forward.ready.max(issued);
                self.counts.forwarded += 1;
            } else {
                data = data.max(forward.written);
            }
        }
        self.completes(data + self.hit_cycles);
    }

    /// The instruction at hand loads from a line that came, or was there, at `ready`, by whatever way.
    pub fn loads(&mut self, ready: Cycles) {
        self.completes(ready + self.hit_cycles);
    }

    /// The instruction at hand stores bytes into a line that came, or was there, at `ready`.
    #[inline]
    pub fn store(&mut self, slot: Slot, (address, bytes): (u64, usize), ready: Cycles) {
        let ready = if self.latest_arrival > ready || ready > self.issued() {
            self.came(slot, ready)
        } else {
            ready
        };
        self.line_comes(ready);
        self.at_hand.forward = Word::of(address, bytes);
    }

    /// What the instruction at hand stores is taken at `ready`, by whomever.
    pub fn line_comes(&mut self, ready: Cycles) {
        self.at_hand.line = self.at_hand.line.max(ready);
    }

    /// The instruction at hand, which waited at the head of the reorder buffer, is sent from the store
    /// queue, and nothing waits for it; its entry is free at `done`.
    pub fn post(&mut self, done: Cycles) {
        let issued = self.issued();
        let free = self.store_queue.next_free(issued);
        self.store_queue.take(done.max(free));
        self.at_hand.alone = None;
        self.completes(free + 1);
    }

    /// A store that no instruction made has its line at `ready`. Returns when the store queue takes it.
    pub fn store_by_kernel(&mut self, now: Cycles, ready: Cycles) -> Cycles {
        let free = self.store_queue.next_free(now);
        self.store_queue.take(ready.max(free));
        free
    }

    /// Writes what was stored, when it could be written at `at`. Returns when it is.
    pub(super) fn write(&mut self, at: Cycles) -> Cycles {
        let written = match self.core.store_order {
            StoreOrder::Tso => at.max(self.written + 1),
            StoreOrder::Weak => at,
        };
        self.written = self.written.max(written);
        let word = self.at_hand.forward;
        if word.bytes != 0 {
            self.forwards[word.place()] = Forward {
                word,
                ready: self.at_hand.issued,
                written,
            };
        }
        written
    }
}

impl Hardware {
    /// When the instruction at hand, which is issued at `issued`, may ask for a line: a miss needs an entry
    /// at each level that does not have it.
    pub fn may_miss(&mut self, hart: usize, line: LineNumber, issued: Cycles) -> Cycles {
        let levels = self.levels_missed(hart, line);
        match self.cores[hart].timing.window() {
            Some(window) if levels > 0 => window.miss(levels),
            _ => issued,
        }
    }

    /// How many levels, from a hart's L1D down, do not have a line.
    pub(crate) fn levels_missed(&self, hart: usize, line: LineNumber) -> usize {
        let core = &self.cores[hart];
        if core.l1d.find(line).is_some() {
            0
        } else if self.groups[core.group].l2.find(line).is_some() {
            1
        } else if self.llc.find(line).is_some() {
            2
        } else {
            3
        }
    }
}

impl Core {
    /// The instruction at hand has hit the lookaside, at that virtual address.
    #[inline(always)]
    pub fn hit(&mut self, address: u64, bytes: usize, store: bool) {
        let slot = self.lookaside.slot_hit(address);
        let Some(window) = self.timing.window() else {
            return;
        };
        let issued = window.issued();
        if store {
            window.store(slot, (address, bytes), issued);
        } else {
            window.load(slot, (address, bytes), issued);
        }
    }
}

impl Word {
    pub(super) const NONE: Self = Self {
        number: 0,
        bytes: 0,
    };

    /// The word that has all of so many bytes at an address, if one has.
    #[inline(always)]
    fn of(address: u64, bytes: usize) -> Self {
        let offset = (address % 8) as usize;
        let mask = (1u16 << bytes.min(8)) - 1;
        let within = offset + bytes <= 8;
        Self {
            number: address / 8,
            bytes: if within { (mask << offset) as u8 } else { 0 },
        }
    }

    #[inline(always)]
    fn place(self) -> usize {
        let word = self.number;
        (word ^ word >> 8 ^ word >> 16) as usize % FORWARDS
    }
}
