//! The asynchronous cache scan (PiCL §III-C, §IV-A, Fig. 4), and bulk ACS (§IV-C).
//!
//! The scan walks the EID array, which is the last-level cache's or wherever [`super::level`] says,
//! a few sets a step, and writes the lines of its target epochs in place. When the last set is done
//! it flushes the undo buffer, waits until everything that it wrote, and all that the controller had
//! accepted before, is durable, and then has PersistedEID recorded. A routine scan targets one epoch and
//! is opportunistic: it writes when nothing waits at the memory controller. When the scan lags, or
//! somebody waits for durability, it takes all epochs that are due in one pass, as fast as the queue
//! takes them.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Track, Value};

use super::level::Level;
use super::{Because, EVENT_DRAINED, EVENT_SCAN, InCacheLog};

/// Where passes of the scan are drawn.
const SCAN: (Track, u64) = (Track::of_design("cache scan"), 0);

/// The scan's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Nothing is due.
    Idle,
    /// Walking the sets for epochs up to `target`.
    Running {
        /// The newest epoch that this pass persists.
        target: u64,
        /// Sets looked at so far, in the order of the level's walk.
        sets_done: usize,
        /// When everything written so far is durable.
        durable: Cycles,
    },
    /// All sets done; waiting until what was written is durable.
    Draining {
        /// The epoch that is then persisted.
        target: u64,
    },
}

/// A step of a pass, as [`Level::scan`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The newest epoch that this pass persists.
    pub target: u64,
    /// It gives way to every request of harts.
    pub opportunistic: bool,
    /// Where it is in time.
    pub time: Cycles,
    /// When everything written so far is durable.
    pub durable: Cycles,
}

impl<L: Level> InCacheLog<L> {
    /// Starts a pass if an epoch is due and none is running or being recorded.
    pub(super) fn start_scan_if_due(&mut self, hardware: &mut Hardware, now: Cycles) {
        if self.scan != Scan::Idle || self.due <= self.to_announce {
            return;
        }
        self.scan = Scan::Running {
            target: self.due,
            sets_done: 0,
            durable: 0,
        };
        let facts = [("epoch", Value::Number(self.due))];
        (hardware.memory).draw_begin(SCAN, "pass", now, &facts);
        if self.flaws.persists_without_scan {
            self.to_announce = self.due;
            self.start_record(hardware, now);
        }
        if self.flaws.reuses_slot_early {
            self.space.collect(self.due);
        }
        hardware.events.schedule(now, EVENT_SCAN);
    }

    /// True for a routine scan that no later epoch's is waiting for.
    fn scan_is_on_time(&self, target: u64) -> bool {
        target == self.due && target + self.parameters.acs_gap < self.system
    }

    /// One step: looks at a few sets, one a cycle, and writes what it finds.
    pub(super) fn scan_step(&mut self, hardware: &mut Hardware, now: Cycles) {
        let Scan::Running {
            target,
            sets_done,
            durable,
        } = self.scan
        else {
            return;
        };
        let sets = L::scan_steps(hardware);
        let sets_per_step = self.parameters.acs_sets_per_step;
        let end = (sets_done + sets_per_step).min(sets);
        let mut pass = Pass {
            target,
            opportunistic: self.scan_is_on_time(target),
            time: now,
            durable,
        };
        let mut visited = sets_done;
        // Even in a hurry, once the write queue makes it wait it gives way: harts' requests come
        // before what it would write later.
        while visited < end && pass.time - now <= sets_per_step as Cycles {
            if !L::scan(self, hardware, visited, &mut pass) {
                break;
            }
            visited += 1;
        }
        let Pass {
            mut time, durable, ..
        } = pass;
        if visited < sets {
            self.scan = Scan::Running {
                target,
                sets_done: visited,
                durable,
            };
            hardware.events.schedule(time, EVENT_SCAN);
            return;
        }
        self.counters.acs_scans += 1;
        if !self.flaws.announces_before_flush {
            time = self.flush(hardware, Because::Scanned, time);
        }
        // Lines of the target epochs that were evicted before the scan met them may still be on
        // their way: everything that the controller has accepted so far must be durable.
        let durable = if self.flaws.records_beside_lines {
            time
        } else {
            durable.max(hardware.memory.quiet_at()).max(time)
        };
        let facts = [("epoch", Value::Number(target))];
        (hardware.memory).draw_end(SCAN, time, &[]);
        (hardware.memory).draw_begin(SCAN, "drain", time, &facts);
        self.scan = Scan::Draining { target };
        hardware.events.schedule(durable, EVENT_DRAINED);
    }

    /// Everything of the target epochs is durable: PersistedEID may be recorded.
    pub(super) fn scan_drained(&mut self, hardware: &mut Hardware, now: Cycles) {
        let Scan::Draining { target } = self.scan else {
            return;
        };
        self.scan = Scan::Idle;
        hardware.memory.draw_end(SCAN, now, &[]);
        self.to_announce = self.to_announce.max(target);
        self.start_record(hardware, now);
        self.start_scan_if_due(hardware, now);
    }
}
