//! The memory controller: when requests start, arrive and become durable, and what a power cut
//! leaves of them.
//!
//! The timing half reads like timing diagrams: a table of requests in order of issue, each with the
//! times that it must report. Cycles are Table IV's: 2 GHz, a row read of 128 ns is 256 cycles, a
//! row write of 368 ns is 736, a line takes 10 cycles on the link, a row of 2 KB takes 320.
//!
//! The other half cuts the power at every interesting moment of random traffic and compares what
//! is left, word by word, with what each write's own times say must or may be there.

use crate::support::{Random, seed_alone, seeds, table_iv};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::link::Link;
use perdure_hardware::memory::{Accepted, Memory, Tear, Traffic};
use perdure_hardware::placement::bank_of_row;
use perdure_hardware::specification::{Interleaving, Scheduling, Specification};
use perdure_hardware::time::Cycles;
use perdure_hardware::{counters::Counters, statistics::Statistics};

const ROW_READ: Cycles = 256;
const ROW_WRITE: Cycles = 736;
const LINK: Cycles = 10;
const ROW_BYTES: u64 = 2048;

/// A controller to issue requests to.
struct Bench {
    memory: Memory,
    statistics: Statistics,
}

impl Bench {
    fn new(specification: &Specification) -> Self {
        let arena = Arena::new(specification.nvm.bytes).expect("address space");
        Self {
            memory: Memory::new(specification, arena, 0..0),
            statistics: Statistics::default(),
        }
    }

    fn read(&mut self, address: u64, now: Cycles) -> Cycles {
        let line = address / LINE_BYTES as u64;
        self.memory.read(line, now, &mut self.statistics)
    }

    fn write(&mut self, address: u64, now: Cycles, not_before: Cycles) -> Accepted {
        let (line, bytes) = (address / LINE_BYTES as u64, Line([1; LINE_BYTES]));
        let statistics = &mut self.statistics;
        self.memory.write_line(
            line,
            &bytes,
            Traffic::WriteBack,
            now,
            not_before,
            statistics,
        )
    }

    fn block(&mut self, address: u64, bytes: &[u8], now: Cycles, not_before: Cycles) -> Accepted {
        let statistics = &mut self.statistics;
        self.memory
            .write_block(address, bytes, Traffic::Log, now, not_before, statistics)
    }

    fn read_block(&mut self, address: u64, length: usize, now: Cycles) -> Cycles {
        let statistics = &mut self.statistics;
        self.memory.read_block(address, length, now, statistics)
    }

    fn copy(
        &mut self,
        (from, to, length): (u64, u64, usize),
        now: Cycles,
        not_before: Cycles,
    ) -> Accepted {
        let (traffic, statistics) = (Traffic::Flush, &mut self.statistics);
        self.memory
            .copy_within(from, to, length, traffic, now, not_before, statistics)
    }
}

/// The first line of a row; consecutive rows lie in consecutive banks.
fn row(number: u64) -> u64 {
    number * ROW_BYTES
}

// ---- Banks --------------------------------------------------------------------------------------

#[test]
fn any_aligned_run_of_rows_takes_every_bank_once() {
    for banks in [1, 2, 8, 16, 64, 512] {
        for run in [0, 1, 2, 77, 4096, 1 << 30] {
            let mut taken: Vec<_> = (0..banks)
                .map(|row| bank_of_row(run * banks as u64 + row as u64, banks))
                .collect();
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..banks), "{banks} banks, run {run}");
        }
    }
    assert_eq!(bank_of_row(0o52_0301, 8), 0o5 ^ 0o2 ^ 0o3 ^ 0o1);
    assert_eq!(bank_of_row(13, 5), 3, "no power of two: in turn");
}

// ---- Timing diagrams ----------------------------------------------------------------------------

/// A request and the times that it must report.
enum Row {
    /// Address, issued at, arrives at.
    Read(u64, Cycles, Cycles),
    /// Address, issued at, accepted at, durable at.
    Write(u64, Cycles, Cycles, Cycles),
    /// The same with a time before which the media may not start.
    WriteAfter(u64, Cycles, Cycles, Cycles, Cycles),
    /// Address, bytes, issued at, accepted at, durable at.
    Block(u64, usize, Cycles, Cycles, Cycles),
    /// A design's own read: address, bytes, issued at, arrives at.
    DesignRead(u64, usize, Cycles, Cycles),
    /// Within the module: from, to and bytes; issued at, accepted at, durable at.
    Copy((u64, u64, usize), Cycles, Cycles, Cycles),
    /// The same with a time before which the media may not start to write.
    CopyAfter((u64, u64, usize), Cycles, Cycles, Cycles, Cycles),
}
use Row::{Block, Copy, CopyAfter, DesignRead, Read, Write, WriteAfter};

fn diagram(specification: &Specification, rows: &[Row]) -> Statistics {
    let mut bench = Bench::new(specification);
    for (index, row) in rows.iter().enumerate() {
        match *row {
            Read(address, now, arrives) => {
                assert_eq!(bench.read(address, now), arrives, "row {index}");
            }
            Write(address, now, accepted, durable) => {
                let times = Accepted { accepted, durable };
                assert_eq!(bench.write(address, now, 0), times, "row {index}");
            }
            WriteAfter(address, not_before, now, accepted, durable) => {
                let times = Accepted { accepted, durable };
                assert_eq!(bench.write(address, now, not_before), times, "row {index}");
            }
            Block(address, length, now, accepted, durable) => {
                let times = Accepted { accepted, durable };
                let bytes = vec![1; length];
                assert_eq!(bench.block(address, &bytes, now, 0), times, "row {index}");
            }
            DesignRead(address, length, now, arrives) => {
                let arrival = bench.read_block(address, length, now);
                assert_eq!(arrival, arrives, "row {index}");
            }
            Copy(ends, now, accepted, durable) => {
                let times = Accepted { accepted, durable };
                assert_eq!(bench.copy(ends, now, 0), times, "row {index}");
            }
            CopyAfter(ends, not_before, now, accepted, durable) => {
                let times = Accepted { accepted, durable };
                assert_eq!(bench.copy(ends, now, not_before), times, "row {index}");
            }
        }
    }
    bench.statistics.check_conservation().expect("sums");
    bench.statistics
}

#[test]
fn a_lone_read_is_a_row_read_and_a_transfer() {
    let statistics = diagram(&table_iv(1), &[Read(row(0), 1000, 1000 + ROW_READ + LINK)]);
    assert_eq!(statistics.nvm_reads, 1);
    assert_eq!(statistics.nvm_read_wait_cycles, 0);
}

#[test]
fn a_lone_write_is_a_transfer_and_a_row_write_and_holds_nobody() {
    diagram(
        &table_iv(1),
        &[Write(row(0), 1000, 1000, 1000 + LINK + ROW_WRITE)],
    );
}

#[test]
fn a_closed_page_pays_the_row_again_each_time() {
    let statistics = diagram(
        &table_iv(1),
        &[
            Read(row(0), 0, ROW_READ + LINK),
            Read(row(0), 0, 2 * ROW_READ + LINK),
            Read(row(0) + 64, 0, 3 * ROW_READ + LINK),
        ],
    );
    assert_eq!(statistics.nvm_read_wait_cycles, ROW_READ + 2 * ROW_READ);
}

#[test]
fn banks_read_in_parallel_and_share_the_link() {
    diagram(
        &table_iv(1),
        &[
            Read(row(0), 0, ROW_READ + LINK),
            Read(row(1), 0, ROW_READ + 2 * LINK),
            Read(row(2), 0, ROW_READ + 3 * LINK),
            // Sixteen banks: row 17, which is 0x11, is in bank 1 ^ 1 = 0 again.
            Read(row(17), 0, 2 * ROW_READ + LINK),
        ],
    );
}

#[test]
fn writes_to_one_bank_follow_each_other() {
    diagram(
        &table_iv(1),
        &[
            Write(row(0), 0, 0, LINK + ROW_WRITE),
            Write(row(0), 0, 0, LINK + 2 * ROW_WRITE),
            Write(row(17), 0, 0, LINK + 3 * ROW_WRITE),
        ],
    );
}

#[test]
fn writes_to_many_banks_are_limited_by_the_link() {
    diagram(
        &table_iv(1),
        &[
            Write(row(0), 0, 0, LINK + ROW_WRITE),
            Write(row(1), 0, 0, 2 * LINK + ROW_WRITE),
            Write(row(2), 0, 0, 3 * LINK + ROW_WRITE),
        ],
    );
}

#[test]
fn nobody_waits_for_another_bank() {
    diagram(
        &table_iv(1),
        &[
            Write(row(0), 0, 0, LINK + ROW_WRITE),
            // Waits for its bank …
            Write(row(0), 0, 0, LINK + 2 * ROW_WRITE),
            // … and the read behind it does not, because its own bank is free.
            Read(row(1), 20, 20 + ROW_READ + LINK),
        ],
    );
}

#[test]
fn nobody_overtakes_in_start_order() {
    let mut specification = table_iv(1);
    specification.nvm.scheduling = Scheduling::StartOrder;
    diagram(
        &specification,
        &[
            Write(row(0), 0, 0, LINK + ROW_WRITE),
            // Waits for its bank …
            Write(row(0), 0, 0, LINK + 2 * ROW_WRITE),
            // … and so does the read behind it, although its own bank is free.
            Read(row(1), 20, LINK + ROW_WRITE + ROW_READ + LINK),
        ],
    );
    diagram(
        &specification,
        &[
            WriteAfter(row(0), 5000, 0, 0, 5000 + ROW_WRITE),
            Write(row(1), 0, 0, 5000 + ROW_WRITE),
        ],
    );
    diagram(
        &specification,
        &[
            Copy((row(0), row(4), PAGE), 0, 0, ROW_READ + ROW_WRITE),
            // Nothing starts before the copy's writes have.
            Read(row(8), 0, ROW_READ + ROW_READ + LINK),
        ],
    );
}

#[test]
fn a_read_waits_for_the_write_in_its_bank() {
    diagram(
        &table_iv(1),
        &[
            Write(row(0), 0, 0, LINK + ROW_WRITE),
            Read(row(1), 0, ROW_READ + LINK),
            Read(row(0), 0, LINK + ROW_WRITE + ROW_READ + LINK),
        ],
    );
}

#[test]
fn a_write_can_be_ordered_behind_a_time() {
    diagram(
        &table_iv(1),
        &[
            WriteAfter(row(0), 5000, 0, 0, 5000 + ROW_WRITE),
            // What comes later is not: it waits for the link only.
            Write(row(1), 0, 0, 2 * LINK + ROW_WRITE),
            // A time in the past orders nothing.
            WriteAfter(row(2), 10, 6000, 6000, 6000 + LINK + ROW_WRITE),
        ],
    );
}

#[test]
fn a_whole_row_is_one_row_operation() {
    let statistics = diagram(
        &table_iv(1),
        &[
            Block(row(0), 2048, 0, 0, 32 * LINK + ROW_WRITE),
            // A line behind it waits for the link, not for the media.
            Write(row(1), 0, 0, 33 * LINK + ROW_WRITE),
        ],
    );
    assert_eq!(statistics.nvm_writes, 2);
    assert_eq!(statistics.nvm_written_bytes_log, 2048);
    assert_eq!(statistics.nvm_written_bytes_data, 64);
}

#[test]
fn a_full_write_queue_holds_the_sender_until_an_entry_is_free() {
    let mut specification = table_iv(1);
    specification.nvm.write_queue_entries = 2;
    let first_durable = LINK + ROW_WRITE;
    let second_durable = first_durable + ROW_WRITE;
    let statistics = diagram(
        &specification,
        &[
            Write(row(0), 0, 0, first_durable),
            Write(row(0), 0, 0, second_durable),
            Write(row(0), 0, first_durable, second_durable + ROW_WRITE),
            // The second entry was free long before this one comes.
            Write(row(1), 10_000, 10_000, 10_000 + LINK + ROW_WRITE),
        ],
    );
    assert_eq!(statistics.nvm_write_queue_wait_cycles, first_durable);
}

#[test]
fn a_full_read_queue_holds_the_next_read() {
    let mut specification = table_iv(1);
    specification.nvm.read_queue_entries = 2;
    let statistics = diagram(
        &specification,
        &[
            Read(row(0), 0, ROW_READ + LINK),
            Read(row(1), 0, ROW_READ + 2 * LINK),
            // Bank 2 is free, an entry isn't before the first read has arrived.
            Read(row(2), 0, 2 * (ROW_READ + LINK)),
        ],
    );
    assert_eq!(statistics.nvm_read_wait_cycles, ROW_READ + LINK);
}

#[test]
fn statistics_tell_contexts_from_data_by_address() {
    let specification = table_iv(1);
    let arena = Arena::new(specification.nvm.bytes).expect("address space");
    let mut memory = Memory::new(&specification, arena, 4096..8192);
    let mut statistics = Statistics::default();
    for line in 0..256 {
        memory.write_line(line, &Line::ZERO, Traffic::WriteBack, 0, 0, &mut statistics);
    }
    assert_eq!(statistics.nvm_written_bytes_context, 4096);
    assert_eq!(statistics.nvm_written_bytes_data, 256 * 64 - 4096);
    statistics.check_conservation().expect("sums");
}

// ---- What designs read and copy for themselves ------------------------------------------------

const PAGE: usize = 2 * ROW_BYTES as usize;

#[test]
fn a_design_reads_a_row_in_one_operation_and_its_bytes_cross_the_link() {
    let statistics = diagram(
        &table_iv(1),
        &[
            DesignRead(row(0), 2048, 0, ROW_READ + 32 * LINK),
            // Its bank is read at the same time; its line waits for the link.
            DesignRead(row(1), 64, 0, ROW_READ + 33 * LINK),
            // A miss opens a row of the first bank after that, and waits for the link, too.
            Read(row(0), 0, ROW_READ + 34 * LINK),
            Read(row(17), 0, 3 * ROW_READ + LINK),
        ],
    );
    assert_eq!(statistics.nvm_reads, 4);
    assert_eq!(statistics.nvm_design_reads, 2);
    assert_eq!(statistics.nvm_read_bytes, 2048 + 3 * 64);
    assert_eq!(statistics.nvm_operations_sequential, 1);
    assert_eq!(statistics.nvm_operations_random, 1, "misses are none");
}

#[test]
fn design_reads_and_misses_share_the_read_queue() {
    let mut specification = table_iv(1);
    specification.nvm.read_queue_entries = 1;
    diagram(
        &specification,
        &[
            DesignRead(row(0), 64, 0, ROW_READ + LINK),
            Read(row(1), 0, 2 * (ROW_READ + LINK)),
            DesignRead(row(2), 64, 0, 3 * (ROW_READ + LINK)),
        ],
    );
}

#[test]
fn a_copied_row_is_read_then_written_and_never_crosses_the_link() {
    let statistics = diagram(
        &table_iv(1),
        &[
            Copy((row(0), row(1), 2048), 0, 0, ROW_READ + ROW_WRITE),
            // The link was free all the time.
            Block(row(2), 2048, 0, 0, 32 * LINK + ROW_WRITE),
        ],
    );
    assert_eq!(statistics.nvm_reads, 1);
    assert_eq!(statistics.nvm_design_reads, 1);
    assert_eq!(statistics.nvm_writes, 2);
    assert_eq!(statistics.nvm_operations_sequential, 3);
    assert_eq!(statistics.nvm_written_bytes_data, 2048);
}

#[test]
fn rows_of_one_copy_are_read_together_and_written_together() {
    let statistics = diagram(
        &table_iv(1),
        &[
            Copy((row(0), row(4), PAGE), 0, 0, ROW_READ + ROW_WRITE),
            // In another bank, so that it need not wait.
            Read(row(8), 0, ROW_READ + LINK),
            // Into the banks of its source: they are free again when it writes.
            Copy(
                (row(32), row(48), PAGE),
                10_000,
                10_000,
                10_000 + ROW_READ + ROW_WRITE,
            ),
        ],
    );
    assert_eq!(statistics.nvm_operations_sequential, 8);
    assert_eq!(statistics.nvm_operations_random, 0);
}

#[test]
fn copies_wait_for_their_banks() {
    let mut specification = table_iv(1);
    specification.nvm.banks = 1;
    diagram(
        &specification,
        &[Copy(
            (row(0), row(2), PAGE),
            0,
            0,
            2 * ROW_READ + 2 * ROW_WRITE,
        )],
    );
    let first_write = LINK + ROW_WRITE;
    diagram(
        &table_iv(1),
        &[
            Write(row(0), 0, 0, first_write),
            // The source's bank is busy …
            Copy(
                (row(0), row(1), 2048),
                0,
                0,
                first_write + ROW_READ + ROW_WRITE,
            ),
            // … and here the target's.
            Copy(
                (row(2), row(1), 2048),
                0,
                0,
                first_write + ROW_READ + 2 * ROW_WRITE,
            ),
        ],
    );
}

#[test]
fn copies_take_entries_of_both_queues() {
    let mut specification = table_iv(1);
    specification.nvm.read_queue_entries = 1;
    diagram(
        &specification,
        &[Copy((row(0), row(4), PAGE), 0, 0, 2 * ROW_READ + ROW_WRITE)],
    );
    let mut specification = table_iv(1);
    specification.nvm.write_queue_entries = 1;
    let first = ROW_READ + ROW_WRITE;
    diagram(
        &specification,
        &[Copy((row(0), row(4), PAGE), 0, first, first + ROW_WRITE)],
    );
}

#[test]
fn a_copy_can_be_ordered_behind_a_time() {
    diagram(
        &table_iv(1),
        &[
            // Only its writes are: the source may be read before.
            CopyAfter((row(0), row(1), 2048), 5000, 0, 0, 5000 + ROW_WRITE),
            Read(row(2), 0, ROW_READ + LINK),
            CopyAfter(
                (row(0), row(1), 2048),
                10,
                9000,
                9000,
                9000 + ROW_READ + ROW_WRITE,
            ),
        ],
    );
}

#[test]
fn parts_of_rows_are_copied_piece_by_piece() {
    let mut bench = Bench::new(&table_iv(1));
    let bytes: Vec<u8> = (0..3 * ROW_BYTES).map(|index| index as u8 ^ 0x5a).collect();
    bench.memory.arena.write(row(0), &bytes);
    let (from, to) = (row(0) + 1024, row(7) + 1024);
    let done = bench.copy((from, to, PAGE), 0, 0);
    assert_eq!(done.durable, ROW_READ + ROW_WRITE);
    assert_eq!(bench.memory.arena.slice(to, PAGE), &bytes[1024..][..PAGE]);
    assert_eq!(*bench.memory.arena.slice(row(7), 1024), [0; 1024]);
    assert_eq!(*bench.memory.arena.slice(to + PAGE as u64, 64), [0; 64]);
    let statistics = &bench.statistics;
    assert_eq!(statistics.nvm_reads, 3);
    assert_eq!(statistics.nvm_operations_sequential, 2, "the middle row");
    assert_eq!(statistics.nvm_operations_random, 4, "the halves");
    assert_eq!(statistics.nvm_written_bytes_total, PAGE as u64);
    statistics.check_conservation().expect("sums");
}

/// At home, where lines are dealt out, a page is a part of a row of every bank: one operation each, and
/// the lines of a part are durable together, or torn each by itself.
#[test]
fn a_page_whose_lines_are_dealt_out_is_copied_bank_by_bank() {
    let mut specification = table_iv(1);
    specification.nvm.home_interleaving = Interleaving::Line;
    specification.nvm.banks = 8;
    let mut bench = Bench::new(&specification);
    bench.memory.interleave_home(0..row(64));
    let bytes: Vec<u8> = (0..PAGE).map(|index| (index / 64) as u8 + 1).collect();
    let (from, to) = (row(64), row(6));
    bench.memory.arena.write(from, &bytes);
    let done = bench.copy((from, to, PAGE), 0, 0);
    assert_eq!(done.durable, ROW_READ + ROW_WRITE);
    let statistics = &bench.statistics;
    assert_eq!((statistics.nvm_reads, statistics.nvm_writes), (2, 8));
    assert_eq!(statistics.nvm_operations_sequential, 2 + 8);
    assert_eq!(statistics.nvm_written_bytes_data, PAGE as u64);
    statistics.check_conservation().expect("sums");
    // Back again, over lines that are being written: behind them, bank by bank.
    let busy = bench.write(to + 64, 2000, 0);
    let back = bench.copy((to, from, PAGE), 2000, 0);
    assert_eq!(back.durable, busy.durable + ROW_READ + ROW_WRITE);
    // One bank is late: its eight lines are in flight when the others are there.
    let late = bench.write(to + 64, 9000, 0);
    bench.memory.arena.write(from, &[0x77; PAGE]);
    let last = bench.copy((from, to, PAGE), 9000, 0);
    assert_eq!(last.durable, late.durable + ROW_WRITE);
    let lost = bench.memory.power_off(last.durable - 1, &mut Tear::new(1));
    assert_eq!((lost.writes_lost, lost.writes_in_flight), (0, 8));
    let bytes = bench.memory.arena.slice(to, PAGE);
    let copied = bytes.chunks(64).filter(|line| line == &[0x77; 64]).count();
    assert!((56..64).contains(&copied), "{copied}");
    bench.memory.power_back(&lost);
    assert_eq!(*bench.memory.arena.slice(to, PAGE), [0x77; PAGE]);
}

/// Each row of a copy is lost, torn or there by itself, and the source is never touched.
#[test]
fn a_cut_in_the_middle_of_a_copy() {
    let (from, to) = (row(0), row(4));
    let words = |bytes: &[u8]| bytes.iter().step_by(8).filter(|byte| **byte == 7).count();
    let (mut one_whole, mut torn) = (0, 0);
    for seed in 0..200 {
        let mut bench = Bench::new(&table_iv(1));
        bench.memory.arena.write(from, &[7; PAGE]);
        let done = bench.copy((from, to, PAGE), 0, 0);
        for (at, in_flight, lost) in [
            (ROW_READ - 1, 0, 2),
            (ROW_READ, 2, 0),
            (done.durable - 1, 2, 0),
            (done.durable, 0, 0),
        ] {
            let cut = bench.memory.power_off(at, &mut Tear::new(seed));
            assert_eq!((cut.writes_in_flight, cut.writes_lost), (in_flight, lost));
            assert_eq!(*bench.memory.arena.slice(from, PAGE), [7; PAGE]);
            let rows = [to, to + ROW_BYTES].map(|row| {
                let bytes = bench.memory.arena.slice(row, ROW_BYTES as usize);
                let whole_words = bytes.as_chunks::<8>().0.iter();
                assert!(
                    whole_words
                        .clone()
                        .all(|word| [[0; 8], [7; 8]].contains(word))
                );
                words(&bytes)
            });
            match in_flight + lost {
                0 => assert_eq!(rows, [256, 256]),
                2 if lost == 2 => assert_eq!(rows, [0, 0]),
                _ => {
                    one_whole += usize::from(rows == [256, 0] || rows == [0, 256]);
                    torn += usize::from(rows.iter().any(|words| (1..256).contains(words)));
                }
            }
            bench.memory.power_back(&cut);
            assert_eq!(*bench.memory.arena.slice(to, PAGE), [7; PAGE]);
        }
    }
    assert!(one_whole > 0 && torn > 0, "{one_whole} {torn}");
}

/// In start order, later requests never start earlier, and no bank does two things at once: on random
/// traffic.
#[test]
fn start_order_holds_on_random_traffic() {
    for seed in seeds(19) {
        let mut random = Random(seed);
        let mut specification = table_iv(1);
        specification.nvm.banks = 1 + random.below(5);
        specification.nvm.write_queue_entries = 1 + random.below(4);
        specification.nvm.scheduling = Scheduling::StartOrder;
        let banks = specification.nvm.banks;
        let mut bench = Bench::new(&specification);
        let (mut now, mut last_start) = (0, 0);
        let mut bank_free = vec![0; banks];
        let mut in_queue: Vec<Cycles> = Vec::new();
        for step in 0..500 {
            now += random.below(800) as u64;
            let row_number = random.below(12) as u64;
            let Accepted { accepted, durable } = bench.write(row(row_number), now, 0);
            let start = durable - ROW_WRITE;
            let bank = bank_of_row(row_number, banks);
            in_queue.retain(|&durable| durable > accepted);
            in_queue.push(durable);
            assert!(
                accepted >= now
                    && start >= accepted + LINK
                    && start >= last_start
                    && start >= bank_free[bank]
                    && in_queue.len() <= specification.nvm.write_queue_entries,
                "seed {seed}, step {step}: accepted {accepted}, start {start}"
            );
            last_start = start;
            bank_free[bank] = durable;
        }
    }
}

/// The link's ring of lap-stamped slots against a plain list of slots without end: jumps far ahead
/// and requests from the past included.
#[test]
fn the_link_is_a_calendar() {
    const SLOT: u64 = 64;
    for seed in seeds(19) {
        let mut random = Random(seed);
        let mut link = Link::new(12_800_000_000, 2000);
        let mut used = vec![0u64; 1 << 16];
        let mut now = 0;
        let mut latest = 0;
        for step in 0..3000 {
            now += random.below(40) as u64;
            if random.once_in(100) {
                now += random.below(100_000) as u64;
            }
            let earliest = now + random.below(2000) as u64 * random.below(2) as u64;
            let bytes = [64, 64, 64, 2048, 72][random.below(5)];
            let (mut needed, mut slot) = (link.transfer_cycles(bytes), earliest / SLOT);
            let mut over = earliest;
            while needed > 0 {
                let begin = used[slot as usize].max(over.saturating_sub(slot * SLOT));
                let granted = needed.min(SLOT - begin);
                used[slot as usize] += granted;
                needed -= granted;
                over = slot * SLOT + begin + granted;
                slot += u64::from(needed > 0);
            }
            latest = latest.max(slot);
            assert_eq!(
                link.reserve(earliest, bytes),
                over,
                "seed {seed}, step {step}"
            );
            now = now.max(latest.saturating_sub(8000) * SLOT);
        }
    }
}

// ---- Power cuts ---------------------------------------------------------------------------------

/// A write as the test knows it.
struct Issued {
    start: Cycles,
    durable: Cycles,
    address: u64,
    bytes: Vec<u8>,
}

const AREA_BYTES: u64 = 6 * ROW_BYTES;

struct Traced {
    bench: Bench,
    initial: Vec<u8>,
    writes: Vec<Issued>,
    horizon: Cycles,
}

/// Random lines, blocks and reads over a few rows of few banks, so that writes overlap.
fn traffic(random: &mut Random, keep_digest: bool) -> Traced {
    let mut specification = table_iv(1);
    specification.nvm.banks = 1 + random.below(4);
    specification.nvm.write_queue_entries = 1 + random.below(16);
    let orders = [Scheduling::Fcfs, Scheduling::StartOrder];
    specification.nvm.scheduling = orders[(random.0 % 2) as usize];
    let mut bench = Bench::new(&specification);
    let mut initial = vec![0; AREA_BYTES as usize];
    if !random.once_in(3) {
        initial.fill_with(|| random.next() as u8);
    }
    bench.memory.arena.write(0, &initial);
    bench.memory.persistence_times = Some(Vec::new());
    if keep_digest {
        bench.memory.arena.keep_digest(0..AREA_BYTES);
    }
    let (mut now, mut horizon) = (0, 0);
    let mut writes = Vec::new();
    for _ in 0..=random.below(60) {
        now += random.below(700) as u64;
        // Sometimes at the same place again, in whole or in part.
        let row_number = random.below(AREA_BYTES as usize / ROW_BYTES as usize) as u64;
        let mut address = row(row_number) + 64 * random.below(3) as u64;
        let mut length = LINE_BYTES;
        let not_before = if random.once_in(8) {
            now + random.below(3000) as u64
        } else {
            0
        };
        let is_block = random.once_in(2);
        if random.once_in(6) {
            if random.once_in(2) {
                bench.read(address, now);
            } else {
                bench.read_block(address, LINE_BYTES, now);
            }
            continue;
        }
        if random.once_in(5) {
            now = copy_rows(random, &mut bench, now, not_before, &mut writes);
            continue;
        }
        if is_block {
            address += 8 * random.below(8) as u64;
            let words_left = (row(row_number + 1) - address) as usize / 8;
            let words_most = if random.once_in(4) { 256 } else { 20 };
            length = 8 * (1 + random.below(words_left.min(words_most)));
        }
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        let Accepted { accepted, durable } = if is_block {
            bench.block(address, &bytes, now, not_before)
        } else {
            let line = Line(bytes[..].try_into().expect("a line"));
            let statistics = &mut bench.statistics;
            bench.memory.write_line(
                address / LINE_BYTES as u64,
                &line,
                Traffic::Metadata,
                now,
                not_before,
                statistics,
            )
        };
        assert!(durable - ROW_WRITE >= not_before.max(accepted));
        writes.push(Issued {
            start: durable - ROW_WRITE,
            durable,
            address,
            bytes,
        });
        now = accepted;
        if random.once_in(10) {
            horizon = horizon.max(random.below(now as usize + 1) as u64);
            bench.memory.forget_until(horizon);
        }
    }
    Traced {
        bench,
        initial,
        writes,
        horizon,
    }
}

/// Copies up to two rows' worth of words; each piece is a write of its own.
fn copy_rows(
    random: &mut Random,
    bench: &mut Bench,
    now: Cycles,
    not_before: Cycles,
    writes: &mut Vec<Issued>,
) -> Cycles {
    let (from, to) = [(0, 3), (1, 4), (4, 0), (2, 5), (5, 1)][random.below(5)];
    let offset = 8 * random.below(20) as u64;
    let (from, to) = (row(from) + offset, row(to) + offset);
    let most = (PAGE as u64).min(AREA_BYTES - from.max(to)) as usize / 8;
    let length = 8 * (1 + random.below(most));
    let bytes = bench.memory.arena.slice(from, length).to_vec();
    let times = |bench: &Bench| bench.memory.persistence_times.clone().expect("asked for");
    let before = times(bench).len();
    let done = bench.copy((from, to, length), now, not_before);
    let mut at = 0;
    for piece in times(bench)[before..].chunks(2) {
        let row_left = (ROW_BYTES - (to + at as u64) % ROW_BYTES) as usize;
        let piece_length = row_left.min(length - at);
        assert!(piece[0] >= not_before.max(now + ROW_READ));
        writes.push(Issued {
            start: piece[0],
            durable: piece[1],
            address: to + at as u64,
            bytes: bytes[at..at + piece_length].to_vec(),
        });
        at += piece_length;
    }
    assert_eq!(at, length, "all pieces were written");
    let pieces = times(bench).split_off(before);
    assert_eq!(pieces.into_iter().max(), Some(done.durable));
    done.accepted
}

fn area(memory: &Memory) -> Vec<u8> {
    memory.arena.slice(0, AREA_BYTES as usize).to_vec()
}

fn check_digest(memory: &Memory) {
    if let Some(digest) = memory.arena.digest() {
        assert_eq!(digest, memory.arena.compute_digest(0..AREA_BYTES));
    }
}

/// What each word may be after a cut: its value by the durable writes, or one write in flight.
fn check_cut(traced: &Traced, survived: &[u8], at: Cycles) {
    let mut durable = traced.initial.clone();
    let mut in_flight = vec![None; AREA_BYTES as usize / 8];
    for (index, write) in traced.writes.iter().enumerate() {
        let range = write.address as usize..write.address as usize + write.bytes.len();
        if write.durable <= at {
            assert!(
                in_flight[range.start / 8..range.end / 8]
                    .iter()
                    .all(Option::is_none),
                "a write was durable before an earlier one to the same place"
            );
            durable[range].copy_from_slice(&write.bytes);
        } else if write.start <= at {
            for word in &mut in_flight[range.start / 8..range.end / 8] {
                assert_eq!(*word, None, "two writes in flight to one word");
                *word = Some(index);
            }
        }
    }
    for (word, writer) in in_flight.iter().enumerate() {
        let is = &survived[word * 8..][..8];
        let old = &durable[word * 8..][..8];
        let new = writer.map(|index: usize| {
            let write = &traced.writes[index];
            &write.bytes[word * 8 - write.address as usize..][..8]
        });
        assert!(
            is == old || Some(is) == new,
            "cut at {at}, word at {:#x}: {is:x?} is neither {old:x?} nor {new:x?}",
            word * 8
        );
    }
}

#[test]
fn a_cut_leaves_every_write_there_absent_or_torn_by_words_and_can_be_undone() {
    let (mut cuts, mut copies) = (0, 0);
    for seed in seeds(99) {
        let mut random = Random(seed);
        let keep_digest = random.once_in(2);
        let mut traced = traffic(&mut random, keep_digest);
        let newest = area(&traced.bench.memory);
        let mut expected = traced.initial.clone();
        for write in &traced.writes {
            expected[write.address as usize..][..write.bytes.len()].copy_from_slice(&write.bytes);
        }
        assert_eq!(newest, expected, "the arena holds what was accepted");

        let mut moments: Vec<_> = traced
            .bench
            .memory
            .persistence_times
            .take()
            .expect("asked for");
        for write in &traced.writes {
            assert!(moments.contains(&write.start) && moments.contains(&write.durable));
        }
        moments.extend(moments.clone().iter().map(|at| at + 1));
        moments.extend(moments.clone().iter().map(|at| at.saturating_sub(1)));
        let quiet_at = traced.bench.memory.quiet_at();
        moments.extend((0..20).map(|_| random.next() % (quiet_at + 100)));
        moments.sort_unstable();
        moments.dedup();
        for at in moments.into_iter().filter(|&at| at > traced.horizon) {
            cuts += 1;
            let tear = Tear::new(random.next());
            let lost = traced.bench.memory.power_off(at, &mut tear.clone());
            let survived = area(&traced.bench.memory);
            check_cut(&traced, &survived, at);
            check_digest(&traced.bench.memory);
            let count = |of: fn(&Issued, Cycles) -> bool| {
                traced.writes.iter().filter(|write| of(write, at)).count()
            };
            assert_eq!(lost.writes_lost, count(|write, at| write.start > at));
            assert_eq!(
                lost.writes_in_flight,
                count(|write, at| write.start <= at && at < write.durable)
            );

            traced.bench.memory.power_back(&lost);
            assert_eq!(area(&traced.bench.memory), newest, "cut at {at}, undone");
            check_digest(&traced.bench.memory);

            // The same cut again is the same cut.
            let lost = traced.bench.memory.power_off(at, &mut tear.clone());
            assert_eq!(area(&traced.bench.memory), survived);
            traced.bench.memory.power_back(&lost);
        }
        let statistics = &traced.bench.statistics;
        statistics.check_conservation().expect("sums");
        copies += statistics.nvm_design_reads;
        let lost = traced.bench.memory.power_off(quiet_at, &mut Tear::new(0));
        assert_eq!((lost.writes_lost, lost.writes_in_flight), (0, 0));
        assert_eq!(area(&traced.bench.memory), newest);
    }
    println!("{cuts} cuts");
    let enough = cuts > 5000 && copies > 200;
    assert!(enough || seed_alone().is_some(), "{copies} copies");
}

/// A write in flight arrives not at all, wholly, and in part: all of it happens.
#[test]
fn tears_are_of_every_kind() {
    let (mut none, mut whole, mut prefix, mut mixed) = (0, 0, 0, 0);
    let mut bench = Bench::new(&table_iv(1));
    let written = bench.write(row(3), 0, 0);
    for seed in 0..400 {
        let at = written.durable - 1;
        let lost = bench.memory.power_off(at, &mut Tear::new(seed));
        let line = bench.memory.arena.line(row(3)).0;
        let arrived: Vec<bool> = line.chunks(8).map(|word| word == [1; 8]).collect();
        assert!(
            line.chunks(8).all(|word| word == [0; 8] || word == [1; 8]),
            "a word is torn: {line:?}"
        );
        match arrived.iter().filter(|&&word| word).count() {
            0 => none += 1,
            8 => whole += 1,
            words if arrived[..words].iter().all(|&word| word) => prefix += 1,
            _ => mixed += 1,
        }
        bench.memory.power_back(&lost);
    }
    println!("{none} not at all, {whole} wholly, {prefix} from the front, {mixed} mixed");
    assert!(
        [none, whole, prefix, mixed]
            .iter()
            .all(|&count| count >= 10)
    );
}

/// A cut exactly at the end of a write keeps it; one cycle earlier may tear it, exactly at the
/// start too; one cycle before that it is absent.
#[test]
fn the_edges_of_a_write() {
    let mut bench = Bench::new(&table_iv(1));
    let Accepted { durable, .. } = bench.write(row(0), 0, 0);
    let start = durable - ROW_WRITE;
    for (at, lost_writes, in_flight) in [
        (start - 1, 1, 0),
        (start, 0, 1),
        (durable - 1, 0, 1),
        (durable, 0, 0),
    ] {
        let lost = bench.memory.power_off(at, &mut Tear::new(9));
        assert_eq!(
            (lost.writes_lost, lost.writes_in_flight),
            (lost_writes, in_flight),
            "cut at {at}"
        );
        if lost_writes == 1 {
            assert_eq!(*bench.memory.arena.line(row(0)), Line::ZERO);
        }
        if (lost_writes, in_flight) == (0, 0) {
            assert_eq!(*bench.memory.arena.line(row(0)), Line([1; LINE_BYTES]));
        }
        bench.memory.power_back(&lost);
    }
}

/// The digest of part of the area: writes that straddle its ends count as far as they are inside.
#[test]
fn a_kept_digest_is_exact_after_unaligned_writes_and_cuts() {
    for seed in seeds(19) {
        let mut random = Random(seed);
        let mut bench = Bench::new(&table_iv(1));
        bench.memory.arena.keep_digest(64..AREA_BYTES - 64);
        let mut now = 0;
        for _ in 0..50 {
            let row_number = random.below(6) as u64;
            let offset = 8 * random.below(255);
            let length = 8 * (1 + random.below((2048 - offset) / 8));
            let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            now = bench
                .block(row(row_number) + offset as u64, &bytes, now, 0)
                .accepted;
            let digest = |memory: &Memory| memory.arena.compute_digest(64..AREA_BYTES - 64);
            assert_eq!(bench.memory.arena.digest(), Some(digest(&bench.memory)));
            let mut tear = Tear::new(random.next());
            let lost = bench
                .memory
                .power_off(now + random.below(900) as u64, &mut tear);
            assert_eq!(bench.memory.arena.digest(), Some(digest(&bench.memory)));
            bench.memory.power_back(&lost);
            assert_eq!(bench.memory.arena.digest(), Some(digest(&bench.memory)));
        }
    }
}

// ---- Posted writes ------------------------------------------------------------------------------

/// Sixteen banks, rows of a line, and nobody waits.
fn posted() -> Specification {
    let mut specification = table_iv(1);
    specification.nvm.row_bytes = LINE_BYTES;
    specification.posted.writes = true;
    specification.posted.banks_by_home_line = true;
    specification.validate().expect("it can be built");
    specification
}

#[test]
fn posted_writes_to_a_bank_end_when_it_has_done_all_of_them() {
    for writes in [1, 16, 1000] {
        let mut one = Bench::new(&posted());
        let mut all = Bench::new(&posted());
        for number in 0..writes {
            let line = LINE_BYTES as u64;
            for (bench, address) in [(&mut one, number * 16 * line), (&mut all, number * line)] {
                let taken = bench.write(address, 5, 1_000_000);
                let alone = (5, 5 + ROW_WRITE);
                assert_eq!((taken.accepted, taken.durable), alone, "nobody waits");
                assert_eq!(bench.memory.could_start_at(address, 7), 7);
            }
        }
        assert_eq!(one.memory.drained_at(), 5 + writes * ROW_WRITE);
        assert_eq!(all.memory.drained_at(), 5 + writes.div_ceil(16) * ROW_WRITE);
        assert_eq!(one.memory.quiet_at(), 0, "and nobody waits for that");
        let read = one.read(0, 5);
        assert_eq!(read, 5 + ROW_READ + LINK, "reads pass");
    }
}

#[test]
fn a_posted_write_takes_as_long_as_its_bytes_on_the_bank_of_its_line() {
    let mut bench = Bench::new(&posted());
    let Bench { memory, statistics } = &mut bench;
    let lines = [3u64, 3, 19, 4];
    let block = [7; 32 + 4 * 72];
    let entries = (72, &mut lines.into_iter() as &mut dyn Iterator<Item = u64>);
    let durable = memory.post_entries(1 << 20, &block, entries, 0, statistics);
    assert_eq!(durable, Some(ROW_WRITE * 72 / 64), "alone on its bank");
    assert_eq!(
        memory.drained_at(),
        3 * ROW_WRITE * 72 / 64,
        "3 and 19 share a bank"
    );
    assert_eq!(*memory.arena.slice(1 << 20, block.len()), block);
    assert_eq!(statistics.nvm_written_bytes_log, block.len() as u64);
    statistics.check_conservation().expect("it adds up");
    let (traffic, line) = (Traffic::WriteBack, Line([1; LINE_BYTES]));
    memory.write_line_of(4, 1000, &line, traffic, 0, 0, statistics);
    memory.write_line_of(4, 2000, &line, traffic, 0, 0, statistics);
    memory.write_line_of(4, 3000, &line, traffic, 0, 0, statistics);
    let of_bank_4 = ROW_WRITE * 72 / 64 + 3 * ROW_WRITE;
    assert_eq!(memory.drained_at(), of_bank_4);
}

#[test]
fn who_counts_durability_waits_for_the_bank_and_for_nothing_else() {
    let mut bench = Bench::new(&posted());
    bench.memory.count_durability();
    for number in 1..=100 {
        let taken = bench.write(0, 0, 0);
        assert_eq!((taken.accepted, taken.durable), (0, number * ROW_WRITE));
    }
    assert_eq!(bench.memory.quiet_at(), 100 * ROW_WRITE);
}
