//! What happened before a cut: to the lines that are shown, to logs and tables, and to epochs.
//!
//! Always true here: of each kind the last events are kept, so that a run of any length takes as much room.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use perdure_hardware::line::{LINE_BYTES, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::Cause;
use perdure_hardware::time::Cycles;
use perdure_hardware::watched::Heard;
use serde_json::{Value, json};

use super::names::Names;
use crate::machine::Machine;
use crate::progress::Passage;

/// Most events of a kind that are kept of one line.
const OF_LINE: usize = 4;
/// Most events of a kind that are kept of the whole machine.
const OF_MACHINE: usize = 24;

/// An event, as far as it is told.
#[derive(Clone, Debug)]
enum Event {
    Heard(Heard),
    Passed(Passage),
    State(Cycles, &'static str),
}

/// What an event is about, so that none crowds out another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Stores(LineNumber),
    Evictions(LineNumber),
    Writes(LineNumber),
    Logs,
    Tables,
    Epochs,
    States,
}

/// The events.
#[derive(Debug, Default)]
pub struct Timeline {
    shown: BTreeSet<LineNumber>,
    lanes: BTreeMap<Lane, VecDeque<Event>>,
}

impl Timeline {
    /// Of these lines, and of the machine.
    pub fn of(shown: impl IntoIterator<Item = LineNumber>) -> Self {
        Self {
            shown: shown.into_iter().collect(),
            lanes: BTreeMap::new(),
        }
    }

    fn keep(&mut self, lane: Lane, event: Event) {
        let most = match lane {
            Lane::Stores(_) | Lane::Evictions(_) | Lane::Writes(_) => OF_LINE,
            _ => OF_MACHINE,
        };
        let kept = self.lanes.entry(lane).or_default();
        if kept.len() == most {
            kept.pop_front();
        }
        kept.push_back(event);
    }

    /// Something was heard of a wrong line, of a log or of a table.
    pub fn hear(&mut self, heard: Heard) {
        let lane = match &heard {
            Heard::Stored { line, .. } => Lane::Stores(*line),
            Heard::Left { line, .. } => Lane::Evictions(*line),
            Heard::Written {
                traffic: Traffic::Log,
                ..
            } => Lane::Logs,
            Heard::Written {
                traffic: Traffic::Metadata,
                ..
            } => Lane::Tables,
            Heard::Written { home, .. } => Lane::Writes(*home),
            Heard::Ordered(_) => return,
        };
        let line = match lane {
            Lane::Stores(line) | Lane::Evictions(line) | Lane::Writes(line) => Some(line),
            _ => None,
        };
        if line.is_none_or(|line| self.shown.contains(&line)) {
            self.keep(lane, Event::Heard(heard));
        }
    }

    /// Takes in what epochs have come to, and what the design has been doing.
    pub fn look(&mut self, machine: &mut Machine) {
        let passages = machine.unpersisted.passages.iter_mut();
        for passage in passages.flat_map(std::mem::take).collect::<Vec<_>>() {
            self.keep(Lane::Epochs, Event::Passed(passage));
        }
        let changes = machine.phase_changes.iter_mut();
        for (at, state, _) in changes.flat_map(std::mem::take).collect::<Vec<_>>() {
            self.keep(Lane::States, Event::State(at, state));
        }
    }

    /// In the order of time.
    pub fn to_json(&self, names: &Names, machine: &Machine, cut: Cycles) -> Value {
        let events = self.lanes.values().flatten();
        let mut events: Vec<(Cycles, Value)> = events
            .map(|event| event.to_json(names, machine))
            .filter(|(at, _)| *at <= cut)
            .collect();
        events.sort_by_key(|(at, _)| *at);
        events.into_iter().map(|(_, event)| event).collect()
    }
}

impl Event {
    fn to_json(&self, names: &Names, machine: &Machine) -> (Cycles, Value) {
        match self {
            Self::Heard(heard) => of_heard(heard, names, machine),
            Self::Passed(Passage::Ended(at, epoch)) => (
                *at,
                json!({"at": at, "what": "epoch-ended", "epoch": epoch}),
            ),
            Self::Passed(Passage::Persisted(at, epoch)) => {
                let passed = json!({"at": at, "what": "epoch-persisted", "epoch": epoch});
                (*at, passed)
            }
            Self::State(at, state) => {
                let state = json!({"at": at, "what": "design-state", "state": state});
                (*at, state)
            }
        }
    }
}

fn of_heard(heard: &Heard, names: &Names, machine: &Machine) -> (Cycles, Value) {
    let of_line = |line: LineNumber| {
        let physical = line * LINE_BYTES as u64;
        let address = names.address(physical).unwrap_or(physical);
        let name = names.thing(machine, physical).name;
        (format!("{address:#x}"), name)
    };
    match heard {
        Heard::Stored { hart, line, at, .. } => {
            let (address, name) = of_line(*line);
            let event =
                json!({"at": at, "what": "store", "hart": hart, "address": address, "name": name});
            (*at, event)
        }
        Heard::Left { line, at, cause } => {
            let (address, name) = of_line(*line);
            let cause = match cause {
                Cause::Replacement => "replacement",
                Cause::CacheBlock => "cache-block instruction",
                Cause::Flush => "flush",
            };
            let event = json!({"at": at, "what": "eviction", "cause": cause, "address": address, "name": name});
            (*at, event)
        }
        Heard::Written {
            module,
            address,
            length,
            home,
            traffic,
            when: [accepted, begins, durable],
        } => {
            let what = match traffic {
                Traffic::Log => "log-write",
                Traffic::Metadata => "table-write",
                Traffic::WriteBack | Traffic::Flush => "write",
            };
            let mut event = json!({
                "at": accepted,
                "what": what,
                "module": machine.hardware.memory.modules()[*module].name,
                "physical_address": format!("{address:#x}"),
                "bytes": length,
                "begins": begins,
                "durable": durable,
            });
            if what == "write" {
                let (address, name) = of_line(*home);
                event["address"] = json!(address);
                event["name"] = json!(name);
            }
            (*accepted, event)
        }
        // Nobody keeps it.
        Heard::Ordered(_) => (0, Value::Null),
    }
}
