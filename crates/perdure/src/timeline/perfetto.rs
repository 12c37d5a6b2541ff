//! A timeline in Perfetto's own format: track events, as `perfetto_trace.proto` has them, of which these are
//! the parts that are used.
//!
//! A file is a sequence of packets and may end behind any of them: one that was cut short is read up to
//! there. Names are said once and have numbers from then on. Time is in nanoseconds of simulated time,
//! rounded down; `cycle` and `cycles` are exact.

use std::collections::BTreeMap;
use std::io::{self, Write};

use perdure_hardware::time::{Clock, Cycles};
use perdure_hardware::timeline::{Event, Value};
use prost::Message;

use super::ordered::{Format, Place, Row};

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
/// Children stand in the order of their ranks.
const EXPLICIT: i32 = 3;
/// What was said before is forgotten; what was said before is needed.
const CLEARED: u32 = 1;
const NEEDED: u32 = 2;
/// All packets are of one sequence.
const SEQUENCE: u32 = 1;
/// The track that all others are below.
const ROOT: u64 = 1;

#[derive(Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    sequence_flags: u32,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
    #[prost(int32, optional, tag = "11")]
    child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    sibling_order_rank: Option<i32>,
}

#[derive(Message)]
struct CounterDescriptor {
    #[prost(string, tag = "6")]
    unit_name: String,
}

#[derive(Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<Annotation>,
    #[prost(int32, tag = "9")]
    kind: i32,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
}

#[derive(Message)]
struct Annotation {
    #[prost(uint64, tag = "1")]
    name_iid: u64,
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(uint64, optional, tag = "7")]
    pointer_value: Option<u64>,
    #[prost(uint64, optional, tag = "17")]
    string_value_iid: Option<u64>,
}

#[derive(Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<Interned>,
    #[prost(message, repeated, tag = "3")]
    debug_annotation_names: Vec<Interned>,
    #[prost(message, repeated, tag = "29")]
    debug_annotation_string_values: Vec<Interned>,
}

/// A name, or a word, with its number.
#[derive(Message)]
struct Interned {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(string, tag = "2")]
    name: String,
}

/// Names that have been said.
#[derive(Default)]
struct Names(BTreeMap<&'static str, u64>);

impl Names {
    /// The number of a name, which is new to `said`.
    fn number(&mut self, name: &'static str, said: &mut Vec<Interned>) -> u64 {
        let next = self.0.len() as u64 + 1;
        *self.0.entry(name).or_insert_with(|| {
            let name = name.to_owned();
            said.push(Interned { iid: next, name });
            next
        })
    }
}

/// What has been written so far.
pub struct Perfetto {
    clock: Clock,
    events: Names,
    facts: Names,
    words: Names,
    /// The numbers of tracks.
    groups: BTreeMap<Place, u64>,
    /// By the numbers of rows.
    rows: BTreeMap<usize, u64>,
    next_uuid: u64,
}

impl Perfetto {
    /// A file in which nothing is written yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            events: Names::default(),
            facts: Names::default(),
            words: Names::default(),
            groups: BTreeMap::new(),
            rows: BTreeMap::new(),
            next_uuid: ROOT + 1,
        }
    }

    fn write(to: &mut dyn Write, packet: Packet) -> io::Result<()> {
        let packet = vec![packet];
        to.write_all(&Trace { packet }.encode_to_vec())
    }

    fn describe(to: &mut dyn Write, descriptor: TrackDescriptor) -> io::Result<()> {
        Self::write(
            to,
            Packet {
                timestamp: None,
                trusted_packet_sequence_id: SEQUENCE,
                track_event: None,
                interned_data: None,
                sequence_flags: NEEDED,
                track_descriptor: Some(descriptor),
            },
        )
    }

    fn uuid(&mut self) -> u64 {
        self.next_uuid += 1;
        self.next_uuid - 1
    }

    /// The track of a part of the machine that is new.
    fn group(&mut self, to: &mut dyn Write, place: &Place) -> io::Result<u64> {
        let uuid = self.uuid();
        self.groups.insert(place.clone(), uuid);
        let descriptor = TrackDescriptor {
            uuid,
            name: place.name.clone(),
            parent_uuid: Some(ROOT),
            counter: None,
            child_ordering: Some(EXPLICIT),
            sibling_order_rank: Some(place.rank),
        };
        Self::describe(to, descriptor)?;
        Ok(uuid)
    }

    /// The number of a row, which is described when it comes first, and its part of the machine with it.
    fn track(&mut self, to: &mut dyn Write, row: &Row, counts: Option<&str>) -> io::Result<u64> {
        if let Some(uuid) = self.rows.get(&row.number) {
            return Ok(*uuid);
        }
        let group = match self.groups.get(&row.place) {
            Some(group) => *group,
            None => self.group(to, &row.place)?,
        };
        let uuid = self.uuid();
        self.rows.insert(row.number, uuid);
        let counter = counts.map(|unit| CounterDescriptor {
            unit_name: unit.to_owned(),
        });
        let descriptor = TrackDescriptor {
            uuid,
            // Rows of one track have one name, and are shown as one.
            name: row.title.clone(),
            parent_uuid: Some(group),
            counter,
            child_ordering: None,
            sibling_order_rank: Some(row.rank),
        };
        Self::describe(to, descriptor)?;
        Ok(uuid)
    }

    fn event(
        &mut self,
        to: &mut dyn Write,
        at: Cycles,
        event: TrackEvent,
        said: InternedData,
    ) -> io::Result<()> {
        let says = !(said.event_names.is_empty()
            && said.debug_annotation_names.is_empty()
            && said.debug_annotation_string_values.is_empty());
        let packet = Packet {
            timestamp: Some(self.clock.whole_nanoseconds(at)),
            trusted_packet_sequence_id: SEQUENCE,
            track_event: Some(event),
            interned_data: says.then_some(said),
            sequence_flags: NEEDED,
            track_descriptor: None,
        };
        Self::write(to, packet)
    }

    /// An event with what is said of it.
    fn named(
        &mut self,
        event: &Event,
        kind: i32,
        track_uuid: u64,
        exact: &[(&'static str, u64)],
    ) -> (TrackEvent, InternedData) {
        let mut said = InternedData::default();
        let name_iid = self.events.number(event.name, &mut said.event_names);
        let exact = exact
            .iter()
            .map(|(name, value)| (*name, Value::Number(*value)));
        let facts = exact.chain(event.facts.iter().copied());
        let mut debug_annotations = Vec::with_capacity(event.facts.len() + 2);
        for (name, value) in facts {
            let mut annotation = Annotation {
                name_iid: self.facts.number(name, &mut said.debug_annotation_names),
                ..Annotation::default()
            };
            match value {
                Value::Number(number) => annotation.uint_value = Some(number),
                Value::Address(address) => annotation.pointer_value = Some(address),
                Value::Text(word) => {
                    let words = &mut said.debug_annotation_string_values;
                    annotation.string_value_iid = Some(self.words.number(word, words));
                }
            }
            debug_annotations.push(annotation);
        }
        let event = TrackEvent {
            debug_annotations,
            kind,
            name_iid: Some(name_iid),
            track_uuid,
            counter_value: None,
        };
        (event, said)
    }
}

impl Format for Perfetto {
    fn begin_file(
        &mut self,
        to: &mut dyn Write,
        title: &str,
        about: &[(&'static str, String)],
    ) -> io::Result<()> {
        let descriptor = TrackDescriptor {
            uuid: ROOT,
            name: title.to_owned(),
            parent_uuid: None,
            counter: None,
            child_ordering: Some(EXPLICIT),
            sibling_order_rank: None,
        };
        let mut said = InternedData::default();
        let name_iid = self
            .events
            .number("about this trace", &mut said.event_names);
        let mut annotations = Vec::new();
        for (name, text) in about {
            annotations.push(Annotation {
                name_iid: self.facts.number(name, &mut said.debug_annotation_names),
                string_value: Some(text.clone()),
                ..Annotation::default()
            });
        }
        let first = Packet {
            timestamp: None,
            trusted_packet_sequence_id: SEQUENCE,
            track_event: None,
            interned_data: None,
            sequence_flags: CLEARED,
            track_descriptor: Some(descriptor),
        };
        Self::write(to, first)?;
        let event = TrackEvent {
            debug_annotations: annotations,
            kind: INSTANT,
            name_iid: Some(name_iid),
            track_uuid: ROOT,
            counter_value: None,
        };
        self.event(to, 0, event, said)
    }

    fn begin(
        &mut self,
        to: &mut dyn Write,
        row: &Row,
        event: &Event,
        [from, until]: [Cycles; 2],
    ) -> io::Result<()> {
        let track = self.track(to, row, None)?;
        let exact = [("cycle", from), ("cycles", until - from)];
        let (event, said) = self.named(event, SLICE_BEGIN, track, &exact);
        self.event(to, from, event, said)
    }

    fn end(&mut self, to: &mut dyn Write, row: &Row, at: Cycles) -> io::Result<()> {
        let track_uuid = self.track(to, row, None)?;
        let event = TrackEvent {
            kind: SLICE_END,
            track_uuid,
            ..TrackEvent::default()
        };
        self.event(to, at, event, InternedData::default())
    }

    fn moment(
        &mut self,
        to: &mut dyn Write,
        row: &Row,
        event: &Event,
        at: Cycles,
    ) -> io::Result<()> {
        let track = self.track(to, row, None)?;
        let (event, said) = self.named(event, INSTANT, track, &[("cycle", at)]);
        self.event(to, at, event, said)
    }

    fn level(&mut self, to: &mut dyn Write, row: &Row, at: Cycles, value: i64) -> io::Result<()> {
        let track_uuid = self.track(to, row, Some("entries"))?;
        let event = TrackEvent {
            kind: COUNTER,
            track_uuid,
            counter_value: Some(value),
            ..TrackEvent::default()
        };
        self.event(to, at, event, InternedData::default())
    }

    fn end_file(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
