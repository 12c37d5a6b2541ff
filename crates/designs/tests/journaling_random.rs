//! Random programs on random machines, cut at random moments: the journal always brings an epoch
//! back, and each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints the machine and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::campaign::{self, Accused, Effort, Report};
use common::geometry::{self, Geometry};
use common::seeds;
use perdure_designs::Design;
use perdure_designs::journaling::{Journaling, Parameters};

const SEEDS: u64 = 4;

const EFFORT: Effort = Effort {
    generations: 4,
    cut_times: 150,
    tears: 3,
};

/// A machine with its table: entries and ways.
type Machine = (Geometry, usize, usize);

/// One row of 32 KiB holds more lines than the machine's caches: a block is never full.
const LONG_ROWS: Geometry = Geometry {
    name: "long rows",
    banks: 2,
    row_bytes: 32 << 10,
    ..geometry::TINY
};

/// The smallest row that the design takes: three lines, or 28 addresses, to a block.
const SHORT_ROWS: Geometry = Geometry {
    name: "short rows",
    banks: 3,
    row_bytes: 256,
    ..geometry::MANY_HARTS
};

/// Tables from one that nearly every epoch overflows to one that none does.
const MACHINES: &[Machine] = &[
    (geometry::TINY, 16, 4),
    (geometry::DIRECT_MAPPED, 12, 1),
    (geometry::MANY_HARTS, 64, 16),
    (geometry::RESIDENT, 4, 2),
    (geometry::HOT, 2, 2),
    (geometry::ONE_BANK, 24, 3),
    (geometry::PARALLEL_MEDIA, 6144, 16),
    (LONG_ROWS, 6144, 16),
    (SHORT_ROWS, 32, 8),
];

fn run(
    (geometry, table_entries, table_ways): Machine,
    bug: Option<&'static str>,
    seed: u64,
    effort: Effort,
) -> Result<Report, Accused> {
    let parameters = Parameters {
        table_entries,
        table_ways,
    };
    campaign::run::<Journaling>(&geometry, &parameters, bug, seed, effort)
}

/// Runs the clean design on one machine.
fn clean(machine: Machine, seed: u64, effort: Effort) -> Report {
    run(machine, None, seed, effort).unwrap_or_else(|Accused { cuts, accusation }| {
        panic!(
            "machine '{}', PERDURE_SEED={seed}, after {cuts} cuts: {accusation}",
            machine.0.name
        )
    })
}

#[test]
fn the_clean_design_is_never_accused() {
    let mut total = Report::default();
    for &machine in MACHINES {
        let mut report = Report::default();
        for seed in seeds(SEEDS) {
            report.add(&clean(machine, seed, EFFORT));
        }
        println!(
            "{:15} {:6} cuts, {:6} in recovery, {:6} epochs",
            machine.0.name, report.cuts, report.cuts_in_recovery, report.epochs
        );
        total.add(&report);
    }
    println!("{total:#?}");
    if std::env::var("PERDURE_SEED").is_err() {
        for (path, count) in &total.paths {
            assert!(*count > 0, "no machine took the path '{path}'");
        }
        assert_eq!(total.phases.len(), 7, "cuts met every state of the design");
        let cuts = total.cuts + total.cuts_in_recovery;
        assert!(cuts >= 50_000, "only {cuts} cuts");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for machine in [MACHINES[0], MACHINES[2]] {
        let effort = Effort {
            generations: 2,
            cut_times: 60,
            tears: 1,
        };
        assert_eq!(clean(machine, 77, effort), clean(machine, 77, effort));
    }
}

/// Each bug on each machine: after how many cuts it was noticed, or that it was not. A program that
/// loads wrong bytes notices a bug, too: the rig panics.
#[test]
fn every_planted_bug_is_caught() {
    let effort = Effort {
        generations: 2,
        ..EFFORT
    };
    let mut escaped = Vec::new();
    for bug in Journaling::PLANTED_BUGS {
        let mut caught = 0;
        println!("{}", bug.name);
        for &machine in MACHINES {
            let shown = catch_unwind(AssertUnwindSafe(|| run(machine, Some(bug.name), 1, effort)));
            let name = machine.0.name;
            match shown {
                Ok(Ok(report)) => println!("  {name:15} not in {} cuts", report.cuts),
                Ok(Err(Accused { cuts, accusation })) => {
                    caught += 1;
                    println!("  {name:15} cut {cuts}: {}", accusation.kind());
                }
                Err(_) => {
                    caught += 1;
                    println!("  {name:15} the program saw it");
                }
            }
        }
        if caught == 0 {
            escaped.push(bug.name);
        }
    }
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}
