//! A whole check: survey, points in an order of their own, recoveries by several host threads, causes.
//!
//! Always true here: what is done next follows from what was done before and never from how fast it was,
//! unless there is a limit in minutes.

mod book;
mod inner;
mod overlaps;
mod reads;
mod shorten;
mod told;
mod visit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use perdure_hardware::random::Random;
use serde_json::{Value, json};

use super::checkable::is_checkable;
use super::done::Outline;
use super::explore::{Choices, Explorer, Failed};
use super::memory::Memory;
use super::oracle::{Expected, PARTLY};
use super::record::{Keeps, Point};
use super::recovery::{End, Life, Recoveries, Which};
use super::report;
use super::rules::Model;
use super::search;
use super::shares::Shares;
use super::uncut::{Surveyed, Uncut};
use super::{Asked, Prepared, machine, refused};
use crate::error::Error;
use crate::functional::{Engine, Pool};
use crate::observer::{Observer, Timely};
use crate::parallel;
use crate::restart::last_lines_of;
pub use book::Book;
pub use inner::Within;
pub use visit::Visited;

/// Points that are explored between two looks at what they came to.
const BATCH: usize = 64;
/// Points for which the run is run once more.
const ROUND: usize = 1024;
/// Causes that are looked for.
const CAUSES: usize = 400;
/// Orders of a program's threads that are tried, unless told otherwise.
const SCHEDULES: u64 = 4;

/// Runs a check, or one share of it: what comes of it is a report, or what is told of the share.
pub fn run(
    asked: &Asked,
    prepared: &Prepared,
    (observer, started): (&dyn Observer, Instant),
    shares: Shares,
) -> Result<Value, Error> {
    let Some(surveyed) = prepared.uncut.survey(observer)? else {
        return refused("interrupted before the program had ended; nothing was checked");
    };
    is_checkable(asked, &surveyed)?;
    let memory = Memory::new(asked.memory);
    memory.suffices(asked.jobs())?;
    let patience = asked.patience_for(surveyed.life.instructions);
    let mut recoveries = prepared.recoveries(patience, &surveyed.mapped, memory.clone());
    let (most, partly) = on_the_whole_pool(&recoveries, &surveyed)?;
    let patience = asked.patience_for(most);
    recoveries.patience = patience;
    let is_whole = shares.part.is_none();
    let mut book = Book::open(asked, &surveyed, shares)?;
    // A check that goes on has said so before.
    (book.done.notices).retain(|notice| !partly.contains(notice));
    book.done.notices.splice(0..0, partly);
    let schedules = if asked.model == Model::Machine {
        let how = (patience, &surveyed.mapped);
        machine::run(asked, prepared, how, (observer, started), &mut book)?;
        1
    } else {
        let whole = reads::on_the_whole_pool(&recoveries, &surveyed.life)?;
        book.done.read.merge(&whole);
        let runs = explore_runs(
            (asked, prepared),
            (recoveries, memory),
            &surveyed,
            (observer, started),
            &mut book,
        )?;
        if let Some(cuts) = asked.cuts.filter(|_| is_whole && !book.done.interrupted) {
            let how = (patience, &surveyed.mapped, cuts);
            machine::beside(asked, prepared, how, observer, &mut book.done)?;
        }
        runs
    };
    if is_whole {
        let unkept = book.unkept();
        book.done.notices.extend(unkept);
        return report::of(asked, &surveyed, schedules, &book.done, observer);
    }
    let interrupted = book.done.interrupted;
    Ok(json!({"told": book.shares.told()?, "interrupted": interrupted}))
}

/// Explores the run, and again with its threads in other orders. In how many that is.
fn explore_runs(
    (asked, prepared): (&Asked, &Prepared),
    (recoveries, memory): (Recoveries, Memory),
    surveyed: &Surveyed,
    (observer, started): (&dyn Observer, Instant),
    book: &mut Book,
) -> Result<u64, Error> {
    let patience = recoveries.patience;
    let schedules = if surveyed.machine.has_threads {
        asked.schedules.unwrap_or(SCHEDULES)
    } else {
        1
    };
    let begun = book.done.run.unwrap_or(0);
    if begun == 0 {
        let uncut = &prepared.uncut;
        explore(
            asked,
            uncut,
            (recoveries, observer, started),
            surveyed,
            book,
        )?;
    }
    for schedule in u64::max(begun, 1)..schedules {
        let uncut = prepared.uncut.with_schedule(schedule);
        let Some(surveyed) = uncut.survey(observer)? else {
            book.done.interrupted = true;
            break;
        };
        if let Err(Error::Request(why)) = is_checkable(asked, &surveyed) {
            let order =
                format!("with its threads in another order (--schedules, number {schedule})");
            book.done.notices.push(format!("{order}: {why}"));
            continue;
        }
        // Another order of the threads is another run, which leaves other tables of pools.
        let recoveries = prepared.recoveries(patience, &surveyed.mapped, memory.clone());
        explore(
            asked,
            &uncut,
            (recoveries, observer, started),
            &surveyed,
            book,
        )?;
    }
    book.done.settle();
    Ok(schedules)
}

/// Explores one run.
fn explore(
    asked: &Asked,
    uncut: &Uncut,
    (recoveries, observer, started): (Recoveries, &dyn Observer, Instant),
    surveyed: &Surveyed,
    book: &mut Book,
) -> Result<(), Error> {
    let until = asked.ends(started);
    let mut campaign = Campaign {
        asked,
        uncut,
        recoveries,
        observer,
        timely: Timely { observer, until },
        started,
        expected: Expected {
            operations: Arc::new(surveyed.recorder.operations.clone()),
            wholes: surveyed.recorder.wholes.clone(),
            invariant: asked.invariant,
            ..Expected::default()
        },
        book,
    };
    campaign.explore_all(surveyed)?;
    if campaign.book.shares.part.is_some() {
        return Ok(());
    }
    campaign.book.keep(true)?;
    campaign.shorten(surveyed)?;
    book.done.look_up(uncut)
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
pub fn said(life: &Life) -> String {
    let lines = last_lines_of(&[life.output.as_slice(), &life.error].concat());
    if lines.is_empty() {
        return String::new();
    }
    format!("; it wrote last: {lines}")
}

/// Everything has to go well on the pool that the run leaves in the end, if all of it is durable. Returns the
/// most instructions that a program takes there, and what an invariant cannot see of it.
fn on_the_whole_pool(
    recoveries: &Recoveries,
    surveyed: &Surveyed,
) -> Result<(u64, Vec<String>), Error> {
    let (mut pool, mut most) = (surveyed.machine.pool.clone(), 0);
    let mut partly = Vec::new();
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
        let error = String::from_utf8_lossy(&life.error);
        let said = error.lines().filter(|line| line.starts_with(PARTLY));
        partly.extend(said.map(str::to_owned));
        if which == Which::Recovery {
            pool = life.pool;
        }
    }
    Ok((most, partly))
}

/// Who explores the points of a run.
fn explorer<'e>(
    asked: &Asked,
    uncut: &Uncut,
    (recoveries, expected): (&'e Recoveries, &'e Expected),
    observer: &'e dyn Observer,
) -> Explorer<'e> {
    Explorer {
        recoveries,
        expected,
        states: asked.states_at_a_point(),
        seed: asked.seed(),
        observer,
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
    /// The same for recoveries.
    timely: Timely<'c>,
    started: Instant,
    expected: Expected,
    book: &'c mut Book,
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
        if self.book.done.comes_to(self.uncut.number) {
            self.book.done.planned += surveyed.points.len() as u64;
            self.book.done.stacks.extend(&stacks);
        }
        let mut before = self.book.done.points_of_run as usize;
        for points in first.chunks(ROUND).chain(others.chunks(ROUND)) {
            if before >= points.len() {
                before -= points.len();
                continue;
            }
            if !self.goes_on(&[]) && !self.was_told_more() {
                break;
            }
            // Points before these were explored when the check was interrupted.
            let mut known = std::mem::take(&mut before);
            let share = self.book.shares.of_points(points);
            if share.len() < points.len() {
                known = 0;
            }
            self.round(surveyed, &share, &mut |campaign, batch| {
                let new = &batch[known.min(batch.len())..];
                known -= batch.len() - new.len();
                if new.is_empty() {
                    return Ok(true);
                }
                if campaign.goes_on(new) {
                    campaign.explore(new)?;
                    campaign.book.keep(false)?;
                    return Ok(true);
                }
                campaign.explore_told(new)
            })?;
        }
        let done = &mut self.book.done;
        done.limited = !done.interrupted && done.points < done.planned;
        Ok(())
    }

    /// Whether there is time for more, of which these come next.
    fn goes_on(&mut self, next: &[Point]) -> bool {
        let Book { done, shares, .. } = &mut *self.book;
        done.interrupted |= self.observer.interrupted();
        let run = self.uncut.number;
        let all_known = (next.iter()).all(|point| shares.points.knows(&(run, point.number)));
        shares.goes_on(self.asked, (self.started, all_known), done)
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
            for batch in ready.chunks(self.book.shares.batch(BATCH)) {
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
        let visited = self.visit(&choices)?;
        let choices = &choices[..visited.len()];
        let mut new: Vec<(&Choices, &Failed, Outline)> = Vec::new();
        for (choices, one) in choices.iter().zip(&visited) {
            self.count_compared(choices.point);
            self.book.done.add(&one.explored);
            for (outline, failed) in &one.explored.failures {
                let point = choices.point.number;
                if self.book.done.seen(outline, point, failed) {
                    new.push((choices, failed, outline.clone()));
                }
            }
        }
        if !self.book.shares.only_points {
            self.find_causes(new)?;
            let inner = self.inner_points(choices, &visited)?;
            self.explore_inner(&inner)?;
        }
        let done = &self.book.done;
        let message = format!(
            "{} recoveries, {} wrong, {} causes",
            done.states,
            done.failing,
            done.causes.len()
        );
        let unit = self.book.shares.unit();
        (self.observer).progress(done.points, done.planned, unit, &message);
        Ok(())
    }

    /// Looks for the causes of failures, each of which is the first of its kind.
    fn find_causes(&mut self, mut new: Vec<(&Choices, &Failed, Outline)>) -> Result<(), Error> {
        let Book { done, shares, .. } = &mut *self.book;
        let room = CAUSES.saturating_sub(done.causes.len());
        done.unexplained += new.len().saturating_sub(room) as u64;
        new.truncate(room);
        let explorer = explorer(
            self.asked,
            self.uncut,
            (&self.recoveries, &self.expected),
            &self.timely,
        );
        let run = self.uncut.number;
        let causes = shares.causes.map(
            (shares.part, self.asked.jobs()),
            &new,
            |(choices, _, outline)| ((run, choices.point.number), outline.clone()),
            |(choices, failed, _)| {
                (self.recoveries)
                    .with_engine(|engine| search::find(&explorer, choices, failed, engine))
            },
        )?;
        for (cause, (_, _, outline)) in causes.into_iter().zip(new) {
            if let Some(cause) = cause {
                done.found(cause, outline);
            }
        }
        Ok(())
    }
}
