//! Job control: processes that are stopped, that go on, and who is told.
//!
//! Always true: a stopped process has no thread that runs or is about to, but for those that were on
//! other harts: these stop when they next enter the kernel, at the latest when their time slice
//! is over. Only then is the parent told. A thread that waits in a call goes on waiting; what
//! wakes it meanwhile lets it go on once the process does.

use std::collections::BTreeMap;

use perdure_riscv::Hart;
use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::machine::ThreadId;
use crate::process::{Process, ProcessId};
use crate::signal::{SA_NOCLDSTOP, SIG_IGN, SIGCHLD, SIGCONT, SIGHUP, SignalInfo, Target};
use crate::thread::{Context, ThreadState, Wait};

const CLD_STOPPED: i32 = 5;
const CLD_CONTINUED: i32 = 6;

/// What stopping has left of a process for its parent and itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The signal that stopped it, while it is stopped.
    pub stopped_by: Option<u8>,
    /// Its last thread has stopped, and the parent was told.
    pub told: bool,
    /// The parent has not asked for the stop yet.
    pub stop_waits: bool,
    /// It goes on, and the parent has not asked for that yet.
    pub continued: bool,
}

/// Of the processes that were stopped.
pub(crate) type Jobs = BTreeMap<ProcessId, Job>;

/// What a parent is told of a child that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Stopped(u8),
    Continued,
}

impl Change {
    /// The status word of `wait4`.
    pub fn status_word(self) -> u32 {
        match self {
            Change::Stopped(signal) => u32::from(signal) << 8 | 0x7f,
            Change::Continued => 0xffff,
        }
    }

    /// `si_code` and `si_status`.
    pub fn code_and_status(self) -> (i32, u32) {
        match self {
            Change::Stopped(signal) => (CLD_STOPPED, u32::from(signal)),
            Change::Continued => (CLD_CONTINUED, u32::from(SIGCONT)),
        }
    }
}

impl Kernel {
    /// True while a process is stopped.
    pub(crate) fn is_stopped(&self, process: ProcessId) -> bool {
        let job = self.rare.jobs.get(&process);
        job.is_some_and(|job| job.stopped_by.is_some())
    }

    /// The numbers of the processes that are stopped.
    pub fn stopped_processes(&self) -> Vec<u32> {
        let jobs = self.rare.jobs.iter();
        let stopped = jobs.filter(|(_, job)| job.stopped_by.is_some());
        stopped.map(|(id, _)| id.0).collect()
    }

    /// A signal stops a process, unless it is stopped already.
    pub(crate) fn stop_process(&mut self, id: ProcessId, signal: u8) {
        if self.is_stopped(id) {
            return;
        }
        let job = Job {
            stopped_by: Some(signal),
            ..Job::default()
        };
        self.rare.jobs.insert(id, job);
        for thread in self.threads_of(id) {
            if let Some(thread) = self.threads.get_mut(&thread)
                && thread.state == ThreadState::Ready
            {
                thread.state = ThreadState::Stopped;
            }
        }
        let threads = &self.threads;
        let is_ready = |thread: &ThreadId| {
            let thread = threads.get(thread);
            thread.is_some_and(|thread| thread.state == ThreadState::Ready)
        };
        self.scheduler.ready.retain(is_ready);
        self.tell_of_stop(id);
    }

    /// Takes a thread of a stopped process off its hart; false if it may go on.
    pub(crate) fn park_if_stopped(&mut self, hart_index: usize, id: ThreadId, hart: &Hart) -> bool {
        if self.thread_on(hart_index) != Some(id) || self.rare.jobs.is_empty() {
            return false;
        }
        let process = self.process_of(id);
        if !self.is_stopped(process) {
            return false;
        }
        self.count_retired(id, hart.retired);
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.context = Context::of(hart);
            thread.state = ThreadState::Stopped;
        }
        self.leave_hart(hart_index);
        self.tell_of_stop(process);
        true
    }

    /// Tells the parent of a stopped process, once its last thread has left its hart.
    pub(crate) fn tell_of_stop(&mut self, id: ProcessId) {
        let waits = |job: &Job| job.stopped_by.is_some() && !job.told;
        if !self.rare.jobs.get(&id).is_some_and(waits) {
            return;
        }
        let runs = |thread: &ThreadId| {
            let thread = self.threads.get(thread);
            thread.is_some_and(|thread| matches!(thread.state, ThreadState::Running { .. }))
        };
        if self.threads_of(id).iter().any(runs) {
            return;
        }
        let Some(job) = self.rare.jobs.get_mut(&id) else {
            return;
        };
        if let Some(signal) = job.stopped_by {
            (job.told, job.stop_waits) = (true, true);
            self.tell_of_change(id, Change::Stopped(signal));
        }
    }

    /// `SIGCONT` lets a stopped process go on, whatever else the signal does.
    pub(crate) fn continue_process(&mut self, id: ProcessId) {
        let Some(job) = self.rare.jobs.get_mut(&id) else {
            return;
        };
        if job.stopped_by.is_none() {
            return;
        }
        let told = job.told;
        *job = Job {
            continued: true,
            ..Job::default()
        };
        if !told {
            // Nobody knows that it stopped.
            self.rare.jobs.remove(&id);
        }
        for thread in self.threads_of(id) {
            if let Some(stopped) = self.threads.get_mut(&thread)
                && stopped.state == ThreadState::Stopped
            {
                stopped.state = ThreadState::Ready;
                self.scheduler.ready.push_back(thread);
            }
            // What came while it was stopped counts now.
            let state = self.threads.get(&thread).map(|thread| thread.state);
            if let Some(ThreadState::Blocked { wait, deadline_ns }) = state
                && wait.is_interruptible()
            {
                if self.has_signal(thread) {
                    self.unblock(thread, None);
                    self.interrupt_at_once(thread, wait, deadline_ns);
                } else if wait == Wait::Files {
                    // A terminal that was not its own may be now.
                    self.unblock(thread, None);
                }
            }
        }
        if told {
            self.tell_of_change(id, Change::Continued);
        }
    }

    fn tell_of_change(&mut self, id: ProcessId, change: Change) {
        let parent = self.processes.get(id).and_then(|process| process.parent);
        let parent = parent.and_then(|parent| self.processes.get(parent));
        let Some(parent) = parent.filter(|parent| parent.ending.is_none()) else {
            return;
        };
        let parent = parent.id;
        for thread in self.threads_of(parent) {
            self.unblock_if(thread, |wait| wait == Wait::Child);
        }
        let action = self.action(parent, SIGCHLD);
        if action.handler != SIG_IGN && action.flags & SA_NOCLDSTOP == 0 {
            let info = SignalInfo::of_child(SIGCHLD, id, change.code_and_status());
            self.send_signal(Target::Process(parent), info);
        }
    }

    /// What there is to tell of a child, if the parent asks for it; no more if `take`.
    pub(crate) fn change_of(
        &mut self,
        child: ProcessId,
        stops: bool,
        continues: bool,
        take: bool,
    ) -> Option<Change> {
        let job = self.rare.jobs.get_mut(&child)?;
        if let (Some(signal), true, true) = (job.stopped_by, job.stop_waits, stops) {
            job.stop_waits &= !take;
            return Some(Change::Stopped(signal));
        }
        if job.continued && continues {
            if take {
                self.rare.jobs.remove(&child);
            }
            return Some(Change::Continued);
        }
        None
    }

    /// True if nobody outside a process group, but in its session, looks after one of its members.
    pub(crate) fn is_orphaned_group(&self, group: u32, except: Option<ProcessId>) -> bool {
        let cares = |process: &&Process| {
            let parent = process.parent.and_then(|parent| self.processes.get(parent));
            parent.is_some_and(|parent| {
                parent.ending.is_none()
                    && Some(parent.id) != except
                    && parent.group != group
                    && parent.session == process.session
            })
        };
        let members = self.processes.live.values();
        let mut members = members.filter(|process| process.group == group);
        !members.any(|process| Some(process.id) != except && cares(&process))
    }

    /// A process is gone: the stopped members of groups that it leaves orphaned are woken.
    pub(crate) fn wake_orphaned_groups(&mut self, gone: &Process) {
        if self.rare.jobs.is_empty() {
            return;
        }
        // Only who is in another group of the same session looks after one.
        let looked_after = |child: &Process, parent: &Process| {
            child.group != parent.group && child.session == parent.session
        };
        let all = self.processes.live.values();
        let children = all.filter(|process| process.parent == Some(gone.id));
        let lost = children.filter(|child| looked_after(child, gone));
        let mut groups: Vec<u32> = lost.map(|child| child.group).collect();
        let parent = gone.parent.and_then(|parent| self.processes.get(parent));
        if parent.is_some_and(|parent| looked_after(gone, parent)) {
            groups.push(gone.group);
        }
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            let all = self.processes.live.values();
            let members = all.filter(|process| process.group == group);
            let members: Vec<ProcessId> = members.map(|member| member.id).collect();
            let any_stopped = members.iter().any(|&member| self.is_stopped(member));
            if !any_stopped || !self.is_orphaned_group(group, Some(gone.id)) {
                continue;
            }
            for member in members {
                for signal in [SIGHUP, SIGCONT] {
                    self.send_signal(Target::Process(member), SignalInfo::kernel(signal));
                }
            }
        }
    }

    /// Every job is a live process's, and says something.
    pub(crate) fn validate_jobs(&self) -> Result<(), &'static str> {
        for (id, job) in &self.rare.jobs {
            let alive = self.processes.get(*id).is_some();
            let stop_exists = job
                .stopped_by
                .is_none_or(|signal| (19..=22).contains(&signal));
            if !alive || !stop_exists || job.stopped_by.is_some() == job.continued {
                return Err("a stopped process is impossible");
            }
        }
        Ok(())
    }
}
