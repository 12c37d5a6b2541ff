//! Every write that persistent memory has accepted, with its bytes, for whoever wants to know in which order
//! they became durable.
//!
//! Always true here:
//! - Nothing is kept unless somebody asked before the first instruction, and nothing of it changes a run.
//! - Rows come in the order of acceptance. None that comes later is durable before the horizon
//!   ([`Memory::horizon`]): what is dated back, to when it could have been made, is as of the first moment at
//!   which a cut could find it.
//! - Laying the rows that are durable by a time over the bytes that there were at the start, in the order of
//!   their durability and among equals in that of acceptance, gives what the media (and a write queue that
//!   survives) have then; a row between its begin and its end may be there in part.

use std::fmt;

use crate::controller::Served;
use crate::line::LineNumber;
use crate::memory::{Memory, Traffic};
use crate::module::Operation;
use crate::specification::Persistence;
use crate::time::Cycles;

/// A write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistRow {
    /// When it was accepted, when it begins where it survives, and when it survives.
    pub when: [Cycles; 3],
    /// The module.
    pub module: usize,
    /// The first byte's physical address.
    pub address: u64,
    /// The program's line that the bytes belong to.
    pub home: LineNumber,
    /// What they are for.
    pub traffic: Traffic,
    /// The epoch that was executing.
    pub epoch: u64,
    /// In whose turn it was accepted: nobody's if an engine of the design or of a device wrote by itself.
    pub hart: Option<usize>,
    /// What is written.
    pub bytes: Box<[u8]>,
}

/// Who gets the rows.
pub trait RowSink: Send {
    /// Takes rows, all of them.
    fn take(&mut self, rows: &mut Vec<PersistRow>, horizon: Cycles);
}

/// So many rows are kept before the sink gets them.
const KEPT_ROWS: usize = 1024;

/// What is kept of a run's writes on their way to who wants them.
pub struct PersistOrder {
    /// In whose turn the machine is.
    pub hart: Option<usize>,
    /// The epoch that executes.
    pub epoch: u64,
    /// The latest horizon so far: while an epoch cannot end, harts stand where they were, before it.
    horizon: Cycles,
    rows: Vec<PersistRow>,
    sink: Box<dyn RowSink>,
}

impl fmt::Debug for PersistOrder {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.debug_struct("PersistOrder").finish_non_exhaustive()
    }
}

impl PersistOrder {
    /// One that hands rows to that sink.
    pub fn new(sink: Box<dyn RowSink>) -> Self {
        Self {
            hart: None,
            epoch: 0,
            horizon: 0,
            rows: Vec::new(),
            sink,
        }
    }

    fn take(&mut self, mut row: PersistRow, horizon: Cycles) {
        self.horizon = self.horizon.max(horizon);
        for when in &mut row.when[1..] {
            *when = (self.horizon + 1).max(*when);
        }
        self.rows.push(row);
        if self.rows.len() >= KEPT_ROWS {
            self.hand_on(self.horizon);
        }
    }

    /// The sink gets what there is.
    pub fn hand_on(&mut self, horizon: Cycles) {
        self.sink.take(&mut self.rows, horizon);
        self.rows.clear();
    }
}

impl Memory {
    /// A module keeps what a piece of an accepted write displaced, as long as a cut could bring it back.
    /// Memory has the new bytes by now.
    #[inline(always)]
    pub(crate) fn keep_displaced(
        &mut self,
        operation: &Operation,
        written: &Served,
        (address, length): (u64, usize),
    ) {
        if self.persist_order.0.is_some() {
            self.keep_row(operation, written, address, length);
        }
        self.modules[operation.module].wait(written, address, length);
    }

    #[cold]
    fn keep_row(&mut self, operation: &Operation, written: &Served, address: u64, length: usize) {
        let module = &self.modules[operation.module];
        if module.persistence == Persistence::None {
            return;
        }
        let written = module.survives(written);
        let bytes = self.arena.slice(address, length).into();
        let horizon = self.horizon();
        let Some(order) = &mut self.persist_order.0 else {
            return;
        };
        let row = PersistRow {
            when: [written.accepted, written.start, written.done],
            module: operation.module,
            address,
            home: operation.home,
            traffic: operation.traffic,
            epoch: order.epoch,
            hart: order.hart,
            bytes,
        };
        order.take(row, horizon);
    }

    /// Notes when a write begins at the media, and when it is durable.
    #[cold]
    pub(crate) fn note_times(&mut self, written: &Served) {
        if let Some(times) = &mut self.persistence_times {
            times.extend([written.start, written.done]);
        }
    }
}
