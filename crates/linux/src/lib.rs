//! The emulated RISC-V Linux kernel: loading, memory, threads, system calls, files, output commit.
//!
//! [`Kernel`] is plain serialisable data. The machine drives it: a hart that meets an `ecall`, a
//! fault or the end of its time slice calls in with a [`Machine`] through which every guest byte
//! is read and written, and gets an [`Outcome`].
pub mod configuration;
pub mod kernel;
pub mod machine;
pub mod outcome;
pub mod release;

pub use configuration::{Configuration, Mount};
pub use kernel::{BootError, HostView, Kernel, RestoreError};
pub use machine::{Machine, PAGE_BYTES, SpaceId, ThreadId, Translation};
pub use outcome::{Exception, ExitReport, FatalSignal, Outcome, Running};
pub use release::Release;
