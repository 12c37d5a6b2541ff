//! The overflow log (§IV-C: "we fall back on logging mechanism"), in the first sixteenth of the persistent
//! region, and recovery from it.
//!
//! ```text
//! directory  u64 magic "SPMS-LOG"  u64 entries  u64 checksum of them; each entry: u64 line, u64 slot
//! slots      64 bytes each, after room for as many entries
//! ```
//!
//! Lines are written to slots as they come, and the module knows which slot has what. Which of them are
//! committed is written by the capacitors when the power fails; until then there is no directory, so that in
//! normal operation a line costs one write.
//!
//! Always true here:
//! - A directory that is there names committed lines only, each once.
//! - Recovery clears it after its lines are home, and may begin again until then.

use std::ops::Range;

use perdure_hardware::line::{LINE_BYTES, LineNumber, line_of};

use crate::bytes::checksum;
use crate::surviving::{Corruption, Interrupted, Surviving};

const MAGIC: u64 = u64::from_le_bytes(*b"SPMS-LOG");
const HEADER_BYTES: u64 = 24;
const ENTRY_BYTES: u64 = 16;

/// Where the log lies.
#[derive(Clone, Debug)]
pub struct Log {
    start: u64,
    /// Slots.
    pub slots: u32,
}

/// The part of a persistent region that is the log's.
pub fn area(region: &Range<u64>) -> Range<u64> {
    let bytes = (region.end - region.start) / 16 / 4096 * 4096;
    region.start..region.start + bytes
}

impl Log {
    /// The log of a region.
    pub fn of(region: &Range<u64>) -> Self {
        let area = area(region);
        let room = (area.end - area.start).saturating_sub(HEADER_BYTES + LINE_BYTES as u64);
        let slots = room / (ENTRY_BYTES + LINE_BYTES as u64);
        Self {
            start: area.start,
            slots: slots.min(u64::from(u32::MAX)) as u32,
        }
    }

    /// The line of a slot.
    pub fn slot(&self, slot: u32) -> LineNumber {
        let directory = HEADER_BYTES + u64::from(self.slots) * ENTRY_BYTES;
        line_of(self.start + directory.next_multiple_of(LINE_BYTES as u64)) + u64::from(slot)
    }

    /// Where the directory is.
    pub fn directory(&self) -> u64 {
        self.start
    }

    /// Bytes of a directory with so many entries.
    pub fn directory_bytes(entries: usize) -> u64 {
        if entries == 0 {
            return 0;
        }
        HEADER_BYTES + entries as u64 * ENTRY_BYTES
    }

    /// The directory of some lines and their slots.
    pub fn encode(entries: &[(LineNumber, u32)]) -> Vec<u8> {
        let words = entries
            .iter()
            .flat_map(|&(line, slot)| [line, u64::from(slot)]);
        let body: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let header = [MAGIC, entries.len() as u64, checksum(&body)];
        let mut bytes: Vec<u8> = header.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend(body);
        bytes
    }

    /// Brings the committed lines home. `clears_first` is a planted bug.
    pub fn recover(&self, image: &mut Surviving, clears_first: bool) -> Result<(), Interrupted> {
        let word = |bytes: &[u8], at: usize| {
            let word = bytes[at * 8..][..8].try_into();
            u64::from_le_bytes(word.expect("eight bytes"))
        };
        let header = image.read(self.start, HEADER_BYTES as usize)?;
        let [magic, entries, seal] = [0, 1, 2].map(|at| word(&header, at));
        if magic != MAGIC {
            return Ok(());
        }
        let damaged = |what| Corruption {
            what,
            address: self.start,
        };
        if entries > u64::from(self.slots) {
            return Err(damaged("the overflow log's directory is longer than the log").into());
        }
        let length = (entries * ENTRY_BYTES) as usize;
        let body = image.read(self.start + HEADER_BYTES, length)?.into_owned();
        if checksum(&body) != seal {
            return Err(damaged("the overflow log's directory is damaged").into());
        }
        if clears_first {
            image.write(self.start, &[0; 8])?;
        }
        for at in 0..entries as usize {
            let (line, slot) = (word(&body, 2 * at), word(&body, 2 * at + 1));
            if slot >= u64::from(self.slots) {
                return Err(damaged("the overflow log's directory names a slot beyond it").into());
            }
            let place = self.slot(slot as u32) * LINE_BYTES as u64;
            let bytes = image.read(place, LINE_BYTES)?.into_owned();
            image.write(line.wrapping_mul(LINE_BYTES as u64), &bytes)?;
        }
        image.write(self.start, &[0; 8])
    }
}
