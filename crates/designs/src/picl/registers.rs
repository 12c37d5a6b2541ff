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

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::log::NO_SLOT;
use crate::bytes::Sealed;
use crate::copies::CommitRecord;

/// The registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Record {
    /// Counts records; the larger one is the newer.
    pub number: u64,
    /// The newest fully persisted epoch.
    pub persisted: u64,
    /// Blocks below this sequence number were durable when it was written.
    pub durable_below: u64,
    /// The slot of the last of them, or [`NO_SLOT`].
    pub last_slot: u64,
    /// The slots of the two blocks after it.
    pub next_slots: [u64; 2],
    /// Recovery needs no block below this sequence number.
    pub oldest_needed: u64,
}

impl Record {
    /// A slot as the log has it.
    pub fn slot(number: u64) -> u32 {
        u32::try_from(number).unwrap_or(NO_SLOT)
    }
}

impl Sealed for Record {
    const MAGIC: &'static [u8; 8] = b"PICLREG2";
}

impl CommitRecord for Record {
    const DAMAGED: &'static str = "PiCL's registers: both copies are damaged";
}
