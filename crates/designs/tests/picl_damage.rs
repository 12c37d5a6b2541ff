//! A damaged image: random bytes changed in boot records, registers and log after a power cut.
//! Recovery reports corruption, or brings back exactly an epoch that the promise allows. It never
//! panics, and memory is never wrong.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use std::cmp::Reverse;

use common::damage::{self, Effort, Group};
use common::geometry::{self, Geometry};
use perdure_designs::layout::Layout;
use perdure_designs::picl::Picl;
use perdure_designs::picl::log::Block;
use perdure_designs::picl::registers::{COPIES, RECORD_BYTES};
use perdure_hardware::arena::{Arena, PAGE_BYTES};

const EFFORT: Effort = Effort {
    seeds: 3,
    cuts: 60,
    apart: 4_000,
};

/// The log's blocks that recovery reads: the newest ones, and torn ones.
fn log_blocks(arena: &Arena, layout: &Layout, geometry: &Geometry) -> Group {
    let block_bytes = geometry.undo_buffer_bytes;
    let mut blocks: Vec<_> = arena
        .written_pages()
        .filter(|page| layout.log_area.contains(page))
        .flat_map(|page| (page..page + PAGE_BYTES as u64).step_by(block_bytes))
        .map(|at| {
            let block = Block::decode(arena.slice(at, block_bytes), false);
            let sequence = block.map_or(u64::MAX, |block| block.header.sequence);
            (sequence, at..at + block_bytes as u64)
        })
        .collect();
    blocks.sort_by_key(|(sequence, _)| Reverse(*sequence));
    let newest = blocks.into_iter().take(24);
    Group::of("log", newest.map(|(_, place)| place))
}

#[test]
fn damage_is_reported_or_harmless() {
    let mut machines = geometry::all_with(Geometry::parameters);
    machines.extend(geometry::SHORT_ROWS.map(|one| (one, one.parameters())));
    let found =
        damage::is_reported_or_harmless::<Picl>(&machines, EFFORT, |arena, layout, geometry| {
            let records = Group::records(COPIES, RECORD_BYTES);
            vec![records, log_blocks(arena, layout, geometry)]
        });
    assert!(
        damage::total(&found, |one| one.recovered_otherwise) > 0,
        "losing an unfinished register record brings the epoch before it back"
    );
}
