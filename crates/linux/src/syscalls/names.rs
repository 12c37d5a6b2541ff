//! Paths and names: what they lead to, and whether they may change.
//!
//! Always true: no path leads out of the guest's tree, and what lies below `/proc/PID` is the process's
//! that the path names.

use super::Call;
use crate::errno::Errno;
use crate::vfs::inode::{Device, InodeId, Node};
use crate::vfs::path::{IN_ROOT, Place, Viewer, subject_of, task_of};

pub(crate) const AT_FDCWD: i32 = -100;
pub(crate) const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
pub(crate) const AT_REMOVEDIR: u64 = 0x200;
pub(crate) const AT_SYMLINK_FOLLOW: u64 = 0x400;
pub(crate) const AT_EMPTY_PATH: u64 = 0x1000;

impl Call<'_> {
    /// The directory that a path is relative to.
    pub fn base(&self, directory: u64, path: &str) -> Result<InodeId, Errno> {
        if path.starts_with('/') {
            return Ok(self.kernel.files.root);
        }
        if directory as i32 == AT_FDCWD {
            return Ok(self.process().directory);
        }
        let inode = self.file(directory)?.inode().ok_or(Errno::ENOTDIR)?;
        if self.kernel.files.inode(inode)?.is_directory() {
            Ok(inode)
        } else {
            Err(Errno::ENOTDIR)
        }
    }

    pub fn walk(&mut self, directory: u64, path: &str, follow: bool) -> Result<Place, Errno> {
        self.walk_within(directory, path, follow, 0)
    }

    /// [`Call::walk`] that must not do some things (`RESOLVE_*`).
    pub fn walk_within(
        &mut self,
        directory: u64,
        path: &str,
        follow: bool,
        resolve: u64,
    ) -> Result<Place, Errno> {
        // A path that is taken to begin in the directory may begin with a slash.
        let given = path;
        let path = if resolve & IN_ROOT != 0 { "." } else { path };
        let base = self.base(directory, path)?;
        let relative = !path.starts_with('/') && directory as i32 != AT_FDCWD;
        let (subject, task) = if relative {
            let path = format!("{}/", self.file(directory)?.path);
            (subject_of(&path), task_of(&path))
        } else {
            (None, None)
        };
        let kernel = &mut *self.kernel;
        let viewer = Viewer {
            subject,
            task,
            resolve,
            threads: Some(&kernel.threads),
            ..Viewer::new((self.process, self.thread), &kernel.processes, &kernel.open)
        };
        kernel.files.walk(&kernel.host, viewer, base, given, follow)
    }

    pub fn find(&mut self, directory: u64, path: &str, follow: bool) -> Result<InodeId, Errno> {
        self.walk(directory, path, follow)?
            .inode
            .ok_or(Errno::ENOENT)
    }

    /// The inode that a path and flags name; with `AT_EMPTY_PATH`, the descriptor's own.
    pub fn find_with_flags(
        &mut self,
        directory: u64,
        path_address: u64,
        flags: u64,
    ) -> Result<Named, Errno> {
        let path = self.string(path_address)?;
        if path.is_empty() {
            if flags & AT_EMPTY_PATH == 0 {
                return Err(Errno::ENOENT);
            }
            if directory as i32 == AT_FDCWD {
                return Ok(Named::Inode(self.process().directory));
            }
            return Ok(Named::Descriptor(directory));
        }
        if let Some(number) = own_descriptor(self, &path)
            && flags & AT_SYMLINK_NOFOLLOW == 0
        {
            return Ok(Named::Descriptor(number));
        }
        let place = self.walk(directory, &path, flags & AT_SYMLINK_NOFOLLOW == 0)?;
        if let Some(link) = place.descriptor {
            return Ok(Named::Link(link.number));
        }
        let inode = place.inode.ok_or(Errno::ENOENT)?;
        match self.stream_at(inode) {
            Some(number) if flags & AT_SYMLINK_NOFOLLOW == 0 => Ok(Named::Descriptor(number)),
            _ => Ok(Named::Inode(inode)),
        }
    }

    /// The descriptor to which `/dev/stdin` and its like lead, if an inode is one of them.
    pub fn stream_at(&self, inode: InodeId) -> Option<u64> {
        match self.kernel.files.inode(inode).ok()?.node {
            Node::Device(Device::StandardInput) => Some(0),
            Node::Device(Device::StandardOutput) => Some(1),
            Node::Device(Device::StandardError) => Some(2),
            _ => None,
        }
    }

    /// Fails unless names may be made and removed in a directory.
    pub fn check_changeable(&self, directory: InodeId) -> Result<(), Errno> {
        let inode = self.kernel.files.inode(directory)?;
        if inode.links == 0 {
            return Err(Errno::ENOENT);
        }
        if inode.mode & 0o200 == 0 || matches!(inode.node, Node::DescriptorDirectory) {
            return Err(Errno::EACCES);
        }
        Ok(())
    }

    /// Fails unless a new name may be made at a place.
    pub fn check_new_name(&self, place: &Place) -> Result<(), Errno> {
        self.check_changeable(place.directory)?;
        let files = &self.kernel.files;
        files.check_path_bytes(place.directory, &place.name, 0)
    }

    /// The same for something that is no regular file, of which there are none among pools.
    pub fn check_new_other(&self, place: &Place) -> Result<(), Errno> {
        if self.kernel.is_pool_directory(place.directory) {
            return Err(Errno::EPERM);
        }
        self.check_new_name(place)
    }

    /// Fails unless names may go from one directory to the other.
    pub fn check_moving(&self, from: InodeId, to: InodeId) -> Result<(), Errno> {
        self.check_changeable(from)?;
        self.check_changeable(to)?;
        if self.kernel.is_pool_directory(from) != self.kernel.is_pool_directory(to) {
            return Err(Errno::EXDEV);
        }
        Ok(())
    }

    /// Fails if a file is a program that runs: nobody may change it meanwhile.
    pub fn check_not_running(&self, inode: InodeId) -> Result<(), Errno> {
        let mut spaces = self.kernel.spaces.iter();
        let runs = spaces.any(|(_, space)| space.images.first().is_some_and(|i| i.inode == inode));
        if runs { Err(Errno::ETXTBSY) } else { Ok(()) }
    }

    /// Notes that a directory's names changed.
    pub fn directory_changed(&mut self, directory: InodeId) {
        let now = self.now_ns();
        if let Ok(inode) = self.kernel.files.inode_mut(directory) {
            inode.modified_ns = now;
            inode.changed_ns = now;
        }
        if let Some(pools) = self.kernel.frames.pools.as_deref_mut() {
            pools.names_changed(directory);
        }
    }
}

/// Inode numbers of the links below `/proc/PID/fd`: beyond those of what is open.
pub(crate) const DESCRIPTOR_LINKS: u64 = 2 << 32;

/// What a path or a descriptor names.
pub(crate) enum Named {
    Inode(InodeId),
    Descriptor(u64),
    /// The link of a descriptor with a number, below `/proc`.
    Link(u32),
}

/// The flags of calls that take a path and `flags` for nothing else but how it is followed.
pub(crate) const AT_HOW: u64 = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;

/// Fails if there are flags that are not among these.
pub(crate) fn check_flags(flags: u64, known: u64) -> Result<(), Errno> {
    if flags as u32 & !(known as u32) == 0 {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// Links to the descriptors of whoever looks, in the order of their numbers.
const STREAMS: [&str; 3] = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];

/// The descriptor that one of these leads to.
fn stream_of(path: &str) -> Option<u64> {
    let number = STREAMS.iter().position(|name| *name == path)?;
    Some(number as u64)
}

/// Where a link says that it leads, if its path stands for a descriptor of the caller's.
pub(crate) fn own_link(call: &Call, directory: u64, path: &str) -> Result<Option<String>, Errno> {
    if let Some(number) = stream_of(path) {
        return Ok(Some(format!("/proc/self/fd/{number}")));
    }
    if path.is_empty() {
        let link = call.file(directory)?.inode().ok_or(Errno::ENOENT)?;
        return match &call.kernel.files.inode(link)?.node {
            Node::Link(target) => Ok(Some(target.clone())),
            _ => Err(Errno::ENOENT),
        };
    }
    match own_descriptor(call, path) {
        Some(number) => match call.file(number) {
            Ok(file) => Ok(Some(file.path.clone())),
            Err(_) => Err(Errno::ENOENT),
        },
        None => Ok(None),
    }
}

/// The caller's descriptor that a path like `/proc/self/fd/3` names.
pub(crate) fn own_descriptor(call: &Call, path: &str) -> Option<u64> {
    if let Some(number) = stream_of(path) {
        return Some(number);
    }
    let by_name = ["/proc/self/fd/", "/dev/fd/"]
        .iter()
        .find_map(|prefix| path.strip_prefix(prefix));
    let by_number = || {
        let (number, rest) = path.strip_prefix("/proc/")?.split_once('/')?;
        let own = number.parse() == Ok(call.process.0);
        own.then_some(rest)?.strip_prefix("fd/")
    };
    by_name.or_else(by_number)?.parse().ok()
}

/// Tells who watches a file that it changed, by whatever name it has.
pub(crate) fn notify_changed(call: &mut Call, inode: InodeId, mask: u32) {
    if !call.kernel.open.watching.is_empty() {
        let path = call.kernel.files.path_of(inode).unwrap_or_default();
        call.kernel.notify_file(inode, &path, mask);
    }
}
