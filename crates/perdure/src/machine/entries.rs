//! Entries to the kernel: for a system call, a fault, the end of a time slice, a deadline; and time that
//! passes while nobody runs.
//!
//! Always true here: whatever follows from an entry (mappings that changed, threads that became ready,
//! programs that ended) has happened before the next instruction of any hart.

use perdure_designs::Epochs;
use perdure_hardware::time::Cycles;
use perdure_hardware::watched::Writer;
use perdure_linux::{Exception, Kernel, Machine as _, Outcome};

use super::{Ended, Machine};
use crate::context::SavedAt;
use crate::error::Error;
use crate::kernel_ports::{Changed, KernelPort};
use crate::mistakes::Mistake;
use crate::source::{Exit, Registers, Source};

/// The register that says which system call it is.
const CALL_NUMBER: usize = 17;

impl<S: Source> Machine<S> {
    /// Calls the kernel on behalf of a hart, then does what any kernel entry can make necessary.
    fn enter_kernel<R>(
        &mut self,
        hart: usize,
        (name, cycles): (&'static str, u64),
        call: impl FnOnce(&mut Kernel, &mut Registers, &mut KernelPort) -> R,
    ) -> R {
        self.order_of(Some(hart));
        let from = self.clock(hart);
        let clock = self.virtual_clock(hart);
        self.kernel_comes_up_to_date(hart);
        let mut changed = Changed::default();
        let context = &self.harts[hart].context;
        self.hardware.memory.stores_for(|| Writer {
            instruction: (context.running).map(|running| (running.space.0, context.hart.pc)),
            system: Some(name),
            began: Some(from),
        });
        let (before, rest) = self.harts.split_at_mut(hart);
        let (own, after) = rest.split_first_mut().expect("the hart exists");
        let registers = &mut own.context.hart;
        let others = |other: usize| {
            let state = match other.checked_sub(hart + 1) {
                Some(place) => after.get(place),
                None => before.get(other),
            };
            state.map_or(0, |state| state.context.hart.retired)
        };
        let mut port = KernelPort {
            hardware: &mut self.hardware,
            design: &mut *self.design,
            hart,
            retired: registers.retired,
            clock,
            others: &others,
            changed: &mut changed,
        };
        port.charge(cycles);
        port.send_combined(hart);
        let result = call(&mut self.kernel, registers, &mut port);
        self.hardware.cores[hart].reservation = None;
        self.kernel_changed = true;
        if changed.mappings && self.facts().epochs == Epochs::ByGroup {
            self.mappings_epoch = self.kernel_epoch;
        }
        if changed.code {
            for state in &mut self.harts {
                state.source.forget();
            }
        }
        self.next_deadline_ns = self.kernel.next_deadline_ns();
        self.draw_kernel(hart, name, from);
        result
    }

    pub(super) fn handle(&mut self, hart: usize, exit: Exit) {
        let costs = &self.configuration.kernel;
        let (system_call, page_fault) = (costs.system_call_cycles, costs.page_fault_cycles);
        let exception = |exception| {
            move |kernel: &mut Kernel, registers: &mut Registers, port: &mut KernelPort| {
                kernel.exception(hart, registers, exception, port)
            }
        };
        let outcome = match exit {
            Exit::Limit => return,
            Exit::EnvironmentCall => {
                // Nobody else wants to know which one it is.
                let memory = &self.hardware.memory;
                let name = if memory.draws() || memory.watched.is_some() {
                    Kernel::call_name(self.harts[hart].context.hart.x[CALL_NUMBER])
                } else {
                    "system call"
                };
                let entry = (name, system_call);
                self.enter_kernel(hart, entry, |kernel, registers, port| {
                    kernel.system_call(hart, registers, port)
                })
            }
            Exit::Fault(_) if self.hardware.cores[hart].ahead.is_some() => {
                return self.catch_up(hart);
            }
            Exit::Fault(_) if self.hardware.cores[hart].again => {
                self.hardware.cores[hart].again = false;
                return;
            }
            Exit::Fault(fault) if self.hardware.cores[hart].refused => {
                self.hardware.cores[hart].refused = false;
                let address = fault.address;
                let refused = exception(Exception::Refused { address });
                self.enter_kernel(hart, ("refused access", page_fault), refused)
            }
            Exit::Fault(fault) => {
                let entry = ("page fault", page_fault);
                self.enter_kernel(hart, entry, |kernel, registers, port| {
                    kernel.fault(hart, registers, fault, port)
                })
            }
            Exit::Breakpoint => {
                let entry = ("breakpoint", page_fault);
                self.enter_kernel(hart, entry, exception(Exception::Breakpoint))
            }
            Exit::Misaligned { address, .. } => self.enter_kernel(
                hart,
                ("misaligned access", page_fault),
                exception(Exception::Misaligned { address }),
            ),
            Exit::Illegal { bits } => {
                let entry = ("illegal instruction", page_fault);
                self.enter_kernel(hart, entry, exception(Exception::Illegal { bits }))
            }
        };
        self.follow(hart, outcome);
    }

    fn follow(&mut self, hart: usize, outcome: Outcome) {
        match outcome {
            Outcome::Continue => self.adopt(hart, self.kernel.running(hart)),
            Outcome::Blocked => {
                self.harts[hart].context.running = None;
                self.turn = None;
            }
            Outcome::Commit => {
                self.turn = None;
                if self.facts().epochs != Epochs::None {
                    self.harts[hart].waits_for = Some(self.executing_epoch());
                }
                self.output_is_awaited(hart);
            }
            Outcome::Exited { .. } => self.programs_ended(hart),
        }
        self.draw_hart(hart);
        if self.meter.follows_threads() {
            self.meter.threads = self.kernel.threads_of_programs();
            self.look_at_region(self.clock(hart));
        }
        if !self.facts().recovery.resumes() {
            self.let_out_at_once();
        }
        self.schedule_idle_harts(self.clock(hart));
    }

    fn programs_ended(&mut self, hart: usize) {
        let mut report = self
            .kernel
            .exited()
            .expect("the kernel said that all programs ended")
            .clone();
        if self.mistake == Some(Mistake::LosesStatus) {
            report.status = 0;
        }
        self.look_at_region(self.clock(hart));
        let epoch = self.executing_epoch();
        self.ended = Some(Ended {
            report,
            at: self.clock(hart),
            epoch,
        });
        self.turn = None;
        self.output_is_awaited(hart);
    }

    pub(super) fn end_slice(&mut self, hart: usize) {
        self.harts[hart].slice_end = self.clock(hart) + self.configuration.scheduling.slice_cycles;
        let entry = ("end of the time slice", 0);
        let outcome = self.enter_kernel(hart, entry, |kernel, registers, port| {
            kernel.preempt(hart, registers, port)
        });
        self.follow(hart, outcome);
    }

    fn schedule_idle_harts(&mut self, now: Cycles) {
        for hart in 0..self.harts.len() {
            if self.harts[hart].context.running.is_some() || !self.kernel.has_ready_for(hart) {
                continue;
            }
            // An idle hart's clock stood still.
            let clock = self.clock(hart);
            (self.hardware.cores[hart].timing).stand_still_until(clock, now);
            let furthest = self
                .harts
                .iter()
                .map(|state| state.context.progress())
                .max();
            let context = &mut self.harts[hart].context;
            context.idle = furthest.unwrap_or(0) - context.hart.retired;
            let entry = ("schedule", 0);
            let running = self.enter_kernel(hart, entry, |kernel, registers, port| {
                kernel.schedule(hart, registers, port)
            });
            self.adopt(hart, running);
            let (clock, scheduling) = (self.clock(hart), &self.configuration.scheduling);
            self.harts[hart].slice_end = clock + scheduling.slice_cycles;
            if let Some(turn) = &mut self.turn
                && scheduling.wakes_end_turns
            {
                turn.limit = turn.limit.min(clock + scheduling.lookahead_cycles);
            }
        }
    }

    /// Wakes whoever is due. Returns whether somebody may be.
    pub(super) fn wake_sleepers(&mut self, hart: usize) -> bool {
        let Some(deadline) = self.next_deadline_ns else {
            return false;
        };
        let now_ns = self.clock_ns();
        if now_ns < deadline {
            return false;
        }
        self.kernel.wake_sleepers(now_ns);
        self.kernel_changed = true;
        self.next_deadline_ns = self.kernel.next_deadline_ns();
        if self.kernel.exited().is_some() && self.ended.is_none() {
            self.programs_ended(hart);
        }
        self.schedule_idle_harts(self.clock(hart));
        true
    }

    /// Nothing is to come: no thread can go on, or the design lets none.
    pub(super) fn stands_still(&self) -> Error {
        if self.epoch_due.is_none() {
            return self.deadlock();
        }
        Error::Contract {
            design: self.facts().name,
            message: format!(
                "epoch {} is to end at cycle {}, `can_end_epoch` is false, and no event of the design is to come",
                self.executing_epoch(),
                self.time()
            ),
        }
    }

    pub(super) fn deadlock(&self) -> Error {
        Error::Deadlock {
            cycle: self.time(),
            stopped: self.kernel.stopped_processes(),
        }
    }

    /// When the first sleeper is due, if every hart is idle, in the machine's time and in the virtual
    /// one; the end of time if something else will let a hart go on, or what was written will leave.
    /// Where nothing ever will, that is an error: then there is no instruction, either, at which a run
    /// could be stopped. None if what was written begins to leave, as it would while a computer stands.
    #[expect(
        clippy::cast_precision_loss,
        reason = "beyond 104 days, a nanosecond does not matter"
    )]
    pub(super) fn idle_until(&mut self) -> Result<Option<(Cycles, u64)>, Error> {
        let under_way = self.epoch_due.is_some() || self.ended.is_some();
        if under_way || self.harts.iter().any(|hart| hart.context.running.is_some()) {
            return Ok(Some((Cycles::MAX, 0)));
        }
        let Some(change_ns) = self.kernel.next_change_ns() else {
            if self.kernel.holds_unsealed_output() {
                self.output_is_awaited(0);
                return Ok(None);
            }
            let leaves = self.kernel.holds_output().then_some((Cycles::MAX, 0));
            return leaves.ok_or_else(|| self.deadlock()).map(Some);
        };
        let clock = self.configuration.specification.clock();
        let idle = clock.cycles(change_ns.saturating_sub(self.clock_ns()) as f64);
        Ok(Some((self.time().saturating_add(idle), change_ns)))
    }

    /// Lets the time pass in which every hart is idle, up to the first sleeper's deadline.
    pub(super) fn skip_idle_time(&mut self, wake_time: Cycles, change_ns: u64) {
        self.skipped_ns += change_ns.saturating_sub(self.clock_ns());
        let clock = self.clock(0);
        (self.hardware.cores[0].timing).stand_still_until(clock, wake_time);
        self.wake_sleepers(0);
    }

    /// The virtual clock, between turns.
    pub(crate) fn clock_ns(&self) -> u64 {
        self.virtual_clock(0)
            .nanoseconds(self.harts[0].context.hart.retired)
    }

    /// When a hart's context is saved: now.
    pub(crate) fn saved_at(&self, hart: usize) -> SavedAt {
        SavedAt {
            clock_ns: self.clock_ns(),
            cycles: self.clock(hart),
        }
    }
}
