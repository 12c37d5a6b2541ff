//! What threads have wished, where that is not what everybody has: it is remembered and told, and but for
//! the signal that a parent's end is to send it changes nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::ThreadId;

/// What a thread wishes, where that is not what everybody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wishes {
    /// Class and level of `ioprio_set`.
    pub io_priority: u32,
    /// Mode of `set_mempolicy`, and whether it names the node.
    pub memory_mode: u32,
    pub names_node: bool,
    /// What `personality` was given.
    pub personality: u32,
    /// Of `sched_setattr`: policy and niceness.
    pub policy: u32,
    pub nice: i32,
    /// The signal of `PR_SET_PDEATHSIG`, when its process loses the parent; 0 for none.
    pub death_signal: u8,
}

impl Wishes {
    /// The policy, without what stands with it.
    pub fn policy_alone(self) -> u32 {
        self.policy & !RESET_ON_FORK
    }
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            io_priority: BEST_EFFORT,
            memory_mode: 0,
            names_node: false,
            personality: 0,
            policy: 0,
            nice: 0,
            death_signal: 0,
        }
    }
}

/// The wishes of the threads that have any.
pub(crate) type AllWishes = BTreeMap<ThreadId, Wishes>;

/// `SCHED_RESET_ON_FORK`, which stands with a policy and is not handed on.
pub(crate) const RESET_ON_FORK: u32 = 0x4000_0000;

/// `IOPRIO_CLASS_BE`, level 4.
pub(crate) const BEST_EFFORT: u32 = 2 << 13 | 4;
