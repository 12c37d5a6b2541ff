//! A run's traces: asked of a machine before it runs, and ended when it has.
//!
//! Always true here: a run is the same to the bit, traced or not; and what was written is a whole file at any
//! end of the run, an interrupted one included.

use std::path::Path;

use perdure_hardware::persist_order::{PersistOrder, PersistRow, RowSink};
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Event, NotCopied, Sink, Timeline};
use serde_json::{Map, Value, json};

use crate::champsim::Instructions;
use crate::error::Error;
use crate::machine::Machine;
use crate::request::Prepared;
use crate::shared::Shared;
use crate::timeline::{
    Asked, MOST_BYTES, Names, Ordered, Output, Rows, Windows, Written, format_for, refuse,
};

impl Sink for Shared<Ordered> {
    fn take(&mut self, events: &mut Vec<Event>, horizon: Cycles) {
        self.lock().take(events, horizon);
    }

    fn begins_at(&mut self, from: Cycles) {
        self.lock().begins_at(from);
    }
}

impl RowSink for Shared<Rows> {
    fn take(&mut self, rows: &mut Vec<PersistRow>, horizon: Cycles) {
        self.lock().take(rows, horizon);
    }
}

/// What is written of a run.
pub struct Drawing {
    asked: Asked,
    windows: Windows,
    timeline: Option<Shared<Ordered>>,
    rows: Option<Shared<Rows>>,
    instructions: Option<Shared<Instructions>>,
}

fn refused(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Host {
        what: format!("the trace {}", path.display()),
        source,
    }
}

impl Drawing {
    /// Begins to trace a machine that has not run yet. Where a part of the run is measured, and nothing else
    /// is said, that part is traced.
    pub fn start(asked: &Asked, prepared: &Prepared, machine: &mut Machine) -> Result<Self, Error> {
        let mut windows = asked.windows()?;
        if prepared.workload.region.is_some() && asked.from.is_none() {
            windows.from = Cycles::MAX;
        }
        let mut drawing = Self {
            asked: asked.clone(),
            windows,
            timeline: None,
            rows: None,
            instructions: None,
        };
        if let Some(path) = &asked.file {
            let ordered = drawing.draw(path, prepared, machine)?;
            let timeline = Timeline::new(asked.kinds()?, windows.from, Box::new(ordered.clone()));
            drawing.timeline = Some(ordered);
            machine.hardware.draw_with(timeline);
            machine.begin_drawing();
        }
        let most_bytes = asked.max_bytes.unwrap_or(MOST_BYTES);
        if let Some(path) = &asked.persist_order {
            let output = Output::create(path, most_bytes).map_err(refused(path))?;
            let rows = Shared::new(Rows::new(output));
            let order = PersistOrder::new(Box::new(rows.clone()));
            machine.hardware.memory.persist_order = NotCopied(Some(Box::new(order)));
            drawing.rows = Some(rows);
        }
        if let Some(path) = &asked.champsim {
            let harts = machine.hardware.cores.len();
            let created = Instructions::create(path, harts, windows, most_bytes);
            let files = Shared::new(created.map_err(refused(path))?);
            machine.listener = NotCopied(Some(Box::new(files.clone())));
            drawing.instructions = Some(files);
        }
        Ok(drawing)
    }

    /// Begins the file of the timeline.
    fn draw(
        &self,
        path: &Path,
        prepared: &Prepared,
        machine: &Machine,
    ) -> Result<Shared<Ordered>, Error> {
        let configuration = &prepared.configuration;
        let measures = prepared.workload.region.is_some();
        let clock = configuration.specification.clock();
        let modules = machine.hardware.memory.modules();
        let names = Names {
            modules: modules.iter().map(|module| module.name.clone()).collect(),
            design: configuration.design.name,
        };
        let title = format!(
            "perdure: {} on {}",
            configuration.design.name, configuration.machine
        );
        let about = [
            ("design", configuration.design.name.to_owned()),
            ("machine", configuration.machine.clone()),
            ("configuration_hash", prepared.config_hash.clone()),
            ("timing_version", crate::version::TIMING.to_string()),
            ("clock_mhz", clock.frequency_mhz.to_string()),
            ("traced", self.asked.described(measures)),
        ];
        let most_bytes = self.asked.max_bytes.unwrap_or(MOST_BYTES);
        let output = Output::create(path, most_bytes).map_err(refused(path))?;
        let format = format_for(path, clock)?;
        let ordered = Ordered::new(names, self.windows, format, output, (&title, &about));
        Ok(Shared::new(ordered.map_err(refused(path))?))
    }

    /// The run is over, or was interrupted: ends the files, and says what they have.
    pub fn finish(self, machine: &mut Machine) -> Result<Value, Error> {
        machine.end_drawing();
        // Every file is ended, whatever is said of the first.
        let instructions = self.instructions.as_ref();
        let instructions = instructions.map(|files| files.lock().finish());
        let mut report = Map::new();
        if let (Some(timeline), Some(path)) = (&self.timeline, &self.asked.file) {
            let written = timeline.lock().finish();
            if let Some(trouble) = &written.trouble {
                return refuse(format!("the timeline {}: {trouble}", path.display()));
            }
            report = self.report(&written, path);
        }
        if let (Some(rows), Some(path)) = (&self.rows, &self.asked.persist_order) {
            let mut rows = rows.lock();
            rows.finish().map_err(refused(path))?;
            let value = json!({
                "file": path,
                "rows": rows.count,
                "data_bytes": rows.data_bytes,
                "left_out": rows.left_out,
            });
            report.insert("persist_order".into(), value);
        }
        if let Some(files) = instructions {
            report.insert("champsim".into(), files.map_err(Error::Request)?);
        }
        Ok(Value::Object(report))
    }

    fn report(&self, written: &Written, path: &Path) -> Map<String, Value> {
        let sampled = self.asked.sample.filter(|one_in| *one_in > 1);
        let window_cycles = self.windows.window_cycles;
        let sampled =
            sampled.map(|one_in| json!({"one_in": one_in, "window_cycles": window_cycles}));
        let tracks = written.tracks.iter();
        let tracks = tracks
            .map(|(part, track, events)| json!({"part": part, "track": track, "events": events}));
        let value = json!({
            "file": path,
            "bytes": written.bytes,
            "events": written.events,
            "left_out": written.left_out,
            "full_at_cycle": written.full_at,
            "from_cycle": self.asked.from,
            "to_cycle": self.asked.to,
            "sample": sampled,
            "tracks": tracks.collect::<Vec<_>>(),
        });
        let Value::Object(report) = value else {
            unreachable!("built as an object")
        };
        report
    }
}
