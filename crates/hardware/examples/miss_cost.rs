//! What one L1 miss costs the host, in nanoseconds: random and sequential lines over 64 MB on
//! Table IV's geometry (32 KB L1, 256 KB L2, 2 MB last-level cache), under a policy that does
//! nothing but write back.
//!
//! `cargo run --release -p perdure-hardware --example miss_cost [-- MILLIONS_OF_ACCESSES [PATTERN]]`: all
//! patterns, or those with that text in their names.

use std::hint::black_box;
use std::time::Instant;

#[allow(dead_code, reason = "the tests use all of it")]
#[path = "../tests/all/support/mod.rs"]
mod support;

use perdure_hardware::arena::Arena;
use perdure_hardware::core_timing::AccessKind;
use perdure_hardware::counters::Counters;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Evicted, Eviction, Policy};
use perdure_hardware::time::Cycles;
use support::{Random, table_iv};

const FOOTPRINT_LINES: u64 = (64 << 20) / LINE_BYTES as u64;

/// How often the memory is told that the past is over, in accesses; an engine does so at events.
const FORGET_EVERY: u64 = 1024;

struct WriteBack;

impl Policy for WriteBack {
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let statistics = &mut hardware.statistics;
        let written = hardware.memory.write_line(
            eviction.line,
            &eviction.bytes,
            Traffic::WriteBack,
            now,
            0,
            statistics,
        );
        Evicted {
            accepted: written.accepted,
            durable: written.durable,
        }
    }

    fn fired(&mut self, _: &mut Hardware, _: u32, _: Cycles) {}
}

/// Runs a pattern twice, once to warm up; prints the second.
fn measure(name: &str, accesses: u64, line_at: impl Fn(u64) -> LineNumber, write_one_in: u64) {
    let wanted = std::env::args().nth(2);
    if wanted.is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let specification = table_iv(1);
    let mut arena = Arena::new(specification.nvm.bytes).expect("address space");
    for line in 0..FOOTPRINT_LINES {
        arena.write(line * LINE_BYTES as u64, &line.to_le_bytes());
    }
    let mut hardware = Hardware::new(specification, arena, 0..0);
    let policy: &mut dyn Policy = &mut WriteBack; // As machines have it: compiled once for all designs.
    let (mut retired, mut sum) = (0, 0);
    let mut before = hardware.statistics();
    let mut started = Instant::now();
    for access in 0..2 * accesses {
        if access == accesses {
            before = hardware.statistics();
            started = Instant::now();
        }
        retired += 1;
        let now = hardware.cores[0].timing.now(retired);
        let write = write_one_in != 0 && access % write_one_in == 0;
        let line = line_at(access);
        if write {
            let stored = (8, &[access as u8][..]);
            let (_, ready) = hardware.store(policy, 0, line, stored, now);
            hardware.accessed(0, AccessKind::Store, now, ready);
        } else {
            let (slot, ready) = hardware.load(policy, 0, line, now);
            sum += u64::from(hardware.cores[0].l1d.data(slot).0[0]);
            hardware.accessed(0, AccessKind::Load, now, ready);
        }
        if access % FORGET_EVERY == 0 {
            hardware.memory.forget_until(now);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    black_box(sum);
    let after = hardware.statistics();
    after.check_conservation().expect("sums");
    let misses = after.l1d_misses - before.l1d_misses;
    println!(
        "{name:34} {:6.1} ns a miss   {misses:9} misses of {accesses}, {:5.1} % to memory, {} written back, {} cycles",
        seconds * 1e9 / misses as f64,
        100.0 * (after.llc_misses - before.llc_misses) as f64 / misses as f64,
        after.llc_write_backs - before.llc_write_backs,
        hardware.cores[0].timing.now(retired),
    );
}

fn main() {
    let millions = std::env::args()
        .nth(1)
        .map_or(Some(4), |argument| argument.parse().ok());
    let Some(millions @ 1..=10_000u64) = millions else {
        eprintln!("usage: miss_cost [MILLIONS_OF_ACCESSES [PATTERN]], 1 to 10000");
        std::process::exit(2);
    };
    let accesses = millions * 1_000_000;
    let random = |access: u64| Random(access).next() % FOOTPRINT_LINES;
    let sequential = |access: u64| access % FOOTPRINT_LINES;
    let in_llc = |access: u64| Random(access).next() % (FOOTPRINT_LINES / 64);
    let in_l2 = |access: u64| Random(access).next() % (FOOTPRINT_LINES / 512);
    measure("random loads, 64 MB", accesses, random, 0);
    measure("random, one in four stores, 64 MB", accesses, random, 4);
    measure("random stores, 64 MB", accesses, random, 1);
    measure("sequential loads, 64 MB", accesses, sequential, 0);
    measure("sequential stores, 64 MB", accesses, sequential, 1);
    measure("random loads, 1 MB (in the LLC)", accesses, in_llc, 0);
    measure("random loads, 128 KB (in the L2)", accesses, in_l2, 0);
}
