//! The memory controller: when requests start, arrive and become durable, and what a power cut
//! leaves of them.
//!
//! The timing half reads like timing diagrams: a table of requests in order of issue, each with the
//! times that it must report. Cycles are Table IV's: 2 GHz, a row read of 128 ns is 256 cycles, a
//! row write of 368 ns is 736, a line takes 10 cycles on the link, a row of 2 KB takes 320.
//!
//! The other half cuts the power at every interesting moment of random traffic and compares what
//! is left, word by word, with what each write's own times say must or may be there.

mod support;

use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::link::Link;
use perdure_hardware::memory::{Accepted, Memory, Tear, Traffic};
use perdure_hardware::specification::Specification;
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use support::{Random, table_iv};

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
}

/// The first line of a row; consecutive rows lie in consecutive banks.
fn row(number: u64) -> u64 {
    number * ROW_BYTES
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
}
use Row::{Block, Read, Write, WriteAfter};

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
            // Sixteen banks: row 16 is in bank 0 again.
            Read(row(16), 0, 2 * ROW_READ + LINK),
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
            Write(row(16), 0, 0, LINK + 3 * ROW_WRITE),
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
fn nobody_overtakes_under_first_come_first_served() {
    diagram(
        &table_iv(1),
        &[
            Write(row(0), 0, 0, LINK + ROW_WRITE),
            // Waits for its bank …
            Write(row(0), 0, 0, LINK + 2 * ROW_WRITE),
            // … and so does the read behind it, although its own bank is free.
            Read(row(1), 20, LINK + ROW_WRITE + ROW_READ + LINK),
        ],
    );
}

#[test]
fn a_read_waits_for_the_write_in_its_bank() {
    diagram(
        &table_iv(1),
        &[
            Write(row(0), 0, 0, LINK + ROW_WRITE),
            Read(row(1), 0, LINK + ROW_READ + LINK),
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
            // First come, first served holds for what comes later.
            Write(row(1), 0, 0, 5000 + ROW_WRITE),
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

/// Later requests never start earlier, and no bank does two things at once: on random traffic.
#[test]
fn first_come_first_served_holds_on_random_traffic() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut specification = table_iv(1);
        specification.nvm.banks = 1 + random.below(5);
        specification.nvm.write_queue_entries = 1 + random.below(4);
        let banks = specification.nvm.banks as u64;
        let mut bench = Bench::new(&specification);
        let (mut now, mut last_start) = (0, 0);
        let mut bank_free = vec![0; banks as usize];
        let mut in_queue: Vec<Cycles> = Vec::new();
        for step in 0..500 {
            now += random.below(800) as u64;
            let row_number = random.below(12) as u64;
            let Accepted { accepted, durable } = bench.write(row(row_number), now, 0);
            let start = durable - ROW_WRITE;
            let bank = (row_number % banks) as usize;
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
    for seed in 0..20 {
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
            bench.read(address, now);
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
    let mut cuts = 0;
    for seed in 0..100 {
        println!("seed {seed}");
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
        let lost = traced.bench.memory.power_off(quiet_at, &mut Tear::new(0));
        assert_eq!((lost.writes_lost, lost.writes_in_flight), (0, 0));
        assert_eq!(area(&traced.bench.memory), newest);
    }
    println!("{cuts} cuts");
    assert!(cuts > 5000, "only {cuts} cuts");
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
    for seed in 0..20 {
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
