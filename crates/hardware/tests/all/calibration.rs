//! Calibration that costs nothing: what the preset `picl` makes of amounts whose time arithmetic gives,
//! and of closed loops of harts beside two small references. These are written after what public text
//! says of two controllers, and know nothing of ours: they tick, ours keeps calendars.
//!
//! - `NVMain`'s FCFS class ("simple close page"): one queue of 32 for reads and writes; each cycle the
//!   oldest request whose bank is idle is issued, and leaves the queue then; the page is closed after
//!   it.
//! - Ramulator: a queue of 32 for reads and one for writes; writes are served from the time when theirs
//!   is eight tenths full, or there is no read, until it is two tenths full.

use std::collections::VecDeque;

use crate::support::{Random, table_iv};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::memory::{Memory, Traffic};
use perdure_hardware::specification::{Interleaving, Scheduling, Specification};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

const LINE: u64 = LINE_BYTES as u64;
const ROW_BYTES: u64 = 2048;
const ROW_READ: Cycles = 256;
const ROW_WRITE: Cycles = 736;
const BANKS: usize = 8;
/// What a line takes of a link with 12.8 GB/s at 2 GHz.
const LINE_TRANSFER: Cycles = 10;

/// The memory of `machines/picl.toml`.
fn preset() -> Specification {
    let mut specification = table_iv(1);
    specification.nvm.banks = BANKS;
    specification.nvm.scheduling = Scheduling::Fcfs;
    specification.nvm.home_interleaving = Interleaving::Line;
    specification
}

/// Idle memory, of which everything is home.
fn memory(specification: &Specification) -> Memory {
    let arena = Arena::new(specification.nvm.bytes).expect("address space");
    let mut memory = Memory::new(specification, arena, 0..0);
    memory.interleave_home(0..specification.nvm.bytes);
    memory
}

/// Writes lines one after another, each as soon as the queue took the one before; when all are durable.
fn written(specification: &Specification, lines: impl Iterator<Item = u64>) -> Cycles {
    let (mut memory, mut statistics) = (memory(specification), Statistics::default());
    let mut sent = 0;
    for line in lines {
        let (bytes, traffic) = (Line([1; LINE_BYTES]), Traffic::WriteBack);
        let done = memory.write_line(line, &bytes, traffic, sent, 0, &mut statistics);
        sent = done.accepted;
    }
    memory.quiet_at()
}

/// The lines of one bank, in the order of their addresses.
fn of_one_bank(specification: &Specification, count: usize) -> Vec<u64> {
    let memory = memory(specification);
    let bank = memory.bank(0);
    let lines = (0..).filter(|line| memory.bank(line * LINE) == bank);
    lines.take(count).collect()
}

#[test]
fn single_requests_take_their_row_operation_and_their_transfer() {
    let specification = preset();
    let mut statistics = Statistics::default();
    let read = memory(&specification).read(7, 1000, &mut statistics);
    assert_eq!(read, 1000 + ROW_READ + LINE_TRANSFER);
    let line = [7_u64].into_iter();
    assert_eq!(written(&specification, line), LINE_TRANSFER + ROW_WRITE);
    let block = [1; ROW_BYTES as usize];
    let mut memory = memory(&specification);
    // Not home: a block of the log is a row, and a row operation.
    memory.interleave_home(0..0);
    memory.write_block(0, &block, Traffic::Log, 0, 0, &mut statistics);
    let transfer = ROW_BYTES / LINE * LINE_TRANSFER;
    assert_eq!(memory.quiet_at(), transfer + ROW_WRITE);
}

/// Section II-A says 1 ms for the write-back of a 2 MB cache, of DRAM. Eight banks with 368 ns a line
/// take half as long again, whatever the link and the queue: 32,768 lines / 8 × 368 ns.
#[test]
fn two_megabytes_are_written_back_in_what_eight_banks_take() {
    let lines = (2 << 20) / LINE;
    let took = written(&preset(), 0..lines);
    let banks = lines / BANKS as u64 * ROW_WRITE;
    // The link has given every bank its first line after eight transfers.
    let begun = BANKS as u64 * LINE_TRANSFER;
    assert!((banks..=banks + begun).contains(&took), "{took}");
    let milliseconds = preset().clock().nanoseconds(took) / 1e6;
    assert!((1.507..1.508).contains(&milliseconds), "{milliseconds}");
}

/// The same by rows: the queue has room for the lines of one row, so that hardly three banks work.
#[test]
fn by_rows_a_stream_keeps_hardly_three_banks_at_work() {
    let mut specification = preset();
    specification.nvm.home_interleaving = Interleaving::Row;
    let lines = (2 << 20) / LINE;
    let took = written(&specification, 0..lines);
    let banks = (lines * ROW_WRITE) as f64 / took as f64;
    assert!((2.5..3.0).contains(&banks), "{banks}");
}

#[test]
fn lines_of_one_bank_take_one_row_operation_after_another() {
    let specification = preset();
    let lines = of_one_bank(&specification, 100);
    let took = written(&specification, lines.iter().copied());
    assert_eq!(took, LINE_TRANSFER + 100 * ROW_WRITE);
    let (mut memory, mut statistics) = (memory(&specification), Statistics::default());
    let reads = lines[..30]
        .iter()
        .map(|&line| memory.read(line, 0, &mut statistics));
    assert_eq!(reads.max(), Some(30 * ROW_READ + LINE_TRANSFER));
}

/// Lines keep eight banks busy and a fifth of the link; blocks of the log all of the link.
#[test]
fn streams_are_bound_by_the_banks_for_lines_and_by_the_link_for_blocks() {
    let specification = preset();
    let count = 4096;
    let (mut memory, mut statistics) = (memory(&specification), Statistics::default());
    let mut reads = VecDeque::new();
    let mut last = 0;
    // As many at a time as the queue holds.
    for line in 0..count {
        let sent = if reads.len() < specification.nvm.read_queue_entries {
            0
        } else {
            reads.pop_front().expect("a read")
        };
        let done = memory.read(line, sent, &mut statistics);
        reads.push_back(done);
        last = last.max(done);
    }
    let banks = count / BANKS as u64 * ROW_READ;
    assert!((banks..banks + banks / 50).contains(&last), "{last}");

    memory.interleave_home(0..0);
    let blocks: u64 = 512;
    let (block, start) = ([1; ROW_BYTES as usize], last);
    let mut sent = start;
    for index in 0..blocks {
        let done = memory.write_block(
            index * ROW_BYTES,
            &block,
            Traffic::Log,
            sent,
            0,
            &mut statistics,
        );
        sent = done.accepted;
    }
    let link = blocks * ROW_BYTES / LINE * LINE_TRANSFER;
    let took = memory.quiet_at() - start;
    assert!((link..=link + ROW_WRITE + 64).contains(&took), "{took}");
}

/// What a hart does: it works, then reads and waits for the line, or writes and goes on when the queue
/// has taken it.
#[derive(Clone, Copy, Debug)]
struct Step {
    work: Cycles,
    row: u64,
    writes: bool,
}

fn harts(random: &mut Random, count: usize, work: usize) -> Vec<Vec<Step>> {
    let mut step = || Step {
        work: 1 + random.below(work) as u64,
        row: random.below(4096) as u64,
        writes: random.below(2) == 1,
    };
    (0..count)
        .map(|_| (0..400).map(|_| step()).collect())
        .collect()
}

/// When the last hart is done, and how long a read took on average.
#[derive(Clone, Copy, Debug)]
struct Took {
    cycles: Cycles,
    read: f64,
}

/// The same as the preset, with a link so wide that a line takes one cycle.
fn wide() -> Specification {
    let mut specification = preset();
    specification.link.width_bits = 4096;
    specification.link.frequency_mhz = 1_000_000;
    specification
}

fn by_controller(specification: &Specification, harts: &[Vec<Step>]) -> Took {
    let (mut memory, mut statistics) = (memory(specification), Statistics::default());
    let mut at: Vec<(Cycles, usize)> = harts.iter().map(|steps| (steps[0].work, 0)).collect();
    let (mut reads, mut waited) = (0, 0);
    while let Some(hart) = (0..harts.len())
        .filter(|&hart| at[hart].1 < harts[hart].len())
        .min_by_key(|&hart| at[hart].0)
    {
        let (now, index) = at[hart];
        let step = harts[hart][index];
        // One line of each row, so that a row's number decides the bank.
        let line = step.row;
        let done = if step.writes {
            let (bytes, traffic) = (Line([1; LINE_BYTES]), Traffic::WriteBack);
            let done = memory.write_line(line, &bytes, traffic, now, 0, &mut statistics);
            done.accepted
        } else {
            let done = memory.read(line, now, &mut statistics);
            (reads, waited) = (reads + 1, waited + done - now);
            done
        };
        let work = harts[hart].get(index + 1).map_or(0, |next| next.work);
        at[hart] = (done + work, index + 1);
    }
    let cycles = at.iter().map(|hart| hart.0).max().expect("a hart");
    let read = waited as f64 / f64::from(reads);
    Took { cycles, read }
}

/// Whose requests wait where, and which are served.
#[derive(Clone, Copy, Debug)]
enum Rule {
    NvMain { entries: usize },
    Ramulator { entries: usize },
}

#[derive(Clone, Copy, Debug)]
struct Request {
    hart: usize,
    bank: usize,
    writes: bool,
    from: Cycles,
}

/// The requests that wait, and whether writes have their turn (Ramulator).
#[derive(Default)]
struct Queues {
    waiting: Vec<Request>,
    writing: bool,
}

impl Queues {
    fn of(&self, writes: bool) -> usize {
        let kind = self.waiting.iter().filter(|one| one.writes == writes);
        kind.count()
    }

    fn has_room(&self, rule: Rule, writes: bool) -> bool {
        match rule {
            Rule::NvMain { entries } => self.waiting.len() < entries,
            Rule::Ramulator { entries } => self.of(writes) < entries,
        }
    }

    /// The oldest request that may be served and whose bank is idle.
    fn next(&mut self, rule: Rule, now: Cycles, busy_until: &[Cycles]) -> Option<Request> {
        if let Rule::Ramulator { entries } = rule {
            let (reads, writes) = (self.of(false), self.of(true));
            if writes * 10 > entries * 8 || reads == 0 {
                self.writing = true;
            } else if writes * 10 < entries * 2 {
                self.writing = false;
            }
        }
        let served = |one: &Request| match rule {
            Rule::NvMain { .. } => true,
            Rule::Ramulator { .. } => one.writes == self.writing,
        };
        let ready = |one: &Request| served(one) && one.from <= now && busy_until[one.bank] <= now;
        let place = self.waiting.iter().position(ready)?;
        Some(self.waiting.remove(place))
    }
}

/// What a reference makes of the harts: a clock that ticks, one request issued in each cycle.
fn by_ticks(rule: Rule, harts: &[Vec<Step>], bank_of: &dyn Fn(u64) -> usize) -> Took {
    let mut busy_until = vec![0; BANKS];
    let mut queues = Queues::default();
    // When a hart comes with its next step; none while it waits for a read.
    let mut comes: Vec<Option<Cycles>> = harts.iter().map(|steps| Some(steps[0].work)).collect();
    let mut index = vec![0; harts.len()];
    let mut reading: Vec<(Cycles, usize)> = Vec::new();
    let (mut reads, mut waited) = (0, 0);
    let mut began = vec![0; harts.len()];
    let (mut now, mut last) = (0, 0);
    while index
        .iter()
        .zip(harts)
        .any(|(&index, steps)| index < steps.len())
    {
        for place in (0..reading.len()).rev() {
            if reading[place].0 <= now {
                let (_, hart) = reading.swap_remove(place);
                (reads, waited, last) = (reads + 1, waited + now - began[hart], now);
                index[hart] += 1;
                let next = harts[hart].get(index[hart]);
                comes[hart] = next.map(|next| now + next.work);
            }
        }
        for hart in 0..harts.len() {
            let Some(came) = comes[hart].filter(|&came| came <= now) else {
                continue;
            };
            let step = harts[hart][index[hart]];
            if !queues.has_room(rule, step.writes) {
                continue;
            }
            let bank = bank_of(step.row);
            let (writes, from) = (step.writes, now + u64::from(step.writes));
            queues.waiting.push(Request {
                hart,
                bank,
                writes,
                from,
            });
            began[hart] = came;
            if step.writes {
                (index[hart], last) = (index[hart] + 1, now);
                let next = harts[hart].get(index[hart]);
                comes[hart] = next.map(|next| now + next.work);
            } else {
                comes[hart] = None;
            }
        }
        if let Some(request) = queues.next(rule, now, &busy_until) {
            let cycles = if request.writes { ROW_WRITE } else { ROW_READ };
            busy_until[request.bank] = now + cycles;
            if !request.writes {
                reading.push((now + cycles + 1, request.hart));
            }
        }
        now += 1;
    }
    let read = waited as f64 / f64::from(reads);
    Took { cycles: last, read }
}

/// Loads of which the memory has little, enough and too much to do: how many harts, and up to how many
/// cycles they work between two requests.
const LOADS: [(usize, usize); 3] = [(1, 400), (4, 800), (8, 200)];

/// Ours over a reference's, for each load and some seeds: the whole time, and a read's.
fn ratios(specification: &Specification, rule: Rule) -> [Vec<(f64, f64)>; 3] {
    let memory = memory(specification);
    let bank_of = |row: u64| memory.bank(row * LINE);
    LOADS.map(|(count, work)| {
        let of_seed = |seed| {
            let harts = harts(&mut Random(seed), count, work);
            let ours = by_controller(specification, &harts);
            let theirs = by_ticks(rule, &harts, &bank_of);
            let time = ours.cycles as f64 / theirs.cycles as f64;
            (time, ours.read / theirs.read)
        };
        (0..5).map(of_seed).collect()
    })
}

fn assert_within(ratios: &[(f64, f64)], time: f64, read: f64) {
    for &(of_time, of_read) in ratios {
        assert!((of_time - 1.0).abs() <= time, "time: {ratios:?}");
        assert!((of_read - 1.0).abs() <= read, "a read: {ratios:?}");
    }
}

/// The two differ where queues are full: ours are two, and an entry is taken until its request is done.
#[test]
fn harts_take_as_long_as_behind_nvmains_class() {
    let [little, enough, too_much] = ratios(&wide(), Rule::NvMain { entries: 32 });
    assert_within(&little, 0.001, 0.001);
    assert_within(&enough, 0.001, 0.001);
    assert_within(&too_much, 0.02, 0.02);
}

/// A controller that keeps writes back until it has many answers reads sooner, until writes are too
/// many.
#[test]
fn harts_take_about_as_long_as_behind_ramulators_two_queues() {
    let [little, enough, too_much] = ratios(&wide(), Rule::Ramulator { entries: 32 });
    assert_within(&little, 0.04, 0.08);
    assert_within(&enough, 0.08, 0.2);
    assert_within(&too_much, 0.08, 0.12);
}

/// Start order, which the presets once had for FCFS, is another machine: one busy bank stops all.
#[test]
fn in_start_order_harts_take_up_to_twice_as_long() {
    let mut specification = wide();
    specification.nvm.scheduling = Scheduling::StartOrder;
    let [_, enough, too_much] = ratios(&specification, Rule::NvMain { entries: 32 });
    assert!(enough.iter().all(|ratio| ratio.0 > 1.15), "{enough:?}");
    assert!(too_much.iter().all(|ratio| ratio.0 > 1.8), "{too_much:?}");
}
