//! Random programs on random machines, cut at random moments: the journal always brings an epoch
//! back, and each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::campaign::Effort;
use crate::common::geometry::{self, Geometry};
use crate::common::random_cuts::{self, Demand, Machine};
use perdure_designs::journaling::{Journaling, Parameters};

const DEMAND: Demand = Demand {
    effort: Effort {
        generations: 4,
        cut_times: 150,
        tears: 3,
    },
    least_cuts: 50_000,
    phases: 7,
};

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

const fn table(table_entries: usize, table_ways: usize) -> Parameters {
    Parameters {
        table_entries,
        table_ways,
    }
}

/// Tables from one that nearly every epoch overflows to one that none does.
fn machines() -> Vec<Machine<Journaling>> {
    vec![
        (geometry::BEHIND_DRAM, table(32, 8)),
        (geometry::TINY, table(16, 4)),
        (geometry::DIRECT_MAPPED, table(12, 1)),
        (geometry::MANY_HARTS, table(64, 16)),
        (geometry::RESIDENT, table(4, 2)),
        (geometry::HOT, table(2, 2)),
        (geometry::ONE_BANK, table(24, 3)),
        (geometry::PARALLEL_MEDIA, table(6144, 16)),
        (LONG_ROWS, table(6144, 16)),
        (SHORT_ROWS, table(32, 8)),
    ]
}

#[test]
fn the_clean_design_is_never_accused() {
    random_cuts::the_clean_design_is_never_accused::<Journaling>(&machines(), DEMAND);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    random_cuts::the_same_seed_gives_the_same_run::<Journaling>(&machines());
}

#[test]
fn every_planted_bug_is_caught() {
    random_cuts::every_planted_bug_is_caught::<Journaling>(&machines(), DEMAND.effort);
}
