//! `inotify`: asking to be told of what happens to files, and reading it.

use super::names::AT_FDCWD;
use super::transfer::{Pieces, scatter};
use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::vfs::descriptor::{O_CLOEXEC, O_NONBLOCK, Object, OpenFile};
use crate::vfs::watch::{IN_ALL_EVENTS, WATCHERS_MAX, WATCHES_MAX, Watch, Watcher};

const IN_ONLYDIR: u32 = 0x0100_0000;
const IN_DONT_FOLLOW: u32 = 0x0200_0000;
const IN_EXCL_UNLINK: u32 = 0x0400_0000;
const IN_MASK_CREATE: u32 = 0x1000_0000;
const IN_MASK_ADD: u32 = 0x2000_0000;
const IN_ONESHOT: u32 = 0x8000_0000;

/// `inotify_init1`.
pub(crate) fn inotify_init1(call: &mut Call) -> Answer {
    let flags = call.arguments[0] as u32;
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let watchers = &mut call.kernel.open.watching.watchers;
    if watchers.iter().count() >= WATCHERS_MAX {
        return Err(Errno::EMFILE.into());
    }
    let id = watchers.insert(Watcher::default());
    let name = "anon_inode:inotify".to_owned();
    let file = OpenFile::new(Object::Watcher(id), flags & O_NONBLOCK, name);
    call.open_made(file, flags & O_CLOEXEC != 0, |kernel| {
        kernel.open.watching.watchers.remove(id);
    })
}

fn watcher_of(call: &Call, number: u64) -> Result<u32, Errno> {
    match call.file(number)?.object {
        Object::Watcher(id) => Ok(id),
        _ => Err(Errno::EINVAL),
    }
}

/// `inotify_add_watch`.
pub(crate) fn inotify_add_watch(call: &mut Call) -> Answer {
    const KNOWN: u32 = IN_ALL_EVENTS
        | IN_ONLYDIR
        | IN_DONT_FOLLOW
        | IN_EXCL_UNLINK
        | IN_MASK_CREATE
        | IN_MASK_ADD
        | IN_ONESHOT;
    let [number, path, mask, ..] = call.arguments;
    let mask = mask as u32;
    let both = IN_MASK_ADD | IN_MASK_CREATE;
    if mask & KNOWN == 0 || mask & both == both {
        return Err(Errno::EINVAL.into());
    }
    let id = watcher_of(call, number)?;
    let path = call.string(path)?;
    let inode = call.find(AT_FDCWD as u64, &path, mask & IN_DONT_FOLLOW == 0)?;
    let node = call.kernel.files.inode(inode)?;
    if mask & IN_ONLYDIR != 0 && !node.is_directory() {
        return Err(Errno::ENOTDIR.into());
    }
    if node.mode & 0o400 == 0 {
        return Err(Errno::EACCES.into());
    }
    let watching = &mut call.kernel.open.watching;
    let all: usize = watching.watchers.iter().map(|(_, w)| w.watches.len()).sum();
    let watcher = watching.watchers.get_mut(id).ok_or(Errno::EBADF)?;
    let kept = mask & (IN_ALL_EVENTS | IN_EXCL_UNLINK | IN_ONESHOT);
    let mut watches = watcher.watches.iter_mut();
    if let Some((&number, watch)) = watches.find(|(_, watch)| watch.inode == inode) {
        if mask & IN_MASK_CREATE != 0 {
            return Err(Errno::EEXIST.into());
        }
        let before = if mask & IN_MASK_ADD != 0 {
            watch.mask
        } else {
            0
        };
        watch.mask = before | kept;
        return Ok(u64::from(number));
    }
    if all >= WATCHES_MAX || watcher.last >= i32::MAX as u32 {
        return Err(Errno::ENOSPC.into());
    }
    watcher.last += 1;
    let watch = Watch { inode, mask: kept };
    watcher.watches.insert(watcher.last, watch);
    Ok(u64::from(watcher.last))
}

/// `inotify_rm_watch`.
pub(crate) fn inotify_rm_watch(call: &mut Call) -> Answer {
    let [number, watch, ..] = call.arguments;
    let id = watcher_of(call, number)?;
    let watcher = call.kernel.open.watching.watchers.get_mut(id);
    if !watcher.ok_or(Errno::EBADF)?.forget(watch as u32) {
        return Err(Errno::EINVAL.into());
    }
    call.kernel.wake_all_file_waiters();
    Ok(0)
}

/// Reading what happened: as many whole events as fit.
pub(crate) fn read_events(
    call: &mut Call,
    id: u32,
    pieces: &Pieces,
    wanted: u64,
    nonblocking: bool,
) -> Answer {
    let watcher = call
        .kernel
        .open
        .watching
        .watchers
        .get(id)
        .ok_or(Errno::EBADF)?;
    let mut bytes = Vec::new();
    let mut count = 0;
    for event in &watcher.events {
        let next = event.to_bytes();
        if (bytes.len() + next.len()) as u64 > wanted {
            break;
        }
        bytes.extend(next);
        count += 1;
    }
    if count == 0 {
        return Err(match (watcher.events.is_empty(), nonblocking) {
            (false, _) => Errno::EINVAL.into(),
            (true, true) => Errno::EAGAIN.into(),
            (true, false) => Stop::for_files(),
        });
    }
    scatter(call, pieces, &bytes)?;
    if let Some(watcher) = call.kernel.open.watching.watchers.get_mut(id) {
        watcher.events.drain(..count);
        watcher.activity += 1;
    }
    Ok(bytes.len() as u64)
}
