//! The emulated RISC-V Linux kernel: loading, memory, threads, system calls, files, output commit.
//!
//! [`Kernel`] is plain serialisable data. The machine drives it: a hart that meets an `ecall`, a
//! fault or the end of its time slice calls in with a [`Machine`] through which every guest byte
//! is read and written, and gets an [`Outcome`].
//!
//! ```text
//! Kernel::boot(configuration, machine)          process 1, its thread ready
//! kernel.schedule(hart, ..) -> Some(Running)    the hart runs a thread, or is idle
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
//! - One process. `fork`, `vfork` and `execve` answer ENOSYS, `wait4` ECHILD, `socket`
//!   EAFNOSUPPORT; epoll serves pipes and event counters, which is what Go's runtime needs.
//!   The list of calls, and of those refused on purpose, is in `syscalls/table.rs`.
//! - The first stack is a plain mapping of its full size, filled page by page on demand; there is
//!   no randomisation of addresses and no vDSO, only a page with the signal-return trampoline.
//! - Everything belongs to user 1000; host files are shown with mode 0644 or 0755 and with the
//!   configured start time, so that nothing else about them reaches the guest.
//! - Symbolic links are followed inside the guest's tree only, also those found on the host.
//! - Record locks never conflict, because they belong to the process; `flock` does.
//! - Stop signals are ignored: nothing could continue a stopped process.
//! - CPU-time clocks run like the monotonic one; CPU-time interval timers answer ENOSYS.
//! - A directory that the host provides does not move (EXDEV, as on an overlay file system);
//!   programs then copy.
//! - Only what lies below the working directory or another mount is released; `/tmp` and changes
//!   to the sysroot stay inside.
#![forbid(unsafe_code)]

mod address_space;
mod arena;
mod boot;
mod configuration;
mod elf;
mod errno;
mod frames;
mod futex;
mod host;
mod kernel;
mod lifecycle;
mod load;
mod machine;
mod memory;
mod outcome;
mod output;
mod page_table;
mod process;
mod program;
mod random;
mod release;
mod save;
mod schedule;
mod signal;
mod syscalls;
mod thread;
mod vfs;

pub use boot::BootError;
pub use configuration::{Configuration, Mount, Program, WORK_DIRECTORY};
pub use elf::ElfError;
pub use host::{HostDirectories, HostError};
pub use kernel::Kernel;
pub use machine::{Machine, PAGE_BYTES, SpaceId, ThreadId, Translation};
pub use outcome::{Exception, ExitReport, FatalSignal, Outcome, ProgramReport, Running};
pub use release::Release;
pub use save::RestoreError;
pub use vfs::host_view::HostView;
