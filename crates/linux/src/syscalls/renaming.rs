//! `renameat2`: moving names, replacing what has them, and exchanging two.
//!
//! Always true: everything that can refuse is asked before anything changes.

use super::{Answer, Call};
use crate::errno::Errno;
use crate::vfs::inode::InodeId;
use crate::vfs::path::Place;
use crate::vfs::watch::{IN_ATTRIB, IN_MOVE_SELF, IN_MOVED_FROM, IN_MOVED_TO};

const RENAME_NOREPLACE: u64 = 1;
const RENAME_EXCHANGE: u64 = 2;

/// `renameat2`. Like an overlay file system, a directory that the host provides does not move
/// (EXDEV); programs then copy.
pub(crate) fn renameat2(call: &mut Call) -> Answer {
    let [old_directory, old, new_directory, new, flags, _] = call.arguments;
    if !matches!(flags, 0 | RENAME_NOREPLACE | RENAME_EXCHANGE) {
        return Err(Errno::EINVAL.into());
    }
    let old = call.string(old)?;
    let new = call.string(new)?;
    let from = call.walk(old_directory, &old, false)?;
    let to = call.walk(new_directory, &new, false)?;
    let special = |place: &Place| matches!(place.name.as_str(), "." | "..");
    let inode = from.inode.ok_or(Errno::ENOENT)?;
    let mut moved = [Some(inode), to.inode].into_iter().flatten();
    if special(&from) || special(&to) || moved.any(|moved| call.is_mounted(moved)) {
        return Err(Errno::EBUSY.into());
    }
    call.check_moving(from.directory, to.directory)?;
    // What stands there afterwards; of an exchange, what stands there now.
    let named = to
        .inode
        .filter(|_| flags == RENAME_EXCHANGE)
        .unwrap_or(inode);
    if to.wants_directory && !call.kernel.files.inode(named)?.is_directory() {
        return Err(Errno::ENOTDIR.into());
    }
    if flags == RENAME_NOREPLACE && to.inode.is_some() {
        return Err(Errno::EEXIST.into());
    }
    if call.kernel.files.is_below(to.directory, inode) {
        return Err(Errno::EINVAL.into());
    }
    match to.inode {
        None if flags == RENAME_EXCHANGE => return Err(Errno::ENOENT.into()),
        Some(other) if other == inode => return Ok(0),
        Some(other) if flags == RENAME_EXCHANGE => exchange(call, (&from, inode), (&to, other))?,
        replaced => replace(call, (&from, inode), &to, replaced)?,
    }
    call.directory_changed(from.directory);
    call.directory_changed(to.directory);
    Ok(0)
}

/// Two names change their places.
fn exchange(
    call: &mut Call,
    (from, inode): (&Place, InodeId),
    (to, other): (&Place, InodeId),
) -> Result<(), Errno> {
    if call.kernel.files.is_below(from.directory, other) {
        return Err(Errno::EINVAL);
    }
    call.check_place(from, inode, to)?;
    call.check_place(to, other, from)?;
    let cookie = call.kernel.next_cookie();
    call.tell_moved(from, to, inode, cookie);
    call.kernel.notify_inode(inode, IN_MOVE_SELF);
    let cookie = call.kernel.next_cookie();
    call.tell_moved(to, from, other, cookie);
    call.kernel.notify_inode(other, IN_MOVE_SELF);
    let kernel = &mut *call.kernel;
    (kernel.files).leave(&kernel.host, from.directory, &from.name)?;
    (kernel.files).leave(&kernel.host, to.directory, &to.name)?;
    call.put(to, inode)?;
    call.put(from, other)
}

/// A name moves, and takes the place of what had the other one.
fn replace(
    call: &mut Call,
    (from, inode): (&Place, InodeId),
    to: &Place,
    replaced: Option<InodeId>,
) -> Result<(), Errno> {
    let moves_directory = call.kernel.files.inode(inode)?.is_directory();
    if let Some(replaced) = replaced {
        if call.kernel.files.is_below(from.directory, replaced) {
            return Err(Errno::ENOTEMPTY);
        }
        let replaces_directory = call.kernel.files.inode(replaced)?.is_directory();
        match (moves_directory, replaces_directory) {
            (false, true) => return Err(Errno::EISDIR),
            (true, false) => return Err(Errno::ENOTDIR),
            (true, true) if !call.is_empty(replaced)? => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
    }
    call.check_place(from, inode, to)?;
    let cookie = call.kernel.next_cookie();
    call.tell_moved(from, to, inode, cookie);
    if let Some(replaced) = replaced {
        call.kernel.notify_inode(replaced, IN_ATTRIB);
    }
    call.kernel.notify_inode(inode, IN_MOVE_SELF);
    if let Some(replaced) = replaced {
        call.remove_name(to, replaced, true)?;
    }
    let kernel = &mut *call.kernel;
    (kernel.files).leave(&kernel.host, from.directory, &from.name)?;
    call.put(to, inode)
}

impl Call<'_> {
    /// Fails if what stands at a place cannot stand at another: the host's directories stay where they
    /// are, and paths have a longest length.
    fn check_place(&self, from: &Place, inode: InodeId, to: &Place) -> Result<(), Errno> {
        let files = &self.kernel.files;
        if (files.directory(inode)).is_ok_and(|node| node.host.is_some()) {
            return Err(Errno::EXDEV);
        }
        let path_bytes = |place: &Place| files.path_bytes(place.directory) + place.name.len();
        if path_bytes(to) > path_bytes(from) {
            let below = files.longest_path_below(inode);
            files.check_path_bytes(to.directory, &to.name, below)?;
        }
        Ok(())
    }

    /// Who watches the directories is told of a name that moves.
    fn tell_moved(&mut self, from: &Place, to: &Place, inode: InodeId, cookie: u32) {
        let kernel = &mut *self.kernel;
        kernel.notify_name(from.directory, &from.name, inode, IN_MOVED_FROM, cookie);
        kernel.notify_name(to.directory, &to.name, inode, IN_MOVED_TO, cookie);
    }

    /// Gives an inode that has moved its name.
    fn put(&mut self, to: &Place, inode: InodeId) -> Result<(), Errno> {
        let kernel = &mut *self.kernel;
        let replaces = (kernel.files).stands_on_host(&kernel.host, to.directory, &to.name);
        kernel.files.enter(to.directory, &to.name, inode)?;
        if let Ok(directory) = kernel.files.directory_mut(inode) {
            directory.replaces_host = replaces;
        }
        let now = self.now_ns();
        self.kernel.files.inode_mut(inode)?.changed_ns = now;
        Ok(())
    }
}
