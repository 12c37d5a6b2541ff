//! What recovery reads of an image that PiCL left, for damage tests.

use std::cmp::Reverse;

use perdure_designs::layout::Layout;
use perdure_designs::picl::log::Block;
use perdure_designs::picl::registers::{COPIES, RECORD_BYTES};
use perdure_hardware::arena::{Arena, PAGE_BYTES};

use super::damage::Group;
use super::geometry::Geometry;

/// Records, and the log's blocks: the newest ones, and torn ones.
pub fn groups(arena: &Arena, layout: &Layout, geometry: &Geometry) -> Vec<Group> {
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
    let newest = blocks.into_iter().take(24).map(|(_, place)| place);
    vec![
        Group::records(COPIES, RECORD_BYTES),
        Group::of("log", newest),
    ]
}
