//! The machine between two rounds of its loop, and inside a block: for a debugger.
//!
//! Always true here: a machine that was run into a block only shows what it is there. It never goes on; the
//! one that it was forked from does.

use perdure_hardware::time::Cycles;
use perdure_linux::Running;

use super::Machine;
use crate::source::{Exit, Registers, Source};

/// What the next round of a machine does, if that is an instruction's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A hart executes instructions.
    Instructions {
        /// Which.
        hart: usize,
    },
    /// The kernel handles what stopped a hart.
    Handling {
        /// Which.
        hart: usize,
        /// It is a page fault, which may leave the thread where it is.
        fault: bool,
    },
    /// Anything else: an event, the end of a turn or of an epoch.
    Other,
}

impl<S: Source> Machine<S> {
    /// What comes next.
    pub(crate) fn next(&mut self) -> Next {
        let epoch_ends = self.epoch_due.is_some() && self.can_end_epoch();
        let Some(turn) = self.turn.filter(|_| !epoch_ends && !self.finished) else {
            return Next::Other;
        };
        let hart = turn.hart;
        match self.harts[hart].pending {
            Some(exit) => Next::Handling {
                hart,
                fault: matches!(exit, Exit::Fault(_)),
            },
            None if self.is_over(turn) => Next::Other,
            None => Next::Instructions { hart },
        }
    }

    /// A hart's source.
    pub(crate) fn source_mut(&mut self, hart: usize) -> &mut S {
        &mut self.harts[hart].source
    }

    /// What a hart runs.
    pub(crate) fn running(&self, hart: usize) -> Option<Running> {
        self.harts[hart].context.running
    }

    /// A hart's registers.
    pub(crate) fn registers(&self, hart: usize) -> &Registers {
        &self.harts[hart].context.hart
    }

    /// The guest's clock, as a hart reads it.
    pub(crate) fn hart_clock_ns(&self, hart: usize) -> u64 {
        let retired = self.harts[hart].context.hart.retired;
        self.virtual_clock(hart).nanoseconds(retired)
    }

    /// Lets the source of the hart whose turn it is run once, and does nothing that follows from it: only to
    /// be looked at afterwards.
    pub(crate) fn run_part(&mut self) -> Option<Exit> {
        let turn = self.turn?;
        self.see_mappings(turn.hart);
        Some(self.run_source(turn, Cycles::MAX - 1))
    }
}
