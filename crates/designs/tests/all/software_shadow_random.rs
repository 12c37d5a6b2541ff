//! Random programs on random machines, cut at random moments: the shadow versions always bring an
//! epoch back, and each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::campaign::Effort;
use crate::common::geometry::{self, Geometry};
use crate::common::random_cuts::{self, Demand, Machine};
use perdure_designs::software_shadow::{Parameters, SoftwareShadow};

const DEMAND: Demand = Demand {
    effort: Effort {
        generations: 3,
        cut_times: 200,
        tears: 4,
    },
    least_cuts: 50_000,
    phases: 6,
};

const fn library(instructions: u64) -> Parameters {
    Parameters {
        track_instructions: instructions,
        flush_instructions: instructions,
        table_instructions: instructions,
    }
}

/// More lines in an epoch than a small write set holds.
const LONG_EPOCHS: Geometry = Geometry {
    name: "long epochs",
    epoch_stores: 2_000,
    forced_once_in: 64,
    lines: 600,
    hot_lines: 200,
    ..geometry::TINY
};

/// Libraries that take their time, and such that take none.
fn machines() -> Vec<Machine<SoftwareShadow>> {
    vec![
        (geometry::BEHIND_DRAM, library(20)),
        (geometry::TINY, library(20)),
        (geometry::DIRECT_MAPPED, library(0)),
        (geometry::MANY_HARTS, library(8)),
        (geometry::RESIDENT, library(20)),
        (geometry::HOT, library(200)),
        (geometry::TINY.not_inclusive(), library(20)),
        (geometry::MANY_HARTS.not_inclusive(), library(8)),
        (geometry::BEHIND_DRAM.not_inclusive(), library(0)),
        (geometry::ONE_BANK, library(20)),
        (geometry::PARALLEL_MEDIA, library(0)),
        (geometry::ROWS_OF_LINES, library(0)),
        (geometry::NO_PAUSES_BEHIND_DRAM, library(0)),
        (LONG_EPOCHS, library(1)),
    ]
}

#[test]
fn the_clean_design_is_never_accused() {
    random_cuts::the_clean_design_is_never_accused::<SoftwareShadow>(&machines(), DEMAND);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    random_cuts::the_same_seed_gives_the_same_run::<SoftwareShadow>(&machines());
}

#[test]
fn every_planted_bug_is_caught() {
    random_cuts::every_planted_bug_is_caught::<SoftwareShadow>(&machines(), DEMAND.effort);
}
