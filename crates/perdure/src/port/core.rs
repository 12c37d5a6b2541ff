//! What a port tells its core: when accesses are made, and when they had their lines. An out-of-order core
//! is told so in its window's terms.

use perdure_hardware::core_timing::AccessKind;
use perdure_hardware::hierarchy::Core;
use perdure_hardware::line::{LINE_BYTES, LineNumber, line_of};
use perdure_hardware::lookaside::entry_offset;
use perdure_hardware::mistaken::PersistMistake;
use perdure_hardware::persist::Fence;
use perdure_hardware::time::Cycles;
use perdure_hardware::window::{Alone, Window};
use perdure_linux::MemoryType;
use perdure_riscv::{Access, Exit, Fault, Hart};

use super::{OFFSET_MASK, Port, Stored};
use crate::primitives;

/// Until when a hart may run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Local time.
    pub time: Cycles,
    /// Retired instructions of this hart.
    pub instructions: u64,
    /// Others run, too: a hart that has waited for bytes to be durable lets those behind it go first.
    pub among_others: bool,
}

impl<const SHORTCUTS: bool, const WINDOW: bool> Port<'_, SHORTCUTS, WINDOW> {
    /// This hart's core, where it matters that nothing is looked up.
    #[inline(always)]
    pub(super) fn core(&mut self) -> &mut Core {
        // SAFETY: `core` is this hart's core, borrowed with the hardware.
        unsafe { &mut *self.core }
    }

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

    /// The hart leaves the program for the kernel, or to let others take their turns.
    pub(crate) fn leave(&mut self, exit: &Exit, registers: &Hart) {
        if WINDOW && *exit != Exit::Limit {
            let core = &mut self.hardware.cores[self.hart];
            if core.again {
                core.timing.again(registers.retired);
            } else {
                core.timing.trap(registers.retired);
            }
        }
    }

    /// Loads a number of bytes that lie within one line, at most eight, and tells the core.
    #[inline(never)]
    pub(super) fn load_bytes(
        &mut self,
        address: u64,
        length: usize,
        retired: u64,
    ) -> Result<[u8; 8], Fault> {
        let mut bytes = [0; 8];
        let place = self.translate(address, Access::Load)?;
        if place.1.memory_type != MemoryType::WriteBack {
            self.load_otherwise(address, place, &mut bytes[..length], retired)?;
            self.refresh_limit();
            return Ok(bytes);
        }
        let now = self.made_at(retired);
        let (slot, ready) = self.reach(address, place, retired, None)?;
        match self.window() {
            Some(window) => window.load(slot, (address, length), ready),
            None => (self.hardware).accessed(self.hart, AccessKind::Load, now, ready),
        }
        self.refresh_limit();
        let from = &self.core().l1d.data(slot).0[(address & OFFSET_MASK) as usize..];
        // A copy of a fixed length is an instruction of the host; what is behind is nobody's business.
        match from.first_chunk::<8>() {
            Some(eight) => bytes = *eight,
            None => bytes[..length].copy_from_slice(&from[..length]),
        }
        Ok(bytes)
    }

    /// A load across two lines: both halves, the first one first.
    pub(super) fn load_across(
        &mut self,
        address: u64,
        length: usize,
        retired: u64,
    ) -> Result<[u8; 8], Fault> {
        let mut bytes = [0; 8];
        let second = (address | OFFSET_MASK) + 1;
        self.translate(address, Access::Load)?;
        self.translate(second, Access::Load)?;
        let split = (second - address) as usize;
        for (start, range) in [(address, 0..split), (second, split..length)] {
            let piece = self.load_bytes(start, range.len(), retired)?;
            bytes[range.clone()].copy_from_slice(&piece[..range.len()]);
        }
        Ok(bytes)
    }

    /// Stores bytes that may lie in two lines: the first piece first, and neither if one cannot be.
    #[inline(always)]
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

    /// A blocking access to an aligned value: the store buffer drains first, and the core waits. If it waits
    /// for flushed bytes to be durable, it is made when they are, and others take their turns before: nobody
    /// sees it, and nobody sends its line to memory, while those bytes may still be lost. (Beside a single
    /// hart that is in order there is nobody.) One that only loads goes through the caches whatever its
    /// mapping is, so that its reservation is lost with the line.
    pub(super) fn blocking(
        &mut self,
        address: u64,
        retired: u64,
        stored: Option<Stored>,
    ) -> Result<LineNumber, Fault> {
        let access = match stored {
            Some(_) => Access::Store,
            None => Access::Load,
        };
        // What hits is mapped.
        let place = if self.hits(address, access) {
            None
        } else {
            Some(self.translate(address, access)?)
        };
        let made = self.made_at(retired);
        let waits = !(self.hardware).is_mistaken(PersistMistake::AtomicsForNothing);
        let fence = if waits {
            primitives::ATOMIC
        } else {
            Fence::default()
        };
        let now = (self.hardware).fence(self.design, self.hart, fence, made);
        let core = &mut self.hardware.cores[self.hart];
        core.waited &= WINDOW || self.limits.among_others;
        core.again = core.waited;
        if core.again {
            return Err(Fault { access, address });
        }
        if let Some(window) = self.window() {
            window.wait_until(now);
        }
        // What the fence sent may have taken the line.
        if place.is_none() && self.hits(address, access) {
            if stored.is_some() {
                self.hardware.check_version(self.design, self.hart);
            }
            let line = self.make_hit(address, stored);
            (self.hardware).accessed(self.hart, AccessKind::Atomic, now, now);
            self.refresh_limit();
            return Ok(line);
        }
        let place = match place {
            Some(place) => place,
            None => self.translate(address, access)?,
        };
        let ready = match stored {
            Some(stored) if place.1.memory_type != MemoryType::WriteBack => {
                self.update_otherwise(address, place, stored, now)?
            }
            stored => self.reach(address, place, retired, stored)?.1,
        };
        (self.hardware).accessed(self.hart, AccessKind::Atomic, now, ready);
        self.refresh_limit();
        Ok(line_of(place.0))
    }

    /// Whether a blocking access to an aligned value hits the lookaside, and nobody has to hear of that.
    #[inline(always)]
    fn hits(&self, address: u64, access: Access) -> bool {
        if !SHORTCUTS || WINDOW {
            return false;
        }
        // SAFETY: as in `load_hit`.
        let entry = unsafe { &*self.entries.byte_add(entry_offset(address)) };
        let tag = match access {
            Access::Store => entry.write_tag,
            Access::Load | Access::Fetch => entry.read_tag,
        };
        tag == address & !OFFSET_MASK && self.hardware.lets_atomics_hit()
    }

    /// Makes an access that hits. Returns its line.
    #[inline(always)]
    fn make_hit(&mut self, address: u64, stored: Option<Stored>) -> LineNumber {
        let core = self.core();
        let slot = core.lookaside.slot_hit(address);
        core.accesses += 1;
        *core.l1d.stamp_mut(slot) = core.accesses;
        if let Some((length, change)) = stored {
            core.stores += 1;
            let offset = (address & OFFSET_MASK) as usize;
            change(&mut core.l1d.data_mut(slot).0[offset..offset + length]);
        }
        core.l1d.word(slot).line()
    }

    /// Stops the source if nobody may see what the hart does next before it happens (`Core::waited`).
    pub(super) fn lets_others_catch_up(&mut self) {
        let waited = &mut self.hardware.cores[self.hart].waited;
        *waited &= self.limits.among_others;
        if *waited {
            self.limits.instructions = 0;
        }
        self.refresh_limit();
    }

    /// Waits at a fence.
    pub(super) fn wait_for(&mut self, fence: Fence, retired: u64) {
        let now = self.made_at(retired);
        self.hardware.fence(self.design, self.hart, fence, now);
        self.lets_others_catch_up();
    }

    /// Stores bytes that lie within one line, and tells the core.
    #[inline(never)]
    pub(super) fn store_bytes(
        &mut self,
        address: u64,
        bytes: &[u8],
        retired: u64,
    ) -> Result<(), Fault> {
        let place = self.translate(address, Access::Store)?;
        if place.1.memory_type != MemoryType::WriteBack {
            let memory_type = primitives::memory_type(place.1.memory_type);
            return self.store_otherwise(address, place.0, (bytes, memory_type), retired);
        }
        let now = self.made_at(retired);
        let mut copy = |stored: &mut [u8]| stored.copy_from_slice(bytes);
        let stored: Stored = (bytes.len(), &mut copy);
        let (slot, ready) = self.reach(address, place, retired, Some(stored))?;
        match self.window() {
            Some(window) => window.store(slot, (address, bytes.len()), ready),
            None => (self.hardware).accessed(self.hart, AccessKind::Store, now, ready),
        }
        Ok(())
    }
}
