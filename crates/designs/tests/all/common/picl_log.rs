//! What recovery reads of an image that PiCL left, for damage tests.

use std::cmp::Reverse;
use std::ops::Range;

use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::layout::Layout;
use perdure_designs::picl::log::Block;
use perdure_designs::picl::registers::Record;
use perdure_hardware::arena::{Arena, PAGE_BYTES};

use super::damage::Group;
use super::geometry::Geometry;

/// Records; the newest of the blocks that every record knows to be durable; and those behind, torn ones
/// included. Of these, damage to several can pass for the log's end.
pub fn groups(arena: &Arena, layout: &Layout, geometry: &Geometry) -> Vec<Group> {
    let block_bytes = geometry.undo_buffer_bytes;
    let records = COPIES.map(|copy| Record::decode(&arena.slice(copy, Record::BYTES), false));
    let known = records.iter().flatten().map(|record| record.durable_below);
    let known = known.min().expect("one copy is whole");
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
    let (behind, durable): (Vec<_>, Vec<_>) = blocks
        .into_iter()
        .partition(|(sequence, _)| *sequence >= known);
    let newest = |blocks: Vec<(u64, Range<u64>)>| blocks.into_iter().map(|(_, at)| at).take(24);
    vec![
        Group::records(COPIES, Record::BYTES),
        Group::of("durable", newest(durable)),
        Group {
            passes_for_torn: true,
            ..Group::of("behind the record", newest(behind))
        },
    ]
}
