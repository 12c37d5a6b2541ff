//! A log that is too small for what must be kept: the design stops with a message that names the
//! parameter, and what had been promised before is still kept.

use crate::common::geometry::{Geometry, TINY};
use crate::common::judge::Accusation;
use crate::common::rig::Rig;
use crate::common::workload::Workload;
use perdure_designs::Design;
use perdure_designs::picl::Picl;

const SMALL_LOG: Geometry = Geometry {
    log_extent_bytes: 16 << 10,
    log_limit_bytes: 32 << 10,
    ..TINY
};

#[test]
fn a_log_too_small_for_one_epoch_is_named() {
    let geometry = Geometry {
        epoch_stores: u64::MAX,
        log_extent_bytes: 16 << 10,
        log_limit_bytes: 16 << 10,
        ..SMALL_LOG
    };
    let mut rig = Rig::<Picl>::new(geometry.specification(), &geometry.parameters(), None);
    let mut workload = Workload::new(&geometry, 1);
    let failure = (0..10_000).find_map(|step| {
        let at = step * 1_000;
        rig.cut(at, step).expect("the promise is kept until then");
        workload.run_until(&mut rig, at).err()
    });
    let Some(Accusation::Failed(message)) = failure else {
        panic!("a log of 16 KiB cannot hold an endless epoch: {failure:?}");
    };
    for part in [
        "undo log is full",
        "16384 bytes",
        "picl.log_limit_bytes = 16384",
        "raise",
    ] {
        assert!(message.contains(part), "'{part}' is missing: {message}");
    }
    assert_eq!(rig.design.counters().log_extents, 1);

    // Whoever ignores the message gets it again, and no panic.
    let later = rig.now() + 200_000;
    assert!(workload.run_until(&mut rig, later).is_err());
}

#[test]
fn short_epochs_live_in_the_same_log_for_ever() {
    let geometry = Geometry {
        acs_gap: 0,
        undo_buffer_bytes: 256,
        epoch_stores: 20,
        ..SMALL_LOG
    };
    let mut rig = Rig::<Picl>::new(geometry.specification(), &geometry.parameters(), None);
    let mut workload = Workload::new(&geometry, 1);
    for at in (100_000..=10_000_000).step_by(100_000) {
        workload.run_until(&mut rig, at).expect("room enough");
        rig.cut(at, at).expect("the promise is kept");
    }
    let statistics = rig.hardware.statistics();
    assert!(statistics.nvm_written_bytes_log > 20 * geometry.log_limit_bytes);
    assert!(rig.design.counters().log_bytes_live_peak <= geometry.log_limit_bytes);
}
