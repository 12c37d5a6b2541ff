//! Many random cuts of one machine over several generations: each generation boots from what a
//! recovery of the one before it brought back.

use std::collections::BTreeMap;

use perdure_designs::Design;
use perdure_hardware::counters::Counters;
use perdure_hardware::time::Cycles;

use super::Random;
use super::geometry::Geometry;
use super::judge::{Accusation, Kept};
use super::rig::Rig;
use super::workload::Workload;

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub generations: u64,
    /// Times at which each generation is cut.
    pub cut_times: u64,
    /// Ways in which the writes in flight are torn at each.
    pub tears: u64,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub cuts: u64,
    pub cuts_in_recovery: u64,
    pub epochs: u64,
    pub phases: BTreeMap<&'static str, u64>,
    pub paths: BTreeMap<&'static str, u64>,
    /// Stands for everything else: the bytes of the last generation.
    pub digest: u128,
}

impl Report {
    pub fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.cuts_in_recovery += other.cuts_in_recovery;
        self.epochs += other.epochs;
        for (phase, count) in &other.phases {
            *self.phases.entry(phase).or_default() += count;
        }
        for (path, count) in &other.paths {
            *self.paths.entry(path).or_default() += count;
        }
    }
}

/// A campaign's end before its time.
#[derive(Debug)]
pub struct Accused {
    /// Cuts made, the last one included.
    pub cuts: u64,
    pub accusation: Accusation,
}

/// Runs it. An accusation ends it.
pub fn run<D: Design>(
    geometry: &Geometry,
    parameters: &D::Parameters,
    bug: Option<&'static str>,
    seed: u64,
    effort: Effort,
) -> Result<Report, Accused> {
    let mut report = Report::default();
    let mut rig = Rig::<D>::new(geometry.specification(), parameters, bug);
    for generation in 0..effort.generations {
        let result = one_generation(rig, geometry, seed, generation, effort, &mut report)
            .and_then(|(rig, at, tear)| rig.reborn(parameters, at, tear));
        rig = match result {
            Ok(next) => next,
            Err(accusation) => {
                return Err(Accused {
                    cuts: report.cuts,
                    accusation,
                });
            }
        };
    }
    let arena = &rig.hardware.memory.arena;
    report.digest = arena.compute_digest(0..arena.len()).0;
    Ok(report)
}

fn one_generation<D: Design>(
    mut rig: Rig<D>,
    geometry: &Geometry,
    seed: u64,
    generation: u64,
    effort: Effort,
    report: &mut Report,
) -> Result<(Rig<D>, Cycles, u64), Accusation> {
    let mut random = Random(seed ^ generation.wrapping_mul(0x517c_c1b7_2722_0a95));
    let mut workload = Workload::new(geometry, random.next());
    let mut at = 0;
    for _ in 0..effort.cut_times {
        at = next_cut(&mut rig, &mut random, at);
        workload.run_until(&mut rig, at)?;
        *report.phases.entry(rig.design.phase()).or_default() += 1;
        for _ in 0..effort.tears {
            report.cuts += 1;
            let tear = random.next();
            let thorough = random.once_in(16);
            report.cuts_in_recovery += rig.after_cut(at, tear, |arena, judge| {
                let kept = judge.recover::<D>(arena)?;
                let steps = steps_to_cut(kept, thorough, &mut random);
                for &step in &steps {
                    judge.converges::<D>(arena, kept, step, &mut random)?;
                }
                Ok(steps.len() as u64)
            })?;
        }
    }
    let statistics = rig.hardware.statistics();
    statistics
        .check_conservation()
        .map_err(Accusation::Failed)?;
    let own = rig.design.counters();
    own.check_conservation().map_err(Accusation::Failed)?;
    rig.hardware
        .audit(&rig.design)
        .map_err(Accusation::Failed)?;
    rig.check_newest()?;
    report.epochs += statistics.epochs_committed;
    for (path, count) in D::paths(&statistics, &own) {
        *report.paths.entry(path).or_default() += count;
    }
    Ok((rig, at, random.next()))
}

/// Some time after the last cut: soon, later, or when a write starts or ends.
fn next_cut<D: Design>(rig: &mut Rig<D>, random: &mut Random, last: Cycles) -> Cycles {
    let times = rig
        .hardware
        .memory
        .persistence_times
        .as_mut()
        .expect("the rig asks for them");
    times.retain(|&time| time > last);
    match random.below(8) {
        0..4 if !times.is_empty() => {
            (times[random.index(times.len())] + random.below(3) - 1).max(last)
        }
        0..6 => last + random.below(700),
        6 => last + random.below(5_000),
        _ => last + random.below(20_000),
    }
}

/// Every step of recovery, or a random one and the last ones, in which registers change.
fn steps_to_cut(kept: Kept, thorough: bool, random: &mut Random) -> Vec<u64> {
    if thorough && kept.steps <= 100 {
        return (0..kept.steps).collect();
    }
    if !random.once_in(4) || kept.steps == 0 {
        return Vec::new();
    }
    let last = kept.steps - 1;
    vec![random.below(kept.steps), last.saturating_sub(1), last]
}
