//! What a command does not use is refused: who gives it expects something of it.
//!
//! Always true here: the message names the option as the command line does, and who takes it.

use crate::error::Error;
use crate::request::{Request, Resume};

/// Refuses options that are given, for a command in words, in favour of another.
fn refuse(given: &[(&str, bool)], what: &str, instead: &str) -> Result<(), Error> {
    let option = given.iter().find(|(_, given)| *given);
    option.map_or(Ok(()), |(option, _)| {
        Err(Error::Request(format!(
            "{option}: {what} does not use it; leave it out, or give it to {instead}"
        )))
    })
}

/// Of a request to cut the power, where the run may end with the cut.
pub fn refuse_for_cuts(request: &Request, until_cut: bool) -> Result<(), Error> {
    if !request.write_through.is_empty() {
        return Err(Error::Request(
            "--write-through: a program whose power is cut runs many times over, so the host is read-only to it; leave the option out".into(),
        ));
    }
    let given = [
        ("--files", request.files.is_some()),
        ("--snapshots", request.snapshots.is_some()),
        ("--to", request.replicate_to.is_some()),
        ("--secret-file", request.secret_file.is_some()),
        ("--patience", request.patience_seconds.is_some()),
        ("--sample-cycles", request.sample_cycles.is_some()),
        ("--trace", request.trace.is_some()),
        ("--probe-cuts", request.probe_cuts),
        ("--passthrough", request.passthrough),
    ];
    refuse(&given, "a power cut", "perdure run")?;
    if until_cut {
        refuse_beside_until_cut(request)?;
    }
    refuse_beside_restart(request)
}

/// Of a request to debug.
pub fn refuse_for_debugging(request: &Request) -> Result<(), Error> {
    if !request.write_through.is_empty() {
        return Err(Error::Request(
            "--write-through: a program that is debugged runs many times over, so the host is read-only to it; leave the option out".into(),
        ));
    }
    refuse_without_pools(request)?;
    let given = [
        ("--files", request.files.is_some()),
        ("--out", request.out.is_some()),
        ("--snapshots", request.snapshots.is_some()),
        ("--to", request.replicate_to.is_some()),
        ("--sample-cycles", request.sample_cycles.is_some()),
        ("--probe-cuts", request.probe_cuts),
        ("--repeat", request.repeat),
        ("--measure", request.is_measured()),
    ];
    refuse(&given, "a debugger", "perdure run")
}

/// What is for programs that go on, where they are started again, and the other way round.
fn refuse_beside_restart(request: &Request) -> Result<(), Error> {
    if !request.restart {
        let given = [
            ("--then", !request.then.is_empty()),
            ("--expect", request.expect.is_some()),
        ];
        return refuse(
            &given,
            "a cut after which nothing is started again",
            "perdure cut --restart",
        );
    }
    refuse_without_pools(request)?;
    let given = [
        ("--resume", request.resume.is_some()),
        ("--replica", request.replica),
        ("--check", !request.check.is_empty()),
        ("--check-seconds", request.check_seconds.is_some()),
        ("--repeat", request.repeat),
    ];
    refuse(
        &given,
        "a cut with --restart",
        "perdure cut without --restart",
    )
}

/// A restart without anything to find.
fn refuse_without_pools(request: &Request) -> Result<(), Error> {
    if request.restart && request.pmem.is_none() {
        return Err(Error::Request(
            "--restart: a program that is started again finds its pools and nothing else; name their folder, as in --pmem DIR".into(),
        ));
    }
    Ok(())
}

/// What is about the run behind its cut, where nobody finds out about that.
fn refuse_beside_until_cut(request: &Request) -> Result<(), Error> {
    if request.at.is_none() {
        return Err(Error::Request(
            "--until-cut: the run ends with one exact cut; say which, as in --at CYCLE".into(),
        ));
    }
    let resumes = request.resume.is_some_and(|resume| resume != Resume::None);
    let given = [
        ("--resume", resumes),
        ("--restart", request.restart),
        (
            "--generations",
            request.generations.is_some_and(|many| many > 1),
        ),
        ("--check", !request.check.is_empty()),
    ];
    refuse(
        &given,
        "a cut with --until-cut, after which nothing runs,",
        "perdure cut without --until-cut",
    )
}

/// Of a request to run a program.
pub fn refuse_for_runs(request: &Request) -> Result<(), Error> {
    let given = [
        ("--at", request.at.is_some()),
        ("--cuts", request.cuts.is_some()),
        ("--schedule", request.schedule.is_some()),
        ("--seed", request.seed.is_some()),
        ("--during-recovery", request.during_recovery),
        ("--replica", request.replica),
        ("--restart", request.restart),
        ("--then", !request.then.is_empty()),
        ("--expect", request.expect.is_some()),
        ("--resume", request.resume.is_some()),
        ("--until-cut", request.until_cut),
        ("--generations", request.generations.is_some()),
        ("--check", !request.check.is_empty()),
        ("--check-seconds", request.check_seconds.is_some()),
        ("--cores", request.cores.is_some()),
        ("--jobs", request.jobs.is_some()),
        ("part", request.part.is_some()),
    ];
    refuse(&given, "a run", "perdure cut")
}
