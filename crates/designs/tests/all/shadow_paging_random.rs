//! Random programs on random machines, cut at random moments: shadow paging always brings an epoch
//! back, and each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::campaign::Effort;
use crate::common::geometry::{self, Geometry};
use crate::common::random_cuts::{self, Demand, Machine};
use perdure_designs::shadow_paging::{Parameters, ShadowPaging};

const DEMAND: Demand = Demand {
    effort: Effort {
        generations: 4,
        cut_times: 250,
        tears: 2,
    },
    least_cuts: 50_000,
    phases: 7,
};

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

const fn table(table_entries: u64, table_ways: u64) -> Parameters {
    Parameters {
        table_entries,
        table_ways,
    }
}

/// The program's lines are those of a few pages, and contexts are two more: a page for every line
/// or so makes tables of a few entries full at once, larger ones in the course of an epoch.
fn machines() -> Vec<Machine<ShadowPaging>> {
    vec![
        (geometry::BEHIND_DRAM, table(4, 2)),
        (SCATTERED, table(16, 4)),
        (SCATTERED, table(3, 1)),
        (geometry::TINY, table(2, 2)),
        (SLOW_TO_STOP, table(1, 1)),
        (geometry::TINY, table(1, 1)),
        (geometry::DIRECT_MAPPED, table(2, 1)),
        (geometry::MANY_HARTS, table(4, 2)),
        (geometry::RESIDENT, table(64, 16)),
        (geometry::HOT, table(1, 1)),
        (geometry::ONE_BANK, table(3, 3)),
        (SCATTERED_ON_PARALLEL_MEDIA, table(12, 2)),
        (SMALL_ROWS, table(8, 2)),
    ]
}

#[test]
fn the_clean_design_is_never_accused() {
    random_cuts::the_clean_design_is_never_accused::<ShadowPaging>(&machines(), DEMAND);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    random_cuts::the_same_seed_gives_the_same_run::<ShadowPaging>(&machines());
}

#[test]
fn every_planted_bug_is_caught() {
    random_cuts::every_planted_bug_is_caught::<ShadowPaging>(&machines(), DEMAND.effort);
}
