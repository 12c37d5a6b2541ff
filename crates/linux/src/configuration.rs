//! What the guest is told about its world: everything that a program can observe and that does
//! not follow from its own instructions stands here, so no host detail reaches it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::pools::{PoolMistake, PoolSource};

/// The guest path at which the host's working directory appears, and the guest's first directory.
pub const WORK_DIRECTORY: &str = "/work";

/// A host directory that the guest sees at an absolute guest path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The directory on the host. It is read when the guest reads it, and never written here.
    pub host: PathBuf,
    /// Where the guest sees it, for instance `/data`.
    pub guest: String,
}

/// A program that the machine runs as a process of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The program: a host path, or, with a sysroot, also an absolute guest path or a bare name
    /// looked up in the guest's `PATH`.
    pub path: PathBuf,
    /// Its arguments, without `argv[0]`, which is always the program's guest path.
    pub arguments: Vec<String>,
    /// Environment variables set on top of the fixed ones; a later one wins.
    pub environment: Vec<(String, String)>,
    /// All that its standard input will ever hold; without it, `/dev/null` is standard input.
    pub stdin: Option<Vec<u8>>,
}

/// Whether a program that has finished is started again at once, so that the load on the others
/// stays on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// No.
    #[default]
    Never,
    /// Until every program has finished once.
    UntilAllFinished,
    /// For as long as the machine runs.
    Always,
}

impl Program {
    /// A program without arguments and input.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            ..Self::default()
        }
    }
}

/// A region of physical memory beside the frames, which programs map: the file
/// `/dev/module/NAME` is its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Physical byte addresses; whole pages.
    pub addresses: Range<u64>,
    /// A device takes what is loaded and stored there.
    pub device: bool,
}

/// Persistent memory beside the frames that has pools, the files of
/// [`POOLS_DIRECTORY`](crate::pools::POOLS_DIRECTORY).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pools {
    /// Physical byte addresses.
    pub addresses: Range<u64>,
    /// Those that are there at the start.
    pub source: Arc<PoolSource>,
    /// A program's first store to a page of any shared mapping commits a table, as where it is mapped with
    /// `MAP_SYNC`, and at once: for who looks at what programs store, and takes their pools to be there.
    pub faults_commit: bool,
    /// A mistake to plant.
    pub mistake: Option<PoolMistake>,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// What is read and written.
    Data,
    /// What is executed.
    Instruction,
    /// Both.
    Unified,
}

/// A cache of every hart, or of every few: what programs are told of it, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuCache {
    /// 1 is nearest to the hart.
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// Capacity of one.
    pub bytes: usize,
    /// Associativity.
    pub ways: usize,
    /// Bytes of a line.
    pub line_bytes: usize,
    /// Harts that share one, dealt out in order; the last one may have fewer.
    pub harts: usize,
}

/// Everything the kernel needs to start its programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// The programs, at least one; their places here are their numbers. They share the files.
    pub programs: Vec<Program>,
    /// Whether a program that has finished is started again.
    pub repeat: Repeat,
    /// Physical byte addresses of the frames that the kernel may hand out; whole pages.
    pub frames: Range<u64>,
    /// What else of physical memory programs may map.
    pub regions: Vec<Region>,
    /// Its pools, if there shall be any.
    #[serde(skip)]
    pub pools: Option<Pools>,
    /// How many harts run threads.
    pub harts: usize,
    /// The machine's caches, nearest first.
    pub caches: Vec<CpuCache>,
    /// The guest's root directory; an almost empty one without it.
    pub sysroot: Option<PathBuf>,
    /// The host directory at [`WORK_DIRECTORY`]; an empty directory without it.
    pub work_directory: Option<PathBuf>,
    /// Further host directories.
    pub mounts: Vec<Mount>,
    /// Seed of the guest's random numbers.
    pub random_seed: u64,
    /// The real-time clock when the machine starts, nanoseconds since 1970.
    pub clock_start_ns: u64,
    /// Standard output and error that may wait for an epoch together before
    /// [`crate::Outcome::Commit`] asks for one.
    pub output_limit_bytes: usize,
    /// Bytes that the programs may write to standard output and error, and read of the host's files,
    /// in all.
    pub host_limit_bytes: u64,
    /// The most bytes that the kernel's saved state may have.
    pub image_room_bytes: u64,
    /// Size of the first thread's stack.
    pub stack_bytes: u64,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            programs: Vec::new(),
            repeat: Repeat::Never,
            frames: 0..256 << 20,
            regions: Vec::new(),
            pools: None,
            harts: 1,
            caches: Vec::new(),
            sysroot: None,
            work_directory: None,
            mounts: Vec::new(),
            random_seed: 1,
            // 2026-01-01T00:00:00Z.
            clock_start_ns: 1_767_225_600_000_000_000,
            output_limit_bytes: 64 << 10,
            host_limit_bytes: 4 << 30,
            image_room_bytes: 256 << 20,
            stack_bytes: 8 << 20,
        }
    }
}
