//! What the machine tells whoever draws it: what each hart runs, entries to the kernel, epochs.
//!
//! Always true here: nothing is told unless somebody draws, and nothing of it changes the run.

use perdure_designs::{Epochs, Urgency};
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Event, Fact, Kind, Part, Track, Value, waits};

use super::Machine;
use crate::source::Source;

/// The track of epochs that execute: of the machine, or of a sharing group.
const fn executing(part: Part) -> Track {
    Track::new(Kind::Epochs, part, "epoch executing")
}

impl<S: Source> Machine<S> {
    /// Tells what every hart runs, and which epochs execute, when it begins to be drawn.
    pub(crate) fn begin_drawing(&mut self) {
        (0..self.harts.len()).for_each(|hart| self.draw_hart(hart));
        let now = self.time();
        self.draw_phase(self.design.phase(), now);
        match self.facts().epochs {
            Epochs::None => {}
            Epochs::Machine => self.draw_epoch(Part::Machine, self.executing_epoch(), now),
            Epochs::ByGroup => {
                let epoch = self.executing_epoch();
                for group in 0..self.hardware.groups.len() {
                    self.draw_epoch(Part::Group(group), epoch, now);
                }
            }
        }
    }

    /// What is written from now on is in that hart's turn, or in nobody's.
    pub(super) fn order_of(&mut self, hart: Option<usize>) {
        if self.hardware.memory.persist_order.0.is_some() {
            let epoch = self.executing_epoch();
            if let Some(order) = &mut self.hardware.memory.persist_order.0 {
                (order.hart, order.epoch) = (hart, epoch);
            }
        }
    }

    /// The run is over.
    pub(crate) fn end_drawing(&mut self) {
        self.hardware.draw_windows();
        let now = self.time();
        if let Some(mut timeline) = self.hardware.memory.timeline.0.take() {
            timeline.finish(now);
        }
        if let Some(mut order) = self.hardware.memory.persist_order.0.take() {
            order.hand_on(Cycles::MAX);
        }
    }

    /// The measured region begins.
    pub(super) fn draw_from(&mut self, now: Cycles) {
        if let Some(timeline) = self.hardware.memory.timeline() {
            timeline.begins_at(now);
        }
        if let Some(listener) = &mut self.listener.0 {
            listener.begins_at(now);
        }
    }

    /// What the design is doing, since then.
    pub(super) fn draw_phase(&mut self, phase: &'static str, at: Cycles) {
        if let Some(timeline) = self.hardware.memory.timeline() {
            timeline.state(Track::of_design("phase"), phase, at, &[]);
        }
    }

    /// What a hart does may have changed.
    pub(super) fn draw_hart(&mut self, hart: usize) {
        if !self.hardware.memory.draws() {
            return;
        }
        let at = self.clock(hart);
        let state = &self.harts[hart];
        let thread = |running: perdure_linux::Running| {
            [
                ("thread", Value::Number(running.thread.0.into())),
                ("program", Value::Number(running.program.into())),
            ]
        };
        let (name, facts): (_, &[Fact]) = match (state.context.running, state.waits_for) {
            (None, _) => ("idle", &[]),
            (Some(_), Some(epoch)) => (
                "waits until its epoch is persisted",
                &[("epoch", Value::Number(epoch))],
            ),
            (Some(running), None) => ("running", &thread(running)),
        };
        let track = Track::new(Kind::Harts, Part::Hart(hart), "thread");
        if let Some(timeline) = self.hardware.memory.timeline() {
            timeline.state(track, name, at, facts);
        }
    }

    /// A hart was in the kernel from then until now.
    pub(super) fn draw_kernel(&mut self, hart: usize, name: &'static str, from: Cycles) {
        let until = self.clock(hart);
        let track = Track::new(Kind::Harts, Part::Hart(hart), "kernel");
        (self.hardware.memory).draw(|| Event::span(track, name, [from, until], &[]));
    }

    /// A hart that was at `from` stands still until then.
    pub(super) fn draw_standing(
        &mut self,
        hart: usize,
        name: &'static str,
        from: Cycles,
        until: Cycles,
    ) {
        if from < until {
            let span = [from, until];
            (self.hardware.memory).draw(|| Event::span(waits(hart), name, span, &[]));
        }
    }

    /// An epoch executes from then on, and whichever did before has ended.
    pub(super) fn draw_epoch(&mut self, part: Part, epoch: u64, at: Cycles) {
        if let Some(timeline) = self.hardware.memory.timeline() {
            let facts = [("epoch", Value::Number(epoch))];
            timeline.begin(executing(part), 0, "executing", at, &facts);
        }
    }

    /// An epoch of the machine has ended at `before`, and the next one executes from `now` on.
    pub(super) fn draw_epoch_end(&mut self, urgency: Urgency, [before, now]: [Cycles; 2]) {
        if let Some(timeline) = self.hardware.memory.timeline() {
            let why = match urgency {
                Urgency::Routine => "its length",
                Urgency::Overflow => "a full structure of the design",
                Urgency::OutputCommit => "output that somebody waits for",
            };
            let facts = [("ended_by", Value::Text(why))];
            timeline.end(executing(Part::Machine), 0, before, &facts);
            self.draw_epoch(Part::Machine, self.executing_epoch(), now);
        }
    }

    /// Epochs up to that one are persisted, since then.
    pub(super) fn draw_persisted(&mut self, epoch: u64, at: Cycles) {
        if !self.hardware.memory.draws() {
            return;
        }
        let waiting: Vec<_> = self.unpersisted.until(epoch).collect();
        for (epoch, ended) in waiting {
            let track = Track::new(Kind::Epochs, Part::Machine, "epoch ended, not persisted");
            let facts = [("epoch", Value::Number(epoch))];
            let span = [ended, at];
            (self.hardware.memory).draw(|| Event::span(track, "persisting", span, &facts));
        }
    }
}
