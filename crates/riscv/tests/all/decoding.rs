//! The table against itself, against arbitrary bits, and against `objdump`.
//!
//! `PERDURE_SEED` and `PERDURE_CASES` set the seed and the number of random words.

use crate::common::{Random, cases, has_reserved_rounding, random_word, seeds};
use perdure_riscv::{Format, Instruction, Operation, TABLE, disassemble};
use std::path::PathBuf;
use std::process::Command;

#[test]
fn the_table_is_in_the_order_of_its_operations() {
    for (number, line) in TABLE.iter().enumerate() {
        assert_eq!(line.operation as usize, number, "{}", line.mnemonic);
        assert_eq!(
            line.encoding.fixed & !line.encoding.mask,
            0,
            "{}",
            line.mnemonic
        );
        assert_eq!(
            line.encoding.mask & 0x7f,
            0x7f,
            "{} leaves its opcode open",
            line.mnemonic
        );
    }
}

#[test]
fn no_two_lines_claim_the_same_word() {
    for (number, a) in TABLE.iter().enumerate() {
        for b in &TABLE[number + 1..] {
            let common = a.encoding.mask & b.encoding.mask;
            let apart = (a.encoding.fixed ^ b.encoding.fixed) & common != 0;
            // A special case comes first: its fixed bits include the other's.
            let special = common == b.encoding.mask && a.encoding.mask != b.encoding.mask;
            assert!(
                apart || special,
                "{} and {} overlap",
                a.mnemonic,
                b.mnemonic
            );
        }
    }
}

#[test]
fn every_line_decodes_to_itself_with_its_operands() {
    seeds(1).for_each(decode_each_line);
}

fn decode_each_line(seed: u64) {
    let mut random = Random::new(seed);
    for line in TABLE {
        for _ in 0..200 {
            let word = random_word(&mut random, line.operation);
            let decoded = Instruction::decode(word).expect("random_word makes instructions");
            let fields = (decoded.rd, decoded.rs1, decoded.rs2, decoded.length);
            let field = |low: u32| (word >> low & 31) as u8;
            assert_eq!(
                fields,
                (field(7), field(15), field(20), 4),
                "{}",
                line.mnemonic
            );
            let immediate =
                encode_immediate(line.operation.description().format, decoded.immediate);
            assert_eq!(immediate & word, immediate, "{} {word:#x}", line.mnemonic);
        }
    }
}

/// The immediate's bits where the specification puts them, written the other way round.
fn encode_immediate(format: Format, immediate: i32) -> u32 {
    let i = immediate as u32;
    let at = |from: u32, width: u32, to: u32| (i >> from & ((1 << width) - 1)) << to;
    match format {
        Format::Upper => i & 0xffff_f000,
        Format::Jump => at(20, 1, 31) | at(1, 10, 21) | at(11, 1, 20) | at(12, 8, 12),
        Format::Branch => at(12, 1, 31) | at(5, 6, 25) | at(1, 4, 8) | at(11, 1, 7),
        Format::Store | Format::FloatStore => at(5, 7, 25) | at(0, 5, 7),
        Format::Persistence => at(3, 7, 25) | at(0, 3, 12),
        Format::Immediate
        | Format::Load
        | Format::FloatLoad
        | Format::Csr
        | Format::CsrImmediate
        | Format::Fence => at(0, 12, 20),
        Format::Shift => at(0, 6, 20),
        _ => 0,
    }
}

#[test]
fn no_bits_upset_the_decoder() {
    seeds(1).for_each(decode_any_bits);
}

fn decode_any_bits(seed: u64) {
    let mut random = Random::new(seed);
    for half in (0..=u16::MAX).filter(|half| half & 3 != 3) {
        let decoded = Instruction::decode(u32::from(half));
        let text = disassemble(u32::from(half), 0x1000);
        assert_eq!(
            decoded.is_none(),
            text.starts_with('.'),
            "{half:#x}: {text}"
        );
    }
    for _ in 0..cases(300_000) {
        let bits = random.next() as u32;
        let decoded = Instruction::decode(bits);
        let text = disassemble(bits, random.next());
        let persistence = decoded.is_some_and(|d| d.operation == Operation::Persistence);
        assert_eq!(
            decoded.is_none(),
            text.starts_with('.') && !persistence,
            "{bits:#x}: {text}"
        );
    }
}

/// The text with what this crate and `objdump` (of whichever version) write differently for the
/// same bits taken out: comments, symbols, `0x`, and, before 2.41, `add` for `addi` and the like.
fn agreed(text: &str) -> String {
    const WITH_IMMEDIATE: [&str; 25] = [
        "addi", "addiw", "andi", "ori", "xori", "slti", "sltiu", "slli", "slliw", "srli", "srliw",
        "srai", "sraiw", "rori", "roriw", "bclri", "bexti", "binvi", "bseti", "csrrwi", "csrrsi",
        "csrrci", "csrwi", "csrsi", "csrci",
    ];
    let text = text
        .split(['#', '<'])
        .next()
        .unwrap_or_default()
        .replace("0x", "");
    let (mnemonic, operands) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let mut mnemonic = mnemonic.to_string();
    if WITH_IMMEDIATE.contains(&mnemonic.as_str()) {
        mnemonic.retain({
            let (mut seen, last) = (0, mnemonic.matches('i').count());
            move |letter| {
                seen += usize::from(letter == 'i');
                letter != 'i' || seen != last
            }
        });
    }
    format!("{mnemonic} {}", operands.trim())
}

/// What `objdump` 2.40 does not know, or what has no assembler form that is worth agreeing on.
fn comparable(bits: u32) -> bool {
    let Some(decoded) = Instruction::decode(bits) else {
        return false;
    };
    let format = decoded.operation.description().format;
    let compressed = decoded.length == 2;
    let named_csr = [1, 2, 3, 0xc00, 0xc01, 0xc02].contains(&decoded.immediate);
    let rounding = bits >> 12 & 7;
    match decoded.operation {
        // Not RISC-V's.
        _ if !compressed && bits & 0x7f == 0x2b => false,
        // Reserved fields that the specification says to ignore, but objdump does not.
        Operation::FenceI => bits == 0x0000_100f,
        Operation::Fence => {
            let fence = bits & 0x000f_ff80 == 0 && bits >> 28 == 0;
            fence && bits >> 24 & 0xf != 0 && bits >> 20 & 0xf != 0
        }
        Operation::FcvtDS
        | Operation::FcvtDW
        | Operation::FcvtDWu
        | Operation::FcvtSH
        | Operation::FcvtDH => rounding == 0,
        // Newer than binutils 2.40.
        Operation::CzeroEqz | Operation::CzeroNez => false,
        // Hints: no effect, and various names.
        _ if compressed && decoded.rd == 0 && writes_integer(format) => {
            decoded.operation == Operation::Jalr || decoded.operation == Operation::Jal
        }
        Operation::Slli | Operation::Srli | Operation::Srai if compressed => decoded.immediate != 0,
        Operation::Add => decoded.rd != 0,
        // `addi rd, rs, 0` compressed is a hint to say `mv`, or a nop that keeps its register.
        Operation::Addi if compressed => decoded.immediate != 0 || decoded.rs1 == 0,
        _ => match format {
            Format::Csr | Format::CsrImmediate => named_csr,
            _ => !has_reserved_rounding(bits),
        },
    }
}

fn writes_integer(format: Format) -> bool {
    !matches!(
        format,
        Format::Bare
            | Format::Branch
            | Format::Store
            | Format::FloatLoad
            | Format::FloatStore
            | Format::Fence
    )
}

/// Assembles raw bits and lists what `objdump` calls them.
fn objdump(bits: &[u32]) -> Vec<String> {
    let source: String = bits
        .iter()
        .map(|bits| match bits & 3 {
            3 => format!(".insn 4, {bits:#x}\n"),
            _ => format!(".insn 2, {bits:#x}\n"),
        })
        .collect();
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (assembly, object) = (directory.join("words.s"), directory.join("words.o"));
    std::fs::write(&assembly, source).expect("cannot write the assembly");
    let run = |command: &mut Command| {
        let output = command.output().unwrap_or_else(|error| {
            let name = command.get_program().to_string_lossy().into_owned();
            panic!("{name} is needed for this test (Debian package gcc-riscv64-linux-gnu): {error}")
        });
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{complaint}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let extensions =
        "-march=rv64gc_zicsr_zifencei_zba_zbb_zbc_zbs_zbkb_zfhmin_zicbom_zicboz_zihintpause";
    let mut assembler = Command::new("riscv64-linux-gnu-as");
    run(assembler
        .args([extensions, "-o"])
        .args([&object, &assembly]));
    let listing = run(Command::new("riscv64-linux-gnu-objdump")
        .arg("-d")
        .arg(&object));
    let is_instruction = |line: &&str| line.starts_with(' ') && line.contains(":\t");
    let text = |line: &str| {
        line.splitn(3, '\t')
            .nth(2)
            .unwrap_or_default()
            .replace('\t', " ")
    };
    listing.lines().filter(is_instruction).map(text).collect()
}

#[test]
fn disassembly_reads_like_objdump() {
    seeds(1).for_each(compare_with_objdump);
}

fn compare_with_objdump(seed: u64) {
    let mut random = Random::new(seed);
    let mut all = Vec::new();
    for line in TABLE {
        let words = (0..cases(40)).map(|_| random_word(&mut random, line.operation));
        all.extend(words.filter(|word| comparable(*word)));
        // Registers and immediates for which there are pseudo-instructions.
        for _ in 0..cases(40) {
            let word = random_word(&mut random, line.operation);
            let zeroed = word & !(random.pick(&[0, 31 << 7, 31 << 15, 31 << 20, 0xfff << 20]));
            let zeroed = zeroed & !line.encoding.mask | line.encoding.fixed;
            all.extend(Some(zeroed).filter(|word| comparable(*word)));
        }
    }
    all.extend((0..=u32::from(u16::MAX)).filter(|half| half & 3 != 3 && comparable(*half)));
    let theirs = objdump(&all);
    assert_eq!(
        theirs.len(),
        all.len(),
        "objdump lists another number of instructions"
    );
    let mut pc = 0;
    let mut differences = Vec::new();
    for (bits, theirs) in all.iter().zip(&theirs) {
        let ours = disassemble(*bits, pc);
        if agreed(&ours) != agreed(theirs) {
            differences.push(format!(
                "{bits:#010x} at {pc:#x}: {ours} | objdump: {theirs}"
            ));
        }
        pc += if bits & 3 == 3 { 4 } else { 2 };
    }
    assert!(
        differences.is_empty(),
        "PERDURE_SEED={seed}: {} of {} differ\n{}",
        differences.len(),
        all.len(),
        differences
            .iter()
            .take(60)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
}
