//! The one table of instructions: name, mnemonic, format, encoding, semantics.
//!
//! From it come the enumeration [`Operation`], decoding ([`decode`]), execution (a type in
//! [`semantics`] for each operation, reached through [`visit`]) and disassembly. An instruction
//! that is not here does not exist; compressed instructions are other spellings of these (see
//! `compressed.rs`). Where one encoding is a special case of another, the special case comes first.

use crate::encoding::{
    Encoding, Format, atomic, cache_block, exactly, float, float_rs2, funct3, funct6, funct7,
    funct12, fused, major, opcode, primitive,
};
use crate::execute::{Context, CsrChange, Executed, Flow, Trap, carryless_product};
use crate::float::{self, Double, Format as _, Integer, Single, half, soft};
use crate::memory::{Amo, Barrier, CacheBlock, Mark};
use std::sync::LazyLock;

/// funct7 of x86's primitives, and of Arm's.
const X86: u32 = 0x40;
const ARM: u32 = 0x41;
/// funct7 of what a program says of itself.
const MARK: u32 = 0x7e;

/// One line of the table, less its semantics.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The operation.
    pub operation: Operation,
    /// What the assembler calls it.
    pub mnemonic: &'static str,
    /// Its operands.
    pub format: Format,
    /// Its fixed bits.
    pub encoding: Encoding,
}

/// An operation's meaning: one type for each line of the table.
pub(crate) trait Semantics: 'static {
    const OPERATION: Operation;
    fn execute<C: Context>(c: &mut C) -> Executed;
}

/// Something to be done with the semantics of an operation known only at run time.
pub(crate) trait Visitor {
    type Output;
    fn visit<S: Semantics>(self) -> Self::Output;
}

macro_rules! instructions {
    ($($name:ident $mnemonic:literal $format:ident $encoding:expr => |$c:ident| $body:expr;)*) => {
        /// Every operation, named after its mnemonic.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Operation { $($name),* }

        /// The table, in the order of [`Operation`].
        pub const TABLE: &[Description] = &[$(Description {
            operation: Operation::$name,
            mnemonic: $mnemonic,
            format: Format::$format,
            encoding: $encoding,
        }),*];

        /// The meaning of each operation, as a type of its name.
        pub(crate) mod semantics {
            use super::*;
            $(
                pub(crate) struct $name;
                impl Semantics for $name {
                    const OPERATION: Operation = Operation::$name;
                    #[inline(always)]
                    fn execute<C: Context>($c: &mut C) -> Executed {
                        Ok(Flow::from($body))
                    }
                }
            )*
        }

        /// Hands the semantics of `operation` to `visitor`.
        #[inline(always)]
        pub(crate) fn visit<V: Visitor>(operation: Operation, visitor: V) -> V::Output {
            match operation {
                $(Operation::$name => visitor.visit::<semantics::$name>()),*
            }
        }
    };
}

instructions! {
    // RV64I: constants, jumps, branches.
    Lui "lui" Upper opcode(major::LUI) => |c| c.set_rd(c.immediate());
    Auipc "auipc" Upper opcode(major::AUIPC) => |c| c.set_rd(c.target());
    Jal "jal" Jump opcode(major::JAL) => |c| { c.set_rd(c.next_pc()); Flow::Jump(c.target()) };
    Jalr "jalr" Load funct3(major::JALR, 0) => |c| {
        let target = c.rs1().wrapping_add(c.immediate()) & !1;
        c.set_rd(c.next_pc());
        Flow::Jump(target)
    };
    Beq "beq" Branch funct3(major::BRANCH, 0) => |c| c.branch(c.rs1() == c.rs2());
    Bne "bne" Branch funct3(major::BRANCH, 1) => |c| c.branch(c.rs1() != c.rs2());
    Blt "blt" Branch funct3(major::BRANCH, 4) => |c| c.branch((c.rs1() as i64) < c.rs2() as i64);
    Bge "bge" Branch funct3(major::BRANCH, 5) => |c| c.branch(c.rs1() as i64 >= c.rs2() as i64);
    Bltu "bltu" Branch funct3(major::BRANCH, 6) => |c| c.branch(c.rs1() < c.rs2());
    Bgeu "bgeu" Branch funct3(major::BRANCH, 7) => |c| c.branch(c.rs1() >= c.rs2());

    // RV64I: loads and stores.
    Lb "lb" Load funct3(major::LOAD, 0) => |c| { let v = c.load::<u8>()?; c.set_rd(v as i8 as u64) };
    Lh "lh" Load funct3(major::LOAD, 1) => |c| { let v = c.load::<u16>()?; c.set_rd(v as i16 as u64) };
    Lw "lw" Load funct3(major::LOAD, 2) => |c| { let v = c.load::<u32>()?; c.set_rd_word(v) };
    Ld "ld" Load funct3(major::LOAD, 3) => |c| { let v = c.load::<u64>()?; c.set_rd(v) };
    Lbu "lbu" Load funct3(major::LOAD, 4) => |c| { let v = c.load::<u8>()?; c.set_rd(v) };
    Lhu "lhu" Load funct3(major::LOAD, 5) => |c| { let v = c.load::<u16>()?; c.set_rd(v) };
    Lwu "lwu" Load funct3(major::LOAD, 6) => |c| { let v = c.load::<u32>()?; c.set_rd(v) };
    Sb "sb" Store funct3(major::STORE, 0) => |c| c.store::<u8>(c.rs2())?;
    Sh "sh" Store funct3(major::STORE, 1) => |c| c.store::<u16>(c.rs2())?;
    Sw "sw" Store funct3(major::STORE, 2) => |c| c.store::<u32>(c.rs2())?;
    Sd "sd" Store funct3(major::STORE, 3) => |c| c.store::<u64>(c.rs2())?;

    // RV64I: arithmetic.
    Addi "addi" Immediate funct3(major::OP_IMM, 0) => |c| c.set_rd(c.rs1().wrapping_add(c.immediate()));
    Slti "slti" Immediate funct3(major::OP_IMM, 2) => |c| c.set_rd(u64::from((c.rs1() as i64) < c.immediate() as i64));
    Sltiu "sltiu" Immediate funct3(major::OP_IMM, 3) => |c| c.set_rd(u64::from(c.rs1() < c.immediate()));
    Xori "xori" Immediate funct3(major::OP_IMM, 4) => |c| c.set_rd(c.rs1() ^ c.immediate());
    Ori "ori" Immediate funct3(major::OP_IMM, 6) => |c| c.set_rd(c.rs1() | c.immediate());
    Andi "andi" Immediate funct3(major::OP_IMM, 7) => |c| c.set_rd(c.rs1() & c.immediate());
    Slli "slli" Shift funct6(major::OP_IMM, 1, 0x00) => |c| c.set_rd(c.rs1() << (c.immediate() & 63));
    Srli "srli" Shift funct6(major::OP_IMM, 5, 0x00) => |c| c.set_rd(c.rs1() >> (c.immediate() & 63));
    Srai "srai" Shift funct6(major::OP_IMM, 5, 0x10) => |c| c.set_rd((c.rs1() as i64 >> (c.immediate() & 63)) as u64);
    Add "add" Register funct7(major::OP, 0, 0x00) => |c| c.set_rd(c.rs1().wrapping_add(c.rs2()));
    Sub "sub" Register funct7(major::OP, 0, 0x20) => |c| c.set_rd(c.rs1().wrapping_sub(c.rs2()));
    Sll "sll" Register funct7(major::OP, 1, 0x00) => |c| c.set_rd(c.rs1() << (c.rs2() & 63));
    Slt "slt" Register funct7(major::OP, 2, 0x00) => |c| c.set_rd(u64::from((c.rs1() as i64) < c.rs2() as i64));
    Sltu "sltu" Register funct7(major::OP, 3, 0x00) => |c| c.set_rd(u64::from(c.rs1() < c.rs2()));
    Xor "xor" Register funct7(major::OP, 4, 0x00) => |c| c.set_rd(c.rs1() ^ c.rs2());
    Srl "srl" Register funct7(major::OP, 5, 0x00) => |c| c.set_rd(c.rs1() >> (c.rs2() & 63));
    Sra "sra" Register funct7(major::OP, 5, 0x20) => |c| c.set_rd((c.rs1() as i64 >> (c.rs2() & 63)) as u64);
    Or "or" Register funct7(major::OP, 6, 0x00) => |c| c.set_rd(c.rs1() | c.rs2());
    And "and" Register funct7(major::OP, 7, 0x00) => |c| c.set_rd(c.rs1() & c.rs2());
    Addiw "addiw" Immediate funct3(major::OP_IMM_32, 0) => |c| c.set_rd_word(c.rs1().wrapping_add(c.immediate()));
    Slliw "slliw" Shift funct7(major::OP_IMM_32, 1, 0x00) => |c| c.set_rd_word(c.rs1() << (c.immediate() & 31));
    Srliw "srliw" Shift funct7(major::OP_IMM_32, 5, 0x00) => |c| c.set_rd_word(u64::from(c.rs1() as u32 >> (c.immediate() & 31)));
    Sraiw "sraiw" Shift funct7(major::OP_IMM_32, 5, 0x20) => |c| c.set_rd((c.rs1() as i32 >> (c.immediate() & 31)) as u64);
    Addw "addw" Register funct7(major::OP_32, 0, 0x00) => |c| c.set_rd_word(c.rs1().wrapping_add(c.rs2()));
    Subw "subw" Register funct7(major::OP_32, 0, 0x20) => |c| c.set_rd_word(c.rs1().wrapping_sub(c.rs2()));
    Sllw "sllw" Register funct7(major::OP_32, 1, 0x00) => |c| c.set_rd_word(c.rs1() << (c.rs2() & 31));
    Srlw "srlw" Register funct7(major::OP_32, 5, 0x00) => |c| c.set_rd_word(u64::from(c.rs1() as u32 >> (c.rs2() & 31)));
    Sraw "sraw" Register funct7(major::OP_32, 5, 0x20) => |c| c.set_rd((c.rs1() as i32 >> (c.rs2() & 31)) as u64);

    // RV64I: system. Zihintpause, Zifencei, Zicsr.
    Pause "pause" Bare exactly(0x0100_000f) => |_c| ();
    Fence "fence" Fence funct3(major::MISC_MEM, 0) => |c| c.fence();
    FenceI "fence.i" Bare funct3(major::MISC_MEM, 1) => |c| c.fence_instruction();
    Ecall "ecall" Bare exactly(0x0000_0073) => |_c| Err::<(), Trap>(Trap::EnvironmentCall)?;
    Ebreak "ebreak" Bare exactly(0x0010_0073) => |_c| Err::<(), Trap>(Trap::Breakpoint)?;
    Csrrw "csrrw" Csr funct3(major::SYSTEM, 1) => |c| c.csr(CsrChange::Write, c.rs1())?;
    Csrrs "csrrs" Csr funct3(major::SYSTEM, 2) => |c| c.csr(CsrChange::Set, c.rs1())?;
    Csrrc "csrrc" Csr funct3(major::SYSTEM, 3) => |c| c.csr(CsrChange::Clear, c.rs1())?;
    Csrrwi "csrrwi" CsrImmediate funct3(major::SYSTEM, 5) => |c| c.csr(CsrChange::Write, c.rs1_number() as u64)?;
    Csrrsi "csrrsi" CsrImmediate funct3(major::SYSTEM, 6) => |c| c.csr(CsrChange::Set, c.rs1_number() as u64)?;
    Csrrci "csrrci" CsrImmediate funct3(major::SYSTEM, 7) => |c| c.csr(CsrChange::Clear, c.rs1_number() as u64)?;

    // M. Division by zero gives all ones (remainder: the dividend); the one overflow wraps.
    Mul "mul" Register funct7(major::OP, 0, 0x01) => |c| c.set_rd(c.rs1().wrapping_mul(c.rs2()));
    Mulh "mulh" Register funct7(major::OP, 1, 0x01) => |c| c.set_rd(((i128::from(c.rs1() as i64) * i128::from(c.rs2() as i64)) >> 64) as u64);
    Mulhsu "mulhsu" Register funct7(major::OP, 2, 0x01) => |c| c.set_rd((i128::from(c.rs1() as i64).wrapping_mul(i128::from(c.rs2())) >> 64) as u64);
    Mulhu "mulhu" Register funct7(major::OP, 3, 0x01) => |c| c.set_rd(((u128::from(c.rs1()) * u128::from(c.rs2())) >> 64) as u64);
    Div "div" Register funct7(major::OP, 4, 0x01) => |c| c.set_rd(match (c.rs1() as i64, c.rs2() as i64) { (_, 0) => u64::MAX, (a, b) => a.wrapping_div(b) as u64 });
    Divu "divu" Register funct7(major::OP, 5, 0x01) => |c| c.set_rd(c.rs1().checked_div(c.rs2()).unwrap_or(u64::MAX));
    Rem "rem" Register funct7(major::OP, 6, 0x01) => |c| c.set_rd(match (c.rs1() as i64, c.rs2() as i64) { (a, 0) => a as u64, (a, b) => a.wrapping_rem(b) as u64 });
    Remu "remu" Register funct7(major::OP, 7, 0x01) => |c| c.set_rd(c.rs1().checked_rem(c.rs2()).unwrap_or(c.rs1()));
    Mulw "mulw" Register funct7(major::OP_32, 0, 0x01) => |c| c.set_rd_word(c.rs1().wrapping_mul(c.rs2()));
    Divw "divw" Register funct7(major::OP_32, 4, 0x01) => |c| c.set_rd(match (c.rs1() as i32, c.rs2() as i32) { (_, 0) => u64::MAX, (a, b) => a.wrapping_div(b) as u64 });
    Divuw "divuw" Register funct7(major::OP_32, 5, 0x01) => |c| c.set_rd_word(u64::from((c.rs1() as u32).checked_div(c.rs2() as u32).unwrap_or(u32::MAX)));
    Remw "remw" Register funct7(major::OP_32, 6, 0x01) => |c| c.set_rd(match (c.rs1() as i32, c.rs2() as i32) { (a, 0) => a as u64, (a, b) => a.wrapping_rem(b) as u64 });
    Remuw "remuw" Register funct7(major::OP_32, 7, 0x01) => |c| c.set_rd_word(u64::from((c.rs1() as u32).checked_rem(c.rs2() as u32).unwrap_or(c.rs1() as u32)));

    // A. Acquire and release bits need nothing: a hart's accesses happen in program order.
    LrW "lr.w" LoadReserved atomic(2, 0x02).rs2(0) => |c| c.load_reserved::<u32>()?;
    ScW "sc.w" Atomic atomic(2, 0x03) => |c| c.store_conditional::<u32>()?;
    AmoswapW "amoswap.w" Atomic atomic(2, 0x01) => |c| c.atomic::<u32>(Amo::Swap)?;
    AmoaddW "amoadd.w" Atomic atomic(2, 0x00) => |c| c.atomic::<u32>(Amo::Add)?;
    AmoxorW "amoxor.w" Atomic atomic(2, 0x04) => |c| c.atomic::<u32>(Amo::Xor)?;
    AmoandW "amoand.w" Atomic atomic(2, 0x0c) => |c| c.atomic::<u32>(Amo::And)?;
    AmoorW "amoor.w" Atomic atomic(2, 0x08) => |c| c.atomic::<u32>(Amo::Or)?;
    AmominW "amomin.w" Atomic atomic(2, 0x10) => |c| c.atomic::<u32>(Amo::Min)?;
    AmomaxW "amomax.w" Atomic atomic(2, 0x14) => |c| c.atomic::<u32>(Amo::Max)?;
    AmominuW "amominu.w" Atomic atomic(2, 0x18) => |c| c.atomic::<u32>(Amo::MinUnsigned)?;
    AmomaxuW "amomaxu.w" Atomic atomic(2, 0x1c) => |c| c.atomic::<u32>(Amo::MaxUnsigned)?;
    LrD "lr.d" LoadReserved atomic(3, 0x02).rs2(0) => |c| c.load_reserved::<u64>()?;
    ScD "sc.d" Atomic atomic(3, 0x03) => |c| c.store_conditional::<u64>()?;
    AmoswapD "amoswap.d" Atomic atomic(3, 0x01) => |c| c.atomic::<u64>(Amo::Swap)?;
    AmoaddD "amoadd.d" Atomic atomic(3, 0x00) => |c| c.atomic::<u64>(Amo::Add)?;
    AmoxorD "amoxor.d" Atomic atomic(3, 0x04) => |c| c.atomic::<u64>(Amo::Xor)?;
    AmoandD "amoand.d" Atomic atomic(3, 0x0c) => |c| c.atomic::<u64>(Amo::And)?;
    AmoorD "amoor.d" Atomic atomic(3, 0x08) => |c| c.atomic::<u64>(Amo::Or)?;
    AmominD "amomin.d" Atomic atomic(3, 0x10) => |c| c.atomic::<u64>(Amo::Min)?;
    AmomaxD "amomax.d" Atomic atomic(3, 0x14) => |c| c.atomic::<u64>(Amo::Max)?;
    AmominuD "amominu.d" Atomic atomic(3, 0x18) => |c| c.atomic::<u64>(Amo::MinUnsigned)?;
    AmomaxuD "amomaxu.d" Atomic atomic(3, 0x1c) => |c| c.atomic::<u64>(Amo::MaxUnsigned)?;

    // Zicbom, Zicboz; custom-1: other instruction sets' primitives, Perdure's persistence instructions.
    CboInval "cbo.inval" CacheBlock cache_block(0) => |c| c.cache_block(CacheBlock::Invalidate)?;
    CboClean "cbo.clean" CacheBlock cache_block(1) => |c| c.cache_block(CacheBlock::Clean)?;
    CboFlush "cbo.flush" CacheBlock cache_block(2) => |c| c.cache_block(CacheBlock::Flush)?;
    CboZero "cbo.zero" CacheBlock cache_block(4) => |c| c.cache_block(CacheBlock::Zero)?;
    Clflush "clflush" CacheBlock primitive(X86, 0).rs2(0) => |c| c.cache_block(CacheBlock::Clflush)?;
    Clflushopt "clflushopt" CacheBlock primitive(X86, 1).rs2(0) => |c| c.cache_block(CacheBlock::Clflushopt)?;
    Clwb "clwb" CacheBlock primitive(X86, 2).rs2(0) => |c| c.cache_block(CacheBlock::Clwb)?;
    Movnt "movnt" StoreAt primitive(X86, 3) => |c| c.store_non_temporal()?;
    Sfence "sfence" Bare primitive(X86, 4).rs1(0).rs2(0) => |c| c.barrier(Barrier::Sfence);
    Mfence "mfence" Bare primitive(X86, 5).rs1(0).rs2(0) => |c| c.barrier(Barrier::Mfence);
    DcCivac "dc.civac" CacheBlock primitive(ARM, 0).rs2(0) => |c| c.cache_block(CacheBlock::DcCivac)?;
    DcCvac "dc.cvac" CacheBlock primitive(ARM, 1).rs2(0) => |c| c.cache_block(CacheBlock::DcCvac)?;
    DcCvap "dc.cvap" CacheBlock primitive(ARM, 2).rs2(0) => |c| c.cache_block(CacheBlock::DcCvap)?;
    DmbIsh "dmb.ish" Bare primitive(ARM, 4).rs1(0).rs2(0) => |c| c.barrier(Barrier::DmbIsh);
    DsbIsh "dsb.ish" Bare primitive(ARM, 5).rs1(0).rs2(0) => |c| c.barrier(Barrier::DsbIsh);
    OpBegin "op.begin" Source primitive(MARK, 0).rs2(0) => |c| c.mark(|number, _| Mark::OperationBegins { number })?;
    OpEnd "op.end" Bare primitive(MARK, 1).rs1(0).rs2(0) => |c| c.mark(|_, _| Mark::OperationEnds)?;
    OpAtomic "op.atomic" Sources primitive(MARK, 2) => |c| c.mark(|start, bytes| Mark::Atomic { start, bytes })?;
    Persistence "persistence" Persistence opcode(major::CUSTOM_1) => |c| c.persistence()?;

    // Zba.
    AddUw "add.uw" Register funct7(major::OP_32, 0, 0x04) => |c| c.set_rd(u64::from(c.rs1() as u32).wrapping_add(c.rs2()));
    Sh1add "sh1add" Register funct7(major::OP, 2, 0x10) => |c| c.set_rd((c.rs1() << 1).wrapping_add(c.rs2()));
    Sh2add "sh2add" Register funct7(major::OP, 4, 0x10) => |c| c.set_rd((c.rs1() << 2).wrapping_add(c.rs2()));
    Sh3add "sh3add" Register funct7(major::OP, 6, 0x10) => |c| c.set_rd((c.rs1() << 3).wrapping_add(c.rs2()));
    Sh1addUw "sh1add.uw" Register funct7(major::OP_32, 2, 0x10) => |c| c.set_rd((u64::from(c.rs1() as u32) << 1).wrapping_add(c.rs2()));
    Sh2addUw "sh2add.uw" Register funct7(major::OP_32, 4, 0x10) => |c| c.set_rd((u64::from(c.rs1() as u32) << 2).wrapping_add(c.rs2()));
    Sh3addUw "sh3add.uw" Register funct7(major::OP_32, 6, 0x10) => |c| c.set_rd((u64::from(c.rs1() as u32) << 3).wrapping_add(c.rs2()));
    SlliUw "slli.uw" Shift funct6(major::OP_IMM_32, 1, 0x02) => |c| c.set_rd(u64::from(c.rs1() as u32) << (c.immediate() & 63));

    // Zbb.
    Andn "andn" Register funct7(major::OP, 7, 0x20) => |c| c.set_rd(c.rs1() & !c.rs2());
    Orn "orn" Register funct7(major::OP, 6, 0x20) => |c| c.set_rd(c.rs1() | !c.rs2());
    Xnor "xnor" Register funct7(major::OP, 4, 0x20) => |c| c.set_rd(!(c.rs1() ^ c.rs2()));
    Clz "clz" Unary funct12(major::OP_IMM, 1, 0x600) => |c| c.set_rd(u64::from(c.rs1().leading_zeros()));
    Ctz "ctz" Unary funct12(major::OP_IMM, 1, 0x601) => |c| c.set_rd(u64::from(c.rs1().trailing_zeros()));
    Cpop "cpop" Unary funct12(major::OP_IMM, 1, 0x602) => |c| c.set_rd(u64::from(c.rs1().count_ones()));
    Clzw "clzw" Unary funct12(major::OP_IMM_32, 1, 0x600) => |c| c.set_rd(u64::from((c.rs1() as u32).leading_zeros()));
    Ctzw "ctzw" Unary funct12(major::OP_IMM_32, 1, 0x601) => |c| c.set_rd(u64::from((c.rs1() as u32).trailing_zeros()));
    Cpopw "cpopw" Unary funct12(major::OP_IMM_32, 1, 0x602) => |c| c.set_rd(u64::from((c.rs1() as u32).count_ones()));
    Max "max" Register funct7(major::OP, 6, 0x05) => |c| c.set_rd((c.rs1() as i64).max(c.rs2() as i64) as u64);
    Maxu "maxu" Register funct7(major::OP, 7, 0x05) => |c| c.set_rd(c.rs1().max(c.rs2()));
    Min "min" Register funct7(major::OP, 4, 0x05) => |c| c.set_rd((c.rs1() as i64).min(c.rs2() as i64) as u64);
    Minu "minu" Register funct7(major::OP, 5, 0x05) => |c| c.set_rd(c.rs1().min(c.rs2()));
    SextB "sext.b" Unary funct12(major::OP_IMM, 1, 0x604) => |c| c.set_rd(c.rs1() as i8 as u64);
    SextH "sext.h" Unary funct12(major::OP_IMM, 1, 0x605) => |c| c.set_rd(c.rs1() as i16 as u64);
    ZextH "zext.h" Unary funct12(major::OP_32, 4, 0x080) => |c| c.set_rd(u64::from(c.rs1() as u16));
    Rol "rol" Register funct7(major::OP, 1, 0x30) => |c| c.set_rd(c.rs1().rotate_left(c.rs2() as u32 & 63));
    Ror "ror" Register funct7(major::OP, 5, 0x30) => |c| c.set_rd(c.rs1().rotate_right(c.rs2() as u32 & 63));
    Rori "rori" Shift funct6(major::OP_IMM, 5, 0x18) => |c| c.set_rd(c.rs1().rotate_right(c.immediate() as u32 & 63));
    Rolw "rolw" Register funct7(major::OP_32, 1, 0x30) => |c| c.set_rd((c.rs1() as i32).rotate_left(c.rs2() as u32 & 31) as u64);
    Rorw "rorw" Register funct7(major::OP_32, 5, 0x30) => |c| c.set_rd((c.rs1() as i32).rotate_right(c.rs2() as u32 & 31) as u64);
    Roriw "roriw" Shift funct7(major::OP_IMM_32, 5, 0x30) => |c| c.set_rd((c.rs1() as i32).rotate_right(c.immediate() as u32 & 31) as u64);
    OrcB "orc.b" Unary funct12(major::OP_IMM, 5, 0x287) => |c| c.set_rd(u64::from_le_bytes(c.rs1().to_le_bytes().map(|byte| if byte == 0 { 0 } else { 0xff })));
    Rev8 "rev8" Unary funct12(major::OP_IMM, 5, 0x6b8) => |c| c.set_rd(c.rs1().swap_bytes());

    // Zbs.
    Bclr "bclr" Register funct7(major::OP, 1, 0x24) => |c| c.set_rd(c.rs1() & !(1 << (c.rs2() & 63)));
    Bclri "bclri" Shift funct6(major::OP_IMM, 1, 0x12) => |c| c.set_rd(c.rs1() & !(1 << (c.immediate() & 63)));
    Bext "bext" Register funct7(major::OP, 5, 0x24) => |c| c.set_rd(c.rs1() >> (c.rs2() & 63) & 1);
    Bexti "bexti" Shift funct6(major::OP_IMM, 5, 0x12) => |c| c.set_rd(c.rs1() >> (c.immediate() & 63) & 1);
    Binv "binv" Register funct7(major::OP, 1, 0x34) => |c| c.set_rd(c.rs1() ^ 1 << (c.rs2() & 63));
    Binvi "binvi" Shift funct6(major::OP_IMM, 1, 0x1a) => |c| c.set_rd(c.rs1() ^ 1 << (c.immediate() & 63));
    Bset "bset" Register funct7(major::OP, 1, 0x14) => |c| c.set_rd(c.rs1() | 1 << (c.rs2() & 63));
    Bseti "bseti" Shift funct6(major::OP_IMM, 1, 0x0a) => |c| c.set_rd(c.rs1() | 1 << (c.immediate() & 63));

    // Zbc: products without carries.
    Clmul "clmul" Register funct7(major::OP, 1, 0x05) => |c| c.set_rd(carryless_product(c.rs1(), c.rs2()) as u64);
    Clmulr "clmulr" Register funct7(major::OP, 2, 0x05) => |c| c.set_rd((carryless_product(c.rs1(), c.rs2()) >> 63) as u64);
    Clmulh "clmulh" Register funct7(major::OP, 3, 0x05) => |c| c.set_rd((carryless_product(c.rs1(), c.rs2()) >> 64) as u64);

    // Zbkb, less what Zbb has. `packw` with x0 is `zext.h`, which comes before.
    Pack "pack" Register funct7(major::OP, 4, 0x04) => |c| c.set_rd(c.rs1() & 0xffff_ffff | c.rs2() << 32);
    Packh "packh" Register funct7(major::OP, 7, 0x04) => |c| c.set_rd(c.rs1() & 0xff | (c.rs2() & 0xff) << 8);
    Packw "packw" Register funct7(major::OP_32, 4, 0x04) => |c| c.set_rd_word(c.rs1() & 0xffff | (c.rs2() & 0xffff) << 16);
    Brev8 "brev8" Unary funct12(major::OP_IMM, 5, 0x687) => |c| c.set_rd(c.rs1().reverse_bits().swap_bytes());

    // Zicond.
    CzeroEqz "czero.eqz" Register funct7(major::OP, 5, 0x07) => |c| c.set_rd(if c.rs2() == 0 { 0 } else { c.rs1() });
    CzeroNez "czero.nez" Register funct7(major::OP, 7, 0x07) => |c| c.set_rd(if c.rs2() == 0 { c.rs1() } else { 0 });

    // Zfhmin: half precision is loaded, stored, moved and converted.
    Flh "flh" FloatLoad funct3(major::LOAD_FP, 1) => |c| { let v = c.load::<u16>()?; c.set_fd(half::boxed(v as u16)) };
    Fsh "fsh" FloatStore funct3(major::STORE_FP, 1) => |c| c.store::<u16>(c.hart().f[c.rs2_number()])?;
    FmvXH "fmv.x.h" FloatToInteger float_rs2(0x72, 0).funct3(0) => |c| c.set_rd(c.hart().f[c.rs1_number()] as i16 as u64);
    FmvHX "fmv.h.x" IntegerToFloat float_rs2(0x7a, 0).funct3(0) => |c| c.set_fd(half::boxed(c.rs1() as u16));
    FcvtSH "fcvt.s.h" FloatUnaryRounded float_rs2(0x20, 2) => |c| c.float_convert(half::to_single)?;
    FcvtDH "fcvt.d.h" FloatUnaryRounded float_rs2(0x21, 2) => |c| c.float_convert(half::to_double)?;
    FcvtHS "fcvt.h.s" FloatUnaryRounded float_rs2(0x22, 0) => |c| c.float_convert(half::from_single)?;
    FcvtHD "fcvt.h.d" FloatUnaryRounded float_rs2(0x22, 1) => |c| c.float_convert(half::from_double)?;

    // F.
    Flw "flw" FloatLoad funct3(major::LOAD_FP, 2) => |c| { let v = c.load::<u32>()?; c.set_fd(Single::from_bits(v).boxed()) };
    Fsw "fsw" FloatStore funct3(major::STORE_FP, 2) => |c| c.store::<u32>(c.hart().f[c.rs2_number()])?;
    FmaddS "fmadd.s" FloatFused fused(major::MADD, 0) => |c| c.float_fused::<Single>(false, false)?;
    FmsubS "fmsub.s" FloatFused fused(major::MSUB, 0) => |c| c.float_fused::<Single>(false, true)?;
    FnmsubS "fnmsub.s" FloatFused fused(major::NMSUB, 0) => |c| c.float_fused::<Single>(true, false)?;
    FnmaddS "fnmadd.s" FloatFused fused(major::NMADD, 0) => |c| c.float_fused::<Single>(true, true)?;
    FaddS "fadd.s" FloatRounded float(0x00) => |c| c.float_binary::<Single>(float::add, soft::add)?;
    FsubS "fsub.s" FloatRounded float(0x04) => |c| c.float_binary::<Single>(float::subtract, soft::subtract)?;
    FmulS "fmul.s" FloatRounded float(0x08) => |c| c.float_binary::<Single>(float::multiply, soft::multiply)?;
    FdivS "fdiv.s" FloatRounded float(0x0c) => |c| c.float_binary::<Single>(float::divide, soft::divide)?;
    FsqrtS "fsqrt.s" FloatUnaryRounded float_rs2(0x2c, 0) => |c| c.float_unary::<Single, Single>(float::square_root, soft::square_root)?;
    FsgnjS "fsgnj.s" Float funct7(major::OP_FP, 0, 0x10) => |c| c.float_exact(|a: Single, b, _| float::inject_sign(a, b, |_, b| b));
    FsgnjnS "fsgnjn.s" Float funct7(major::OP_FP, 1, 0x10) => |c| c.float_exact(|a: Single, b, _| float::inject_sign(a, b, |_, b| !b));
    FsgnjxS "fsgnjx.s" Float funct7(major::OP_FP, 2, 0x10) => |c| c.float_exact(|a: Single, b, _| float::inject_sign(a, b, |a, b| a ^ b));
    FminS "fmin.s" Float funct7(major::OP_FP, 0, 0x14) => |c| c.float_exact(float::minimum::<Single>);
    FmaxS "fmax.s" Float funct7(major::OP_FP, 1, 0x14) => |c| c.float_exact(float::maximum::<Single>);
    FcvtWS "fcvt.w.s" FloatToIntegerRounded float_rs2(0x60, 0) => |c| c.float_to_integer::<Single>(Integer::Word)?;
    FcvtWuS "fcvt.wu.s" FloatToIntegerRounded float_rs2(0x60, 1) => |c| c.float_to_integer::<Single>(Integer::WordUnsigned)?;
    FcvtLS "fcvt.l.s" FloatToIntegerRounded float_rs2(0x60, 2) => |c| c.float_to_integer::<Single>(Integer::Long)?;
    FcvtLuS "fcvt.lu.s" FloatToIntegerRounded float_rs2(0x60, 3) => |c| c.float_to_integer::<Single>(Integer::LongUnsigned)?;
    FcvtSW "fcvt.s.w" IntegerToFloatRounded float_rs2(0x68, 0) => |c| c.integer_to_float::<Single>(Integer::Word)?;
    FcvtSWu "fcvt.s.wu" IntegerToFloatRounded float_rs2(0x68, 1) => |c| c.integer_to_float::<Single>(Integer::WordUnsigned)?;
    FcvtSL "fcvt.s.l" IntegerToFloatRounded float_rs2(0x68, 2) => |c| c.integer_to_float::<Single>(Integer::Long)?;
    FcvtSLu "fcvt.s.lu" IntegerToFloatRounded float_rs2(0x68, 3) => |c| c.integer_to_float::<Single>(Integer::LongUnsigned)?;
    FmvXW "fmv.x.w" FloatToInteger float_rs2(0x70, 0).funct3(0) => |c| c.set_rd_word(c.hart().f[c.rs1_number()]);
    FmvWX "fmv.w.x" IntegerToFloat float_rs2(0x78, 0).funct3(0) => |c| c.set_fd(Single::from_bits(c.rs1()).boxed());
    FeqS "feq.s" FloatCompare funct7(major::OP_FP, 2, 0x50) => |c| c.float_compare(float::equal::<Single>);
    FltS "flt.s" FloatCompare funct7(major::OP_FP, 1, 0x50) => |c| c.float_compare(float::less::<Single>);
    FleS "fle.s" FloatCompare funct7(major::OP_FP, 0, 0x50) => |c| c.float_compare(float::less_or_equal::<Single>);
    FclassS "fclass.s" FloatToInteger float_rs2(0x70, 0).funct3(1) => |c| c.set_rd(float::classify::<Single>(c.fs1()));

    // D.
    Fld "fld" FloatLoad funct3(major::LOAD_FP, 3) => |c| { let v = c.load::<u64>()?; c.set_fd(v) };
    Fsd "fsd" FloatStore funct3(major::STORE_FP, 3) => |c| c.store::<u64>(c.hart().f[c.rs2_number()])?;
    FmaddD "fmadd.d" FloatFused fused(major::MADD, 1) => |c| c.float_fused::<Double>(false, false)?;
    FmsubD "fmsub.d" FloatFused fused(major::MSUB, 1) => |c| c.float_fused::<Double>(false, true)?;
    FnmsubD "fnmsub.d" FloatFused fused(major::NMSUB, 1) => |c| c.float_fused::<Double>(true, false)?;
    FnmaddD "fnmadd.d" FloatFused fused(major::NMADD, 1) => |c| c.float_fused::<Double>(true, true)?;
    FaddD "fadd.d" FloatRounded float(0x01) => |c| c.float_binary::<Double>(float::add, soft::add)?;
    FsubD "fsub.d" FloatRounded float(0x05) => |c| c.float_binary::<Double>(float::subtract, soft::subtract)?;
    FmulD "fmul.d" FloatRounded float(0x09) => |c| c.float_binary::<Double>(float::multiply, soft::multiply)?;
    FdivD "fdiv.d" FloatRounded float(0x0d) => |c| c.float_binary::<Double>(float::divide, soft::divide)?;
    FsqrtD "fsqrt.d" FloatUnaryRounded float_rs2(0x2d, 0) => |c| c.float_unary::<Double, Double>(float::square_root, soft::square_root)?;
    FsgnjD "fsgnj.d" Float funct7(major::OP_FP, 0, 0x11) => |c| c.float_exact(|a: Double, b, _| float::inject_sign(a, b, |_, b| b));
    FsgnjnD "fsgnjn.d" Float funct7(major::OP_FP, 1, 0x11) => |c| c.float_exact(|a: Double, b, _| float::inject_sign(a, b, |_, b| !b));
    FsgnjxD "fsgnjx.d" Float funct7(major::OP_FP, 2, 0x11) => |c| c.float_exact(|a: Double, b, _| float::inject_sign(a, b, |a, b| a ^ b));
    FminD "fmin.d" Float funct7(major::OP_FP, 0, 0x15) => |c| c.float_exact(float::minimum::<Double>);
    FmaxD "fmax.d" Float funct7(major::OP_FP, 1, 0x15) => |c| c.float_exact(float::maximum::<Double>);
    FcvtSD "fcvt.s.d" FloatUnaryRounded float_rs2(0x20, 1) => |c| c.float_unary(float::narrow, soft::narrow)?;
    FcvtDS "fcvt.d.s" FloatUnaryRounded float_rs2(0x21, 0) => |c| c.float_unary(float::widen, soft::widen)?;
    FcvtWD "fcvt.w.d" FloatToIntegerRounded float_rs2(0x61, 0) => |c| c.float_to_integer::<Double>(Integer::Word)?;
    FcvtWuD "fcvt.wu.d" FloatToIntegerRounded float_rs2(0x61, 1) => |c| c.float_to_integer::<Double>(Integer::WordUnsigned)?;
    FcvtLD "fcvt.l.d" FloatToIntegerRounded float_rs2(0x61, 2) => |c| c.float_to_integer::<Double>(Integer::Long)?;
    FcvtLuD "fcvt.lu.d" FloatToIntegerRounded float_rs2(0x61, 3) => |c| c.float_to_integer::<Double>(Integer::LongUnsigned)?;
    FcvtDW "fcvt.d.w" IntegerToFloatRounded float_rs2(0x69, 0) => |c| c.integer_to_float::<Double>(Integer::Word)?;
    FcvtDWu "fcvt.d.wu" IntegerToFloatRounded float_rs2(0x69, 1) => |c| c.integer_to_float::<Double>(Integer::WordUnsigned)?;
    FcvtDL "fcvt.d.l" IntegerToFloatRounded float_rs2(0x69, 2) => |c| c.integer_to_float::<Double>(Integer::Long)?;
    FcvtDLu "fcvt.d.lu" IntegerToFloatRounded float_rs2(0x69, 3) => |c| c.integer_to_float::<Double>(Integer::LongUnsigned)?;
    FmvXD "fmv.x.d" FloatToInteger float_rs2(0x71, 0).funct3(0) => |c| c.set_rd(c.hart().f[c.rs1_number()]);
    FmvDX "fmv.d.x" IntegerToFloat float_rs2(0x79, 0).funct3(0) => |c| c.set_fd(c.rs1());
    FeqD "feq.d" FloatCompare funct7(major::OP_FP, 2, 0x51) => |c| c.float_compare(float::equal::<Double>);
    FltD "flt.d" FloatCompare funct7(major::OP_FP, 1, 0x51) => |c| c.float_compare(float::less::<Double>);
    FleD "fle.d" FloatCompare funct7(major::OP_FP, 0, 0x51) => |c| c.float_compare(float::less_or_equal::<Double>);
    FclassD "fclass.d" FloatToInteger float_rs2(0x71, 0).funct3(1) => |c| c.set_rd(float::classify::<Double>(c.fs1()));
}

impl Operation {
    /// The operation's line of the table.
    pub const fn description(self) -> &'static Description {
        &TABLE[self as usize]
    }

    /// True if a basic block ends behind this operation: control transfers, and whatever the
    /// machine may want to look at before the hart goes on (system, fences, cache-block and
    /// persistence operations). Both engines take block boundaries from here.
    pub const fn ends_block(self) -> bool {
        matches!(
            self.description().encoding.fixed & 0x7f,
            major::JAL
                | major::JALR
                | major::BRANCH
                | major::SYSTEM
                | major::MISC_MEM
                | major::CUSTOM_1
        )
    }

    /// True if the operation has an effect even where its destination is `x0`, so that it is run
    /// and its result thrown away. Others do nothing but compute an integer from registers.
    pub(crate) const fn may_write_x0(self) -> bool {
        let only_computes = matches!(
            self.description().encoding.fixed & 0x7f,
            major::OP | major::OP_IMM | major::OP_32 | major::OP_IMM_32 | major::LUI | major::AUIPC
        );
        self.description().format.writes_integer() && !only_computes
    }

    /// True if the operation may need more than a few straight instructions of the host: memory
    /// beyond a hit, floating point beyond the host's unit.
    pub(crate) const fn may_take_long(self) -> bool {
        matches!(
            self.description().encoding.fixed & 0x7f,
            major::LOAD | major::STORE | major::LOAD_FP | major::STORE_FP | major::OP_FP
        )
    }
}

/// The operation of a 32-bit instruction word, or `None` if there is no such instruction.
pub fn decode(word: u32) -> Option<Operation> {
    let candidates = &INDEX[index(word)];
    candidates
        .iter()
        .copied()
        .find(|operation| operation.description().encoding.matches(word))
}

/// Opcode (less its two ones) and funct3: what narrows a word down to a few candidates.
const fn index(word: u32) -> usize {
    ((word >> 2 & 0x1f) << 3 | word >> 12 & 7) as usize
}

/// The candidates for each [`index`], in the table's order.
static INDEX: LazyLock<Vec<Vec<Operation>>> = LazyLock::new(|| {
    let possible = |place: usize, encoding: Encoding| {
        let word = (place as u32 >> 3) << 2 | (place as u32 & 7) << 12 | 3;
        let index_mask = 0x707f;
        (word ^ encoding.fixed) & encoding.mask & index_mask == 0
    };
    let candidates = |place| {
        let matching = TABLE.iter().filter(|line| possible(place, line.encoding));
        matching.map(|line| line.operation).collect()
    };
    (0..256).map(candidates).collect()
});
