//! DRAM in front of the NVM: what it answers and when, and what is lost with it.
//!
//! Cycles are those of Table IV's 2 GHz: an access of 27 ns is 54 cycles, and occupies its bank for
//! 49.5 ns, 99 cycles; 64 bytes take 12.0 of 1333 MT/s × 8 bytes; a row read of the NVM takes 256.

use std::collections::BTreeMap;

use crate::support::{Random, seeds, table_iv};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::{Memory, Tear, Traffic};
use perdure_hardware::specification::Specification;
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

struct Bench {
    memory: Memory,
    statistics: Statistics,
}

impl Bench {
    fn new() -> Self {
        let mut specification: Specification = table_iv(1);
        specification.dram.present = true;
        let arena = Arena::new(specification.nvm.bytes).expect("address space");
        Self {
            memory: Memory::new(&specification, arena, 0..0),
            statistics: Statistics::default(),
        }
    }

    fn read(&mut self, line: LineNumber, now: Cycles) -> Cycles {
        self.memory.read(line, now, &mut self.statistics)
    }

    fn write_back(&mut self, line: LineNumber, byte: u8, now: Cycles) {
        let bytes = Line([byte; LINE_BYTES]);
        self.memory
            .write_back(line, &bytes, now, &mut self.statistics);
    }

    /// Returns when it is durable.
    fn write(&mut self, line: LineNumber, byte: u8, now: Cycles) -> Cycles {
        let bytes = Line([byte; LINE_BYTES]);
        let (traffic, statistics) = (Traffic::WriteBack, &mut self.statistics);
        let done = self
            .memory
            .write_line(line, &bytes, traffic, now, 0, statistics);
        done.durable
    }

    fn byte(&self, line: LineNumber) -> u8 {
        self.memory.arena.line(line * LINE_BYTES as u64).0[0]
    }

    /// What is left after a cut.
    fn after_cut(&mut self, at: Cycles, line: LineNumber) -> u8 {
        let lost = self.memory.power_off(at, &mut Tear::new(1));
        let byte = self.byte(line);
        self.memory.power_back(&lost);
        byte
    }
}

#[test]
fn the_first_read_goes_to_the_nvm_and_later_ones_do_not() {
    let mut bench = Bench::new();
    assert_eq!(bench.read(7, 0), 256 + 10);
    // Its copy to the DRAM occupies the bank until 266 + 99.
    let again = bench.read(7, 1000);
    assert!((1054 + 12..1054 + 14).contains(&again), "{again}");
    assert_eq!(bench.statistics.nvm_reads, 1);
    assert_eq!(bench.statistics.dram_reads, 1);
    // The bank is busy with that until 1099.
    let third = bench.read(7, 1001);
    assert!((1099 + 54..1099 + 54 + 14).contains(&third), "{third}");
    // Another bank of the other controller is not.
    bench.write(8, 1, 2000);
    let other = bench.read(8, 4000);
    assert!(other < 4070, "{other}");
}

#[test]
fn what_only_the_dram_has_is_lost_and_what_was_written_through_is_not() {
    let mut bench = Bench::new();
    let durable = bench.write(3, 1, 0);
    bench.write_back(3, 2, 5_000);
    bench.write_back(3, 3, 6_000);
    assert_eq!(bench.byte(3), 3);
    assert_eq!(bench.statistics.nvm_writes, 1);
    assert_eq!(bench.after_cut(durable, 3), 1);
    assert_eq!(bench.byte(3), 3, "the cut is undone");
    let through = bench
        .memory
        .write_through(3, 7_000, &mut bench.statistics)
        .expect("the DRAM is ahead");
    assert_eq!(bench.after_cut(through.durable, 3), 3);
    assert!(
        bench
            .memory
            .write_through(3, 9_000, &mut bench.statistics)
            .is_none(),
        "the NVM has caught up"
    );
}

#[test]
fn a_cut_loses_the_dram_before_it_tears_what_waits() {
    let mut bench = Bench::new();
    let first = bench.write(3, 1, 0);
    // Waits in the queue when the DRAM gets newer bytes, and still when the power fails.
    bench.write(3, 2, first);
    bench.write_back(3, 3, first + 1);
    assert_eq!(bench.after_cut(first, 3), 1);
    assert_eq!(bench.byte(3), 3);
}

/// Random traffic against a plain model: the NVM has the last line whose write was durable.
#[test]
fn every_cut_leaves_what_the_nvm_was_given() {
    for seed in seeds(19) {
        let mut random = Random(seed);
        let mut bench = Bench::new();
        let mut newest: BTreeMap<LineNumber, u8> = BTreeMap::new();
        let mut durable: Vec<(Cycles, LineNumber, u8)> = Vec::new();
        let mut now = 0;
        for step in 0..300 {
            now += random.below(2_000) as Cycles;
            let line = random.below(6) as LineNumber;
            let byte = (step % 250 + 1) as u8;
            match random.below(4) {
                0 => durable.push((bench.write(line, byte, now), line, byte)),
                1 | 2 => bench.write_back(line, byte, now),
                _ => {
                    let statistics = &mut bench.statistics;
                    if let Some(done) = bench.memory.write_through(line, now, statistics) {
                        durable.push((done.durable, line, newest[&line]));
                    }
                    continue;
                }
            }
            newest.insert(line, byte);
            // Cut when nothing is in flight, so that nothing is torn.
            let at = bench.memory.quiet_at().max(now);
            let expected = |line| {
                let written = durable.iter().rev().find(|entry| entry.1 == line);
                written.map_or(0, |entry| entry.2)
            };
            let line = random.below(6) as LineNumber;
            assert_eq!(bench.after_cut(at, line), expected(line), "seed {seed}");
            for (&line, &byte) in &newest {
                assert_eq!(bench.byte(line), byte, "seed {seed}");
            }
        }
    }
}
