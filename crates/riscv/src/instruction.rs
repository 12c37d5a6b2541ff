//! One instruction, decoded: from the bytes of a 64-byte line to operation and operands.
//!
//! Both engines, and the disassembler, see instructions through here only. Decoding is a pure
//! function of the bytes and never fails on any of them: what is no instruction is `None`.

use crate::compressed::expand;
use crate::encoding;
use crate::table::{Operation, decode};

/// Bytes in a line: what one instruction fetch delivers, and what a block never crosses.
pub(crate) const LINE_BYTES: u64 = 64;

/// A decoded instruction. Fields that the operation's format does not have hold whatever bits
/// were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub operation: Operation,
    /// Destination register.
    pub rd: u8,
    /// First source register, or a five-bit immediate of a CSR instruction.
    pub rs1: u8,
    /// Second source register.
    pub rs2: u8,
    /// The immediate in the operation's format.
    pub immediate: i32,
    /// Bytes that the instruction takes: 2 or 4.
    pub length: u8,
}

impl Instruction {
    /// Decodes `bits`; a compressed instruction is in the low half, the upper half is ignored.
    pub fn decode(bits: u32) -> Option<Self> {
        let length = length(bits as u16);
        let word = if length == 2 {
            expand(bits as u16)?
        } else {
            bits
        };
        let operation = decode(word)?;
        Some(Self {
            operation,
            rd: encoding::rd(word),
            rs1: encoding::rs1(word),
            rs2: encoding::rs2(word),
            immediate: operation.description().format.immediate(word),
            length,
        })
    }
}

/// The length in bytes of the instruction that begins with `parcel`. Lengths above four are
/// reserved; such an instruction counts as four bytes and does not decode.
pub(crate) const fn length(parcel: u16) -> u8 {
    if parcel & 3 == 3 { 4 } else { 2 }
}

/// Where in a line an instruction begins that is so many behind the one that begins at `offset`: those before
/// it lie in the line, one behind the other, as a block's do. None if they do not.
pub fn offset_behind(
    line: &[u8; LINE_BYTES as usize],
    offset: usize,
    instructions: u64,
) -> Option<usize> {
    (0..instructions).try_fold(offset, |at, _| {
        let first = u16::from(*line.get(at)?);
        Some(at + usize::from(length(first)))
    })
}

/// The bits of an instruction within one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bits {
    /// All of them (a compressed instruction's upper half is zero).
    Whole(u32),
    /// The first two bytes; the other two begin the next line.
    Straddling(u16),
}

/// The bits of the instruction at `offset`, which is even and below 64, in `line`.
pub(crate) fn bits_at(line: &[u8; 64], offset: usize) -> Bits {
    let parcel = |at: usize| u16::from_le_bytes([line[at], line[at + 1]]);
    let first = parcel(offset);
    if length(first) == 2 {
        Bits::Whole(u32::from(first))
    } else if offset + 2 < line.len() {
        Bits::Whole(join(first, parcel(offset + 2)))
    } else {
        Bits::Straddling(first)
    }
}

/// A straddling instruction from its two halves.
pub(crate) const fn join(first: u16, second: u16) -> u32 {
    first as u32 | (second as u32) << 16
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES, offset_behind};

    #[test]
    fn instructions_lie_behind_each_other_as_long_as_they_are() {
        let mut line = [0; LINE_BYTES as usize];
        // c.nop, nop, c.nop
        line[..8].copy_from_slice(&[0x01, 0x00, 0x13, 0x00, 0x00, 0x00, 0x01, 0x00]);
        let behind = |instructions| offset_behind(&line, 0, instructions);
        assert_eq!([0, 1, 2, 3].map(behind), [0, 2, 6, 8].map(Some));
        assert_eq!(offset_behind(&line, 62, 1), Some(64));
        assert_eq!(offset_behind(&line, 62, 2), None);
    }
}
