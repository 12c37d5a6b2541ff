//! The machine under a design whose sharing groups have an epoch each (`GroupEpochs`): when a sharing
//! group advances, what is saved then, and how the kernel takes part.
//!
//! Always true:
//! - The contexts of a sharing group's harts, as of the end of an epoch, are saved before any of them
//!   runs in a newer one. They stand between two instructions then: one hart runs at a time.
//! - A hart enters the kernel in the newest epoch of all. So whatever the kernel reads on its behalf
//!   is of no newer epoch, and all that the kernel does is part of that one epoch: a system call is
//!   an event after everything before it.
//! - The kernel's state as of the end of an epoch is saved before it is changed in a newer one.
//! - A hart that runs sees no mapping of a newer epoch than its sharing group's.

use perdure_designs::bytes::Sealed;
use perdure_designs::{GroupEpochs, Urgency};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, line_of};
use perdure_hardware::policy::PolicyFailure;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::Part;
use perdure_hardware::trace::Traced;

use crate::context::MachineRecord;
use crate::machine::Machine;
use crate::source::Source;

impl<S: Source> Machine<S> {
    fn group_epochs(&mut self) -> Option<(&mut dyn GroupEpochs, &mut Hardware)> {
        Some((self.design.group_epochs()?, &mut self.hardware))
    }

    /// The epoch of a hart's sharing group.
    pub(crate) fn epoch_of(&mut self, hart: usize) -> Option<u64> {
        let group = self.hardware.group_of(hart);
        Some(self.design.group_epochs()?.epoch(group))
    }

    /// The oldest epoch that a sharing group is in.
    pub(crate) fn oldest_epoch(&mut self) -> Option<u64> {
        let (groups, hardware) = self.group_epochs()?;
        let all = 0..hardware.groups.len();
        all.map(|group| groups.epoch(group)).min()
    }

    /// A hart got a line of a newer epoch: its sharing group advances, and the access is made again.
    pub(crate) fn catch_up(&mut self, hart: usize) {
        let ahead = self.hardware.cores[hart].ahead.take();
        if let (Some(version), Some((groups, hardware))) = (ahead, self.group_epochs()) {
            let epoch = groups.epoch_of(version);
            if epoch > groups.epoch(hardware.group_of(hart)) {
                self.advance(hart, epoch);
            }
        }
    }

    /// A hart is about to run: if mappings changed in a newer epoch, its sharing group comes to that
    /// one.
    #[inline]
    pub(crate) fn see_mappings(&mut self, hart: usize) {
        let newest = self.mappings_epoch;
        if newest > 0
            && let Some(mine) = self.epoch_of(hart)
            && mine < newest
        {
            self.advance(hart, newest);
        }
    }

    /// A hart is about to enter the kernel: both come to the newest epoch.
    pub(crate) fn kernel_comes_up_to_date(&mut self, hart: usize) {
        let Some((groups, hardware)) = self.group_epochs() else {
            return;
        };
        let mine = groups.epoch(hardware.group_of(hart));
        let newest = groups.executing_epoch();
        if mine < newest {
            self.advance(hart, newest);
        }
        if self.kernel_epoch < newest {
            self.save_kernel(hart, newest);
        }
    }

    /// A hart's sharing group goes on in another epoch, and with it every one that would lag too far
    /// behind.
    fn advance(&mut self, hart: usize, epoch: u64) {
        let now = self.clock(hart);
        self.advance_one(self.hardware.group_of(hart), epoch, now);
        loop {
            let Some((groups, hardware)) = self.group_epochs() else {
                return;
            };
            let newest = groups.executing_epoch();
            let Some(behind) = (0..hardware.groups.len()).find(|&other| groups.lags(other)) else {
                break;
            };
            self.advance_one(behind, newest, now);
        }
        self.kernel_keeps_up(hart);
    }

    /// One sharing group goes on in another epoch; it was told to at `now`. All of its harts stand still
    /// while their contexts are saved.
    fn advance_one(&mut self, group: usize, epoch: u64, now: Cycles) {
        let harts = self.hardware.groups[group].harts.clone();
        let clocks = harts.clone().map(|hart| self.clock(hart));
        let now = clocks.fold(now, Cycles::max);
        let Some((groups, _)) = self.group_epochs() else {
            return;
        };
        let ended = groups.epoch(group);
        debug_assert!(epoch > ended, "epochs only grow");
        let mut ready = now;
        for hart in harts.clone() {
            self.keep_context(hart, ended, epoch - 1);
            self.note_left(hart, epoch - 1, now);
            ready = ready.max(self.save_context(hart, ended, now));
        }
        if let Some((groups, hardware)) = self.group_epochs() {
            ready = hardware.asking("advance", ready, |hardware| {
                groups.advance(hardware, group, epoch, ready)
            });
        }
        if let Some(trace) = &mut self.hardware.memory.trace {
            trace.push(Traced::Advanced { group, epoch });
        }
        if let Some(oldest) = self.oldest_epoch() {
            self.unpersisted.end(oldest - 1, ready);
        }
        self.draw_epoch(Part::Group(group), epoch, now);
        let stall = ready.saturating_sub(now);
        for hart in harts {
            let clock = self.clock(hart);
            let state = &mut self.harts[hart];
            state.epoch_start = state.context.hart.retired;
            state.epoch_start_stores = self.hardware.cores[hart].stores;
            if state.context.running.is_some() {
                self.hardware.cores[hart].timing.stand_still(stall);
                self.hardware.statistics.flush_stall_cycles += stall;
                self.draw_standing(hart, "epoch end", clock, clock + stall);
            }
        }
        self.hardware.statistics.epochs_committed += 1;
    }

    /// Saves a hart's context as of the end of an epoch. Returns when its last line was taken.
    fn save_context(&mut self, hart: usize, epoch: u64, now: Cycles) -> Cycles {
        let bytes = self.harts[hart].context.encode(self.saved_at(hart));
        let old = std::mem::take(&mut self.saved_contexts[hart]);
        let (group, address) = (self.hardware.group_of(hart), self.layout.context(hart));
        let ready = self.save(group, epoch, address, &old, &bytes, now);
        self.saved_contexts[hart] = bytes;
        ready
    }

    /// Saves bytes past the caches, line by line, as of the end of an epoch. `old` is what was saved
    /// there before. Returns when the last line was taken.
    fn save(
        &mut self,
        group: usize,
        epoch: u64,
        address: u64,
        old: &[u8],
        new: &[u8],
        now: Cycles,
    ) -> Cycles {
        let mut ready = now;
        let piece = |bytes: &[u8], start: usize| {
            let mut line = Line::ZERO;
            if let Some(rest) = bytes.get(start..) {
                let length = rest.len().min(LINE_BYTES);
                line.0[..length].copy_from_slice(&rest[..length]);
            }
            line
        };
        for start in (0..new.len()).step_by(LINE_BYTES) {
            let (before, after) = (piece(old, start), piece(new, start));
            let line = line_of(address + start as u64);
            if before == after {
                continue;
            }
            if let Some((groups, hardware)) = self.group_epochs() {
                ready = hardware.asking("save", ready, |hardware| {
                    groups.save(hardware, group, epoch, line, &after, ready)
                });
            }
            self.hardware.statistics.context_lines += 1;
            if let Some(trace) = &mut self.hardware.memory.trace {
                trace.push(Traced::Saved {
                    epoch,
                    line,
                    old: Box::new(before),
                    new: Box::new(after),
                });
            }
        }
        ready
    }

    /// The kernel's state as of now is that of every epoch before `next`: it is saved.
    fn save_kernel(&mut self, hart: usize, next: u64) {
        let ended = self.kernel_epoch;
        self.seal(ended, next - 1);
        self.keep_kernel(ended, next - 1);
        if self.kernel_changed {
            let now = self.clock(hart);
            let mut image = match self.kernel_image() {
                Ok(image) => image,
                Err(problem) => {
                    self.hardware.failure = Some(PolicyFailure(problem));
                    return;
                }
            };
            let record = MachineRecord::new(ended, &image, self.skipped_ns).encode();
            // What an earlier, longer image left behind stays known.
            let old = std::mem::take(&mut self.saved_image);
            image.resize(image.len().next_multiple_of(LINE_BYTES), 0);
            let start = self.layout.kernel.start;
            let group = self.hardware.group_of(hart);
            let mut ready = self.save(group, ended, start, &old, &image, now);
            if let Some(rest) = old.get(image.len()..) {
                image.extend_from_slice(rest);
            }
            let address = self.layout.context(self.harts.len());
            let old = std::mem::take(&mut self.saved_record);
            ready = self.save(group, ended, address, &old, &record, ready);
            self.saved_record = record;
            self.saved_image = image;
            let stall = ready.saturating_sub(now);
            self.hardware.cores[hart].timing.stand_still(stall);
            self.hardware.statistics.flush_stall_cycles += stall;
            self.kernel_changed = false;
        }
        self.kernel_epoch = next;
        let now = self.clock(hart);
        if let Some((groups, hardware)) = self.group_epochs() {
            hardware.asking("kernel_advanced", now, |hardware| {
                groups.kernel_advanced(hardware, next, now);
            });
        }
    }

    /// Nobody can enter the kernel in an epoch that every sharing group has left: so the kernel does not
    /// hold the recoverable epoch back when nobody enters it at all.
    fn kernel_keeps_up(&mut self, hart: usize) {
        if let Some(oldest) = self.oldest_epoch()
            && oldest > self.kernel_epoch
        {
            self.save_kernel(hart, oldest);
        }
    }

    /// An epoch is due in a hart's sharing group; if somebody waits for output, in every sharing group.
    pub(crate) fn end_group_epoch(&mut self, hart: usize, urgency: Urgency) -> u64 {
        let Some((groups, hardware)) = self.group_epochs() else {
            unreachable!("called only for a design with epochs by sharing group");
        };
        let mine = groups.epoch(hardware.group_of(hart));
        let newest = groups.executing_epoch();
        if urgency != Urgency::OutputCommit {
            self.advance(hart, mine + 1);
            return mine;
        }
        // The kernel has been entered in the newest epoch, and everything so far belongs to it.
        self.hardware.statistics.epochs_forced += 1;
        self.hold_files(newest, newest);
        let now = self.clock(hart);
        for group in 0..self.hardware.groups.len() {
            let Some((groups, _)) = self.group_epochs() else {
                break;
            };
            if groups.epoch(group) <= newest {
                self.advance_one(group, newest + 1, now);
            }
        }
        self.kernel_keeps_up(hart);
        let now = self.clock(hart);
        if let Some((groups, hardware)) = self.group_epochs() {
            hardware.asking("persist", now, |hardware| groups.persist(hardware, now));
        }
        self.announced(now);
        newest
    }
}
