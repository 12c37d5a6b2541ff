//! Recovery of the journal: from surviving bytes to the memory of the committed epoch.
//!
//! 1. Read the boot record and the newest whole registers.
//! 2. Read the blocks that the registers name and the redo slots that these name, and check all of
//!    them. Registers name them only after they were durable, so what is not whole is damage.
//! 3. Make both copies of the registers say the same. From here on no torn write can bring an older
//!    record back.
//! 4. Write every line home.
//! 5. Record that the journal is retired. Until that is durable, another recovery starts over with
//!    the same journal and ends with the same memory.
//!
//! Where the registers name no block, home memory is the committed epoch's: nothing of the epoch
//! that was executing has left the caches and the redo buffer.

use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};

use super::bugs::Flaws;
use super::journal::{Block, Kind, LEAST_ROW_BYTES, Map, check_of};
use super::registers::Record;
use crate::copies::COPIES;
use crate::copies::CommitRecord;
use crate::design::Recovered;
use crate::layout::{BootRecord, Layout};
use crate::surviving::{Corruption, Interrupted, Surviving};

fn map_of(boot: &BootRecord) -> Result<Map, Corruption> {
    let [row_bytes, spread, ..] = boot.design;
    let rows = LEAST_ROW_BYTES as u64..=1 << 16;
    if !row_bytes.is_power_of_two()
        || !rows.contains(&row_bytes)
        || !(1..=1 << 16).contains(&spread)
    {
        return Err(Corruption {
            what: "boot record: not one of a journaling machine",
            address: 0,
        });
    }
    Ok(Map::new(&boot.layout.log_area, row_bytes, spread))
}

/// The lines that a record names, in the order of the journal, all of them checked.
fn read_journal(
    image: &Surviving,
    layout: &Layout,
    map: &Map,
    record: &Record,
) -> Result<Vec<(LineNumber, Line)>, Corruption> {
    let mut lines = Vec::new();
    if record.blocks > map.block_capacity() {
        return Err(Corruption {
            what: "the journal's registers: more blocks than there is room for",
            address: COPIES[0],
        });
    }
    for index in 0..record.blocks {
        let address = map.block_address(index);
        let bytes = image.read(address, map.block_bytes())?;
        let block = Block::decode(&bytes, record.number, index as u32).ok_or(Corruption {
            what: "journal: a committed block is damaged",
            address,
        })?;
        lines.extend(block.lines());
        if block.kind == Kind::Addresses {
            let mut checks = 0u64;
            for (line, slot) in block.addresses() {
                let bytes = slot_bytes(image, map, slot)?;
                checks = checks.wrapping_add(check_of(line, slot, &bytes));
                lines.push((line, bytes));
            }
            if checks != block.checks {
                return Err(Corruption {
                    what: "journal: a redo slot that this block names is damaged",
                    address,
                });
            }
        }
    }
    let protected = layout.protected();
    let outside = |line: LineNumber| {
        let address = line.checked_mul(LINE_BYTES as u64);
        !address.is_some_and(|address| protected.contains(&address))
    };
    match lines.iter().find(|(line, _)| outside(*line)) {
        None => Ok(lines),
        Some((line, _)) => Err(Corruption {
            what: "journal: a line outside memory",
            address: line.wrapping_mul(LINE_BYTES as u64),
        }),
    }
}

fn slot_bytes(image: &Surviving, map: &Map, slot: u32) -> Result<Line, Corruption> {
    let address = map.slot_line(slot) * LINE_BYTES as u64;
    if u64::from(slot) >= map.slot_capacity() {
        return Err(Corruption {
            what: "journal: a redo slot outside the log area",
            address,
        });
    }
    let mut bytes = Line::ZERO;
    bytes.0.copy_from_slice(&image.read(address, LINE_BYTES)?);
    Ok(bytes)
}

/// Recovers. See the module's documentation.
pub fn recover(image: &mut Surviving, flaws: Flaws) -> Result<Recovered, Interrupted> {
    let boot = BootRecord::read(image)?;
    let record = Record::read(image, flaws.accepts_torn_record)?;
    let map = map_of(&boot)?;
    let lines = read_journal(image, &boot.layout, &map, &record)?;
    let retired = Record {
        number: record.number + 1,
        epoch: record.epoch,
        blocks: 0,
    };

    if !flaws.trusts_one_copy {
        record.write_both(image)?;
    }
    if flaws.retires_before_applying {
        retired.write_both(image)?;
    }
    for group in lines.chunks(32) {
        for (line, _) in group {
            image.prefetch(line * LINE_BYTES as u64);
        }
        for (line, bytes) in group {
            image.write_line(*line, bytes)?;
        }
    }
    retired.write_both(image)?;
    Ok(Recovered::at(record.epoch))
}
