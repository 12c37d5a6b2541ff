//! Processes: what their threads share, how they are related, and what is left of one that ended.
//!
//! Always true: a live process has an address space, and at least one thread until it is buried;
//! a process that ended is a zombie until its parent has asked for it. Children whose parent
//! ended belong to the outside, which never asks: they leave nothing behind.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

use crate::limits::Limit;
use crate::machine::{SpaceId, ThreadId};
use crate::signal::{Action, SignalInfo};
use crate::vfs::InodeId;
use crate::vfs::descriptor::{Descriptor, Table};

/// User and group number of everything.
pub(crate) const USER_ID: u32 = 1000;

/// Names one process: the number of its first thread.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub(crate) struct ProcessId(pub u32);

/// A repeating timer (`ITIMER_REAL`).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct IntervalTimer {
    /// When it is due next; `None` while disarmed.
    pub due_ns: Option<u64>,
    pub interval_ns: u64,
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Instructions, which are its CPU time.
    pub retired: u64,
    pub page_faults: u64,
}

impl Usage {
    pub fn plus(self, other: Self) -> Self {
        Self {
            retired: self.retired.saturating_add(other.retired),
            page_faults: self.page_faults.saturating_add(other.page_faults),
        }
    }
}

/// How a process ended, as `wait4` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    Exited(u8),
    Killed(u8),
}

impl Ending {
    /// The status word of `wait4`.
    pub fn status_word(self) -> u32 {
        match self {
            Ending::Exited(code) => u32::from(code) << 8,
            Ending::Killed(signal) => u32::from(signal),
        }
    }

    /// `si_code` and `si_status`.
    pub fn code_and_status(self) -> (i32, u32) {
        const CLD_EXITED: i32 = 1;
        const CLD_KILLED: i32 = 2;
        match self {
            Ending::Exited(code) => (CLD_EXITED, u32::from(code)),
            Ending::Killed(signal) => (CLD_KILLED, u32::from(signal)),
        }
    }
}

/// A live process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    pub id: ProcessId,
    /// `None` for one that belongs to the outside.
    pub parent: Option<ProcessId>,
    pub group: u32,
    pub session: u32,
    /// The program's place in the configuration.
    pub program: u32,
    /// The run of that program, from 0.
    pub run: u64,
    /// It is the first process of that run: its end is the run's.
    pub leads_run: bool,
    pub space: SpaceId,
    pub descriptors: Table<Descriptor>,
    /// The program file's guest path.
    pub executable: String,
    pub command_line: Vec<u8>,
    pub environment: Vec<u8>,
    pub auxiliary: Vec<u8>,
    pub directory: InodeId,
    pub umask: u32,
    /// Indexed by signal number.
    pub actions: BTreeMap<u8, Action>,
    /// Signals for whichever thread takes them.
    pub pending: Vec<SignalInfo>,
    pub limits: Vec<Limit>,
    pub timer: IntervalTimer,
    /// Exit status given by the last `exit` of a thread.
    pub last_status: i32,
    pub dumpable: bool,
    /// It has called `execve` since it was made.
    pub executed: bool,
    /// What its parent gets when it ends; 0 for nothing.
    pub exit_signal: u8,
    /// The thread that sleeps in `vfork` until this process calls `execve` or ends.
    pub vfork_waiter: Option<ThreadId>,
    /// Decided how it ends; threads on harts may not have left yet.
    pub ending: Option<Ending>,
    /// When it was made.
    pub started_ns: u64,
    /// Instructions of its threads that are gone.
    pub retired: u64,
    /// Of the children that it asked for.
    pub children: Usage,
}

/// What is left of a process until its parent asks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Zombie {
    pub parent: ProcessId,
    pub group: u32,
    pub program: u32,
    pub ending: Ending,
    pub usage: Usage,
}

/// All processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes {
    pub live: BTreeMap<ProcessId, Process>,
    pub zombies: BTreeMap<ProcessId, Zombie>,
}

impl Processes {
    pub fn get(&self, id: ProcessId) -> Option<&Process> {
        self.live.get(&id)
    }

    pub fn get_mut(&mut self, id: ProcessId) -> Option<&mut Process> {
        self.live.get_mut(&id)
    }

    /// The process with a number that a guest gave; 0 stands for `own`.
    pub fn named(&self, number: u64, own: ProcessId) -> Option<&Process> {
        match number as u32 {
            0 => self.get(own),
            id => self.get(ProcessId(id)),
        }
    }

    /// True if the number is a process's, a zombie's included.
    pub fn exists(&self, id: ProcessId) -> bool {
        self.live.contains_key(&id) || self.zombies.contains_key(&id)
    }
}

impl Index<ProcessId> for Processes {
    type Output = Process;

    /// The process of a thread; a saved state in which a thread has none is not restored.
    fn index(&self, id: ProcessId) -> &Process {
        self.get(id).expect("a thread belongs to a live process")
    }
}

impl IndexMut<ProcessId> for Processes {
    fn index_mut(&mut self, id: ProcessId) -> &mut Process {
        self.get_mut(id)
            .expect("a thread belongs to a live process")
    }
}
