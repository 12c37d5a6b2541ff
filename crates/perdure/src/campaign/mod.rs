//! A campaign of power cuts: survey, schedule, cut, judge, resume.
//!
//! 1. The *survey* runs the program once, uncut: its output is the golden output, its length bounds
//!    the schedule, and it notes when design states and persistence events occurred.
//! 2. The *schedule* chooses the cycles.
//! 3. *Cutting* runs the program again, pausing at each chosen cycle; the state hash at its end must
//!    equal the survey's, which makes every campaign a determinism check too. Several jobs cut
//!    disjoint subsets of the same schedule; results do not depend on how many there are.
//! 4. *Resuming* boots a machine from a recovered image and lets it live on ([`crate::lives`]): to the
//!    end, or to the next cut. *Restarting*, where that is asked for, starts a program again instead, on the
//!    pools that survived.

use std::sync::atomic::{AtomicU64, AtomicUsize};

use crate::error::Error;
use crate::explanation::{self, Explanation, Failed};
use crate::lives::{Lives, Uncut};
use crate::mistakes::Blind;
use crate::observer::Observer;
use crate::panics;
use crate::parallel;
use crate::reads;
use crate::request::{Prepared, Request, Schedule};
use crate::verify::Verdict;

pub(crate) mod broken;
mod cutter;
mod report;
mod schedule;
mod stacks;
mod survey;

pub(crate) use cutter::tear_seed;
pub use report::{Campaign, CutResult};
pub use survey::Survey;
pub(crate) use survey::survey;

use cutter::{Cutter, Watched};
use schedule::{choose, resumed_indices};
use survey::survey_around;

/// Failures that are explained until one shows a difference in memory.
const EXPLANATIONS: usize = 5;

/// Surveys the run. One exact cut costs the way there once: the machine that stands there comes back, too.
fn begin(
    request: &Request,
    prepared: &Prepared,
    bug: Option<&'static str>,
    schedule: Schedule,
    observer: &dyn Observer,
) -> Result<(Survey, Option<Watched>), Error> {
    let (mut survey, begun) = match request.at {
        Some(at) => {
            let mut watched = Watched::first(request, prepared, bug)?;
            let survey = survey_around(prepared, &mut watched, at, observer)?;
            (survey, Some(watched))
        }
        None => (survey(prepared, bug, schedule, observer)?, None),
    };
    if let (Some(restart), Some(left)) = (&prepared.restart, survey.left.take()) {
        let lives = lives_of(prepared, bug, &survey.uncut, observer);
        let (again, host) = lives.after_the_end(restart, &left)?;
        survey.uncut.again = again;
        survey.named = survey.named.and(&host);
    }
    let different = if prepared.until_cut {
        reads::Named::difference_so_far
    } else {
        reads::Named::difference
    };
    if let Some((before, same_build)) = &request.reads
        && let Some(difference) = different(&survey.named, before, *same_build)
    {
        return Err(Error::Request(format!(
            "since the token was made, what the program reads is another: {difference}"
        )));
    }
    Ok((survey, begun))
}

/// Lives without a checker and without cuts during recovery.
fn lives_of<'a>(
    prepared: &'a Prepared,
    bug: Option<&'static str>,
    uncut: &'a Uncut,
    observer: &'a dyn Observer,
) -> Lives<'a> {
    Lives {
        prepared,
        bug,
        uncut,
        check: None,
        recovery_steps: 0,
        observer,
        progress: &|| (),
    }
}

/// Runs the whole campaign of a request.
pub fn run(
    request: &Request,
    prepared: &Prepared,
    bug: Option<&'static str>,
    observer: &dyn Observer,
) -> Result<Campaign, Error> {
    panics::told(None, || cut_and_judge(request, prepared, bug, observer))
}

fn cut_and_judge(
    request: &Request,
    prepared: &Prepared,
    bug: Option<&'static str>,
    observer: &dyn Observer,
) -> Result<Campaign, Error> {
    let schedule = request.schedule.unwrap_or(Schedule::Random);
    let (survey, begun) = begin(request, prepared, bug, schedule, observer)?;
    let seed = request.seed.unwrap_or(1);
    let cycles = choose(request, schedule, &survey, seed)?;
    let resumes = resumed_indices(request, prepared, cycles.len(), seed);
    let chosen = schedule::part_of(request, cycles.len())?;
    let jobs = request.jobs.unwrap_or(1).clamp(1, chosen.len().max(1));
    let done = AtomicU64::new(0);
    let first_failure = AtomicUsize::new(usize::MAX);
    let job = |job: usize, begun: Option<Watched>| {
        let mine: Vec<usize> = chosen.clone().skip(job).step_by(jobs).collect();
        let cutter = Cutter {
            request,
            prepared,
            bug,
            survey: &survey,
            cycles: &cycles,
            resumes: &resumes,
            seed,
            done: &done,
            first_failure: &first_failure,
            observer,
        };
        cutter.run(&mine, begun)
    };
    let finished = match begun {
        Some(_) => vec![job(0, begun)?],
        None => parallel::threads(jobs, |number| job(number, None))?,
    };
    let mut results = Vec::new();
    let mut interrupted = false;
    let mut deterministic = true;
    for one in finished {
        results.extend(one.results);
        interrupted |= one.interrupted;
        deterministic &= one.state_hash.is_none() || one.state_hash == survey.state_hash;
    }
    results.sort_by_key(|(index, _)| *index);
    let first_failure = first_failure.into_inner();
    results.retain(|(index, _)| *index <= first_failure);
    let mut results: Vec<CutResult> = results.into_iter().map(|(_, result)| result).collect();
    if !deterministic && prepared.blind != Some(Blind::Determinism) {
        return Err(Error::Defect(
            "two runs of the same program ended in different states".into(),
        ));
    }
    if prepared.explains && !prepared.until_failure {
        explain_first(
            request,
            &lives_of(prepared, bug, &survey.uncut, observer),
            &mut results,
        )?;
    }
    Ok(Campaign {
        results,
        survey,
        interrupted,
        deterministic,
    })
}

/// Explains the first failure, and more until one shows which bytes are wrong; the others have tokens, and
/// their replays an explanation.
fn explain_first(request: &Request, lives: &Lives, results: &mut [CutResult]) -> Result<(), Error> {
    let wrong = results.iter_mut();
    let wrong = wrong.filter(|one| one.verdict != Verdict::Verified);
    for failed in wrong.take(EXPLANATIONS) {
        lives
            .observer
            .progress(0, 0, "cuts", "explaining the first failure");
        let asked = Failed {
            lives: &failed.lives,
            verdict: failed.verdict,
            cores: request.cores.as_deref(),
        };
        failed.explanation = explanation::explain(lives, &asked)?;
        let shows = |one: &Explanation| one.first.is_some();
        if failed.explanation.as_ref().is_some_and(shows) {
            break;
        }
    }
    Ok(())
}
