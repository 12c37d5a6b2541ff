//! Power fails again while the machine recovers.
//!
//! Always true here: what the inner cut leaves is judged as what the outer one left; which recoveries are cut
//! follows from what they store, and from their order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::super::Asked;
use super::super::cause::Cause;
use super::super::done::Outline;
use super::super::oracle::Expected;
use super::super::recovery::{Recoveries, Which};
use super::session::{Judged, Session};
use crate::error::Error;
use crate::functional::{At, Engine, Pool, Watcher};
use crate::parallel;

/// Recoveries that are cut, of each round's: they take as long as the program.
const RECOVERIES: usize = 2;
/// Cuts of each.
const CUTS: u64 = 10;

/// Causes of failures by their kinds, with how often each was seen.
type Causes = BTreeMap<Outline, (u64, Option<Cause>)>;

/// Cuts some recoveries of those that have gone well. Nothing if the user does not want to wait for that.
pub fn cut(
    session: &Session,
    (judged, expected): (&[Judged], &Expected),
    asked: &Asked,
) -> Result<Option<(Vec<Judged>, Causes)>, Error> {
    let (mut all, mut causes) = (Vec::new(), Causes::new());
    let which = session.recoveries().firsts().next();
    let Some(which) = which.filter(|_| asked.nested) else {
        return Ok(Some((all, causes)));
    };
    for outer in worth(session, which, judged, asked.jobs())? {
        let Some(recovers) = session.recovers(which, outer)? else {
            return Ok(None);
        };
        let seed = asked.seed() ^ outer.left.when.cycle;
        let moments = session.round().moments(&recovers.run, CUTS, seed);
        let again = recovers.judge_by(&moments, expected)?;
        for ((symptom, places), found) in recovers.causes(&again, expected)? {
            let outline = (format!("power fails again in recovery: {symptom}"), places);
            let (count, _) = causes.entry(outline).or_insert((0, found.1));
            *count += found.0;
        }
        all.extend(again);
    }
    Ok(Some((all, causes)))
}

/// The cuts from which recoveries store with the most instructions, each with other ones.
fn worth<'j>(
    session: &Session,
    which: Which,
    judged: &'j [Judged],
    jobs: usize,
) -> Result<Vec<&'j Judged>, Error> {
    let well: Vec<&Judged> = (judged.iter())
        .filter(|one| one.failed.is_none() && !one.point.phase.several)
        .collect();
    let stores = parallel::map(jobs, &well, |one| {
        stored(session.recoveries(), which, one.pool())
    })?;
    let mut first: BTreeMap<BTreeSet<u64>, &Judged> = BTreeMap::new();
    for (stores, one) in stores.into_iter().zip(well) {
        first.entry(stores).or_insert(one);
    }
    let mut first: Vec<_> = first.into_iter().collect();
    first.retain(|(stores, _)| !stores.is_empty());
    first.sort_by_key(|(stores, _)| Reverse(stores.len()));
    let some = first.into_iter().take(RECOVERIES);
    Ok(some.map(|(_, one)| one).collect())
}

/// By which instructions a recovery stores.
fn stored(recoveries: &Recoveries, which: Which, found: Pool) -> Result<BTreeSet<u64>, Error> {
    let mut machine = recoveries.boot(which, found)?;
    let mut stores = Stores::default();
    machine.run(&mut stores, &mut Engine::default(), recoveries.patience);
    Ok(stores.0)
}

/// The instructions that store to pools, or have the kernel do it.
#[derive(Clone, Default)]
struct Stores(BTreeSet<u64>);

impl Watcher for Stores {
    const LOCATES: bool = true;

    fn stores(&mut self, _: &Pool, _: u64, _: &[u8], at: &At) {
        self.0.insert(at.pc);
    }
}
