//! Lives through a cut's lives again, and hears what becomes of the lines that were wrong at its end.
//!
//! Always true here: stores are in the order in which the machine made them, so that of each line the
//! versions are, too.

use std::collections::BTreeMap;

use perdure_designs::{Design, Epochs, EpochsOf};
use perdure_hardware::line::{LINE_BYTES, LineNumber, line_of};
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;
use perdure_hardware::watched::{Heard, Watched};

use super::grouped::Order;
use super::known::{Known, Marks, Store};
use super::timeline::Timeline;
use crate::error::Error;
use crate::lives::{Life, Lives};
use crate::machine::{Machine, Pause};
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
}

impl Histories {
    /// Lives to the cut; of the wrong lines it follows those that come first in that order.
    pub fn hear<D: Design>(
        lives: &Lives,
        before: &[Life],
        cut: &Life,
        (images, order, marks): (&Images, &Order, Marks),
    ) -> Result<Self, Error> {
        let mut machine = super::begin::<D>(lives, before)?;
        let addresses = order.lines().take(LINES_MAX);
        let shown = order.shown().map(line_of);
        let start = machine.executing_epoch().saturating_sub(1);
        let lines: BTreeMap<LineNumber, Known> = addresses
            .map(|address| {
                let line = line_of(address);
                let first = machine.hardware.peek(&machine.design, line);
                let [expected, found] = [&images.expected, &images.found];
                let bytes = [*expected.line(address), *found.line(address), first];
                let start = if marks == Marks::Epoch { start } else { 0 };
                (line, Known::new(bytes, start))
            })
            .collect();
        machine.hardware.memory.watched = Some(Box::new(Watched::new(lines.keys().copied())));
        if D::Epochs::WHOSE == Epochs::ByGroup {
            machine.hardware.memory.trace = Some(machine.trace_threads());
        }
        machine.phase_changes = Some(Vec::new());
        machine.unpersisted.passages = Some(Vec::new());
        let mut histories = Self {
            lines,
            timeline: Timeline::of(shown),
            marks,
        };
        histories.follow(&mut machine, cut.cycle)?;
        Ok(histories)
    }

    fn follow<D: Design>(&mut self, machine: &mut Machine<D>, until: Cycles) -> Result<(), Error> {
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
    fn take<D: Design>(&mut self, machine: &mut Machine<D>, ended: Option<u64>) {
        let heard = machine.hardware.memory.watched.as_mut();
        let heard = heard.map(|watched| watched.take()).unwrap_or_default();
        for event in heard {
            if let Heard::Stored {
                hart,
                line,
                at,
                version,
                ref bytes,
            } = event
                && let Some(known) = self.lines.get_mut(&line)
            {
                let epoch = match D::Epochs::of_groups(&mut machine.design) {
                    Some(groups) => groups.epoch_of(version),
                    None => ended.unwrap_or_else(|| machine.executing_epoch()),
                };
                let mark = if self.marks == Marks::Epoch {
                    epoch
                } else {
                    at
                };
                known.close_before(mark);
                known.stored(**bytes, Store { hart, at, epoch });
            }
            if let Heard::Written {
                address, length, ..
            } = event
            {
                self.written(machine, address, length);
            }
            self.timeline.hear(event);
        }
        self.take_saved(machine);
        self.timeline.look(machine);
    }

    /// Memory has changed: a device may have written what no hart has stored.
    fn written<D: Design>(&mut self, machine: &Machine<D>, address: u64, length: usize) {
        let lines = line_of(address)..line_of(address + (length + LINE_BYTES - 1) as u64);
        for (&line, known) in self.lines.range_mut(lines) {
            let bytes = machine.hardware.peek(&machine.design, line);
            if bytes != known.newest && self.marks == Marks::Cycle {
                known.changed(bytes, machine.time());
            }
        }
    }

    /// What was saved past the caches, as of the ends of sharing groups' epochs.
    fn take_saved<D: Design>(&mut self, machine: &mut Machine<D>) {
        let at = machine.time();
        let trace = machine.hardware.memory.trace.as_mut();
        for event in trace.map(std::mem::take).unwrap_or_default() {
            if let Traced::Saved {
                epoch, line, new, ..
            } = event
                && let Some(known) = self.lines.get_mut(&line)
            {
                known.close_before(epoch);
                known.stored(*new, Store { hart: 0, at, epoch });
            }
        }
    }
}
