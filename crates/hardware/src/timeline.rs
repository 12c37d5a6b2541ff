//! What the parts of the machine did, and when, for whoever draws it: spans, moments and levels, each on the
//! track of the part that it is of.
//!
//! Always true here:
//! - Nothing is kept unless somebody draws, and nothing of it changes a run. Where nobody does, it costs a
//!   compare on the ways of misses, and nothing on that of a hit.
//! - Events are plain data, and come in the order of the simulation: not in that of time, because requests
//!   are timed as they are made. None that comes later begins before the horizon
//!   ([`Memory::horizon`]), but what a design dates back.
//! - The substrate names no design: a design names its own tracks ([`Track::of_design`]).
//! - A copy of the machine draws nothing.

mod caches;
mod harts;
mod requests;

use std::collections::BTreeMap;
use std::fmt;

use smallvec::SmallVec;

use crate::line::{LINE_BYTES, LineNumber};
use crate::memory::Memory;
use crate::time::Cycles;

pub use caches::{L1D, L1I, MISSES, WRITE_BACKS};
pub use harts::{FENCE, STORE_BUFFER, Wait, waits};

/// What a track is about, for who wants some of them alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// What harts run, and what they wait for.
    Harts,
    /// Misses, write-backs and walks.
    Caches,
    /// Requests at controllers, and how many wait there.
    Requests,
    /// Rows that are read and written.
    Banks,
    /// Transfers.
    Links,
    /// Epochs: executing, ended, persisted.
    Epochs,
    /// Whatever the design has of its own, its devices included.
    Design,
}

/// All kinds, with their names for people.
pub const KINDS: [(Kind, &str); 7] = [
    (Kind::Harts, "harts"),
    (Kind::Caches, "caches"),
    (Kind::Requests, "requests"),
    (Kind::Banks, "banks"),
    (Kind::Links, "links"),
    (Kind::Epochs, "epochs"),
    (Kind::Design, "design"),
];

/// The part of the machine that a track belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The machine as a whole.
    Machine,
    /// A hart, with its L1s.
    Hart(usize),
    /// A sharing group's L2.
    Group(usize),
    /// The last-level cache.
    LastLevel,
    /// The DRAM in front of the NVM.
    Dram,
    /// A memory module.
    Module(usize),
    /// The design.
    Design,
}

/// Where an event is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Track {
    /// What it is about.
    pub kind: Kind,
    /// Whose it is.
    pub part: Part,
    /// What of that.
    pub name: &'static str,
    /// Which one, if there are several of the name.
    pub number: Option<usize>,
}

impl Track {
    /// A track of which its part has one.
    pub const fn new(kind: Kind, part: Part, name: &'static str) -> Self {
        Self {
            kind,
            part,
            name,
            number: None,
        }
    }

    /// A track of the design's own.
    pub const fn of_design(name: &'static str) -> Self {
        Self::new(Kind::Design, Part::Design, name)
    }

    /// One of several.
    #[must_use]
    pub const fn numbered(self, number: usize) -> Self {
        Self {
            number: Some(number),
            ..self
        }
    }
}

/// What is said of an event beside its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A physical address.
    Address(u64),
    /// A word.
    Text(&'static str),
}

/// The same, with what it is.
pub type Fact = (&'static str, Value);

/// Where a line lies.
pub fn line_fact(line: LineNumber) -> Fact {
    (
        "line_address",
        Value::Address(line.wrapping_mul(LINE_BYTES as u64)),
    )
}

/// When something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// From then until then.
    Span(Cycles, Cycles),
    /// At once.
    Moment(Cycles),
    /// From then on, the track's level is so much higher or lower.
    Change(Cycles, i64),
    /// From then on, it is that.
    Level(Cycles, u64),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where it is drawn.
    pub track: Track,
    /// What happened.
    pub name: &'static str,
    /// When.
    pub when: When,
    /// What else is known of it.
    pub facts: SmallVec<[Fact; 4]>,
}

impl Event {
    /// Something that took from `from` until `until`.
    pub fn span(
        track: Track,
        name: &'static str,
        [from, until]: [Cycles; 2],
        facts: &[Fact],
    ) -> Self {
        Self {
            track,
            name,
            when: When::Span(from, until.max(from)),
            facts: facts.into(),
        }
    }

    /// Something that happened at once.
    pub fn moment(track: Track, name: &'static str, at: Cycles, facts: &[Fact]) -> Self {
        let when = When::Moment(at);
        Self {
            when,
            ..Self::span(track, name, [at; 2], facts)
        }
    }

    /// A level that changes.
    pub fn level(track: Track, when: When) -> Self {
        Self {
            when,
            ..Self::span(track, track.name, [0; 2], &[])
        }
    }
}

/// Who draws.
pub trait Sink: Send {
    /// Takes events, all of them, in the order of the simulation; up to the horizon, everything has happened.
    fn take(&mut self, events: &mut Vec<Event>, horizon: Cycles);

    /// What is of interest begins there.
    fn begins_at(&mut self, _from: Cycles) {}
}

/// So many events are kept before the sink gets them.
const KEPT_EVENTS: usize = 4096;

/// A span that has begun.
#[derive(Clone, Debug)]
struct Begun {
    name: &'static str,
    at: Cycles,
    /// Until when its last step was, if it is made of steps.
    until: Option<Cycles>,
    facts: SmallVec<[Fact; 4]>,
}

/// What is kept of a run on its way to who draws it.
pub struct Timeline {
    kinds: Vec<Kind>,
    /// What ended before it is of no interest.
    from: Cycles,
    /// Spans of which nobody knows yet how long they are, by track and what tells those of a track apart.
    begun: BTreeMap<(Track, u64), Begun>,
    events: Vec<Event>,
    horizon: Cycles,
    sink: Box<dyn Sink>,
}

impl fmt::Debug for Timeline {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.debug_struct("Timeline")
            .field("kinds", &self.kinds)
            .finish_non_exhaustive()
    }
}

impl Timeline {
    /// One that draws events of these kinds, from then on.
    pub fn new(kinds: Vec<Kind>, from: Cycles, sink: Box<dyn Sink>) -> Self {
        Self {
            kinds,
            from,
            begun: BTreeMap::new(),
            events: Vec::with_capacity(KEPT_EVENTS),
            horizon: 0,
            sink,
        }
    }

    /// What ends before `from` is of no interest.
    pub fn begins_at(&mut self, from: Cycles) {
        self.from = from;
        self.sink.begins_at(from);
    }

    /// Takes an event.
    #[cold]
    pub fn take(&mut self, event: Event) {
        let last = match event.when {
            When::Span(_, at) | When::Moment(at) => at,
            // Levels are kept up to date.
            When::Change(..) | When::Level(..) => Cycles::MAX,
        };
        if last < self.from || !self.kinds.contains(&event.track.kind) {
            return;
        }
        self.events.push(event);
        if self.events.len() >= KEPT_EVENTS {
            self.hand_on();
        }
    }

    /// A track's span since then, until the next state. It goes on if it is the same.
    pub fn state(&mut self, track: Track, name: &'static str, at: Cycles, facts: &[Fact]) {
        let same = (self.begun.get(&(track, 0)))
            .is_some_and(|begun| begun.name == name && begun.facts[..] == *facts);
        if !same {
            self.begin(track, 0, name, at, facts);
        }
    }

    /// A span begins on a track. `which` tells it from others there that have begun.
    #[cold]
    pub fn begin(
        &mut self,
        track: Track,
        which: u64,
        name: &'static str,
        at: Cycles,
        facts: &[Fact],
    ) {
        let begun = Begun {
            name,
            at,
            until: None,
            facts: facts.into(),
        };
        self.go_on_with(track, which, begun);
    }

    fn go_on_with(&mut self, track: Track, which: u64, begun: Begun) {
        let at = begun.at;
        if let Some(before) = self.begun.insert((track, which), begun) {
            self.take_begun(track, before, at, &[]);
        }
    }

    /// It ends, if it had begun. More is known of it by now.
    #[cold]
    pub fn end(&mut self, track: Track, which: u64, at: Cycles, facts: &[Fact]) {
        if let Some(begun) = self.begun.remove(&(track, which)) {
            self.take_begun(track, begun, at, facts);
        }
    }

    /// What somebody does from `from` until `until`, step by step: steps of one name that follow each other
    /// are one span.
    pub fn step(&mut self, track: Track, name: &'static str, [from, until]: [Cycles; 2]) {
        let until = Some(until.max(from));
        match self.begun.get_mut(&(track, 0)) {
            Some(begun) if begun.name == name && begun.until == Some(from) => begun.until = until,
            _ => {
                let begun = Begun {
                    name,
                    at: from,
                    until,
                    facts: SmallVec::new(),
                };
                self.go_on_with(track, 0, begun);
            }
        }
    }

    fn take_begun(&mut self, track: Track, begun: Begun, at: Cycles, facts: &[Fact]) {
        let Begun {
            name,
            at: from,
            until,
            facts: mut all,
        } = begun;
        all.extend_from_slice(facts);
        let until = until.unwrap_or(at);
        self.take(Event::span(track, name, [from, until], &all));
    }

    /// Everything up to this time has happened.
    pub(crate) fn comes_to(&mut self, horizon: Cycles) {
        self.horizon = horizon;
    }

    fn hand_on(&mut self) {
        self.sink.take(&mut self.events, self.horizon);
        self.events.clear();
    }

    /// The run is over, or is to be drawn no further: what has begun ends now.
    pub fn finish(&mut self, at: Cycles) {
        while let Some(((track, _), begun)) = self.begun.pop_first() {
            let open = [("unfinished", Value::Number(1))];
            let open = if begun.until.is_some() {
                &[]
            } else {
                &open[..]
            };
            self.take_begun(track, begun, at, open);
        }
        self.hand_on();
    }
}

/// What a copy of its owner does not have.
#[derive(Debug)]
pub struct NotCopied<T: ?Sized>(pub Option<Box<T>>);

impl<T: ?Sized> Clone for NotCopied<T> {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl<T: ?Sized> Default for NotCopied<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl Memory {
    /// True if somebody draws.
    #[inline(always)]
    pub fn draws(&self) -> bool {
        self.timeline.0.is_some()
    }

    /// The timeline, if somebody draws.
    #[inline(always)]
    pub fn timeline(&mut self) -> Option<&mut Timeline> {
        self.timeline.0.as_deref_mut()
    }

    /// Tells whoever draws of a span.
    #[inline(always)]
    pub fn draw_span(
        &mut self,
        track: Track,
        name: &'static str,
        when: [Cycles; 2],
        facts: &[Fact],
    ) {
        self.draw(|| Event::span(track, name, when, facts));
    }

    /// Tells whoever draws of what happened at once.
    #[inline(always)]
    pub fn draw_moment(&mut self, track: Track, name: &'static str, at: Cycles, facts: &[Fact]) {
        self.draw(|| Event::moment(track, name, at, facts));
    }

    /// Tells whoever draws how high a level is from then on.
    #[inline(always)]
    pub fn draw_level(&mut self, track: Track, at: Cycles, value: usize) {
        self.draw(|| Event::level(track, When::Level(at, value as u64)));
    }

    /// Tells whoever draws that a span begins ([`Timeline::begin`]).
    #[inline(always)]
    pub fn draw_begin(
        &mut self,
        (track, which): (Track, u64),
        name: &'static str,
        at: Cycles,
        facts: &[Fact],
    ) {
        if let Some(timeline) = self.timeline() {
            timeline.begin(track, which, name, at, facts);
        }
    }

    /// Tells whoever draws that it ends ([`Timeline::end`]).
    #[inline(always)]
    pub fn draw_end(&mut self, (track, which): (Track, u64), at: Cycles, facts: &[Fact]) {
        if let Some(timeline) = self.timeline() {
            timeline.end(track, which, at, facts);
        }
    }

    /// Tells whoever draws of what follows each other, each from where the one before ended.
    pub fn draw_stages(&mut self, track: Track, from: Cycles, stages: &[(&'static str, Cycles)]) {
        let mut from = from;
        for &(name, until) in stages {
            self.draw_span(track, name, [from, until], &[]);
            from = until.max(from);
        }
    }

    /// Tells whoever draws of an event.
    #[inline(always)]
    pub fn draw(&mut self, event: impl FnOnce() -> Event) {
        if let Some(timeline) = &mut self.timeline.0 {
            timeline.take(event());
        }
    }
}

#[cfg(test)]
mod tests;
