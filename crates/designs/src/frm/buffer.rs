//! The controller's buffer of pending evictions: each waits here for its *read-log-modify*.
//!
//! Always true here: entries stand in the order of arrival; the oldest ones have their undo record
//! issued (*logging*), the others wait for their old bytes (*reading*); a line stands in at most
//! one entry.

use std::collections::VecDeque;

use perdure_hardware::line::{Line, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;

/// An eviction on its way.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// The newest bytes, for the home address.
    pub bytes: Line,
    /// The bytes at the home address.
    pub old: Line,
    /// What the in-place write will count as.
    pub traffic: Traffic,
    /// When the step under way is done: the old bytes are here, or the undo record is durable.
    pub ready: Cycles,
    /// Index of the undo record, once it is issued.
    pub index: u64,
}

/// The buffer.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    /// Apart from the rest, because every miss looks through them.
    lines: VecDeque<LineNumber>,
    entries: VecDeque<Pending>,
    logging: usize,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The oldest entry's undo record is durable: write it in place.
    Modify,
    /// The old bytes of the oldest entry that waits for them are here: log them.
    Log,
}

impl Buffer {
    /// An empty buffer.
    pub fn new(entries: usize) -> Self {
        Self {
            lines: VecDeque::with_capacity(entries),
            entries: VecDeque::with_capacity(entries),
            logging: 0,
        }
    }

    /// Entries in use.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True if nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Entries whose undo record is issued.
    pub fn logging(&self) -> usize {
        self.logging
    }

    /// The pending lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = LineNumber> {
        self.lines.iter().copied()
    }

    /// The newest bytes of a pending line.
    #[inline]
    pub fn find(&self, line: LineNumber) -> Option<&Line> {
        let place = self.lines.iter().position(|&held| held == line)?;
        Some(&self.entries[place].bytes)
    }

    /// The old bytes of a pending line.
    pub fn old(&self, line: LineNumber) -> Option<&Line> {
        let place = self.lines.iter().position(|&held| held == line)?;
        Some(&self.entries[place].old)
    }

    /// Replaces the bytes of a pending line. False if it isn't pending.
    pub fn merge(&mut self, line: LineNumber, bytes: &Line) -> bool {
        let place = self.lines.iter().position(|&held| held == line);
        if let Some(place) = place {
            self.entries[place].bytes = *bytes;
        }
        place.is_some()
    }

    /// Adds an eviction whose old bytes are being read.
    pub fn push(&mut self, line: LineNumber, pending: Pending) {
        self.lines.push_back(line);
        self.entries.push_back(pending);
    }

    /// What can happen next, and when.
    #[inline]
    pub fn next_step(&self) -> Option<(Cycles, Step)> {
        let reading = self.entries.get(self.logging);
        let log = reading.map(|entry| (entry.ready, Step::Log));
        if self.logging == 0 {
            return log;
        }
        let modify = (self.entries[0].ready, Step::Modify);
        log.filter(|log| log.0 < modify.0).or(Some(modify))
    }

    /// The oldest undo record that may not be durable yet.
    pub fn oldest_logging(&self) -> Option<u64> {
        (self.logging > 0).then(|| self.entries[0].index)
    }

    /// The oldest entry that waits for its old bytes.
    pub fn reading(&self) -> Option<(LineNumber, &Pending)> {
        let entry = self.entries.get(self.logging)?;
        Some((self.lines[self.logging], entry))
    }

    /// That entry's undo record was issued.
    pub fn logged(&mut self, index: u64, durable: Cycles) {
        let entry = &mut self.entries[self.logging];
        entry.index = index;
        entry.ready = durable;
        self.logging += 1;
    }

    /// Takes the oldest entry out.
    pub fn pop(&mut self) -> Option<(LineNumber, Pending)> {
        self.logging = self.logging.saturating_sub(1);
        Some((self.lines.pop_front()?, self.entries.pop_front()?))
    }
}
