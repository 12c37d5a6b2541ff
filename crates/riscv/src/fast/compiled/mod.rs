//! Traces: paths through blocks that a program takes often, compiled into the host's code.
//!
//! A block that is often met where a chain begins is the head of a trace. What comes behind it is recorded,
//! block by block as it runs; if it stays with the head, the blocks that ran most often, and the ways between
//! them, are compiled. A trace is then a handler like any other: that of its head's first step
//! ([`run_trace`]). It does what the steps would have done, hits in memory included ([`crate::Layout`]), and
//! calls the memory for what does not hit. It is left for a step that it cannot do, behind a block whose way
//! leads out of it, and before one whose line has to be fetched anew; from there the handlers go on.
//!
//! Always true here: a trace charges each block's fetch where it begins, and looks whether its line is still
//! there; it compares the limit there, too. Nothing that it does changes a block. A block that is forgotten
//! takes its traces with it.

mod accesses;
mod arithmetic;
mod code;
mod helpers;
mod ledger;
mod recording;
mod region;
mod translate;

use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::blocks::{Block, BlockCache};
use super::chain::{
    Chain, Course, Decoded, End, ErasedHandler, Handler, erase, onward, record, run_chain, take,
};
use super::step::Step;
use crate::Hart;
use crate::execute::Trap;
use crate::memory::Memory;
use code::{Code, Generator};
use helpers::{Frame, Helpers};
use ledger::Ledger;
use recording::Recording;
use region::Region;

pub use ledger::Pace;
use recording::NEVER;
pub(super) use recording::Visit;

/// The number of no trace.
pub(super) const NO_TRACE: u16 = 0;
/// Traces that are kept; then no more are made until all blocks are forgotten.
const TRACES_MAX: usize = 4096;

/// Where a trace was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exit {
    /// The block.
    block: u32,
    to: To,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// Before the instruction of that index: `pc` and `retired` are those of the block's first.
    Step(u8),
    /// At the instruction of that index, whose access was refused.
    Trap(u8),
    /// Behind the block: `pc` and `retired` are exact.
    End(End),
    /// Before the block, whose line has to be fetched anew: `pc` and `retired` are exact.
    Begin,
}

/// A compiled trace. It names blocks and steps by their places, and knows nothing else of whoever has them:
/// copies of a cache share it.
#[derive(Debug)]
struct Trace {
    code: Code,
    /// By what the code returns.
    exits: Box<[Exit]>,
    /// What its head's first step did before.
    first: ErasedHandler,
    /// The blocks that it goes through.
    blocks: Box<[u32]>,
}

/// A trace of a cache's.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    trace: Arc<Trace>,
    /// How often it was entered, and how many instructions it retired.
    entered: Cell<u64>,
    retired: Cell<u64>,
}

/// How often a trace is entered until it is looked at again.
const TRIAL: u64 = 256;
/// How many instructions have to be retired in a trace to pay for one way in and out.
const WAY: u64 = 100;

impl Kept {
    /// Instructions that were retired in it, beside those that pay for the ways in and out.
    fn paid(&self) -> u64 {
        self.retired.get().saturating_sub(self.entered.get() * WAY)
    }

    fn is_worthless(&self) -> bool {
        self.entered.get() >= TRIAL && self.paid() == 0
    }
}

/// What makes traces, and those that it has made.
#[derive(Debug)]
pub(super) struct Compiler {
    /// Made when it is first needed: copies of a machine are many, and most compile nothing.
    generator: Option<Generator>,
    ledger: Ledger,
    /// By number, less one.
    traces: Vec<Option<Kept>>,
    recording: Option<Recording>,
}

impl Clone for Compiler {
    fn clone(&self) -> Self {
        Self {
            generator: None,
            ledger: self.ledger,
            traces: self.traces.clone(),
            recording: None,
        }
    }
}

// Who catches a panic finds traces as they were: they change as a whole, but for two counts.
impl UnwindSafe for Compiler {}
impl RefUnwindSafe for Compiler {}

impl Compiler {
    /// None on a host for which it makes no code.
    pub(super) fn new(pace: Pace) -> Option<Box<Self>> {
        code::RUNS_HERE.then(|| {
            Box::new(Self {
                generator: None,
                ledger: Ledger::new(pace),
                traces: Vec::new(),
                recording: None,
            })
        })
    }

    /// How many it has made.
    pub(super) fn made(&self) -> u64 {
        self.ledger.made()
    }

    /// Where the traces are.
    #[inline(always)]
    pub(super) fn traces(&self) -> *const Option<Kept> {
        self.traces.as_ptr()
    }

    /// Forgets all of them, with all blocks.
    pub(super) fn flush(&mut self) {
        for kept in self.traces.drain(..).flatten() {
            self.ledger.gone(kept.paid());
        }
        self.recording = None;
    }

    /// Whether another trace is worth its making, when the hart has retired so many instructions.
    fn may_make(&mut self, retired: u64) -> bool {
        let traces = &self.traces;
        let paid = || traces.iter().flatten().map(Kept::paid).sum();
        self.ledger.allows(retired, paid)
    }
}

impl<Hint: Copy + Default> BlockCache<Hint> {
    /// A block is forgotten that traces go through: they are, too.
    #[cold]
    pub(super) fn forget_traces_of(&mut self, number: u32) {
        let Some(compiler) = &mut self.compiler else {
            return;
        };
        compiler.recording = None;
        for place in &mut compiler.traces {
            let Some(kept) = place.take_if(|kept| kept.trace.blocks.contains(&number)) else {
                continue;
            };
            compiler.ledger.gone(kept.paid());
            let head = &mut self.blocks[kept.trace.blocks[0] as usize];
            head.trace = NO_TRACE;
            self.steps[head.first_step as usize].handler = kept.trace.first;
        }
    }

    /// Takes a trace from its head, if it is entered often and left soon.
    fn review(&mut self, number: u32) {
        let head = &mut self.blocks[number as usize];
        let Some(compiler) = &mut self.compiler else {
            return;
        };
        let place = &mut compiler.traces[usize::from(head.trace) - 1];
        if let Some(kept) = place.take_if(|kept| kept.is_worthless()) {
            compiler.ledger.gone(kept.paid());
            head.trace = NO_TRACE;
            head.heat = NEVER;
            self.steps[head.first_step as usize].handler = kept.trace.first;
        }
    }

    /// Compiles what was recorded, if it can be and is worth it. The trace's head is the first that was.
    #[cold]
    #[inline(never)]
    fn compile<M: Memory<FetchHint = Hint>>(&mut self, recording: &Recording) -> Option<()> {
        let compiler = self.compiler.as_mut()?;
        if compiler.traces.len() == TRACES_MAX {
            return None;
        }
        let region = Region::new(&self.blocks, recording)?;
        if compiler.generator.is_none() {
            compiler.generator = Generator::new();
        }
        let generator = compiler.generator.as_mut()?;
        compiler.ledger.made_one(); // Or tried to: that takes as long.
        let (code, exits) = generator.trace::<Hint>(&region, M::LAYOUT?, &Helpers::new::<M>())?;
        let numbers: Box<[u32]> = region.nodes.iter().map(|node| node.number).collect();
        for &number in &numbers {
            self.blocks[number as usize].traced = true;
        }
        let head = &mut self.blocks[numbers[0] as usize];
        let step = &mut self.steps[head.first_step as usize];
        let first = std::mem::replace(&mut step.handler, erase::<M>(run_trace::<M>));
        let trace = Trace {
            code,
            exits,
            first,
            blocks: numbers,
        };
        compiler.traces.push(Some(Kept {
            trace: Arc::new(trace),
            entered: Cell::new(0),
            retired: Cell::new(0),
        }));
        head.trace = compiler.traces.len() as u16;
        Some(())
    }
}

/// The handler of a trace's head: runs the trace, and goes on where it was left.
///
/// # Safety
/// As [`take`], and `at` is the first step of a block that has a trace.
unsafe fn run_trace<M: Memory>(
    hart: &mut Hart,
    memory: &mut M,
    _at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    let mut frame = Frame {
        direct: memory.direct(),
        faulted: 0,
        fault: None,
    };
    // SAFETY: the block has a trace, which lives as long as the block, and was compiled for `M`; what it
    // returns is the number of one of its exits, which name blocks and steps that live as long.
    unsafe {
        let kept = trace_of(chain, block);
        let run: TraceCode<M> = std::mem::transmute(kept.trace.code.start());
        let before = hart.retired;
        let left = run(hart, &raw mut frame, chain.blocks(), memory);
        let retired = hart.retired - before;
        kept.entered.set(kept.entered.get() + 1);
        kept.retired.set(kept.retired.get() + retired);
        let exit = kept.trace.exits.get_unchecked(left as usize);
        let block = chain.block(exit.block);
        match exit.to {
            To::End(end) => onward(hart, memory, chain, block, end),
            To::Trap(index) => {
                let fault = frame.fault.expect("an access was refused");
                record(chain, block, Trap::Fault(fault), index)
            }
            To::Begin => {
                chain.last = chain.blocks(); // Nobody's guess.
                End::Fallen
            }
            To::Step(0) => run_steps(hart, memory, chain, block),
            To::Step(index) => take(hart, memory, chain.step(block, index), chain, block),
        }
    }
}

/// Runs a chain that begins with `block`, whose own steps are taken even if it has a trace.
///
/// # Safety
/// As [`run_chain`].
#[inline]
pub(super) unsafe fn run_steps<M: Memory>(
    hart: &mut Hart,
    memory: &mut M,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: the caller's promise; a trace's head has a first step, whose handler is one for `M`.
    unsafe {
        if block.trace == NO_TRACE {
            return run_chain(hart, memory, chain, block);
        }
        let first: Handler<M> = std::mem::transmute(trace_of(chain, block).trace.first);
        first(hart, memory, chain.step(block, 0), chain, block)
    }
}

/// # Safety
/// The block is one of those that `chain` is for, and has a trace.
#[inline(always)]
unsafe fn trace_of<Hint>(chain: &Chain<Hint>, block: &Block<Hint>) -> &'static Kept {
    // SAFETY: the caller's promise; whoever forgets a trace takes its number from its head.
    unsafe {
        let place = &*chain.traces().add(usize::from(block.trace) - 1);
        place.as_ref().unwrap_unchecked()
    }
}

/// A trace as the host's code.
type TraceCode<M> = unsafe extern "C" fn(*mut Hart, *mut Frame, *const Decoded<M>, *mut M) -> u64;
