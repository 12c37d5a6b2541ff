//! Accesses to mappings that are not write-back, and stores around the caches.
//!
//! Always true here: none of them enters the lookaside, so every one comes by here.

use perdure_hardware::line::line_of;
use perdure_hardware::memory_type::MemoryType;
use perdure_hardware::time::Cycles;
use perdure_hardware::window::Alone;
use perdure_riscv::{Access, Fault};

use super::{OFFSET_MASK, Place, Port, Stored};
use crate::primitives;

impl<const SHORTCUTS: bool, const WINDOW: bool> Port<'_, SHORTCUTS, WINDOW> {
    /// Stores a piece of a line around the caches, where its mapping has such a way.
    pub(super) fn store_around(
        &mut self,
        address: u64,
        bytes: &[u8],
        retired: u64,
    ) -> Result<(), Fault> {
        let place = self.translate(address, Access::Store)?;
        let memory_type = primitives::memory_type(place.1.memory_type).non_temporal();
        self.store_otherwise(address, place.0, (bytes, memory_type), retired)
    }

    /// When such an access is made: what goes to memory itself does so when everything before it is over.
    fn made_otherwise_at(&mut self, memory_type: MemoryType, loads: bool, retired: u64) -> Cycles {
        let alone = memory_type == MemoryType::Uncached
            || loads && memory_type == MemoryType::WriteCombining;
        if alone {
            return self.made_alone_at(Alone::Other, retired);
        }
        self.made_at(retired)
    }

    /// If the hart is behind the line, the access has not been made, and the instruction runs again.
    fn unless_behind<T>(&self, made: T, access: Access, address: u64) -> Result<T, Fault> {
        match self.hardware.cores[self.hart].ahead {
            Some(_) => Err(Fault { access, address }),
            None => Ok(made),
        }
    }

    #[cold]
    pub(super) fn load_otherwise(
        &mut self,
        address: u64,
        (physical, page): Place,
        bytes: &mut [u8],
        retired: u64,
    ) -> Result<(), Fault> {
        let memory_type = primitives::memory_type(page.memory_type);
        let now = self.made_otherwise_at(memory_type, true, retired);
        let (hardware, design) = (&mut *self.hardware, &mut *self.design);
        let (line, ready) =
            hardware.load_as(design, self.hart, line_of(physical), memory_type, now);
        if let Some(window) = self.window() {
            window.loads(ready);
        }
        bytes.copy_from_slice(&line.0[(address & OFFSET_MASK) as usize..][..bytes.len()]);
        self.unless_behind((), Access::Load, address)
    }

    #[cold]
    pub(super) fn store_otherwise(
        &mut self,
        address: u64,
        physical: u64,
        (bytes, memory_type): (&[u8], MemoryType),
        retired: u64,
    ) -> Result<(), Fault> {
        self.watch.hit |= self.watch.covers(address);
        let now = self.made_otherwise_at(memory_type, false, retired);
        let stored = ((address & OFFSET_MASK) as usize, bytes);
        let (hardware, line) = (&mut *self.hardware, line_of(physical));
        hardware.store_as(self.design, self.hart, line, stored, memory_type, now);
        self.unless_behind((), Access::Store, address)
    }

    /// Changes bytes of such a mapping at once. Returns when that is done.
    #[cold]
    pub(super) fn update_otherwise(
        &mut self,
        address: u64,
        (physical, page): Place,
        (length, change): Stored,
        now: Cycles,
    ) -> Result<Cycles, Fault> {
        self.watch.hit |= self.watch.covers(address);
        let offset = (address & OFFSET_MASK) as usize;
        let change = (offset..offset + length, change);
        let memory_type = primitives::memory_type(page.memory_type);
        let (hardware, line) = (&mut *self.hardware, line_of(physical));
        let ready = hardware.update_as(self.design, self.hart, line, change, memory_type, now);
        self.unless_behind(ready, Access::Store, address)
    }
}
