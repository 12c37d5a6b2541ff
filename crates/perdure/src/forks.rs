//! What a fork of the machine costs the host: the copy itself, and what a machine that goes on pays for one
//! that lives.
//!
//! Always true here: forks change nothing, so the run is the one that nobody forked.

use std::time::Instant;

use perdure_hardware::arena::PAGE_BYTES;
use perdure_hardware::time::Cycles;
use serde_json::{Value, json};

use crate::error::Error;
use crate::machine::{Machine, Pause, Workload};
use crate::observer::{Observer, run_on};
use crate::request::{Prepared, Request};

/// Forks that are timed, the fastest of which counts.
const FORKS: u32 = 20;

/// How far the machine goes on while a fork of it lives.
const STRETCH_CYCLES: Cycles = 2_000_000;

/// Times forks of a machine that has run for as many instructions as a request would measure, or to its end
/// if that comes first. JSON in, JSON out.
pub fn time(request: &str, observer: &dyn Observer) -> Result<String, Error> {
    let request = Request::parse(request)?;
    let prepared = request.prepare()?;
    Ok(measure(&request, &prepared, observer)?.to_string())
}

fn measure(
    request: &Request,
    prepared: &Prepared,
    observer: &dyn Observer,
) -> Result<Value, Error> {
    let workload = Workload {
        region: None,
        ..prepared.workload.clone()
    };
    let mut machine = Machine::boot(&prepared.configuration, &workload, prepared.engine, None)?;
    let before = request.measure_instructions.unwrap_or(u64::MAX);
    while machine.retired() < before {
        let until = machine.time() + STRETCH_CYCLES;
        match run_on(&mut machine, until, observer, |_, _| {}, |_| {})? {
            Some(Pause::Finished) => break,
            Some(_) if !observer.interrupted() => {}
            _ => return Err(Error::Request("interrupted; nothing was timed yet".into())),
        }
        let done = machine.retired();
        observer.progress(done, before, "instructions", "running up to the forks");
    }
    let (mut fork, mut end) = (f64::MAX, f64::MAX);
    for _ in 0..FORKS {
        let started = Instant::now();
        let copy = machine.clone();
        fork = fork.min(started.elapsed().as_secs_f64());
        let started = Instant::now();
        drop(copy);
        end = end.min(started.elapsed().as_secs_f64());
    }
    let pages = machine.hardware.memory.arena.written_pages().count();
    let instructions = machine.retired();
    let held = machine.clone();
    let beside = stretch(&mut machine)?;
    drop(held);
    Ok(json!({
        "instructions": instructions,
        "memory_bytes": pages * PAGE_BYTES,
        "fork_seconds": fork,
        "end_seconds": end,
        "stretch_cycles": STRETCH_CYCLES,
        "beside_seconds": beside,
        "alone_seconds": stretch(&mut machine)?,
    }))
}

/// Host seconds that a stretch takes.
fn stretch(machine: &mut Machine) -> Result<f64, Error> {
    let until = machine.time() + STRETCH_CYCLES;
    let started = Instant::now();
    while let Pause::EpochEnded(_) = machine.run(until)? {}
    Ok(started.elapsed().as_secs_f64())
}
