//! The stride prefetcher of an L1D: what a program is likely to ask for next, from the lines that it has
//! asked for.
//!
//! The hierarchy is not told which instruction asks, so a stream is known by its page: one that asks twice
//! in a row for a line as far from the one before is taken to go on like that.
//!
//! Always true here:
//! - It learns from misses, and from the first use of a line that it brought: the same lines whatever
//!   shortcuts hits take.
//! - It asks within a page, for lines that the L1D does not have.
//! - A line that it brings is a load's to everybody below, coherence and the design included.
//! - Designs that keep versions of a line apart have none: a line may come from an epoch that the sharing
//!   group has to come to first, and nobody has asked for it yet.

use crate::arena::PAGE_BYTES;
use crate::cache::Slot;
use crate::coherence::Request;
use crate::hierarchy::Hardware;
use crate::line::{LINE_BYTES, LineNumber};
use crate::policy::Policy;
use crate::specification::PrefetcherSpecification;
use crate::time::Cycles;

const PAGE_LINES: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// The last line asked for in a page, how far it was from the one before, and if that was so twice.
#[derive(Clone, Copy, Debug)]
struct Stream {
    page: u64,
    last: LineNumber,
    stride: i64,
    steady: bool,
}

/// A prefetcher. All of it is lost at power-off.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    degree: usize,
    most_streams: usize,
    /// The one that was used last is the last.
    streams: Vec<Stream>,
    /// For each L1D slot whose line was brought and that nobody has used yet: when it comes.
    brought: Box<[Option<Cycles>]>,
}

impl Prefetcher {
    /// One that knows nothing, before an L1D of so many slots; `None` if there is none.
    pub fn new(specification: &PrefetcherSpecification, slots: usize) -> Option<Box<Self>> {
        (specification.degree > 0).then(|| {
            Box::new(Self {
                degree: specification.degree,
                most_streams: specification.streams,
                streams: Vec::with_capacity(specification.streams),
                brought: vec![None; slots].into(),
            })
        })
    }

    /// Another line is in that slot of the L1D.
    pub(crate) fn refilled(&mut self, slot: Slot) {
        self.brought[slot.0 as usize] = None;
    }

    /// Takes note of a line that a program asks for. Returns the stride with which its stream goes on, if
    /// it does.
    fn learn(&mut self, line: LineNumber) -> Option<i64> {
        let page = line / PAGE_LINES;
        let mut stream = Stream {
            page,
            last: line,
            stride: 0,
            steady: false,
        };
        if let Some(at) = self.streams.iter().position(|stream| stream.page == page) {
            let before = self.streams.remove(at);
            stream.stride = line.cast_signed() - before.last.cast_signed();
            stream.steady = stream.stride == before.stride && stream.stride != 0;
        } else if self.streams.len() == self.most_streams {
            self.streams.remove(0);
        }
        self.streams.push(stream);
        stream.steady.then_some(stream.stride)
    }

    /// The lines that a stream will ask for behind `line`, as far as its page goes.
    fn next(&self, line: LineNumber, stride: i64) -> impl Iterator<Item = LineNumber> + use<> {
        let page = line / PAGE_LINES;
        (1..=self.degree)
            .map_while(move |step| line.checked_add_signed(stride * i64::try_from(step).ok()?))
            .take_while(move |next| next / PAGE_LINES == page)
    }
}

impl Hardware {
    /// A hart asked at `now` for a line, which is in that slot of its L1D, after a miss or not. Asks for
    /// what it is likely to ask for next, and returns when the line is there if it was brought like that.
    #[cold]
    pub(crate) fn asked_for<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        (line, slot): (LineNumber, Slot),
        missed: bool,
        now: Cycles,
    ) -> Cycles {
        let core = &mut self.cores[hart];
        let Some(prefetcher) = &mut core.prefetcher else {
            return now;
        };
        let came = match prefetcher.brought[slot.0 as usize].take() {
            Some(came) => {
                self.statistics.prefetches_used += 1;
                came.max(now)
            }
            None if missed => now,
            None => return now,
        };
        if core.ahead.is_some() || policy.keeps_versions() {
            return came;
        }
        let prefetcher = core.prefetcher.as_mut().expect("as above");
        if let Some(stride) = prefetcher.learn(line) {
            for next in prefetcher.next(line, stride) {
                self.prefetch(policy, hart, next, now);
            }
        }
        came
    }

    /// Brings a line into a hart's L1D that nobody has asked for. An out-of-order core does not, if it has
    /// no free entry for the miss.
    fn prefetch<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) {
        let levels = self.levels_missed(hart, line);
        let window = self.cores[hart].timing.window();
        if levels == 0 || window.is_some_and(|window| !window.has_entries(levels, now)) {
            return;
        }
        self.statistics.prefetches += 1;
        let (slot, came) = self.fill_l1d(policy, hart, line, Request::Read, now);
        let core = &mut self.cores[hart];
        *core.l1d.stamp_mut(slot) = core.accesses;
        if let Some(prefetcher) = &mut core.prefetcher {
            prefetcher.brought[slot.0 as usize] = Some(came);
        }
        if let Some(window) = core.timing.window() {
            window.prefetched(levels, slot, now, came);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetcher(degree: usize, streams: usize) -> Prefetcher {
        let specification = PrefetcherSpecification { degree, streams };
        *Prefetcher::new(&specification, 8).expect("it has a degree")
    }

    #[test]
    fn a_stride_that_comes_twice_is_followed_within_the_page() {
        let mut one = prefetcher(4, 2);
        let learned = [0, 3, 6, 9, 10, 11, 12, 12].map(|line| one.learn(line));
        let (three, single) = (Some(3), Some(1));
        assert_eq!(
            learned,
            [None, None, three, three, None, single, single, None]
        );
        assert_eq!(one.next(6, 3).collect::<Vec<_>>(), [9, 12, 15, 18]);
        assert_eq!(one.next(60, 2).collect::<Vec<_>>(), [62]);
        assert_eq!(one.next(65, -1).collect::<Vec<_>>(), [64]);
        assert_eq!(one.next(1, -1).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn pages_are_streams_of_their_own_and_the_oldest_is_forgotten() {
        let mut two = prefetcher(1, 2);
        let page = |page: u64, line: u64| page * PAGE_LINES + line;
        for line in [page(0, 0), page(1, 10), page(0, 1), page(1, 8)] {
            assert_eq!(two.learn(line), None);
        }
        assert_eq!(two.learn(page(0, 2)), Some(1));
        assert_eq!(two.learn(page(2, 0)), None, "in place of page 1");
        assert_eq!(two.learn(page(1, 6)), None);
        assert_eq!(
            two.learn(page(0, 3)),
            None,
            "which took the place of page 0"
        );
    }

    #[test]
    fn there_is_none_of_degree_0() {
        let none = PrefetcherSpecification {
            degree: 0,
            streams: 16,
        };
        assert!(Prefetcher::new(&none, 8).is_none());
    }
}
