//! Proof that the verifier can fail: every planted bug must be caught, and the clean design never
//! accused, by the same cuts.
//!
//! The program is the exerciser (`@exerciser`), on machines made small and unlucky in different
//! ways ("buggify"): tiny caches, a direct-mapped last-level cache, epochs of a few thousand
//! instructions, fast media; each with the next of the design's own unlucky settings.

use perdure_designs::{Design, Promise, Visitor, with_design};
use serde_json::{Value, json};

use crate::api::Observer;
use crate::campaign;
use crate::configuration::no_such_design;
use crate::error::Error;
use crate::request::{Request, Resume, Schedule};
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

/// Two domains of two harts, which find most of each other's lines in the L2 that they share.
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

/// For designs whose domains have an epoch each: several harts that share their lines.
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

impl Trial {
    fn request(&self, design: &str, unlucky: &[&str], jobs: Option<usize>) -> Request {
        let of_domains = self.set[0].starts_with("harts");
        Request {
            design: design.into(),
            machine: if of_domains { "nvoverlay" } else { "picl" }.into(),
            set: (self.set.iter().chain(unlucky))
                .map(|&text| text.to_owned())
                .collect(),
            program: vec![self.program.into()],
            schedule: Some(self.schedule),
            cuts: Some(self.cuts),
            seed: Some(1),
            during_recovery: true,
            resume: Some(Resume::Sample),
            jobs,
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
        let prepared = self.request.prepare()?;
        let campaign = match campaign::run::<D>(self.request, &prepared, self.bug, self.observer) {
            // A design that cannot even go on is caught, too.
            Err(error @ (Error::Design { .. } | Error::Defect(_))) if self.bug.is_some() => {
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
}

struct Declared;

impl Visitor for Declared {
    type Output = (
        &'static [perdure_designs::PlantedBug],
        &'static [&'static [&'static str]],
        &'static [Trial],
    );

    fn visit<D: Design>(self) -> Self::Output {
        let trials = match D::PROMISE {
            Promise::CausalCut => TRIALS_OF_DOMAINS,
            Promise::EpochPrefix | Promise::Nothing => TRIALS,
        };
        (D::PLANTED_BUGS, D::UNLUCKY_SETTINGS, trials)
    }
}

/// Runs a design's bugs, then the clean design.
pub fn run(design: &str, jobs: Option<usize>, observer: &dyn Observer) -> Result<Value, Error> {
    let (bugs, settings, trials) =
        with_design(design, Declared).ok_or_else(|| no_such_design(design))?;
    let trials: Vec<(&Trial, Request)> = trials
        .iter()
        .zip(settings.iter().cycle())
        .map(|(trial, unlucky)| (trial, trial.request(design, unlucky, jobs)))
        .collect();
    let total = bugs.len() as u64 + 1;
    let mut mutants = Vec::new();
    for (index, bug) in bugs.iter().enumerate() {
        observer.progress(index as u64, total, "bugs", bug.name);
        let mut cuts = 0;
        let mut caught = None;
        for (trial, request) in &trials {
            let mut request = request.clone();
            request.planted_bug = Some(bug.name.into());
            let visitor = TrialVisitor {
                request: &request,
                bug: Some(bug.name),
                observer,
            };
            let shown = with_design(design, visitor).expect("the design exists")?;
            cuts += shown.cuts;
            if let Some((verdict, token)) = shown.first {
                caught = Some((trial.name, verdict, token));
                break;
            }
        }
        mutants.push(json!({
            "name": bug.name,
            "summary": bug.summary,
            "caught": caught.is_some(),
            "by": caught.as_ref().map(|(trial, verdict, _)| {
                format!("{}, {trial}", json!(verdict).as_str().unwrap_or_default())
            }),
            "cuts": cuts,
            "token": caught.map(|(_, _, token)| token),
        }));
    }
    let (mut cuts, mut false_alarms, mut token) = (0, 0, None);
    for (_, request) in &trials {
        observer.progress(bugs.len() as u64, total, "bugs", "the clean design");
        let visitor = TrialVisitor {
            request,
            bug: None,
            observer,
        };
        let shown = with_design(design, visitor).expect("the design exists")?;
        cuts += shown.cuts;
        false_alarms += shown.failed;
        token = token.or(shown.first.map(|(_, token)| token));
    }
    Ok(json!({
        "design": design,
        "mutants": mutants,
        "clean": {"cuts": cuts, "false_alarms": false_alarms, "token": token},
    }))
}
