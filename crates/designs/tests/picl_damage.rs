//! A damaged image: random bytes flipped in boot records, registers and log after a power cut.
//! Recovery reports corruption, or brings back exactly an epoch that the promise allows. It never
//! panics, and memory is never wrong.
//!
//! A failure prints geometry and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use std::ops::Range;

use common::geometry::{self, Geometry};
use common::judge::{Accusation, Judge};
use common::rig::Rig;
use common::workload::Workload;
use common::{Random, seeds};
use perdure_designs::picl::Picl;
use perdure_designs::picl::log::Block;
use perdure_designs::picl::registers::{COPIES, RECORD_BYTES};
use perdure_designs::surviving::Interrupted;
use perdure_hardware::arena::{Arena, PAGE_BYTES};

const SEEDS: u64 = 3;
const CUTS: u64 = 60;
const TRIALS: u64 = 12;
const BOOT_COPIES: [u64; 2] = [0, 4096];
const BOOT_BYTES: u64 = 128;

#[derive(Debug, Default)]
struct Outcomes {
    reported: u64,
    recovered: u64,
    /// Of these, to another epoch than without the damage.
    recovered_otherwise: u64,
}

/// What a trial may damage: the places in use, each about as likely as the others.
struct Targets {
    records: Vec<Range<u64>>,
    blocks: Vec<Range<u64>>,
}

impl Targets {
    /// Everything that recovery could ever read. `block_bytes` of the log's blocks.
    fn of(arena: &Arena, log_area: &Range<u64>, block_bytes: u64) -> Self {
        let records = BOOT_COPIES
            .map(|at| at..at + BOOT_BYTES)
            .into_iter()
            .chain(COPIES.map(|at| at..at + RECORD_BYTES as u64))
            .collect();
        let mut blocks: Vec<(u64, Range<u64>)> = arena
            .written_pages()
            .filter(|page| log_area.contains(page))
            .flat_map(|page| (page..page + PAGE_BYTES as u64).step_by(block_bytes as usize))
            .map(|at| (at, arena.slice(at, block_bytes as usize)))
            .map(|(at, bytes)| {
                let block = Block::decode(bytes, false);
                let sequence = block.map_or(u64::MAX, |block| block.header.sequence);
                (sequence, at..at + block_bytes)
            })
            .collect();
        // Blocks that recovery reads are the newest ones, and torn ones.
        blocks.sort_by_key(|(sequence, _)| std::cmp::Reverse(*sequence));
        blocks.truncate(24);
        Self {
            records,
            blocks: blocks.into_iter().map(|(_, range)| range).collect(),
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
            let bytes = arena
                .slice(from.start, (from.end - from.start) as usize)
                .to_vec();
            overwrite(arena, to.start, &bytes);
        }
        kind => {
            let flips = 1 + random.below(64);
            let one_place = targets.choose(random);
            for _ in 0..flips {
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
    let result = judge.recover::<Picl>(arena);
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
    seed: u64,
    outcomes: &mut Outcomes,
) -> Result<(), Accusation> {
    let mut random = Random(seed ^ 0xdada);
    let mut rig = Rig::<Picl>::new(geometry.specification(), &geometry.parameters(), None);
    let mut workload = Workload::new(geometry, random.next());
    let log_area = rig.layout.log_area.clone();
    let mut at = 0;
    for _ in 0..CUTS {
        at += random.below(4_000);
        workload.run_until(&mut rig, at)?;
        rig.after_cut(at, random.next(), |arena, judge| {
            let undamaged = judge.recover::<Picl>(arena)?.epoch;
            let targets = Targets::of(arena, &log_area, geometry.undo_buffer_bytes as u64);
            for _ in 0..TRIALS {
                trial(arena, judge, &targets, undamaged, &mut random, outcomes)?;
            }
            // Nothing of the trials stays behind.
            assert_eq!(judge.recover::<Picl>(arena)?.epoch, undamaged);
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
        outcomes.recovered_otherwise > 0,
        "losing an unfinished register record brings the epoch before it back"
    );
}
