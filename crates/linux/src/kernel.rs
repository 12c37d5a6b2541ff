//! The kernel: signatures first, bodies to follow.
use perdure_riscv::{Access, Fault, Hart};

use crate::configuration::Configuration;
use crate::machine::{Machine, SpaceId, Translation};
use crate::outcome::{Exception, ExitReport, Outcome, Running};
use crate::release::Release;

/// The host files that the guest may read, as they were when first looked at. Cheap to clone;
/// clones share what was read. Not part of the saved state.
#[derive(Clone, Debug, Default)]
pub struct HostView {}

impl HostView {
    /// The host directories that `configuration` names. Nothing is read yet.
    pub fn new(_configuration: &Configuration) -> Self {
        Self {}
    }
}

/// The emulated kernel.
#[derive(Clone, Debug)]
pub struct Kernel {}

/// Why a program could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootError {
    /// To be filled in.
    #[error("{0}")]
    Program(String),
}

/// Why saved bytes are not a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// To be filled in.
    #[error("{0}")]
    Damaged(String),
}

#[allow(unused_variables, clippy::unused_self, clippy::todo)]
impl Kernel {
    /// Builds process 1 from the configured program; its first thread is ready.
    pub fn boot(
        configuration: Configuration,
        machine: &mut dyn Machine,
    ) -> Result<Self, BootError> {
        todo!()
    }

    /// Makes the hart run the next ready thread; `None` leaves it idle.
    pub fn schedule(
        &mut self,
        hart_index: usize,
        hart: &mut Hart,
        machine: &mut dyn Machine,
    ) -> Option<Running> {
        todo!()
    }

    /// The hart's time slice is over: delivers pending signals, then makes room if another thread
    /// waits ([`Outcome::Blocked`]: call `schedule`), else the same thread goes on.
    pub fn preempt(
        &mut self,
        hart_index: usize,
        hart: &mut Hart,
        machine: &mut dyn Machine,
    ) -> Outcome {
        todo!()
    }

    /// An `ecall`. The hart's pc is at the ecall; the kernel moves it on.
    pub fn system_call(
        &mut self,
        hart_index: usize,
        hart: &mut Hart,
        machine: &mut dyn Machine,
    ) -> Outcome {
        todo!()
    }

    /// A memory fault: mends the mapping (the instruction runs again) or raises a signal.
    pub fn fault(
        &mut self,
        hart_index: usize,
        hart: &mut Hart,
        fault: Fault,
        machine: &mut dyn Machine,
    ) -> Outcome {
        todo!()
    }

    /// An instruction that cannot be carried out: raises a signal.
    pub fn exception(
        &mut self,
        hart_index: usize,
        hart: &mut Hart,
        exception: Exception,
        machine: &mut dyn Machine,
    ) -> Outcome {
        todo!()
    }

    /// The frame behind a virtual address, if the access is allowed now. No side effects.
    pub fn translate(
        &self,
        space: SpaceId,
        virtual_address: u64,
        access: Access,
    ) -> Option<Translation> {
        todo!()
    }

    /// True if a thread waits for a hart: idle harts should call `schedule`.
    pub fn has_ready(&self) -> bool {
        todo!()
    }

    /// The earliest time at which a sleeper, timeout or timer is due.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        todo!()
    }

    /// Wakes whoever is due. A timer's signal can end the process: see [`Kernel::exited`].
    pub fn wake_sleepers(&mut self, now_ns: u64) {
        todo!()
    }

    /// How the process ended, once it has.
    pub fn exited(&self) -> Option<&ExitReport> {
        todo!()
    }

    /// The whole kernel state as bytes; equal parts of the state stay at equal places.
    pub fn save(&self) -> Vec<u8> {
        todo!()
    }

    /// The kernel from bytes written by [`Kernel::save`].
    pub fn restore(bytes: &[u8], host: HostView) -> Result<Self, RestoreError> {
        todo!()
    }

    /// The host files that this kernel sees, for [`Kernel::restore`].
    pub fn host_view(&self) -> HostView {
        todo!()
    }

    /// Pending stream output now belongs to `epoch`, which just committed.
    pub fn seal(&mut self, epoch: u64) {
        todo!()
    }

    /// Hands out the stream output of all epochs up to `persisted_epoch`.
    pub fn release(&mut self, persisted_epoch: u64) -> Vec<Release> {
        todo!()
    }

    /// Hands out what changed in files under the mounts since the last call. Call it only when
    /// the present state is durable.
    pub fn release_files(&mut self, machine: &mut dyn Machine) -> Vec<Release> {
        todo!()
    }

    /// The symbol that holds an address, and the offset in it.
    pub fn symbol(&self, space: SpaceId, virtual_address: u64) -> Option<(String, u64)> {
        todo!()
    }

    /// A virtual address that maps to a physical one. Slow; for reports.
    pub fn reverse_translate(&self, physical: u64) -> Option<(SpaceId, u64)> {
        todo!()
    }

    /// The system calls that were refused as unknown, by number, with their names.
    pub fn unknown_calls(&self) -> Vec<(u64, &'static str)> {
        todo!()
    }
}
