//! From surviving bytes to the memory of the committed epoch, for shadow schemes with a mapping
//! table.
//!
//! 1. Read the boot record and the newest whole commit record.
//! 2. Walk the table, and choose for each line the place of its newest version that is not of an
//!    epoch after the committed one. The sum of what was chosen must be the record's: nothing is
//!    written before that is known.
//! 3. Make both copies of the record say the same. From here on no torn write can bring an older
//!    record back, nor complete a newer one.
//! 4. Copy each line whose place is a slot home. Slots are not written, so doing it twice is doing
//!    it once.
//! 5. Record that every line is at home. Until that is durable, another recovery does the same again;
//!    afterwards the table is not looked at any more, and [`Table::new`] empties it.
//!
//! [`Table::new`]: super::table::Table::new

use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};

use super::bugs::Flaws;
use super::format::{HOME, Map, Mapping, Record, check_of};
use crate::copies::CommitRecord;
use crate::design::Recovered;
use crate::layout::{BootRecord, Layout};
use crate::surviving::{Corruption, Interrupted, Surviving};

/// How many lines ahead the host is told what will be touched.
const PREFETCH: usize = 16;

/// Recovers. See the module's documentation.
pub fn recover(image: &mut Surviving, flaws: Flaws) -> Result<Recovered, Interrupted> {
    let BootRecord { layout, design, .. } = BootRecord::read(image)?;
    let [copies, row_bytes, banks, _] = design;
    let map = Map::new(&layout, [copies, row_bytes, banks]).ok_or(Corruption {
        what: "boot record: not one of a shadow scheme",
        address: 0,
    })?;
    let record = Record::read(image, flaws.accepts_torn_record)?;
    let lines = mapped_lines(image, &layout, &map, &record, flaws)?;
    record.write_both(image)?;
    let at_home = Record {
        number: record.number + 1,
        epoch: record.epoch,
        lines: 0,
        sum: 0,
    };
    if flaws.retires_first {
        at_home.write_both(image)?;
    }
    for (index, &(line, from)) in lines.iter().enumerate() {
        if let Some(&(line, from)) = lines.get(index + PREFETCH) {
            image.prefetch(line * LINE_BYTES as u64);
            image.prefetch(from * LINE_BYTES as u64);
        }
        let mut bytes = Line::ZERO;
        let from = from * LINE_BYTES as u64;
        bytes.0.copy_from_slice(&image.read(from, LINE_BYTES)?);
        image.write_line(line, &bytes)?;
    }
    at_home.write_both(image)?;
    Ok(Recovered::at(record.epoch))
}

/// The lines that are not at home in the record's epoch, and where they are.
fn mapped_lines(
    image: &Surviving,
    layout: &Layout,
    map: &Map,
    record: &Record,
    flaws: Flaws,
) -> Result<Vec<(LineNumber, LineNumber)>, Corruption> {
    let mut lines = Vec::new();
    if record.lines == 0 {
        return Ok(lines);
    }
    let mut sum = 0u64;
    map.walk(image, |line, word| {
        let mapping = Mapping::decode(word);
        let committed = u64::from(mapping.epoch) <= record.epoch || flaws.takes_newest;
        let place = if committed {
            mapping.newest
        } else {
            mapping.before
        };
        if place == HOME {
            return Ok(());
        }
        let address = line * LINE_BYTES as u64;
        let possible = layout.protected().contains(&address)
            && u64::from(mapping.group) < map.groups()
            && u64::from(place) <= map.copies;
        if !possible {
            return Err(Corruption {
                what: "mapping table: a line or slot that is none",
                address,
            });
        }
        sum = sum.wrapping_add(check_of(line, mapping.group, place));
        lines.push((line, map.place(line, mapping.group, place)));
        Ok(())
    })?;
    if (lines.len() as u64, sum) != (record.lines, record.sum) {
        return Err(Corruption {
            what: "mapping table: not what the commit record vouches for",
            address: map.table().start,
        });
    }
    Ok(lines)
}
