//! What the mapping costs, and how fast its snapshots are read: figures that the design exists for,
//! each with a bound that a mistake would break.

use std::io;
use std::time::Instant;

use crate::common::Random;
use crate::mnm_common::{Machine, Rig, machines};
use perdure_designs::nvoverlay::mnm::delta::deltas;
use perdure_designs::nvoverlay::mnm::format::{PAGE_LINES, Register, UNIT_BYTES};
use perdure_designs::nvoverlay::mnm::{MnmParameters, SNAPSHOTS};
use perdure_designs::snapshots::{Delta, SnapshotStore};
use perdure_hardware::line::{LINE_BYTES, Line};

/// The default machine's mapping, with much to do and a pool that has room for it.
fn large() -> Machine {
    let mut machine = machines().swap_remove(0);
    machine.parameters = MnmParameters {
        pool_limit_bytes: 16 << 20,
        pool_extent_bytes: 4 << 20,
        ..MnmParameters::default()
    };
    machine
}

fn line_of_bytes(random: &mut Random) -> Line {
    Line([random.next() as u8; LINE_BYTES])
}

/// §VII-C: each leaf entry of 8 bytes maps a line of 64, so that 12.5 % is the least.
#[test]
fn the_master_table_of_a_dense_working_set_is_an_eighth_of_it() {
    let mut rig = Rig::new(&large(), 1, None);
    let mut random = Random(1);
    for page in 0..1024 {
        for line in 0..PAGE_LINES as u64 {
            let at = rig.line(page, line);
            let bytes = line_of_bytes(&mut random);
            rig.insert(1, at, bytes, 0).expect("it is clean");
        }
        let next = rig.now + 20_000;
        rig.fire_until(next).expect("it is clean");
    }
    rig.complete(1);
    rig.settle().expect("it is clean");
    let statistics = rig.mnm.statistics();
    let table = statistics.master_nodes * 4096 + statistics.master_leaves * 512;
    let mapped = statistics.master_lines * LINE_BYTES as u64;
    assert_eq!(mapped, 4 << 20);
    let percent = 100.0 * table as f64 / mapped as f64;
    println!("master tables of four OMCs: {percent:.2} % of 4 MiB");
    assert!((12.5..16.0).contains(&percent));
    let written = statistics.master_bytes as f64 / mapped as f64;
    println!("written to them: {:.2} % of it", 100.0 * written);
    let index = statistics.index_bytes as f64 / mapped as f64;
    println!("index of the epoch: {:.2} % of it", 100.0 * index);
    assert!((0.03..0.06).contains(&index));
    // Full pages take exactly their size.
    let segments = 1024 * 4096 / UNIT_BYTES;
    let index_units = statistics.index_bytes.div_ceil(UNIT_BYTES) + statistics.index_blocks;
    let nodes = statistics.master_nodes * 16 + statistics.master_leaves * 2;
    assert!(statistics.units_used_peak <= segments + index_units + nodes);
}

/// Redundant versions of an epoch cost nothing while the buffer has them.
#[test]
fn the_buffer_absorbs_what_is_written_again_in_an_epoch() {
    let mut rig = Rig::new(&large(), 1, None);
    let mut random = Random(2);
    for round in 0..20 {
        for line in 0..200 {
            let at = rig.line(line / 50, line % 50);
            let bytes = line_of_bytes(&mut random);
            rig.insert(1, at, bytes, round).expect("it is clean");
        }
    }
    let statistics = rig.mnm.statistics();
    assert_eq!(statistics.versions, 4000);
    assert_eq!(statistics.buffer_hits, 3800);
    assert_eq!(statistics.data_bytes, 0, "1024 ways hold 200 lines");
}

/// §IV-B: an eviction is not on the critical path. Whoever sends a version may go on while the buffer
/// takes it; it waits only for the controller's room for the version that has to go.
#[test]
fn nobody_waits_while_the_buffer_takes_a_version() {
    let mut machine = large();
    machine.parameters.buffer_ways = 4;
    machine.parameters.omcs = 1;
    machine.banks = 1;
    machine.write_queue_entries = 1;
    let mut rig = Rig::new(&machine, 1, None);
    let mut send = |line: u64| {
        let (at, now) = (rig.line(0, line), rig.now);
        let (mnm, hardware) = (&mut rig.mnm, &mut rig.hardware);
        let evicted = mnm.insert(hardware, 1, at, &Line([1; LINE_BYTES]), 0, now);
        (evicted.accepted - now, evicted.durable - now)
    };
    for line in [0, 1, 2, 3, 0] {
        assert_eq!(send(line), (0, 8), "the buffer has room");
    }
    assert_eq!(
        send(4),
        (0, 8),
        "so has the controller for what it displaces"
    );
    let (waited, _) = send(5);
    assert!(waited > 100, "and then it has none: {waited}");
}

/// The master OMC learns from its peers, and they from it, by messages; a single OMC sends none but
/// those from the sharing groups.
#[test]
fn messages_between_omcs_take_time_before_an_epoch_is_recoverable() {
    let recoverable_at = |omcs: usize, message_cycles: u64| {
        let mut machine = large();
        machine.parameters.omcs = omcs;
        machine.parameters.message_cycles = message_cycles;
        let mut rig = Rig::new(&machine, 1, None);
        for page in 0..4 {
            let at = rig.line(page, 0);
            rig.insert(1, at, Line([1; LINE_BYTES]), 0).expect("room");
        }
        rig.complete(1);
        while rig.mnm.recoverable() < 1 {
            let next = rig.hardware.events.next_time();
            rig.fire_until(next).expect("it is clean");
        }
        rig.now
    };
    for (omcs, messages) in [(1, 1), (4, 2)] {
        let with_none = recoverable_at(omcs, 0);
        let with_some = recoverable_at(omcs, 10_000);
        assert_eq!(with_some - with_none, messages * 10_000, "{omcs} OMCs");
    }
}

#[test]
fn a_random_read_among_a_thousand_epochs_takes_microseconds() {
    let mut rig = Rig::new(&large(), 1, None);
    let mut random = Random(3);
    for epoch in 1..=1000 {
        for _ in 0..40 {
            // One line is written once, and a page around it in every epoch.
            let line = rig.line(random.below(8), 1 + random.below(60));
            let line = if epoch == 1 { rig.line(0, 0) } else { line };
            let bytes = line_of_bytes(&mut random);
            rig.insert(epoch, line, bytes, 5).expect("it is clean");
            let next = rig.now + 300;
            rig.fire_until(next).expect("it is clean");
        }
        rig.complete(epoch);
    }
    rig.settle().expect("it is clean");
    let start = Instant::now();
    rig.check_store().expect("it is clean");
    println!("all reads of all lines checked in {:?}", start.elapsed());
    let model = rig.model.clone();
    let lines: Vec<_> = (0..480).map(|at| rig.line(at / 60, at % 60)).collect();
    rig.after_cut(|arena, _| {
        let read = |address: u64, length: usize| -> io::Result<Vec<u8>> {
            Ok(arena.slice(address, length).to_vec())
        };
        let start = Instant::now();
        let store = SnapshotStore::open(&SNAPSHOTS, read).expect("it is whole");
        let opened = start.elapsed();
        assert_eq!(store.held(), 0..=1000);
        let reads = 100_000;
        let start = Instant::now();
        for _ in 0..reads {
            let line = lines[random.index(lines.len())];
            let epoch = random.below(1001);
            let found = store.read(line, epoch).expect("it is held");
            assert_eq!(found, model.at(line, epoch));
        }
        let each = start.elapsed() / reads;
        println!(
            "{} versions: opened in {opened:?}, {each:?} a read",
            store.len()
        );
        assert!(each.as_micros() < 10, "a read took {each:?}");
        let register = Register::read(arena).expect("it is whole");
        let steps = deltas(arena, &register, Some(499), 500).expect("it is held");
        let [Delta { versions, .. }] = steps.as_slice() else {
            panic!("one step from epoch 499 to 500: {steps:?}");
        };
        assert!(
            versions
                .iter()
                .all(|version| version.epoch == 500 && version.writer == 5)
        );
        assert_eq!(versions.len() as u64, store.epochs()[500].versions);
        let image = store.image(700).expect("it is held");
        assert!(
            image
                .iter()
                .all(|&(line, bytes)| bytes == model.at(line, 700))
        );
        Ok(())
    })
    .expect("it is clean");
}
