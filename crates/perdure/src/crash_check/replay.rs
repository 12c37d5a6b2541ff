//! One state of a check once more: what its report names by `state`.
//!
//! ```text
//! SCHEDULE/POINT:LINE=VERSION,…              lines that were lost in part; the others are the newest
//! SCHEDULE/POINT:…>PROGRAM#POINT:…           and power fails again in that program, at that point of it
//! CYCLE~SEED                                 a cut of the machine; the seed chooses what torn writes leave
//! CYCLE~SEED>PROGRAM#CYCLE~SEED              and power fails again in that program, at a cycle of its life
//! ```
//!
//! Always true here: the same request and state give the same lives.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::campaign::words;
use super::cause::Cause;
use super::explore::{Choices, Explorer};
use super::machine::{Cut, When};
use super::memory::Memory;
use super::nested::Watched;
use super::oracle::{Expected, Wrong};
use super::record::{Keeps, Point};
use super::recovery::{End, Life, Recoveries, Which};
use super::rules::Model;
use super::uncut::{Surveyed, Uncut};
use super::{Asked, Prepared, machine, orders, refused};
use crate::error::Error;
use crate::functional::{Engine, Pool};
use crate::observer::{Observer, Unobserved};
use crate::pools::Folder;
use crate::request::Request;
use crate::restart::last_lines_of;

/// Lines, each with its version.
type Versions = BTreeMap<u64, usize>;

/// A state, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of a model.
    Chosen(Chosen),
    /// What a cut of the machine leaves.
    Cut(Cut),
}

/// A state that a model allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    schedule: u64,
    point: u64,
    versions: Versions,
    inner: Option<(Which, u64, Versions)>,
}

fn written(versions: &Versions) -> String {
    let lines = versions.iter().filter(|(_, version)| **version > 0);
    let lines: Vec<String> = lines
        .map(|(line, version)| format!("{line:x}={version}"))
        .collect();
    lines.join(",")
}

fn read(text: &str) -> Option<Versions> {
    let lines = text.split(',').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (line, version) = line.split_once('=')?;
            Some((u64::from_str_radix(line, 16).ok()?, version.parse().ok()?))
        })
        .collect()
}

/// The state by which a cause is seen again.
pub fn state_of(cause: &Cause) -> State {
    if let Some(made) = &cause.cut {
        return State::Cut(made.cut);
    }
    let versions = cause.versions.clone();
    let (versions, inner) = match cause.in_recovery.clone() {
        None => (versions, None),
        Some((which, found, point)) => (found, Some((which, point, versions))),
    };
    State::Chosen(Chosen {
        schedule: cause.schedule,
        point: cause.point,
        versions,
        inner,
    })
}

impl fmt::Display for State {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Chosen(chosen) => chosen.fmt(to),
            Self::Cut(cut) => cut.fmt(to),
        }
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let (schedule, point) = (self.schedule, self.point);
        write!(to, "{schedule}/{point}:{}", written(&self.versions))?;
        match &self.inner {
            None => Ok(()),
            Some((which, point, versions)) => {
                write!(to, ">{}#{point}:{}", which.word(), written(versions))
            }
        }
    }
}

impl State {
    /// In what power fails again, if it does.
    fn recovers(&self) -> Option<Which> {
        match self {
            Self::Chosen(chosen) => chosen.inner.as_ref().map(|(which, ..)| *which),
            Self::Cut(cut) => cut.again.map(|(which, _)| which),
        }
    }

    /// From its text.
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('~') {
            return Cut::parse(text).map(Self::Cut);
        }
        Chosen::parse(text).map(Self::Chosen)
    }
}

impl fmt::Display for When {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "{}~{:x}", self.cycle, self.tear_seed)
    }
}

impl When {
    fn parse(text: &str) -> Option<Self> {
        let (cycle, seed) = text.split_once('~')?;
        Some(Self {
            cycle: cycle.parse().ok()?,
            tear_seed: u64::from_str_radix(seed, 16).ok()?,
        })
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        self.when.fmt(to)?;
        match &self.again {
            None => Ok(()),
            Some((which, when)) => write!(to, ">{}#{when}", which.word()),
        }
    }
}

impl Cut {
    fn parse(text: &str) -> Option<Self> {
        let Some((when, again)) = text.split_once('>') else {
            let when = When::parse(text)?;
            return Some(Self { when, again: None });
        };
        let (which, inner) = again.split_once('#')?;
        Some(Self {
            when: When::parse(when)?,
            again: Some((Which::of_word(which)?, When::parse(inner)?)),
        })
    }
}

impl Chosen {
    fn parse(text: &str) -> Option<Self> {
        let (outer, inner) = match text.split_once('>') {
            Some((outer, inner)) => (outer, Some(inner)),
            None => (text, None),
        };
        let (place, versions) = outer.split_once(':')?;
        let (schedule, point) = place.split_once('/')?;
        let inner = match inner {
            None => None,
            Some(inner) => {
                let (place, versions) = inner.split_once(':')?;
                let (which, point) = place.split_once('#')?;
                Some((Which::of_word(which)?, point.parse().ok()?, read(versions)?))
            }
        };
        Some(Self {
            schedule: schedule.parse().ok()?,
            point: point.parse().ok()?,
            versions: read(versions)?,
            inner,
        })
    }
}

/// What came of a state once more.
pub struct Found {
    /// Persistent memory in it.
    pub pool: Pool,
    /// The lives of what recovers on that.
    pub lives: Vec<(Which, Life)>,
    /// What is wrong with them, if anything is.
    pub wrong: Option<Wrong>,
}

/// Lets recovery run on a state.
pub fn run(
    asked: &Asked,
    prepared: &Prepared,
    text: &str,
    observer: &dyn Observer,
) -> Result<Value, Error> {
    let Some(state) = State::parse(text) else {
        return refused(format!(
            "--state {text}: not a state; take one that a report of perdure check names"
        ));
    };
    if let Some(which) = state.recovers()
        && !prepared.programs.contains_key(&which)
    {
        return refused(format!(
            "--state {text}: power fails again in {}, and no such program is given",
            which.name()
        ));
    }
    let found = match (&state, asked.model) {
        (State::Cut(cut), Model::Machine) => machine::again(asked, prepared, *cut, observer)?,
        (State::Chosen(chosen), Model::Px86 | Model::Arm | Model::Perdure) => {
            chosen.again(asked, prepared, text)?
        }
        (State::Cut(_), _) => {
            return refused(format!(
                "--state {text}: it is of a cut: take --model machine, and the --set of its report"
            ));
        }
        (State::Chosen(_), Model::Machine) => {
            return refused(format!(
                "--state {text}: it is of another --model than machine"
            ));
        }
    };
    let Some(Found { pool, lives, wrong }) = found else {
        return refused("interrupted before recovery had run; nothing was checked");
    };
    let mut request = None;
    if let Some(folder) = &asked.pools {
        Folder::take(folder)?.put(&pool.survived()?)?;
        request = Some(request_of(asked, prepared, folder, &lives));
    }
    let life = |(which, life): &(Which, Life)| {
        json!({
            "program": which.name(),
            "end": words(&life.end),
            "output": last_lines_of(&life.output),
            "error": last_lines_of(&life.error),
        })
    };
    Ok(json!({
        "state": text,
        "lives": lives.iter().map(life).collect::<Vec<_>>(),
        "wrong": wrong.as_ref().map(Wrong::symptom),
        "detail": wrong.as_ref().map(Wrong::difference).unwrap_or_default(),
        "request": request,
    }))
}

/// The run of what recovers on the pools of a folder: of the first that does not end well, or else of the
/// first.
fn request_of(
    asked: &Asked,
    prepared: &Prepared,
    folder: &Path,
    lives: &[(Which, Life)],
) -> Request {
    let fails =
        |(which, life): &&(Which, Life)| *which != Which::Check && life.end != End::Status(0);
    let which = lives.iter().find(fails).or(lives.first());
    let program = which.map(|(which, _)| &prepared.programs[which]);
    let program = program.map_or_else(Vec::new, |program| {
        let path = program.path.to_string_lossy().into_owned();
        [&[path], program.arguments.as_slice()].concat()
    });
    Request {
        program,
        then: Vec::new(),
        restart: false,
        pmem: Some(folder.into()),
        seed: None,
        jobs: None,
        ..asked.request.clone()
    }
}

impl Chosen {
    fn again(
        &self,
        asked: &Asked,
        prepared: &Prepared,
        text: &str,
    ) -> Result<Option<Found>, Error> {
        let uncut = prepared.uncut.with_schedule(self.schedule);
        let Some(surveyed) = uncut.survey(&Unobserved)? else {
            return Ok(None);
        };
        let point = point_of(&uncut, self.point, text)?;
        let patience = asked.patience_for(0);
        let recoveries = prepared.recoveries(patience, &surveyed.mapped, Memory::default());
        let choices = Choices::new(&point, asked.model);
        let Some((which, number, versions)) = &self.inner else {
            let expected = expected_at(asked, &surveyed, &recoveries, &point)?;
            return found(&recoveries, &expected, &choices, &self.versions).map(Some);
        };
        exist(&choices, &self.versions)?;
        let watched = Watched {
            which: *which,
            choices: &choices,
            found: &self.versions,
        };
        let points = watched.points(&recoveries, asked.model, [*number].into())?;
        let Some(inner) = points.first() else {
            return refused(format!(
                "--state {text}: that recovery has no failure point {number}"
            ));
        };
        let expected = expected_at(asked, &surveyed, &recoveries, &inner.point)?;
        let choices = Choices::new(&inner.point, asked.model);
        found(&recoveries, &expected, &choices, versions).map(Some)
    }
}

/// A failure point of a run.
fn point_of(uncut: &Uncut, number: u64, text: &str) -> Result<Point, Error> {
    let keeps = Keeps {
        points: [number].into(),
        ..Keeps::default()
    };
    let mut following = uncut.follow(Arc::new(keeps))?;
    while !following.is_over() && following.recorder().kept.is_empty() {
        following.go_on(|_, recorder| recorder.kept.is_empty())?;
    }
    following.recorder().kept.pop().ok_or_else(|| {
        Error::Request(format!(
            "--state {text}: the run has no failure point {number}; was it another program, model or seed?"
        ))
    })
}

/// What recoveries are asked at a point.
fn expected_at(
    asked: &Asked,
    surveyed: &Surveyed,
    recoveries: &Recoveries,
    point: &Point,
) -> Result<Expected, Error> {
    let mut expected = Expected {
        operations: Arc::new(surveyed.recorder.operations.clone()),
        wholes: surveyed.recorder.wholes.clone(),
        invariant: asked.invariant,
        ..Expected::default()
    };
    let dumps = recoveries.programs.contains_key(&Which::Dump);
    let orders = expected.orders_of(&point.phase).filter(|_| dumps);
    let keeps = Keeps {
        boundaries: expected.boundaries(&point.phase).into_iter().collect(),
        episodes: orders.iter().map(|(episode, _)| *episode).collect(),
        ..Keeps::default()
    };
    if keeps.episodes.is_empty()
        && (keeps.boundaries.is_empty() || !dumps && expected.wholes.is_empty())
    {
        return Ok(expected);
    }
    let mut following = surveyed.uncut.follow(Arc::new(keeps))?;
    while !following.is_over() {
        following.go_on(|_, _| true)?;
    }
    for (number, pool, _) in std::mem::take(&mut following.recorder().boundaries) {
        if dumps {
            let life = recoveries.run_on(Which::Dump, pool.clone(), &mut Engine::default())?;
            expected.dumps.insert(number, Arc::new(life.output));
        }
        expected.images.insert(number, pool);
    }
    if let Some(key) = orders
        && let Some(episode) = following.episodes.get(&key.0)
    {
        let shown = orders::shown(recoveries, episode, &expected.operations, key)?;
        expected.orders.insert(key, shown);
    }
    Ok(expected)
}

/// Refuses lines that are not there.
fn exist(choices: &Choices, versions: &Versions) -> Result<(), Error> {
    let exists = |(line, version): (&u64, &usize)| {
        choices
            .lines
            .get(line)
            .is_some_and(|all| *version < all.len())
    };
    if versions.iter().all(exists) {
        return Ok(());
    }
    refused("--state: at that failure point there is no such line, or no such version")
}

/// What comes of a point in which everything is decided.
fn found(
    recoveries: &Recoveries,
    expected: &Expected,
    choices: &Choices,
    versions: &Versions,
) -> Result<Found, Error> {
    exist(choices, versions)?;
    let explorer = Explorer {
        recoveries,
        expected,
        states: 1,
        seed: 0,
        observer: &Unobserved,
        schedule: 0,
    };
    let mut wrong = None;
    for which in recoveries.firsts() {
        if wrong.is_none() {
            wrong = explorer.fails(which, choices, versions, &mut Engine::default())?;
        }
    }
    let pool = choices.pool(versions);
    let lives = lives_on(recoveries, &pool)?;
    Ok(Found { pool, lives, wrong })
}

/// How everything ends that recovers on some memory, and what looks at what that leaves.
pub fn lives_on(recoveries: &Recoveries, pool: &Pool) -> Result<Vec<(Which, Life)>, Error> {
    let (mut lives, mut recovered) = (Vec::new(), None);
    for &which in recoveries.programs.keys() {
        let memory = match which {
            Which::Check => recovered.take(),
            Which::Recovery | Which::Dump => Some(pool.clone()),
        };
        // A checker sees what a recovery has left that went well.
        let Some(memory) = memory else { continue };
        let life = recoveries.run_on(which, memory, &mut Engine::default())?;
        if which == Which::Recovery && life.end == End::Status(0) {
            recovered = Some(life.pool.clone());
        }
        lives.push((which, life));
    }
    Ok(lives)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_is_written() {
        for text in [
            "0/3:",
            "2/17:40=1,1c0=12",
            "0/3:40=2>dump#1:80=1",
            "12~ff",
            "12~ff>recovery#7~0",
        ] {
            let state = State::parse(text).expect(text);
            assert_eq!(state.to_string(), text);
        }
        for text in [
            "",
            "3:40=1",
            "0/x:",
            "0/3:40",
            "0/3:40=1>swim#1:",
            "0/3:zz=1",
            "12~",
            "12~ff>recovery#7",
            "12~ff>7~0",
        ] {
            assert_eq!(State::parse(text), None, "{text}");
        }
    }
}
