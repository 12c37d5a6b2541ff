//! Proof that the verifier can fail: every planted bug must be caught, and the clean design never
//! accused, by the same cuts. Bugs are planted in designs, in the machine and in replication; and in the
//! judge itself, whose checks are switched off one by one ([`Blind`]): each time, a bug that only this
//! check catches must slip through, or the check is worth nothing.
//!
//! The program is the exerciser (`@exerciser`), on machines made small and unlucky in different
//! ways ("buggify"): tiny caches, a direct-mapped last-level cache, epochs of a few thousand
//! instructions, fast media; each with the next of the design's own unlucky settings.

mod groups;
mod trials;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use perdure_designs::{Design, PlantedBug, Visitor, with_design};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::campaign;
use crate::configuration::no_such_design;
use crate::error::Error;
use crate::hunt::{self, Hunt};
use crate::losing::Losing;
use crate::observer::Observer;
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

struct TrialVisitor<'a> {
    request: &'a Request,
    bug: Option<&'static str>,
    observer: &'a dyn Observer,
}

impl Visitor for TrialVisitor<'_> {
    type Output = Result<Shown, Error>;

    fn visit<D: Design>(self) -> Self::Output {
        let mut prepared = self.request.prepare()?;
        prepared.until_failure = self.bug.is_some();
        shown::<D>(
            self.request,
            &prepared,
            self.bug,
            self.bug.is_some(),
            self.observer,
        )
    }
}

/// What a campaign shows.
fn shown<D: Design>(
    request: &Request,
    prepared: &Prepared,
    bug: Option<&'static str>,
    planted: bool,
    observer: &dyn Observer,
) -> Result<Shown, Error> {
    let campaign = match campaign::run::<D>(request, prepared, bug, observer) {
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
        other => other?,
    };
    if campaign.interrupted {
        return Err(Error::Request("interrupted".into()));
    }
    let first = campaign
        .results
        .iter()
        .find(|one| one.verdict.is_failure())
        .map(|one| (one.verdict, one.token.clone()));
    Ok(Shown {
        cuts: campaign.results.len(),
        failed: campaign.failed(),
        first,
    })
}

struct Declared;

impl Visitor for Declared {
    type Output = (
        &'static [PlantedBug],
        &'static [&'static [&'static str]],
        &'static [Trial],
        Option<&'static Trial>,
    );

    fn visit<D: Design>(self) -> Self::Output {
        let (trials, rare) = trials::of_design::<D>();
        (D::PLANTED_BUGS, D::UNLUCKY_SETTINGS, trials, rare)
    }
}

/// Seeds of a hunt for a bug that the trials do not show.
const HUNTED_SEEDS: u64 = 80;

/// How a hunt catches a bug, and the token, if it does.
fn hunted(
    design: &str,
    bug: &str,
    observer: &dyn Observer,
    cuts: &mut usize,
) -> Result<Option<(String, String)>, Error> {
    let hunt = Hunt {
        request: Request {
            design: design.into(),
            planted_bug: Some(bug.into()),
            ..Request::default()
        },
        first_seed: 1,
        seeds: Some(HUNTED_SEEDS),
        cuts: None,
        seconds: None,
        shrink: false,
    };
    let report = hunt::run(&hunt, observer)?;
    *cuts += report["cuts"].as_u64().unwrap_or(0) as usize;
    let found = &report["found"];
    let text = |key: &str| found[key].as_str().map(ToOwned::to_owned);
    Ok(text("verdict")
        .zip(text("token"))
        .map(|(verdict, token)| (format!("{verdict}, hunt, seed {}", found["seed"]), token)))
}

/// A trial of a design, with a bug or without.
fn try_out(
    design: &str,
    request: &Request,
    bug: Option<&'static str>,
    observer: &dyn Observer,
) -> Result<Shown, Error> {
    let visitor = TrialVisitor {
        request,
        bug,
        observer,
    };
    with_design(design, visitor).expect("the design exists")
}

/// The trials of a design, by name: those that every bug and the clean design go through, and one that
/// is made only for bugs that the others have not shown.
struct Trials<'a> {
    design: &'a str,
    usual: Vec<(&'static str, Request)>,
    rare: Vec<(&'static str, Request)>,
}

impl Trials<'_> {
    /// Tries a bug until a trial catches it. What is reported, and whether the rare trial was needed.
    fn catch(&self, bug: &PlantedBug, observer: &dyn Observer) -> Result<(Value, bool), Error> {
        let mut cuts = 0;
        let mut caught = None;
        let mut rare_was_needed = false;
        for (at, (trial, request)) in self.usual.iter().chain(&self.rare).enumerate() {
            rare_was_needed |= at >= self.usual.len();
            let mut request = request.clone();
            request.planted_bug = Some(bug.name.into());
            let shown = try_out(self.design, &request, Some(bug.name), observer)?;
            cuts += shown.cuts;
            if let Some((verdict, token)) = shown.first {
                caught = Some((format!("{}, {trial}", verdict.name()), token));
                break;
            }
        }
        // Orders that hardly ever show want more kinds of machines than these.
        let caught = match caught {
            Some(caught) => Some(caught),
            None => hunted(self.design, bug.name, observer, &mut cuts)?,
        };
        let (by, token) = caught.clone().unzip();
        let report = json!({
            "name": bug.name, "summary": bug.summary, "caught": caught.is_some(), "by": by,
            "cuts": cuts, "token": token,
        });
        Ok((report, rare_was_needed))
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
pub fn run(design: &str, jobs: Option<usize>, observer: &dyn Observer) -> Result<Value, Error> {
    if GROUPS.contains(&design) {
        return groups::run(design, jobs, observer);
    }
    let (bugs, settings, trials, rare) =
        with_design(design, Declared).ok_or_else(|| no_such_design(design))?;
    let of_trial = |(trial, unlucky): (&'static Trial, &&'static [&'static str])| {
        (trial.name, trial.request(design, unlucky))
    };
    let trials = Trials {
        design,
        usual: (trials.iter().zip(settings.iter().cycle()))
            .map(of_trial)
            .collect(),
        rare: (rare.into_iter().zip(settings)).map(of_trial).collect(),
    };
    let jobs = jobs.unwrap_or(1);
    let tally = Tally::of(bugs.len() + 1, "bugs", observer);
    let caught = parallel::map(jobs, bugs, |bug| {
        tally.one_more(bug.name);
        trials.catch(bug, observer)
    })?;
    let (mutants, rare_was_needed): (Vec<Value>, Vec<bool>) = caught.into_iter().unzip();
    let rare_was_needed = rare_was_needed.contains(&true);
    let unharmed: Vec<_> = (trials.usual.iter())
        .chain(trials.rare.iter().filter(|_| rare_was_needed))
        .collect();
    tally.one_more("the clean design");
    let shown = parallel::map(jobs, &unharmed, |(_, request)| {
        try_out(design, request, None, observer)
    })?;
    Ok(json!({"design": design, "mutants": mutants, "clean": clean(shown)}))
}

/// The group of what restoring may lose; it takes guests that somebody has compiled ([`crate::losing`]).
pub const STATE: &str = "state";

/// Groups of bugs that are no design's.
pub const GROUPS: &[&str] = &["machine", "replication", "verifier"];

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutants {
    /// A design, one of [`GROUPS`], or [`STATE`].
    pub design: String,
    /// Threads.
    pub jobs: Option<usize>,
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
