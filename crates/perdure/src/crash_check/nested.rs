//! Power fails again while a program recovers.
//!
//! Always true here: what an inner failure leaves is judged as what the outer one left, for nothing new has
//! been acknowledged in between.

use std::collections::{BTreeMap, BTreeSet};
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
    /// The machine that began to recover.
    pub began: Arc<Functional>,
}

/// A recovery that is to be watched: which, and what it finds.
pub struct Watched<'c> {
    /// What recovers.
    pub which: Which,
    /// Where power failed first.
    pub choices: &'c Choices<'c>,
    /// Lines with their versions, else the newest.
    pub found: &'c BTreeMap<u64, usize>,
}

/// Lets a machine recover, and keeps some of its points. The numbers and call stacks of all of them.
fn watch(
    recoveries: &Recoveries,
    model: Model,
    (machine, keeps): (&mut Functional, Keeps),
) -> (Vec<Point>, Vec<(u64, u64)>) {
    let mut recorder = Recorder::new(model, machine.pool.clone(), Arc::new(keeps));
    let mut stacks = Vec::new();
    recoveries.with_watching_engine(|engine| {
        while let Stop::Watcher = machine.run(&mut recorder, engine, recoveries.patience) {
            let seen = recorder.seen.drain(..);
            stacks.extend(seen.map(|seen| (seen.number, stack_digest(machine))));
        }
    });
    (recorder.kept, stacks)
}

impl Watched<'_> {
    /// The machine that begins to recover.
    fn began(&self, recoveries: &Recoveries) -> Result<Functional, Error> {
        let outer = self.choices.point;
        let lines = self.choices.decided(self.found);
        recoveries.begin(self.which, (&outer.durable, outer.table), &lines)
    }

    /// The numbers of its failure points, with their call stacks.
    pub fn stacks(&self, recoveries: &Recoveries, model: Model) -> Result<Vec<(u64, u64)>, Error> {
        let mut machine = self.began(recoveries)?;
        Ok(watch(recoveries, model, (&mut machine, Keeps::default())).1)
    }

    /// Some of its failure points, by number.
    pub fn points(
        &self,
        recoveries: &Recoveries,
        model: Model,
        numbers: BTreeSet<u64>,
    ) -> Result<Vec<Inner>, Error> {
        let began = Arc::new(self.began(recoveries)?);
        let mut machine = (*began).clone();
        let keeps = Keeps {
            points: numbers,
            ..Keeps::default()
        };
        let (kept, _) = watch(recoveries, model, (&mut machine, keeps));
        let outer = self.choices.point;
        let inner = kept.into_iter().map(|point| {
            // A recovery that has changed the table of pools leaves one that nobody has seen.
            let table = match point.table {
                0 => outer.table,
                _ => recoveries.new_table(),
            };
            Inner {
                which: self.which,
                found: self.found.clone(),
                number: point.number,
                point: Point {
                    phase: phase_of(&point.phase, &outer.phase),
                    number: outer.number,
                    until: outer.until,
                    table,
                    ..point
                },
                began: Arc::clone(&began),
            }
        });
        Ok(inner.collect())
    }
}

/// The operations around a point of a recovery: those around the outer one, unless the recovery has gone on
/// with operations of its own.
pub fn phase_of(inner: &Phase, outer: &Phase) -> Phase {
    if *inner == Phase::default() {
        return *outer;
    }
    Phase {
        several: true,
        ..Phase::default()
    }
}
