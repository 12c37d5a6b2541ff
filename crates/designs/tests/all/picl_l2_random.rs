//! Random programs on random machines, cut at random moments: PiCL with its tags in the L2s always
//! brings an epoch back, and each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::campaign::Effort;
use crate::common::geometry::{self, Geometry};
use crate::common::random_cuts::{self, Demand, Machine};
use perdure_designs::picl_l2::PiclL2;

const DEMAND: Demand = Demand {
    effort: Effort {
        generations: 4,
        cut_times: 250,
        tears: 3,
    },
    least_cuts: 50_000,
    phases: 6,
};

/// Two harts that write the same few lines all the time: dirty lines go from L2 to L2, past scans
/// that never stop, and tags wrap at every fourth epoch.
const PASSED_AROUND: Geometry = Geometry {
    name: "passed around",
    harts: 4,
    l2: (8, 4),
    llc: (16, 4),
    eid_bits: 2,
    acs_gap: 0,
    lines: 24,
    hot_lines: 4,
    epoch_stores: 30,
    ..geometry::MANY_HARTS
};

/// Lines that stay in the L2s, read more often than written, while tags wrap.
const SEEN_AGAIN: Geometry = Geometry {
    name: "seen again",
    harts: 2,
    eid_bits: 2,
    acs_gap: 1,
    lines: 96,
    hot_lines: 2,
    epoch_stores: 4,
    ..geometry::RESIDENT
};

fn machines() -> Vec<Machine<PiclL2>> {
    let more = [
        geometry::FULL_LOG,
        geometry::FULL_LOG_OF_ROWS,
        PASSED_AROUND,
        SEEN_AGAIN,
    ];
    (geometry::ALL.iter())
        .chain(&geometry::SHORT_ROWS)
        .chain(&more)
        .map(|one| (one.not_inclusive(), one.parameters()))
        .collect()
}

#[test]
fn the_clean_design_is_never_accused() {
    random_cuts::the_clean_design_is_never_accused::<PiclL2>(&machines(), DEMAND);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    random_cuts::the_same_seed_gives_the_same_run::<PiclL2>(&machines());
}

#[test]
fn every_planted_bug_is_caught() {
    random_cuts::every_planted_bug_is_caught::<PiclL2>(&machines(), DEMAND.effort);
}
