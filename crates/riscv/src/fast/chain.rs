//! Chains: handlers that go on from step to step, and from block to block.
//!
//! A chain leaves a block for the one that came next when the block last ended so, where that is the
//! right one and may begin. Every call from handler to handler is in tail position, and the optimiser
//! makes a jump of it. Stable Rust does not promise that. It need not: a chain is at most
//! [`BLOCKS_OF_A_CHAIN`], and a block at most 32 instructions in one line plus one closing step, so the
//! stack stays shallow even where every call is a real one.
//!
//! Always true while a chain runs: `hart.pc` and `hart.retired` are those of the block's first
//! instruction; a step knows its own distance from there. The last step of a block makes both exact.

use super::blocks::{Block, BlockCache};
use super::compiled::Kept;
use super::step::Step;
use crate::execute::Trap;
use crate::memory::Memory;
use crate::{Exit, Hart};

/// How a chain of handlers ended. Wide, because a host that merges a byte into the register it
/// had before would make every block wait for what was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum End {
    /// At the instruction behind the block.
    Fallen = 0,
    /// At the target of a jump or a taken branch.
    Jumped = 1,
    /// At an instruction that trapped; see [`Trapped`].
    Trapped = 2,
}

/// The instruction at which a chain trapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trapped {
    /// Why.
    pub(super) trap: Trap,
    /// Instructions of the block before it.
    pub(super) index: u8,
}

/// Blocks that a chain may run before it ends, and with it the stack that it may have taken.
const BLOCKS_OF_A_CHAIN: u32 = 32;

/// What a chain goes by, and what it leaves.
#[derive(Debug)]
pub(super) struct Chain<Hint> {
    blocks: *const Block<Hint>,
    steps: *const Step,
    traces: *const Option<Kept>,
    /// Blocks that it may still begin.
    left: u32,
    /// The block with which it ended.
    pub(super) last: *const Block<Hint>,
    /// The instruction at which, if it is one.
    pub(super) trapped: Trapped,
}

impl<Hint> Chain<Hint> {
    /// One that goes from block to block of `cache`, or from one block alone.
    #[inline(always)]
    pub(super) fn new(cache: &BlockCache<Hint>, alone: bool) -> Self {
        let traces = cache.compiler.as_ref();
        Self {
            blocks: cache.blocks.as_ptr(),
            steps: cache.steps.as_ptr(),
            traces: traces.map_or(std::ptr::null(), |compiler| compiler.traces()),
            left: if alone { 1 } else { BLOCKS_OF_A_CHAIN },
            last: cache.blocks.as_ptr(),
            trapped: Trapped {
                trap: Trap::Illegal,
                index: 0,
            },
        }
    }

    /// Where the blocks are.
    #[inline(always)]
    pub(super) fn blocks(&self) -> *const Block<Hint> {
        self.blocks
    }

    /// Where the traces are.
    #[inline(always)]
    pub(super) fn traces(&self) -> *const Option<Kept> {
        self.traces
    }

    /// A block by its number.
    ///
    /// # Safety
    /// There is one of that number, and nothing changes it while the chain runs.
    #[inline(always)]
    pub(super) unsafe fn block<'a>(&self, number: u32) -> &'a Block<Hint> {
        // SAFETY: the caller's promise.
        unsafe { &*self.blocks.add(number as usize) }
    }

    /// A step of a block.
    ///
    /// # Safety
    /// The block is one of those that this is for, and has a step of that index.
    #[inline(always)]
    pub(super) unsafe fn step(&self, block: &Block<Hint>, index: u8) -> *const Step {
        // SAFETY: the caller's promise.
        unsafe {
            self.steps
                .add(block.first_step as usize + usize::from(index))
        }
    }
}

/// The chain of a hart with that memory.
pub(super) type Course<M> = Chain<<M as Memory>::FetchHint>;
/// A block of it.
pub(super) type Decoded<M> = Block<<M as Memory>::FetchHint>;

/// Takes the step, and the block that it is one of.
pub(super) type Handler<M> =
    unsafe fn(&mut Hart, &mut M, *const Step, &mut Course<M>, &Decoded<M>) -> End;

/// A handler of some memory type. [`super::BlockCache`] knows which, and makes sure of it.
pub(super) type ErasedHandler = unsafe fn();

/// A handler as steps keep it.
pub(super) fn erase<M: Memory>(handler: Handler<M>) -> ErasedHandler {
    // SAFETY: both are pointers to functions; `take` turns it back into what it was before it is called.
    unsafe { std::mem::transmute::<Handler<M>, ErasedHandler>(handler) }
}

/// Runs the chain that begins with `block`.
///
/// # Safety
/// `block` is one of those that `chain` is for. They were all decoded for `M` and are complete: the last
/// step of each is the only one that ends it. Nothing changes them or their steps while the chain runs.
#[inline(always)]
pub(super) unsafe fn run_chain<M: Memory>(
    hart: &mut Hart,
    memory: &mut M,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: a block's first step is one of the steps.
    unsafe { take::<M>(hart, memory, chain.step(block, 0), chain, block) }
}

/// Takes the step at `at` and those behind it.
///
/// # Safety
/// `at` points to a step of `block`; and as [`run_chain`].
#[inline(always)]
pub(super) unsafe fn take<M: Memory>(
    hart: &mut Hart,
    memory: &mut M,
    at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: the caller says that it is a step, and that its handler is one for `M`.
    unsafe {
        let handler = std::mem::transmute::<ErasedHandler, Handler<M>>((*at).handler);
        handler(hart, memory, at, chain, block)
    }
}

/// Goes on with the step behind `at`.
///
/// # Safety
/// As [`take`], and `at` is not the block's last step.
#[inline(always)]
pub(super) unsafe fn proceed<M: Memory>(
    hart: &mut Hart,
    memory: &mut M,
    at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: a step that is not the last has another behind it, of the same block.
    unsafe { take(hart, memory, at.add(1), chain, block) }
}

/// Goes on behind `block`, which ended like `end`, with the block that came next when it last ended so;
/// where that is another one, or may not begin, or is not simply entered, the chain ends.
///
/// # Safety
/// As [`run_chain`].
#[inline(always)]
pub(super) unsafe fn onward<M: Memory>(
    hart: &mut Hart,
    memory: &mut M,
    chain: &mut Course<M>,
    block: &Decoded<M>,
    end: End,
) -> End {
    // SAFETY: links are numbers of blocks, live or dead, for whoever forgets blocks forgets all of them and
    // their links; and the caller's promise.
    unsafe {
        let next = &*chain.blocks.add(block.links[end as usize] as usize);
        chain.left -= 1;
        if chain.left != 0
            && hart.retired < memory.limit()
            && next.entry == hart.pc
            && memory.fetch_again(hart.pc, next.hint, hart.retired)
        {
            return run_chain(hart, memory, chain, next);
        }
    }
    chain.last = block;
    end
}

/// Ends a chain at an instruction of `block` that trapped.
#[cold]
#[inline(never)]
pub(super) fn record<Hint>(
    chain: &mut Chain<Hint>,
    block: &Block<Hint>,
    trap: Trap,
    index: u8,
) -> End {
    chain.last = block;
    chain.trapped = Trapped { trap, index };
    End::Trapped
}

/// The exit for a chain that trapped in a block: makes `pc` and `retired` exact. `bits_of` gives
/// the offset and the bits of the block's instruction of an index.
#[cold]
pub(super) fn leave(hart: &mut Hart, trapped: Trapped, bits_of: impl Fn(u8) -> (u64, u32)) -> Exit {
    let (offset, bits) = bits_of(trapped.index);
    hart.pc = hart.pc.wrapping_add(offset);
    hart.retired += u64::from(trapped.index);
    trapped.trap.exit(bits)
}
