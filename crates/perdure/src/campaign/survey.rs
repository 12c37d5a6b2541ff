//! The survey: the run that nobody cuts, watched for what schedules go by.
//!
//! Always true here: looking changes nothing, so this run is the one that every cut is measured against.

use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;

use super::cutter::Watched;
use super::stacks;
use crate::error::Error;
use crate::lives::{Left, Uncut};
use crate::machine::{Machine, Pause};
use crate::observer::{Observer, run_on};
use crate::reads;
use crate::report::state_hash;
use crate::request::{Prepared, Schedule};

/// How long a trace is kept for before somebody looks at it.
const TRACE_STRIDE: Cycles = 100_000;

/// Where the design was, and where the program, at some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) time: Cycles,
    pub(super) phase: &'static str,
    pub(super) pc: u64,
}

/// What the survey found.
pub struct Survey {
    /// What its end is compared with.
    pub uncut: Uncut,
    /// Of its end, if it has come there.
    pub(super) state_hash: Option<String>,
    pub(super) samples: Vec<Sample>,
    pub(super) events: Vec<Cycles>,
    /// Corner paths of the design's, and how often they were taken.
    pub(super) paths: Vec<(&'static str, u64)>,
    /// What the run has read of the host.
    pub named: reads::Named,
    /// What it leaves when it is over, where a program is started again on that.
    pub(super) left: Option<Left>,
}

/// Runs the program once, uncut.
pub(crate) fn survey(
    prepared: &Prepared,
    bug: Option<&'static str>,
    schedule: Schedule,
    observer: &dyn Observer,
) -> Result<Survey, Error> {
    let mut machine = prepared.boot(bug)?;
    let (mut samples, mut moments) = (Vec::new(), Vec::new());
    match schedule {
        Schedule::Stratified => samples = sampled(&mut machine, observer)?,
        Schedule::EveryFence | Schedule::EveryStack => {
            let mut found = persisting(&mut machine, observer)?;
            if schedule == Schedule::EveryStack {
                let stop = || observer.interrupted().then(interrupted).map_or(Ok(()), Err);
                found = stacks::first_of_each(&mut prepared.boot(bug)?, found, stop)?;
            } else {
                found.retain(|one| one.fences);
            }
            moments = found.iter().flat_map(Persisting::moments).collect();
        }
        Schedule::EveryEvent | Schedule::NearEvents => {
            machine.hardware.memory.persistence_times = Some(Vec::new());
            run_to_end(&mut machine, observer)?;
            let times = machine.hardware.memory.persistence_times.take();
            moments = times.unwrap_or_default();
        }
        Schedule::Random => run_to_end(&mut machine, observer)?,
    }
    Ok(found(prepared, machine, samples, moments))
}

/// Runs a machine to its end, and looks every now and then what it is doing.
fn sampled(machine: &mut Machine, observer: &dyn Observer) -> Result<Vec<Sample>, Error> {
    let mut samples = Vec::new();
    let mut interval = 1000;
    let mut next = interval;
    machine.phase_changes = Some(Vec::new());
    loop {
        match machine.run(next)? {
            Pause::Finished => break,
            Pause::EpochEnded(_) => {}
            Pause::Time => {
                samples.push(Sample {
                    time: next,
                    phase: machine.design.phase(),
                    pc: machine.location().0,
                });
                if samples.len() >= 16_384 {
                    // Twice as far apart from here on, and back to here.
                    let mut keep = false;
                    samples.retain(|_| {
                        keep = !keep;
                        keep
                    });
                    interval *= 2;
                }
                next += interval;
                if observer.interrupted() {
                    return Err(interrupted());
                }
            }
        }
    }
    let changes = machine.phase_changes.take().unwrap_or_default();
    samples.extend(
        changes
            .into_iter()
            .map(|(time, phase, pc)| Sample { time, phase, pc }),
    );
    samples.sort_by_key(|sample| sample.time);
    Ok(samples)
}

/// A persist operation, or a fence that waits for some.
pub(super) struct Persisting {
    /// Who.
    pub(super) hart: usize,
    /// When the operation was made, or the fence was over.
    pub(super) at: Cycles,
    /// It is a fence.
    pub(super) fences: bool,
}

impl Persisting {
    /// When to cut because of it: behind a persist operation; in the last cycle in which a fence still waits,
    /// and in the first after it.
    fn moments(&self) -> impl Iterator<Item = Cycles> + use<> {
        let before = self.fences.then_some(self.at.saturating_sub(1));
        before.into_iter().chain([self.at])
    }
}

/// Runs a machine to its end. Returns what it did to make bytes durable, in the order of the times.
fn persisting(machine: &mut Machine, observer: &dyn Observer) -> Result<Vec<Persisting>, Error> {
    let mut found = Vec::new();
    let (mut stride, mut next) = (TRACE_STRIDE, TRACE_STRIDE);
    machine.hardware.memory.trace = Some(Vec::new());
    loop {
        let pause = machine.run(next)?;
        let events = machine.hardware.memory.trace.as_mut().map(std::mem::take);
        let of = |hart, at, fences| Some(Persisting { hart, at, fences });
        found.extend(
            events
                .into_iter()
                .flatten()
                .filter_map(|event| match event {
                    Traced::Persisted { hart, at, .. } => of(hart, at, false),
                    Traced::Fenced { hart, done } => of(hart, done, true),
                    _ => None,
                }),
        );
        match pause {
            Pause::Finished => break,
            Pause::EpochEnded(_) => {}
            Pause::Time => {
                // While every hart sleeps, ever further.
                let idle = machine.time() < next.saturating_sub(stride);
                stride = if idle { stride * 2 } else { TRACE_STRIDE };
                next = next.saturating_add(stride);
                say(machine, observer);
                if observer.interrupted() {
                    return Err(interrupted());
                }
            }
        }
    }
    machine.hardware.memory.trace = None;
    found.sort_by_key(|one| one.at);
    Ok(found)
}

/// Brings a machine that is watched to a cycle, and finds out from a copy of it how the run that nobody
/// cuts goes on from there, unless that is of no interest.
pub(super) fn survey_around(
    prepared: &Prepared,
    watched: &mut Watched,
    at: Cycles,
    observer: &dyn Observer,
) -> Result<Survey, Error> {
    let progress = |machine: &Machine| say(machine, observer);
    if !watched.go_to(at, observer, progress)? {
        return Err(interrupted());
    }
    if prepared.until_cut {
        return Ok(found_so_far(&watched.machine));
    }
    let mut machine = watched.machine.clone();
    machine.forget_onlookers();
    run_to_end(&mut machine, observer)?;
    Ok(found(prepared, machine, Vec::new(), Vec::new()))
}

fn run_to_end(machine: &mut Machine, observer: &dyn Observer) -> Result<(), Error> {
    let progress = |machine: &Machine| say(machine, observer);
    let end = run_on(machine, Cycles::MAX - 1, observer, |_, _| {}, progress)?;
    end.map(|_| ()).ok_or_else(interrupted)
}

fn say(machine: &Machine, observer: &dyn Observer) {
    let done = machine.retired();
    observer.progress(done, 0, "instructions", "survey: the uncut run");
}

fn interrupted() -> Error {
    Error::Request("interrupted during the survey; nothing was cut yet".into())
}

/// What a machine that has come to its end shows.
fn found(
    prepared: &Prepared,
    mut machine: Machine,
    samples: Vec<Sample>,
    mut events: Vec<Cycles>,
) -> Survey {
    events.sort_unstable();
    events.dedup();
    let end = machine.time().max(machine.hardware.memory.quiet_at());
    events.retain(|&time| time > 0 && time <= end);
    Survey {
        named: reads::Named::of(&machine.kernel().host_view()),
        state_hash: Some(state_hash(&machine)),
        uncut: Uncut {
            end,
            status: machine.ended().map(|ended| ended.report.status),
            outside: machine.outside.clone(),
            again: None,
        },
        left: (prepared.restart.as_ref()).and_then(|_| Left::at_end(&mut machine, end)),
        samples,
        events,
        paths: machine.paths(),
    }
}

/// What a machine shows that stands at its one cut. If it has ended before, the cut is behind its end.
fn found_so_far(machine: &Machine) -> Survey {
    let ended = machine.ended();
    let end = machine.time().max(machine.hardware.memory.quiet_at());
    Survey {
        named: reads::Named::of(&machine.kernel().host_view()),
        state_hash: None,
        uncut: Uncut {
            end: ended.map_or(Cycles::MAX, |_| end),
            status: None,
            outside: machine.outside.clone(),
            again: None,
        },
        left: None,
        samples: Vec::new(),
        events: Vec::new(),
        paths: machine.paths(),
    }
}
