//! Random programs on random machines, cut at random moments: the shadow versions always bring an
//! epoch back, and each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::campaign::Effort;
use crate::common::geometry;
use crate::common::random_cuts::{self, Demand, Machine};
use perdure_designs::hardware_shadow::{HardwareShadow, Parameters};

const DEMAND: Demand = Demand {
    effort: Effort {
        generations: 3,
        cut_times: 200,
        tears: 4,
    },
    least_cuts: 50_000,
    phases: 6,
};

const fn walk(walk_lines_per_step: usize) -> Parameters {
    Parameters {
        walk_lines_per_step,
        table_takes_time: true,
    }
}

/// Walks that take long, and such that are over at once.
fn machines() -> Vec<Machine<HardwareShadow>> {
    vec![
        (geometry::BEHIND_DRAM, walk(8)),
        (geometry::TINY, walk(8)),
        (geometry::DIRECT_MAPPED, walk(1)),
        (geometry::MANY_HARTS, walk(4)),
        (geometry::RESIDENT, walk(8)),
        (geometry::HOT, walk(1)),
        (geometry::ONE_BANK, walk(8)),
        (geometry::PARALLEL_MEDIA, walk(2)),
        (geometry::ROWS_OF_LINES, walk(1)),
        (geometry::NO_PAUSES_BEHIND_DRAM, walk(1000)),
    ]
}

#[test]
fn the_clean_design_is_never_accused() {
    random_cuts::the_clean_design_is_never_accused::<HardwareShadow>(&machines(), DEMAND);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    random_cuts::the_same_seed_gives_the_same_run::<HardwareShadow>(&machines());
}

#[test]
fn every_planted_bug_is_caught() {
    random_cuts::every_planted_bug_is_caught::<HardwareShadow>(&machines(), DEMAND.effort);
}
