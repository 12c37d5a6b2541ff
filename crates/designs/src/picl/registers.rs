//! PiCL's registers in NVM (§IV-B, "a memory location in NVM for … PersistedEID"), and how a record
//! gets there.
//!
//! There are two copies of the record, in different rows, written one after the other: copy 1 is
//! started when copy 0 is durable, and nothing that depends on the record happens before copy 1 is
//! durable too. So one copy is always whole, and damage to one copy after the fact never brings an
//! older state back.
//!
//! Besides PersistedEID the record says where recovery finds the log: blocks below a sequence number
//! were durable when it was written, and behind them the chain goes on. Nobody waits for a record
//! but who waits for PersistedEID. This is our addition; the paper does not say how recovery finds the
//! end of the log.

use super::log::NO_SLOT;
use crate::bytes::{Writer, sealed, unsealed};
use crate::copies;
use crate::surviving::{Corruption, Surviving};

const MAGIC: u64 = u64::from_le_bytes(*b"PICLREG2");

/// Bytes of a record.
pub const RECORD_BYTES: usize = 128;

/// The registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts records; the larger one is the newer.
    pub number: u64,
    /// The newest fully persisted epoch.
    pub persisted: u64,
    /// Blocks below this sequence number were durable when it was written.
    pub durable_below: u64,
    /// The slot of the last of them, or [`NO_SLOT`].
    pub last_slot: u32,
    /// The slots of the two blocks after it.
    pub next_slots: [u32; 2],
    /// Recovery needs no block below this sequence number.
    pub oldest_needed: u64,
}

impl Record {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MAGIC);
        writer
            .u64(self.number)
            .u64(self.persisted)
            .u64(self.durable_below)
            .u64(u64::from(self.last_slot))
            .u64(u64::from(self.next_slots[0]))
            .u64(u64::from(self.next_slots[1]))
            .u64(self.oldest_needed);
        sealed(writer, RECORD_BYTES)
    }

    /// The record, if its bytes are whole.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = unsealed(bytes, MAGIC)?;
        let slot = |number| u32::try_from(number).unwrap_or(NO_SLOT);
        Some(Self {
            number: reader.u64(),
            persisted: reader.u64(),
            durable_below: reader.u64(),
            last_slot: slot(reader.u64()),
            next_slots: [slot(reader.u64()), slot(reader.u64())],
            oldest_needed: reader.u64(),
        })
    }

    /// The newest whole copy.
    pub fn read(image: &Surviving) -> Result<Self, Corruption> {
        copies::newest(
            image,
            RECORD_BYTES,
            Self::decode,
            |record| record.number,
            "PiCL's registers: both copies are damaged",
        )
    }
}
