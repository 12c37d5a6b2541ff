//! The exerciser of strands: a small guest program made here, instruction by instruction, that maps a pool
//! and stores to it in strands. It is what `perdure mutants` runs under designs that have strands.
//!
//! Each thread walks its part of the pool with a xorshift generator and stores a number at each step; one
//! step in sixteen goes to a place that all share, so that strands of different threads conflict. Every so
//! many steps a strand ends, and every so many strands the thread waits for its own. All the while it stores
//! to ordinary memory, too, which pushes the pool's lines out of the caches.
//!
//! Named `@strands:STEPS:REGION_KIB:STEPS_PER_STRAND:THREADS`; the region is each thread's part.

use std::path::PathBuf;

use crate::error::Error;
use crate::exerciser::{STATE, write_program, xorshift};
use crate::guest_code::{
    A0, A1, A2, ADD, AND, Code, DATA, SP, T0, T1, T2, THREAD_FLAGS, ZERO, elf,
};

const NAME: &str = "@strands";

const BASE: u32 = 18;
const STEPS_LEFT: u32 = 19;
const UNTIL_END: u32 = 20;
const PART: u32 = 21;
const MASK: u32 = 22;
const UNTIL_SYNC: u32 = 23;
const ORDINARY: u32 = 24;
const DONE: u32 = 25;
const FIRST: u32 = 26;

/// Strands between two waits for them.
const STRANDS_PER_SYNC: u64 = 24;
/// Bytes of ordinary memory that are stored to.
const ORDINARY_BYTES: u64 = 64 << 10;
const STACK: u64 = 4096;

/// What the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    /// Of each thread.
    steps: u64,
    region_kib: u64,
    steps_per_strand: u64,
    threads: u64,
}

/// Where the program's file is, if the name asks for it.
pub fn path_of(name: &str) -> Option<Result<PathBuf, Error>> {
    let rest = name.strip_prefix(NAME)?;
    Some(parse(rest).and_then(|numbers| {
        let name = name.trim_start_matches('@').replace(':', "-");
        write_program(&build(numbers), &name)
    }))
}

/// True if one of these command lines names it.
pub fn is_among(lines: &[&[String]]) -> bool {
    lines.iter().any(|line| line[0].starts_with(NAME))
}

fn parse(rest: &str) -> Result<Numbers, Error> {
    let wrong = || {
        Error::Request(format!(
            "{NAME}{rest}: write {NAME}:STEPS:REGION_KIB:STEPS_PER_STRAND:THREADS, with a region of a power of two up to 1024 KiB and 1, 2, 4 or 8 threads"
        ))
    };
    let fields = rest.strip_prefix(':').ok_or_else(wrong)?.split(':');
    let numbers: Result<Vec<u64>, _> = fields.map(str::parse).collect();
    let Ok([steps, region_kib, steps_per_strand, threads]) =
        <[u64; 4]>::try_from(numbers.map_err(|_| wrong())?)
    else {
        return Err(wrong());
    };
    let good = (1..1 << 40).contains(&steps)
        && region_kib.is_power_of_two()
        && region_kib <= 1024
        && (1..1 << 31).contains(&steps_per_strand)
        && threads.is_power_of_two()
        && threads <= 8;
    good.then_some(Numbers {
        steps,
        region_kib,
        steps_per_strand,
        threads,
    })
    .ok_or_else(wrong)
}

/// A register gets a place in a range that a mask stands for, by the bits of the generator from one on.
fn place(code: &mut Code, to: u32, from_bit: i32, mask: u32) {
    code.srli(to, STATE, from_bit);
    code.register(AND, to, to, mask);
}

/// A persistence instruction.
fn persistence(code: &mut Code, function: u16) {
    let (funct7, funct3) = (u32::from(function >> 3), u32::from(function & 7));
    code.0.push(funct7 << 25 | funct3 << 12 | 0x2b);
}

/// Opens `/pmem/strands`, gives it so many bytes and maps it: its address is then in `BASE`.
fn map_pool(code: &mut Code, bytes: u64) {
    const OPEN_READ_WRITE_CREATE_EMPTY: i32 = 0o1102;
    let name = u128::from_le_bytes(*b"/pmem/strands\0\0\0");
    code.addi(SP, SP, -16);
    for (half, offset) in [(name as u64, 0), ((name >> 64) as u64, 8)] {
        code.constant(T0, half);
        code.store_double(T0, SP, offset);
    }
    code.addi(A0, ZERO, -100);
    code.addi(A1, SP, 0);
    code.addi(A2, ZERO, OPEN_READ_WRITE_CREATE_EMPTY);
    code.addi(13, ZERO, 0o600);
    code.call_system(56);
    code.addi(14, A0, 0);
    code.constant(A1, bytes);
    code.call_system(46);
    code.addi(A0, ZERO, 0);
    code.constant(A1, bytes);
    code.addi(A2, ZERO, 3);
    code.addi(13, ZERO, 1);
    code.addi(15, ZERO, 0);
    code.call_system(222);
    code.addi(BASE, A0, 0);
    // Its names and lengths are durable, so that a cut finds it.
    code.addi(A0, 14, 0);
    code.call_system(82);
    code.addi(SP, SP, 16);
}

/// Begins all threads but the first, each with its generator, its part and its stack. Returns from where
/// those have to go to the loop.
fn begin_threads(code: &mut Code, numbers: Numbers, stacks: u64) -> Vec<i32> {
    let (region, threads) = (numbers.region_kib * 1024, numbers.threads);
    let mut to_loop = Vec::new();
    for thread in (0..threads).rev() {
        code.constant(STATE, 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread + 1));
        code.constant(PART, region * (thread + 1));
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
    to_loop
}

fn build(numbers: Numbers) -> Vec<u8> {
    let region = numbers.region_kib * 1024;
    let threads = numbers.threads;
    let stacks = DATA + ORDINARY_BYTES;
    let done = stacks + STACK * threads;
    let mut code = Code::default();
    code.constant(STATE, 0x9e37_79b9_7f4a_7c15);
    map_pool(&mut code, region * (threads + 1));
    code.constant(STEPS_LEFT, numbers.steps);
    code.constant(MASK, region - 8);
    code.constant(ORDINARY, DATA);
    code.constant(DONE, done);
    code.constant(UNTIL_END, numbers.steps_per_strand);
    code.constant(UNTIL_SYNC, STRANDS_PER_SYNC);
    code.addi(FIRST, ZERO, 0);
    let to_loop = begin_threads(&mut code, numbers, stacks);
    let again = code.here();
    for from in to_loop {
        code.patch(from, 0, A0, ZERO, again);
    }
    xorshift(&mut code);
    // Own part, or what all share.
    place(&mut code, T0, 20, MASK);
    code.immediate(0x13, 7, T1, STATE, 15);
    code.branch(0, T1, ZERO, 2);
    code.register(ADD, T0, T0, PART);
    code.register(ADD, T0, T0, BASE);
    code.store_double(STATE, T0, 0);
    code.constant(T2, ORDINARY_BYTES - 8);
    place(&mut code, T0, 30, T2);
    code.register(ADD, T0, T0, ORDINARY);
    code.store_double(STATE, T0, 0);
    code.addi(UNTIL_END, UNTIL_END, -1);
    let goes_on = code.here();
    code.branch(1, UNTIL_END, ZERO, 0);
    persistence(&mut code, perdure_designs::spms::NEW_STRAND);
    code.constant(UNTIL_END, numbers.steps_per_strand);
    code.addi(UNTIL_SYNC, UNTIL_SYNC, -1);
    let no_wait = code.here();
    code.branch(1, UNTIL_SYNC, ZERO, 0);
    persistence(&mut code, perdure_designs::spms::STRAND_SYNC);
    code.constant(UNTIL_SYNC, STRANDS_PER_SYNC);
    let on = code.here();
    code.patch(goes_on, 1, UNTIL_END, ZERO, on);
    code.patch(no_wait, 1, UNTIL_SYNC, ZERO, on);
    code.addi(STEPS_LEFT, STEPS_LEFT, -1);
    let back = again - code.here();
    code.branch(1, STEPS_LEFT, ZERO, back);
    persistence(&mut code, perdure_designs::spms::NEW_STRAND);
    code.addi(T1, ZERO, 1);
    code.add_atomically(DONE, T1);
    code.branch(1, FIRST, ZERO, 4);
    code.addi(A0, ZERO, 0);
    code.call_system(93);
    // The first thread waits for the others.
    code.addi(T2, ZERO, threads as i32);
    let look = code.here();
    code.call_system(124);
    code.immediate(0x03, 3, T1, DONE, 0);
    code.branch(1, T1, T2, look - code.here());
    code.addi(A0, ZERO, 0);
    code.call_system(94);
    elf(&code.0, done + 64 - DATA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_refused() {
        for name in [
            "@strands",
            "@strands:1:64:1",
            "@strands:1:63:1:1",
            "@strands:1:64:0:3",
        ] {
            assert!(path_of(name).expect("its name").is_err(), "{name}");
        }
        assert!(path_of("@exerciser").is_none());
        assert!(path_of("@strands:10:4:2:2").expect("its name").is_ok());
    }
}
