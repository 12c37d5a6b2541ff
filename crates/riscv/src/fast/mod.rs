//! The fast engine: blocks of pre-decoded instructions, linked to each other.
//!
//! It does exactly what the plain engine does (see [`crate::plain`] for what a block is), and calls
//! memory at the same places with the same arguments; where the plain engine calls
//! [`Memory::fetch`], this one calls [`Memory::fetch_again`] first.

mod blocks;
mod chain;
mod compiled;
mod pair;
mod step;

use crate::{Exit, Hart, Memory};
pub use blocks::BlockCache;
use blocks::NONE;
use chain::{Chain, End, leave, run_chain};
pub use compiled::Pace;
use compiled::{Visit, run_steps};

/// Runs `hart` until something stops it, keeping what it decodes in `blocks`. See [`Exit`] for
/// the state that it is left in. `blocks` belongs to this hart; if it was used with another type
/// of memory before, it starts empty.
pub fn run<M: Memory>(
    hart: &mut Hart,
    memory: &mut M,
    blocks: &mut BlockCache<M::FetchHint>,
) -> Exit {
    hart.pc &= !1;
    blocks.claim(typeid::of::<M>());
    // The block that ran last, how it ended, and the guess for what follows.
    let (mut last, mut end, mut next) = (NONE, End::Fallen, blocks.awaited);
    loop {
        if hart.retired >= memory.limit() {
            blocks.awaited = next;
            return Exit::Limit;
        }
        let guess = &blocks.blocks[next as usize];
        let found = guess.begins_at(hart.pc);
        let fetched = found && memory.fetch_again(hart.pc, guess.hint, hart.retired);
        let complete = fetched
            && (!guess.straddles || {
                let second_line = hart.pc.wrapping_add(2);
                memory.fetch_again(second_line, guess.second_hint, hart.retired)
            });
        let number = if complete {
            next
        } else {
            let entered = match (found, fetched) {
                (false, _) => blocks.enter(hart.pc, memory, hart.retired),
                (true, false) => blocks.enter_fetched_anew(next, memory, hart.retired),
                (true, true) => blocks.enter_second_fetched_anew(next, memory, hart.retired),
            };
            match entered {
                Ok(number) => {
                    link(blocks, last, end, number);
                    number
                }
                Err(fault) => return Exit::Fault(fault),
            }
        };
        let recorded = blocks.visit::<M>(number, hart.retired) == Visit::Recorded;
        let mut chain = Chain::new(blocks, recorded);
        let block = &blocks.blocks[number as usize];
        // SAFETY: `claim` made sure that every step is one for `M`; a block is decoded completely
        // before it is inserted, its last step alone ends it, and blocks and steps stay as they are
        // as long as `blocks` is borrowed here.
        end = unsafe {
            if recorded {
                run_steps(hart, memory, &mut chain, block)
            } else {
                run_chain(hart, memory, &mut chain, block)
            }
        };
        last = blocks.number_of(chain.last);
        if recorded {
            blocks.record::<M>(number, end, hart.pc);
        }
        let block = &blocks.blocks[last as usize];
        next = match end {
            End::Fallen | End::Jumped => block.links[end as usize],
            End::Trapped => return leave(hart, chain.trapped, |index| block.instruction(index)),
        };
    }
}

/// Notes that block `to` came next when block `from` ended like `end`.
fn link<Hint: Copy + Default>(blocks: &mut BlockCache<Hint>, from: u32, end: End, to: u32) {
    // `from` may be a number from before everything was forgotten: then it is a guess like any
    // other, or there is no such block.
    if let Some(block) = blocks.blocks.get_mut(from as usize) {
        block.links[end as usize % 2] = to;
    }
}
