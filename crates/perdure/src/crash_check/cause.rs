//! Why a recovery went wrong: the fewest lines that have to be lost, the store that should have been durable,
//! and the store that should not have been before it.
//!
//! Always true here: a cause was tried. With these lines lost, and everything else there, it goes wrong; with
//! one of them less, it does not.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bytes;
use super::done::Outline;
use super::explore::{Choices, Explorer, Failed, lost};
use super::machine::{Made, Sought};
use super::nested::Inner;
use super::oracle::Wrong;
use super::parts::{Parts, Variables};
use super::pending::Store;
use super::places::{Place, innermost};
use super::record::{Reason, Until};
use super::recovery::Which;
use super::rules::Model;
use super::uncut::{Stacks, seen_through, stacks_and_parts};
use super::windows::{Event, Window};
use crate::error::Error;
use crate::functional::{At, Engine};

/// Versions of a line that are tried to lose less of it.
const TRIES: usize = 40;
/// Bytes of a line that are told apart at once.
pub const WORD: usize = 8;
/// Places that are told of a flush or a fence.
const CALLS: usize = 2;
/// Lines that are tried one by one.
const LINES: usize = 48;

/// What the program should have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Defect {
    /// Nothing flushes the line between the store and the point.
    MissingFlush,
    /// A flush of the line comes before the store.
    FlushTooEarly,
    /// The line is flushed, and no fence waits for that before something is stored or told.
    MissingFence,
    /// What relies on the store was durable before the store was flushed.
    WrongOrder,
    /// Stores to a line, of which some without the others are found.
    Torn,
    /// Nothing has to be lost: the point itself is where recovery fails.
    NotRecoverable,
}

/// A store that was lost or kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Involved {
    /// The line.
    pub line: u64,
    /// The store.
    pub store: Store,
    /// What the line had without it and later ones, and what it has newest.
    #[serde(with = "bytes::lines")]
    pub bytes: [super::pending::Bytes; 2],
    /// Stores of the line that are lost with it.
    pub lost: usize,
    /// The last store that its thread made to the line before its next fence: a flush belongs behind that.
    pub last: At,
    /// Where that is, once somebody has looked.
    pub behind: Option<Place>,
    /// Its call stack, once somebody has looked.
    pub stack: Vec<Place>,
    /// What words of the line are, by where in it they begin, as far as the program's types say.
    pub parts: BTreeMap<usize, String>,
    /// What makes it durable in the end, if anything does.
    pub durable_at: Option<Place>,
}

impl Involved {
    /// The words of the line that are not the newest, by where in it they begin.
    pub fn differing(&self) -> impl Iterator<Item = usize> {
        let [found, newest] = &self.bytes;
        let words = (0..found.len()).step_by(WORD);
        words.filter(|&at| found[at..at + WORD] != newest[at..at + WORD])
    }
}

/// A cause.
#[derive(Clone, Serialize, Deserialize)]
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
    /// How long the run is until power fails.
    pub until: Until,
    /// The program's number of the operation that was under way.
    pub operation: Option<u64>,
    /// Versions of lines.
    pub versions: BTreeMap<u64, usize>,
    /// In which recovery power failed, where that is so, which versions of lines that had found, and at
    /// which of its points.
    pub in_recovery: Option<(Which, BTreeMap<u64, usize>, u64)>,
    /// The order of the threads.
    pub schedule: u64,
    /// The call stack there, once somebody has looked.
    pub stack: Option<Vec<Place>>,
    /// Flushes and fences around its stores, once somebody has looked.
    pub events: Vec<Event>,
    /// The cut of the machine that it was found by.
    pub cut: Option<Box<Made>>,
    /// How often the machine was seen in that state, where somebody has looked for it.
    #[serde(skip)]
    pub seen: Option<Sought>,
}

impl Cause {
    /// What tells it from others: whether it is in a recovery, what is missing, and where the stores are that
    /// are to blame.
    pub fn key(&self) -> Key {
        (
            self.in_recovery.is_some(),
            self.defect,
            places(self.blamed()),
        )
    }

    /// The stores that should have been durable, or else those that should not have been made.
    pub fn blamed(&self) -> &[Involved] {
        if self.lost.is_empty() {
            &self.kept
        } else {
            &self.lost
        }
    }
}

/// What tells causes apart.
pub type Key = (bool, Defect, BTreeSet<u64>);

/// The instructions that made stores.
fn places<'i>(stores: impl IntoIterator<Item = &'i Involved>) -> BTreeSet<u64> {
    let stores = stores.into_iter();
    stores.map(|one| one.store.at.pc).collect()
}

/// What is told apart before causes are looked for: where the first lost stores are, and what goes wrong.
pub fn outline(choices: &Choices, failed: &Failed) -> Outline {
    let first = |line| first_lost(choices, line, failed.decided[&line]);
    let stores: Vec<Involved> = lost(&failed.decided).filter_map(first).collect();
    (failed.wrong.symptom(), places(&stores))
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
        last: history.last_with(first),
        behind: None,
        stack: Vec::new(),
        parts: BTreeMap::new(),
        durable_at: None,
    })
}

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
    let kept = needed(choices, failed, &versions, fails)?;
    let lost: Vec<Involved> = (versions.iter())
        .filter_map(|(&line, &version)| first_lost(choices, line, version))
        .collect();
    let torn = match lost.as_slice() {
        [one] if kept.is_empty() => torn(choices, one, fails)?,
        _ => None,
    };
    let point = choices.point;
    let operations = &explorer.expected.operations;
    Ok(Some(Cause {
        defect: match torn {
            Some(_) => Defect::Torn,
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

/// The first store that is not durable of each line that the recovery found to be the newest, and without
/// which all would be well.
fn needed(
    choices: &Choices,
    failed: &Failed,
    versions: &Versions,
    fails: &mut Fails,
) -> Result<Vec<Involved>, Error> {
    let mut needed = Vec::new();
    let newest = failed.decided.iter().filter(|(_, version)| **version == 0);
    for (&line, _) in newest.take(LINES) {
        let oldest = choices.lines[&line].len() - 1;
        let mut without = versions.clone();
        without.insert(line, oldest);
        if fails(&without)?.is_none() {
            needed.extend(first_lost(choices, line, oldest));
        }
    }
    Ok(needed)
}

/// The last store that was kept of a line, if nothing goes wrong where it is lost, too.
fn torn(choices: &Choices, lost: &Involved, fails: &mut Fails) -> Result<Option<Involved>, Error> {
    let stores = &choices.point.lines[&lost.line].stores;
    let first = stores.iter().position(|store| *store == lost.store);
    let oldest = choices.lines[&lost.line].len() - 1;
    let Some(before) = first.and_then(|first| stores[..first].last()) else {
        return Ok(None);
    };
    if fails(&BTreeMap::from([(lost.line, oldest)]))?.is_some() {
        return Ok(None);
    }
    Ok(Some(Involved {
        store: before.clone(),
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
    let defects = lost.iter().map(|one| {
        let stores = &point.lines[&one.line].stores;
        let number = stores.iter().position(|store| *store == one.store);
        match point.covered.get(&one.line) {
            Some(&covered) if number.is_some_and(|number| number < covered) => {
                if waits {
                    Defect::WrongOrder
                } else {
                    Defect::MissingFence
                }
            }
            Some(_) => Defect::FlushTooEarly,
            None => Defect::MissingFlush,
        }
    });
    defects.min().unwrap_or(Defect::NotRecoverable)
}

impl Cause {
    /// The stores that it is about.
    pub fn involved(&self) -> impl Iterator<Item = &Involved> {
        self.lost.iter().chain(&self.kept)
    }

    /// How much was retired at what is of interest.
    pub fn moments(&self) -> impl Iterator<Item = u64> {
        let stores = self.involved();
        let stores = stores.flat_map(|one| [one.store.at.retired, one.last.retired]);
        let events = self.events.iter().map(|event| event.at.retired);
        stores.chain(events).chain([self.at.retired])
    }

    /// What of the flushes and fences of its run is of interest, and of those around other stores.
    pub fn window<'c>(&'c self, others: impl Iterator<Item = &'c Involved>) -> Window {
        let mut window = Window {
            point: self.point,
            ..Window::default()
        };
        for one in self.involved().chain(others) {
            window.stores.insert(one.store.at.retired);
            window.lines.insert(one.line);
            window.threads.insert(one.store.at.thread);
        }
        if self.defect == Defect::FlushTooEarly {
            (window.flushed_before).extend(self.lost.iter().map(|one| one.line));
        }
        window
    }

    /// Looks up where its stores, flushes and fences are, in the call stacks of its run, and what makes the
    /// stores durable in the end.
    pub fn look_up(&mut self, stacks: &Stacks, fates: &BTreeMap<u64, At>) {
        let stack = |retired: u64| stacks.get(&retired).cloned().unwrap_or_default();
        for one in self.lost.iter_mut().chain(&mut self.kept) {
            one.stack = stack(one.store.at.retired);
            let last = stacks.get(&one.last.retired);
            one.behind = last.and_then(|stack| innermost(stack).cloned());
            let fate = fates.get(&one.store.at.retired);
            one.durable_at = fate.and_then(|at| innermost(stacks.get(&at.retired)?).cloned());
        }
        for event in self.events.iter_mut().filter(|one| one.times.is_none()) {
            event.places = places_of(&stack(event.at.retired));
        }
        self.stack = Some(stack(self.at.retired));
    }

    /// Where words are looked at to say what they are: at the point, or else when a store was made.
    pub fn words(&self) -> impl Iterator<Item = (u64, BTreeSet<u64>)> {
        let involved = self.involved();
        let words = involved.flat_map(|one| one.differing().map(|at| one.line + at as u64));
        let words: BTreeSet<u64> = words.collect();
        self.looks().map(move |retired| (retired, words.clone()))
    }

    /// The moments for that, the best first.
    fn looks(&self) -> impl Iterator<Item = u64> {
        let involved = self.kept.iter().chain(&self.lost);
        [self.at.retired]
            .into_iter()
            .chain(involved.map(|one| one.store.at.retired))
    }

    /// Says what words are: by global variables, or else by those of functions, of which the one that stored
    /// has the first word.
    pub fn name_parts(&mut self, parts: &Parts) {
        let looks: Vec<u64> = self.looks().collect();
        for one in self.lost.iter_mut().chain(&mut self.kept) {
            let own = [one.store.at.retired];
            let part = |at: usize| {
                let word = one.line + at as u64;
                let named = |looks: &[u64], by| {
                    let mut found = looks.iter().filter_map(|&look| parts.get(&(look, word)));
                    let (_, name) = found.find(|(variables, _)| *variables == by)?;
                    Some(name.clone())
                };
                named(&looks, Variables::Global)
                    .or_else(|| named(&own, Variables::Local))
                    .or_else(|| named(&looks, Variables::Local))
            };
            one.parts = (one.differing())
                .filter_map(|at| Some((at, part(at)?)))
                .collect();
        }
    }

    /// The same, in a recovery.
    pub fn within(mut self, inner: &Inner, model: Model) -> Self {
        let window = Window {
            point: inner.number,
            ..self.window([].iter())
        };
        let began = || (*inner.began).clone();
        self.events = seen_through(began(), model, (window, self.at.retired));
        let words = self.words().collect();
        let (stacks, parts) = stacks_and_parts(began(), self.moments(), &words);
        self.in_recovery = Some((inner.which, inner.found.clone(), inner.number));
        self.look_up(&stacks, &BTreeMap::new());
        self.name_parts(&parts);
        self
    }

    /// True if this goes wrong where more is lost than the other needs.
    pub fn is_more_than(&self, other: &Self) -> bool {
        let (own, others) = (places(&self.lost), places(&other.lost));
        !others.is_empty() && own.len() > others.len() && own.is_superset(&others)
    }

    /// True if this is what the other says from its other side: a store that is durable before what it relies
    /// on.
    pub fn is_counterpart_of(&self, other: &Self) -> bool {
        self.defect == Defect::NotRecoverable
            && !self.kept.is_empty()
            && other.defect == Defect::WrongOrder
            && self.operation.is_some()
            && self.operation == other.operation
            && self.schedule == other.schedule
            && self.in_recovery.is_none() == other.in_recovery.is_none()
            && (self.point, self.at.retired) < (other.point, other.at.retired)
    }
}

/// Where something is, and who calls that, as far as the source is known.
fn places_of(stack: &[Place]) -> Vec<Place> {
    let known = stack.iter().filter(|place| place.line.is_some());
    let known: Vec<Place> = known.take(CALLS).cloned().collect();
    if known.is_empty() {
        return stack.iter().take(1).cloned().collect();
    }
    known
}
