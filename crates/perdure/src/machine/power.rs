//! Turning the power off, what recovers when it is back, and turning it on again as if nothing had been.
//!
//! Always true here:
//! - What a cut takes is returned, so that whoever has looked at what survived can put it back and let the
//!   machine go on.
//! - Devices recover before the design, and all of them from the surviving bytes alone.

use perdure_designs::surviving::{DeviceRecoveries, Interrupted, Surviving, recover_devices};
use perdure_designs::{Facts, Recovered};
use perdure_hardware::memory::{Lost, Tear};
use perdure_hardware::time::Cycles;

use super::Machine;
use crate::panics;
use crate::source::Source;

/// How a machine recovers.
#[derive(Debug)]
pub struct Recovery {
    devices: DeviceRecoveries,
    design: &'static Facts,
    bug: Option<&'static str>,
}

impl Recovery {
    /// Of the machine's devices, then of its design.
    pub fn run(&self, image: &mut Surviving) -> Result<Recovered, Interrupted> {
        let recovered = panics::caught(|| {
            recover_devices(image, &self.devices)?;
            (self.design.recover)(image, self.bug)
        });
        recovered.unwrap_or_else(|said| Err(Interrupted::Panicked(said)))
    }

    /// The devices' part of it.
    pub fn of_devices(&self) -> &DeviceRecoveries {
        &self.devices
    }
}

impl<S: Source> Machine<S> {
    /// How it recovers.
    pub fn recovery(&self) -> Recovery {
        Recovery {
            devices: self.hardware.memory.device_recoveries(),
            design: self.facts(),
            bug: self.bug,
        }
    }

    /// Cuts the power at `at`; what energy backup keeps alive is written.
    pub fn power_off(&mut self, at: Cycles, tear_seed: u64) -> Lost {
        let mut tear = Tear::new(tear_seed);
        let mut lost = self.hardware.power_off(&*self.design, at, &mut tear);
        let memory = &mut self.hardware.memory;
        self.design.drain(at, &mut |address, bytes| {
            memory.drain(&mut lost, address, bytes);
        });
        lost
    }
}
