//! Pipes, named ones too, and event counters.
//!
//! Always true: a pipe has traits only if it differs from what `pipe` makes.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::InodeId;
use crate::errno::Errno;

/// Bytes that a pipe holds.
pub(crate) const PIPE_BYTES: usize = 64 << 10;
/// Bytes that a pipe can be made to hold, and all of them together.
const PIPE_BYTES_MAX: u64 = 1 << 20;
const ALL_PIPES_BYTES_MAX: u64 = 64 << 20;
/// A write of at most this many bytes is not split.
pub(crate) const PIPE_ATOMIC_BYTES: usize = 4096;

/// A pipe. It ends when both ends are closed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pipe {
    pub bytes: VecDeque<u8>,
    pub readers: u32,
    pub writers: u32,
    /// Counts changes, so that an edge-triggered interest sees each one.
    pub activity: u64,
}

impl Pipe {
    pub fn room(&self, traits: Option<&PipeTraits>) -> usize {
        let Some(traits) = traits else {
            return PIPE_BYTES.saturating_sub(self.bytes.len());
        };
        // A packet takes a page, as long as it may be.
        let packets = traits.pieces.iter().filter(|piece| piece.packet);
        let padding: usize = packets
            .map(|piece| PIPE_ATOMIC_BYTES.saturating_sub(piece.length as usize))
            .sum();
        let taken = self.bytes.len().saturating_add(padding);
        traits.capacity().saturating_sub(taken)
    }
}

/// Bytes of a pipe that were written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub length: u32,
    /// One read gets it, and what it does not take is lost (`O_DIRECT`).
    pub packet: bool,
}

/// What few pipes have.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PipeTraits {
    /// `F_SETPIPE_SZ`, if that was asked for.
    pub capacity: Option<u32>,
    /// What the bytes consist of; empty if there is no packet among them.
    pub pieces: VecDeque<Piece>,
    /// The FIFO that it is.
    pub fifo: Option<InodeId>,
    /// How often the FIFO was opened for writing.
    pub writer_opens: u32,
}

impl PipeTraits {
    pub fn capacity(&self) -> usize {
        self.capacity.map_or(PIPE_BYTES, |bytes| bytes as usize)
    }

    /// Notes bytes that are appended to a pipe which holds so many.
    pub fn append(&mut self, held: usize, length: usize, packet: bool) {
        if length == 0 || self.pieces.is_empty() && !packet {
            return;
        }
        if self.pieces.is_empty() && held > 0 {
            let length = held as u32;
            self.pieces.push_back(Piece {
                length,
                packet: false,
            });
        }
        let length = length as u32;
        self.pieces.push_back(Piece { length, packet });
    }

    /// How many bytes a read takes, of at most `wanted`, and how many are lost behind them.
    pub fn take(&mut self, held: usize, wanted: usize) -> (usize, usize) {
        if self.pieces.is_empty() {
            return (held.min(wanted), 0);
        }
        let mut taken = 0;
        while let Some(piece) = self.pieces.front_mut()
            && taken < wanted
        {
            let length = piece.length as usize;
            let now = length.min(wanted - taken);
            taken += now;
            if piece.packet {
                self.pieces.pop_front();
                return (taken, length - now);
            }
            piece.length -= now as u32;
            if piece.length == 0 {
                self.pieces.pop_front();
            }
        }
        if !self.pieces.iter().any(|piece| piece.packet) {
            self.pieces.clear();
        }
        (taken, 0)
    }
}

/// The traits of the pipes that have some.
pub(crate) type Traits = BTreeMap<u32, PipeTraits>;

/// The capacity that `F_SETPIPE_SZ` gives for a wish, where other pipes hold so many bytes together.
pub(crate) fn capacity_for(wish: u64, others: u64) -> Result<u32, Errno> {
    if wish > 1 << 31 {
        return Err(Errno::EINVAL);
    }
    let bytes = wish.max(PIPE_ATOMIC_BYTES as u64).next_power_of_two();
    if bytes > PIPE_BYTES_MAX || others.saturating_add(bytes) > ALL_PIPES_BYTES_MAX {
        return Err(Errno::EPERM);
    }
    Ok(bytes as u32)
}

/// An eventfd.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EventCounter {
    pub value: u64,
    /// A read takes one instead of everything.
    pub semaphore: bool,
    /// Counts changes.
    pub activity: u64,
}
