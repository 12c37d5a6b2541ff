//! What each instruction computes, as Cranelift's intermediate code: the table's semantics (`table.rs`),
//! of those that programs do most. A trace ends before others.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::accesses::Loaded;
use super::translate::Translator;
use crate::encoding::Format;
use crate::instruction::Instruction;
use crate::table::Operation;

/// True of an instruction that a trace can do.
pub(super) fn is_translated(instruction: &Instruction) -> bool {
    use Operation as O;
    match instruction.operation.description().format {
        Format::Branch | Format::Jump | Format::Upper | Format::Load | Format::Store => true,
        Format::FloatLoad => matches!(instruction.operation, O::Fld | O::Flw),
        Format::FloatStore => matches!(instruction.operation, O::Fsd | O::Fsw),
        Format::Immediate | Format::Shift | Format::Register | Format::Unary => !matches!(
            instruction.operation,
            O::Mulhsu
                | O::Clmul
                | O::Clmulr
                | O::Clmulh
                | O::Brev8
                | O::OrcB
                | O::Pack
                | O::Packh
                | O::Packw
        ),
        _ => matches!(instruction.operation, O::FmvXD | O::FmvDX),
    }
}

/// The integer registers that an instruction reads, and those that it writes, a bit for each.
pub(super) fn registers(instruction: &Instruction) -> (u32, u32) {
    let [rd, rs1, rs2] = [instruction.rd, instruction.rs1, instruction.rs2].map(|x| 1u32 << x);
    match instruction.operation.description().format {
        Format::Upper | Format::Jump | Format::FloatToInteger => (0, rd),
        Format::Branch | Format::Store => (rs1 | rs2, 0),
        Format::Immediate | Format::Shift | Format::Unary | Format::Load => (rs1, rd),
        Format::FloatLoad | Format::FloatStore | Format::IntegerToFloat => (rs1, 0),
        _ => (rs1 | rs2, rd),
    }
}

/// When a branch is taken.
pub(super) fn condition(operation: Operation) -> IntCC {
    match operation {
        Operation::Beq => IntCC::Equal,
        Operation::Bne => IntCC::NotEqual,
        Operation::Blt => IntCC::SignedLessThan,
        Operation::Bge => IntCC::SignedGreaterThanOrEqual,
        Operation::Bltu => IntCC::UnsignedLessThan,
        _ => IntCC::UnsignedGreaterThanOrEqual,
    }
}

/// An instruction that does not end its block.
pub(super) fn translate(t: &mut Translator, pc: u64, instruction: &Instruction, step: u8) {
    let immediate = i64::from(instruction.immediate);
    let rd = instruction.rd;
    match instruction.operation.description().format {
        Format::Upper if instruction.operation == Operation::Auipc => {
            t.set_constant(rd, pc.wrapping_add(immediate as u64));
        }
        Format::Upper => t.set_constant(rd, immediate as u64),
        Format::Load | Format::FloatLoad => load(t, instruction, step),
        Format::Store | Format::FloatStore => store(t, instruction, step),
        Format::FloatToInteger => {
            let value = t.f(instruction.rs1);
            t.set(rd, value);
        }
        Format::IntegerToFloat => {
            let value = t.x(instruction.rs1);
            t.set_f(rd, value);
        }
        _ if rd == 0 => {} // It only computes.
        Format::Immediate | Format::Shift => {
            let a = t.x(instruction.rs1);
            let value = with_immediate(t, instruction.operation, a, immediate);
            t.set(rd, value);
        }
        Format::Unary => {
            let a = t.x(instruction.rs1);
            let value = unary(t, instruction.operation, a);
            t.set(rd, value);
        }
        _ => {
            let [a, b] = [instruction.rs1, instruction.rs2].map(|x| t.x(x));
            let value = binary(t, instruction.operation, a, b);
            t.set(rd, value);
        }
    }
}

fn load(t: &mut Translator, instruction: &Instruction, step: u8) {
    use Operation as O;
    let base = t.x(instruction.rs1);
    let address = (t.builder.ins()).iadd_imm(base, i64::from(instruction.immediate));
    let operation = instruction.operation;
    let bytes = match operation {
        O::Lb | O::Lbu => 1,
        O::Lh | O::Lhu => 2,
        O::Lw | O::Lwu | O::Flw => 4,
        _ => 8,
    };
    let signed = matches!(operation, O::Lb | O::Lh | O::Lw);
    let value = t.load(address, Loaded { bytes, signed }, step);
    match operation {
        O::Fld => t.set_f(instruction.rd, value),
        O::Flw => {
            let boxed = t.builder.ins().bor_imm(value, !0 << 32);
            t.set_f(instruction.rd, boxed);
        }
        _ => t.set(instruction.rd, value),
    }
}

fn store(t: &mut Translator, instruction: &Instruction, step: u8) {
    use Operation as O;
    let base = t.x(instruction.rs1);
    let address = (t.builder.ins()).iadd_imm(base, i64::from(instruction.immediate));
    let (value, bytes) = match instruction.operation {
        O::Sb => (t.x(instruction.rs2), 1),
        O::Sh => (t.x(instruction.rs2), 2),
        O::Sw => (t.x(instruction.rs2), 4),
        O::Fsw => (t.f(instruction.rs2), 4),
        O::Fsd => (t.f(instruction.rs2), 8),
        _ => (t.x(instruction.rs2), 8),
    };
    t.store(address, value, bytes, step);
}

/// The low 32 bits of a value, zero-extended.
fn unsigned_word(t: &mut Translator, value: Value) -> Value {
    let low = t.builder.ins().ireduce(I32, value);
    t.builder.ins().uextend(I64, low)
}

fn with_immediate(t: &mut Translator, operation: Operation, a: Value, immediate: i64) -> Value {
    use Operation as O;
    let low = t.builder.ins().ireduce(I32, a);
    let ins = t.builder.ins();
    match operation {
        O::Addi => ins.iadd_imm(a, immediate),
        O::Xori => ins.bxor_imm(a, immediate),
        O::Ori => ins.bor_imm(a, immediate),
        O::Andi => ins.band_imm(a, immediate),
        O::Slli => ins.ishl_imm(a, immediate & 63),
        O::Srli => ins.ushr_imm(a, immediate & 63),
        O::Srai => ins.sshr_imm(a, immediate & 63),
        O::Rori => ins.rotr_imm(a, immediate & 63),
        O::Bclri => ins.band_imm(a, !(1 << (immediate & 63))),
        O::Binvi => ins.bxor_imm(a, 1 << (immediate & 63)),
        O::Bseti => ins.bor_imm(a, 1 << (immediate & 63)),
        O::Bexti => {
            let shifted = ins.ushr_imm(a, immediate & 63);
            t.builder.ins().band_imm(shifted, 1)
        }
        O::Slti | O::Sltiu => {
            let less = if operation == O::Slti {
                IntCC::SignedLessThan
            } else {
                IntCC::UnsignedLessThan
            };
            let truth = ins.icmp_imm(less, a, immediate);
            t.builder.ins().uextend(I64, truth)
        }
        O::SlliUw => {
            let extended = ins.uextend(I64, low);
            t.builder.ins().ishl_imm(extended, immediate & 63)
        }
        _ => {
            let result = match operation {
                O::Addiw => ins.iadd_imm(low, immediate),
                O::Slliw => ins.ishl_imm(low, immediate & 31),
                O::Srliw => ins.ushr_imm(low, immediate & 31),
                O::Sraiw => ins.sshr_imm(low, immediate & 31),
                O::Roriw => ins.rotr_imm(low, immediate & 31),
                other => unreachable!("{other:?} has no immediate"),
            };
            t.builder.ins().sextend(I64, result)
        }
    }
}

fn unary(t: &mut Translator, operation: Operation, a: Value) -> Value {
    use Operation as O;
    use cranelift_codegen::ir::types::{I8, I16};
    let low = t.builder.ins().ireduce(I32, a);
    let ins = t.builder.ins();
    match operation {
        O::Clz => ins.clz(a),
        O::Ctz => ins.ctz(a),
        O::Cpop => ins.popcnt(a),
        O::Rev8 => ins.bswap(a),
        O::Clzw | O::Ctzw | O::Cpopw => {
            let count = match operation {
                O::Clzw => ins.clz(low),
                O::Ctzw => ins.ctz(low),
                _ => ins.popcnt(low),
            };
            t.builder.ins().uextend(I64, count)
        }
        O::SextB => {
            let byte = ins.ireduce(I8, a);
            t.builder.ins().sextend(I64, byte)
        }
        O::SextH => {
            let half = ins.ireduce(I16, a);
            t.builder.ins().sextend(I64, half)
        }
        O::ZextH => ins.band_imm(a, 0xffff),
        other => unreachable!("{other:?} has two operands"),
    }
}

fn binary(t: &mut Translator, operation: Operation, a: Value, b: Value) -> Value {
    use Operation as O;
    match operation {
        O::Div | O::Divu | O::Rem | O::Remu => return divide(t, operation, a, b),
        O::Divw | O::Remw => {
            // In 64 bits nothing overflows, and by zero all is as it is there.
            let [a, b] = [a, b].map(|value| t.extended(I32, value));
            let wide = if operation == O::Divw { O::Div } else { O::Rem };
            let value = divide(t, wide, a, b);
            return t.extended(I32, value);
        }
        O::Divuw | O::Remuw => {
            let [a, b] = [a, b].map(|value| unsigned_word(t, value));
            let wide = if operation == O::Divuw {
                O::Divu
            } else {
                O::Remu
            };
            let value = divide(t, wide, a, b);
            return t.extended(I32, value);
        }
        O::AddUw | O::Sh1addUw | O::Sh2addUw | O::Sh3addUw => {
            let extended = unsigned_word(t, a);
            return scaled(t, operation, extended, b);
        }
        O::Sh1add | O::Sh2add | O::Sh3add => return scaled(t, operation, a, b),
        _ => {}
    }
    if let Some(value) = of_words(t, operation, a, b) {
        return value;
    }
    let ins = t.builder.ins();
    match operation {
        O::Add => ins.iadd(a, b),
        O::Sub => ins.isub(a, b),
        O::Sll => ins.ishl(a, b),
        O::Srl => ins.ushr(a, b),
        O::Sra => ins.sshr(a, b),
        O::Xor => ins.bxor(a, b),
        O::Or => ins.bor(a, b),
        O::And => ins.band(a, b),
        O::Andn => ins.band_not(a, b),
        O::Orn => ins.bor_not(a, b),
        O::Xnor => ins.bxor_not(a, b),
        O::Mul => ins.imul(a, b),
        O::Mulh => ins.smulhi(a, b),
        O::Mulhu => ins.umulhi(a, b),
        O::Rol => ins.rotl(a, b),
        O::Ror => ins.rotr(a, b),
        O::Max => ins.smax(a, b),
        O::Maxu => ins.umax(a, b),
        O::Min => ins.smin(a, b),
        O::Minu => ins.umin(a, b),
        O::Slt | O::Sltu => {
            let less = if operation == O::Slt {
                IntCC::SignedLessThan
            } else {
                IntCC::UnsignedLessThan
            };
            let truth = ins.icmp(less, a, b);
            t.builder.ins().uextend(I64, truth)
        }
        _ => bits(t, operation, a, b),
    }
}

fn bits(t: &mut Translator, operation: Operation, a: Value, b: Value) -> Value {
    use Operation as O;
    let ins = t.builder.ins();
    match operation {
        O::Bext => {
            let shifted = ins.ushr(a, b);
            t.builder.ins().band_imm(shifted, 1)
        }
        O::Bclr | O::Binv | O::Bset => {
            let one = ins.iconst(I64, 1);
            let bit = t.builder.ins().ishl(one, b);
            let ins = t.builder.ins();
            match operation {
                O::Bclr => ins.band_not(a, bit),
                O::Binv => ins.bxor(a, bit),
                _ => ins.bor(a, bit),
            }
        }
        O::CzeroEqz | O::CzeroNez => {
            let zero = ins.iconst(I64, 0);
            let is_zero = t.builder.ins().icmp_imm(IntCC::Equal, b, 0);
            let ins = t.builder.ins();
            if operation == O::CzeroEqz {
                ins.select(is_zero, zero, a)
            } else {
                ins.select(is_zero, a, zero)
            }
        }
        other => unreachable!("{other:?} is not translated"),
    }
}

fn of_words(t: &mut Translator, operation: Operation, a: Value, b: Value) -> Option<Value> {
    use Operation as O;
    if !matches!(
        operation,
        O::Addw | O::Subw | O::Sllw | O::Srlw | O::Sraw | O::Mulw | O::Rolw | O::Rorw
    ) {
        return None;
    }
    let [a, b] = [a, b].map(|value| t.builder.ins().ireduce(I32, value));
    let ins = t.builder.ins();
    let result = match operation {
        O::Addw => ins.iadd(a, b),
        O::Subw => ins.isub(a, b),
        O::Sllw => ins.ishl(a, b),
        O::Srlw => ins.ushr(a, b),
        O::Sraw => ins.sshr(a, b),
        O::Mulw => ins.imul(a, b),
        O::Rolw => ins.rotl(a, b),
        _ => ins.rotr(a, b),
    };
    Some(t.builder.ins().sextend(I64, result))
}

fn scaled(t: &mut Translator, operation: Operation, a: Value, b: Value) -> Value {
    use Operation as O;
    let shift = match operation {
        O::AddUw => 0,
        O::Sh1add | O::Sh1addUw => 1,
        O::Sh2add | O::Sh2addUw => 2,
        _ => 3,
    };
    let shifted = t.builder.ins().ishl_imm(a, shift);
    t.builder.ins().iadd(shifted, b)
}

/// A quotient is all ones where the divisor is zero, a remainder the dividend; the one overflow wraps. What
/// the host would trap on is divided by one.
fn divide(t: &mut Translator, operation: Operation, a: Value, b: Value) -> Value {
    use Operation as O;
    let zero = t.builder.ins().icmp_imm(IntCC::Equal, b, 0);
    let one = t.builder.ins().iconst(I64, 1);
    let mut divisor = t.builder.ins().select(zero, one, b);
    let signed = matches!(operation, O::Div | O::Rem);
    if signed {
        // By minus one it is a negation.
        let negates = t.builder.ins().icmp_imm(IntCC::Equal, b, -1);
        divisor = t.builder.ins().select(negates, one, divisor);
        let ins = t.builder.ins();
        let value = match operation {
            O::Div => ins.sdiv(a, divisor),
            _ => ins.srem(a, divisor),
        };
        let negated = match operation {
            O::Div => t.builder.ins().ineg(a),
            _ => t.builder.ins().iconst(I64, 0),
        };
        let value = t.builder.ins().select(negates, negated, value);
        return by_zero(t, operation, zero, a, value);
    }
    let ins = t.builder.ins();
    let value = match operation {
        O::Divu => ins.udiv(a, divisor),
        _ => ins.urem(a, divisor),
    };
    by_zero(t, operation, zero, a, value)
}

fn by_zero(t: &mut Translator, operation: Operation, zero: Value, a: Value, value: Value) -> Value {
    let instead = match operation {
        Operation::Div | Operation::Divu => t.builder.ins().iconst(I64, -1),
        _ => a,
    };
    t.builder.ins().select(zero, instead, value)
}
