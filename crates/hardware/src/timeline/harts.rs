//! What harts tell: what they waited for.

use super::{Event, Kind, Part, Timeline, Track};
use crate::core_timing::AccessKind;
use crate::hierarchy::Hardware;
use crate::time::Cycles;

/// What a hart waited for, since when, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// For what.
    pub name: &'static str,
    /// From when.
    pub from: Cycles,
    /// Until when.
    pub until: Cycles,
}

/// Where what a hart waits for is drawn.
pub const fn waits(hart: usize) -> Track {
    Track::new(Kind::Harts, Part::Hart(hart), "waits")
}

/// What a hart waits for that made such an access.
const fn name_of(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Fetch => "instruction fetch",
        AccessKind::Load => "load",
        AccessKind::Store => "store",
        AccessKind::Atomic => "atomic",
        AccessKind::Persist(_) => "persist operation",
        AccessKind::Around => "store around the caches",
        AccessKind::Combined => "write-combining buffer",
        AccessKind::Persistence => "persistence instruction",
    }
}

/// What a hart waits for that has no free entry for a store.
pub const STORE_BUFFER: &str = "store buffer full";
/// What it waits for at a fence.
pub const FENCE: &str = "fence";

impl Hardware {
    /// A hart has stood still since `now` if it did so longer than `before`: for an access.
    #[cold]
    pub(crate) fn draw_access(
        &mut self,
        hart: usize,
        kind: AccessKind,
        now: Cycles,
        (before, buffered): (Cycles, u64),
    ) {
        let name = if self.statistics.store_buffer_stall_cycles == buffered {
            name_of(kind)
        } else {
            STORE_BUFFER
        };
        self.draw_wait(hart, name, now, before);
    }

    /// The same, for whatever it is.
    pub fn draw_wait(&mut self, hart: usize, name: &'static str, now: Cycles, before: Cycles) {
        let took = (self.cores[hart].timing.stood_still()).wrapping_sub(before);
        if took > 0 {
            let span = [now, now + took];
            self.memory
                .draw(|| Event::span(waits(hart), name, span, &[]));
        }
    }

    /// From now on, the run is drawn.
    pub fn draw_with(&mut self, timeline: Timeline) {
        self.memory.timeline.0 = Some(Box::new(timeline));
        for core in &mut self.cores {
            if let Some(window) = core.timing.window() {
                window.keep_waits();
            }
        }
    }

    /// What out-of-order cores have told of what they waited for.
    pub fn draw_windows(&mut self) {
        for hart in 0..self.cores.len() {
            let Some(window) = self.cores[hart].timing.window() else {
                continue;
            };
            for Wait { name, from, until } in window.take_waits() {
                let track = waits(hart);
                self.memory
                    .draw(|| Event::span(track, name, [from, until], &[]));
            }
        }
    }
}
