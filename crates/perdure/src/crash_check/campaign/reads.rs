//! What recoveries read, for data that nobody does.
//!
//! Always true here: it is looked at as many points as there are, up to a number, beginning with the first
//! from each call stack; on all that was stored there, and on as little of it as a failure may leave.

use std::collections::BTreeMap;

use super::{Campaign, Choices, Life, Recoveries, Which};
use crate::crash_check::unread::Read;
use crate::error::Error;
use crate::functional::{Engine, Functional, Pool};
use crate::parallel;

/// Points at which it is looked.
const POINTS: usize = 128;

/// Runs one, and says what it has read and what it leaves.
fn read_by(mut machine: Functional, patience: u64, read: &mut Read) -> Pool {
    machine.run(read, &mut Engine::default(), patience);
    machine.pool
}

/// The checker, if there is one, runs on what a recovery left.
fn check_reads(recoveries: &Recoveries, pool: Pool, read: &mut Read) -> Result<(), Error> {
    if recoveries.programs.contains_key(&Which::Check) {
        let machine = recoveries.boot(Which::Check, pool)?;
        read_by(machine, recoveries.patience, read);
    }
    Ok(())
}

/// What everything reads that is started on the pool that the uncut run left.
pub fn on_the_whole_pool(recoveries: &Recoveries, life: &Life) -> Result<Read, Error> {
    let mut read = Read::default();
    for which in recoveries.firsts() {
        let machine = recoveries.boot(which, life.pool.clone())?;
        let left = read_by(machine, recoveries.patience, &mut read);
        if which == Which::Recovery {
            check_reads(recoveries, left, &mut read)?;
        }
    }
    Ok(read)
}

/// The same at a point.
fn at(recoveries: &Recoveries, choices: &Choices) -> Result<Read, Error> {
    let memory = (&choices.point.durable, choices.point.table);
    let oldest = choices
        .lines
        .iter()
        .map(|(&line, all)| (line, all.len() - 1));
    let mut read = Read::default();
    for versions in [BTreeMap::default(), oldest.collect()] {
        for which in recoveries.firsts() {
            let life = recoveries.start(which, memory, &choices.decided(&versions))?;
            let left = read_by(life.into_machine(), recoveries.patience, &mut read);
            if which == Which::Recovery {
                check_reads(recoveries, left, &mut read)?;
            }
        }
    }
    Ok(read)
}

impl Campaign<'_> {
    /// Looks at what is read at some points.
    pub(super) fn look_who_reads(&mut self, choices: &[Choices]) -> Result<(), Error> {
        let room = POINTS.saturating_sub(self.done.points as usize);
        let choices = &choices[..room.min(choices.len())];
        let reads = parallel::map(self.asked.jobs(), choices, |choices| {
            at(&self.recoveries, choices)
        })?;
        for read in &reads {
            self.done.read.merge(read);
        }
        Ok(())
    }
}
