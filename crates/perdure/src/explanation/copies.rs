//! Where in its own area of memory a design has bytes of a line: in a log, a table, a slot, a shadow page.
//! They are looked for by themselves, so that no format has to be known.
//!
//! Always true here: lines of zeros are everywhere, and are not looked for.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use perdure_designs::bytes::overlap;
use perdure_hardware::arena::PAGE_BYTES;
use perdure_hardware::hierarchy::InFlight;
use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::time::Cycles;

use crate::machine::Machine;

/// Copies of one version of a line that are told.
const COPIES: usize = 2;

/// A version of a line that is looked for.
pub struct Version {
    /// The line's address.
    pub line: u64,
    /// What it is called.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: Line,
}

/// A copy of a line's bytes among the design's own.
pub struct Copied {
    /// Where it begins.
    pub address: u64,
    /// A write to there is not durable yet.
    pub in_flight: bool,
    /// Which versions are so.
    pub has: Vec<&'static str>,
}

/// What of persistent memory is the design's own.
fn areas(machine: &Machine) -> Vec<Range<u64>> {
    let pools = machine.hardware.memory.map().pools();
    let beside = pools.flat_map(|region| {
        let data = (machine.facts().pool_data)(&region);
        [region.start..data.start, data.end..region.end]
    });
    let log_area = machine.layout.log_area.clone();
    std::iter::once(log_area).chain(beside).collect()
}

/// The first word of a line that is not zero, and how far in.
fn key(line: &Line) -> Option<(&[u8], u64)> {
    let mut words = line.0.chunks_exact(8).zip((0..).step_by(8));
    words.find(|(word, _)| word.iter().any(|&byte| byte != 0))
}

/// All copies, with the lines that they are of: of each version the first ones.
pub fn find(machine: &Machine, versions: &[Version], at: Cycles) -> Vec<(u64, Copied)> {
    let memory = &machine.hardware.memory.arena;
    let areas = areas(machine);
    let area_of = |address: u64| areas.iter().find(|area| area.contains(&address));
    let mut by_word: HashMap<&[u8], Vec<(&Version, u64)>> = HashMap::new();
    for version in versions {
        if let Some((word, offset)) = key(&version.bytes) {
            by_word.entry(word).or_default().push((version, offset));
        }
    }
    let mut places: BTreeMap<(u64, u64), Vec<&'static str>> = BTreeMap::new();
    let mut counts: HashMap<(u64, &str), usize> = HashMap::new();
    let pages = memory
        .written_pages()
        .filter(|&page| area_of(page).is_some());
    for start in pages.flat_map(|page| (page..page + PAGE_BYTES as u64).step_by(8)) {
        let word = memory.slice(start, 8);
        for (version, offset) in by_word.get(&*word).into_iter().flatten() {
            let begins = start.saturating_sub(*offset);
            let fits = area_of(begins).is_some_and(|area| begins + LINE_BYTES as u64 <= area.end);
            if fits && *memory.slice(begins, LINE_BYTES) == version.bytes.0 {
                let count = counts.entry((version.line, version.name)).or_default();
                *count += 1;
                if *count <= COPIES {
                    places
                        .entry((version.line, begins))
                        .or_default()
                        .push(version.name);
                }
            }
        }
    }
    let moving: Vec<InFlight> = machine.hardware.in_flight(at).collect();
    let copied = |((line, address), has): ((u64, u64), _)| {
        let bytes = address..address + LINE_BYTES as u64;
        let touches = |write: &InFlight| {
            overlap(
                &bytes,
                &(write.address..write.address + write.length as u64),
            )
        };
        let copied = Copied {
            address,
            in_flight: moving.iter().any(touches),
            has,
        };
        (line, copied)
    };
    places.into_iter().map(copied).collect()
}
