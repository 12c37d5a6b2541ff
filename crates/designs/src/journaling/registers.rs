//! The journal's registers in NVM: which epoch is committed, and how much of the journal recovery
//! must apply to have it.
//!
//! There are two copies of the record, in different rows. Copy 1 is started when copy 0 is durable,
//! and copy 0 is not overwritten before copy 1 is durable, so one copy is always whole. Nothing is
//! copied home before *both* say that the epoch is committed: damage to one copy after the fact
//! never brings an older state back over memory that has moved on.

use crate::bytes::{Writer, sealed, unsealed};
use crate::copies;
use crate::surviving::{Corruption, Surviving};

const MAGIC: u64 = u64::from_le_bytes(*b"JOURNREG");

/// Bytes of a record.
pub const RECORD_BYTES: usize = 128;

/// The registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts records; the larger one is the newer.
    pub number: u64,
    /// The newest committed epoch.
    pub epoch: u64,
    /// Blocks of the journal that must be applied to have that epoch at home; 0 once it is there
    /// and the journal is retired.
    pub blocks: u64,
}

impl Record {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MAGIC);
        writer.u64(self.number).u64(self.epoch).u64(self.blocks);
        sealed(writer, RECORD_BYTES)
    }

    /// The record, if its bytes are whole. `ignore_checksum` is a planted bug.
    pub fn decode(bytes: &[u8], ignore_checksum: bool) -> Option<Self> {
        if ignore_checksum {
            let mut words = bytes.chunks_exact(8).skip(1);
            let mut word = || Some(u64::from_le_bytes(words.next()?.try_into().ok()?));
            return Some(Self {
                number: word()?,
                epoch: word()?,
                blocks: word()?,
            });
        }
        let mut reader = unsealed(bytes, MAGIC)?;
        Some(Self {
            number: reader.u64(),
            epoch: reader.u64(),
            blocks: reader.u64(),
        })
    }

    /// The newest whole copy. `ignore_checksum` is a planted bug.
    pub fn read(image: &Surviving, ignore_checksum: bool) -> Result<Self, Corruption> {
        copies::newest(
            image,
            RECORD_BYTES,
            |bytes| Self::decode(bytes, ignore_checksum),
            |record| record.number,
            "the journal's registers: both copies are damaged",
        )
    }
}
