//! A damaged image: random bytes changed in boot records, commit records and the mapping table after
//! a power cut. Recovery reports corruption, or brings back exactly an epoch that the promise
//! allows. It never panics, and memory is never wrong.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::mapping_table;
use perdure_designs::hardware_shadow::HardwareShadow;

#[test]
fn damage_is_reported_or_harmless() {
    mapping_table::damage_is_reported_or_harmless::<HardwareShadow>(2);
}
