//! The unprotected baseline under the same cuts: it loses and mixes lines, and never panics.

use crate::common::geometry::{self, Geometry};
use crate::common::judge::{Image, wrong_lines};
use crate::common::rig::Rig;
use crate::common::workload::Workload;
use crate::common::{Random, seeds};
use perdure_designs::Design;
use perdure_designs::ideal::{Ideal, Parameters};
use perdure_designs::surviving::Surviving;
use perdure_hardware::line::{LINE_BYTES, Line};

/// What the memory after a cut is.
#[derive(Debug, Default)]
struct Found {
    /// The memory at the end of some epoch.
    whole: u64,
    /// Not that; and, compared with the last epoch that ended, some lines are older.
    lost: u64,
    /// Not that; and some lines are newer than others.
    mixed: u64,
}

fn cut_one_machine(geometry: &Geometry, eager: bool, seed: u64, found: &mut Found) {
    let mut random = Random(seed);
    let parameters = Parameters {
        eager_write_back: eager,
    };
    let mut rig = Rig::<Ideal>::new(geometry.specification(), &parameters, None);
    rig.keeps_all_epochs = true;
    let mut workload = Workload::new(geometry, random.next());
    let mut at = 0;
    for _ in 0..40 {
        at += random.below(4_000);
        workload.run_until(&mut rig, at).expect("nothing stops it");
        let newest = rig.model.clone();
        rig.after_cut(at, random.next(), |arena, judge| {
            let mut surviving = Surviving::new(arena);
            Ideal::recover(&mut surviving, None).expect("nothing to refuse");
            surviving.into_journal().undo(arena);
            let is = |image: &Image| wrong_lines(arena, image, &judge.protected).is_empty();
            if judge.golden.values().any(is) {
                found.whole += 1;
                return;
            }
            let (_, last) = judge.golden.last_key_value().expect("epoch 0 at least");
            let stale = last
                .iter()
                .filter(|(line, bytes)| arena.line(*line * LINE_BYTES as u64) != *bytes)
                .any(|(line, _)| newest.get(line) != Some(arena.line(*line * LINE_BYTES as u64)));
            let newer = newest.iter().any(|(line, bytes)| {
                last.get(line).unwrap_or(&Line::ZERO) != bytes
                    && arena.line(line * LINE_BYTES as u64) == bytes
            });
            found.lost += u64::from(stale);
            found.mixed += u64::from(stale && newer);
        });
    }
}

#[test]
fn an_unprotected_machine_fails_the_same_cuts() {
    for eager in [false, true] {
        let mut found = Found::default();
        let with_dram = |geometry: &&Geometry| geometry.specification().dram.present;
        for geometry in geometry::ALL
            .iter()
            .filter(|one| !(eager && with_dram(one)))
        {
            for seed in seeds(1) {
                cut_one_machine(geometry, eager, seed, &mut found);
            }
        }
        println!("eager {eager}: {found:?}");
        assert!(found.lost > 100, "{found:?}");
        assert!(found.mixed > 100, "{found:?}");
    }
}
