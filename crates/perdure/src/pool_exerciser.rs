//! The exercisers of pools: small guest programs made here, instruction by instruction, that map a pool and
//! store to it in strands, or in wraps. They are what `perdure mutants` runs under designs that have those.
//!
//! Each thread walks its part of the pool with a xorshift generator and stores a number at each step; one
//! step in sixteen goes to a place that all share. So strands of different threads conflict, which is what
//! strands are for; wraps of which two may store to a word must not overlap, so there a thread takes a lock
//! first, and gives it up when its wrap is closed. Every so many steps a strand or a wrap ends, and every so
//! many strands the thread waits for its own. All the while it stores to ordinary memory, too, which pushes
//! the pool's lines out of the caches.
//!
//! Named `@strands:STEPS:REGION_KIB:STEPS_PER_STRAND:THREADS`, or the same with `@wraps`; the region is each
//! thread's part.

use std::path::PathBuf;

use perdure_designs::hlog::{WRAP_CLOSE, WRAP_OPEN, WRAP_RECORD};
use perdure_designs::spms::{NEW_STRAND, STRAND_SYNC};

use crate::error::Error;
use crate::exerciser::{STATE, write_program, xorshift};
use crate::guest_code::{
    A0, A1, A2, ADD, AND, Code, DATA, SP, T0, T1, T2, THREAD_FLAGS, ZERO, elf,
};

pub(crate) const BASE: u32 = 18;
pub(crate) const STEPS_LEFT: u32 = 19;
const UNTIL_END: u32 = 20;
pub(crate) const PART: u32 = 21;
pub(crate) const MASK: u32 = 22;
const UNTIL_SYNC: u32 = 23;
const ORDINARY: u32 = 24;
pub(crate) const DONE: u32 = 25;
pub(crate) const FIRST: u32 = 26;
const HOLDS_LOCK: u32 = 27;
const LOCK: u32 = 28;

/// Strands between two waits for them.
const STRANDS_PER_SYNC: u64 = 24;
/// Which of the words that all share wraps store to.
const SHARED_WORDS_MASK: i32 = 0x78;
/// Bytes of ordinary memory that are stored to.
const ORDINARY_BYTES: u64 = 64 << 10;
const STACK: u64 = 4096;

/// In what a thread stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wholes {
    Strands,
    Wraps,
}

impl Wholes {
    /// How such a program is named, as that of a name is.
    fn named(name: &str) -> Option<(Self, &str)> {
        let all = [Self::Strands, Self::Wraps];
        all.into_iter()
            .find_map(|one| Some((one, name.strip_prefix(one.name())?)))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Strands => "@strands",
            Self::Wraps => "@wraps",
        }
    }

    /// One of them, in messages.
    const fn one(self) -> &'static str {
        match self {
            Self::Strands => "STRAND",
            Self::Wraps => "WRAP",
        }
    }

    /// The pool, in sixteen bytes.
    const fn pool(self) -> &'static [u8; 16] {
        match self {
            Self::Strands => b"/pmem/strands\0\0\0",
            Self::Wraps => b"/pmem/wraps\0\0\0\0\0",
        }
    }
}

/// What the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    wholes: Wholes,
    /// Of each thread.
    steps: u64,
    region_kib: u64,
    steps_per_whole: u64,
    threads: u64,
}

/// Where the program's file is, if the name asks for it.
pub fn path_of(name: &str) -> Option<Result<PathBuf, Error>> {
    let (wholes, rest) = Wholes::named(name)?;
    Some(parse(wholes, rest).and_then(|numbers| {
        let name = name.trim_start_matches('@').replace(':', "-");
        write_program(&build(numbers), &name)
    }))
}

/// The one that one of these command lines names.
pub fn among(lines: &[&[String]]) -> Option<&'static str> {
    let mut named = lines.iter().filter_map(|line| Wholes::named(&line[0]));
    named.next().map(|(wholes, _)| wholes.name())
}

fn parse(wholes: Wholes, rest: &str) -> Result<Numbers, Error> {
    let name = wholes.name();
    let wrong = || {
        Error::Request(format!(
            "{name}{rest}: write {name}:STEPS:REGION_KIB:STEPS_PER_{}:THREADS, with a region of a power of two up to 1024 KiB and 1, 2, 4 or 8 threads",
            wholes.one()
        ))
    };
    let fields = rest.strip_prefix(':').ok_or_else(wrong)?.split(':');
    let numbers: Result<Vec<u64>, _> = fields.map(str::parse).collect();
    let Ok([steps, region_kib, steps_per_whole, threads]) =
        <[u64; 4]>::try_from(numbers.map_err(|_| wrong())?)
    else {
        return Err(wrong());
    };
    let good = (1..1 << 40).contains(&steps)
        && region_kib.is_power_of_two()
        && region_kib <= 1024
        && (1..1 << 31).contains(&steps_per_whole)
        && threads.is_power_of_two()
        && threads <= 8;
    good.then_some(Numbers {
        wholes,
        steps,
        region_kib,
        steps_per_whole,
        threads,
    })
    .ok_or_else(wrong)
}

/// A register gets a place in a range that a mask stands for, by the bits of the generator from one on.
pub(crate) fn place(code: &mut Code, to: u32, from_bit: i32, mask: u32) {
    code.srli(to, STATE, from_bit);
    code.register(AND, to, to, mask);
}

/// A persistence instruction with two operands.
pub(crate) fn persistence_of(code: &mut Code, function: u16, rs1: u32, rs2: u32) {
    let (funct7, funct3) = (u32::from(function >> 3), u32::from(function & 7));
    code.0
        .push(funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | 0x2b);
}

/// A persistence instruction.
fn persistence(code: &mut Code, function: u16) {
    persistence_of(code, function, ZERO, ZERO);
}

/// Opens a file, whose descriptor is then in register 14. The name, with zeros to whole words of eight
/// bytes, is on the stack, until that is moved back.
pub(crate) fn open(code: &mut Code, path: &[u8], flags: i32, mode: i32) {
    let (words, _) = path.as_chunks();
    let bytes = i32::try_from(path.len()).expect("a short name");
    code.addi(SP, SP, -bytes);
    for (offset, word) in (0..).step_by(8).zip(words) {
        code.constant(T0, u64::from_le_bytes(*word));
        code.store_double(T0, SP, offset);
    }
    code.addi(A0, ZERO, -100);
    code.addi(A1, SP, 0);
    code.addi(A2, ZERO, flags);
    code.addi(13, ZERO, mode);
    code.call_system(56);
    code.addi(14, A0, 0);
}

/// Maps so many bytes of the file in register 14, shared: their address is then in that register.
pub(crate) fn map_shared(code: &mut Code, bytes: u64, to: u32) {
    code.addi(A0, ZERO, 0);
    code.constant(A1, bytes);
    code.addi(A2, ZERO, 3);
    code.addi(13, ZERO, 1);
    code.addi(15, ZERO, 0);
    code.call_system(222);
    code.addi(to, A0, 0);
}

/// Opens the pool, gives it so many bytes and maps it: its address is then in `BASE`.
pub(crate) fn map_pool(code: &mut Code, path: &[u8; 16], bytes: u64) {
    const OPEN_READ_WRITE_CREATE_EMPTY: i32 = 0o1102;
    open(code, path, OPEN_READ_WRITE_CREATE_EMPTY, 0o600);
    code.constant(A1, bytes);
    code.call_system(46);
    map_shared(code, bytes, BASE);
    // Its names and lengths are durable, so that a cut finds it.
    code.addi(A0, 14, 0);
    code.call_system(82);
    code.addi(SP, SP, 16);
}

/// Begins all threads but the first, each with its generator, its part of so many bytes and its stack.
/// Returns from where those have to go to the loop.
pub(crate) fn begin_threads(code: &mut Code, threads: u64, region: u64, stacks: u64) -> Vec<i32> {
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

/// One store to the pool of the number, to the thread's own part or to what all share.
fn store_to_pool(code: &mut Code, wholes: Wholes) {
    place(code, T0, 20, MASK);
    code.immediate(0x13, 7, T1, STATE, 15);
    match wholes {
        Wholes::Strands => {
            code.branch(0, T1, ZERO, 2);
            code.register(ADD, T0, T0, PART);
            load_shared(code);
        }
        Wholes::Wraps => {
            let shares = code.here();
            code.branch(0, T1, ZERO, 0);
            code.register(ADD, T0, T0, PART);
            let own = code.here();
            code.branch(0, ZERO, ZERO, 0);
            code.patch(shares, 0, T1, ZERO, code.here());
            // Few words, so that wraps store to the same ones.
            code.immediate(0x13, 7, T0, T0, SHARED_WORDS_MASK);
            take_lock(code);
            code.patch(own, 0, ZERO, ZERO, code.here());
        }
    }
    code.register(ADD, T0, T0, BASE);
    code.store_double(STATE, T0, 0);
    if wholes == Wholes::Wraps {
        persistence_of(code, WRAP_RECORD, T0, STATE);
    }
}

/// In one step of sixteen, a load from what all share: strands may be ordered by loads, too.
fn load_shared(code: &mut Code) {
    place(code, T2, 36, MASK);
    code.register(ADD, T2, T2, BASE);
    code.srli(T1, STATE, 9);
    code.immediate(0x13, 7, T1, T1, 15);
    code.branch(1, T1, ZERO, 2);
    code.immediate(0x03, 3, T1, T2, 0);
}

/// Takes the lock of what all share, unless the thread has it.
fn take_lock(code: &mut Code) {
    let has_it = code.here();
    code.branch(1, HOLDS_LOCK, ZERO, 0);
    code.addi(HOLDS_LOCK, ZERO, 1);
    let again = code.here();
    code.exchange(T1, LOCK, HOLDS_LOCK);
    let taken = code.here();
    code.branch(0, T1, ZERO, 0);
    code.call_system(124);
    code.branch(0, ZERO, ZERO, again - code.here());
    let on = code.here();
    code.patch(has_it, 1, HOLDS_LOCK, ZERO, on);
    code.patch(taken, 0, T1, ZERO, on);
}

/// Ends the thread's strand or wrap.
fn end_whole(code: &mut Code, wholes: Wholes) {
    match wholes {
        Wholes::Strands => persistence(code, NEW_STRAND),
        Wholes::Wraps => {
            persistence(code, WRAP_CLOSE);
            code.branch(0, HOLDS_LOCK, ZERO, 3);
            code.addi(HOLDS_LOCK, ZERO, 0);
            code.store_word(ZERO, LOCK);
        }
    }
}

/// After a strand or a wrap: begins the next, and waits for strands now and then.
fn begin_whole(code: &mut Code, wholes: Wholes) {
    match wholes {
        Wholes::Strands => {
            code.addi(UNTIL_SYNC, UNTIL_SYNC, -1);
            let no_wait = code.here();
            code.branch(1, UNTIL_SYNC, ZERO, 0);
            persistence(code, STRAND_SYNC);
            code.constant(UNTIL_SYNC, STRANDS_PER_SYNC);
            code.patch(no_wait, 1, UNTIL_SYNC, ZERO, code.here());
        }
        Wholes::Wraps => persistence(code, WRAP_OPEN),
    }
}

fn build(numbers: Numbers) -> Vec<u8> {
    let region = numbers.region_kib * 1024;
    let (wholes, threads) = (numbers.wholes, numbers.threads);
    let stacks = DATA + ORDINARY_BYTES;
    let done = stacks + STACK * threads;
    let mut code = Code::default();
    code.constant(STATE, 0x9e37_79b9_7f4a_7c15);
    map_pool(&mut code, wholes.pool(), region * (threads + 1));
    code.constant(STEPS_LEFT, numbers.steps);
    code.constant(MASK, region - 8);
    code.constant(ORDINARY, DATA);
    code.constant(DONE, done);
    code.constant(UNTIL_END, numbers.steps_per_whole);
    code.constant(UNTIL_SYNC, STRANDS_PER_SYNC);
    code.addi(FIRST, ZERO, 0);
    if wholes == Wholes::Wraps {
        code.addi(LOCK, DONE, 8);
        code.addi(HOLDS_LOCK, ZERO, 0);
    }
    let to_loop = begin_threads(&mut code, threads, region, stacks);
    for from in to_loop {
        let begin = code.here();
        code.patch(from, 0, A0, ZERO, begin);
    }
    if wholes == Wholes::Wraps {
        persistence(&mut code, WRAP_OPEN);
    }
    let again = code.here();
    xorshift(&mut code);
    store_to_pool(&mut code, wholes);
    code.constant(T2, ORDINARY_BYTES - 8);
    place(&mut code, T0, 30, T2);
    code.register(ADD, T0, T0, ORDINARY);
    code.store_double(STATE, T0, 0);
    code.addi(UNTIL_END, UNTIL_END, -1);
    let goes_on = code.here();
    code.branch(1, UNTIL_END, ZERO, 0);
    end_whole(&mut code, wholes);
    code.constant(UNTIL_END, numbers.steps_per_whole);
    begin_whole(&mut code, wholes);
    let on = code.here();
    code.patch(goes_on, 1, UNTIL_END, ZERO, on);
    code.addi(STEPS_LEFT, STEPS_LEFT, -1);
    let back = again - code.here();
    code.branch(1, STEPS_LEFT, ZERO, back);
    end_whole(&mut code, wholes);
    end(&mut code, threads, done)
}

/// Counts the thread; the first one waits for the others and ends the program.
pub(crate) fn end(code: &mut Code, threads: u64, done: u64) -> Vec<u8> {
    code.addi(T1, ZERO, 1);
    code.add_atomically(DONE, T1);
    code.branch(1, FIRST, ZERO, 4);
    code.addi(A0, ZERO, 0);
    code.call_system(93);
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
            "@wraps:1:64:1:3",
        ] {
            assert!(path_of(name).expect("its name").is_err(), "{name}");
        }
        assert!(path_of("@exerciser").is_none());
        for name in ["@strands:10:4:2:2", "@wraps:10:4:2:2"] {
            assert!(path_of(name).expect("its name").is_ok());
        }
    }
}
