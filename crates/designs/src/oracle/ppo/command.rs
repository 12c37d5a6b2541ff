//! Commands, as the devices speak of them, and what devices do for them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use perdure_hardware::time::Cycles;

use super::image::By;
use super::operations::Left;
use crate::nearpm::Opcode;

/// A command, as the devices speak of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Command {
    pub opcode: u8,
    pub devices: u8,
    /// They agree on when it is done.
    pub agreed: bool,
    /// Whose transaction it belongs to.
    pub key: u64,
    pub operand: Range<u64>,
    /// Of an operation, what lies at its second operand.
    pub second: Range<u64>,
    /// By device, what an operation that it has taken is to leave in memory.
    pub effects: BTreeMap<usize, Left>,
    pub taken: BTreeMap<usize, Cycles>,
    pub done: BTreeMap<usize, Cycles>,
    pub synchronised: BTreeMap<usize, Cycles>,
    /// What a device has written for it, while that is under way.
    pub writes: Vec<(u64, Box<[u8]>)>,
}

impl Command {
    pub fn ends_transaction(&self) -> bool {
        self.opcode == Opcode::CommitLog as u8
    }

    pub fn logs(&self) -> bool {
        let logging = [Opcode::UndologCreate, Opcode::CheckpointCreate];
        logging.iter().any(|one| *one as u8 == self.opcode)
    }

    pub fn has(&self, device: usize) -> bool {
        self.devices & 1 << device != 0
    }

    pub fn others(&self) -> impl Iterator<Item = usize> {
        (0..u8::BITS as usize).filter(|device| self.has(*device))
    }

    /// From when on a device's writes of it are there after a cut.
    pub fn counts_from(&self, device: usize) -> Cycles {
        let taken = |device: usize| self.taken.get(&device).copied().unwrap_or(Cycles::MAX);
        if self.agreed && self.ends_transaction() {
            self.others().map(taken).fold(0, Cycles::max)
        } else {
            taken(device)
        }
    }
}

/// What a device did for a command.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub module: usize,
    pub command: u64,
    pub bytes: Range<u64>,
    pub writes: bool,
    pub done: Cycles,
}

pub(super) fn counts_from(commands: &HashMap<u64, Command>, by: By) -> Cycles {
    match by {
        By::Host(survives) => survives,
        By::Device(device, command) => {
            let command = commands.get(&command);
            command.map_or(Cycles::MAX, |command| command.counts_from(device))
        }
    }
}
