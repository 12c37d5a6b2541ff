//! The kernel: all of its state, and the events that are not system calls.
//!
//! Always true: everything here except the host view and pools, with which nothing is saved, is part of
//! the saved state; two kernels with equal saved bytes behave equally.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use perdure_riscv::{Access, Fault, Hart};
use serde::{Deserialize, Serialize};

use crate::address_space::Spaces;
use crate::configuration::{Configuration, Repeat};
use crate::frames::Frames;
use crate::machine::{Machine, PAGE_BYTES, SpaceId, ThreadId, Translation};
use crate::memory::BadAccess;
use crate::outcome::{Exception, ExitReport, Outcome, ProgramReport};
use crate::output::Output;
use crate::page_table::{Leaf, LeafTable, VALID, frame_of};
use crate::process::{ProcessId, Processes};
use crate::program::{Progress, Recipe};
use crate::rare::Rare;
use crate::release::Release;
use crate::room::Room;
use crate::schedule::Scheduler;
use crate::signal::{SIGBUS, SIGILL, SIGKILL, SIGSEGV, SIGTRAP, SignalInfo};
use crate::thread::{FutexKey, Thread};
use crate::vfs::descriptor::OpenFiles;
use crate::vfs::locks::RecordLocks;
use crate::vfs::released::Released;
use crate::vfs::{FileSystem, HostView, InodeId};

/// What stays of the configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub harts: usize,
    pub clock_start_ns: u64,
    pub output_limit_bytes: usize,
    pub stack_bytes: u64,
    pub repeat: Repeat,
    /// Where every program begins.
    pub first_directory: InodeId,
    pub programs: Vec<Recipe>,
    /// Bytes of standard output and error that may be written in all.
    pub host_limit_bytes: u64,
    /// The most bytes that the saved state may have.
    pub image_room_bytes: u64,
}

impl Settings {
    /// Without the programs, which are entered as they are found.
    pub fn of(configuration: &Configuration) -> Self {
        Self {
            harts: configuration.harts,
            clock_start_ns: configuration.clock_start_ns,
            output_limit_bytes: configuration.output_limit_bytes,
            stack_bytes: configuration.stack_bytes,
            repeat: configuration.repeat,
            first_directory: InodeId::default(),
            programs: Vec::new(),
            host_limit_bytes: configuration.host_limit_bytes,
            image_room_bytes: configuration.image_room_bytes,
        }
    }
}

/// The emulated kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) settings: Settings,
    pub(crate) frames: Frames,
    pub(crate) spaces: Spaces,
    pub(crate) files: FileSystem,
    pub(crate) open: OpenFiles,
    pub(crate) locks: RecordLocks,
    pub(crate) processes: Processes,
    pub(crate) threads: BTreeMap<ThreadId, Thread>,
    pub(crate) scheduler: Scheduler,
    /// Processes that have ended and have no thread left; they are buried at the next chance.
    pub(crate) dead: Vec<ProcessId>,
    pub(crate) futexes: BTreeMap<FutexKey, VecDeque<ThreadId>>,
    pub(crate) output: Output,
    pub(crate) released: Released,
    /// Not saved: it follows from everything else.
    pub(crate) room: Room,
    pub(crate) rare: Rare,
    /// By the program's place in the configuration, like `reports`.
    pub(crate) progress: Vec<Progress>,
    pub(crate) unknown: BTreeSet<u64>,
    /// Set once every program has finished.
    pub(crate) exit: Option<ExitReport>,
    pub(crate) reports: Vec<ProgramReport>,
    pub(crate) host: HostView,
}

impl Kernel {
    /// The real-time clock.
    pub(crate) fn now_ns(&self, machine: &dyn Machine) -> u64 {
        self.settings
            .clock_start_ns
            .saturating_add(machine.clock_ns())
    }

    /// The frame behind a virtual address, if the access is allowed now. No side effects.
    #[inline]
    pub fn translate(
        &self,
        space: SpaceId,
        virtual_address: u64,
        access: Access,
    ) -> Option<Translation> {
        Leaf(self.spaces.leaf(space, virtual_address / PAGE_BYTES)).to(access)
    }

    /// The page table that says where a virtual page lies, for whoever remembers it as long as
    /// [`Self::tables_released`] is the same.
    #[inline]
    pub fn leaf_table(&self, space: SpaceId, page: u64) -> Option<LeafTable> {
        let root = self.spaces.get(space)?.root();
        self.spaces.tables().leaf_table(root, page)
    }

    /// How many page tables were given back: each may be another one's since.
    #[inline]
    pub fn tables_released(&self) -> u64 {
        self.spaces.tables().released()
    }

    /// What a page table says of one of its pages.
    #[inline(always)]
    pub fn leaf(&self, table: LeafTable, page: u64) -> Leaf {
        Leaf(self.spaces.tables().leaf(table, page))
    }

    /// A memory fault: mends the mapping (the instruction runs again) or raises a signal.
    pub fn fault(
        &mut self,
        hart_index: usize,
        hart: &mut Hart,
        fault: Fault,
        machine: &mut dyn Machine,
    ) -> Outcome {
        let thread = match self.enter(hart_index, hart, machine) {
            Ok(thread) => thread,
            Err(outcome) => return outcome,
        };
        let space = self.space_of(thread);
        let Err(bad) = self.resolve(machine, space, fault.address, fault.access) else {
            return Outcome::Continue;
        };
        let what = Self::describe_access(fault.access);
        let address = fault.address;
        let (signal, code, why) = match bad {
            BadAccess::Unmapped => (SIGSEGV, 1, "nothing is mapped there"),
            BadAccess::Forbidden => (SIGSEGV, 2, "the mapping forbids it"),
            BadAccess::PastEnd => (SIGBUS, 2, "it lies beyond the end of the mapped file"),
            BadAccess::OfDevice => (SIGBUS, 2, "a device has it"),
            BadAccess::NoSpace => (SIGBUS, 2, "persistent memory has no room left for the pool"),
            BadAccess::OutOfMemory => {
                let total = (self.frames.total() * PAGE_BYTES) >> 20;
                let cause = if self.frames.free() == 0 {
                    format!(
                        "out of memory: all {total} MiB of the machine's memory are in use; give it more"
                    )
                } else {
                    "out of memory: the kernel's state has no room for more page tables; give the machine more".to_owned()
                };
                self.end_by_signal(SIGKILL, cause, thread, hart.pc, Some(address), None);
                return self.leave(hart_index, thread, machine);
            }
        };
        let cause = format!("{what} {address:#x}: {why}");
        let info = SignalInfo::fault(signal, code, address);
        self.force_signal(thread, hart, machine, info, cause);
        self.leave(hart_index, thread, machine)
    }

    /// An instruction that cannot be carried out: raises a signal.
    pub fn exception(
        &mut self,
        hart_index: usize,
        hart: &mut Hart,
        exception: Exception,
        machine: &mut dyn Machine,
    ) -> Outcome {
        let thread = match self.enter(hart_index, hart, machine) {
            Ok(thread) => thread,
            Err(outcome) => return outcome,
        };
        let (info, cause) = match exception {
            Exception::Illegal { bits } => (
                SignalInfo::fault(SIGILL, 1, hart.pc),
                format!("no such instruction: {bits:#010x}"),
            ),
            Exception::Breakpoint => (
                SignalInfo::fault(SIGTRAP, 1, hart.pc),
                "breakpoint instruction".to_owned(),
            ),
            Exception::Misaligned { address } => (
                SignalInfo::fault(SIGBUS, 1, address),
                format!("atomic access to the misaligned address {address:#x}"),
            ),
            Exception::Refused { address } => (
                SignalInfo::fault(SIGBUS, 2, address),
                format!(
                    "access to {address:#x}: a device takes aligned loads and stores there, and nothing else"
                ),
            ),
        };
        self.force_signal(thread, hart, machine, info, cause);
        self.leave(hart_index, thread, machine)
    }

    /// The host files that this kernel sees, for [`Kernel::restore`].
    pub fn host_view(&self) -> HostView {
        self.host.clone()
    }

    /// Pending stream output now belongs to `epoch`, which just committed.
    pub fn seal(&mut self, epoch: u64) {
        self.output.seal(epoch);
    }

    /// True if stream output has not left yet.
    pub fn holds_output(&self) -> bool {
        self.output.pending_bytes() > 0
    }

    /// True if some of it is of no epoch that has committed.
    pub fn holds_unsealed_output(&self) -> bool {
        self.output.is_unsealed()
    }

    /// Hands out the stream output of all epochs up to `persisted_epoch`, each record with the epoch
    /// that sealed it.
    pub fn release(&mut self, persisted_epoch: u64) -> Vec<(u64, Release)> {
        self.output.release(persisted_epoch)
    }

    /// Bytes ever written to standard output and standard error, by program.
    pub fn output_written(&self) -> &[[u64; 2]] {
        self.output.written()
    }

    /// A virtual address that maps to a physical one. Slow; for reports.
    pub fn reverse_translate(&self, physical: u64) -> Option<(SpaceId, u64)> {
        let frame = physical / PAGE_BYTES;
        let mut found = None;
        for (id, space) in self.spaces.iter() {
            self.spaces.tables().for_each(space.root(), |page, leaf| {
                if leaf & VALID != 0 && frame_of(leaf) == frame && found.is_none() {
                    found = Some((id, page * PAGE_BYTES + physical % PAGE_BYTES));
                }
            });
        }
        found
    }
}
