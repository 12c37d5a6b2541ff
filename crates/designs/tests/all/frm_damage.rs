//! A damaged image: random bytes changed in boot records, commit records and the undo log after a
//! power cut. Recovery reports corruption, or brings back exactly an epoch that the promise allows.
//! It never panics, and memory is never wrong.
//!
//! One thing is beyond it: the newest records that are durable, as many as the controller's buffer
//! has entries, look like records that the cut tore when they are damaged, because no later record
//! says that they were durable. Damage there may bring wrong memory back, and only panics are
//! looked for.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::damage::{self, Effort, Group};
use crate::common::geometry::{self, Geometry};
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::frm::log::{Log, Record, SLOT_BYTES};
use perdure_designs::frm::registers::Commit;
use perdure_designs::frm::{Frm, Parameters};
use perdure_designs::layout::Layout;
use perdure_hardware::arena::Arena;

const EFFORT: Effort = Effort {
    cuts: 60,
    apart: 4_000,
};
const PARAMETERS: Parameters = Parameters {
    buffer_entries: 2,
    log_limit_bytes: 1 << 20,
};

/// Slots of the live log: those that a later record knows to be durable, and the newest ones.
fn live_log(arena: &Arena, layout: &Layout, geometry: &Geometry) -> [Group; 2] {
    let (row_bytes, banks) = (geometry.row_bytes as u64, geometry.banks as u64);
    let limit = PARAMETERS.log_limit_bytes;
    let log =
        Log::within(&layout.log_area, limit, row_bytes, banks).expect("the design has one, too");
    let generation = COPIES
        .iter()
        .filter_map(|&copy| Commit::decode(&arena.slice(copy, Commit::BYTES), false))
        .map(|commit| commit.generation)
        .max();
    let slot = |index| log.address(index)..log.address(index) + SLOT_BYTES as u64;
    let live = |index: &u64| {
        Record::decode(&arena.slice(log.address(*index), SLOT_BYTES), false)
            .is_some_and(|record| Some(record.generation) == generation)
    };
    let count = (0..log.capacity).take_while(live).count() as u64;
    let known = count.saturating_sub(PARAMETERS.buffer_entries as u64);
    let newest = Group {
        passes_for_torn: true,
        ..Group::of("newest", (known..count).map(slot))
    };
    [Group::of("known", (0..known).map(slot)), newest]
}

#[test]
fn damage_is_reported_or_harmless() {
    let machines = geometry::all_with(|_| PARAMETERS);
    let found =
        damage::is_reported_or_harmless::<Frm>(&machines, EFFORT, |arena, layout, geometry| {
            let [known, newest] = live_log(arena, layout, geometry);
            vec![Group::records(COPIES, Commit::BYTES), known, newest]
        });
    assert!(found["newest"].recovered + found["newest"].wrong > 0);
}
