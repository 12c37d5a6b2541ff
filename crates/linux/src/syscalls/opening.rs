//! Opening files, by name and without one.
//!
//! Always true: a file that is opened for what its mode refuses is not made, cut off or counted, and
//! neither is one that runs as a program and would be written to.

use super::names::own_descriptor;
use super::{Answer, Call, Stop, pipes, terminals};
use crate::errno::Errno;
use crate::machine::{PAGE_BYTES, ThreadId};
use crate::vfs::descriptor::{
    Descriptor, Lock, O_ACCMODE, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_PATH,
    O_TMPFILE, O_TRUNC, Object, OpenFile,
};
use crate::vfs::inode::{Device, FileNode, InodeId, Node};
use crate::vfs::path::{BENEATH, IN_ROOT, Place};
use crate::vfs::spelling::into_bytes;
use crate::vfs::watch::{IN_CREATE, IN_MODIFY, IN_OPEN};

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
    const MADE: u32 = O_CREAT | O_DIRECTORY;
    if flags & MADE == MADE && flags & O_PATH == 0 {
        return Err(Errno::EINVAL.into());
    }
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
    if follow
        && let Some(number) = place.inode.and_then(|inode| call.stream_at(inode))
        && let Some(answer) = open_descriptor(call, number, flags)?
    {
        return Ok(answer);
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
            let inode = new_file_in(call, place.directory, mode)?;
            call.kernel
                .files
                .enter(place.directory, &place.name, inode)?;
            call.directory_changed(place.directory);
            (call.kernel).notify_name(place.directory, &place.name, inode, IN_CREATE, 0);
            inode
        }
    };
    empty(call, inode, flags)?;
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

/// What `O_TRUNC` does to a file that has bytes.
fn empty(call: &mut Call, inode: InodeId, flags: u32) -> Result<(), Errno> {
    let has_bytes = (call.kernel.files.file(inode)).is_ok_and(|file| file.size > 0);
    if flags & O_TRUNC != 0 && flags & O_PATH == 0 && has_bytes {
        call.kernel.truncate_file(call.machine, inode, 0)?;
    }
    Ok(())
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

/// The same for a name in a directory, which is that of pools perhaps.
fn new_file_in(call: &mut Call, directory: InodeId, mode: u64) -> Result<InodeId, Errno> {
    call.kernel.check_new_pool(directory)?;
    let inode = new_file(call, mode);
    call.kernel.new_pool(directory, inode);
    Ok(inode)
}

/// The path that a place is found by, for those who watch.
fn named(call: &Call, place: &Place) -> String {
    if call.kernel.open.watching.is_empty() {
        return String::new();
    }
    let parent = call.kernel.files.directory_path(place.directory);
    format!("{}/{}", parent.trim_end_matches('/'), place.name)
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
    if call.kernel.is_pool_directory(place) {
        return Err(Errno::EOPNOTSUPP.into());
    }
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

/// Opens what is at a place; of `/proc`, what is about the thread that led there, or else about the process.
fn open_inode(call: &mut Call, inode: InodeId, flags: u32, place: &Place) -> Answer {
    let text = match &call.kernel.files.inode(inode)?.node {
        Node::Report(report) => {
            let subject = place.subject.unwrap_or(call.process);
            if call.kernel.processes.get(subject).is_none() {
                return Err(Errno::ESRCH.into());
            }
            let is_own = |id: ThreadId| call.kernel.process_of(id) == subject;
            if place
                .task
                .is_some_and(|id| !call.kernel.threads.contains_key(&id) || !is_own(id))
            {
                return Err(Errno::ENOENT.into());
            }
            let about = (subject, place.task);
            Some(call.kernel.report(*report, about, call.machine))
        }
        Node::Fixed(text) => Some(text.clone().into_bytes()),
        Node::NetReport(report) => {
            let text = call.kernel.rare.sockets.report(*report);
            Some(into_bytes(text))
        }
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
        name if call.kernel.files.is_namespace(inode) => name.to_owned(),
        name => format!("{}/{name}", parent.trim_end_matches('/')),
    };
    // The directory is the same for all processes; what is seen in it is the one's.
    let path = match (path.strip_prefix("/proc/1"), place.subject) {
        (Some(rest), Some(subject)) if rest.is_empty() || rest.starts_with('/') => {
            let of_task = rest.strip_prefix("/task/1").zip(place.task);
            let rest = match of_task {
                Some((rest, task)) => format!("/task/{}{rest}", task.0),
                None => rest.to_owned(),
            };
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
        empty(call, inode, flags)?;
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
    if node.is_directory() && (writes || flags & (O_CREAT | O_TRUNC) != 0) {
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

/// `struct open_how`; newer kernels may know more, of which nothing may be asked for.
const HOW_BYTES: u64 = 24;
/// Every flag of `open` that there is.
const OPEN_ALL: u32 = 0o37_777_703;

/// Fails if anything is asked for that this kernel does not know.
fn check_nothing_beyond(call: &mut Call, how: u64, size: u64) -> Result<(), Errno> {
    if size > PAGE_BYTES {
        return Err(Errno::E2BIG);
    }
    let at = how.wrapping_add(HOW_BYTES);
    let beyond = (call.kernel).bytes_in(call.machine, call.space, at, size - HOW_BYTES)?;
    if beyond.iter().any(|&byte| byte != 0) {
        return Err(Errno::E2BIG);
    }
    Ok(())
}

/// `openat2`: `openat` that says how far its path may lead. All is one device, and all is at hand.
pub(crate) fn openat2(call: &mut Call) -> Answer {
    const RESOLVE_ALL: u64 = 0x3f;
    let [directory, path, how, size, ..] = call.arguments;
    if size < HOW_BYTES {
        return Err(Errno::EINVAL.into());
    }
    check_nothing_beyond(call, how, size)?;
    let flags = call.read_u64(how)?;
    let mode = call.read_u64(how.wrapping_add(8))?;
    let resolve = call.read_u64(how.wrapping_add(16))?;
    let makes = flags & u64::from(O_CREAT | O_TMPFILE) != 0;
    let both = BENEATH | IN_ROOT;
    let names = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    let known = if flags & u64::from(O_PATH) == 0 {
        OPEN_ALL
    } else {
        names
    };
    if flags & !u64::from(known) != 0
        || resolve & !RESOLVE_ALL != 0
        || resolve & both == both
        || mode & !if makes { 0o7777 } else { 0 } != 0
    {
        return Err(Errno::EINVAL.into());
    }
    open_within(call, directory, path, flags as u32, mode, resolve)
}
