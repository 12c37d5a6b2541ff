//! System V's shared memory, semaphores and message queues.
//!
//! Always true: numbers are not given out again; a segment is a file without a name, attached where
//! it is mapped, and goes with its last mapping once it is removed; no semaphore is below zero or
//! above [`VALUE_MAX`]; a queue holds no more bytes than it may.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::address_space::Mapping;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES, SpaceId, ThreadId};
use crate::process::ProcessId;
use crate::vfs::InodeId;

/// The greatest value of a semaphore (`SEMVMX`).
pub(crate) const VALUE_MAX: i32 = 32767;
/// Semaphores in a set, and in all of them together.
pub(crate) const SET_MAX: usize = 32000;
pub(crate) const SEMAPHORES_MAX: usize = 64 << 10;
/// Objects of each kind.
pub(crate) const OBJECTS_MAX: usize = 4096;
/// Bytes of a segment (`shmmax`), and pages of all of them together (`shmall`).
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 40;
pub(crate) const SEGMENT_PAGES_MAX: u64 = SEGMENT_BYTES_MAX / PAGE_BYTES;
/// Bytes of a message, and of a queue.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8192;
pub(crate) const QUEUE_BYTES_MAX: usize = 16384;

/// What every object has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub key: u32,
    pub mode: u32,
    /// Seconds since 1970 of its making or last change by its owner.
    pub changed: u64,
}

/// A shared segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub head: Head,
    pub inode: InodeId,
    pub bytes: u64,
    pub maker: u32,
    pub last: u32,
    pub attached: u64,
    pub detached: u64,
    /// It goes when nobody has it attached any more.
    pub removed: bool,
}

/// A set of semaphores.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Set {
    pub head: Head,
    /// Value, and the process that changed it last.
    pub semaphores: Vec<(u16, u32)>,
    pub operated: u64,
}

/// A message queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Queue {
    pub head: Head,
    /// Type and text.
    pub messages: VecDeque<(u64, Vec<u8>)>,
    pub bytes_max: u64,
    pub sent: u64,
    pub received: u64,
    pub last_sender: u32,
    pub last_receiver: u32,
}

impl Queue {
    pub fn bytes(&self) -> usize {
        self.messages.iter().map(|(_, text)| text.len()).sum()
    }

    /// Where the message stands that is wished for: the first one, the first of a kind (or of all others),
    /// or the first of the least kind up to one; if it is to be copied, the one at that place.
    pub fn chosen(&self, wished: u64, copies: bool, except: bool) -> Option<usize> {
        let mut all = self.messages.iter().enumerate();
        let (kind, least) = (wished as i64, (wished as i64).unsigned_abs());
        let found = match kind {
            _ if copies => all.find(|&(at, _)| at as u64 == wished),
            0 => all.next(),
            kind if kind < 0 => all
                .filter(|(_, message)| message.0 <= least)
                .min_by_key(|(at, message)| (message.0, *at)),
            _ => all.find(|(_, message)| (message.0 == least) != except),
        };
        found.map(|(at, _)| at)
    }
}

/// What a thread waits for: the object, the semaphore, and whether that shall be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub object: u32,
    pub semaphore: u16,
    pub for_zero: bool,
}

/// All objects of one kind, by number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Objects<T> {
    pub next: u32,
    pub all: BTreeMap<u32, T>,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self {
            next: 0,
            all: BTreeMap::new(),
        }
    }
}

impl<T> Objects<T> {
    pub fn add(&mut self, object: T) -> u32 {
        let number = self.next;
        self.next += 1;
        self.all.insert(number, object);
        number
    }

    pub fn get(&self, number: u64) -> Option<&T> {
        self.all.get(&(number as u32))
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.all.get_mut(&(number as u32))
    }
}

/// Everything of System V.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SystemV {
    pub segments: Objects<Segment>,
    pub sets: Objects<Set>,
    pub queues: Objects<Queue>,
    /// What is given back when a process ends, by process and set: one number a semaphore.
    pub undo: BTreeMap<(ProcessId, u32), Vec<i16>>,
    pub waiting: BTreeMap<ThreadId, Waiting>,
}

impl SystemV {
    /// True if a process's end has something to undo.
    pub fn undoes(&self, process: ProcessId) -> bool {
        let mut own = self.undo.range((process, 0)..=(process, u32::MAX));
        own.next().is_some()
    }

    pub fn is_empty(&self) -> bool {
        (self.segments.next, self.sets.next, self.queues.next) == (0, 0, 0)
    }

    /// What was restored holds what is always true; an error says what does not.
    pub fn validate(
        &self,
        is_file: impl Fn(InodeId) -> bool,
        is_thread: impl Fn(&ThreadId) -> bool,
    ) -> Result<(), &'static str> {
        const NUMBERS_MAX: u32 = 1 << 30;
        let below = |last: Option<&u32>, next: u32| {
            next <= NUMBERS_MAX && last.is_none_or(|&last| last < next)
        };
        let segments = self.segments.all.values();
        let mut sets = self.sets.all.values();
        let mut queues = self.queues.all.values();
        let right = below(self.segments.all.keys().next_back(), self.segments.next)
            && below(self.sets.all.keys().next_back(), self.sets.next)
            && below(self.queues.all.keys().next_back(), self.queues.next)
            && segments.clone().all(|segment| is_file(segment.inode))
            && sets.all(|set| {
                let mut values = set.semaphores.iter();
                values.all(|&(value, _)| i32::from(value) <= VALUE_MAX)
                    && set.semaphores.len() <= SET_MAX
            })
            && queues.all(|queue| queue.bytes() <= QUEUE_BYTES_MAX)
            && self.waiting.keys().all(is_thread)
            && self.undo.iter().all(|((_, number), list)| {
                let set = self.sets.all.get(number);
                set.is_some_and(|set| set.semaphores.len() == list.len())
            });
        right
            .then_some(())
            .ok_or("an object of System V is impossible")
    }
}

impl Kernel {
    /// True if an inode that is not mapped is a segment's that is still there.
    pub(crate) fn is_segment(&mut self, inode: InodeId) -> bool {
        let all = &mut self.rare.system_v.segments.all;
        all.retain(|_, segment| segment.inode != inode || !segment.removed);
        all.values().any(|segment| segment.inode == inode)
    }

    /// A process has attached a segment, if that is what an inode is, or has let go of it. Its mappings
    /// say how often it is attached.
    pub(crate) fn note_attached(
        &mut self,
        machine: &dyn Machine,
        process: ProcessId,
        inode: InodeId,
        attached: bool,
    ) {
        let seconds = self.now_ns(machine) / 1_000_000_000;
        let mut all = self.rare.system_v.segments.all.values_mut();
        if let Some(segment) = all.find(|segment| segment.inode == inode) {
            segment.last = process.0;
            let time = if attached {
                &mut segment.attached
            } else {
                &mut segment.detached
            };
            *time = seconds;
        }
    }

    /// A new process has the segments that are attached in its space; its parent attached them.
    pub(crate) fn note_inherited(
        &mut self,
        machine: &dyn Machine,
        parent: ProcessId,
        space: SpaceId,
    ) {
        for inode in self.segments_in(space) {
            self.note_attached(machine, parent, inode, true);
        }
    }

    /// A process is about to leave a space, in which nobody else lives.
    pub(crate) fn note_left(&mut self, machine: &dyn Machine, process: ProcessId, space: SpaceId) {
        for inode in self.segments_in(space) {
            self.note_attached(machine, process, inode, false);
        }
    }

    /// The files that are mapped in a space, if there are segments at all.
    fn segments_in(&self, space: SpaceId) -> Vec<InodeId> {
        if self.rare.system_v.segments.all.is_empty() {
            return Vec::new();
        }
        let mappings = self.spaces[space].mappings.values();
        mappings.filter_map(Mapping::inode).collect()
    }

    /// Gives back what an ended process took of semaphores with `SEM_UNDO`.
    pub(crate) fn undo_semaphores(&mut self, process: ProcessId) {
        let system_v = &mut self.rare.system_v;
        let own = system_v.undo.range((process, 0)..=(process, u32::MAX));
        let numbers: Vec<u32> = own.map(|((_, number), _)| *number).collect();
        for &number in &numbers {
            let list = system_v.undo.remove(&(process, number)).unwrap_or_default();
            let Some(set) = system_v.sets.all.get_mut(&number) else {
                continue;
            };
            for ((value, last), change) in set.semaphores.iter_mut().zip(list) {
                if change != 0 {
                    let new = i32::from(*value) + i32::from(change);
                    *value = new.clamp(0, VALUE_MAX) as u16;
                    *last = process.0;
                }
            }
        }
        if !numbers.is_empty() {
            self.wake_all_file_waiters();
        }
    }
}
