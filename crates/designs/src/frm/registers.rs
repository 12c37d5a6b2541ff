//! FRM's commit record in NVM, and how it gets there.
//!
//! There are two copies, in different rows, written one after the other: copy 1 is started when
//! copy 0 is durable. So one copy is always whole. An epoch is committed when copy 0 is durable;
//! harts go on, and the log is overwritten, when copy 1 is durable too.
//!
//! ```text
//! record  0  u64  magic "FRMCOMIT"
//!         8  u64  generation: counts records; the log's records of this generation are live
//!        16  u64  the epoch that is in memory once the live records are undone
//!       120  u64  checksum of all before it (xxh3)
//! ```

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;

use super::log::Log;
use crate::bytes::{Writer, sealed, unsealed};
use crate::copies::{self, COPIES};
use crate::layout::{BootRecord, Layout};
use crate::rows;
use crate::surviving::{Corruption, Surviving};

const MAGIC: u64 = u64::from_le_bytes(*b"FRMCOMIT");

/// Bytes of a record.
pub const RECORD_BYTES: usize = 128;

/// The commit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Counts records; the larger one is the newer.
    pub generation: u64,
    /// The newest committed epoch.
    pub epoch: u64,
}

impl Commit {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MAGIC);
        writer.u64(self.generation).u64(self.epoch);
        sealed(writer, RECORD_BYTES)
    }

    /// The record, if its bytes are whole.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = unsealed(bytes, MAGIC)?;
        Some(Self {
            generation: reader.u64(),
            epoch: reader.u64(),
        })
    }

    /// The newest whole copy.
    pub fn read(image: &Surviving) -> Result<Self, Corruption> {
        copies::newest(
            image,
            RECORD_BYTES,
            Self::decode,
            |commit| commit.generation,
            "FRM's commit record: both copies are damaged",
        )
    }

    /// Sends one copy on its way; returns when it is durable.
    pub fn write(&self, hardware: &mut Hardware, copy: usize, now: Cycles) -> Cycles {
        let (address, bytes) = (COPIES[copy], self.encode());
        rows::write(hardware, address, &bytes, Traffic::Metadata, now, now).durable
    }
}

/// Sets up NVM that holds that epoch: the boot record, which describes the log, and a commit record
/// that empties it. `window` is how many of the newest log records one power cut may tear. Returns
/// the generation of the log.
pub fn begin(layout: &Layout, hardware: &mut Hardware, log: &Log, window: u64, epoch: u64) -> u64 {
    let [row_bytes, stripe_rows, capacity] = log.numbers();
    let boot = BootRecord {
        layout: layout.clone(),
        harts: hardware.cores.len() as u64,
        design: [row_bytes, stripe_rows, capacity, window],
    };
    let arena = &mut hardware.memory.arena;
    for (address, bytes) in boot.encode() {
        arena.write(address, &bytes);
    }
    // After a recovery the record says where generations go on; at first boot there is none.
    let generation = copies::kept(arena, RECORD_BYTES, Commit::decode)
        .map(|commit| commit.generation)
        .max()
        .unwrap_or(0);
    copies::put(arena, &Commit { generation, epoch }.encode());
    generation
}
