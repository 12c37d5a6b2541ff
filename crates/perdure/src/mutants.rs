//! Proof that the verifier can fail: every planted bug must be caught, and the clean design never
//! accused, by the same cuts. Bugs are planted in designs, in the machine and in replication; and in the
//! judge itself, whose checks are switched off one by one ([`Blind`]): each time, a bug that only this
//! check catches must slip through, or the check is worth nothing.
//!
//! The program is the exerciser (`@exerciser`), on machines made small and unlucky in different
//! ways ("buggify"): tiny caches, a direct-mapped last-level cache, epochs of a few thousand
//! instructions, fast media; each with the next of the design's own unlucky settings.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use perdure_designs::{Design, PlantedBug, Promise, Visitor, with_design};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::campaign;
use crate::configuration::no_such_design;
use crate::error::Error;
use crate::hunt::{self, Hunt};
use crate::losing::Losing;
use crate::mistakes::{Blind, MISTAKES, Mistake, PREFIX, Part};
use crate::observer::Observer;
use crate::parallel;
use crate::request::{Prepared, Request, Resume, Schedule};
use crate::verify::Verdict;

/// A small, unlucky machine with its program and schedule.
struct Trial {
    name: &'static str,
    program: &'static str,
    set: &'static [&'static str],
    schedule: Schedule,
    cuts: u64,
}

const TINY_CACHES: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=64KiB",
    "epoch.instructions=20000",
];

const DIRECT_MAPPED: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l1d.ways=1",
    "l2.bytes=8KiB",
    "l2.ways=1",
    "llc.bytes_per_hart=16KiB",
    "llc.ways=1",
    "epoch.instructions=10000",
];

const SHORT_EPOCHS: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=64KiB",
    "epoch.instructions=5000",
];

/// Media so fast that an epoch is durable almost as soon as it ends.
const FAST_MEDIA: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=64KiB",
    "epoch.instructions=5000",
    "nvm.row_bytes=4096",
    "nvm.row_read_ns=10",
    "nvm.row_write_ns=10",
];

const CACHE_RESIDENT: &[&str] = &["epoch.instructions=20000"];

const TRIALS: &[Trial] = &[
    Trial {
        name: "tiny caches",
        program: "@exerciser:12000:256:1000",
        set: TINY_CACHES,
        schedule: Schedule::Random,
        cuts: 150,
    },
    Trial {
        name: "direct-mapped caches",
        program: "@exerciser:6000:64:1000",
        set: DIRECT_MAPPED,
        schedule: Schedule::Stratified,
        cuts: 300,
    },
    Trial {
        name: "short epochs",
        program: "@exerciser:8000:128:2000",
        set: SHORT_EPOCHS,
        schedule: Schedule::Random,
        cuts: 200,
    },
    Trial {
        name: "fast media",
        program: "@exerciser:8000:32:2000",
        set: FAST_MEDIA,
        schedule: Schedule::Stratified,
        cuts: 300,
    },
    Trial {
        name: "working set in the caches",
        program: "@exerciser:8000:16:500",
        set: CACHE_RESIDENT,
        schedule: Schedule::Stratified,
        cuts: 150,
    },
];

const FOUR_TINY: &[&str] = &[
    "harts=4",
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=16KiB",
    "epoch.stores=500",
];

const FOUR_DIRECT_MAPPED: &[&str] = &[
    "harts=4",
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l1d.ways=1",
    "l2.bytes=8KiB",
    "l2.ways=1",
    "llc.bytes_per_hart=8KiB",
    "llc.ways=1",
    "epoch.stores=200",
];

const FOUR_RESIDENT: &[&str] = &["harts=4", "epoch.stores=300"];

/// Two sharing groups of two harts, which find most of each other's lines in the L2 that they share.
const PAIRS: &[&str] = &[
    "harts=4",
    "l2.harts=2",
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=64KiB",
    "llc.bytes_per_hart=16KiB",
    "epoch.stores=300",
];

const TWO_FAST: &[&str] = &[
    "harts=2",
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=16KiB",
    "epoch.stores=200",
    "nvm.row_bytes=4096",
    "nvm.row_read_ns=10",
    "nvm.row_write_ns=10",
];

/// For designs whose sharing groups have an epoch each: several harts that share their lines.
const TRIALS_OF_DOMAINS: &[Trial] = &[
    Trial {
        name: "four harts, tiny caches",
        program: "@exerciser:1500:64:400:4",
        set: FOUR_TINY,
        schedule: Schedule::Random,
        cuts: 100,
    },
    Trial {
        name: "four harts, direct-mapped caches",
        program: "@exerciser:1500:16:400:4",
        set: FOUR_DIRECT_MAPPED,
        schedule: Schedule::Stratified,
        cuts: 200,
    },
    Trial {
        name: "four harts, working set in the caches",
        program: "@exerciser:1500:4:300:4",
        set: FOUR_RESIDENT,
        schedule: Schedule::Random,
        cuts: 150,
    },
    Trial {
        name: "two harts, fast media",
        program: "@exerciser:3000:32:500:2",
        set: TWO_FAST,
        schedule: Schedule::Stratified,
        cuts: 200,
    },
    Trial {
        name: "four harts, more than the caches hold",
        program: "@exerciser:3000:1024:1000:4",
        set: FOUR_TINY,
        schedule: Schedule::Random,
        cuts: 150,
    },
    Trial {
        name: "two pairs of harts, each with an L2",
        program: "@exerciser:1500:4:400:4",
        set: PAIRS,
        schedule: Schedule::Random,
        cuts: 150,
    },
];

/// Two banks that are slow to write and quick to read, four harts, and caches that hold next to nothing:
/// writes of different banks end out of the order in which they were accepted.
const TWO_BANKS: &[&str] = &[
    "nvm.banks=2",
    "nvm.row_read_ns=10",
    "harts=4",
    "l1i.bytes=1KiB",
    "l1d.bytes=512",
    "l1d.ways=1",
    "l2.bytes=2KiB",
    "l2.ways=1",
    "llc.bytes_per_hart=4KiB",
    "llc.ways=1",
    "epoch.stores=500",
];

/// For what the other trials do not show: many cuts, so that only designs that have such a bug make
/// them.
const RARE: Trial = Trial {
    name: "two banks",
    program: "@exerciser:400:64:1000:4",
    set: TWO_BANKS,
    schedule: Schedule::Random,
    cuts: 1000,
};

impl Trial {
    fn request(&self, design: &str, unlucky: &[&str]) -> Request {
        let of_groups = self.set[0].starts_with("harts");
        Request {
            design: design.into(),
            machine: if of_groups { "nvoverlay" } else { "picl" }.into(),
            set: (self.set.iter().chain(unlucky))
                .map(|&text| text.to_owned())
                .collect(),
            program: vec![self.program.into()],
            schedule: Some(self.schedule),
            cuts: Some(self.cuts),
            seed: Some(1),
            during_recovery: true,
            resume: Some(Resume::Sample),
            ..Request::default()
        }
    }
}

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
        let (trials, rare) = match D::PROMISE {
            Promise::CausalCut => (TRIALS_OF_DOMAINS, None),
            Promise::EpochPrefix | Promise::Nothing => (TRIALS, Some(&RARE)),
        };
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
        return run_group(design, jobs, observer);
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

// ---- The machine, replication, and the judge ---------------------------------------------------

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

/// A run in which a bug of one of the groups shows, and the same without it.
struct Stage {
    design: &'static str,
    bug: Option<&'static str>,
    mistake: Option<Mistake>,
    blind: Option<Blind>,
    resume: Resume,
    during_recovery: bool,
    replica: bool,
}

const PLAIN: Stage = Stage {
    design: "picl",
    bug: None,
    mistake: None,
    blind: None,
    resume: Resume::None,
    during_recovery: false,
    replica: false,
};

/// For each check, a bug that nothing else catches where nothing else looks.
const BLINDS: &[(&str, &str, Blind, Stage)] = &[
    (
        "no-digests",
        "recovered memory is not compared; PiCL's log is applied in the wrong order",
        Blind::Digest,
        Stage {
            bug: Some("forward-scan"),
            ..PLAIN
        },
    ),
    (
        "no-age",
        "the recovered epoch may be older than what left; PiCL lets output out at the commit",
        Blind::Age,
        Stage {
            bug: Some("release-at-commit"),
            ..PLAIN
        },
    ),
    (
        "no-stamps",
        "what left may be of an epoch that had not ended; output is sealed as the epoch before's",
        Blind::Stamps,
        Stage {
            mistake: Some(Mistake::SealsEarly),
            ..PLAIN
        },
    ),
    (
        "no-causality",
        "causal cuts need not be closed; a sharing group loads from a newer epoch and stays in its own",
        Blind::Causality,
        Stage {
            design: "nvoverlay",
            bug: Some("load-ignores-response"),
            ..PLAIN
        },
    ),
    (
        "no-convergence",
        "recovery is not cut; shadow paging's retires the commit before it has copied pages home",
        Blind::Convergence,
        Stage {
            design: "shadow-paging",
            bug: Some("recovery-retires-first"),
            during_recovery: true,
            ..PLAIN
        },
    ),
    (
        "no-refusal",
        "recovery may refuse an image, and it does",
        Blind::Refusal,
        Stage {
            mistake: Some(Mistake::Refuses),
            ..PLAIN
        },
    ),
    (
        "no-resumption",
        "what came back need not be resumable; the machine record is damaged before it is stored",
        Blind::Resumption,
        Stage {
            mistake: Some(Mistake::SavesDamagedRecord),
            ..RESUMED
        },
    ),
    (
        "no-carried",
        "a resumed machine may have other memory than was recovered, and it has",
        Blind::Carried,
        Stage {
            mistake: Some(Mistake::ResumesOtherMemory),
            ..RESUMED
        },
    ),
    (
        "no-repetition",
        "what has left may leave again as something else, and it does",
        Blind::Repetition,
        Stage {
            mistake: Some(Mistake::GarblesAgain),
            ..RESUMED
        },
    ),
    (
        "no-status",
        "a resumed run may end with another exit status; it ends with 0",
        Blind::Status,
        Stage {
            mistake: Some(Mistake::LosesStatus),
            ..RESUMED
        },
    ),
    (
        "no-output",
        "a resumed run may print something else; it changes the last byte of all that leaves",
        Blind::Output,
        Stage {
            mistake: Some(Mistake::GarblesOutput),
            ..RESUMED
        },
    ),
    (
        "no-golden-machine",
        "a different end is always taken for a matter of timing; the same",
        Blind::Timing,
        Stage {
            mistake: Some(Mistake::GarblesOutput),
            ..RESUMED
        },
    ),
    (
        "no-determinism",
        "two runs may end differently, and they do",
        Blind::Determinism,
        Stage {
            mistake: Some(Mistake::Drifts),
            ..PLAIN
        },
    ),
    (
        "no-replica",
        "a replica may hold what it likes; it names the epoch after the one that it holds",
        Blind::Replica,
        Stage {
            design: "nvoverlay",
            mistake: Some(Mistake::ReplicaNamesNextEpoch),
            replica: true,
            ..PLAIN
        },
    ),
];

/// Of the lives after a cut.
const RESUMED: Stage = Stage {
    resume: Resume::All,
    ..PLAIN
};

struct StageVisitor<'a> {
    stage: &'a Stage,
    observer: &'a dyn Observer,
}

impl Visitor for StageVisitor<'_> {
    type Output = Result<Shown, Error>;

    fn visit<D: Design>(self) -> Self::Output {
        let trials = match D::PROMISE {
            Promise::CausalCut => TRIALS_OF_DOMAINS,
            Promise::EpochPrefix | Promise::Nothing => TRIALS,
        };
        let stage = self.stage;
        let request = Request {
            // A resumed cut takes as long as many that are not.
            cuts: Some(if stage.resume == Resume::None { 60 } else { 16 }),
            schedule: Some(Schedule::NearEvents),
            resume: Some(stage.resume),
            during_recovery: stage.during_recovery,
            replica: stage.replica,
            generations: Some(1),
            planted_bug: stage.bug.map(ToOwned::to_owned).or_else(|| {
                let named = |(_, mistake): &&(_, Mistake)| Some(*mistake) == stage.mistake;
                let found = MISTAKES.iter().find(named);
                found.map(|(bug, _)| format!("{PREFIX}{}", bug.name))
            }),
            ..trials[if stage.replica { 2 } else { 0 }].request(D::NAME, &[])
        };
        let mut prepared = request.prepare()?;
        prepared.workload.mistake = stage.mistake;
        prepared.blind = stage.blind;
        let planted = stage.bug.is_some() || stage.mistake.is_some();
        prepared.until_failure = planted;
        shown::<D>(&request, &prepared, stage.bug, planted, self.observer)
    }
}

fn show(stage: &Stage, observer: &dyn Observer) -> Result<Shown, Error> {
    let visitor = StageVisitor { stage, observer };
    with_design(stage.design, visitor).ok_or_else(|| no_such_design(stage.design))?
}

/// Runs the bugs of a group, and the same machine without any.
fn run_group(group: &str, jobs: Option<usize>, observer: &dyn Observer) -> Result<Value, Error> {
    if group == "verifier" {
        return run_blinds(jobs, observer);
    }
    let machine = RESUMED;
    let (part, unharmed) = if group == "machine" {
        (Part::Machine, machine)
    } else {
        let replicated = Stage {
            design: "nvoverlay",
            replica: true,
            ..machine
        };
        (Part::Replication, replicated)
    };
    let of_part = MISTAKES
        .iter()
        .filter(|(_, mistake)| mistake.part() == part);
    // The exerciser writes no files.
    let bugs: Vec<_> = of_part
        .filter(|(_, mistake)| *mistake != Mistake::HoldsFilesEarly)
        .collect();
    let tally = Tally::of(bugs.len() + 1, "bugs", observer);
    let mutants = parallel::map(jobs.unwrap_or(1), &bugs, |(bug, mistake)| {
        tally.one_more(bug.name);
        let mistake = Some(*mistake);
        let shown = show(
            &Stage {
                mistake,
                ..unharmed
            },
            observer,
        )?;
        let caught = shown.failed > 0;
        let first = shown.first.map(|(verdict, token)| (verdict.name(), token));
        let (by, token) = first.unzip();
        Ok(json!({
            "name": bug.name, "summary": bug.summary, "caught": caught, "by": by,
            "cuts": shown.cuts, "token": token,
        }))
    })?;
    tally.one_more("the clean machine");
    let shown = show(&unharmed, observer)?;
    Ok(json!({"design": group, "mutants": mutants, "clean": clean(vec![shown])}))
}

/// Switches the judge's checks off, one by one: the bug is caught with the check, and without it not.
fn run_blinds(jobs: Option<usize>, observer: &dyn Observer) -> Result<Value, Error> {
    let tally = Tally::of(BLINDS.len(), "checks", observer);
    let checks = parallel::map(
        jobs.unwrap_or(1),
        BLINDS,
        |(name, summary, blind, stage)| {
            tally.one_more(name);
            let seeing = show(stage, observer)?;
            let blind = Some(*blind);
            let blinded = show(&Stage { blind, ..*stage }, observer)?;
            let unharmed = Stage {
                bug: None,
                mistake: None,
                ..*stage
            };
            let unharmed = show(&unharmed, observer)?;
            let caught = seeing.failed > 0 && blinded.failed == 0;
            let by = match (seeing.failed > 0, blinded.failed > 0, &seeing.first) {
                (true, false, Some((verdict, _))) => {
                    Some(format!("{}, with the check", verdict.name()))
                }
                (false, ..) => Some("the bug is not caught with the check either".into()),
                (_, true, _) => Some("another check catches the bug".into()),
                _ => None,
            };
            let report = json!({
                "name": name, "summary": summary, "caught": caught, "by": by,
                "cuts": seeing.cuts + blinded.cuts, "token": seeing.first.map(|(_, token)| token),
            });
            Ok((report, unharmed))
        },
    )?;
    let (mutants, unharmed): (Vec<Value>, Vec<Shown>) = checks.into_iter().unzip();
    Ok(json!({"design": "verifier", "mutants": mutants, "clean": clean(unharmed)}))
}
