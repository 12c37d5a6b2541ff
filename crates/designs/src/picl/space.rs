//! The operating system's bookkeeping of the undo log (PiCL §IV-B): which super-blocks are free, and where
//! the next block goes.
//!
//! Always true here: a super-block that has free slots, or an entry that has not expired, is live.

use std::collections::VecDeque;
use std::ops::Range;

use super::log::{NO_SLOT, SUPER_BLOCK_BYTES};

#[derive(Clone)]
struct Live {
    super_block: u32,
    valid_till: u64,
    first_sequence: u64,
}

/// Which super-blocks are free, which are live and until when, where the next block goes. Volatile: recovery
/// leaves an empty log.
#[derive(Clone)]
pub struct Space {
    /// Regions handed out so far.
    pub extents: u64,
    area: Range<u64>,
    extent_bytes: u64,
    limit_bytes: u64,
    blocks_per_super_block: u32,
    /// A stack: what was reclaimed last is used first, so that the log stays small in NVM.
    free: Vec<u32>,
    live: VecDeque<Live>,
    /// Where the last block went, or [`NO_SLOT`].
    pub last_slot: u32,
    /// Where the next two blocks go.
    pub next_slots: [u32; 2],
    /// The next one's sequence number.
    pub next_sequence: u64,
}

/// Where a block goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block before it.
    pub predecessor: u32,
    /// Itself.
    pub slot: u32,
    /// The two blocks after it.
    pub successors: [u32; 2],
    /// The kernel had to hand out a region.
    pub grown: bool,
}

/// The log is full and may not grow.
#[derive(Clone, Copy, Debug)]
pub struct Exhausted {
    /// Bytes of log that are in use.
    pub bytes: u64,
}

impl Space {
    /// An empty log in its first extent.
    pub fn new(
        area: Range<u64>,
        extent_bytes: u64,
        limit_bytes: u64,
        block_bytes: u64,
        next_sequence: u64,
    ) -> Self {
        let mut space = Self {
            extents: 0,
            area,
            extent_bytes,
            limit_bytes,
            blocks_per_super_block: (SUPER_BLOCK_BYTES / block_bytes) as u32,
            free: Vec::new(),
            live: VecDeque::new(),
            last_slot: NO_SLOT,
            next_slots: [NO_SLOT; 2],
            next_sequence,
        };
        space.grow();
        let mut slot = NO_SLOT;
        for ahead in 0..2 {
            let next = space.slot_after(slot, next_sequence + ahead as u64);
            (slot, _) = next.expect("an extent has at least four super-blocks");
            space.next_slots[ahead] = slot;
        }
        space
    }

    /// The slot after another, for a block of that sequence number; also whether the kernel handed
    /// out a region for it.
    fn slot_after(&mut self, slot: u32, sequence: u64) -> Result<(u32, bool), Exhausted> {
        let next = slot.wrapping_add(1); // NO_SLOT ends a super-block, too.
        if !next.is_multiple_of(self.blocks_per_super_block) {
            return Ok((next, false));
        }
        let grown = self.free.is_empty() && self.grow();
        let super_block = self.free.pop().ok_or(Exhausted {
            bytes: self.live_bytes(),
        })?;
        self.live.push_back(Live {
            super_block,
            valid_till: 0,
            first_sequence: sequence,
        });
        Ok((super_block * self.blocks_per_super_block, grown))
    }

    /// Asks the kernel for another region. False if there is none to be had.
    fn grow(&mut self) -> bool {
        let used = self.extents * self.extent_bytes;
        let grown = used + self.extent_bytes;
        if grown > self.limit_bytes.min(self.area.end - self.area.start) {
            return false;
        }
        self.extents += 1;
        self.free
            .extend(((used / SUPER_BLOCK_BYTES) as u32..(grown / SUPER_BLOCK_BYTES) as u32).rev());
        true
    }

    /// Takes the next slot for a block whose newest ValidTill is given, and decides where the block
    /// after the next one will be.
    pub fn advance(&mut self, valid_till: u64) -> Result<Place, Exhausted> {
        let [slot, successor] = self.next_slots;
        let super_block = slot / self.blocks_per_super_block;
        let mut newest_first = self.live.iter_mut().rev();
        newest_first
            .find(|live| live.super_block == super_block)
            .expect("the super-block of the next slot is live")
            .valid_till = valid_till;
        let (after_it, grown) = self.slot_after(successor, self.next_sequence + 2)?;
        let place = Place {
            predecessor: self.last_slot,
            slot,
            successors: [successor, after_it],
            grown,
        };
        self.last_slot = slot;
        self.next_slots = place.successors;
        self.next_sequence += 1;
        Ok(place)
    }

    /// The first sequence number that recovery to `persisted` can need.
    pub fn oldest_needed(&self, persisted: u64) -> u64 {
        self.live
            .iter()
            .find(|live| live.valid_till > persisted)
            .map_or(self.next_sequence, |live| live.first_sequence)
    }

    /// Garbage collection (§IV-B): reclaims super-blocks that expired, i.e. whose every entry has
    /// ValidTill ≤ `persisted`. Those that have free slots stay. Returns how many.
    pub fn collect(&mut self, persisted: u64) -> u64 {
        let open = self.next_slots[0] / self.blocks_per_super_block;
        let mut collected = 0;
        while let Some(live) = self.live.front()
            && live.super_block != open
            && live.valid_till <= persisted
        {
            self.free.push(live.super_block);
            self.live.pop_front();
            collected += 1;
        }
        collected
    }

    /// Bytes of super-blocks in use.
    pub fn live_bytes(&self) -> u64 {
        self.live.len() as u64 * SUPER_BLOCK_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_reused_only_after_expiry_and_grows_to_its_limit() {
        let mut space = Space::new(0..1 << 20, 8192, 16384, 2048, 0);
        let mut places = Vec::new();
        for epoch in 1..=6 {
            places.push(space.advance(epoch).unwrap());
        }
        assert_eq!(space.extents, 2);
        for (place, next) in places.iter().zip(&places[1..]) {
            assert_eq!(place.successors[0], next.slot);
            assert_eq!(place.successors[1], next.successors[0]);
            assert_eq!(next.predecessor, place.slot);
        }
        assert!(space.advance(7).is_err(), "four super-blocks are taken");
        assert_eq!(
            space.oldest_needed(3),
            2,
            "the super-block with epochs 3 and 4"
        );
        assert_eq!(space.collect(3), 1);
        let place = space.advance(8).unwrap();
        assert_eq!(place.successors, [7, 0], "slot 0 is free again");
    }

    #[test]
    fn what_has_free_slots_is_never_reclaimed() {
        for block_bytes in [4096, 2048, 128] {
            let mut space = Space::new(0..1 << 20, 16384, 16384, block_bytes, 0);
            for epoch in 1..1000 {
                let place = space.advance(epoch).expect("everything expires at once");
                space.collect(epoch);
                let super_block = |slot| slot / (4096 / block_bytes as u32);
                let next = place.successors.map(super_block);
                assert!(next.iter().all(|next| !space.free.contains(next)));
            }
        }
    }
}
