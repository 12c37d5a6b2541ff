//! A damaged image: random bytes flipped in boot records, commit records and table blocks after a
//! power cut. Recovery reports corruption, or brings back exactly an epoch that the promise allows.
//! It never panics, and memory is never wrong.
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
use perdure_designs::surviving::{Interrupted, Surviving};
use perdure_designs::thynvm::format::{COPIES, RECORD_BYTES, Record, Regions};
use perdure_designs::thynvm::{Parameters, Thynvm};
use perdure_hardware::arena::Arena;

const SEEDS: u64 = 3;
const CUTS: u64 = 60;
const TRIALS: u64 = 12;
const BOOT_COPIES: [u64; 2] = [0, 4096];
const BOOT_BYTES: u64 = 128;

/// Machines whose epochs list many and few units.
const MACHINES: &[(Geometry, usize, usize)] = &[
    (geometry::TINY, 16, 4),
    (geometry::MANY_HARTS, 64, 4),
    (geometry::RESIDENT, 32, 4),
    (geometry::HOT, 4, 4),
    (geometry::PARALLEL_MEDIA, 256, 16),
    (SHORT_ROWS, 64, 16),
];

/// Tables of many blocks.
const SHORT_ROWS: Geometry = Geometry {
    name: "short rows",
    row_bytes: 256,
    lines: 600,
    hot_lines: 300,
    epoch_stores: 200,
    ..geometry::TINY
};

#[derive(Debug, Default)]
struct Outcomes {
    reported: u64,
    recovered: u64,
    /// Of these, to another epoch than without the damage.
    recovered_otherwise: u64,
}

/// Everything that recovery could read: records, and the tables of the last two checkpoints.
fn targets(arena: &mut Arena) -> Vec<Range<u64>> {
    let mut places: Vec<Range<u64>> = BOOT_COPIES
        .map(|at| at..at + BOOT_BYTES)
        .into_iter()
        .chain(COPIES.map(|at| at..at + RECORD_BYTES as u64))
        .collect();
    let image = Surviving::new(arena);
    let boot = BootRecord::read(&image).expect("it is whole");
    let regions = Regions::of(&boot).expect("it is this design's");
    for copy in COPIES {
        let bytes = image.read(copy, RECORD_BYTES).expect("it is there");
        let Some(record) = Record::decode(bytes, false) else {
            continue;
        };
        let listed = record.listed.iter().sum::<u64>() as usize;
        for index in 0..listed.div_ceil(regions.shape.listed_per_block()) {
            let at = regions.table_block(record.number, index);
            places.push(at..at + regions.shape.table_block_bytes);
        }
    }
    places
}

/// Damages the image; returns what was there, newest last.
fn damage(arena: &mut Arena, targets: &[Range<u64>], random: &mut Random) -> Vec<(u64, Vec<u8>)> {
    let mut before = Vec::new();
    let mut overwrite = |arena: &mut Arena, at: u64, bytes: &[u8]| {
        before.push((at, arena.slice(at, bytes.len()).to_vec()));
        arena.write(at, bytes);
    };
    let one = targets[random.index(targets.len())].clone();
    match random.below(8) {
        // A record or block of zeros, or of another one's bytes (a misdirected write).
        0 => {
            let zeros = vec![0; (one.end - one.start) as usize];
            overwrite(arena, one.start, &zeros);
        }
        1 => {
            let other = targets[random.index(targets.len())].clone();
            let length = (one.end - one.start).min(other.end - other.start);
            let bytes = arena.slice(other.start, length as usize).to_vec();
            overwrite(arena, one.start, &bytes);
        }
        kind => {
            for _ in 0..=random.below(64) {
                let place = if kind < 5 {
                    one.clone()
                } else {
                    targets[random.index(targets.len())].clone()
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
    targets: &[Range<u64>],
    undamaged: u64,
    random: &mut Random,
    outcomes: &mut Outcomes,
) -> Result<(), Accusation> {
    let before = damage(arena, targets, random);
    let result = judge.recover::<Thynvm>(arena);
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
    geometry: &Geometry,
    parameters: &Parameters,
    seed: u64,
    outcomes: &mut Outcomes,
) -> Result<(), Accusation> {
    let mut random = Random(seed ^ 0xdada);
    let mut rig = Rig::<Thynvm>::new(geometry.specification(), parameters, None);
    let mut workload = Workload::new(geometry, random.next());
    let mut at = 0;
    for _ in 0..CUTS {
        at += random.below(4_000);
        workload.run_until(&mut rig, at)?;
        rig.after_cut(at, random.next(), |arena, judge| {
            let undamaged = judge.recover::<Thynvm>(arena)?.epoch;
            let targets = targets(arena);
            for _ in 0..TRIALS {
                trial(arena, judge, &targets, undamaged, &mut random, outcomes)?;
            }
            // Nothing of the trials stays behind.
            assert_eq!(judge.recover::<Thynvm>(arena)?.epoch, undamaged);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn damage_is_reported_or_harmless() {
    let seeds = seeds(SEEDS);
    let mut outcomes = Outcomes::default();
    for (geometry, block_entries, page_entries) in MACHINES {
        let parameters = Parameters {
            block_entries: *block_entries,
            page_entries: *page_entries,
            table_ways: 4,
            promote_writes: 6,
            demote_writes: 2,
        };
        for &seed in &seeds {
            let result = damage_one_machine(geometry, &parameters, seed, &mut outcomes);
            if let Err(accusation) = result {
                panic!(
                    "machine '{}', PERDURE_SEED={seed}: {accusation}",
                    geometry.name
                );
            }
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes.reported > 0 && outcomes.recovered > 0);
    assert!(
        outcomes.recovered_otherwise > 0,
        "losing an unfinished commit record brings the epoch before it back"
    );
}

type Change = fn(&mut Parameters);

#[test]
fn impossible_parameters_are_named() {
    let start = |change: &dyn Fn(&mut Parameters), row_bytes: usize| {
        let geometry = Geometry {
            row_bytes,
            ..geometry::TINY
        };
        let mut parameters = Parameters {
            block_entries: 16,
            page_entries: 16,
            table_ways: 4,
            ..Parameters::default()
        };
        change(&mut parameters);
        let specification = geometry.specification();
        let layout = perdure_designs::layout::Layout::new(1, specification.nvm.bytes);
        let arena = Arena::new(specification.nvm.bytes).expect("memory for the arena");
        let mut hardware = perdure_hardware::hierarchy::Hardware::new(
            specification,
            arena,
            layout.contexts.clone(),
        );
        <Thynvm as perdure_designs::Design>::start(&parameters, &layout, &mut hardware, 0, None)
            .map(|_| ())
            .map_err(|impossible| impossible.to_string())
    };
    assert_eq!(start(&|_| {}, 2048), Ok(()));
    let wrong: [(Change, usize, [&str; 2]); 6] = [
        (
            |p| p.table_ways = 0,
            2048,
            ["thynvm.table_ways = 0", "1 to 64"],
        ),
        (
            |p| p.block_entries = 18,
            2048,
            ["thynvm.block_entries = 18", "table_ways = 4"],
        ),
        (
            |p| p.page_entries = 0,
            2048,
            ["thynvm.page_entries = 0", "at most 1048576"],
        ),
        (
            |p| p.promote_writes = 16,
            2048,
            ["thynvm.promote_writes = 16", "demote_writes = 16"],
        ),
        (
            |p| p.page_entries = 4096,
            2048,
            ["thynvm.page_entries = 4096", "a quarter of nvm.bytes"],
        ),
        (|_| {}, 128, ["nvm.row_bytes = 128", "at least 256"]),
    ];
    for (change, row_bytes, parts) in wrong {
        let message = start(&change, row_bytes).expect_err("it is impossible");
        for part in parts {
            assert!(message.contains(part), "'{part}' is missing: {message}");
        }
    }
}
