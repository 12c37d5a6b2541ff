//! What a program did on the timed machine, as a recorder of the machine without time takes it.
//!
//! Always true here:
//! - A store's moment is its place in the log, so that moments say which came first.
//! - What a program says, and what it has waited for, counts from when it knew: what a hart has done ahead of
//!   a cut is taken for not yet said, and never for promised.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::time::Cycles;
use perdure_hardware::watched::{Heard, Ordered};
use perdure_linux::ThreadId;
use perdure_riscv::{CacheBlock, Mark};

use super::super::pending::Bytes;
use super::super::record::{Keeps, Point, Reason, Recorder};
use super::super::rules::Model;
use super::timed::{Left, Run};
use crate::functional::{At, Flush, Pool, Wait, Watcher};
use crate::port::said;
use crate::wholes::Piece;

/// Bytes that the machine stores at once, at most.
const WORD: usize = 8;

/// Who follows a log.
#[derive(Clone)]
pub struct Follower {
    /// The recorder.
    pub recorder: Recorder,
    newest: Pool,
    moment: usize,
    /// Harts whose stores are the system's own.
    system: BTreeSet<usize>,
    last: At,
    /// An operation has begun that the program may not have told of.
    began_ahead: bool,
    /// Of what changes as a whole, what was said so far.
    pieces: Vec<Piece>,
}

/// When the program knew of each event of a log that it has to know of: that it has waited, and that an
/// operation has begun or ended.
pub fn known_at(log: &[Heard]) -> Vec<Option<Cycles>> {
    let mut harts: BTreeMap<usize, Cycles> = BTreeMap::new();
    let known = log.iter().map(|heard| {
        let (hart, at) = match *heard {
            Heard::Ordered(Ordered::Fenced { hart, done }) => (hart, done),
            Heard::Ordered(Ordered::Said { hart, at, .. }) => (hart, at),
            _ => return None,
        };
        let latest = harts.entry(hart).or_default();
        *latest = at.max(*latest);
        Some(*latest)
    });
    known.collect()
}

impl Follower {
    /// From the beginning of a run.
    pub fn new(run: &Run, keeps: Keeps) -> Self {
        let recorder = Recorder::new(Model::Machine, run.first.clone(), Arc::new(keeps));
        Self {
            recorder,
            newest: run.first.clone(),
            moment: 0,
            system: BTreeSet::new(),
            last: at(0, 0, 0, false),
            began_ahead: false,
            pieces: Vec::new(),
        }
    }

    /// Follows a log up to there, all of which the program knows.
    pub fn follow(&mut self, log: &[Heard], until: usize) {
        while self.moment < until {
            self.hear(&log[self.moment], true);
        }
    }

    /// The same up to a cut: what the program may not know of yet does not count. The one that goes on has
    /// followed what comes before that.
    pub fn at_cut(&mut self, log: &[Heard], known: &[Option<Cycles>], left: &Left) -> Self {
        let ahead = |moment: &usize| known[*moment].is_some_and(|at| at > left.when.cycle);
        let first = (self.moment..left.heard).find(ahead).unwrap_or(left.heard);
        self.follow(log, first);
        let mut here = self.clone();
        while here.moment < left.heard {
            let counts = !ahead(&here.moment);
            here.hear(&log[here.moment], counts);
        }
        here
    }

    fn hear(&mut self, heard: &Heard, counts: bool) {
        match heard {
            Heard::Stored {
                hart,
                line,
                bytes,
                writer,
                ..
            } => {
                let pc = writer.instruction.map_or(0, |(_, address)| address);
                let by_kernel = writer.system.is_some();
                let at = at(*hart, pc, self.moment, by_kernel);
                self.stored(*line * LINE_BYTES as u64, &bytes.0, at);
            }
            Heard::Ordered(ordered) => self.ordered(ordered, counts),
            Heard::Left { .. } | Heard::Written { .. } => {}
        }
        self.moment += 1;
    }

    fn stored(&mut self, address: u64, bytes: &Bytes, at: At) {
        let before = self.newest.line(address).0;
        let differs = |offset: &usize| before[*offset] != bytes[*offset];
        let (Some(first), Some(last)) = (
            (0..LINE_BYTES).find(differs),
            (0..LINE_BYTES).rfind(differs),
        ) else {
            return;
        };
        let range = first / WORD * WORD..(last / WORD + 1) * WORD;
        let (start, stored) = (address + range.start as u64, &bytes[range]);
        if self.system.contains(&(at.thread.0 as usize)) {
            self.recorder.bookkeeping(start, stored);
        } else {
            self.recorder.stores(&self.newest, start, stored, &at);
            self.last = at;
        }
        self.newest.write(start, stored);
    }

    fn ordered(&mut self, ordered: &Ordered, counts: bool) {
        match *ordered {
            Ordered::Persisted { hart, line } => {
                let at = at(hart, 0, self.moment, false);
                let how = Flush::Instruction(CacheBlock::Clwb);
                (self.recorder).flushes(line * LINE_BYTES as u64, how, &at);
            }
            Ordered::Fenced { hart, .. } if counts => {
                let at = at(hart, 0, self.moment, false);
                self.recorder.fences(Wait::Kernel, &at);
            }
            Ordered::Said { hart, what, .. } => {
                let at = at(hart, 0, self.moment, false);
                if counts {
                    self.said(what, &at);
                } else {
                    self.began_ahead |= what.0 == said::BEGINS;
                }
            }
            Ordered::System { hart, begins } if begins => drop(self.system.insert(hart)),
            Ordered::System { hart, .. } => drop(self.system.remove(&hart)),
            Ordered::Fenced { .. } => {}
        }
    }

    /// What a program says of itself. The pieces of what changes as a whole come one behind the other.
    fn said(&mut self, (what, [first, second]): (u8, [u64; 2]), at: &At) {
        let mark = match what {
            said::BEGINS => Mark::OperationBegins { number: first },
            said::ENDS => Mark::OperationEnds,
            _ => {
                self.pieces.push((first, second));
                Mark::Atomic {
                    start: first,
                    bytes: second,
                }
            }
        };
        if what != said::PIECE {
            let whole = std::mem::take(&mut self.pieces);
            self.recorder.marks(&self.newest, mark, &whole, at);
        }
    }

    /// What a cut has left here, as a failure point: each line that is lost is found as the cut left it, or
    /// with more of its stores; all others as they were stored last, or with less.
    pub fn point(&self, left: &Left, table: u64) -> Point {
        let mut point = self
            .recorder
            .here(Reason::Cut(left.when.cycle), &self.last_moment());
        point.table = table;
        point.durable = self.newest.clone();
        for (&address, bytes) in &left.lost {
            point.durable.write(address, bytes);
            if let Some(history) = point.lines.get_mut(&address) {
                let (since, count) = history.since(bytes);
                *history = Arc::new(since);
                for flushed in point.covered.get_mut(&address).into_iter().flatten() {
                    flushed.stores = flushed.stores.saturating_sub(count);
                    flushed.missed = flushed.missed.saturating_sub(count);
                }
            }
        }
        point.phase.several |= self.began_ahead;
        point
    }

    /// The last store before now, at this moment.
    fn last_moment(&self) -> At {
        At {
            retired: self.moment as u64,
            ..self.last
        }
    }
}

/// Who does something, and when.
pub fn at(hart: usize, pc: u64, moment: usize, by_kernel: bool) -> At {
    At {
        thread: ThreadId(u32::try_from(hart).unwrap_or(u32::MAX)),
        pc,
        retired: moment as u64,
        by_kernel,
    }
}
