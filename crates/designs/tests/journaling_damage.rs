//! A damaged image: random bytes flipped in boot records, registers, blocks and redo slots after a
//! power cut. Recovery reports corruption, or brings back exactly an epoch that the promise allows.
//! It never panics, and memory is never wrong.
//!
//! A failure prints geometry and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use std::ops::Range;

use common::geometry::{self, Geometry};
use common::judge::{Accusation, Judge};
use common::rig::Rig;
use common::workload::Workload;
use common::{Random, seeds};
use perdure_designs::journaling::journal::Map;
use perdure_designs::journaling::registers::{COPIES, RECORD_BYTES, Record};
use perdure_designs::journaling::{Journaling, Parameters};
use perdure_designs::surviving::Interrupted;
use perdure_hardware::arena::Arena;
use perdure_hardware::line::LINE_BYTES;

const SEEDS: u64 = 4;
const CUTS: u64 = 100;
const TRIALS: u64 = 12;
const BOOT_COPIES: [u64; 2] = [0, 4096];
const BOOT_BYTES: u64 = 128;
const PARAMETERS: Parameters = Parameters {
    table_entries: 48,
    table_ways: 8,
};

#[derive(Debug, Default)]
struct Outcomes {
    reported: u64,
    /// Of these, with damage to blocks and redo slots alone.
    reported_journal: u64,
    recovered: u64,
    /// Of these, to another epoch than without the damage.
    recovered_otherwise: u64,
}

/// What a trial may damage.
struct Targets {
    records: Vec<Range<u64>>,
    journal: Vec<Range<u64>>,
}

impl Targets {
    /// Everything that recovery could ever read: the first blocks and redo slots too, committed or
    /// not.
    fn of(arena: &Arena, map: &Map) -> Self {
        let copies = COPIES.map(|at| at..at + RECORD_BYTES as u64);
        let committed = copies.iter().filter_map(|copy| {
            let bytes = arena.slice(copy.start, RECORD_BYTES);
            Record::decode(bytes, false).map(|record| record.blocks)
        });
        let blocks = committed.max().unwrap_or(0).clamp(4, map.block_capacity());
        let block_bytes = map.block_bytes() as u64;
        let blocks = (0..blocks).map(|index| map.block_address(index));
        let slots = (0..24).map(|slot| map.slot_line(slot) * LINE_BYTES as u64);
        Self {
            records: BOOT_COPIES
                .map(|at| at..at + BOOT_BYTES)
                .into_iter()
                .chain(copies)
                .collect(),
            journal: blocks
                .map(|at| at..at + block_bytes)
                .chain(slots.map(|at| at..at + LINE_BYTES as u64))
                .collect(),
        }
    }
}

/// Damages the image at some of these places; returns what was there, newest last.
fn damage(arena: &mut Arena, places: &[Range<u64>], random: &mut Random) -> Vec<(u64, Vec<u8>)> {
    let mut before = Vec::new();
    let mut overwrite = |arena: &mut Arena, at: u64, bytes: &[u8]| {
        before.push((at, arena.slice(at, bytes.len()).to_vec()));
        arena.write(at, bytes);
    };
    let length = |place: &Range<u64>| (place.end - place.start) as usize;
    let one_place = places[random.index(places.len())].clone();
    match random.below(8) {
        // Zeros, or another place's bytes (a misdirected write).
        0 => overwrite(arena, one_place.start, &vec![0; length(&one_place)]),
        1 => {
            let from = &places[random.index(places.len())];
            let bytes = length(from).min(length(&one_place));
            let bytes = arena.slice(from.start, bytes).to_vec();
            overwrite(arena, one_place.start, &bytes);
        }
        kind => {
            for _ in 0..=random.below(64) {
                let place = if kind < 5 {
                    one_place.clone()
                } else {
                    places[random.index(places.len())].clone()
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
    let journal_alone = random.once_in(2);
    let places = if journal_alone {
        targets.journal.clone()
    } else if random.once_in(2) {
        targets.records.clone()
    } else {
        [&targets.records[..], &targets.journal[..]].concat()
    };
    let before = damage(arena, &places, random);
    let result = judge.recover::<Journaling>(arena);
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
            outcomes.reported_journal += u64::from(journal_alone);
            Ok(())
        }
        Err(accusation) => Err(accusation),
    }
}

fn damage_one_machine(
    geometry: &Geometry,
    seed: u64,
    outcomes: &mut Outcomes,
) -> Result<(), Accusation> {
    let mut random = Random(seed ^ 0xdada);
    let specification = geometry.specification();
    let mut rig = Rig::<Journaling>::new(specification, &PARAMETERS, None);
    let mut workload = Workload::new(geometry, random.next());
    let map = Map::new(
        &rig.layout.log_area,
        geometry.row_bytes as u64,
        geometry.banks as u64,
    );
    let mut at = 0;
    for _ in 0..CUTS {
        at += random.below(4_000);
        workload.run_until(&mut rig, at)?;
        rig.after_cut(at, random.next(), |arena, judge| {
            let undamaged = judge.recover::<Journaling>(arena)?.epoch;
            let targets = Targets::of(arena, &map);
            for _ in 0..TRIALS {
                trial(arena, judge, &targets, undamaged, &mut random, outcomes)?;
            }
            // Nothing of the trials stays behind.
            assert_eq!(judge.recover::<Journaling>(arena)?.epoch, undamaged);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn damage_is_reported_or_harmless() {
    let seeds = seeds(SEEDS);
    let mut outcomes = Outcomes::default();
    for geometry in geometry::ALL {
        for &seed in &seeds {
            if let Err(accusation) = damage_one_machine(geometry, seed, &mut outcomes) {
                panic!(
                    "geometry '{}', PERDURE_SEED={seed}: {accusation}",
                    geometry.name
                );
            }
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes.reported > 0 && outcomes.recovered > 0);
    assert!(
        outcomes.reported_journal > 0,
        "blocks and redo slots are needed while a journal is committed"
    );
    assert!(
        outcomes.recovered_otherwise > 0,
        "losing an unfinished commit record brings the epoch before it back"
    );
}
