//! A reservation calendar: who uses a link or a port when.
//!
//! Transactions are timed as they walk the hierarchy, so one reserves its transfer hundreds of
//! cycles ahead, and another that comes later may still fit before it. The calendar keeps the used
//! cycles of each short slot of time; a transfer takes the first free cycles at or after the
//! moment it could start. Bandwidth is exact, order within a slot (64 cycles) is not modelled.

use crate::time::Cycles;

const SLOT_CYCLES: u64 = 64;

/// An entry of the ring: used cycles in the low bits, the lap of the ring they belong to above.
const LAP_SHIFT: u32 = 8;
const USED_MASK: u64 = (1 << LAP_SHIFT) - 1;

/// The calendar. It remembers so many slots before the latest one in use, a power of two.
#[derive(Clone, Debug)]
pub struct Calendar<const SLOTS: usize> {
    /// A ring. An entry of an earlier lap is a slot that nobody has used yet, so that time may
    /// jump ahead without a visit to the slots between.
    used: Box<[u64; SLOTS]>,
    /// The latest slot in use; the ring holds the slots up to it.
    latest: u64,
}

impl<const SLOTS: usize> Calendar<SLOTS> {
    const LAP_SLOTS: u32 = {
        assert!(SLOTS.is_power_of_two());
        SLOTS.trailing_zeros()
    };

    /// An empty calendar.
    pub fn new() -> Self {
        Self {
            used: vec![0; SLOTS].try_into().expect("so many"),
            latest: SLOTS as u64 - 1,
        }
    }

    /// A slot's entry, the lap that it belongs to now, and its used cycles.
    #[inline(always)]
    fn entry(&mut self, slot: u64) -> (&mut u64, u64, u64) {
        let entry = &mut self.used[slot as usize % SLOTS];
        let lap = slot >> Self::LAP_SLOTS << LAP_SHIFT;
        let used = *entry ^ lap;
        (entry, lap, if used <= USED_MASK { used } else { 0 })
    }

    /// Reserves so many cycles at or after `earliest`; returns when the last of them is over.
    #[inline]
    pub fn reserve(&mut self, earliest: Cycles, cycles: Cycles) -> Cycles {
        let slot = earliest / SLOT_CYCLES;
        let latest = self.latest.max(slot);
        if slot + SLOTS as u64 > latest {
            let (entry, lap, used) = self.entry(slot);
            let begin = used.max(earliest % SLOT_CYCLES);
            if begin + cycles <= SLOT_CYCLES {
                // What lies before `earliest` stays free for others, so only the grant is added.
                *entry = lap | (used + cycles);
                self.latest = latest;
                return slot * SLOT_CYCLES + begin + cycles;
            }
        }
        self.reserve_over(earliest, cycles)
    }

    /// The same where it takes several slots, or the first is no longer remembered.
    fn reserve_over(&mut self, earliest: Cycles, cycles: Cycles) -> Cycles {
        let mut needed = cycles;
        let mut slot = (earliest / SLOT_CYCLES).max(self.latest + 1 - SLOTS as u64);
        let mut skipped = if slot == earliest / SLOT_CYCLES {
            earliest % SLOT_CYCLES
        } else {
            0
        };
        loop {
            self.latest = self.latest.max(slot);
            let (entry, lap, used) = self.entry(slot);
            let begin = used.max(skipped);
            let granted = needed.min(SLOT_CYCLES - begin);
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
    fn bandwidth_is_never_exceeded_and_gaps_are_used() {
        let mut calendar = Calendar::<8192>::new();
        let far = calendar.reserve(100_000, 10);
        assert_eq!(far, 100_010);
        assert_eq!(
            calendar.reserve(0, 10),
            10,
            "a later request may fit before"
        );
        let mut last = 0;
        for _ in 0..1000 {
            last = last.max(calendar.reserve(200_000, 10));
        }
        assert!(
            (210_000..=210_064).contains(&last),
            "1000 transfers of 10 cycles, got {last}"
        );
    }

    #[test]
    fn what_is_older_than_it_remembers_starts_with_the_oldest_slot() {
        let mut calendar = Calendar::<4>::new();
        assert_eq!(calendar.reserve(1_000_000, 2), 1_000_002);
        let oldest = (1_000_000 / SLOT_CYCLES - 3) * SLOT_CYCLES;
        assert_eq!(calendar.reserve(5, 2), oldest + 2);
    }
}
