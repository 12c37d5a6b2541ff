//! Random programs on random machines, cut at random moments: PiCL always brings an epoch back, and
//! each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::campaign::Effort;
use crate::common::geometry::{self, Geometry};
use crate::common::random_cuts::{self, Demand, Machine};
use perdure_designs::picl::Picl;
use perdure_hardware::specification::{Interleaving, Scheduling};

const DEMAND: Demand = Demand {
    effort: Effort {
        generations: 4,
        cut_times: 250,
        tears: 3,
    },
    least_cuts: 50_000,
    phases: 6,
};

/// Writes that start in the order of acceptance, whatever their banks; [`geometry::ALL`] has the others.
const IN_ORDER: [Geometry; 2] = [
    Geometry {
        name: "tiny, start order",
        scheduling: Scheduling::StartOrder,
        ..geometry::TINY
    },
    Geometry {
        name: "many harts, start order",
        scheduling: Scheduling::StartOrder,
        home_interleaving: Interleaving::Line,
        ..geometry::MANY_HARTS
    },
];

/// Few banks, and harts that write all the time: of two blocks on their way, the later one often finds
/// its bank free first.
const BUSY_BANKS: Geometry = Geometry {
    name: "busy banks",
    home_interleaving: Interleaving::Line,
    banks: 4,
    acs_gap: 1,
    undo_buffer_bytes: 2048,
    write_queue_entries: 64,
    pause_cycles: 0,
    ..geometry::MANY_HARTS
};

fn machines() -> Vec<Machine<Picl>> {
    let mut machines = geometry::all_with(Geometry::parameters);
    let more = [geometry::FULL_LOG, geometry::FULL_LOG_OF_ROWS].into_iter();
    let more = more
        .chain(geometry::SHORT_ROWS)
        .chain(IN_ORDER)
        .chain([BUSY_BANKS]);
    machines.extend(more.map(|one| (one, one.parameters())));
    machines
}

#[test]
fn the_clean_design_is_never_accused() {
    random_cuts::the_clean_design_is_never_accused::<Picl>(&machines(), DEMAND);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    random_cuts::the_same_seed_gives_the_same_run::<Picl>(&machines());
}

#[test]
fn every_planted_bug_is_caught() {
    random_cuts::every_planted_bug_is_caught::<Picl>(&machines(), DEMAND.effort);
}
