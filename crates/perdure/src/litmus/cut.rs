//! What a power cut may leave, guessed as the program goes: with each store it is decided whether it will
//! be found after the cut, and from the first that will not be, whatever has to come behind it will not
//! be either. So nothing has to be remembered of the stores' order but who is *behind the cut*.
//!
//! Always true here: what is left is closed downwards under the order that the model promises, and every
//! set of stores that is closed so is guessed by somebody.

use super::model::{Kind, Left};
use super::program::{Contents, LOCATIONS, THREADS};

/// Persistent memory as the cut will leave it, and who is behind the cut.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// What will be found.
    pub kept: Contents,
    /// Lines, or locations where order is kept by location, with a store behind the cut.
    behind: [bool; LOCATIONS],
    /// Locations with a load behind the cut. Only strands order stores behind loads.
    read_behind: [bool; LOCATIONS],
    threads: [Thread; THREADS],
}

/// What of a thread is behind the cut. Only strands tell these apart.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Something since the last barrier of this strand.
    now: bool,
    /// Something before that barrier: what follows in this strand is behind the cut.
    before: bool,
    /// Something in an earlier strand since the last join.
    other: bool,
    /// Something before that join, or the thread itself: all that follows is behind the cut.
    all: bool,
}

/// A store, as the cut sees it.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// Whose.
    pub thread: usize,
    /// Where.
    pub location: usize,
    /// In which line.
    pub line: usize,
    /// What.
    pub value: u8,
}

impl Cut {
    /// Where the order of stores to one place is kept.
    pub fn place(left: &Left, location: usize, line: usize) -> usize {
        match left {
            Left::Lines | Left::Causal(_) => line,
            Left::Prefix => 0,
            Left::Strands(_) => location,
        }
    }

    /// Whether a write-back can be over: it is not, once its line has something behind the cut.
    pub fn lets_write_back(&self, left: &Left, line: usize) -> bool {
        *left != Left::Lines || !self.behind[line]
    }

    /// Whether all that is still stored to a place is behind the cut.
    pub fn is_behind(&self, place: usize) -> bool {
        self.behind[place] || self.read_behind[place]
    }

    /// Whether nothing that is still to come can be found after the cut.
    pub fn is_over(&self, left: &Left, threads: usize) -> bool {
        match left {
            Left::Prefix => self.behind[0],
            Left::Causal(_) => self.threads[..threads].iter().all(|thread| thread.all),
            Left::Lines | Left::Strands(_) => false,
        }
    }

    /// A thread will come to no mark between persists any more.
    pub fn forget_marks(&mut self, thread: usize) {
        let it = &mut self.threads[thread];
        (it.now, it.other) = (false, false);
    }

    /// Whether all that a thread still stores is behind the cut, if no mark comes before.
    pub fn is_lost(&self, thread: usize) -> bool {
        self.threads[thread].before || self.threads[thread].all
    }

    /// Nothing will ask about a place any more.
    pub fn forget(&mut self, place: usize) {
        self.behind[place] = false;
        self.read_behind[place] = false;
    }

    /// Carries a store out, in every way that the model allows.
    pub fn stored(&self, left: &Left, store: Stored, mut each: impl FnMut(Self)) {
        let place = Self::place(left, store.location, store.line);
        let thread = self.threads[store.thread];
        let behind = match left {
            Left::Lines | Left::Prefix => self.behind[place],
            Left::Causal(causes) => thread.all || (causes.stores && self.behind[place]),
            Left::Strands(between) => {
                thread.all
                    || thread.before
                    || self.read_behind[place]
                    || (between.location_orders && self.behind[place])
            }
        };
        if !behind {
            let mut found = self.clone();
            found.kept.set(store.location, store.value);
            each(found);
        }
        let mut lost = self.clone();
        lost.behind[place] = true;
        match left {
            Left::Lines | Left::Prefix => {}
            Left::Causal(_) => lost.threads[store.thread].all = true,
            Left::Strands(_) => lost.threads[store.thread].now = true,
        }
        each(lost);
    }

    /// A thread has loaded what a place holds.
    pub fn loaded(&mut self, left: &Left, thread: usize, location: usize, line: usize) {
        let behind = self.behind[Self::place(left, location, line)];
        match left {
            Left::Lines | Left::Prefix => {}
            Left::Causal(causes) => self.threads[thread].all |= causes.loads && behind,
            Left::Strands(between) => {
                let is_lost = self.is_lost(thread);
                self.threads[thread].now |= between.load_orders && behind;
                self.read_behind[location] |= between.overwriting_orders && is_lost;
            }
        }
    }

    /// A thread has come to a mark between persists.
    pub fn marked(&mut self, left: &Left, thread: usize, kind: Kind) {
        let Left::Strands(between) = left else { return };
        let it = &mut self.threads[thread];
        match kind {
            Kind::PersistBarrier if between.barrier_orders_strand => it.before |= it.now,
            Kind::NewStrand if between.new_strand_forgets => {
                it.other |= it.now | it.before;
                (it.now, it.before) = (false, false);
            }
            Kind::JoinStrand if between.join_orders_thread => {
                it.all |= it.now | it.before | it.other;
            }
            _ => {}
        }
    }

    /// Everything of it, for whoever compares.
    pub fn write(&self, threads: usize, bytes: &mut Vec<u8>) {
        bytes.extend(self.kept.bytes());
        bytes.extend(self.behind.map(u8::from));
        bytes.extend(self.read_behind.map(u8::from));
        let thread = |it: &Thread| {
            let marks = [it.now, it.before, it.other, it.all];
            marks
                .iter()
                .fold(0, |bits, mark| bits << 1 | u8::from(*mark))
        };
        bytes.extend(self.threads[..threads].iter().map(thread));
    }
}
