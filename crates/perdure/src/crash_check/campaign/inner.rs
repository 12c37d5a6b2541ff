//! The part of a campaign in which power fails again.
//!
//! Always true here: which recoveries are cut follows from their call stacks and their order.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::visit::{Visited, well};
use super::{Book, Campaign, explorer};
use crate::crash_check::cause::Cause;
use crate::crash_check::done::Outline;
use crate::crash_check::explore::{Choices, Explored, Explorer};
use crate::crash_check::nested::Inner;
use crate::crash_check::search;
use crate::error::Error;
use crate::parallel;

/// What comes of a point of a recovery: what is found there, and the causes of the first failures.
#[derive(Clone, Serialize, Deserialize)]
pub struct Within {
    explored: Explored,
    causes: BTreeMap<Outline, Option<Cause>>,
}

/// Points of recoveries that are explored from each call stack, and causes that are looked for at each.
const INNER: u64 = 12;
const INNER_CAUSES: usize = 4;

impl Campaign<'_> {
    /// Points of recoveries that went well, as far as there are not enough from their call stacks.
    pub(super) fn inner_points(
        &mut self,
        choices: &[Choices],
        visited: &[Visited],
    ) -> Result<Vec<Inner>, Error> {
        if !self.asked.nested {
            return Ok(Vec::new());
        }
        let well = (choices.iter().zip(visited))
            .flat_map(|(choices, one)| well(choices, &one.explored).zip(&one.stacks));
        let mut few = Vec::new();
        for (one, stacks) in well {
            let wanted = stacks.iter().filter(|(_, stack)| {
                let count = self
                    .book
                    .done
                    .inner_stacks
                    .entry((one.which, *stack))
                    .or_default();
                *count += 1;
                *count <= INNER
            });
            let numbers: BTreeSet<u64> = wanted.map(|(number, _)| *number).collect();
            if !numbers.is_empty() {
                few.push((one, numbers));
            }
        }
        let (recoveries, model, jobs) = (&self.recoveries, self.asked.model, self.asked.jobs());
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
            ..explorer(
                self.asked,
                self.uncut,
                (&self.recoveries, &self.expected),
                &self.timely,
            )
        };
        let Book {
            done,
            shares,
            is_torn,
            ..
        } = &mut *self.book;
        let run = self.uncut.number;
        let key = |inner: &Inner| {
            let within = (inner.which, inner.found.clone(), inner.number);
            ((run, inner.point.number), within)
        };
        let how = (shares.part, self.asked.jobs());
        let found = shares.within.map(how, inner, key, |inner| {
            let choices = Choices::new(&inner.point, model);
            explorer.recoveries.with_engine(|engine| {
                let explored = explorer.explore(&choices, engine)?;
                let mut causes: BTreeMap<Outline, Option<Cause>> = BTreeMap::new();
                for (outline, failed) in explored.failures.iter().take(INNER_CAUSES) {
                    let cause = search::find(&explorer, &choices, failed, engine)?;
                    let cause = cause.map(|cause| cause.within(inner, model));
                    causes.insert(outline.clone(), cause);
                }
                Ok(Within { explored, causes })
            })
        })?;
        // Who goes on from what is kept explores these again.
        *is_torn |= shares.part.is_none() && found.iter().any(Option::is_none);
        let found = inner.iter().zip(found);
        for (one, found) in found.filter_map(|(one, found)| Some((one, found?))) {
            let Within { explored, causes } = found;
            done.inner_points += 1;
            done.states += explored.states;
            done.failing += explored.failing;
            done.instructions += explored.instructions;
            for ((symptom, places), cause) in causes {
                let outline = (format!("power fails again in recovery: {symptom}"), places);
                done.fails_at(&outline, one.point.number);
                done.found(cause, outline);
            }
        }
        Ok(())
    }
}
