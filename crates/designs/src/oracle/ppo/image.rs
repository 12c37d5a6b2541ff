//! What every cut must find in memory: each line with the writes that no cut has settled yet.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;

use perdure_hardware::arena::{Arena, Digest};
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use perdure_hardware::time::Cycles;

/// Who wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The processor; it survives from then on.
    Host(Cycles),
    /// A device, for a command.
    Device(usize, u64),
}

/// Bytes of a line that were written.
#[derive(Clone, Debug)]
pub struct Written {
    /// By whom.
    pub by: By,
    offset: usize,
    bytes: Box<[u8]>,
}

impl Written {
    fn apply(&self, line: &mut Line) {
        line.0[self.offset..][..self.bytes.len()].copy_from_slice(&self.bytes);
    }
}

/// Memory, as cuts find it.
#[derive(Debug)]
pub struct Image {
    scope: Range<u64>,
    /// When the run began.
    first: Arena,
    /// Lines that have been written, as every cut finds them unless something in `pending` counts.
    settled: HashMap<LineNumber, Line>,
    /// Of memory so.
    digest: Digest,
    pending: BTreeMap<LineNumber, VecDeque<Written>>,
}

impl Image {
    /// Memory as it is when a run begins.
    pub fn new(scope: Range<u64>, memory: &Arena) -> Self {
        Self {
            scope,
            first: memory.clone(),
            settled: HashMap::new(),
            digest: memory.digest().unwrap_or_default(),
            pending: BTreeMap::new(),
        }
    }

    /// Somebody wrote.
    pub fn write(&mut self, by: By, address: u64, bytes: &[u8]) {
        let end = address + bytes.len() as u64;
        let mut at = address;
        while at < end {
            let line = line_of(at);
            let next = ((line + 1) * LINE_BYTES as u64).min(end);
            let piece = &bytes[(at - address) as usize..(next - address) as usize];
            if self.scope.contains(&at) {
                self.pending.entry(line).or_default().push_back(Written {
                    by,
                    offset: at as usize % LINE_BYTES,
                    bytes: piece.into(),
                });
            }
            at = next;
        }
    }

    fn settled(&self, line: LineNumber) -> Line {
        let settled = self.settled.get(&line);
        *settled.unwrap_or_else(|| self.first.line(line * LINE_BYTES as u64))
    }

    /// Bytes as everything has left them that has come in.
    pub fn newest(&self, bytes: Range<u64>) -> Vec<u8> {
        let mut found = Vec::with_capacity((bytes.end - bytes.start) as usize);
        let mut at = bytes.start;
        while at < bytes.end {
            let number = line_of(at);
            let mut line = self.settled(number);
            let pending = self.pending.get(&number);
            pending
                .into_iter()
                .flatten()
                .for_each(|one| one.apply(&mut line));
            let next = ((number + 1) * LINE_BYTES as u64).min(bytes.end);
            let from = at as usize % LINE_BYTES;
            found.extend(&line.0[from..from + (next - at) as usize]);
            at = next;
        }
        found
    }

    /// What no cut can come before any more is part of what every cut finds.
    pub fn settle(&mut self, horizon: Cycles, counts_from: impl Fn(By) -> Cycles) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|line, written| {
            let before = self.settled(*line);
            let mut now = before;
            while (written.front()).is_some_and(|one| counts_from(one.by) <= horizon) {
                if let Some(one) = written.pop_front() {
                    one.apply(&mut now);
                }
            }
            if now != before {
                (self.digest).replace(*line * LINE_BYTES as u64, &before.0, &now.0);
                self.settled.insert(*line, now);
            }
            !written.is_empty()
        });
        self.pending = pending;
    }

    /// What a cut must find in a line.
    fn expected(&self, line: LineNumber, counts: &impl Fn(By) -> bool) -> Line {
        let mut expected = self.settled(line);
        let written = self.pending.get(&line).into_iter().flatten();
        let counting = written.filter(|one| counts(one.by));
        counting.for_each(|one| one.apply(&mut expected));
        expected
    }

    /// The digest that memory must have after a cut, where so much counts.
    pub fn digest(&self, counts: impl Fn(By) -> bool) -> Digest {
        let mut digest = self.digest;
        for &line in self.pending.keys() {
            let (before, expected) = (self.settled(line), self.expected(line, &counts));
            digest.replace(line * LINE_BYTES as u64, &before.0, &expected.0);
        }
        digest
    }

    /// The lines that are not as they must be, and what that is.
    pub fn wrong(&self, found: &Arena, counts: impl Fn(By) -> bool) -> Vec<(LineNumber, Line)> {
        let changed = found.differing_lines(&self.first).into_iter();
        let changed = changed.filter(|address| self.scope.contains(address));
        let mut lines: BTreeSet<LineNumber> = changed.map(line_of).collect();
        lines.extend(self.pending.keys().chain(self.settled.keys()));
        let expected = lines
            .into_iter()
            .map(|line| (line, self.expected(line, &counts)));
        expected
            .filter(|(line, expected)| found.line(line * LINE_BYTES as u64) != expected)
            .collect()
    }

    /// The first line that is not as it must be, with who wrote last of those who count.
    pub fn difference(
        &self,
        found: &Arena,
        counts: impl Fn(By) -> bool,
    ) -> Option<(u64, Option<By>)> {
        let mut lines = line_of(self.scope.start)..line_of(self.scope.end);
        let line = lines
            .find(|line| *found.line(line * LINE_BYTES as u64) != self.expected(*line, &counts))?;
        let written = self.pending.get(&line).into_iter().flatten();
        let last = written.filter(|one| counts(one.by)).last();
        Some((line * LINE_BYTES as u64, last.map(|one| one.by)))
    }
}
