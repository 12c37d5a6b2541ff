//! Who may do what with a file: modes, owners and times.
//!
//! Always true: everything belongs to the one user, whose part of the mode is what counts.

use super::names::{AT_HOW, Named, check_flags, notify_changed};
use super::seals::SEAL_EXECUTE;
use super::{Answer, Call};
use crate::errno::Errno;
use crate::process::USER_ID;
use crate::vfs::inode::{InodeId, Node, S_IFLNK};
use crate::vfs::watch::{IN_ACCESS, IN_ATTRIB, IN_MODIFY};

fn change_mode(call: &mut Call, inode: InodeId, mode: u64) -> Answer {
    const EXECUTE: u32 = 0o111;
    let old = call.kernel.files.inode(inode)?.mode;
    if (old ^ mode as u32) & EXECUTE != 0 {
        call.check_seals(inode, SEAL_EXECUTE)?;
    }
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
    match call.usable(number)?.inode() {
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

/// `fchmodat2`: a link has no permissions of its own.
pub(crate) fn fchmodat2(call: &mut Call) -> Answer {
    let [directory, path, mode, flags, ..] = call.arguments;
    check_flags(flags, AT_HOW)?;
    let inode = match call.find_with_flags(directory, path, flags)? {
        Named::Inode(inode) => inode,
        Named::Descriptor(number) => match call.file(number)?.inode() {
            Some(inode) => inode,
            None => return Ok(0),
        },
        Named::Link(_) => return Err(Errno::EOPNOTSUPP.into()),
    };
    match call.kernel.files.inode(inode)?.type_bits() {
        S_IFLNK => Err(Errno::EOPNOTSUPP.into()),
        _ => change_mode(call, inode, mode),
    }
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
    call.usable(number)?;
    check_owner(user, group)
}

/// `fchownat`.
pub(crate) fn fchownat(call: &mut Call) -> Answer {
    let [directory, path, user, group, flags, _] = call.arguments;
    check_flags(flags, AT_HOW)?;
    call.find_with_flags(directory, path, flags)?;
    check_owner(user, group)
}

/// `utimensat`. Who changes neither time is not asked of what.
pub(crate) fn utimensat(call: &mut Call) -> Answer {
    let [directory, path, times, flags, ..] = call.arguments;
    check_flags(flags, AT_HOW)?;
    let inode = timed(call, directory, path, flags);
    let now = call.now_ns();
    let new = match times {
        0 => [Some(now); 2],
        at => [
            time_at(call, at, now)?,
            time_at(call, at.wrapping_add(16), now)?,
        ],
    };
    if new == [None; 2] {
        return Ok(0);
    }
    let inode = inode?;
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

/// The inode whose times change.
fn timed(call: &mut Call, directory: u64, path: u64, flags: u64) -> Result<InodeId, Errno> {
    if path == 0 {
        return call.usable(directory)?.inode().ok_or(Errno::EINVAL);
    }
    match call.find_with_flags(directory, path, flags)? {
        Named::Inode(inode) => Ok(inode),
        Named::Descriptor(number) => call.file(number)?.inode().ok_or(Errno::EINVAL),
        Named::Link(_) => Err(Errno::EPERM),
    }
}

/// A new time of a file; `None` if it stays as it is.
fn time_at(call: &mut Call, at: u64, now_ns: u64) -> Result<Option<u64>, Errno> {
    const UTIME_NOW: u64 = 0x3fff_ffff;
    const UTIME_OMIT: u64 = 0x3fff_fffe;
    Ok(match call.read_u64(at.wrapping_add(8))? {
        UTIME_NOW => Some(now_ns),
        UTIME_OMIT => None,
        _ => Some(call.duration_at(at)?),
    })
}

/// `faccessat` and `faccessat2`.
pub(crate) fn faccessat(call: &mut Call) -> Answer {
    let [directory, path, mode, ..] = call.arguments;
    access(call, directory, path, mode, 0)
}

/// `faccessat2`.
pub(crate) fn faccessat2(call: &mut Call) -> Answer {
    const AT_EACCESS: u64 = 0x200;
    let [directory, path, mode, flags, ..] = call.arguments;
    check_flags(flags, AT_HOW | AT_EACCESS)?;
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
