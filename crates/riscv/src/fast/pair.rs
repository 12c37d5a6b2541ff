//! Pairs: one handler for two instructions in a row.
//!
//! It saves the way from the one to the other, and where the second computes with what the first has just
//! written, it need not wait for it to come back from the register file. The second step keeps the handler
//! that it has by itself: where the first takes long, its long handler goes on there.

use super::chain::{Course, Decoded, End, ErasedHandler, erase};
use super::step::{Running, Step, discards, fall, follow, take_long};
use crate::Hart;
use crate::execute::Trap;
use crate::instruction::Instruction;
use crate::memory::Memory;
use crate::table::{Operation, Semantics, Visitor, semantics};
use std::marker::PhantomData;

/// The handler that does `first` and then `second`, if there is one.
pub(super) fn handler_of<M: Memory>(
    first: &Instruction,
    second: &Instruction,
) -> Option<ErasedHandler> {
    if const { !M::PAIRS } || discards(first) {
        return None;
    }
    let second = Behind {
        operation: second.operation,
        discards: discards(second),
        // Its own number, if it reads no `rs1`, is as good as any other.
        forwards: first.rd != 0 && first.rd == second.rs1,
    };
    leading(first.operation, First::<M>(second, PhantomData))?
}

/// The handler that does `last` and leaves its block behind it, where the line ends, if there is one.
pub(super) fn handler_of_last<M: Memory>(last: &Instruction) -> Option<ErasedHandler> {
    if const { !M::PAIRS } || discards(last) {
        return None;
    }
    leading(last.operation, Last::<M>(PhantomData))
}

/// What is known of the second of a pair.
struct Behind {
    operation: Operation,
    discards: bool,
    /// Its `rs1` is what the first writes.
    forwards: bool,
}

struct First<M>(Behind, PhantomData<M>);

impl<M: Memory> Visitor for First<M> {
    type Output = Option<ErasedHandler>;

    fn visit<F: Semantics>(self) -> Self::Output {
        following(self.0.operation, Second::<M, F>(self.0, PhantomData))?
    }
}

struct Second<M, F>(Behind, PhantomData<(M, F)>);

impl<M: Memory, F: Semantics> Visitor for Second<M, F> {
    type Output = Option<ErasedHandler>;

    fn visit<S: Semantics>(self) -> Self::Output {
        let Behind {
            discards, forwards, ..
        } = self.0;
        // Stores write no register, and a jump alone is made also where its result goes nowhere.
        let writes = const { F::OPERATION.description().format.writes_integer() };
        let jumps = const { S::OPERATION.may_write_x0() && S::OPERATION.ends_block() };
        match (discards, forwards) {
            (false, false) => Some(short::<M, F, S, false, false>()),
            (false, true) if writes => Some(short::<M, F, S, false, true>()),
            (true, _) if jumps => Some(short::<M, F, S, true, false>()),
            _ => None,
        }
    }
}

fn short<M: Memory, F: Semantics, S: Semantics, const DISCARDS: bool, const FORWARDS: bool>()
-> ErasedHandler {
    if const { S::OPERATION.may_take_long() } {
        erase::<M>(pair::<M, F, S, DISCARDS, FORWARDS, true>)
    } else {
        erase::<M>(pair::<M, F, S, DISCARDS, FORWARDS, false>)
    }
}

struct Last<M>(PhantomData<M>);

impl<M: Memory> Visitor for Last<M> {
    type Output = ErasedHandler;

    fn visit<F: Semantics>(self) -> ErasedHandler {
        erase::<M>(last::<M, F>)
    }
}

/// Hands the semantics of `operation`, if it is one of the named, to `visitor`. The compiler looks at all
/// that a visitor names for whatever operation it may be asked, hence lists of them, and not conditions.
macro_rules! among {
    ($operation:ident, $visitor:ident, [$($name:ident)*], else $otherwise:expr) => {
        match $operation {
            $(Operation::$name => Some($visitor.visit::<semantics::$name>()),)*
            _ => $otherwise,
        }
    };
}

/// What may be the first of a pair: what programs do most, of what does not end a block.
fn leading<V: Visitor>(operation: Operation, visitor: V) -> Option<V::Output> {
    among!(operation, visitor, [
        Addi Add Addiw Addw Sub Slli Srli And Andi Or Xor Lui Auipc
        Ld Lw Sd Sw
    ], else None)
}

/// What may be the second of one.
fn following<V: Visitor>(operation: Operation, visitor: V) -> Option<V::Output> {
    among!(operation, visitor, [
        Lbu Sb
        Beq Bne Blt Bge Bltu Bgeu Jal Jalr
    ], else leading(operation, visitor))
}

/// Does the step at `at`, the first of two. What it has written, or how the chain ended.
///
/// # Safety
/// As [`super::chain::take`], and the step is one of `F`.
#[inline(always)]
unsafe fn lead<M: Memory, F: Semantics>(
    hart: &mut Hart,
    memory: &mut M,
    at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> Result<u64, End> {
    // SAFETY: `at` points to a step, and nothing writes steps while a chain runs.
    let step = unsafe { *at };
    let mut running = Running::<M, F, true, false>::new(hart, memory, step, 0);
    let executed = F::execute(&mut running);
    let written = running.written;
    if const { F::OPERATION.may_take_long() } && executed == Err(Trap::Detour) {
        // SAFETY: the same step, and the caller's promise.
        return Err(unsafe { take_long::<M, F, false>(hart, memory, at, chain, block) });
    }
    // What leads does not end a block, and neither traps nor jumps.
    Ok(written)
}

/// The handler of a pair. `DISCARDS` and `SHORT` are the second's, and if it `FORWARDS`, it takes its `rs1`
/// from the first.
///
/// # Safety
/// As [`super::chain::take`], the step is one of `F`, and there is one of `S` behind it.
unsafe fn pair<
    M: Memory,
    F: Semantics,
    S: Semantics,
    const DISCARDS: bool,
    const FORWARDS: bool,
    const SHORT: bool,
>(
    hart: &mut Hart,
    memory: &mut M,
    at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: the caller's promise.
    unsafe {
        match lead::<M, F>(hart, memory, at, chain, block) {
            Ok(written) => follow::<M, S, DISCARDS, SHORT, FORWARDS>(
                hart,
                memory,
                at.add(1),
                chain,
                block,
                written,
            ),
            Err(end) => end,
        }
    }
}

/// The handler of a line's last instruction, which does not end its block by itself, and of the block's end.
///
/// # Safety
/// As [`super::chain::take`], the step is one of `F`, and there is one of [`Step::end_of_line`] behind it.
unsafe fn last<M: Memory, F: Semantics>(
    hart: &mut Hart,
    memory: &mut M,
    at: *const Step,
    chain: &mut Course<M>,
    block: &Decoded<M>,
) -> End {
    // SAFETY: the caller's promise.
    unsafe {
        match lead::<M, F>(hart, memory, at, chain, block) {
            Ok(_) => fall(hart, memory, at.add(1), chain, block),
            Err(end) => end,
        }
    }
}
