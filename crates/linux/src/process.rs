//! The one process: what its threads share besides memory and open files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::signal::{Action, SignalInfo};
use crate::vfs::InodeId;

/// The process's number.
pub(crate) const PROCESS_ID: u32 = 1;
/// User and group number of everything.
pub(crate) const USER_ID: u32 = 1000;

/// A resource limit: soft and hard.
pub(crate) type Limit = (u64, u64);

/// `RLIM_INFINITY`.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// A repeating timer (`ITIMER_REAL`).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct IntervalTimer {
    /// When it is due next; `None` while disarmed.
    pub due_ns: Option<u64>,
    pub interval_ns: u64,
}

/// Process-wide state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    /// The program's guest path.
    pub program: String,
    /// The program's inode.
    pub program_inode: InodeId,
    /// Where the program was loaded, for symbols.
    pub images: Vec<LoadedImage>,
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
    pub next_thread: u32,
    /// Exit status given by the last `exit` of a thread.
    pub last_status: i32,
    pub dumpable: bool,
    pub page_faults: u64,
}

/// A loaded ELF file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LoadedImage {
    pub inode: InodeId,
    /// What was added to the file's virtual addresses.
    pub bias: u64,
    /// First and last address it occupies.
    pub start: u64,
    pub end: u64,
}

/// Resource limits in the order of their numbers.
pub(crate) fn default_limits(stack_bytes: u64) -> Vec<Limit> {
    let free = (UNLIMITED, UNLIMITED);
    let mut limits = vec![free; 16];
    limits[3] = (stack_bytes, UNLIMITED);
    limits[4] = (0, UNLIMITED);
    limits[6] = (4096, 4096);
    limits[7] = (1024, 4096);
    limits[8] = (8 << 20, 8 << 20);
    limits[11] = (4096, 4096);
    limits[12] = (819_200, 819_200);
    limits[13] = (0, 0);
    limits[14] = (0, 0);
    limits
}
