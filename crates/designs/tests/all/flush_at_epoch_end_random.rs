//! Random programs on random machines, cut at random moments: `flush-at-epoch-end` always brings an epoch
//! back, and each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::campaign::Effort;
use crate::common::geometry;
use crate::common::random_cuts::{self, Demand, Machine};
use crate::flush_at_epoch_end::{FlushAtEpochEnd, Parameters};

const DEMAND: Demand = Demand {
    effort: Effort {
        generations: 3,
        cut_times: 100,
        tears: 2,
    },
    least_cuts: 5_000,
    phases: 2,
};

/// Machines on which everything is tight in another way.
fn machines() -> Vec<Machine<FlushAtEpochEnd>> {
    [
        geometry::TINY,
        geometry::BEHIND_DRAM,
        geometry::DIRECT_MAPPED,
        geometry::MANY_HARTS,
        geometry::RESIDENT,
        geometry::HOT,
        geometry::ONE_BANK,
        geometry::PARALLEL_MEDIA,
        geometry::ROWS_OF_LINES,
    ]
    .map(|geometry| (geometry, Parameters {}))
    .to_vec()
}

#[test]
fn the_clean_design_is_never_accused() {
    random_cuts::the_clean_design_is_never_accused::<FlushAtEpochEnd>(&machines(), DEMAND);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    random_cuts::the_same_seed_gives_the_same_run::<FlushAtEpochEnd>(&machines());
}

#[test]
fn every_planted_bug_is_caught() {
    random_cuts::every_planted_bug_is_caught::<FlushAtEpochEnd>(&machines(), DEMAND.effort);
}
