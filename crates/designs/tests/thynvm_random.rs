//! Random programs on random machines, cut at random moments: ThyNVM always brings an epoch back,
//! and each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::campaign::{self, Accused, Effort, Report};
use common::geometry::{self, Geometry};
use common::seeds;
use perdure_designs::Design;
use perdure_designs::thynvm::{Parameters, Thynvm};

const SEEDS: u64 = 3;

const EFFORT: Effort = Effort {
    generations: 4,
    cut_times: 150,
    tears: 3,
};

/// A machine with its tables: entries for blocks and pages, ways, and the thresholds at which a
/// page is promoted and demoted.
type Machine = (Geometry, usize, usize, usize, u32, u32);

/// A few pages, lines of many of them in the caches: blocks, pages and the overflow list at once.
const SCATTERED: Geometry = Geometry {
    name: "scattered",
    harts: 2,
    lines: 900,
    hot_lines: 300,
    epoch_stores: 200,
    accesses_after_overflow: 30,
    ..geometry::TINY
};

/// One epoch after the other, each shorter than its checkpoint.
const HURRIED: Geometry = Geometry {
    name: "hurried",
    epoch_stores: 6,
    lines: 200,
    pause_cycles: 4,
    forced_once_in: 64,
    accesses_after_overflow: 4,
    ..geometry::TINY
};

/// Half a page's lines in every epoch.
const DENSE: Geometry = Geometry {
    name: "dense",
    harts: 2,
    lines: 128,
    hot_lines: 64,
    epoch_stores: 300,
    ..geometry::PARALLEL_MEDIA
};

/// The smallest rows that the design takes: tables of many blocks, pages of many rows.
const SHORT_ROWS: Geometry = Geometry {
    name: "short rows",
    banks: 3,
    row_bytes: 256,
    ..SCATTERED
};

/// Tables of many blocks, and one bank that takes them one by one.
const SLOW_TABLES: Geometry = Geometry {
    name: "slow tables",
    banks: 1,
    write_queue_entries: 2,
    ..SHORT_ROWS
};

/// Rows of several pages: page copies take the way over the controller.
const LONG_ROWS: Geometry = Geometry {
    name: "long rows",
    banks: 2,
    row_bytes: 16 << 10,
    ..SCATTERED
};

/// Tables from some that nearly every epoch overflows to some that none does.
const MACHINES: &[Machine] = &[
    (geometry::TINY, 16, 4, 4, 6, 3),
    (geometry::DIRECT_MAPPED, 8, 2, 2, 4, 2),
    (geometry::MANY_HARTS, 64, 4, 4, 8, 4),
    (geometry::RESIDENT, 32, 2, 2, 3, 1),
    (geometry::HOT, 2, 1, 1, 2, 1),
    (geometry::ONE_BANK, 12, 3, 3, 5, 2),
    (geometry::PARALLEL_MEDIA, 2048, 512, 16, 22, 16),
    (SCATTERED, 64, 8, 4, 6, 2),
    (SCATTERED, 8, 16, 4, 4, 1),
    (HURRIED, 8, 2, 2, 3, 1),
    (HURRIED, 64, 8, 4, 2, 0),
    (DENSE, 64, 4, 4, 12, 6),
    (SHORT_ROWS, 32, 8, 8, 4, 2),
    (SHORT_ROWS, 512, 8, 8, 60, 2),
    (SLOW_TABLES, 512, 8, 8, 60, 2),
    (LONG_ROWS, 32, 8, 8, 4, 2),
];

fn run(
    (geometry, block_entries, page_entries, table_ways, promote_writes, demote_writes): Machine,
    bug: Option<&'static str>,
    seed: u64,
    effort: Effort,
) -> Result<Report, Accused> {
    let parameters = Parameters {
        block_entries,
        page_entries,
        table_ways,
        promote_writes,
        demote_writes,
    };
    campaign::run::<Thynvm>(&geometry, &parameters, bug, seed, effort)
}

/// Runs the clean design on one machine.
fn clean(machine: Machine, seed: u64, effort: Effort) -> Report {
    run(machine, None, seed, effort).unwrap_or_else(|Accused { cuts, accusation }| {
        panic!(
            "machine '{}' with {} blocks, PERDURE_SEED={seed}, after {cuts} cuts: {accusation}",
            machine.0.name, machine.1
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
    for machine in [MACHINES[0], MACHINES[7]] {
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
    for bug in Thynvm::PLANTED_BUGS {
        let mut caught = 0;
        println!("{}", bug.name);
        for &machine in MACHINES {
            let name = machine.0.name;
            let attempt = || run(machine, Some(bug.name), 1, effort);
            match catch_unwind(AssertUnwindSafe(attempt)) {
                Ok(Ok(report)) => println!("  {name:15} not in {} cuts", report.cuts),
                Ok(Err(Accused { cuts, accusation })) => {
                    caught += 1;
                    println!("  {name:15} cut {cuts}: {}", accusation.kind());
                }
                Err(_) => {
                    caught += 1;
                    println!("  {name:15} the program loads wrong bytes");
                }
            }
        }
        if caught == 0 {
            escaped.push(bug.name);
        }
    }
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}
