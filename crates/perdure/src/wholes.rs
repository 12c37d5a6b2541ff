//! Bytes of which a program says that they change as a whole: where in memory they lie.
//!
//! Always true here: they lie in one mapping of a pool, or nowhere; how many they are is bounded by that.

use perdure_hardware::line::cut_at;
use perdure_linux::{Kernel, PAGE_BYTES, SpaceId};
use perdure_riscv::{Fault, Mark};

/// Where a mapping of a pool has its name.
const POOLS: &str = "/pmem/";

/// Bytes that lie behind each other: their physical address, and how many they are.
pub(crate) type Piece = (u64, u64);

/// Of bytes that lie in one mapping of a pool, the pieces in their order, as pages behind each other need not
/// be so in physical memory; else none.
pub(crate) fn pieces_of(
    mark: Mark,
    kernel: &Kernel,
    space: SpaceId,
    mut translate: impl FnMut(u64) -> Result<u64, Fault>,
) -> Result<Vec<Piece>, Fault> {
    let mut pieces: Vec<Piece> = Vec::new();
    let Mark::Atomic { start, bytes } = mark else {
        return Ok(pieces);
    };
    if !is_in_a_pool(kernel, space, start, bytes) {
        return Ok(pieces);
    }
    for (at, piece) in cut_at(PAGE_BYTES, start, bytes as usize) {
        let (physical, more) = (translate(at)?, piece.len() as u64);
        match pieces.last_mut() {
            Some((last, length)) if *last + *length == physical => *length += more,
            _ => pieces.push((physical, more)),
        }
    }
    Ok(pieces)
}

fn is_in_a_pool(kernel: &Kernel, space: SpaceId, start: u64, bytes: u64) -> bool {
    let Some(end) = start.checked_add(bytes) else {
        return false;
    };
    let mappings = kernel.mappings(space);
    let found = mappings
        .iter()
        .find(|one| one.start <= start && start < one.end);
    found.is_some_and(|one| end <= one.end && one.name.starts_with(POOLS))
}
