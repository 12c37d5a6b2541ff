//! Random programs on random machines, cut at random moments: FRM always brings an epoch back, and
//! each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::campaign::Effort;
use crate::common::geometry::{self, Geometry};
use crate::common::random_cuts::{self, Demand, Machine};
use perdure_designs::frm::{Frm, Parameters};

const DEMAND: Demand = Demand {
    effort: Effort {
        generations: 3,
        cut_times: 200,
        tears: 4,
    },
    least_cuts: 50_000,
    phases: 6,
};

const fn sized(buffer_entries: usize, log_limit_bytes: u64) -> Parameters {
    Parameters {
        buffer_entries,
        log_limit_bytes,
    }
}

/// Buffers that are always full, or so large that what happens in them overlaps; logs that last
/// for ever, and logs that end epochs.
fn machines() -> Vec<Machine<Frm>> {
    vec![
        (geometry::BEHIND_DRAM, sized(8, 4 << 20)),
        (geometry::TINY, sized(32, 4 << 20)),
        (geometry::DIRECT_MAPPED, sized(2, 4 << 20)),
        (geometry::MANY_HARTS, sized(8, 4 << 20)),
        (geometry::RESIDENT, sized(32, 4 << 20)),
        (geometry::HOT, sized(32, 4 << 20)),
        (geometry::TINY_LOG, sized(1, 20 << 10)),
        (geometry::ONE_BANK, sized(4, 12 << 10)),
        (geometry::PARALLEL_MEDIA, sized(64, 4 << 20)),
        (
            Geometry {
                name: "long epochs, short log",
                epoch_stores: 5_000,
                forced_once_in: 64,
                ..geometry::TINY
            },
            sized(16, 32 << 10),
        ),
        (
            Geometry {
                name: "long epochs, long log",
                epoch_stores: 5_000,
                forced_once_in: 64,
                pause_cycles: 0,
                ..geometry::DIRECT_MAPPED
            },
            sized(16, 4 << 20),
        ),
        (
            Geometry {
                name: "slow buffer, few lines",
                lines: 24,
                hot_lines: 4,
                pause_cycles: 0,
                banks: 2,
                write_queue_entries: 2,
                ..geometry::DIRECT_MAPPED
            },
            sized(8, 64 << 10),
        ),
    ]
}

#[test]
fn the_clean_design_is_never_accused() {
    random_cuts::the_clean_design_is_never_accused::<Frm>(&machines(), DEMAND);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    random_cuts::the_same_seed_gives_the_same_run::<Frm>(&machines());
}

#[test]
fn every_planted_bug_is_caught() {
    random_cuts::every_planted_bug_is_caught::<Frm>(&machines(), DEMAND.effort);
}
