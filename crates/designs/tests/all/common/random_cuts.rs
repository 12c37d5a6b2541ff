//! What every design's random tests are: the clean design on each of its machines, the same run
//! twice, and each planted bug until some machine notices it.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use perdure_designs::Design;

use super::campaign::{self, Accused, Effort, Report};
use super::geometry::Geometry;
use super::judge::{Verdict, verdict};
use super::{seed_alone, seeds};

/// A machine with a design's parameters on it.
pub type Machine<D> = (Geometry, <D as Design>::Parameters);

/// How much is demanded of the clean design.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    pub effort: Effort,
    /// Cuts of all machines and seeds together, those during recovery included.
    pub least_cuts: u64,
    /// Values of [`Design::phase`]: cuts meet all of them.
    pub phases: usize,
}

/// Runs the clean design on one machine.
fn clean<D: Design>(machines: &[Machine<D>], index: usize, seed: u64, effort: Effort) -> Report {
    let (geometry, parameters) = &machines[index];
    campaign::run::<D>(geometry, parameters, None, seed, effort).unwrap_or_else(
        |Accused { cuts, accusation }| {
            let name = geometry.name;
            panic!("machine {index} '{name}', PERDURE_SEED={seed}, after {cuts} cuts: {accusation}")
        },
    )
}

/// Cuts at random moments always bring an epoch back; the machines take every path of the design.
pub fn the_clean_design_is_never_accused<D: Design>(machines: &[Machine<D>], demand: Demand) {
    let mut total = Report::default();
    for (index, (geometry, _)) in machines.iter().enumerate() {
        let mut report = Report::default();
        for seed in seeds(1) {
            report.add(&clean::<D>(machines, index, seed, demand.effort));
        }
        println!(
            "{index:2} {:26} {:6} cuts, {:6} in recovery, {:6} epochs",
            geometry.name, report.cuts, report.cuts_in_recovery, report.epochs
        );
        total.add(&report);
    }
    println!("{total:#?}");
    if seed_alone().is_some() {
        return; // One seed does not do everything.
    }
    for (path, count) in &total.paths {
        assert!(*count > 0, "no machine took the path '{path}'");
    }
    assert_eq!(
        total.phases.len(),
        demand.phases,
        "cuts met every state of the design"
    );
    let cuts = total.cuts + total.cuts_in_recovery;
    assert!(cuts >= demand.least_cuts, "only {cuts} cuts");
}

/// Reports of two runs are equal, the bytes of the last generation included.
pub fn the_same_seed_gives_the_same_run<D: Design>(machines: &[Machine<D>]) {
    let effort = Effort {
        generations: 2,
        cut_times: 60,
        tears: 1,
    };
    for index in 0..machines.len().min(3) {
        let run = || clean::<D>(machines, index, 77, effort);
        assert_eq!(run(), run());
    }
}

/// How a planted bug was noticed on one machine. `Err` if it was not.
fn noticed<D: Design>(
    (geometry, parameters): &Machine<D>,
    bug: &'static str,
    effort: Effort,
) -> Result<String, String> {
    match verdict(|| campaign::run::<D>(geometry, parameters, Some(bug), 1, effort)) {
        Verdict::Clean(report) => Err(format!("not in {} cuts", report.cuts)),
        Verdict::Accused(Accused { cuts, accusation }) => {
            Ok(format!("cut {cuts}: {}", accusation.kind()))
        }
        Verdict::Panicked => Err("a panic, which is no verdict".into()),
    }
}

/// Each bug on each machine, until the cuts of two generations have passed; one machine is enough.
pub fn every_planted_bug_is_caught<D: Design>(machines: &[Machine<D>], effort: Effort) {
    let effort = Effort {
        generations: 2,
        ..effort
    };
    let mut escaped = Vec::new();
    for bug in D::PLANTED_BUGS {
        println!("{}", bug.name);
        let mut caught = 0;
        for (index, machine) in machines.iter().enumerate() {
            let how = noticed::<D>(machine, bug.name, effort);
            caught += usize::from(how.is_ok());
            let how = how.unwrap_or_else(|not| not);
            println!("  {index:2} {:26} {how}", machine.0.name);
        }
        if caught == 0 {
            escaped.push(bug.name);
        }
    }
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}
