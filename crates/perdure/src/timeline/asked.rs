//! What is asked of a trace, and what of it can be refused before the run.

use std::path::{Path, PathBuf};

use perdure_hardware::time::{Clock, Cycles};
use perdure_hardware::timeline::{KINDS, Kind};
use serde::{Deserialize, Serialize};

use super::chrome::Chrome;
use super::ordered::Format;
use super::perfetto::Perfetto;
use super::windows::Windows;
use crate::configuration::nearest;
use crate::error::Error;

/// A window, unless something else is said.
const WINDOW_CYCLES: Cycles = 100_000;
/// A file's most bytes, likewise.
pub(crate) const MOST_BYTES: u64 = 1 << 30;
/// No file is kept smaller: its beginning and its end must fit.
const LEAST_BYTES: u64 = 64 << 10;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asked {
    /// The file; its name says the format.
    pub file: Option<PathBuf>,
    /// The rows of the persist order.
    pub persist_order: Option<PathBuf>,
    /// The instructions, for `ChampSim`.
    pub champsim: Option<PathBuf>,
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

pub(crate) fn refuse<T>(message: String) -> Result<T, Error> {
    Err(Error::Request(message))
}

impl Asked {
    /// Checks what can be checked before the run.
    pub fn check(&self) -> Result<(), Error> {
        self.windows()?;
        self.kinds()?;
        if let Some(file) = &self.file {
            format_for(file, Clock { frequency_mhz: 1 })?;
        }
        if self.champsim.is_some() && self.sample.is_some_and(|one_in| one_in > 1) {
            return refuse(
                "--champsim with --sample: a model goes on from instruction to instruction; give --from and --to".into(),
            );
        }
        if [&self.file, &self.persist_order, &self.champsim]
            .iter()
            .all(|file| file.is_none())
        {
            return refuse("a trace goes to a file: give one".into());
        }
        match self.max_bytes {
            Some(bytes) if bytes < LEAST_BYTES => refuse(format!(
                "--max-bytes {bytes}: must be at least {LEAST_BYTES}"
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn windows(&self) -> Result<Windows, Error> {
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

    pub(crate) fn kinds(&self) -> Result<Vec<Kind>, Error> {
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

    /// What of the run, which measures a region or not, is traced: for who has the file alone.
    pub(crate) fn described(&self, measures: bool) -> String {
        let mut said = vec![match (self.from, self.to) {
            (None, None) if measures => "the measured region".to_owned(),
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

/// The format that a file's name says.
pub(crate) fn format_for(file: &Path, clock: Clock) -> Result<Box<dyn Format>, Error> {
    match format_of(file) {
        Some(Kept::Perfetto) => Ok(Box::new(Perfetto::new(clock))),
        Some(Kept::Chrome) => Ok(Box::new(Chrome::new(clock))),
        None => refuse(format!(
            "{}: the name says the format of a timeline: .pftrace (Perfetto's own), .json (Chrome's), or either with .gz behind it",
            file.display()
        )),
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
