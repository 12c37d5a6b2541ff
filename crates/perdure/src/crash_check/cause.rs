//! Why a recovery went wrong: the fewest lines that have to be lost, the store that should have been durable,
//! and the store that should not have been before it.
//!
//! Always true here: a cause was tried. With these lines lost, and everything else there, it goes wrong; with
//! one of them less, it does not.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bytes;
use super::done::Outline;
use super::explore::{Choices, Failed, lost};
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
use crate::functional::At;

/// Bytes of a line that are told apart at once.
pub const WORD: usize = 8;
/// Places that are told of a flush or a fence.
const CALLS: usize = 2;

/// What the program should have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Defect {
    /// Nothing flushes the line between the store and the point.
    MissingFlush,
    /// A flush of the line comes before the store.
    FlushTooEarly,
    /// The line is flushed, and no fence waits for that before something is stored or told.
    MissingFence,
    /// What relies on the store was stored before the store was flushed, or was durable before it was made.
    WrongOrder,
    /// Stores to a line, of which some without the others are found; or to several, whichever of them.
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
pub fn places<'i>(stores: impl IntoIterator<Item = &'i Involved>) -> BTreeSet<u64> {
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
pub fn first_lost(choices: &Choices, line: u64, version: usize) -> Option<Involved> {
    let kept = &choices.lines[&line][version].kept;
    first_of(choices, line, version, |number| !kept.has(*number))
}

/// The first of some stores that a version of a line lacks.
pub fn first_of(
    choices: &Choices,
    line: u64,
    version: usize,
    is_it: impl FnMut(&usize) -> bool,
) -> Option<Involved> {
    let history = &choices.point.lines[&line];
    let versions = &choices.lines[&line];
    let kept = &versions[version].kept;
    let first = (0..history.stores.len()).find(is_it)?;
    let missing = (0..history.stores.len()).filter(|number| !kept.has(*number));
    Some(Involved {
        line,
        store: history.stores[first].clone(),
        bytes: [versions[version].bytes, versions[0].bytes],
        lost: missing.count(),
        last: history.last_with(first),
        behind: None,
        stack: Vec::new(),
        parts: BTreeMap::new(),
        durable_at: None,
    })
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
        let (stacks, parts) = stacks_and_parts((began(), model), self.moments(), &words);
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

    /// True if either may be lost where the other is there: in whatever order they are made durable, it goes
    /// wrong.
    pub fn is_reverse_of(&self, other: &Self) -> bool {
        let [lost, kept] = [&self.lost, &self.kept].map(places);
        !lost.is_empty()
            && (lost, kept) == (places(&other.kept), places(&other.lost))
            && self.in_recovery.is_none() == other.in_recovery.is_none()
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
