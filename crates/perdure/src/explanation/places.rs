//! Where the bytes of wrong lines were when the power was cut, and what was on its way to memory.
//!
//! Always true here: it is said of the machine as it stood, before the cut took anything.

use std::collections::BTreeMap;

use perdure_hardware::hierarchy::Held;
use perdure_hardware::line::{Line, Version as Tag, line_of};
use perdure_hardware::time::Cycles;
use serde_json::{Value, json};

use super::copies::{self, Copied, Version};
use super::grouped::Grouped;
use super::names::Names;
use crate::machine::Machine;
use crate::verify::Images;

/// Writes that are shown one by one.
const IN_FLIGHT: usize = 64;

/// Where a line was.
pub struct Shown {
    held: Vec<Held>,
    /// Copies in what memory has of logs and tables.
    copies: Vec<Copied>,
    newest: Line,
    expected: Line,
    found: Line,
}

impl Shown {
    fn versions(&self, line: u64) -> [Version; 3] {
        [
            ("newest", self.newest),
            ("expected", self.expected),
            ("found", self.found),
        ]
        .map(|(name, bytes)| Version { line, name, bytes })
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let places = self.held.iter().map(|held| {
            let versions = self.versions(0).into_iter();
            let same = versions.filter(|version| held.bytes == version.bytes);
            let has: Vec<&str> = same.map(|version| version.name).collect();
            json!({
                "place": held.place,
                "state": held.state,
                "version": (held.version != Tag::NONE).then_some(held.version.0),
                "survives": held.survives,
                "has": has,
            })
        });
        let copies = self.copies.iter().map(|copied| {
            json!({
                "place": format!("the design's area of memory, at {:#x}", copied.address),
                "state": if copied.in_flight { "in flight" } else { "" },
                "version": Value::Null,
                "survives": !copied.in_flight,
                "has": copied.has,
            })
        });
        places.chain(copies).collect()
    }
}

/// Where the lines that are shown were.
pub fn shown(
    machine: &Machine,
    grouped: &Grouped,
    images: &Images,
    at: Cycles,
) -> BTreeMap<u64, Shown> {
    let mut shown: BTreeMap<u64, Shown> = BTreeMap::new();
    for address in grouped.shown() {
        let line = line_of(address);
        let one = Shown {
            held: machine.hardware.whereabouts(&*machine.design, line, at),
            copies: Vec::new(),
            newest: machine.hardware.peek(&*machine.design, line),
            expected: *images.expected.line(address),
            found: *images.found.line(address),
        };
        shown.insert(address, one);
    }
    let versions: Vec<Version> = shown
        .iter()
        .flat_map(|(&line, one)| one.versions(line))
        .collect();
    for (line, copied) in copies::find(machine, &versions, at) {
        if let Some(one) = shown.get_mut(&line) {
            one.copies.push(copied);
        }
    }
    shown
}

/// The writes that the cut took, or could tear.
pub fn in_flight(names: &Names, machine: &Machine, at: Cycles) -> Value {
    let all: Vec<_> = machine.hardware.in_flight(at).collect();
    let shown = all.iter().take(IN_FLIGHT).map(|write| {
        let [begins, durable] = write.when;
        let layout = &machine.layout;
        let what = if layout.log_area.contains(&write.address) {
            "the design's log area".to_owned()
        } else if write.address < layout.contexts.start {
            "the design's registers and tables".to_owned()
        } else {
            names.thing(machine, write.address).name
        };
        json!({
            "module": machine.hardware.memory.modules()[write.module].name,
            "physical_address": format!("{:#x}", write.address),
            "address": names.address(write.address).map(|address| format!("{address:#x}")),
            "bytes": write.length,
            "name": what,
            "begins": begins,
            "durable": durable,
            "fate": if begins <= at { "torn" } else { "lost" },
        })
    });
    json!({"writes": all.len(), "shown": shown.collect::<Vec<_>>()})
}
