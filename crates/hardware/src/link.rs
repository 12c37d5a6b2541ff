//! The memory link: a bandwidth, and who uses it when.

use crate::calendar::Calendar;
use crate::line::LINE_BYTES;
use crate::time::Cycles;

/// Slots of time that are remembered.
const SLOTS: usize = 8192;

/// The link.
#[derive(Clone, Debug)]
pub struct Link {
    calendar: Calendar<SLOTS>,
    bytes_per_kilocycle: u64,
    /// What a line takes, because that is what is asked for.
    line_cycles: Cycles,
}

impl Link {
    /// A link of `bytes_per_second` under a core clock of `frequency_mhz`.
    pub fn new(bytes_per_second: u64, frequency_mhz: u64) -> Self {
        let bytes_per_kilocycle = (bytes_per_second / (frequency_mhz * 1000)).max(1);
        Self {
            calendar: Calendar::default(),
            bytes_per_kilocycle,
            line_cycles: (LINE_BYTES as u64 * 1000).div_ceil(bytes_per_kilocycle),
        }
    }

    /// Cycles that `bytes` take.
    pub fn transfer_cycles(&self, bytes: usize) -> Cycles {
        if bytes == LINE_BYTES {
            return self.line_cycles;
        }
        (bytes as u64 * 1000).div_ceil(self.bytes_per_kilocycle)
    }

    /// Reserves a transfer that can start at `earliest`; returns when it is over.
    #[inline(always)]
    pub fn reserve(&mut self, earliest: Cycles, bytes: usize) -> Cycles {
        let cycles = self.transfer_cycles(bytes);
        self.calendar.reserve(earliest, cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_bytes_at_12_8_gigabytes_a_second_take_ten_cycles() {
        let mut link = Link::new(12_800_000_000, 2000);
        assert_eq!(link.transfer_cycles(64), 10);
        assert_eq!(link.transfer_cycles(2048), 320);
        assert_eq!(link.reserve(1000, 64), 1010);
    }
}
