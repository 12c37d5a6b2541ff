//! The plain engine: fetch, decode, `match`, one instruction at a time. It is the reference that
//! the fast engine is tested against, and keeps nothing between instructions but the line that
//! was fetched when their block began.
//!
//! # Blocks
//! Where a block begins, the limit is compared and the instruction cache is charged; inside a
//! block neither happens. A block begins when the engine is entered, behind every operation for
//! which [`Operation::ends_block`](crate::Operation::ends_block) holds (taken or not), and at every
//! 64-byte line. An instruction that straddles two lines is a block of its own, for which both
//! lines are fetched, the lower one first.

use crate::execute::{Context, Flow, Trap};
use crate::instruction::{Bits, Instruction, LINE_BYTES, bits_at, join};
use crate::memory::{Fault, Memory};
use crate::observe::Observed;
use crate::table::{Semantics, Visitor, visit};
use crate::{Exit, Hart};

/// Runs `hart` until something stops it. See [`Exit`] for the state that it is left in.
pub fn run<M: Memory>(hart: &mut Hart, memory: &mut M) -> Exit {
    hart.pc &= !1;
    loop {
        if hart.retired >= memory.limit() {
            return Exit::Limit;
        }
        if let Err(exit) = run_block(hart, memory, u64::MAX) {
            return exit;
        }
    }
}

/// Runs the block that begins at `pc`, but at most so many instructions of it: for whoever wants to look at
/// a hart inside a block. A hart that was stopped there must not go on: the engines would take what is left
/// for a block of its own, and charge it as one.
pub fn run_part<M: Memory>(hart: &mut Hart, memory: &mut M, instructions: u64) -> Exit {
    hart.pc &= !1;
    match run_block(hart, memory, instructions) {
        Ok(()) => Exit::Limit,
        Err(exit) => exit,
    }
}

fn run_block<M: Memory>(hart: &mut Hart, memory: &mut M, instructions: u64) -> Result<(), Exit> {
    let end = hart.retired.saturating_add(instructions);
    let line = *memory
        .fetch(hart.pc, hart.retired)
        .map_err(Exit::Fault)?
        .bytes;
    let mut offset = hart.pc % LINE_BYTES;
    if let Bits::Straddling(first) = bits_at(&line, offset as usize) {
        let bits = fetch_second_half(hart, memory, first).map_err(Exit::Fault)?;
        execute(hart, memory, bits)?;
        return Ok(());
    }
    while let Bits::Whole(bits) = bits_at(&line, offset as usize)
        && hart.retired < end
    {
        let executed = execute(hart, memory, bits)?;
        offset += u64::from(executed.length);
        if executed.operation.ends_block() || offset == LINE_BYTES {
            break;
        }
    }
    Ok(())
}

fn fetch_second_half<M: Memory>(hart: &Hart, memory: &mut M, first: u16) -> Result<u32, Fault> {
    let second_line = memory.fetch(hart.pc.wrapping_add(2), hart.retired)?.bytes;
    Ok(join(
        first,
        u16::from_le_bytes([second_line[0], second_line[1]]),
    ))
}

/// Decodes and executes one instruction, and retires it.
fn execute<M: Memory>(hart: &mut Hart, memory: &mut M, bits: u32) -> Result<Instruction, Exit> {
    let instruction = Instruction::decode(bits).ok_or(Exit::Illegal { bits })?;
    let observed = M::OBSERVES.then(|| Observed::new(&instruction));
    if let Some(observed) = observed {
        memory.begins(observed, hart.retired);
    }
    let step = Step {
        hart,
        memory,
        instruction,
    };
    let flow = visit(instruction.operation, step).map_err(|trap| trap.exit(bits))?;
    let behind = hart.pc.wrapping_add(u64::from(instruction.length));
    let target = match flow {
        Flow::Next => None,
        Flow::Jump(target) => Some(target),
    };
    if let Some(Observed { class, .. }) = observed {
        memory.ends(class, behind, target);
    }
    hart.pc = target.unwrap_or(behind);
    hart.retired += 1;
    Ok(instruction)
}

/// One instruction under execution; `hart.pc` is its address.
struct Step<'a, M> {
    hart: &'a mut Hart,
    memory: &'a mut M,
    instruction: Instruction,
}

impl<M: Memory> Visitor for Step<'_, M> {
    type Output = Result<Flow, Trap>;

    #[inline(always)]
    fn visit<S: Semantics>(mut self) -> Self::Output {
        S::execute(&mut self)
    }
}

impl<M: Memory> Context for Step<'_, M> {
    type Memory = M;
    const SHORT: bool = false;

    fn hart(&self) -> &Hart {
        self.hart
    }
    fn hart_mut(&mut self) -> &mut Hart {
        self.hart
    }
    fn memory(&mut self) -> &mut M {
        self.memory
    }
    fn retired(&self) -> u64 {
        self.hart.retired
    }
    fn rs1_number(&self) -> usize {
        usize::from(self.instruction.rs1)
    }
    fn rs2_number(&self) -> usize {
        usize::from(self.instruction.rs2)
    }
    fn immediate(&self) -> u64 {
        self.instruction.immediate as u64
    }
    fn target(&self) -> u64 {
        self.hart.pc.wrapping_add(self.immediate())
    }
    fn next_pc(&self) -> u64 {
        self.hart
            .pc
            .wrapping_add(u64::from(self.instruction.length))
    }
    fn set_rd(&mut self, value: u64) {
        if self.instruction.rd != 0 {
            self.hart.x[usize::from(self.instruction.rd)] = value;
        }
    }
    fn set_fd(&mut self, value: u64) {
        self.hart.f[usize::from(self.instruction.rd)] = value;
    }
}
