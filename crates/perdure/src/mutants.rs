//! Proof that the verifier can fail: every planted bug must be caught, and the clean design never
//! accused, by the same cuts.
//!
//! The program is the exerciser (`@exerciser`), on machines made small and unlucky in different
//! ways ("buggify"): tiny caches, a direct-mapped last-level cache, epochs of a few thousand
//! instructions, a log that must be reclaimed all the time, narrow EIDs about to wrap.

use perdure_designs::{Design, Visitor, with_design};
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
    "picl.log_extent_bytes=256KiB",
    "picl.log_limit_bytes=64MiB",
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
    "picl.acs_gap=1",
    "picl.log_extent_bytes=256KiB",
    "picl.log_limit_bytes=64MiB",
];

const NARROW_EPOCHS: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=64KiB",
    "epoch.instructions=5000",
    "picl.eid_bits=3",
    "picl.acs_gap=4",
    "picl.log_extent_bytes=64KiB",
    "picl.log_limit_bytes=64MiB",
];

/// Media so fast that PersistedEID is recorded while the undo buffer still fills.
const FAST_MEDIA: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=64KiB",
    "epoch.instructions=5000",
    "picl.acs_gap=1",
    "nvm.row_bytes=4096",
    "picl.undo_buffer_bytes=4096",
    "nvm.row_read_ns=10",
    "nvm.row_write_ns=10",
];

const CACHE_RESIDENT: &[&str] = &["epoch.instructions=20000", "picl.acs_gap=0"];

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
        name: "narrow epoch tags",
        program: "@exerciser:8000:128:2000",
        set: NARROW_EPOCHS,
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

impl Trial {
    fn request(&self, design: &str, jobs: Option<usize>) -> Request {
        Request {
            design: design.into(),
            set: self.set.iter().map(|&text| text.to_owned()).collect(),
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
            .find(|one| one.verdict != Verdict::Verified)
            .map(|one| (one.verdict, one.token.clone()));
        Ok(Shown {
            cuts: campaign.results.len(),
            failed: campaign.failed(),
            first,
        })
    }
}

struct BugList;

impl Visitor for BugList {
    type Output = &'static [perdure_designs::PlantedBug];

    fn visit<D: Design>(self) -> Self::Output {
        D::PLANTED_BUGS
    }
}

/// Runs a design's bugs, then the clean design.
pub fn run(design: &str, jobs: Option<usize>, observer: &dyn Observer) -> Result<Value, Error> {
    let bugs = with_design(design, BugList).ok_or_else(|| no_such_design(design))?;
    let total = bugs.len() as u64 + 1;
    let mut mutants = Vec::new();
    for (index, bug) in bugs.iter().enumerate() {
        observer.progress(index as u64, total, "bugs", bug.name);
        let mut cuts = 0;
        let mut caught = None;
        for trial in TRIALS {
            let mut request = trial.request(design, jobs);
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
    for trial in TRIALS {
        observer.progress(bugs.len() as u64, total, "bugs", "the clean design");
        let request = trial.request(design, jobs);
        let visitor = TrialVisitor {
            request: &request,
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
