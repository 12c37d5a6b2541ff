//! `ThyNVM`'s recovery: from surviving bytes to the memory of the newest durable checkpoint.
//!
//! 1. Read the boot record and the newest whole commit record.
//! 2. Read its tables; a bad block is damage, because the record was written after them.
//! 3. Make both copies of the record say the same. From here on no torn write can bring an older
//!    record back, nor complete a newer one that the cut had torn.
//! 4. Bring home every version that the tables list: pages first, then blocks and overflowed
//!    lines, which are newer than the pages that they lie in.
//! 5. Record that nothing is listed. Until that is durable, another recovery starts over with the
//!    same tables and ends with the same memory, because regions A and B are only read.

use perdure_hardware::line::{LINE_BYTES, LineNumber};

use super::bugs::Flaws;
use super::format::{Kind, Listed, PAGE_BYTES, Record, Regions};
use crate::copies::CommitRecord;
use crate::design::Recovered;
use crate::layout::BootRecord;
use crate::surviving::{Interrupted, Surviving};

/// How far record numbers jump, so that no half-written tables or record of before can pass for
/// those of the machine that starts next.
const NUMBER_JUMP: u64 = 2;

/// Recovers. See the module's documentation.
pub fn recover(image: &mut Surviving, flaws: Flaws) -> Result<Recovered, Interrupted> {
    let boot = BootRecord::read(image)?;
    let regions = Regions::of(&boot)?;
    let record = Record::read(image, flaws.ignores_checksum)?;
    let mut listed = regions.read_tables(image, &record, &boot.layout.protected())?;
    if flaws.brings_blocks_before_pages {
        listed.sort_by_key(|(kind, _)| *kind == Kind::Page);
    }
    let empty = Record {
        number: record.number + NUMBER_JUMP,
        epoch: record.epoch,
        listed: [0; 3],
    };
    let first = if flaws.clears_too_soon {
        &empty
    } else {
        &record
    };
    first.write_both(image)?;
    for &(kind, Listed { key, slot, place }) in &listed {
        let from = regions.address(kind, key, slot, place);
        if kind == Kind::Page {
            let bytes = image.read(from, PAGE_BYTES as usize)?.to_vec();
            image.write(key * PAGE_BYTES, &bytes)?;
        } else {
            let line: LineNumber = key;
            let mut bytes = perdure_hardware::line::Line::ZERO;
            bytes.0.copy_from_slice(&image.read(from, LINE_BYTES)?);
            image.write_line(line, &bytes)?;
        }
    }
    empty.write_both(image)?;
    Ok(Recovered::at(record.epoch))
}
