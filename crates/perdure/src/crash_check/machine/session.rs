//! One machine under the program: what its cuts leave is judged as what a model allows.
//!
//! Always true here: what recovery should show is what this very run had made when it was cut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::time::Cycles;
use perdure_hardware::watched::{Heard, Ordered};

use super::super::campaign::words;
use super::super::cause::{self, Cause, Defect};
use super::super::done::Outline;
use super::super::explore::{Choices, Explorer, Failed};
use super::super::memory::Memory;
use super::super::nested::phase_of;
use super::super::oracle::Expected;
use super::super::pending::{Kept, Version};
use super::super::record::{Keeps, Phase, Point};
use super::super::recovery::{End, Recoveries, Which};
use super::super::rules::Model;
use super::super::search;
use super::super::uncut::Mapped;
use super::super::windows::{Event, Windows};
use super::super::{Asked, Prepared, refused};
use super::follow::{Follower, at, known_at};
use super::swarm::Round;
use super::timed::{Left, Run, Timed, When};
use super::{Cut, Made, sites};
use crate::error::Error;
use crate::functional::{Engine, Pool};
use crate::observer::{Observer, Unobserved};
use crate::parallel;

/// A machine that has run once.
pub struct Session<'s> {
    asked: &'s Asked,
    round: Round,
    timed: Timed<'s>,
    recoveries: Arc<Recoveries>,
    /// What was heard.
    pub run: Run,
    known: Vec<Option<Cycles>>,
    jobs: usize,
    /// What it is that runs, where it recovers from a cut.
    after: Option<After>,
}

/// A recovery behind a cut.
struct After {
    which: Which,
    when: When,
    /// The operations around the cut.
    phase: Phase,
    /// What it has left.
    found: Pool,
}

/// A cut, judged.
pub struct Judged {
    /// What it left.
    pub left: Left,
    /// The same as a failure point.
    pub point: Point,
    /// What goes wrong, if anything does.
    pub failed: Option<Failed>,
    /// Recoveries that it took.
    pub states: u64,
}

impl Judged {
    /// Persistent memory as the cut has left it.
    pub fn pool(&self) -> Pool {
        let (choices, decided) = choices(&self.point, &self.left);
        choices.pool(&decided)
    }
}

impl<'s> Session<'s> {
    /// Runs the program on a round's machine; nothing if the user does not want to wait for that.
    pub fn of(
        asked: &'s Asked,
        prepared: &'s Prepared,
        (round, patience, mapped, jobs): (Round, u64, &Mapped, usize),
        observer: &'s dyn Observer,
    ) -> Result<Option<Self>, Error> {
        let timed = Timed::of(
            &round.request(&asked.request),
            &prepared.uncut.world,
            observer,
        )?;
        let recoveries = prepared.recoveries(patience, mapped, Memory::default());
        Self::listening(asked, round, timed, (Arc::new(recoveries), jobs), None)
    }

    fn listening(
        asked: &'s Asked,
        round: Round,
        timed: Timed<'s>,
        (recoveries, jobs): (Arc<Recoveries>, usize),
        after: Option<After>,
    ) -> Result<Option<Self>, Error> {
        let run = timed.listen()?;
        Ok(run.map(|run| Self {
            asked,
            round,
            timed,
            recoveries,
            known: known_at(&run.log),
            run,
            jobs,
            after,
        }))
    }

    /// Lets a program recover on the same machine from what a cut has left; nothing if the user does not want
    /// to wait for that.
    pub fn recovers(&self, which: Which, cut: &Judged) -> Result<Option<Self>, Error> {
        let found = cut.pool();
        let program = &self.recoveries.programs[&which];
        let timed = self.timed.after(found.clone(), program);
        let how = (Arc::clone(&self.recoveries), self.jobs);
        let after = After {
            which,
            when: cut.left.when,
            phase: cut.point.phase,
            found,
        };
        Self::listening(self.asked, self.round.clone(), timed, how, Some(after))
    }

    /// Cuts it at these moments, and judges what comes of that; fewer if the user stops it. By what it is
    /// judged comes, too.
    pub fn judge(&self, moments: &[When]) -> Result<(Vec<Judged>, Expected), Error> {
        let (points, follower) = self.cut(moments)?;
        let expected = self.expected(&points, follower)?;
        Ok((self.judge_all(points, &expected)?, expected))
    }

    /// The same by what is expected of the life before.
    pub fn judge_by(&self, moments: &[When], expected: &Expected) -> Result<Vec<Judged>, Error> {
        self.judge_all(self.cut(moments)?.0, expected)
    }

    fn judge_all(
        &self,
        points: Vec<(Left, Point)>,
        expected: &Expected,
    ) -> Result<Vec<Judged>, Error> {
        let judged = parallel::map(self.jobs, &points, |(left, point)| {
            self.judge_one(left, point, expected)
        })?;
        let all = points.into_iter().zip(judged);
        let all = all.map(|((left, point), (failed, states))| Judged {
            left,
            point,
            failed,
            states,
        });
        Ok(all.collect())
    }

    /// What cuts leave, as failure points.
    fn cut(&self, moments: &[When]) -> Result<(Vec<(Left, Point)>, Follower), Error> {
        let mut follower = Follower::new(&self.run, Keeps::default());
        let mut points = Vec::new();
        for left in self.timed.cut(moments)? {
            let here = follower.at_cut(&self.run.log, &self.known, &left);
            let mut point = here.point(&left, self.recoveries.new_table());
            if let Some(after) = &self.after {
                point.phase = phase_of(&point.phase, &after.phase);
            }
            points.push((left, point));
        }
        Ok((points, follower))
    }

    /// What recoveries are asked at points, of a run that was followed so far.
    fn expected(
        &self,
        points: &[(Left, Point)],
        mut follower: Follower,
    ) -> Result<Expected, Error> {
        follower.follow(&self.run.log, self.run.log.len());
        let mut expected = Expected {
            operations: Arc::new(follower.recorder.operations.clone()),
            wholes: follower.recorder.wholes.clone(),
            ..Expected::default()
        };
        self.find_boundaries(points, &mut expected)?;
        Ok(expected)
    }

    /// Finds out what is in the pools between the operations around these points.
    fn find_boundaries(
        &self,
        points: &[(Left, Point)],
        expected: &mut Expected,
    ) -> Result<(), Error> {
        let dumps = self.recoveries.programs.contains_key(&Which::Dump);
        if expected.wholes.is_empty() && !dumps {
            return Ok(());
        }
        let phases = points.iter().map(|(_, point)| &point.phase);
        let boundaries: BTreeSet<usize> = (phases)
            .flat_map(|phase| expected.boundaries(phase))
            .collect();
        let keeps = Keeps {
            boundaries,
            ..Keeps::default()
        };
        let mut follower = Follower::new(&self.run, keeps);
        follower.follow(&self.run.log, self.run.log.len());
        let images = std::mem::take(&mut follower.recorder.boundaries);
        if dumps {
            let shown = parallel::map(self.jobs, &images, |(number, pool, _)| {
                Ok((*number, Arc::new(self.shown(pool)?)))
            })?;
            expected.dumps = shown.into_iter().collect();
        }
        let images = images.into_iter().map(|(number, pool, _)| (number, pool));
        expected.images = images.collect();
        Ok(())
    }

    /// What the dump shows of a pool between two operations.
    fn shown(&self, pool: &Pool) -> Result<Vec<u8>, Error> {
        let life = (self.recoveries).run_on(Which::Dump, pool.clone(), &mut Engine::default())?;
        if life.end != End::Status(0) {
            return refused(format!(
                "check: the dump fails between two operations, with no power cut at all: {}",
                words(&life.end)
            ));
        }
        Ok(life.output)
    }

    fn explorer<'e>(&'e self, expected: &'e Expected) -> Explorer<'e> {
        Explorer {
            recoveries: &self.recoveries,
            expected,
            states: 1,
            seed: self.asked.seed(),
            observer: &Unobserved,
            schedule: self.round.number,
        }
    }

    fn judge_one(
        &self,
        left: &Left,
        point: &Point,
        expected: &Expected,
    ) -> Result<(Option<Failed>, u64), Error> {
        let explorer = self.explorer(expected);
        let (choices, decided) = choices(point, left);
        let mut states = 0;
        for which in self.recoveries.firsts() {
            states += 1;
            let wrong = explorer.fails(which, &choices, &decided, &mut Engine::default())?;
            if let Some(wrong) = wrong {
                let failed = Failed {
                    wrong,
                    which,
                    decided,
                };
                return Ok((Some(failed), states));
            }
        }
        Ok((None, states))
    }

    /// The causes of failures, the first of each kind.
    pub fn causes(
        &self,
        judged: &[Judged],
        expected: &Expected,
    ) -> Result<BTreeMap<Outline, (u64, Option<Cause>)>, Error> {
        let mut first: BTreeMap<Outline, (u64, &Judged)> = BTreeMap::new();
        for one in judged {
            if let Some(failed) = &one.failed {
                let (choices, _) = choices(&one.point, &one.left);
                let outline = cause::outline(&choices, failed);
                first.entry(outline).or_insert((0, one)).0 += 1;
            }
        }
        let first: Vec<(Outline, (u64, &Judged))> = first.into_iter().collect();
        let mut causes = parallel::map(self.jobs, &first, |(_, (_, one))| {
            let explorer = self.explorer(expected);
            let (choices, _) = choices(&one.point, &one.left);
            let Some(failed) = &one.failed else {
                return Ok(None);
            };
            let cause = search::find(&explorer, &choices, failed, &mut Engine::default())?;
            let made = Made {
                cut: self.made(one.left.when),
                round: self.round.clone(),
            };
            let recovery = self.after.as_ref().map(|after| after.which);
            Ok(cause.map(|cause| Cause {
                cut: Some(Box::new(made)),
                in_recovery: recovery.map(|which| (which, BTreeMap::new(), 0)),
                ..cause
            }))
        })?;
        self.tell_orders(causes.iter_mut().flatten());
        for cause in causes.iter_mut().flatten() {
            cause.events = self.events(cause);
        }
        if let Some(After { which, found, .. }) = &self.after {
            let began = self.recoveries.boot(*which, found.clone())?;
            let mut causes: Vec<&mut Cause> = causes.iter_mut().flatten().collect();
            sites::name(&began, self.recoveries.patience, &mut causes);
        }
        let all = first.into_iter().zip(causes);
        Ok(all
            .map(|((outline, (count, _)), cause)| (outline, (count, cause)))
            .collect())
    }

    /// A store that the machine has lost before its flush and its fence, which come later in the operation,
    /// is in the wrong order: what relies on it was durable first.
    fn tell_orders<'c>(&self, causes: impl Iterator<Item = &'c mut Cause>) {
        let may_be_late = |cause: &Cause| {
            let waits = cause.defect == Defect::MissingFence && cause.kept.is_empty();
            let flushes = matches!(cause.defect, Defect::MissingFlush | Defect::FlushTooEarly);
            cause.operation.is_some() && (waits || flushes)
        };
        let mut causes: Vec<&mut Cause> = causes.filter(|cause| may_be_late(cause)).collect();
        let lost = causes.iter().flat_map(|cause| &cause.lost);
        let fates = self.fates(lost.map(|one| one.store.at.retired).collect());
        for cause in &mut causes {
            let is_late = |store: u64, hart: u32| {
                let ends = (self.run.log.iter().enumerate())
                    .skip(store as usize)
                    .find(|(_, heard)| ends_operation(heard, hart as usize));
                let fate = fates.get(&store);
                fate.is_some_and(|fate| ends.is_none_or(|(end, _)| fate.0 < end))
            };
            let late = |one: &cause::Involved| is_late(one.store.at.retired, one.store.at.thread.0);
            if cause.lost.iter().all(late) {
                cause.defect = Defect::WrongOrder;
            }
        }
    }

    /// Flushes and fences around the stores of a cause that the program knew of when power was cut.
    fn events(&self, cause: &Cause) -> Vec<Event> {
        let window = cause.window([].iter());
        let mut windows = Windows::new(Model::Machine, &[window]);
        let made = cause.cut.as_ref().map(|made| made.cut);
        let cycle = made.map(|cut| cut.again.map_or(cut.when, |(_, when)| when).cycle);
        let until = cause.at.retired as usize;
        for (moment, heard) in self.run.log.iter().enumerate().take(until) {
            let ahead = self.known[moment] > cycle;
            match *heard {
                Heard::Ordered(Ordered::Persisted { hart, line }) => {
                    let at = at(hart, 0, moment, false);
                    windows.flushes(line * LINE_BYTES as u64, None, &at, cause.point);
                }
                Heard::Ordered(Ordered::Fenced { hart, .. }) if !ahead => {
                    windows.fences(None, &at(hart, 0, moment, false), cause.point);
                }
                _ => {}
            }
        }
        windows.events().pop().unwrap_or_default()
    }

    /// When stores are durable at the latest, by their moments: the moment of the fence, and its cycle.
    pub fn fates(&self, stores: BTreeSet<u64>) -> BTreeMap<u64, (usize, Cycles)> {
        if stores.is_empty() {
            return BTreeMap::new();
        }
        let keeps = Keeps {
            fates: Arc::new(stores),
            ..Keeps::default()
        };
        let mut follower = Follower::new(&self.run, keeps);
        follower.follow(&self.run.log, self.run.log.len());
        let fates = follower.recorder.fates().iter();
        fates
            .map(|(&store, at)| {
                let moment = at.retired as usize;
                let cycle = self.known[moment].unwrap_or(self.run.end);
                (store, (moment, cycle))
            })
            .collect()
    }

    /// A cut of this run, with the one before it.
    fn made(&self, when: When) -> Cut {
        match &self.after {
            None => Cut { when, again: None },
            Some(after) => Cut {
                when: after.when,
                again: Some((after.which, when)),
            },
        }
    }

    /// What ran.
    pub fn round(&self) -> &Round {
        &self.round
    }

    /// What recovers.
    pub fn recoveries(&self) -> &Recoveries {
        &self.recoveries
    }
}

/// True where an operation of a hart's ends.
fn ends_operation(heard: &Heard, of: usize) -> bool {
    matches!(heard, Heard::Ordered(Ordered::Said { hart, what: (1, _), .. }) if *hart == of)
}

/// A point with the versions of its lines, and which of them a cut has left.
pub fn choices<'p>(point: &'p Point, left: &Left) -> (Choices<'p>, BTreeMap<u64, usize>) {
    let mut choices = Choices::new(point, Model::Machine);
    let mut decided = BTreeMap::new();
    for (&line, versions) in &mut choices.lines {
        let Some(found) = left.lost.get(&line) else {
            decided.insert(line, 0);
            continue;
        };
        let known = versions.iter().rposition(|version| version.bytes == *found);
        let number = known.unwrap_or_else(|| {
            // One that was left out among many, or that is no beginning of the line's stores.
            let versions = Arc::make_mut(versions);
            versions.push(Version {
                bytes: *found,
                kept: Kept::First(0),
            });
            versions.len() - 1
        });
        decided.insert(line, number);
    }
    (choices, decided)
}
