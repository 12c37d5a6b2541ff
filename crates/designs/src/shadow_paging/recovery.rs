//! Shadow paging's crash handling: from surviving bytes to the memory of the newest committed epoch.
//!
//! 1. Read the boot record and the newest whole registers.
//! 2. Make both copies of the registers say the same. From here on no torn write can bring an older
//!    record back, nor complete a newer one that the cut had torn.
//! 3. If that commit is not retired: read its table, and copy each shadow page and each line kept
//!    aside home, whatever of that had been done before the cut. Nothing that is copied from is
//!    written, so doing it twice is doing it once.
//! 4. Record the commit as retired. Until that is durable, another recovery does the same again.
//!
//! What an epoch without commit record left in shadow pages, table and overflow lines is never read.

use perdure_hardware::line::LINE_BYTES;

use super::bugs::Flaws;
use super::places::{PAGE_BYTES, Places};
use super::records::{Record, page_of_word, read_table};
use crate::copies::CommitRecord;
use crate::design::Recovered;
use crate::layout::{BootRecord, Layout};
use crate::surviving::{Corruption, Interrupted, Surviving};

/// Recovers. See the module's documentation.
pub fn recover(image: &mut Surviving, flaws: Flaws) -> Result<Recovered, Interrupted> {
    let boot = BootRecord::read(image)?;
    let [shadow_pages, row_bytes, banks, _] = boot.design;
    let places =
        Places::new(&boot.layout.log_area, [shadow_pages, row_bytes, banks]).ok_or(Corruption {
            what: "boot record: not one of shadow paging",
            address: 0,
        })?;
    let record = Record::read(image, flaws.accepts_torn_record)?;
    record.write_both(image)?;
    let table = read_table(image, &places, &record)?;
    if flaws.recovery_retires_first {
        record.retired().write_both(image)?;
    }
    let (pages, lines) = table.split_at(record.pages as usize);
    for &word in pages {
        let (page, frame) = page_of_word(word);
        let home = home(&boot.layout, &places, page.checked_mul(PAGE_BYTES))?;
        let from = Some(frame)
            .filter(|&frame| frame < places.shadow_pages)
            .map(|frame| places.shadow_page(frame))
            .ok_or_else(|| bad_word(&places))?;
        for at in (0..PAGE_BYTES).step_by(row_bytes as usize) {
            copy(image, from + at, home + at, row_bytes as usize)?;
        }
    }
    for (index, &line) in (0..).zip(lines) {
        let line_bytes = LINE_BYTES as u64;
        let home = home(&boot.layout, &places, line.checked_mul(line_bytes))?;
        let from = places.overflow_line(index) * line_bytes;
        copy(image, from, home, LINE_BYTES)?;
    }
    record.retired().write_both(image)?;
    Ok(Recovered::at(record.epoch))
}

fn copy(image: &mut Surviving, from: u64, to: u64, length: usize) -> Result<(), Interrupted> {
    let bytes = image.read(from, length)?.to_vec();
    image.write(to, &bytes)
}

/// A home address, if it is one of memory's.
fn home(layout: &Layout, places: &Places, address: Option<u64>) -> Result<u64, Corruption> {
    address
        .filter(|address| layout.protected().contains(address))
        .ok_or_else(|| bad_word(places))
}

fn bad_word(places: &Places) -> Corruption {
    Corruption {
        what: "the table of a committed epoch: a page or line outside memory",
        address: places.table_block(0),
    }
}
