//! An instruction as a core sees it that does not carry it out: what kind of work it is, and which
//! registers it reads and writes. For machines whose time depends on that
//! ([`crate::Memory::OBSERVES`]).
//!
//! Always true here: what is said of an instruction depends on its bits alone.

use crate::encoding::{Format, major};
use crate::instruction::Instruction;
use crate::table::Operation;

/// What kind of work an instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Of integers, short.
    Integer,
    /// A product of integers.
    Multiply,
    /// A quotient or remainder of integers.
    Divide,
    /// Of floating-point numbers: sums, comparisons, conversions, moves.
    Float,
    /// A product of floating-point numbers, perhaps with a sum.
    FloatMultiply,
    /// A quotient or root.
    FloatDivide,
    /// A load.
    Load,
    /// A store.
    Store,
    /// A branch on a condition.
    Branch,
    /// A jump to a target in the instruction.
    Jump,
    /// The same, as a call.
    Call,
    /// A jump to where a register says.
    Indirect,
    /// The same, as a call.
    IndirectCall,
    /// The same, as a return.
    Return,
    /// A fence of memory accesses.
    Fence,
    /// A cache-block operation.
    CacheBlock,
    /// An atomic, LR or SC.
    Atomic,
    /// Control registers, `fence.i`, persistence instructions, calls of the system.
    System,
}

/// An instruction as a core sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// What kind of work it is.
    pub class: Class,
    /// The registers that it reads: 1 to 31, floating-point ones from [`FLOAT`] on, 0 for none.
    pub sources: [u8; 3],
    /// The register that it writes, likewise.
    pub destination: u8,
}

/// The number of `f0`, behind the integer registers.
pub const FLOAT: u8 = 32;

impl Observed {
    /// What a decoded instruction is.
    pub fn new(instruction: &Instruction) -> Self {
        let Instruction {
            rd,
            rs1,
            rs2,
            immediate,
            ..
        } = *instruction;
        Self::of(instruction.operation, [rd, rs1, rs2], immediate)
    }

    /// What an operation with these register numbers (rd, rs1, rs2) and this immediate is. Folds into a
    /// few instructions where the operation is known.
    #[inline(always)]
    pub(crate) fn of(operation: Operation, [rd, rs1, rs2]: [u8; 3], immediate: i32) -> Self {
        use Format::{
            Atomic, Bare, Branch, CacheBlock, Csr, CsrImmediate, Fence, Float, FloatCompare,
            FloatFused, FloatLoad, FloatRounded, FloatStore, FloatToInteger, FloatToIntegerRounded,
            FloatUnaryRounded, Immediate, IntegerToFloat, IntegerToFloatRounded, Jump, Load,
            LoadReserved, Persistence, Register, Shift, Source, Sources, Store, StoreAt, Unary,
            Upper,
        };
        let [fd, fs1, fs2] = [rd + FLOAT, rs1 + FLOAT, rs2 + FLOAT];
        let fs3 = (immediate >> 3) as u8 % 32 + FLOAT;
        let (destination, sources) = match operation.description().format {
            Bare | Fence => (0, [0; 3]),
            Upper | Jump | CsrImmediate => (rd, [0; 3]),
            Branch | Sources | Store | StoreAt => (0, [rs1, rs2, 0]),
            Immediate | Shift | Unary | Load | LoadReserved | Csr => (rd, [rs1, 0, 0]),
            Register | Atomic | Persistence => (rd, [rs1, rs2, 0]),
            CacheBlock | Source => (0, [rs1, 0, 0]),
            FloatLoad | IntegerToFloat | IntegerToFloatRounded => (fd, [rs1, 0, 0]),
            FloatStore => (0, [rs1, fs2, 0]),
            Float | FloatRounded => (fd, [fs1, fs2, 0]),
            FloatUnaryRounded => (fd, [fs1, 0, 0]),
            FloatFused => (fd, [fs1, fs2, fs3]),
            FloatCompare => (rd, [fs1, fs2, 0]),
            FloatToInteger | FloatToIntegerRounded => (rd, [fs1, 0, 0]),
        };
        Self {
            class: class_of(operation, rd, rs1),
            sources,
            destination,
        }
    }
}

/// True for the registers that hold return addresses.
const fn links(register: u8) -> bool {
    matches!(register, 1 | 5)
}

#[inline(always)]
const fn class_of(operation: Operation, rd: u8, rs1: u8) -> Class {
    use Operation as O;
    match operation {
        O::Mul | O::Mulh | O::Mulhsu | O::Mulhu | O::Mulw | O::Clmul | O::Clmulr | O::Clmulh => {
            return Class::Multiply;
        }
        O::Div | O::Divu | O::Rem | O::Remu | O::Divw | O::Divuw | O::Remw | O::Remuw => {
            return Class::Divide;
        }
        O::FmulS | O::FmulD => return Class::FloatMultiply,
        O::FdivS | O::FdivD | O::FsqrtS | O::FsqrtD => return Class::FloatDivide,
        O::Fence | O::Sfence | O::Mfence | O::DmbIsh | O::DsbIsh => return Class::Fence,
        O::Movnt => return Class::Store,
        O::Pause | O::OpBegin | O::OpEnd | O::OpAtomic => return Class::Integer,
        _ => {}
    }
    if matches!(operation.description().format, Format::CacheBlock) {
        return Class::CacheBlock;
    }
    match operation.description().encoding.fixed & 0x7f {
        major::LOAD | major::LOAD_FP => Class::Load,
        major::STORE | major::STORE_FP => Class::Store,
        major::BRANCH => Class::Branch,
        major::JAL if links(rd) => Class::Call,
        major::JAL => Class::Jump,
        major::JALR if links(rd) => Class::IndirectCall,
        major::JALR if links(rs1) => Class::Return,
        major::JALR => Class::Indirect,
        major::AMO => Class::Atomic,
        major::MADD | major::MSUB | major::NMSUB | major::NMADD => Class::FloatMultiply,
        major::OP_FP => Class::Float,
        major::MISC_MEM | major::SYSTEM | major::CUSTOM_1 => Class::System,
        _ => Class::Integer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(word: u32) -> (Class, [u8; 3], u8) {
        let instruction = Instruction::decode(word).expect("an instruction");
        let Observed {
            class,
            sources,
            destination,
        } = Observed::new(&instruction);
        (class, sources, destination)
    }

    #[test]
    fn registers_and_classes_are_those_of_the_instruction() {
        assert_eq!(seen(0x00c5_8533), (Class::Integer, [11, 12, 0], 10)); // add a0, a1, a2
        assert_eq!(seen(0x02c5_8533), (Class::Multiply, [11, 12, 0], 10)); // mul a0, a1, a2
        assert_eq!(seen(0x02c5_c533), (Class::Divide, [11, 12, 0], 10)); // div a0, a1, a2
        assert_eq!(seen(0x0085_b503), (Class::Load, [11, 0, 0], 10)); // ld a0, 8(a1)
        assert_eq!(seen(0x00a5_b423), (Class::Store, [11, 10, 0], 0)); // sd a0, 8(a1)
        assert_eq!(seen(0x0085_b507), (Class::Load, [11, 0, 0], 42)); // fld fa0, 8(a1)
        assert_eq!(seen(0x00a5_b427), (Class::Store, [11, 42, 0], 0)); // fsd fa0, 8(a1)
        assert_eq!(seen(0x00c5_f553), (Class::Float, [43, 44, 0], 42)); // fadd.s fa0, fa1, fa2
        assert_eq!(seen(0x6ac5_f543), (Class::FloatMultiply, [43, 44, 45], 42)); // fmadd.d
        assert_eq!(seen(0x1ac5_f553), (Class::FloatDivide, [43, 44, 0], 42)); // fdiv.d
        assert_eq!(seen(0xc205_f553), (Class::Float, [43, 0, 0], 10)); // fcvt.w.d a0, fa1
        assert_eq!(seen(0x00b5_0463), (Class::Branch, [10, 11, 0], 0)); // beq a0, a1, 8
        assert_eq!(seen(0x0080_00ef), (Class::Call, [0; 3], 1)); // jal ra, 8
        assert_eq!(seen(0x0080_006f), (Class::Jump, [0; 3], 0)); // j 8
        assert_eq!(seen(0x0000_8067), (Class::Return, [1, 0, 0], 0)); // ret
        assert_eq!(seen(0x0005_0067), (Class::Indirect, [10, 0, 0], 0)); // jr a0
        assert_eq!(seen(0x0005_00e7), (Class::IndirectCall, [10, 0, 0], 1)); // jalr a0
        assert_eq!(seen(0x0ff0_000f), (Class::Fence, [0; 3], 0)); // fence
        assert_eq!(seen(0x0015_200f), (Class::CacheBlock, [10, 0, 0], 0)); // cbo.clean (a0)
        assert_eq!(seen(0x8005_202b), (Class::CacheBlock, [10, 0, 0], 0)); // clwb (a0)
        assert_eq!(seen(0x80b5_302b), (Class::Store, [10, 11, 0], 0)); // movnt a1, (a0)
        assert_eq!(seen(0xfc05_002b), (Class::Integer, [10, 0, 0], 0)); // op.begin a0
        assert_eq!(seen(0xfcb5_202b), (Class::Integer, [10, 11, 0], 0)); // op.atomic a0, a1
        assert_eq!(seen(0x8200_502b), (Class::Fence, [0; 3], 0)); // dsb.ish
        assert_eq!(seen(0x00b5_352f), (Class::Atomic, [10, 11, 0], 10)); // amoadd.d a0, a1, (a0)
        assert_eq!(seen(0xc000_2573), (Class::System, [0; 3], 10)); // rdcycle a0
    }

    #[test]
    fn every_operation_has_a_class_that_fits_its_format() {
        for description in crate::TABLE {
            let operation = description.operation;
            let Observed {
                class,
                sources,
                destination,
            } = Observed::of(operation, [7, 8, 9], 10 << 3);
            assert_eq!(class == Class::Branch, description.format == Format::Branch);
            let stores = matches!(
                description.format,
                Format::Store | Format::FloatStore | Format::StoreAt
            );
            assert_eq!(class == Class::Store, stores, "{operation:?}");
            if description.format.writes_integer() {
                assert_eq!(destination, 7, "{operation:?}");
            }
            let known = [0, 8, 9, 8 + FLOAT, 9 + FLOAT, 10 + FLOAT];
            assert!(sources.iter().all(|source| known.contains(source)));
        }
    }
}
