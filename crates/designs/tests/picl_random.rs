//! Random programs on random machines, cut at random moments: PiCL always brings an epoch back, and
//! each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints geometry and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use common::campaign::{self, Accused, Effort, Report};
use common::geometry::{self, Geometry};
use common::seeds;
use perdure_designs::Design;
use perdure_designs::picl::Picl;

const SEEDS: u64 = 4;

const EFFORT: Effort = Effort {
    generations: 4,
    cut_times: 250,
    tears: 3,
};

/// Runs the clean design on one machine.
fn clean(geometry: &Geometry, seed: u64, effort: Effort) -> Report {
    let parameters = geometry.parameters();
    campaign::run::<Picl>(geometry, &parameters, None, seed, effort).unwrap_or_else(
        |Accused { cuts, accusation }| {
            panic!(
                "geometry '{}', PERDURE_SEED={seed}, after {} cuts: {accusation}",
                geometry.name, cuts
            )
        },
    )
}

#[test]
fn the_clean_design_is_never_accused() {
    let mut total = Report::default();
    for geometry in geometry::ALL {
        let mut report = Report::default();
        for seed in seeds(SEEDS) {
            report.add(&clean(geometry, seed, EFFORT));
        }
        println!(
            "{:15} {:6} cuts, {:6} in recovery, {:6} epochs",
            geometry.name, report.cuts, report.cuts_in_recovery, report.epochs
        );
        total.add(&report);
    }
    println!("{total:#?}");
    if std::env::var("PERDURE_SEED").is_err() {
        for (path, count) in &total.paths {
            assert!(*count > 0, "no machine took the path '{path}'");
        }
        assert_eq!(total.phases.len(), 6, "cuts met every state of the design");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for geometry in [geometry::TINY, geometry::MANY_HARTS] {
        let effort = Effort {
            generations: 2,
            cut_times: 60,
            tears: 1,
        };
        assert_eq!(clean(&geometry, 77, effort), clean(&geometry, 77, effort));
    }
}

/// Each bug on each machine: after how many cuts it was noticed, or that it was not.
#[test]
fn every_planted_bug_is_caught() {
    let effort = Effort {
        generations: 2,
        ..EFFORT
    };
    let mut escaped = Vec::new();
    for bug in Picl::PLANTED_BUGS {
        let mut caught = 0;
        println!("{}", bug.name);
        for geometry in geometry::ALL {
            let parameters = geometry.parameters();
            match campaign::run::<Picl>(geometry, &parameters, Some(bug.name), 1, effort) {
                Ok(report) => println!("  {:15} not in {} cuts", geometry.name, report.cuts),
                Err(Accused { cuts, accusation }) => {
                    caught += 1;
                    println!("  {:15} cut {}: {}", geometry.name, cuts, accusation.kind());
                }
            }
        }
        if caught == 0 {
            escaped.push(bug.name);
        }
    }
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}
