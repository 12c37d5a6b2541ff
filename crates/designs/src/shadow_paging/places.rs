//! Where shadow paging keeps things in the log area of the NVM.
//!
//! ```text
//! shadow pages    one of 4 KiB for each entry of the translation table
//! table           of the commit under way: blocks of a row, in rows one after another
//! overflow lines  64 bytes each, consecutive ones in consecutive banks
//! ```
//!
//! Always true here: everything follows from four numbers that the boot record holds (the log area
//! and [`Places::boot_numbers`]), so that recovery finds the same places.

use std::ops::Range;

use perdure_hardware::line::{LINE_BYTES, LineNumber, line_of};

use super::records::{table_block_words, table_blocks};

/// Bytes of a page: the granularity of tracking (§VI-A).
pub const PAGE_BYTES: u64 = 4096;

/// Lines of a page.
pub const LINES_PER_PAGE: u64 = PAGE_BYTES / LINE_BYTES as u64;

/// Most entries of a translation table: what a table word has bits for.
pub const ENTRIES_MOST: u64 = 1 << 24;

/// Row sizes with which the formats work: a register record lies within a row, a page is made of
/// whole rows.
pub const ROW_BYTES: std::ops::RangeInclusive<u64> = 128..=PAGE_BYTES;

/// The places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Shadow pages, as many as the translation table has entries.
    pub shadow_pages: u64,
    /// Bytes of a row, and of a block of the table.
    pub row_bytes: u64,
    banks: u64,
    shadow_start: u64,
    table_start: u64,
    overflow_start: u64,
    /// Lines that can be kept aside in one epoch.
    pub overflow_lines: u64,
}

impl Places {
    /// The places in a log area; `None` if shadow pages and table do not fit or a number is absurd.
    /// What is left is for overflow lines, in whole stripes over all banks.
    pub fn new(log_area: &Range<u64>, [shadow_pages, row_bytes, banks]: [u64; 3]) -> Option<Self> {
        let sensible = (1..=ENTRIES_MOST).contains(&shadow_pages)
            && row_bytes.is_power_of_two()
            && ROW_BYTES.contains(&row_bytes)
            && (1..=4096).contains(&banks);
        if !sensible {
            return None;
        }
        // From the start of a stripe on, so that a shadow page can lie in the banks of its home.
        let stripe_bytes = banks * row_bytes;
        let shadow_start = log_area.start.checked_next_multiple_of(stripe_bytes)?;
        let table_start = shadow_start.checked_add(shadow_pages * PAGE_BYTES)?;
        let pages_table_bytes = table_blocks(shadow_pages, row_bytes) * row_bytes;
        let left = log_area
            .end
            .checked_sub(table_start)?
            .checked_sub(pages_table_bytes + 2 * stripe_bytes)?;
        let stripe_lines = stripe_bytes / LINE_BYTES as u64;
        let stripe_table_bytes = stripe_lines.div_ceil(table_block_words(row_bytes)) * row_bytes;
        let stripes = left / (stripe_bytes + stripe_table_bytes);
        let table_bytes = pages_table_bytes + stripes * stripe_table_bytes;
        Some(Self {
            shadow_pages,
            row_bytes,
            banks,
            shadow_start,
            table_start,
            overflow_start: (table_start + table_bytes).next_multiple_of(stripe_bytes),
            overflow_lines: stripes * stripe_lines,
        })
    }

    /// What the boot record keeps.
    pub fn boot_numbers(&self) -> [u64; 4] {
        [self.shadow_pages, self.row_bytes, self.banks, 0]
    }

    /// Address of a shadow page.
    pub fn shadow_page(&self, frame: u64) -> u64 {
        self.shadow_start + frame * PAGE_BYTES
    }

    /// Address of a block of the table.
    pub fn table_block(&self, index: u64) -> u64 {
        self.table_start + index * self.row_bytes
    }

    /// The place of an overflow line. Consecutive ones lie in consecutive banks, so that writing
    /// them is not one bank's work.
    pub fn overflow_line(&self, index: u64) -> LineNumber {
        let row_lines = self.row_bytes / LINE_BYTES as u64;
        let (stripe, within) = (
            index / (self.banks * row_lines),
            index % (self.banks * row_lines),
        );
        let row = stripe * self.banks + within % self.banks;
        line_of(self.overflow_start) + row * row_lines + within / self.banks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_nothing_lies_outside() {
        for (bytes, pages, row_bytes, banks) in [
            (16 << 20, 32, 2048, 16),
            (16 << 20, 6, 4096, 1),
            (16 << 20, 7, 128, 3),
            (32 << 20, 100, 2048, 256),
        ] {
            let area = 3 * bytes..4 * bytes;
            let places = Places::new(&area, [pages, row_bytes, banks]).expect("it fits");
            let numbers = places.boot_numbers();
            assert_eq!(
                Places::new(&area, [numbers[0], numbers[1], numbers[2]]).as_ref(),
                Some(&places)
            );
            let mut used: Vec<(u64, u64)> = (0..pages)
                .map(|frame| (places.shadow_page(frame), PAGE_BYTES))
                .collect();
            let blocks = table_blocks(pages + places.overflow_lines, row_bytes);
            used.extend((0..blocks).map(|index| (places.table_block(index), row_bytes)));
            used.extend((0..places.overflow_lines).map(|index| {
                (
                    places.overflow_line(index) * LINE_BYTES as u64,
                    LINE_BYTES as u64,
                )
            }));
            used.sort_unstable();
            assert!(used[0].0 >= area.start);
            assert!(used.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
            assert!(used.last().is_some_and(|last| last.0 + last.1 <= area.end));
            let spare = area.end
                - places.overflow_line(0) * LINE_BYTES as u64
                - places.overflow_lines * LINE_BYTES as u64;
            assert!(spare < 4 * banks * row_bytes, "{spare} bytes are not used");
        }
        assert_eq!(Places::new(&(0..4096), [1, 2048, 8]), None);
        assert_eq!(Places::new(&(0..1 << 30), [1 << 25, 2048, 8]), None);
    }
}
