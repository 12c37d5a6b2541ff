//! What persistence models make of flushes and fences, whichever instruction set they are of: a program is
//! checked by the rules of one model, and its instructions are understood as those that the model has in
//! their place. `docs/check.md` has this as a table; the models themselves are in [`crate::litmus`].
//!
//! Always true here: what a rule does not order may happen in either order.

use perdure_riscv::{Barrier, CacheBlock};
use serde::{Deserialize, Serialize};

use crate::functional::{Flush, Wait};

/// A persistence model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// x86: Px86sim.
    Px86,
    /// Arm: `PARMv8`.
    Arm,
    /// Perdure's contract for RISC-V.
    Perdure,
    /// What the timed machine holds when its power is cut, whose contract is the same.
    Machine,
}

/// The writes bit of a fence's set.
const WRITES: u8 = 1;

impl Model {
    /// True for a flush whose line is durable before the same thread's next store, without any fence.
    pub fn is_durable_at_once(self, flush: Flush) -> bool {
        flush == Flush::Instruction(CacheBlock::Clflush) && self != Self::Arm
    }

    /// True if what comes behind waits until earlier flushes of the thread are durable. A store around the
    /// caches is a flush.
    pub fn waits_for_flushes(self, wait: Wait) -> bool {
        match (self, wait) {
            (_, Wait::Kernel) => true,
            (_, Wait::Barrier(barrier)) => barrier != Barrier::DmbIsh,
            // A locked instruction does, an exchange on Arm or RISC-V does not.
            (_, Wait::Atomic) => self == Self::Px86,
            // What compilers make of acquire and release is no fence on x86 or Arm.
            (Self::Px86 | Self::Arm, Wait::Fence(before, after)) => {
                before == after && before & WRITES != 0
            }
            (Self::Perdure | Self::Machine, Wait::Fence(before, after)) => {
                before & after & WRITES != 0
            }
        }
    }

    /// True if stores behind stay behind stores before, though neither may be durable: of interest where
    /// stores of one thread can pass each other.
    pub fn orders_stores(self, wait: Wait) -> bool {
        match wait {
            Wait::Kernel | Wait::Barrier(_) | Wait::Atomic => true,
            Wait::Fence(before, after) => before & after & WRITES != 0,
        }
    }

    /// True if stores behind stay behind what the thread has seen of others before.
    pub fn puts_stores_behind(self, wait: Wait) -> bool {
        match wait {
            Wait::Kernel | Wait::Barrier(_) | Wait::Atomic => true,
            Wait::Fence(_, after) => after & WRITES != 0,
        }
    }

    /// True if stores of one thread to different bytes of a line can pass each other.
    pub fn reorders_stores(self) -> bool {
        self == Self::Arm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_flushes() {
        let waits = |model: Model| {
            let all = [
                Wait::Barrier(Barrier::Sfence),
                Wait::Barrier(Barrier::DmbIsh),
                Wait::Barrier(Barrier::DsbIsh),
                Wait::Atomic,
                Wait::Fence(1, 1),
                Wait::Fence(3, 3),
                Wait::Fence(3, 1),
                Wait::Fence(2, 3),
                Wait::Kernel,
            ];
            all.map(|wait| u8::from(model.waits_for_flushes(wait)))
        };
        assert_eq!(waits(Model::Px86), [1, 0, 1, 1, 1, 1, 0, 0, 1]);
        assert_eq!(waits(Model::Arm), [1, 0, 1, 0, 1, 1, 0, 0, 1]);
        assert_eq!(waits(Model::Perdure), [1, 0, 1, 0, 1, 1, 1, 0, 1]);
    }
}
