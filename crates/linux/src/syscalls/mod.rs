//! System calls: how one is made, and what a handler has at hand.
//!
//! Always true: a handler either finishes, or says how it stops; it never leaves a call half
//! done, because a call that blocks is made again from its beginning.
// Handlers have one signature, whether or not they can fail.
#![allow(clippy::unnecessary_wraps)]

pub(crate) mod advice;
mod ancillary;
pub(crate) mod asynchronous;
pub(crate) mod attributes;
pub(crate) mod control;
pub(crate) mod copying;
pub(crate) mod descriptors;
pub(crate) mod directories;
pub(crate) mod epoll;
pub(crate) mod execution;
pub(crate) mod futexes;
pub(crate) mod identity;
pub(crate) mod lengths;
pub(crate) mod locked_memory;
pub(crate) mod locks;
pub(crate) mod memory;
mod memory_types;
pub(crate) mod messages;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod opening;
pub(crate) mod owners;
pub(crate) mod permissions;
pub(crate) mod pidfds;
pub(crate) mod pipes;
pub(crate) mod polling;
pub(crate) mod preferences;
pub(crate) mod processes;
pub(crate) mod queues;
mod renaming;
pub(crate) mod seals;
pub(crate) mod signals;
pub(crate) mod socket_options;
pub(crate) mod sockets;
pub(crate) mod system_v;
pub(crate) mod table;
pub(crate) mod terminal_control;
pub(crate) mod terminals;
pub(crate) mod threads;
pub(crate) mod time;
pub(crate) mod timers;
pub(crate) mod transfer;
pub(crate) mod watches;

use perdure_riscv::Hart;

use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, SpaceId, ThreadId};
use crate::outcome::{ExitReport, Outcome};
use crate::process::{Ending, Process, ProcessId};
use crate::refusals::Refusal;
use crate::room::Growth;
use crate::thread::{ThreadState, Wait};
use crate::vfs::descriptor::{Descriptor, O_PATH, OpenFile};

/// Cycles of entering and leaving the kernel and finding the handler.
const CALL_CYCLES: u64 = 300;

/// Numbers of calls are below this.
const NUMBERS: u64 = 512;
/// So many greater numbers are remembered.
const OTHERS: usize = 16;

/// Of the room that the saved state has, this part may be output that waits.
const OUTPUT_SHARE: u64 = 16;

/// `futex`, which notes its refusals itself.
pub(crate) const FUTEX: u64 = 98;
/// `sched_yield`, which looks at no memory.
pub(crate) const SCHED_YIELD: u64 = 124;

/// A system call under way.
pub(crate) struct Call<'a> {
    pub kernel: &'a mut Kernel,
    pub machine: &'a mut dyn Machine,
    pub hart: &'a mut Hart,
    pub thread: ThreadId,
    pub process: ProcessId,
    pub space: SpaceId,
    pub arguments: [u64; 6],
}

/// Why a handler did not simply return a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Error(Errno),
    /// Blocks until the wait is over or the deadline has passed.
    Wait(Wait, Option<u64>),
    /// Returns a value once everything is durable.
    Commit(u64),
    /// Returns 0, after every other ready thread had a turn.
    Yield,
    /// Goes on with the call where `transferred` of the thread says, once others had the chance of a
    /// turn: a long one is done in steps.
    Again,
    /// The registers are what a signal handler's frame said.
    SignalReturn,
    /// The process goes on as another program, in another address space.
    Executed,
    /// The thread ends.
    EndThread(i32),
    /// The process ends.
    EndProcess(i32),
}

impl Stop {
    /// Blocks until something about open files changes.
    pub fn for_files() -> Self {
        Stop::Wait(Wait::Files, None)
    }
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        Stop::Error(error)
    }
}

/// What a handler answers.
pub(crate) type Answer = Result<u64, Stop>;

/// `struct timespec` of a time.
pub(crate) fn time_bytes(ns: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(ns / 1_000_000_000).to_le_bytes());
    bytes[8..].copy_from_slice(&(ns % 1_000_000_000).to_le_bytes());
    bytes
}

/// Puts a word into a structure.
fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Puts half a word into a structure.
fn put_half(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

impl Call<'_> {
    /// The process that calls.
    pub fn process(&self) -> &Process {
        &self.kernel.processes[self.process]
    }

    pub fn process_mut(&mut self) -> &mut Process {
        &mut self.kernel.processes[self.process]
    }

    pub fn descriptor(&self, number: u64) -> Result<Descriptor, Errno> {
        self.process().descriptors.descriptor(number)
    }

    /// The open file behind a descriptor.
    pub fn file(&self, number: u64) -> Result<&OpenFile, Errno> {
        self.kernel.open_file(self.process, number)
    }

    /// The same, if more can be done with it than to name a file (`O_PATH`).
    pub fn usable(&self, number: u64) -> Result<&OpenFile, Errno> {
        let file = self.file(number)?;
        if file.flags & O_PATH == 0 {
            Ok(file)
        } else {
            Err(Errno::EBADF)
        }
    }

    pub fn file_mut(&mut self, number: u64) -> Result<&mut OpenFile, Errno> {
        let file = self.descriptor(number)?.file;
        self.kernel.open.files.get_mut(file).ok_or(Errno::EBADF)
    }

    /// Fails if the state has no room for so many bytes that an open file is to keep.
    pub fn make_room_for_bytes(&mut self, bytes: usize) -> Result<(), Errno> {
        let growth = Growth {
            bytes: bytes as u64,
            ..Growth::default()
        };
        if self.kernel.make_room(growth) {
            Ok(())
        } else {
            Err(Errno::ENOMEM)
        }
    }

    /// A descriptor for a new open file.
    pub fn open(&mut self, file: OpenFile, close_on_exec: bool) -> Result<u32, Errno> {
        let process = &mut self.kernel.processes[self.process];
        let most = process.descriptors_max();
        let descriptors = &mut process.descriptors;
        self.kernel
            .open
            .open(descriptors, file, close_on_exec, most)
    }

    /// Tells the program the two descriptors of a pipe or a pair of sockets.
    pub fn write_pair(&mut self, address: u64, first: u32, second: u32) -> Answer {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&first.to_le_bytes());
        bytes[4..].copy_from_slice(&second.to_le_bytes());
        self.write(address, &bytes)?;
        Ok(0)
    }

    /// The same as an answer, for a file whose object was made for it; if there is no descriptor left,
    /// `undo` takes the object away again.
    pub fn open_made(
        &mut self,
        file: OpenFile,
        close_on_exec: bool,
        undo: impl FnOnce(&mut Kernel),
    ) -> Answer {
        match self.open(file, close_on_exec) {
            Ok(number) => Ok(u64::from(number)),
            Err(error) => {
                undo(self.kernel);
                Err(error.into())
            }
        }
    }

    /// Something that can be waited for happened to an open file of the caller.
    pub fn wake_file_waiters(&mut self) {
        let program = self.process().program;
        self.kernel.wake_file_waiters(program);
    }

    /// Something happened to a pipe of the caller; a FIFO may be everybody's.
    pub fn wake_pipe_waiters(&mut self, id: u32) {
        let traits = self.kernel.open.traits.get(&id);
        if traits.is_some_and(|traits| traits.fifo.is_some()) {
            self.kernel.wake_all_file_waiters();
        } else {
            self.wake_file_waiters();
        }
    }

    /// Puts a descriptor at the lowest free number from `lowest`.
    pub fn install(&mut self, lowest: usize, descriptor: Descriptor) -> Result<u32, Errno> {
        let process = self.process_mut();
        let most = process.descriptors_max();
        process.descriptors.install(lowest, descriptor, most)
    }

    /// A `struct timespec` that is a duration or a point in time.
    pub fn duration_at(&mut self, address: u64) -> Result<u64, Errno> {
        let seconds = self.kernel.u64_in(self.machine, self.space, address)? as i64;
        let nanoseconds = self
            .kernel
            .u64_in(self.machine, self.space, address.wrapping_add(8))?;
        if seconds < 0 || nanoseconds >= 1_000_000_000 {
            return Err(Errno::EINVAL);
        }
        Ok((seconds as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(nanoseconds))
    }

    pub fn string(&mut self, address: u64) -> Result<String, Errno> {
        self.kernel.string_in(self.machine, self.space, address)
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.kernel
            .copy_out(self.machine, self.space, address, bytes)
    }

    pub fn read_u32(&mut self, address: u64) -> Result<u32, Errno> {
        self.kernel.u32_in(self.machine, self.space, address)
    }

    pub fn read_u64(&mut self, address: u64) -> Result<u64, Errno> {
        self.kernel.u64_in(self.machine, self.space, address)
    }

    /// Bytes that this call has moved already, in steps before this one.
    pub fn transferred(&self) -> u64 {
        let thread = self.kernel.threads.get(&self.thread);
        thread.map_or(0, |thread| thread.transferred)
    }

    pub fn set_transferred(&mut self, count: u64) {
        if let Some(thread) = self.kernel.threads.get_mut(&self.thread) {
            thread.transferred = count;
        }
    }

    pub fn now_ns(&self) -> u64 {
        self.kernel.now_ns(self.machine)
    }

    /// Instructions that the calling thread has retired.
    pub fn retired(&self) -> u64 {
        let thread = self.kernel.threads.get(&self.thread);
        thread.map_or(0, |thread| thread.retired_by_now(self.machine))
    }

    /// When the timeout of this call is over, if it was first made earlier.
    pub fn deadline_ns(&self) -> Option<u64> {
        let thread = self.kernel.threads.get(&self.thread);
        thread.and_then(|thread| thread.retry_deadline_ns)
    }

    /// Blocks and makes the call again. A timeout counts from when it was first made.
    pub fn wait_until_retry(&self, wait: Wait, timeout_ns: Option<u64>) -> Stop {
        let Some(timeout) = timeout_ns else {
            return Stop::Wait(wait, None);
        };
        let earlier = self.deadline_ns();
        let deadline = earlier.unwrap_or_else(|| self.machine.clock_ns().saturating_add(timeout));
        Stop::Wait(wait, Some(deadline))
    }

    /// True if the timeout of this call, first made earlier, is over.
    pub fn timed_out(&self, timeout_ns: Option<u64>) -> bool {
        let earlier = self.deadline_ns();
        timeout_ns == Some(0) || earlier.is_some_and(|deadline| deadline <= self.machine.clock_ns())
    }
}

impl Kernel {
    /// An `ecall`. The hart's pc is at the ecall; the kernel moves it on.
    pub fn system_call(
        &mut self,
        hart_index: usize,
        hart: &mut Hart,
        machine: &mut dyn Machine,
    ) -> Outcome {
        let thread = match self.enter(hart_index, hart, machine) {
            Ok(thread) => thread,
            Err(outcome) => return outcome,
        };
        let process = self.process_of(thread);
        machine.charge(CALL_CYCLES);
        let number = hart.x[17];
        let mut arguments = [0; 6];
        arguments.copy_from_slice(&hart.x[10..16]);
        let space = self.processes[process].space;
        let handler = table::handler(number);
        let room = match handler {
            Some(_) => self.make_room_for_call(number, &arguments, process),
            None => Ok(()),
        };
        let answer = if let Err(error) = room {
            // What a long call has moved is told first.
            match self.threads.get(&thread).map_or(0, |own| own.transferred) {
                0 => Err(error.into()),
                moved => Ok(moved),
            }
        } else if let Some(handler) = handler {
            let answer = handler(&mut Call {
                kernel: self,
                machine,
                hart,
                thread,
                process,
                space,
                arguments,
            });
            if answer == Err(Stop::Error(Errno::ENOSYS)) && number != FUTEX {
                self.note_refusal(Refusal::Call(number as u32));
            }
            answer
        } else {
            self.note_unknown(number);
            Err(Errno::ENOSYS.into())
        };
        self.finish_call(hart_index, thread, hart, machine, answer)
    }

    fn finish_call(
        &mut self,
        hart_index: usize,
        thread: ThreadId,
        hart: &mut Hart,
        machine: &mut dyn Machine,
        answer: Answer,
    ) -> Outcome {
        let mut commits = false;
        let mut yields = false;
        let value = match answer {
            Ok(value) => Some(value),
            Err(Stop::Error(error)) => Some((-i64::from(error.0)) as u64),
            Err(Stop::Commit(value)) => {
                commits = true;
                Some(value)
            }
            Err(Stop::Yield) => {
                yields = true;
                Some(0)
            }
            Err(Stop::SignalReturn | Stop::Again) => None,
            Err(Stop::Wait(wait, deadline_ns)) => {
                let stopped = self.is_stopped(self.process_of(thread));
                if wait.is_interruptible() && !stopped && self.has_signal(thread) {
                    self.interrupt_at_once(thread, wait, deadline_ns);
                    self.deliver_signals(thread, hart, machine);
                    self.park_if_stopped(hart_index, thread, hart);
                } else {
                    self.block(hart_index, thread, hart, wait, deadline_ns);
                }
                self.tell_of_stop(self.process_of(thread));
                return self.leave(hart_index, thread, machine);
            }
            Err(Stop::EndThread(status)) => {
                self.end_thread(thread, status, machine);
                return self.leave(hart_index, thread, machine);
            }
            Err(Stop::EndProcess(status)) => {
                let report = ExitReport {
                    status: status & 0xff,
                    fatal: None,
                };
                let process = self.process_of(thread);
                self.end_process(process, Ending::Exited(status as u8), report);
                return self.leave(hart_index, thread, machine);
            }
            Err(Stop::Executed) => {
                // It is scheduled anew, so that the hart learns of its address space.
                self.count_retired(thread, hart.retired);
                if let Some(id) = self.thread_on(hart_index)
                    && let Some(thread) = self.threads.get_mut(&id)
                {
                    thread.state = ThreadState::Ready;
                    self.scheduler.ready.push_front(id);
                    self.leave_hart(hart_index);
                }
                return self.leave(hart_index, thread, machine);
            }
        };
        if let Some(value) = value {
            hart.x[10] = value;
            hart.pc = hart.pc.wrapping_add(4);
            if let Some(thread) = self.threads.get_mut(&thread) {
                thread.retry_deadline_ns = None;
                thread.transferred = 0;
                if let Some(mask) = thread.saved_mask.take() {
                    thread.mask = mask;
                }
            }
            self.rare.lock_waits.remove(&thread);
            self.rare.system_v.waiting.remove(&thread);
            self.rare.asynchronous.submissions.remove(&thread);
        }
        self.expire_cpu_timers(machine);
        self.enforce_cpu_limit(self.process_of(thread), machine);
        self.deliver_signals(thread, hart, machine);
        if !commits {
            // Else it stops at its next entry: what it is told to be durable must be.
            self.park_if_stopped(hart_index, thread, hart);
        }
        let outcome = self.leave(hart_index, thread, machine);
        if outcome != Outcome::Continue {
            return outcome;
        }
        // What waits is part of the saved state, whatever was asked for.
        let limit = self.settings.output_limit_bytes as u64;
        let limit = limit.min(self.settings.image_room_bytes / OUTPUT_SHARE);
        if self.output.pending_bytes() >= limit {
            commits = true;
        }
        if commits {
            return Outcome::Commit;
        }
        if yields && self.has_ready_for(hart_index) || !self.may_run(thread, hart_index) {
            self.requeue(hart_index, thread, hart);
            return Outcome::Blocked;
        }
        Outcome::Continue
    }

    /// Remembers the number of a call that there is not; of those beyond every number, the first few.
    fn note_unknown(&mut self, number: u64) {
        if number < NUMBERS || self.unknown.range(NUMBERS..).count() < OTHERS {
            self.unknown.insert(number);
        }
    }

    /// The name of a system call.
    pub fn call_name(number: u64) -> &'static str {
        table::name(number)
    }

    /// The system calls that were refused as unknown, by number, with their names.
    pub fn unknown_calls(&self) -> Vec<(u64, &'static str)> {
        self.unknown
            .iter()
            .map(|&number| (number, table::name(number)))
            .collect()
    }
}
