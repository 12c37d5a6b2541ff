//! What a recovery procedure gets: the bytes that survived, and nothing else.
//!
//! Reads and writes go to the image. Every write is a step; the verifier can have the power fail
//! again at any step, which tears that write and makes it return [`Interrupted::PowerLost`].

use perdure_hardware::arena::Arena;
use perdure_hardware::memory::Tear;

/// A surviving image that recovery refuses to trust.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the surviving image is corrupt: {what} (at {address:#x})")]
pub struct Corruption {
    /// What does not hold.
    pub what: &'static str,
    /// Where.
    pub address: u64,
}

/// Why recovery did not finish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Interrupted {
    /// The power failed again; recovery runs once more on what survived that.
    #[error("the power failed during recovery")]
    PowerLost,
    /// The image is damaged.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
}

/// The surviving bytes, writable, with a journal that can put everything back.
pub struct Surviving<'a> {
    arena: &'a mut Arena,
    journal: Journal,
    steps: u64,
    fails_at: Option<(u64, Tear)>,
}

/// What recovery overwrote, so that one run can be cut and recovered many times.
#[derive(Debug, Default)]
pub struct Journal {
    places: Vec<(u64, u32)>,
    bytes: Vec<u8>,
}

impl Journal {
    /// Puts everything back.
    pub fn undo(self, arena: &mut Arena) {
        let mut end = self.bytes.len();
        for (address, length) in self.places.into_iter().rev() {
            let start = end - length as usize;
            arena.write(address, &self.bytes[start..end]);
            end = start;
        }
    }
}

impl<'a> Surviving<'a> {
    /// An image whose power stays on.
    pub fn new(arena: &'a mut Arena) -> Self {
        Self {
            arena,
            journal: Journal::default(),
            steps: 0,
            fails_at: None,
        }
    }

    /// Lets the power fail at a step (0 is the first write).
    #[must_use]
    pub fn failing_at(mut self, step: u64, tear: Tear) -> Self {
        self.fails_at = Some((step, tear));
        self
    }

    /// Size of the image in bytes.
    pub fn len(&self) -> u64 {
        self.arena.len()
    }

    /// True for an image of no bytes.
    pub fn is_empty(&self) -> bool {
        self.arena.is_empty()
    }

    /// Bytes of the image.
    pub fn read(&self, address: u64, length: usize) -> Result<&[u8], Corruption> {
        if address
            .checked_add(length as u64)
            .is_none_or(|end| end > self.arena.len())
        {
            return Err(Corruption {
                what: "an address beyond the end of memory",
                address,
            });
        }
        Ok(self.arena.slice(address, length))
    }

    /// Writes bytes: one step.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Interrupted> {
        let old = self.read(address, bytes.len())?.to_vec();
        self.journal.places.push((address, bytes.len() as u32));
        self.journal.bytes.extend_from_slice(&old);
        let step = self.steps;
        self.steps += 1;
        if let Some((fails_at, tear)) = &mut self.fails_at
            && *fails_at == step
        {
            let mut torn = old;
            tear.apply(&mut torn, bytes);
            self.arena.write(address, &torn);
            return Err(Interrupted::PowerLost);
        }
        self.arena.write(address, bytes);
        Ok(())
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Ends the borrow; the journal can put everything back.
    pub fn into_journal(self) -> Journal {
        self.journal
    }
}
