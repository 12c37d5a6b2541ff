//! The write-combining buffers of a hart: stores that go around the caches gather here, line by line,
//! until a line is complete, its buffer is needed, or the hart asks for it.
//!
//! Always true here:
//! - A hart has a line in one buffer at most, and then not in its L1D: a load of it misses, and sends it.
//! - Nobody else sees what waits here, and a power cut loses it.

use std::collections::VecDeque;

use crate::line::{LINE_BYTES, Line, LineNumber};

/// Buffers of a hart: the line fill buffers of a core that has no others for this.
const BUFFERS: usize = 10;

/// What waits for one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combined {
    /// The line.
    pub line: LineNumber,
    bytes: Line,
    /// One bit for each byte that was stored.
    stored: u64,
}

impl Combined {
    /// Lays what was stored over the bytes of a whole line.
    pub fn lay_over(&self, bytes: &mut [u8]) {
        for (index, (byte, stored)) in bytes.iter_mut().zip(&self.bytes.0).enumerate() {
            if self.stored >> index & 1 != 0 {
                *byte = *stored;
            }
        }
    }
}

/// The buffers. All of them are lost at power-off.
#[derive(Clone, Debug, Default)]
pub struct CombiningBuffers {
    /// The one that was begun first is the first.
    begun: VecDeque<Combined>,
}

impl CombiningBuffers {
    /// Nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// What waits, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Combined> {
        self.begun.iter()
    }

    /// Takes out the oldest.
    pub fn take_oldest(&mut self) -> Option<Combined> {
        self.begun.pop_front()
    }

    /// Takes out what waits for a line.
    pub fn take(&mut self, line: LineNumber) -> Option<Combined> {
        let index = self.begun.iter().position(|begun| begun.line == line)?;
        self.begun.remove(index)
    }

    /// Takes out the oldest, if a store to that line would find no buffer.
    pub fn make_room(&mut self, line: LineNumber) -> Option<Combined> {
        let begun = self.begun.iter().any(|begun| begun.line == line);
        if begun || self.begun.len() < BUFFERS {
            return None;
        }
        self.take_oldest()
    }

    /// Stores bytes into the line's buffer, for which there is room. Returns the line if it is complete.
    pub fn put(&mut self, line: LineNumber, (offset, bytes): (usize, &[u8])) -> Option<Combined> {
        let mut combined = self.take(line).unwrap_or(Combined {
            line,
            bytes: Line::ZERO,
            stored: 0,
        });
        combined.bytes.0[offset..offset + bytes.len()].copy_from_slice(bytes);
        for index in offset..offset + bytes.len() {
            combined.stored |= 1 << index;
        }
        if combined.stored.count_ones() as usize == LINE_BYTES {
            return Some(combined);
        }
        self.begun.push_back(combined);
        None
    }
}
