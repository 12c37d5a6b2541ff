//! Power cuts of the timed machine: what its caches, buffers and queues really held.
//!
//! The program runs on it, uncut ([`timed`]), and every store, flush and fence is heard; so a cut is a
//! failure point as those of models are ([`follow`]): what is lost is known store by store. Recoveries run
//! where those of models do, and are judged by the same oracles ([`session`]).
//!
//! Always true here: a cut is made again by its machine's settings, its cycle, and what torn writes leave.

mod again;
mod follow;
mod session;
mod sites;
mod sought;
mod swarm;
mod timed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::campaign::Book;
use super::cause::Cause;
use super::done::{Done, Outline};
use super::recovery::Which;
use super::replay::{Found, State, lives_on};
use super::uncut::Mapped;
use super::{Asked, Prepared, token};
use crate::error::Error;
use crate::observer::Observer;

use session::{Judged, Session};
pub use sought::Sought;
pub use swarm::Round;
pub use timed::{When, made_ready};

/// Cuts in all, unless told otherwise.
const CUTS: u64 = 400;
/// Cuts of one machine.
const CUTS_OF_A_ROUND: u64 = 40;
/// Rounds between two looks at what they came to.
const BATCH: usize = 4;
/// Cuts whose tokens are told.
const TOKENS: usize = 5;

/// A cut, and the one in the recovery behind it where power failed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// When.
    pub when: When,
    /// In what, and when in its life.
    pub again: Option<(Which, When)>,
}

/// A cut that was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Made {
    /// Which.
    pub cut: Cut,
    /// Of which machine.
    pub round: Round,
}

/// How many cuts were made, and after how many of them recovery was wrong.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub struct Counts {
    cuts: u64,
    failed: u64,
}

/// What came of a round.
#[derive(Clone, Serialize, Deserialize)]
pub struct Came {
    round: Round,
    first: Counts,
    /// Of recoveries.
    again: Counts,
    states: u64,
    unjudged: u64,
    places: BTreeSet<u64>,
    causes: BTreeMap<Outline, (u64, Option<Cause>)>,
}

/// A whole check by cuts of the machine.
pub fn run(
    asked: &Asked,
    prepared: &Prepared,
    (patience, mapped): (u64, &Mapped),
    (observer, started): (&dyn Observer, Instant),
    book: &mut Book,
) -> Result<(), Error> {
    let Book { done, shares, .. } = book;
    let cuts = asked.cuts.unwrap_or(CUTS);
    done.planned = cuts;
    let all = 0..cuts.div_ceil(CUTS_OF_A_ROUND);
    let is_wanted = |number: &u64| {
        let is_mine = shares.part.is_none_or(|part| part.has(*number));
        is_mine && (!shares.interrupted || shares.rounds.knows(number))
    };
    let rounds: Vec<u64> = all.clone().filter(is_wanted).collect();
    let each = |number: u64| CUTS_OF_A_ROUND.min(cuts - number * CUTS_OF_A_ROUND);
    for batch in rounds.chunks(BATCH) {
        let all_known = batch.iter().all(|number| shares.rounds.knows(number));
        done.interrupted |= observer.interrupted();
        if !shares.goes_on(asked, (started, all_known), done) {
            break;
        }
        let jobs = asked.jobs().div_ceil(batch.len());
        let how = (None, asked.jobs());
        let came = shares.rounds.map(
            how,
            batch,
            |number| *number,
            |&number| {
                let came = round(
                    asked,
                    prepared,
                    (number, each(number)),
                    (patience, mapped, jobs),
                    observer,
                )?;
                came.ok_or(Error::Interrupted)
            },
        )?;
        done.interrupted |= came.iter().any(Option::is_none);
        for one in came.into_iter().flatten() {
            take(one, done);
        }
        observer.progress(done.points, cuts, "cuts", &said(done));
    }
    done.interrupted |= shares.interrupted && (rounds.len() as u64) < all.end;
    done.limited = !done.interrupted && done.points < done.planned;
    if shares.part.is_some() {
        return Ok(());
    }
    let causes = done.causes.values_mut().map(|(cause, _)| cause);
    // Those in recoveries are known by then.
    let mut causes: Vec<&mut Cause> = causes.filter(|cause| cause.stack.is_none()).collect();
    sites::name(&prepared.uncut.boot()?, u64::MAX, &mut causes);
    done.settle();
    Ok(())
}

fn said(done: &Done) -> String {
    format!(
        "{} recoveries, {} wrong, {} causes",
        done.states,
        done.failing,
        done.causes.len()
    )
}

/// Cuts one machine; nothing if the user does not want to wait for that.
fn round(
    asked: &Asked,
    prepared: &Prepared,
    (number, cuts): (u64, u64),
    (patience, mapped, jobs): (u64, &Mapped, usize),
    observer: &dyn Observer,
) -> Result<Option<Came>, Error> {
    let mut refused = None;
    for round in Round::drawn(&asked.request, number) {
        match Session::of(asked, prepared, (round, patience, mapped, jobs), observer) {
            // Caches that do not fit into each other, and the like.
            Err(error @ (Error::Request(_) | Error::Configuration(_))) => refused = Some(error),
            Err(error) => return Err(error),
            Ok(None) => return Ok(None),
            Ok(Some(session)) => return came_of(&session, cuts, asked),
        }
    }
    Err(refused.unwrap_or_else(|| Error::Defect("a round without a machine".into())))
}

fn came_of(session: &Session, cuts: u64, asked: &Asked) -> Result<Option<Came>, Error> {
    let moments = session.round().moments(&session.run, cuts, asked.seed());
    let (judged, expected) = session.judge(&moments)?;
    let mut came = Came {
        round: session.round().clone(),
        first: Counts::of(&judged),
        again: Counts::default(),
        states: states(&judged),
        unjudged: (judged.iter().filter(|one| one.point.phase.several)).count() as u64,
        places: judged.iter().map(|one| one.point.at.pc).collect(),
        causes: session.causes(&judged, &expected)?,
    };
    let again = again::cut(session, (&judged, &expected), asked)?;
    let Some((again, causes)) = again else {
        return Ok(None);
    };
    came.again = Counts::of(&again);
    came.states += states(&again);
    came.causes.extend(causes);
    Ok(Some(came))
}

impl Counts {
    fn of(judged: &[Judged]) -> Self {
        let failed = judged.iter().filter(|one| one.failed.is_some());
        Self {
            cuts: judged.len() as u64,
            failed: failed.count() as u64,
        }
    }
}

fn states(judged: &[Judged]) -> u64 {
    judged.iter().map(|one| one.states).sum()
}

fn take(came: Came, done: &mut Done) {
    let number = came.round.number;
    done.points += came.first.cuts;
    done.inner_points += came.again.cuts;
    done.states += came.states;
    done.failing += came.first.failed + came.again.failed;
    done.unjudged += came.unjudged;
    done.stacks.extend(came.places);
    done.rounds.push(came.round.to_json(came.first, came.again));
    // Each cut that fails does so in one way.
    let mut cut = 0;
    for (outline, (count, cause)) in came.causes {
        let cuts = (cut..cut + count).map(|cut| (number, cut));
        (done.outlines.entry(outline.clone()).or_default()).extend(cuts);
        cut += count;
        done.found(cause, outline);
    }
}

/// Cuts the machine as it is, beside a check by a model: how often recovery fails, and how often in the
/// states of the bugs that were found.
pub fn beside(
    asked: &Asked,
    prepared: &Prepared,
    (patience, mapped, cuts): (u64, &Mapped, u64),
    observer: &dyn Observer,
    done: &mut Done,
) -> Result<(), Error> {
    let round = (Round::first(), patience, mapped, asked.jobs());
    let Some(session) = Session::of(asked, prepared, round, observer)? else {
        done.interrupted = true;
        return Ok(());
    };
    let moments = session.round().moments(&session.run, cuts, asked.seed());
    let (judged, _) = session.judge(&moments)?;
    let failed: Vec<When> = (judged.iter())
        .filter(|one| one.failed.is_some())
        .map(|one| one.left.when)
        .collect();
    let tokens = failed.iter().take(TOKENS);
    let tokens = tokens.map(|&when| {
        let state = State::Cut(Cut { when, again: None }).to_string();
        token::of(asked, prepared, &state, &session.round().set)
    });
    done.on_machine = Some(json!({
        "machine": asked.request.machine,
        "cuts": judged.len(),
        "failed": failed.len(),
        "tokens": tokens.collect::<Vec<_>>(),
    }));
    done.interrupted |= observer.interrupted();
    sought::seek(&session, (cuts, asked.seed()), done)
}

/// One cut of a machine again: how recovery ends, and what is wrong with that.
pub fn again(
    asked: &Asked,
    prepared: &Prepared,
    cut: Cut,
    observer: &dyn Observer,
) -> Result<Option<Found>, Error> {
    let Some(surveyed) = prepared.uncut.survey(observer)? else {
        return Ok(None);
    };
    let patience = asked.patience_for(0);
    let round = (Round::first(), patience, &surveyed.mapped, asked.jobs());
    let Some(session) = Session::of(asked, prepared, round, observer)? else {
        return Ok(None);
    };
    let (mut judged, expected) = session.judge(&[cut.when])?;
    if let Some((which, when)) = cut.again
        && let Some(outer) = judged.pop()
        && let Some(recovers) = session.recovers(which, &outer)?
    {
        judged = recovers.judge_by(&[when], &expected)?;
    }
    let Some(judged) = judged.pop() else {
        return Ok(None);
    };
    let pool = judged.pool();
    let lives = lives_on(session.recoveries(), &pool)?;
    let wrong = judged.failed.map(|failed| failed.wrong);
    Ok(Some(Found { pool, lives, wrong }))
}

impl Made {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "cycle": self.cut.when.cycle,
            "cycle_in_recovery": self.cut.again.map(|(_, when)| when.cycle),
            "set": self.round.set,
            "schedule": self.round.schedule.name(),
        })
    }
}
