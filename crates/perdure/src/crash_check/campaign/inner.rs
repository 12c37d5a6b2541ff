//! The part of a campaign in which power fails again.
//!
//! Always true here: which recoveries are cut follows from their call stacks and their order.

use std::collections::BTreeMap;

use super::Campaign;
use crate::crash_check::cause::{self, Cause};
use crate::crash_check::done::Outline;
use crate::crash_check::explore::{Choices, Explored, Explorer};
use crate::crash_check::nested::{self, Inner};
use crate::crash_check::recovery::Which;
use crate::error::Error;
use crate::functional::Engine;
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
        let well: Vec<(&Choices, Which, &BTreeMap<u64, usize>)> = (choices.iter().zip(explored))
            .flat_map(|(choices, one)| {
                one.well
                    .iter()
                    .map(move |(which, found)| (choices, *which, found))
            })
            .collect();
        let (recoveries, model) = (&self.recoveries, self.asked.model);
        let all = parallel::map(self.asked.jobs(), &well, |(choices, which, found)| {
            nested::points_of(
                recoveries,
                model,
                *which,
                choices,
                found,
                &mut Engine::default(),
            )
        })?;
        let few = all.into_iter().flatten().filter(|inner| {
            let count = self
                .done
                .inner_stacks
                .entry((inner.which, inner.stack))
                .or_default();
            *count += 1;
            *count <= INNER
        });
        Ok(few.collect())
    }

    /// Explores points of recoveries.
    pub(super) fn explore_inner(&mut self, inner: &[Inner]) -> Result<(), Error> {
        let model = self.asked.model;
        let explorer = Explorer {
            recoveries: &self.recoveries,
            expected: &self.expected,
            states: self.asked.states_at_a_point() / 4 + 1,
            seed: self.asked.seed(),
            schedule: self.uncut.number,
        };
        let found = parallel::map(self.asked.jobs(), inner, |inner| {
            let choices = Choices::new(&inner.point, model);
            let mut engine = Engine::default();
            let explored = explorer.explore(&choices, &mut engine)?;
            let mut causes: BTreeMap<Outline, Option<Cause>> = BTreeMap::new();
            for (outline, failed) in explored.failures.iter().take(INNER_CAUSES) {
                let cause = cause::find(&explorer, &choices, failed, &mut engine)?;
                let cause = cause.map(|cause| cause.within(inner));
                causes.insert(outline.clone(), cause);
            }
            Ok((explored, causes))
        })?;
        for (explored, causes) in found {
            self.done.inner_points += 1;
            self.done.states += explored.states;
            self.done.failing += explored.failing;
            self.done.instructions += explored.instructions;
            for ((symptom, places), cause) in causes {
                let outline = (format!("power fails again in recovery: {symptom}"), places);
                *self.done.outlines.entry(outline.clone()).or_default() += 1;
                self.done.found(cause, outline);
            }
        }
        Ok(())
    }
}
