//! A damaged image: random bytes changed in boot records, registers and log after a power cut.
//! Recovery reports corruption, or brings back exactly an epoch that the promise allows. It never
//! panics, and memory is never wrong.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use common::damage::{self, Effort};
use common::geometry::{self, Geometry};
use common::picl_log;
use perdure_designs::picl::Picl;

const EFFORT: Effort = Effort {
    seeds: 3,
    cuts: 60,
    apart: 4_000,
};

#[test]
fn damage_is_reported_or_harmless() {
    let mut machines = geometry::all_with(Geometry::parameters);
    machines.extend(geometry::SHORT_ROWS.map(|one| (one, one.parameters())));
    let found =
        damage::is_reported_or_harmless::<Picl>(&machines, EFFORT, |arena, layout, geometry| {
            picl_log::groups(arena, layout, geometry)
        });
    assert!(
        damage::total(&found, |one| one.recovered_otherwise) > 0,
        "losing an unfinished register record brings the epoch before it back"
    );
}
