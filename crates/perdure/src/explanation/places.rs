//! Where the bytes of wrong lines were when the power was cut, and what was on its way to memory.
//!
//! Always true here: it is said of the machine as it stood, before the cut took anything.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use perdure_designs::Design;
use perdure_hardware::arena::PAGE_BYTES;
use perdure_hardware::hierarchy::{Held, InFlight};
use perdure_hardware::line::{LINE_BYTES, Line, Version};
use perdure_hardware::time::Cycles;
use serde_json::{Value, json};

use super::grouped::Grouped;
use super::names::Names;
use crate::machine::Machine;
use crate::verify::Images;

/// Writes that are shown one by one.
const IN_FLIGHT: usize = 64;

/// Copies of one version of a line in the design's area of memory that are told.
const COPIES: usize = 2;

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
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let places = self.held.iter().map(|held| {
            let has: Vec<&str> = [
                ("newest", &self.newest),
                ("expected", &self.expected),
                ("found", &self.found),
            ]
            .into_iter()
            .filter(|(_, bytes)| held.bytes == **bytes)
            .map(|(name, _)| name)
            .collect();
            json!({
                "place": held.place,
                "state": held.state,
                "version": (held.version != Version::NONE).then_some(held.version.0),
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

/// A copy of a line's bytes among the design's own.
struct Copied {
    address: u64,
    /// A write to there is not durable yet.
    in_flight: bool,
    /// Which versions are so.
    has: Vec<&'static str>,
}

/// Where the lines that are shown were.
pub fn shown<D: Design>(
    machine: &Machine<D>,
    grouped: &Grouped,
    images: &Images,
    at: Cycles,
) -> BTreeMap<u64, Shown> {
    let mut shown: BTreeMap<u64, Shown> = BTreeMap::new();
    for address in grouped.shown() {
        let line = address / LINE_BYTES as u64;
        let one = Shown {
            held: machine.hardware.whereabouts(&machine.design, line, at),
            copies: Vec::new(),
            newest: machine.hardware.peek(&machine.design, line),
            expected: *images.expected.line(address),
            found: *images.found.line(address),
        };
        shown.insert(address, one);
    }
    look_for_copies(machine, &mut shown, at);
    shown
}

/// What of persistent memory is the design's own.
fn areas<D: Design>(machine: &Machine<D>) -> Vec<Range<u64>> {
    let pools = machine.hardware.memory.map().pools();
    let beside = pools.flat_map(|region| {
        let data = D::pool_data(&region);
        [region.start..data.start, data.end..region.end]
    });
    let log_area = machine.layout.log_area.clone();
    std::iter::once(log_area).chain(beside).collect()
}

/// Looks where the design keeps copies of lines in memory: it knows no format, only bytes. Lines of zeros are
/// everywhere, and are not looked for.
fn look_for_copies<D: Design>(machine: &Machine<D>, shown: &mut BTreeMap<u64, Shown>, at: Cycles) {
    let memory = &machine.hardware.memory.arena;
    let areas = areas(machine);
    let moving: Vec<_> = machine.hardware.in_flight(at).collect();
    // By its first word that is not zero: which line, which version, and where in it the word is.
    let mut wanted: HashMap<&[u8], Vec<(u64, &'static str, Line, u64)>> = HashMap::new();
    let versions = shown.iter().flat_map(|(&address, one)| {
        let named = [
            ("newest", one.newest),
            ("expected", one.expected),
            ("found", one.found),
        ];
        named.map(|(name, bytes)| (address, name, bytes))
    });
    let versions: Vec<(u64, &'static str, Line)> = versions.collect();
    for (address, name, bytes) in &versions {
        let words = bytes.0.chunks_exact(8).zip(0..);
        if let Some((word, place)) = words
            .into_iter()
            .find(|(word, _)| word.iter().any(|&byte| byte != 0))
        {
            let all = wanted.entry(word).or_default();
            all.push((*address, *name, *bytes, place * 8));
        }
    }
    let area_of = |address: &u64| areas.iter().find(|area| area.contains(address));
    let pages = memory
        .written_pages()
        .filter(|page| area_of(page).is_some());
    for start in pages.flat_map(|page| (page..page + PAGE_BYTES as u64).step_by(8)) {
        let word = memory.slice(start, 8);
        for (address, name, bytes, before) in wanted.get(&*word).into_iter().flatten() {
            let begins = start - before;
            let ends = begins + LINE_BYTES as u64;
            let fits = area_of(&begins).is_some_and(|area| ends <= area.end);
            if !fits || *memory.slice(begins, LINE_BYTES) != bytes.0 {
                continue;
            }
            let Some(one) = shown.get_mut(address) else {
                continue;
            };
            if let Some(known) = one.copies.iter_mut().find(|one| one.address == begins) {
                known.has.push(name);
                continue;
            }
            if one
                .copies
                .iter()
                .filter(|one| one.has.contains(name))
                .count()
                < COPIES
            {
                let overlaps = |write: &InFlight| {
                    write.address < ends && begins < write.address + write.length as u64
                };
                one.copies.push(Copied {
                    address: begins,
                    in_flight: moving.iter().any(overlaps),
                    has: vec![*name],
                });
            }
        }
    }
}

/// The writes that the cut took, or could tear.
pub fn in_flight<D: Design>(names: &Names, machine: &Machine<D>, at: Cycles) -> Value {
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
