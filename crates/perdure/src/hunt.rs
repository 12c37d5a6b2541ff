//! `perdure hunt`: swarm testing. Each seed draws a machine, a schedule and a design's unlucky choices
//! of its own, and cuts the power there; the first failure is made as small as it still shows.
//!
//! Always true here:
//! - A seed is the whole story: the same seed of the same request draws the same machine and makes
//!   the same cuts, in any order, on any number of threads or hosts.
//! - What is reported ends with the lowest seed that failed, or with the last one asked for; seeds
//!   that happened to be done beyond it are dropped. Where time or the user ends it, it may lack some.
//! - A machine that the design refuses is drawn again, from the same seed. A run that the design
//!   gives up in the middle (a log that is full), or a drawn program without an end, accuses nobody,
//!   and is counted.

mod drawn;
mod shrunk;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use self::drawn::Drawn;
pub(crate) use self::drawn::{CACHES, Choice, MACHINES, caches, one_of};
use crate::campaign::{self, Campaign, broken};
use crate::configuration::design_named;
use crate::error::Error;
use crate::observer::{Observer, Timely};
use crate::parallel;
use crate::request::{Prepared, Request};
use crate::verify::Verdict;

/// Cuts of one seed.
const CUTS: u64 = 60;

/// Machines that are drawn for one seed until the design takes one.
const DRAWS: u64 = 24;

/// A drawn program that retires more has no end: the longest takes 1.8 million. Where caches have few lines,
/// what is fetched between LR and SC can always take the reserved one's place.
const MOST_INSTRUCTIONS: u64 = 50_000_000;

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hunt {
    /// The design, the program if there is one, and settings that every machine has.
    pub request: Request,
    /// The first seed.
    #[serde(default = "first")]
    pub first_seed: u64,
    /// So many seeds.
    pub seeds: Option<u64>,
    /// As many seeds as make so many cuts.
    pub cuts: Option<u64>,
    /// As many as begin within so much time, and end within twice as much.
    pub seconds: Option<f64>,
    /// Make a failure smaller before it is reported.
    #[serde(default = "yes")]
    pub shrink: bool,
}

fn yes() -> bool {
    true
}

fn first() -> u64 {
    1
}

/// A failure, and how to see it again.
#[derive(Clone, Debug)]
struct Failure {
    verdict: String,
    message: Option<String>,
    /// Of the cut; for what no cut showed, the start.
    cycle: u64,
    token: String,
    /// Why, if that was wanted.
    explanation: Option<Value>,
}

/// What a run of one request came to.
#[derive(Debug, Default)]
struct Seen {
    cuts: u64,
    resumed: u64,
    cuts_during_recovery: u64,
    states: BTreeMap<String, u64>,
    paths: BTreeMap<String, u64>,
    gave_up: bool,
    failure: Option<Failure>,
}

impl Seen {
    fn given_up() -> Self {
        Self {
            gave_up: true,
            ..Self::default()
        }
    }
}

/// Why a run came to nothing.
enum Stopped {
    /// The machine cannot be built, or not with this design.
    Refused,
    Interrupted,
    Error(Error),
}

/// A failure of the run itself: any cut of it shows it.
fn without_cut(request: &Request, prepared: &Prepared, verdict: Verdict, error: &Error) -> Failure {
    let token = broken::token(request, prepared, error);
    Failure {
        verdict: verdict.name().into(),
        message: Some(error.to_string()),
        cycle: token.at,
        token: token.encode(),
        explanation: None,
    }
}

fn attempt(request: &Request, observer: &dyn Observer) -> Result<Seen, Stopped> {
    attempt_explained(request, false, observer)
}

fn attempt_explained(
    request: &Request,
    explains: bool,
    observer: &dyn Observer,
) -> Result<Seen, Stopped> {
    let prepared = match request.prepare() {
        Ok(mut prepared) => {
            prepared.explains = explains;
            prepared
        }
        Err(Error::Configuration(_)) => return Err(Stopped::Refused),
        Err(other) => return Err(Stopped::Error(other)),
    };
    let planted = request.planted_bug.as_deref();
    let named = |bug: &&perdure_designs::PlantedBug| Some(bug.name) == planted;
    let bug = (prepared.configuration.design.planted_bugs.iter())
        .find(named)
        .map(|bug| bug.name);
    let campaign = match campaign::run(request, &prepared, bug, observer) {
        Ok(campaign) => campaign,
        Err(Error::Configuration(_)) => return Err(Stopped::Refused),
        Err(Error::Design { .. }) => {
            return Ok(Seen::given_up());
        }
        Err(error) => match broken::verdict(&error) {
            Some(verdict) => {
                return Ok(Seen {
                    failure: Some(without_cut(request, &prepared, verdict, &error)),
                    ..Seen::default()
                });
            }
            None if observer.interrupted() => return Err(Stopped::Interrupted),
            None => return Err(Stopped::Error(error)),
        },
    };
    if campaign.interrupted {
        return Err(Stopped::Interrupted);
    }
    Ok(seen(&campaign, &prepared))
}

/// What a campaign has seen.
fn seen(campaign: &Campaign, prepared: &Prepared) -> Seen {
    let document = Value::Object(campaign.to_json(prepared));
    let counts = |key: &str| -> BTreeMap<String, u64> {
        let counts = document["coverage"][key].as_object();
        let counts = counts.into_iter().flatten();
        counts
            .filter_map(|(name, count)| Some((name.clone(), count.as_u64()?)))
            .filter(|(_, count)| *count > 0)
            .collect()
    };
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let accused = |verdict: Verdict| verdict.is_failure();
    let failed = campaign.results.iter().find(|one| accused(one.verdict));
    Seen {
        cuts: number(&document["cuts"]),
        resumed: number(&document["resumed"]),
        cuts_during_recovery: number(&document["coverage"]["cuts_during_recovery"]),
        states: counts("design_states"),
        paths: counts("paths"),
        gave_up: false,
        failure: failed.map(|one| {
            let document = one.to_json();
            let text = |key: &str| document[key].as_str().map(ToOwned::to_owned);
            Failure {
                verdict: text("verdict").unwrap_or_default(),
                message: text("message"),
                cycle: number(&document["cycle"]),
                token: one.token.clone(),
                explanation: document.get("explanation").cloned(),
            }
        }),
    }
}

/// An observer of many runs at once: it passes interruptions on, and ends a run that would have no end.
struct Quiet<'a> {
    observer: &'a dyn Observer,
    most_instructions: u64,
    is_endless: AtomicBool,
}

impl Observer for Quiet<'_> {
    fn progress(&self, done: u64, _total: u64, unit: &str, _message: &str) {
        if unit == "instructions" && done > self.most_instructions {
            self.is_endless.store(true, Ordering::Relaxed);
        }
    }

    fn interrupted(&self) -> bool {
        self.observer.interrupted() || self.is_endless.load(Ordering::Relaxed)
    }
}

/// What all seeds have seen so far.
struct Hunters<'a> {
    hunt: &'a Hunt,
    drawn: &'a Drawn,
    observer: &'a dyn Observer,
    started: Instant,
    next: AtomicU64,
    /// No seed beyond it is begun: the lowest that failed.
    last: AtomicU64,
    done: Mutex<BTreeMap<u64, (Request, Seen)>>,
}

impl Hunters<'_> {
    fn work(&self) -> Result<(), Error> {
        while self.goes_on() {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed > self.last.load(Ordering::Relaxed) {
                return Ok(());
            }
            let Some((request, seen)) = self.try_seed(seed)? else {
                return Ok(());
            };
            if seen.failure.is_some() {
                self.last.fetch_min(seed, Ordering::Relaxed);
            }
            self.keep(seed, request, seen);
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        let in_time = self.after(1.0).is_none_or(|end| Instant::now() < end);
        let done = self.lock();
        let cuts: u64 = done.values().map(|(_, seen)| seen.cuts).sum();
        in_time && self.hunt.cuts.is_none_or(|most| cuts < most) && !self.observer.interrupted()
    }

    /// When so many times as long is over as was given, if that ever is.
    fn after(&self, times: f64) -> Option<Instant> {
        let given = Duration::try_from_secs_f64(times * self.hunt.seconds?).ok()?;
        self.started.checked_add(given)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, (Request, Seen)>> {
        self.done
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Draws machines for a seed until the design takes one. `None` if the user stopped it.
    fn try_seed(&self, seed: u64) -> Result<Option<(Request, Seen)>, Error> {
        let draws = drawn::draws_program(&self.hunt.request);
        let quiet = Quiet {
            observer: self.observer,
            most_instructions: if draws { MOST_INSTRUCTIONS } else { u64::MAX },
            is_endless: AtomicBool::new(false),
        };
        // On a machine on which the program never ends, neither would the hunt.
        let observer = Timely {
            observer: &quiet,
            until: self.after(2.0),
        };
        for number in 0..DRAWS {
            let request = self.drawn.request(&self.hunt.request, seed, number);
            match attempt(&request, &observer) {
                Ok(seen) => return Ok(Some((request, seen))),
                Err(Stopped::Refused) => {}
                Err(Stopped::Interrupted) if quiet.is_endless.load(Ordering::Relaxed) => {
                    return Ok(Some((request, Seen::given_up())));
                }
                Err(Stopped::Interrupted) => return Ok(None),
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        // Nothing that was drawn fits what the user set: it is the user's machine, then.
        let request = Request {
            seed: Some(seed),
            cuts: Some(CUTS),
            during_recovery: true,
            ..self.hunt.request.clone()
        };
        match attempt(&request, &observer) {
            Ok(seen) => Ok(Some((request, seen))),
            Err(Stopped::Interrupted) => Ok(None),
            Err(Stopped::Error(error)) => Err(error),
            Err(Stopped::Refused) => {
                request.prepare()?;
                Err(Error::Configuration(format!(
                    "seed {seed}: {} takes no machine with these settings",
                    request.design
                )))
            }
        }
    }

    fn keep(&self, seed: u64, request: Request, seen: Seen) {
        let mut done = self.lock();
        let known = |pick: fn(&Seen) -> &BTreeMap<String, u64>| -> Vec<String> {
            let all = done.values().flat_map(|(_, seen)| pick(seen).keys());
            all.cloned().collect()
        };
        let (states, paths) = (known(|seen| &seen.states), known(|seen| &seen.paths));
        let new: Vec<&str> = (seen.states.keys().filter(|one| !states.contains(one)))
            .chain(seen.paths.keys().filter(|one| !paths.contains(one)))
            .map(String::as_str)
            .collect();
        let news = if new.is_empty() {
            "nothing new".into()
        } else {
            format!("new: {}", new.join(", "))
        };
        done.insert(seed, (request, seen));
        let cuts = done.values().map(|(_, seen)| seen.cuts).sum();
        let message = format!("seed {seed}: {news}");
        drop(done);
        let total = self.hunt.cuts.unwrap_or(0);
        self.observer.progress(cuts, total, "cuts", &message);
    }
}

/// Hunts. The result is the same for any number of jobs, unless time or the user ends it.
pub fn run(hunt: &Hunt, observer: &dyn Observer) -> Result<Value, Error> {
    let design = &hunt.request.design;
    let drawn = Drawn::of(design_named(design)?);
    if !drawn.has_epochs {
        return Err(Error::Request(format!(
            "hunt: under {design} programs are lost with the power, and a hunt watches how they go on: use `perdure cut`"
        )));
    }
    if hunt.seeds.is_none() && hunt.cuts.is_none() && hunt.seconds.is_none() {
        return Err(Error::Request(
            "hunt: say how long, with --cuts or --minutes".into(),
        ));
    }
    let last = hunt.seeds.map_or(u64::MAX, |seeds| {
        (hunt.first_seed + seeds).saturating_sub(1)
    });
    let hunters = Hunters {
        hunt,
        drawn: &drawn,
        observer,
        started: Instant::now(),
        next: AtomicU64::new(hunt.first_seed),
        last: AtomicU64::new(last),
        done: Mutex::default(),
    };
    let jobs = hunt.request.jobs.unwrap_or(1).max(1);
    parallel::threads(jobs, |_| hunters.work())?;
    let interrupted = observer.interrupted();
    let done = hunters.done.into_inner();
    let done = done.unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(report(hunt, done, interrupted, observer))
}

/// What the seeds up to the last that counts have seen. A hunt that was ended has those that were done.
fn report(
    hunt: &Hunt,
    done: BTreeMap<u64, (Request, Seen)>,
    interrupted: bool,
    observer: &dyn Observer,
) -> Value {
    let mut sums = Seen::default();
    let (mut gave_up, mut found) = (0u64, Value::Null);
    let mut by_seed = Vec::new();
    for (seed, (request, seen)) in done {
        sums.cuts += seen.cuts;
        sums.resumed += seen.resumed;
        sums.cuts_during_recovery += seen.cuts_during_recovery;
        gave_up += u64::from(seen.gave_up);
        let mut new = Vec::new();
        for (all, these) in [
            (&mut sums.states, &seen.states),
            (&mut sums.paths, &seen.paths),
        ] {
            for (name, count) in these {
                if !all.contains_key(name) {
                    new.push(name.clone());
                }
                *all.entry(name.clone()).or_default() += count;
            }
        }
        by_seed.push(json!({"seed": seed, "cuts": seen.cuts, "gave_up": seen.gave_up, "new": new}));
        if let Some(failure) = seen.failure {
            found = shrunk::shrunk(seed, &request, failure, hunt.shrink, observer);
            break;
        }
        if hunt.cuts.is_some_and(|most| sums.cuts >= most) {
            break;
        }
    }
    json!({
        "design": hunt.request.design,
        "planted_bug": hunt.request.planted_bug,
        "first_seed": hunt.first_seed,
        "seeds": by_seed.len(),
        "cuts": sums.cuts,
        "resumed": sums.resumed,
        "gave_up": gave_up,
        "interrupted": interrupted,
        "coverage": {
            "design_states": sums.states,
            "paths": sums.paths,
            "cuts_during_recovery": sums.cuts_during_recovery,
        },
        "found": found,
        "by_seed": by_seed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Unobserved;

    /// Ctrl-C, or the time's end, while the first seed still ran: what was done beside it is kept.
    #[test]
    fn what_was_done_is_reported_though_an_earlier_seed_was_not() {
        let hunt: Hunt = serde_json::from_value(json!({"request": {"design": "picl"}})).unwrap();
        let seen = || Seen {
            cuts: CUTS,
            ..Seen::default()
        };
        let done = [2, 3, 5].map(|seed| (seed, (hunt.request.clone(), seen())));
        let report = report(&hunt, done.into(), true, &Unobserved);
        assert_eq!(report["seeds"], 3);
        assert_eq!(report["cuts"], 3 * CUTS);
        assert_eq!(report["by_seed"][2]["seed"], 5);
    }

    #[test]
    fn a_drawn_program_without_an_end_is_interrupted() {
        let quiet = Quiet {
            observer: &Unobserved,
            most_instructions: 10,
            is_endless: AtomicBool::new(false),
        };
        quiet.progress(11, 0, "cuts", "");
        quiet.progress(10, 0, "instructions", "");
        assert!(!quiet.interrupted());
        quiet.progress(11, 0, "instructions", "");
        assert!(quiet.interrupted());
    }
}
