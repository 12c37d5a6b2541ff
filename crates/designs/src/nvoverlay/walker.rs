//! The tag walkers (§IV-C), and what follows from them: the recoverable epoch (§V-B).
//!
//! Each domain has a walker. It starts when the domain has advanced, visits every set of the L2 at
//! its rate, and makes every dirty version that is not of the current epoch depart. Then it sends
//! *min-ver* to the master OMC: every version older than that, in this domain, is in NVM.
//!
//! Always true: no dirty version older than `floor` is in a set that the walk under way has visited,
//! nor, between walks, anywhere in the domain. (A transfer that would break this goes through the
//! OMC: `passes_dirty`.)

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::time::Cycles;

use super::{Bug, Nvoverlay};

/// Events of the walkers: this, plus the domain's number.
pub const EVENT_WALK: u32 = 1 << 16;

/// One domain's walker.
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
    /// A domain whose caches are empty.
    pub fn new(epoch: u64) -> Self {
        Self {
            next_set: None,
            floor: epoch,
            min_ver: epoch,
        }
    }
}

impl Nvoverlay {
    /// Starts a domain's walk, unless one is under way: that one is followed by another.
    pub(super) fn start_walk(&mut self, hardware: &mut Hardware, domain: usize, now: Cycles) {
        let epoch = self.domains[domain].epoch;
        let walker = &mut self.domains[domain].walker;
        if walker.next_set.is_some() || walker.floor == epoch {
            return;
        }
        walker.next_set = Some(0);
        walker.floor = epoch;
        if self.bug == Some(Bug::MinVerAtStart) {
            walker.min_ver = epoch;
            self.look_for_recoverable(hardware, now);
        }
        let next = now + self.parameters.walk_step_cycles;
        hardware.events.schedule(next, EVENT_WALK + domain as u32);
    }

    /// A step of a walk.
    pub(super) fn walk(&mut self, hardware: &mut Hardware, domain: usize, now: Cycles) {
        let Some(first) = self.domains[domain].walker.next_set else {
            return;
        };
        let sets = hardware.domains[domain].l2.sets();
        let end = sets.min(first + self.parameters.walk_sets_per_step);
        let mut ready = now;
        for set in first..end {
            let looks_above = self.bug != Some(Bug::WalkSkipsL1);
            let walked = hardware.walk_set(self, domain, set, looks_above, ready);
            ready = walked.ready;
        }
        if end < sets {
            self.domains[domain].walker.next_set = Some(end);
            let next = ready.max(now + self.parameters.walk_step_cycles);
            hardware.events.schedule(next, EVENT_WALK + domain as u32);
            return;
        }
        let walker = &mut self.domains[domain].walker;
        walker.next_set = None;
        walker.min_ver = walker.floor;
        self.look_for_recoverable(hardware, ready);
        self.start_walk(hardware, domain, ready);
    }

    /// The master OMC computes the recoverable epoch from all that it was sent: the newest one that
    /// lies before every *min-ver* and before the kernel's epoch.
    pub(super) fn look_for_recoverable(&mut self, hardware: &mut Hardware, now: Cycles) {
        let ignores_idle = self.bug == Some(Bug::IdleDomainIgnored);
        let walked = (self.domains.iter())
            .filter(|domain| !ignores_idle || domain.walker.next_set.is_none())
            .map(|domain| domain.walker.min_ver)
            .min();
        let walked = walked.unwrap_or(self.newest);
        let recoverable = walked.min(self.kernel_epoch) - 1;
        if recoverable > self.complete {
            self.complete = recoverable;
            self.mnm.complete(hardware, recoverable, now);
        }
    }

    /// Writes every version back that is not its domain's current one, in all domains at once.
    pub(super) fn walk_everything(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        let mut ready = now;
        for domain in 0..self.domains.len() {
            for set in 0..hardware.domains[domain].l2.sets() {
                ready = hardware.walk_set(self, domain, set, true, ready).ready;
            }
        }
        ready
    }
}
