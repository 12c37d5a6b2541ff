//! Compressed instructions (C, RV64 with D) as what they abbreviate: [`expand`] turns the sixteen
//! bits into the 32-bit instruction word with the same meaning, which then goes the common way.
//!
//! Hints (an instruction whose result goes to `x0`, a shift by zero) are legal and expand to
//! words without effect. Reserved patterns expand to nothing.

use crate::encoding::major;

/// Where the bits of a scrambled immediate go: `(lowest bit in the instruction, width, lowest bit
/// in the immediate)`.
type Scramble = &'static [(u32, u32, u32)];

const ADDI4SPN: Scramble = &[(11, 2, 4), (7, 4, 6), (6, 1, 2), (5, 1, 3)];
const WORD: Scramble = &[(10, 3, 3), (6, 1, 2), (5, 1, 6)];
const DOUBLE: Scramble = &[(10, 3, 3), (5, 2, 6)];
const IMMEDIATE: Scramble = &[(12, 1, 5), (2, 5, 0)];
const ADDI16SP: Scramble = &[(12, 1, 9), (6, 1, 4), (5, 1, 6), (3, 2, 7), (2, 1, 5)];
const UPPER: Scramble = &[(12, 1, 17), (2, 5, 12)];
const JUMP: Scramble = &[
    (12, 1, 11),
    (11, 1, 4),
    (9, 2, 8),
    (8, 1, 10),
    (7, 1, 6),
    (6, 1, 7),
    (3, 3, 1),
    (2, 1, 5),
];
const BRANCH: Scramble = &[(12, 1, 8), (10, 2, 3), (5, 2, 6), (3, 2, 1), (2, 1, 5)];
const WORD_FROM_SP: Scramble = &[(12, 1, 5), (4, 3, 2), (2, 2, 6)];
const DOUBLE_FROM_SP: Scramble = &[(12, 1, 5), (5, 2, 3), (2, 3, 6)];
const WORD_TO_SP: Scramble = &[(9, 4, 2), (7, 2, 6)];
const DOUBLE_TO_SP: Scramble = &[(10, 3, 3), (7, 3, 6)];

const ZERO: u32 = 0;
const RA: u32 = 1;
const SP: u32 = 2;

/// The 32-bit instruction that `half` abbreviates; `None` if it is reserved or not compressed.
pub fn expand(half: u16) -> Option<u32> {
    let c = u32::from(half);
    let field = |low: u32, width: u32| c >> low & ((1 << width) - 1);
    let unsigned = |scramble: Scramble| {
        let place = |&(from, width, to): &(u32, u32, u32)| field(from, width) << to;
        scramble.iter().map(place).sum::<u32>()
    };
    let signed = |scramble: Scramble, sign_bit: u32| {
        let unused_bits = 31 - sign_bit;
        ((unsigned(scramble) << unused_bits) as i32 >> unused_bits) as u32
    };
    // Full register fields, and the three-bit ones that name x8 to x15.
    let (rd, rs2) = (field(7, 5), field(2, 5));
    let (low_rd, low_rs1) = (8 + field(2, 3), 8 + field(7, 3));
    let unless = |reserved: bool, word: u32| (!reserved).then_some(word);

    match (field(0, 2), field(13, 3)) {
        (0, 0) => {
            let offset = unsigned(ADDI4SPN);
            unless(offset == 0, immediate(major::OP_IMM, 0, low_rd, SP, offset))
        }
        (0, 1) => Some(immediate(
            major::LOAD_FP,
            3,
            low_rd,
            low_rs1,
            unsigned(DOUBLE),
        )),
        (0, 2) => Some(immediate(major::LOAD, 2, low_rd, low_rs1, unsigned(WORD))),
        (0, 3) => Some(immediate(major::LOAD, 3, low_rd, low_rs1, unsigned(DOUBLE))),
        (0, 5) => Some(store(major::STORE_FP, 3, low_rs1, low_rd, unsigned(DOUBLE))),
        (0, 6) => Some(store(major::STORE, 2, low_rs1, low_rd, unsigned(WORD))),
        (0, 7) => Some(store(major::STORE, 3, low_rs1, low_rd, unsigned(DOUBLE))),

        (1, 0) => Some(immediate(major::OP_IMM, 0, rd, rd, signed(IMMEDIATE, 5))),
        (1, 1) => unless(
            rd == 0,
            immediate(major::OP_IMM_32, 0, rd, rd, signed(IMMEDIATE, 5)),
        ),
        (1, 2) => Some(immediate(major::OP_IMM, 0, rd, ZERO, signed(IMMEDIATE, 5))),
        (1, 3) if rd == SP => {
            let offset = signed(ADDI16SP, 9);
            unless(offset == 0, immediate(major::OP_IMM, 0, SP, SP, offset))
        }
        (1, 3) => {
            let upper = signed(UPPER, 17);
            unless(upper == 0, upper | rd << 7 | major::LUI)
        }
        (1, 4) => match field(10, 2) {
            // A shift's immediate has the funct6 of srai above the amount.
            0 => Some(immediate(
                major::OP_IMM,
                5,
                low_rs1,
                low_rs1,
                unsigned(IMMEDIATE),
            )),
            1 => Some(immediate(
                major::OP_IMM,
                5,
                low_rs1,
                low_rs1,
                unsigned(IMMEDIATE) | 0x400,
            )),
            2 => Some(immediate(
                major::OP_IMM,
                7,
                low_rs1,
                low_rs1,
                signed(IMMEDIATE, 5),
            )),
            _ => {
                let (opcode, funct3, funct7) = match (field(12, 1), field(5, 2)) {
                    (0, 0) => (major::OP, 0, 0x20),
                    (0, 1) => (major::OP, 4, 0),
                    (0, 2) => (major::OP, 6, 0),
                    (0, _) => (major::OP, 7, 0),
                    (_, 0) => (major::OP_32, 0, 0x20),
                    (_, 1) => (major::OP_32, 0, 0),
                    _ => return None,
                };
                Some(register(opcode, funct3, funct7, low_rs1, low_rs1, low_rd))
            }
        },
        (1, 5) => Some(jump(ZERO, signed(JUMP, 11))),
        (1, 6) => Some(branch(0, low_rs1, signed(BRANCH, 8))),
        (1, 7) => Some(branch(1, low_rs1, signed(BRANCH, 8))),

        (2, 0) => Some(immediate(major::OP_IMM, 1, rd, rd, unsigned(IMMEDIATE))),
        (2, 1) => Some(immediate(
            major::LOAD_FP,
            3,
            rd,
            SP,
            unsigned(DOUBLE_FROM_SP),
        )),
        (2, 2) => unless(
            rd == 0,
            immediate(major::LOAD, 2, rd, SP, unsigned(WORD_FROM_SP)),
        ),
        (2, 3) => unless(
            rd == 0,
            immediate(major::LOAD, 3, rd, SP, unsigned(DOUBLE_FROM_SP)),
        ),
        (2, 4) => match (field(12, 1), rd, rs2) {
            (0, 0, 0) => None,
            (0, rs1, 0) => Some(immediate(major::JALR, 0, ZERO, rs1, 0)),
            (0, rd, rs2) => Some(register(major::OP, 0, 0, rd, ZERO, rs2)),
            (_, 0, 0) => Some(0x0010_0073), // c.ebreak
            (_, rs1, 0) => Some(immediate(major::JALR, 0, RA, rs1, 0)),
            (_, rd, rs2) => Some(register(major::OP, 0, 0, rd, rd, rs2)),
        },
        (2, 5) => Some(store(major::STORE_FP, 3, SP, rs2, unsigned(DOUBLE_TO_SP))),
        (2, 6) => Some(store(major::STORE, 2, SP, rs2, unsigned(WORD_TO_SP))),
        (2, 7) => Some(store(major::STORE, 3, SP, rs2, unsigned(DOUBLE_TO_SP))),
        _ => None,
    }
}

const fn immediate(opcode: u32, funct3: u32, rd: u32, rs1: u32, value: u32) -> u32 {
    value << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
}

const fn register(opcode: u32, funct3: u32, funct7: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
}

const fn store(opcode: u32, funct3: u32, rs1: u32, rs2: u32, offset: u32) -> u32 {
    offset >> 5 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (offset & 0x1f) << 7 | opcode
}

/// `beq` or `bne` of `rs1` and zero.
const fn branch(funct3: u32, rs1: u32, offset: u32) -> u32 {
    let upper = (offset >> 12 & 1) << 31 | (offset >> 5 & 0x3f) << 25;
    let lower = (offset >> 1 & 0xf) << 8 | (offset >> 11 & 1) << 7;
    upper | rs1 << 15 | funct3 << 12 | lower | major::BRANCH
}

const fn jump(rd: u32, offset: u32) -> u32 {
    let upper = (offset >> 20 & 1) << 31 | (offset >> 1 & 0x3ff) << 21;
    let lower = (offset >> 11 & 1) << 20 | (offset >> 12 & 0xff) << 12;
    upper | lower | rd << 7 | major::JAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::decode;

    #[test]
    fn every_expansion_is_an_instruction() {
        let expansions = (0..=u16::MAX).filter_map(|half| Some((half, expand(half)?)));
        let mut count = 0;
        for (half, word) in expansions {
            assert!(
                decode(word).is_some(),
                "{half:#06x} expands to {word:#010x}, not in the table"
            );
            count += 1;
        }
        assert!(
            count > 40_000,
            "only {count} of the compressed patterns expand"
        );
    }
}
