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

/// What begins, or is still at work, in one cycle.
#[derive(Clone, Copy, Debug, Default)]
struct Cycle {
    number: Cycles,
    begun: u8,
    taken: [u8; KINDS],
}

/// The units of a core.
#[derive(Clone, Debug)]
pub(super) struct Units {
    ring: Box<[Cycle; REMEMBERED]>,
    issue_width: u8,
    counts: [u8; KINDS],
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
        let small = |count: usize| u8::try_from(count).expect("the specification is valid");
        Self {
            ring: ring.try_into().expect("as many as that"),
            issue_width: small(core.issue_width),
            counts: units.map(small),
            none_before: [0; KINDS],
        }
    }

    /// The first cycle from `ready` on in which an instruction can begin that keeps its unit for so many
    /// cycles; it does. Nothing will be asked for before `present`, which is 1 or later, any more.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        unit: Unit,
        occupancy: Cycles,
        ready: Cycles,
        present: Cycles,
    ) -> Cycles {
        let kind = unit as usize;
        let known = self.none_before[kind].max(present);
        let earliest = ready.max(known);
        if occupancy > 1 {
            return self.begin_long(kind, occupancy, earliest, present);
        }
        let at = self.begin_short(kind, earliest, present);
        if ready <= known {
            self.none_before[kind] = at;
        }
        at
    }

    /// The first cycle from `at` on for who needs its unit for one cycle.
    #[inline(always)]
    fn begin_short(&mut self, kind: usize, mut at: Cycles, present: Cycles) -> Cycles {
        let (width, units) = (self.issue_width, self.counts[kind]);
        loop {
            let cycle = self.cycle(at, present);
            if cycle.number != at {
                return at;
            }
            if cycle.begun < width && cycle.taken[kind] < units {
                cycle.begun += 1;
                cycle.taken[kind] += 1;
                return at;
            }
            at += 1;
        }
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

    /// A cycle's place in the ring, which it takes unless an earlier one that is not over has it.
    #[inline(always)]
    fn cycle(&mut self, number: Cycles, present: Cycles) -> &mut Cycle {
        let cycle = &mut self.ring[number as usize % REMEMBERED];
        if cycle.number < present || cycle.number > number {
            *cycle = Cycle {
                number,
                ..Cycle::default()
            };
        }
        cycle
    }

    fn can_begin(&mut self, kind: usize, occupancy: Cycles, at: Cycles, present: Cycles) -> bool {
        let (width, units) = (self.issue_width, self.counts[kind]);
        let first = self.cycle(at, present);
        if first.number == at && (first.begun >= width || first.taken[kind] >= units) {
            return false;
        }
        (at + 1..at + occupancy).all(|number| {
            let cycle = self.cycle(number, present);
            cycle.number != number || cycle.taken[kind] < units
        })
    }

    fn occupy(&mut self, kind: usize, occupancy: Cycles, at: Cycles) {
        let first = &mut self.ring[at as usize % REMEMBERED];
        if first.number == at {
            first.begun += 1;
        }
        for number in at..at + occupancy {
            let cycle = &mut self.ring[number as usize % REMEMBERED];
            if cycle.number == number {
                cycle.taken[kind] += 1;
            }
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
