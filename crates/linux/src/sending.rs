//! Sending signals: who gets them, and what waits for them.
//!
//! Always true: a signal whose effect is to end the process does so when it is sent, if its
//! target does not block it; every other signal waits in a pending list until its thread leaves
//! the kernel.

use crate::kernel::Kernel;
use crate::machine::{Machine, ThreadId};
use crate::process::ProcessId;
use crate::signal::{
    Action, SIG_DFL, SIG_IGN, SIGCONT, SIGKILL, SIGRTMIN, SIGSTOP, STOPPING, SignalInfo, Target,
    bit, cause_of, ends_by_default, is_synchronous,
};
use crate::thread::{Interrupted, ThreadState, Wait};

/// The signals that one calls off.
fn called_off_by(signal: u8) -> u64 {
    match signal {
        SIGCONT => STOPPING,
        _ if bit(signal) & STOPPING != 0 => bit(SIGCONT),
        _ => 0,
    }
}

impl Kernel {
    pub(crate) fn action(&self, process: ProcessId, signal: u8) -> Action {
        let actions = &self.processes[process].actions;
        actions.get(&signal).copied().unwrap_or_default()
    }

    pub(crate) fn is_ignored(&self, process: ProcessId, signal: u8) -> bool {
        let handler = self.action(process, signal).handler;
        handler == SIG_IGN
            || handler == SIG_DFL && !ends_by_default(signal) && !self.stops(process, signal)
    }

    /// True if a signal stops a process. Terminal signals do not stop what nobody looks after.
    pub(crate) fn stops(&self, process: ProcessId, signal: u8) -> bool {
        bit(signal) & STOPPING != 0
            && self.action(process, signal).handler == SIG_DFL
            && (signal == SIGSTOP || !self.is_orphaned_group(self.processes[process].group, None))
    }

    /// A signal that stops calls off one that continues, and the other way round.
    fn call_off(&mut self, process: ProcessId, signal: u8) {
        let against = called_off_by(signal);
        if against == 0 {
            return;
        }
        self.forget_pending(process, against);
        if signal == SIGCONT {
            self.continue_process(process);
        }
    }

    /// Signals of a set that wait, for a process or for one of its threads, are never delivered.
    pub(crate) fn forget_pending(&mut self, process: ProcessId, set: u64) {
        let stays = |info: &SignalInfo| bit(info.signal) & set == 0;
        self.processes[process].pending.retain(stays);
        for thread in self.threads_of(process) {
            if let Some(thread) = self.threads.get_mut(&thread) {
                thread.pending.retain(stays);
            }
        }
    }

    pub(crate) fn is_fatal(&self, process: ProcessId, signal: u8) -> bool {
        self.action(process, signal).handler == SIG_DFL && ends_by_default(signal)
    }

    /// The process that a signal would be sent to, if it can still take one.
    fn addressee(&self, target: Target) -> Option<ProcessId> {
        let process = match target {
            Target::Thread(thread) => self.process_of(thread),
            Target::Process(process) => process,
        };
        let living = self.processes.get(process)?.ending.is_none();
        living.then_some(process)
    }

    /// The thread that would take a signal now, and true if it has been waiting for it.
    fn receiver(&self, target: Target, process: ProcessId, signal: u8) -> (Option<ThreadId>, bool) {
        let set = bit(signal);
        let stopped = self.is_stopped(process) && signal != SIGKILL;
        let awaits = |wait: ThreadState| matches!(wait, ThreadState::Blocked { wait: Wait::Signals { set: s }, .. } if s & set != 0);
        let candidates: Vec<ThreadId> = match target {
            // Nobody takes it now.
            _ if stopped => Vec::new(),
            Target::Thread(thread) => vec![thread],
            Target::Process(process) => self.threads_of(process),
        };
        let open = |kernel: &Self, id: &ThreadId| {
            kernel
                .threads
                .get(id)
                .is_some_and(|t| t.mask & set == 0 || awaits(t.state))
        };
        let receiver = candidates
            .iter()
            .find(|id| {
                // A thread that sleeps takes it before one that is busy.
                let blocked =
                    |t: &crate::thread::Thread| matches!(t.state, ThreadState::Blocked { .. });
                open(self, id) && self.threads.get(id).is_some_and(blocked)
            })
            .or_else(|| candidates.iter().find(|id| open(self, id)))
            .copied();
        let waits = receiver
            .and_then(|id| self.threads.get(&id))
            .is_some_and(|t| awaits(t.state));
        (receiver, waits)
    }

    /// True if a signal would change anything if it were sent now: if it were not ignored, and none of
    /// its kind were waiting already.
    pub(crate) fn would_matter(&self, target: Target, signal: u8) -> bool {
        let Some(process) = self.addressee(target) else {
            return false;
        };
        if signal == SIGCONT && self.is_stopped(process) {
            return true;
        }
        let (receiver, waits) = self.receiver(target, process, signal);
        if receiver.is_some() && !waits {
            if self.is_ignored(process, signal) {
                return self.has_pending(process, called_off_by(signal));
            }
            if self.is_fatal(process, signal) || self.stops(process, signal) {
                return true;
            }
        }
        let pending = match target {
            Target::Thread(id) => self.threads.get(&id).map(|thread| &thread.pending),
            Target::Process(id) => self.processes.get(id).map(|process| &process.pending),
        };
        let queued = |pending: &Vec<SignalInfo>| {
            signal < SIGRTMIN && pending.iter().any(|other| other.signal == signal)
        };
        pending.is_some_and(|pending| !queued(pending))
    }

    /// True if one of a set of signals waits for a process or for a thread of it.
    fn has_pending(&self, process: ProcessId, set: u64) -> bool {
        let threads = self.threads.values();
        let own = threads.filter(|thread| thread.process == process);
        let shared = self.processes.get(process).into_iter();
        let mut all = shared
            .flat_map(|process| &process.pending)
            .chain(own.flat_map(|thread| &thread.pending));
        set != 0 && all.any(|info| bit(info.signal) & set != 0)
    }

    /// Sends a signal. May end the process.
    pub(crate) fn send_signal(&mut self, target: Target, info: SignalInfo) {
        let Some(process) = self.addressee(target) else {
            return;
        };
        self.call_off(process, info.signal);
        let set = bit(info.signal);
        let (receiver, waits) = self.receiver(target, process, info.signal);
        if let Some(id) = receiver {
            if self.is_ignored(process, info.signal) && !waits {
                return;
            }
            if self.is_fatal(process, info.signal) && !waits {
                let pc = self.threads.get(&id).map_or(0, |thread| thread.context.pc);
                let cause = cause_of(process, info);
                self.end_by_signal(info.signal, cause, id, pc, None, None);
                return;
            }
            if self.stops(process, info.signal) && !waits {
                self.stop_process(process, info.signal);
                return;
            }
        }
        let pending = match target {
            Target::Thread(id) => match self.threads.get_mut(&id) {
                Some(thread) => &mut thread.pending,
                None => return,
            },
            Target::Process(process) => &mut self.processes[process].pending,
        };
        if info.signal < SIGRTMIN && pending.iter().any(|other| other.signal == info.signal) {
            return;
        }
        pending.push(info);
        self.tell_signal_files(process, set);
        let Some(id) = receiver else { return };
        let state = self.threads.get(&id).map(|thread| thread.state);
        if let Some(ThreadState::Blocked { wait, deadline_ns }) = state {
            if waits {
                self.unblock(id, None);
                return;
            }
            if !wait.is_interruptible() {
                return;
            }
            self.unblock(id, None);
            self.interrupt_at_once(id, wait, deadline_ns);
        }
    }

    /// Whoever waits for signals at an open file looks again.
    fn tell_signal_files(&mut self, process: ProcessId, set: u64) {
        if self.open.signal_files.is_empty() {
            return;
        }
        for (_, file) in self.open.signal_files.iter_mut() {
            file.activity += u64::from(file.mask & set != 0);
        }
        let program = self.processes[process].program;
        self.wake_file_waiters(program);
    }

    /// The signals that wait for a thread.
    pub(crate) fn pending_set(&self, id: ThreadId) -> u64 {
        let Some(thread) = self.threads.get(&id) else {
            return 0;
        };
        let process = self.processes.get(thread.process);
        let shared = process.into_iter().flat_map(|process| &process.pending);
        let all = thread.pending.iter().chain(shared);
        all.fold(0, |set, info| set | bit(info.signal))
    }

    /// Notes that a thread's call was interrupted; what becomes of it depends on the handler.
    pub(crate) fn interrupt_at_once(&mut self, id: ThreadId, wait: Wait, deadline_ns: Option<u64>) {
        self.rare.futex_lists.remove(&id);
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        if wait.always_restarts() {
            return;
        }
        thread.interrupted = Some(match (wait, deadline_ns) {
            (Wait::Sleep { remaining }, Some(deadline_ns)) if remaining != 0 => {
                Interrupted::Sleep {
                    deadline_ns,
                    remaining,
                }
            }
            _ if wait.restarts(deadline_ns.is_some()) => Interrupted::MayRestart,
            _ => Interrupted::Fails,
        });
    }

    /// The next signal that a thread must take now.
    pub(crate) fn next_signal(
        &mut self,
        id: ThreadId,
        set: u64,
        machine: &dyn Machine,
    ) -> Option<SignalInfo> {
        let mut info = self.take_signal(id, set)?;
        let process = self.process_of(id);
        self.timer_signal_taken(process, &mut info, machine);
        Some(info)
    }

    fn take_signal(&mut self, id: ThreadId, set: u64) -> Option<SignalInfo> {
        let lowest = |list: &[SignalInfo]| {
            let open = list
                .iter()
                .enumerate()
                .filter(|(_, info)| bit(info.signal) & set != 0);
            // Like Linux, what instructions did goes first.
            open.min_by_key(|(index, info)| (!is_synchronous(info.signal), info.signal, *index))
                .map(|(index, _)| index)
        };
        let thread = self.threads.get_mut(&id)?;
        if let Some(index) = lowest(&thread.pending) {
            return Some(thread.pending.remove(index));
        }
        let pending = &mut self.processes[thread.process].pending;
        let index = lowest(pending)?;
        Some(pending.remove(index))
    }

    /// True if a signal would interrupt a call that blocks now.
    pub(crate) fn has_signal(&self, id: ThreadId) -> bool {
        let Some(thread) = self.threads.get(&id) else {
            return false;
        };
        let process = thread.process;
        let all = thread
            .pending
            .iter()
            .chain(&self.processes[process].pending);
        let mut open = all.filter(|info| bit(info.signal) & thread.mask == 0);
        open.any(|info| !self.is_ignored(process, info.signal))
    }
}
