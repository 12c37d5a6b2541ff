//! The tag walkers (§IV-C), and what follows from them: the recoverable epoch (§V-B).
//!
//! Each sharing group has a walker. It starts when the sharing group has advanced, visits every set of
//! the L2 at its rate, and makes every dirty version that is not of the current epoch depart. Then it
//! sends *min-ver* to the master OMC: every version older than that, in this sharing group, is in NVM.
//!
//! Always true: no dirty version older than `floor` is in a set that the walk under way has visited,
//! nor, between walks, anywhere in the sharing group. (A transfer that would break this goes through the
//! OMC: `passes_dirty`.)

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Track, Value};

use super::Nvoverlay;

/// Events of the walkers: this, plus the sharing group's number.
pub const EVENT_WALK: u32 = 1 << 16;

/// Where a sharing group's walks are drawn.
const fn track(group: usize) -> (Track, u64) {
    (Track::of_design("tag walker").numbered(group), 0)
}

/// One sharing group's walker.
#[derive(Clone, Copy, Debug)]
pub struct Walker {
    /// The next set, while it walks.
    pub next_set: Option<usize>,
    /// The epoch in which the walk began, or the last one if none is under way.
    pub floor: u64,
    /// What the OMC was sent last.
    pub min_ver: u64,
}

impl Walker {
    /// A sharing group whose caches are empty.
    pub fn new(epoch: u64) -> Self {
        Self {
            next_set: None,
            floor: epoch,
            min_ver: epoch,
        }
    }
}

impl Nvoverlay {
    /// Starts a sharing group's walk, unless one is under way: that one is followed by another.
    pub(super) fn start_walk(&mut self, hardware: &mut Hardware, group: usize, now: Cycles) {
        let epoch = self.groups[group].epoch;
        let walker = &mut self.groups[group].walker;
        if walker.next_set.is_some() || walker.floor == epoch {
            return;
        }
        walker.next_set = Some(0);
        walker.floor = epoch;
        let facts = [("epoch", Value::Number(epoch))];
        (hardware.memory).draw_begin(track(group), "walk", now, &facts);
        if self.flaws.sends_min_ver_at_start {
            walker.min_ver = epoch;
            self.look_for_recoverable(hardware, now);
        }
        let next = now + self.parameters.walk_step_cycles;
        hardware.events.schedule(next, EVENT_WALK + group as u32);
    }

    /// A step of a walk.
    pub(super) fn walk(&mut self, hardware: &mut Hardware, group: usize, now: Cycles) {
        let Some(first) = self.groups[group].walker.next_set else {
            return;
        };
        let sets = hardware.groups[group].l2.sets();
        let end = sets.min(first + self.parameters.walk_sets_per_step);
        let mut ready = now;
        for set in first..end {
            let looks_above = !self.flaws.walks_past_l1;
            let walked = hardware.walk_set(self, group, set, looks_above, ready);
            ready = walked.ready;
        }
        if end < sets {
            self.groups[group].walker.next_set = Some(end);
            let next = ready.max(now + self.parameters.walk_step_cycles);
            hardware.events.schedule(next, EVENT_WALK + group as u32);
            return;
        }
        let walker = &mut self.groups[group].walker;
        walker.next_set = None;
        walker.min_ver = walker.floor;
        hardware.memory.draw_end(track(group), ready, &[]);
        self.look_for_recoverable(hardware, ready);
        self.start_walk(hardware, group, ready);
    }

    /// The master OMC computes the recoverable epoch from all that it was sent: the newest one that
    /// lies before every *min-ver* and before the kernel's epoch.
    pub(super) fn look_for_recoverable(&mut self, hardware: &mut Hardware, now: Cycles) {
        let ignores_idle = self.flaws.ignores_idle_group;
        let walked = (self.groups.iter())
            .filter(|group| !ignores_idle || group.walker.next_set.is_none())
            .map(|group| group.walker.min_ver)
            .min();
        let walked = walked.unwrap_or(self.newest);
        let recoverable = walked.min(self.kernel_epoch) - 1;
        if recoverable > self.complete {
            self.complete = recoverable;
            self.mnm.complete(hardware, recoverable, now);
        }
    }

    /// Writes every version back that is not its sharing group's current one, in all sharing groups at
    /// once.
    pub(super) fn walk_everything(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        let mut ready = now;
        for group in 0..self.groups.len() {
            for set in 0..hardware.groups[group].l2.sets() {
                ready = hardware.walk_set(self, group, set, true, ready).ready;
            }
        }
        ready
    }
}
