//! A damaged image: random bytes flipped in boot records, registers and the commit's table after a
//! power cut. Recovery reports corruption, or brings back exactly an epoch that the promise allows.
//! It never panics, and memory is never wrong.
//!
//! Shadow pages and lines kept aside are data like those at home, and carry no checksum either.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use std::ops::Range;

use common::geometry::{self, Geometry};
use common::judge::{Accusation, Judge};
use common::rig::Rig;
use common::workload::Workload;
use common::{Random, seeds};
use perdure_designs::layout::BootRecord;
use perdure_designs::shadow_paging::places::Places;
use perdure_designs::shadow_paging::records::{COPIES, RECORD_BYTES, Record, table_blocks};
use perdure_designs::shadow_paging::{Parameters, ShadowPaging};
use perdure_designs::surviving::{Interrupted, Surviving};
use perdure_hardware::arena::Arena;

const SEEDS: u64 = 3;
const CUTS: u64 = 80;
const TRIALS: u64 = 12;
const BOOT_COPIES: [u64; 2] = [0, 4096];
const BOOT_BYTES: u64 = 128;

const SCATTERED: Geometry = Geometry {
    name: "scattered",
    harts: 2,
    lines: 1500,
    hot_lines: 600,
    epoch_stores: 80,
    pause_cycles: 4,
    ..geometry::TINY
};

/// The machines, each with entries and ways of the table. Small rows make tables of many blocks.
const MACHINES: &[(Geometry, u64, u64)] = &[
    (SCATTERED, 16, 4),
    (geometry::TINY, 1, 1),
    (geometry::HOT, 2, 2),
    (
        Geometry {
            name: "small rows",
            row_bytes: 128,
            banks: 5,
            ..SCATTERED
        },
        24,
        4,
    ),
];

#[derive(Debug, Default)]
struct Outcomes {
    reported: u64,
    recovered: u64,
    /// Of these, to another epoch than without the damage.
    recovered_otherwise: u64,
    /// Cuts after which a commit had to be finished.
    tables: u64,
}

/// What a trial may damage: everything that recovery reads, data apart.
struct Targets {
    records: Vec<Range<u64>>,
    blocks: Vec<Range<u64>>,
}

impl Targets {
    fn of(arena: &mut Arena) -> Self {
        let records = BOOT_COPIES
            .map(|at| at..at + BOOT_BYTES)
            .into_iter()
            .chain(COPIES.map(|at| at..at + RECORD_BYTES as u64))
            .collect();
        let image = Surviving::new(arena);
        let boot = BootRecord::read(&image).expect("a mere power cut damages no boot record");
        let [pages, row_bytes, banks, _] = boot.design;
        let places = Places::new(&boot.layout.log_area, [pages, row_bytes, banks])
            .expect("the design wrote it");
        let record = Record::read(&image, None).expect("a mere power cut leaves a record");
        let blocks = table_blocks(record.pages + record.lines, row_bytes);
        Self {
            records,
            blocks: (0..blocks)
                .map(|index| places.table_block(index))
                .map(|at| at..at + row_bytes)
                .collect(),
        }
    }

    fn choose(&self, random: &mut Random) -> Range<u64> {
        let places = if self.blocks.is_empty() || random.once_in(2) {
            &self.records
        } else {
            &self.blocks
        };
        places[random.index(places.len())].clone()
    }
}

/// Damages the image; returns what was there, newest last.
fn damage(arena: &mut Arena, targets: &Targets, random: &mut Random) -> Vec<(u64, Vec<u8>)> {
    let mut before = Vec::new();
    let mut overwrite = |arena: &mut Arena, at: u64, bytes: &[u8]| {
        before.push((at, arena.slice(at, bytes.len()).to_vec()));
        arena.write(at, bytes);
    };
    match random.below(8) {
        // A block or record of zeros, or of another one's bytes (a misdirected write).
        0 => {
            let place = targets.choose(random);
            let zeros = vec![0; (place.end - place.start) as usize];
            overwrite(arena, place.start, &zeros);
        }
        1 if targets.blocks.len() > 1 => {
            let from = &targets.blocks[random.index(targets.blocks.len())];
            let to = &targets.blocks[random.index(targets.blocks.len())];
            let length = (from.end - from.start) as usize;
            let bytes = arena.slice(from.start, length).to_vec();
            overwrite(arena, to.start, &bytes);
        }
        kind => {
            let one_place = targets.choose(random);
            for _ in 0..=random.below(64) {
                let place = if kind < 5 {
                    one_place.clone()
                } else {
                    targets.choose(random)
                };
                let at = place.start + random.below(place.end - place.start);
                let byte = arena.slice(at, 1)[0] ^ (1 + random.below(255) as u8);
                overwrite(arena, at, &[byte]);
            }
        }
    }
    before
}

fn trial(
    arena: &mut Arena,
    judge: &Judge,
    targets: &Targets,
    undamaged: u64,
    random: &mut Random,
    outcomes: &mut Outcomes,
) -> Result<(), Accusation> {
    let before = damage(arena, targets, random);
    let result = judge.recover::<ShadowPaging>(arena);
    for (at, bytes) in before.into_iter().rev() {
        arena.write(at, &bytes);
    }
    match result {
        Ok(kept) => {
            outcomes.recovered += 1;
            outcomes.recovered_otherwise += u64::from(kept.epoch != undamaged);
            Ok(())
        }
        Err(Accusation::Refused(Interrupted::Corrupt(corruption))) => {
            assert!(!corruption.what.is_empty());
            outcomes.reported += 1;
            Ok(())
        }
        Err(accusation) => Err(accusation),
    }
}

fn damage_one_machine(
    (geometry, table_entries, table_ways): &(Geometry, u64, u64),
    seed: u64,
    outcomes: &mut Outcomes,
) -> Result<(), Accusation> {
    let mut random = Random(seed ^ 0xdada);
    let parameters = Parameters {
        table_entries: *table_entries,
        table_ways: *table_ways,
    };
    let mut rig = Rig::<ShadowPaging>::new(geometry.specification(), &parameters, None);
    let mut workload = Workload::new(geometry, random.next());
    let mut at = 0;
    for _ in 0..CUTS {
        at += random.below(6_000);
        workload.run_until(&mut rig, at)?;
        rig.after_cut(at, random.next(), |arena, judge| {
            let undamaged = judge.recover::<ShadowPaging>(arena)?.epoch;
            let targets = Targets::of(arena);
            outcomes.tables += u64::from(!targets.blocks.is_empty());
            for _ in 0..TRIALS {
                trial(arena, judge, &targets, undamaged, &mut random, outcomes)?;
            }
            // Nothing of the trials stays behind.
            assert_eq!(judge.recover::<ShadowPaging>(arena)?.epoch, undamaged);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn damage_is_reported_or_harmless() {
    let seeds = seeds(SEEDS);
    let mut outcomes = Outcomes::default();
    for machine in MACHINES {
        for &seed in &seeds {
            if let Err(accusation) = damage_one_machine(machine, seed, &mut outcomes) {
                panic!(
                    "machine '{}', PERDURE_SEED={seed}: {accusation}",
                    machine.0.name
                );
            }
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes.reported > 0 && outcomes.recovered > 0);
    assert!(outcomes.tables > 0, "no cut left a commit to be finished");
    assert!(
        outcomes.recovered_otherwise > 0,
        "losing an unfinished register record brings the epoch before it back"
    );
}
