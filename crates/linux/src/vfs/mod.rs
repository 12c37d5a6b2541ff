//! The guest's file tree: an overlay of inodes over host directories.
//!
//! Always true: the host is only read. A name is looked for among a directory's own entries
//! first, where an entry of `None` hides the host's; what comes from the host becomes an inode
//! when it is first looked up. Inode numbers follow from the order of look-ups alone. A file's
//! pages that were written or mapped shared lie in physical frames, one holder being the file.

pub(crate) mod content;
pub(crate) mod descriptor;
pub(crate) mod host_view;
pub(crate) mod inode;
pub(crate) mod late;
pub(crate) mod locks;
mod looked;
pub(crate) mod namespaces;
pub(crate) mod path;
pub(crate) mod pipe;
pub(crate) mod released;
pub(crate) mod report;
pub(crate) mod spelling;
mod status;
pub(crate) mod tables;
pub(crate) mod terminal;
pub(crate) mod tree;
pub(crate) mod watch;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub(crate) use host_view::HostView;
pub(crate) use inode::{DirectoryNode, FileNode, HostPath, Inode, InodeId, Node};

use crate::arena::Arena;
use crate::errno::Errno;
use inode::{CHUNK_PAGES, Device};

/// A place where a host directory, or later something else, is mounted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MountPoint {
    pub inode: InodeId,
    /// Absolute guest path.
    pub path: String,
    /// What is written below leaves the machine.
    pub released: bool,
}

/// All inodes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileSystem {
    #[serde(skip)]
    pub inodes: Vec<Option<Inode>>,
    pub free: Vec<InodeId>,
    pub root: InodeId,
    /// `/proc`.
    pub processes: InodeId,
    /// The directory that stands for every `/proc/N`.
    pub process: InodeId,
    /// Its `task`, in which `1` stands for every thread.
    pub tasks: InodeId,
    /// Mounted places besides the root.
    pub mounts: Vec<MountPoint>,
    pub next_serial: u64,
    /// Times of everything that was there at the start.
    pub start_ns: u64,
    #[serde(skip)]
    pub page_lists: Arena<CHUNK_PAGES>,
}

impl FileSystem {
    /// An inode that is known to exist.
    pub fn inode(&self, id: InodeId) -> Result<&Inode, Errno> {
        self.inodes
            .get(id.0 as usize)
            .and_then(Option::as_ref)
            .ok_or(Errno::EIO)
    }

    pub fn inode_mut(&mut self, id: InodeId) -> Result<&mut Inode, Errno> {
        self.inodes
            .get_mut(id.0 as usize)
            .and_then(Option::as_mut)
            .ok_or(Errno::EIO)
    }

    /// The device at an inode, if it is one.
    pub fn device(&self, id: InodeId) -> Option<Device> {
        match self.inode(id).ok()?.node {
            Node::Device(device) => Some(device),
            _ => None,
        }
    }

    /// True if an inode is a namespace.
    pub fn is_namespace(&self, id: InodeId) -> bool {
        let inode = self.inode(id);
        inode.is_ok_and(|inode| matches!(inode.node, Node::Namespace(_)))
    }

    /// The frames of physical memory beside those that are handed out.
    pub fn regions(&self) -> Vec<Range<u64>> {
        let nodes = self.inodes.iter().flatten().map(|inode| &inode.node);
        let regions = nodes.filter_map(|node| match *node {
            Node::Device(Device::Region {
                first_frame, pages, ..
            }) => Some(first_frame..first_frame.saturating_add(pages)),
            _ => None,
        });
        regions.collect()
    }

    /// The regular file at an inode.
    pub fn file(&self, id: InodeId) -> Result<&FileNode, Errno> {
        match &self.inode(id)?.node {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    pub fn file_mut(&mut self, id: InodeId) -> Result<&mut FileNode, Errno> {
        match &mut self.inode_mut(id)?.node {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    pub fn directory(&self, id: InodeId) -> Result<&DirectoryNode, Errno> {
        match &self.inode(id)?.node {
            Node::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub fn directory_mut(&mut self, id: InodeId) -> Result<&mut DirectoryNode, Errno> {
        match &mut self.inode_mut(id)?.node {
            Node::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// A new inode with no links yet.
    pub fn create(&mut self, node: Node, mode: u32, now_ns: u64) -> InodeId {
        self.next_serial += 1;
        let inode = Inode {
            node,
            mode,
            links: 0,
            accessed_ns: now_ns,
            modified_ns: now_ns,
            changed_ns: now_ns,
            serial: self.next_serial,
        };
        if let Some(id) = self.free.pop() {
            self.inodes[id.0 as usize] = Some(inode);
            return id;
        }
        self.inodes.push(Some(inode));
        InodeId((self.inodes.len() - 1) as u32)
    }
}
