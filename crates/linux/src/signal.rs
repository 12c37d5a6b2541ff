//! What signals are: their numbers, what is told with them, actions, and the stacks of handlers.

use serde::{Deserialize, Serialize};

use crate::delivery::SIGNAL_FRAME_BYTES;
use crate::errno::Errno;
use crate::machine::ThreadId;
use crate::process::{Ending, ProcessId, USER_ID};

pub(crate) const SIGHUP: u8 = 1;
pub(crate) const SIGILL: u8 = 4;
pub(crate) const SIGTRAP: u8 = 5;
pub(crate) const SIGABRT: u8 = 6;
pub(crate) const SIGBUS: u8 = 7;
const SIGFPE: u8 = 8;
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
const SIGSYS: u8 = 31;
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
pub(crate) const SS_AUTODISARM: u32 = 1 << 31;

pub(crate) const SI_USER: i32 = 0;
pub(crate) const SI_KERNEL: i32 = 0x80;
pub(crate) const SI_TKILL: i32 = -6;
pub(crate) const SI_QUEUE: i32 = -1;

pub(crate) const SIG_DFL: u64 = 0;
pub(crate) const SIG_IGN: u64 = 1;

/// Signals that nothing can block, catch or ignore.
pub(crate) const UNBLOCKABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);

/// The place of a signal in a set.
pub(crate) const fn bit(signal: u8) -> u64 {
    1 << (signal - 1)
}

/// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV and SIGSYS: what an instruction did.
pub(crate) fn is_synchronous(signal: u8) -> bool {
    matches!(
        signal,
        SIGILL | SIGTRAP | SIGBUS | SIGFPE | SIGSEGV | SIGSYS
    )
}

/// SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU.
pub(crate) const STOPPING: u64 = bit(SIGSTOP) | bit(SIGSTOP + 1) | bit(SIGSTOP + 2) | bit(SIGTTOU);

/// SIGCHLD, SIGCONT, SIGURG, SIGWINCH: without a handler, nothing.
pub(crate) const IGNORED: u64 = bit(SIGCHLD) | bit(SIGCONT) | bit(23) | bit(28);

/// Whether a signal without a handler ends its process.
pub(crate) fn ends_by_default(signal: u8) -> bool {
    bit(signal) & (IGNORED | STOPPING) == 0
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

pub(crate) fn name(signal: u8) -> String {
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
pub(crate) fn cause_of(process: ProcessId, info: SignalInfo) -> String {
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
    /// Whether somebody runs on it; on one that disarms itself, nobody ever does.
    pub fn holds(&self, stack_pointer: u64) -> bool {
        self.flags & (SS_DISABLE | SS_AUTODISARM) == 0
            && stack_pointer > self.base
            && stack_pointer - self.base <= self.size
    }

    /// What a thread has that asks for another one.
    pub fn replaced_by(self, wished: Self, stack_pointer: u64) -> Result<Self, Errno> {
        if self.holds(stack_pointer) {
            return Err(Errno::EPERM);
        }
        let flags = wished.flags & SS_AUTODISARM;
        match wished.flags & !SS_AUTODISARM {
            SS_DISABLE => Ok(Self {
                flags: SS_DISABLE | flags,
                ..Self::default()
            }),
            mode if mode > SS_ONSTACK => Err(Errno::EINVAL),
            _ if wished.size < 2048.max(SIGNAL_FRAME_BYTES) => Err(Errno::ENOMEM),
            _ => Ok(Self { flags, ..wished }),
        }
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
