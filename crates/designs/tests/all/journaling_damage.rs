//! A damaged image: random bytes changed in boot records, registers, blocks and redo slots after a
//! power cut. Recovery reports corruption, or brings back exactly an epoch that the promise allows.
//! It never panics, and memory is never wrong.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::damage::{self, Effort, Group};
use crate::common::geometry::{self, Geometry};
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::journaling::journal::Map;
use perdure_designs::journaling::registers::Record;
use perdure_designs::journaling::{Journaling, Parameters};
use perdure_designs::layout::Layout;
use perdure_hardware::arena::Arena;
use perdure_hardware::line::LINE_BYTES;

const EFFORT: Effort = Effort {
    cuts: 100,
    apart: 4_000,
};
const PARAMETERS: Parameters = Parameters {
    table_entries: 48,
    table_ways: 8,
};

/// The first blocks and redo slots, committed or not.
fn journal(arena: &Arena, layout: &Layout, geometry: &Geometry) -> Group {
    let spread = geometry.specification().nvm.line_spread() as u64;
    let map = Map::new(&layout.log_area, geometry.row_bytes as u64, spread);
    let committed = COPIES
        .iter()
        .filter_map(|&copy| Record::decode(&arena.slice(copy, Record::BYTES), false))
        .map(|record| record.blocks)
        .max();
    let blocks = committed.unwrap_or(0).clamp(4, map.block_capacity());
    let block_bytes = map.block_bytes() as u64;
    let blocks = (0..blocks).map(|index| map.block_address(index));
    let slots = (0..24).map(|slot| map.slot_line(slot) * LINE_BYTES as u64);
    Group::of(
        "journal",
        blocks
            .map(|at| at..at + block_bytes)
            .chain(slots.map(|at| at..at + LINE_BYTES as u64)),
    )
}

#[test]
fn damage_is_reported_or_harmless() {
    let machines = geometry::all_with(|_| PARAMETERS);
    let found = damage::is_reported_or_harmless::<Journaling>(
        &machines,
        EFFORT,
        |arena, layout, geometry| {
            let records = Group::records(COPIES, Record::BYTES);
            vec![records, journal(arena, layout, geometry)]
        },
    );
    assert!(
        found["journal"].reported > 0,
        "blocks and redo slots are needed while a journal is committed"
    );
    assert!(
        damage::total(&found, |one| one.recovered_otherwise) > 0,
        "losing an unfinished commit record brings the epoch before it back"
    );
}
