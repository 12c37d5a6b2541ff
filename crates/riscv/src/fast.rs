//! The fast engine.
use crate::{Exit, Hart, Memory};

/// The decoded blocks of one hart.
#[derive(Debug, Default)]
pub struct BlockCache<Hint> {
    hints: Vec<Hint>,
}

impl<Hint: Copy + Default> BlockCache<Hint> {
    /// An empty cache.
    pub fn new() -> Self {
        Self { hints: Vec::new() }
    }

    /// Forgets every block.
    pub fn flush(&mut self) {
        self.hints.clear();
    }

    /// Forgets the blocks that hold a byte of `addresses`.
    pub fn flush_range(&mut self, _addresses: std::ops::Range<u64>) {
        self.hints.clear();
    }
}

/// Runs `hart` until something stops it, keeping what it decodes in `blocks`.
pub fn run<M: Memory>(
    _hart: &mut Hart,
    _memory: &mut M,
    _blocks: &mut BlockCache<M::FetchHint>,
) -> Exit {
    Exit::Limit
}
