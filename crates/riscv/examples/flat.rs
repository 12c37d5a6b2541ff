//! Runs a bare static ELF on flat memory with both engines and prints their speed.
//!
//! ```text
//! cargo run --release -p perdure-riscv --example flat -- PROGRAM...
//! ```
//! The program needs no kernel: it begins at its entry point with a stack, and ends by `ebreak`,
//! its result in `a0`. `examples/guest/` holds some, with the command that builds them.

use perdure_riscv::fast::BlockCache;
use perdure_riscv::{Exit, FlatMemory, Hart, fast, plain};
use std::process::ExitCode;
use std::time::Instant;

const MEMORY_BYTES: usize = 64 << 20;
const FAST_RUNS: usize = 7;
const PLAIN_RUNS: usize = 1;

fn main() -> ExitCode {
    let programs: Vec<String> = std::env::args().skip(1).collect();
    if programs.is_empty() {
        eprintln!("usage: flat PROGRAM...   (bare static RISC-V ELF files)");
        return ExitCode::from(2);
    }
    for program in programs {
        if let Err(message) = compare(&program) {
            eprintln!("{program}: {message}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn compare(program: &str) -> Result<(), String> {
    let file = std::fs::read(program).map_err(|error| error.to_string())?;
    let start = load(&file)?;
    let fast = measure(program, "fast", &start, FAST_RUNS, |hart, memory| {
        fast::run(hart, memory, &mut BlockCache::new())
    })?;
    let plain = measure(program, "plain", &start, PLAIN_RUNS, plain::run)?;
    if fast == plain {
        Ok(())
    } else {
        Err("the engines disagree".to_string())
    }
}

/// Runs the program several times from the start and prints the best speed.
fn measure(
    program: &str,
    engine: &str,
    start: &(Hart, FlatMemory),
    runs: usize,
    run: impl Fn(&mut Hart, &mut FlatMemory) -> Exit,
) -> Result<Hart, String> {
    let mut seconds_min = f64::INFINITY;
    let mut hart = Hart::default();
    for _ in 0..runs {
        let mut memory = start.1.clone();
        hart = start.0.clone();
        let begin = Instant::now();
        let exit = run(&mut hart, &mut memory);
        seconds_min = seconds_min.min(begin.elapsed().as_secs_f64());
        if exit != Exit::Breakpoint {
            return Err(format!("{engine}: stopped at {:#x} by {exit:x?}", hart.pc));
        }
    }
    println!(
        "{program}: {engine:5} {:>11} instructions {seconds_min:7.3} s {:7.1} MIPS  a0 = {:#x}",
        hart.retired,
        hart.retired as f64 / seconds_min / 1e6,
        hart.x[10]
    );
    Ok(hart)
}

/// A hart at the entry point, and memory with the segments loaded and a stack at its end.
fn load(file: &[u8]) -> Result<(Hart, FlatMemory), String> {
    const LOADABLE: u64 = 1;
    let number = |offset: u64, bytes: u64| -> Result<u64, String> {
        let range = offset as usize..(offset + bytes) as usize;
        let field = file.get(range).ok_or("truncated ELF file")?;
        Ok(field
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    if !file.starts_with(b"\x7fELF\x02\x01") || number(18, 2)? != 243 {
        return Err("not a 64-bit RISC-V ELF file".to_string());
    }
    let headers = (0..number(56, 2)?).map(|index| number(32, 8).map(|table| table + index * 56));
    let headers = headers.collect::<Result<Vec<_>, _>>()?;
    let mut segments = Vec::new();
    for header in headers {
        if number(header, 4)? == LOADABLE {
            let field = |offset| number(header + offset, 8);
            segments.push((field(8)?, field(16)?, field(32)?));
        }
    }
    let base = segments
        .iter()
        .map(|segment| segment.1)
        .min()
        .ok_or("nothing to load")?
        & !0xfff;
    let mut memory = FlatMemory::new(base, MEMORY_BYTES);
    for (offset, address, length) in segments {
        let from = file
            .get(offset as usize..(offset + length) as usize)
            .ok_or("truncated")?;
        let place = (address - base) as usize;
        let to = memory
            .bytes_mut()
            .get_mut(place..place + from.len())
            .ok_or("too large")?;
        to.copy_from_slice(from);
    }
    let mut hart = Hart {
        pc: number(24, 8)?,
        ..Hart::default()
    };
    hart.x[2] = base + MEMORY_BYTES as u64 - 4096;
    Ok((hart, memory))
}
