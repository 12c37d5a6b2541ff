//! Records that lie in NVM twice, so that one copy is always whole.
//!
//! Always true here: the copies are in different rows, banks and pages. A design writes copy 1 when copy 0
//! is durable, and lets nothing that depends on a record happen before both are: so damage to one copy
//! after the fact never brings an older state back.

use perdure_hardware::arena::Arena;

use crate::bytes::Sealed;
use crate::layout::METADATA;
use crate::surviving::{Corruption, Interrupted, Surviving};

/// Where the copies lie.
pub const COPIES: [u64; 2] = [METADATA.start, METADATA.start + 0x1000];

/// A record that commits an epoch. Its first field counts records: of two, the one with the larger number
/// is the newer.
pub trait CommitRecord: Sealed {
    /// What is wrong where neither copy is whole.
    const DAMAGED: &'static str;

    /// The first field.
    fn number(&self) -> u64 {
        let first = self.as_bytes().first_chunk();
        first.map_or(0, |number| u64::from_ne_bytes(*number))
    }

    /// The newest whole copy. `torn_too` is a planted bug.
    fn read(image: &Surviving, torn_too: bool) -> Result<Self, Corruption> {
        COPIES
            .into_iter()
            .filter_map(|address| Self::decode(&image.read(address, Self::BYTES).ok()?, torn_too))
            .max_by_key(Self::number)
            .ok_or(Corruption {
                what: Self::DAMAGED,
                address: COPIES[0],
            })
    }

    /// The newest whole copy that an arena has before a design starts: none at first boot, and after a
    /// recovery what it left, from which numbers go on.
    fn left(arena: &Arena) -> Option<Self> {
        COPIES
            .into_iter()
            .filter_map(|address| Self::decode(&arena.slice(address, Self::BYTES), false))
            .max_by_key(Self::number)
    }

    /// Makes both copies this record, one after the other.
    fn write_both(&self, image: &mut Surviving) -> Result<(), Interrupted> {
        let bytes = self.encode();
        let mut copies = COPIES.into_iter();
        copies.try_for_each(|copy| image.write_unless_there(copy, &bytes))
    }

    /// Puts both copies there before a design starts.
    fn put(&self, arena: &mut Arena) {
        for address in COPIES {
            arena.write(address, &self.encode());
        }
    }
}
