//! Simulated time. Everything is in core clock cycles; the specification is in nanoseconds where
//! the papers give nanoseconds, and is converted once, here.

use std::ops::Range;

/// A point in time or a duration, in core clock cycles.
pub type Cycles = u64;

/// Joins what is known of a range of moments with more that is: where the two do not touch, what came last
/// is kept, if that is any.
#[inline(always)]
pub(crate) fn join(known: &mut Range<Cycles>, more: Range<Cycles>) {
    if more.start <= known.end && known.start <= more.end {
        *known = more.start.min(known.start)..more.end.max(known.end);
    } else if !more.is_empty() {
        *known = more;
    }
}

/// The core clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Frequency in megahertz.
    pub frequency_mhz: u64,
}

impl Clock {
    /// Nanoseconds to cycles, rounded up: hardware waits for the next edge.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "megahertz and durations are far below 2^53, and none is negative"
    )]
    pub fn cycles(self, nanoseconds: f64) -> Cycles {
        // A hair below the next integer is floating-point noise, not another cycle.
        (nanoseconds * self.frequency_mhz as f64 / 1000.0 - 1e-9).ceil() as Cycles
    }

    /// Cycles to nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "2^53 cycles are weeks")]
    pub fn nanoseconds(self, cycles: Cycles) -> f64 {
        cycles as f64 * 1000.0 / self.frequency_mhz as f64
    }

    /// Cycles to whole nanoseconds, rounded down: exactly, however many there are.
    pub fn whole_nanoseconds(self, cycles: Cycles) -> u64 {
        let nanoseconds = u128::from(cycles) * 1000 / u128::from(self.frequency_mhz);
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_iv_latencies_are_whole_cycles() {
        let clock = Clock {
            frequency_mhz: 2000,
        };
        assert_eq!(clock.cycles(128.0), 256);
        assert_eq!(clock.cycles(368.0), 736);
        assert_eq!(clock.cycles(0.3), 1);
        assert!((clock.nanoseconds(736) - 368.0).abs() < 1e-9);
        assert_eq!(clock.whole_nanoseconds(737), 368);
    }
}
