//! Signals: who gets them, the frame that a handler runs on, and the way back.
//!
//! Always true: a signal whose effect is to end the process does so when it is sent, if its
//! target does not block it; every other signal waits in a pending list until its thread leaves
//! the kernel. The frame is Linux's riscv64 `rt_sigframe`, byte for byte.

use perdure_riscv::{Access, Hart};
use serde::{Deserialize, Serialize};

use crate::address_space::TRAMPOLINE;
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, SpaceId, ThreadId};
use crate::outcome::{ExitReport, FatalSignal};
use crate::page_table::frame_of;
use crate::process::{Ending, ProcessId, USER_ID};
use crate::syscalls::time_bytes;
use crate::thread::{Interrupted, ThreadState, Wait};

pub(crate) const SIGHUP: u8 = 1;
pub(crate) const SIGILL: u8 = 4;
pub(crate) const SIGTRAP: u8 = 5;
pub(crate) const SIGABRT: u8 = 6;
pub(crate) const SIGBUS: u8 = 7;
pub(crate) const SIGKILL: u8 = 9;
pub(crate) const SIGSEGV: u8 = 11;
pub(crate) const SIGPIPE: u8 = 13;
pub(crate) const SIGALRM: u8 = 14;
pub(crate) const SIGCHLD: u8 = 17;
pub(crate) const SIGXCPU: u8 = 24;
pub(crate) const SIGXFSZ: u8 = 25;
pub(crate) const SIGVTALRM: u8 = 26;
pub(crate) const SIGPROF: u8 = 27;
pub(crate) const SIGCONT: u8 = 18;
pub(crate) const SIGSTOP: u8 = 19;
/// The last signal that stops by default; the first is SIGSTOP.
const SIGTTOU: u8 = 22;
/// The first real-time signal; these queue.
pub(crate) const SIGIO: u8 = 29;
pub(crate) const SIGRTMIN: u8 = 32;
pub(crate) const SIGNAL_MAX: u8 = 64;

pub(crate) const SA_NOCLDSTOP: u64 = 1;
pub(crate) const SA_NOCLDWAIT: u64 = 2;
pub(crate) const SA_ONSTACK: u64 = 0x0800_0000;
pub(crate) const SA_RESTART: u64 = 0x1000_0000;
pub(crate) const SA_NODEFER: u64 = 0x4000_0000;
pub(crate) const SA_RESETHAND: u64 = 0x8000_0000;

pub(crate) const SS_ONSTACK: u32 = 1;
pub(crate) const SS_DISABLE: u32 = 2;

pub(crate) const SI_USER: i32 = 0;
pub(crate) const SI_KERNEL: i32 = 0x80;
pub(crate) const SI_TKILL: i32 = -6;
pub(crate) const SI_QUEUE: i32 = -1;

const SIG_DFL: u64 = 0;
pub(crate) const SIG_IGN: u64 = 1;

/// Signals that nothing can block, catch or ignore.
pub(crate) const UNBLOCKABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);

/// The place of a signal in a set.
pub(crate) const fn bit(signal: u8) -> u64 {
    1 << (signal - 1)
}

/// SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU.
pub(crate) const STOPPING: u64 = bit(SIGSTOP) | bit(SIGSTOP + 1) | bit(SIGSTOP + 2) | bit(SIGTTOU);

/// What a signal does without a handler.
fn ends_by_default(signal: u8) -> bool {
    // CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
    !matches!(signal, 17..=23 | 28)
}

const NAMES: [&str; 32] = [
    "",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

fn name(signal: u8) -> String {
    NAMES
        .get(signal as usize)
        .map_or_else(|| format!("signal {signal}"), |&name| name.to_owned())
}

/// What a signal says about the process that it ends, in words.
fn meaning(signal: u8) -> &'static str {
    match signal {
        1 => "its terminal or its session is gone",
        2 => "it was interrupted",
        3 => "it was told to quit",
        SIGILL => "it was said to have met an illegal instruction",
        SIGTRAP => "it was said to have met a breakpoint, and nothing debugs it",
        SIGABRT => "it found an error of its own and gave up (abort)",
        SIGBUS => "it was said to have made an impossible access to memory",
        8 => "it was said to have computed something impossible",
        SIGKILL => "it was killed",
        10 | 12 => "a signal of the programs' own that it has no handler for",
        SIGSEGV => "it was said to have made a forbidden access to memory",
        SIGPIPE => "it wrote to what nobody reads any more",
        SIGALRM => "its alarm went off, and it has no handler for that",
        15 => "it was asked to terminate",
        SIGXCPU => "it used more processor time than its limit",
        SIGXFSZ => "it made a file larger than its limit",
        26 | 27 => "its timer went off, and it has no handler for that",
        29 => "input or output is possible, and it has no handler for that",
        30 => "the power is failing, and it has no handler for that",
        31 => "it made a system call that it must not make",
        _ => "it has no handler for that",
    }
}

/// Why a signal that was sent ends a process, in words.
fn cause_of(process: ProcessId, info: SignalInfo) -> String {
    let (name, meaning) = (name(info.signal), meaning(info.signal));
    let sender = info.words[0] as u32;
    let is_sent = matches!(info.code, SI_USER | SI_TKILL | SI_QUEUE);
    match info.signal {
        // What a call of its own led to comes as if from itself.
        SIGABRT | SIGPIPE if is_sent && sender == process.0 => meaning.to_owned(),
        _ if is_sent && sender == process.0 => {
            format!("the program sent {name} to itself: {meaning}")
        }
        _ if is_sent => format!("process {sender} sent {name}: {meaning}"),
        _ => meaning.to_owned(),
    }
}

/// Who gets a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Thread(ThreadId),
    /// Whichever thread takes it.
    Process(ProcessId),
}

/// What a process does about a signal (`struct sigaction`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Action {
    pub handler: u64,
    pub flags: u64,
    pub mask: u64,
}

/// A signal on its way (`siginfo_t` as far as anybody reads it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignalInfo {
    pub signal: u8,
    pub code: i32,
    /// The two words after the header: sender and value, or the faulting address.
    pub words: [u64; 2],
}

impl SignalInfo {
    /// A signal that a process sends.
    pub fn sent(signal: u8, code: i32, sender: ProcessId) -> Self {
        Self {
            signal,
            code,
            words: [u64::from(sender.0) | u64::from(USER_ID) << 32, 0],
        }
    }

    /// A child ended.
    pub fn child(signal: u8, child: ProcessId, ending: Ending) -> Self {
        Self::of_child(signal, child, ending.code_and_status())
    }

    /// Something happened to a child.
    pub fn of_child(signal: u8, child: ProcessId, (code, status): (i32, u32)) -> Self {
        Self {
            words: [
                u64::from(child.0) | u64::from(USER_ID) << 32,
                u64::from(status),
            ],
            ..Self::sent(signal, code, child)
        }
    }

    pub fn kernel(signal: u8) -> Self {
        Self {
            signal,
            code: SI_KERNEL,
            words: [0; 2],
        }
    }

    pub fn fault(signal: u8, code: i32, address: u64) -> Self {
        Self {
            signal,
            code,
            words: [address, 0],
        }
    }

    /// `struct signalfd_siginfo`.
    pub fn record_bytes(self) -> [u8; 128] {
        const SI_TIMER: i32 = -2;
        let mut bytes = [0; 128];
        let mut half = |at: usize, value: u64| {
            bytes[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
        };
        half(0, u64::from(self.signal));
        half(8, u64::from(self.code.cast_unsigned()));
        let [first, second] = self.words;
        let fault = matches!(self.signal, SIGILL | SIGTRAP | SIGBUS | SIGSEGV | 8);
        match self.code {
            SI_TIMER => {
                half(24, first);
                half(32, first >> 32);
            }
            code if code > 0 && fault => {}
            SI_KERNEL => {}
            _ => {
                half(12, first);
                half(16, first >> 32);
            }
        }
        match self.code {
            code if code > 0 && self.signal == SIGCHLD => half(40, second),
            code if code < 0 && code != SI_TKILL => {
                half(44, second);
                bytes[48..56].copy_from_slice(&second.to_le_bytes());
            }
            code if code > 0 && fault => bytes[72..80].copy_from_slice(&first.to_le_bytes()),
            _ => {}
        }
        bytes
    }

    /// `siginfo_t`.
    pub fn to_bytes(self) -> [u8; 128] {
        let mut bytes = [0; 128];
        bytes[0..4].copy_from_slice(&u32::from(self.signal).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.code.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.words[0].to_le_bytes());
        bytes[24..32].copy_from_slice(&self.words[1].to_le_bytes());
        bytes
    }
}

/// An open file made by `signalfd4`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SignalFile {
    pub mask: u64,
    /// Counts signals that came.
    pub activity: u64,
}

/// `sigaltstack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AlternateStack {
    pub base: u64,
    pub size: u64,
    pub flags: u32,
}

impl Default for AlternateStack {
    fn default() -> Self {
        Self {
            base: 0,
            size: 0,
            flags: SS_DISABLE,
        }
    }
}

impl AlternateStack {
    pub fn holds(&self, stack_pointer: u64) -> bool {
        self.flags & SS_DISABLE == 0
            && stack_pointer > self.base
            && stack_pointer - self.base <= self.size
    }

    /// `stack_t`.
    pub fn to_bytes(self, stack_pointer: u64) -> [u8; 24] {
        let on_stack = if self.holds(stack_pointer) {
            SS_ONSTACK
        } else {
            0
        };
        let mut bytes = [0; 24];
        bytes[0..8].copy_from_slice(&self.base.to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.flags | on_stack).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }
}

/// Where the parts of `struct rt_sigframe` lie.
mod frame {
    /// `siginfo_t info`.
    pub const INFO: usize = 0;
    /// `struct ucontext uc`.
    pub const CONTEXT: usize = 128;
    /// `uc.uc_stack`.
    pub const STACK: usize = CONTEXT + 16;
    /// `uc.uc_sigmask`.
    pub const MASK: usize = CONTEXT + 40;
    /// `uc.uc_mcontext.sc_regs`: pc, then x1 to x31.
    pub const REGISTERS: usize = CONTEXT + 176;
    /// `uc.uc_mcontext.sc_fpregs`: f0 to f31, then fcsr.
    pub const FLOAT: usize = REGISTERS + 256;
    /// `fcsr`.
    pub const FLOAT_CONTROL: usize = FLOAT + 256;
    /// The union of floating-point states is as wide as its quad-precision arm.
    pub const BYTES: usize = FLOAT + 528;
}

/// The size that `AT_MINSIGSTKSZ` announces.
pub(crate) const SIGNAL_FRAME_BYTES: u64 = frame::BYTES as u64;

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn take(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

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

    fn is_ignored(&self, process: ProcessId, signal: u8) -> bool {
        let handler = self.action(process, signal).handler;
        handler == SIG_IGN
            || handler == SIG_DFL && !ends_by_default(signal) && !self.stops(process, signal)
    }

    /// True if a signal stops a process. Terminal signals do not stop what nobody looks after.
    fn stops(&self, process: ProcessId, signal: u8) -> bool {
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
        let stays = |info: &SignalInfo| bit(info.signal) & against == 0;
        self.processes[process].pending.retain(stays);
        for thread in self.threads_of(process) {
            if let Some(thread) = self.threads.get_mut(&thread) {
                thread.pending.retain(stays);
            }
        }
        if signal == SIGCONT {
            self.continue_process(process);
        }
    }

    fn is_fatal(&self, process: ProcessId, signal: u8) -> bool {
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
            open.min_by_key(|(index, info)| (info.signal, *index))
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

    /// Makes a thread that is about to leave the kernel take its signals. The hart holds its
    /// registers.
    pub(crate) fn deliver_signals(
        &mut self,
        id: ThreadId,
        hart: &mut Hart,
        machine: &mut dyn Machine,
    ) {
        let process = self.process_of(id);
        let space = self.space_of(id);
        while self.exit.is_none()
            && self.processes[process].ending.is_none()
            && !self.is_stopped(process)
        {
            let Some(mask) = self.threads.get(&id).map(|thread| thread.mask) else {
                return;
            };
            let Some(info) = self.next_signal(id, !mask, machine) else {
                break;
            };
            if self.is_ignored(process, info.signal) {
                continue;
            }
            if self.is_fatal(process, info.signal) {
                let cause = cause_of(process, info);
                self.end_by_signal(info.signal, cause, id, hart.pc, None, None);
                return;
            }
            if self.stops(process, info.signal) {
                self.stop_process(process, info.signal);
                break;
            }
            let flags = self.action(process, info.signal).flags;
            self.settle_interrupted(id, hart, machine, space, flags);
            self.enter_handler(id, hart, machine, info);
        }
        // No handler ran: the call is made again as if nothing had happened.
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.interrupted = None;
        }
    }

    /// Ends an interrupted call with EINTR, or leaves the pc at it to make it again.
    fn settle_interrupted(
        &mut self,
        id: ThreadId,
        hart: &mut Hart,
        machine: &mut dyn Machine,
        space: SpaceId,
        flags: u64,
    ) {
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        let interrupted = thread.interrupted.take();
        if interrupted.is_some() {
            self.rare.lock_waits.remove(&id);
            self.rare.system_v.waiting.remove(&id);
            self.rare.queues.receivers.remove(&id);
        }
        // Also between two steps of a call, where nobody waits.
        let mut transferred = std::mem::take(&mut thread.transferred);
        if self.cut_submission_short(id) {
            transferred += 1;
        }
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        if transferred != 0 {
            thread.retry_deadline_ns = None;
            hart.x[10] = transferred;
            hart.pc = hart.pc.wrapping_add(4);
            return;
        }
        let Some(interrupted) = interrupted else {
            return;
        };
        thread.retry_deadline_ns = None;
        if interrupted == Interrupted::MayRestart && flags & SA_RESTART != 0 {
            return;
        }
        let mut error = Errno::EINTR;
        if let Interrupted::Sleep {
            deadline_ns,
            remaining,
        } = interrupted
        {
            let left = deadline_ns.saturating_sub(machine.clock_ns());
            if let Err(bad) = self.copy_out(machine, space, remaining, &time_bytes(left)) {
                error = bad;
            }
        }
        hart.x[10] = (-i64::from(error.0)) as u64;
        hart.pc = hart.pc.wrapping_add(4);
    }

    /// Builds the frame and points the hart at the handler.
    fn enter_handler(
        &mut self,
        id: ThreadId,
        hart: &mut Hart,
        machine: &mut dyn Machine,
        info: SignalInfo,
    ) {
        let process = self.process_of(id);
        let space = self.space_of(id);
        let action = self.action(process, info.signal);
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        let stack = thread.alternate_stack;
        let mut top = hart.x[2];
        if action.flags & SA_ONSTACK != 0 && stack.flags & SS_DISABLE == 0 && !stack.holds(top) {
            top = stack.base.wrapping_add(stack.size);
        }
        let sp = top.wrapping_sub(frame::BYTES as u64) & !15;
        let old_mask = thread.saved_mask.take().unwrap_or(thread.mask);
        thread.mask |= action.mask;
        if action.flags & SA_NODEFER == 0 {
            thread.mask |= bit(info.signal);
        }
        thread.mask &= !UNBLOCKABLE;
        if action.flags & SA_RESETHAND != 0 {
            self.processes[process].actions.remove(&info.signal);
        }
        let mut bytes = vec![0; frame::BYTES];
        bytes[frame::INFO..frame::CONTEXT].copy_from_slice(&info.to_bytes());
        bytes[frame::STACK..frame::STACK + 24].copy_from_slice(&stack.to_bytes(hart.x[2]));
        put(&mut bytes, frame::MASK, old_mask);
        put(&mut bytes, frame::REGISTERS, hart.pc);
        for register in 1..32 {
            put(
                &mut bytes,
                frame::REGISTERS + 8 * register,
                hart.x[register],
            );
        }
        for register in 0..32 {
            put(&mut bytes, frame::FLOAT + 8 * register, hart.f[register]);
        }
        put(&mut bytes, frame::FLOAT_CONTROL, u64::from(hart.fcsr));
        if self.copy_out(machine, space, sp, &bytes).is_err() {
            let cause = format!("no room for the frame of a {} handler", name(info.signal));
            self.end_by_signal(SIGSEGV, cause, id, hart.pc, Some(sp), None);
            return;
        }
        hart.pc = action.handler & !1;
        hart.x[1] = TRAMPOLINE;
        hart.x[2] = sp;
        hart.x[10] = u64::from(info.signal);
        hart.x[11] = sp + frame::INFO as u64;
        hart.x[12] = sp + frame::CONTEXT as u64;
    }

    /// `rt_sigreturn`: everything as the frame says.
    pub(crate) fn leave_handler(
        &mut self,
        id: ThreadId,
        hart: &mut Hart,
        machine: &mut dyn Machine,
    ) -> Result<(), Errno> {
        let mut bytes = vec![0; frame::BYTES];
        let space = self.space_of(id);
        self.copy_in(machine, space, hart.x[2], &mut bytes)?;
        hart.pc = take(&bytes, frame::REGISTERS) & !1;
        for register in 1..32 {
            hart.x[register] = take(&bytes, frame::REGISTERS + 8 * register);
        }
        for register in 0..32 {
            hart.f[register] = take(&bytes, frame::FLOAT + 8 * register);
        }
        hart.fcsr = take(&bytes, frame::FLOAT_CONTROL) as u32 & 0xff;
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.mask = take(&bytes, frame::MASK) & !UNBLOCKABLE;
            thread.interrupted = None;
        }
        Ok(())
    }

    /// A signal that the running instruction itself caused: its handler runs now, or the process
    /// ends. `cause` says in words what happened.
    pub(crate) fn force_signal(
        &mut self,
        id: ThreadId,
        hart: &mut Hart,
        machine: &mut dyn Machine,
        info: SignalInfo,
        cause: String,
    ) {
        let action = self.action(self.process_of(id), info.signal);
        let blocked = self
            .threads
            .get(&id)
            .is_some_and(|t| t.mask & bit(info.signal) != 0);
        if blocked || action.handler <= SIG_IGN {
            let address = matches!(info.signal, SIGSEGV | SIGBUS).then_some(info.words[0]);
            let bits = self.instruction_at(machine, self.space_of(id), hart.pc);
            self.end_by_signal(info.signal, cause, id, hart.pc, address, bits);
            return;
        }
        self.enter_handler(id, hart, machine, info);
    }

    /// The instruction word at an address, if it can be read without changing anything.
    fn instruction_at(&self, machine: &mut dyn Machine, space: SpaceId, pc: u64) -> Option<u32> {
        let mut half = |address: u64| {
            let leaf = self.spaces.leaf(space, address / 4096);
            if leaf == 0 {
                return None;
            }
            let mut raw = [0; 2];
            machine.read(frame_of(leaf) * 4096 + (address & 0xffe), &mut raw);
            Some(u32::from(u16::from_le_bytes(raw)))
        };
        let low = half(pc)?;
        if low & 3 != 3 {
            return Some(low);
        }
        Some(half(pc.wrapping_add(2))? << 16 | low)
    }

    /// Ends the process with status 128 + signal.
    pub(crate) fn end_by_signal(
        &mut self,
        signal: u8,
        cause: String,
        thread: ThreadId,
        pc: u64,
        address: Option<u64>,
        instruction_bits: Option<u32>,
    ) {
        let process = self.process_of(thread);
        let Some(dying) = self.processes.get(process) else {
            return;
        };
        // Only a program's own end is reported, and afterwards its memory is gone.
        let symbol = dying
            .leads_run
            .then(|| self.symbol(dying.space, pc))
            .flatten();
        let fatal = FatalSignal {
            signal,
            name: name(signal),
            cause,
            thread,
            pc,
            address,
            instruction_bits,
            symbol,
        };
        let report = ExitReport {
            status: 128 + i32::from(signal),
            fatal: Some(fatal),
        };
        self.end_process(process, Ending::Killed(signal), report);
    }

    /// What a bad access is called in a report.
    pub(crate) fn describe_access(access: Access) -> &'static str {
        match access {
            Access::Fetch => "instruction fetch from",
            Access::Load => "load from",
            Access::Store => "store to",
        }
    }
}
