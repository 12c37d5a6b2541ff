//! Names in directories: making, removing and listing them.

use super::names::{
    AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, DESCRIPTOR_LINKS, check_flags,
    own_descriptor, own_link,
};
use super::{Answer, Call};
use crate::errno::Errno;
use crate::process::ProcessId;
use crate::vfs::DirectoryNode;
use crate::vfs::descriptor::{ListedName, O_EXCL, O_TMPFILE};
use crate::vfs::inode::{InodeId, Node, S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFREG, S_IFSOCK};
use crate::vfs::path::{Place, Viewer, subject_of};
use crate::vfs::spelling::{bytes_of, into_bytes};
use crate::vfs::tree::PATH_BYTES_MAX;
use crate::vfs::watch::{IN_ACCESS, IN_ATTRIB, IN_CREATE, IN_DELETE};

const S_ISGID: u32 = 0o2000;

impl Call<'_> {
    /// Where a new name shall stand, which must not exist; that of a directory may end in a slash.
    fn new_place(&mut self, directory: u64, path: u64, of_directory: bool) -> Result<Place, Errno> {
        let path = self.string(path)?;
        let place = self.walk(directory, &path, false)?;
        if place.inode.is_some() {
            return Err(Errno::EEXIST);
        }
        if place.wants_directory && !of_directory {
            return Err(Errno::ENOENT);
        }
        self.check_new_other(&place)?;
        Ok(place)
    }

    /// An existing name that shall go.
    fn old_place(&mut self, directory: u64, path: u64) -> Result<(Place, InodeId), Errno> {
        let path = self.string(path)?;
        let place = self.walk(directory, &path, false)?;
        let inode = place.inode.ok_or(Errno::ENOENT)?;
        if place.name == ".." {
            return Err(Errno::ENOTEMPTY);
        }
        if inode == self.kernel.files.root {
            return Err(Errno::EBUSY);
        }
        if place.name == "." {
            return Err(Errno::EINVAL);
        }
        self.check_changeable(place.directory)?;
        if self.is_mounted(inode) {
            return Err(Errno::EBUSY);
        }
        Ok((place, inode))
    }

    /// True if something of the host is mounted on an inode.
    pub(super) fn is_mounted(&self, inode: InodeId) -> bool {
        let mut mounts = self.kernel.files.mounts.iter();
        mounts.any(|mount| mount.inode == inode)
    }

    /// Takes a name away; `replaced` by another, of which whoever calls tells.
    pub(super) fn remove_name(
        &mut self,
        place: &Place,
        inode: InodeId,
        replaced: bool,
    ) -> Result<(), Errno> {
        let now = self.now_ns();
        let kernel = &mut *self.kernel;
        kernel
            .files
            .leave(&kernel.host, place.directory, &place.name)?;
        kernel.files.inode_mut(inode)?.changed_ns = now;
        if !replaced && !kernel.files.inode(inode)?.is_directory() {
            kernel.notify_inode(inode, IN_ATTRIB);
        }
        let gone = kernel.notice_of_name(inode, IN_DELETE);
        kernel.free_inode_if_unused(inode);
        if !replaced {
            kernel.notify_of(place.directory, &place.name, gone);
        }
        self.directory_changed(place.directory);
        Ok(())
    }

    pub(super) fn is_empty(&self, directory: InodeId) -> Result<bool, Errno> {
        Ok(self
            .kernel
            .files
            .names(&self.kernel.host, directory)?
            .is_empty())
    }
}

/// `mkdirat`.
pub(crate) fn mkdirat(call: &mut Call) -> Answer {
    let [directory, path, mode, ..] = call.arguments;
    let place = call.new_place(directory, path, true)?;
    let now = call.now_ns();
    let mode = mode as u32 & 0o1777 & !call.process().umask;
    let kernel = &mut *call.kernel;
    // That a directory hands its group down is handed down.
    let mode = mode | kernel.files.inode(place.directory)?.mode & S_ISGID;
    let replaces = kernel
        .files
        .stands_on_host(&kernel.host, place.directory, &place.name);
    let mut node = DirectoryNode::empty(place.directory, &place.name, None);
    if let Node::Directory(directory) = &mut node {
        directory.replaces_host = replaces;
    }
    let inode = kernel.files.create(node, mode, now);
    kernel.files.enter(place.directory, &place.name, inode)?;
    call.directory_changed(place.directory);
    call.kernel
        .notify_name(place.directory, &place.name, inode, IN_CREATE, 0);
    Ok(0)
}

/// `mknodat`: regular files and FIFOs.
pub(crate) fn mknodat(call: &mut Call) -> Answer {
    let [directory, path, mode, ..] = call.arguments;
    let kind = mode as u32 & 0o170_000;
    match kind {
        0 | S_IFREG | S_IFIFO | S_IFSOCK | S_IFCHR | S_IFBLK => {}
        S_IFDIR => return Err(Errno::EPERM.into()),
        _ => return Err(Errno::EINVAL.into()),
    }
    let place = call.new_place(directory, path, false)?;
    // No device is an ordinary user's to make.
    if kind == S_IFBLK || kind == S_IFCHR {
        return Err(Errno::EPERM.into());
    }
    let now = call.now_ns();
    let mode = mode as u32 & 0o7777 & !call.process().umask;
    let node = match kind {
        S_IFIFO => Node::Fifo,
        S_IFSOCK => Node::Socket,
        _ => Node::File(crate::vfs::FileNode {
            changed: true,
            ..Default::default()
        }),
    };
    let inode = call.kernel.files.create(node, mode, now);
    call.kernel
        .files
        .enter(place.directory, &place.name, inode)?;
    call.directory_changed(place.directory);
    call.kernel
        .notify_name(place.directory, &place.name, inode, IN_CREATE, 0);
    Ok(0)
}

/// `symlinkat`.
pub(crate) fn symlinkat(call: &mut Call) -> Answer {
    let [target, directory, path, ..] = call.arguments;
    let target = call.string(target)?;
    if target.is_empty() {
        return Err(Errno::ENOENT.into());
    }
    let place = call.new_place(directory, path, false)?;
    let now = call.now_ns();
    let inode = call.kernel.files.create(Node::Link(target), 0o777, now);
    call.kernel
        .files
        .enter(place.directory, &place.name, inode)?;
    call.directory_changed(place.directory);
    call.kernel
        .notify_name(place.directory, &place.name, inode, IN_CREATE, 0);
    Ok(0)
}

/// `linkat`.
pub(crate) fn linkat(call: &mut Call) -> Answer {
    let [old_directory, old, new_directory, new, flags, _] = call.arguments;
    check_flags(flags, AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)?;
    let old = call.string(old)?;
    let number = match own_descriptor(call, &old) {
        Some(number) if flags & AT_SYMLINK_FOLLOW != 0 => Some(number),
        Some(_) => return Err(Errno::EXDEV.into()),
        None if old.is_empty() && flags & AT_EMPTY_PATH != 0 => Some(old_directory),
        None => None,
    };
    let inode = match number {
        Some(number) => {
            let file = call.file(number)?;
            let inode = file.inode().ok_or(Errno::EXDEV)?;
            let stays_nameless = file.flags & (O_TMPFILE | O_EXCL) == O_TMPFILE | O_EXCL;
            let is_memory = call.kernel.rare.seals.contains_key(&inode);
            let links = call.kernel.files.inode(inode)?.links;
            // A name that was taken away does not come back; one that never was may come.
            if links == 0 && (stays_nameless || is_memory || file.flags & O_TMPFILE == 0) {
                return Err(Errno::ENOENT.into());
            }
            inode
        }
        None => call.find(old_directory, &old, flags & AT_SYMLINK_FOLLOW != 0)?,
    };
    let place = call.new_place(new_directory, new, false)?;
    if call.kernel.files.inode(inode)?.is_directory() || call.kernel.is_pool(inode) {
        return Err(Errno::EPERM.into());
    }
    call.kernel
        .files
        .enter(place.directory, &place.name, inode)?;
    let now = call.now_ns();
    call.kernel.files.inode_mut(inode)?.changed_ns = now;
    call.directory_changed(place.directory);
    call.kernel.notify_inode(inode, IN_ATTRIB);
    call.kernel
        .notify_name(place.directory, &place.name, inode, IN_CREATE, 0);
    Ok(0)
}

/// `unlinkat`, which is `rmdir` too.
pub(crate) fn unlinkat(call: &mut Call) -> Answer {
    let [directory, path, flags, ..] = call.arguments;
    if flags & !AT_REMOVEDIR != 0 {
        return Err(Errno::EINVAL.into());
    }
    let removes_directory = flags & AT_REMOVEDIR != 0;
    let (place, inode) = match call.old_place(directory, path) {
        Err(Errno::EINVAL | Errno::ENOTEMPTY | Errno::EBUSY) if !removes_directory => {
            return Err(Errno::EISDIR.into());
        }
        other => other?,
    };
    let is_directory = call.kernel.files.inode(inode)?.is_directory();
    if removes_directory {
        if !is_directory {
            return Err(Errno::ENOTDIR.into());
        }
        if !call.is_empty(inode)? {
            return Err(Errno::ENOTEMPTY.into());
        }
    } else if is_directory {
        return Err(Errno::EISDIR.into());
    }
    call.remove_name(&place, inode, false)?;
    Ok(0)
}

/// `readlinkat`.
pub(crate) fn readlinkat(call: &mut Call) -> Answer {
    let [directory, path, buffer, size, ..] = call.arguments;
    if (size as i32) <= 0 {
        return Err(Errno::EINVAL.into());
    }
    let path = call.string(path)?;
    let target = if let Some(target) = own_link(call, directory, &path)? {
        target
    } else {
        let place = call.walk(directory, &path, false)?;
        if let Some(link) = place.descriptor {
            link.target
        } else {
            let inode = place.inode.ok_or(Errno::ENOENT)?;
            let (viewer, kernel) = ((call.process, call.thread), &*call.kernel);
            let viewer = Viewer::new(viewer, &kernel.processes, &kernel.open);
            let target = (call.kernel.files).link_target(inode, viewer, place.subject)?;
            target.ok_or(Errno::EINVAL)?
        }
    };
    let bytes = bytes_of(&target);
    let bytes = &bytes[..bytes.len().min(size as usize)];
    call.write(buffer, bytes)?;
    Ok(bytes.len() as u64)
}

/// What `getdents64` will list, in order.
fn listing(
    call: &mut Call,
    directory: InodeId,
    about: ProcessId,
) -> Result<Vec<ListedName>, Errno> {
    let kernel = &mut *call.kernel;
    let number = |id: InodeId| u64::from(id.0) + 1;
    let dot = |name: &str, id| ListedName {
        name: name.to_owned(),
        inode: number(id),
        kind: 4,
    };
    let is_info = kernel.files.is_descriptor_info(directory);
    if is_info
        || matches!(
            kernel.files.inode(directory)?.node,
            Node::DescriptorDirectory
        )
    {
        let mut names = vec![dot(".", directory), dot("..", directory)];
        let process = kernel.processes.get(about).ok_or(Errno::ENOENT)?;
        let numbers = process.descriptors.iter().map(|(number, _)| number);
        names.extend(numbers.map(|number| ListedName {
            name: number.to_string(),
            inode: DESCRIPTOR_LINKS + u64::from(number),
            kind: if is_info { 8 } else { 10 },
        }));
        return Ok(names);
    }
    let parent = kernel.files.directory(directory)?.parent;
    let mut names = vec![dot(".", directory), dot("..", parent)];
    // Numbers in `/proc` are those of processes and threads.
    let numbers: Vec<u32> = if directory == kernel.files.processes {
        let processes = &kernel.processes;
        let all = processes.live.keys().chain(processes.zombies.keys());
        all.map(|id| id.0).collect()
    } else if directory == kernel.files.tasks {
        let threads = kernel.threads_of(about);
        threads.iter().map(|id| id.0).collect()
    } else {
        Vec::new()
    };
    names.extend(numbers.iter().map(|listed| ListedName {
        name: listed.to_string(),
        inode: number(kernel.files.process) + (u64::from(*listed) << 32),
        kind: 4,
    }));
    for name in kernel.files.names(&kernel.host, directory)? {
        if !numbers.is_empty() && name == "1" {
            continue;
        }
        if let Some(id) = kernel.files.child(&kernel.host, directory, &name)? {
            let kind = kernel.files.inode(id)?.directory_type();
            names.push(ListedName {
                name,
                inode: number(id),
                kind,
            });
        }
    }
    Ok(names)
}

/// `getdents64`. The names are those at the time of the first call; what is removed meanwhile
/// does not disturb the order.
pub(crate) fn getdents64(call: &mut Call) -> Answer {
    let [number, buffer, size, ..] = call.arguments;
    let file = call.usable(number)?;
    let directory = file.inode().ok_or(Errno::ENOTDIR)?;
    let inode = call.kernel.files.inode(directory)?;
    if !inode.is_directory() {
        return Err(Errno::ENOTDIR.into());
    }
    if inode.links == 0 {
        return Err(Errno::ENOENT.into());
    }
    let mut offset = file.offset;
    if file.listing.is_empty() || offset == 0 {
        let about = subject_of(&format!("{}/", file.path)).unwrap_or(call.process);
        let names = listing(call, directory, about)?;
        let bytes = names.iter().map(|listed| listed.name.len() + 16).sum();
        call.make_room_for_bytes(bytes)?;
        call.file_mut(number)?.listing = names;
    }
    let names = &call.file(number)?.listing;
    let mut bytes = Vec::new();
    for listed in names.get(offset as usize..).unwrap_or_default() {
        let name = bytes_of(&listed.name);
        let length = (19 + name.len() + 1).next_multiple_of(8);
        if bytes.len() + length > size as usize {
            if bytes.is_empty() {
                return Err(Errno::EINVAL.into());
            }
            break;
        }
        offset += 1;
        let end = bytes.len() + length;
        bytes.extend(listed.inode.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.extend((length as u16).to_le_bytes());
        bytes.push(listed.kind);
        bytes.extend(name.iter());
        bytes.resize(end, 0);
    }
    call.write(buffer, &bytes)?;
    call.file_mut(number)?.offset = offset;
    super::transfer::notify(call, number, IN_ACCESS)?;
    Ok(bytes.len() as u64)
}

/// `getcwd`.
pub(crate) fn getcwd(call: &mut Call) -> Answer {
    let [buffer, size, ..] = call.arguments;
    let directory = call.process().directory;
    if call.kernel.files.inode(directory)?.links == 0 {
        return Err(Errno::ENOENT.into());
    }
    let mut bytes = into_bytes(call.kernel.files.directory_path(directory));
    bytes.push(0);
    if bytes.len() > PATH_BYTES_MAX {
        return Err(Errno::ENAMETOOLONG.into());
    }
    if bytes.len() as u64 > size {
        return Err(Errno::ERANGE.into());
    }
    call.write(buffer, &bytes)?;
    Ok(bytes.len() as u64)
}

fn change_directory(call: &mut Call, inode: InodeId) -> Answer {
    let node = call.kernel.files.inode(inode)?;
    if !matches!(node.node, Node::Directory(_)) {
        return Err(Errno::ENOTDIR.into());
    }
    if node.mode & 0o100 == 0 {
        return Err(Errno::EACCES.into());
    }
    let old = std::mem::replace(&mut call.process_mut().directory, inode);
    call.kernel.free_inode_if_unused(old);
    Ok(0)
}

/// `chdir`.
pub(crate) fn chdir(call: &mut Call) -> Answer {
    let path = call.string(call.arguments[0])?;
    let inode = call.find(AT_FDCWD as u64, &path, true)?;
    change_directory(call, inode)
}

/// `fchdir`.
pub(crate) fn fchdir(call: &mut Call) -> Answer {
    let inode = call
        .file(call.arguments[0])?
        .inode()
        .ok_or(Errno::ENOTDIR)?;
    change_directory(call, inode)
}
