//! Wrong lines by what lies there, what says most to a program's author first.
//!
//! Always true here: a line belongs to the first thing of which it has a wrong byte.

use std::collections::BTreeMap;

use perdure_hardware::line::line_of;
use serde_json::{Map, Value, json};

use super::history::Histories;
use super::known::{Kind, Known, Marks};
use super::names::{Class, Names, Thing};
use super::places::Shown;
use super::{FirstDifference, hexadecimal, hexadecimal_word};
use crate::machine::Machine;
use crate::verify::Images;

/// Things that are shown line by line, and lines that are shown of each.
const THINGS: usize = 24;
const LINES: usize = 4;

/// Things with the physical addresses of their wrong lines.
pub struct Order(Vec<(Thing, Vec<u64>)>);

impl Order {
    /// All lines, in order.
    pub fn lines(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|(_, lines)| lines).copied()
    }

    /// Those that are shown.
    pub fn shown(&self) -> impl Iterator<Item = u64> {
        let things = self.0.iter().take(THINGS);
        things
            .flat_map(|(_, lines)| lines.iter().take(LINES))
            .copied()
    }

    /// The process of the first thing that is a process's.
    pub fn process(&self) -> Option<u32> {
        let mut processes = self.0.iter().map(|(thing, _)| thing.process);
        processes.find(|&process| process != 0)
    }
}

/// Orders the wrong lines by what lies at their first wrong bytes.
pub fn order(names: &mut Names, machine: &Machine, images: &Images) -> Order {
    let mut things: BTreeMap<Thing, Vec<u64>> = BTreeMap::new();
    for &address in &images.wrong {
        let (found, expected) = (images.found.line(address), images.expected.line(address));
        let same = found.0.iter().zip(&expected.0).take_while(|(a, b)| a == b);
        let thing = names.thing(machine, address + same.count() as u64);
        things.entry(thing).or_default().push(address);
    }
    let mut things: Vec<_> = things.into_iter().collect();
    // Of variables those first that the program's author has declared.
    things.sort_by_cached_key(|(thing, _)| (thing.class, !names.is_typed(thing)));
    Order(things)
}

/// What is promised: what marks versions, the mark, and the epoch that ran at the cut.
pub type Promised = (Marks, u64, u64);

/// The same with what is wrong.
pub struct Grouped<'a> {
    order: &'a Order,
    /// Of each thing: lines by how they are wrong, and wrong words.
    counted: Vec<(BTreeMap<Kind, u64>, u64)>,
    /// Of lines that are shown, each word that is wrong, with the part that it is of.
    parts: BTreeMap<u64, Vec<(usize, String)>>,
}

impl<'a> Grouped<'a> {
    /// Not judged yet.
    pub fn new(order: &'a Order) -> Self {
        Self {
            order,
            counted: Vec::new(),
            parts: BTreeMap::new(),
        }
    }

    /// Judges the lines that were followed.
    pub fn take(
        &mut self,
        machine: &Machine,
        names: &mut Names,
        heard: &Histories,
        promised: Promised,
    ) {
        for (thing, lines) in &self.order.0 {
            let mut kinds = BTreeMap::new();
            let mut words = 0;
            for address in lines {
                if let Some(known) = heard.lines.get(&line_of(*address)) {
                    *kinds.entry(judged(known, promised).0).or_default() += 1;
                    words += known.wrong_words().len() as u64;
                }
            }
            self.counted.push((kinds, words));
            for &address in lines.iter().take(LINES) {
                let Some(known) = heard.lines.get(&line_of(address)) else {
                    continue;
                };
                let parts = known.wrong_words().into_iter().map(|at| {
                    let byte = address + known.first_wrong_byte(at) as u64;
                    let mine = names.thing(machine, byte);
                    let part = names.address(byte).map(|byte| names.part(&mine, byte));
                    let part = part.unwrap_or_default();
                    // A line may have several things.
                    if mine == *thing {
                        return (at, part);
                    }
                    let whose = mine.name.rsplit('/').next().unwrap_or_default();
                    let apart = if part.starts_with("0x") { " " } else { "" };
                    (at, format!("{whose}{apart}{part}"))
                });
                self.parts.insert(address, parts.collect());
            }
        }
    }

    /// Lines by how they are wrong.
    pub fn kinds(&self) -> Map<String, Value> {
        let mut sums: BTreeMap<Kind, u64> = BTreeMap::new();
        for (kind, count) in self.counted.iter().flat_map(|(kinds, _)| kinds) {
            *sums.entry(*kind).or_default() += count;
        }
        named(&sums)
    }

    /// The lines that are shown.
    pub fn shown(&self) -> impl Iterator<Item = u64> {
        self.order.shown()
    }

    /// All things, and some lines of each.
    pub fn to_json(
        &self,
        names: &Names,
        heard: &Histories,
        shown: &BTreeMap<u64, Shown>,
        promised: Promised,
    ) -> Vec<Value> {
        let things = self.order.0.iter().zip(&self.counted);
        let things = things
            .enumerate()
            .map(|(number, ((thing, lines), counted))| {
                let few = lines.iter().take(if number < THINGS { LINES } else { 0 });
                let few: Vec<Value> = few
                    .filter_map(|&address| {
                        self.line(names, heard, (address, shown.get(&address)), promised)
                    })
                    .collect();
                json!({
                    "class": thing.class,
                    "name": thing.name,
                    "file": thing.file,
                    "process": thing.process,
                    "address": format!("{:#x}", thing.start),
                    "bytes": thing.bytes,
                    "lines": lines.len(),
                    "words": counted.1,
                    "kinds": named(&counted.0),
                    "shown": few,
                })
            });
        things.collect()
    }

    fn line(
        &self,
        names: &Names,
        heard: &Histories,
        (address, shown): (u64, Option<&Shown>),
        promised: Promised,
    ) -> Option<Value> {
        let known = heard.lines.get(&line_of(address))?;
        let (kind, says) = judged(known, promised);
        let parts = self.parts.get(&address).into_iter().flatten();
        let words = parts.map(|(at, part)| {
            json!({
                "word": at,
                "part": part,
                "expected": hexadecimal_word(&known.expected, *at),
                "found": hexadecimal_word(&known.found, *at),
                "newest": hexadecimal_word(&known.newest, *at),
            })
        });
        let store = known.store.map(|store| {
            let epoch = (promised.0 == Marks::Epoch).then_some(store.epoch);
            let instruction = store.writer.instruction;
            json!({
                "hart": store.hart,
                "at": store.at,
                "epoch": epoch,
                "kernel": store.writer.system,
                "instruction": instruction.and_then(|_| heard.code.get(&line_of(address))),
            })
        });
        Some(json!({
            "physical_address": format!("{address:#x}"),
            "address": names.address(address).map(|address| format!("{address:#x}")),
            "kind": kind,
            "says": says,
            "words": words.collect::<Vec<_>>(),
            "expected": hexadecimal(&known.expected),
            "found": hexadecimal(&known.found),
            "stores": known.stores,
            "last_store": store,
            "places": shown.map(Shown::to_json),
        }))
    }

    /// The line to look at first.
    pub fn first(
        &self,
        names: &mut Names,
        heard: &Histories,
        promised: Promised,
        lines: usize,
    ) -> Option<FirstDifference> {
        let (thing, addresses) = self.order.0.first()?;
        let address = *addresses.first()?;
        let known = heard.lines.get(&line_of(address))?;
        let (kind, says) = judged(known, promised);
        let word = known.wrong_words().first().copied().unwrap_or(0);
        let byte = address + known.first_wrong_byte(word) as u64;
        let place = names.address(byte);
        let is_named = !matches!(thing.class, Class::Heap | Class::Anonymous | Class::Stack);
        let symbol = is_named.then(|| {
            let part = place.map(|place| names.part(thing, place));
            format!("{}{}", thing.name, part.unwrap_or_default())
        });
        Some(FirstDifference {
            kind,
            says,
            physical_address: format!("{address:#x}"),
            address: place.map(|place| format!("{place:#x}")),
            symbol,
            epoch: promised.1,
            expected: hexadecimal(&known.expected),
            found: hexadecimal(&known.found),
            lines: lines as u64,
        })
    }
}

fn judged(known: &Known, (marks, promised, executing): Promised) -> (Kind, String) {
    known.judge(marks, promised, executing)
}

fn named(kinds: &BTreeMap<Kind, u64>) -> Map<String, Value> {
    let named = kinds.iter().map(|(kind, count)| {
        let name = match json!(kind) {
            Value::String(name) => name,
            other => other.to_string(),
        };
        (name, json!(count))
    });
    named.collect()
}
