//! Programs that are made here, instruction by instruction, without any compiler: a few instructions of
//! RV64, and the static executable around them.
//!
//! Always true here: a program has one segment of code, from [`CODE`] on, and one of zeroed data, from
//! [`DATA`] on.

use object::elf::{EF_RISCV_FLOAT_ABI_DOUBLE, EF_RISCV_RVC, ET_EXEC, PF_R, PF_W, PF_X, PT_LOAD};

use crate::elf::{HEADER_BYTES, Header, SEGMENT_BYTES, Segment};

/// Where the file's headers lie, and the code behind them.
pub(crate) const CODE: u64 = 0x1_0000;
/// Where data begins.
pub(crate) const DATA: u64 = 0x10_0000;
/// Bytes of headers before the code.
pub(crate) const HEADERS: u64 = HEADER_BYTES + 2 * SEGMENT_BYTES;
/// What `clone` is asked for a thread: VM, FS, FILES, SIGHAND, THREAD, SYSVSEM.
pub(crate) const THREAD_FLAGS: u64 = 0x5_0f00;

pub(crate) const ZERO: u32 = 0;
pub(crate) const SP: u32 = 2;
pub(crate) const A0: u32 = 10;
pub(crate) const A1: u32 = 11;
pub(crate) const A2: u32 = 12;
pub(crate) const A7: u32 = 17;
pub(crate) const T0: u32 = 5;
pub(crate) const T1: u32 = 6;
pub(crate) const T2: u32 = 7;

pub(crate) const ADD: u32 = 0;
pub(crate) const XOR: u32 = 4;
pub(crate) const AND: u32 = 7;

/// Instructions, one after the other.
#[derive(Default)]
pub(crate) struct Code(pub Vec<u32>);

impl Code {
    /// Registers with registers: [`ADD`] and its like, `funct7 << 3 | funct3`.
    pub fn register(&mut self, function: u32, rd: u32, rs1: u32, rs2: u32) {
        let (funct7, funct3) = (function >> 3, function & 7);
        self.0
            .push(funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | 0x33);
    }

    /// A register with a number.
    pub fn immediate(&mut self, opcode: u32, funct3: u32, rd: u32, rs1: u32, value: i32) {
        self.0
            .push(value.cast_unsigned() << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode);
    }

    /// `addi`
    pub fn addi(&mut self, rd: u32, rs1: u32, value: i32) {
        self.immediate(0x13, 0, rd, rs1, value);
    }

    /// `slli`
    pub fn slli(&mut self, rd: u32, rs1: u32, bits: i32) {
        self.immediate(0x13, 1, rd, rs1, bits);
    }

    /// `srli`
    pub fn srli(&mut self, rd: u32, rs1: u32, bits: i32) {
        self.immediate(0x13, 5, rd, rs1, bits);
    }

    /// `sd value, offset(base)`
    pub fn store_double(&mut self, value: u32, base: u32, offset: u32) {
        self.0.push(
            (offset >> 5) << 25 | value << 20 | base << 15 | 3 << 12 | (offset & 31) << 7 | 0x23,
        );
    }

    /// `sw value, 0(base)`
    pub fn store_word(&mut self, value: u32, base: u32) {
        self.0.push(value << 20 | base << 15 | 2 << 12 | 0x23);
    }

    /// `amoswap.w rd, value, (address)`
    pub fn exchange(&mut self, rd: u32, address: u32, value: u32) {
        self.0
            .push(1 << 27 | value << 20 | address << 15 | 2 << 12 | rd << 7 | 0x2f);
    }

    /// Any constant, eleven bits at a time.
    pub fn constant(&mut self, rd: u32, value: u64) {
        self.addi(rd, ZERO, (value >> 55) as i32);
        for shift in [44, 33, 22, 11, 0] {
            self.slli(rd, rd, 11);
            self.immediate(0x13, 6, rd, rd, (value >> shift & 0x7ff) as i32);
        }
    }

    /// A branch by so many instructions.
    pub fn branch(&mut self, funct3: u32, rs1: u32, rs2: u32, instructions: i32) {
        let o = (instructions * 4).cast_unsigned();
        self.0.push(
            (o >> 12 & 1) << 31
                | (o >> 5 & 63) << 25
                | rs2 << 20
                | rs1 << 15
                | funct3 << 12
                | (o >> 1 & 15) << 8
                | (o >> 11 & 1) << 7
                | 0x63,
        );
    }

    /// A jump over so many bytes, forwards or backwards.
    pub fn jump(&mut self, bytes: i32) {
        let o = bytes.cast_unsigned();
        self.0.push(
            (o >> 20 & 1) << 31
                | (o >> 1 & 0x3ff) << 21
                | (o >> 11 & 1) << 20
                | (o >> 12 & 0xff) << 12
                | 0x6f,
        );
    }

    /// A system call of that number.
    pub fn call_system(&mut self, number: i32) {
        self.addi(A7, ZERO, number);
        self.0.push(0x73);
    }

    /// Fills in a branch to an instruction that was not there yet.
    pub fn patch(&mut self, at: i32, funct3: u32, rs1: u32, rs2: u32, to: i32) {
        let mut patch = Self::default();
        patch.branch(funct3, rs1, rs2, to - at);
        self.0[at.cast_unsigned() as usize] = patch.0[0];
    }

    /// AMOADD.D without a result.
    pub fn add_atomically(&mut self, address: u32, value: u32) {
        self.0.push(value << 20 | address << 15 | 3 << 12 | 0x2f);
    }

    /// Writes a register's eight bytes to standard output.
    pub fn write(&mut self, register: u32) {
        self.addi(SP, SP, -16);
        self.store_double(register, SP, 0);
        self.addi(A0, ZERO, 1);
        self.addi(A1, SP, 0);
        self.addi(A2, ZERO, 8);
        self.call_system(64);
        self.addi(SP, SP, 16);
    }

    /// How many instructions there are.
    #[expect(
        clippy::cast_possible_wrap,
        reason = "a program of some hundred instructions"
    )]
    pub fn here(&self) -> i32 {
        self.0.len() as i32
    }
}

/// A static executable: one segment of code, one of zeroed data.
pub(crate) fn elf(code: &[u32], data_bytes: u64) -> Vec<u8> {
    let code: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut file = Vec::new();
    let header = Header {
        kind: ET_EXEC,
        flags: EF_RISCV_RVC | EF_RISCV_FLOAT_ABI_DOUBLE,
        entry: CODE + HEADERS,
        segments: 2,
        section_header_bytes: 64,
    };
    header.append(&mut file);
    let code_bytes = HEADERS + code.len() as u64;
    for (flags, address, file_bytes, memory_bytes) in [
        (PF_R | PF_X, CODE, code_bytes, code_bytes),
        (PF_R | PF_W, DATA, 0, data_bytes),
    ] {
        let segment = Segment {
            kind: PT_LOAD,
            flags,
            offset: 0,
            address,
            physical_address: address,
            file_bytes,
            memory_bytes,
            alignment: 4096,
        };
        segment.append(&mut file);
    }
    file.extend(code);
    file
}
