//! The controller's scheduling against a small model of its own: one queue, banks, and a clock that
//! ticks. It is written after what the text of `NVMain`'s "simple close page" FCFS controller says: each
//! cycle, every idle bank starts the oldest request in the queue that is for it; what is done leaves the
//! queue. It knows nothing of the controller's calendars, and the controller nothing of ticks.

use crate::support::{Random, seeds, table_iv};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::memory::{Memory, Traffic};
use perdure_hardware::placement::bank_of_row;
use perdure_hardware::specification::{Interleaving, Scheduling, Specification};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

const ROW_BYTES: u64 = 2048;
const ROW_READ: Cycles = 256;
const ROW_WRITE: Cycles = 736;

/// A machine whose link is so wide that a line takes one cycle.
fn wide(scheduling: Scheduling) -> Specification {
    let mut specification = table_iv(1);
    specification.link.width_bits = 4096;
    specification.link.frequency_mhz = 1_000_000;
    specification.nvm.scheduling = scheduling;
    specification.nvm.banks = 8;
    specification
}

/// A request: when it comes, which row, and whether it writes.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: Cycles,
    row: u64,
    writes: bool,
}

fn requests(random: &mut Random, count: usize, pause: usize, kinds: [bool; 2]) -> Vec<Request> {
    let mut at = 0;
    let request = |_| {
        at += 1 + random.below(pause) as u64;
        Request {
            at,
            row: random.below(4096) as u64,
            writes: kinds[random.below(2)],
        }
    };
    (0..count).map(request).collect()
}

/// What the controller makes of them: when each is done at its bank. A sender waits for the queue.
fn by_controller(specification: &Specification, requests: &[Request]) -> Vec<Cycles> {
    let arena = Arena::new(specification.nvm.bytes).expect("address space");
    let mut memory = Memory::new(specification, arena, 0..0);
    let mut statistics = Statistics::default();
    let mut sent = 0;
    let mut one = |request: &Request| {
        let line = request.row * ROW_BYTES / LINE_BYTES as u64;
        sent = request.at.max(sent);
        if request.writes {
            let (bytes, traffic) = (Line([1; LINE_BYTES]), Traffic::WriteBack);
            let done = memory.write_line(line, &bytes, traffic, sent, 0, &mut statistics);
            sent = done.accepted;
            done.durable
        } else {
            memory.read(line, sent, &mut statistics)
        }
    };
    requests.iter().map(&mut one).collect()
}

/// What the ticking model makes of them. Its queue has no bound: the tests keep within the
/// controller's, or give that so many entries that it is never full.
fn by_ticks(requests: &[Request], banks: usize) -> Vec<Cycles> {
    let mut done = vec![0; requests.len()];
    let mut queue: Vec<usize> = Vec::new();
    let mut busy_until = vec![0; banks];
    let (mut now, mut next) = (0, 0);
    while next < requests.len() || !queue.is_empty() {
        while next < requests.len() && arrives(&requests[next]) <= now {
            queue.push(next);
            next += 1;
        }
        for (bank, busy_until) in busy_until.iter_mut().enumerate() {
            let mut oldest_first = queue.iter();
            let oldest =
                oldest_first.position(|&index| bank_of_row(requests[index].row, banks) == bank);
            if let Some(place) = oldest.filter(|_| *busy_until <= now) {
                let index = queue.remove(place);
                let writes = requests[index].writes;
                *busy_until = now + if writes { ROW_WRITE } else { ROW_READ };
                // A read's bytes cross the link when they are there.
                done[index] = *busy_until + u64::from(!writes);
            }
        }
        now += 1;
    }
    done
}

/// A write crosses the link first.
fn arrives(request: &Request) -> Cycles {
    request.at + u64::from(request.writes)
}

#[test]
fn writes_alone_and_reads_alone_are_timed_as_the_ticking_model_times_them() {
    for seed in seeds(9) {
        for writes in [false, true] {
            let mut random = Random(seed);
            let pause = [60, 200, 900][random.below(3)];
            let requests = requests(&mut random, 400, pause, [writes; 2]);
            let mut specification = wide(Scheduling::Fcfs);
            specification.nvm.read_queue_entries = 4096;
            specification.nvm.write_queue_entries = 4096;
            assert_near(
                &by_controller(&specification, &requests),
                &by_ticks(&requests, specification.nvm.banks),
                LINK_SLACK,
                seed,
            );
        }
    }
}

/// Transfers that share a slot of the link's calendar may be dealt its cycles in another order.
const LINK_SLACK: Cycles = 8;

fn assert_near(ours: &[Cycles], theirs: &[Cycles], slack: Cycles, seed: u64) {
    for (index, (&ours, &theirs)) in ours.iter().zip(theirs).enumerate() {
        assert!(
            ours.abs_diff(theirs) <= slack,
            "seed {seed}, request {index}: {ours} and not {theirs}"
        );
    }
}

/// Where reads and writes come close together, the one that is not yet across the link may be
/// passed; all in all that is nothing.
#[test]
fn a_mix_takes_as_long_as_in_the_ticking_model() {
    for seed in seeds(9) {
        let mut random = Random(seed);
        let requests = requests(&mut random, 1000, 150, [false, true]);
        let mut specification = wide(Scheduling::Fcfs);
        specification.nvm.read_queue_entries = 4096;
        specification.nvm.write_queue_entries = 4096;
        let ours = by_controller(&specification, &requests);
        let theirs = by_ticks(&requests, specification.nvm.banks);
        let latency = |done: &[Cycles]| -> Cycles {
            (done.iter().zip(&requests))
                .map(|(done, request)| done - request.at)
                .sum()
        };
        let (ours, theirs) = (latency(&ours), latency(&theirs));
        assert!(
            ours.abs_diff(theirs) * 200 <= theirs,
            "seed {seed}: {ours} and not {theirs}"
        );
    }
}

/// Under start order one busy bank holds up everybody: that is what the other order is without.
#[test]
fn a_busy_bank_holds_up_others_in_start_order_only() {
    let rows: Vec<u64> = (0..64)
        .filter(|&row| bank_of_row(row, 8) == 0)
        .take(4)
        .collect();
    let elsewhere = (0..64)
        .find(|&row| bank_of_row(row, 8) == 1)
        .expect("a row");
    let request = |row, writes| Request { at: 0, row, writes };
    let mut requests: Vec<Request> = rows.iter().map(|&row| request(row, true)).collect();
    requests.push(request(elsewhere, false));
    let last = |scheduling| {
        *by_controller(&wide(scheduling), &requests)
            .last()
            .expect("one")
    };
    assert_eq!(
        last(Scheduling::StartOrder),
        1 + 3 * ROW_WRITE + ROW_READ + 1
    );
    assert_eq!(last(Scheduling::Fcfs), ROW_READ + 1);
}

/// *n* requests of one bank take *n* row operations, spread over *b* banks the *b*th part: closed forms
/// of streams, by rows and by lines.
#[test]
fn streams_and_bank_conflicts_take_what_arithmetic_says() {
    let times = |interleaving, lines: &dyn Fn(u64) -> u64| {
        let mut specification = wide(Scheduling::Fcfs);
        specification.nvm.home_interleaving = interleaving;
        specification.nvm.write_queue_entries = 4096;
        let arena = Arena::new(specification.nvm.bytes).expect("address space");
        let mut memory = Memory::new(&specification, arena, 0..0);
        memory.interleave_home(0..specification.nvm.bytes);
        let (bytes, traffic) = (Line([1; LINE_BYTES]), Traffic::WriteBack);
        let mut statistics = Statistics::default();
        for index in 0..256 {
            memory.write_line(lines(index), &bytes, traffic, 0, 0, &mut statistics);
        }
        memory.quiet_at()
    };
    // The link gives each of the banks its first write within eight cycles, then keeps up.
    let rounds = |rounds: u64| rounds * ROW_WRITE..=rounds * ROW_WRITE + 8;
    let stream = |index| index;
    assert!(rounds(256 / 8).contains(&times(Interleaving::Line, &stream)));
    // 256 lines are eight rows, one in each bank: all banks work, but only once the link has got
    // through the rows before, which costs nothing on so wide a link.
    assert!(rounds(256 / 8).contains(&(times(Interleaving::Row, &stream) - 224)));
    let rows: Vec<u64> = (0..4096).filter(|&row| bank_of_row(row, 8) == 3).collect();
    let conflict = |index: u64| rows[index as usize] * ROW_BYTES / LINE_BYTES as u64;
    assert!(rounds(256).contains(&times(Interleaving::Row, &conflict)));
}
