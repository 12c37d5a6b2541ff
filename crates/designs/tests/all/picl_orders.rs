//! Orders of durability that random cuts hardly ever meet: each test scripts one, and cuts all
//! along it.

use crate::common::Random;
use crate::common::geometry::{DIRECT_MAPPED, Geometry};
use crate::common::rig::Rig;
use crate::common::workload::Workload;
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::picl::Picl;
use perdure_designs::picl::registers::Record;
use perdure_designs::{Design, EpochNumbers, Urgency};
use perdure_hardware::line::line_of;

/// A line of the last epoch is on its way to memory, evicted before the scan could find it. The
/// scan then has nothing to write; PersistedEID must wait for the eviction all the same, or a cut
/// that lets the register through and loses the line brings back a memory that never was.
#[test]
fn persisted_eid_waits_for_evictions_that_the_scan_did_not_make() {
    let geometry = Geometry {
        acs_gap: 0,
        ..DIRECT_MAPPED
    };
    let mut rig = Rig::<Picl>::new(geometry.specification(), &geometry.parameters(), None);
    let line = rig.frame_line(0);
    rig.store(0, line, 0, 0x1111);
    rig.load(0, line + geometry.llc.0 as u64); // The same set of every cache.
    let now = rig.now();
    rig.end_epoch_without_contexts(Urgency::Routine);
    let mut announced_at = None;
    for at in (now..now + 8_000).step_by(8) {
        while rig.hardware.events.next_time() <= at {
            rig.fire_next(false);
        }
        for tear in 0..40 {
            if let Err(accusation) = rig.cut(at, at ^ tear << 32) {
                panic!("cut at {at}, tear {tear}: {accusation}");
            }
        }
        if rig.design.announced_epoch() == 1 {
            announced_at.get_or_insert(at);
        }
    }
    assert!(announced_at.is_some(), "the epoch is persisted in the end");
}

/// Two evictions force both undo buffers out, one entry each. The next store needs room in the first
/// one, and waits until its block is durable, and no longer.
#[test]
fn a_store_waits_for_a_buffer_whose_block_is_on_its_way_whatever_sent_it() {
    let geometry = DIRECT_MAPPED;
    let mut rig = Rig::<Picl>::new(geometry.specification(), &geometry.parameters(), None);
    let log = rig.layout.log_area.start;
    let durable = |rig: &Rig<Picl>, slot: u64| {
        let block = log + slot * geometry.undo_buffer_bytes as u64;
        rig.hardware.memory.durable_at(line_of(block), 0)
    };
    for index in 0..3 {
        rig.load(0, rig.frame_line(index));
    }
    for index in 0..2 {
        let line = rig.frame_line(index);
        rig.store(0, line, 0, 0x1111);
        rig.load(0, line + geometry.llc.0 as u64); // The same set of every cache.
        let counters = rig.design.counters();
        assert_eq!(counters.undo_flushes_forced, index + 1);
        assert_eq!(counters.undo_buffer_wait_cycles, 0, "one was free");
    }
    let (first, second) = (durable(&rig, 0), durable(&rig, 1));
    assert!(rig.now() < first && first < second, "both are on their way");
    let line = rig.frame_line(2);
    let asked = rig.now();
    rig.store(0, line, 0, 0x2222);
    let waited = rig.design.counters().undo_buffer_wait_cycles;
    assert!(asked < first, "{asked} {first}");
    assert!(
        (first - asked).abs_diff(waited) < 50,
        "{waited} from {asked} to {first}"
    );
    // And what waits there keeps its own order: all cuts up to the end.
    rig.load(0, line + geometry.llc.0 as u64);
    for at in asked..second + 3_000 {
        if let Err(accusation) = rig.cut(at, at) {
            panic!("cut at {at}: {accusation}");
        }
    }
}

/// Harts that evict what they have just logged, in an epoch that never ends: no record says anything
/// about thousands of blocks, and recovery follows their chain to its end and takes all of them back.
#[test]
fn an_epoch_of_thousands_of_blocks_that_no_record_knows_is_taken_back() {
    let geometry = Geometry {
        harts: 8,
        llc: (8, 1),
        undo_buffer_bytes: 128,
        log_extent_bytes: 1 << 20,
        lines: 4096,
        hot_lines: 4096,
        epoch_stores: u64::MAX,
        pause_cycles: 0,
        ..DIRECT_MAPPED
    };
    let mut rig = Rig::<Picl>::new(geometry.specification(), &geometry.parameters(), None);
    let mut workload = Workload::new(&geometry, 1);
    for at in (500_000..=6_000_000).step_by(500_000) {
        workload.run_until(&mut rig, at).unwrap();
        rig.cut(at, at).unwrap();
    }
    assert!(rig.design.counters().undo_flushes > 5_000);
    assert!(
        rig.design.counters().register_records <= 1,
        "the first epoch is short"
    );
}

/// The cut tears a register record so that all but its number arrives. Recovery goes by the other
/// copy, and the power fails again while it writes registers: whatever of its own record arrives
/// must never complete the torn one, whose epoch is no longer in memory.
#[test]
fn recovery_never_completes_a_torn_record() {
    let geometry = Geometry {
        acs_gap: 0,
        ..DIRECT_MAPPED
    };
    let mut rig = Rig::<Picl>::new(geometry.specification(), &geometry.parameters(), None);
    let line = rig.frame_line(0);
    rig.store(0, line, 0, 0x1111);
    rig.end_epoch(Urgency::Routine);
    let whole = |rig: &Rig<Picl>, copy: u64| {
        let bytes = rig.hardware.memory.arena.slice(copy, Record::BYTES);
        Record::decode(&bytes, false).expect("it is whole")
    };
    // Until copy 0 says epoch 1, and copy 1 still epoch 0.
    while whole(&rig, COPIES[0]).persisted == 0 {
        rig.fire_next(true);
    }
    let durable = rig.hardware.memory.quiet_at();
    let newer = whole(&rig, COPIES[0]);
    let older = whole(&rig, COPIES[1]);
    assert_eq!((newer.persisted, older.persisted), (1, 0));
    rig.after_cut(durable, 0, |arena, judge| {
        let number_at = COPIES[0] + 8;
        arena.write(number_at, &older.number.to_le_bytes());
        let kept = judge.recover::<Picl>(arena).expect("copy 1 is whole");
        assert_eq!(kept.epoch, 0);
        let mut random = Random(1);
        for _ in 0..400 {
            for step in 0..kept.steps {
                if let Err(accusation) = judge.converges::<Picl>(arena, kept, step, &mut random) {
                    panic!("step {step} of {}: {accusation}", kept.steps);
                }
            }
        }
        arena.write(number_at, &newer.number.to_le_bytes());
    });
}
