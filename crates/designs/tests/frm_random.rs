//! Random programs on random machines, cut at random moments: FRM always brings an epoch back, and
//! each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::campaign::{self, Accused, Effort, Report};
use common::geometry::{self, Geometry};
use common::seeds;
use perdure_designs::Design;
use perdure_designs::frm::{Frm, Parameters};

const SEEDS: u64 = 2;

const EFFORT: Effort = Effort {
    generations: 3,
    cut_times: 200,
    tears: 4,
};

/// A machine with the parameters of `frm` on it.
type Machine = (Geometry, Parameters);

const fn parameters(buffer_entries: usize, log_limit_bytes: u64) -> Parameters {
    Parameters {
        buffer_entries,
        log_limit_bytes,
    }
}

/// Buffers that are always full, or so large that what happens in them overlaps; logs that last
/// for ever, and logs that end epochs.
const MACHINES: &[Machine] = &[
    (geometry::TINY, parameters(32, 4 << 20)),
    (geometry::DIRECT_MAPPED, parameters(2, 4 << 20)),
    (geometry::MANY_HARTS, parameters(8, 4 << 20)),
    (geometry::RESIDENT, parameters(32, 4 << 20)),
    (geometry::HOT, parameters(32, 4 << 20)),
    (geometry::TINY_LOG, parameters(1, 20 << 10)),
    (geometry::ONE_BANK, parameters(4, 12 << 10)),
    (geometry::PARALLEL_MEDIA, parameters(64, 4 << 20)),
    (
        Geometry {
            name: "long epochs, short log",
            epoch_stores: 5_000,
            forced_once_in: 64,
            ..geometry::TINY
        },
        parameters(16, 32 << 10),
    ),
    (
        Geometry {
            name: "long epochs, long log",
            epoch_stores: 5_000,
            forced_once_in: 64,
            pause_cycles: 0,
            ..geometry::DIRECT_MAPPED
        },
        parameters(16, 4 << 20),
    ),
    (
        Geometry {
            name: "slow buffer, few lines",
            lines: 24,
            hot_lines: 4,
            pause_cycles: 0,
            banks: 2,
            write_queue_entries: 2,
            ..geometry::DIRECT_MAPPED
        },
        parameters(8, 64 << 10),
    ),
];

/// Runs the clean design on one machine.
fn clean((geometry, parameters): &Machine, seed: u64, effort: Effort) -> Report {
    campaign::run::<Frm>(geometry, parameters, None, seed, effort).unwrap_or_else(
        |Accused { cuts, accusation }| {
            panic!(
                "machine '{}', PERDURE_SEED={seed}, after {cuts} cuts: {accusation}",
                geometry.name
            )
        },
    )
}

#[test]
fn the_clean_design_is_never_accused() {
    let mut total = Report::default();
    for machine in MACHINES {
        let mut report = Report::default();
        for seed in seeds(SEEDS) {
            report.add(&clean(machine, seed, EFFORT));
        }
        println!(
            "{:23} {:6} cuts, {:6} in recovery, {:6} epochs",
            machine.0.name, report.cuts, report.cuts_in_recovery, report.epochs
        );
        total.add(&report);
    }
    println!("{total:#?}");
    if std::env::var("PERDURE_SEED").is_err() {
        assert!(total.cuts >= 50_000);
        for (path, count) in &total.paths {
            assert!(*count > 0, "no machine took the path '{path}'");
        }
        assert_eq!(total.phases.len(), 6, "cuts met every state of the design");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for machine in &MACHINES[..3] {
        let effort = Effort {
            generations: 2,
            cut_times: 60,
            tears: 1,
        };
        assert_eq!(clean(machine, 77, effort), clean(machine, 77, effort));
    }
}

/// How a planted bug was noticed on one machine, if it was: a load that brings wrong bytes panics
/// in the rig, everything else is an accusation.
fn noticed((geometry, parameters): &Machine, bug: &'static str) -> Option<String> {
    let effort = Effort {
        generations: 2,
        ..EFFORT
    };
    let run = || campaign::run::<Frm>(geometry, parameters, Some(bug), 1, effort);
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(_)) => None,
        Ok(Err(Accused { cuts, accusation })) => Some(format!("cut {cuts}: {}", accusation.kind())),
        Err(_) => Some("the program read wrong bytes".into()),
    }
}

#[test]
fn every_planted_bug_is_caught() {
    let mut escaped = Vec::new();
    for bug in Frm::PLANTED_BUGS {
        println!("{}", bug.name);
        let mut caught = 0;
        for machine in MACHINES {
            let how = noticed(machine, bug.name);
            caught += usize::from(how.is_some());
            let how = how.unwrap_or_else(|| "not noticed".into());
            println!("  {:23} {how}", machine.0.name);
        }
        if caught == 0 {
            escaped.push(bug.name);
        }
    }
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}
