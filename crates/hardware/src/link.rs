//! The memory link as a reservation calendar.
//!
//! Transactions are timed as they walk the hierarchy, so a read reserves its transfer hundreds of
//! cycles ahead and a write that comes later may still fit before it. The calendar keeps the used
//! cycles of each short slot of time; a transfer takes the first free cycles at or after the
//! moment it could start. Bandwidth is exact, order within a slot (64 cycles) is not modelled.

use crate::line::LINE_BYTES;
use crate::time::Cycles;

const SLOT_CYCLES: u64 = 64;
const SLOTS: u64 = 8192;

/// An entry of the ring: used cycles in the low bits, the lap of the ring they belong to above.
const LAP_SHIFT: u32 = 8;
const USED_MASK: u64 = (1 << LAP_SHIFT) - 1;

/// The calendar.
#[derive(Clone, Debug)]
pub struct Link {
    /// A ring. An entry of an earlier lap is a slot that nobody has used yet, so that time may
    /// jump ahead without a visit to the slots between.
    used: Vec<u64>,
    /// The latest slot in use; the ring holds the slots up to it.
    latest: u64,
    bytes_per_kilocycle: u64,
    /// What a line takes, because that is what is asked for.
    line_cycles: Cycles,
}

impl Link {
    /// A link of `bytes_per_second` under a core clock of `frequency_mhz`.
    pub fn new(bytes_per_second: u64, frequency_mhz: u64) -> Self {
        let bytes_per_kilocycle = (bytes_per_second / (frequency_mhz * 1000)).max(1);
        Self {
            used: vec![0; SLOTS as usize],
            latest: SLOTS - 1,
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
    #[inline]
    pub fn reserve(&mut self, earliest: Cycles, bytes: usize) -> Cycles {
        let mut needed = self.transfer_cycles(bytes);
        let mut slot = (earliest / SLOT_CYCLES).max(self.latest + 1 - SLOTS);
        let mut skipped = if slot == earliest / SLOT_CYCLES {
            earliest % SLOT_CYCLES
        } else {
            0
        };
        loop {
            self.latest = self.latest.max(slot);
            let entry = &mut self.used[(slot % SLOTS) as usize];
            let lap = (slot / SLOTS) << LAP_SHIFT;
            let used = if *entry & !USED_MASK == lap {
                *entry & USED_MASK
            } else {
                0
            };
            let begin = used.max(skipped);
            let granted = needed.min(SLOT_CYCLES - begin);
            // What lies before `earliest` stays free for others, so only the grant is added.
            *entry = lap | (used + granted);
            needed -= granted;
            if needed == 0 {
                return slot * SLOT_CYCLES + begin + granted;
            }
            skipped = 0;
            slot += 1;
        }
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

    #[test]
    fn bandwidth_is_never_exceeded_and_gaps_are_used() {
        let mut link = Link::new(12_800_000_000, 2000);
        let far = link.reserve(100_000, 64);
        assert!(
            link.reserve(0, 64) < far,
            "a later request may fit before an earlier one"
        );
        let mut last = 0;
        for _ in 0..1000 {
            last = last.max(link.reserve(200_000, 64));
        }
        assert!(
            (210_000..=210_064).contains(&last),
            "1000 transfers of 10 cycles, got {last}"
        );
    }
}
