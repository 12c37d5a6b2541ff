//! What a port tells its core: when accesses are made, and when they had their lines. An out-of-order core
//! is told so in its window's terms.

use perdure_hardware::cache::Slot;
use perdure_hardware::core_timing::AccessKind;
use perdure_hardware::line::{LINE_BYTES, line_of};
use perdure_hardware::memory_type::MemoryType;
use perdure_hardware::persist::Fence;
use perdure_hardware::time::Cycles;
use perdure_hardware::window::{Alone, Window};
use perdure_riscv::{Access, Exit, Fault, Hart, Scalar};

use super::{OFFSET_MASK, Port};

impl<const SHORTCUTS: bool, const WINDOW: bool> Port<'_, SHORTCUTS, WINDOW> {
    /// When the instruction at hand makes its accesses.
    #[inline]
    pub(super) fn made_at(&mut self, retired: u64) -> Cycles {
        match self.window() {
            Some(window) => window.issued(),
            None => self.now(retired),
        }
    }

    /// The same for what waits until everything before it is over.
    pub(super) fn made_alone_at(&mut self, kind: Alone, retired: u64) -> Cycles {
        match self.window() {
            Some(window) => window.wait_at_head(kind),
            None => self.now(retired),
        }
    }

    /// The window of a core that is out of order. Nothing is compiled where it is not.
    #[inline(always)]
    pub(super) fn window(&mut self) -> Option<&mut Window> {
        if !WINDOW {
            return None;
        }
        self.hardware.cores[self.hart].timing.window()
    }

    /// The hart leaves the program for the kernel.
    pub(crate) fn leave(&mut self, exit: &Exit, registers: &Hart) {
        if WINDOW && *exit != Exit::Limit {
            let timing = &mut self.hardware.cores[self.hart].timing;
            timing.trap(registers.retired);
        }
    }

    /// Brings the line of so many bytes to be loaded, and tells the core.
    pub(super) fn reach_to_load(
        &mut self,
        address: u64,
        bytes: usize,
        retired: u64,
    ) -> Result<Slot, Fault> {
        let now = self.made_at(retired);
        let (slot, _, ready) = self.reach(address, retired, None)?;
        match self.window() {
            Some(window) => window.load(slot, (address, bytes), ready),
            None => (self.hardware).accessed(self.hart, AccessKind::Load, now, ready),
        }
        Ok(slot)
    }

    /// A load across two lines: both halves, the first one first.
    pub(super) fn load_across<T: Scalar>(
        &mut self,
        address: u64,
        retired: u64,
    ) -> Result<T, Fault> {
        let mut bytes = [0; 8];
        let second = (address | OFFSET_MASK) + 1;
        self.translate(address, Access::Load)?;
        self.translate(second, Access::Load)?;
        let split = (second - address) as usize;
        for (start, range) in [(address, 0..split), (second, split..T::BYTES)] {
            let slot = self.reach_to_load(start, range.len(), retired)?;
            let offset = (start & OFFSET_MASK) as usize;
            let data = &self.hardware.cores[self.hart].l1d.data(slot).0;
            bytes[range.clone()].copy_from_slice(&data[offset..offset + range.len()]);
        }
        self.refresh_limit();
        Ok(T::from_le(&bytes[..T::BYTES]))
    }

    /// Stores bytes that may lie in two lines: the first piece first, and neither if one cannot be.
    #[inline]
    pub(super) fn store_pieces(
        &mut self,
        address: u64,
        bytes: &[u8],
        mut store: impl FnMut(&mut Self, u64, &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let offset = (address & OFFSET_MASK) as usize;
        if offset + bytes.len() <= LINE_BYTES {
            store(self, address, bytes)?;
        } else {
            let (first, rest) = bytes.split_at(LINE_BYTES - offset);
            let second = (address | OFFSET_MASK) + 1;
            self.translate(address, Access::Store)?;
            self.translate(second, Access::Store)?;
            store(self, address, first)?;
            store(self, second, rest)?;
        }
        self.refresh_limit();
        Ok(())
    }

    /// Stores a piece of a line around the caches.
    pub(super) fn store_around(
        &mut self,
        address: u64,
        bytes: &[u8],
        retired: u64,
    ) -> Result<(), Fault> {
        let (physical, _) = self.translate(address, Access::Store)?;
        self.watch.hit |= self.watch.covers(address);
        let (line, now) = (line_of(physical), self.made_at(retired));
        let stored = ((address & OFFSET_MASK) as usize, bytes);
        let memory_type = MemoryType::WriteBack.non_temporal();
        (self.hardware).store_as(self.design, self.hart, line, stored, memory_type, now);
        match self.hardware.cores[self.hart].ahead {
            Some(_) => Err(Fault {
                access: Access::Store,
                address,
            }),
            None => Ok(()),
        }
    }

    /// Waits at a fence.
    pub(super) fn wait_for(&mut self, fence: Fence, retired: u64) {
        let now = self.made_at(retired);
        self.hardware.fence(self.design, self.hart, fence, now);
        self.refresh_limit();
    }

    pub(super) fn store_bytes(
        &mut self,
        address: u64,
        bytes: &[u8],
        retired: u64,
    ) -> Result<(), Fault> {
        let now = self.made_at(retired);
        let mut copy = |stored: &mut [u8]| stored.copy_from_slice(bytes);
        let (slot, _, ready) = self.reach(address, retired, Some((bytes.len(), &mut copy)))?;
        match self.window() {
            Some(window) => window.store(slot, (address, bytes.len()), ready),
            None => (self.hardware).accessed(self.hart, AccessKind::Store, now, ready),
        }
        Ok(())
    }
}
