//! Why a recovery went wrong: the fewest lines that have to be lost, the store that should have been durable,
//! and the store that should not have been before it.
//!
//! Always true here: a cause was tried. With these lines lost, and everything else there, it goes wrong; with
//! one of them less, it does not.

use std::collections::BTreeMap;

use super::explore::{Choices, Explorer, Failed, lost};
use super::oracle::Wrong;
use super::pending::Store;
use super::record::Reason;
use crate::error::Error;
use crate::functional::{At, Engine};

/// Versions of a line that are tried to lose less of it.
const TRIES: usize = 40;
/// Lines that are tried one by one.
const LINES: usize = 48;

/// What the program should have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// Nothing flushes the line between the store and the point.
    MissingFlush,
    /// A flush of the line comes before the store.
    FlushTooEarly,
    /// The line is flushed, and no fence waits for that.
    MissingFence,
    /// Nothing has to be lost: the point itself is where recovery fails.
    NotRecoverable,
}

/// A store that was lost or kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Involved {
    /// The line.
    pub line: u64,
    /// The store.
    pub store: Store,
    /// What the line had without it and later ones, and what it has newest.
    pub bytes: [super::pending::Bytes; 2],
    /// Stores of the line that are lost with it.
    pub lost: usize,
}

/// A cause.
#[derive(Clone, Debug)]
pub struct Cause {
    /// What is missing.
    pub defect: Defect,
    /// Of each line that has to be lost, the first store that is.
    pub lost: Vec<Involved>,
    /// Stores that are not durable either, and that have to be kept for it to go wrong.
    pub kept: Vec<Involved>,
    /// What goes wrong.
    pub wrong: Wrong,
    /// The point.
    pub point: u64,
    /// Why it is one.
    pub reason: Reason,
    /// What comes next.
    pub at: At,
    /// The program's number of the operation that was under way.
    pub operation: Option<u64>,
    /// Versions of lines.
    pub versions: BTreeMap<u64, usize>,
}

impl Cause {
    /// What tells it from others: what is missing, and where the stores are that should have been durable, or
    /// else those that should not have been made.
    pub fn key(&self) -> Key {
        let stores = if self.lost.is_empty() {
            &self.kept
        } else {
            &self.lost
        };
        let mut places: Vec<u64> = stores.iter().map(|one| one.store.at.pc).collect();
        places.sort_unstable();
        places.dedup();
        let point = if stores.is_empty() { self.at.pc } else { 0 };
        (self.defect, places, point)
    }
}

/// What tells causes apart.
pub type Key = (Defect, Vec<u64>, u64);

/// What is told apart before causes are looked for: where the first lost stores are, and what goes wrong.
pub fn outline(choices: &Choices, failed: &Failed) -> (String, Vec<u64>) {
    let places = lost(&failed.decided).filter_map(|line| {
        let version = failed.decided[&line];
        Some(first_lost(choices, line, version)?.store.at.pc)
    });
    let mut places: Vec<u64> = places.collect();
    places.sort_unstable();
    places.dedup();
    (failed.wrong.symptom(), places)
}

/// The first store that a version of a line lacks.
fn first_lost(choices: &Choices, line: u64, version: usize) -> Option<Involved> {
    let history = &choices.point.lines[&line];
    let versions = &choices.lines[&line];
    let kept = &versions[version].kept;
    let missing = |number: &usize| !kept.has(*number);
    let first = (0..history.stores.len()).find(missing)?;
    Some(Involved {
        line,
        store: history.stores[first].clone(),
        bytes: [versions[version].bytes, versions[0].bytes],
        lost: (0..history.stores.len()).filter(missing).count(),
    })
}

/// Looks for the cause of a failure.
pub fn find(
    explorer: &Explorer,
    choices: &Choices,
    failed: &Failed,
    engine: &mut Engine,
) -> Result<Option<Cause>, Error> {
    let mut fails =
        |versions: &BTreeMap<u64, usize>| explorer.fails(failed.which, choices, versions, engine);
    let mut versions = failed.decided.clone();
    versions.retain(|_, version| *version > 0);
    let Some(mut wrong) = fails(&versions)? else {
        return Ok(None);
    };
    if let Some(anyway) = fails(&BTreeMap::new())? {
        versions.clear();
        wrong = anyway;
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
    let mut kept = Vec::new();
    let newest = failed.decided.iter().filter(|(_, version)| **version == 0);
    for (&line, _) in newest.take(LINES) {
        let oldest = choices.lines[&line].len() - 1;
        let mut without = versions.clone();
        without.insert(line, oldest);
        if fails(&without)?.is_some() {
            continue;
        }
        kept.extend(first_lost(choices, line, oldest));
    }
    let lost: Vec<Involved> = (versions.iter())
        .filter_map(|(&line, &version)| first_lost(choices, line, version))
        .collect();
    let point = choices.point;
    let operations = &explorer.expected.operations;
    Ok(Some(Cause {
        defect: defect(choices, &lost),
        lost,
        kept,
        wrong,
        point: point.number,
        reason: point.reason,
        at: point.at,
        operation: point
            .phase
            .operation
            .map(|number| operations[number].number),
        versions,
    }))
}

/// What would have made the first of these stores durable.
fn defect(choices: &Choices, lost: &[Involved]) -> Defect {
    let defects = lost.iter().map(|one| {
        let stores = &choices.point.lines[&one.line].stores;
        let number = stores.iter().position(|store| *store == one.store);
        match choices.point.covered.get(&one.line) {
            Some(&covered) if number.is_some_and(|number| number < covered) => Defect::MissingFence,
            Some(_) => Defect::FlushTooEarly,
            None => Defect::MissingFlush,
        }
    });
    defects.min().unwrap_or(Defect::NotRecoverable)
}
