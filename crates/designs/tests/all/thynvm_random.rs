//! Random programs on random machines, cut at random moments: ThyNVM always brings an epoch back,
//! and each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::campaign::Effort;
use crate::common::geometry::{self, Geometry};
use crate::common::random_cuts::{self, Demand, Machine};
use perdure_designs::thynvm::{Parameters, Thynvm};

const DEMAND: Demand = Demand {
    effort: Effort {
        generations: 4,
        cut_times: 150,
        tears: 3,
    },
    least_cuts: 50_000,
    phases: 7,
};

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

/// Entries for blocks and pages, ways, and the thresholds at which a page is promoted and demoted.
const fn tables(
    block_entries: usize,
    page_entries: usize,
    table_ways: usize,
    promote_writes: u32,
    demote_writes: u32,
) -> Parameters {
    Parameters {
        block_entries,
        page_entries,
        table_ways,
        promote_writes,
        demote_writes,
    }
}

/// Tables from some that nearly every epoch overflows to some that none does.
fn machines() -> Vec<Machine<Thynvm>> {
    vec![
        (geometry::BEHIND_DRAM, tables(32, 4, 4, 6, 2)),
        (geometry::TINY, tables(16, 4, 4, 6, 3)),
        (geometry::DIRECT_MAPPED, tables(8, 2, 2, 4, 2)),
        (geometry::MANY_HARTS, tables(64, 4, 4, 8, 4)),
        (geometry::RESIDENT, tables(32, 2, 2, 3, 1)),
        (geometry::HOT, tables(2, 1, 1, 2, 1)),
        (geometry::ONE_BANK, tables(12, 3, 3, 5, 2)),
        (geometry::PARALLEL_MEDIA, tables(2048, 512, 16, 22, 16)),
        (SCATTERED, tables(64, 8, 4, 6, 2)),
        (SCATTERED, tables(8, 16, 4, 4, 1)),
        (HURRIED, tables(8, 2, 2, 3, 1)),
        (HURRIED, tables(64, 8, 4, 2, 0)),
        (DENSE, tables(64, 4, 4, 12, 6)),
        (SHORT_ROWS, tables(32, 8, 8, 4, 2)),
        (SHORT_ROWS, tables(512, 8, 8, 60, 2)),
        (SLOW_TABLES, tables(512, 8, 8, 60, 2)),
        (LONG_ROWS, tables(32, 8, 8, 4, 2)),
    ]
}

#[test]
fn the_clean_design_is_never_accused() {
    random_cuts::the_clean_design_is_never_accused::<Thynvm>(&machines(), DEMAND);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    random_cuts::the_same_seed_gives_the_same_run::<Thynvm>(&machines());
}

#[test]
fn every_planted_bug_is_caught() {
    random_cuts::every_planted_bug_is_caught::<Thynvm>(&machines(), DEMAND.effort);
}
