//! Random instruction sequences and floating-point corner cases against `qemu-riscv64`.
//!
//! One program, an ELF file made here, holds all sequences. Each begins with given registers and
//! ends by saving them, beside its own scratch memory, in a block of its own; at the end the
//! program writes all blocks to standard output. qemu runs it, both engines run it, and the three
//! outputs must be the same bytes.
//!
//! `PERDURE_SEED` and `PERDURE_CASES` set the seed and the number of sequences. What qemu 7.2 does
//! not know (Zicbom, Zicboz, Zicond, custom-1) or does wrong (`ctzw` looks at 64 bits there, which qemu
//! 8 mended), and what is not the same twice (counters), is left out.

use crate::common::encode::{branch, i_type, jal, s_type};
use crate::common::{
    Random, cases, has_reserved_rounding, random_float, random_integer, random_operation,
    random_word, seeds,
};
use perdure_riscv::fast::BlockCache;
use perdure_riscv::{Exit, FlatMemory, Format, Hart, Instruction, Operation, disassemble};
use perdure_riscv::{fast, plain};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

const BASE: u64 = 0x10000;
const HEADER_BYTES: u64 = 64 + 56;

/// Each sequence's block: x1–x27 and f0–f31 and fcsr at first, scratch memory in the second half.
const BLOCK_BYTES: u64 = 1024;
const FLOATS: u64 = 28;
const FCSR: u64 = 60;
const SCRATCH: u64 = 512;
const SCRATCH_BYTES: u64 = 512;

/// Registers with a purpose, which no random instruction writes: two pointers to the scratch
/// memory that compressed instructions can use, a pointer to its middle, a link, the block.
const STACK: u32 = 2;
const FRAME: u32 = 8;
const LINK: u32 = 28;
const TEMPORARY: u32 = 29;
const MIDDLE: u32 = 30;
const BLOCK: u32 = 31;
const KEPT: [u8; 6] = [2, 8, 28, 29, 30, 31];

/// A program under construction: code from [`BASE`] on, then the blocks.
struct Program {
    code: Vec<u8>,
    blocks: Vec<u8>,
    /// The code range of each sequence.
    sequences: Vec<(u64, u64)>,
}

impl Program {
    fn new() -> Self {
        Self {
            code: Vec::new(),
            blocks: Vec::new(),
            sequences: Vec::new(),
        }
    }

    fn word(&mut self, word: u32) {
        self.code.extend_from_slice(&word.to_le_bytes());
    }

    fn here(&self) -> u64 {
        BASE + HEADER_BYTES + self.code.len() as u64
    }

    /// `jal` to a routine at an earlier address.
    fn call(&mut self, routine: u64) {
        let offset = routine.wrapping_sub(self.here()) as i32;
        self.word(jal(LINK, offset));
    }

    /// A 32-bit address into a register, by `lui` and `addiw`.
    fn load_address(&mut self, rd: u32, address: u64) {
        let low = (address as i32) << 20 >> 20;
        let high = (address as i32 - low) as u32;
        self.word(high | rd << 7 | 0x37);
        self.word(i_type(0x1b, 0, rd, rd, low));
    }

    /// The routine that loads all registers from the block.
    fn loader(&mut self) -> u64 {
        let begin = self.here();
        self.word(i_type(0x03, 3, TEMPORARY, BLOCK, (FCSR * 8) as i32));
        self.word(i_type(0x73, 1, 0, TEMPORARY, 3));
        for f in 0..32 {
            self.word(i_type(
                0x07,
                3,
                f,
                BLOCK,
                ((FLOATS + u64::from(f)) * 8) as i32,
            ));
        }
        for x in (1..28).filter(|x| !KEPT.contains(&(*x as u8))) {
            self.word(i_type(0x03, 3, x, BLOCK, x as i32 * 8));
        }
        for pointer in [STACK, FRAME] {
            self.word(i_type(0x13, 0, pointer, BLOCK, SCRATCH as i32));
        }
        self.word(i_type(
            0x13,
            0,
            MIDDLE,
            BLOCK,
            (SCRATCH + SCRATCH_BYTES / 2) as i32,
        ));
        self.word(i_type(0x67, 0, 0, LINK, 0));
        begin
    }

    /// The routine that saves all registers to the block.
    fn saver(&mut self) -> u64 {
        let begin = self.here();
        for x in 1..28 {
            self.word(s_type(0x23, 3, BLOCK, x, x as i32 * 8));
        }
        for f in 0..32 {
            self.word(s_type(
                0x27,
                3,
                BLOCK,
                f,
                ((FLOATS + u64::from(f)) * 8) as i32,
            ));
        }
        self.word(i_type(0x73, 2, TEMPORARY, 0, 3));
        self.word(s_type(0x23, 3, BLOCK, TEMPORARY, (FCSR * 8) as i32));
        self.word(i_type(0x67, 0, 0, LINK, 0));
        begin
    }

    fn random_block(&mut self, random: &mut Random) {
        let mut block = Vec::new();
        for _ in 0..FLOATS {
            block.extend_from_slice(&random_integer(random).to_le_bytes());
        }
        for _ in 0..32 {
            block.extend_from_slice(&random_float(random).to_le_bytes());
        }
        // A valid rounding mode; nearest even with inexact set is what the host's unit is used in.
        let fcsr = match random.below(3) {
            0 => 1,
            1 => random.next() & 0x1f,
            _ => random.next() & 0x1f | (random.next() % 5) << 5,
        };
        block.extend_from_slice(&fcsr.to_le_bytes());
        block.resize(BLOCK_BYTES as usize, 0);
        for byte in &mut block[SCRATCH as usize..] {
            *byte = random.next() as u8;
        }
        self.blocks.extend_from_slice(&block);
    }

    fn random_sequence(&mut self, random: &mut Random, length: usize) {
        let float_heavy = random.once_in(2);
        for _ in 0..length {
            match random.below(8) {
                0 => self.random_compressed(random),
                1 => self.random_memory(random),
                2 => self.random_transfer(random),
                _ => self.random_arithmetic(random, float_heavy),
            }
        }
    }

    fn random_compressed(&mut self, random: &mut Random) {
        loop {
            let half = random.next() as u16;
            let Some(decoded) = Instruction::decode(u32::from(half)) else {
                continue;
            };
            if decoded.length != 2 || decoded.operation == Operation::Ebreak {
                continue;
            }
            let usable = match decoded.operation.description().format {
                Format::Jump | Format::Branch => false,
                _ if decoded.operation == Operation::Jalr => false,
                Format::FloatLoad | Format::Store | Format::FloatStore => {
                    matches!(u32::from(decoded.rs1), STACK | FRAME)
                }
                Format::Load => {
                    matches!(u32::from(decoded.rs1), STACK | FRAME) && !KEPT.contains(&decoded.rd)
                }
                _ => !KEPT.contains(&decoded.rd),
            };
            if usable {
                self.code.extend_from_slice(&half.to_le_bytes());
                return;
            }
        }
    }

    /// A load or store of the scratch memory, an atomic operation, a reservation kept or lost.
    fn random_memory(&mut self, random: &mut Random) {
        let operation = random_operation(random, |operation| {
            operation != Operation::Jalr
                && matches!(
                    operation.description().format,
                    Format::Load
                        | Format::Store
                        | Format::FloatLoad
                        | Format::FloatStore
                        | Format::Atomic
                        | Format::LoadReserved
                )
        });
        let word = random_word(random, operation) & !(31 << 15) | MIDDLE << 15;
        let immediate = random.below(SCRATCH_BYTES as usize - 8) as i32 - SCRATCH_BYTES as i32 / 2;
        match operation.description().format {
            Format::Load => self.word(i_type(
                0x03,
                word >> 12 & 7,
                free_register(random),
                MIDDLE,
                immediate,
            )),
            Format::FloatLoad => self.word(word & 0xf_ffff | (immediate as u32) << 20),
            Format::Store | Format::FloatStore => {
                self.word(s_type(
                    word & 0x7f,
                    word >> 12 & 7,
                    MIDDLE,
                    word >> 20 & 31,
                    immediate,
                ));
            }
            Format::LoadReserved => {
                self.word(with_rd(word, free_register(random)));
                let width = word >> 12 & 7;
                let conditional = 3 << 27 | MIDDLE << 15 | width << 12 | 0x2f;
                for _ in 0..2 {
                    let value = random.below(32) as u32;
                    self.word(with_rd(conditional | value << 20, free_register(random)));
                }
            }
            _ => self.word(with_rd(word, free_register(random))),
        }
    }

    /// A jump or branch over the next word, forwards; a jump through a register.
    fn random_transfer(&mut self, random: &mut Random) {
        let link = free_register(random);
        match random.below(4) {
            0 => self.word(jal(link, 8)),
            1 => {
                // `auipc`, then a jump by it over the next word.
                let pointer = free_register(random).max(1);
                self.word(pointer << 7 | 0x17);
                self.word(i_type(0x67, 0, link, pointer, 12 + random.below(2)));
            }
            _ => {
                let is_branch =
                    |operation: Operation| operation.description().format == Format::Branch;
                let operation = random_operation(random, is_branch);
                self.word(branch(random_word(random, operation), 8));
            }
        }
        // What is skipped when the transfer is taken.
        self.word(i_type(
            0x13,
            0,
            free_register(random),
            0,
            random.below(2048),
        ));
    }

    fn random_arithmetic(&mut self, random: &mut Random, float_heavy: bool) {
        let operation = random_operation(random, |operation| {
            let format = operation.description().format;
            let float = is_float(format);
            match operation {
                Operation::Ecall
                | Operation::Ebreak
                | Operation::Pause
                | Operation::Ctzw
                | Operation::CzeroEqz
                | Operation::CzeroNez => false,
                _ if operation.description().encoding.fixed & 0x7f == 0x2b => false,
                _ => match format {
                    Format::Load
                    | Format::Store
                    | Format::FloatLoad
                    | Format::FloatStore
                    | Format::Atomic
                    | Format::LoadReserved
                    | Format::Jump
                    | Format::Branch
                    | Format::CacheBlock => false,
                    _ => !float_heavy || float,
                },
            }
        });
        let format = operation.description().format;
        let word = random_word(random, operation);
        self.word(match format {
            Format::CsrImmediate if operation == Operation::Csrrwi && random.once_in(2) => {
                let mode = random.below(5) as u32;
                i_type(0x73, 5, free_register(random), mode, 2)
            }
            // Flags only: another rounding mode could be a reserved one.
            Format::Csr | Format::CsrImmediate => {
                with_rd(word, free_register(random)) & 0xf_ffff | 1 << 20
            }
            _ if has_reserved_rounding(word) => {
                let word = word | 7 << 12;
                if writes_float(format) {
                    word
                } else {
                    with_rd(word, free_register(random))
                }
            }
            // Results go to a few registers, so that the others keep their corner cases.
            _ if writes_float(format) && random.below(8) != 0 => {
                with_rd(word, random.below(8) as u32)
            }
            _ if writes_float(format) => word,
            _ => with_rd(word, free_register(random)),
        });
    }

    /// The ELF file, its entry at the first instruction.
    fn elf(&self) -> Vec<u8> {
        let image = self.image();
        let mut file = Vec::new();
        file.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        let half = |file: &mut Vec<u8>, value: u16| file.extend_from_slice(&value.to_le_bytes());
        let word = |file: &mut Vec<u8>, value: u32| file.extend_from_slice(&value.to_le_bytes());
        let long = |file: &mut Vec<u8>, value: u64| file.extend_from_slice(&value.to_le_bytes());
        half(&mut file, 2); // executable
        half(&mut file, 243); // RISC-V
        word(&mut file, 1);
        long(&mut file, BASE + HEADER_BYTES); // entry
        long(&mut file, 64); // program headers
        long(&mut file, 0);
        word(&mut file, 5); // compressed, double-float ABI
        for value in [64, 56, 1, 0, 0, 0] {
            half(&mut file, value);
        }
        word(&mut file, 1); // loadable
        word(&mut file, 7); // read, write, execute
        long(&mut file, 0);
        long(&mut file, BASE);
        long(&mut file, BASE);
        long(&mut file, HEADER_BYTES + image.len() as u64);
        long(&mut file, HEADER_BYTES + image.len() as u64);
        long(&mut file, 4096);
        file.extend_from_slice(&image);
        file
    }

    fn image(&self) -> Vec<u8> {
        let mut image = self.code.clone();
        image.extend_from_slice(&self.blocks);
        image
    }
}

/// A random integer register without a purpose; `x0` too.
fn free_register(random: &mut Random) -> u32 {
    loop {
        let register = random.below(28);
        if !KEPT.contains(&(register as u8)) {
            return register as u32;
        }
    }
}

fn with_rd(word: u32, rd: u32) -> u32 {
    word & !(31 << 7) | rd << 7
}

fn writes_float(format: Format) -> bool {
    matches!(
        format,
        Format::Float
            | Format::FloatRounded
            | Format::FloatUnaryRounded
            | Format::FloatFused
            | Format::IntegerToFloat
            | Format::IntegerToFloatRounded
    )
}

fn is_float(format: Format) -> bool {
    writes_float(format)
        || matches!(
            format,
            Format::FloatCompare | Format::FloatToInteger | Format::FloatToIntegerRounded
        )
}

/// All sequences, and the address of the blocks.
fn random_program(random: &mut Random, count: usize) -> (Program, u64) {
    const SEQUENCE_BYTES_MAX: u64 = 600;
    const LENGTH: usize = 24;
    // Where the blocks begin has to be known before the code is complete.
    let blocks = (BASE + HEADER_BYTES + 2048 + count as u64 * SEQUENCE_BYTES_MAX + 63) & !63;
    let mut program = Program::new();
    program.word(0); // becomes the jump over the routines
    let (load, save) = (program.loader(), program.saver());
    let mut veneers = (load, save);
    let over = jal(0, (program.code.len()) as i32);
    program.code[..4].copy_from_slice(&over.to_le_bytes());
    for index in 0..count {
        // A jump reaches a mebibyte: repeat the routines now and then.
        if program.here() - veneers.0 > 900_000 {
            let at = program.code.len();
            program.word(0);
            veneers = (program.loader(), program.saver());
            let over = jal(0, (program.code.len() - at) as i32);
            program.code[at..at + 4].copy_from_slice(&over.to_le_bytes());
        }
        program.load_address(BLOCK, blocks + index as u64 * BLOCK_BYTES);
        program.call(veneers.0);
        let begin = program.here();
        program.random_sequence(random, LENGTH);
        program.sequences.push((begin, program.here()));
        program.call(veneers.1);
        program.random_block(random);
    }
    // write(1, blocks, length); exit(0)
    program.load_address(10, 1);
    program.load_address(11, blocks);
    program.load_address(12, count as u64 * BLOCK_BYTES);
    program.load_address(17, 64);
    program.word(0x73);
    program.load_address(10, 0);
    program.load_address(17, 93);
    program.word(0x73);
    let padding = blocks
        .checked_sub(program.here())
        .expect("sequences are longer than thought");
    program
        .code
        .resize(program.code.len() + padding as usize, 0);
    (program, blocks)
}

fn run_on_qemu(elf: &[u8], name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, elf).expect("cannot write the test program");
    let mut permissions = std::fs::metadata(&path)
        .expect("just written")
        .permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&path, permissions).expect("cannot make the program executable");
    let output = Command::new("qemu-riscv64")
        .args([
            "-cpu",
            "rv64,zba=true,zbb=true,zbc=true,zbs=true,zbkb=true,Zfhmin=true",
        ])
        .arg(&path)
        .output()
        .unwrap_or_else(|error| {
            panic!("qemu-riscv64 is needed for this test (Debian package qemu-user): {error}")
        });
    assert!(
        output.status.success(),
        "qemu-riscv64 {}: {}",
        path.display(),
        output.status
    );
    output.stdout
}

fn run_on_engine(image: &[u8], run: impl Fn(&mut Hart, &mut FlatMemory) -> Exit) -> Vec<u8> {
    let bytes = (HEADER_BYTES as usize + image.len()).next_multiple_of(64) + 64;
    let mut memory = FlatMemory::new(BASE, bytes);
    let place = HEADER_BYTES as usize;
    memory.bytes_mut()[place..place + image.len()].copy_from_slice(image);
    let mut hart = Hart {
        pc: BASE + HEADER_BYTES,
        ..Hart::default()
    };
    let mut written = Vec::new();
    loop {
        let exit = run(&mut hart, &mut memory);
        assert_eq!(hart.x[0], 0);
        assert_eq!(exit, Exit::EnvironmentCall, "at {:#x}: {}", hart.pc, {
            let at = (hart.pc - BASE) as usize;
            let mut bits = [0; 4];
            bits.copy_from_slice(&memory.bytes()[at..at + 4]);
            disassemble(u32::from_le_bytes(bits), hart.pc)
        });
        match hart.x[17] {
            64 => {
                let begin = (hart.x[11] - BASE) as usize;
                let end = begin + hart.x[12] as usize;
                written.extend_from_slice(&memory.bytes()[begin..end]);
            }
            _ => return written,
        }
        hart.pc += 4;
    }
}

/// The first difference, with the sequence that made it.
fn compare(program: &Program, engine: &str, expected: &[u8], actual: &[u8], seed: u64) {
    assert_eq!(
        expected.len(),
        actual.len(),
        "{engine} wrote another number of bytes than qemu"
    );
    let Some(at) = (0..expected.len())
        .step_by(8)
        .find(|&at| expected[at..at + 8] != actual[at..at + 8])
    else {
        return;
    };
    let long = |bytes: &[u8]| {
        let mut raw = [0; 8];
        raw.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(raw)
    };
    let (index, word) = (at as u64 / BLOCK_BYTES, at as u64 % BLOCK_BYTES / 8);
    let place = match word {
        0..FLOATS => format!("x{word}"),
        FLOATS..FCSR => format!("f{}", word - FLOATS),
        FCSR => "fcsr".to_string(),
        _ => format!("scratch memory at {:#x}", word * 8 - SCRATCH),
    };
    let start = &program.blocks[(index * BLOCK_BYTES) as usize..][..BLOCK_BYTES as usize];
    let mut listing = String::new();
    let (mut pc, end) = program.sequences[index as usize];
    while pc < end {
        let offset = (pc - BASE - HEADER_BYTES) as usize;
        let mut raw = [0; 4];
        raw.copy_from_slice(&program.code[offset..offset + 4]);
        let bits = u32::from_le_bytes(raw);
        let _ = writeln!(listing, "  {pc:#x}: {}", disassemble(bits, pc));
        pc += if bits & 3 == 3 { 4 } else { 2 };
    }
    for (number, bytes) in start[..=FCSR as usize * 8 + 7].chunks_exact(8).enumerate() {
        let mut raw = [0; 8];
        raw.copy_from_slice(bytes);
        let _ = writeln!(listing, "  [{number}] = {:#018x}", u64::from_le_bytes(raw));
    }
    panic!(
        "PERDURE_SEED={seed}, sequence {index}: {place} is {:#018x} on qemu, {:#018x} on {engine}\n\
         {listing}",
        long(expected),
        long(actual),
    );
}

#[test]
fn random_sequences_end_alike() {
    for seed in seeds(1) {
        let (program, _) = random_program(&mut Random::new(seed), cases(4000));
        let image = program.image();
        let expected = run_on_qemu(&program.elf(), "sequences.elf");
        let on_plain = run_on_engine(&image, plain::run);
        compare(&program, "the plain engine", &expected, &on_plain, seed);
        let blocks = std::cell::RefCell::new(BlockCache::new());
        let on_fast = run_on_engine(&image, |hart, memory| {
            fast::run(hart, memory, &mut blocks.borrow_mut())
        });
        compare(&program, "the fast engine", &expected, &on_fast, seed);
    }
}
