//! From which call stacks a program flushes and fences, for the schedule that cuts once for each of them.
//!
//! Always true here: looking changes nothing.

use std::collections::BTreeSet;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, line_of};
use perdure_hardware::policy::Policy;
use perdure_linux::{Kernel, PAGE_BYTES, SpaceId};
use perdure_riscv::Access;
use twox_hash::XxHash3_64;

use super::survey::Persisting;
use crate::call_stack;
use crate::error::Error;
use crate::machine::{Machine, Pause};

/// Of persist operations and fences, in the order of their times, the first from each call stack. The machine
/// is at its beginning.
pub(super) fn first_of_each(
    machine: &mut Machine,
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
fn stack(machine: &Machine, hart: usize) -> Option<u64> {
    let context = machine.contexts().nth(hart)?;
    let memory = Memory {
        hardware: &machine.hardware,
        design: &*machine.design,
        kernel: machine.kernel(),
        space: context.running?.space,
    };
    let places = call_stack::of(&context.hart, &memory).into_iter();
    let places: Vec<u8> = places.flat_map(u64::to_le_bytes).collect();
    Some(XxHash3_64::oneshot(&places))
}

/// What a program has in memory.
struct Memory<'a> {
    hardware: &'a Hardware,
    design: &'a dyn Policy,
    kernel: &'a Kernel,
    space: SpaceId,
}

impl call_stack::Memory for Memory<'_> {
    fn read(&self, address: u64, buffer: &mut [u8], access: Access) -> Option<()> {
        let frame = self.kernel.translate(self.space, address, access)?;
        let physical = frame.physical_frame * PAGE_BYTES + address % PAGE_BYTES;
        let line = self.hardware.peek(self.design, line_of(physical));
        let offset = (physical % LINE_BYTES as u64) as usize;
        buffer.copy_from_slice(line.0.get(offset..offset + buffer.len())?);
        Some(())
    }
}
