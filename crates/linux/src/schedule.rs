//! Which thread runs on which hart.
//!
//! Always true: a thread is in exactly one place: the ready queue, a hart, or blocked. The queue
//! is first come first served; threads that become ready at the same moment enter it by number.

use std::collections::VecDeque;

use perdure_riscv::Hart;
use serde::{Deserialize, Serialize};

use crate::errno::Errno;
use crate::kernel::{Kernel, SPACE};
use crate::machine::{Machine, ThreadId};
use crate::outcome::{ExitReport, Outcome, ProgramReport, Running};
use crate::signal::{SIGALRM, SignalInfo};
use crate::thread::{Context, ThreadState, Wait};

/// Cycles of a switch to another thread.
const SWITCH_CYCLES: u64 = 500;

/// The ready queue and the harts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Scheduler {
    pub ready: VecDeque<ThreadId>,
    /// The thread on each hart.
    pub running: Vec<Option<ThreadId>>,
    /// Deadlines of blocked threads; follows from the threads.
    #[serde(skip)]
    pub deadlines: std::collections::BTreeSet<(u64, ThreadId)>,
}

impl Kernel {
    /// The thread on a hart.
    pub(crate) fn thread_on(&self, hart_index: usize) -> Option<ThreadId> {
        self.scheduler.running.get(hart_index).copied().flatten()
    }

    /// What a hart runs now; a system call may have changed its space (`execve`).
    pub fn running(&self, hart_index: usize) -> Option<Running> {
        self.thread_on(hart_index).map(|thread| Running {
            thread,
            space: SPACE,
            program: 0,
        })
    }

    fn leave_hart(&mut self, hart_index: usize) {
        if let Some(place) = self.scheduler.running.get_mut(hart_index) {
            *place = None;
        }
    }

    /// Makes the hart run the next ready thread: its registers are loaded and its signals
    /// delivered. `None` leaves the hart idle. Drop the hart's LR reservation either way.
    pub fn schedule(
        &mut self,
        hart_index: usize,
        hart: &mut Hart,
        machine: &mut dyn Machine,
    ) -> Option<Running> {
        if self.exit.is_some() {
            return None;
        }
        if let Some(running) = self.running(hart_index) {
            return Some(running);
        }
        let id = self.scheduler.ready.pop_front()?;
        let thread = self.threads.get_mut(&id)?;
        thread.context.load(hart);
        thread.state = ThreadState::Running {
            hart: hart_index as u32,
        };
        if self.scheduler.running.len() <= hart_index {
            self.scheduler.running.resize(hart_index + 1, None);
        }
        self.scheduler.running[hart_index] = Some(id);
        machine.charge(SWITCH_CYCLES);
        self.deliver_signals(id, hart, machine);
        self.exit.is_none().then_some(Running {
            thread: id,
            space: SPACE,
            program: 0,
        })
    }

    /// The hart's time slice is over: delivers pending signals, then makes room if another thread
    /// waits ([`Outcome::Blocked`]: call `schedule`), else the same thread goes on.
    pub fn preempt(
        &mut self,
        hart_index: usize,
        hart: &mut Hart,
        machine: &mut dyn Machine,
    ) -> Outcome {
        let Some(id) = self.thread_on(hart_index) else {
            return Outcome::Blocked;
        };
        self.deliver_signals(id, hart, machine);
        if let Some(outcome) = self.exit_outcome() {
            return outcome;
        }
        if self.scheduler.ready.is_empty() {
            return Outcome::Continue;
        }
        self.requeue(hart_index, id, hart);
        Outcome::Blocked
    }

    /// Saves a thread and puts it at the end of the queue.
    pub(crate) fn requeue(&mut self, hart_index: usize, id: ThreadId, hart: &Hart) {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.context = Context::of(hart);
            thread.state = ThreadState::Ready;
            self.scheduler.ready.push_back(id);
        }
        self.leave_hart(hart_index);
    }

    /// Saves a thread and blocks it; its pc is at the call.
    pub(crate) fn block(
        &mut self,
        hart_index: usize,
        id: ThreadId,
        hart: &Hart,
        wait: Wait,
        deadline_ns: Option<u64>,
    ) {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.context = Context::of(hart);
            thread.state = ThreadState::Blocked { wait, deadline_ns };
            if matches!(wait, Wait::Files | Wait::Readiness | Wait::Signals { .. }) {
                thread.retry_deadline_ns = deadline_ns;
            }
        }
        if let Wait::Futex { key, .. } = wait {
            self.futexes.entry(key).or_default().push_back(id);
        }
        if let Some(at) = deadline_ns {
            self.scheduler.deadlines.insert((at, id));
        }
        self.leave_hart(hart_index);
    }

    /// Makes a blocked thread ready: its call returns `result`, or is made again.
    pub(crate) fn unblock(&mut self, id: ThreadId, result: Option<i64>) {
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        let ThreadState::Blocked { wait, deadline_ns } = thread.state else {
            return;
        };
        thread.state = ThreadState::Ready;
        if let Some(result) = result {
            thread.context.x[10] = result as u64;
            thread.context.pc = thread.context.pc.wrapping_add(4);
        }
        self.scheduler.ready.push_back(id);
        if let Some(at) = deadline_ns {
            self.scheduler.deadlines.remove(&(at, id));
        }
        if let Wait::Futex { key, .. } = wait
            && let Some(queue) = self.futexes.get_mut(&key)
        {
            queue.retain(|&waiter| waiter != id);
            if queue.is_empty() {
                self.futexes.remove(&key);
            }
        }
    }

    /// Makes every thread that waits for something about open files try again.
    pub(crate) fn wake_file_waiters(&mut self) {
        let waiting: Vec<ThreadId> = self
            .threads
            .values()
            .filter(|t| {
                matches!(
                    t.state,
                    ThreadState::Blocked {
                        wait: Wait::Files | Wait::Readiness,
                        ..
                    }
                )
            })
            .map(|thread| thread.id)
            .collect();
        for id in waiting {
            self.unblock(id, None);
        }
    }

    /// True if a thread waits for a hart: idle harts should call `schedule`.
    pub fn has_ready(&self) -> bool {
        !self.scheduler.ready.is_empty()
    }

    /// The earliest time at which a sleeper, timeout or timer is due.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let thread = self.scheduler.deadlines.first().map(|&(at, _)| at);
        [thread, self.process.timer.due_ns]
            .into_iter()
            .flatten()
            .min()
    }

    /// Wakes whoever is due. A timer's signal can end the process: see [`Kernel::exited`].
    pub fn wake_sleepers(&mut self, now_ns: u64) {
        while let Some(&(at, id)) = self.scheduler.deadlines.first() {
            if at > now_ns {
                break;
            }
            let wait = self.threads.get(&id).map(|thread| thread.state);
            self.scheduler.deadlines.remove(&(at, id));
            match wait {
                Some(ThreadState::Blocked {
                    wait: Wait::Futex { .. },
                    ..
                }) => {
                    self.unblock(id, Some(-i64::from(Errno::ETIMEDOUT.0)));
                }
                Some(ThreadState::Blocked {
                    wait: Wait::Sleep { .. },
                    ..
                }) => {
                    self.unblock(id, Some(0));
                }
                _ => {
                    self.unblock(id, None);
                    if let Some(thread) = self.threads.get_mut(&id) {
                        // The call that is made again finds its time over, whichever hart's
                        // clock it looks at.
                        thread.retry_deadline_ns = Some(0);
                    }
                }
            }
        }
        if let Some(due) = self.process.timer.due_ns.filter(|&due| due <= now_ns) {
            let interval = self.process.timer.interval_ns;
            self.process.timer.due_ns =
                now_ns
                    .saturating_sub(due)
                    .checked_div(interval)
                    .map(|missed| {
                        due.saturating_add(missed.saturating_add(1).saturating_mul(interval))
                    });
            self.send_signal(None, SignalInfo::kernel(SIGALRM));
        }
    }

    /// Ends the process.
    pub(crate) fn end_process(&mut self, report: ExitReport) {
        if self.exit.is_none() {
            self.exit = Some(report.clone());
            self.reports = vec![ProgramReport {
                exit: Some(report),
                runs: 1,
            }];
        }
    }

    /// What became of each program, in the order of the configuration.
    pub fn program_reports(&self) -> &[ProgramReport] {
        &self.reports
    }

    /// Set once every program has finished: the first report in their order whose status is not
    /// zero, else the first one.
    pub fn exited(&self) -> Option<&ExitReport> {
        self.exit.as_ref()
    }

    pub(crate) fn exit_outcome(&self) -> Option<Outcome> {
        self.exit.as_ref().map(|report| Outcome::Exited {
            status: report.status,
        })
    }

    /// Ends one thread: who waits for its end is woken; the last one ends the process.
    pub(crate) fn end_thread(
        &mut self,
        hart_index: usize,
        id: ThreadId,
        status: i32,
        machine: &mut dyn Machine,
    ) {
        self.process.last_status = status;
        self.leave_hart(hart_index);
        let Some(thread) = self.threads.remove(&id) else {
            return;
        };
        if thread.clear_child != 0 {
            // Like Linux, an address that went away in the meantime is nobody's problem.
            let _ = self.copy_out(machine, thread.clear_child, &0_u32.to_le_bytes());
            self.futex_wake_at(thread.clear_child);
        }
        if self.threads.is_empty() {
            self.end_process(ExitReport {
                status: self.process.last_status,
                fatal: None,
            });
        }
    }
}
