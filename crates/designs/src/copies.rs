//! Records that lie in NVM twice, so that one copy is always whole.
//!
//! Always true here: the copies are in different rows, banks and pages. A design writes copy 1 when copy 0
//! is durable, and lets nothing that depends on a record happen before both are: so damage to one copy
//! after the fact never brings an older state back.

use perdure_hardware::arena::Arena;

use crate::layout::METADATA;
use crate::surviving::{Corruption, Surviving};

/// Where the copies lie.
pub const COPIES: [u64; 2] = [METADATA.start, METADATA.start + 0x1000];

/// The newest whole copy of a record of so many bytes: the one with the larger `number`. `damaged` says
/// what it is that neither copy holds.
pub fn newest<R>(
    image: &Surviving,
    bytes: usize,
    decode: impl Fn(&[u8]) -> Option<R>,
    number: impl Fn(&R) -> u64,
    damaged: &'static str,
) -> Result<R, Corruption> {
    COPIES
        .into_iter()
        .filter_map(|address| decode(image.read(address, bytes).ok()?))
        .max_by_key(number)
        .ok_or(Corruption {
            what: damaged,
            address: COPIES[0],
        })
}

/// The whole copies that an arena has before a design starts: none at first boot, and after a recovery
/// what it left, from which numbers go on.
pub fn kept<R>(
    arena: &Arena,
    bytes: usize,
    decode: impl Fn(&[u8]) -> Option<R>,
) -> impl Iterator<Item = R> {
    COPIES
        .into_iter()
        .filter_map(move |address| decode(arena.slice(address, bytes)))
}

/// Puts both copies there before a design starts.
pub fn put(arena: &mut Arena, record: &[u8]) {
    for address in COPIES {
        arena.write(address, record);
    }
}
