//! Bugs that are no design's: of the machine, of replication, and of the judge, whose checks are switched
//! off one by one.
//!
//! Always true here: for a check of the judge, the bug is caught with it and slips through without it.

use serde_json::{Value, json};

use super::{Shown, Tally, clean, persistence, shown, trials};
use crate::configuration::design_named;
use crate::error::Error;
use crate::mistakes::{Blind, MISTAKES, Mistake, PREFIX, Part};
use crate::observer::Observer;
use crate::parallel;
use crate::request::{Request, Resume, Schedule};

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

fn show(stage: &Stage, observer: &dyn Observer) -> Result<Shown, Error> {
    let (trials, _) = trials::of_design(design_named(stage.design)?);
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
        ..trials[if stage.replica { 2 } else { 0 }].request(stage.design, &[])
    };
    let mut prepared = request.prepare()?;
    prepared.workload.mistake = stage.mistake;
    prepared.blind = stage.blind;
    let planted = stage.bug.is_some() || stage.mistake.is_some();
    prepared.until_failure = planted;
    shown(&request, &prepared, stage.bug, planted, observer)
}

/// Runs the bugs of a group, and the same machine without any.
pub(super) fn run(
    group: &str,
    jobs: Option<usize>,
    observer: &dyn Observer,
) -> Result<Value, Error> {
    match group {
        "verifier" => return run_blinds(jobs, observer),
        persistence::PERSISTENCE => return persistence::run_all(jobs, observer),
        _ => {}
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
