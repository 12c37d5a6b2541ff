//! A whole check: survey, points in an order of their own, recoveries by several host threads, causes.
//!
//! Always true here: what is done next follows from what was done before and never from how fast it was,
//! unless there is a limit in minutes.

mod inner;
mod overlaps;
mod reads;
mod shorten;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use perdure_hardware::random::Random;
use serde_json::Value;

use super::cause;
use super::done::{Done, Outline};
use super::explore::{Choices, Explorer, Failed};
use super::kept::Keeper;
use super::memory::Memory;
use super::oracle::Expected;
use super::record::{Keeps, Point};
use super::recovery::{End, Life, Recoveries, Which};
use super::report;
use super::rules::Model;
use super::uncut::{Surveyed, Uncut};
use super::{Asked, Prepared, machine, refused};
use crate::error::Error;
use crate::functional::{Engine, Pool};
use crate::observer::Observer;
use crate::parallel;
use crate::restart::last_lines_of;

/// Points that are explored between two looks at what they came to.
const BATCH: usize = 64;
/// Points for which the run is run once more.
const ROUND: usize = 1024;
/// Causes that are looked for.
const CAUSES: usize = 400;
/// Orders of a program's threads that are tried, unless told otherwise.
const SCHEDULES: u64 = 4;

/// Runs a check.
pub fn run(
    asked: &Asked,
    prepared: &Prepared,
    observer: &dyn Observer,
    started: Instant,
) -> Result<Value, Error> {
    let Some(surveyed) = prepared.uncut.survey(observer)? else {
        return refused("interrupted before the program had ended; nothing was checked");
    };
    is_checkable(asked, &surveyed)?;
    let memory = Memory::new(asked.memory);
    memory.suffices(asked.jobs())?;
    let patience = asked.patience_for(surveyed.life.instructions);
    let mut recoveries = prepared.recoveries(patience, &surveyed.mapped, memory.clone());
    let patience = asked.patience_for(on_the_whole_pool(&recoveries, &surveyed)?);
    recoveries.patience = patience;
    let schedules = if surveyed.machine.has_threads {
        asked.schedules.unwrap_or(SCHEDULES)
    } else {
        1
    };
    if asked.model == Model::Machine {
        let mut done = Done::default();
        let how = (patience, &surveyed.mapped);
        machine::run(asked, prepared, how, (observer, started), &mut done)?;
        return report::of(asked, &surveyed, 1, &done, observer);
    }
    let (mut keeper, mut done) = match &asked.keep {
        None => (None, Done::default()),
        Some(path) => {
            let (keeper, done) = Keeper::open(path, asked, &surveyed)?;
            (Some(keeper), done)
        }
    };
    let whole = reads::on_the_whole_pool(&recoveries, &surveyed.life)?;
    done.read.merge(&whole);
    let begun = done.run.unwrap_or(0);
    if begun == 0 {
        explore(
            asked,
            &prepared.uncut,
            (recoveries, observer, started),
            &surveyed,
            (&mut done, keeper.as_mut()),
        )?;
    }
    explore_orders(
        (asked, prepared),
        u64::max(begun, 1)..schedules,
        (patience, memory),
        (observer, started),
        (&mut done, keeper.as_mut()),
    )?;
    done.settle();
    if let Some(cuts) = asked.cuts.filter(|_| !done.interrupted) {
        let how = (patience, &surveyed.mapped, cuts);
        machine::beside(asked, prepared, how, observer, &mut done)?;
    }
    report::of(asked, &surveyed, schedules, &done, observer)
}

/// Explores the run again with its threads in these other orders.
fn explore_orders(
    (asked, prepared): (&Asked, &Prepared),
    schedules: Range<u64>,
    (patience, memory): (u64, Memory),
    (observer, started): (&dyn Observer, Instant),
    (done, mut keeper): (&mut Done, Option<&mut Keeper>),
) -> Result<(), Error> {
    for schedule in schedules {
        let uncut = prepared.uncut.with_schedule(schedule);
        let Some(surveyed) = uncut.survey(observer)? else {
            done.interrupted = true;
            break;
        };
        if let Err(Error::Request(why)) = is_checkable(asked, &surveyed) {
            let order =
                format!("with its threads in another order (--schedules, number {schedule})");
            done.notices.push(format!("{order}: {why}"));
            continue;
        }
        // Another order of the threads is another run, which leaves other tables of pools.
        let recoveries = prepared.recoveries(patience, &surveyed.mapped, memory.clone());
        explore(
            asked,
            &uncut,
            (recoveries, observer, started),
            &surveyed,
            (done, keeper.as_deref_mut()),
        )?;
    }
    Ok(())
}

/// Explores one run.
fn explore(
    asked: &Asked,
    uncut: &Uncut,
    (recoveries, observer, started): (Recoveries, &dyn Observer, Instant),
    surveyed: &Surveyed,
    (done, keeper): (&mut Done, Option<&mut Keeper>),
) -> Result<(), Error> {
    let mut campaign = Campaign {
        asked,
        uncut,
        recoveries,
        observer,
        started,
        expected: Expected {
            operations: Arc::new(surveyed.recorder.operations.clone()),
            wholes: surveyed.recorder.wholes.clone(),
            invariant: asked.invariant,
            ..Expected::default()
        },
        done,
        keeper,
    };
    campaign.explore_all(surveyed)?;
    campaign.keep(true)?;
    campaign.shorten(surveyed)?;
    campaign.done.look_up(uncut)
}

/// Refuses what no check can be made of.
fn is_checkable(asked: &Asked, surveyed: &Surveyed) -> Result<(), Error> {
    let recorder = &surveyed.recorder;
    if surveyed.life.end != End::Status(0) {
        return refused(format!(
            "check: the program itself fails, with no power cut at all: {}{}",
            words(&surveyed.life.end),
            said(&surveyed.life)
        ));
    }
    if recorder.stores == 0 {
        return refused(
            "check: the program never stores to persistent memory: have it keep its data in a file below /pmem, which it maps shared or writes",
        );
    }
    match &recorder.mistake {
        Some(mistake) => {
            let by = match asked.operations.as_slice() {
                [] => "perdure_op_begin, perdure_op_end",
                _ => "--operations: a function that is not left by returning from it",
            };
            refused(format!("check: {mistake} ({by})"))
        }
        None => Ok(()),
    }
}

/// How something ended, in words.
pub fn words(end: &End) -> String {
    match end {
        End::Status(status) => format!("exit status {status}"),
        End::Signal { name, cause, .. } => format!("{name}: {cause}"),
        End::Hangs(instructions) => format!("it had not ended after {instructions} instructions"),
        End::Deadlock => "every thread waits for ever".into(),
        End::NotStarted(why) => format!("it cannot be started: {why}"),
    }
}

/// The last lines that it wrote, for a message.
fn said(life: &Life) -> String {
    let lines = last_lines_of(&[life.output.as_slice(), &life.error].concat());
    if lines.is_empty() {
        return String::new();
    }
    format!("; it wrote last: {lines}")
}

/// Everything has to go well on the pool that the run leaves in the end, if all of it is durable. Returns the
/// most instructions that a program takes there.
fn on_the_whole_pool(recoveries: &Recoveries, surveyed: &Surveyed) -> Result<u64, Error> {
    let (mut pool, mut most) = (surveyed.machine.pool.clone(), 0);
    for &which in recoveries.programs.keys() {
        let from = match which {
            Which::Dump => surveyed.machine.pool.clone(),
            Which::Recovery | Which::Check => pool.clone(),
        };
        let life = recoveries.run_on(which, from, &mut Engine::default())?;
        if life.end != End::Status(0) {
            return refused(format!(
                "check: {} fails on the pool that the program leaves, with no power cut at all: {}{}",
                which.name(),
                words(&life.end),
                said(&life)
            ));
        }
        most = most.max(life.instructions);
        if which == Which::Recovery {
            pool = life.pool;
        }
    }
    Ok(most)
}

/// Who explores the points of a run.
fn explorer<'e>(
    asked: &Asked,
    uncut: &Uncut,
    (recoveries, expected): (&'e Recoveries, &'e Expected),
) -> Explorer<'e> {
    Explorer {
        recoveries,
        expected,
        states: asked.states_at_a_point(),
        seed: asked.seed(),
        schedule: uncut.number,
    }
}

/// What is done with a batch of points; false if that is enough.
type Visit<'v, C> = dyn FnMut(&mut C, &[Point]) -> Result<bool, Error> + 'v;

/// A check under way.
struct Campaign<'c> {
    asked: &'c Asked,
    uncut: &'c Uncut,
    recoveries: Recoveries,
    observer: &'c dyn Observer,
    started: Instant,
    expected: Expected,
    done: &'c mut Done,
    keeper: Option<&'c mut Keeper>,
}

impl Campaign<'_> {
    /// Explores the first point from each call stack, and then the others by chance.
    fn explore_all(&mut self, surveyed: &Surveyed) -> Result<(), Error> {
        let (mut stacks, mut first, mut others) = (BTreeSet::new(), Vec::new(), Vec::new());
        for (number, (_, stack)) in surveyed.points.iter().enumerate() {
            if stacks.insert(*stack) {
                first.push(number);
            } else {
                others.push(number);
            }
        }
        let mut random = Random::new(self.asked.seed());
        for place in (1..others.len()).rev() {
            others.swap(place, random.below(place as u64 + 1) as usize);
        }
        if self.done.comes_to(self.uncut.number) {
            self.done.planned += surveyed.points.len() as u64;
            self.done.stacks.extend(&stacks);
        }
        let mut before = self.done.points_of_run as usize;
        for points in first.chunks(ROUND).chain(others.chunks(ROUND)) {
            if before >= points.len() {
                before -= points.len();
                continue;
            }
            if !self.goes_on() {
                break;
            }
            // Points before these were explored when the check was interrupted.
            let mut known = std::mem::take(&mut before);
            self.round(surveyed, points, &mut |campaign, batch| {
                let new = &batch[known.min(batch.len())..];
                known -= batch.len() - new.len();
                if new.is_empty() {
                    return Ok(true);
                }
                let goes_on = campaign.goes_on();
                if goes_on {
                    campaign.explore(new)?;
                    campaign.keep(false)?;
                }
                Ok(goes_on)
            })?;
        }
        self.done.limited = !self.done.interrupted && self.done.points < self.done.planned;
        Ok(())
    }

    /// Whether there is time for more.
    fn goes_on(&mut self) -> bool {
        self.done.interrupted |= self.observer.interrupted();
        let minutes = self.started.elapsed().as_secs_f64() / 60.0;
        !self.done.interrupted
            && self
                .asked
                .states
                .is_none_or(|states| self.done.states < states)
            && self.asked.minutes.is_none_or(|most| minutes < most)
    }

    /// Writes what was done where it is kept.
    fn keep(&mut self, is_last: bool) -> Result<(), Error> {
        match &mut self.keeper {
            Some(keeper) => keeper.write(self.done, is_last),
            None => Ok(()),
        }
    }

    /// Runs the program again, for some of its points, which are visited in batches; as long as whoever
    /// visits them says so.
    fn round(
        &mut self,
        surveyed: &Surveyed,
        points: &[usize],
        visit: &mut Visit<Self>,
    ) -> Result<(), Error> {
        let has_images = !self.expected.wholes.is_empty();
        let needs_dumps = self.recoveries.programs.contains_key(&Which::Dump);
        let mut keeps = Keeps::default();
        for &number in points {
            let (seen, _) = &surveyed.points[number];
            keeps.points.insert(seen.number);
            if has_images || needs_dumps {
                keeps
                    .boundaries
                    .extend(self.expected.boundaries(&seen.phase));
            }
            if needs_dumps {
                let orders = self.expected.orders_of(&seen.phase);
                keeps.episodes.extend(orders.map(|(episode, _)| episode));
            }
        }
        let mut following = self.uncut.follow(Arc::new(keeps))?;
        let mut waiting: Vec<Point> = Vec::new();
        let mut reached = 0;
        while !following.is_over() {
            following.go_on(|_, recorder| recorder.kept.len() < BATCH)?;
            let recorder = following.recorder();
            waiting.append(&mut recorder.kept);
            let images = std::mem::take(&mut recorder.boundaries);
            reached = images.last().map_or(reached, |(number, ..)| number + 1);
            if needs_dumps {
                self.dump(&images)?;
            }
            if has_images {
                let images = images.into_iter().map(|(number, pool, _)| (number, pool));
                self.expected.images.extend(images);
            }
            let over = following.is_over();
            let known = |point: &Point| {
                let mut boundaries = self.expected.boundaries(&point.phase).into_iter();
                over || boundaries.all(|number| number < reached)
            };
            let (ready, later): (Vec<_>, Vec<_>) = waiting.drain(..).partition(known);
            waiting = later;
            for batch in ready.chunks(BATCH) {
                if needs_dumps {
                    self.run_orders(batch, &following.episodes)?;
                }
                if !visit(self, batch)? {
                    return Ok(());
                }
            }
            let latest = following.episodes.last_entry().map(|last| *last.key());
            following
                .episodes
                .retain(|number, _| Some(*number) == latest);
            let oldest = waiting.first().and_then(|point| point.phase.before);
            self.expected
                .forget_before(oldest.unwrap_or(reached.saturating_sub(1)));
        }
        Ok(())
    }

    /// Shows what is in the pool between operations.
    fn dump(&mut self, images: &[(usize, Pool, u64)]) -> Result<(), Error> {
        let shown = parallel::map(self.asked.jobs(), images, |(number, pool, table)| {
            let none = BTreeMap::new();
            let mut life = self.recoveries.start(Which::Dump, (pool, *table), &none)?;
            let patience = self.recoveries.patience;
            let life = (self.recoveries).with_engine(|engine| life.live_out(engine, patience))?;
            if life.end != End::Status(0) {
                return refused(format!(
                    "check: the dump fails between two operations, with no power cut at all: {}{}",
                    words(&life.end),
                    said(&life)
                ));
            }
            Ok((*number, Arc::new(life.output)))
        })?;
        self.expected.dumps.extend(shown);
        Ok(())
    }

    /// Explores some points, and looks for the causes of what is new among their failures.
    fn explore(&mut self, points: &[Point]) -> Result<(), Error> {
        let model = self.asked.model;
        let choices: Vec<Choices> = (points.iter())
            .map(|point| Choices::new(point, model))
            .collect();
        self.look_who_reads(&choices)?;
        for point in points {
            self.count_compared(point);
        }
        let explorer = explorer(self.asked, self.uncut, (&self.recoveries, &self.expected));
        let jobs = self.asked.jobs();
        let explored = parallel::map(jobs, &choices, |choices| {
            (self.recoveries).with_engine(|engine| explorer.explore(choices, engine))
        })?;
        let mut new: Vec<(usize, &Failed, Outline)> = Vec::new();
        for (number, (point, one)) in points.iter().zip(&explored).enumerate() {
            self.done.add(one);
            for (outline, failed) in &one.failures {
                if self.done.seen(outline, point.number, failed) {
                    new.push((number, failed, outline.clone()));
                }
            }
        }
        let room = CAUSES.saturating_sub(self.done.causes.len());
        self.done.unexplained += new.len().saturating_sub(room) as u64;
        new.truncate(room);
        let causes = parallel::map(jobs, &new, |(number, failed, _)| {
            (self.recoveries)
                .with_engine(|engine| cause::find(&explorer, &choices[*number], failed, engine))
        })?;
        for (cause, (_, _, outline)) in causes.into_iter().zip(new) {
            self.done.found(cause, outline);
        }
        let inner = self.inner_points(&choices, &explored)?;
        self.explore_inner(&inner)?;
        let message = format!(
            "{} recoveries, {} wrong, {} causes",
            self.done.states,
            self.done.failing,
            self.done.causes.len()
        );
        self.observer.progress(
            self.done.points,
            self.done.planned,
            "failure points",
            &message,
        );
        Ok(())
    }
}
