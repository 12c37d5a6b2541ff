//! A pre-decoded instruction, and the handlers that execute it.
//!
//! A handler does its instruction and calls the handler of the next one, in tail position, so that
//! the optimiser makes a jump of it; every instruction thus has its own indirect branch for the
//! host to predict. The last one of a block goes on likewise with the next block: see [`super::chain`].

use super::chain::{Course, Decoded, End, ErasedHandler, Handler, erase, onward, proceed, record};
use crate::Hart;
use crate::encoding::Format;
use crate::execute::{Context, Flow, Trap};
use crate::instruction::Instruction;
use crate::memory::Memory;
use crate::observe::Observed;
use crate::table::{Operation, Semantics, Visitor, visit};
use std::marker::PhantomData;

/// A register number. Being an enumeration it is known to index a register file without a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[rustfmt::skip]
enum Register {
    R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, R11, R12, R13, R14, R15,
    R16, R17, R18, R19, R20, R21, R22, R23, R24, R25, R26, R27, R28, R29, R30, R31,
}

#[rustfmt::skip]
const REGISTERS: [Register; 32] = {
    use Register::{
        R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, R11, R12, R13, R14, R15,
        R16, R17, R18, R19, R20, R21, R22, R23, R24, R25, R26, R27, R28, R29, R30, R31,
    };
    [
        R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, R11, R12, R13, R14, R15,
        R16, R17, R18, R19, R20, R21, R22, R23, R24, R25, R26, R27, R28, R29, R30, R31,
    ]
};

/// One pre-decoded instruction: 16 bytes, four to a host cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Step {
    pub(super) handler: ErasedHandler,
    /// The operation's immediate; see [`Step::new`] for what is folded into it.
    immediate: i32,
    rd: Register,
    rs1: Register,
    rs2: Register,
    /// Instructions of the block before this one.
    index: u8,
}

/// In a step that ends its block, the low bits of the immediate hold the distance in bytes from
/// the block's first instruction to the one behind the block: at most 64, or 4 for a straddling
/// instruction. The immediates of such operations are short enough to make room: a jump's has 21
/// bits.
const END_OFFSET_BITS: u32 = 7;

impl Step {
    /// The step for `instruction`, `offset` bytes and `index` instructions into its block.
    ///
    /// What is relative to `pc` becomes relative to the block's first instruction.
    pub(super) fn new<M: Memory>(instruction: &Instruction, offset: u8, index: u8) -> Self {
        let operation = instruction.operation;
        let mut immediate = instruction.immediate;
        let format = operation.description().format;
        if matches!(format, Format::Branch | Format::Jump) || operation == Operation::Auipc {
            // An upper immediate has its low bits free, so this cannot overflow.
            immediate += i32::from(offset);
        }
        if operation.ends_block() {
            immediate = immediate << END_OFFSET_BITS | i32::from(offset + instruction.length);
        }
        let discards = discards(instruction);
        let handler = if discards && !operation.may_write_x0() && !M::OBSERVES {
            erase::<M>(nothing::<M>)
        } else {
            visit(
                operation,
                HandlerOf::<M> {
                    discards,
                    memory: PhantomData,
                },
            )
        };
        Self {
            handler,
            immediate,
            rd: REGISTERS[usize::from(instruction.rd)],
            rs1: REGISTERS[usize::from(instruction.rs1)],
            rs2: REGISTERS[usize::from(instruction.rs2)],
            index,
        }
    }

    /// The step behind a block's last instruction if that does not end the block by itself.
    pub(super) fn end_of_line<M: Memory>(offset: u8, index: u8) -> Self {
        Self::closing::<M>(fall, i32::from(offset), index)
    }

    /// The step for bits that are no instruction.
    pub(super) fn illegal<M: Memory>(index: u8) -> Self {
        Self::closing::<M>(illegal, 0, index)
    }

    fn closing<M: Memory>(handler: Handler<M>, immediate: i32, index: u8) -> Self {
        let register = Register::R0;
        let handler = erase::<M>(handler);
        Self {
            handler,
            immediate,
            rd: register,
            rs1: register,
            rs2: register,
            index,
        }
    }
}

/// True if an instruction's result goes nowhere.
pub(super) fn discards(instruction: &Instruction) -> bool {
    instruction.rd == 0 && instruction.operation.description().format.writes_integer()
}

/// The handler of an operation. With `DISCARDS`, its destination is `x0`. With `SHORT`, it has no
/// function call in it but the tail call, so that it needs no stack frame; where it cannot go on
/// that way, it becomes the long handler.
///
/// # Safety
/// As [`super::chain::take`].
unsafe fn handle<M: Memory, S: Semantics, const DISCARDS: bool, const SHORT: bool>(
    hart: &mut Hart,
    memory: &mut M,
    at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: the caller's promise.
    unsafe { follow::<M, S, DISCARDS, SHORT, false>(hart, memory, at, chain, block, 0) }
}

/// What [`handle`] does, also for the second of a pair: where that `FORWARDS`, its `rs1` is `forwarded`, the
/// register's value.
///
/// # Safety
/// As [`super::chain::take`].
#[inline(always)]
pub(super) unsafe fn follow<
    M: Memory,
    S: Semantics,
    const DISCARDS: bool,
    const SHORT: bool,
    const FORWARDS: bool,
>(
    hart: &mut Hart,
    memory: &mut M,
    at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
    forwarded: u64,
) -> End {
    // SAFETY: `at` points to a step, and nothing writes steps while a chain runs.
    let step = unsafe { *at };
    let observed = step.observed::<S>();
    if const { M::OBSERVES } {
        let retired = hart.retired + u64::from(step.index);
        memory.begins(observed, retired);
    }
    let mut running = Running::<M, S, SHORT, FORWARDS>::new(hart, memory, step, forwarded);
    let executed = S::execute(&mut running);
    if const { SHORT } && executed == Err(Trap::Detour) {
        // SAFETY: the same step, and the caller's promise.
        return unsafe { take_long::<M, S, DISCARDS>(hart, memory, at, chain, block) };
    }
    if DISCARDS {
        hart.x[0] = 0;
    }
    match executed {
        Ok(Flow::Next) if S::OPERATION.ends_block() => {
            hart.pc = hart.pc.wrapping_add(step.end_offset());
            memory.ends(observed.class, hart.pc, None);
            hart.retired += u64::from(step.index) + 1;
            // SAFETY: the caller's promise.
            unsafe { onward(hart, memory, chain, block, End::Fallen) }
        }
        Ok(Flow::Next) => {
            memory.ends(observed.class, 0, None);
            // SAFETY: the step does not end its block, so it is not the last.
            unsafe { proceed(hart, memory, at, chain, block) }
        }
        Ok(Flow::Jump(target)) => {
            stay_a_branch();
            let behind = hart.pc.wrapping_add(step.end_offset());
            memory.ends(observed.class, behind, Some(target));
            hart.pc = target;
            hart.retired += u64::from(step.index) + 1;
            // SAFETY: the caller's promise.
            unsafe { onward(hart, memory, chain, block, End::Jumped) }
        }
        Err(trap) => record(chain, block, trap, step.index),
    }
}

/// The long handler, kept apart so that the short one stays short.
///
/// # Safety
/// As [`handle`].
#[cold]
#[inline(never)]
pub(super) unsafe fn take_long<M: Memory, S: Semantics, const DISCARDS: bool>(
    hart: &mut Hart,
    memory: &mut M,
    at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: the caller's promise.
    unsafe { handle::<M, S, DISCARDS, false>(hart, memory, at, chain, block) }
}

/// The handler of what computes a value for `x0`.
///
/// # Safety
/// As [`proceed`].
unsafe fn nothing<M: Memory>(
    hart: &mut Hart,
    memory: &mut M,
    at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: the caller's promise.
    unsafe { proceed(hart, memory, at, chain, block) }
}

/// The handler of [`Step::end_of_line`].
///
/// # Safety
/// As [`super::chain::take`].
#[inline(always)]
pub(super) unsafe fn fall<M: Memory>(
    hart: &mut Hart,
    memory: &mut M,
    at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: the caller's promise.
    let step = unsafe { *at };
    hart.pc = hart.pc.wrapping_add(step.immediate as u64);
    hart.retired += u64::from(step.index);
    // SAFETY: the caller's promise.
    unsafe { onward(hart, memory, chain, block, End::Fallen) }
}

/// The handler of [`Step::illegal`].
///
/// # Safety
/// As [`super::chain::take`].
unsafe fn illegal<M: Memory>(
    _hart: &mut Hart,
    _memory: &mut M,
    at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: the caller's promise.
    let step = unsafe { *at };
    record(chain, block, Trap::Illegal, step.index)
}

/// Keeps the optimiser from computing with a guest branch's condition where the host should
/// predict it. Otherwise the next block's address waits for the guest's registers, from block to
/// block, which made short blocks take twice the time.
#[inline(always)]
fn stay_a_branch() {
    #[cfg(not(miri))]
    // SAFETY: no instructions, no operands, no effects.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// Finds the handler of an operation.
struct HandlerOf<M> {
    discards: bool,
    memory: PhantomData<M>,
}

impl<M: Memory> Visitor for HandlerOf<M> {
    type Output = ErasedHandler;

    fn visit<S: Semantics>(self) -> ErasedHandler {
        if const { S::OPERATION.may_write_x0() || M::OBSERVES } && self.discards {
            return erase::<M>(handle::<M, S, true, false>);
        }
        // What is told of an instruction is told once, so nothing of it may be done over.
        if const { S::OPERATION.may_take_long() && !M::OBSERVES } {
            erase::<M>(handle::<M, S, false, true>)
        } else {
            erase::<M>(handle::<M, S, false, false>)
        }
    }
}

/// One step under execution.
pub(super) struct Running<'a, M, S, const SHORT: bool, const FORWARDS: bool> {
    hart: &'a mut Hart,
    memory: &'a mut M,
    step: Step,
    /// If it `FORWARDS`, the value of `rs1`.
    forwarded: u64,
    /// What it has written to `rd`, if anything.
    pub(super) written: u64,
    semantics: PhantomData<S>,
}

impl<'a, M, S, const SHORT: bool, const FORWARDS: bool> Running<'a, M, S, SHORT, FORWARDS> {
    #[inline(always)]
    pub(super) fn new(hart: &'a mut Hart, memory: &'a mut M, step: Step, forwarded: u64) -> Self {
        Self {
            hart,
            memory,
            step,
            forwarded,
            written: 0,
            semantics: PhantomData,
        }
    }
}

impl Step {
    /// What a core sees of it.
    #[inline(always)]
    fn observed<S: Semantics>(self) -> Observed {
        let registers = [self.rd as u8, self.rs1 as u8, self.rs2 as u8];
        Observed::of(S::OPERATION, registers, self.immediate)
    }

    #[inline(always)]
    fn end_offset(self) -> u64 {
        (self.immediate & ((1 << END_OFFSET_BITS) - 1)) as u64
    }
}

impl<M: Memory, S: Semantics, const SHORT: bool, const FORWARDS: bool> Context
    for Running<'_, M, S, SHORT, FORWARDS>
{
    type Memory = M;
    const SHORT: bool = SHORT;

    #[inline(always)]
    fn hart(&self) -> &Hart {
        self.hart
    }
    #[inline(always)]
    fn hart_mut(&mut self) -> &mut Hart {
        self.hart
    }
    #[inline(always)]
    fn memory(&mut self) -> &mut M {
        self.memory
    }
    #[inline(always)]
    fn retired(&self) -> u64 {
        self.hart.retired + u64::from(self.step.index)
    }
    #[inline(always)]
    fn rs1_number(&self) -> usize {
        self.step.rs1 as usize
    }
    #[inline(always)]
    fn rs2_number(&self) -> usize {
        self.step.rs2 as usize
    }
    #[inline(always)]
    fn immediate(&self) -> u64 {
        if S::OPERATION.ends_block() {
            (self.step.immediate >> END_OFFSET_BITS) as u64
        } else {
            self.step.immediate as u64
        }
    }
    #[inline(always)]
    fn target(&self) -> u64 {
        self.hart.pc.wrapping_add(self.immediate())
    }
    #[inline(always)]
    fn next_pc(&self) -> u64 {
        self.hart.pc.wrapping_add(self.step.end_offset())
    }
    #[inline(always)]
    fn rs1(&self) -> u64 {
        if FORWARDS {
            self.forwarded
        } else {
            self.hart.x[self.rs1_number()]
        }
    }
    #[inline(always)]
    fn set_rd(&mut self, value: u64) {
        self.written = value;
        self.hart.x[self.step.rd as usize] = value;
    }
    #[inline(always)]
    fn set_fd(&mut self, value: u64) {
        self.hart.f[self.step.rd as usize] = value;
    }
}
