//! How threads and processes end, and what that means for those who are left.
//!
//! Always true: a process that is to end loses its threads at once, except those that run on other
//! harts: these are doomed and go when they next enter the kernel, at the latest when their time
//! slice is over. Once the last one is gone the process is buried: what it held is let go, its
//! parent is told. When the last program finishes, everything stays as it is, for those who look
//! at the machine afterwards.

use perdure_riscv::Hart;

use crate::configuration::Repeat;
use crate::kernel::{Kernel, Settings};
use crate::machine::{Machine, SpaceId, ThreadId};
use crate::outcome::{ExitReport, Outcome, ProgramReport};
use crate::owned_words::Departed;
use crate::owners::Owner;
use crate::process::{Ending, IntervalTimer, Process, ProcessId, Usage, Zombie};
use crate::signal::{SA_NOCLDWAIT, SI_USER, SIG_IGN, SIGCHLD, SIGKILL, SignalInfo, Target};
use crate::thread::{Thread, ThreadState, Wait};
use crate::vfs::locks::{self, LockOwner};

impl Kernel {
    /// The next number for a process or thread of a program.
    pub(crate) fn take_number(&mut self, program: u32) -> u32 {
        let programs = self.reports.len();
        self.progress[program as usize].take_number(programs)
    }

    /// The process of a live thread.
    pub(crate) fn process_of(&self, thread: ThreadId) -> ProcessId {
        self.threads
            .get(&thread)
            .map_or_else(ProcessId::default, |thread| thread.process)
    }

    /// The address space that a live thread runs in.
    pub(crate) fn space_of(&self, thread: ThreadId) -> SpaceId {
        self.processes[self.process_of(thread)].space
    }

    /// The threads of a process, by number.
    pub(crate) fn threads_of(&self, process: ProcessId) -> Vec<ThreadId> {
        let threads = self.threads.values();
        let own = threads.filter(|thread| thread.process == process);
        own.map(|thread| thread.id).collect()
    }

    /// The thread that enters the kernel from a hart, or what the hart does instead.
    pub(crate) fn enter(
        &mut self,
        hart_index: usize,
        hart: &Hart,
        machine: &mut dyn Machine,
    ) -> Result<ThreadId, Outcome> {
        let thread = self.thread_on(hart_index).ok_or(Outcome::Blocked)?;
        let doomed = self.threads.get(&thread).is_none_or(|t| t.doomed);
        // What a stopped thread was about to do, it does once it goes on.
        let stops = !doomed && self.park_if_stopped(hart_index, thread, hart);
        if doomed || stops || self.exit.is_some() {
            return Err(self.leave(hart_index, thread, machine));
        }
        Ok(thread)
    }

    /// What a hart does after the kernel has worked for a thread on it.
    pub(crate) fn leave(
        &mut self,
        hart_index: usize,
        thread: ThreadId,
        machine: &mut dyn Machine,
    ) -> Outcome {
        if let Some(report) = &self.exit {
            return Outcome::Exited {
                status: report.status,
            };
        }
        if self.threads.get(&thread).is_some_and(|t| t.doomed) {
            self.count_retired(thread, machine.retired(hart_index));
            self.remove_thread(thread);
        }
        self.bury(machine);
        if self.thread_on(hart_index) == Some(thread) {
            Outcome::Continue
        } else {
            Outcome::Blocked
        }
    }

    /// Once every program has finished, unless they go on for ever: the first report whose status
    /// is not zero, else the first.
    pub(crate) fn overall_exit(
        settings: &Settings,
        reports: &[ProgramReport],
    ) -> Option<ExitReport> {
        if settings.repeat == Repeat::Always {
            return None;
        }
        let ends = reports.iter().map(|report| report.exit.as_ref());
        let ends: Vec<&ExitReport> = ends.collect::<Option<_>>()?;
        let bad = ends.iter().find(|report| report.status != 0);
        bad.or(ends.first()).map(|&report| report.clone())
    }

    /// Ends a process. The report is its program's, if its end is that of a run.
    pub(crate) fn end_process(&mut self, id: ProcessId, ending: Ending, report: ExitReport) {
        let Some(process) = self.processes.get_mut(id) else {
            return;
        };
        if process.ending.is_some() {
            return;
        }
        process.ending = Some(ending);
        process.timer = IntervalTimer::default();
        if process.leads_run {
            let program = process.program as usize;
            self.reports[program].runs += 1;
            self.reports[program].exit.get_or_insert(report);
            self.exit = Self::overall_exit(&self.settings, &self.reports);
            if self.exit.is_some() {
                return;
            }
        }
        self.rare.jobs.remove(&id);
        self.forget_all_timers(id);
        self.doom_threads(id, None);
        if self.threads_of(id).is_empty() {
            self.dead.push(id);
        }
    }

    /// Ends all threads of a process but one. Those on harts go when they enter the kernel.
    pub(crate) fn doom_threads(&mut self, process: ProcessId, except: Option<ThreadId>) {
        for id in self.threads_of(process) {
            if Some(id) == except {
                continue;
            }
            match self.threads.get_mut(&id) {
                Some(thread) if matches!(thread.state, ThreadState::Running { .. }) => {
                    thread.doomed = true;
                }
                _ => self.remove_thread(id),
            }
        }
    }

    /// Takes a thread away, wherever it is. The last one takes its process along.
    fn remove_thread(&mut self, id: ThreadId) {
        // A blocked thread is in the queues of what it waits for; a ready one in one queue only.
        self.unblock(id, None);
        let Some(thread) = self.threads.remove(&id) else {
            return;
        };
        if let ThreadState::Running { hart } = thread.state {
            self.leave_hart(hart as usize);
        }
        self.scheduler.ready.retain(|&ready| ready != id);
        self.thread_is_gone(&thread);
    }

    /// A thread is gone: its process keeps what it retired, and whoever waits for its end goes on.
    fn thread_is_gone(&mut self, thread: &Thread) {
        let id = thread.process;
        if thread.robust_list != 0 || self.may_have_words(thread.id.0) {
            self.rare.departed.push(Departed::of(thread));
        }
        self.rare.wishes.remove(&thread.id);
        self.rare.affinities.remove(&thread.id);
        self.rare.restraints.remove(&thread.id);
        self.rare.lock_waits.remove(&thread.id);
        self.rare.system_v.waiting.remove(&thread.id);
        self.rare.queues.receivers.remove(&thread.id);
        self.disown(Owner::Thread(thread.id));
        self.rare.asynchronous.submissions.remove(&thread.id);
        if let Some(process) = self.processes.get_mut(id) {
            process.retired = process.retired.saturating_add(thread.retired);
        }
        let left = self.threads_of(id);
        for &thread in &left {
            self.unblock_if(thread, |wait| wait == Wait::Alone);
        }
        let Some(process) = self.processes.get(id).filter(|_| left.is_empty()) else {
            self.tell_of_stop(id);
            return;
        };
        if process.ending.is_some() {
            if !self.dead.contains(&id) {
                self.dead.push(id);
            }
            return;
        }
        let status = process.last_status;
        let report = ExitReport {
            status,
            fatal: None,
        };
        self.end_process(id, Ending::Exited(status as u8), report);
    }

    /// Ends the thread that runs on a hart: who waits for its end is woken; the last one ends the
    /// process.
    pub(crate) fn end_thread(&mut self, id: ThreadId, status: i32, machine: &mut dyn Machine) {
        let process = self.process_of(id);
        let space = self.processes[process].space;
        self.processes[process].last_status = status;
        let hart = self.scheduler.running.iter().position(|&on| on == Some(id));
        if let Some(hart) = hart {
            self.count_retired(id, machine.retired(hart));
            self.leave_hart(hart);
        }
        let Some(thread) = self.threads.remove(&id) else {
            return;
        };
        self.clear_child(machine, space, thread.clear_child);
        self.thread_is_gone(&thread);
    }

    /// Tells whoever waits in memory for the end of a thread.
    pub(crate) fn clear_child(&mut self, machine: &mut dyn Machine, space: SpaceId, address: u64) {
        if address != 0 {
            // Like Linux, an address that went away in the meantime is nobody's problem.
            let _ = self.copy_out(machine, space, address, &0_u32.to_le_bytes());
            self.futex_wake_at(space, address);
        }
    }

    /// Lets go of what ended processes held, and starts finished programs again.
    pub(crate) fn bury(&mut self, machine: &mut dyn Machine) {
        self.leave_robust_lists(machine);
        while self.exit.is_none() && !self.dead.is_empty() {
            self.leave_robust_lists(machine);
            let id = self.dead.remove(0);
            if let Some(process) = self.processes.live.remove(&id) {
                self.bury_one(machine, &process);
            }
        }
    }

    fn bury_one(&mut self, machine: &mut dyn Machine, process: &Process) {
        let id = process.id;
        if let Some(waiter) = process.vfork_waiter {
            self.unblock(waiter, Some(i64::from(id.0)));
        }
        let usage = self.usage(process, machine);
        for (_, descriptor) in process.descriptors.iter() {
            self.forget_request(id, descriptor.file);
            self.close_file(process.program, descriptor.file);
        }
        self.disown(Owner::Process(id));
        self.undo_semaphores(id);
        if locks::release(&mut self.locks, LockOwner::process(id), None) {
            self.wake_all_file_waiters();
        }
        if self.spaces[process.space].users == 1 {
            self.note_left(machine, id, process.space);
        }
        self.leave_space(machine, process.space);
        self.free_inode_if_unused(process.directory);
        self.leave_terminal(process);
        self.wake_orphaned_groups(process);
        let orphans = self.leave_children(process);
        self.tell_orphans(id, &orphans);
        self.tell_parent(process, usage);
        if self.open.watches_process(id) {
            self.wake_all_file_waiters();
        }
        if process.leads_run && self.settings.repeat != Repeat::Never {
            for left in self.processes_of_run(process.program, process.run) {
                let report = ExitReport {
                    status: 128 + i32::from(SIGKILL),
                    fatal: None,
                };
                self.end_process(left, Ending::Killed(SIGKILL), report);
            }
            self.start_again(machine, process.program);
        }
    }

    /// The children of a process that is gone become its reaper's, if it has one. Those that live.
    fn leave_children(&mut self, process: &Process) -> Vec<ProcessId> {
        let id = process.id;
        self.rare.reapers.remove(&id);
        let reaper = self.reaper_of(process);
        let mut orphans = Vec::new();
        for child in self.processes.live.values_mut() {
            if child.parent == Some(id) {
                child.parent = reaper;
                if reaper.is_some() {
                    child.exit_signal = SIGCHLD;
                }
                orphans.push(child.id);
            }
        }
        let zombies = &mut self.processes.zombies;
        let Some(reaper) = reaper else {
            zombies.retain(|_, zombie| zombie.parent != id);
            self.rare.clones.retain(|id| zombies.contains_key(id));
            return orphans;
        };
        let mut left = Vec::new();
        for (&number, zombie) in zombies.iter_mut() {
            if zombie.parent == id {
                zombie.parent = reaper;
                self.rare.clones.remove(&number);
                left.push((number, zombie.ending));
            }
        }
        let wants_none = self.wants_no_zombies(reaper);
        for (number, ending) in left {
            if wants_none {
                self.processes.zombies.remove(&number);
            }
            self.tell_of_end(reaper, number, (SIGCHLD, ending));
        }
        orphans
    }

    /// Sends orphans the signals that their threads wished for when the parent ends.
    fn tell_orphans(&mut self, parent: ProcessId, orphans: &[ProcessId]) {
        if self.rare.wishes.is_empty() {
            return;
        }
        for &orphan in orphans {
            let threads = self.threads_of(orphan);
            let wished = threads.iter().filter_map(|id| self.rare.wishes.get(id));
            let signals: Vec<u8> = wished.map(|wishes| wishes.death_signal).collect();
            for signal in signals.into_iter().filter(|&signal| signal != 0) {
                let info = SignalInfo::sent(signal, SI_USER, parent);
                self.send_signal(Target::Process(orphan), info);
            }
        }
    }

    fn processes_of_run(&self, program: u32, run: u64) -> Vec<ProcessId> {
        let all = self.processes.live.values();
        let same = all.filter(|process| process.program == program && process.run == run);
        same.map(|process| process.id).collect()
    }

    /// Leaves a zombie to the parent, unless it does not care, and sends it the signal.
    fn tell_parent(&mut self, process: &Process, usage: Usage) {
        let ending = process.ending.unwrap_or(Ending::Exited(0));
        let alive = |parent: &Process| parent.ending.is_none();
        let Some(parent) = process.parent.and_then(|id| self.processes.get(id)) else {
            return;
        };
        let parent = alive(parent).then_some(parent.id);
        let Some(parent) = parent else { return };
        if process.exit_signal != SIGCHLD || !self.wants_no_zombies(parent) {
            let zombie = Zombie {
                parent,
                group: process.group,
                program: process.program,
                ending,
                usage: usage.plus(process.children),
            };
            self.processes.zombies.insert(process.id, zombie);
            if process.exit_signal != SIGCHLD {
                self.rare.clones.insert(process.id);
            }
        }
        self.tell_of_end(parent, process.id, (process.exit_signal, ending));
    }

    /// Whether a process never asks for children that have ended.
    fn wants_no_zombies(&self, parent: ProcessId) -> bool {
        let action = self.action(parent, SIGCHLD);
        action.handler == SIG_IGN || action.flags & SA_NOCLDWAIT != 0
    }

    /// A child ended: its parent need not wait any more, and gets the signal, if there is to be one.
    fn tell_of_end(&mut self, parent: ProcessId, child: ProcessId, (signal, ending): (u8, Ending)) {
        for thread in self.threads_of(parent) {
            self.unblock_if(thread, |wait| wait == Wait::Child);
        }
        if signal != 0 {
            let info = SignalInfo::child(signal, child, ending);
            self.send_signal(Target::Process(parent), info);
        }
    }

    /// Brings a thread's count of retired instructions up to date, as it leaves a hart that has
    /// retired so many.
    pub(crate) fn count_retired(&mut self, id: ThreadId, on_hart: u64) {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.retired = thread.retired_when(on_hart);
            thread.hart_retired = on_hart;
        }
    }

    /// What a process has used itself.
    pub(crate) fn usage(&self, process: &Process, machine: &dyn Machine) -> Usage {
        let threads = self.threads.values();
        let own = threads.filter(|thread| thread.process == process.id);
        let of_threads = own.map(|thread| thread.retired_by_now(machine));
        Usage {
            retired: of_threads.fold(process.retired, u64::saturating_add),
            page_faults: self
                .spaces
                .get(process.space)
                .map_or(0, |space| space.page_faults),
        }
    }
}
