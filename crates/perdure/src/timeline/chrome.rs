//! A timeline as the JSON that Chrome's `about:tracing` began with and many viewers read: an object with
//! `traceEvents`, where a process is a part of the machine and a thread a row of one of its tracks.
//!
//! `ts` and `dur` are in microseconds, as the format has them, with three decimals: nanoseconds of simulated
//! time, rounded down. `cycle` and `cycles` among the arguments are exact.

use std::collections::BTreeMap;
use std::io::{self, Write};

use perdure_hardware::time::{Clock, Cycles};
use perdure_hardware::timeline::{Event, Value};
use serde_json::{Map, Value as Json, json};

use super::ordered::{Format, Place, Row};

/// What has been written so far.
pub struct Chrome {
    clock: Clock,
    places: BTreeMap<Place, u64>,
    /// By the numbers of rows: process and thread.
    rows: BTreeMap<usize, [u64; 2]>,
    written: bool,
}

/// Microseconds with three decimals, as a JSON number has them.
#[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
fn microseconds(nanoseconds: u64) -> Json {
    json!(nanoseconds as f64 / 1000.0)
}

impl Chrome {
    /// A file in which nothing is written yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            places: BTreeMap::new(),
            rows: BTreeMap::new(),
            written: false,
        }
    }

    fn microseconds(&self, at: Cycles) -> Json {
        microseconds(self.clock.whole_nanoseconds(at))
    }

    fn write(&mut self, to: &mut dyn Write, event: &Json) -> io::Result<()> {
        let separator = if self.written { ",\n" } else { "\n" };
        self.written = true;
        to.write_all(separator.as_bytes())?;
        serde_json::to_writer(to, event)?;
        Ok(())
    }

    fn about(
        &mut self,
        to: &mut dyn Write,
        name: &str,
        of: [u64; 2],
        args: &Json,
    ) -> io::Result<()> {
        let [pid, tid] = of;
        let event = json!({"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args});
        self.write(to, &event)
    }

    /// The process of a part of the machine that is new.
    fn place(&mut self, to: &mut dyn Write, place: &Place) -> io::Result<u64> {
        let next = self.places.len() as u64 + 1;
        self.places.insert(place.clone(), next);
        self.about(to, "process_name", [next, 0], &json!({"name": place.name}))?;
        let rank = json!({"sort_index": place.rank});
        self.about(to, "process_sort_index", [next, 0], &rank)?;
        Ok(next)
    }

    /// The process and the thread of a row, which are described when they come first.
    fn track(&mut self, to: &mut dyn Write, row: &Row) -> io::Result<[u64; 2]> {
        if let Some(track) = self.rows.get(&row.number) {
            return Ok(*track);
        }
        let place = match self.places.get(&row.place) {
            Some(place) => *place,
            None => self.place(to, &row.place)?,
        };
        let next = row.number as u64 + 1;
        self.rows.insert(row.number, [place, next]);
        self.about(
            to,
            "thread_name",
            [place, next],
            &json!({"name": row.title}),
        )?;
        self.about(
            to,
            "thread_sort_index",
            [place, next],
            &json!({"sort_index": next}),
        )?;
        Ok([place, next])
    }
}

/// An event without its time.
fn of(
    event: &Event,
    phase: &str,
    [pid, tid]: [u64; 2],
    exact: &[(&str, u64)],
) -> Map<String, Json> {
    let exact = exact.iter().map(|(name, value)| (*name, json!(value)));
    let facts = event.facts.iter().map(|(name, value)| {
        let value = match value {
            Value::Number(number) => json!(number),
            Value::Address(address) => json!(format!("{address:#x}")),
            Value::Text(word) => json!(word),
        };
        (*name, value)
    });
    let args: Map<String, Json> = exact
        .chain(facts)
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let all = json!({"ph": phase, "name": event.name, "pid": pid, "tid": tid, "args": args});
    let Json::Object(all) = all else {
        unreachable!("built as an object")
    };
    all
}

impl Format for Chrome {
    fn begin_file(
        &mut self,
        to: &mut dyn Write,
        title: &str,
        about: &[(&'static str, String)],
    ) -> io::Result<()> {
        let mut other = Map::new();
        other.insert("title".into(), json!(title));
        for (name, text) in about {
            other.insert((*name).to_owned(), json!(text));
        }
        write!(
            to,
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[",
            Json::Object(other)
        )
    }

    fn begin(
        &mut self,
        to: &mut dyn Write,
        row: &Row,
        event: &Event,
        [from, until]: [Cycles; 2],
    ) -> io::Result<()> {
        let track = self.track(to, row)?;
        let exact = [("cycle", from), ("cycles", until - from)];
        let mut all = of(event, "X", track, &exact);
        let [begin, end] = [from, until].map(|at| self.clock.whole_nanoseconds(at));
        all.insert("ts".into(), self.microseconds(from));
        all.insert("dur".into(), microseconds(end - begin));
        self.write(to, &Json::Object(all))
    }

    fn end(&mut self, _: &mut dyn Write, _: &Row, _: Cycles) -> io::Result<()> {
        Ok(())
    }

    fn moment(
        &mut self,
        to: &mut dyn Write,
        row: &Row,
        event: &Event,
        at: Cycles,
    ) -> io::Result<()> {
        let track = self.track(to, row)?;
        let mut all = of(event, "i", track, &[("cycle", at)]);
        all.insert("ts".into(), self.microseconds(at));
        all.insert("s".into(), json!("t"));
        self.write(to, &Json::Object(all))
    }

    fn level(&mut self, to: &mut dyn Write, row: &Row, at: Cycles, value: i64) -> io::Result<()> {
        let [pid, tid] = self.track(to, row)?;
        let event = json!({
            "ph": "C", "name": row.title, "pid": pid, "tid": tid,
            "ts": self.microseconds(at), "args": {"entries": value},
        });
        self.write(to, &event)
    }

    fn end_file(&mut self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(b"\n]}\n")
    }
}
