//! Random programs on random machines, cut at random moments: shadow paging always brings an epoch
//! back, and each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::campaign::{self, Accused, Effort, Report};
use common::geometry::{self, Geometry};
use common::seeds;
use perdure_designs::Design;
use perdure_designs::shadow_paging::{Parameters, ShadowPaging};

const SEEDS: u64 = 3;

const EFFORT: Effort = Effort {
    generations: 4,
    cut_times: 250,
    tears: 2,
};

/// The machines, each with entries and ways of the table. The program's lines are those of a few
/// pages, and contexts are two more: a page for every line or so makes tables of a few entries
/// full at once, larger ones in the course of an epoch.
const MACHINES: &[(Geometry, u64, u64)] = &[
    (SCATTERED, 16, 4),
    (SCATTERED, 3, 1),
    (geometry::TINY, 2, 2),
    (SLOW_TO_STOP, 1, 1),
    (geometry::TINY, 1, 1),
    (geometry::DIRECT_MAPPED, 2, 1),
    (geometry::MANY_HARTS, 4, 2),
    (geometry::RESIDENT, 64, 16),
    (geometry::HOT, 1, 1),
    (geometry::ONE_BANK, 3, 3),
    (SCATTERED_ON_PARALLEL_MEDIA, 12, 2),
    (SMALL_ROWS, 8, 2),
];

/// A program over many pages.
const SCATTERED: Geometry = Geometry {
    name: "scattered",
    harts: 2,
    lines: 1500,
    hot_lines: 600,
    epoch_stores: 120,
    accesses_after_overflow: 30,
    ..geometry::TINY
};

/// Two pages and room for one, and a kernel that goes on for a long time after an overflow.
const SLOW_TO_STOP: Geometry = Geometry {
    name: "slow to stop",
    epoch_stores: 200,
    accesses_after_overflow: 150,
    ..geometry::TINY
};

const SCATTERED_ON_PARALLEL_MEDIA: Geometry = Geometry {
    name: "scattered, parallel media",
    lines: 2000,
    hot_lines: 300,
    ..geometry::PARALLEL_MEDIA
};

/// Tables of many blocks, pages of many rows.
const SMALL_ROWS: Geometry = Geometry {
    name: "small rows",
    row_bytes: 128,
    banks: 3,
    ..SCATTERED
};

fn parameters(table_entries: u64, table_ways: u64) -> Parameters {
    Parameters {
        table_entries,
        table_ways,
    }
}

/// Runs the clean design on one machine.
fn clean(machine: &(Geometry, u64, u64), seed: u64, effort: Effort) -> Report {
    let (geometry, entries, ways) = machine;
    let parameters = parameters(*entries, *ways);
    campaign::run::<ShadowPaging>(geometry, &parameters, None, seed, effort).unwrap_or_else(
        |Accused { cuts, accusation }| {
            panic!(
                "machine '{}' with {entries} entries, PERDURE_SEED={seed}, after {cuts} cuts: {accusation}",
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
            "{:25} {:3} entries {:6} cuts, {:6} in recovery, {:6} epochs",
            machine.0.name, machine.1, report.cuts, report.cuts_in_recovery, report.epochs
        );
        total.add(&report);
    }
    println!("{total:#?}");
    if std::env::var("PERDURE_SEED").is_err() {
        assert!(total.cuts + total.cuts_in_recovery >= 50_000);
        for (path, count) in &total.paths {
            assert!(*count > 0, "no machine took the path '{path}'");
        }
        assert_eq!(total.phases.len(), 7, "cuts met every state of the design");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for machine in &MACHINES[..2] {
        let effort = Effort {
            generations: 2,
            cut_times: 60,
            tears: 1,
        };
        assert_eq!(clean(machine, 77, effort), clean(machine, 77, effort));
    }
}

/// Each bug on each machine: after how many cuts it was noticed, or that it was not. A program that
/// loads something else than it stored notices, too.
#[test]
fn every_planted_bug_is_caught() {
    let effort = Effort {
        generations: 2,
        ..EFFORT
    };
    let mut escaped = Vec::new();
    for bug in ShadowPaging::PLANTED_BUGS {
        let mut caught = 0;
        println!("{}", bug.name);
        for (geometry, entries, ways) in MACHINES {
            let parameters = parameters(*entries, *ways);
            let run =
                || campaign::run::<ShadowPaging>(geometry, &parameters, Some(bug.name), 1, effort);
            let noticed = match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(report)) => Err(format!("not in {} cuts", report.cuts)),
                Ok(Err(Accused { cuts, accusation })) => {
                    Ok(format!("cut {cuts}: {}", accusation.kind()))
                }
                Err(_) => Ok("the program read wrong bytes".into()),
            };
            caught += u64::from(noticed.is_ok());
            let text = noticed.unwrap_or_else(|text| text);
            println!("  {:25} {entries:3} entries {text}", geometry.name);
        }
        if caught == 0 {
            escaped.push(bug.name);
        }
    }
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}
