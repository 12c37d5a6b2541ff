//! Inodes: what files, directories, links and devices are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::namespaces::Namespace;
use super::spelling::length_of;
use crate::net::report::NetReport;

/// Names an inode; the guest's inode number is one more.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub(crate) struct InodeId(pub u32);

/// Pages described by one page-list array.
pub(crate) const CHUNK_PAGES: usize = 64;
/// Page-list entry: there is a frame; its number stands above the two flags.
pub(crate) const PAGE_PRESENT: u64 = 1;
/// Page-list entry: the page changed since files were last released.
pub(crate) const PAGE_DIRTY: u64 = 2;
/// Where the frame number stands in a page-list entry.
pub(crate) const PAGE_FRAME_SHIFT: u32 = 2;

/// A file on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostPath {
    pub mount: u32,
    /// Relative to the mount, empty for the mount itself.
    pub path: String,
}

impl HostPath {
    pub fn child(&self, name: &str) -> Self {
        let path = if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.path)
        };
        Self {
            mount: self.mount,
            path,
        }
    }
}

/// A regular file: pages over host content over zeros.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileNode {
    pub size: u64,
    /// Slots of page-list arrays, by page index divided by [`CHUNK_PAGES`].
    pub chunks: BTreeMap<u64, u32>,
    /// Where absent pages below `host_bytes` come from.
    pub host: Option<HostPath>,
    /// How much of the host's content still shows.
    pub host_bytes: u64,
    /// Content, size or mode changed since files were last released.
    pub changed: bool,
    /// Content was cut off since then, so that a difference by pages does not tell everything.
    pub shrunk: bool,
    /// Frames held, for `st_blocks`.
    pub pages_held: u64,
}

/// A directory: entries over a host directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DirectoryNode {
    pub parent: InodeId,
    pub name: String,
    /// `None` hides a host entry of that name.
    pub entries: BTreeMap<String, Option<InodeId>>,
    pub host: Option<HostPath>,
    /// Made where a host directory stood before: what is released replaces that one.
    pub replaces_host: bool,
}

impl DirectoryNode {
    /// A directory that has no entries of its own.
    pub fn empty(parent: InodeId, name: &str, host: Option<HostPath>) -> Node {
        Node::Directory(Self {
            parent,
            name: name.to_owned(),
            entries: BTreeMap::new(),
            host,
            replaces_host: false,
        })
    }
}

/// Character devices, and the process's own ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Device {
    Null,
    Zero,
    Full,
    Random,
    Terminal,
    StandardInput,
    StandardOutput,
    StandardError,
    /// `/dev/ptmx`.
    Master,
    /// The slave end of a pseudo-terminal, by number.
    Slave(u32),
    /// A region of physical memory beside the frames, which is to be mapped.
    Region {
        first_frame: u64,
        pages: u64,
        /// A device takes what is loaded and stored there.
        device: bool,
    },
}

/// Files whose text the kernel writes when they are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    Maps,
    Status,
    CommandLine,
    Environment,
    Stat,
    Statm,
    Name,
    Limits,
    Mounts,
    ProcessorInfo,
    MemoryInfo,
    SystemStat,
    Uptime,
    LoadAverage,
    Auxiliary,
    /// `io`.
    Transfers,
    MountInfo,
    /// `smaps`.
    MapsInFull,
    /// `smaps_rollup`.
    MapsTogether,
    VirtualMemory,
    /// Every hart, as a list.
    Harts,
    /// What `io_setup` was asked for in all.
    Requests,
    /// `fdinfo` of a descriptor.
    Descriptor(u32),
    Segments,
    Semaphores,
    Queues,
    /// Every hart, as a mask.
    HartMask,
    /// Locks of files.
    Locks,
}

/// What an inode is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Node {
    File(FileNode),
    Directory(DirectoryNode),
    Link(String),
    Device(Device),
    Report(Report),
    /// A text that never changes.
    Fixed(String),
    /// `/proc/self/fd`.
    DescriptorDirectory,
    /// A link whose target follows from the process.
    ProcessLink(ProcessLink),
    /// A named pipe; what is in it belongs to those who have it open.
    Fifo,
    /// The name of a UNIX socket; the socket knows its inode.
    Socket,
    /// A table of `/proc/net`.
    NetReport(NetReport),
    /// What links below `/proc/PID/ns` lead to; no directory has it.
    Namespace(Namespace),
}

/// What a link in `/proc` points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProcessLink {
    /// The directory of the process that looks.
    Itself,
    /// The directory of the thread that looks.
    Thread,
    /// The program file of the process that the path is about.
    Executable,
    /// Its current directory.
    Directory,
    /// A namespace, which has no path.
    Namespace(InodeId),
}

/// An inode.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Inode {
    pub node: Node,
    /// Permission bits.
    pub mode: u32,
    pub links: u32,
    /// Nanoseconds since 1970.
    pub accessed_ns: u64,
    pub modified_ns: u64,
    pub changed_ns: u64,
    /// Unique for ever, while ids are used again.
    pub serial: u64,
}

/// File type bits of `st_mode`.
pub(crate) const S_IFIFO: u32 = 0o010_000;
pub(crate) const S_IFCHR: u32 = 0o020_000;
pub(crate) const S_IFDIR: u32 = 0o040_000;
pub(crate) const S_IFBLK: u32 = 0o060_000;
pub(crate) const S_IFREG: u32 = 0o100_000;
pub(crate) const S_IFLNK: u32 = 0o120_000;
pub(crate) const S_IFSOCK: u32 = 0o140_000;

impl Inode {
    /// File type bits of `st_mode`.
    pub fn type_bits(&self) -> u32 {
        match &self.node {
            Node::File(_)
            | Node::Report(_)
            | Node::NetReport(_)
            | Node::Fixed(_)
            | Node::Namespace(_) => S_IFREG,
            Node::Directory(_) | Node::DescriptorDirectory => S_IFDIR,
            Node::Link(_) | Node::ProcessLink(_) => S_IFLNK,
            Node::Device(
                Device::StandardInput | Device::StandardOutput | Device::StandardError,
            )
            | Node::Fifo => S_IFIFO,
            Node::Device(_) => S_IFCHR,
            Node::Socket => S_IFSOCK,
        }
    }

    /// The type as `getdents64` gives it.
    pub fn directory_type(&self) -> u8 {
        (self.type_bits() >> 12) as u8
    }

    pub fn size(&self) -> u64 {
        match &self.node {
            Node::File(file) => file.size,
            Node::Link(target) => length_of(target) as u64,
            Node::Directory(_) => 4096,
            _ => 0,
        }
    }

    pub fn is_directory(&self) -> bool {
        matches!(self.node, Node::Directory(_) | Node::DescriptorDirectory)
    }
}
