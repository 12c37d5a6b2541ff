//! Which thread runs on which hart.
//!
//! Always true: a thread is in exactly one place: the ready queue, a hart, blocked, or stopped. The
//! queue is first come first served; threads that become ready at the same moment enter it by number.

use std::collections::VecDeque;

use perdure_riscv::Hart;
use serde::{Deserialize, Serialize};

use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, ThreadId};
use crate::outcome::{ExitReport, Outcome, ProgramReport, Running};
use crate::process::ProcessId;
use crate::signal::{SIGALRM, SignalInfo, Target};
use crate::syscalls::SCHED_YIELD;
use crate::thread::{Context, Thread, ThreadState, Wait};
use crate::vfs::descriptor::Object;

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

    /// What a hart runs now.
    pub fn running(&self, hart_index: usize) -> Option<Running> {
        let thread = self.thread_on(hart_index)?;
        let process = self.processes.get(self.process_of(thread))?;
        Some(Running {
            thread,
            space: process.space,
            program: process.program,
        })
    }

    /// Leaves a hart without a thread.
    pub(crate) fn leave_hart(&mut self, hart_index: usize) {
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
        loop {
            self.bury(machine);
            let place = self.place_of_ready(hart_index)?;
            let id = self.scheduler.ready.remove(place)?;
            let thread = self.threads.get_mut(&id)?;
            thread.context.load(hart);
            thread.hart_retired = hart.retired;
            thread.state = ThreadState::Running {
                hart: hart_index as u32,
            };
            if self.scheduler.running.len() <= hart_index {
                self.scheduler.running.resize(hart_index + 1, None);
            }
            self.scheduler.running[hart_index] = Some(id);
            machine.charge(SWITCH_CYCLES);
            if !self.makes_call_again(id, hart, machine) {
                self.deliver_signals(id, hart, machine);
            }
            self.park_if_stopped(hart_index, id, hart);
            match self.leave(hart_index, id, machine) {
                Outcome::Exited { .. } => return None,
                Outcome::Blocked => {}
                Outcome::Continue | Outcome::Commit => return self.running(hart_index),
            }
        }
    }

    /// Where the first thread stands in the queue that may run on a hart.
    fn place_of_ready(&self, hart_index: usize) -> Option<usize> {
        let ready = &self.scheduler.ready;
        ready.iter().position(|&id| self.may_run(id, hart_index))
    }

    /// The hart's time slice is over: delivers pending signals, then makes room if another thread
    /// waits ([`Outcome::Blocked`]: call `schedule`), else the same thread goes on.
    pub fn preempt(
        &mut self,
        hart_index: usize,
        hart: &mut Hart,
        machine: &mut dyn Machine,
    ) -> Outcome {
        let id = match self.enter(hart_index, hart, machine) {
            Ok(id) => id,
            Err(outcome) => return outcome,
        };
        self.expire_cpu_timers(machine);
        self.enforce_cpu_limit(self.process_of(id), machine);
        self.deliver_signals(id, hart, machine);
        self.park_if_stopped(hart_index, id, hart);
        let outcome = self.leave(hart_index, id, machine);
        let makes_room = self.place_of_ready(hart_index).is_some() || !self.may_run(id, hart_index);
        if outcome != Outcome::Continue || !makes_room {
            return outcome;
        }
        self.requeue(hart_index, id, hart);
        Outcome::Blocked
    }

    /// Takes the thread off a hart, as if its turn were over, whether another one waits or not.
    pub fn set_aside(&mut self, hart_index: usize, hart: &Hart) {
        if let Some(id) = self.thread_on(hart_index) {
            self.requeue(hart_index, id, hart);
        }
    }

    /// Makes the first ready thread that may run the next one. False if there is none.
    pub fn bring_forward(&mut self, may_run: impl Fn(ThreadId) -> bool) -> bool {
        let ready = &mut self.scheduler.ready;
        let first = ready.iter().position(|&id| may_run(id));
        let Some(next) = first.and_then(|place| ready.remove(place)) else {
            return false;
        };
        ready.push_front(next);
        true
    }

    /// The threads that wait for a hart.
    pub fn ready(&self) -> impl Iterator<Item = ThreadId> {
        self.scheduler.ready.iter().copied()
    }

    /// Saves a thread and puts it at the end of the queue.
    pub(crate) fn requeue(&mut self, hart_index: usize, id: ThreadId, hart: &Hart) {
        self.count_retired(id, hart.retired);
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
        self.count_retired(id, hart.retired);
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.context = Context::of(hart);
            thread.state = ThreadState::Blocked { wait, deadline_ns };
            if matches!(wait, Wait::Files | Wait::Readiness | Wait::Signals { .. }) {
                thread.retry_deadline_ns = deadline_ns;
            }
        }
        for key in self.futex_keys(id, wait) {
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
        let stopped = !self.rare.jobs.is_empty()
            && (self.rare.jobs.get(&thread.process)).is_some_and(|job| job.stopped_by.is_some());
        thread.state = if stopped {
            ThreadState::Stopped
        } else {
            ThreadState::Ready
        };
        if let Some(result) = result {
            thread.context.x[10] = result as u64;
            thread.context.pc = thread.context.pc.wrapping_add(4);
        }
        if !stopped {
            self.scheduler.ready.push_back(id);
        }
        if let Some(at) = deadline_ns {
            self.scheduler.deadlines.remove(&(at, id));
        }
        for key in self.futex_keys(id, wait) {
            self.leave_futex(id, key);
        }
        if wait == Wait::Futexes {
            self.rare.futex_lists.remove(&id);
        }
        if let Wait::Fifo { inode, .. } = wait {
            self.free_inode_if_unused(inode);
        }
    }

    /// Makes a thread try its call again if what it waits for is of the given kind.
    pub(crate) fn unblock_if(&mut self, id: ThreadId, meets: impl Fn(Wait) -> bool) {
        let state = self.threads.get(&id).map(|thread| thread.state);
        if let Some(ThreadState::Blocked { wait, .. }) = state
            && meets(wait)
        {
            self.unblock(id, None);
        }
    }

    /// Makes every thread of a program that waits for something about open files try again: for
    /// pipes without a name and event counters, which are open in two programs only if a socket
    /// brought them there; once there are sockets, everybody tries again.
    pub(crate) fn wake_file_waiters(&mut self, program: u32) {
        self.complete_polls();
        let everybody = !self.rare.sockets.is_empty();
        let of_program = |thread: &&Thread| {
            let process = self.processes.get(thread.process);
            everybody || process.is_some_and(|process| process.program == program)
        };
        let own = self.threads.values().filter(of_program);
        let own: Vec<ThreadId> = own.map(|thread| thread.id).collect();
        for id in own {
            self.unblock_if(id, |wait| matches!(wait, Wait::Files | Wait::Readiness));
        }
    }

    /// Makes every thread, of whichever program, that waits for something about open files try
    /// again, if its process can see a changed object: through a descriptor, or through an epoll
    /// instance that watches it.
    pub(crate) fn wake_waiters_for(&mut self, changed: impl Fn(&Object) -> bool) {
        if self.complete_polls() {
            self.wake_all_file_waiters();
        }
        let waits = |thread: &&Thread| {
            matches!(
                thread.state,
                ThreadState::Blocked {
                    wait: Wait::Files | Wait::Readiness,
                    ..
                }
            )
        };
        let waiting: Vec<(ThreadId, ProcessId)> = self
            .threads
            .values()
            .filter(waits)
            .map(|thread| (thread.id, thread.process))
            .collect();
        if waiting.is_empty() {
            return;
        }
        let open = &self.open;
        let sees = |process: ProcessId| {
            let descriptors = &self.processes[process].descriptors;
            descriptors
                .iter()
                .any(|(_, one)| open.shows(one.file, &changed))
        };
        let woken: Vec<ThreadId> = waiting
            .into_iter()
            .filter(|&(_, process)| sees(process))
            .map(|(id, _)| id)
            .collect();
        for id in woken {
            self.unblock(id, None);
        }
    }

    /// Makes every thread that waits for something about open files try again: files, and what has a
    /// name among them, are everybody's.
    pub(crate) fn wake_all_file_waiters(&mut self) {
        for program in 0..self.reports.len() {
            self.wake_file_waiters(program as u32);
        }
    }

    /// True if a thread waits for a hart, or a process for its burial: idle harts should call
    /// `schedule`.
    pub fn has_ready(&self) -> bool {
        !self.scheduler.ready.is_empty() || self.has_burials()
    }

    fn has_burials(&self) -> bool {
        !self.dead.is_empty() || !self.rare.departed.is_empty()
    }

    /// True if one of them may run on this hart.
    pub fn has_ready_for(&self, hart_index: usize) -> bool {
        self.place_of_ready(hart_index).is_some() || self.has_burials()
    }

    /// True if the call that a hart is about to make is `sched_yield`, and nobody else wants a turn, no
    /// signal waits and nothing will be due: such a call looks at no memory of any program.
    pub fn yields_to_nobody(&self, hart_index: usize, hart: &Hart) -> bool {
        hart.x[17] == SCHED_YIELD
            && !self.has_ready()
            && self.next_deadline_ns().is_none()
            && (self.thread_on(hart_index)).is_some_and(|thread| !self.has_signal(thread))
    }

    /// The earliest time at which a sleeper, timeout or timer is due.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let thread = self.scheduler.deadlines.first().map(|&(at, _)| at);
        let processes = self.processes.live.values();
        let timers = processes.filter_map(|process| process.timer.due_ns);
        let others = self.next_timer_ns();
        thread.into_iter().chain(timers).chain(others).min()
    }

    /// The earliest time at which a sleeper, timeout or timer is due that makes a difference while no
    /// thread runs. A timer whose signal is ignored, or waits already, makes none, however often it
    /// expires: it would let time pass for ever.
    pub fn next_change_ns(&self) -> Option<u64> {
        let thread = self.scheduler.deadlines.first().map(|&(at, _)| at);
        let processes = self.processes.live.values();
        let timers = processes.filter_map(|process| {
            let due = process.timer.due_ns?;
            let target = Target::Process(process.id);
            self.would_matter(target, SIGALRM).then_some(due)
        });
        let others = self.next_change_by_timer_ns();
        thread.into_iter().chain(timers).chain(others).min()
    }

    /// Wakes whoever is due. A timer's signal can end a process: see
    /// [`Kernel::exited`], and [`Kernel::has_ready`].
    pub fn wake_sleepers(&mut self, now_ns: u64) {
        while let Some(&(at, id)) = self.scheduler.deadlines.first() {
            if at > now_ns {
                break;
            }
            let wait = self.threads.get(&id).map(|thread| thread.state);
            self.scheduler.deadlines.remove(&(at, id));
            match wait {
                Some(ThreadState::Blocked {
                    wait: Wait::Futex { .. } | Wait::Futexes | Wait::FutexMove { .. },
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
        let all = self.processes.live.values();
        let due: Vec<ProcessId> = all
            .filter(|process| process.timer.due_ns.is_some_and(|due| due <= now_ns))
            .map(|process| process.id)
            .collect();
        for id in due {
            self.timer_is_due(id, now_ns);
        }
        self.expire_timers(now_ns);
    }

    fn timer_is_due(&mut self, id: ProcessId, now_ns: u64) {
        let timer = &mut self.processes[id].timer;
        let (interval, due) = (timer.interval_ns, timer.due_ns.unwrap_or(now_ns));
        let missed = now_ns.saturating_sub(due).checked_div(interval);
        timer.due_ns = missed
            .map(|missed| due.saturating_add(missed.saturating_add(1).saturating_mul(interval)));
        self.send_signal(Target::Process(id), SignalInfo::kernel(SIGALRM));
    }

    /// What became of each program, in the order of the configuration.
    pub fn program_reports(&self) -> &[ProgramReport] {
        &self.reports
    }

    /// How many threads live of each program, in the order of the configuration.
    pub fn threads_of_programs(&self) -> Vec<usize> {
        let mut found = vec![0; self.reports.len()];
        for thread in self.threads.values() {
            if let Some(process) = self.processes.get(thread.process) {
                found[process.program as usize] += 1;
            }
        }
        found
    }

    /// Set once every program has finished: the first report in their order whose status is not
    /// zero, else the first one.
    pub fn exited(&self) -> Option<&ExitReport> {
        self.exit.as_ref()
    }
}
