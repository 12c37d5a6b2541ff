//! Random programs on random machines, cut at random moments: the library's log always brings an
//! epoch back, and each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::campaign::Effort;
use crate::common::geometry::{self, Geometry};
use crate::common::random_cuts::{self, Demand, Machine};
use perdure_designs::software_logging::{Parameters, SoftwareLogging};

const DEMAND: Demand = Demand {
    effort: Effort {
        generations: 3,
        cut_times: 200,
        tears: 4,
    },
    least_cuts: 50_000,
    phases: 5,
};

const fn library(log_instructions: u64, log_limit_bytes: u64) -> Parameters {
    Parameters {
        log_instructions,
        flush_instructions: 8,
        log_limit_bytes,
    }
}

const LONG_EPOCHS: Geometry = Geometry {
    name: "long epochs, short log",
    epoch_stores: 5_000,
    forced_once_in: 64,
    lines: 600,
    hot_lines: 200,
    ..geometry::TINY
};

/// Libraries that take their time and such that take none; logs that last for ever, and logs that
/// end epochs.
fn machines() -> Vec<Machine<SoftwareLogging>> {
    vec![
        (geometry::BEHIND_DRAM, library(60, 4 << 20)),
        (geometry::TINY, library(60, 4 << 20)),
        (geometry::DIRECT_MAPPED, library(0, 4 << 20)),
        (geometry::MANY_HARTS, library(60, 4 << 20)),
        (geometry::RESIDENT, library(10, 4 << 20)),
        (geometry::HOT, library(60, 4 << 20)),
        (geometry::ONE_BANK, library(60, 4 << 20)),
        (geometry::PARALLEL_MEDIA, library(0, 4 << 20)),
        (geometry::ROWS_OF_LINES, library(0, 4 << 20)),
        (geometry::NO_PAUSES_BEHIND_DRAM, library(0, 4 << 20)),
        (LONG_EPOCHS, library(10, 32 << 10)),
    ]
}

#[test]
fn the_clean_design_is_never_accused() {
    random_cuts::the_clean_design_is_never_accused::<SoftwareLogging>(&machines(), DEMAND);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    random_cuts::the_same_seed_gives_the_same_run::<SoftwareLogging>(&machines());
}

#[test]
fn every_planted_bug_is_caught() {
    random_cuts::every_planted_bug_is_caught::<SoftwareLogging>(&machines(), DEMAND.effort);
}
