//! What recoveries read, for data that nobody does.
//!
//! Always true here: it is looked on all that was stored before a point, and on as little of it as a failure
//! may leave.

use std::collections::BTreeMap;

use super::{Choices, Life, Recoveries, Which};
use crate::crash_check::unread::Read;
use crate::error::Error;
use crate::functional::{Engine, Functional, Pool};

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
pub fn at(recoveries: &Recoveries, choices: &Choices) -> Result<Read, Error> {
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
