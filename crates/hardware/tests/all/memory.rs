//! The memory controller: when requests start, arrive and become durable, and what a power cut
//! leaves of them.
//!
//! The timing half reads like timing diagrams: a table of requests in order of issue, each with the
//! times that it must report. Cycles are Table IV's: 2 GHz, a row read of 128 ns is 256 cycles, a
//! row write of 368 ns is 736, a line takes 10 cycles on the link, a row of 2 KB takes 320.
//!
//! The other half cuts the power at every interesting moment of random traffic and compares what
//! is left, word by word, with what each write's own times say must or may be there.

mod copies;
mod cuts;
mod posted;

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
const PAGE: usize = 2 * ROW_BYTES as usize;

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
