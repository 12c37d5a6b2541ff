//! The part of a campaign in which power fails again.
//!
//! Always true here: which recoveries are cut follows from their call stacks and their order.

use std::collections::{BTreeMap, BTreeSet};

use super::{Campaign, explorer};
use crate::crash_check::cause::{self, Cause};
use crate::crash_check::done::Outline;
use crate::crash_check::explore::{Choices, Explored, Explorer};
use crate::crash_check::nested::{Inner, Watched};
use crate::error::Error;
use crate::parallel;

/// Points of recoveries that are explored from each call stack, and causes that are looked for at each.
const INNER: u64 = 12;
const INNER_CAUSES: usize = 4;

impl Campaign<'_> {
    /// Points of recoveries that went well, as far as there are not enough from their call stacks.
    pub(super) fn inner_points(
        &mut self,
        choices: &[Choices],
        explored: &[Explored],
    ) -> Result<Vec<Inner>, Error> {
        if !self.asked.nested {
            return Ok(Vec::new());
        }
        let well: Vec<Watched> = (choices.iter().zip(explored))
            .flat_map(|(choices, one)| {
                (one.well.iter()).map(move |(which, found)| Watched {
                    which: *which,
                    choices,
                    found,
                })
            })
            .collect();
        let (recoveries, model, jobs) = (&self.recoveries, self.asked.model, self.asked.jobs());
        let stacks = parallel::map(jobs, &well, |one| one.stacks(recoveries, model))?;
        let mut few = Vec::new();
        for (one, stacks) in well.iter().zip(stacks) {
            let wanted = stacks.into_iter().filter(|(_, stack)| {
                let count = self
                    .done
                    .inner_stacks
                    .entry((one.which, *stack))
                    .or_default();
                *count += 1;
                *count <= INNER
            });
            let numbers: BTreeSet<u64> = wanted.map(|(number, _)| number).collect();
            if !numbers.is_empty() {
                few.push((one, numbers));
            }
        }
        let points = parallel::map(jobs, &few, |(one, numbers)| {
            one.points(recoveries, model, numbers.clone())
        })?;
        Ok(points.into_iter().flatten().collect())
    }

    /// Explores points of recoveries.
    pub(super) fn explore_inner(&mut self, inner: &[Inner]) -> Result<(), Error> {
        let model = self.asked.model;
        let explorer = Explorer {
            states: self.asked.states_at_a_point() / 4 + 1,
            ..explorer(self.asked, self.uncut, (&self.recoveries, &self.expected))
        };
        let found = parallel::map(self.asked.jobs(), inner, |inner| {
            let choices = Choices::new(&inner.point, model);
            explorer.recoveries.with_engine(|engine| {
                let explored = explorer.explore(&choices, engine)?;
                let mut causes: BTreeMap<Outline, Option<Cause>> = BTreeMap::new();
                for (outline, failed) in explored.failures.iter().take(INNER_CAUSES) {
                    let cause = cause::find(&explorer, &choices, failed, engine)?;
                    let cause = cause.map(|cause| cause.within(inner, model));
                    causes.insert(outline.clone(), cause);
                }
                Ok((explored, causes))
            })
        })?;
        for (one, (explored, causes)) in inner.iter().zip(found) {
            self.done.inner_points += 1;
            self.done.states += explored.states;
            self.done.failing += explored.failing;
            self.done.instructions += explored.instructions;
            for ((symptom, places), cause) in causes {
                let outline = (format!("power fails again in recovery: {symptom}"), places);
                self.done.fails_at(&outline, one.point.number);
                self.done.found(cause, outline);
            }
        }
        Ok(())
    }
}
