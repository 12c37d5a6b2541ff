//! The asynchronous cache scan (PiCL §III-C, §IV-A, Fig. 4), and bulk ACS (§IV-C).
//!
//! The scan walks the EID array of the last-level cache, a few sets a step, and writes the lines
//! of its target epochs in place. When the last set is done it flushes the undo buffer, waits until
//! everything that it wrote, and all that the controller had accepted before, is durable, and then
//! has PersistedEID recorded. A routine scan targets one epoch and is opportunistic: it writes when
//! nothing waits at the memory controller. When the scan lags, or somebody waits for durability, it
//! takes all epochs that are due in one pass, as fast as the queue takes them.

use perdure_hardware::cache::Slot;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Version};
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;

use super::bugs::Bug;
use super::{EVENT_DRAINED, EVENT_SCAN, Picl};

/// The scan's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Nothing is due.
    Idle,
    /// Walking the sets for epochs up to `target`.
    Running {
        /// The newest epoch that this pass persists.
        target: u64,
        /// Sets looked at so far, in the order of [`Hardware::set_in_walk`].
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

impl Picl {
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
        if self.bug == Some(Bug::PersistWithoutScan) {
            self.to_announce = self.due;
            self.start_record(hardware, now);
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
            mut durable,
        } = self.scan
        else {
            return;
        };
        let sets = hardware.llc.sets();
        let sets_per_step = self.parameters.acs_sets_per_step;
        let end = (sets_done + sets_per_step).min(sets);
        let opportunistic = self.scan_is_on_time(target);
        let mut visited = sets_done;
        let mut time = now;
        // Even in a hurry, once the write queue makes it wait it gives way: harts' requests come
        // before what it would write later.
        'sets: while visited < end && time - now <= sets_per_step as Cycles {
            let set = hardware.set_in_walk(visited);
            time += 1;
            for way in 0..hardware.llc.ways() {
                let slot = Slot((set * hardware.llc.ways() + way) as u32);
                let version = hardware.llc.word(slot).version();
                if !hardware.llc.occupied(slot)
                    || version == Version::NONE
                    || self.epoch_of(version) > target
                {
                    continue;
                }
                let line = hardware.llc.word(slot).line();
                let free = hardware.memory.could_start_at(line * LINE_BYTES as u64);
                if opportunistic && free > time {
                    // What it has written of this set is clean: it looks at the set again then.
                    time = free;
                    break 'sets;
                }
                let port_cycles = hardware.specification.llc.port_cycles;
                time = hardware.take_llc_port(set, time, port_cycles) + port_cycles;
                let snoop_private = self.bug != Some(Bug::ScanSkipsPrivate);
                let (bytes, from_private, ready) = hardware.clean(self, slot, snoop_private, time);
                hardware.statistics.acs_snoops += u64::from(from_private);
                if let Some(bytes) = bytes {
                    hardware.statistics.acs_lines += 1;
                    let done = self.write_in_place(hardware, line, &bytes, Traffic::Flush, ready);
                    time = time.max(done.accepted);
                    durable = durable.max(done.durable);
                }
            }
            visited += 1;
        }
        if visited < sets {
            self.scan = Scan::Running {
                target,
                sets_done: visited,
                durable,
            };
            hardware.events.schedule(time, EVENT_SCAN);
            return;
        }
        hardware.statistics.acs_scans += 1;
        if self.bug != Some(Bug::AnnounceBeforeFlush) {
            self.flush(hardware, time);
        }
        // Lines of the target epochs that were evicted before the scan met them may still be on
        // their way: everything that the controller has accepted so far must be durable.
        durable = durable.max(hardware.memory.quiet_at()).max(time);
        self.scan = Scan::Draining { target };
        hardware.events.schedule(durable, EVENT_DRAINED);
    }

    /// Everything of the target epochs is durable: PersistedEID may be recorded.
    pub(super) fn scan_drained(&mut self, hardware: &mut Hardware, now: Cycles) {
        let Scan::Draining { target } = self.scan else {
            return;
        };
        self.scan = Scan::Idle;
        self.to_announce = self.to_announce.max(target);
        self.start_record(hardware, now);
        self.start_scan_if_due(hardware, now);
    }
}
