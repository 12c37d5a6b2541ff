//! A damaged image: random bytes changed in boot records, registers and log after a power cut.
//! Recovery reports corruption, or brings back exactly an epoch that the promise allows. It never
//! panics, and memory is never wrong.
//!
//! One thing is beyond it: the log's end behind the last register record. Damage there to the newest
//! durable block, or to several blocks in a row, looks as if the cut had torn them, because no later
//! block says otherwise. It may bring wrong memory back, and only panics are looked for. Damage to one
//! block there is reported as soon as two have followed it.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::damage::{self, Effort};
use crate::common::geometry::{self, DIRECT_MAPPED, Geometry};
use crate::common::judge::Accusation;
use crate::common::picl_log;
use crate::common::rig::Rig;
use crate::common::workload::Workload;
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::picl::Picl;
use perdure_designs::picl::log::{Block, slot_address};
use perdure_designs::picl::registers::Record;
use perdure_designs::surviving::Interrupted;
use perdure_hardware::arena::Arena;

const EFFORT: Effort = Effort {
    cuts: 60,
    apart: 4_000,
};

#[test]
fn damage_is_reported_or_harmless() {
    let mut machines = geometry::all_with(Geometry::parameters);
    machines.extend(geometry::SHORT_ROWS.map(|one| (one, one.parameters())));
    let found =
        damage::is_reported_or_harmless::<Picl>(&machines, EFFORT, |arena, layout, geometry| {
            picl_log::groups(arena, layout, geometry)
        });
    assert!(
        damage::total(&found, |one| one.recovered_otherwise) > 0,
        "losing an unfinished register record brings the epoch before it back"
    );
}

/// No record knows these blocks: the epoch never ends.
#[test]
fn damage_to_a_block_is_reported_once_two_have_followed_it() {
    let geometry = Geometry {
        epoch_stores: u64::MAX,
        ..DIRECT_MAPPED
    };
    let block_bytes = geometry.undo_buffer_bytes;
    let mut rig = Rig::<Picl>::new(geometry.specification(), &geometry.parameters(), None);
    let mut workload = Workload::new(&geometry, 1);
    let log_area = rig.layout.log_area.clone();
    let whole = |arena: &Arena, slot: u32| {
        let address = slot_address(&log_area, slot, block_bytes as u64);
        let block = Block::decode(arena.slice(address, block_bytes), false);
        block.is_some_and(|block| block.header.sequence == u64::from(slot))
    };
    let (mut reported, mut passed) = (0, 0);
    for at in (20_000..=80_000).step_by(1_000) {
        workload.run_until(&mut rig, at).expect("room enough");
        rig.after_cut(at, at, |arena, judge| {
            // Nothing is ever reclaimed: slots are sequence numbers.
            let blocks = (0..).take_while(|&slot| whole(arena, slot));
            let blocks = blocks.count() as u32;
            let record = Record::decode(&arena.slice(COPIES[1], Record::BYTES), false);
            let oldest_needed = record.expect("none is on its way").oldest_needed as u32;
            for slot in oldest_needed..blocks {
                let damaged = slot_address(&log_area, slot, block_bytes as u64) + 40;
                let byte = arena.slice(damaged, 1)[0];
                arena.write(damaged, &[!byte]);
                let result = judge.recover::<Picl>(arena);
                let is_reported =
                    matches!(result, Err(Accusation::Refused(Interrupted::Corrupt(_))));
                assert!(
                    is_reported || slot + 2 >= blocks,
                    "block {slot} of {blocks}"
                );
                reported += u64::from(is_reported);
                passed += u64::from(!is_reported);
                arena.write(damaged, &[byte]);
            }
        });
    }
    assert!(reported > 1_000 && passed > 0, "{reported}, {passed}");
}
