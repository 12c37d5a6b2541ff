//! The bloom filter beside an undo buffer (PiCL §III-B): does an eviction's line have an undo entry
//! that is not safely in NVM yet? It may say yes wrongly, never no.

use perdure_hardware::line::LineNumber;

/// Probes for each line. Our assumption: the paper gives the filter's size, not its hashes.
const PROBES: u32 = 4;

/// A line's hash, for filters of any size.
#[derive(Clone, Copy, Debug)]
pub struct Key(u64);

impl Key {
    /// That of a line.
    #[inline(always)]
    pub fn of(line: LineNumber) -> Self {
        Self((line ^ line >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// The filter.
#[derive(Clone, Debug)]
pub struct Filter {
    words: Box<[u64]>,
}

impl Filter {
    /// An empty filter; `bits` is a power of two, 64 at least.
    pub fn new(bits: usize) -> Self {
        Self {
            words: vec![0; bits / 64].into(),
        }
    }

    #[inline(always)]
    fn probes(&self, Key(hash): Key) -> impl Iterator<Item = (usize, u64)> + use<> {
        let bits = self.words.len() as u64 * 64;
        let step = (hash >> 40) | 1;
        (0..u64::from(PROBES)).map(move |probe| {
            let bit = (hash >> 20).wrapping_add(probe.wrapping_mul(step)) & (bits - 1);
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    /// Forgets all lines.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Remembers a line.
    #[inline(always)]
    pub fn insert(&mut self, line: Key) {
        for (word, bit) in self.probes(line) {
            self.words[word] |= bit;
        }
    }

    /// False if the line was certainly not inserted.
    #[inline(always)]
    pub fn may_contain(&self, line: Key) -> bool {
        self.probes(line)
            .all(|(word, bit)| self.words[word] & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_misses_and_rarely_errs_at_the_papers_size() {
        let mut filter = Filter::new(4096);
        let line = |index: u64| Key::of(index.wrapping_mul(0x1234_5677) & 0xff_ffff);
        for index in 0..32 {
            filter.insert(line(index));
        }
        assert!((0..32).all(|index| filter.may_contain(line(index))));
        let wrong = (1000..101_000)
            .filter(|&index| filter.may_contain(line(index)))
            .count();
        assert!(wrong < 100, "{wrong} false matches in 100,000");
    }
}
