//! PiCL's crash handling (§IV-B): from surviving bytes to the memory of PersistedEID.
//!
//! 1. Read the boot record and the newest whole registers.
//! 2. Find the log's tail: from where the record stands, follow successors while blocks are whole. A
//!    line is written in place only when its own block and all before it are durable, so the cut has
//!    torn or lost the first one that is not whole, and nothing in place needs it or those behind it.
//! 3. Make both copies of the registers say the same. From here on no torn write can bring an older
//!    record back, nor complete a newer one that the cut had torn.
//! 4. Walk the chain backward and write back every entry whose range covers PersistedEID; of
//!    several entries for one line the oldest is written last, and wins. Stop at the super-blocks
//!    that had expired.
//! 5. Record an empty log. Until that is durable, another recovery starts over with the same log
//!    and ends with the same memory.
//!
//! Damage is told from a torn end by what later blocks say. Those that end the chain are two at most,
//! because there are two undo buffers: a block that was issued when the bad one was known to be
//! durable, or the second one behind it, shows that it was damaged. Damage to the newest durable block,
//! or to two in a row behind the record, passes for the end.

use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};

use super::bugs::Flaws;
use super::epoch_id::EpochIds;
use super::log::{Block, Entry, NO_SLOT, SUPER_BLOCK_BYTES, slot_address};
use super::registers::Record;
use crate::copies::CommitRecord;
use crate::design::Recovered;
use crate::layout::{BootRecord, Layout};
use crate::surviving::{Corruption, Interrupted, Surviving};

/// How far sequence numbers jump, so that no block of the old log can continue the new one.
const SEQUENCE_JUMP: u64 = 1 << 20;

struct Log {
    layout: Layout,
    ids: EpochIds,
    block_bytes: u64,
    flaws: Flaws,
}

impl Log {
    fn open(boot: BootRecord, flaws: Flaws) -> Result<Self, Corruption> {
        let [eid_bits, block_bytes, ..] = boot.design;
        if !(1..=8).contains(&eid_bits)
            || !block_bytes.is_power_of_two()
            || !(128..=SUPER_BLOCK_BYTES).contains(&block_bytes)
        {
            return Err(Corruption {
                what: "boot record: not one of PiCL",
                address: 0,
            });
        }
        Ok(Self {
            layout: boot.layout,
            ids: EpochIds::new(eid_bits as u32),
            block_bytes,
            flaws,
        })
    }

    fn address(&self, slot: u32) -> Result<u64, Corruption> {
        let address = slot_address(&self.layout.log_area, slot, self.block_bytes);
        if slot == NO_SLOT || address + self.block_bytes > self.layout.log_area.end {
            return Err(Corruption {
                what: "log: a slot outside the log area",
                address,
            });
        }
        Ok(address)
    }

    /// The block at a slot if it is whole and has this sequence number.
    fn block<'a>(
        &self,
        image: &'a Surviving,
        slot: u32,
        sequence: u64,
    ) -> Result<Option<Block<'a>>, Corruption> {
        let bytes = image.read(self.address(slot)?, self.block_bytes as usize)?;
        let block = Block::decode(bytes, self.flaws.ignores_checksum);
        let stale_is_fine = self.flaws.trusts_stale_block;
        Ok(block.filter(|block| block.header.sequence == sequence || stale_is_fine))
    }

    fn covers<Bytes>(&self, entry: &Entry<Bytes>, epoch: u64) -> bool {
        if self.flaws.compares_plain_epochs {
            let tag = |epoch| self.ids.tag(epoch);
            return tag(entry.valid_from) <= tag(epoch) && tag(epoch) < tag(entry.valid_till);
        }
        entry.covers(epoch)
    }

    /// The same, for what may not be there at all.
    fn is_there<'a>(
        &self,
        image: &'a Surviving,
        slot: u32,
        sequence: u64,
    ) -> Result<Option<Block<'a>>, Corruption> {
        match self.address(slot) {
            Ok(_) => self.block(image, slot, sequence),
            Err(_) => Ok(None),
        }
    }

    /// Slot of the last whole block from the record on, and the sequence number after it.
    fn tail(&self, image: &Surviving, record: &Record) -> Result<(u32, u64), Corruption> {
        let (mut tail, mut sequence) = (Record::slot(record.last_slot), record.durable_below);
        let mut next = record.next_slots.map(Record::slot);
        while let Some(block) = self.is_there(image, next[0], sequence)? {
            let stale = block.header.sequence != sequence; // Only with the planted bug.
            tail = next[0];
            next = block.header.successors;
            sequence += 1;
            if stale {
                break;
            }
        }
        if self.was_durable(image, next, sequence)? {
            return Err(Corruption {
                what: "log: a block that had been durable is damaged",
                address: self.address(next[0])?,
            });
        }
        Ok((tail, sequence))
    }

    /// True if a block behind the first bad one shows that the bad one had been durable.
    fn was_durable(
        &self,
        image: &Surviving,
        [_, behind]: [u32; 2],
        sequence: u64,
    ) -> Result<bool, Corruption> {
        let Some(behind) = self.is_there(image, behind, sequence + 1)? else {
            return Ok(false);
        };
        let [second, _] = behind.header.successors;
        Ok(!behind.header.follows_unfinished
            || self.is_there(image, second, sequence + 2)?.is_some())
    }

    /// Writes back the entries of a block that cover PersistedEID, the oldest of them last.
    fn apply(
        &self,
        image: &mut Surviving,
        block: &Block,
        persisted: u64,
        block_address: u64,
    ) -> Result<(), Interrupted> {
        // Epoch numbers in blocks have 32 bits; nothing in the log is that far from PersistedEID.
        let entries = block.entries(self.ids, persisted + (1 << 31));
        let covering = entries.filter(|entry| self.covers(entry, persisted));
        for entry in covering.clone() {
            image.prefetch(entry.line.wrapping_mul(LINE_BYTES as u64));
        }
        let mut write_back = |entry: Entry<&[u8; LINE_BYTES]>| {
            address_of(entry.line)
                .filter(|address| self.layout.protected().contains(address))
                .ok_or(Corruption {
                    what: "log: an entry for a line outside memory",
                    address: block_address,
                })?;
            image.write_line(entry.line, &Line(*entry.bytes))
        };
        if self.flaws.scans_log_forward {
            covering.clone().try_for_each(&mut write_back)
        } else {
            covering.rev().try_for_each(&mut write_back)
        }
    }
}

/// Recovers. See the module's documentation.
pub fn recover(image: &mut Surviving, flaws: Flaws) -> Result<Recovered, Interrupted> {
    let boot = BootRecord::read(image)?;
    let record = Record::read(image, false)?;
    let log = Log::open(boot, flaws)?;
    let persisted = record.persisted;
    let (mut slot, end) = log.tail(image, &record)?;

    record.write_both(image)?;
    let mut forward = Vec::new();
    for sequence in (record.oldest_needed..end).rev() {
        let address = log.address(slot)?;
        let block = log.block(image, slot, sequence)?.ok_or(Corruption {
            what: "log: a block that had been durable is damaged",
            address,
        })?;
        let block = block.into_owned();
        slot = block.header.predecessor;
        if flaws.scans_log_forward {
            forward.push((address, block));
        } else {
            log.apply(image, &block, persisted, address)?;
        }
    }
    for (address, block) in forward.iter().rev() {
        log.apply(image, block, persisted, *address)?;
    }

    let empty = Record {
        number: record.number + 1,
        persisted,
        durable_below: end + SEQUENCE_JUMP,
        last_slot: u64::from(NO_SLOT),
        next_slots: [0, 1],
        oldest_needed: end + SEQUENCE_JUMP,
    };
    empty.write_both(image)?;
    Ok(Recovered::at(persisted))
}

fn address_of(line: LineNumber) -> Option<u64> {
    line.checked_mul(LINE_BYTES as u64)
}
