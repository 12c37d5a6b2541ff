//! What a recovery overwrote, and what it left: to put everything back, and to compare with another recovery.
//!
//! Always true here: each line stands once in a journal, however often it was written.

use perdure_hardware::arena::{Arena, KeptDigest};
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::pages::Sparse;

/// What recovery overwrote, each line once, so that one run can be cut and recovered many times. An undone
/// journal can be used again, which saves the host from finding memory for each of a thousand.
#[derive(Debug, Default)]
pub struct Journal {
    lines: Vec<LineNumber>,
    /// What each of them was.
    bytes: Vec<Line>,
    /// A bit for each line of the image: it is in the journal.
    noted: Option<Sparse<u64>>,
    digest: KeptDigest,
}

/// How many lines ahead the host is told what will be touched.
const PREFETCH: usize = 16;

/// Who goes through lines is at that one.
fn prefetch(arena: &Arena, lines: &[LineNumber], index: usize) {
    if let Some(line) = lines.get(index + PREFETCH) {
        arena.prefetch(line * LINE_BYTES as u64);
    }
}

impl Journal {
    /// Before the first write to an image of so many bytes.
    pub(crate) fn begin(&mut self, bytes: u64, digest: KeptDigest) {
        let words = bytes.div_ceil(LINE_BYTES as u64).div_ceil(64) as usize;
        if (self.noted.as_ref()).is_none_or(|noted| noted.len() < words) {
            let noted = Sparse::new(words);
            self.noted = Some(noted.expect("the host has room for a bit of each line"));
        }
        self.digest = digest;
    }

    /// Where it is noted that a line stands here: in which word, by which bit.
    #[inline]
    fn place(line: LineNumber) -> (usize, u64) {
        ((line / 64) as usize, 1 << (line % 64))
    }

    /// A line is about to be overwritten, and was this.
    #[inline]
    pub(crate) fn note(&mut self, line: LineNumber, old: &Line) {
        let Some(noted) = &mut self.noted else { return };
        let (word, bit) = Self::place(line);
        if noted.get(word) & bit == 0 {
            *noted.get_mut(word) |= bit;
            self.lines.push(line);
            self.bytes.push(*old);
        }
    }

    /// The kept digest of an image in which nothing but these lines has changed: each counts once, however
    /// often it was written.
    pub(crate) fn digest_after(&self, arena: &Arena) -> KeptDigest {
        let (range, mut digest) = self.digest.clone()?;
        for (index, (line, old)) in self.lines.iter().zip(&self.bytes).enumerate() {
            prefetch(arena, &self.lines, index);
            let address = line * LINE_BYTES as u64;
            let new = arena.line(address);
            if range.contains(&address) && old != new {
                digest.replace(address, &old.0, &new.0);
            }
        }
        Some((range, digest))
    }

    /// Puts everything back, the kept digest included, and is then empty.
    #[allow(
        clippy::return_self_not_must_use,
        reason = "its memory may be given up"
    )]
    pub fn undo(self, arena: &mut Arena) -> Self {
        self.take_back(arena).forget()
    }

    /// Puts everything back, the kept digest included, and remembers what recovery left.
    pub fn take_back(mut self, arena: &mut Arena) -> Left {
        // What is put back was there before, so its digest is known and need not be computed.
        arena.take_digest();
        for (index, (line, bytes)) in self.lines.iter().zip(&mut self.bytes).enumerate() {
            prefetch(arena, &self.lines, index);
            *bytes = arena.replace_line(line * LINE_BYTES as u64, bytes);
        }
        arena.put_digest(self.digest.take());
        Left(self)
    }

    fn has(&self, line: LineNumber) -> bool {
        let (word, bit) = Self::place(line);
        (self.noted.as_ref()).is_some_and(|noted| noted.get(word) & bit != 0)
    }
}

/// What a recovery left where it wrote: what its journal has, once it has put everything back.
#[derive(Debug)]
pub struct Left(Journal);

impl Left {
    /// The first address, of those that count, of a line in which an image differs from it. Before that
    /// journal began, the image was what this recovery found, but perhaps where it wrote.
    pub(crate) fn difference(
        &self,
        arena: &Arena,
        since: &Journal,
        counts: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let Self(left) = self;
        let differs = |line: LineNumber, bytes: &Line| {
            let address = line * LINE_BYTES as u64;
            (arena.line(address) != bytes && counts(address)).then_some(address)
        };
        let written = left.lines.iter().zip(&left.bytes).enumerate();
        let written = written.filter_map(|(index, (&line, bytes))| {
            prefetch(arena, &left.lines, index);
            differs(line, bytes)
        });
        let others = since.lines.iter().zip(&since.bytes);
        let others = others.filter(|(line, _)| !left.has(**line));
        let others = others.filter_map(|(&line, found)| differs(line, found));
        written.chain(others).min()
    }

    /// The journal, empty.
    pub fn forget(self) -> Journal {
        let Self(mut journal) = self;
        if let Some(noted) = &mut journal.noted {
            for &line in &journal.lines {
                *noted.get_mut(Journal::place(line).0) = 0;
            }
        }
        journal.lines.clear();
        journal.bytes.clear();
        journal
    }
}
