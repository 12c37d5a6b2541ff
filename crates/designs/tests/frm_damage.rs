//! A damaged image: random bytes flipped in boot records, commit records and the undo log after a
//! power cut. Recovery reports corruption, or brings back exactly an epoch that the promise allows.
//! It never panics, and memory is never wrong.
//!
//! One thing is beyond it: the newest records that are durable, as many as the controller's buffer
//! has entries, look like records that the cut tore when they are damaged, because no later record
//! says that they were durable. Damage there may bring wrong memory back, and only panics are
//! looked for.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use std::ops::Range;

use common::geometry::{self, Geometry};
use common::judge::{Accusation, Judge};
use common::rig::Rig;
use common::workload::Workload;
use common::{Random, seeds};
use perdure_designs::frm::log::{Log, Record, SLOT_BYTES};
use perdure_designs::frm::registers::{COPIES, Commit, RECORD_BYTES};
use perdure_designs::frm::{Frm, Parameters};
use perdure_designs::surviving::Interrupted;
use perdure_hardware::arena::Arena;

const SEEDS: u64 = 3;
const CUTS: u64 = 60;
const TRIALS: u64 = 12;
const BOOT_COPIES: [u64; 2] = [0, 4096];
const BOOT_BYTES: u64 = 128;
const LOG_BYTES: u64 = 1 << 20;
const BUFFER_ENTRIES: usize = 2;

#[derive(Debug, Default)]
struct Outcomes {
    reported: u64,
    recovered: u64,
    /// Of these, to another epoch than without the damage.
    recovered_otherwise: u64,
    newest_reported: u64,
    newest_recovered: u64,
    newest_wrong: u64,
}

/// What a trial may damage: the places in use.
struct Targets {
    records: Vec<Range<u64>>,
    /// Slots of the live log but the newest ones; a later record knows them to be durable.
    known: Vec<Range<u64>>,
    /// The newest slots of the live log.
    newest: Vec<Range<u64>>,
}

impl Targets {
    fn of(arena: &Arena, log: &Log) -> Self {
        let records = BOOT_COPIES
            .map(|at| at..at + BOOT_BYTES)
            .into_iter()
            .chain(COPIES.map(|at| at..at + RECORD_BYTES as u64))
            .collect();
        let generation = COPIES
            .iter()
            .filter_map(|&copy| Commit::decode(arena.slice(copy, RECORD_BYTES)))
            .map(|commit| commit.generation)
            .max();
        let slot = |index| log.address(index)..log.address(index) + SLOT_BYTES as u64;
        let live = |index: &u64| {
            Record::decode(arena.slice(log.address(*index), SLOT_BYTES), false)
                .is_some_and(|record| Some(record.generation) == generation)
        };
        let count = (0..log.capacity).take_while(live).count() as u64;
        let known = count.saturating_sub(BUFFER_ENTRIES as u64);
        Self {
            records,
            known: (0..known).map(slot).collect(),
            newest: (known..count).map(slot).collect(),
        }
    }
}

/// Damages one of the places, or several; returns what was there, newest last.
fn damage(arena: &mut Arena, places: &[Range<u64>], random: &mut Random) -> Vec<(u64, Vec<u8>)> {
    let mut before = Vec::new();
    let mut overwrite = |arena: &mut Arena, at: u64, bytes: &[u8]| {
        before.push((at, arena.slice(at, bytes.len()).to_vec()));
        arena.write(at, bytes);
    };
    let place = places[random.index(places.len())].clone();
    let length = (place.end - place.start) as usize;
    match random.below(4) {
        0 => overwrite(arena, place.start, &vec![0; length]),
        // Another one's bytes: a misdirected write.
        1 => {
            let from = places[random.index(places.len())].start;
            let bytes = arena.slice(from, length).to_vec();
            overwrite(arena, place.start, &bytes);
        }
        _ => {
            for _ in 0..=random.below(64) {
                let at = place.start + random.below(length as u64);
                let byte = arena.slice(at, 1)[0] ^ (1 + random.below(255) as u8);
                overwrite(arena, at, &[byte]);
            }
        }
    }
    before
}

fn after_damage(
    arena: &mut Arena,
    judge: &Judge,
    places: &[Range<u64>],
    random: &mut Random,
) -> Result<u64, Accusation> {
    let mut before = damage(arena, places, random);
    if random.once_in(4) {
        before.extend(damage(arena, places, random));
    }
    let result = judge.recover::<Frm>(arena);
    for (at, bytes) in before.into_iter().rev() {
        arena.write(at, &bytes);
    }
    result.map(|kept| kept.epoch)
}

fn trial(
    arena: &mut Arena,
    judge: &Judge,
    targets: &Targets,
    undamaged: u64,
    random: &mut Random,
    outcomes: &mut Outcomes,
) -> Result<(), Accusation> {
    let places = match random.below(8) {
        0..4 if !targets.known.is_empty() => &targets.known,
        4 if !targets.newest.is_empty() => {
            match after_damage(arena, judge, &targets.newest, random) {
                Ok(_) => outcomes.newest_recovered += 1,
                Err(Accusation::Refused(_)) => outcomes.newest_reported += 1,
                Err(_) => outcomes.newest_wrong += 1,
            }
            return Ok(());
        }
        _ => &targets.records,
    };
    match after_damage(arena, judge, places, random) {
        Ok(epoch) => {
            outcomes.recovered += 1;
            outcomes.recovered_otherwise += u64::from(epoch != undamaged);
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
    seed: u64,
    outcomes: &mut Outcomes,
) -> Result<(), Accusation> {
    let mut random = Random(seed ^ 0xdada);
    let parameters = Parameters {
        buffer_entries: BUFFER_ENTRIES,
        log_limit_bytes: LOG_BYTES,
    };
    let mut rig = Rig::<Frm>::new(geometry.specification(), &parameters, None);
    let mut workload = Workload::new(geometry, random.next());
    let (row_bytes, banks) = (geometry.row_bytes as u64, geometry.banks as u64);
    let log = Log::within(&rig.layout.log_area, LOG_BYTES, row_bytes, banks)
        .expect("the design has one, too");
    let mut at = 0;
    for _ in 0..CUTS {
        at += random.below(4_000);
        workload.run_until(&mut rig, at)?;
        rig.after_cut(at, random.next(), |arena, judge| {
            let undamaged = judge.recover::<Frm>(arena)?.epoch;
            let targets = Targets::of(arena, &log);
            for _ in 0..TRIALS {
                trial(arena, judge, &targets, undamaged, &mut random, outcomes)?;
            }
            // Nothing of the trials stays behind.
            assert_eq!(judge.recover::<Frm>(arena)?.epoch, undamaged);
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
                    "machine '{}', PERDURE_SEED={seed}: {accusation}",
                    geometry.name
                );
            }
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes.reported > 0 && outcomes.recovered > 0);
    assert!(outcomes.newest_recovered + outcomes.newest_wrong > 0);
}
