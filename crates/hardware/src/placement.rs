//! Where addresses lie: which bank has them, and in which of its rows.
//!
//! Memory is dealt out to the banks by rows. Home addresses, those of programs and the kernel, may be
//! dealt out by lines (`nvm.home_interleaving`): a stripe of as many rows as there are banks then has
//! its lines in turn, and the lines of it that one bank has are a row of that bank.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};

use crate::line::LINE_BYTES;
use crate::specification::{Interleaving, Nvm};

/// The bank of a row, or of a line if lines are dealt out. Where the number of banks is a power of two,
/// it is the exclusive or of all digits of the number to that base (permutation-based interleaving): any
/// aligned run of as many rows as there are banks is spread over all of them, and lines that compete for
/// a set of the last-level cache, whose rows differ in high bits only, seldom share a bank. Otherwise,
/// rows take the banks in turn.
#[inline]
pub fn bank_of_row(row: u64, banks: usize) -> usize {
    Banks::new(banks).of_row(row)
}

/// How many banks there are, as [`bank_of_row`] needs it.
#[derive(Clone, Copy, Debug)]
struct Banks {
    count: usize,
    /// Halves onto halves: after the last of these shifts the lowest digit is the sum of sixteen. All are
    /// zero where rows take the banks in turn.
    folds: [u8; 4],
}

impl Banks {
    fn new(count: usize) -> Self {
        let digit = if count.is_power_of_two() {
            count.trailing_zeros()
        } else {
            0
        };
        // A row's number is below 2^63: a longer shift leaves nothing of it either.
        let folds = [8, 4, 2, 1].map(|digits| (digits * digit).min(63) as u8);
        Self { count, folds }
    }

    #[inline(always)]
    fn of_row(self, row: u64) -> usize {
        if self.folds[0] == 0 {
            return (row % self.count as u64) as usize;
        }
        let folded =
            (self.folds.iter()).fold(row, |folded, &shift| folded ^ folded >> (shift & 63));
        folded as usize & (self.count - 1)
    }
}

/// The rule.
#[derive(Clone, Debug)]
pub struct Placement {
    banks: Banks,
    /// Logarithm of the row size.
    row_shift: u32,
    home_interleaving: Interleaving,
    /// Addresses that are dealt out by lines.
    lines: Range<u64>,
}

/// What one row has of a range: pieces, address and length.
pub(crate) type Row = SmallVec<[(u64, usize); 1]>;

impl Placement {
    /// The rule for such media, as long as nobody says where home is.
    pub fn new(nvm: &Nvm) -> Self {
        Self {
            banks: Banks::new(nvm.banks),
            row_shift: nvm.row_bytes.trailing_zeros(),
            home_interleaving: nvm.home_interleaving,
            lines: 0..0,
        }
    }

    /// Says where programs and the kernel have their addresses.
    pub fn set_home(&mut self, home: Range<u64>) {
        if self.home_interleaving == Interleaving::Line {
            self.lines = home;
        }
    }

    /// Logarithm of the row size.
    #[inline]
    pub fn row_shift(&self) -> u32 {
        self.row_shift
    }

    /// Logarithm of the bytes around an address that are dealt out together: of a row, or of a line.
    #[inline]
    pub fn unit_shift(&self, address: u64) -> u32 {
        if self.lines.contains(&address) {
            LINE_BYTES.trailing_zeros()
        } else {
            self.row_shift
        }
    }

    /// The bank of an address.
    #[inline]
    pub fn bank(&self, address: u64) -> usize {
        self.banks.of_row(address >> self.unit_shift(address))
    }

    /// Which row an address is in: two addresses of one kind that have the same are in one row.
    #[inline]
    fn row(&self, address: u64) -> (u64, usize) {
        let row = address >> self.row_shift;
        if self.lines.contains(&address) {
            (row / self.banks.count as u64, self.bank(address))
        } else {
            (row, 0)
        }
    }

    /// A range in pieces that are dealt out together, address and length: for each row, what it has of
    /// the range, in the order of addresses. One row operation reads or writes that.
    pub fn by_row(&self, address: u64, length: u64) -> Vec<Vec<(u64, usize)>> {
        let (mut at, end) = (address, address + length);
        let mut pieces = Vec::new();
        while at < end {
            let shift = self.unit_shift(at);
            let next = end.min(((at >> shift) + 1) << shift);
            pieces.push((at, (next - at) as usize));
            at = next;
        }
        pieces.sort_by_key(|&(address, _)| self.row(address));
        let rows = pieces.chunk_by(|one, next| self.row(one.0) == self.row(next.0));
        rows.map(<[_]>::to_vec).collect()
    }

    /// The same. Most often the whole range is one piece.
    #[inline]
    pub fn rows(&self, address: u64, length: usize) -> SmallVec<[Row; 1]> {
        if self.is_one_piece(address, length) {
            return smallvec![smallvec![(address, length)]];
        }
        let rows = self.by_row(address, length as u64).into_iter();
        rows.map(Row::from_vec).collect()
    }

    /// True if a range is all dealt out together.
    #[inline]
    pub fn is_one_piece(&self, address: u64, length: usize) -> bool {
        let (shift, end) = (self.unit_shift(address), address + length as u64);
        length > 0 && (end - 1) >> shift == address >> shift
    }

    /// The same pieces one behind the other.
    #[inline]
    pub fn pieces(&self, address: u64, length: usize) -> Row {
        if self.is_one_piece(address, length) {
            return smallvec![(address, length)];
        }
        self.by_row(address, length as u64)
            .into_iter()
            .flatten()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specification::{PagePolicy, Scheduling};

    fn placement(banks: usize, row_bytes: usize) -> Placement {
        let mut placement = Placement::new(&Nvm {
            bytes: 64 << 20,
            scheduling: Scheduling::Fcfs,
            page_policy: PagePolicy::Closed,
            banks,
            home_interleaving: Interleaving::Line,
            row_bytes,
            row_read_ns: 128.0,
            row_write_ns: 368.0,
            read_queue_entries: 32,
            write_queue_entries: 32,
        });
        placement.set_home(0..32 << 20);
        placement
    }

    #[test]
    fn a_page_at_home_is_a_row_operation_of_every_bank_and_elsewhere_one_of_every_row() {
        let placement = placement(8, 2048);
        let home = placement.by_row(3 * 4096, 4096);
        assert_eq!(home.len(), 8);
        let elsewhere = placement.by_row((32 << 20) + 3 * 4096, 4096);
        assert_eq!(elsewhere.len(), 2);
        assert_eq!(placement.by_row(64, 64), [[(64, 64)]]);
        for length in [1, 64, 65, 4096] {
            let pieces = placement.pieces(64, length);
            let by_row = placement.by_row(64, length as u64);
            assert_eq!(pieces.to_vec(), by_row.concat());
            let rows = placement.rows(64, length).into_iter();
            assert!(rows.map(|row| row.to_vec()).eq(by_row));
        }
    }

    /// What a row has of the whole of home is a row's bytes, in one bank; nothing is left out.
    #[test]
    fn every_row_is_one_banks_and_has_its_size() {
        for (banks, row_bytes) in [(8, 2048), (1, 2048), (3, 256), (16, 64), (256, 4096)] {
            let placement = placement(banks, row_bytes);
            let stripe = (banks * row_bytes) as u64;
            let rows = placement.by_row(2 * stripe, 3 * stripe);
            assert_eq!(rows.len(), 3 * banks);
            let mut seen: Vec<u64> = Vec::new();
            for row in &rows {
                assert_eq!(row.iter().map(|piece| piece.1).sum::<usize>(), row_bytes);
                let bank = placement.bank(row[0].0);
                assert!(row.iter().all(|piece| placement.bank(piece.0) == bank));
                seen.extend(row.iter().map(|piece| piece.0));
            }
            seen.sort_unstable();
            let lines = (2 * stripe..5 * stripe).step_by(LINE_BYTES);
            assert!(seen.into_iter().eq(lines));
        }
    }
}
