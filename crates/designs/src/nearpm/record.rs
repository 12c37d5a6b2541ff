//! What a device's residual energy writes when the power fails (section 5.3.3), into a reserved place of its
//! own memory, and what recovery reads there.
//!
//! ```text
//! header    u64 "NPMSAVED"  u64 device  u64 devices  u64 granule  u64 commands  u64 writes; sealed, 64 bytes
//! progress  u64 items that recovery is done with; a line
//! commands  64 bytes each: those of the request FIFO and of the units, in the order in which they were taken
//! writes    80 bytes each: those of the host queue: u64 order  u64 address  the line
//! ```
//!
//! A command is saved as it was dispatched, with physical addresses, so that nothing else is needed:
//!
//! ```text
//! u8 opcode  u8 pool  u8 thread  u8 devices  u32 size   u64 order     u64 number      u64 operand
//! u64 second                                  u64 first free place    u64 transaction
//! u32 area's first page  u32 its pages, of the region
//! ```
//!
//! The area is the log's; of an operation, its pool.

use std::ops::Range;

use perdure_hardware::line::{LINE_BYTES, Line};

use super::geometry::Geometry;
use crate::bytes::{Writer, sealed, unsealed, word};

/// What a record takes, at the most.
pub const BYTES: u64 = 16 << 10;
/// What all devices' records take of the region.
pub const RESERVED: u64 = 512 << 10;
/// Units of a device, at the most.
pub const UNITS_MAX: usize = 16;
/// Entries of a request FIFO, at the most.
pub const FIFO_MAX: usize = 64;
/// Writes in a host queue, at the most.
pub const HELD_MAX: usize = 128;

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"NPMSAVED");
const HEADER: usize = LINE_BYTES;
const COMMAND: usize = 64;
const WRITE: usize = 80;
const PAGE: u64 = 4096;
/// Where the count of items stands that recovery is done with.
pub(super) const PROGRESS: u64 = HEADER as u64;
const COMMANDS: usize = HEADER + LINE_BYTES;

/// A command that was taken, and not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCommand {
    pub opcode: u8,
    pub pool: u8,
    pub thread: u8,
    /// Who else has it, as bits.
    pub devices: u8,
    pub size: u32,
    /// Its place among all that the device has taken in.
    pub order: u64,
    /// What all devices call it.
    pub number: u64,
    pub operand: u64,
    pub second: u64,
    /// Where its first entry goes.
    pub entry: u64,
    pub transaction: u64,
    /// The log area, or an operation's pool, from the region's start.
    pub area: Range<u64>,
}

/// A write that was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedWrite {
    pub order: u64,
    pub address: u64,
    pub bytes: Line,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub device: usize,
    pub commands: Vec<SavedCommand>,
    pub writes: Vec<SavedWrite>,
}

/// What recovery does, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Command(SavedCommand),
    Write(SavedWrite),
}

/// What a record of so many commands and writes takes; nothing, if there are none.
pub fn bytes_of(commands: usize, writes: usize) -> u64 {
    match (commands, writes) {
        (0, 0) => 0,
        _ => (COMMANDS + commands * COMMAND + writes * WRITE) as u64,
    }
}

impl Record {
    /// Its bytes.
    pub fn encode(&self, geometry: &Geometry) -> Vec<u8> {
        let mut header = Writer::new(MAGIC);
        for number in [
            self.device as u64,
            geometry.devices as u64,
            geometry.granule,
            self.commands.len() as u64 | (self.writes.len() as u64) << 32,
        ] {
            header.u64(number);
        }
        let mut bytes = sealed(header, HEADER);
        bytes.resize(COMMANDS, 0);
        for one in &self.commands {
            let small = [one.opcode, one.pool, one.thread, one.devices];
            let small = u64::from(u32::from_le_bytes(small)) | u64::from(one.size) << 32;
            let pages = |bytes: u64| bytes / PAGE;
            let area = pages(one.area.start) | pages(one.area.end - one.area.start) << 32;
            let numbers = [
                small,
                one.order,
                one.number,
                one.operand,
                one.second,
                one.entry,
                one.transaction,
                area,
            ];
            bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        for one in &self.writes {
            bytes.extend(one.order.to_le_bytes());
            bytes.extend(one.address.to_le_bytes());
            bytes.extend(one.bytes.0);
        }
        bytes
    }

    /// The record of a device, if there is one that is whole, with how its region was dealt out.
    pub fn read(
        place: u64,
        region: &Range<u64>,
        read: &mut dyn FnMut(u64, usize) -> Vec<u8>,
    ) -> Option<(Self, Geometry)> {
        let header = read(place, HEADER);
        let mut header = unsealed(&header, MAGIC)?;
        let (device, devices, granule) = (header.u64(), header.u64(), header.u64());
        let counts = header.u64();
        let (commands, writes) = ((counts as u32) as usize, (counts >> 32) as usize);
        if commands > FIFO_MAX + UNITS_MAX || writes > HELD_MAX {
            return None;
        }
        let geometry = Geometry {
            region: region.clone(),
            granule,
            devices: devices as usize,
        };
        let bytes = read(place + COMMANDS as u64, commands * COMMAND + writes * WRITE);
        let (of_commands, of_writes) = bytes.split_at(commands * COMMAND);
        let commands = of_commands.chunks_exact(COMMAND).map(|one| {
            let area = word(one, 7);
            let start = (area & 0xffff_ffff) * PAGE;
            SavedCommand {
                opcode: one[0],
                pool: one[1],
                thread: one[2],
                devices: one[3],
                size: (word(one, 0) >> 32) as u32,
                order: word(one, 1),
                number: word(one, 2),
                operand: word(one, 3),
                second: word(one, 4),
                entry: word(one, 5),
                transaction: word(one, 6),
                area: start..start + (area >> 32) * PAGE,
            }
        });
        let writes = of_writes.chunks_exact(WRITE).map(|one| SavedWrite {
            order: word(one, 0),
            address: word(one, 1),
            bytes: Line(std::array::from_fn(|byte| one[16 + byte])),
        });
        let record = Self {
            device: device as usize,
            commands: commands.collect(),
            writes: writes.collect(),
        };
        Some((record, geometry))
    }

    /// What recovery does, in the order in which the device took it in.
    pub fn items(&self) -> Vec<Item> {
        let commands = self.commands.iter().cloned().map(Item::Command);
        let writes = self.writes.iter().cloned().map(Item::Write);
        let mut items: Vec<_> = commands.chain(writes).collect();
        items.sort_by_key(|item| match item {
            Item::Command(command) => command.order,
            Item::Write(write) => write.order,
        });
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_fits_its_place() {
        let geometry = Geometry {
            region: 1 << 20..1 << 24,
            granule: 16 << 10,
            devices: 2,
        };
        let command = |order| SavedCommand {
            opcode: 2,
            pool: 1,
            thread: 15,
            devices: 3,
            size: 65536,
            order,
            number: order << 33,
            operand: 1 << 40,
            second: 3,
            entry: 1 << 21,
            transaction: 77,
            area: 1 << 20..3 << 20,
        };
        let write = |order| SavedWrite {
            order,
            address: order * 64,
            bytes: Line([order as u8; 64]),
        };
        let record = Record {
            device: 1,
            commands: (0..(FIFO_MAX + UNITS_MAX) as u64)
                .map(|at| command(2 * at))
                .collect(),
            writes: (0..HELD_MAX as u64).map(|at| write(2 * at + 1)).collect(),
        };
        let bytes = record.encode(&geometry);
        assert!(bytes.len() as u64 <= BYTES, "{}", bytes.len());
        let counted = bytes_of(record.commands.len(), record.writes.len());
        assert_eq!(counted, bytes.len() as u64);
        let place = geometry.record(1);
        let mut read = |at: u64, length: usize| bytes[(at - place) as usize..][..length].to_vec();
        let (again, of) = Record::read(place, &geometry.region, &mut read).expect("it is whole");
        assert_eq!((&again, &of), (&record, &geometry));
        let Item::Write(second) = &again.items()[1] else {
            panic!("they take turns");
        };
        assert_eq!(second.order, 1);
        let mut torn = bytes.clone();
        torn[9] ^= 1;
        let mut read = |at: u64, length: usize| torn[(at - place) as usize..][..length].to_vec();
        assert_eq!(Record::read(place, &geometry.region, &mut read), None);
    }
}
