//! Times from the ends of strands to their commits, as a histogram whose bars are an eighth of their place
//! wide.

use perdure_hardware::time::Cycles;

/// Bars of one doubling.
const BARS: u32 = 8;

/// The histogram.
#[derive(Clone, Debug)]
pub struct Lags {
    bars: Vec<u64>,
    count: u64,
    worst: Cycles,
}

impl Default for Lags {
    fn default() -> Self {
        let bars = vec![0; (65 * BARS) as usize];
        Self {
            bars,
            count: 0,
            worst: 0,
        }
    }
}

/// The bar of a time: below 8, one for each.
fn bar(time: Cycles) -> usize {
    let doublings = (time | 7).ilog2() - 2;
    (u64::from(doublings * BARS) + (time >> doublings.saturating_sub(1) & 7)) as usize
}

/// The longest time of a bar.
fn longest(bar: usize) -> Cycles {
    let (doublings, place) = (bar as u32 / BARS, bar as u64 % u64::from(BARS));
    if doublings == 0 {
        return place;
    }
    ((8 + place + 1) << (doublings - 1)).wrapping_sub(1)
}

impl Lags {
    /// One more.
    pub fn add(&mut self, time: Cycles) {
        self.bars[bar(time)] += 1;
        self.count += 1;
        self.worst = self.worst.max(time);
    }

    /// So many in a hundred took no longer.
    pub fn percentile(&self, hundredths: u64) -> Cycles {
        let wanted = (self.count * hundredths).div_ceil(100);
        let mut sum = 0;
        let found = self.bars.iter().position(|&count| {
            sum += count;
            sum >= wanted && sum > 0
        });
        found.map_or(0, |bar| longest(bar).min(self.worst))
    }

    /// The longest.
    pub fn worst(&self) -> Cycles {
        self.worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bar_that_ends_at_or_after_it_and_no_later_one() {
        for time in (0..5_000).chain([1 << 40, (1 << 40) + 12_345, u64::MAX]) {
            let found = bar(time);
            assert!(longest(found) >= time, "{time}");
            assert!(found == 0 || longest(found - 1) < time, "{time}");
        }
    }

    #[test]
    fn percentiles() {
        let mut lags = Lags::default();
        assert_eq!(lags.percentile(50), 0);
        (1..=100).for_each(|time| lags.add(time));
        assert!((50..=55).contains(&lags.percentile(50)));
        assert_eq!((lags.percentile(99), lags.worst()), (100, 100));
    }
}
