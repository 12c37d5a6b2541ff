//! What travels from the memory controller to the devices.

use super::command::{COMMAND_BYTES, Command};
use super::table::Mapping;
use crate::bytes::word;

/// A command as it travels: the sender's thread of the system, the devices that get it, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub command: Command,
    pub owner: u32,
    pub devices: u8,
    pub number: u64,
}

impl Packet {
    pub fn encode(&self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[..COMMAND_BYTES].copy_from_slice(&self.command.encode());
        bytes[24..28].copy_from_slice(&self.owner.to_le_bytes());
        bytes[28] = self.devices;
        bytes[32..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; 40]) -> Self {
        Self {
            command: Command::decode(&std::array::from_fn(|at| bytes[at])),
            owner: word(bytes, 3) as u32,
            devices: bytes[28],
            number: word(bytes, 4),
        }
    }
}

/// An entry of the address table as it travels.
pub(super) fn encode_mapping(index: usize, mapping: &Mapping) -> [u8; 40] {
    let first = index as u64 | u64::from(mapping.owner) << 32;
    let words = [
        first,
        mapping.virtual_start,
        mapping.physical_start,
        mapping.bytes,
        0,
    ];
    let mut bytes = [0; 40];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The entry, and its index.
pub(super) fn decode_mapping(bytes: &[u8; 40]) -> (usize, Mapping) {
    let word = |index| word(bytes, index);
    let mapping = Mapping {
        owner: (word(0) >> 32) as u32,
        virtual_start: word(1),
        physical_start: word(2),
        bytes: word(3),
    };
    ((word(0) as u32) as usize, mapping)
}
