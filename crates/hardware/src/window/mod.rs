//! The out-of-order core: what each instruction waits for, in one pass over the instructions in program
//! order. For each of them it computes when it is fetched, dispatched, issued, completed and committed,
//! from the times of those before it; nothing ticks.
//!
//! The present of such a core is where it dispatches. Its accesses are made when its instructions are
//! issued, which is then or later: so every request to the hierarchy is dated at or ahead of the present,
//! and those that are dated ahead block none that are not.
//!
//! Always true here:
//! - An instruction is dispatched in program order, and not before every structure has an entry for it; it
//!   is issued when its operands and a unit are there; it commits in program order.
//! - What waits at the head of the reorder buffer (fences, flushes, atomics, whatever looks at the whole
//!   machine) is issued when everything before it has committed, and nothing behind it is dispatched before
//!   it is complete. So what a fence waits for has happened before the hart's present goes on.
//! - A store is written when it has committed and its line is there; the line is asked for at issue.
//! - Every cycle of the present has one cause.
//! - No step costs more the more instructions there were.

mod accesses;
mod begin;
mod causes;
mod end;
mod predictor;
mod queues;
#[cfg(test)]
mod tests;
mod units;

pub use predictor::Transfer;

use crate::queue::Queue;
use crate::specification::{Scheduling, StoreOrder, WindowSpecification};
use crate::time::Cycles;
use crate::timeline::{NotCopied, Wait};
use accesses::{FORWARDS, Forward, Word};
use causes::{CAUSES, Cause, Counts};
use predictor::Predictor;
use queues::{Either, InOrder, Leaving};
use units::Units;

/// The destination of what has none, behind 32 registers for integers, of which 0 is always ready, and 32 for
/// floating point.
pub const NOWHERE: u8 = 64;

/// What an instruction does, as far as time depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One cycle in an integer unit.
    Integer,
    /// A product of integers.
    Multiply,
    /// A quotient or remainder of integers.
    Divide,
    /// A sum, comparison or conversion of floating-point numbers.
    Float,
    /// A product of floating-point numbers, perhaps with a sum.
    FloatMultiply,
    /// A quotient or root.
    FloatDivide,
    /// A load.
    Load,
    /// A store.
    Store,
    /// A transfer of control.
    Transfer(Transfer),
    /// What waits at the head of the reorder buffer.
    Alone(Alone),
}

/// What waits at the head of the reorder buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// A fence.
    Fence,
    /// A cache-block or persist operation.
    Flush,
    /// An atomic, or one of a pair with a reservation.
    Atomic,
    /// Whatever else looks at more than registers: control registers, a design's instructions, devices.
    Other,
}

/// An instruction as the core sees it.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// What it does.
    pub work: Work,
    /// Registers that it reads; 0 for none.
    pub sources: [u8; 3],
    /// The register that it writes; [`NOWHERE`] for none.
    pub destination: u8,
}

/// Levels at which misses may be outstanding.
const LEVELS: usize = 3;

/// The instruction between its begin and its end.
#[derive(Clone, Copy, Debug)]
struct AtHand {
    destination: u8,
    /// Waits at the head of the reorder buffer.
    alone: Option<Cause>,
    /// The hart's clock when it began.
    clock: Cycles,
    issued: Cycles,
    complete: Cycles,
    /// When the line of what it stores is there; 0 if it stores nothing.
    line: Cycles,
    /// Where it stores, if that is within one word.
    forward: Word,
    /// At how many levels what it asks for misses, and since when.
    misses: (usize, Cycles),
}

impl AtHand {
    const NOTHING: Self = Self {
        destination: NOWHERE,
        alone: None,
        clock: 0,
        issued: 0,
        complete: 0,
        line: 0,
        forward: Word::NONE,
        misses: (0, 0),
    };
}

/// An out-of-order core. All of it is lost at power-off.
#[derive(Clone, Debug)]
pub struct Window {
    core: WindowSpecification,
    /// An L1D hit, from issue to use.
    hit_cycles: Cycles,
    present: Cycles,
    dispatched: usize,
    fetch: Cycles,
    fetched: usize,
    /// What fetch waited for when it last did.
    fetch_cause: Cause,
    committed_at: Cycles,
    committed: usize,
    /// When each register's value is there; place [`NOWHERE`] takes what nobody reads. There is a place for
    /// every number that a register could have.
    ready: [Cycles; 256],
    fetch_queue: InOrder,
    reorder_buffer: InOrder,
    issue_queue: Leaving,
    load_queue: InOrder,
    store_queue: Either,
    units: Units,
    misses: [Queue; LEVELS],
    /// When the line in each L1D slot came, and the latest of these times.
    arrivals: Box<[Cycles]>,
    latest_arrival: Cycles,
    forwards: Box<[Forward; FORWARDS]>,
    written: Cycles,
    predictor: Predictor,
    /// Of the instruction at hand, or of the last one.
    at_hand: AtHand,
    is_at_work: bool,
    cycles: [Cycles; CAUSES],
    counts: Counts,
    /// What it waited for, if somebody draws that.
    waits: NotCopied<Vec<Wait>>,
}

impl Window {
    /// An idle core before an L1D of so many slots.
    pub fn new(core: &WindowSpecification, hit_cycles: Cycles, slots: usize) -> Self {
        let misses = |entries: usize| {
            // Those of every load and store in the window may be dated ahead.
            let remembered = entries + core.load_queue_entries + core.store_queue_entries;
            Queue::remembering(remembered, entries, Scheduling::Fcfs)
        };
        let entries = [
            core.l1d_miss_entries,
            core.l2_miss_entries,
            core.llc_miss_entries,
        ];
        Self {
            hit_cycles,
            present: 0,
            dispatched: 0,
            fetch: 0,
            fetched: 0,
            fetch_cause: Cause::FrontEnd,
            committed_at: 0,
            committed: 0,
            ready: [0; 256],
            fetch_queue: InOrder::new(core.fetch_queue_entries),
            reorder_buffer: InOrder::new(core.reorder_buffer_entries),
            issue_queue: Leaving::new(core.issue_queue_entries),
            load_queue: InOrder::new(core.load_queue_entries),
            store_queue: Either::new(
                core.store_queue_entries,
                core.store_order == StoreOrder::Weak,
            ),
            units: Units::new(core),
            misses: entries.map(misses),
            arrivals: vec![0; slots].into(),
            latest_arrival: 0,
            forwards: Box::new([Forward::default(); FORWARDS]),
            written: 0,
            predictor: Predictor::new(core),
            at_hand: AtHand::NOTHING,
            is_at_work: false,
            cycles: [0; CAUSES],
            counts: Counts::default(),
            waits: NotCopied::default(),
            core: core.clone(),
        }
    }

    /// True between an instruction's begin and its end.
    pub fn is_at_work(&self) -> bool {
        self.is_at_work
    }

    /// Somebody made the hart stand still: its clock is ahead of the present.
    fn stands_at(&mut self, clock: Cycles) {
        if clock > self.present {
            self.advance(clock, Cause::Outside);
        }
    }

    /// The present goes on to a later time, at which nothing has been dispatched yet.
    fn advance(&mut self, to: Cycles, cause: Cause) {
        self.tell(cause, self.present, to);
        self.cycles[cause as usize] += to - self.present;
        self.present = to;
        self.dispatched = 0;
        self.fetch_not_before(to, Cause::FrontEnd);
    }

    fn fetch_not_before(&mut self, time: Cycles, cause: Cause) {
        if time > self.fetch {
            self.fetch = time;
            self.fetched = 0;
            self.fetch_cause = cause;
        }
    }

    /// When the instruction at hand makes its accesses.
    #[inline(always)]
    pub fn issued(&self) -> Cycles {
        self.at_hand.issued
    }

    /// The instruction at hand turns out to be one that waits at the head of the reorder buffer, of that
    /// kind. Returns when it is there.
    pub fn wait_at_head(&mut self, kind: Alone) -> Cycles {
        let head = self.committed_at;
        let hand = &mut self.at_hand;
        hand.alone = Some(kind.cause());
        hand.issued = hand.issued.max(head);
        hand.complete = hand.complete.max(hand.issued + 1);
        hand.issued
    }

    /// The instruction at hand, which waits at the head of the reorder buffer, makes its accesses then.
    pub fn wait_until(&mut self, time: Cycles) {
        let hand = &mut self.at_hand;
        hand.issued = hand.issued.max(time);
        hand.complete = hand.complete.max(hand.issued + 1);
    }

    /// The instruction at hand has what it asked for then.
    #[inline(always)]
    pub fn completes(&mut self, at: Cycles) {
        self.at_hand.complete = self.at_hand.complete.max(at);
    }

    /// The line of what is fetched next is there at `ready`.
    pub fn fetched(&mut self, ready: Cycles) {
        if ready > self.present {
            self.fetch_not_before(ready, Cause::FrontEnd);
        }
    }

    /// The instruction at hand, which waits at the head of the reorder buffer, is complete, but has done
    /// nothing but wait: it begins again. Returns how far the hart's clock, which stands at `clock`, goes on.
    pub fn again(&mut self, clock: Cycles) -> Cycles {
        self.is_at_work = false;
        let AtHand {
            complete, alone, ..
        } = self.at_hand;
        if complete > self.present {
            self.advance(complete, alone.unwrap_or(Cause::Outside));
        }
        self.present - clock
    }

    /// The hart leaves the program, whatever it is at: everything before has committed then, and what
    /// follows is fetched anew. Returns how far its clock, which stands at `clock`, goes on.
    pub fn trap(&mut self, clock: Cycles) -> Cycles {
        if std::mem::take(&mut self.is_at_work) {
            // What it waited for before it could not be carried out.
            self.commit(self.at_hand.complete);
        }
        self.stands_at(clock);
        if self.committed_at > self.present {
            self.advance(self.committed_at, Cause::Trap);
        }
        let again = self.present + self.core.front_end_cycles;
        self.fetch_not_before(again, Cause::Trap);
        self.present - clock
    }
}
