//! Which part of a run is traced: from a cycle to another one, and of that all, or every so many-th window.
//!
//! Always true here: a window is kept whole or not at all, and which ones are depends on the cycle alone.

use perdure_hardware::time::Cycles;

/// Which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The first cycle.
    pub from: Cycles,
    /// The first one behind it.
    pub until: Cycles,
    /// One window in so many is kept.
    pub one_in: u64,
    /// How long a window is.
    pub window_cycles: Cycles,
}

impl Windows {
    /// Whether a cycle is traced.
    pub fn have(&self, at: Cycles) -> bool {
        self.from <= at && at < self.until && (at / self.window_cycles).is_multiple_of(self.one_in)
    }

    /// What is traced of a span, piece by piece.
    pub fn pieces(&self, from: Cycles, until: Cycles) -> impl Iterator<Item = [Cycles; 2]> + use<> {
        let Self {
            one_in,
            window_cycles,
            ..
        } = *self;
        let (from, until) = (from.max(self.from), until.min(self.until));
        let first = from / window_cycles / one_in;
        let last = if one_in == 1 {
            // Windows that follow each other are one piece.
            first
        } else {
            until.saturating_sub(1) / window_cycles / one_in
        };
        let window = move |number: u64| {
            if one_in == 1 {
                return [from, until];
            }
            let begin = number.saturating_mul(one_in).saturating_mul(window_cycles);
            [
                begin.max(from),
                begin.saturating_add(window_cycles).min(until),
            ]
        };
        (first..=last)
            .map(window)
            .filter(|[begin, end]| begin < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: Windows = Windows {
        from: 150,
        until: 1000,
        one_in: 4,
        window_cycles: 100,
    };

    #[test]
    fn pieces_are_exactly_the_cycles_that_are_traced() {
        for windows in [
            SAMPLED,
            Windows {
                one_in: 1,
                ..SAMPLED
            },
        ] {
            for from in (0..1300).step_by(50) {
                for until in (from..1300).step_by(50) {
                    let pieces: Vec<_> = windows.pieces(from, until).collect();
                    for at in from..until {
                        let within = pieces
                            .iter()
                            .filter(|piece| piece[0] <= at && at < piece[1]);
                        let wanted = usize::from(windows.have(at));
                        assert_eq!(within.count(), wanted, "{windows:?} {from} {until} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn one_window_in_four_is_kept_whole() {
        let pieces: Vec<_> = SAMPLED.pieces(0, Cycles::MAX).collect();
        assert_eq!(pieces, [[400, 500], [800, 900]]);
    }
}
