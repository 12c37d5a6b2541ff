//! How an instruction word carries its operands: fields, immediates, and the fixed bits that tell
//! one instruction from another. Everything here is a pure function of the word.

/// Major opcodes: the low seven bits of a 32-bit instruction.
pub(crate) mod major {
    pub(crate) const LOAD: u32 = 0x03;
    pub(crate) const LOAD_FP: u32 = 0x07;
    pub(crate) const MISC_MEM: u32 = 0x0f;
    pub(crate) const OP_IMM: u32 = 0x13;
    pub(crate) const AUIPC: u32 = 0x17;
    pub(crate) const OP_IMM_32: u32 = 0x1b;
    pub(crate) const STORE: u32 = 0x23;
    pub(crate) const STORE_FP: u32 = 0x27;
    pub(crate) const CUSTOM_1: u32 = 0x2b;
    pub(crate) const AMO: u32 = 0x2f;
    pub(crate) const OP: u32 = 0x33;
    pub(crate) const LUI: u32 = 0x37;
    pub(crate) const OP_32: u32 = 0x3b;
    pub(crate) const MADD: u32 = 0x43;
    pub(crate) const MSUB: u32 = 0x47;
    pub(crate) const NMSUB: u32 = 0x4b;
    pub(crate) const NMADD: u32 = 0x4f;
    pub(crate) const OP_FP: u32 = 0x53;
    pub(crate) const BRANCH: u32 = 0x63;
    pub(crate) const JALR: u32 = 0x67;
    pub(crate) const JAL: u32 = 0x6f;
    pub(crate) const SYSTEM: u32 = 0x73;
}

/// The fixed bits of an instruction: a word is that instruction if `word & mask == fixed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// One where the bit is fixed.
    pub mask: u32,
    /// The fixed bits' values.
    pub fixed: u32,
}

impl Encoding {
    /// True if `word` is this instruction.
    pub const fn matches(self, word: u32) -> bool {
        word & self.mask == self.fixed
    }

    /// Fixes the bits from `low` upwards, `width` of them, to `value`.
    const fn with(self, low: u32, width: u32, value: u32) -> Self {
        assert!(
            value >> width == 0,
            "a field's value is wider than the field"
        );
        let mask = ((1 << width) - 1) << low;
        assert!(self.mask & mask == 0, "a field is fixed twice");
        Self {
            mask: self.mask | mask,
            fixed: self.fixed | value << low,
        }
    }

    /// This encoding with the rs2 field fixed too.
    pub(crate) const fn rs2(self, value: u32) -> Self {
        self.with(20, 5, value)
    }

    /// This encoding with the rs1 field fixed too.
    pub(crate) const fn rs1(self, value: u32) -> Self {
        self.with(15, 5, value)
    }

    /// This encoding with funct3 fixed too.
    pub(crate) const fn funct3(self, value: u32) -> Self {
        self.with(12, 3, value)
    }
}

/// Fixed: the major opcode alone.
pub(crate) const fn opcode(major: u32) -> Encoding {
    Encoding { mask: 0, fixed: 0 }.with(0, 7, major)
}

/// Fixed: opcode and funct3.
pub(crate) const fn funct3(major: u32, funct3: u32) -> Encoding {
    opcode(major).with(12, 3, funct3)
}

/// Fixed: opcode, funct3 and funct7 (register-register operations).
pub(crate) const fn funct7(major: u32, funct3_: u32, funct7: u32) -> Encoding {
    funct3(major, funct3_).with(25, 7, funct7)
}

/// Fixed: opcode, funct3 and the upper six bits (shifts by a six-bit immediate).
pub(crate) const fn funct6(major: u32, funct3_: u32, funct6: u32) -> Encoding {
    funct3(major, funct3_).with(26, 6, funct6)
}

/// Fixed: opcode, funct3 and the upper twelve bits (operations on one register).
pub(crate) const fn funct12(major: u32, funct3_: u32, funct12: u32) -> Encoding {
    funct3(major, funct3_).with(20, 12, funct12)
}

/// Fixed: opcode AMO, the width in funct3, the operation in funct5; acquire and release are free.
pub(crate) const fn atomic(width: u32, funct5: u32) -> Encoding {
    funct3(major::AMO, width).with(27, 5, funct5)
}

/// Fixed: a floating-point operation by funct7; funct3 is a rounding mode.
pub(crate) const fn float(funct7: u32) -> Encoding {
    opcode(major::OP_FP).with(25, 7, funct7)
}

/// Fixed: a floating-point operation by funct7 and the rs2 field; funct3 is a rounding mode.
pub(crate) const fn float_rs2(funct7: u32, rs2: u32) -> Encoding {
    float(funct7).with(20, 5, rs2)
}

/// Fixed: a fused multiply-add by its major opcode and its format (0 single, 1 double).
pub(crate) const fn fused(major: u32, format: u32) -> Encoding {
    opcode(major).with(25, 2, format)
}

/// Fixed: a cache-block operation on the block at rs1.
pub(crate) const fn cache_block(function: u32) -> Encoding {
    funct12(major::MISC_MEM, 2, function).with(7, 5, 0)
}

/// Fixed: one of the primitives in custom-1 that write no register.
pub(crate) const fn primitive(funct7_: u32, funct3: u32) -> Encoding {
    funct7(major::CUSTOM_1, funct3, funct7_).with(7, 5, 0)
}

/// Fixed: the whole word.
pub(crate) const fn exactly(word: u32) -> Encoding {
    Encoding {
        mask: u32::MAX,
        fixed: word,
    }
}

/// Which operands an instruction has, where its word keeps them, and in which order the assembler
/// writes them. Named after that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// None.
    Bare,
    /// `rd, upper immediate`
    Upper,
    /// `rd, target`
    Jump,
    /// `rs1, rs2, target`
    Branch,
    /// `rd, rs1, immediate`
    Immediate,
    /// `rd, rs1, shift amount` (six bits, or five where the sixth is fixed)
    Shift,
    /// `rd, rs1, rs2`
    Register,
    /// `rd, rs1`
    Unary,
    /// `rd, immediate(rs1)`
    Load,
    /// `rs2, immediate(rs1)`
    Store,
    /// `rs2, (rs1)`
    StoreAt,
    /// `rd, (rs1)`
    LoadReserved,
    /// `rd, rs2, (rs1)`
    Atomic,
    /// `rd, csr, rs1`
    Csr,
    /// `rd, csr, five-bit immediate`
    CsrImmediate,
    /// `predecessor, successor`
    Fence,
    /// `(rs1)`
    CacheBlock,
    /// `rs1`
    Source,
    /// `rs1, rs2`
    Sources,
    /// `function, rd, rs1, rs2`
    Persistence,
    /// `fd, immediate(rs1)`
    FloatLoad,
    /// `fs2, immediate(rs1)`
    FloatStore,
    /// `fd, fs1, fs2`
    Float,
    /// `fd, fs1, fs2, rounding`
    FloatRounded,
    /// `fd, fs1, rounding`
    FloatUnaryRounded,
    /// `fd, fs1, fs2, fs3, rounding`
    FloatFused,
    /// `rd, fs1, fs2`
    FloatCompare,
    /// `rd, fs1`
    FloatToInteger,
    /// `rd, fs1, rounding`
    FloatToIntegerRounded,
    /// `fd, rs1`
    IntegerToFloat,
    /// `fd, rs1, rounding`
    IntegerToFloatRounded,
}

impl Format {
    /// True if `rd` is an integer register that the instruction writes.
    pub(crate) const fn writes_integer(self) -> bool {
        !matches!(
            self,
            Self::Bare
                | Self::Branch
                | Self::Store
                | Self::StoreAt
                | Self::Fence
                | Self::CacheBlock
                | Self::Source
                | Self::Sources
                | Self::FloatLoad
                | Self::FloatStore
                | Self::Float
                | Self::FloatRounded
                | Self::FloatUnaryRounded
                | Self::FloatFused
                | Self::IntegerToFloat
                | Self::IntegerToFloatRounded
        )
    }

    /// The immediate of `word` in this format, sign-extended where the format's is. What a format
    /// carries besides registers counts as its immediate: a shift amount, a CSR number, fence
    /// sets, a persistence function, a rounding mode with `fs3` above it.
    pub(crate) const fn immediate(self, word: u32) -> i32 {
        let signed = word as i32;
        match self {
            Self::Upper => signed & !0xfff,
            Self::Jump => {
                (signed >> 31 << 20)
                    | bits(word, 12, 8) << 12
                    | bits(word, 20, 1) << 11
                    | bits(word, 21, 10) << 1
            }
            Self::Branch => {
                (signed >> 31 << 12)
                    | bits(word, 7, 1) << 11
                    | bits(word, 25, 6) << 5
                    | bits(word, 8, 4) << 1
            }
            Self::Immediate | Self::Load | Self::FloatLoad => signed >> 20,
            Self::Store | Self::FloatStore => (signed >> 25 << 5) | bits(word, 7, 5),
            Self::Shift => bits(word, 20, 6),
            Self::Csr | Self::CsrImmediate | Self::Fence => bits(word, 20, 12),
            Self::Persistence => bits(word, 25, 7) << 3 | bits(word, 12, 3),
            Self::FloatRounded
            | Self::FloatUnaryRounded
            | Self::FloatToIntegerRounded
            | Self::IntegerToFloatRounded => bits(word, 12, 3),
            Self::FloatFused => bits(word, 27, 5) << 3 | bits(word, 12, 3),
            Self::Bare
            | Self::Register
            | Self::Unary
            | Self::StoreAt
            | Self::LoadReserved
            | Self::Atomic
            | Self::CacheBlock
            | Self::Source
            | Self::Sources
            | Self::Float
            | Self::FloatCompare
            | Self::FloatToInteger
            | Self::IntegerToFloat => 0,
        }
    }
}

/// `width` bits of `word` from `low` upwards.
pub(crate) const fn bits(word: u32, low: u32, width: u32) -> i32 {
    (word >> low & ((1 << width) - 1)) as i32
}

/// Destination field.
pub(crate) const fn rd(word: u32) -> u8 {
    bits(word, 7, 5) as u8
}

/// First source field.
pub(crate) const fn rs1(word: u32) -> u8 {
    bits(word, 15, 5) as u8
}

/// Second source field.
pub(crate) const fn rs2(word: u32) -> u8 {
    bits(word, 20, 5) as u8
}

/// Third source field.
pub(crate) const fn rs3(word: u32) -> u8 {
    bits(word, 27, 5) as u8
}
