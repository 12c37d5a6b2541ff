//! What every design's damage tests are: the power is cut at random moments, bytes that recovery
//! reads are damaged as no power cut can damage them, and recovery either reports corruption or
//! brings back exactly an epoch that the promise allows. It never panics.

use std::collections::BTreeMap;
use std::ops::Range;

use perdure_designs::Design;
use perdure_designs::layout::Layout;
use perdure_designs::surviving::Interrupted;
use perdure_hardware::arena::Arena;

use super::geometry::Geometry;
use super::judge::{Accusation, Judge};
use super::random_cuts::Machine;
use super::rig::Rig;
use super::workload::Workload;
use super::{Random, seeds};

const BOOT_COPIES: [u64; 2] = [0, 4096];
const BOOT_BYTES: u64 = 128;
const TRIALS_PER_CUT: u64 = 12;

/// Places of one kind that a trial may damage.
#[derive(Clone, Debug)]
pub struct Group {
    pub name: &'static str,
    pub places: Vec<Range<u64>>,
    /// Damage here cannot be told from a torn write, and may bring wrong memory back: only panics
    /// are looked for.
    pub passes_for_torn: bool,
}

impl Group {
    /// Both copies of the boot record and those of the design's own record.
    pub fn records(copies: [u64; 2], record_bytes: usize) -> Self {
        let boot = BOOT_COPIES.map(|at| at..at + BOOT_BYTES);
        let own = copies.map(|at| at..at + record_bytes as u64);
        Self::of("records", boot.into_iter().chain(own))
    }

    pub fn of(name: &'static str, places: impl IntoIterator<Item = Range<u64>>) -> Self {
        Self {
            name,
            places: places.into_iter().collect(),
            passes_for_torn: false,
        }
    }
}

/// What came of damage to one group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcomes {
    pub reported: u64,
    pub recovered: u64,
    /// Of these, to another epoch than without the damage.
    pub recovered_otherwise: u64,
    /// Only where damage passes for a torn write.
    pub wrong: u64,
}

/// By group; damage to several at once is under "all".
pub type Found = BTreeMap<&'static str, Outcomes>;

/// The sum of what `count` takes from each group.
pub fn total(found: &Found, count: impl Fn(&Outcomes) -> u64) -> u64 {
    found.values().map(count).sum()
}

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Cuts of each machine and seed; each is damaged in some ways.
    pub cuts: u64,
    /// Most cycles between two of them.
    pub apart: u64,
}

/// `groups` says what recovery could ever read of an image.
pub fn is_reported_or_harmless<D: Design>(
    machines: &[Machine<D>],
    effort: Effort,
    groups: impl Fn(&mut Arena, &Layout, &Geometry) -> Vec<Group>,
) -> Found {
    let mut found = Found::new();
    for (index, machine) in machines.iter().enumerate() {
        for seed in seeds(1) {
            one_machine::<D>(machine, seed, effort, &groups, &mut found).unwrap_or_else(|error| {
                let name = machine.0.name;
                panic!("machine {index} '{name}', PERDURE_SEED={seed}: {error}")
            });
        }
    }
    println!("{found:#?}");
    assert!(total(&found, |one| one.reported) > 0 && total(&found, |one| one.recovered) > 0);
    found
}

fn one_machine<D: Design>(
    (geometry, parameters): &Machine<D>,
    seed: u64,
    effort: Effort,
    groups: &impl Fn(&mut Arena, &Layout, &Geometry) -> Vec<Group>,
    found: &mut Found,
) -> Result<(), Accusation> {
    let mut random = Random(seed ^ 0xdada);
    let mut rig = Rig::<D>::new(geometry.specification(), parameters, None);
    let mut workload = Workload::new(geometry, random.next());
    let layout = rig.layout.clone();
    let mut at = 0;
    for _ in 0..effort.cuts {
        at += random.below(effort.apart);
        workload.run_until(&mut rig, at)?;
        rig.after_cut(at, random.next(), |arena, judge| {
            let undamaged = judge.recover::<D>(arena)?.epoch;
            let groups = groups(arena, &layout, geometry);
            for _ in 0..TRIALS_PER_CUT {
                trial::<D>(arena, judge, &groups, undamaged, &mut random, found)?;
            }
            // Nothing of the trials stays behind.
            assert_eq!(judge.recover::<D>(arena)?.epoch, undamaged);
            Ok(())
        })?;
    }
    Ok(())
}

fn trial<D: Design>(
    arena: &mut Arena,
    judge: &Judge,
    groups: &[Group],
    undamaged: u64,
    random: &mut Random,
    found: &mut Found,
) -> Result<(), Accusation> {
    let group = choose(groups, random);
    let mut before = damage(arena, &group.places, random);
    if random.once_in(4) {
        before.extend(damage(arena, &group.places, random));
    }
    let result = judge.recover::<D>(arena);
    for (at, bytes) in before.into_iter().rev() {
        arena.write(at, &bytes);
    }
    let outcomes = found.entry(group.name).or_default();
    match result {
        Ok(kept) => {
            outcomes.recovered += 1;
            outcomes.recovered_otherwise += u64::from(kept.epoch != undamaged);
        }
        Err(Accusation::Refused(Interrupted::Corrupt(corruption))) => {
            assert!(!corruption.what.is_empty());
            outcomes.reported += 1;
        }
        Err(_) if group.passes_for_torn => outcomes.wrong += 1,
        Err(accusation) => return Err(accusation),
    }
    Ok(())
}

/// One group that has places, or all that matter together.
fn choose(groups: &[Group], random: &mut Random) -> Group {
    if random.once_in(4) {
        let judged = groups.iter().filter(|group| !group.passes_for_torn);
        return Group::of("all", judged.flat_map(|group| group.places.clone()));
    }
    let groups: Vec<_> = groups
        .iter()
        .filter(|group| !group.places.is_empty())
        .collect();
    groups[random.index(groups.len())].clone()
}

/// Damages the image at some of these places; returns what was there, newest last.
fn damage(arena: &mut Arena, places: &[Range<u64>], random: &mut Random) -> Vec<(u64, Vec<u8>)> {
    let mut before = Vec::new();
    let mut overwrite = |arena: &mut Arena, at: u64, bytes: &[u8]| {
        before.push((at, arena.slice(at, bytes.len()).to_vec()));
        arena.write(at, bytes);
    };
    let one = places[random.index(places.len())].clone();
    match random.below(8) {
        // Zeros, or another place's bytes: a misdirected write.
        0 => {
            let zeros = vec![0; (one.end - one.start) as usize];
            overwrite(arena, one.start, &zeros);
        }
        1 => {
            let other = places[random.index(places.len())].clone();
            let length = (one.end - one.start).min(other.end - other.start);
            let bytes = arena.slice(other.start, length as usize).to_vec();
            overwrite(arena, one.start, &bytes);
        }
        kind => {
            for _ in 0..=random.below(64) {
                let place = if kind < 5 {
                    one.clone()
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
