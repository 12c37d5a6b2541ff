//! PiCL's crash handling (§IV-B): from surviving bytes to the memory of PersistedEID.
//!
//! 1. Read the boot record and the newest whole registers.
//! 2. Find the log's tail: from the acknowledged end, follow successors while blocks are whole.
//! 3. Make both copies of the registers say the same. From here on no torn write can bring an older
//!    record back, nor complete a newer one that the cut had torn.
//! 4. Walk the chain backward and write back every entry whose range covers PersistedEID; of
//!    several entries for one line the oldest is written last, and wins. Stop at the super-blocks
//!    that had expired.
//! 5. Record an empty log. Until that is durable, another recovery starts over with the same log
//!    and ends with the same memory.

use perdure_hardware::line::{LINE_BYTES, LineNumber};

use super::bugs::Bug;
use super::epoch_id::EpochIds;
use super::log::{Block, Entry, NO_SLOT, SUPER_BLOCK_BYTES, slot_address};
use super::registers::{COPIES, Record};
use crate::design::Recovered;
use crate::layout::{BootRecord, Layout};
use crate::surviving::{Corruption, Interrupted, Surviving};

/// How far sequence numbers jump, so that no block of the old log can continue the new one.
const SEQUENCE_JUMP: u64 = 1 << 20;

struct Log {
    layout: Layout,
    ids: EpochIds,
    block_bytes: u64,
    bug: Option<Bug>,
}

impl Log {
    fn open(boot: BootRecord, bug: Option<Bug>) -> Result<Self, Corruption> {
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
            bug,
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
        let block = Block::decode(bytes, self.bug == Some(Bug::ChecksumIgnored));
        Ok(block.filter(|block| block.header.sequence == sequence))
    }

    fn covers(&self, entry: &Entry, epoch: u64) -> bool {
        if self.bug == Some(Bug::PlainEpochCompare) {
            let tag = |epoch| self.ids.tag(epoch);
            return tag(entry.valid_from) <= tag(epoch) && tag(epoch) < tag(entry.valid_till);
        }
        entry.covers(epoch)
    }

    /// Slots and sequence numbers of whole blocks from the acknowledged end on; the last is the
    /// tail. A bad block there was torn by the cut.
    fn tail(&self, image: &Surviving, record: &Record) -> Result<(u32, u64), Corruption> {
        let (mut tail, mut sequence) = (record.last_slot, record.acknowledged);
        let mut next = record.next_slot;
        while let Some(block) = self.block(image, next, sequence)? {
            tail = next;
            next = block.header.successor;
            sequence += 1;
            if self.address(next).is_err() {
                break;
            }
        }
        Ok((tail, sequence))
    }
}

/// Recovers. See the module's documentation.
pub fn recover(image: &mut Surviving, bug: Option<Bug>) -> Result<Recovered, Interrupted> {
    let boot = BootRecord::read(image)?;
    let record = Record::read(image)?;
    let log = Log::open(boot, bug)?;
    let persisted = record.persisted;
    // Epoch numbers in blocks have 32 bits; nothing in the log is that far from PersistedEID.
    let newest = persisted + (1 << 31);
    let (mut slot, end) = log.tail(image, &record)?;
    let mut forward = Vec::new();

    image.write_copies(COPIES, &record.encode())?;
    let mut covering: Vec<Entry> = Vec::new();
    for sequence in (record.oldest_needed..end).rev() {
        let address = log.address(slot)?;
        let block = log.block(image, slot, sequence)?.ok_or(Corruption {
            what: "log: an acknowledged block is damaged",
            address,
        })?;
        let predecessor = block.header.predecessor;
        covering.clear();
        covering.extend(
            block
                .entries(log.ids, newest)
                .filter(|entry| log.covers(entry, persisted)),
        );
        if bug == Some(Bug::ForwardScan) {
            forward.push(covering.clone());
        } else {
            apply(image, &log.layout, covering.iter().rev(), address)?;
        }
        slot = predecessor;
    }
    for covering in forward.iter().rev() {
        apply(image, &log.layout, covering.iter(), 0)?;
    }

    let empty = Record {
        number: record.number + 1,
        persisted,
        acknowledged: end + SEQUENCE_JUMP,
        last_slot: NO_SLOT,
        next_slot: 0,
        oldest_needed: end + SEQUENCE_JUMP,
    };
    image.write_copies(COPIES, &empty.encode())?;
    Ok(Recovered { epoch: persisted })
}

fn apply<'a>(
    image: &mut Surviving,
    layout: &Layout,
    entries: impl Iterator<Item = &'a Entry> + Clone,
    block_address: u64,
) -> Result<(), Interrupted> {
    for entry in entries.clone() {
        image.prefetch(entry.line.wrapping_mul(LINE_BYTES as u64));
    }
    for entry in entries {
        address_of(entry.line)
            .filter(|address| layout.protected().contains(address))
            .ok_or(Corruption {
                what: "log: an entry for a line outside memory",
                address: block_address,
            })?;
        image.write_line(entry.line, &entry.bytes)?;
    }
    Ok(())
}

fn address_of(line: LineNumber) -> Option<u64> {
    line.checked_mul(LINE_BYTES as u64)
}
