//! What a trace is made of: the blocks that ran behind its head, and how often each did.

use super::super::blocks::BlockCache;
use super::super::chain::End;
use super::NO_TRACE;
use crate::memory::Memory;

/// Blocks that are recorded as they run.
const RECORDED: usize = 192;
/// Left alone: it has come to nothing.
pub(super) const NEVER: u16 = u16::MAX;

/// A block that ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) number: u32,
    /// Where the next one begins.
    pub(super) next: u64,
}

/// Blocks as they ran, of which each is behind the one before.
#[derive(Debug, Default)]
pub(super) struct Recording(Vec<Ran>);

impl Recording {
    /// The head, and what came behind it.
    pub(super) fn ran(&self) -> &[Ran] {
        &self.0
    }
}

/// What is done with a block that a chain begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fast) enum Visit {
    /// Nothing.
    Passes,
    /// The chain ends behind it, and it is recorded.
    Recorded,
}

impl<Hint: Copy + Default> BlockCache<Hint> {
    /// A chain is about to begin with a block.
    #[inline(always)]
    pub(in crate::fast) fn visit<M: Memory<FetchHint = Hint>>(
        &mut self,
        number: u32,
        retired: u64,
    ) -> Visit {
        let Some(compiler) = &self.compiler else {
            return Visit::Passes;
        };
        let has_trace = self.blocks[number as usize].trace != NO_TRACE;
        if M::LAYOUT.is_none() || compiler.ledger.rests(retired) && !has_trace {
            return Visit::Passes;
        }
        self.heat::<M>(number, retired)
    }

    #[inline(never)]
    fn heat<M: Memory<FetchHint = Hint>>(&mut self, number: u32, retired: u64) -> Visit {
        let Some(compiler) = &mut self.compiler else {
            return Visit::Passes;
        };
        let block = &mut self.blocks[number as usize];
        if let Some(recording) = &compiler.recording {
            let ran = recording.ran();
            let follows = ran.last().is_none_or(|last| last.next == block.pc());
            if follows && ran.len() < RECORDED {
                return Visit::Recorded;
            }
            self.finish::<M>();
            return Visit::Passes;
        }
        if block.trace != NO_TRACE {
            self.review(number);
            return Visit::Passes;
        }
        if block.heat == NEVER || block.straddles {
            return Visit::Passes;
        }
        let hot = compiler.ledger.pace.hot;
        block.heat = hot.min(block.heat + 1);
        if block.heat < hot || !compiler.may_make(retired) {
            return Visit::Passes;
        }
        compiler.recording = Some(Recording::default());
        Visit::Recorded
    }

    /// The block of a [`Visit::Recorded`] has run, and ended so; the next one begins at `pc`.
    #[inline(never)]
    pub(in crate::fast) fn record<M: Memory<FetchHint = Hint>>(
        &mut self,
        number: u32,
        end: End,
        pc: u64,
    ) {
        let compiler = self.compiler.as_mut();
        let Some(recording) = compiler.and_then(|compiler| compiler.recording.as_mut()) else {
            return;
        };
        if end == End::Trapped {
            self.finish::<M>();
        } else {
            recording.0.push(Ran { number, next: pc });
        }
    }

    fn finish<M: Memory<FetchHint = Hint>>(&mut self) {
        let compiler = self.compiler.as_mut();
        let Some(recording) = compiler.and_then(|compiler| compiler.recording.take()) else {
            return;
        };
        let Some(&Ran { number, .. }) = recording.ran().first() else {
            return;
        };
        if self.compile::<M>(&recording).is_none() {
            self.blocks[number as usize].heat = NEVER;
        }
    }
}
