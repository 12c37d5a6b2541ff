//! The emulated RISC-V Linux kernel: loading, memory, processes and threads, system calls, files,
//! output commit.
//!
//! [`Kernel`] is plain serialisable data. The machine drives it: a hart that meets an `ecall`, a
//! fault or the end of its time slice calls in with a [`Machine`] through which every guest byte
//! is read and written, and gets an [`Outcome`].
//!
//! ```text
//! Kernel::boot(configuration, machine)          one process for each program, their threads ready
//! kernel.schedule(hart, ..) -> Some(Running)    the hart runs a thread in a space, or is idle
//!   Exit::EnvironmentCall -> kernel.system_call(hart, ..) -> Outcome
//!   Exit::Fault           -> kernel.fault(hart, ..)       -> Outcome
//!   Exit::Illegal, …      -> kernel.exception(hart, ..)   -> Outcome
//!   time slice over       -> kernel.preempt(hart, ..)     -> Outcome
//! every hart idle         -> kernel.next_deadline_ns(), then kernel.wake_sleepers(now)
//! epoch committed         -> kernel.seal(epoch), kernel.save()
//! epoch persisted         -> kernel.release(epoch); at a commit also kernel.release_files(..)
//! power back              -> Kernel::restore(bytes, host_view); harts go on with their contexts
//! ```
//!
//! # What was decided
//! - **Programs.** Each program of the configuration is a tree of processes that begins with one
//!   of its own; all programs share files, frames and harts. Of *n* programs, the one at place *p*
//!   gets the process and thread numbers *p* + 1, *p* + 1 + *n*, …, and random bytes from a
//!   stream of its own: what it is given does not depend on when its neighbours ask.
//! - A program has finished when its first process has, as a shell sees it. Children that are left
//!   go on, until the machine ends; it ends when every program has finished once.
//! - With [`Repeat`], a program that finished begins again at once, with the same arguments, input
//!   and random bytes; processes left over from its last run are killed first. Standard output
//!   and error of these later runs go nowhere: they are load. The files that they write are
//!   files like any other, so a program that shall run more than once must not mind those of its
//!   own last run.
//! - **Processes** are made by `fork`, `vfork` and `clone` (private pages are copied when they are
//!   written; shared mappings, also anonymous ones, are shared); processes that share descriptors
//!   or directories, namespaces and pidfds are not. Orphans belong to the outside (`getppid` is
//!   0), which buries them at once.
//! - A process that is to end loses the threads that run on other harts when they next enter the
//!   kernel, at the latest when their time slice is over, as after an inter-processor interrupt
//!   that takes its time; only then is it a zombie.
//! - `execve` puts the thread at the head of the ready queue, so that a hart is told of the new
//!   address space. The number of a space is used again after
//!   [`Machine::mappings_changed`] has named all of its pages.
//! - Each process reads its program's file into frames of its own; only `fork` shares them.
//! - **Sockets** of TCP, UDP and UNIX reach the programs of this machine and nobody else: there is
//!   no host network, and every address but the loopback ones is unreachable. What is sent stands
//!   at once in the receiver's queue. Not there: raw and packet sockets, out-of-band data,
//!   multicast, `TIME_WAIT`, error queues.
//! - The list of calls, and of those refused on purpose, is in `syscalls/table.rs`.
//! - The first stack is a plain mapping of its full size, filled page by page on demand; there is
//!   no randomisation of addresses and no vDSO, only a page with the signal-return trampoline.
//! - Everything belongs to user 1000; host files are shown with mode 0644 or 0755 and with the
//!   configured start time, so that nothing else about them reaches the guest.
//! - Symbolic links are followed inside the guest's tree only, also those found on the host.
//! - Record locks belong to processes or, as `F_OFD_SETLK` makes them, to open files; `flock` is the
//!   open file's. There are no leases.
//! - The outside is no shell with job control: the group of a program's first process is orphaned,
//!   so that SIGTSTP, SIGTTIN and SIGTTOU do not stop it by default. SIGSTOP does.
//! - Timers of CPU time expire at the end of a time slice, or of a call.
//! - A directory that the host provides does not move (EXDEV, as on an overlay file system);
//!   programs then copy.
//! - Only what lies below the working directory or another mount is released; `/tmp` and changes
//!   to the sysroot stay inside.
#![warn(clippy::cast_lossless, clippy::cast_precision_loss)]
#![forbid(unsafe_code)]

mod address_space;
mod affinity;
mod arena;
mod asynchronous;
mod boot;
mod closing;
mod configuration;
mod contents;
mod delivery;
mod elf;
mod errno;
mod frames;
mod futex;
mod host;
mod host_file;
pub mod inspect;
mod jobs;
mod kernel;
mod lifecycle;
mod limits;
mod load;
pub mod loss;
mod machine;
mod mapped;
mod mapping;
mod memory;
mod net;
mod outcome;
mod output;
mod owned_words;
mod owners;
mod page_table;
pub mod pools;
mod process;
mod program;
mod queues;
mod random;
mod rare;
mod refusals;
mod release;
mod restore;
mod restraint;
mod room;
mod save;
mod schedule;
mod sending;
mod signal;
mod spool;
mod syscalls;
mod system_v;
mod thread;
mod timers;
mod validate;
mod vfs;
mod wishes;

pub use boot::BootError;
pub use configuration::{
    CacheKind, Configuration, CpuCache, Mount, Pools, Program, Region, Repeat, WORK_DIRECTORY,
};
pub use elf::ElfError;
pub use host::{HostDirectories, HostError};
pub use kernel::Kernel;
pub use machine::{Machine, MemoryType, PAGE_BYTES, SpaceId, ThreadId, Translation};
pub use outcome::{Exception, ExitReport, FatalSignal, Outcome, ProgramReport, Running};
pub use page_table::{Leaf, LeafTable, TABLE_PAGES};
pub use refusals::Refused;
pub use release::Release;
pub use restore::RestoreError;
pub use spool::{Bytes, Spool};
pub use vfs::host_view::{HostFact, HostFinding, HostNode, HostView, KnownFacts, Shown};
