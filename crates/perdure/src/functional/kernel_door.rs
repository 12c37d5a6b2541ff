//! How the kernel reaches memory.
//!
//! Always true here: what the kernel keeps for itself in persistent memory (the table of pools, zeros in new
//! pages) is durable at once, in the order in which the kernel makes it so; that it is so on a machine is
//! for others to show.

use std::ops::Range;

use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, cut_at, pieces};
use perdure_linux::{PAGE_BYTES, SpaceId};

use super::door::{ATOM_BYTES, Lookaside, Pool, next_code};
use super::{At, Flush, Wait, Watcher};

/// The kernel's door while it runs on behalf of the hart, or starts the machine.
pub struct KernelDoor<'m, W> {
    pub(super) memory: &'m mut Arena,
    pub(super) pool: &'m mut Pool,
    pub(super) lookaside: &'m mut Lookaside,
    pub(super) watcher: &'m mut W,
    pub(super) at: At,
    pub(super) now_ns: u64,
    pub(super) bookkeeps: bool,
    pub(super) pauses: bool,
}

impl<W: Watcher> perdure_linux::Machine for KernelDoor<'_, W> {
    fn read(&mut self, physical: u64, buffer: &mut [u8]) {
        if self.pool.offset_of(physical).is_none() {
            buffer.copy_from_slice(&self.memory.slice(physical, buffer.len()));
            return;
        }
        for (at, piece) in pieces(physical, buffer.len()) {
            // Where the watcher stops this, the machine goes back to before it entered the kernel.
            self.watcher.loads(self.pool, at, piece.len());
        }
        self.pool.read(physical, buffer);
    }

    fn peek(&mut self, physical: u64, buffer: &mut [u8]) {
        if self.pool.offset_of(physical).is_none() {
            buffer.copy_from_slice(&self.memory.slice(physical, buffer.len()));
        } else {
            self.pool.read(physical, buffer);
        }
    }

    fn write(&mut self, physical: u64, bytes: &[u8]) {
        if self.pool.offset_of(physical).is_none() {
            self.memory.write(physical, bytes);
            return;
        }
        if self.bookkeeps {
            self.watcher.bookkeeping(physical, bytes);
        } else {
            for (at, piece) in cut_at(ATOM_BYTES, physical, bytes.len()) {
                self.watcher.stores(self.pool, at, &bytes[piece], &self.at);
            }
        }
        self.pool.write(physical, bytes);
    }

    fn zero_frame(&mut self, physical: u64) {
        self.write(physical, &[0; PAGE_BYTES as usize]);
    }

    fn persist(&mut self, physical: Range<u64>) {
        for line in physical.step_by(LINE_BYTES) {
            self.pauses |= !self.watcher.flushes(line, Flush::Kernel, &self.at);
        }
    }

    fn wait_durable(&mut self) {
        self.pauses |= !self.watcher.fences(Wait::Kernel, &self.at);
    }

    fn system_stores(&mut self, begins: bool) {
        self.bookkeeps = begins;
    }

    fn charge(&mut self, _: u64) {}

    fn clock_ns(&self) -> u64 {
        self.now_ns
    }

    fn retired(&self, _: usize) -> u64 {
        self.at.retired
    }

    fn duration_ns(&self, instructions: u64) -> u64 {
        instructions
    }

    fn mappings_changed(&mut self, _: SpaceId, _: Range<u64>, executable: bool) {
        self.lookaside.forget();
        if executable {
            self.lookaside.code = next_code();
        }
    }

    fn code_written(&mut self) {
        self.lookaside.code = next_code();
    }
}
