//! A reservation calendar: who uses a link or a port when.
//!
//! Transactions are timed as they walk the hierarchy, so one reserves its transfer hundreds of
//! cycles ahead, and another that comes later may still fit before it. The calendar keeps the used
//! cycles of each short slot of time; a transfer takes the first free cycles at or after the
//! moment it could start. Bandwidth is exact, order within a slot (64 cycles) is not modelled.

use std::ops::Range;

use crate::time::{Cycles, join};

const SLOT_CYCLES: u64 = 64;

/// An entry of the ring: used cycles in the low bits, the last bits of the lap of the ring that they belong
/// to above. It is small because many are looked at for the first time since they left the host's caches.
const LAP_SHIFT: u32 = 7;
const USED_MASK: u16 = (1 << LAP_SHIFT) - 1;

/// Laps that an entry tells apart.
const LAPS: u64 = 1 << (u16::BITS - LAP_SHIFT);

/// The calendar. It remembers so many slots before the latest one in use, a power of two.
#[derive(Clone, Debug)]
pub struct Calendar<const SLOTS: usize> {
    /// A ring. An entry of an earlier lap is a slot that nobody has used yet, so that time may
    /// jump ahead without a visit to the slots between.
    used: Box<[u16; SLOTS]>,
    /// The latest slot in use; the ring holds the slots up to it.
    latest: u64,
    /// Before this slot, no entry is so old that its lap could be taken for another.
    told_apart: u64,
    /// Slots that have no free cycles: who comes late, as a recovery's writes do, passes them at once.
    full: Range<u64>,
}

impl<const SLOTS: usize> Default for Calendar<SLOTS> {
    /// An empty calendar.
    fn default() -> Self {
        Self {
            used: vec![0; SLOTS].try_into().expect("so many"),
            latest: SLOTS as u64 - 1,
            told_apart: LAPS / 2 * SLOTS as u64,
            full: 0..0,
        }
    }
}

impl<const SLOTS: usize> Calendar<SLOTS> {
    const LAP_SLOTS: u32 = {
        assert!(SLOTS.is_power_of_two());
        SLOTS.trailing_zeros()
    };

    /// The lap of a slot, as its entry tells it.
    #[inline(always)]
    fn lap(slot: u64) -> u16 {
        ((slot >> Self::LAP_SLOTS) as u16) << LAP_SHIFT
    }

    /// A slot's entry, the lap that it belongs to now, and its used cycles.
    #[inline(always)]
    fn entry(&mut self, slot: u64) -> (&mut u16, u16, u64) {
        let entry = &mut self.used[slot as usize % SLOTS];
        let lap = Self::lap(slot);
        let used = *entry ^ lap;
        let used = if used <= USED_MASK { used } else { 0 };
        (entry, lap, u64::from(used))
    }

    /// Reserves so many cycles at or after `earliest`; returns when the last of them is over.
    #[inline(always)]
    pub fn reserve(&mut self, earliest: Cycles, cycles: Cycles) -> Cycles {
        let slot = earliest / SLOT_CYCLES;
        let latest = self.latest.max(slot);
        if slot + SLOTS as u64 > latest && slot < self.told_apart {
            let (entry, lap, used) = self.entry(slot);
            let begin = used.max(earliest % SLOT_CYCLES);
            if begin + cycles <= SLOT_CYCLES {
                // What lies before `earliest` stays free for others, so only the grant is added.
                *entry = lap | (used + cycles) as u16;
                self.latest = latest;
                return slot * SLOT_CYCLES + begin + cycles;
            }
        }
        self.reserve_over(earliest, cycles)
    }

    /// The same where it takes several slots, or the first is no longer remembered.
    #[inline(never)]
    fn reserve_over(&mut self, earliest: Cycles, cycles: Cycles) -> Cycles {
        let mut needed = cycles;
        let mut slot = (earliest / SLOT_CYCLES).max(self.latest + 1 - SLOTS as u64);
        if self.full.contains(&slot) {
            slot = self.full.end;
        }
        let mut skipped = if slot == earliest / SLOT_CYCLES {
            earliest % SLOT_CYCLES
        } else {
            0
        };
        let mut full = slot..slot;
        loop {
            if slot > self.latest {
                self.come_to(slot);
            }
            let (entry, lap, used) = self.entry(slot);
            let begin = used.max(skipped);
            let granted = needed.min(SLOT_CYCLES - begin);
            *entry = lap | (used + granted) as u16;
            needed -= granted;
            if used + granted == SLOT_CYCLES {
                full.end = slot + 1;
            } else if needed > 0 {
                full = slot + 1..slot + 1;
            }
            if needed == 0 {
                join(&mut self.full, full);
                return slot * SLOT_CYCLES + begin + granted;
            }
            skipped = 0;
            slot += 1;
        }
    }

    /// A slot behind the latest is used. Entries whose laps could not be told apart from then on become
    /// those of free slots.
    #[inline(never)]
    fn come_to(&mut self, slot: u64) {
        let before = std::mem::replace(&mut self.latest, slot);
        if slot < self.told_apart {
            return;
        }
        let slots = SLOTS as u64;
        for first in 0..slots {
            // The last slot so far that has the entry of `first`.
            let now = slot - (slot - first) % slots;
            let entry = &mut self.used[first as usize];
            let remembered = now <= before && *entry & !USED_MASK == Self::lap(now);
            if !remembered {
                *entry = Self::lap(now);
            }
        }
        self.told_apart = ((slot >> Self::LAP_SLOTS) + LAPS / 2) << Self::LAP_SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::random::Random;

    #[test]
    fn bandwidth_is_never_exceeded_and_gaps_are_used() {
        let mut calendar = Calendar::<8192>::default();
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
        let mut calendar = Calendar::<4>::default();
        assert_eq!(calendar.reserve(1_000_000, 2), 1_000_002);
        let oldest = (1_000_000 / SLOT_CYCLES - 3) * SLOT_CYCLES;
        assert_eq!(calendar.reserve(5, 2), oldest + 2);
    }

    /// Against a list of all slots: transfers that come late by up to as long as is remembered, and longer,
    /// and time that jumps ahead by up to some thousand laps.
    #[test]
    fn random_transfers() {
        const SLOTS: usize = 16;
        for seed in 1..=20 {
            let mut random = Random::new(seed);
            let mut calendar = Calendar::<SLOTS>::default();
            let mut used: HashMap<u64, u64> = HashMap::new();
            let (mut now, mut latest) = (0, SLOTS as u64 - 1);
            for step in 0..20_000 {
                let lap = SLOTS as u64 * SLOT_CYCLES;
                now += match random.below(200) {
                    0 => random.below(4000) * lap,
                    1 => [LAPS, LAPS / 2, 1][random.below(3) as usize] * lap,
                    _ => random.below(100),
                };
                let late = random.below(4) / 3 * random.below(2 * lap);
                let earliest = Cycles::saturating_sub(now, late);
                let cycles = [2, 10, 64, 320][random.below(4) as usize];
                let oldest = (latest + 1 - SLOTS as u64) * SLOT_CYCLES;
                let (mut at, mut needed) = (earliest.max(oldest), cycles);
                let expected = loop {
                    let slot = at / SLOT_CYCLES;
                    latest = latest.max(slot);
                    let used = used.entry(slot).or_default();
                    let begin = (at % SLOT_CYCLES).max(*used);
                    let granted = needed.min(SLOT_CYCLES - begin);
                    *used += granted;
                    needed -= granted;
                    if needed == 0 {
                        break slot * SLOT_CYCLES + begin + granted;
                    }
                    at = (slot + 1) * SLOT_CYCLES;
                };
                let told = format!("seed {seed}, step {step}");
                assert_eq!(calendar.reserve(earliest, cycles), expected, "{told}");
            }
        }
    }
}
