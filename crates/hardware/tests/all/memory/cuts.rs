//! Power cuts: each write is there, absent or torn by words, as its own times say.

use super::*;

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

/// A controller of few banks over an area that is random, or empty.
fn controller(random: &mut Random, keep_digest: bool) -> (Bench, Vec<u8>) {
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
    (bench, initial)
}

/// Random lines, blocks and reads over a few rows of few banks, so that writes overlap.
fn traffic(random: &mut Random, keep_digest: bool) -> Traced {
    let (mut bench, initial) = controller(random, keep_digest);
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
