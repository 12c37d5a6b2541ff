//! Opening files and asking about them.

use super::{Answer, Call, Stop, pipes, sockets, terminals};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{PAGE_BYTES, ThreadId};
use crate::owners::{self, Owner};
use crate::process::{ProcessId, USER_ID};
use crate::refusals::Refusal;
use crate::vfs::descriptor::{
    Descriptor, Lock, O_ACCMODE, O_APPEND, O_ASYNC, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL,
    O_NOFOLLOW, O_NONBLOCK, O_PATH, O_TMPFILE, O_TRUNC, Object, OpenFile,
};
use crate::vfs::inode::{Device, FileNode, InodeId, Node, S_IFIFO, S_IFLNK, S_IFREG, S_IFSOCK};
use crate::vfs::locks::{self, LockOwner, RecordLock};
use crate::vfs::path::{BENEATH, IN_ROOT, Place, Viewer, subject_of};
use crate::vfs::watch::{
    IN_ACCESS, IN_ATTRIB, IN_CLOSE_NOWRITE, IN_CLOSE_WRITE, IN_CREATE, IN_MODIFY, IN_OPEN,
};

pub(crate) const AT_FDCWD: i32 = -100;
pub(crate) const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
pub(crate) const AT_REMOVEDIR: u64 = 0x200;
pub(crate) const AT_SYMLINK_FOLLOW: u64 = 0x400;
pub(crate) const AT_EMPTY_PATH: u64 = 0x1000;

const O_LARGEFILE: u32 = 0o100_000;
/// The device number of every file.
const DEVICE_NUMBER: u64 = 0x801;

/// What `stat` tells.
pub(crate) struct Metadata {
    inode: u64,
    mode: u32,
    links: u32,
    device_type: u64,
    size: u64,
    blocks: u64,
    /// Access, modification, change.
    times_ns: [u64; 3],
}

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
    fn walk_within(
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
        let subject = if relative {
            subject_of(&format!("{}/", self.file(directory)?.path))
        } else {
            None
        };
        let kernel = &mut *self.kernel;
        let viewer = Viewer {
            process: self.process,
            thread: self.thread,
            subject,
            processes: &kernel.processes,
            open: &kernel.open,
            resolve,
        };
        kernel.files.walk(&kernel.host, viewer, base, given, follow)
    }

    pub fn find(&mut self, directory: u64, path: &str, follow: bool) -> Result<InodeId, Errno> {
        self.walk(directory, path, follow)?
            .inode
            .ok_or(Errno::ENOENT)
    }

    /// The inode that a path and flags name; with `AT_EMPTY_PATH`, the descriptor's own.
    fn find_with_flags(
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
        Ok(Named::Inode(place.inode.ok_or(Errno::ENOENT)?))
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
    }
}

/// Inode numbers of the links below `/proc/PID/fd`: beyond those of what is open.
pub(crate) const DESCRIPTOR_LINKS: u64 = 2 << 32;

enum Named {
    Inode(InodeId),
    Descriptor(u64),
    /// The link of a descriptor with a number, below `/proc`.
    Link(u32),
}

/// The caller's descriptor that a path like `/proc/self/fd/3` names.
pub(crate) fn own_descriptor(call: &Call, path: &str) -> Option<u64> {
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

/// `openat`.
pub(crate) fn openat(call: &mut Call) -> Answer {
    let [directory, path, flags, mode, ..] = call.arguments;
    open_within(call, directory, path, flags as u32, mode, 0)
}

fn open_within(
    call: &mut Call,
    directory: u64,
    path: u64,
    flags: u32,
    mode: u64,
    resolve: u64,
) -> Answer {
    let path = call.string(path)?;
    if resolve == 0
        && flags & O_NOFOLLOW == 0
        && let Some(number) = own_descriptor(call, &path)
        && let Some(answer) = open_descriptor(call, number, flags)?
    {
        return Ok(answer);
    }
    if flags & O_TMPFILE != 0 {
        call.walk_within(directory, &path, flags & O_NOFOLLOW == 0, resolve)?;
        return open_without_name(call, directory, &path, flags, mode);
    }
    let follow = flags & O_NOFOLLOW == 0 && flags & (O_CREAT | O_EXCL) != (O_CREAT | O_EXCL);
    let place = call.walk_within(directory, &path, follow, resolve)?;
    if place.descriptor.is_some() {
        return Err(Errno::ELOOP.into());
    }
    let inode = match place.inode {
        Some(inode) if flags & (O_CREAT | O_EXCL) == (O_CREAT | O_EXCL) => {
            call.kernel.files.inode(inode)?;
            return Err(Errno::EEXIST.into());
        }
        Some(inode) => {
            check_open(call, inode, flags)?;
            inode
        }
        None if flags & O_CREAT == 0 => return Err(Errno::ENOENT.into()),
        None => {
            if place.wants_directory {
                return Err(Errno::EISDIR.into());
            }
            call.check_new_name(&place)?;
            let inode = new_file(call, mode);
            call.kernel
                .files
                .enter(place.directory, &place.name, inode)?;
            call.directory_changed(place.directory);
            let (directory, name) = (place.directory, place.name.as_str());
            call.kernel
                .notify_name(directory, name, inode, IN_CREATE, 0);
            inode
        }
    };
    if flags & O_TRUNC != 0 && flags & O_PATH == 0 {
        let nonempty = call
            .kernel
            .files
            .file(inode)
            .is_ok_and(|file| file.size > 0);
        if nonempty {
            call.kernel.truncate_file(call.machine, inode, 0)?;
        }
    }
    if flags & O_TRUNC != 0 && place.inode.is_some() && call.kernel.files.file(inode).is_ok() {
        let path = named(call, &place);
        call.kernel.notify_file(inode, &path, IN_MODIFY);
    }
    let number = open_inode(call, inode, flags, &place)?;
    if flags & O_PATH == 0 {
        super::transfer::notify(call, number, IN_OPEN)?;
    }
    Ok(number)
}

/// A new empty file without a name, with the permissions that the caller's mask leaves.
fn new_file(call: &mut Call, mode: u64) -> InodeId {
    let now = call.now_ns();
    let permissions = mode as u32 & 0o7777 & !call.process().umask;
    let node = Node::File(FileNode {
        changed: true,
        ..FileNode::default()
    });
    call.kernel.files.create(node, permissions, now)
}

/// The path that a place is found by, for those who watch.
fn named(call: &Call, place: &Place) -> String {
    if call.kernel.open.watching.is_empty() {
        return String::new();
    }
    let parent = call.kernel.files.directory_path(place.directory);
    format!("{}/{}", parent.trim_end_matches('/'), place.name)
}

/// Tells who watches a file that it changed, by whatever name it has.
pub(crate) fn notify_changed(call: &mut Call, inode: InodeId, mask: u32) {
    if !call.kernel.open.watching.is_empty() {
        let path = call.kernel.files.path_of(inode).unwrap_or_default();
        call.kernel.notify_file(inode, &path, mask);
    }
}

/// `O_TMPFILE`: a new file without a name, which `linkat` may give it unless `O_EXCL` forbids that.
fn open_without_name(call: &mut Call, directory: u64, path: &str, flags: u32, mode: u64) -> Answer {
    if flags & O_DIRECTORY == 0 || flags & O_ACCMODE == 0 || flags & O_CREAT != 0 {
        return Err(Errno::EINVAL.into());
    }
    let place = call.find(directory, path, flags & O_NOFOLLOW == 0)?;
    if !call.kernel.files.inode(place)?.is_directory() {
        return Err(Errno::ENOTDIR.into());
    }
    call.check_changeable(place)?;
    let inode = new_file(call, mode);
    let parent = call.kernel.files.directory_path(place);
    let name = format!(
        "{}/#{} (deleted)",
        parent.trim_end_matches('/'),
        inode.0 + 1
    );
    let kept = flags & !(O_CREAT | O_TRUNC | O_CLOEXEC);
    let file = OpenFile::new(Object::Inode(inode), kept, name);
    call.open_made(file, flags & O_CLOEXEC != 0, |kernel| {
        kernel.free_inode_if_unused(inode);
    })
}

fn open_inode(call: &mut Call, inode: InodeId, flags: u32, place: &Place) -> Answer {
    let text = match &call.kernel.files.inode(inode)?.node {
        Node::Report(report) => {
            let subject = place.subject.unwrap_or(call.process);
            if call.kernel.processes.get(subject).is_none() {
                return Err(Errno::ESRCH.into());
            }
            let text = call.kernel.report(*report, subject, call.machine);
            Some(text.into_bytes())
        }
        Node::Fixed(text) => Some(text.clone().into_bytes()),
        Node::NetReport(report) => Some(call.kernel.rare.sockets.report(*report).into_bytes()),
        Node::Device(device) if flags & O_PATH == 0 => match *device {
            Device::Terminal => return terminals::open_controlling(call, flags),
            Device::Master => return terminals::open_master(call, inode, flags),
            Device::Slave(id) => return terminals::open_slave(call, id, flags),
            _ => None,
        },
        Node::Fifo if flags & O_PATH == 0 => return pipes::open_fifo(call, inode, flags),
        Node::Socket if flags & O_PATH == 0 => return Err(Errno::ENXIO.into()),
        _ => None,
    };
    let object = match text {
        Some(text) => {
            call.make_room_for_bytes(text.len())?;
            Object::Text { inode, text }
        }
        None => Object::Inode(inode),
    };
    let parent = call.kernel.files.directory_path(place.directory);
    let path = match place.name.as_str() {
        _ if call.kernel.files.directory(inode).is_ok() => call.kernel.files.directory_path(inode),
        name => format!("{}/{name}", parent.trim_end_matches('/')),
    };
    // The directory is the same for all processes; what is seen in it is the one's.
    let path = match (path.strip_prefix("/proc/1"), place.subject) {
        (Some(rest), Some(subject)) if rest.is_empty() || rest.starts_with('/') => {
            format!("/proc/{}{rest}", subject.0)
        }
        _ => path,
    };
    let kept = flags & !(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC);
    let file = OpenFile::new(object, kept, path);
    Ok(u64::from(call.open(file, flags & O_CLOEXEC != 0)?))
}

/// Opening `/proc/self/fd/N`: the same file anew, or the same end of a pipe.
fn open_descriptor(call: &mut Call, number: u64, flags: u32) -> Result<Option<u64>, Stop> {
    let descriptor = call.descriptor(number).map_err(|_| Errno::ENOENT)?;
    let file = call.file(number).map_err(|_| Errno::ENOENT)?.clone();
    if let Some(inode) = file.inode() {
        check_open(call, inode, flags)?;
        if matches!(file.object, Object::Fifo { .. }) {
            return pipes::open_fifo(call, inode, flags).map(Some);
        }
        if let Object::Terminal {
            terminal, master, ..
        } = file.object
        {
            let opened = if master {
                terminals::open_master(call, inode, flags)
            } else {
                terminals::open_slave(call, terminal, flags)
            };
            return opened.map(Some);
        }
        let mut copy = file;
        copy.flags = flags & !(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC);
        copy.offset = 0;
        copy.references = 1;
        copy.lock = Lock::None;
        return Ok(Some(u64::from(call.open(copy, flags & O_CLOEXEC != 0)?)));
    }
    let new = Descriptor {
        file: descriptor.file,
        close_on_exec: flags & O_CLOEXEC != 0,
    };
    let installed = call.install(0, new)?;
    if let Some(file) = call.kernel.open.files.get_mut(descriptor.file) {
        file.references += 1;
    }
    Ok(Some(u64::from(installed)))
}

fn check_open(call: &Call, inode: InodeId, flags: u32) -> Result<(), Errno> {
    let node = call.kernel.files.inode(inode)?;
    if flags & O_DIRECTORY != 0 && !node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    if flags & O_PATH != 0 {
        return Ok(());
    }
    if matches!(node.node, Node::Link(_) | Node::ProcessLink(_)) {
        return Err(Errno::ELOOP);
    }
    let writes = flags & O_ACCMODE != 0;
    let reads = flags & O_ACCMODE != 1;
    if node.is_directory() && (writes || flags & O_CREAT != 0) {
        return Err(Errno::EISDIR);
    }
    if reads && node.mode & 0o400 == 0 || writes && node.mode & 0o200 == 0 {
        return Err(Errno::EACCES);
    }
    if flags & O_TRUNC != 0 && !writes && node.mode & 0o200 == 0 {
        return Err(Errno::EACCES);
    }
    if writes || flags & O_TRUNC != 0 {
        call.check_not_running(inode)?;
    }
    Ok(())
}

/// `openat2`: `openat` that says how far its path may lead. All is one device, and all is at hand.
pub(crate) fn openat2(call: &mut Call) -> Answer {
    const RESOLVE_ALL: u64 = 0x3f;
    let [directory, path, how, size, ..] = call.arguments;
    if size < 24 {
        return Err(Errno::EINVAL.into());
    }
    let flags = call.read_u64(how)?;
    let mode = call.read_u64(how.wrapping_add(8))?;
    let resolve = call.read_u64(how.wrapping_add(16))?;
    let makes = flags & u64::from(O_CREAT | O_TMPFILE) != 0;
    let both = BENEATH | IN_ROOT;
    if resolve & !RESOLVE_ALL != 0
        || resolve & both == both
        || mode & !if makes { 0o7777 } else { 0 } != 0
    {
        return Err(Errno::EINVAL.into());
    }
    open_within(call, directory, path, flags as u32, mode, resolve)
}

impl Kernel {
    /// The open file behind a descriptor of a process.
    pub(crate) fn open_file(&self, process: ProcessId, number: u64) -> Result<&OpenFile, Errno> {
        let descriptor = self.processes[process].descriptors.descriptor(number)?;
        self.open.files.get(descriptor.file).ok_or(Errno::EBADF)
    }

    /// Closes a descriptor of a process, and with it the process's record locks on the file.
    pub(crate) fn close(&mut self, process: ProcessId, number: u32) -> Result<(), Errno> {
        let descriptors = &mut self.processes[process].descriptors;
        let file = descriptors.remove(number).ok_or(Errno::EBADF)?.file;
        let inode = self.open.files.get(file).and_then(OpenFile::inode);
        if inode.is_some() && locks::release(&mut self.locks, LockOwner::process(process), inode) {
            self.wake_all_file_waiters();
        }
        self.forget_request(process, file);
        let program = self.processes[process].program;
        self.close_file(program, file);
        Ok(())
    }

    /// One descriptor less for an open file of a program.
    pub(crate) fn close_file(&mut self, program: u32, index: u32) {
        let mut dropped = Vec::new();
        self.close_one(program, index, &mut dropped);
        if !self.rare.sockets.is_empty() {
            dropped.extend(self.unreachable_flights());
            self.close_files(dropped);
        }
    }

    /// One holder less for each of some open files that messages held.
    pub(crate) fn close_files(&mut self, mut files: Vec<u32>) {
        while let Some(index) = files.pop() {
            self.close_one(0, index, &mut files);
        }
    }

    /// One holder less for an open file; `dropped` gets the files that were on their way to it.
    fn close_one(&mut self, program: u32, index: u32, dropped: &mut Vec<u32>) {
        let Some(file) = self.open.files.get_mut(index) else {
            return;
        };
        file.references -= 1;
        if file.references > 0 {
            return;
        }
        for (_, poller) in self.open.pollers.iter_mut() {
            poller.interests.retain(|(_, file), _| *file != index);
        }
        let Some(file) = self.open.files.remove(index) else {
            return;
        };
        self.rare.owners.remove(&index);
        if let Some(inode) = file.inode()
            && file.flags & O_PATH == 0
        {
            let mask = if file.writable() {
                IN_CLOSE_WRITE
            } else {
                IN_CLOSE_NOWRITE
            };
            self.notify_file(inode, &file.path, mask);
        }
        if !self.locks.is_empty()
            && locks::release(&mut self.locks, LockOwner::open_file(index), None)
        {
            self.wake_all_file_waiters();
        }
        match file.object {
            Object::Inode(inode) | Object::Text { inode, .. } => {
                self.free_inode_if_unused(inode);
                // Nobody waits for a file, but for its lock.
                if file.lock != Lock::None {
                    self.wake_all_file_waiters();
                }
                return;
            }
            Object::PipeReader(id) => self.close_pipe(id, true),
            Object::PipeWriter(id) => self.close_pipe(id, false),
            Object::Fifo { pipe, inode, .. } => {
                if file.readable() {
                    self.close_pipe(pipe, true);
                }
                if file.writable() {
                    self.close_pipe(pipe, false);
                }
                self.free_inode_if_unused(inode);
                self.wake_all_file_waiters();
                return;
            }
            Object::Event(id) => {
                self.open.events.remove(id);
            }
            Object::Poller(id) => {
                self.open.pollers.remove(id);
            }
            Object::Terminal {
                terminal,
                inode,
                master,
            } => {
                self.close_terminal(terminal, inode, master);
                return;
            }
            Object::Watcher(id) => {
                self.open.watching.watchers.remove(id);
            }
            Object::Timer(id) => {
                self.open.timer_files.remove(id);
            }
            Object::Signals(id) => {
                self.open.signal_files.remove(id);
            }
            Object::Socket(id) => {
                self.close_socket(id, dropped);
                return;
            }
            Object::Process(_) => {}
            Object::Queue(id) => {
                self.free_queue_if_unused(id);
                return;
            }
        }
        self.wake_file_waiters(program);
    }

    fn close_pipe(&mut self, id: u32, reader: bool) {
        let Some(pipe) = self.open.pipes.get_mut(id) else {
            return;
        };
        let ends = if reader {
            &mut pipe.readers
        } else {
            &mut pipe.writers
        };
        *ends = ends.saturating_sub(1);
        let ended = *ends == 0;
        pipe.activity += 1;
        if pipe.readers == 0 && pipe.writers == 0 {
            self.open.pipes.remove(id);
            self.open.traits.remove(&id);
        }
        // The other ends learn that they are alone.
        if ended {
            self.tell_owners(|file| owners::is_end_of(file, id, !reader));
        }
    }

    /// What `stat` tells of an inode.
    pub(crate) fn metadata(&self, id: InodeId) -> Result<Metadata, Errno> {
        let inode = self.files.inode(id)?;
        let blocks = match &inode.node {
            Node::File(file) => {
                let below = file.host_bytes.div_ceil(PAGE_BYTES);
                below.max(file.pages_held) * (PAGE_BYTES / 512)
            }
            Node::Directory(_) => PAGE_BYTES / 512,
            _ => 0,
        };
        let device_type = match &inode.node {
            Node::Device(Device::Null) => 0x103,
            Node::Device(Device::Zero) => 0x105,
            Node::Device(Device::Full) => 0x107,
            Node::Device(Device::Random) => 0x109,
            Node::Device(Device::Terminal) => 0x500,
            Node::Device(Device::Master) => 0x502,
            Node::Device(Device::Slave(number)) => 0x8800 + u64::from(*number),
            _ => 0,
        };
        Ok(Metadata {
            inode: u64::from(id.0) + 1,
            mode: inode.type_bits() | inode.mode,
            links: inode.links.max(u32::from(inode.type_bits() != S_IFREG)),
            device_type,
            size: inode.size(),
            blocks,
            times_ns: [inode.accessed_ns, inode.modified_ns, inode.changed_ns],
        })
    }

    /// A link below `/proc/PID/fd`.
    fn metadata_of_link(&self, number: u32) -> Metadata {
        const LINK_BYTES: u64 = 64;
        Metadata {
            inode: DESCRIPTOR_LINKS + u64::from(number),
            mode: S_IFLNK | 0o700,
            links: 1,
            device_type: 0,
            size: LINK_BYTES,
            blocks: 0,
            times_ns: [self.files.start_ns; 3],
        }
    }

    fn metadata_of_descriptor(&self, process: ProcessId, number: u64) -> Result<Metadata, Errno> {
        let descriptor = self.processes[process].descriptors.descriptor(number)?;
        let file = self.open_file(process, number)?;
        if let Some(inode) = file.inode() {
            return self.metadata(inode);
        }
        let mode = match file.object {
            Object::PipeReader(_) | Object::PipeWriter(_) => S_IFIFO | 0o600,
            Object::Socket(_) => S_IFSOCK | 0o777,
            _ => 0o600,
        };
        // Beyond every inode number of the tree.
        let inode = (1 << 32) + u64::from(descriptor.file);
        Ok(Metadata {
            inode,
            mode,
            links: 1,
            device_type: 0,
            size: 0,
            blocks: 0,
            times_ns: [self.files.start_ns; 3],
        })
    }
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn put_half(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

impl Metadata {
    /// `struct stat`.
    fn stat_bytes(&self) -> [u8; 128] {
        let mut bytes = [0; 128];
        put(&mut bytes, 0, DEVICE_NUMBER);
        put(&mut bytes, 8, self.inode);
        put_half(&mut bytes, 16, self.mode);
        put_half(&mut bytes, 20, self.links);
        put_half(&mut bytes, 24, USER_ID);
        put_half(&mut bytes, 28, USER_ID);
        put(&mut bytes, 32, self.device_type);
        put(&mut bytes, 48, self.size);
        put_half(&mut bytes, 56, PAGE_BYTES as u32);
        put(&mut bytes, 64, self.blocks);
        for (index, &time) in self.times_ns.iter().enumerate() {
            bytes[72 + 16 * index..88 + 16 * index].copy_from_slice(&super::time_bytes(time));
        }
        bytes
    }

    /// `struct statx`.
    fn statx_bytes(&self) -> [u8; 256] {
        let mut bytes = [0; 256];
        // Everything of STATX_BASIC_STATS.
        put_half(&mut bytes, 0, 0x7ff);
        put_half(&mut bytes, 4, PAGE_BYTES as u32);
        put_half(&mut bytes, 16, self.links);
        put_half(&mut bytes, 20, USER_ID);
        put_half(&mut bytes, 24, USER_ID);
        put_half(&mut bytes, 28, self.mode);
        put(&mut bytes, 32, self.inode);
        put(&mut bytes, 40, self.size);
        put(&mut bytes, 48, self.blocks);
        let [accessed, modified, changed] = self.times_ns.map(super::time_bytes);
        bytes[64..80].copy_from_slice(&accessed);
        bytes[96..112].copy_from_slice(&changed);
        bytes[112..128].copy_from_slice(&modified);
        put_half(&mut bytes, 128, (self.device_type >> 8) as u32);
        put_half(&mut bytes, 132, self.device_type as u32 & 0xff);
        put_half(&mut bytes, 136, DEVICE_NUMBER as u32 >> 8);
        put_half(&mut bytes, 140, DEVICE_NUMBER as u32 & 0xff);
        bytes
    }
}

fn metadata_at(call: &mut Call, directory: u64, path: u64, flags: u64) -> Result<Metadata, Errno> {
    match call.find_with_flags(directory, path, flags)? {
        Named::Inode(inode) => call.kernel.metadata(inode),
        Named::Descriptor(number) => call.kernel.metadata_of_descriptor(call.process, number),
        Named::Link(number) => Ok(call.kernel.metadata_of_link(number)),
    }
}

/// `newfstatat`.
pub(crate) fn newfstatat(call: &mut Call) -> Answer {
    let [directory, path, address, flags, ..] = call.arguments;
    let metadata = metadata_at(call, directory, path, flags)?;
    call.write(address, &metadata.stat_bytes())?;
    Ok(0)
}

/// `fstat`.
pub(crate) fn fstat(call: &mut Call) -> Answer {
    let [number, address, ..] = call.arguments;
    let metadata = call.kernel.metadata_of_descriptor(call.process, number)?;
    call.write(address, &metadata.stat_bytes())?;
    Ok(0)
}

/// `statx`.
pub(crate) fn statx(call: &mut Call) -> Answer {
    let [directory, path, flags, _, address, _] = call.arguments;
    let metadata = metadata_at(call, directory, path, flags)?;
    call.write(address, &metadata.statx_bytes())?;
    Ok(0)
}

/// `close`.
pub(crate) fn close(call: &mut Call) -> Answer {
    let number = u32::try_from(call.arguments[0] as i32).map_err(|_| Errno::EBADF)?;
    call.kernel.close(call.process, number)?;
    Ok(0)
}

/// `close_range`.
pub(crate) fn close_range(call: &mut Call) -> Answer {
    const CLOSE_RANGE_CLOEXEC: u64 = 4;
    let [first, last, flags, ..] = call.arguments.map(|argument| argument & 0xffff_ffff);
    if first > last || flags & !6 != 0 {
        return Err(Errno::EINVAL.into());
    }
    let numbers: Vec<u32> = call
        .process()
        .descriptors
        .iter()
        .map(|(number, _)| number)
        .collect();
    for number in numbers
        .into_iter()
        .filter(|&n| (first..=last).contains(&u64::from(n)))
    {
        if flags & CLOSE_RANGE_CLOEXEC != 0 {
            if let Some(descriptor) = call.process_mut().descriptors.get_mut(number) {
                descriptor.close_on_exec = true;
            }
        } else {
            call.kernel.close(call.process, number)?;
        }
    }
    Ok(0)
}

fn duplicate(call: &mut Call, number: u64, lowest: usize, close_on_exec: bool) -> Answer {
    let file = call.descriptor(number)?.file;
    let new = call.install(
        lowest,
        Descriptor {
            file,
            close_on_exec,
        },
    )?;
    if let Some(file) = call.kernel.open.files.get_mut(file) {
        file.references += 1;
    }
    Ok(u64::from(new))
}

/// `dup`.
pub(crate) fn dup(call: &mut Call) -> Answer {
    duplicate(call, call.arguments[0], 0, false)
}

/// `dup3`.
pub(crate) fn dup3(call: &mut Call) -> Answer {
    let [old, new, flags, ..] = call.arguments;
    if flags as u32 & !O_CLOEXEC != 0 || old as i32 == new as i32 {
        return Err(Errno::EINVAL.into());
    }
    call.descriptor(old)?;
    let new = u32::try_from(new as i32).map_err(|_| Errno::EBADF)?;
    if new as usize >= call.process().descriptors_max() {
        return Err(Errno::EBADF.into());
    }
    if call.process().descriptors.get(new).is_some() {
        call.kernel.close(call.process, new)?;
    }
    duplicate(call, old, new as usize, flags as u32 & O_CLOEXEC != 0)
}

/// `fcntl`.
pub(crate) fn fcntl(call: &mut Call) -> Answer {
    const F_SETTABLE: u32 = O_APPEND | O_NONBLOCK | 0o40000 | 0o1_000_000;
    let [number, command, argument, ..] = call.arguments;
    call.descriptor(number)?;
    match command {
        0 | 1030 => {
            if argument >= call.process().descriptors_max() as u64 {
                return Err(Errno::EINVAL.into());
            }
            duplicate(call, number, argument as usize, command == 1030)
        }
        1 => Ok(u64::from(call.descriptor(number)?.close_on_exec)),
        2 => {
            if let Some(descriptor) = call.process_mut().descriptors.get_mut(number as u32) {
                descriptor.close_on_exec = argument & 1 != 0;
            }
            Ok(0)
        }
        3 => Ok(u64::from(call.file(number)?.flags | O_LARGEFILE)),
        4 => {
            let file = call.file_mut(number)?;
            let settable = if owners::can_tell(&file.object) {
                F_SETTABLE | O_ASYNC
            } else {
                F_SETTABLE
            };
            file.flags = file.flags & !settable | argument as u32 & settable;
            own_terminal(call, number)?;
            Ok(0)
        }
        5..=7 => record_lock(call, number, command, argument, false),
        // F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW.
        36..=38 => record_lock(call, number, command - 31, argument, true),
        // F_GETLEASE: F_UNLCK. Like file systems without leases, none is given.
        1025 => Ok(2),
        1033 => add_seals(call, number, argument as u32),
        1034 => {
            let inode = call.file(number)?.inode().ok_or(Errno::EINVAL)?;
            let seals = call.kernel.rare.seals.get(&inode);
            Ok(u64::from(*seals.ok_or(Errno::EINVAL)?))
        }
        8 => set_owner(call, number, argument as i32),
        9 => Ok(owner_number(call, number)? as u64),
        15 => set_owner_exactly(call, number, argument),
        16 => owner_exactly(call, number, argument),
        1031 => pipes::set_size(call, number, argument),
        1032 => pipes::size(call, number),
        _ => {
            call.kernel.note_refusal(Refusal::Fcntl(command as u32));
            Err(Errno::EINVAL.into())
        }
    }
}

/// A terminal that is to tell of input has an owner from then on: who is in the foreground, else who
/// asked.
fn own_terminal(call: &mut Call, number: u64) -> Result<(), Errno> {
    let id = call.descriptor(number)?.file;
    let file = call.file(number)?;
    let Object::Terminal {
        terminal, master, ..
    } = file.object
    else {
        return Ok(());
    };
    if file.flags & O_ASYNC == 0 {
        return Ok(());
    }
    let foreground = call.kernel.open.terminals.get(terminal);
    let foreground = foreground.map_or(0, |terminal| terminal.foreground);
    let owner = match foreground {
        group if group != 0 && !master => Owner::Group(group),
        _ => Owner::Process(call.process),
    };
    call.kernel.rare.owners.entry(id).or_insert(owner);
    Ok(())
}

/// `F_SETOWN`: a process, or a group as its negative number.
fn set_owner(call: &mut Call, number: u64, who: i32) -> Answer {
    let file = call.descriptor(number)?.file;
    let wished = who.unsigned_abs();
    if who == i32::MIN {
        return Err(Errno::EINVAL.into());
    }
    let processes = &call.kernel.processes;
    let owner = if who >= 0 {
        let id = ProcessId(wished);
        let lives = processes.live.contains_key(&id);
        // One that has ended and is not waited for is there, but hears nothing any more.
        if who > 0 && !processes.exists(id) {
            return Err(Errno::ESRCH.into());
        }
        lives.then_some(Owner::Process(id))
    } else {
        let mut live = processes.live.values();
        if !live.any(|process| process.group == wished) {
            return Err(Errno::ESRCH.into());
        }
        Some(Owner::Group(wished))
    };
    set_or_clear(call, file, owner);
    Ok(0)
}

fn set_or_clear(call: &mut Call, file: u32, owner: Option<Owner>) {
    let owners = &mut call.kernel.rare.owners;
    match owner {
        Some(owner) => {
            owners.insert(file, owner);
        }
        None => {
            owners.remove(&file);
        }
    }
}

/// `F_GETOWN`: the number that `F_SETOWN` takes, and 0 for nobody.
fn owner_number(call: &Call, number: u64) -> Result<i64, Errno> {
    let file = call.descriptor(number)?.file;
    Ok(match call.kernel.rare.owners.get(&file) {
        None => 0,
        Some(Owner::Thread(id)) => i64::from(id.0),
        Some(Owner::Process(id)) => i64::from(id.0),
        Some(Owner::Group(group)) => -i64::from(*group),
    })
}

const F_OWNER_TID: u32 = 0;
const F_OWNER_PID: u32 = 1;
const F_OWNER_PGRP: u32 = 2;

/// `F_SETOWN_EX`.
fn set_owner_exactly(call: &mut Call, number: u64, address: u64) -> Answer {
    let kind = call.read_u32(address)?;
    let who = call.read_u32(address.wrapping_add(4))? as i32;
    match (kind, who) {
        (F_OWNER_TID, 1..) => {
            let file = call.descriptor(number)?.file;
            let thread = ThreadId(who as u32);
            if !call.kernel.threads.contains_key(&thread) {
                return Err(Errno::ESRCH.into());
            }
            set_or_clear(call, file, Some(Owner::Thread(thread)));
            Ok(0)
        }
        (F_OWNER_PGRP, 1..) => set_owner(call, number, -who),
        (F_OWNER_PID, 0..) | (F_OWNER_TID | F_OWNER_PGRP, 0) => set_owner(call, number, who),
        (F_OWNER_TID..=F_OWNER_PGRP, _) => Err(Errno::ESRCH.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `F_GETOWN_EX`.
fn owner_exactly(call: &mut Call, number: u64, address: u64) -> Answer {
    let file = call.descriptor(number)?.file;
    let (kind, who) = match call.kernel.rare.owners.get(&file) {
        None => (F_OWNER_TID, 0),
        Some(Owner::Thread(id)) => (F_OWNER_TID, id.0),
        Some(Owner::Process(id)) => (F_OWNER_PID, id.0),
        Some(Owner::Group(group)) => (F_OWNER_PGRP, *group),
    };
    call.write(address, &kind.to_le_bytes())?;
    call.write(address.wrapping_add(4), &who.to_le_bytes())?;
    Ok(0)
}

const SEAL_SEAL: u32 = 1;
const SEAL_SHRINK: u32 = 2;
pub(crate) const SEAL_GROW: u32 = 4;
pub(crate) const SEAL_WRITE: u32 = 8;
/// Writing, but for mappings that are there already.
const SEAL_FUTURE_WRITE: u32 = 16;
/// The mode of a file may not gain or lose the right to be executed.
const SEAL_EXECUTE: u32 = 32;

impl Call<'_> {
    /// Fails if one of these is sealed off.
    pub fn check_seals(&self, inode: InodeId, wished: u32) -> Result<(), Errno> {
        let Some(&seals) = self.kernel.rare.seals.get(&inode) else {
            return Ok(());
        };
        let future = if wished & SEAL_WRITE != 0 {
            SEAL_FUTURE_WRITE
        } else {
            0
        };
        if seals & (wished | future) != 0 {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    fn check_size_seals(&self, inode: InodeId, size: u64) -> Result<(), Errno> {
        match size.cmp(&self.kernel.files.file(inode)?.size) {
            std::cmp::Ordering::Less => self.check_seals(inode, SEAL_SHRINK),
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => self.check_seals(inode, SEAL_GROW),
        }
    }
}

/// `F_ADD_SEALS`, of files that `memfd_create` made.
fn add_seals(call: &mut Call, number: u64, added: u32) -> Answer {
    const ALL: u32 =
        SEAL_SEAL | SEAL_SHRINK | SEAL_GROW | SEAL_WRITE | SEAL_FUTURE_WRITE | SEAL_EXECUTE;
    let file = call.file(number)?;
    if !file.writable() {
        return Err(Errno::EPERM.into());
    }
    let inode = file.inode().ok_or(Errno::EINVAL)?;
    let seals = *(call.kernel.rare.seals.get(&inode)).ok_or(Errno::EINVAL)?;
    if added & !ALL != 0 {
        return Err(Errno::EINVAL.into());
    }
    if seals & SEAL_SEAL != 0 {
        return Err(Errno::EPERM.into());
    }
    let mut spaces = call.kernel.spaces.iter();
    let written = |mapping: &crate::address_space::Mapping| {
        mapping.shared
            && mapping.inode() == Some(inode)
            && mapping.permissions & crate::page_table::WRITE != 0
    };
    if added & SEAL_WRITE != 0 && spaces.any(|(_, space)| space.mappings.values().any(written)) {
        return Err(Errno::EBUSY.into());
    }
    call.kernel.rare.seals.insert(inode, seals | added);
    Ok(0)
}

/// `F_GETLK` (5), `F_SETLK` (6), `F_SETLKW` (7): of the process, or of the open file.
fn record_lock(call: &mut Call, number: u64, command: u64, address: u64, of_file: bool) -> Answer {
    const F_UNLCK: u32 = 2;
    let head = call.read_u32(address)?;
    let start = call.read_u64(address.wrapping_add(8))? as i64;
    let length = call.read_u64(address.wrapping_add(16))? as i64;
    let (kind, whence) = (head & 0xffff, head >> 16);
    // The number of a process has no place in a lock of an open file.
    if of_file && call.read_u32(address.wrapping_add(24))? != 0 {
        return Err(Errno::EINVAL.into());
    }
    let owner = if of_file {
        LockOwner::open_file(call.descriptor(number)?.file)
    } else {
        LockOwner::process(call.process)
    };
    let file = call.file(number)?;
    if kind > 2 || whence > 2 || command == 5 && kind == F_UNLCK {
        return Err(Errno::EINVAL.into());
    }
    if command != 5 && (kind == 0 && !file.readable() || kind == 1 && !file.writable()) {
        return Err(Errno::EBADF.into());
    }
    let Some(inode) = file.inode() else {
        return Err(Errno::EBADF.into());
    };
    let base = match whence {
        0 => 0,
        1 => file.offset as i64,
        _ => call.kernel.files.inode(inode)?.size() as i64,
    };
    let start = base.checked_add(start).ok_or(Errno::EOVERFLOW)?;
    let (start, end) = match length {
        0 => (start, i64::MAX),
        length if length > 0 => (start, start.saturating_add(length)),
        length => (start.saturating_add(length), start),
    };
    if start < 0 || start >= end {
        return Err(Errno::EINVAL.into());
    }
    let wished = RecordLock {
        owner,
        start: start as u64,
        end: if end == i64::MAX {
            u64::MAX
        } else {
            end as u64
        },
        exclusive: kind == 1,
    };
    if kind != F_UNLCK && command != 5 && locks::count(&call.kernel.locks) >= locks::LOCKS_MAX {
        return Err(Errno::ENOLCK.into());
    }
    let obstacle = match kind {
        F_UNLCK => None,
        _ => locks::obstacle(&call.kernel.locks, inode, &wished),
    };
    if command == 5 {
        let Some(held) = obstacle else {
            call.write(address, &2_u16.to_le_bytes())?;
            return Ok(0);
        };
        let length = if held.end == u64::MAX {
            0
        } else {
            held.end - held.start
        };
        let mut bytes = [0; 28];
        bytes[0..2].copy_from_slice(&u16::from(held.exclusive).to_le_bytes());
        put(&mut bytes, 8, held.start);
        put(&mut bytes, 16, length);
        put_half(&mut bytes, 24, held.owner.number());
        call.write(address, &bytes)?;
        return Ok(0);
    }
    match obstacle {
        Some(held) if command == 7 => {
            let waits = &mut call.kernel.rare.lock_waits;
            waits.remove(&call.thread);
            if !of_file {
                if locks::would_deadlock(waits, owner, held.owner) {
                    return Err(Errno::EDEADLK.into());
                }
                waits.insert(call.thread, (owner, held.owner));
            }
            return Err(Stop::for_files());
        }
        Some(_) => return Err(Errno::EAGAIN.into()),
        None => {}
    }
    locks::set(&mut call.kernel.locks, inode, wished, kind != F_UNLCK);
    call.kernel.wake_all_file_waiters();
    Ok(0)
}

/// `flock`.
pub(crate) fn flock(call: &mut Call) -> Answer {
    const LOCK_NB: u64 = 4;
    let [number, operation, ..] = call.arguments;
    let wished = match operation & !LOCK_NB {
        1 => Lock::Shared,
        2 => Lock::Exclusive,
        8 => Lock::None,
        _ => return Err(Errno::EINVAL.into()),
    };
    let own = call.descriptor(number)?.file;
    let inode = call.file(number)?.inode();
    let conflicts = inode.is_some()
        && call.kernel.open.files.iter().any(|(index, file)| {
            index != own
                && file.inode() == inode
                && match wished {
                    Lock::None => false,
                    Lock::Shared => file.lock == Lock::Exclusive,
                    Lock::Exclusive => file.lock != Lock::None,
                }
        });
    if conflicts {
        if operation & LOCK_NB != 0 {
            return Err(Errno::EAGAIN.into());
        }
        return Err(Stop::for_files());
    }
    call.file_mut(number)?.lock = wished;
    call.kernel.wake_all_file_waiters();
    Ok(0)
}

/// `ioctl`.
pub(crate) fn ioctl(call: &mut Call) -> Answer {
    let [number, request, address, ..] = call.arguments;
    if let Object::Terminal {
        terminal, master, ..
    } = call.file(number)?.object
        && !matches!(request & 0xffff_ffff, 0x5450 | 0x5451 | 0x5452 | 0x5421)
    {
        return terminals::control(call, (terminal, master), request & 0xffff_ffff, address);
    }
    if let Object::Socket(id) = call.file(number)?.object
        && let Some(answer) = sockets::socket_ioctl(call, id, request as u32, address)?
    {
        return Ok(answer);
    }
    match request & 0xffff_ffff {
        // FIOCLEX, FIONCLEX.
        0x5451 | 0x5450 => {
            if let Some(descriptor) = call.process_mut().descriptors.get_mut(number as u32) {
                descriptor.close_on_exec = request & 0xffff == 0x5451;
            }
            Ok(0)
        }
        // FIONBIO.
        0x5421 => {
            let on = call.read_u32(address)? != 0;
            let file = call.file_mut(number)?;
            file.flags = if on {
                file.flags | O_NONBLOCK
            } else {
                file.flags & !O_NONBLOCK
            };
            Ok(0)
        }
        // FIOASYNC.
        0x5452 if owners::can_tell(&call.file(number)?.object) => {
            let on = call.read_u32(address)? != 0;
            let file = call.file_mut(number)?;
            file.flags = file.flags & !O_ASYNC | if on { O_ASYNC } else { 0 };
            own_terminal(call, number)?;
            Ok(0)
        }
        // FIONREAD.
        0x541b => {
            let file = call.file(number)?;
            let count = match &file.object {
                Object::Watcher(id) => {
                    let watcher = call.kernel.open.watching.watchers.get(*id);
                    let events = watcher.into_iter().flat_map(|watcher| &watcher.events);
                    events.map(|event| event.to_bytes().len() as u64).sum()
                }
                Object::PipeReader(id) | Object::PipeWriter(id) | Object::Fifo { pipe: id, .. } => {
                    let pipe = call.kernel.open.pipes.get(*id);
                    pipe.map_or(0, |pipe| pipe.bytes.len() as u64)
                }
                Object::Inode(inode) => match &call.kernel.files.inode(*inode)?.node {
                    Node::File(node) => node.size.saturating_sub(file.offset),
                    Node::Device(Device::StandardInput) => {
                        let program = call.process().program as usize;
                        let input = call.kernel.settings.programs[program].input();
                        input.len() as u64 - call.kernel.progress[program].stdin_offset
                    }
                    _ => return Err(Errno::ENOTTY.into()),
                },
                _ => return Err(Errno::ENOTTY.into()),
            };
            call.write(address, &(count.min(i32::MAX as u64) as u32).to_le_bytes())?;
            Ok(0)
        }
        // Requests to a terminal: no descriptor is one.
        0x5400..=0x547f => Err(Errno::ENOTTY.into()),
        other => {
            call.kernel.note_refusal(Refusal::Ioctl(other as u32));
            Err(Errno::ENOTTY.into())
        }
    }
}

/// `lseek`.
pub(crate) fn lseek(call: &mut Call) -> Answer {
    let [number, offset, whence, ..] = call.arguments;
    let file = call.file(number)?;
    let (size, inode) = match &file.object {
        Object::Text { text, .. } => (text.len() as u64, None),
        Object::Inode(inode) => match &call.kernel.files.inode(*inode)?.node {
            Node::File(node) => (node.size, Some(*inode)),
            Node::Directory(_) | Node::DescriptorDirectory => (i64::MAX as u64, None),
            Node::Device(
                Device::StandardInput | Device::StandardOutput | Device::StandardError,
            ) => return Err(Errno::ESPIPE.into()),
            _ => return Ok(0),
        },
        _ => return Err(Errno::ESPIPE.into()),
    };
    let base = match whence {
        0 => 0,
        1 => file.offset,
        2 => size,
        3 | 4 => {
            let inode = inode.ok_or(Errno::EINVAL)?;
            let found = find_data(call.kernel, inode, offset, size, whence == 3)?;
            call.file_mut(number)?.offset = found;
            return Ok(found);
        }
        _ => return Err(Errno::EINVAL.into()),
    };
    let new = (base as i64)
        .checked_add(offset as i64)
        .filter(|&new| new >= 0);
    let new = new.ok_or(Errno::EINVAL)? as u64;
    let file = call.file_mut(number)?;
    file.offset = new;
    if new == 0 {
        file.listing.clear();
    }
    Ok(new)
}

/// `SEEK_DATA` and `SEEK_HOLE`, page by page.
fn find_data(
    kernel: &Kernel,
    inode: InodeId,
    offset: u64,
    size: u64,
    data: bool,
) -> Result<u64, Errno> {
    if offset >= size {
        return Err(Errno::ENXIO);
    }
    let below = kernel
        .files
        .file(inode)?
        .host_bytes
        .next_multiple_of(PAGE_BYTES);
    let held = kernel.files.held_pages(inode)?;
    if data {
        if offset < below {
            return Ok(offset);
        }
        let page = held.iter().map(|(page, _)| page * PAGE_BYTES);
        let found = page
            .filter(|start| start + PAGE_BYTES > offset)
            .map(|at| at.max(offset))
            .next();
        return found.filter(|&at| at < size).ok_or(Errno::ENXIO);
    }
    let mut at = if offset < below { below } else { offset };
    for (page, _) in held {
        let start = page * PAGE_BYTES;
        if start <= at && at < start + PAGE_BYTES {
            at = start + PAGE_BYTES;
        }
    }
    Ok(at.min(size))
}

/// `ftruncate`.
pub(crate) fn ftruncate(call: &mut Call) -> Answer {
    let [number, size, ..] = call.arguments;
    let file = call.file(number)?;
    let Object::Inode(inode) = file.object else {
        return Err(Errno::EINVAL.into());
    };
    if !file.writable() || (size as i64) < 0 {
        return Err(Errno::EINVAL.into());
    }
    call.kernel.files.file(inode).map_err(|_| Errno::EINVAL)?;
    call.check_size_seals(inode, size)?;
    let old = call.kernel.files.file(inode)?.size;
    call.check_file_bytes(old, size)?;
    call.kernel.truncate_file(call.machine, inode, size)?;
    notify_changed(call, inode, IN_MODIFY);
    Ok(0)
}

/// `truncate`.
pub(crate) fn truncate(call: &mut Call) -> Answer {
    let [path, size, ..] = call.arguments;
    let path = call.string(path)?;
    if (size as i64) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let inode = call.find(AT_FDCWD as u64, &path, true)?;
    call.kernel.files.file(inode)?;
    if call.kernel.files.inode(inode)?.mode & 0o200 == 0 {
        return Err(Errno::EACCES.into());
    }
    call.check_not_running(inode)?;
    let old = call.kernel.files.file(inode)?.size;
    call.check_file_bytes(old, size)?;
    call.kernel.truncate_file(call.machine, inode, size)?;
    notify_changed(call, inode, IN_MODIFY);
    Ok(0)
}

/// `fallocate`: space is never reserved; sizes grow and holes are punched.
pub(crate) fn fallocate(call: &mut Call) -> Answer {
    const KEEP_SIZE: u64 = 1;
    const PUNCH_HOLE: u64 = 2;
    const ZERO_RANGE: u64 = 16;
    let [number, mode, offset, length, ..] = call.arguments;
    let file = call.file(number)?;
    if !file.writable() {
        return Err(Errno::EBADF.into());
    }
    let Object::Inode(inode) = file.object else {
        return Err(Errno::ESPIPE.into());
    };
    let size = call
        .kernel
        .files
        .file(inode)
        .map_err(|_| Errno::ENODEV)?
        .size;
    if (offset as i64) < 0 || (length as i64) <= 0 {
        return Err(Errno::EINVAL.into());
    }
    let end = offset
        .checked_add(length)
        .filter(|&end| i64::try_from(end).is_ok())
        .ok_or(Errno::EFBIG)?;
    if mode & KEEP_SIZE == 0 {
        call.check_file_bytes(size, end)?;
        call.check_size_seals(inode, end.max(size))?;
    }
    if mode & !KEEP_SIZE != 0 {
        call.check_seals(inode, SEAL_WRITE)?;
    }
    match mode {
        0 | KEEP_SIZE => {}
        m if m == PUNCH_HOLE | KEEP_SIZE || m & !KEEP_SIZE == ZERO_RANGE => {
            zero_range(call, inode, offset, end.min(size))?;
        }
        _ => return Err(Errno::EOPNOTSUPP.into()),
    }
    if mode & KEEP_SIZE == 0 && end > size {
        call.kernel.truncate_file(call.machine, inode, end)?;
    }
    Ok(0)
}

/// Makes a range zero: pages that hold something, or that the host fills, are overwritten.
fn zero_range(call: &mut Call, inode: InodeId, from: u64, to: u64) -> Result<(), Errno> {
    let zeros = [0; PAGE_BYTES as usize];
    let below = call.kernel.files.file(inode)?.host_bytes.min(to);
    let mut pages: Vec<u64> = (from / PAGE_BYTES..below.div_ceil(PAGE_BYTES)).collect();
    let held = call.kernel.files.held_pages(inode)?;
    pages.extend(
        held.iter()
            .map(|(page, _)| *page)
            .filter(|&page| page * PAGE_BYTES >= below),
    );
    for page in pages {
        let start = (page * PAGE_BYTES).max(from);
        let end = ((page + 1) * PAGE_BYTES).min(to);
        if start < end {
            call.kernel
                .write_file(call.machine, inode, start, &zeros[..(end - start) as usize])?;
        }
    }
    Ok(())
}

/// `fsync`, `fdatasync`: back only when everything is durable.
pub(crate) fn fsync(call: &mut Call) -> Answer {
    let file = call.file(call.arguments[0])?;
    match file.object {
        Object::Inode(_) | Object::Text { .. } => Err(Stop::Commit(0)),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `sync`, `syncfs`.
pub(crate) fn sync(_call: &mut Call) -> Answer {
    Err(Stop::Commit(0))
}

/// `sync_file_range`, `readahead`, `fadvise64`: hints about a file that exists.
pub(crate) fn file_hint(call: &mut Call) -> Answer {
    match call.file(call.arguments[0])?.object {
        Object::Inode(_) | Object::Text { .. } => Ok(0),
        _ => Err(Errno::ESPIPE.into()),
    }
}

fn change_mode(call: &mut Call, inode: InodeId, mode: u64) -> Answer {
    let now = call.now_ns();
    let node = call.kernel.files.inode_mut(inode)?;
    node.mode = mode as u32 & 0o7777;
    node.changed_ns = now;
    if let Node::File(file) = &mut node.node {
        file.changed = true;
    }
    notify_changed(call, inode, IN_ATTRIB);
    Ok(0)
}

/// `fchmod`.
pub(crate) fn fchmod(call: &mut Call) -> Answer {
    let [number, mode, ..] = call.arguments;
    match call.file(number)?.inode() {
        Some(inode) => change_mode(call, inode, mode),
        None => Ok(0),
    }
}

/// `fchmodat`.
pub(crate) fn fchmodat(call: &mut Call) -> Answer {
    let [directory, path, mode, ..] = call.arguments;
    let path = call.string(path)?;
    let inode = call.find(directory, &path, true)?;
    change_mode(call, inode, mode)
}

/// Everything belongs to the one user and stays so.
fn check_owner(user: u64, group: u64) -> Answer {
    let own = |id: u64| id as u32 == USER_ID || id as u32 == u32::MAX;
    if own(user) && own(group) {
        Ok(0)
    } else {
        Err(Errno::EPERM.into())
    }
}

/// `fchown`.
pub(crate) fn fchown(call: &mut Call) -> Answer {
    let [number, user, group, ..] = call.arguments;
    call.file(number)?;
    check_owner(user, group)
}

/// `fchownat`.
pub(crate) fn fchownat(call: &mut Call) -> Answer {
    let [directory, path, user, group, flags, _] = call.arguments;
    call.find_with_flags(directory, path, flags)?;
    check_owner(user, group)
}

/// `utimensat`.
pub(crate) fn utimensat(call: &mut Call) -> Answer {
    const UTIME_NOW: u64 = 0x3fff_ffff;
    const UTIME_OMIT: u64 = 0x3fff_fffe;
    let [directory, path, times, flags, ..] = call.arguments;
    let inode = if path == 0 {
        call.file(directory)?.inode().ok_or(Errno::EINVAL)?
    } else {
        match call.find_with_flags(directory, path, flags)? {
            Named::Inode(inode) => inode,
            Named::Descriptor(number) => call.file(number)?.inode().ok_or(Errno::EINVAL)?,
            Named::Link(_) => return Err(Errno::EPERM.into()),
        }
    };
    let now = call.now_ns();
    let mut new = [Some(now); 2];
    if times != 0 {
        for (index, slot) in new.iter_mut().enumerate() {
            let at = times.wrapping_add(16 * index as u64);
            *slot = match call.read_u64(at.wrapping_add(8))? {
                UTIME_NOW => Some(now),
                UTIME_OMIT => None,
                _ => Some(call.duration_at(at)?),
            };
        }
    }
    let node = call.kernel.files.inode_mut(inode)?;
    node.accessed_ns = new[0].unwrap_or(node.accessed_ns);
    node.modified_ns = new[1].unwrap_or(node.modified_ns);
    node.changed_ns = now;
    let mask = match new {
        [Some(_), None] => IN_ACCESS,
        [None, Some(_)] => IN_MODIFY,
        _ => IN_ATTRIB,
    };
    notify_changed(call, inode, mask);
    Ok(0)
}

/// `faccessat` and `faccessat2`.
pub(crate) fn faccessat(call: &mut Call) -> Answer {
    let [directory, path, mode, ..] = call.arguments;
    access(call, directory, path, mode, 0)
}

/// `faccessat2`.
pub(crate) fn faccessat2(call: &mut Call) -> Answer {
    let [directory, path, mode, flags, ..] = call.arguments;
    access(call, directory, path, mode, flags)
}

fn access(call: &mut Call, directory: u64, path: u64, mode: u64, flags: u64) -> Answer {
    if mode & !7 != 0 {
        return Err(Errno::EINVAL.into());
    }
    let permissions = match call.find_with_flags(directory, path, flags)? {
        Named::Inode(inode) => call.kernel.files.inode(inode)?.mode,
        Named::Link(number) => call.kernel.metadata_of_link(number).mode,
        Named::Descriptor(number) => {
            call.kernel
                .metadata_of_descriptor(call.process, number)?
                .mode
        }
    };
    let owner = u64::from(permissions >> 6 & 7);
    if mode & !owner != 0 {
        Err(Errno::EACCES.into())
    } else {
        Ok(0)
    }
}

/// `umask`.
pub(crate) fn umask(call: &mut Call) -> Answer {
    let new = call.arguments[0] as u32 & 0o777;
    Ok(u64::from(std::mem::replace(
        &mut call.process_mut().umask,
        new,
    )))
}

/// `struct statfs` of the one file system.
fn statfs_bytes(kernel: &Kernel) -> [u8; 120] {
    const EXT4_MAGIC: u64 = 0xef53;
    let total = kernel.frames.total();
    let free = kernel.frames.free();
    let mut bytes = [0; 120];
    let words = [
        EXT4_MAGIC,
        PAGE_BYTES,
        total,
        free,
        free,
        1 << 20,
        1 << 19,
        1,
        255,
        PAGE_BYTES,
    ];
    for (index, word) in words.into_iter().enumerate() {
        put(&mut bytes, 8 * index, word);
    }
    bytes
}

/// `statfs`.
pub(crate) fn statfs(call: &mut Call) -> Answer {
    let [path, address, ..] = call.arguments;
    let path = call.string(path)?;
    call.find(AT_FDCWD as u64, &path, true)?;
    let bytes = statfs_bytes(call.kernel);
    call.write(address, &bytes)?;
    Ok(0)
}

/// `fstatfs`.
pub(crate) fn fstatfs(call: &mut Call) -> Answer {
    let [number, address, ..] = call.arguments;
    call.file(number)?;
    let bytes = statfs_bytes(call.kernel);
    call.write(address, &bytes)?;
    Ok(0)
}

/// `memfd_create`: a file without a name.
pub(crate) fn memfd_create(call: &mut Call) -> Answer {
    const MFD_ALLOW_SEALING: u64 = 2;
    let [name, flags, ..] = call.arguments;
    let name = call.string(name)?;
    // MFD_HUGETLB needs huge pages, which are not there.
    if flags & !(7 | 0x18) != 0 || name.len() > 249 {
        return Err(Errno::EINVAL.into());
    }
    let now = call.now_ns();
    let inode = call
        .kernel
        .files
        .create(Node::File(FileNode::default()), 0o777, now);
    let seals = if flags & MFD_ALLOW_SEALING == 0 {
        SEAL_SEAL
    } else {
        0
    };
    call.kernel.rare.seals.insert(inode, seals);
    let file = OpenFile::new(Object::Inode(inode), 2, format!("/memfd:{name} (deleted)"));
    Ok(u64::from(call.open(file, flags & 1 != 0)?))
}
