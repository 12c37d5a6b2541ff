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
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::log::Log;
use crate::bytes::Sealed;
use crate::copies::{COPIES, CommitRecord};
use crate::layout::Layout;
use crate::rows;

/// The commit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Commit {
    /// Counts records; the larger one is the newer.
    pub generation: u64,
    /// The newest committed epoch.
    pub epoch: u64,
}

impl Sealed for Commit {
    const MAGIC: &'static [u8; 8] = b"FRMCOMIT";
}

impl CommitRecord for Commit {
    const DAMAGED: &'static str = "FRM's commit record: both copies are damaged";
}

impl Commit {
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
    let harts = hardware.cores.len();
    let arena = &mut hardware.memory.arena;
    layout.put_boot_record(harts, [row_bytes, stripe_rows, capacity, window], arena);
    // After a recovery the record says where generations go on; at first boot there is none.
    let generation = Commit::left(arena).map_or(0, |commit| commit.generation);
    Commit { generation, epoch }.put(arena);
    generation
}
