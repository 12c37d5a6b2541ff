//! The machine as the kernel sees it.
//!
//! Always true: the kernel holds no guest bytes of its own except bytes on their way in or out
//! (standard output that no epoch has released yet, pipes). Everything else that a program can
//! read lies in physical frames and is reached through [`Machine`], so that a persistence design
//! protects it like any other memory and every access is paid for.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Bytes in a page and in a frame.
pub const PAGE_BYTES: u64 = 4096;

/// Names one address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpaceId(pub u32);

/// Names one thread; it is the number that the guest sees from `gettid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadId(pub u32);

/// The machine as the kernel sees it while it runs on behalf of one hart. Reads and writes go
/// through that hart's caches and are charged.
pub trait Machine {
    /// Reads bytes at a physical address, within one frame or contiguous frames.
    fn read(&mut self, physical: u64, buffer: &mut [u8]);

    /// The same, for a kernel that has reason to believe what is there: nobody's time passes.
    fn peek(&mut self, physical: u64, buffer: &mut [u8]) {
        self.read(physical, buffer);
    }

    /// Writes bytes at a physical address, within one frame or contiguous frames.
    fn write(&mut self, physical: u64, bytes: &[u8]);

    /// Zeroes the frame that starts at `physical`. Called for recycled frames only: a frame that
    /// was never used is known to be zero.
    fn zero_frame(&mut self, physical: u64);

    /// Sends what was written at these physical addresses on its way to where it survives a power cut.
    /// Nothing is to be done where it is there at once.
    fn persist(&mut self, _physical: Range<u64>) {}

    /// The hart waits until everything that it sent on its way is there.
    fn wait_durable(&mut self) {}

    /// What is written from now on is the system's own bookkeeping and no program's doing, or the
    /// program's again.
    fn system_stores(&mut self, _begins: bool) {}

    /// Charges the kernel's own work to the hart.
    fn charge(&mut self, cycles: u64);

    /// The virtual clock in nanoseconds: monotonic, never host time.
    fn clock_ns(&self) -> u64;

    /// Instructions that a hart has retired.
    fn retired(&self, hart: usize) -> u64;

    /// What so many instructions take on the virtual clock: the CPU time of whoever retired them.
    fn duration_ns(&self, instructions: u64) -> u64;

    /// Translations of these virtual page numbers are no longer what [`crate::Kernel::translate`]
    /// said before: drop them on every hart, and decoded code too if `executable`.
    fn mappings_changed(&mut self, space: SpaceId, pages: Range<u64>, executable: bool);

    /// Frames that were written will be fetched from: like FENCE.I on every hart, what was fetched
    /// from them in an earlier life of theirs must not be executed again.
    fn code_written(&mut self);
}

/// Where a virtual page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The physical frame's number: its first byte's physical address divided by 4096.
    pub physical_frame: u64,
    /// Stores are allowed now. A copy-on-write page is not writable until a fault copies it.
    pub writable: bool,
    /// Instruction fetch is allowed.
    pub executable: bool,
    /// What loads and stores ask of the caches.
    pub memory_type: MemoryType,
}

/// What loads and stores of a mapping ask of the caches; instructions are fetched through them always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryType {
    /// Caches keep what is loaded and stored.
    #[default]
    WriteBack,
    /// Caches keep it, and memory gets every store.
    WriteThrough,
    /// No cache keeps it.
    Uncached,
    /// No cache keeps it; stores are gathered line by line.
    WriteCombining,
}
