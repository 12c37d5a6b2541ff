//! Threads: their registers while off a hart, what they wait for, their signal state.

use perdure_riscv::Hart;
use serde::{Deserialize, Serialize};

use crate::machine::{Machine, SpaceId, ThreadId};
use crate::process::ProcessId;
use crate::signal::{AlternateStack, SignalInfo};
use crate::vfs::InodeId;
use crate::vfs::spelling::{bytes_of, text_of};

/// Of a thread's name, with the zero behind it.
pub(crate) const NAME_BYTES: usize = 16;

/// The name of a thread that runs this file.
pub(crate) fn name_of(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let bytes = bytes_of(name);
    text_of(bytes[..bytes.len().min(NAME_BYTES - 1)].to_vec())
}

/// The registers that belong to a thread (`retired` belongs to the hart).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Context {
    pub x: [u64; 32],
    pub f: [u64; 32],
    pub pc: u64,
    pub fcsr: u32,
}

impl Context {
    pub fn of(hart: &Hart) -> Self {
        Self {
            x: hart.x,
            f: hart.f,
            pc: hart.pc,
            fcsr: hart.fcsr,
        }
    }

    pub fn load(&self, hart: &mut Hart) {
        hart.x = self.x;
        hart.x[0] = 0;
        hart.f = self.f;
        hart.pc = self.pc & !1;
        hart.fcsr = self.fcsr & 0xff;
    }
}

/// What identifies a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum FutexKey {
    /// A virtual address.
    Private(SpaceId, u64),
    /// A place in a file that is mapped shared, or in memory that processes share.
    File(InodeId, u64),
}

/// What a blocked thread waits for. Its pc stays at the `ecall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wait {
    /// A wake-up of the futex; then the call returns 0, or ETIMEDOUT at the deadline. With the
    /// bitset 0 it waits to be given the word (`FUTEX_LOCK_PI`).
    Futex { key: FutexKey, bitset: u32 },
    /// The deadline; then the call returns 0. `remaining` is where an interrupted sleep says how
    /// long it would have gone on (0: nowhere).
    Sleep { remaining: u64 },
    /// Something about open files; then the call is made again.
    Files,
    /// One of several open files to be ready; then the call is made again. Unlike a read, it does
    /// not start again after a handler.
    Readiness,
    /// A signal of the set; then the call is made again.
    Signals { set: u64 },
    /// Any signal that runs a handler.
    Pause,
    /// A child to end; then the call is made again.
    Child,
    /// The child made by `vfork` to call `execve` or end; then the call returns its number.
    Vfork,
    /// The other threads of the process to be gone; then the call is made again.
    Alone,
    /// Somebody to open the other end of a FIFO, who then opens this one, too.
    Fifo { inode: InodeId, flags: u32 },
    /// A wake-up of one of several futexes, which stand in [`crate::rare::Rare::futex_lists`]; then the
    /// call returns its place among them, or ETIMEDOUT at the deadline.
    Futexes,
    /// To be moved from one futex to another (`FUTEX_CMP_REQUEUE_PI`), where it waits to be given the
    /// word; ETIMEDOUT at the deadline.
    FutexMove { key: FutexKey, target: FutexKey },
}

impl Wait {
    /// What is waited for, in words.
    pub fn words(self) -> &'static str {
        match self {
            Wait::Futex { .. } | Wait::Futexes | Wait::FutexMove { .. } => "a futex",
            Wait::Sleep { .. } => "time to pass",
            Wait::Files | Wait::Readiness => "a file",
            Wait::Signals { .. } | Wait::Pause => "a signal",
            Wait::Child | Wait::Vfork => "a child",
            Wait::Alone => "its other threads to end",
            Wait::Fifo { .. } => "the other end of a FIFO",
        }
    }

    /// True if a handler with `SA_RESTART` makes the call start again.
    pub fn restarts(self, has_deadline: bool) -> bool {
        match self {
            Wait::Futex { .. } | Wait::Files => !has_deadline,
            Wait::Child | Wait::Fifo { .. } | Wait::Futexes | Wait::FutexMove { .. } => true,
            Wait::Sleep { .. }
            | Wait::Readiness
            | Wait::Signals { .. }
            | Wait::Pause
            | Wait::Vfork
            | Wait::Alone => false,
        }
    }

    /// True if the call is made again whatever the handler says.
    pub fn always_restarts(self) -> bool {
        matches!(self, Wait::Futex { bitset: 0, .. } | Wait::FutexMove { .. })
    }

    /// True if a signal ends the wait, unless it ends the process.
    pub fn is_interruptible(self) -> bool {
        !matches!(self, Wait::Vfork | Wait::Alone)
    }
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ThreadState {
    Ready,
    Running {
        hart: u32,
    },
    Blocked {
        wait: Wait,
        deadline_ns: Option<u64>,
    },
    /// It would be ready, if its process were not stopped.
    Stopped,
}

/// How an interrupted call ends once its signal's handler is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Interrupted {
    /// EINTR in any case.
    Fails,
    /// Made again if the handler has `SA_RESTART`.
    MayRestart,
    /// EINTR, and the time that was left is written to `remaining`.
    Sleep { deadline_ns: u64, remaining: u64 },
}

/// A thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Thread {
    pub id: ThreadId,
    pub process: ProcessId,
    /// It is to end as soon as it leaves its hart.
    pub doomed: bool,
    /// Saved as plain words beside the rest.
    #[serde(skip)]
    pub context: Context,
    pub state: ThreadState,
    pub name: String,
    /// Blocked signals.
    pub mask: u64,
    /// The mask to go back to after a call that replaced it for its own duration.
    pub saved_mask: Option<u64>,
    pub pending: Vec<SignalInfo>,
    pub alternate_stack: AlternateStack,
    pub interrupted: Option<Interrupted>,
    /// The deadline of a call that is being made again.
    pub retry_deadline_ns: Option<u64>,
    /// Bytes that a blocking call has transferred already.
    pub transferred: u64,
    /// Cleared and woken when the thread ends.
    pub clear_child: u64,
    /// Where it keeps the list of the robust mutexes that it holds.
    pub robust_list: u64,
    /// Who has the word that it waits to be given. Not saved: of whom nobody knows it, the word says it.
    #[serde(skip)]
    pub word_owner: Option<u32>,
    /// What it had retired when it last left a hart.
    pub retired: u64,
    /// What the hart had retired when the thread last came to one.
    pub hart_retired: u64,
}

impl Thread {
    /// What it has retired when the hart that it is on has retired so much.
    pub fn retired_when(&self, hart_retired: u64) -> u64 {
        let since = hart_retired.saturating_sub(self.hart_retired);
        self.retired.saturating_add(since)
    }

    /// What it has retired.
    pub fn retired_by_now(&self, machine: &dyn Machine) -> u64 {
        match self.state {
            ThreadState::Running { hart } => self.retired_when(machine.retired(hart as usize)),
            _ => self.retired,
        }
    }

    pub fn new(id: ThreadId, process: ProcessId, context: Context, name: String) -> Self {
        Self {
            id,
            process,
            doomed: false,
            context,
            state: ThreadState::Ready,
            name,
            mask: 0,
            saved_mask: None,
            pending: Vec::new(),
            alternate_stack: AlternateStack::default(),
            interrupted: None,
            retry_deadline_ns: None,
            transferred: 0,
            clear_child: 0,
            robust_list: 0,
            word_owner: None,
            retired: 0,
            hart_retired: 0,
        }
    }
}
