//! What the kernel answers the machine after each event.

use serde::{Deserialize, Serialize};

use crate::machine::{SpaceId, ThreadId};

/// What the hart does next after a system call, fault, exception or the end of a time slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The hart's thread goes on at the hart's pc.
    Continue,
    /// The thread has left the hart: call [`crate::Kernel::schedule`].
    Blocked,
    /// The thread goes on only after everything so far is durable (fsync, fdatasync, msync, sync,
    /// or the output buffer is full).
    Commit,
    /// Every program has finished. [`crate::Kernel::exited`] has the report.
    Exited {
        /// The exit code, or 128 + signal, as that report has it.
        status: i32,
    },
}

/// An instruction that the hart could not carry out and that is not a memory fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// No such instruction: SIGILL.
    Illegal {
        /// The instruction word (compressed ones in the low half).
        bits: u32,
    },
    /// EBREAK: SIGTRAP.
    Breakpoint,
    /// A misaligned atomic: SIGBUS.
    Misaligned {
        /// The address.
        address: u64,
    },
    /// What a device does not take: SIGBUS.
    Refused {
        /// The address.
        address: u64,
    },
}

/// The thread that a hart has begun to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The thread; its registers are in the hart. Any LR reservation of the hart must be dropped.
    pub thread: ThreadId,
    /// Its address space. Whatever is remembered by virtual address (lookasides, decoded blocks)
    /// belongs to one space: drop it, or tag it, when a hart goes on in another one.
    pub space: SpaceId,
    /// The program that its process belongs to: its place in the configuration.
    pub program: u32,
}

/// What became of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramReport {
    /// How its first run ended, once it has.
    pub exit: Option<ExitReport>,
    /// Runs that have finished.
    pub runs: u64,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitReport {
    /// The exit code, or 128 + signal.
    pub status: i32,
    /// Set if a signal ended it.
    pub fatal: Option<FatalSignal>,
}

/// The signal that ended a process, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FatalSignal {
    /// Its number.
    pub signal: u8,
    /// Its name, for instance `SIGSEGV`.
    pub name: String,
    /// What led to it, in words.
    pub cause: String,
    /// The thread it struck.
    pub thread: ThreadId,
    /// The thread's program counter.
    pub pc: u64,
    /// The address that could not be accessed, for SIGSEGV and SIGBUS.
    pub address: Option<u64>,
    /// The instruction word at `pc`, where it could be read, for disassembly.
    pub instruction_bits: Option<u32>,
    /// The symbol that holds `pc`, and the offset in it.
    pub symbol: Option<(String, u64)>,
}
