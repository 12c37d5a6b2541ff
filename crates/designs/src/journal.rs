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

impl Journal {
    /// How many lines ahead the host is told what will be touched.
    const PREFETCH: usize = 16;

    /// Before the first write to an image of so many bytes.
    pub(crate) fn begin(&mut self, bytes: u64, digest: KeptDigest) {
        let words = bytes.div_ceil(LINE_BYTES as u64).div_ceil(64) as usize;
        if (self.noted.as_ref()).is_none_or(|noted| noted.len() < words) {
            let noted = Sparse::new(words);
            self.noted = Some(noted.expect("the host has room for a bit of each line"));
        }
        self.digest = digest;
    }

    /// A line is about to be overwritten, and was this.
    #[inline]
    pub(crate) fn note(&mut self, line: LineNumber, old: &Line) {
        let Some(noted) = &mut self.noted else { return };
        let (word, bit) = ((line / 64) as usize, 1 << (line % 64));
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
            self.prefetch(arena, index + Self::PREFETCH);
            let address = line * LINE_BYTES as u64;
            let new = arena.line(address);
            if range.contains(&address) && old != new {
                digest.replace(address, &old.0, &new.0);
            }
        }
        Some((range, digest))
    }

    fn prefetch(&self, arena: &Arena, index: usize) {
        if let Some(line) = self.lines.get(index) {
            arena.prefetch(line * LINE_BYTES as u64);
        }
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
        for index in 0..self.lines.len() {
            self.prefetch(arena, index + Self::PREFETCH);
            let (address, bytes) = (
                self.lines[index] * LINE_BYTES as u64,
                &mut self.bytes[index],
            );
            *bytes = arena.replace_line(address, bytes);
        }
        arena.put_digest(self.digest.clone());
        Left(self)
    }

    fn has(&self, line: LineNumber) -> bool {
        let word = self
            .noted
            .as_ref()
            .map(|noted| *noted.get((line / 64) as usize));
        word.is_some_and(|word| word & 1 << (line % 64) != 0)
    }

    /// The same, empty.
    fn emptied(mut self) -> Self {
        self.digest = None;
        if let Some(noted) = &mut self.noted {
            for line in &self.lines {
                *noted.get_mut((line / 64) as usize) = 0;
            }
        }
        self.lines.clear();
        self.bytes.clear();
        self
    }
}

/// What a recovery left where it wrote: what its journal has, once it has put everything back.
#[derive(Debug)]
pub struct Left(Journal);

impl Left {
    /// True if an image is the same where the digest is kept: one that was what recovery found, but for what
    /// it has written before where this did, and for what stands in that journal.
    pub(crate) fn is_in(&self, arena: &Arena, since: &Journal) -> bool {
        let Self(left) = self;
        let kept = left.digest.as_ref().map(|(range, _)| range);
        let has = |line: LineNumber, bytes: &Line| {
            let address = line * LINE_BYTES as u64;
            arena.line(address) == bytes || kept.is_some_and(|kept| !kept.contains(&address))
        };
        let mut written = left.lines.iter().zip(&left.bytes).enumerate();
        let mut others = since.lines.iter().zip(&since.bytes);
        written.all(|(index, (&line, bytes))| {
            left.prefetch(arena, index + Journal::PREFETCH);
            has(line, bytes)
        }) && others.all(|(&line, found)| left.has(line) || has(line, found))
    }

    /// The journal, empty.
    pub fn forget(self) -> Journal {
        self.0.emptied()
    }
}
