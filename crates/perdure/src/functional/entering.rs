//! What the kernel is entered for: calls, faults, exceptions, and ends of turns.
//!
//! Always true here: what a watcher stops within the kernel has not happened.

use perdure_linux::{Exception, Kernel, Outcome, ThreadId};
use perdure_riscv::{Exit, Hart};

use super::kernel_door::KernelDoor;
use super::{At, Functional, HART, Watcher};

impl Functional {
    /// Calls the kernel on behalf of the hart. Returns whether the watcher wants to look, too.
    pub(super) fn with_kernel<W: Watcher, R>(
        &mut self,
        watcher: &mut W,
        call: impl FnOnce(&mut Kernel, &mut Hart, &mut KernelDoor<W>) -> R,
    ) -> (R, bool) {
        let thread = self.running.map_or(ThreadId(0), |running| running.thread);
        let mut door = KernelDoor {
            memory: &mut self.memory,
            pool: &mut self.pool,
            lookaside: &mut self.lookaside,
            watcher,
            at: At {
                thread,
                pc: self.hart.pc,
                retired: self.hart.retired,
                by_kernel: true,
            },
            now_ns: self.hart.retired + self.skipped_ns,
            bookkeeps: false,
            pauses: false,
        };
        let answer = call(&mut self.kernel, &mut self.hart, &mut door);
        let pauses = door.pauses;
        self.lookaside.reservation = None;
        (answer, pauses)
    }

    /// The same, and what follows from the outcome. True if the watcher wants to look.
    pub(super) fn enter<W: Watcher>(
        &mut self,
        watcher: &mut W,
        call: impl FnOnce(&mut Kernel, &mut Hart, &mut KernelDoor<W>) -> Outcome,
    ) -> bool {
        let alone = !self.kernel.has_ready();
        let (outcome, pauses) = self.with_kernel(watcher, call);
        // Whoever has just become ready does not wait for the end of a turn that began without it.
        if alone && self.kernel.has_ready() {
            self.begin_slice();
        }
        match outcome {
            Outcome::Continue => self.running = self.kernel.running(HART),
            Outcome::Blocked => self.running = None,
            Outcome::Commit => {
                self.let_out();
                self.running = self.kernel.running(HART);
            }
            Outcome::Exited { .. } => self.look_for_end(),
        }
        pauses
    }

    /// The same as below; `None` if the watcher stops something that the kernel does, which is then as it was
    /// before.
    pub(super) fn handle_or_go_back<W: Watcher>(
        &mut self,
        watcher: &mut W,
        exit: Exit,
    ) -> Option<bool> {
        // Who waits for a lock that nobody will open calls by the hundred thousand.
        let looks =
            exit != Exit::EnvironmentCall || !self.kernel.yields_to_nobody(HART, &self.hart);
        let may_stop = looks && watcher.may_stop();
        let before = may_stop.then(|| (self.clone(), watcher.clone()));
        let pauses = self.handle(watcher, exit);
        if let Some((machine, kept)) = before.filter(|_| watcher.has_stopped()) {
            watcher.goes_back(kept);
            *self = machine;
            return None;
        }
        Some(pauses)
    }

    /// What the hart cannot go on with itself. True if the watcher wants to look.
    fn handle<W: Watcher>(&mut self, watcher: &mut W, exit: Exit) -> bool {
        let exception = match exit {
            Exit::Limit => return false,
            Exit::EnvironmentCall => {
                return self.enter(watcher, |kernel, hart, door| {
                    kernel.system_call(HART, hart, door)
                });
            }
            Exit::Fault(fault) => {
                return self.enter(watcher, |kernel, hart, door| {
                    kernel.fault(HART, hart, fault, door)
                });
            }
            Exit::Breakpoint => Exception::Breakpoint,
            Exit::Misaligned { address, .. } => Exception::Misaligned { address },
            Exit::Illegal { bits } => Exception::Illegal { bits },
        };
        self.enter(watcher, |kernel, hart, door| {
            kernel.exception(HART, hart, exception, door)
        })
    }
}
