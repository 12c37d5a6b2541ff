//! Which places of the log are in use: the volatile half of the log.
//!
//! A place is taken for a log line and is free again when a header is durable whose head lies behind that
//! line. The head moves past lines that count no more, and no others.
//!
//! Always true: no line is written over one that recovery may still look at.

use std::collections::VecDeque;

use perdure_hardware::time::Cycles;

use super::log::Header;

/// The places.
#[derive(Clone, Debug)]
pub struct Places {
    /// Lines of the log.
    lines: u64,
    /// The number of the next line.
    pub next: u64,
    /// What the newest header says.
    header: Header,
    /// When it is durable, as is then every older one.
    pub header_durable: Cycles,
    /// Heads of headers, by when they are durable; the last that is so for certain comes first.
    heads: VecDeque<(Cycles, u64)>,
    /// Of the lines from the head on: which count no more.
    done: VecDeque<bool>,
}

impl Places {
    /// Those of an empty log, whose header is durable.
    pub fn new(header: Header) -> Self {
        Self {
            lines: header.lines,
            next: header.head,
            header,
            header_durable: 0,
            heads: VecDeque::from([(0, header.head)]),
            done: VecDeque::new(),
        }
    }

    /// Places that are in use then.
    pub fn used(&self, now: Cycles) -> u64 {
        let durable = self.heads.iter().rev().find(|&&(at, _)| at <= now);
        let head = durable.or(self.heads.front()).map_or(0, |&(_, head)| head);
        self.next - head
    }

    /// When there are so many free places, by the headers that were written; `None` if there will not be.
    pub fn free_at(&self, wanted: u64) -> Option<Cycles> {
        let needed = (self.next + wanted).saturating_sub(self.lines);
        let enough = self.heads.iter().find(|&&(_, head)| head >= needed);
        enough.map(|&(at, _)| at)
    }

    /// Takes the next place.
    pub fn take(&mut self) -> u64 {
        self.done.push_back(false);
        self.next += 1;
        self.next - 1
    }

    /// A line counts no more.
    pub fn is_done(&mut self, number: u64) {
        if let Some(done) = (number.checked_sub(self.header.head))
            .and_then(|at| self.done.get_mut(usize::try_from(at).unwrap_or(usize::MAX)))
        {
            *done = true;
        }
    }

    /// By how many lines the head could move.
    pub fn movable(&self) -> u64 {
        self.done.iter().take_while(|&&done| done).count() as u64
    }

    /// The header that moves the head as far as it can.
    pub fn move_head(&mut self) -> Header {
        let by = self.movable();
        self.done.drain(..usize::try_from(by).unwrap_or(usize::MAX));
        self.header.generation += 1;
        self.header.head += by;
        self.header
    }

    /// The newest header will be durable then.
    pub fn header_written(&mut self, durable: Cycles, horizon: Cycles) {
        self.header_durable = durable;
        self.heads.push_back((durable, self.header.head));
        while self.heads.len() > 1 && self.heads[1].0 <= horizon {
            self.heads.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_when_a_header_behind_it_is_durable() {
        let mut places = Places::new(Header {
            generation: 4,
            head: 100,
            lines: 4,
            stride: 1,
        });
        let taken: Vec<u64> = (0..4).map(|_| places.take()).collect();
        assert_eq!(taken, [100, 101, 102, 103]);
        assert_eq!(places.free_at(1), None);
        places.is_done(101);
        assert_eq!(places.movable(), 0, "an older line still counts");
        places.is_done(100);
        let header = places.move_head();
        assert_eq!((header.generation, header.head), (5, 102));
        places.header_written(70, 0);
        assert_eq!(places.free_at(2), Some(70));
        assert_eq!(places.free_at(3), None);
        assert_eq!([69, 70].map(|now| places.used(now)), [4, 2]);
        places.header_written(80, 75);
        assert_eq!(places.used(0), 2, "no cut comes before it any more");
    }
}
