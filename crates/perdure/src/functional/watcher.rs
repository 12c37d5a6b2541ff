//! Who watches persistent memory, and what is told.
//!
//! Always true here: the machine behaves as if nobody watched, except that it comes back where the watcher
//! wants it to.

use perdure_linux::ThreadId;
use perdure_riscv::{Barrier, CacheBlock, Mark};
use serde::{Deserialize, Serialize};

use super::Pool;
use crate::wholes::Piece;

/// Whoever watches persistent memory. Addresses are physical.
pub trait Watcher: Clone {
    /// It is told by which instruction, [`At::pc`], something is done.
    const LOCATES: bool = false;

    /// So many bytes, of one line, are about to be read. False: not now; the machine stops before whatever
    /// reads them.
    fn loads(&mut self, pool: &Pool, address: u64, length: usize) -> bool {
        let _ = (pool, address, length);
        true
    }

    /// These bytes, of one line, are about to be written.
    fn stores(&mut self, pool: &Pool, address: u64, bytes: &[u8], at: &At) {
        let _ = (pool, address, bytes, at);
    }

    /// The kernel makes these bytes durable by itself, in the right order.
    fn bookkeeping(&mut self, address: u64, bytes: &[u8]) {
        let _ = (address, bytes);
    }

    /// A line is written back. False: the machine shall come back soon afterwards, to be looked at.
    fn flushes(&mut self, address: u64, how: Flush, at: &At) -> bool {
        let _ = (address, how, at);
        true
    }

    /// Something waits. False: as above.
    fn fences(&mut self, fence: Wait, at: &At) -> bool {
        let _ = (fence, at);
        true
    }

    /// The program says something of itself; if that is of bytes, where they lie, or nothing if they are not
    /// in one pool. False: as above.
    fn marks(&mut self, pool: &Pool, mark: Mark, whole: &[Piece], at: &At) -> bool {
        let _ = (pool, mark, whole, at);
        true
    }

    /// True if the machine may have to stop before something that the kernel does.
    fn may_stop(&self) -> bool {
        false
    }

    /// True if it did, and the access that it stopped at is still to come.
    fn has_stopped(&self) -> bool {
        false
    }

    /// The machine has gone back to when the watcher was this, for what the watcher did not let happen.
    fn goes_back(&mut self, before: Self) {
        *self = before;
    }
}

/// Who does something, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    /// The thread.
    pub thread: ThreadId,
    /// The instruction's address, if the watcher wants to know it.
    pub pc: u64,
    /// Instructions retired before it.
    pub retired: u64,
    /// The kernel does it for the thread.
    pub by_kernel: bool,
}

/// What writes a line back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// A cache-block instruction.
    Instruction(CacheBlock),
    /// A store around the caches, which comes with it.
    NonTemporal,
    /// The memory type of a mapping, for a store to it, which comes with that.
    MemoryType,
    /// The kernel, for `msync` and its kin.
    Kernel,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A fence of x86 or Arm.
    Barrier(Barrier),
    /// RISC-V's, with its sets.
    Fence(u8, u8),
    /// An atomic instruction, before its access.
    Atomic,
    /// The kernel.
    Kernel,
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watcher for Unwatched {}
