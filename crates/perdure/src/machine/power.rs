//! Turning the power off, and on again as if nothing had been.
//!
//! Always true here: what a cut takes is returned, so that whoever has looked at what survived can put
//! it back and let the machine go on.

use perdure_designs::Design;
use perdure_hardware::memory::{Lost, Tear};
use perdure_hardware::time::Cycles;

use super::Machine;
use crate::source::Source;

impl<D: Design, S: Source> Machine<D, S> {
    /// Cuts the power at `at`; what energy backup keeps alive is written.
    pub fn power_off(&mut self, at: Cycles, tear_seed: u64) -> Lost {
        let mut tear = Tear::new(tear_seed);
        let mut lost = self.hardware.power_off(&self.design, at, &mut tear);
        let memory = &mut self.hardware.memory;
        self.design.drain(at, &mut |address, bytes| {
            memory.drain(&mut lost, address, bytes);
        });
        lost
    }
}
