//! `store.json`: what a snapshot store is of. For people and other programs, too.

use std::path::{Path, PathBuf};

use perdure_designs::bytes::checksum;
use perdure_designs::layout::Layout;
use perdure_designs::snapshots::SnapshotSource;
use serde::{Deserialize, Serialize};

use super::{Answer, SnapshotsError, keep};
use crate::replication::restore::Replica;

/// The file's name in a store.
pub const NAME: &str = "store.json";
/// What `schema` says.
pub const SCHEMA: &str = "perdure-snapshots";
/// Version of the schema.
pub const VERSION: u64 = 1;

/// A program that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEntry {
    /// Its path on the host.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl ProgramEntry {
    /// Of the programs that a kernel is to run.
    pub fn of(programs: &[perdure_linux::Program]) -> Vec<Self> {
        let entry = |program: &perdure_linux::Program| Self {
            path: program.path.clone(),
            arguments: program.arguments.clone(),
        };
        programs.iter().map(entry).collect()
    }
}

/// A copy of a program or library file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Where the program saw it, or the host has it.
    pub name: String,
    /// The guest's mount that it was in.
    pub mount: u32,
    /// Where in that.
    pub path: String,
    /// Where the copy is in the store.
    pub copy: String,
    /// Bytes.
    pub bytes: u64,
    /// Checksum (XXH3).
    pub checksum: String,
}

/// Start and end of a part of the NVM.
pub type Span = [u64; 2];

/// Where what is in the NVM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutEntry {
    /// Processor contexts.
    pub contexts: Span,
    /// The kernel's state.
    pub kernel: Span,
    /// Frames of programs.
    pub frames: Span,
    /// The design's pool.
    pub log_area: Span,
}

impl From<&Layout> for LayoutEntry {
    fn from(layout: &Layout) -> Self {
        Self {
            contexts: [layout.contexts.start, layout.contexts.end],
            kernel: [layout.kernel.start, layout.kernel.end],
            frames: [layout.frames.start, layout.frames.end],
            log_area: [layout.log_area.start, layout.log_area.end],
        }
    }
}

/// Epochs that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochRange {
    /// The oldest.
    pub oldest: u64,
    /// The newest: what recovery would have brought back.
    pub newest: u64,
}

/// How large the store is, beside what the design wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Bytes that the design wrote to the NVM in the run.
    pub nvm_written: u64,
    /// Bytes of the initial image, without lines of zeros.
    pub initial_image: u64,
    /// Bytes of versions and their indexes.
    pub snapshots: u64,
    /// Bytes of the copies of programs and libraries.
    pub files: u64,
}

/// The whole of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`].
    pub version: u64,
    /// The program that wrote it, with its version.
    pub written_by: String,
    /// Design.
    pub design: String,
    /// Machine.
    pub machine: String,
    /// Hash of the configuration.
    pub config_hash: String,
    /// Harts.
    pub harts: usize,
    /// Clock of the harts.
    pub frequency_mhz: u64,
    /// Bytes of the NVM.
    pub nvm_bytes: u64,
    /// Its map.
    pub layout: LayoutEntry,
    /// What ran.
    pub programs: Vec<ProgramEntry>,
    /// Exit status, if all programs ended.
    pub exit_code: Option<i32>,
    /// Instructions that were executed.
    pub instructions: u64,
    /// Cycles that it took.
    pub cycles: u64,
    /// Epochs.
    pub epochs: EpochRange,
    /// Sizes.
    pub sizes: Sizes,
    /// Copies of programs and libraries.
    pub files: Vec<FileEntry>,
}

/// What every version has.
#[derive(Deserialize)]
struct Head {
    schema: String,
    version: u64,
}

impl Manifest {
    /// What the design of the store in that folder offers for reading it.
    pub fn source(&self, directory: &Path) -> Answer<SnapshotSource> {
        keep::source_of(&self.design).ok_or_else(|| SnapshotsError::Damaged {
            file: directory.join(NAME),
            place: 0,
            what: format!("design {} keeps no snapshots in this build", self.design),
        })
    }

    /// Of a replica, which does not know how the run went on.
    pub fn of_replica(replica: &Replica) -> Self {
        let identity = &replica.identity;
        let frequency_mhz = identity.configuration().map_or(0, |configuration| {
            configuration.specification.clock().frequency_mhz
        });
        Self {
            schema: SCHEMA.into(),
            version: VERSION,
            written_by: identity.written_by.clone(),
            design: identity.design.clone(),
            machine: identity.machine.clone(),
            config_hash: identity.config_hash.clone(),
            harts: identity.harts,
            frequency_mhz,
            nvm_bytes: identity.nvm_bytes,
            layout: identity.layout.clone(),
            programs: identity.programs.clone(),
            exit_code: None,
            instructions: 0,
            cycles: 0,
            epochs: EpochRange {
                oldest: *replica.held.start(),
                newest: *replica.held.end(),
            },
            sizes: Sizes {
                snapshots: replica.bytes,
                ..Sizes::default()
            },
            files: Vec::new(),
        }
    }

    /// As bytes, and their checksum.
    pub fn encode(&self) -> (String, u64) {
        let text = serde_json::to_string_pretty(self).expect("plain data is JSON") + "\n";
        let seal = checksum(text.as_bytes());
        (text, seal)
    }

    /// Reads the one in a directory; returns its checksum, too.
    pub fn read(directory: &Path) -> Result<(Self, u64), SnapshotsError> {
        let file = directory.join(NAME);
        let bytes = std::fs::read(&file).map_err(|source| {
            let kind = source.kind();
            if directory.is_dir() && kind == std::io::ErrorKind::NotFound {
                let file = directory.to_owned();
                return SnapshotsError::NotAStore { file };
            }
            SnapshotsError::Host {
                what: format!("the snapshot store {}", directory.display()),
                source,
            }
        })?;
        let damaged = |place: u64, what: String| SnapshotsError::Damaged {
            file: file.clone(),
            place,
            what,
        };
        let head: Head = serde_json::from_slice(&bytes).map_err(|error| {
            if bytes.len() > 32
                && bytes[..32]
                    .windows(SCHEMA.len())
                    .any(|w| w == SCHEMA.as_bytes())
            {
                damaged(error.column() as u64, error.to_string())
            } else {
                SnapshotsError::NotAStore { file: file.clone() }
            }
        })?;
        if head.schema != SCHEMA {
            return Err(SnapshotsError::NotAStore { file });
        }
        if head.version != VERSION {
            return Err(SnapshotsError::OtherVersion {
                file,
                found: head.version,
                known: VERSION,
            });
        }
        let manifest =
            serde_json::from_slice(&bytes).map_err(|error| damaged(0, error.to_string()))?;
        Ok((manifest, checksum(&bytes)))
    }
}
