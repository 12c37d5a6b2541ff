//! A store's answers as JSON. Keys are fixed: programs read them (docs/travel.md describes them).

use std::path::PathBuf;

use perdure_hardware::line::{LINE_BYTES, LineNumber, lines_of};
use perdure_linux::PAGE_BYTES;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::place::Place;
use super::values::Kind;
use super::{Answer, Process, Snapshots, SnapshotsError, asked};
use crate::hexadecimal;

/// Most bytes that one answer shows.
const READ_BYTES_MAX: usize = 16 << 20;

/// A question.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
enum Question {
    Epochs,
    Read {
        what: String,
        epoch: Option<u64>,
        #[serde(rename = "type")]
        kind: Option<String>,
        count: Option<usize>,
        process: Option<u32>,
    },
    History {
        what: String,
        #[serde(rename = "type")]
        kind: Option<String>,
        count: Option<usize>,
        process: Option<u32>,
    },
    Diff {
        from: u64,
        to: u64,
        process: Option<u32>,
    },
    Dump {
        epoch: Option<u64>,
        file: PathBuf,
        process: Option<u32>,
    },
}

/// What to show of a place.
#[derive(Clone, Copy, Debug)]
struct Shape {
    kind: Kind,
    count: usize,
}

impl Shape {
    /// As asked for; else as the symbol's size suggests; else one word.
    fn new(place: &Place, kind: Option<&str>, count: Option<usize>) -> Answer<Self> {
        let symbol = place.symbol.as_ref();
        let rest = symbol.and_then(|symbol| symbol.bytes.checked_sub(symbol.offset));
        let rest = rest.filter(|&rest| rest > 0);
        let kind = match kind {
            Some(name) => Kind::named(name)?,
            None => Kind::of_size(rest.unwrap_or(8)),
        };
        let fitting = rest.map(|rest| (rest as usize / kind.bytes()).max(1));
        if let (Some(symbol), Some(fitting), Some(count)) = (symbol, fitting, count)
            && count > fitting
        {
            return asked(format!(
                "--count {count}: of {}, {} bytes are left there, for {fitting} of {}; name the type with --type, or an address to read beyond it",
                symbol.name,
                rest.unwrap_or(0),
                kind.name(),
            ));
        }
        let most = READ_BYTES_MAX / kind.bytes();
        let count = count.unwrap_or(fitting.unwrap_or(1).min(most));
        if count == 0 || kind.bytes().saturating_mul(count) > READ_BYTES_MAX {
            return asked(format!(
                "--count {count}: must be at least 1, and {READ_BYTES_MAX} bytes in all at most"
            ));
        }
        Ok(Self { kind, count })
    }

    fn bytes(self) -> usize {
        self.kind.bytes() * self.count
    }

    fn values(self, bytes: &[u8]) -> Vec<Value> {
        let values = bytes.chunks_exact(self.kind.bytes());
        values.map(|bytes| self.kind.value(bytes)).collect()
    }
}

/// Frames behind the pages of something, each if it has one.
type Frames = Vec<Option<u64>>;

/// From the first to the last epoch: where it is, if it is anywhere.
type Run = (u64, u64, Option<(Process, Frames)>);

impl Snapshots {
    /// Answers a question in JSON by JSON.
    pub fn ask(&self, question: &str) -> Answer<String> {
        let question = serde_json::from_str(question)
            .map_err(|error| SnapshotsError::Asked(format!("question: {error}")))?;
        let answer = match question {
            Question::Epochs => self.answer_epochs()?,
            Question::Read {
                what,
                epoch,
                kind,
                count,
                process,
            } => self.answer_read(&what, epoch, kind.as_deref(), count, process)?,
            Question::History {
                what,
                kind,
                count,
                process,
            } => self.answer_history(&what, kind.as_deref(), count, process)?,
            Question::Diff { from, to, process } => {
                let (from, to) = (self.epoch(Some(from))?, self.epoch(Some(to))?);
                self.compare(from, to, process)?
            }
            Question::Dump {
                epoch,
                file,
                process,
            } => self.dump(self.epoch(epoch)?, &file, process)?,
        };
        Ok(answer.to_string())
    }

    fn answer_epochs(&self) -> Answer<Value> {
        let oldest = *self.store.held().start();
        let end = self.layout.kernel.end / LINE_BYTES as u64;
        let mut machine_lines = vec![0u64; self.store.epochs().len()];
        for (line, epoch, _) in self.store.versions() {
            let at = epoch.saturating_sub(oldest) as usize;
            if let Some(count) = machine_lines.get_mut(at).filter(|_| line < end) {
                *count += 1;
            }
        }
        let mut epochs = Vec::new();
        for (summary, machine) in self.store.epochs().iter().zip(machine_lines) {
            let alive = self.mappings(summary.epoch)?;
            let processes: Vec<u32> = alive.processes().iter().map(|(id, _)| *id).collect();
            epochs.push(json!({
                "epoch": summary.epoch,
                "versions": summary.versions,
                "program_lines": summary.versions - machine,
                "machine_lines": machine,
                "writers": summary.writers,
                "virtual_ns": self.clock_ns(summary.epoch)?,
                "processes": processes,
            }));
        }
        Ok(json!({
            "store": self.directory,
            "manifest": self.manifest,
            "default_epoch": self.epoch(None)?,
            "epochs": epochs,
        }))
    }

    fn answer_read(
        &self,
        what: &str,
        epoch: Option<u64>,
        kind: Option<&str>,
        count: Option<usize>,
        process: Option<u32>,
    ) -> Answer<Value> {
        let epoch = self.epoch(epoch)?;
        let place = self.place(what, process, epoch)?;
        let shape = Shape::new(&place, kind, count)?;
        let length = shape.bytes();
        let bytes = self.at(&place, length, epoch)?;
        let physical = match place.process {
            None => Some(place.address),
            Some(process) => self
                .frame(process, place.address / PAGE_BYTES, epoch)?
                .map(|frame| frame * PAGE_BYTES + place.address % PAGE_BYTES),
        };
        let written = self.written_at(&place, length, epoch)?;
        let mut answer = Map::new();
        answer.insert("epoch".into(), json!(epoch));
        describe(&mut answer, &place, shape);
        answer.insert(
            "physical".into(),
            json!(physical.map(|at| format!("{at:#x}"))),
        );
        answer.insert(
            "written".into(),
            json!(written.map(|(epoch, writer)| { json!({"epoch": epoch, "writer": writer}) })),
        );
        answer.insert("values".into(), json!(shape.values(&bytes)));
        answer.insert("bytes".into(), json!(hexadecimal::of(&bytes)));
        Ok(Value::Object(answer))
    }

    /// Bytes at a place.
    fn at(&self, place: &Place, length: usize, epoch: u64) -> Answer<Vec<u8>> {
        match place.process {
            None => self.physical(place.address, length, epoch),
            Some(process) => self.memory(process, place.address, length, epoch),
        }
    }

    /// Who wrote the newest version of it.
    fn written_at(&self, place: &Place, length: usize, epoch: u64) -> Answer<Option<(u64, u16)>> {
        let Some(process) = place.process else {
            return Ok(self.written(lines_of(place.address, length), epoch));
        };
        let frames = self.frames(process, place.address, length, epoch)?;
        Ok(self.written(lines(&frames, place.address, length).into_iter(), epoch))
    }

    fn frames(&self, process: Process, address: u64, length: usize, epoch: u64) -> Answer<Frames> {
        let last = address.saturating_add(length.max(1) as u64 - 1);
        let pages = address / PAGE_BYTES..=last / PAGE_BYTES;
        pages.map(|page| self.frame(process, page, epoch)).collect()
    }

    fn answer_history(
        &self,
        what: &str,
        kind: Option<&str>,
        count: Option<usize>,
        process: Option<u32>,
    ) -> Answer<Value> {
        let place = self.place(what, process, self.epoch(None)?)?;
        let shape = Shape::new(&place, kind, count)?;
        let mut entries = Vec::new();
        let mut last: Option<Vec<u8>> = None;
        for point in self.points(&place, shape.bytes())? {
            let Point { epoch, writer, of } = point;
            let bytes = match of {
                None => None,
                Some(read_at) => Some(self.at(
                    &read_at,
                    shape.bytes(),
                    epoch.max(*self.store.held().start()),
                )?),
            };
            let changed = bytes != last;
            entries.push(json!({
                "epoch": epoch,
                "writer": writer,
                "changed": changed,
                "values": bytes.as_ref().map(|bytes| shape.values(bytes)),
                "bytes": bytes.as_ref().map(|bytes| hexadecimal::of(bytes)),
            }));
            last = bytes;
        }
        let mut answer = Map::new();
        describe(&mut answer, &place, shape);
        answer.insert("versions".into(), json!(entries));
        Ok(Value::Object(answer))
    }

    /// The epochs at whose ends something may have another value than before, in order.
    fn points(&self, place: &Place, length: usize) -> Answer<Vec<Point>> {
        let held = self.store.held();
        let (oldest, newest) = (*held.start(), *held.end());
        let mut points = Vec::new();
        let Some(process) = place.process else {
            let lines: Vec<LineNumber> = lines_of(place.address, length).collect();
            let first = self.written(lines.iter().copied(), oldest);
            points.push(Point::new(oldest, first, Some(place.clone())));
            self.later(&mut points, &lines, (oldest, newest), place);
            return Ok(points);
        };
        // Runs of epochs in which the same frames are behind it.
        let mut runs: Vec<Run> = Vec::new();
        for (first, last) in self.kernel_spans() {
            let mappings = self.mappings(first)?;
            let known = mappings
                .processes()
                .iter()
                .find(|(id, _)| *id == process.id);
            let process = known.map(|&(id, space)| Process { id, space });
            let mapped = process.filter(|process| mappings.is_mapped(process.space, place.address));
            let frames = match mapped {
                Some(process) => {
                    Some((process, self.frames(process, place.address, length, first)?))
                }
                None => None,
            };
            match runs.last_mut() {
                Some((_, end, same)) if *same == frames => *end = last,
                _ => runs.push((first, last, frames)),
            }
        }
        for (first, last, frames) in runs {
            let Some((process, frames)) = frames else {
                if !points.is_empty() {
                    points.push(Point::new(first, None, None));
                }
                continue;
            };
            let place = Place {
                process: Some(process),
                ..place.clone()
            };
            let lines = lines(&frames, place.address, length);
            let written = self.written(lines.iter().copied(), first);
            // A frame that came with this epoch may have been somebody else's before.
            let written = written
                .filter(|(epoch, _)| *epoch == first || points.is_empty() && first == oldest);
            points.push(Point::new(first, written, Some(place.clone())));
            self.later(&mut points, &lines, (first, last), &place);
        }
        Ok(points)
    }

    /// The versions of lines after the first and up to the last of these epochs.
    fn later(
        &self,
        points: &mut Vec<Point>,
        lines: &[LineNumber],
        (first, last): (u64, u64),
        place: &Place,
    ) {
        let versions = lines.iter().flat_map(|&line| self.store.versions_of(line));
        let mut versions: Vec<(u64, u16)> = versions
            .filter(|(epoch, _)| *epoch > first && *epoch <= last)
            .collect();
        versions.sort_unstable();
        versions.dedup_by_key(|(epoch, _)| *epoch);
        points.extend(
            versions
                .into_iter()
                .map(|version| Point::new(version.0, Some(version), Some(place.clone()))),
        );
    }
}

/// A point in a history: where to read, if it is anywhere.
struct Point {
    epoch: u64,
    writer: Option<u16>,
    of: Option<Place>,
}

impl Point {
    fn new(epoch: u64, written: Option<(u64, u16)>, of: Option<Place>) -> Self {
        Self {
            epoch: written.map_or(epoch, |(epoch, _)| epoch),
            writer: written.map(|(_, writer)| writer),
            of,
        }
    }
}

/// The physical lines of something that lies in those frames.
fn lines(frames: &[Option<u64>], address: u64, length: usize) -> Vec<LineNumber> {
    let end = address.saturating_add(length.max(1) as u64);
    let first = address / PAGE_BYTES;
    let mut lines = Vec::new();
    for (frame, page) in frames.iter().zip(first..) {
        let Some(frame) = frame else { continue };
        let start = address.max(page * PAGE_BYTES) % PAGE_BYTES;
        let stop = end.min((page + 1) * PAGE_BYTES) - page * PAGE_BYTES;
        lines.extend(lines_of(
            frame * PAGE_BYTES + start,
            (stop - start) as usize,
        ));
    }
    lines
}

fn describe(answer: &mut Map<String, Value>, place: &Place, shape: Shape) {
    let symbol = place.symbol.as_ref().map(|symbol| {
        json!({
            "name": symbol.name,
            "offset": symbol.offset,
            "bytes": symbol.bytes,
            "file": symbol.file,
        })
    });
    let address = format!("{:#x}", place.address);
    answer.insert("address".into(), json!(address));
    answer.insert(
        "process".into(),
        json!(place.process.map(|process| process.id)),
    );
    answer.insert("symbol".into(), json!(symbol));
    answer.insert("type".into(), json!(shape.kind.name()));
}
