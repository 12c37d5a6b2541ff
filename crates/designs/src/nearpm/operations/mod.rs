//! Operations: what a command has units do with bytes, beside transactions and their logs
//! ([`super::Opcode`]).
//!
//! Each is a file here and a line of [`ALL`]; `docs/add-a-near-memory-operation.md` says how to add one. It
//! is stated twice. Its *plan* is what one device does, and when recovery replays the command, does again.
//! Its *effect* is what all devices together leave in memory, and knows of no device: what the oracle of
//! partitioned persist ordering holds against what the devices wrote.
//!
//! Always true here:
//! - No step writes what its command reads, so that a command that was cut short can be done again from its
//!   beginning.
//! - A plan comes of operands and memory alone: recovery makes the same one.
//! - What operands alone make impossible, every device refuses: a command is not done by halves.

pub mod apply_log;
pub mod copy;
pub mod page_crc;

use std::ops::Range;

use super::command::Fault;
use super::counters::Counters;
use super::geometry::Geometry;

/// All of them.
pub const ALL: &[&Operation] = &[
    &copy::COPY,
    &copy::SHADOW_COPY,
    &apply_log::APPLY_LOG,
    &page_crc::PAGE_CRC,
];

/// The one of that number.
pub fn find(opcode: u8) -> Option<&'static Operation> {
    ALL.iter().copied().find(|one| one.opcode == opcode)
}

/// What units do on command.
pub struct Operation {
    /// Its number, which no other command has.
    pub opcode: u8,
    /// How many bytes lie at the second operand, where the first one has so many. If none, it is a number.
    pub second_bytes: fn(u64) -> u64,
    /// What counts it.
    pub counter: fn(&mut Counters) -> &mut u64,
    /// What one device does for it.
    pub plan: fn(&mut Site, &Operands) -> Result<Plan, Fault>,
    /// What it leaves in memory, of memory as it finds it.
    pub effect: fn(&mut Found, &Operands) -> Effect,
}

/// What an operation works on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// What it reads, in its pool: at least a byte, and at most 64 KiB.
    pub first: Range<u64>,
    /// Another address in the pool, behind which there is room; or a number.
    pub second: u64,
    /// The pool.
    pub pool: Range<u64>,
}

/// A device, as a plan sees it.
pub struct Site<'a> {
    /// Which device has what.
    pub geometry: &'a Geometry,
    /// Which one it is.
    pub device: usize,
    /// Reads what the device has.
    pub read: &'a mut dyn FnMut(u64, usize) -> Vec<u8>,
}

impl Site<'_> {
    /// Whether the device has all of some bytes, in one piece.
    pub fn has(&self, bytes: &Range<u64>) -> bool {
        self.geometry.granules(bytes).count() == 1
            && self.geometry.device(bytes.start) == self.device
    }
}

/// What all devices together leave in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Bytes, and where; later ones lie over earlier ones.
    Leaves(Vec<(u64, Vec<u8>)>),
    /// Nothing is said: a device has to refuse its part for what it finds in memory, and others do theirs.
    Unsaid,
}

/// Memory, as an effect sees it.
pub struct Found<'a> {
    /// A range in the pieces in which it lies together in devices.
    pub pieces: &'a dyn Fn(&Range<u64>) -> Vec<Range<u64>>,
    /// Whether a device that has the one has all of the other.
    pub together: &'a dyn Fn(u64, &Range<u64>) -> bool,
    /// Reads it.
    pub read: &'a mut dyn FnMut(u64, usize) -> Vec<u8>,
}

/// What a device does.
#[derive(Debug, Default)]
pub struct Plan {
    /// One after the other.
    pub steps: Vec<Step>,
    /// What nobody else may touch meanwhile, beside the first operand, which nobody else may write.
    pub writes: Vec<Range<u64>>,
}

/// What a unit does at once.
#[derive(Debug)]
pub struct Step {
    /// It reads these bytes, which lie together.
    pub from: Range<u64>,
    /// Where it writes.
    pub to: u64,
    /// What it writes.
    pub makes: Makes,
}

/// What a unit makes of bytes.
#[derive(Clone, Copy, Debug)]
pub enum Makes {
    /// The same bytes, each burst as it comes.
    Copy,
    /// Something else, which it computes as bursts come, and writes when the last one has.
    Result(fn(&[u8]) -> Vec<u8>),
}

impl Makes {
    /// What is written, of what was read.
    pub fn of(self, read: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Copy => read,
            Self::Result(compute) => compute(&read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::Opcode;
    use super::*;

    #[test]
    fn every_number_is_one_commands() {
        for (at, one) in ALL.iter().enumerate() {
            assert_eq!(Opcode::of(one.opcode), None, "{:#x}", one.opcode);
            let same = ALL.iter().position(|other| other.opcode == one.opcode);
            assert_eq!(same, Some(at), "{:#x}", one.opcode);
            assert_ne!(one.opcode, 0, "which is a command that was refused");
        }
    }
}
