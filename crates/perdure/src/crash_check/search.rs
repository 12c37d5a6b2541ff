//! Looks for the cause of a failure: the fewest lines that have to be lost for it, the stores that have to be
//! kept, and what the program should have done.
//!
//! Always true here: what is found was tried, state by state.

use std::collections::BTreeMap;

use super::cause::{Cause, Defect, Involved, first_lost, first_of, places};
use super::explore::{Choices, Explorer, Failed};
use super::oracle::Wrong;
use super::pending::Flushed;
use super::record::Reason;
use crate::error::Error;
use crate::functional::Engine;

/// Versions of a line that are tried to lose less of it.
const TRIES: usize = 40;
/// Lines that are tried one by one.
const LINES: usize = 48;

/// Whether something goes wrong where these lines are of these versions, and all others the newest.
type Fails<'f> = dyn FnMut(&Versions) -> Result<Option<Wrong>, Error> + 'f;
/// Versions of lines that are not the newest.
type Versions = BTreeMap<u64, usize>;

/// Looks for the cause of a failure.
pub fn find(
    explorer: &Explorer,
    choices: &Choices,
    failed: &Failed,
    engine: &mut Engine,
) -> Result<Option<Cause>, Error> {
    let fails: &mut Fails = &mut |versions| explorer.fails(failed.which, choices, versions, engine);
    let mut versions = failed.decided.clone();
    versions.retain(|_, version| *version > 0);
    let Some(wrong) = fails(&versions)? else {
        return Ok(None);
    };
    let (versions, wrong) = fewest(versions, wrong, fails)?;
    let (kept, reverse) = needed(choices, failed, &versions, fails)?;
    let lost: Vec<Involved> = (versions.iter())
        .filter_map(|(&line, &version)| first_lost(choices, line, version))
        .collect();
    // Two halves of a store, or what a loop stores: as failures they are of one kind, whichever is lost.
    let at_one_place = !kept.is_empty() && places(&lost) == places(&kept);
    let either = at_one_place && fails(&reverse)?.is_some();
    let torn = match lost.as_slice() {
        [one] if kept.is_empty() => torn(choices, (one, versions[&one.line]), fails)?,
        _ => None,
    };
    let point = choices.point;
    let operations = &explorer.expected.operations;
    Ok(Some(Cause {
        defect: match &torn {
            // The line's stores have passed each other.
            Some(kept) if kept.store.at.retired > lost[0].store.at.retired => Defect::WrongOrder,
            Some(_) => Defect::Torn,
            None if either => Defect::Torn,
            None => defect(choices, (&lost, &kept), operations.is_empty()),
        },
        lost,
        kept: torn.map_or(kept, |torn| vec![torn]),
        wrong,
        point: point.number,
        reason: point.reason,
        at: point.at,
        until: point.until,
        operation: (point.phase.operation).map(|number| operations[number].number),
        versions,
        in_recovery: None,
        schedule: explorer.schedule,
        stack: None,
        events: Vec::new(),
        cut: None,
        seen: None,
    }))
}

/// Fewer lines, and less of each, with which something still goes wrong.
fn fewest(
    mut versions: Versions,
    mut wrong: Wrong,
    fails: &mut Fails,
) -> Result<(Versions, Wrong), Error> {
    if let Some(anyway) = fails(&Versions::new())? {
        return Ok((Versions::new(), anyway));
    }
    for line in versions.keys().copied().take(LINES).collect::<Vec<_>>() {
        let mut fewer = versions.clone();
        fewer.remove(&line);
        if let Some(still) = fails(&fewer)? {
            (versions, wrong) = (fewer, still);
        }
    }
    for line in versions.keys().copied().take(LINES).collect::<Vec<_>>() {
        for version in 1..versions[&line].min(TRIES) {
            let mut newer = versions.clone();
            newer.insert(line, version);
            if let Some(still) = fails(&newer)? {
                (versions, wrong) = (newer, still);
                break;
            }
        }
    }
    Ok((versions, wrong))
}

/// Of each line that the recovery found to be the newest, and without which all would be well, the store
/// with which it goes wrong; and versions of these lines without it.
fn needed(
    choices: &Choices,
    failed: &Failed,
    versions: &Versions,
    fails: &mut Fails,
) -> Result<(Vec<Involved>, Versions), Error> {
    let (mut needed, mut reverse) = (Vec::new(), Versions::new());
    let newest = failed.decided.iter().filter(|(_, version)| **version == 0);
    for (&line, _) in newest.take(LINES) {
        let oldest = choices.lines[&line].len() - 1;
        let mut is_well = |version| {
            let mut without = versions.clone();
            without.insert(line, version);
            fails(&without).map(|wrong| wrong.is_none())
        };
        if !is_well(oldest)? {
            continue;
        }
        // Between one version with which it goes wrong and an older one with which all is well.
        let (mut wrong, mut well) = (0, oldest);
        while well - wrong > 1 {
            let middle = usize::midpoint(wrong, well);
            if is_well(middle)? {
                well = middle;
            } else {
                wrong = middle;
            }
        }
        let kept = |version: usize| &choices.lines[&line][version].kept;
        let is_it = |number: &usize| kept(wrong).has(*number) && !kept(well).has(*number);
        needed.extend(first_of(choices, line, well, is_it));
        reverse.insert(line, well);
    }
    Ok((needed, reverse))
}

/// The last store that was kept of a line, if nothing goes wrong where it is lost, too.
fn torn(
    choices: &Choices,
    (lost, version): (&Involved, usize),
    fails: &mut Fails,
) -> Result<Option<Involved>, Error> {
    let stores = &choices.point.lines[&lost.line].stores;
    let versions = &choices.lines[&lost.line];
    let kept = (stores.iter().enumerate()).rfind(|(number, _)| versions[version].kept.has(*number));
    let Some((_, kept)) = kept else {
        return Ok(None);
    };
    let oldest = versions.len() - 1;
    if fails(&BTreeMap::from([(lost.line, oldest)]))?.is_some() {
        return Ok(None);
    }
    Ok(Some(Involved {
        store: kept.clone(),
        lost: 0,
        ..lost.clone()
    }))
}

/// What would have made the first of these stores durable, as far as the point tells.
fn defect(
    choices: &Choices,
    (lost, kept): (&[Involved], &[Involved]),
    nobody_is_told: bool,
) -> Defect {
    let point = choices.point;
    // The fence comes next, and what relies on the store is durable already: somebody may have been told
    // between operations, and nobody within one.
    let is_within = point.phase.operation.is_some() || nobody_is_told;
    let waits = point.reason == Reason::Fence && is_within && kept.is_empty();
    // A fence keeps what is stored behind a flush from being durable before what that flushes, and nothing
    // that is stored before.
    let fence_helps = |flushed: u64| {
        let is_behind = |one: &Involved| one.store.at.retired > flushed;
        !waits && (kept.is_empty() || kept.iter().any(is_behind))
    };
    let defects = lost.iter().map(|one| {
        let stores = &point.lines[&one.line].stores;
        let number = stores.iter().position(|store| *store == one.store);
        let Some(flushes) = point.covered.get(&one.line) else {
            return Defect::MissingFlush;
        };
        let covers = |flushed: &&Flushed| number.is_some_and(|number| number < flushed.stores);
        let misses = |flushed: &Flushed| number.is_some_and(|number| number < flushed.missed);
        match flushes.iter().find(covers) {
            Some(flushed) if fence_helps(flushed.retired) => Defect::MissingFence,
            Some(_) => Defect::WrongOrder,
            None if flushes.iter().any(misses) => Defect::FlushTooEarly,
            None => Defect::MissingFlush,
        }
    });
    defects.min().unwrap_or(Defect::NotRecoverable)
}
