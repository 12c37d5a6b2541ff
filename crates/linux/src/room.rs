//! The room that the kernel's saved state has, and what a guest is told when it is used up.
//!
//! Always true: whatever guests do, the saved state fits into its region. What makes it grow is let
//! happen only if the state fits even where it grows by the most that it can; else it fails as on a
//! Linux that has no memory left, and takes nothing from those who have. Whether it fits follows from
//! the state alone: what was added since it was measured is counted as the most that it can be, and
//! nothing is refused before measuring anew.

use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::limits::{Resource, SIGNALS_MAX};
use crate::machine::{PAGE_BYTES, SpaceId};
use crate::process::ProcessId;
use crate::save::{LENGTHS, append, room};
use crate::signal::SIGRTMIN;
use crate::vfs::descriptor::Object;

/// Mappings that a process may have, like Linux's `vm.max_map_count`.
const MAPPINGS_MAX: usize = 65_530;

/// What a call can add beside the bytes that it carries: paths, names, a record of each kind.
const CALL_BYTES: u64 = 12 << 10;
/// Page lists that the content of files takes in a step of a call.
const CALL_PAGE_LISTS: u64 = 8;
/// What a call that lets go can add nevertheless, such as the second half of a mapping, and one that
/// writes at most a page beside what it carries.
const LITTLE_BYTES: u64 = 256;
/// What each inotify instance may note about a call.
const EVENT_BYTES: u64 = 1024;
/// What a thread adds by waiting, and a signal that it gets by itself.
const WAIT_BYTES: u64 = 256;
/// A step of a long call, and what a socket may hold in either direction.
const STEP_BYTES: u64 = 1 << 20;
const SOCKET_BYTES: u64 = 2 * 212_992;

/// What may be added to the state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    /// Bytes of all sections that are no arrays.
    pub bytes: u64,
    pub page_tables: u64,
    pub page_lists: u64,
}

/// The last measurement, and the growth since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    /// Lengths of the sections that are no arrays, if they have been measured.
    lengths: Option<[u64; LENGTHS]>,
    grown_bytes: u64,
}

/// The padded length of a section.
fn padded(length: u64) -> u64 {
    room(length as usize) as u64
}

/// Bytes of an arena that is to have so many more slots in use.
fn arena_bytes(slots: usize, free: usize, more: u64, slot_bytes: u64) -> u64 {
    let slots = slots as u64 + more.saturating_sub(free as u64);
    padded(slots * slot_bytes) + padded(slots * 4)
}

impl Kernel {
    /// The longest that the saved state can be after so much growth.
    fn longest(&self, lengths: &[u64; LENGTHS], growth: Growth) -> u64 {
        let lists = &self.files.page_lists;
        let tables = self.spaces.tables().arena();
        let (slots, free) = (lists.slots().len(), lists.free_slots().len());
        let mut all = arena_bytes(slots, free, growth.page_lists, 512);
        let (slots, free) = (tables.slots().len(), tables.free_slots().len());
        all += arena_bytes(slots, free, growth.page_tables, PAGE_BYTES);
        all += padded(self.frames.total() * 4);
        // Any section may be the one that grows; but together they grow no more than that.
        let bytes = growth.bytes + self.threads.len() as u64 * WAIT_BYTES;
        let each: u64 = lengths.iter().map(|length| padded(length + bytes)).sum();
        let together = (lengths.iter().sum::<u64>() + bytes) * 5 / 2;
        all + each.min(together + LENGTHS as u64 * padded(0)) + padded(0)
    }

    /// True if the state may grow so much, and then by the reserve; it is then counted.
    fn grow(&mut self, growth: Growth, reserve: Growth) -> bool {
        let room = self.settings.image_room_bytes;
        let wanted = Growth {
            bytes: growth.bytes + reserve.bytes,
            page_tables: growth.page_tables + reserve.page_tables,
            page_lists: growth.page_lists + reserve.page_lists,
        };
        let since = Growth {
            bytes: wanted.bytes + self.room.grown_bytes,
            ..wanted
        };
        let known = self.room.lengths;
        if known.is_none_or(|lengths| self.longest(&lengths, since) > room) {
            let lengths = self.section_lengths();
            self.room = Room {
                lengths: Some(lengths),
                grown_bytes: 0,
            };
            if self.longest(&lengths, wanted) > room {
                return false;
            }
        }
        self.room.grown_bytes += growth.bytes;
        true
    }

    /// True if the state may grow so much, by what is refused last: page faults, letting go, and
    /// writing a little, such as why something failed. It is then counted.
    pub(crate) fn make_last_room(&mut self, growth: Growth) -> bool {
        self.grow(growth, Growth::default())
    }

    /// True if the state may grow so much and leave the reserve; it is then counted.
    pub(crate) fn make_room(&mut self, growth: Growth) -> bool {
        let room = self.settings.image_room_bytes;
        let reserve = Growth {
            bytes: room / 256,
            page_tables: room / 128 / PAGE_BYTES,
            page_lists: room / 512 / 512,
        };
        self.grow(growth, reserve)
    }

    /// Refuses a call for which there is no room.
    pub(crate) fn make_room_for_call(
        &mut self,
        number: u64,
        arguments: &[u64; 6],
        process: ProcessId,
    ) -> Result<(), Errno> {
        let space = self.processes[process].space;
        self.check_mappings(number, arguments, space)?;
        self.check_signals(number, arguments, process)?;
        let watchers = self.open.watching.watchers.entries.len() as u64;
        if never_grows(number, arguments) && (watchers == 0 || number == 57) {
            return Ok(());
        }
        let events = watchers * EVENT_BYTES;
        let carried = self.carried_bytes(number, arguments, process);
        let little = matches!(number, 64 | 68) && arguments[2] <= PAGE_BYTES;
        let fits = if little || matches!(number, 35 | 214 | 215 | 233) {
            self.make_last_room(Growth {
                bytes: LITTLE_BYTES + carried + events,
                page_tables: 0,
                page_lists: if little { 2 } else { 0 },
            })
        } else {
            let tables = self.spaces.tables();
            let page_tables = match number {
                216 => tables.count(self.spaces[space].root()),
                _ => 0,
            };
            self.make_room(Growth {
                bytes: CALL_BYTES + carried + events,
                page_tables,
                page_lists: CALL_PAGE_LISTS,
            })
        };
        if fits { Ok(()) } else { Err(refusal(number)) }
    }

    /// Refuses a call that would make a map of too many mappings longer.
    fn check_mappings(
        &self,
        number: u64,
        arguments: &[u64; 6],
        space: SpaceId,
    ) -> Result<(), Errno> {
        let space = &self.spaces[space];
        if space.mappings.len() < MAPPINGS_MAX {
            return Ok(());
        }
        let [start, length, ..] = *arguments;
        let end = start.saturating_add(length.saturating_add(PAGE_BYTES - 1) & !(PAGE_BYTES - 1));
        let inside = |at: u64| space.find(at).is_some_and(|(first, _)| first < at);
        let grows = match number {
            0 | 196 | 216 | 222 => true,
            // In the middle of one mapping.
            215 => inside(start) && inside(end),
            226 | 228 | 229 | 284 => inside(start) || inside(end),
            _ => false,
        };
        if grows { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// Refuses to queue a signal when as many wait as may.
    fn check_signals(
        &self,
        number: u64,
        arguments: &[u64; 6],
        sender: ProcessId,
    ) -> Result<(), Errno> {
        let signal = match number {
            129 | 130 | 138 | 424 => arguments[1],
            131 | 240 => arguments[2],
            _ => return Ok(()),
        };
        if signal < u64::from(SIGRTMIN) {
            return Ok(());
        }
        let threads = self.threads.values().map(|thread| thread.pending.len());
        let processes = self.processes.live.values();
        let shared = processes.map(|process| process.pending.len());
        let pending: usize = threads.chain(shared).sum();
        let limit = self.processes[sender].limit(Resource::PendingSignals);
        if (pending as u64) < limit.min(SIGNALS_MAX as u64) {
            Ok(())
        } else {
            Err(Errno::EAGAIN)
        }
    }

    /// Bytes that pipes, sockets, streams and the like can hold after a step of a call.
    fn carried_bytes(&self, number: u64, arguments: &[u64; 6], process: ProcessId) -> u64 {
        let [first, second, third, ..] = *arguments;
        let (target, bytes) = match number {
            64 | 68 | 206 => (first, third.min(STEP_BYTES)),
            66 | 70 | 71 | 75 | 211 | 269 | 287 => (first, STEP_BYTES),
            76 => (third, STEP_BYTES),
            77 => (second, STEP_BYTES),
            5..=7 => return arguments[3].min(1 << 12),
            // Events, and who waits for what.
            2 => return second.min(256) * 64,
            189 => return third.min(STEP_BYTES),
            // A value of a semaphore takes three bytes, and what undoes it as many.
            190 => return second.min(1 << 16) * 8,
            191 => return 1 << 18,
            _ => return 0,
        };
        let Ok(file) = self.open_file(process, target) else {
            return 0;
        };
        match file.object {
            Object::Inode(inode) if self.files.file(inode).is_ok() => 0,
            Object::PipeWriter(pipe) | Object::Fifo { pipe, .. } => {
                bytes.min(self.open.pipe_room(pipe) as u64)
            }
            // Messages and pieces take more than their bytes.
            Object::Socket(_) => bytes.min(SOCKET_BYTES) + CALL_BYTES,
            _ => bytes,
        }
    }

    /// What a copy of a process adds: its records, and its page tables unless it shares them.
    pub(crate) fn growth_of_fork(&self, process: ProcessId, shares_space: bool) -> Growth {
        let mut record = Vec::new();
        append(&mut record, &self.processes[process]);
        let mut page_tables = 0;
        if !shares_space {
            let space = &self.spaces[self.processes[process].space];
            append(&mut record, space);
            page_tables = self.spaces.tables().count(space.root());
        }
        Growth {
            bytes: record.len() as u64 + CALL_BYTES,
            page_tables,
            page_lists: 0,
        }
    }
}

/// What a call says when there is no room for what it makes.
fn refusal(number: u64) -> Errno {
    match number {
        // Processes and threads, queued signals, timers, requests.
        2 | 107 | 138 | 220 | 240 => Errno::EAGAIN,
        // Names, files and their content, interests and watches, semaphores and queues.
        5..=7
        | 21
        | 27
        | 33..=38
        | 45..=47
        | 64
        | 66
        | 68
        | 70
        | 71
        | 186
        | 190
        | 194
        | 276
        | 285
        | 287 => Errno::ENOSPC,
        // What has a descriptor of its own.
        19 | 20 | 23 | 24 | 26 | 56 | 59 | 74 | 85 | 198 | 199 | 202 | 242 | 279 | 434 | 437
        | 438 => Errno::ENFILE,
        // Locks.
        25 | 32 => Errno::ENOLCK,
        _ => Errno::ENOMEM,
    }
}

/// True for calls that leave the state as large as it was but for how a thread waits, or make it
/// smaller: a program must be able to let go of things, and to end, when there is no room.
fn never_grows(number: u64, arguments: &[u64; 6]) -> bool {
    const UNLOCK: u64 = 8;
    match number {
        // A standard signal is pending once at most.
        129 | 130 => arguments[1] < 32,
        131 => arguments[2] < 32,
        32 => arguments[1] & UNLOCK != 0,
        1
        | 3
        | 4
        | 22
        | 50
        | 57
        | 62
        | 63
        | 65
        | 67
        | 69
        | 72
        | 73
        | 80..=83
        | 93..=96
        | 98
        | 101
        | 113..=115
        | 120
        | 121
        | 123..=127
        | 132
        | 133
        | 135..=137
        | 139
        | 165
        | 166
        | 168
        | 169
        | 172..=179
        | 210
        | 227
        | 260
        | 278
        | 292 => true,
        _ => false,
    }
}
