//! Bytes of which a program says that they change as a whole: where in memory they lie.
//!
//! Always true here: they lie in one mapping of a pool, or nowhere; how many they are is bounded by that.

use perdure_hardware::line::cut_at;
use perdure_linux::{Kernel, PAGE_BYTES, SpaceId};
use perdure_riscv::{Fault, Mark};

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
    let mapping = kernel.pool_mapping(space, start);
    if mapping.is_none_or(|mapping| bytes > mapping.end - start) {
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
