//! Power fails again while a program recovers.
//!
//! Always true here: what an inner failure leaves is judged as what the outer one left, for nothing new has
//! been acknowledged in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::explore::Choices;
use super::record::{Keeps, Phase, Point, Recorder};
use super::recovery::{Recoveries, Which};
use super::rules::Model;
use super::uncut::stack_digest;
use crate::error::Error;
use crate::functional::{Functional, Stop};

/// A recovery in which power fails.
#[derive(Clone)]
pub struct Inner {
    /// What recovers.
    pub which: Which,
    /// What the recovery found: lines with their versions, else the newest.
    pub found: BTreeMap<u64, usize>,
    /// A point of it.
    pub point: Point,
    /// Its place among all of that recovery.
    pub number: u64,
    /// Its call stack.
    pub stack: u64,
    /// The machine that began to recover.
    pub began: Arc<Functional>,
}

/// The failure points of a recovery that finds this.
pub fn points_of(
    recoveries: &Recoveries,
    model: Model,
    which: Which,
    choices: &Choices,
    found: &BTreeMap<u64, usize>,
) -> Result<Vec<Inner>, Error> {
    let outer = choices.point;
    let life = recoveries.start(
        which,
        (&outer.durable, outer.table),
        &choices.decided(found),
    )?;
    let began = Arc::new(life.into_machine());
    let mut machine = (*began).clone();
    let keeps = Keeps {
        all: true,
        ..Keeps::default()
    };
    let mut recorder = Recorder::new(model, machine.pool.clone(), Arc::new(keeps));
    let mut stacks = Vec::new();
    while let Stop::Watcher = machine.run_plainly(&mut recorder, recoveries.patience) {
        for _ in recorder.seen.drain(..) {
            stacks.push(stack_digest(&machine));
        }
    }
    let inner = recorder.kept.into_iter().zip(stacks);
    inner
        .map(|(point, stack)| {
            // A recovery that has changed the table of pools leaves one that nobody has seen.
            let table = match point.table {
                0 => outer.table,
                _ => recoveries.new_table(),
            };
            Ok(Inner {
                which,
                found: found.clone(),
                number: point.number,
                point: Point {
                    phase: phase_of(&point.phase, &outer.phase),
                    number: outer.number,
                    table,
                    ..point
                },
                stack,
                began: Arc::clone(&began),
            })
        })
        .collect()
}

/// The operations around a point of a recovery: those around the outer one, unless the recovery has gone on
/// with operations of its own.
fn phase_of(inner: &Phase, outer: &Phase) -> Phase {
    if *inner == Phase::default() {
        return *outer;
    }
    Phase {
        several: true,
        ..Phase::default()
    }
}
