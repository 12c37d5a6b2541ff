//! Lives through a cut's lives again, and hears what becomes of the lines that were wrong at its end.
//!
//! Always true here: stores are in the order in which the machine made them, so that of each line the
//! versions are, too.

use std::collections::{BTreeMap, BTreeSet};

use perdure_designs::Epochs;
use perdure_hardware::line::{LINE_BYTES, LineNumber, line_of};
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;
use perdure_hardware::watched::{Heard, Watched, Writer};
use perdure_linux::SpaceId;

use super::grouped::Order;
use super::known::{Known, Marks, Store};
use super::timeline::Timeline;
use crate::code_place::{CodePlace, Sources};
use crate::error::Error;
use crate::lives::{Life, Lives};
use crate::machine::{Machine, Pause, SAVES_CONTEXTS};
use crate::source::{Engine, Engines, Source as _};
use crate::verify::Images;

/// Most lines that are followed; of more, those that say most.
pub const LINES_MAX: usize = 1 << 16;

/// How far the run goes before what was heard is taken in.
const STRIDE: Cycles = 100_000;

/// What was heard.
pub struct Histories {
    /// Of the wrong lines.
    pub lines: BTreeMap<LineNumber, Known>,
    /// What happened last.
    pub timeline: Timeline,
    marks: Marks,
    /// Lines that are shown.
    shown: BTreeSet<LineNumber>,
    /// On behalf of which instructions those were stored to last.
    pub code: BTreeMap<LineNumber, CodePlace>,
    /// Instructions that were looked up: numbers of address spaces are used again, by other programs.
    places: BTreeMap<(String, (u32, u64)), CodePlace>,
    sources: Sources,
    /// When the power fails.
    cut: Cycles,
}

impl Histories {
    /// Lives to the cut; of the wrong lines it follows those that come first in that order.
    pub fn hear(
        lives: &Lives,
        before: &[Life],
        cut: &Life,
        (images, order, marks): (&Images, &Order, Marks),
    ) -> Result<Self, Error> {
        let mut machine = super::begin(lives, before)?;
        let addresses = order.lines().take(LINES_MAX);
        let shown: BTreeSet<LineNumber> = order.shown().map(line_of).collect();
        let start = machine.executing_epoch().saturating_sub(1);
        let lines: BTreeMap<LineNumber, Known> = addresses
            .map(|address| {
                let line = line_of(address);
                let first = machine.hardware.peek(&*machine.design, line);
                let [expected, found] = [&images.expected, &images.found];
                let bytes = [*expected.line(address), *found.line(address), first];
                let start = if marks == Marks::Epoch { start } else { 0 };
                (line, Known::new(bytes, start))
            })
            .collect();
        for hart in 0..machine.contexts().count() {
            // It says which instruction stores.
            *machine.source_mut(hart) = Engines::new(Engine::Stepping);
        }
        machine.hardware.memory.watched = Some(Box::new(Watched::new(lines.keys().copied())));
        if machine.facts().epochs == Epochs::ByGroup {
            machine.hardware.memory.trace = Some(machine.trace_threads());
        }
        machine.phase_changes = Some(Vec::new());
        machine.unpersisted.passages = Some(Vec::new());
        let mut histories = Self {
            lines,
            timeline: Timeline::of(shown.iter().copied()),
            marks,
            shown,
            code: BTreeMap::new(),
            places: BTreeMap::new(),
            sources: Sources::default(),
            cut: cut.cycle,
        };
        histories.follow(&mut machine)?;
        Ok(histories)
    }

    fn follow(&mut self, machine: &mut Machine) -> Result<(), Error> {
        let until = self.cut;
        let mut stride = STRIDE;
        let mut next = machine.time() + stride;
        loop {
            let pause = machine.run(until.min(next))?;
            let ended = match pause {
                Pause::EpochEnded(ended) => Some(ended),
                _ => None,
            };
            self.take(machine, ended);
            match pause {
                Pause::Time if until <= next => break,
                Pause::Finished => break,
                Pause::Time => {
                    // While every hart sleeps, ever further.
                    let idle = machine.time() < next.saturating_sub(stride);
                    stride = if idle { stride * 2 } else { STRIDE };
                    next = next.saturating_add(stride);
                }
                Pause::EpochEnded(_) => {}
            }
        }
        // What is of an epoch that has ended is closed by now, or never was stored to again.
        let last = machine.executing_epoch().saturating_sub(1);
        for known in self.lines.values_mut() {
            let in_epochs = self.marks == Marks::Epoch;
            let is_open = known.store.is_some_and(|store| store.epoch > last);
            if in_epochs && !is_open {
                known.close(last);
            }
            known.end();
        }
        Ok(())
    }

    /// Takes in what was heard since the last time.
    fn take(&mut self, machine: &mut Machine, ended: Option<u64>) {
        let heard = machine.hardware.memory.watched.as_mut();
        let heard = heard.map(|watched| watched.take()).unwrap_or_default();
        let mut stored = BTreeSet::new();
        let mut written = Vec::new();
        for mut event in heard {
            if let Heard::Stored {
                hart,
                line,
                ref mut at,
                version,
                ref bytes,
                writer,
            } = event
                && let Some(known) = self.lines.get_mut(&line)
            {
                // What had begun when the power failed is stored, and no other one is heard of.
                *at = writer.began.unwrap_or(*at).min(*at).min(self.cut);
                let at = *at;
                let epoch = match machine.design.group_epochs() {
                    Some(groups) => groups.epoch_of(version),
                    None => ended.unwrap_or_else(|| machine.executing_epoch()),
                };
                let mark = if self.marks == Marks::Epoch {
                    epoch
                } else {
                    at
                };
                known.close_before(mark);
                let store = Store {
                    hart,
                    at,
                    epoch,
                    writer,
                };
                known.stored(**bytes, store);
                if self.shown.contains(&line) {
                    stored.insert(line);
                }
            }
            if let Heard::Written {
                address,
                length,
                when: [accepted, ..],
                ..
            } = event
            {
                written.push((address, length, accepted));
            }
            self.timeline.hear(event);
        }
        // Memory is looked at as it is by now, so after all stores that were made by now.
        for (address, length, at) in written {
            self.written(machine, (address, length), at.min(self.cut));
        }
        self.look_up(machine, &stored);
        self.take_saved(machine);
        self.timeline.look(machine);
    }

    /// Looks up who stored to some lines last, while the program is there.
    fn look_up(&mut self, machine: &Machine, stored: &BTreeSet<LineNumber>) {
        if stored.is_empty() {
            return;
        }
        let kernel = machine.kernel();
        let processes = kernel.live_processes().into_iter();
        let programs: BTreeMap<u32, String> =
            processes.map(|one| (one.space.0, one.executable)).collect();
        for &line in stored {
            let store = self.lines.get(&line).and_then(|known| known.store);
            let instruction = store.and_then(|store| store.writer.instruction);
            let Some((space, address)) = instruction else {
                self.code.remove(&line);
                continue;
            };
            let program = programs.get(&space).cloned().unwrap_or_default();
            let sources = &mut self.sources;
            let place = || sources.place(kernel, SpaceId(space), address);
            let place = (self.places.entry((program, (space, address)))).or_insert_with(place);
            self.code.insert(line, place.clone());
        }
    }

    /// Memory has changed: a device may have written what no hart has stored.
    fn written(&mut self, machine: &Machine, (address, length): (u64, usize), at: Cycles) {
        let lines = line_of(address)..line_of(address + (length + LINE_BYTES - 1) as u64);
        for (&line, known) in self.lines.range_mut(lines) {
            let bytes = machine.hardware.peek(&*machine.design, line);
            if bytes != known.newest && self.marks == Marks::Cycle {
                known.changed(bytes, at);
            }
        }
    }

    /// What was saved past the caches, as of the ends of sharing groups' epochs.
    fn take_saved(&mut self, machine: &mut Machine) {
        let at = machine.time();
        let trace = machine.hardware.memory.trace.as_mut();
        for event in trace.map(std::mem::take).unwrap_or_default() {
            if let Traced::Saved {
                epoch, line, new, ..
            } = event
                && let Some(known) = self.lines.get_mut(&line)
            {
                known.close_before(epoch);
                let writer = Writer {
                    instruction: None,
                    system: Some(SAVES_CONTEXTS),
                    began: None,
                };
                let store = Store {
                    hart: 0,
                    at,
                    epoch,
                    writer,
                };
                known.stored(*new, store);
            }
        }
    }
}
