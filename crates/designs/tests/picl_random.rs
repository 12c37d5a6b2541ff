//! Random programs on random machines, cut at random moments: PiCL always brings an epoch back, and
//! each of its planted bugs is noticed by the same cuts.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use common::campaign::Effort;
use common::geometry::{self, Geometry};
use common::random_cuts::{self, Demand, Machine};
use perdure_designs::picl::Picl;

const DEMAND: Demand = Demand {
    seeds: 4,
    effort: Effort {
        generations: 4,
        cut_times: 250,
        tears: 3,
    },
    least_cuts: 50_000,
    phases: 6,
};

fn machines() -> Vec<Machine<Picl>> {
    let mut machines = geometry::all_with(Geometry::parameters);
    let more = [geometry::FULL_LOG].into_iter().chain(geometry::SHORT_ROWS);
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
