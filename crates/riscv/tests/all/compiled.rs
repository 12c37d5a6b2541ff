//! Traces against the plain engine: the same registers, exits and retired counts, and everything that hits
//! count, in a memory whose hits are laid open ([`crate::hitting`]).
//!
//! `PERDURE_SEED` and `PERDURE_CASES` set the seed and the number of programs.

use crate::common::encode::{branch, i_type, jal, s_type};
use crate::common::{
    Random, cases, random_float, random_integer, random_operation, random_word, seeds,
};
use crate::hitting::{BASE, Hitting, Left};
use perdure_riscv::fast::{BlockCache, Pace};
use perdure_riscv::{Exit, Format, Hart, Operation, TABLE, fast, plain};

/// Code, then data.
const CODE_BYTES: usize = 4096;
const DATA_BYTES: usize = 4096;
/// Registers with a purpose: two pointers into the data, counters of two loops.
const POINTERS: [u32; 2] = [8, 9];
const COUNTERS: [u32; 2] = [30, 31];

/// A register that no pointer or counter is in.
fn free(random: &mut Random) -> u32 {
    loop {
        let register = random.below(32) as u32;
        if !POINTERS.contains(&register) && !COUNTERS.contains(&register) {
            return register;
        }
    }
}

/// A load or store, often of the same few lines, sometimes across two.
fn random_access(random: &mut Random) -> u32 {
    let operation = random_operation(random, |operation| {
        let format = operation.description().format;
        operation != Operation::Jalr
            && matches!(
                format,
                Format::Load | Format::Store | Format::FloatLoad | Format::FloatStore
            )
    });
    let pointer = random.pick(&POINTERS);
    let immediate = match random.below(4) {
        0 => random.below(1024) - 512,
        _ => random.below(24) * 8,
    };
    let word = random_word(random, operation);
    let is_load = matches!(
        operation.description().format,
        Format::Load | Format::FloatLoad
    );
    if is_load {
        let rd = free(random);
        word & 0x707f | rd << 7 | pointer << 15 | (immediate as u32) << 20
    } else {
        let value = word >> 20 & 31;
        s_type(word & 0x7f, word >> 12 & 7, pointer, value, immediate)
    }
}

/// One instruction, or a few, of a loop's body.
fn random_piece(random: &mut Random, code: &mut Vec<u8>) {
    let push = |code: &mut Vec<u8>, word: u32| code.extend_from_slice(&word.to_le_bytes());
    match random.below(16) {
        0..4 => push(code, random_access(random)),
        4 => {
            // A branch over a word, or over two.
            let is_branch = |operation: Operation| operation.description().format == Format::Branch;
            let operation = random_operation(random, is_branch);
            let over = random.below(2) + 1;
            push(code, branch(random_word(random, operation), 4 + 4 * over));
            for _ in 0..over {
                push(
                    code,
                    i_type(0x13, 0, free(random), free(random), random.below(2048)),
                );
            }
        }
        5 => push(code, jal(free(random), 4)),
        6 => {
            // A jump through a register, behind itself or one further.
            let pointer = free(random).max(1);
            push(code, pointer << 7 | 0x17); // auipc
            let further = 4 * random.below(2);
            push(code, i_type(0x67, 0, free(random), pointer, 8 + further));
            push(code, i_type(0x13, 0, free(random), 0, 1));
        }
        7 if random.once_in(4) => {
            // What is not translated.
            let operation = random_operation(random, |operation| {
                matches!(
                    operation.description().format,
                    Format::FloatRounded | Format::Csr | Format::FloatCompare
                )
            });
            push(
                code,
                random_word(random, operation) & !(31 << 7) | free(random) << 7,
            );
        }
        8..10 => code.extend_from_slice(
            &random
                .pick(&[0x0001u16, 0x0505, 0x157d, 0x8d2d])
                .to_le_bytes(),
        ),
        _ => {
            let operation = random_operation(random, |operation| {
                matches!(
                    operation.description().format,
                    Format::Immediate
                        | Format::Shift
                        | Format::Register
                        | Format::Unary
                        | Format::Upper
                )
            });
            let word = random_word(random, operation);
            push(code, word & !(31 << 7) | free(random) << 7);
        }
    }
}

/// Two loops, one in the other, and then the end.
fn random_program(random: &mut Random) -> Vec<u8> {
    let mut code = Vec::new();
    let word = |code: &mut Vec<u8>, word: u32| code.extend_from_slice(&word.to_le_bytes());
    let count = |random: &mut Random| 2 + random.below(40);
    word(&mut code, i_type(0x13, 0, COUNTERS[0], 0, count(random)));
    let outer = code.len();
    word(&mut code, i_type(0x13, 0, COUNTERS[1], 0, count(random)));
    for _ in 0..random.below(12) {
        random_piece(random, &mut code);
    }
    let inner = code.len();
    for _ in 0..=random.below(24) {
        random_piece(random, &mut code);
    }
    for (counter, to) in [(COUNTERS[1], inner), (COUNTERS[0], outer)] {
        for _ in 0..random.below(6) {
            random_piece(random, &mut code);
        }
        word(&mut code, i_type(0x13, 0, counter, counter, -1));
        let back = to as i32 - code.len() as i32;
        word(&mut code, branch(1 << 12 | counter << 15 | 0x63, back));
    }
    word(&mut code, 0x0010_0073);
    assert!(code.len() <= CODE_BYTES);
    code.resize(CODE_BYTES, 0);
    code.extend((0..DATA_BYTES).map(|_| random.next() as u8));
    code
}

fn random_hart(random: &mut Random) -> Hart {
    let mut hart = Hart {
        pc: BASE,
        ..Hart::default()
    };
    hart.x[1..].fill_with(|| random_integer(random));
    for pointer in POINTERS {
        let offset = (512 + random.below(DATA_BYTES - 1024) as u64) & !7;
        hart.x[pointer as usize] = BASE + CODE_BYTES as u64 + offset;
    }
    hart.f.fill_with(|| random_float(random));
    hart
}

type Outcome = (Hart, Vec<(Exit, u64, u64)>, Left);

fn run(
    hart: &Hart,
    bytes: &[u8],
    seed: u64,
    mut engine: impl FnMut(&mut Hart, &mut Hitting) -> Exit,
) -> Outcome {
    let (mut hart, mut random) = (hart.clone(), Random::new(seed));
    let turn = 1 + random.below(500);
    let mut memory = Hitting::new(bytes.to_vec(), turn as u64);
    let mut exits = Vec::new();
    while exits.len() < 400 && hart.retired < 30_000 {
        let exit = engine(&mut hart, &mut memory);
        exits.push((exit, hart.pc, hart.retired));
        match exit {
            Exit::Limit => *memory.limit = hart.retired + random.below(2 * turn) as u64,
            Exit::Breakpoint => break,
            Exit::Fault(_) => {} // Again, as behind a page's mapping.
            _ => hart.pc += 4,
        }
    }
    (hart, exits, memory.left())
}

#[test]
fn on_random_loops() {
    for seed in seeds(1) {
        let mut random = Random::new(seed);
        let (mut retired, mut traces) = (0, 0);
        for case in 0..cases(400) {
            let case_seed = random.next();
            let mut random = Random::new(case_seed);
            let bytes = random_program(&mut random);
            let hart = random_hart(&mut random);
            let expected = run(&hart, &bytes, case_seed, plain::run);
            let pace = Pace {
                hot: 1 + random.below(4) as u16,
                instructions_to_pay: 100,
                instructions_to_wait: random.below(2),
            };
            let mut blocks = BlockCache::compiling(pace);
            let mut turns = 0;
            let compiled = run(&hart, &bytes, case_seed, |hart, memory| {
                turns += 1;
                if turns % 5 == 0 {
                    blocks = blocks.clone(); // A copy has the traces, too.
                }
                fast::run(hart, memory, &mut blocks)
            });
            retired += expected.0.retired;
            traces += blocks.traces();
            let told = format!("PERDURE_SEED={seed}, program {case}");
            assert_eq!(expected.0, compiled.0, "{told}");
            assert_eq!(expected.1, compiled.1, "{told}");
            assert!(
                expected.2 == compiled.2,
                "{told}: what was counted, stamped or stored"
            );
        }
        println!("{retired} instructions, {traces} traces");
        let compiles = cfg!(all(target_arch = "x86_64", unix));
        assert!(!compiles || traces > 100, "{traces} traces were made");
    }
}

/// Every operation that computes, in a loop over pairs of values at which arithmetic goes wrong.
#[test]
fn every_operation_computes_what_the_plain_engine_does() {
    const PAIRS: usize = 400;
    let mut random = Random::new(3);
    let mut data = Vec::new();
    for _ in 0..PAIRS {
        for value in [random_integer(&mut random), random_integer(&mut random), 0] {
            data.extend_from_slice(&value.to_le_bytes());
        }
    }
    let mut traces = 0;
    // The one quotient that overflows.
    let overflowing = [1u64 << 63, u64::MAX].map(u64::to_le_bytes);
    let last = data.len() - 24;
    data[last..last + 16].copy_from_slice(overflowing.as_flattened());
    for line in TABLE.iter().filter(|line| {
        matches!(
            line.format,
            Format::Immediate | Format::Shift | Format::Register | Format::Unary | Format::Upper
        )
    }) {
        let operation = random_word(&mut random, line.operation);
        let [pointer, counter] = [POINTERS[0], COUNTERS[0]];
        let words = [
            i_type(0x03, 3, 11, pointer, 0),
            i_type(0x03, 3, 12, pointer, 8),
            operation & !(31 << 7 | 31 << 15) | 10 << 7 | 11 << 15,
            s_type(0x23, 3, pointer, 10, 16),
            i_type(0x13, 0, pointer, pointer, 24),
            i_type(0x13, 0, counter, counter, -1),
            branch(1 << 12 | counter << 15 | 0x63, -24),
            0x0010_0073,
        ];
        let mut words = words.to_vec();
        if line.format == Format::Register {
            words[2] = words[2] & !(31 << 20) | 12 << 20;
        } else if line.format == Format::Upper {
            words[2] = operation & !(31 << 7) | 10 << 7;
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(64, 0);
        bytes.extend_from_slice(&data);
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let mut hart = Hart {
            pc: BASE,
            ..Hart::default()
        };
        hart.x[pointer as usize] = BASE + 64;
        hart.x[counter as usize] = PAIRS as u64;
        let end = |engine: &mut dyn FnMut(&mut Hart, &mut Hitting) -> Exit| {
            let (mut hart, mut memory) = (hart.clone(), Hitting::new(bytes.clone(), u64::MAX));
            while engine(&mut hart, &mut memory) != Exit::Breakpoint {}
            (hart, memory.left())
        };
        let mut blocks = BlockCache::compiling(Pace {
            hot: 1,
            instructions_to_pay: 0,
            instructions_to_wait: 0,
        });
        let expected = end(&mut |hart, memory| plain::run(hart, memory));
        let compiled = end(&mut |hart, memory| fast::run(hart, memory, &mut blocks));
        assert!(expected == compiled, "{}", line.mnemonic);
        traces += blocks.traces();
    }
    let compiles = cfg!(all(target_arch = "x86_64", unix));
    assert!(!compiles || traces > 80, "{traces} operations are compiled");
}
