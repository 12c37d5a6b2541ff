//! Replication: the epochs that a machine has made durable, copied to somewhere else as it runs.
//!
//! Where to find what: `record.rs` is the format, the same in a replica's file and on the wire;
//! `ledger.rs` says which records may follow which; `follower.rs` is a replica in memory,
//! for judging power cuts; `log.rs` is a replica's file; `primary.rs` reads
//! epochs out of the NVM (`nvm.rs`) and sends what the replica lacks; `wire.rs` is the protocol over TCP,
//! `noise.rs` its encryption, and `server.rs` its other end; `restore.rs` makes a machine of an epoch
//! that a replica holds.
//!
//! The NVM itself is the queue: nothing is kept for a replica that lags or is away. When it is back, it
//! says what it holds, and gets the rest from the snapshots that are there by then.
//!
//! Always true:
//! - A replica holds whole epochs: of one that came in part, it shows nothing.
//! - What it holds is durable before the primary is told so.
//! - The machine's own time does not depend on replication.

pub mod follower;
pub mod ledger;
pub mod log;
pub mod noise;
mod nvm;
pub mod primary;
pub mod record;
pub mod restore;
pub mod server;
pub mod wire;

use std::collections::BTreeSet;
use std::ops::Range;

use perdure_designs::layout::Layout;
use serde::{Deserialize, Serialize};

use crate::configuration::Configuration;
use crate::error::Error;
use crate::request::Prepared;
use crate::snapshots::SnapshotsError;
use crate::snapshots::manifest::{LayoutEntry, ProgramEntry};
use record::{Kind, Seal};

/// What `schema` says.
pub const SCHEMA: &str = "perdure-replica";
/// Version of the file.
pub const VERSION: u32 = 1;

/// Why something could not be copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It will not go better next time.
    #[error("{0}")]
    Refused(String),
    /// The other side is away, or not there yet.
    #[error("{0}")]
    Lost(String),
}

impl From<SnapshotsError> for Failure {
    fn from(error: SnapshotsError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Request(failure.to_string())
    }
}

/// What a replica holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The newest epoch, if there is one.
    pub position: Option<Seal>,
    /// Checksums of the facts that it knows.
    pub facts: BTreeSet<u64>,
}

/// Somewhere that a stream goes to.
pub trait Destination {
    /// Says which run the stream is of, and asks what is there of it.
    fn begin(&mut self, identity: &Identity) -> Result<Holding, Failure>;
    /// Adds a record.
    fn append(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Failure>;
    /// Makes all records durable.
    fn commit(&mut self) -> Result<(), Failure>;
}

/// A directory of the host that the guest sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountEntry {
    /// Where the guest sees it; `/` is the root.
    pub guest: String,
    /// Where the primary's host has it.
    pub host: std::path::PathBuf,
}

/// Which run a stream is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`].
    pub version: u32,
    /// The program that wrote it, with its version.
    pub written_by: String,
    /// Design.
    pub design: String,
    /// What the machine is called.
    pub machine: String,
    /// The whole configuration, as TOML.
    pub configuration: String,
    /// Its hash.
    pub config_hash: String,
    /// Harts.
    pub harts: usize,
    /// Bytes of the NVM.
    pub nvm_bytes: u64,
    /// Its map.
    pub layout: LayoutEntry,
    /// What runs.
    pub programs: Vec<ProgramEntry>,
    /// Hash of the program files.
    pub program_hash: String,
    /// Checksum of memory as it was at the start.
    pub initial_memory: String,
    /// The guest's root directory.
    pub sysroot: Option<std::path::PathBuf>,
    /// Further host directories.
    pub mounts: Vec<MountEntry>,
}

impl Identity {
    /// Of the run of a request, whose initial memory has that checksum.
    pub fn new(prepared: &Prepared, layout: &Layout, nvm_bytes: u64, initial_memory: u64) -> Self {
        let Configuration {
            design, machine, ..
        } = prepared.configuration.as_ref();
        let kernel = &prepared.workload.kernel;
        Self {
            schema: SCHEMA.into(),
            version: VERSION,
            written_by: concat!("perdure ", env!("CARGO_PKG_VERSION")).into(),
            design: design.name.into(),
            machine: machine.clone(),
            configuration: prepared.configuration.to_toml(),
            config_hash: prepared.config_hash.clone(),
            harts: prepared.configuration.specification.harts,
            nvm_bytes,
            layout: layout.into(),
            programs: ProgramEntry::of(&kernel.programs),
            program_hash: prepared.program_hash.clone(),
            initial_memory: format!("{initial_memory:016x}"),
            sysroot: kernel.sysroot.clone(),
            mounts: (kernel.mounts.iter())
                .map(|mount| MountEntry {
                    guest: mount.guest.clone(),
                    host: mount.host.clone(),
                })
                .collect(),
        }
    }

    /// What makes another stream of this one, in words.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let arguments = |one: &Self| -> Vec<Vec<String>> {
            let programs = one.programs.iter();
            programs.map(|program| program.arguments.clone()).collect()
        };
        let differs = |what: &str, mine: &str, theirs: &str| {
            (mine != theirs).then(|| format!("its {what} is {mine}, not {theirs}"))
        };
        None.or_else(|| differs("design", &self.design, &other.design))
            .or_else(|| differs("configuration", &self.config_hash, &other.config_hash))
            .or_else(|| differs("program", &self.program_hash, &other.program_hash))
            .or_else(|| {
                let (mine, theirs) = (arguments(self), arguments(other));
                differs(
                    "argument list",
                    &format!("{mine:?}"),
                    &format!("{theirs:?}"),
                )
            })
            .or_else(|| {
                let (mine, theirs) = (&self.initial_memory, &other.initial_memory);
                differs("initial memory", mine, theirs)
            })
            .or_else(|| {
                let same = (self.nvm_bytes, &self.layout) == (other.nvm_bytes, &other.layout);
                (!same).then(|| "its memory map is another build's".to_owned())
            })
    }

    /// Addresses of memory as its snapshots have it: contexts, the kernel's state, frames.
    pub fn memory(&self) -> Range<u64> {
        self.layout.contexts[0]..self.layout.frames[1]
    }

    /// The configuration that it ran with.
    pub fn configuration(&self) -> Result<Configuration, Error> {
        Configuration::of_effective(&self.configuration, &self.machine, &self.design)
    }
}
