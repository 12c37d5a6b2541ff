//! The machine under a design whose domains have an epoch each (`DomainEpochs`): when a domain
//! advances, what is saved then, and how the kernel takes part.
//!
//! Always true:
//! - The contexts of a domain's harts, as of the end of an epoch, are saved before any of them runs in
//!   a newer one. They stand between two instructions then: one hart runs at a time.
//! - A hart enters the kernel in the newest epoch of all. So whatever the kernel reads on its behalf
//!   is of no newer epoch, and all that the kernel does is part of that one epoch: a system call is
//!   an event after everything before it.
//! - The kernel's state as of the end of an epoch is saved before it is changed in a newer one.
//! - A hart that runs sees no mapping of a newer epoch than its domain's.

use perdure_designs::{Design, DomainEpochs, Urgency};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, line_of};
use perdure_hardware::policy::PolicyFailure;
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;

use crate::context::MachineRecord;
use crate::machine::Machine;

impl<D: Design> Machine<D> {
    fn domain_epochs(&mut self) -> Option<(&mut dyn DomainEpochs, &mut Hardware)> {
        Some((self.design.domains()?, &mut self.hardware))
    }

    /// The epoch of a hart's domain.
    fn epoch_of(&mut self, hart: usize) -> Option<u64> {
        let domain = self.hardware.domain_of(hart);
        Some(self.design.domains()?.epoch(domain))
    }

    /// The oldest epoch that a domain is in.
    pub(crate) fn oldest_epoch(&mut self) -> Option<u64> {
        let (domains, hardware) = self.domain_epochs()?;
        let all = 0..hardware.domains.len();
        all.map(|domain| domains.epoch(domain)).min()
    }

    /// A hart got a line of a newer epoch: its domain advances, and the access is made again.
    pub(crate) fn catch_up(&mut self, hart: usize) {
        let ahead = self.hardware.cores[hart].ahead.take();
        if let (Some(version), Some((domains, hardware))) = (ahead, self.domain_epochs()) {
            let epoch = domains.epoch_of(version);
            if epoch > domains.epoch(hardware.domain_of(hart)) {
                self.advance(hart, epoch);
            }
        }
    }

    /// A hart is about to run: if mappings changed in a newer epoch, its domain comes to that one.
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
        let Some((domains, hardware)) = self.domain_epochs() else {
            return;
        };
        let mine = domains.epoch(hardware.domain_of(hart));
        let newest = domains.newest();
        if mine < newest {
            self.advance(hart, newest);
        }
        if self.kernel_epoch < newest {
            self.save_kernel(hart, newest);
        }
    }

    /// A hart's domain goes on in another epoch, and with it every one that would lag too far behind.
    fn advance(&mut self, hart: usize, epoch: u64) {
        let now = self.clock(hart);
        self.advance_one(self.hardware.domain_of(hart), epoch, now);
        loop {
            let Some((domains, hardware)) = self.domain_epochs() else {
                return;
            };
            let newest = domains.newest();
            let Some(behind) = (0..hardware.domains.len()).find(|&other| domains.lags(other))
            else {
                break;
            };
            self.advance_one(behind, newest, now);
        }
        self.kernel_keeps_up(hart);
    }

    /// One domain goes on in another epoch; it was told to at `now`. All of its harts stand still
    /// while their contexts are saved.
    fn advance_one(&mut self, domain: usize, epoch: u64, now: Cycles) {
        let harts = self.hardware.domains[domain].harts.clone();
        let clocks = harts.clone().map(|hart| self.clock(hart));
        let now = clocks.fold(now, Cycles::max);
        let Some((domains, _)) = self.domain_epochs() else {
            return;
        };
        let ended = domains.epoch(domain);
        debug_assert!(epoch > ended, "epochs only grow");
        let mut ready = now;
        for hart in harts.clone() {
            self.keep_context(hart, ended, epoch - 1);
            self.note_left(hart, epoch - 1, now);
            ready = ready.max(self.save_context(hart, ended, now));
        }
        if let Some((domains, hardware)) = self.domain_epochs() {
            ready = hardware.asking("advance", ready, |hardware| {
                domains.advance(hardware, domain, epoch, ready)
            });
        }
        if let Some(trace) = &mut self.hardware.trace {
            trace.push(Traced::Advanced { domain, epoch });
        }
        if let Some(oldest) = self.oldest_epoch() {
            self.unpersisted.end(oldest - 1, ready);
        }
        let stall = ready.saturating_sub(now);
        for hart in harts {
            let state = &mut self.harts[hart];
            state.epoch_start = state.context.hart.retired;
            state.epoch_start_stores = self.hardware.cores[hart].stores;
            if state.context.running.is_some() {
                self.hardware.cores[hart].stalls += stall;
                self.hardware.statistics.flush_stall_cycles += stall;
            }
        }
        self.hardware.statistics.epochs_committed += 1;
    }

    /// Saves a hart's context as of the end of an epoch. Returns when its last line was taken.
    fn save_context(&mut self, hart: usize, epoch: u64, now: Cycles) -> Cycles {
        let bytes = self.harts[hart].context.encode(self.saved_at(hart));
        let old = std::mem::take(&mut self.saved_contexts[hart]);
        let (domain, address) = (self.hardware.domain_of(hart), self.layout.context(hart));
        let ready = self.save(domain, epoch, address, &old, &bytes, now);
        self.saved_contexts[hart] = bytes;
        ready
    }

    /// Saves bytes past the caches, line by line, as of the end of an epoch. `old` is what was saved
    /// there before. Returns when the last line was taken.
    fn save(
        &mut self,
        domain: usize,
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
            if let Some((domains, hardware)) = self.domain_epochs() {
                ready = hardware.asking("save", ready, |hardware| {
                    domains.save(hardware, domain, epoch, line, &after, ready)
                });
            }
            self.hardware.statistics.context_lines += 1;
            if let Some(trace) = &mut self.hardware.trace {
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
            let domain = self.hardware.domain_of(hart);
            let mut ready = self.save(domain, ended, start, &old, &image, now);
            if let Some(rest) = old.get(image.len()..) {
                image.extend_from_slice(rest);
            }
            let address = self.layout.context(self.harts.len());
            let old = std::mem::take(&mut self.saved_record);
            ready = self.save(domain, ended, address, &old, &record, ready);
            self.saved_record = record;
            self.saved_image = image;
            let stall = ready.saturating_sub(now);
            self.hardware.cores[hart].stalls += stall;
            self.hardware.statistics.flush_stall_cycles += stall;
            self.kernel_changed = false;
        }
        self.kernel_epoch = next;
        let now = self.clock(hart);
        if let Some((domains, hardware)) = self.domain_epochs() {
            hardware.asking("kernel_advanced", now, |hardware| {
                domains.kernel_advanced(hardware, next, now);
            });
        }
    }

    /// Nobody can enter the kernel in an epoch that every domain has left: so the kernel does not
    /// hold the recoverable epoch back when nobody enters it at all.
    fn kernel_keeps_up(&mut self, hart: usize) {
        if let Some(oldest) = self.oldest_epoch()
            && oldest > self.kernel_epoch
        {
            self.save_kernel(hart, oldest);
        }
    }

    /// An epoch is due in a hart's domain; if somebody waits for output, in every domain.
    pub(crate) fn end_domain_epoch(&mut self, hart: usize, urgency: Urgency) -> u64 {
        let Some((domains, hardware)) = self.domain_epochs() else {
            unreachable!("called only for a design with epochs by domain");
        };
        let mine = domains.epoch(hardware.domain_of(hart));
        let newest = domains.newest();
        if urgency != Urgency::OutputCommit {
            self.advance(hart, mine + 1);
            return mine;
        }
        // The kernel has been entered in the newest epoch, and everything so far belongs to it.
        self.hardware.statistics.epochs_forced += 1;
        self.hold_files(newest, newest);
        let now = self.clock(hart);
        for domain in 0..self.hardware.domains.len() {
            let Some((domains, _)) = self.domain_epochs() else {
                break;
            };
            if domains.epoch(domain) <= newest {
                self.advance_one(domain, newest + 1, now);
            }
        }
        self.kernel_keeps_up(hart);
        let now = self.clock(hart);
        if let Some((domains, hardware)) = self.domain_epochs() {
            hardware.asking("persist", now, |hardware| domains.persist(hardware, now));
        }
        self.announced(now);
        newest
    }
}
