//! Pairs: one handler for two instructions in a row.
//!
//! It saves the way from the one to the other, and where the second computes with what the first has just
//! written, it need not wait for it to come back from the register file. The second step keeps the handler
//! that it has by itself: where the first takes long, its long handler goes on there.

use super::chain::{Course, Decoded, End, ErasedHandler, erase};
use super::step::{Running, follow, take_long};
use crate::Hart;
use crate::execute::Trap;
use crate::instruction::Instruction;
use crate::memory::Memory;
use crate::table::{Operation, Semantics, Visitor, visit};
use std::marker::PhantomData;

/// The handler that does `first` and then `second`, if there is one. Neither writes `x0`.
pub(super) fn handler_of<M: Memory>(
    first: &Instruction,
    second: &Instruction,
) -> Option<ErasedHandler> {
    let discards = |instruction: &Instruction| {
        let format = instruction.operation.description().format;
        instruction.rd == 0 && format.writes_integer()
    };
    if !M::PAIRS || discards(first) || discards(second) {
        return None;
    }
    let forwards = first.rd == second.rs1;
    let second = second.operation;
    visit(
        first.operation,
        First::<M> {
            second,
            forwards,
            memory: PhantomData,
        },
    )
}

struct First<M> {
    second: Operation,
    forwards: bool,
    memory: PhantomData<M>,
}

impl<M: Memory> Visitor for First<M> {
    type Output = Option<ErasedHandler>;

    fn visit<S: Semantics>(self) -> Self::Output {
        if const { M::PAIRS && leads(S::OPERATION) } {
            let forwards = self.forwards;
            visit(
                self.second,
                Second::<M, S> {
                    forwards,
                    first: PhantomData,
                },
            )
        } else {
            None
        }
    }
}

struct Second<M, F> {
    forwards: bool,
    first: PhantomData<(M, F)>,
}

impl<M: Memory, F: Semantics> Visitor for Second<M, F> {
    type Output = Option<ErasedHandler>;

    fn visit<S: Semantics>(self) -> Self::Output {
        if const { follows(S::OPERATION) } {
            Some(if self.forwards {
                short::<M, F, S, true>()
            } else {
                short::<M, F, S, false>()
            })
        } else {
            None
        }
    }
}

fn short<M: Memory, F: Semantics, S: Semantics, const FORWARDS: bool>() -> ErasedHandler {
    if const { S::OPERATION.may_take_long() } {
        erase::<M>(pair::<M, F, S, FORWARDS, true>)
    } else {
        erase::<M>(pair::<M, F, S, FORWARDS, false>)
    }
}

/// What may be the first of a pair: what programs do most, of what does not end a block.
const fn leads(operation: Operation) -> bool {
    use Operation::{
        Add, Addi, Addiw, Addw, And, Andi, Auipc, Ld, Lui, Lw, Or, Slli, Srli, Sub, Xor,
    };
    matches!(
        operation,
        Addi | Add
            | Addiw
            | Addw
            | Sub
            | Slli
            | Srli
            | And
            | Andi
            | Or
            | Xor
            | Lui
            | Auipc
            | Ld
            | Lw
    )
}

/// What may be the second of one.
const fn follows(operation: Operation) -> bool {
    use Operation::{Beq, Bge, Bgeu, Blt, Bltu, Bne, Jal, Lbu, Sb, Sd, Sw};
    leads(operation)
        || matches!(
            operation,
            Lbu | Sd | Sw | Sb | Beq | Bne | Blt | Bge | Bltu | Bgeu | Jal
        )
}

/// The handler of a pair whose second has the short handler `SHORT`, and takes its `rs1` from the first if it
/// `FORWARDS`.
///
/// # Safety
/// As [`super::chain::take`], and there is a step of `S` behind the one at `at`.
unsafe fn pair<M: Memory, F: Semantics, S: Semantics, const FORWARDS: bool, const SHORT: bool>(
    hart: &mut Hart,
    memory: &mut M,
    at: *const super::step::Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: `at` points to a step, and nothing writes steps while a chain runs.
    let step = unsafe { *at };
    let mut running = Running::<M, F, true, false>::new(hart, memory, step, 0);
    let executed = F::execute(&mut running);
    let written = running.written;
    if const { F::OPERATION.may_take_long() } && executed == Err(Trap::Detour) {
        // SAFETY: the same step, and the caller's promise.
        return unsafe { take_long::<M, F, false>(hart, memory, at, chain, block) };
    }
    // SAFETY: the caller says that a step of `S` follows. What leads a pair does not end a block, and neither
    // traps nor jumps.
    unsafe {
        follow::<M, S, false, SHORT, FORWARDS>(hart, memory, at.add(1), chain, block, written)
    }
}
