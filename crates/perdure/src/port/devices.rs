//! Accesses to device regions.
//!
//! Always true here: a device takes aligned loads and stores, one at a time, behind everything before them.

use perdure_hardware::window::Alone;
use perdure_riscv::{Access, Fault, Scalar};

use super::Port;

impl<const SHORTCUTS: bool, const WINDOW: bool> Port<'_, SHORTCUTS, WINDOW> {
    /// A device takes aligned loads and stores, and nothing else.
    #[cold]
    pub(super) fn refuse(&mut self, address: u64, access: Access) -> Fault {
        self.hardware.cores[self.hart].refused = true;
        Fault { access, address }
    }

    /// The physical address of an access to a device region; `None` if it is to memory.
    #[inline(always)]
    pub(super) fn of_device<T: Scalar>(
        &mut self,
        address: u64,
        access: Access,
    ) -> Result<Option<u64>, Fault> {
        if self.hardware.memory.map().has_devices() {
            self.beside_devices::<T>(address, access)
        } else {
            Ok(None)
        }
    }

    /// The same where there is a device region.
    #[inline(never)]
    fn beside_devices<T: Scalar>(
        &mut self,
        address: u64,
        access: Access,
    ) -> Result<Option<u64>, Fault> {
        let (physical, _) = self.translate(address, access)?;
        match self.hardware.memory.map().is_device(physical) {
            false => Ok(None),
            true if address.is_multiple_of(T::BYTES as u64) => Ok(Some(physical)),
            true => Err(self.refuse(address, access)),
        }
    }

    pub(super) fn load_device<T: Scalar>(&mut self, physical: u64, retired: u64) -> T {
        let (mut bytes, now) = ([0; 8], self.made_alone_at(Alone::Other, retired));
        let (hardware, bytes) = (&mut *self.hardware, &mut bytes[..T::BYTES]);
        hardware.device_load(self.design, (self.hart, physical), bytes, now);
        self.refresh_limit();
        T::from_le(bytes)
    }

    pub(super) fn store_device<T: Scalar>(&mut self, physical: u64, value: T, retired: u64) {
        let now = self.made_alone_at(Alone::Other, retired);
        let bytes = value.to_u64().to_le_bytes();
        let bytes = &bytes[..T::BYTES];
        (self.hardware).device_store(self.design, (self.hart, physical), bytes, now);
        self.refresh_limit();
    }
}
