//! Pipes and event counters within the process.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Bytes that a pipe holds.
pub(crate) const PIPE_BYTES: usize = 64 << 10;
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
    pub fn room(&self) -> usize {
        PIPE_BYTES.saturating_sub(self.bytes.len())
    }
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
