//! The fast engine against the plain one: the same registers, the same retired counts, the same
//! exits, the same memory, and the same calls to memory in the same order with the same arguments.
//!
//! The memory here records every call, keeps lines in an instruction cache that may go stale or
//! lose them at any time, faults on unmapped addresses, stalls (lowers the limit) now and then,
//! and knows some persistence functions. Programs are random words among instructions from the
//! table; they overwrite themselves, with and without `fence.i`.
//!
//! `PERDURE_SEED` and `PERDURE_CASES` set the seed and the number of programs.

use crate::common::encode::{branch, jal};
use crate::common::{Random, cases, random_float, random_operation, random_word, seeds};
use crate::recorder::{BASE, Call, Recorder};
use perdure_riscv::fast::BlockCache;
use perdure_riscv::{Exit, Hart, disassemble, fast, plain};
use std::fmt::Write;

const BYTES: usize = 8192;

/// What became of a program.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    hart: Hart,
    exits: Vec<(Exit, u64, u64)>,
    calls: Vec<(Call, u64)>,
    bytes: Vec<u8>,
}

/// Runs a program through a number of exits, moving on behind each as a kernel might.
fn run<const OBSERVES: bool>(
    start: &Hart,
    mut memory: Recorder<OBSERVES>,
    seed: u64,
    mut engine: impl FnMut(&mut Hart, &mut Recorder<OBSERVES>) -> Exit,
) -> Outcome {
    let (mut hart, mut random) = (start.clone(), Random::new(seed));
    let mut exits = Vec::new();
    while exits.len() < 60 && hart.retired < 5000 {
        let exit = engine(&mut hart, &mut memory);
        assert_eq!(hart.x[0], 0, "x0 after {exit:?} at {:#x}", hart.pc);
        exits.push((exit, hart.pc, hart.retired));
        match exit {
            Exit::Limit => {
                assert!(hart.retired >= memory.limit);
                memory.limit = hart.retired + random.below(200) as u64;
            }
            Exit::EnvironmentCall => hart.pc += 4,
            _ => hart.pc = (BASE + random.below(BYTES) as u64) & !1,
        }
    }
    Outcome {
        hart,
        exits,
        calls: memory.calls,
        bytes: memory.bytes,
    }
}

fn random_program(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < BYTES {
        match random.below(16) {
            0..4 => bytes.extend_from_slice(&(random.next() as u16).to_le_bytes()),
            4 => bytes.extend_from_slice(&(random.next() as u32 | 3).to_le_bytes()),
            5 => {
                // Short branches and jumps, so that there are loops.
                let offset = (random.below(128) - 80) & !1;
                let word = if random.once_in(3) {
                    jal(random.below(3) as u32, offset)
                } else {
                    branch(
                        random.next() as u32 & 0x01ff_f000 & !(2 << 12) | 0x63,
                        offset,
                    )
                };
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            _ => {
                let operation = random_operation(random, |_| true);
                bytes.extend_from_slice(&random_word(random, operation).to_le_bytes());
            }
        }
    }
    bytes.truncate(BYTES);
    bytes
}

fn random_hart(random: &mut Random) -> Hart {
    let mut hart = Hart {
        pc: (BASE + random.below(BYTES) as u64) & !1,
        ..Hart::default()
    };
    for register in 1..32 {
        // Mostly pointers into the program, mostly aligned ones.
        hart.x[register] = match random.below(6) {
            0 => random.next(),
            1 => BASE + random.below(BYTES) as u64,
            _ => (BASE + random.below(BYTES) as u64) & !7,
        };
    }
    for register in &mut hart.f {
        *register = random_float(random);
    }
    hart.fcsr = random.next() as u32 & 0xff;
    hart
}

#[test]
fn on_random_programs() {
    agree_on_random_programs::<false>();
}

/// Also on what each instruction is, and where it went.
#[test]
fn on_random_programs_that_are_observed() {
    agree_on_random_programs::<true>();
}

fn agree_on_random_programs<const OBSERVES: bool>() {
    for seed in seeds(1) {
        let mut random = Random::new(seed);
        let mut retired = 0;
        let mut blocks = BlockCache::new();
        for case in 0..cases(3000) {
            let case_seed = random.next();
            let mut random = Random::new(case_seed);
            let bytes = random_program(&mut random);
            let hart = random_hart(&mut random);
            let (coherent, limit) = (random.once_in(2), random.below(300) as u64);
            let memory = Recorder::<OBSERVES>::new(bytes, coherent, limit);
            let on_plain = run(&hart, memory.clone(), case_seed, plain::run);
            blocks.flush();
            let on_fast = run(&hart, memory.clone(), case_seed, |hart, memory| {
                fast::run(hart, memory, &mut blocks)
            });
            retired += on_plain.hart.retired;
            if on_plain != on_fast {
                explain(&on_plain, &on_fast, &memory.bytes, seed, case);
            }
        }
        assert!(retired > 0, "no program retired an instruction");
    }
}

fn explain(on_plain: &Outcome, on_fast: &Outcome, bytes: &[u8], seed: u64, case: usize) -> ! {
    let first = on_plain
        .calls
        .iter()
        .zip(&on_fast.calls)
        .position(|(a, b)| a != b);
    let call = first.unwrap_or(on_plain.calls.len().min(on_fast.calls.len()));
    let around = |calls: &[(Call, u64)]| {
        let range = call.saturating_sub(6)..(call + 3).min(calls.len());
        calls
            .get(range)
            .map(|calls| format!("{calls:x?}"))
            .unwrap_or_default()
    };
    let exit = on_plain
        .exits
        .iter()
        .zip(&on_fast.exits)
        .find(|(a, b)| a != b);
    let fetched = on_plain.calls[..call.min(on_plain.calls.len())]
        .iter()
        .rev()
        .find_map(|(c, _)| {
            if let Call::Fetch(pc) = c {
                Some(*pc)
            } else {
                None
            }
        });
    let mut listing = String::new();
    if let Some(mut pc) = fetched {
        for _ in 0..20 {
            let at = (pc - BASE) as usize;
            let Some(raw) = bytes.get(at..at + 4) else {
                break;
            };
            let bits = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
            let _ = writeln!(listing, "  {pc:#x}: {}", disassemble(bits, pc));
            pc += if bits & 3 == 3 { 4 } else { 2 };
        }
    }
    panic!(
        "PERDURE_SEED={seed}, program {case}: the engines part at call {call}\n\
         plain: {}\n fast: {}\nfirst different exit (plain, fast): {exit:x?}\n\
         the program as it began, where it fetched last:\n{listing}",
        around(&on_plain.calls),
        around(&on_fast.calls),
    );
}

/// A loop that replaces one half of its first instruction, `addi a4, a0, 1` or `addi a0, a0, 1`.
struct SelfModifying {
    /// Where the loop begins; at 62 its first instruction straddles two lines.
    begin: usize,
    /// The lower half becomes that of `addi a0, a0, 1`, or the upper half that of `…, 2`.
    upper_half: bool,
    with_fence: bool,
}

impl SelfModifying {
    fn bytes(&self) -> Vec<u8> {
        let mut words: Vec<u32> = if self.upper_half {
            vec![0x0015_0513, 0x00b6_1123] // loop: addi a0, a0, 1; sh a1, 2(a2)
        } else {
            vec![0x0015_0713, 0x00b6_1023] // loop: addi a4, a0, 1; sh a1, 0(a2)
        };
        words.extend(self.with_fence.then_some(0x0000_100f)); // fence.i
        words.push(0xfff6_8693); // addi a3, a3, -1
        words.push(if self.with_fence {
            0xfe06_98e3
        } else {
            0xfe06_9ae3
        }); // bnez a3, loop
        words.push(0x0010_0073); // ebreak
        let mut bytes = vec![0; self.begin];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.resize(BYTES, 0);
        bytes
    }

    fn hart(&self) -> Hart {
        let mut hart = Hart {
            pc: BASE + self.begin as u64,
            ..Hart::default()
        };
        hart.x[11] = if self.upper_half { 0x0025 } else { 0x0513 };
        hart.x[12] = hart.pc;
        hart.x[13] = 10;
        hart
    }
}

#[test]
fn on_code_that_changes_itself() {
    for begin in [0, 62] {
        for upper_half in [false, true] {
            // Coherent caches show the change at once, others only behind fence.i.
            for (coherent, with_fence) in
                [(true, true), (true, false), (false, true), (false, false)]
            {
                let changes = coherent || with_fence;
                let sum = match (upper_half, changes) {
                    (true, true) => 1 + 9 * 2,
                    (true, false) => 10,
                    (false, true) => 9,
                    (false, false) => 0,
                };
                let program = SelfModifying {
                    begin,
                    upper_half,
                    with_fence,
                };
                let memory = <Recorder>::new(program.bytes(), coherent, u64::MAX);
                let case = format!("at {begin}, {upper_half}, {coherent}, {with_fence}");

                let (mut hart, mut seen) = (program.hart(), memory.clone());
                assert_eq!(
                    plain::run(&mut hart, &mut seen),
                    Exit::Breakpoint,
                    "plain, {case}"
                );
                assert_eq!(hart.x[10], sum, "plain, {case}");

                let (mut hart, mut seen_fast) = (program.hart(), memory.clone());
                let exit = fast::run(&mut hart, &mut seen_fast, &mut BlockCache::new());
                assert_eq!(exit, Exit::Breakpoint, "fast, {case}");
                assert_eq!(hart.x[10], sum, "fast, {case}");
                assert_eq!(seen.calls, seen_fast.calls, "{case}");
            }
        }
    }
}

#[test]
fn a_line_whose_last_instruction_no_longer_straddles_is_decoded_again() {
    // The block at 60 holds one instruction, for the one behind it straddles the line's end; the
    // loop makes that one `c.nop`, and the block has two.
    let halves = [
        0x0505, // loop: c.addi a0, 1
        0x0013, 0x0001, // addi zero, sp, 0, of which the upper half is c.nop
        0x1023, 0x00b6, // sh a1, 0(a2)
        0x8693, 0xfff6, // addi a3, a3, -1
        0x99e3, 0xfe06, // bnez a3, loop
        0x0073, 0x0010, // ebreak
    ];
    let mut bytes = vec![0; 60];
    bytes.extend(halves.into_iter().flat_map(u16::to_le_bytes));
    bytes.resize(BYTES, 0);
    let memory = <Recorder>::new(bytes, true, u64::MAX);
    let mut hart = Hart {
        pc: BASE + 60,
        ..Hart::default()
    };
    hart.x[11] = 0x0001;
    hart.x[12] = BASE + 62;
    hart.x[13] = 10;
    let (mut on_plain, mut seen) = (hart.clone(), memory.clone());
    assert_eq!(plain::run(&mut on_plain, &mut seen), Exit::Breakpoint);
    let (mut on_fast, mut seen_fast) = (hart, memory);
    let exit = fast::run(&mut on_fast, &mut seen_fast, &mut BlockCache::new());
    assert_eq!(exit, Exit::Breakpoint);
    assert_eq!(on_plain, on_fast);
    assert_eq!(seen.calls, seen_fast.calls);
}

#[test]
fn a_flushed_range_is_decoded_again() {
    // The caches tell of no change, as after a new mapping whose translation nobody fetched yet.
    struct Deaf(Recorder);
    let mut hart = Hart {
        pc: BASE,
        ..Hart::default()
    };
    let mut bytes = vec![0; BYTES];
    bytes[..8].copy_from_slice(&[0x13, 0x05, 0x15, 0x00, 0x73, 0, 0x10, 0]);
    let mut memory = Deaf(<Recorder>::new(bytes, false, u64::MAX));
    let mut blocks = BlockCache::new();
    assert_eq!(
        fast::run(&mut hart, &mut memory.0, &mut blocks),
        Exit::Breakpoint
    );
    assert_eq!(hart.x[10], 1);
    memory.0.bytes[2] = 0x25;
    let mut again = |blocks: &mut BlockCache<u64>, memory: &mut Deaf| {
        hart.pc = BASE;
        fast::run(&mut hart, &mut memory.0, blocks);
        hart.x[10]
    };
    blocks.flush_range(BASE + 4096..BASE + 8192);
    assert_eq!(
        again(&mut blocks, &mut memory),
        2,
        "another page was flushed"
    );
    memory.0.cached.fill(None);
    blocks.flush_range(BASE + 8..BASE + 9);
    assert_eq!(again(&mut blocks, &mut memory), 4, "this page was flushed");
}

#[test]
fn a_full_cache_starts_afresh() {
    // More blocks than the cache keeps: a jump at every word, forwards, many times around.
    const JUMPS: usize = 70_000;
    let mut bytes: Vec<u8> = std::iter::repeat_n(0x0040_006f_u32.to_le_bytes(), JUMPS)
        .flatten()
        .collect();
    bytes.extend_from_slice(&0x0010_0073_u32.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    let mut memory = <Recorder>::new(bytes, true, u64::MAX);
    let mut blocks = BlockCache::new();
    let mut hart = Hart {
        pc: BASE,
        ..Hart::default()
    };
    for round in 1..=3 {
        assert_eq!(
            fast::run(&mut hart, &mut memory, &mut blocks),
            Exit::Breakpoint
        );
        assert_eq!(hart.retired, (round * JUMPS) as u64);
        hart.pc = BASE;
    }
}
