//! The uncut run, watched: its failure points, its operations, and what it flushes for nothing.
//!
//! A failure point is the last moment of something: before bytes become durable, before an operation begins,
//! at the end of the run. An operation's end needs none. What may be found then may also be found at the next
//! point, and there the operation has to be complete.
//!
//! Always true here: the same run gives the same points, whichever of them are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use perdure_hardware::line::{LINE_BYTES, pieces};
use perdure_linux::ThreadId;
use perdure_riscv::{CacheBlock, Mark};

use super::pending::{Bytes, History, Pending};
use super::rules::Model;
use super::waste::Waste;
use crate::functional::{At, Flush, Pool, Wait, Watcher};

const LINE: u64 = LINE_BYTES as u64;

/// Why a failure point is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Something waits behind it until flushed lines are durable.
    Fence,
    /// A flush makes its line durable by itself.
    Flush,
    /// The operation of that number begins behind it.
    Operation(u64),
    /// The run ends.
    End,
    /// Power is cut, at that cycle of the machine.
    Cut(u64),
}

/// Which operations there are around a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// What all operations that are complete have made, if it is known: a boundary.
    pub before: Option<usize>,
    /// The one that has begun, if it is the only one.
    pub operation: Option<usize>,
    /// Several are under way at once.
    pub several: bool,
}

/// An operation of the program.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The program's number for it.
    pub number: u64,
    /// When it was over.
    pub after: Option<usize>,
    /// Others were under way.
    pub overlaps: bool,
}

/// A failure point that is kept.
#[derive(Clone)]
pub struct Point {
    /// Its place among all of them.
    pub number: u64,
    /// Why.
    pub reason: Reason,
    /// What comes next, where.
    pub at: At,
    /// What is durable.
    pub durable: Pool,
    /// What is not.
    pub lines: BTreeMap<u64, Arc<History>>,
    /// Of lines with a flush under way, how many of their stores that covers.
    pub covered: BTreeMap<u64, usize>,
    /// The operations around it.
    pub phase: Phase,
    /// Which table of pools is durable.
    pub table: u64,
}

/// What is seen of a point by whoever only counts them.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Its number.
    pub number: u64,
    /// The operations around it.
    pub phase: Phase,
}

/// Bytes that change as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whole {
    /// Physical address.
    pub start: u64,
    /// How many.
    pub bytes: u64,
}

/// What is to be kept of a run.
#[derive(Clone, Debug, Default)]
pub struct Keeps {
    /// All points.
    pub all: bool,
    /// Points, by number.
    pub points: BTreeSet<u64>,
    /// Images between operations.
    pub boundaries: BTreeSet<usize>,
    /// Stores of which it is of interest when they become durable, by how much was retired before them.
    pub fates: Arc<BTreeSet<u64>>,
}

/// The watcher.
#[derive(Clone)]
pub struct Recorder {
    pending: Pending,
    /// Persistent memory, if the power failed now and nothing that is pending were there.
    pub durable: Pool,
    keeps: Arc<Keeps>,
    /// Points so far.
    pub points: u64,
    /// The one that the machine has come back for.
    pub seen: Option<Seen>,
    /// Kept since somebody took them.
    pub kept: Vec<Point>,
    /// Images between operations that are needed, in their order, since somebody took them.
    pub boundaries: Vec<(usize, Pool, u64)>,
    boundary_count: usize,
    /// All operations.
    pub operations: Vec<Operation>,
    open: BTreeMap<ThreadId, usize>,
    phase: Phase,
    /// Bytes that the program says are whole.
    pub wholes: BTreeMap<Whole, u64>,
    /// Something may be found that could not be found at the last point, or has to be.
    is_new: bool,
    /// Something was stored since the last boundary.
    changed: bool,
    table: u64,
    /// A mistake of the program's in telling of its operations.
    pub mistake: Option<String>,
    /// What costs time and makes nothing durable.
    pub waste: Waste,
    /// Stores to persistent memory.
    pub stores: u64,
    /// Flushes, and fences that wait for some.
    pub flushes: u64,
    /// Fences that made something durable.
    pub fences: u64,
}

impl Recorder {
    /// Of a run that begins on this memory, all of which is durable.
    pub fn new(model: Model, durable: Pool, keeps: Arc<Keeps>) -> Self {
        Self {
            pending: Pending::new(model, Arc::clone(&keeps.fates)),
            durable,
            keeps,
            points: 0,
            seen: None,
            kept: Vec::new(),
            boundaries: Vec::new(),
            boundary_count: 0,
            operations: Vec::new(),
            open: BTreeMap::new(),
            phase: Phase::default(),
            wholes: BTreeMap::new(),
            is_new: false,
            changed: true,
            table: 0,
            mistake: None,
            waste: Waste::default(),
            stores: 0,
            flushes: 0,
            fences: 0,
        }
    }

    /// A failure point, if it adds anything. Returns whether it does.
    fn point(&mut self, reason: Reason, at: &At) -> bool {
        if !self.is_new || self.pending.lines().is_empty() {
            return false;
        }
        self.is_new = false;
        let number = self.points;
        self.points += 1;
        let phase = self.phase;
        self.seen = Some(Seen { number, phase });
        if self.keeps.all || self.keeps.points.contains(&number) {
            self.kept.push(Point {
                number,
                reason,
                at: *at,
                durable: self.durable.clone(),
                lines: self.pending.lines().clone(),
                covered: self.pending.covered(),
                phase,
                table: self.table,
            });
        }
        true
    }

    /// The number of the image that is there now, which is kept.
    fn boundary(&mut self, pool: &Pool) -> usize {
        if std::mem::take(&mut self.changed) {
            if self.keeps.boundaries.contains(&self.boundary_count) {
                let image = (self.boundary_count, pool.clone(), self.table);
                self.boundaries.push(image);
            }
            self.boundary_count += 1;
        }
        self.boundary_count - 1
    }

    fn begins(&mut self, pool: &Pool, number: u64, at: &At) -> bool {
        let found = self.point(Reason::Operation(number), at);
        if let Some(&open) = self.open.get(&at.thread) {
            let open = self.operations[open].number;
            self.mistake.get_or_insert_with(|| {
                format!(
                    "operation {number} begins before operation {open} of the same thread has ended"
                )
            });
        }
        let before = self.boundary(pool);
        let overlaps = !self.open.is_empty();
        for &open in self.open.values() {
            self.operations[open].overlaps = true;
        }
        self.open.insert(at.thread, self.operations.len());
        self.operations.push(Operation {
            number,
            after: None,
            overlaps,
        });
        self.phase = Phase {
            before: Some(before),
            operation: Some(self.operations.len() - 1),
            several: overlaps,
        };
        self.is_new = true;
        found
    }

    fn ends(&mut self, pool: &Pool, at: &At) {
        let Some(open) = self.open.remove(&at.thread) else {
            self.mistake
                .get_or_insert_with(|| "an operation ends that has not begun".into());
            return;
        };
        let after = self.boundary(pool);
        self.operations[open].after = Some(after);
        self.phase = match self.open.len() {
            0 => Phase {
                before: Some(after),
                ..Phase::default()
            },
            _ => Phase {
                before: None,
                operation: None,
                several: true,
            },
        };
        self.is_new = true;
    }

    /// What may be found if power fails now, wherever that is.
    pub fn here(&self, reason: Reason, at: &At) -> Point {
        Point {
            number: self.points,
            reason,
            at: *at,
            durable: self.durable.clone(),
            lines: self.pending.lines().clone(),
            covered: self.pending.covered(),
            phase: self.phase,
            table: self.table,
        }
    }

    /// What made the stores durable that somebody wanted to know of.
    pub fn fates(&self) -> &BTreeMap<u64, At> {
        &self.pending.fates
    }

    /// The run has ended.
    pub fn end(&mut self, at: &At) {
        self.point(Reason::End, at);
        if let Some(&open) = self.open.values().next() {
            let number = self.operations[open].number;
            self.mistake.get_or_insert_with(|| {
                format!("operation {number} begins, and has not ended when the program ends")
            });
        }
        self.waste.ends(self.pending.lines());
    }

    /// What happens to flushes makes bytes durable.
    fn settle(&mut self, happens: impl FnOnce(&mut Pending, &mut dyn FnMut(u64, &Bytes))) {
        let durable = &mut self.durable;
        happens(&mut self.pending, &mut |line, bytes| {
            durable.write(line, bytes);
        });
    }
}

impl Watcher for Recorder {
    const OBSERVES: bool = true;

    fn stores(&mut self, pool: &Pool, address: u64, bytes: &[u8], at: &At) {
        let (line, offset) = (address & !(LINE - 1), (address % LINE) as usize);
        let found = pool.line(line).0;
        self.stores += 1;
        self.pending.store(line, &found, (offset, bytes), at);
        self.waste.stores(at.thread);
        self.is_new = true;
        self.changed = true;
    }

    fn bookkeeping(&mut self, address: u64, bytes: &[u8]) {
        for (at, piece) in pieces(address, bytes.len()) {
            let (line, offset) = (at & !(LINE - 1), (at % LINE) as usize);
            self.pending.settle(line, offset, &bytes[piece]);
        }
        self.durable.write(address, bytes);
        // Zeros in a page that is new name nothing.
        self.table += u64::from(bytes.iter().any(|&byte| byte != 0));
        self.changed = true;
    }

    fn flushes(&mut self, address: u64, how: Flush, at: &At) {
        let line = address & !(LINE - 1);
        if how == Flush::Instruction(CacheBlock::Zero) {
            return;
        }
        self.flushes += 1;
        if let (Flush::Instruction(_), Some(again)) = (how, self.pending.is_clean(line)) {
            self.waste.flushes(at, again);
        }
        if self.pending.would_settle(line, how) {
            self.point(Reason::Flush, at);
        }
        self.settle(|pending, durable| pending.flush(line, how, at, durable));
    }

    fn fences(&mut self, wait: Wait, at: &At) -> bool {
        if !self.pending.has_flushes(at.thread) {
            self.waste.fences(wait, at);
        }
        let mut found = false;
        if self.pending.would_wait(wait, at) {
            self.fences += 1;
            found = self.point(Reason::Fence, at);
        }
        self.waste.waited(at.thread);
        self.settle(|pending, durable| pending.wait(wait, at, durable));
        !found
    }

    fn marks(&mut self, pool: &Pool, mark: Mark, physical: Option<u64>, at: &At) -> bool {
        match mark {
            Mark::OperationBegins { number } => return !self.begins(pool, number, at),
            Mark::OperationEnds => self.ends(pool, at),
            Mark::Atomic { bytes, .. } => {
                if let Some(start) = physical.filter(|&start| pool.offset_of(start).is_some()) {
                    let whole = Whole { start, bytes };
                    self.wholes.entry(whole).or_insert(at.retired);
                }
            }
        }
        true
    }
}
