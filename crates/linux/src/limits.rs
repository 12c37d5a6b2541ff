//! What a process may use: the limits that `setrlimit` sets, and where they are met.
//!
//! Always true: limits belong to a process, are inherited over `fork` and `execve`, and are part of
//! its record. A limit that is not finite costs nothing to look at. The machine's own limits, which are
//! everybody's, stand in `room.rs`.

use std::ops::Range;

use crate::address_space::{Backing, Purpose, SPACE_END, STACK_TOP};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES, SpaceId};
use crate::process::{Process, ProcessId};
use crate::signal::{SIGKILL, SIGXCPU, SIGXFSZ, SignalInfo, Target};
use crate::syscalls::Call;
use crate::vfs::descriptor::DESCRIPTORS_MAX;

/// A resource limit: soft and hard.
pub(crate) type Limit = (u64, u64);

/// `RLIM_INFINITY`.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// How many limits there are.
pub(crate) const LIMITS: usize = 16;

/// The limits that do something, by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resource {
    CpuSeconds = 0,
    FileBytes = 1,
    DataBytes = 2,
    StackBytes = 3,
    Processes = 6,
    Descriptors = 7,
    LockedBytes = 8,
    MappedBytes = 9,
    PendingSignals = 11,
    QueueBytes = 12,
}

/// Threads and processes that there may be, of all programs together.
pub(crate) const THREADS_MAX: usize = 4096;
/// Signals that may be queued in all.
pub(crate) const SIGNALS_MAX: usize = 4096;

/// The stack never grows longer: mappings begin below.
const STACK_BYTES_MAX: u64 = (1 << 30) - (1 << 20);
/// The least that a new program gets for its arguments and its first calls.
const STACK_BYTES_MIN: u64 = 512 << 10;
/// What stays free between the stack and what lies below.
const STACK_GUARD_BYTES: u64 = 1 << 20;
/// What arguments and environment may take of any stack.
const ARGUMENT_BYTES_MIN: u64 = 128 << 10;

/// Resource limits in the order of their numbers.
pub(crate) fn default_limits(stack_bytes: u64) -> Vec<Limit> {
    let mut limits = vec![(UNLIMITED, UNLIMITED); LIMITS];
    limits[Resource::StackBytes as usize] = (stack_bytes, UNLIMITED);
    // Core files, which are never written.
    limits[4] = (0, UNLIMITED);
    limits[Resource::Processes as usize] = (THREADS_MAX as u64, THREADS_MAX as u64);
    limits[Resource::Descriptors as usize] = (1024, DESCRIPTORS_MAX as u64);
    limits[Resource::LockedBytes as usize] = (8 << 20, 8 << 20);
    limits[Resource::PendingSignals as usize] = (SIGNALS_MAX as u64, SIGNALS_MAX as u64);
    limits[Resource::QueueBytes as usize] = (819_200, 819_200);
    // Priorities.
    limits[13] = (0, 0);
    limits[14] = (0, 0);
    limits
}

impl Process {
    /// The soft limit.
    pub fn limit(&self, resource: Resource) -> u64 {
        let limit = self.limits.get(resource as usize);
        limit.map_or(UNLIMITED, |&(soft, _)| soft)
    }

    /// How many descriptors it may have.
    pub fn descriptors_max(&self) -> usize {
        let limit = self.limit(Resource::Descriptors);
        limit.min(DESCRIPTORS_MAX as u64) as usize
    }

    /// The stack that a program which it executes begins with, if others get `usual` bytes.
    pub fn stack_bytes(&self, usual: u64) -> u64 {
        let limit = self.limit(Resource::StackBytes);
        limit.max(STACK_BYTES_MIN).min(usual)
    }

    /// What arguments and environment may take.
    pub fn argument_bytes_max(&self) -> u64 {
        let limit = self.limit(Resource::StackBytes);
        (limit / 4).max(ARGUMENT_BYTES_MIN)
    }
}

impl Kernel {
    /// Fails if a process may not have so many more bytes mapped, `data` or not, once what is mapped in
    /// `replaced` is gone.
    pub(crate) fn check_mapped(
        &self,
        process: ProcessId,
        more: u64,
        data: bool,
        replaced: &Range<u64>,
    ) -> Result<(), Errno> {
        let process = &self.processes[process];
        let limits = (
            process.limit(Resource::MappedBytes),
            process.limit(Resource::DataBytes),
        );
        if more == 0 || limits == (UNLIMITED, UNLIMITED) {
            return Ok(());
        }
        let space = &self.spaces[process.space];
        let now = space.counted_bytes(&(0..SPACE_END));
        let gone = space.counted_bytes(replaced);
        let all = (now.0 - gone.0.min(now.0)).saturating_add(more);
        let of_data = (now.1 - gone.1.min(now.1)).saturating_add(more);
        if all > limits.0 || data && of_data > limits.1 {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    /// Fails if making a range writable makes more data of it than the process may have.
    pub(crate) fn check_data(&self, process: ProcessId, range: &Range<u64>) -> Result<(), Errno> {
        let limit = self.processes[process].limit(Resource::DataBytes);
        if limit == UNLIMITED {
            return Ok(());
        }
        let space = &self.spaces[self.processes[process].space];
        let becomes = space.parts(range);
        let becomes = becomes.filter(|(_, mapping)| {
            !mapping.shared && !mapping.is_data() && mapping.purpose != Purpose::Stack
        });
        let private: u64 = becomes.map(|(part, _)| part.end - part.start).sum();
        let (_, data) = space.counted_bytes(&(0..SPACE_END));
        if private > 0 && data.saturating_add(private) > limit {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    /// The stack limit of whoever lives in a space; none while a program is being loaded.
    fn stack_limit(&self, space: SpaceId) -> u64 {
        let mut live = self.processes.live.values();
        let owner = live.find(|process| process.space == space);
        owner.map_or(UNLIMITED, |process| process.limit(Resource::StackBytes))
    }

    /// True if the stack may come to reach down to a page that has not been touched.
    pub(crate) fn stack_may_reach(&self, space: SpaceId, page: u64) -> bool {
        STACK_TOP.saturating_sub(page * PAGE_BYTES) <= self.stack_limit(space)
    }

    /// Makes the stack reach down to an address that is not mapped, if it may grow so long.
    pub(crate) fn grow_stack(&mut self, space: SpaceId, address: u64) -> bool {
        let start = address & !(PAGE_BYTES - 1);
        let Some(bytes) = STACK_TOP.checked_sub(start) else {
            return false;
        };
        if bytes > STACK_BYTES_MAX || bytes > self.stack_limit(space) {
            return false;
        }
        let mappings = &self.spaces[space].mappings;
        let above = mappings.range(start..STACK_TOP).next();
        let Some((&old, &stack)) = above.filter(|(_, found)| found.purpose == Purpose::Stack)
        else {
            return false;
        };
        let room = start.saturating_sub(STACK_GUARD_BYTES)..old;
        if stack.backing != Backing::Anonymous || !self.spaces[space].is_free(&room) {
            return false;
        }
        let mappings = &mut self.spaces[space].mappings;
        mappings.remove(&old);
        mappings.insert(start, stack);
        true
    }

    /// Tells a process that has used the CPU time that it may use, every second from then on; at its
    /// hard limit it ends.
    pub(crate) fn enforce_cpu_limit(&mut self, id: ProcessId, machine: &dyn Machine) {
        const SECOND_NS: u64 = 1_000_000_000;
        let Some(process) = self.processes.get(id) else {
            return;
        };
        let (soft, hard) = process.limits[Resource::CpuSeconds as usize];
        if (soft, hard) == (UNLIMITED, UNLIMITED) {
            return;
        }
        let used_ns = machine.duration_ns(self.usage(process, machine).retired);
        // Like Linux, none at all is a second.
        let is_used = |limit: u64| limit != UNLIMITED && used_ns / SECOND_NS >= limit.max(1);
        if is_used(hard) {
            self.send_signal(Target::Process(id), SignalInfo::kernel(SIGKILL));
        } else if is_used(soft) {
            self.processes[id].limits[Resource::CpuSeconds as usize].0 = soft.max(1) + 1;
            self.send_signal(Target::Process(id), SignalInfo::kernel(SIGXCPU));
        }
    }
}

impl Call<'_> {
    /// Fails if there are as many threads as there may be, of all processes together: everything
    /// belongs to one user.
    pub fn check_room_for_thread(&self) -> Result<(), Errno> {
        let taken = self.kernel.threads.len() + self.kernel.processes.zombies.len();
        let limit = self.process().limit(Resource::Processes);
        if taken as u64 >= limit.min(THREADS_MAX as u64) {
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }

    /// Fails if a file that has `size` bytes may not have so many; the caller gets a signal, too.
    pub fn check_file_bytes(&mut self, size: u64, wished: u64) -> Result<(), Errno> {
        if wished <= size || wished <= self.process().limit(Resource::FileBytes) {
            return Ok(());
        }
        Err(self.file_too_long())
    }

    /// How many of `count` bytes may be written at a place in a file.
    pub fn writable_bytes(&mut self, at: u64, count: usize) -> Result<usize, Errno> {
        let limit = self.process().limit(Resource::FileBytes);
        let room = limit.saturating_sub(at).min(count as u64) as usize;
        if room == 0 && count > 0 {
            // What a long call has written is told first.
            return Err(if self.transferred() > 0 {
                Errno::EFBIG
            } else {
                self.file_too_long()
            });
        }
        Ok(room)
    }

    fn file_too_long(&mut self) -> Errno {
        let target = Target::Thread(self.thread);
        self.kernel.send_signal(target, SignalInfo::kernel(SIGXFSZ));
        Errno::EFBIG
    }
}
