//! How much memory a check may take for recoveries that wait.
//!
//! Always true here: a bound decides what is kept and what is run again, and nothing that is found.

use std::sync::Arc;

use perdure_hardware::arena::bytes_in_use;

use super::refused;
use crate::error::Error;

/// What a fork takes beside the bytes of its memory: its kernel, hart and what is known of translations.
const FORK_BYTES: u64 = 96 << 10;
const MIB: u64 = 1 << 20;

/// The bound, and the forks that there are.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    bound_bytes: Option<u64>,
    forks: Fork,
}

/// Somebody who counts as a fork.
#[derive(Clone, Debug, Default)]
pub struct Fork(Arc<()>);

impl Memory {
    /// So many MiB; none for no bound.
    pub fn new(bound_mib: Option<u64>) -> Self {
        Self {
            bound_bytes: bound_mib.map(|mib| mib.saturating_mul(MIB)),
            forks: Fork::default(),
        }
    }

    /// One more.
    pub fn fork(&self) -> Fork {
        self.forks.clone()
    }

    /// What is in use now.
    fn used_bytes(&self) -> u64 {
        bytes_in_use() + FORK_BYTES * Arc::strong_count(&self.forks.0) as u64
    }

    /// True if one more may wait as it is.
    pub fn has_room(&self) -> bool {
        (self.bound_bytes).is_none_or(|bound| self.used_bytes() < bound)
    }

    /// Refuses a bound in which the program itself, which has just run, and a recovery for each host thread
    /// have no room.
    pub fn suffices(&self, jobs: usize) -> Result<(), Error> {
        let least = (self.used_bytes() * (1 + jobs as u64)).div_ceil(MIB);
        match self.bound_bytes {
            Some(bound) if bound < least * MIB => refused(format!(
                "--memory {}: the program itself, and a recovery for each of {jobs} host threads (--jobs), take {least} MiB; give at least as many",
                bound / MIB
            )),
            _ => Ok(()),
        }
    }
}
