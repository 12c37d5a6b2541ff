//! Posted writes.

use super::*;

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
