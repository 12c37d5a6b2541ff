//! Instructions as text, in the words of the assembler and of `objdump`: ABI register names, the
//! customary pseudo-instructions, targets as addresses. A compressed instruction reads like what
//! it abbreviates.

use crate::compressed::expand;
use crate::control::NAMES;
use crate::encoding::{Format, bits, rd, rs1, rs2, rs3};
use crate::instruction::length;
use crate::table::{Operation, decode};

#[rustfmt::skip]
const INTEGER_REGISTERS: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
    "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

#[rustfmt::skip]
const FLOAT_REGISTERS: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5",
    "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8", "ft9", "ft10", "ft11",
];

const ROUNDING_MODES: [&str; 8] = [
    "rne", "rtz", "rdn", "rup", "rmm", "unknown", "unknown", "dyn",
];

/// The instruction `bits` (a compressed one in the low half) at `pc`, in the assembler's words.
/// What is no instruction comes out as the data directive that would make it.
pub fn disassemble(bits: u32, pc: u64) -> String {
    let compressed = length(bits as u16) == 2;
    let word = if compressed {
        expand(bits as u16)
    } else {
        Some(bits)
    };
    match word.and_then(|word| Some((word, decode(word)?))) {
        Some((word, operation)) => Words {
            word,
            operation,
            pc,
            compressed,
        }
        .text(),
        None if compressed => format!(".2byte {:#06x}", bits & 0xffff),
        None => format!(".4byte {bits:#010x}"),
    }
}

/// One instruction to be put into words.
#[derive(Clone, Copy)]
struct Words {
    word: u32,
    operation: Operation,
    pc: u64,
    compressed: bool,
}

impl Words {
    fn text(self) -> String {
        if let Some(text) = self.pseudo_instruction() {
            return text;
        }
        let mnemonic = self.operation.description().mnemonic;
        let suffix = match (self.format(), bits(self.word, 25, 2)) {
            (Format::Atomic | Format::LoadReserved, ordering) => {
                ["", ".rl", ".aq", ".aqrl"][ordering as usize]
            }
            _ => "",
        };
        match self.operands() {
            operands if operands.is_empty() => mnemonic.to_string(),
            operands => format!("{mnemonic}{suffix} {operands}"),
        }
    }

    fn format(self) -> Format {
        self.operation.description().format
    }

    fn immediate(self) -> i32 {
        self.format().immediate(self.word)
    }

    fn target(self) -> String {
        format!("{:#x}", self.pc.wrapping_add(self.immediate() as u64))
    }

    fn x(number: u8) -> &'static str {
        INTEGER_REGISTERS[usize::from(number)]
    }

    fn f(number: u8) -> &'static str {
        FLOAT_REGISTERS[usize::from(number)]
    }

    /// The rounding mode as a last operand; nothing if it is the dynamic one, or if it is the
    /// assembler's default for a conversion that cannot round.
    fn rounding(self) -> String {
        let mode = bits(self.word, 12, 3) as usize;
        let cannot_round = matches!(
            self.operation,
            Operation::FcvtDS
                | Operation::FcvtDW
                | Operation::FcvtDWu
                | Operation::FcvtSH
                | Operation::FcvtDH
        );
        if mode == 7 || (mode == 0 && cannot_round) {
            String::new()
        } else {
            format!(",{}", ROUNDING_MODES[mode])
        }
    }

    fn csr(self) -> String {
        let number = self.immediate() as u16;
        let name = NAMES.iter().find(|(known, _)| *known == number);
        name.map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).to_string())
    }

    fn operands(self) -> String {
        let (rd, rs1, rs2) = (rd(self.word), rs1(self.word), rs2(self.word));
        let (x, f, immediate) = (Self::x, Self::f, self.immediate());
        match self.format() {
            Format::Bare => String::new(),
            Format::Upper => format!("{},{:#x}", x(rd), immediate as u32 >> 12),
            Format::Jump => format!("{},{}", x(rd), self.target()),
            Format::Branch => format!("{},{},{}", x(rs1), x(rs2), self.target()),
            Format::Immediate => format!("{},{},{immediate}", x(rd), x(rs1)),
            Format::Shift => format!("{},{},{immediate:#x}", x(rd), x(rs1)),
            Format::Register => format!("{},{},{}", x(rd), x(rs1), x(rs2)),
            Format::Unary => format!("{},{}", x(rd), x(rs1)),
            Format::Load => format!("{},{immediate}({})", x(rd), x(rs1)),
            Format::Store => format!("{},{immediate}({})", x(rs2), x(rs1)),
            Format::StoreAt => format!("{},({})", x(rs2), x(rs1)),
            Format::LoadReserved => format!("{},({})", x(rd), x(rs1)),
            Format::Atomic => format!("{},{},({})", x(rd), x(rs2), x(rs1)),
            Format::Csr => format!("{},{},{}", x(rd), self.csr(), x(rs1)),
            Format::CsrImmediate => format!("{},{},{rs1}", x(rd), self.csr()),
            Format::Fence => format!("{},{}", fence_set(immediate >> 4), fence_set(immediate)),
            Format::CacheBlock => format!("({})", x(rs1)),
            Format::Source => x(rs1).to_string(),
            Format::Sources => format!("{},{}", x(rs1), x(rs2)),
            Format::Persistence => {
                let (funct3, funct7) = (immediate & 7, immediate >> 3);
                format!("0x2b,{funct3},{funct7},{},{},{}", x(rd), x(rs1), x(rs2))
            }
            Format::FloatLoad => format!("{},{immediate}({})", f(rd), x(rs1)),
            Format::FloatStore => format!("{},{immediate}({})", f(rs2), x(rs1)),
            Format::Float => format!("{},{},{}", f(rd), f(rs1), f(rs2)),
            Format::FloatRounded => {
                format!("{},{},{}{}", f(rd), f(rs1), f(rs2), self.rounding())
            }
            Format::FloatUnaryRounded => format!("{},{}{}", f(rd), f(rs1), self.rounding()),
            Format::FloatFused => {
                let rs3 = rs3(self.word);
                format!(
                    "{},{},{},{}{}",
                    f(rd),
                    f(rs1),
                    f(rs2),
                    f(rs3),
                    self.rounding()
                )
            }
            Format::FloatCompare => format!("{},{},{}", x(rd), f(rs1), f(rs2)),
            Format::FloatToInteger => format!("{},{}", x(rd), f(rs1)),
            Format::FloatToIntegerRounded => {
                format!("{},{}{}", x(rd), f(rs1), self.rounding())
            }
            Format::IntegerToFloat => format!("{},{}", f(rd), x(rs1)),
            Format::IntegerToFloatRounded => {
                format!("{},{}{}", f(rd), x(rs1), self.rounding())
            }
        }
    }

    /// The name that everybody uses instead, if there is one.
    fn pseudo_instruction(self) -> Option<String> {
        let (rd, rs1, rs2) = (rd(self.word), rs1(self.word), rs2(self.word));
        let (x, f, immediate) = (Self::x, Self::f, self.immediate());
        let unary = |name: &str, from: u8| Some(format!("{name} {},{}", x(rd), x(from)));
        let float_unary = |name: &str| Some(format!("{name} {},{}", f(rd), f(rs1)));
        let branch = |name: &str, on: u8| Some(format!("{name} {},{}", x(on), self.target()));
        match (self.operation, rd, rs1, rs2) {
            (Operation::Addi, 0, 0, _) if immediate == 0 => Some("nop".to_string()),
            (Operation::Addi, _, 0, _) => Some(format!("li {},{immediate}", x(rd))),
            (Operation::Addi, ..) if immediate == 0 => unary("mv", rs1),
            (Operation::Addiw, ..) if immediate == 0 => unary("sext.w", rs1),
            (Operation::Xori, ..) if immediate == -1 => unary("not", rs1),
            (Operation::Andi, ..) if immediate == 255 => unary("zext.b", rs1),
            (Operation::Sltiu, ..) if immediate == 1 => unary("seqz", rs1),
            (Operation::Add, _, 0, _) if self.compressed => unary("mv", rs2),
            (Operation::Sub, _, 0, _) => unary("neg", rs2),
            (Operation::Subw, _, 0, _) => unary("negw", rs2),
            (Operation::Sltu, _, 0, _) => unary("snez", rs2),
            (Operation::Slt, _, _, 0) => unary("sltz", rs1),
            (Operation::Slt, _, 0, _) => unary("sgtz", rs2),
            (Operation::AddUw, _, _, 0) => unary("zext.w", rs1),
            (Operation::Beq, _, _, 0) => branch("beqz", rs1),
            (Operation::Bne, _, _, 0) => branch("bnez", rs1),
            (Operation::Bge, _, 0, _) => branch("blez", rs2),
            (Operation::Bge, _, _, 0) => branch("bgez", rs1),
            (Operation::Blt, _, _, 0) => branch("bltz", rs1),
            (Operation::Blt, _, 0, _) => branch("bgtz", rs2),
            (Operation::Jal, 0, ..) => Some(format!("j {}", self.target())),
            (Operation::Jal, 1, ..) => Some(format!("jal {}", self.target())),
            (Operation::Jalr, 0, 1, _) if immediate == 0 => Some("ret".to_string()),
            (Operation::Jalr, 0, ..) => Some(format!("jr {}", offset(immediate, x(rs1)))),
            (Operation::Jalr, 1, ..) => Some(format!("jalr {}", offset(immediate, x(rs1)))),
            (Operation::Jalr, ..) if immediate == 0 => unary("jalr", rs1),
            (Operation::FsgnjS, ..) if rs1 == rs2 => float_unary("fmv.s"),
            (Operation::FsgnjnS, ..) if rs1 == rs2 => float_unary("fneg.s"),
            (Operation::FsgnjxS, ..) if rs1 == rs2 => float_unary("fabs.s"),
            (Operation::FsgnjD, ..) if rs1 == rs2 => float_unary("fmv.d"),
            (Operation::FsgnjnD, ..) if rs1 == rs2 => float_unary("fneg.d"),
            (Operation::FsgnjxD, ..) if rs1 == rs2 => float_unary("fabs.d"),
            (Operation::Fence, ..) => match immediate {
                0xff => Some("fence".to_string()),
                0x833 => Some("fence.tso".to_string()),
                _ => None,
            },
            (Operation::Persistence, ..) => Some(format!(".insn r {}", self.operands())),
            _ => self.pseudo_csr(),
        }
    }

    fn pseudo_csr(self) -> Option<String> {
        let (rd, rs1) = (rd(self.word), rs1(self.word));
        let (csr, x) = (self.csr(), Self::x);
        match (self.operation, rd, rs1) {
            (Operation::Csrrw, 0, 0) if csr == "cycle" => Some("unimp".to_string()),
            (Operation::Csrrs, _, 0) => Some(match csr.as_str() {
                "fflags" => format!("frflags {}", x(rd)),
                "frm" => format!("frrm {}", x(rd)),
                "fcsr" => format!("frcsr {}", x(rd)),
                "cycle" | "time" | "instret" => format!("rd{csr} {}", x(rd)),
                _ => format!("csrr {},{csr}", x(rd)),
            }),
            (Operation::Csrrw, ..) if ["fflags", "frm", "fcsr"].contains(&csr.as_str()) => {
                let name = csr.strip_prefix('f').unwrap_or(&csr);
                let destination = if rd == 0 {
                    String::new()
                } else {
                    format!("{},", x(rd))
                };
                Some(format!("fs{name} {destination}{}", x(rs1)))
            }
            (Operation::Csrrwi, ..) if ["fflags", "frm"].contains(&csr.as_str()) => {
                let name = csr.strip_prefix('f').unwrap_or(&csr);
                Some(format!("fs{name}i {},{rs1}", x(rd)))
            }
            (Operation::Csrrw, 0, _) => Some(format!("csrw {csr},{}", x(rs1))),
            (Operation::Csrrs, 0, _) => Some(format!("csrs {csr},{}", x(rs1))),
            (Operation::Csrrc, 0, _) => Some(format!("csrc {csr},{}", x(rs1))),
            (Operation::Csrrwi, 0, _) => Some(format!("csrwi {csr},{rs1}")),
            (Operation::Csrrsi, 0, _) => Some(format!("csrsi {csr},{rs1}")),
            (Operation::Csrrci, 0, _) => Some(format!("csrci {csr},{rs1}")),
            _ => None,
        }
    }
}

/// `offset(register)`, or the register alone where the offset is zero.
fn offset(immediate: i32, register: &str) -> String {
    if immediate == 0 {
        register.to_string()
    } else {
        format!("{immediate}({register})")
    }
}

/// A fence set as letters.
fn fence_set(set: i32) -> String {
    let letters = [(8, 'i'), (4, 'o'), (2, 'r'), (1, 'w')];
    let set: String = letters
        .iter()
        .filter(|(bit, _)| set & bit != 0)
        .map(|(_, l)| *l)
        .collect();
    if set.is_empty() {
        "unknown".to_string()
    } else {
        set
    }
}

#[cfg(test)]
mod tests {
    use super::disassemble;

    /// What is only an offset to `objdump` or newer than it.
    #[test]
    fn words() {
        let examples = [
            (0x0000_0013, "nop"),
            (0x0000_8067, "ret"),
            (0xfe01_0113, "addi sp,sp,-32"),
            (0x0010_a00f, "cbo.clean (ra)"),
            (0x0041_200f, "cbo.zero (sp)"),
            (0x0100_000f, "pause"),
            (0x0ff0_000f, "fence"),
            (0x0010_000f, "fence unknown,w"),
            (0x0000_100f, "fence.i"),
            (0xffdf_f06f, "j 0xffc"),
            (0x8082, "ret"),
            (0x1101, "addi sp,sp,-32"),
            (0x9002, "ebreak"),
            (0x0000, ".2byte 0x0000"),
            (0xffff_ffff, ".4byte 0xffffffff"),
            (0x0062_b2ab, ".insn r 0x2b,3,0,t0,t0,t1"),
            (0x8005_002b, "clflush (a0)"),
            (0x80b5_302b, "movnt a1,(a0)"),
            (0x8000_402b, "sfence"),
            (0x8205_102b, "dc.cvac (a0)"),
            (0x8200_502b, "dsb.ish"),
            (0x02a5_f553, "fadd.d fa0,fa1,fa0"),
            (0xc000_2573, "rdcycle a0"),
        ];
        for (bits, text) in examples {
            assert_eq!(disassemble(bits, 0x1000), text, "{bits:#x}");
        }
    }
}
