//! Whether recovery comes to the same where the power fails again while it runs.
//!
//! One recovery is shown to an onlooker at each step that was chosen, as a cut there would leave it; on that
//! the next one runs in full. Up to a step, recovery does what it did before, because it gets surviving bytes
//! and nothing else; that it does is seen at its end, where it must have left the same again.
//!
//! Always true here: memory is afterwards as before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

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
    /// The memory that the promise is about.
    pub range: &'a Range<u64>,
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

/// Cuts recovery at up to so many of its steps, by a seed, lets it begin again, and compares.
pub(super) fn converge(
    memory: &mut Memory,
    once: &Once,
    journals: &mut [Journal; 2],
    how: (u64, u64),
) -> Again {
    let of_devices = devices::converge(memory, once.recovery.of_devices(), journals, how);
    if let Err(message) = of_devices {
        let result = Err(message);
        return Again { cuts: 0, result };
    }
    let (most_steps, seed) = how;
    let chosen = chosen_steps(once.steps, most_steps, seed);
    let tear = |step: u64| Tear::new(seed ^ step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let recover = |image: &mut Surviving| difference(image, once);
    let found = cut_at(&chosen, memory, journals, tear, recover);
    let cuts = match found {
        Err((Some(at), _)) => at + 1,
        _ => chosen.len(),
    };
    let result = found.map_err(|(at, difference)| match at {
        Some(at) => format!("cut again at recovery step {}: {difference}", chosen[at]),
        None => format!("begun again on the same bytes: {difference}"),
    });
    Again {
        cuts: cuts as u64,
        result,
    }
}

/// Recovers, with a cut at each of these steps and a recovery behind it. The first of the steps that makes a
/// difference, by its place, and what that is; no place where there is one without a cut, and with none.
pub(super) fn cut_at(
    chosen: &[u64],
    memory: &mut Memory,
    journals: &mut [Journal; 2],
    tear: impl Fn(u64) -> Tear,
    recover: impl Fn(&mut Surviving) -> Result<(), String>,
) -> Result<(), (Option<usize>, String)> {
    let mut failed = BTreeMap::new();
    let each_once: BTreeSet<u64> = chosen.iter().copied().collect();
    let cuts = each_once.into_iter().map(|step| (step, tear(step)));
    let [cut, mut next] = std::mem::take(journals);
    let pools: Vec<_> = memory.map().pools().collect();
    let mut look = |step: u64, arena: &mut Arena| {
        let journal = std::mem::take(&mut next);
        let mut image = Surviving::with_journal(arena, journal).with_pools(pools.clone());
        if let Err(difference) = recover(&mut image) {
            failed.insert(step, difference);
        }
        next = image.undo();
    };
    let mut image = Surviving::of(memory, cut).seen_at(cuts.collect(), &mut look);
    let uncut = recover(&mut image);
    let cut = image.undo();
    *journals = [cut, next];
    let mut steps = chosen.iter().enumerate();
    match steps.find_map(|(at, step)| Some((at, failed.remove(step)?))) {
        Some((at, difference)) => Err((Some(at), difference)),
        None => uncut.map_err(|difference| (None, difference)),
    }
}

/// Recovers, and compares.
fn difference(image: &mut Surviving, once: &Once) -> Result<(), String> {
    let recovered = once
        .recovery
        .run(image)
        .map_err(|error| error.to_string())?;
    if !once.oracle.converged(once.epoch, &recovered) {
        return Err(format!(
            "recovered epoch {} in place of {}",
            recovered.epoch.unwrap_or_default(),
            once.epoch.unwrap_or_default()
        ));
    }
    let counts = |address: u64| once.range.contains(&address);
    match image.difference(once.left, counts) {
        Some(_) => Err("memory differs".into()),
        None => Ok(()),
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
