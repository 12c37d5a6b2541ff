//! The exerciser: a small guest program made here, instruction by instruction, so that designs can
//! be put to the test without any compiler. It is what `perdure mutants` runs.
//!
//! It walks a region with a xorshift generator. Each step loads a word, changes it and stores it
//! back, mostly near where the last step was and sometimes far away, so that lines are written again
//! across epochs, evicted, and fetched back; it keeps a running sum of what it loaded, so that one
//! wrong word changes everything after it. Every so many steps it writes the sum to standard
//! output. It ends with the low bits of the sum as exit status.
//!
//! With several threads, each step adds a number to a word that all threads add to, atomically, and
//! to one in a line of its own between the others' lines, and reads a word of anybody's. Each thread
//! is slower than the one before, so that some lag behind. Sums do not depend on the order, so that
//! the result is the same however the threads took turns, and one addition too few or too many
//! changes it. The first thread also writes to standard output as it goes, and in the end the sum of
//! everything.
//!
//! Named `@exerciser:STEPS:REGION_KIB:OUTPUT_EVERY:THREADS` on the command line; the numbers are built
//! into the program as constants.

use std::path::PathBuf;

use crate::error::Error;
use crate::guest_code::{
    A0, A1, A2, ADD, AND, Code, DATA, T0, T1, T2, THREAD_FLAGS, XOR, ZERO, elf,
};

const NAME: &str = "@exerciser";

/// What the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    /// Of each thread.
    steps: u64,
    region_kib: u64,
    output_every: u64,
    threads: u64,
}

/// Where the program's file is, if the name asks for it: `@exerciser`,
/// `@exerciser:STEPS:REGION_KIB:OUTPUT_EVERY`, or that with `:THREADS`.
pub fn path_of(name: &str) -> Option<Result<PathBuf, Error>> {
    let rest = name.strip_prefix(NAME)?;
    Some(parse(rest).and_then(|numbers| write_file(&build(numbers), numbers)))
}

fn parse(rest: &str) -> Result<Numbers, Error> {
    let mut numbers: [u64; 4] = [40_000, 256, 4_000, 1];
    let wrong = || {
        Error::Request(format!(
            "{NAME}{rest}: write {NAME}:STEPS:REGION_KIB:OUTPUT_EVERY:THREADS, with a region of a power of two up to 65536 KiB and 1, 2, 4, 8 or 16 threads"
        ))
    };
    if !rest.is_empty() {
        let fields: Vec<_> = rest
            .strip_prefix(':')
            .ok_or_else(wrong)?
            .split(':')
            .collect();
        if !(3..=4).contains(&fields.len()) {
            return Err(wrong());
        }
        for (number, field) in numbers.iter_mut().zip(fields) {
            *number = field.parse().map_err(|_| wrong())?;
        }
    }
    let [steps, region_kib, output_every, threads] = numbers;
    let good = (1..1 << 40).contains(&steps)
        && region_kib.is_power_of_two()
        && region_kib <= 65536
        && (1..1 << 31).contains(&output_every)
        && threads.is_power_of_two()
        && threads <= 16;
    if !good {
        return Err(wrong());
    }
    Ok(Numbers {
        steps,
        region_kib,
        output_every,
        threads,
    })
}

/// The file lies in the temporary directory, one for each choice of numbers, and is kept there for
/// the next run; its name and content do not depend on who asks.
fn write_file(elf: &[u8], numbers: Numbers) -> Result<PathBuf, Error> {
    let Numbers {
        steps,
        region_kib,
        output_every,
        threads,
    } = numbers;
    let name = format!("exerciser-{steps}-{region_kib}-{output_every}-{threads}");
    write_program(elf, &name)
}

/// Writes a program of that name.
pub(crate) fn write_program(elf: &[u8], name: &str) -> Result<PathBuf, Error> {
    let directory = std::env::temp_dir().join("perdure-exerciser");
    let host = |source| Error::Host {
        what: format!("writing {}", directory.display()),
        source,
    };
    let path = directory.join(name);
    if std::fs::read(&path).is_ok_and(|present| present == elf) {
        return Ok(path);
    }
    std::fs::create_dir_all(&directory).map_err(host)?;
    // Several threads and processes may want it at once: each writes its own, one name wins.
    let thread = std::thread::current().id();
    let unfinished = path.with_extension(format!("{}-{thread:?}", std::process::id()));
    std::fs::write(&unfinished, elf).map_err(host)?;
    std::fs::rename(&unfinished, &path).map_err(host)?;
    Ok(path)
}

pub(crate) const STATE: u32 = 8;
const SUM: u32 = 9;
const BASE: u32 = 18;
const STEPS_LEFT: u32 = 19;
const UNTIL_OUTPUT: u32 = 20;
const PLACE: u32 = 21;
const MASK: u32 = 22;
const PRIVATE: u32 = 23;
const END: u32 = 24;
const DONE: u32 = 25;
const FIRST: u32 = 26;
const DELAY: u32 = 27;

pub(crate) fn xorshift(code: &mut Code) {
    for (left, bits) in [(true, 13), (false, 7), (true, 17)] {
        if left {
            code.slli(T0, STATE, bits);
        } else {
            code.srli(T0, STATE, bits);
        }
        code.register(XOR, STATE, STATE, T0);
    }
}

fn build(numbers: Numbers) -> Vec<u8> {
    let Numbers {
        steps,
        region_kib,
        output_every,
        threads,
    } = numbers;
    if threads > 1 {
        return build_threads(numbers);
    }
    let mut code = Code::default();
    code.constant(STATE, 0x9e37_79b9_7f4a_7c15);
    code.constant(BASE, DATA);
    code.constant(STEPS_LEFT, steps);
    code.constant(UNTIL_OUTPUT, output_every);
    code.constant(MASK, region_kib * 1024 - 8);
    code.addi(SUM, ZERO, 0);
    code.addi(PLACE, ZERO, 0);

    let again = code.here();
    next_place(&mut code);
    code.register(ADD, T0, PLACE, BASE);
    code.immediate(0x03, 3, T1, T0, 0);
    code.register(ADD, SUM, SUM, T1);
    code.register(XOR, T1, T1, STATE);
    code.register(ADD, T1, T1, SUM);
    code.store_double(T1, T0, 0);
    code.addi(UNTIL_OUTPUT, UNTIL_OUTPUT, -1);
    let skip_from = code.here();
    code.branch(1, UNTIL_OUTPUT, ZERO, 0);
    code.write(SUM);
    code.constant(UNTIL_OUTPUT, output_every);
    let skip_to = code.here();
    code.patch(skip_from, 1, UNTIL_OUTPUT, ZERO, skip_to);
    code.addi(STEPS_LEFT, STEPS_LEFT, -1);
    let back = again - code.here();
    code.branch(1, STEPS_LEFT, ZERO, back);
    code.immediate(0x13, 7, A0, SUM, 63);
    code.call_system(94);
    elf(&code.0, region_kib * 1024)
}

/// The other places move by up to 2 KiB; one step in eight jumps anywhere.
fn next_place(code: &mut Code) {
    xorshift(code);
    code.immediate(0x13, 7, T1, STATE, 7);
    code.srli(T2, STATE, 20);
    code.branch(0, T1, ZERO, 2);
    code.immediate(0x13, 7, T2, T2, 0x7ff);
    code.register(ADD, PLACE, PLACE, T2);
    code.register(AND, PLACE, PLACE, MASK);
}

/// Shared words, then every thread's own lines dealt out in turn, then stacks, then the counter of
/// threads that are done.
fn build_threads(numbers: Numbers) -> Vec<u8> {
    const STACK: u64 = 4096;
    let region = numbers.region_kib * 1024;
    let threads = numbers.threads;
    let own = DATA + region;
    let stacks = own + region * threads;
    let done = stacks + STACK * threads;
    let mut code = Code::default();
    code.constant(BASE, DATA);
    code.constant(STEPS_LEFT, numbers.steps);
    code.constant(MASK, region - 8);
    code.constant(DONE, done);
    code.constant(END, stacks);
    code.addi(PLACE, ZERO, 0);
    code.addi(FIRST, ZERO, 0);
    let mut to_loop = Vec::new();
    for thread in (0..threads).rev() {
        code.constant(STATE, 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread + 1));
        code.constant(PRIVATE, own + thread * 64);
        code.addi(DELAY, ZERO, 16 * thread as i32);
        if thread == 0 {
            code.addi(FIRST, ZERO, 1);
            break;
        }
        code.constant(A0, THREAD_FLAGS);
        code.constant(A1, stacks + STACK * (thread + 1));
        code.addi(A2, ZERO, 0);
        code.addi(13, ZERO, 0);
        code.addi(14, ZERO, 0);
        code.call_system(220);
        to_loop.push(code.here());
        code.branch(0, A0, ZERO, 0);
    }
    code.constant(UNTIL_OUTPUT, numbers.output_every);
    let again = code.here();
    for from in to_loop {
        code.patch(from, 0, A0, ZERO, again);
    }
    next_place(&mut code);
    code.register(ADD, T0, PLACE, BASE);
    code.add_atomically(T0, STATE);
    code.immediate(0x13, 7, T0, PLACE, -64);
    code.slli(T0, T0, threads.trailing_zeros().cast_signed());
    code.register(ADD, T0, T0, PRIVATE);
    code.immediate(0x03, 3, T1, T0, 0);
    code.register(ADD, T1, T1, STATE);
    code.store_double(T1, T0, 0);
    // What anybody did somewhere else is seen, and makes no difference.
    code.srli(T0, STATE, 24);
    code.register(AND, T0, T0, MASK);
    code.register(ADD, T0, T0, BASE);
    code.immediate(0x03, 3, T1, T0, 0);
    code.addi(T1, DELAY, 1);
    code.addi(T1, T1, -1);
    code.branch(1, T1, ZERO, -1);
    // Only the first thread writes, so that the order is its own.
    let not_first = code.here();
    code.branch(0, FIRST, ZERO, 0);
    code.addi(UNTIL_OUTPUT, UNTIL_OUTPUT, -1);
    let not_yet = code.here();
    code.branch(1, UNTIL_OUTPUT, ZERO, 0);
    code.write(STATE);
    code.constant(UNTIL_OUTPUT, numbers.output_every);
    let on = code.here();
    code.patch(not_first, 0, FIRST, ZERO, on);
    code.patch(not_yet, 1, UNTIL_OUTPUT, ZERO, on);
    code.addi(STEPS_LEFT, STEPS_LEFT, -1);
    let back = again - code.here();
    code.branch(1, STEPS_LEFT, ZERO, back);
    code.addi(T1, ZERO, 1);
    code.add_atomically(DONE, T1);
    let waits = code.here();
    code.branch(1, FIRST, ZERO, 4);
    code.addi(A0, ZERO, 0);
    code.call_system(93);
    debug_assert_eq!(code.here(), waits + 4);
    // The first thread waits for the others, then adds everything up.
    code.addi(T2, ZERO, threads as i32);
    let look = code.here();
    code.call_system(124);
    code.immediate(0x03, 3, T1, DONE, 0);
    code.branch(1, T1, T2, look - code.here());
    code.addi(SUM, ZERO, 0);
    let sum = code.here();
    code.immediate(0x03, 3, T1, BASE, 0);
    code.slli(T0, SUM, 1);
    code.srli(SUM, SUM, 63);
    code.register(ADD, SUM, SUM, T0);
    code.register(XOR, SUM, SUM, T1);
    code.addi(BASE, BASE, 8);
    let back = sum - code.here();
    code.branch(1, BASE, END, back);
    code.write(SUM);
    code.immediate(0x13, 7, A0, SUM, 63);
    code.call_system(94);
    elf(&code.0, done + 64 - DATA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest_code::HEADERS;

    #[test]
    fn every_instruction_decodes() {
        let numbers = parse(":100:64:10:4").unwrap();
        let files = [1, 4].map(|threads| build(Numbers { threads, ..numbers }));
        for word in files
            .iter()
            .flat_map(|file| file[HEADERS as usize..].chunks_exact(4))
        {
            let bits = u32::from_le_bytes(word.try_into().unwrap());
            let text = perdure_riscv::disassemble(bits, 0);
            assert!(!text.contains("byte"), "{bits:#010x} is {text}");
        }
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for name in [
            "@exerciser:1",
            "@exerciser:0:64:1",
            "@exerciser:1:63:1",
            "@exerciser:a:64:1",
            "@exerciser:1:64:1:3",
        ] {
            assert!(path_of(name).unwrap().is_err(), "{name}");
        }
        assert!(path_of("exerciser").is_none());
    }
}
