//! What designs read and copy for themselves.

use super::*;

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
