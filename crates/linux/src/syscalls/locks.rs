//! Locks on files (`flock`) and on ranges of them (`fcntl`).

use super::{Answer, Call, Stop, put, put_half};
use crate::errno::Errno;
use crate::vfs::descriptor::Lock;
use crate::vfs::locks::{self, LockOwner, RecordLock};

/// `F_GETLK` (5), `F_SETLK` (6), `F_SETLKW` (7): of the process, or of the open file.
pub(crate) fn record_lock(
    call: &mut Call,
    number: u64,
    command: u64,
    address: u64,
    of_file: bool,
) -> Answer {
    const F_UNLCK: u32 = 2;
    let head = call.read_u32(address)?;
    let start = call.read_u64(address.wrapping_add(8))? as i64;
    let length = call.read_u64(address.wrapping_add(16))? as i64;
    let (kind, whence) = (head & 0xffff, head >> 16);
    // The number of a process has no place in a lock of an open file.
    if of_file && call.read_u32(address.wrapping_add(24))? != 0 {
        return Err(Errno::EINVAL.into());
    }
    let index = call.descriptor(number)?.file;
    let owner = if of_file {
        LockOwner::open_file(index)
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
    let inode = file.lock_name(index);
    let base = match whence {
        0 => 0,
        1 => file.offset as i64,
        _ => (call.kernel.files.inode(inode)).map_or(0, |inode| inode.size() as i64),
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
    // As on Linux, who changes a lock gives up the one that it has before it asks for the other: of two
    // that share a file and want it for themselves, one gets it.
    let held = call.usable(number)?.lock;
    if held != Lock::None && wished != Lock::None && held != wished {
        call.file_mut(number)?.lock = Lock::None;
        call.kernel.wake_all_file_waiters();
    }
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
