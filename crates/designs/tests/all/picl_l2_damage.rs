//! A damaged image of `picl-l2`: as for `picl`, whose formats and recovery these are.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::damage::{self, Effort};
use crate::common::geometry::{self, Geometry};
use crate::common::picl_log;
use perdure_designs::picl_l2::PiclL2;

const EFFORT: Effort = Effort {
    cuts: 60,
    apart: 4_000,
};

#[test]
fn damage_is_reported_or_harmless() {
    let mut machines = geometry::all_with(Geometry::parameters);
    machines.extend(geometry::SHORT_ROWS.map(|one| (one, one.parameters())));
    for (geometry, _) in &mut machines {
        *geometry = geometry.not_inclusive();
    }
    let found =
        damage::is_reported_or_harmless::<PiclL2>(&machines, EFFORT, |arena, layout, geometry| {
            picl_log::groups(arena, layout, geometry)
        });
    assert!(
        damage::total(&found, |one| one.recovered_otherwise) > 0,
        "losing an unfinished register record brings the epoch before it back"
    );
}
