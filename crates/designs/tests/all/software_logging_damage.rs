//! A damaged image: random bytes changed in boot records, commit records and the undo log after a
//! power cut. Recovery reports corruption, or brings back exactly an epoch that the promise allows.
//! It never panics, and memory is never wrong.
//!
//! One thing is beyond it, as it is beyond `frm`: entries that no later entry knows to be durable
//! look like entries that the cut tore when they are damaged. Damage there may bring wrong memory
//! back, and only panics are looked for.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::damage::{self, Effort, Group};
use crate::common::geometry::{self, Geometry};
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::frm::log::{Log, Record, SLOT_BYTES};
use perdure_designs::frm::registers::Commit;
use perdure_designs::layout::Layout;
use perdure_designs::software_logging::{Parameters, SoftwareLogging};
use perdure_hardware::arena::Arena;

const EFFORT: Effort = Effort {
    cuts: 60,
    apart: 4_000,
};
const LOG_BYTES: u64 = 1 << 20;

/// Slots of the live log: those that a later entry knows to be durable, and the newest ones.
fn live_log(arena: &Arena, layout: &Layout, geometry: &Geometry) -> [Group; 2] {
    let row_bytes = geometry.row_bytes.max(SLOT_BYTES) as u64;
    let log = Log::within(
        &layout.log_area,
        LOG_BYTES,
        row_bytes,
        geometry.banks as u64,
    )
    .expect("the design has one, too");
    let generation = COPIES
        .iter()
        .filter_map(|&copy| Commit::decode(&arena.slice(copy, Commit::BYTES), false))
        .map(|commit| commit.generation)
        .max();
    let slot = |index| log.address(index)..log.address(index) + SLOT_BYTES as u64;
    let live: Vec<Record> = (0..log.capacity)
        .map_while(|index| Record::decode(&arena.slice(log.address(index), SLOT_BYTES), false))
        .take_while(|record| Some(record.generation) == generation)
        .collect();
    let known = live.iter().map(|record| record.durable_below).max();
    let known = known.unwrap_or(0);
    let newest = Group {
        passes_for_torn: true,
        ..Group::of("newest", (known..live.len() as u64).map(slot))
    };
    [Group::of("known", (0..known).map(slot)), newest]
}

#[test]
fn damage_is_reported_or_harmless() {
    let one_line = Geometry {
        name: "rows of one line",
        row_bytes: 64,
        ..geometry::MANY_HARTS
    };
    let parameters = Parameters {
        log_limit_bytes: LOG_BYTES,
        ..Parameters::default()
    };
    let mut machines = geometry::all_with(|_| parameters.clone());
    machines.push((one_line, parameters));
    let found = damage::is_reported_or_harmless::<SoftwareLogging>(
        &machines,
        EFFORT,
        |arena, layout, geometry| {
            let [known, newest] = live_log(arena, layout, geometry);
            vec![Group::records(COPIES, Commit::BYTES), known, newest]
        },
    );
    assert!(found["known"].reported > 0);
    assert!(found["newest"].recovered + found["newest"].wrong > 0);
}
