//! What the primary reads: the NVM as a power failure now would leave it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use perdure_designs::snapshots::{Source, StoreError};
use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::memory::Memory;
use perdure_hardware::time::Cycles;

use crate::machine::Machine;

/// The NVM as a power failure now would leave it: without what the DRAM alone has.
pub struct Nvm<'a> {
    /// What has them.
    pub memory: &'a Memory,
    batteries: BTreeMap<u64, Line>,
}

impl<'a> Nvm<'a> {
    /// Of a machine.
    pub fn of(machine: &'a Machine) -> Self {
        let mut batteries = BTreeMap::new();
        machine.design.drain(Cycles::MAX, &mut |address, bytes| {
            let mut line = Line::ZERO;
            line.0.copy_from_slice(bytes);
            batteries.insert(address, line);
        });
        Self {
            memory: &machine.hardware.memory,
            batteries,
        }
    }
}

impl Source for Nvm<'_> {
    type Error = StoreError;
    fn bytes(&self, address: u64, length: usize) -> Result<Cow<'_, [u8]>, StoreError> {
        match self.batteries.get(&address) {
            Some(line) if length == LINE_BYTES => Ok(Cow::Borrowed(&line.0)),
            _ => Ok(self.memory.arena.bytes(address, length)?),
        }
    }
}
