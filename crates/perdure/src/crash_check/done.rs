//! What a check has done so far, and what it has found.
//!
//! Always true here: of the same things in the same order, the same is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cause::{self, Cause, Defect};
use super::explore::{Explored, Failed};
use super::orders::Missing;
use super::record::Keeps;
use super::recovery::Which;
use super::uncut::Uncut;
use super::unread::Read;
use super::windows::Window;
use crate::error::Error;

/// What tells failures apart before their causes are known: the symptom, and where the first lost stores are.
pub type Outline = (String, BTreeSet<u64>);

/// What was done.
#[derive(Default, Serialize, Deserialize)]
pub struct Done {
    /// Which run it is at, the first being 0; none before it.
    pub run: Option<u64>,
    /// Points of that run that were explored.
    pub points_of_run: u64,
    /// Of that run: where failures of a kind were seen first, and the first of them there.
    pub earliest: BTreeMap<Outline, (u64, Failed)>,
    /// Points that there are, in all runs.
    pub planned: u64,
    /// The call stacks that they have.
    pub stacks: BTreeSet<u64>,
    /// Points that were explored.
    pub points: u64,
    /// Of these, those of which all was.
    pub exhaustive: u64,
    /// The sum of their coverages.
    pub coverage: f64,
    /// Recoveries.
    pub states: u64,
    /// Those that went wrong.
    pub failing: u64,
    /// Instructions that they took.
    pub instructions: u64,
    /// Points with several operations under way at which nothing is shown.
    pub unjudged: u64,
    /// Those at which what is shown was compared with all orders of the operations.
    pub ordered: u64,
    /// Those at which it was not, by why.
    pub not_compared: BTreeMap<Missing, u64>,
    /// Causes, by their keys: one each, and the kinds of failures that came to it.
    pub causes: BTreeMap<cause::Key, (Cause, Vec<Outline>)>,
    /// Points of recoveries that were explored.
    pub inner_points: u64,
    /// How many were found from each call stack.
    pub inner_stacks: BTreeMap<(Which, u64), u64>,
    /// Failures of which no cause was looked for.
    pub unexplained: u64,
    /// What was read by programs that were started after failures.
    pub read: Read,
    /// At which points, of which run, there were failures of a kind.
    pub outlines: BTreeMap<Outline, BTreeSet<(u64, u64)>>,
    /// What else there is to say.
    pub notices: Vec<String>,
    /// The user has stopped it.
    #[serde(skip)]
    pub interrupted: bool,
    /// A limit has.
    #[serde(skip)]
    pub limited: bool,
    /// Machines that were cut, and how often that went wrong.
    #[serde(skip)]
    pub rounds: Vec<Value>,
    /// What came of cuts of the machine as it is, beside a check by a model.
    #[serde(skip)]
    pub on_machine: Option<Value>,
}

impl Done {
    /// Looks up where the stores of a run's causes are, and what makes them durable in the end.
    pub fn look_up(&mut self, uncut: &Uncut) -> Result<(), Error> {
        let causes = || self.causes.values().map(|(cause, _)| cause);
        let unknown = || causes().filter(|cause| cause.stack.is_none());
        let stores = unknown().flat_map(|cause| &cause.lost);
        let lost = stores.map(|one| one.store.at.retired).collect();
        let windows: Vec<Window> = unknown().map(|cause| self.window(cause)).collect();
        if windows.is_empty() {
            return Ok(());
        }
        let recorder = uncut.recorded(Keeps {
            fates: Arc::new(lost),
            windows: Arc::new(windows),
            ..Keeps::default()
        })?;
        let fates = recorder.fates();
        let causes = self.causes.values_mut().map(|(cause, _)| cause);
        let mut unknown: Vec<&mut Cause> = causes.filter(|cause| cause.stack.is_none()).collect();
        let mut moments: BTreeSet<u64> = fates.values().map(|at| at.retired).collect();
        let mut words: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (cause, events) in unknown.iter_mut().zip(recorder.windows.events()) {
            cause.events = events;
            moments.extend(cause.moments());
            for (retired, of_cause) in cause.words() {
                words.entry(retired).or_default().extend(of_cause);
            }
        }
        let (stacks, parts) = uncut.stacks_and_parts(moments, &words)?;
        for cause in unknown {
            cause.look_up(&stacks, fates);
            cause.name_parts(&parts);
        }
        Ok(())
    }

    /// What of the flushes and fences of a run is of interest for a cause: of causes that say the same from
    /// two sides, one is told with the stores of both.
    fn window(&self, cause: &Cause) -> Window {
        let all = self.causes.values().map(|(cause, _)| cause);
        let others = all.filter(|one| cause.kept.is_empty() && one.is_counterpart_of(cause));
        cause.window(others.flat_map(|one| &one.kept))
    }

    /// Comes to a run. True if that is new.
    pub fn comes_to(&mut self, run: u64) -> bool {
        let is_new = self.run != Some(run);
        if is_new {
            self.run = Some(run);
            self.points_of_run = 0;
            self.earliest.clear();
        }
        is_new
    }

    /// Failures of a kind were seen at a point. True if these are the first.
    pub fn seen(&mut self, outline: &Outline, point: u64, failed: &Failed) -> bool {
        let earliest = self.earliest.entry(outline.clone());
        let earliest = earliest.or_insert_with(|| (point, failed.clone()));
        if point < earliest.0 {
            *earliest = (point, failed.clone());
        }
        self.fails_at(outline, point)
    }

    /// There is a failure of a kind at a point of this run. True if it is the first of its kind.
    pub fn fails_at(&mut self, outline: &Outline, point: u64) -> bool {
        let points = self.outlines.entry(outline.clone()).or_default();
        points.insert((self.run.unwrap_or(0), point)) && points.len() == 1
    }

    /// A cause was found for failures of a kind, or none.
    pub fn found(&mut self, cause: Option<Cause>, outline: Outline) {
        let Some(cause) = cause else {
            self.unexplained += 1;
            return;
        };
        let found = self.causes.entry(cause.key());
        let found = found.or_insert_with(|| (cause.clone(), Vec::new()));
        // It says more if it names what it has to be durable before.
        if found.0.kept.is_empty() && !cause.kept.is_empty() {
            found.0 = cause;
        }
        if !found.1.contains(&outline) {
            found.1.push(outline);
        }
    }

    /// Two causes of which each has lost what the other keeps are one: no order would mend both.
    fn join_reverse(&mut self) {
        let mut keys: Vec<cause::Key> = self.causes.keys().cloned().collect();
        while let Some(key) = keys.pop() {
            let is_reverse =
                |other: &&cause::Key| (self.causes[&key].0).is_reverse_of(&self.causes[*other].0);
            let Some(other) = keys.iter().position(|other| is_reverse(&other)) else {
                continue;
            };
            let other = keys.swap_remove(other);
            let both = [&key, &other].map(|key| self.causes.remove(key));
            let mut both: Vec<_> = both.into_iter().flatten().collect();
            both.sort_by_key(|(cause, _)| (cause.point, cause.lost[0].store.at.retired));
            let outlines: Vec<Outline> = (both.iter())
                .flat_map(|(_, outlines)| outlines.clone())
                .collect();
            if let Some((mut cause, _)) = both.into_iter().next() {
                cause.defect = Defect::Torn;
                let known = self.causes.entry(cause.key());
                known.or_insert((cause, Vec::new())).1.extend(outlines);
            }
        }
    }

    /// Leaves out causes that say no more than others do.
    pub fn settle(&mut self) {
        self.join_reverse();
        let all: Vec<(cause::Key, Cause)> = (self.causes.iter())
            .map(|(key, (cause, _))| (key.clone(), cause.clone()))
            .collect();
        for (key, cause) in &all {
            let other = all.iter().find(|(other, one)| {
                other != key
                    && self.causes.contains_key(other)
                    && (cause.is_more_than(one) || cause.is_counterpart_of(one))
            });
            if let (Some((other, _)), Some((cause, outlines))) =
                (other, other.and_then(|_| self.causes.remove(key)))
                && let Some(into) = self.causes.get_mut(other)
            {
                if into.0.kept.is_empty() && cause.lost.is_empty() {
                    into.0.kept = cause.kept;
                }
                into.1.extend(outlines);
            }
        }
    }

    /// How much was looked at, on average over points.
    #[expect(clippy::cast_precision_loss, reason = "a share, for people")]
    pub fn mean_coverage(&self) -> f64 {
        match self.points {
            0 => 1.0,
            points => self.coverage / points as f64,
        }
    }

    /// What came of a point.
    pub fn add(&mut self, explored: &Explored) {
        self.points += 1;
        self.points_of_run += 1;
        self.exhaustive += u64::from(explored.exhaustive);
        self.coverage += explored.coverage;
        self.states += explored.states;
        self.failing += explored.failing;
        self.instructions += explored.instructions;
    }
}
