//! Accesses that are often as far apart as those before them, for prefetchers to learn from.

use crate::support::Random;
use perdure_hardware::arena::PAGE_BYTES;
use perdure_hardware::line::{LINE_BYTES, LineNumber};

const PAGE_LINES: usize = PAGE_BYTES / LINE_BYTES;

/// Where each hart's stream is, and its stride; nothing, if there are none.
pub struct Streams(Vec<(usize, usize)>);

impl Streams {
    pub fn new(harts: usize, some: bool) -> Self {
        Self(vec![(0, 1); if some { harts } else { 0 }])
    }

    /// First line and number of lines: whole pages, because what is prefetched belongs to the model, too.
    pub fn room(&self, first: LineNumber, lines: usize) -> (LineNumber, usize) {
        if self.0.is_empty() {
            return (first, lines);
        }
        let page = first / PAGE_LINES as u64;
        (page * PAGE_LINES as u64, lines.next_multiple_of(PAGE_LINES))
    }

    /// Which of so many lines a hart turns to: any, or the next one of its stream.
    pub fn next(&mut self, random: &mut Random, hart: usize, lines: usize) -> usize {
        if self.0.is_empty() || random.once_in(4) {
            return random.below(lines);
        }
        let (last, stride) = self.0[hart];
        let stream = if random.once_in(12) {
            // A stride of all lines but one or two goes backwards.
            let strides = [1, 2, 4, lines - 1, lines - 2];
            (random.below(lines), strides[random.below(strides.len())])
        } else {
            ((last + stride) % lines, stride)
        };
        self.0[hart] = stream;
        stream.0
    }
}
