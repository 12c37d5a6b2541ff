//! Call stacks: from where a program flushes and fences, for the schedule that cuts once for each of them.
//!
//! A stack is where the hart stands, and the words above its stack pointer that point behind a call in
//! executable memory. That needs neither debug information nor frame pointers. A word that an earlier call
//! left there counts like one of today; that makes more stacks, and never one too few.
//!
//! Always true here: looking changes nothing.

use std::collections::BTreeSet;

use perdure_designs::Design;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, line_of};
use perdure_hardware::policy::Policy;
use perdure_linux::{Kernel, PAGE_BYTES, SpaceId};
use perdure_riscv::Access;
use xxhash_rust::xxh3::xxh3_64;

use super::survey::Persisting;
use crate::error::Error;
use crate::machine::{Machine, Pause};

/// How far up a stack is looked, and how many callers count.
const WORDS: u64 = 2048;
const CALLERS: usize = 24;

/// Of persist operations and fences, in the order of their times, the first from each call stack. The machine
/// is at its beginning.
pub(super) fn first_of_each<D: Design>(
    machine: &mut Machine<D>,
    persisting: Vec<Persisting>,
    interrupted: impl Fn() -> Result<(), Error>,
) -> Result<Vec<Persisting>, Error> {
    let mut known = BTreeSet::new();
    let mut first = Vec::new();
    for one in persisting {
        while let Pause::EpochEnded(_) = machine.run(one.at)? {}
        interrupted()?;
        if known.insert((one.fences, stack(machine, one.hart))) {
            first.push(one);
        }
    }
    Ok(first)
}

/// A digest of a hart's call stack; none while it runs nothing.
fn stack<D: Design>(machine: &Machine<D>, hart: usize) -> Option<u64> {
    let context = machine.contexts().nth(hart)?;
    let memory = Memory {
        hardware: &machine.hardware,
        design: &machine.design,
        kernel: machine.kernel(),
        space: context.running?.space,
    };
    let registers = &context.hart;
    let stack_pointer = registers.x[2] & !7;
    let above = (0..WORDS).map_while(|word| memory.word(stack_pointer + 8 * word));
    let callers = above
        .filter(|&word| memory.is_behind_call(word))
        .take(CALLERS);
    let places: Vec<u8> = [registers.pc, registers.x[1]]
        .into_iter()
        .chain(callers)
        .flat_map(u64::to_le_bytes)
        .collect();
    Some(xxh3_64(&places))
}

/// What a program has in memory.
struct Memory<'a> {
    hardware: &'a Hardware,
    design: &'a dyn Policy,
    kernel: &'a Kernel,
    space: SpaceId,
}

impl Memory<'_> {
    /// Some bytes within a line, if they may be accessed so.
    fn bytes<const N: usize>(&self, address: u64, access: Access) -> Option<[u8; N]> {
        let frame = self.kernel.translate(self.space, address, access)?;
        let physical = frame.physical_frame * PAGE_BYTES + address % PAGE_BYTES;
        let line = self.hardware.peek(self.design, line_of(physical));
        let offset = (physical % LINE_BYTES as u64) as usize;
        line.0.get(offset..offset + N)?.try_into().ok()
    }

    fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address, Access::Load).map(u64::from_le_bytes)
    }

    /// Half an instruction.
    fn half(&self, address: u64) -> Option<u16> {
        self.bytes(address, Access::Fetch).map(u16::from_le_bytes)
    }

    /// True if the instruction before an address is a call: `jal` or `jalr` that links `ra`, or `c.jalr`.
    fn is_behind_call(&self, address: u64) -> bool {
        if !address.is_multiple_of(2) || address < 4 {
            return false;
        }
        let Some(last) = self.half(address - 2) else {
            return false;
        };
        let short = last & 0xf07f == 0x9002 && last & 0x0f80 != 0;
        let long = |first: u16| matches!(first & 0x0fff, 0x00ef | 0x00e7);
        short || self.half(address - 4).is_some_and(long)
    }
}
