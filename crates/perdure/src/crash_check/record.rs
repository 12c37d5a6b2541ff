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
use serde::{Deserialize, Serialize};

use super::pending::{Bytes, Flushed, History, Pending};
use super::rules::Model;
use super::unread::{Read, Stored};
use super::waste::Waste;
use super::windows::{Window, Windows};
use crate::functional::{At, Flush, Pool, Wait, Watcher};
use crate::wholes::Piece;

const LINE: u64 = LINE_BYTES as u64;

/// Why a failure point is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// How many operations have begun, or ended, so far.
    pub marks: u64,
    /// Since which moment with none under way some always were, if one is: the first is 1.
    pub episode: Option<u64>,
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
    /// Whose it is.
    pub thread: ThreadId,
    /// How many had begun or ended before it began.
    pub began: u64,
    /// How many had when it had ended, it included.
    pub ended: Option<u64>,
    /// Between which two moments with none under way.
    pub episode: u64,
}

/// How long a run is until power fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Until {
    /// Instructions that were retired.
    pub instructions: u64,
    /// Operations that had begun.
    pub operations: u64,
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
    /// How long the run is until there; of a point of a recovery, until the power failed first.
    pub until: Until,
    /// What is durable.
    pub durable: Pool,
    /// What is not.
    pub lines: BTreeMap<u64, Arc<History>>,
    /// Of lines that were flushed, what each of these covers.
    pub covered: BTreeMap<u64, Vec<Flushed>>,
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

/// Bytes that change as a whole: their pieces, at least one, in the order in which the program has them.
pub type Whole = Vec<Piece>;

/// A mistake of the program's in telling of itself.
#[derive(Clone, Debug)]
pub enum Mistake {
    /// In telling of its operations.
    Operations(String),
    /// Bytes are said to change as a whole that are not in one pool.
    Whole {
        /// The first.
        start: u64,
        /// How many.
        bytes: u64,
        /// Who says so.
        at: At,
    },
}

/// What is to be kept of a run.
#[derive(Clone, Debug, Default)]
pub struct Keeps {
    /// Points, by number.
    pub points: BTreeSet<u64>,
    /// Images between operations.
    pub boundaries: BTreeSet<usize>,
    /// Machines as episodes of operations begin.
    pub episodes: BTreeSet<u64>,
    /// Stores of which it is of interest when they become durable, by how much was retired before them.
    pub fates: Arc<BTreeSet<u64>>,
    /// What of its flushes and fences is of interest.
    pub windows: Arc<Vec<Window>>,
}

/// The watcher.
#[derive(Clone)]
pub struct Recorder {
    pending: Pending,
    /// What is seen of flushes and fences.
    pub windows: Windows,
    /// Persistent memory, if the power failed now and nothing that is pending were there.
    pub durable: Pool,
    keeps: Arc<Keeps>,
    /// Points so far.
    pub points: u64,
    /// Those that the machine has come back for.
    pub seen: Vec<Seen>,
    /// Kept since somebody took them.
    pub kept: Vec<Point>,
    /// Images between operations that are needed, in their order, since somebody took them.
    pub boundaries: Vec<(usize, Pool, u64)>,
    boundary_count: usize,
    /// All operations.
    pub operations: Vec<Operation>,
    open: BTreeMap<ThreadId, usize>,
    phase: Phase,
    marks: u64,
    episode: u64,
    /// An episode has begun that is to be kept.
    pub episode_begins: bool,
    /// Bytes that the program says are whole.
    pub wholes: BTreeMap<Whole, u64>,
    /// Something may be found that could not be found at the last point, or has to be.
    is_new: bool,
    /// Something was stored since the last boundary.
    changed: bool,
    table: u64,
    /// The first mistake of the program's in telling of itself.
    pub mistake: Option<Mistake>,
    /// What costs time and makes nothing durable.
    pub waste: Waste,
    /// What is read of it.
    pub read: Read,
    /// By whom it was stored.
    pub stored: Stored,
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
            windows: Windows::new(model, &keeps.windows),
            durable,
            keeps,
            points: 0,
            seen: Vec::new(),
            kept: Vec::new(),
            boundaries: Vec::new(),
            boundary_count: 0,
            operations: Vec::new(),
            open: BTreeMap::new(),
            phase: Phase::default(),
            marks: 0,
            episode: 0,
            episode_begins: false,
            wholes: BTreeMap::new(),
            is_new: false,
            changed: true,
            table: 0,
            mistake: None,
            waste: Waste::default(),
            read: Read::default(),
            stored: Stored::default(),
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
        self.seen.push(Seen { number, phase });
        if self.keeps.points.contains(&number) {
            self.kept.push(Point {
                number,
                reason,
                at: *at,
                until: self.until(at),
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
            self.is_mistaken(format!(
                "operation {number} begins before operation {open} of the same thread has ended"
            ));
        }
        let before = self.boundary(pool);
        let overlaps = !self.open.is_empty();
        if !overlaps {
            self.episode += 1;
            self.episode_begins = self.keeps.episodes.contains(&self.episode);
        }
        for &open in self.open.values() {
            self.operations[open].overlaps = true;
        }
        self.open.insert(at.thread, self.operations.len());
        self.operations.push(Operation {
            number,
            after: None,
            overlaps,
            thread: at.thread,
            began: self.marks,
            ended: None,
            episode: self.episode,
        });
        self.marks += 1;
        self.phase = Phase {
            before: Some(before),
            operation: Some(self.operations.len() - 1),
            several: overlaps,
            marks: self.marks,
            episode: Some(self.episode),
        };
        self.is_new = true;
        found | self.episode_begins
    }

    fn ends(&mut self, pool: &Pool, at: &At) {
        let Some(open) = self.open.remove(&at.thread) else {
            self.is_mistaken("an operation ends that has not begun".into());
            return;
        };
        let after = self.boundary(pool);
        self.marks += 1;
        let operation = &mut self.operations[open];
        operation.after = Some(after);
        operation.ended = Some(self.marks);
        let is_quiet = self.open.is_empty();
        self.phase = Phase {
            before: is_quiet.then_some(after),
            operation: None,
            several: !is_quiet,
            marks: self.marks,
            episode: (!is_quiet).then_some(self.episode),
        };
        self.is_new = true;
    }

    fn is_mistaken(&mut self, of_operations: String) {
        (self.mistake).get_or_insert(Mistake::Operations(of_operations));
    }

    /// Bytes change as a whole from now on.
    fn is_whole(&mut self, pool: &Pool, (start, bytes): Piece, whole: &[Piece], at: &At) {
        let is_in_pool = |&(start, bytes): &Piece| {
            let ends = [start, start + bytes - 1];
            ends.iter().all(|&end| pool.offset_of(end).is_some())
        };
        if bytes == 0 {
            return;
        }
        if whole.is_empty() || !whole.iter().all(is_in_pool) {
            let at = *at;
            (self.mistake).get_or_insert(Mistake::Whole { start, bytes, at });
            return;
        }
        self.wholes.entry(whole.to_vec()).or_insert(at.retired);
    }

    /// Who has an operation under way, with the program's number for it.
    pub fn under_way(&self) -> impl Iterator<Item = (ThreadId, u64)> {
        let open = self.open.iter();
        open.map(|(&thread, &open)| (thread, self.operations[open].number))
    }

    /// Moments so far at which an operation has begun while no other one was under way.
    pub fn episode(&self) -> u64 {
        self.episode
    }

    /// Which table of pools there is.
    pub fn table(&self) -> u64 {
        self.table
    }

    /// How long the run is until there.
    fn until(&self, at: &At) -> Until {
        Until {
            instructions: at.retired,
            operations: self.operations.len() as u64,
        }
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
            until: self.until(at),
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
            self.is_mistaken(format!(
                "operation {number} begins, and has not ended when the program ends"
            ));
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
    const LOCATES: bool = true;

    fn loads(&mut self, _: &Pool, address: u64, length: usize) -> bool {
        self.read.add(address, length);
        true
    }

    fn stores(&mut self, pool: &Pool, address: u64, bytes: &[u8], at: &At) {
        let (line, offset) = (address & !(LINE - 1), (address % LINE) as usize);
        let found = pool.line(line).0;
        self.stores += 1;
        self.pending.store(line, &found, (offset, bytes), at);
        self.stored.add(address, bytes.len(), at);
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

    fn flushes(&mut self, address: u64, how: Flush, at: &At) -> bool {
        let line = address & !(LINE - 1);
        if how == Flush::Instruction(CacheBlock::Zero) {
            return true;
        }
        self.flushes += 1;
        if let (Flush::Instruction(_), Some(again)) = (how, self.pending.is_clean(line)) {
            self.waste.flushes(at, again);
        }
        let found = self.pending.would_settle(line, how) && self.point(Reason::Flush, at);
        (self.windows).flushes(line, Some(how), at, self.points);
        self.settle(|pending, durable| pending.flush(line, how, at, durable));
        !found
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
        self.windows.fences(Some(wait), at, self.points);
        self.waste.waited(at.thread);
        self.settle(|pending, durable| pending.wait(wait, at, durable));
        !found
    }

    fn marks(&mut self, pool: &Pool, mark: Mark, whole: &[Piece], at: &At) -> bool {
        match mark {
            Mark::OperationBegins { number } => return !self.begins(pool, number, at),
            Mark::OperationEnds => self.ends(pool, at),
            Mark::Atomic { start, bytes } => self.is_whole(pool, (start, bytes), whole, at),
        }
        true
    }
}
