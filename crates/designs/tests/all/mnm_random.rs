//! Random versions, random completions, random power cuts: the recovered image and every epoch that
//! the store holds are what the model says; and each planted bug is caught.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use std::collections::BTreeSet;

use crate::common::judge::{Verdict, verdict};
use crate::common::{Random, seed_alone, seeds};
use crate::mnm_common::{Accusation, Machine, Rig, machines};
use perdure_designs::nvoverlay::mnm::MnmStatistics;
use perdure_designs::nvoverlay::mnm::bugs::ALL;

/// What a campaign has seen.
#[derive(Default)]
struct Seen {
    phases: BTreeSet<&'static str>,
    cuts: u64,
    unfinished_merges: u64,
    statistics: Vec<MnmStatistics>,
}

/// Runs a machine through some lives, each with some cuts.
fn campaign(
    machine: &Machine,
    seed: u64,
    bug: Option<&'static str>,
    seen: &mut Seen,
) -> Result<(), Accusation> {
    let mut rig = Rig::new(machine, seed, bug);
    let mut choice = Random(!seed);
    for life in 0..3 {
        for cut in 0..16 {
            // Half of the cuts come when a compaction is under way, if there is any.
            for _ in 0..choice.below(machine.epoch_versions * 5) {
                rig.act()?;
                if cut % 2 == 1 && rig.compacts() && choice.once_in(4) {
                    break;
                }
            }
            if cut % 2 == 1 && !rig.compacts() {
                continue;
            }
            let kept = rig.after_cut(|arena, judge| {
                let kept = judge.recover(arena, true)?;
                judge.converges(arena, kept, &mut choice)?;
                Ok(kept)
            });
            let (_, steps) = kept.map_err(|why| format!("life {life}, cut {cut}: {why}"))?;
            seen.cuts += 1;
            seen.unfinished_merges += u64::from(steps > 0);
        }
        if life == 1 {
            rig.check_store()
                .map_err(|why| format!("life {life}: {why}"))?;
        }
        seen.phases.extend(&rig.phases);
        seen.statistics.push(rig.mnm.statistics().clone());
        rig = rig.reborn().map_err(|why| format!("life {life}: {why}"))?;
    }
    Ok(())
}

#[test]
fn the_clean_mapping_is_never_accused() {
    let mut seen = Seen::default();
    for machine in machines() {
        let before = seen.statistics.len();
        for seed in seeds(5) {
            if let Err(why) = campaign(&machine, seed, None, &mut seen) {
                panic!("{}, PERDURE_SEED={seed}: {why}", machine.name);
            }
        }
        let sum = |of: fn(&MnmStatistics) -> u64| -> u64 {
            seen.statistics[before..].iter().map(of).sum()
        };
        println!(
            "{}: {} versions, {} redundant, {} buffer hits, {} compactions, {} of them waited \
             for, {} copies, {} extents",
            machine.name,
            sum(|s| s.versions),
            sum(|s| s.versions_redundant),
            sum(|s| s.buffer_hits),
            sum(|s| s.compactions),
            sum(|s| s.compactions_waited),
            sum(|s| s.compaction_copies),
            sum(|s| s.extent_interrupts),
        );
    }
    println!(
        "{} cuts, {} with a merge to finish",
        seen.cuts, seen.unfinished_merges
    );
    println!("phases: {:?}", seen.phases);
    if seed_alone().is_some() {
        return; // One seed does not go everywhere.
    }
    let sum = |of: fn(&MnmStatistics) -> u64| seen.statistics.iter().map(of).sum::<u64>();
    assert!(seen.unfinished_merges > 20);
    assert!(sum(|s| s.compactions_waited) > 10);
    assert!(sum(|s| s.compactions - s.compactions_waited) > 10);
    assert!(sum(|s| s.compaction_copies) > 100);
    for phase in [
        "idle",
        "index",
        "register",
        "merge",
        "waiting for space",
        "compaction: reading",
        "compaction: copying",
        "compaction: index",
        "compaction: switch",
        "compaction: relinking",
        "compaction: freeing",
    ] {
        assert!(seen.phases.contains(phase), "'{phase}' was never seen");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for machine in machines() {
        let run = || {
            let mut seen = Seen::default();
            let mut rig = Rig::new(&machine, 7, None);
            for _ in 0..400 {
                rig.act().expect("it is clean");
            }
            rig.settle().expect("it is clean");
            seen.statistics.push(rig.mnm.statistics().clone());
            (
                rig.now,
                rig.hardware.memory.arena.compute_digest(0..64 << 20),
                seen.statistics,
            )
        };
        assert_eq!(run(), run(), "{}", machine.name);
    }
}

#[test]
fn every_planted_bug_is_caught() {
    let mut missed = Vec::new();
    for bug in ALL {
        let mut caught = None;
        'search: for seed in 1..=40 {
            for machine in machines() {
                let run = || campaign(&machine, seed, Some(bug.name), &mut Seen::default());
                let Verdict::Accused(why) = verdict(run) else {
                    continue;
                };
                caught = Some(format!("{}, seed {seed}: {why}", machine.name));
                break 'search;
            }
        }
        match caught {
            Some(why) => println!("{}: {why}", bug.name),
            None => missed.push(bug.name),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
