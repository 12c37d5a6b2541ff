//! One state of a check once more: what its report names by `state`.
//!
//! ```text
//! SCHEDULE/POINT:LINE=VERSION,…              lines that were lost in part; the others are the newest
//! SCHEDULE/POINT:…>PROGRAM#POINT:…           and power fails again in that program, at that point of it
//! ```
//!
//! Always true here: the same request and state give the same lives.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::campaign::words;
use super::cause::Cause;
use super::explore::Choices;
use super::memory::Memory;
use super::nested::Watched;
use super::record::{Keeps, Point};
use super::recovery::{Recoveries, Which};
use super::{Asked, Prepared, refused};
use crate::error::Error;
use crate::functional::Engine;
use crate::restart::last_lines_of;

/// Lines, each with its version.
type Versions = BTreeMap<u64, usize>;

/// A state, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
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
    let versions = cause.versions.clone();
    let (versions, inner) = match cause.in_recovery.clone() {
        None => (versions, None),
        Some((which, found, point)) => (found, Some((which, point, versions))),
    };
    State {
        schedule: cause.schedule,
        point: cause.point,
        versions,
        inner,
    }
}

impl fmt::Display for State {
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
    /// From its text.
    pub fn parse(text: &str) -> Option<Self> {
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

/// Lets recovery run on a state.
pub fn run(asked: &Asked, prepared: &Prepared, text: &str) -> Result<Value, Error> {
    let Some(state) = State::parse(text) else {
        return refused(format!(
            "--state {text}: not a state; take one that a report of perdure check names"
        ));
    };
    let uncut = prepared.uncut.with_schedule(state.schedule);
    let keeps = Keeps {
        points: [state.point].into(),
        ..Keeps::default()
    };
    let mut following = uncut.follow(Arc::new(keeps))?;
    while !following.is_over() && following.recorder().kept.is_empty() {
        following.go_on(|_, recorder| recorder.kept.is_empty())?;
    }
    let Some(point) = following.recorder().kept.pop() else {
        return refused(format!(
            "--state {text}: the run has no failure point {}; was it another program, model or seed?",
            state.point
        ));
    };
    let patience = asked.patience_for(0);
    let recoveries = prepared.recoveries(patience, &BTreeMap::new(), Memory::default());
    let choices = Choices::new(&point, asked.model);
    let lives = match &state.inner {
        None => lives(&recoveries, &choices, &state.versions)?,
        Some((which, number, versions)) => {
            let watched = Watched {
                which: *which,
                choices: &choices,
                found: &state.versions,
            };
            let points = watched.points(&recoveries, asked.model, [*number].into())?;
            let Some(inner) = points.first() else {
                return refused(format!(
                    "--state {text}: that recovery has no failure point {number}"
                ));
            };
            let choices = Choices::new(&inner.point, asked.model);
            lives(&recoveries, &choices, versions)?
        }
    };
    Ok(json!({"state": text, "lives": lives}))
}

fn lives(
    recoveries: &Recoveries,
    choices: &Choices,
    versions: &Versions,
) -> Result<Vec<Value>, Error> {
    let exists = |(line, version): (&u64, &usize)| {
        choices
            .lines
            .get(line)
            .is_some_and(|all| *version < all.len())
    };
    if !versions.iter().all(exists) {
        return refused("--state: at that failure point there is no such line, or no such version");
    }
    let point: &Point = choices.point;
    (recoveries.firsts())
        .map(|which| {
            let memory = (&point.durable, point.table);
            let mut life = recoveries.start(which, memory, &choices.decided(versions))?;
            let life = life.live_out(&mut Engine::default(), recoveries.patience)?;
            Ok(json!({
                "program": which.name(),
                "end": words(&life.end),
                "output": last_lines_of(&life.output),
                "error": last_lines_of(&life.error),
            }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_is_written() {
        for text in ["0/3:", "2/17:40=1,1c0=12", "0/3:40=2>dump#1:80=1"] {
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
        ] {
            assert_eq!(State::parse(text), None, "{text}");
        }
    }
}
