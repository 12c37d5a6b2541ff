//! Functional units: how many instructions of each kind begin in which cycle.
//!
//! Always true here:
//! - In no cycle do more begin than there are units, or than the issue width allows.
//! - An instruction that waits for its operands keeps no unit from one that could begin before it.

use crate::specification::WindowSpecification;
use crate::time::Cycles;

/// Cycles that are remembered, from the present on. What begins further ahead than that, where somebody
/// begins before it in the same place of the ring, is held up by nobody and holds nobody up.
const REMEMBERED: usize = 4096;

/// What an instruction needs to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Unit {
    Integer,
    Multiply,
    Float,
    FloatMultiply,
    Load,
    Store,
}

const KINDS: usize = 6;

/// What begins, or is still at work, in one cycle: eight counts in a word, of each kind of unit and, in the
/// highest place, of all that begin. Each counts up from where it reaches [`FULL`] when no more are allowed.
type Counts = u64;

/// The bit of a count that says that no more are allowed.
const FULL: Counts = 0x80;
/// The place of what begins.
const BEGUN: u32 = 56;

/// A count's place.
const fn place(kind: usize) -> u32 {
    8 * kind as u32
}

#[derive(Clone, Copy, Debug, Default)]
struct Cycle {
    number: Cycles,
    counts: Counts,
}

/// The units of a core.
#[derive(Clone, Debug)]
pub(super) struct Units {
    ring: Box<[Cycle; REMEMBERED]>,
    /// A cycle in which nothing has begun.
    empty: Counts,
    /// Of each kind: from the present to this cycle none is free.
    none_before: [Cycles; KINDS],
}

impl Units {
    pub(super) fn new(core: &WindowSpecification) -> Self {
        let units = [
            core.integer_units,
            core.multiply_units,
            core.float_units,
            core.float_multiply_units,
            core.load_units,
            core.store_units,
        ];
        let ring = vec![Cycle::default(); REMEMBERED].into_boxed_slice();
        let places = (0..KINDS).map(place).chain([BEGUN]);
        let counts = units.into_iter().chain([core.issue_width]);
        Self {
            ring: ring.try_into().expect("as many as that"),
            empty: (places.zip(counts))
                .map(|(place, most)| (FULL - most as Counts) << place)
                .sum(),
            none_before: [0; KINDS],
        }
    }

    /// The first cycle from `ready` on in which an instruction can begin that keeps its unit for so many
    /// cycles; it does. Nothing will be asked for before `present`, which is 1 or later, any more.
    pub(super) fn begin(
        &mut self,
        unit: Unit,
        occupancy: Cycles,
        ready: Cycles,
        present: Cycles,
    ) -> Cycles {
        if occupancy > 1 {
            let earliest = ready.max(self.none_before[unit as usize]).max(present);
            return self.begin_long(unit as usize, occupancy, earliest, present);
        }
        self.begin_short(unit, ready, present)
    }

    /// The same for who keeps it for one cycle.
    #[inline(always)]
    pub(super) fn begin_short(&mut self, unit: Unit, ready: Cycles, present: Cycles) -> Cycles {
        let kind = unit as usize;
        let known = self.none_before[kind].max(present);
        let mut at = ready.max(known);
        while let Some(counts) = self.counts(at, present) {
            if *counts & (FULL << place(kind) | FULL << BEGUN) == 0 {
                *counts += 1 << place(kind) | 1 << BEGUN;
                break;
            }
            at += 1;
        }
        if ready <= known {
            self.none_before[kind] = at;
        }
        at
    }

    /// The same for who needs it longer.
    #[inline(never)]
    fn begin_long(
        &mut self,
        kind: usize,
        occupancy: Cycles,
        mut at: Cycles,
        present: Cycles,
    ) -> Cycles {
        while !self.can_begin(kind, occupancy, at, present) {
            at += 1;
        }
        self.occupy(kind, occupancy, at);
        at
    }

    /// What begins in a cycle; nothing where an earlier one that is not over has its place in the ring.
    #[inline(always)]
    fn counts(&mut self, number: Cycles, present: Cycles) -> Option<&mut Counts> {
        let cycle = &mut self.ring[number as usize % REMEMBERED];
        if cycle.number != number {
            if (present..number).contains(&cycle.number) {
                return None;
            }
            *cycle = Cycle {
                number,
                counts: self.empty,
            };
        }
        Some(&mut cycle.counts)
    }

    fn can_begin(&mut self, kind: usize, occupancy: Cycles, at: Cycles, present: Cycles) -> bool {
        let unit = FULL << place(kind);
        let mut allows = |number: Cycles, needed: Counts| {
            (self.counts(number, present)).is_none_or(|counts| *counts & needed == 0)
        };
        allows(at, unit | FULL << BEGUN)
            && (at + 1..at + occupancy).all(|number| allows(number, unit))
    }

    fn occupy(&mut self, kind: usize, occupancy: Cycles, at: Cycles) {
        let mut begun = 1 << BEGUN;
        for number in at..at + occupancy {
            let cycle = &mut self.ring[number as usize % REMEMBERED];
            if cycle.number == number {
                cycle.counts += begun | 1 << place(kind);
            }
            begun = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units() -> Units {
        Units::new(&WindowSpecification {
            issue_width: 3,
            integer_units: 2,
            multiply_units: 1,
            ..WindowSpecification::default()
        })
    }

    #[test]
    fn no_more_begin_than_there_are_units() {
        let mut units = units();
        let begun: Vec<_> = (0..5)
            .map(|_| units.begin(Unit::Integer, 1, 10, 1))
            .collect();
        assert_eq!(begun, [10, 10, 11, 11, 12]);
        assert_eq!(units.begin(Unit::Load, 1, 10, 1), 10, "another kind");
        assert_eq!(units.begin(Unit::Load, 1, 10, 1), 11, "the issue width");
    }

    #[test]
    fn what_waits_for_operands_keeps_no_unit_from_others() {
        let mut units = units();
        assert_eq!(units.begin(Unit::Multiply, 20, 500, 1), 500);
        assert_eq!(units.begin(Unit::Multiply, 20, 12, 1), 12);
        assert_eq!(units.begin(Unit::Multiply, 1, 12, 1), 32);
        assert_eq!(
            units.begin(Unit::Multiply, 20, 485, 1),
            520,
            "no room before"
        );
        assert_eq!(units.begin(Unit::Multiply, 1, 499, 1), 499);
    }

    #[test]
    fn present_goes_on_and_is_found_at_once() {
        let mut units = units();
        for cycle in 1..5000 {
            assert_eq!(units.begin(Unit::Integer, 1, cycle, cycle), cycle);
            assert_eq!(units.begin(Unit::Integer, 1, 0, cycle), cycle);
        }
    }
}
