//! Proof that the verifier can fail: every planted bug must be caught, and the clean design never
//! accused, by the same cuts. Bugs are planted in designs, in the machine, in what it makes durable when,
//! and in replication; and in the judge itself, whose checks are switched off one by one ([`Blind`]): each
//! time, a bug that only this check catches must slip through, or the check is worth nothing.
//!
//! The program is the exerciser (`@exerciser`), on machines made small and unlucky in different
//! ways ("buggify"): tiny caches, a direct-mapped last-level cache, epochs of a few thousand
//! instructions, fast media; each with the next of the design's own unlucky settings.

mod groups;
mod persistence;
mod trials;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use perdure_designs::{Epochs, PlantedBug};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::campaign;
use crate::configuration::design_named;
use crate::error::Error;
use crate::hunt::{self, Hunt};
use crate::losing::Losing;
use crate::observer::Observer;
use crate::panics;
use crate::parallel;
use crate::request::{Prepared, Request};
use crate::verify::Verdict;
use trials::Trial;

/// What a trial showed: cuts made, and how the first failure was noticed.
struct Shown {
    cuts: usize,
    failed: usize,
    first: Option<(Verdict, String)>,
}

/// What a campaign shows.
fn shown(
    request: &Request,
    prepared: &Prepared,
    bug: Option<&'static str>,
    planted: bool,
    observer: &dyn Observer,
) -> Result<Shown, Error> {
    let campaign = match campaign::run(request, prepared, bug, observer) {
        // A design that cannot even go on is caught, too.
        Err(
            error @ (Error::Design { .. }
            | Error::Contract { .. }
            | Error::Defect(_)
            | Error::Deadlock { .. }),
        ) if planted => {
            return Ok(Shown {
                cuts: 0,
                failed: 1,
                first: Some((Verdict::RecoveryFailed, error.to_string())),
            });
        }
        Err(error) => {
            refuse_panic(bug, Some(&error.to_string()))?;
            return Err(error);
        }
        Ok(campaign) => campaign,
    };
    if campaign.interrupted {
        return Err(Error::Request("interrupted".into()));
    }
    let first = campaign.results.iter().find(|one| one.verdict.is_failure());
    refuse_panic(bug, first.and_then(|one| one.message.as_deref()))?;
    let first = first.map(|one| (one.verdict, one.token.clone()));
    Ok(Shown {
        cuts: campaign.results.len(),
        failed: campaign.failed(),
        first,
    })
}

/// A panic catches no bug: recovery has to refuse what it finds, and a judge to see what it, or a hook, made
/// of that.
fn refuse_panic(bug: Option<&str>, message: Option<&str>) -> Result<(), Error> {
    match message {
        Some(message) if panics::is_of_one(message) => {
            let bug = bug.unwrap_or("no bug");
            Err(Error::Request(format!("with {bug}, {message}")))
        }
        _ => Ok(()),
    }
}

/// Seeds of a hunt for a bug that the trials do not show.
const HUNTED_SEEDS: u64 = 80;

/// Where bugs were caught that a design's first trial does not show, when all were hunted last: design, bug
/// and place, a line each. `.ci/caught.py` writes it.
const CAUGHT: &str = include_str!("caught.txt");

/// Their lines, taken apart.
fn caught_before() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    CAUGHT.lines().filter_map(|line| {
        let (design, rest) = line.split_once(' ')?;
        let (bug, place) = rest.split_once(' ')?;
        Some((design, bug, place))
    })
}

/// What stands before the seed of a hunt where a place is written down.
const HUNT: &str = "hunt, seed ";

/// How a bug was caught.
struct Caught {
    verdict: String,
    /// The trial's name, or [`HUNT`] and the seed.
    place: String,
    token: String,
}

/// How a hunt of some seeds catches a bug, if it does.
fn hunted(
    design: &str,
    bug: &str,
    seeds: RangeInclusive<u64>,
    observer: &dyn Observer,
    cuts: &mut usize,
) -> Result<Option<Caught>, Error> {
    let hunt = Hunt {
        request: Request {
            design: design.into(),
            planted_bug: Some(bug.into()),
            ..Request::default()
        },
        first_seed: *seeds.start(),
        seeds: Some(seeds.end() - seeds.start() + 1),
        cuts: None,
        seconds: None,
        shrink: false,
    };
    let report = hunt::run(&hunt, observer)?;
    *cuts += report["cuts"].as_u64().unwrap_or(0) as usize;
    let found = &report["found"];
    refuse_panic(Some(bug), found["message"].as_str())?;
    let text = |key: &str| found[key].as_str().map(ToOwned::to_owned);
    let caught = text("verdict").zip(text("token"));
    Ok(caught.map(|(verdict, token)| Caught {
        verdict,
        place: format!("{HUNT}{}", found["seed"]),
        token,
    }))
}

/// A trial, with a bug or without.
fn try_out(
    request: &Request,
    bug: Option<&'static str>,
    observer: &dyn Observer,
) -> Result<Shown, Error> {
    let mut prepared = request.prepare()?;
    prepared.until_failure = bug.is_some();
    shown(request, &prepared, bug, bug.is_some(), observer)
}

/// The trials of a design, by name: those that every bug and the clean design go through, and one that
/// is made only for bugs that the others have not shown.
struct Trials<'a> {
    design: &'a str,
    usual: Vec<(&'static str, Request)>,
    rare: Vec<(&'static str, Request)>,
    /// Bugs that none of these shows are hunted: where there are epochs to go on from.
    hunts: bool,
}

impl<'a> Trials<'a> {
    /// A design's bugs and trials.
    fn of(design: &'a str) -> Result<(&'static [PlantedBug], Self), Error> {
        let facts = design_named(design)?;
        let (trials, rare) = trials::of_design(facts);
        let settings = facts.unlucky_settings;
        let of_trial = |(trial, unlucky): (&'static Trial, &&'static [&'static str])| {
            (trial.name, trial.request(design, unlucky))
        };
        let trials = Self {
            design,
            usual: (trials.iter().zip(settings.iter().cycle()))
                .map(of_trial)
                .collect(),
            rare: (rare.into_iter().zip(settings)).map(of_trial).collect(),
            hunts: facts.epochs != Epochs::None,
        };
        Ok((facts.planted_bugs, trials))
    }

    /// Tries a bug at the place where it was caught before, if one is known; else, and if it is not caught
    /// there any more, in every trial, until one catches it. What is reported, and whether the usual trials
    /// do not show it.
    fn catch(
        &self,
        bug: &PlantedBug,
        known: Option<&str>,
        observer: &dyn Observer,
    ) -> Result<(Value, bool), Error> {
        let mut cuts = 0;
        let mut caught = match known {
            Some(place) => self.catch_at(place, bug.name, observer, &mut cuts)?,
            None => None,
        };
        for (trial, request) in self.usual.iter().chain(&self.rare) {
            if caught.is_none() {
                caught = Self::catch_in(trial, request, bug.name, observer, &mut cuts)?;
            }
        }
        // Orders that hardly ever show want more kinds of machines than these.
        if caught.is_none() && self.hunts {
            caught = hunted(self.design, bug.name, 1..=HUNTED_SEEDS, observer, &mut cuts)?;
        }
        let at = |place: &str| self.usual.iter().position(|(trial, _)| *trial == place);
        let at = caught.as_ref().map(|caught| at(&caught.place));
        let by = caught
            .as_ref()
            .map(|caught| format!("{}, {}", caught.verdict, caught.place));
        let (place, token) = caught.map(|caught| (caught.place, caught.token)).unzip();
        let report = json!({
            "name": bug.name, "summary": bug.summary, "caught": by.is_some(), "by": by, "cuts": cuts,
            "token": token, "place": place.filter(|_| at != Some(Some(0))),
        });
        Ok((report, at.flatten().is_none()))
    }

    /// Tries a bug in a trial.
    fn catch_in(
        trial: &str,
        request: &Request,
        bug: &'static str,
        observer: &dyn Observer,
        cuts: &mut usize,
    ) -> Result<Option<Caught>, Error> {
        let mut request = request.clone();
        request.planted_bug = Some(bug.into());
        let shown = try_out(&request, Some(bug), observer)?;
        *cuts += shown.cuts;
        Ok(shown.first.map(|(verdict, token)| Caught {
            verdict: verdict.name().into(),
            place: trial.into(),
            token,
        }))
    }

    /// Tries a bug at the place where it was caught before.
    fn catch_at(
        &self,
        place: &str,
        bug: &'static str,
        observer: &dyn Observer,
        cuts: &mut usize,
    ) -> Result<Option<Caught>, Error> {
        if let Some(seed) = place.strip_prefix(HUNT).and_then(|seed| seed.parse().ok()) {
            return hunted(self.design, bug, seed..=seed, observer, cuts);
        }
        let trial = self
            .usual
            .iter()
            .chain(&self.rare)
            .find(|(trial, _)| *trial == place);
        match trial {
            Some((trial, request)) => Self::catch_in(trial, request, bug, observer, cuts),
            None => Ok(None),
        }
    }
}

/// Says how many of the bugs are done, from whatever thread.
struct Tally<'a> {
    done: AtomicU64,
    total: u64,
    unit: &'static str,
    observer: &'a dyn Observer,
}

impl<'a> Tally<'a> {
    fn of(total: usize, unit: &'static str, observer: &'a dyn Observer) -> Self {
        Self {
            done: AtomicU64::new(0),
            total: total as u64,
            unit,
            observer,
        }
    }

    fn one_more(&self, name: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed);
        (self.observer).progress(done, self.total, self.unit, name);
    }
}

/// What the clean design showed in several trials.
fn clean(shown: Vec<Shown>) -> Value {
    json!({
        "cuts": shown.iter().map(|one| one.cuts).sum::<usize>(),
        "false_alarms": shown.iter().map(|one| one.failed).sum::<usize>(),
        "token": shown.into_iter().find_map(|one| one.first).map(|(_, token)| token),
    })
}

/// Runs a design's bugs and the clean design, each on a thread of its own.
pub fn run(asked: &Mutants, observer: &dyn Observer) -> Result<Value, Error> {
    let design = asked.design.as_str();
    if GROUPS.contains(&design) {
        return groups::run(design, asked.jobs, observer);
    }
    let (bugs, trials) = Trials::of(design)?;
    if bugs.is_empty() {
        return Err(Error::Request(format!(
            "{design} has no planted bugs, for it promises nothing"
        )));
    }
    let jobs = asked.jobs.unwrap_or(1);
    let tally = Tally::of(bugs.len() + 1, "bugs", observer);
    let caught = parallel::map(jobs, bugs, |bug| {
        tally.one_more(bug.name);
        let mut before = caught_before().filter(|_| !asked.anew);
        let known = before.find(|(of, name, _)| (*of, *name) == (design, bug.name));
        trials.catch(bug, known.map(|(.., place)| place), observer)
    })?;
    let (mutants, rare_was_needed): (Vec<Value>, Vec<bool>) = caught.into_iter().unzip();
    let rare_was_needed = rare_was_needed.contains(&true);
    let unharmed: Vec<_> = (trials.usual.iter())
        .chain(trials.rare.iter().filter(|_| rare_was_needed))
        .collect();
    tally.one_more("the clean design");
    let shown = parallel::map(jobs, &unharmed, |(_, request)| {
        try_out(request, None, observer)
    })?;
    Ok(json!({"design": design, "mutants": mutants, "clean": clean(shown)}))
}

/// The group of what restoring may lose; it takes guests that somebody has compiled ([`crate::losing`]).
pub const STATE: &str = "state";

/// Groups of bugs that are no design's.
pub const GROUPS: &[&str] = &[
    "machine",
    persistence::PERSISTENCE,
    "replication",
    "verifier",
];

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutants {
    /// A design, one of [`GROUPS`], or [`STATE`].
    pub design: String,
    /// Threads.
    pub jobs: Option<usize>,
    /// Bugs are hunted, even if it is known where they were caught before.
    #[serde(default)]
    pub anew: bool,
    /// The folder of compiled guests, for [`STATE`] alone.
    pub guests: Option<PathBuf>,
    /// The list of what the guests cannot notice.
    pub unnoticed: Option<PathBuf>,
}

impl Mutants {
    /// The losses that are asked for, if it is those.
    pub fn losses(&self) -> Result<Option<Losing<'_>>, Error> {
        let design = &self.design;
        let refused = |text: String| Err(Error::Request(text));
        match (&self.guests, &self.unnoticed) {
            (Some(guests), unnoticed) if design == STATE => Ok(Some(Losing {
                guests,
                unnoticed: unnoticed.as_deref(),
                jobs: self.jobs.unwrap_or(1),
            })),
            (None, Some(_)) => refused(
                "a list of what guests cannot notice (--unnoticed) needs their folder (--guests)"
                    .into(),
            ),
            (None, None) if design == STATE => refused(format!(
                "mutants of the saved state ({STATE}) need the folder of compiled guests (--guests)"
            )),
            (Some(_), _) => refused(format!(
                "guests (--guests) are for mutants of the saved state ({STATE}), not for those of {design}"
            )),
            (None, None) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_that_panics_catches_no_bug() {
        let panicked = "recovery has a defect: it panicked at a.rs:1:1: half a log";
        let said = refuse_panic(Some("half-undo"), Some(panicked)).unwrap_err();
        assert!(
            said.to_string()
                .contains("with half-undo, recovery has a defect")
        );
        assert!(refuse_panic(Some("half-undo"), Some("the image is corrupt")).is_ok());
        assert!(refuse_panic(None, None).is_ok());
    }

    #[test]
    fn every_place_is_one_of_a_design_s() {
        assert_eq!(caught_before().count(), CAUGHT.lines().count());
        for (design, name, place) in caught_before() {
            let (bugs, trials) = Trials::of(design).expect("a design");
            assert!(bugs.iter().any(|bug| bug.name == name), "{design} {name}");
            let mut all = trials.usual.iter().chain(&trials.rare);
            let seed = place.strip_prefix(HUNT).map(str::parse::<u64>);
            let known = matches!(seed, Some(Ok(1..=HUNTED_SEEDS)));
            assert!(
                known || all.any(|(trial, _)| *trial == place),
                "{design} {name} {place}"
            );
        }
    }
}
