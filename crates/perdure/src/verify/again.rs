//! Whether recovery comes to the same where the power fails again while it runs.
//!
//! One recovery is shown to an onlooker at each step that was chosen, as a cut there would leave it; on that
//! the next one runs in full. Up to a step, recovery does what it did before, because it gets surviving bytes
//! and nothing else; that it does is seen at its end, where it must have left the same again.
//!
//! Always true here: memory is afterwards as before.

use std::collections::{BTreeMap, BTreeSet};

use perdure_designs::Design;
use perdure_designs::oracle::Oracle;
use perdure_designs::surviving::{Journal, Left, Surviving};
use perdure_hardware::arena::Arena;
use perdure_hardware::memory::{Memory, Tear};
use perdure_hardware::random::Random;

use super::devices;
use crate::machine::Recovery;

/// A recovery that nobody cut.
pub(super) struct Once<'a> {
    /// The epoch that came back.
    pub epoch: Option<u64>,
    /// What it left, which is put back by now.
    pub left: &'a Left,
    /// How many steps it took.
    pub steps: u64,
    pub oracle: &'a dyn Oracle,
    pub recovery: &'a Recovery,
}

/// What was found.
pub(super) struct Again {
    /// How often the power was cut again, up to the first failure.
    pub cuts: u64,
    pub result: Result<(), String>,
}

/// Cuts recovery at up to so many of its steps, lets it begin again, and compares.
pub(super) fn converge<D: Design>(
    memory: &mut Memory,
    once: &Once,
    journals: &mut [Journal; 2],
    (most_steps, seed): (u64, u64),
) -> Again {
    let result = devices::converge(memory, once.recovery.of_devices(), (most_steps, seed));
    if result.is_err() {
        return Again { cuts: 0, result };
    }
    let chosen = chosen_steps(once.steps, most_steps, seed);
    let (uncut, failed) = recoveries::<D>(memory, once, journals, (&chosen, seed));
    if let Some(first) = chosen.iter().position(|step| failed.contains_key(step)) {
        let step = chosen[first];
        return Again {
            cuts: first as u64 + 1,
            result: Err(format!(
                "cut again at recovery step {step}: {}",
                failed[&step]
            )),
        };
    }
    Again {
        cuts: chosen.len() as u64,
        result: uncut.map_err(|difference| format!("begun again on the same bytes: {difference}")),
    }
}

/// Recovers, with a cut at each of these steps and a recovery behind it. What is different where it is not
/// cut, and where it is, by steps.
fn recoveries<D: Design>(
    memory: &mut Memory,
    once: &Once,
    journals: &mut [Journal; 2],
    (chosen, seed): (&[u64], u64),
) -> (Result<(), String>, BTreeMap<u64, String>) {
    let mut failed = BTreeMap::new();
    let torn = |step: u64| Tear::new(seed ^ step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let each_once: BTreeSet<u64> = chosen.iter().copied().collect();
    let cuts = each_once
        .into_iter()
        .map(|step| (step, torn(step)))
        .collect();
    let [cut, mut next] = std::mem::take(journals);
    let pools: Vec<_> = memory.map().pools().collect();
    let mut look = |step: u64, arena: &mut Arena| {
        let journal = std::mem::take(&mut next);
        let mut image = Surviving::with_journal(arena, journal).with_pools(pools.clone());
        if let Err(difference) = difference::<D>(&mut image, once) {
            failed.insert(step, difference);
        }
        next = image.undo();
    };
    let mut image = Surviving::of(memory, cut).seen_at(cuts, &mut look);
    let uncut = difference::<D>(&mut image, once);
    let cut = image.undo();
    *journals = [cut, next];
    (uncut, failed)
}

/// Recovers, and compares.
fn difference<D: Design>(image: &mut Surviving, once: &Once) -> Result<(), String> {
    let recovered = once
        .recovery
        .run::<D>(image)
        .map_err(|error| error.to_string())?;
    if !once.oracle.converged(once.epoch, &recovered) {
        return Err(format!(
            "recovered epoch {} in place of {}",
            recovered.epoch.unwrap_or_default(),
            once.epoch.unwrap_or_default()
        ));
    }
    if image.is(once.left) {
        Ok(())
    } else {
        Err("memory differs".into())
    }
}

/// All steps if they are few; else the last ones, where registers change, the first, and a random
/// choice between.
pub(super) fn chosen_steps(steps: u64, most: u64, seed: u64) -> Vec<u64> {
    if steps <= most {
        return (0..steps).collect();
    }
    let ends = (most / 4).max(1);
    let mut chosen: Vec<u64> = (0..ends).chain(steps - ends..steps).collect();
    let mut random = Random::new(seed);
    while (chosen.len() as u64) < most {
        chosen.push(random.below(steps));
    }
    chosen
}
