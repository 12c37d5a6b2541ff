//! From events as the simulation tells them to a file that is in the order of time, on rows in which nothing
//! overlaps.
//!
//! Requests are timed as they are made, so events come ahead of time and out of order; they wait here until
//! the machine's horizon has passed them. What a design dates back further than that is written late, where
//! it belongs all the same: readers sort by time.
//!
//! Always true here:
//! - Spans of one row do not overlap. A track gets another row where a span finds none that is free.
//! - What ends at a time is written before what begins then.
//! - How much waits here is bounded by what is under way in the machine.

use std::collections::BTreeMap;
use std::io::{self, Write};

use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Event, Part, Sink, Track, Value, When};

use super::output::Output;
use super::windows::Windows;

/// A part of the machine, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Where it stands among the others.
    pub rank: i32,
    /// What it is called.
    pub name: String,
}

/// A row of a track.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// The part of the machine.
    pub place: Place,
    /// What the track is called.
    pub title: String,
    /// Where it stands among the part's others.
    pub rank: i32,
    /// Its number among all rows.
    pub number: usize,
}

/// A format in which timelines are written.
pub trait Format: Send {
    /// The first of a file: what is shown, and what is known of it.
    fn begin_file(
        &mut self,
        to: &mut dyn Write,
        title: &str,
        about: &[(&'static str, String)],
    ) -> io::Result<()>;

    /// A span begins in a row, which is free.
    fn begin(
        &mut self,
        to: &mut dyn Write,
        row: &Row,
        event: &Event,
        when: [Cycles; 2],
    ) -> io::Result<()>;

    /// The span of a row ends.
    fn end(&mut self, to: &mut dyn Write, row: &Row, at: Cycles) -> io::Result<()>;

    /// Something happens at once.
    fn moment(
        &mut self,
        to: &mut dyn Write,
        row: &Row,
        event: &Event,
        at: Cycles,
    ) -> io::Result<()>;

    /// A level is that from then on.
    fn level(&mut self, to: &mut dyn Write, row: &Row, at: Cycles, value: i64) -> io::Result<()>;

    /// The last of a file.
    fn end_file(&mut self, to: &mut dyn Write) -> io::Result<()>;
}

/// How parts of the machine are called.
#[derive(Clone, Debug)]
pub struct Names {
    /// The modules', by their numbers.
    pub modules: Vec<String>,
    /// The design's.
    pub design: &'static str,
}

impl Names {
    fn place(&self, part: Part) -> Place {
        let (rank, name) = match part {
            Part::Machine => (0, "machine".into()),
            Part::Hart(hart) => (100 + hart, format!("hart {hart}")),
            Part::Group(group) => (1100 + group, format!("L2 {group}")),
            Part::LastLevel => (2100, "last-level cache".into()),
            Part::Dram => (2101, "DRAM buffer".into()),
            Part::Module(module) => {
                let name = self.modules.get(module).map_or("?", String::as_str);
                (2200 + module, format!("module {name}"))
            }
            Part::Design => (3200, format!("design {}", self.design)),
        };
        Place {
            rank: i32::try_from(rank).unwrap_or(i32::MAX),
            name,
        }
    }

    fn row(&self, track: &Track, rank: usize, number: usize) -> Row {
        let title = match track.number {
            Some(number) => format!("{} {number}", track.name),
            None => track.name.to_owned(),
        };
        Row {
            place: self.place(track.part),
            title,
            rank: i32::try_from(rank).unwrap_or(i32::MAX),
            number,
        }
    }
}

/// What waits for its time.
enum Item {
    End(usize),
    Event(Box<Event>),
}

/// A track, as far as it is written.
struct Drawn {
    /// The numbers of its rows, with when each is free.
    rows: Vec<(usize, Cycles)>,
    /// Events that were written.
    events: u64,
    level: Level,
}

/// A level, of which what is newest at a time is written when time goes on.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    value: i64,
    written: Option<i64>,
    changed_at: Option<Cycles>,
}

/// What was written, for the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Events that are in the file.
    pub events: u64,
    /// Events that are not, because the file was full.
    pub left_out: u64,
    /// The first of these.
    pub full_at: Option<Cycles>,
    /// Bytes of the file.
    pub bytes: u64,
    /// By part and title, the tracks and how many events each has.
    pub tracks: Vec<(String, String, u64)>,
    /// Why there is no more, if writing failed.
    pub trouble: Option<String>,
}

/// Who writes a timeline.
pub struct Ordered {
    names: Names,
    windows: Windows,
    format: Box<dyn Format>,
    output: Output,
    waiting: BTreeMap<(Cycles, u8, u64), Item>,
    sequence: u64,
    tracks: BTreeMap<Track, Drawn>,
    /// Of all tracks.
    rows: Vec<Row>,
    left_out: u64,
    full_at: Option<Cycles>,
    trouble: Option<String>,
}

/// At one time, ends come before everything else.
const END: u8 = 0;
const OTHER: u8 = 1;

impl Ordered {
    /// One that begins the file.
    pub fn new(
        names: Names,
        windows: Windows,
        mut format: Box<dyn Format>,
        mut output: Output,
        (title, about): (&str, &[(&'static str, String)]),
    ) -> io::Result<Self> {
        format.begin_file(&mut output, title, about)?;
        Ok(Self {
            names,
            windows,
            format,
            output,
            waiting: BTreeMap::new(),
            sequence: 0,
            tracks: BTreeMap::new(),
            rows: Vec::new(),
            left_out: 0,
            full_at: None,
            trouble: None,
        })
    }

    /// What is traced begins there.
    pub fn begins_at(&mut self, from: Cycles) {
        self.windows.from = from;
    }

    fn wait(&mut self, at: Cycles, rank: u8, item: Item) {
        self.sequence += 1;
        self.waiting.insert((at, rank, self.sequence), item);
    }

    /// An event, or what the windows leave of it.
    fn enter(&mut self, event: Event) {
        match event.when {
            When::Span(from, until) if from < until => {
                let pieces: Vec<_> = self.windows.pieces(from, until).collect();
                for [begin, end] in pieces {
                    let mut piece = event.clone();
                    piece.when = When::Span(begin, end);
                    if [begin, end] != [from, until] {
                        piece.facts.push(("clipped", Value::Number(1)));
                    }
                    self.wait(begin, OTHER, Item::Event(Box::new(piece)));
                }
            }
            When::Span(at, _) | When::Moment(at) => {
                if self.windows.have(at) {
                    let when = When::Moment(at);
                    let event = Box::new(Event { when, ..event });
                    self.wait(at, OTHER, Item::Event(event));
                }
            }
            When::Change(at, _) | When::Level(at, _) => {
                self.wait(at, OTHER, Item::Event(Box::new(event)));
            }
        }
    }

    /// Writes what has happened before a time.
    fn write_until(&mut self, horizon: Cycles) -> io::Result<()> {
        while let Some(next) = self.waiting.first_entry()
            && next.key().0 < horizon
        {
            let ((at, ..), item) = next.remove_entry();
            match item {
                Item::End(row) => self.format.end(&mut self.output, &self.rows[row], at)?,
                Item::Event(event) => self.write(&event, at)?,
            }
        }
        Ok(())
    }

    fn is_full(&mut self, at: Cycles) -> bool {
        let full = self.output.is_full();
        if full {
            self.left_out += 1;
            self.full_at.get_or_insert(at);
        }
        full
    }

    fn write(&mut self, event: &Event, at: Cycles) -> io::Result<()> {
        match event.when {
            When::Change(..) | When::Level(..) => return self.change(event, at),
            When::Span(..) | When::Moment(_) => {}
        }
        if self.is_full(at) {
            return Ok(());
        }
        let drawn = self.track(event.track);
        drawn.events += 1;
        let When::Span(from, until) = event.when else {
            let row = drawn.rows[0].0;
            return (self.format).moment(&mut self.output, &self.rows[row], event, at);
        };
        let row = self.free_row(event.track, [from, until]);
        (self.format).begin(&mut self.output, &self.rows[row], event, [from, until])?;
        self.wait(until, END, Item::End(row));
        Ok(())
    }

    /// A track, which has a row at least.
    fn track(&mut self, track: Track) -> &mut Drawn {
        let rank = self.tracks.len();
        self.tracks.entry(track).or_insert_with(|| {
            let number = self.rows.len();
            self.rows.push(self.names.row(&track, rank, number));
            Drawn {
                rows: vec![(number, 0)],
                events: 0,
                level: Level::default(),
            }
        })
    }

    /// A row of a track that is free then, and is taken.
    fn free_row(&mut self, track: Track, [from, until]: [Cycles; 2]) -> usize {
        let next = self.rows.len();
        let drawn = self.track(track);
        if let Some((row, free)) = drawn.rows.iter_mut().find(|(_, free)| *free <= from) {
            *free = until;
            return *row;
        }
        let first = drawn.rows[0].0;
        drawn.rows.push((next, until));
        let number = next;
        self.rows.push(Row {
            number,
            ..self.rows[first].clone()
        });
        next
    }

    /// A level changes. What it was before is written, unless that was at the same time.
    fn change(&mut self, event: &Event, at: Cycles) -> io::Result<()> {
        let before = self.track(event.track).level.changed_at;
        if let Some(before) = before.filter(|&before| before != at) {
            self.settle(event.track, before)?;
        }
        let level = &mut self.track(event.track).level;
        match event.when {
            When::Change(_, by) => level.value += by,
            When::Level(_, value) => level.value = i64::try_from(value).unwrap_or(i64::MAX),
            When::Span(..) | When::Moment(_) => {}
        }
        level.changed_at = Some(at);
        Ok(())
    }

    /// Writes what a level has been since then, if that is news.
    fn settle(&mut self, track: Track, since: Cycles) -> io::Result<()> {
        let Level { value, written, .. } = self.track(track).level;
        if written == Some(value) || !self.windows.have(since) || self.is_full(since) {
            return Ok(());
        }
        let drawn = self.track(track);
        drawn.level.written = Some(value);
        drawn.events += 1;
        let row = drawn.rows[0].0;
        (self.format).level(&mut self.output, &self.rows[row], since, value)
    }

    fn try_finish(&mut self) -> io::Result<()> {
        self.write_until(Cycles::MAX)?;
        let levels: Vec<_> = (self.tracks.iter())
            .filter_map(|(track, drawn)| Some((*track, drawn.level.changed_at?)))
            .collect();
        for (track, since) in levels {
            self.settle(track, since)?;
        }
        self.format.end_file(&mut self.output)?;
        self.output.finish()
    }

    /// Writes all that waits, and ends the file.
    pub fn finish(&mut self) -> Written {
        if self.trouble.is_none()
            && let Err(error) = self.try_finish()
        {
            self.trouble = Some(error.to_string());
        }
        let tracks = self.tracks.values().filter(|drawn| drawn.events > 0);
        let tracks = tracks.map(|drawn| {
            let row = &self.rows[drawn.rows[0].0];
            (row.place.clone(), row.title.clone(), drawn.events)
        });
        let mut tracks: Vec<_> = tracks.collect();
        tracks.sort();
        Written {
            events: tracks.iter().map(|track| track.2).sum(),
            left_out: self.left_out,
            full_at: self.full_at,
            bytes: self.output.bytes(),
            tracks: (tracks.into_iter())
                .map(|(place, title, events)| (place.name, title, events))
                .collect(),
            trouble: self.trouble.take(),
        }
    }
}

impl Sink for Ordered {
    fn take(&mut self, events: &mut Vec<Event>, horizon: Cycles) {
        for event in events.drain(..) {
            self.enter(event);
        }
        if self.trouble.is_none()
            && let Err(error) = self.write_until(horizon)
        {
            self.trouble = Some(error.to_string());
        }
        if self.trouble.is_some() {
            self.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests;
