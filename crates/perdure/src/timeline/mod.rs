//! A run's timeline in a file: what is asked for, and how it comes there.
//!
//! The machine's parts tell what they do ([`perdure_hardware::timeline`]); [`windows`] says what of it is
//! traced, [`ordered`] brings it into the order of time, and [`perfetto`] and [`chrome`] are the formats.
//!
//! Always true here: a run is the same to the bit, traced or not; and what was written is a whole file at any
//! end of the run, an interrupted one included.

mod chrome;
mod ordered;
mod output;
mod perfetto;
mod windows;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perdure_designs::Design;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Event, KINDS, Kind, Sink, Timeline};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::configuration::nearest;
use crate::error::Error;
use crate::machine::Machine;
use crate::request::Prepared;
use chrome::Chrome;
use ordered::{Format, Names, Ordered, Written};
use output::Output;
use perfetto::Perfetto;
use windows::Windows;

/// A window, unless something else is said.
const WINDOW_CYCLES: Cycles = 100_000;
/// A file's most bytes, likewise.
const MOST_BYTES: u64 = 1 << 30;
/// No file is kept smaller: its beginning and its end must fit.
const LEAST_BYTES: u64 = 64 << 10;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asked {
    /// The file; its name says the format.
    pub file: PathBuf,
    /// The first cycle that is traced.
    pub from: Option<Cycles>,
    /// The first one that is not traced any more.
    pub to: Option<Cycles>,
    /// One window in so many.
    pub sample: Option<u64>,
    /// How long a window is.
    pub window_cycles: Option<Cycles>,
    /// The file gets no larger.
    pub max_bytes: Option<u64>,
    /// Only tracks of these kinds.
    pub tracks: Vec<String>,
}

fn refuse<T>(message: String) -> Result<T, Error> {
    Err(Error::Request(message))
}

impl Asked {
    /// Checks what can be checked before the run.
    pub fn check(&self) -> Result<(), Error> {
        self.windows()?;
        self.kinds()?;
        self.format(perdure_hardware::time::Clock { frequency_mhz: 1 })?;
        match self.max_bytes {
            Some(bytes) if bytes < LEAST_BYTES => refuse(format!(
                "--max-bytes {bytes}: must be at least {LEAST_BYTES}"
            )),
            _ => Ok(()),
        }
    }

    fn windows(&self) -> Result<Windows, Error> {
        let (from, until) = (self.from.unwrap_or(0), self.to.unwrap_or(Cycles::MAX));
        if from >= until {
            return refuse(format!(
                "--from {from} --to {until}: nothing lies between; --to is the first cycle that is not traced"
            ));
        }
        if self.sample == Some(0) {
            return refuse("--sample 1/0: keep one window in 1 at least".into());
        }
        match (self.sample, self.window_cycles) {
            (_, Some(0)) => refuse("--window 0: a window has one cycle at least".into()),
            (None, Some(_)) => {
                refuse("--window: needs --sample, which says how many windows are kept".into())
            }
            (sample, window) => Ok(Windows {
                from,
                until,
                one_in: sample.unwrap_or(1),
                window_cycles: window.unwrap_or(WINDOW_CYCLES),
            }),
        }
    }

    fn kinds(&self) -> Result<Vec<Kind>, Error> {
        if self.tracks.is_empty() {
            return Ok(KINDS.iter().map(|(kind, _)| *kind).collect());
        }
        let known = |name: &String| {
            let found = KINDS.iter().find(|(_, known)| known == name);
            found.map(|(kind, _)| *kind).ok_or_else(|| {
                let names: Vec<_> = KINDS.iter().map(|(_, name)| *name).collect();
                let hint = nearest(name, names.iter().copied());
                let hint =
                    hint.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
                Error::Request(format!(
                    "--tracks {name}: there are {}{hint}",
                    names.join(", ")
                ))
            })
        };
        self.tracks.iter().map(known).collect()
    }

    fn format(&self, clock: perdure_hardware::time::Clock) -> Result<Box<dyn Format>, Error> {
        match format_of(&self.file) {
            Some(Kept::Perfetto) => Ok(Box::new(Perfetto::new(clock))),
            Some(Kept::Chrome) => Ok(Box::new(Chrome::new(clock))),
            None => refuse(format!(
                "{}: the name says the format of a timeline: .pftrace (Perfetto's own), .json (Chrome's), or either with .gz behind it",
                self.file.display()
            )),
        }
    }
}

enum Kept {
    Perfetto,
    Chrome,
}

fn format_of(path: &Path) -> Option<Kept> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    match name.rsplit_once('.')?.1 {
        "pftrace" | "perfetto-trace" => Some(Kept::Perfetto),
        "json" => Some(Kept::Chrome),
        _ => None,
    }
}

/// The file, which the machine writes to and the run ends.
#[derive(Clone)]
struct Shared(Arc<Mutex<Ordered>>);

impl Shared {
    fn ordered(&self) -> MutexGuard<'_, Ordered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Shared {
    fn take(&mut self, events: &mut Vec<Event>, horizon: Cycles) {
        self.ordered().take(events, horizon);
    }

    fn begins_at(&mut self, from: Cycles) {
        self.ordered().begins_at(from);
    }
}

/// A timeline that is being drawn.
pub struct Drawing {
    asked: Asked,
    windows: Windows,
    file: Shared,
}

impl Drawing {
    /// Begins to draw a machine that has not run yet. Where a part of the run is measured, and nothing else
    /// is said, that part is traced.
    pub fn start<D: Design>(
        asked: &Asked,
        prepared: &Prepared,
        machine: &mut Machine<D>,
    ) -> Result<Self, Error> {
        let mut windows = asked.windows()?;
        if prepared.workload.region.is_some() && asked.from.is_none() {
            windows.from = Cycles::MAX;
        }
        let configuration = &prepared.configuration;
        let clock = configuration.specification.clock();
        let modules = machine.hardware.memory.modules();
        let names = Names {
            modules: modules.iter().map(|module| module.name.clone()).collect(),
            design: D::NAME,
        };
        let title = format!("perdure: {} on {}", D::NAME, configuration.machine);
        let about = [
            ("design", D::NAME.to_owned()),
            ("machine", configuration.machine.clone()),
            ("configuration_hash", configuration.hash()),
            ("timing_version", crate::version::TIMING.to_string()),
            ("clock_mhz", clock.frequency_mhz.to_string()),
            ("traced", asked.described(prepared)),
        ];
        let whole = |source| Error::Host {
            what: format!("the timeline {}", asked.file.display()),
            source,
        };
        let most_bytes = asked.max_bytes.unwrap_or(MOST_BYTES);
        let output = Output::create(&asked.file, most_bytes).map_err(whole)?;
        let format = asked.format(clock)?;
        let ordered = Ordered::new(names, windows, format, output, (&title, &about));
        let file = Shared(Arc::new(Mutex::new(ordered.map_err(whole)?)));
        let sink = Box::new(file.clone());
        let timeline = Timeline::new(asked.kinds()?, windows.from, sink);
        machine.hardware.draw_with(timeline);
        machine.begin_drawing();
        Ok(Self {
            asked: asked.clone(),
            windows,
            file,
        })
    }

    /// The run is over, or was interrupted: ends the file, and says what it has.
    pub fn finish<D: Design>(self, machine: &mut Machine<D>) -> Result<Value, Error> {
        machine.end_drawing();
        let written = self.file.ordered().finish();
        if let Some(trouble) = &written.trouble {
            return refuse(format!(
                "the timeline {}: {trouble}",
                self.asked.file.display()
            ));
        }
        Ok(self.report(&written))
    }

    fn report(&self, written: &Written) -> Value {
        let sampled =
            self.asked.sample.filter(|one_in| *one_in > 1).map(
                |one_in| json!({"one_in": one_in, "window_cycles": self.windows.window_cycles}),
            );
        let tracks = written
            .tracks
            .iter()
            .map(|(part, track, events)| json!({"part": part, "track": track, "events": events}));
        json!({
            "file": self.asked.file,
            "bytes": written.bytes,
            "events": written.events,
            "left_out": written.left_out,
            "full_at_cycle": written.full_at,
            "from_cycle": self.asked.from,
            "to_cycle": self.asked.to,
            "sample": sampled,
            "tracks": tracks.collect::<Vec<_>>(),
        })
    }
}

impl Asked {
    /// What of the run is traced, for who has the file alone.
    fn described(&self, prepared: &Prepared) -> String {
        let mut said = vec![match (self.from, self.to) {
            (None, None) if prepared.workload.region.is_some() => "the measured region".to_owned(),
            (None, None) => "the whole run".to_owned(),
            (from, None) => format!("from cycle {}", from.unwrap_or(0)),
            (from, Some(to)) => format!("from cycle {} until {to}", from.unwrap_or(0)),
        }];
        if let Some(one_in) = self.sample.filter(|one_in| *one_in > 1) {
            let window = self.window_cycles.unwrap_or(WINDOW_CYCLES);
            let apart = window.saturating_mul(one_in);
            said.push(format!(
                "of that one window of {window} cycles in {one_in}, each whole: those that begin at multiples of {apart}"
            ));
        }
        if !self.tracks.is_empty() {
            said.push(format!("tracks {} alone", self.tracks.join(", ")));
        }
        said.join(", ")
    }
}
