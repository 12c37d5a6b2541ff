//! The exerciser of near-data devices: a small guest program made here, instruction by instruction, whose
//! threads store to a pool, write lines back, and have NearPM's devices log, copy and end transactions. It is
//! what `perdure mutants` runs under `nearpm`.
//!
//! Each thread maps the pool for itself and has a log of 64 KiB; all share 32 KiB of data, to which they
//! store at random, and 32 KiB to which devices copy, and which are read. At random, an operand of up to
//! 16 KiB is logged before more is stored there; a transaction ends; bytes are copied; a command is wrong.
//!
//! Named `@devices:STEPS:THREADS`.

use std::path::PathBuf;

use perdure_designs::nearpm::operations::apply_log::APPLY_LOG;
use perdure_designs::nearpm::operations::copy::COPY;
use perdure_designs::nearpm::{MAP, Opcode};

use crate::error::Error;
use crate::exerciser::{STATE, write_program, xorshift};
use crate::guest_code::{A0, A1, A2, ADD, AND, Code, DATA, SP, T0, T1, T2, ZERO};
use crate::pool_exerciser::{
    BASE, DONE, FIRST, MASK, PART, STEPS_LEFT, begin_threads, end, map_pool, map_shared, open,
    persistence_of, place,
};

const NAME: &str = "@devices";
const PORT: u32 = 20;
const THREAD: u32 = 23;
const WORD_MASK: u32 = 24;
const OPERAND: u32 = 27;
const SECOND: u32 = 28;
const SIZE: u32 = 29;
const ROUNDS: u32 = 30;

/// What each thread's log takes, and what all share.
const LOG_BYTES: u64 = 64 << 10;
const DATA_BYTES: u64 = LOG_BYTES / 2;
const STACK: u64 = 4096;
const PAGE: u64 = 4096;
/// Of each thread's stack, where a command is put together.
const SCRATCH_BYTES: i32 = 64;
const POOL: u64 = 3;

/// Where the program's file is, if the name asks for it.
pub fn path_of(name: &str) -> Option<Result<PathBuf, Error>> {
    let rest = name.strip_prefix(NAME)?;
    Some(parse(rest).and_then(|[steps, threads]| {
        let name = name.trim_start_matches('@').replace(':', "-");
        write_program(&build(steps, threads), &name)
    }))
}

/// The name, if one of these command lines has it.
pub fn among(lines: &[&[String]]) -> Option<&'static str> {
    let mut lines = lines.iter();
    lines.any(|line| line[0].starts_with(NAME)).then_some(NAME)
}

/// Steps and threads.
fn parse(rest: &str) -> Result<[u64; 2], Error> {
    let numbers: Vec<u64> = rest.split(':').skip(1).flat_map(str::parse).collect();
    match *numbers {
        [steps, threads] if (1..1 << 40).contains(&steps) && matches!(threads, 1 | 2 | 4 | 8) => {
            Ok([steps, threads])
        }
        _ => Err(Error::Request(format!(
            "{NAME}{rest}: write {NAME}:STEPS:THREADS, with 1, 2, 4 or 8 threads"
        ))),
    }
}

/// Opens the first device's page and maps it: its address is then in `PORT`.
fn map_device(code: &mut Code) {
    const OPEN_READ_WRITE: i32 = 2;
    let name: &[u8; 32] = b"/dev/module/nearpm-0.device\0\0\0\0\0";
    open(code, name, OPEN_READ_WRITE, 0);
    map_shared(code, PAGE, PORT);
    code.addi(SP, SP, 32);
}

/// The thread maps all pages of the pool, so that the devices may work on them.
fn map_pages(code: &mut Code, pages: u64) {
    code.addi(A0, BASE, 0);
    code.constant(A1, pages);
    code.constant(A2, 1 << 16 | POOL);
    code.slli(T1, THREAD, 8);
    code.register(ADD, A2, A2, T1);
    let again = code.here();
    code.srli(T0, A0, 12);
    code.slli(T0, T0, 24);
    code.register(ADD, T0, T0, A2);
    persistence_of(code, MAP, A0, T0);
    code.constant(T1, PAGE);
    code.register(ADD, A0, A0, T1);
    // The first page alone begins the entry.
    code.constant(A2, POOL);
    code.slli(T1, THREAD, 8);
    code.register(ADD, A2, A2, T1);
    code.addi(A1, A1, -1);
    let back = again - code.here();
    code.branch(1, A1, ZERO, back);
}

/// Sends a command whose operands are in `OPERAND`, `SECOND` and `SIZE`.
fn send(code: &mut Code, opcode: Opcode) {
    send_number(code, opcode as u64);
}

fn send_number(code: &mut Code, opcode: u64) {
    code.constant(T0, opcode | POOL << 8);
    code.slli(T1, THREAD, 16);
    code.register(ADD, T0, T0, T1);
    code.store_double(T0, SP, 0);
    code.store_double(OPERAND, SP, 4);
    code.store_double(SECOND, SP, 12);
    code.addi(T0, SP, 20);
    code.store_word(SIZE, T0);
    code.slli(T2, THREAD, 24);
    for word in 0..8 {
        // LWU of four bytes, of which three count, below the tag.
        code.immediate(0x03, 6, T0, SP, 3 * word);
        code.register(AND, T0, T0, WORD_MASK);
        code.register(ADD, T0, T0, T2);
        code.store_word(T0, PORT);
    }
}

/// Does something in one of so many steps, by the bits of the generator from one on.
fn one_in(code: &mut Code, of: i32, from_bit: i32, act: impl FnOnce(&mut Code)) {
    code.srli(T1, STATE, from_bit);
    code.immediate(0x13, 7, T1, T1, of - 1);
    let skips = code.here();
    code.branch(1, T1, ZERO, 0);
    act(code);
    code.patch(skips, 1, T1, ZERO, code.here());
}

/// An operand of the data, and a size, by the generator.
fn choose(code: &mut Code) {
    code.constant(T0, DATA_BYTES / 2 - 8);
    code.srli(OPERAND, STATE, 13);
    code.register(AND, OPERAND, OPERAND, T0);
    code.register(ADD, OPERAND, OPERAND, BASE);
    code.constant(T0, DATA_BYTES / 2 - 1);
    code.srli(SIZE, STATE, 41);
    code.register(AND, SIZE, SIZE, T0);
    // Mostly short.
    code.srli(T1, STATE, 60);
    code.immediate(0x13, 7, T1, T1, 7);
    code.branch(0, T1, ZERO, 2);
    code.srli(SIZE, SIZE, 6);
    code.addi(SIZE, SIZE, 1);
    code.constant(T0, DATA_BYTES);
    code.register(ADD, SECOND, OPERAND, T0);
}

/// Stores to the data, and mostly writes the line back and waits.
fn store(code: &mut Code) {
    code.srli(T0, STATE, 17);
    code.register(AND, T0, T0, MASK);
    code.register(ADD, T0, T0, BASE);
    code.store_double(STATE, T0, 0);
    one_in(code, 2, 7, |code| {
        code.0.push(0x0010_200f | T0 << 15);
        code.0.push(0x0330_000f);
    });
}

/// Commands that no device should do: of no kind, beyond the pool's end, with another thread's number.
fn wrong(code: &mut Code) {
    send_number(code, 0x77);
    choose(code);
    code.constant(T0, LOG_BYTES * 64);
    code.register(ADD, OPERAND, OPERAND, T0);
    send(code, Opcode::UndologCreate);
    code.immediate(0x13, 4, THREAD, THREAD, 1);
    choose(code);
    send(code, Opcode::UndologCreate);
    code.immediate(0x13, 4, THREAD, THREAD, 1);
}

/// Transactions one behind the other, faster than logs are deleted.
fn short_transactions(code: &mut Code) {
    code.addi(ROUNDS, ZERO, 3);
    let again = code.here();
    choose(code);
    send(code, Opcode::UndologCreate);
    send(code, Opcode::CommitLog);
    code.addi(ROUNDS, ROUNDS, -1);
    let back = again - code.here();
    code.branch(1, ROUNDS, ZERO, back);
}

fn build(steps: u64, threads: u64) -> Vec<u8> {
    let bytes = LOG_BYTES * (threads + 1);
    let (stacks, done) = (DATA, DATA + STACK * threads);
    let mut code = Code::default();
    map_pool(&mut code, b"/pmem/devices\0\0\0", bytes);
    map_device(&mut code);
    code.constant(STEPS_LEFT, steps);
    code.constant(MASK, DATA_BYTES - 8);
    code.constant(WORD_MASK, 0xff_ffff);
    code.constant(DONE, done);
    code.addi(FIRST, ZERO, 0);
    let to_loop = begin_threads(&mut code, threads, LOG_BYTES, stacks);
    for from in to_loop {
        let begin = code.here();
        code.patch(from, 0, A0, ZERO, begin);
    }
    code.addi(SP, SP, -SCRATCH_BYTES);
    code.srli(THREAD, PART, LOG_BYTES.trailing_zeros().cast_signed());
    code.addi(THREAD, THREAD, -1);
    code.constant(MASK, DATA_BYTES - 8);
    map_pages(&mut code, bytes / PAGE);
    code.register(ADD, OPERAND, BASE, PART);
    code.addi(SECOND, ZERO, 0);
    code.constant(SIZE, LOG_BYTES);
    send(&mut code, Opcode::LogReset);
    let again = code.here();
    xorshift(&mut code);
    store(&mut code);
    one_in(&mut code, 8, 3, |code| {
        choose(code);
        send(code, Opcode::UndologCreate);
    });
    one_in(&mut code, 32, 22, |code| {
        choose(code);
        send_number(code, COPY.opcode.into());
    });
    one_in(&mut code, 64, 33, |code| {
        choose(code);
        send_number(code, APPLY_LOG.opcode.into());
    });
    one_in(&mut code, 64, 46, wrong);
    one_in(&mut code, 128, 52, short_transactions);
    // What devices have copied is read again, from memory.
    place(&mut code, T0, 9, MASK);
    code.constant(T1, DATA_BYTES);
    code.register(ADD, T0, T0, T1);
    code.register(ADD, T0, T0, BASE);
    code.immediate(0x03, 3, T1, T0, 0);
    code.0.push(0x0020_200f | T0 << 15);
    one_in(&mut code, 16, 27, |code| send(code, Opcode::CommitLog));
    code.addi(STEPS_LEFT, STEPS_LEFT, -1);
    let out = code.here();
    code.branch(0, STEPS_LEFT, ZERO, 0);
    // The loop is longer than a branch reaches.
    let back = (again - code.here()) * 4;
    code.jump(back);
    code.patch(out, 0, STEPS_LEFT, ZERO, code.here());
    end(&mut code, threads, done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_refused() {
        for name in ["@devices", "@devices:1", "@devices:1:3", "@devices:x:2"] {
            assert!(path_of(name).expect("its name").is_err(), "{name}");
        }
        assert!(path_of("@devices:10:2").expect("its name").is_ok());
        assert!(path_of("@wraps:10:4:2:2").is_none());
    }
}
