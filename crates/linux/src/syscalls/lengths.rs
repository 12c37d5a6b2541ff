//! How long a file is, where in it data stands, and that it is durable.
//!
//! Always true: no space is reserved but in pools; what is not written is zero and takes none.

use std::ops::Range;

use super::names::{AT_FDCWD, notify_changed};
use super::seals::SEAL_WRITE;
use super::transfer::{STEP_BYTES, Target, target};
use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::PAGE_BYTES;
use crate::vfs::descriptor::{O_APPEND, O_DSYNC, Object};
use crate::vfs::inode::{Device, InodeId, Node};
use crate::vfs::watch::IN_MODIFY;

/// Pages that `fallocate` gives a pool before others can have a turn.
const STEP_PAGES: u64 = 256;

/// `lseek`.
pub(crate) fn lseek(call: &mut Call) -> Answer {
    let [number, offset, whence, ..] = call.arguments;
    let file = call.usable(number)?;
    let (size, inode) = match &file.object {
        Object::Text { text, .. } => (text.len() as u64, None),
        Object::Inode(inode) => match &call.kernel.files.inode(*inode)?.node {
            Node::File(node) => (node.size, Some(*inode)),
            Node::Directory(_) | Node::DescriptorDirectory => (i64::MAX as u64, None),
            Node::Device(
                Device::StandardInput | Device::StandardOutput | Device::StandardError,
            )
            | Node::Namespace(_) => return Err(Errno::ESPIPE.into()),
            _ => return Ok(0),
        },
        object if object.has_no_place() => {
            return if whence as u32 <= 4 {
                Ok(0)
            } else {
                Err(Errno::EINVAL.into())
            };
        }
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
    let file = call.usable(number)?;
    let Object::Inode(inode) = file.object else {
        return Err(Errno::EINVAL.into());
    };
    if !file.writable() || (size as i64) < 0 {
        return Err(Errno::EINVAL.into());
    }
    call.kernel.files.file(inode).map_err(|_| Errno::EINVAL)?;
    call.check_size_seals(inode, size)?;
    set_length(call, inode, size)
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
    set_length(call, inode, size)
}

/// Cuts a file off, or makes it longer, for whoever may.
fn set_length(call: &mut Call, inode: InodeId, size: u64) -> Answer {
    let old = call.kernel.files.file(inode)?.size;
    call.check_file_bytes(old, size)?;
    call.kernel.truncate_file(call.machine, inode, size)?;
    notify_changed(call, inode, IN_MODIFY);
    Ok(0)
}

/// `fallocate`: only of pools is space reserved; sizes grow and holes are punched.
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
        0 | KEEP_SIZE => {
            if call.kernel.is_pool(inode) {
                allocate(call, inode, offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES))?;
            }
        }
        m if m == PUNCH_HOLE | KEEP_SIZE || m & !KEEP_SIZE == ZERO_RANGE => {
            zero_range(call, inode, offset, end.min(size))?;
        }
        _ => return Err(Errno::EOPNOTSUPP.into()),
    }
    if mode & KEEP_SIZE == 0 && end > size {
        call.kernel.truncate_file(call.machine, inode, end)?;
    }
    notify_changed(call, inode, IN_MODIFY);
    Ok(0)
}

/// Gives a pool all pages of a range, in steps; nothing is done if there are not enough.
fn allocate(call: &mut Call, inode: InodeId, pages: Range<u64>) -> Result<(), Stop> {
    let done = call.transferred();
    if done == 0 {
        call.kernel.check_pages_left(inode, &pages)?;
    }
    let first = pages.start + done;
    let last = first.saturating_add(STEP_PAGES).min(pages.end);
    for page in first..last {
        call.kernel.hold_page(call.machine, inode, page, false)?;
    }
    if last < pages.end {
        call.set_transferred(last - pages.start);
        return Err(Stop::Again);
    }
    Ok(())
}

/// Makes a range zero: pages that hold something, or that the host fills, are overwritten.
pub(super) fn zero_range(call: &mut Call, inode: InodeId, from: u64, to: u64) -> Result<(), Errno> {
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
    let inode = match call.usable(call.arguments[0])?.object {
        Object::Inode(inode) => inode,
        Object::Text { .. } => return Err(Stop::Commit(0)),
        _ => return Err(Errno::EINVAL.into()),
    };
    call.synchronised(inode, 0..u64::MAX, 0)
}

impl Call<'_> {
    /// The pages of a file that a write of so many bytes has reached, to a position or to where the open file
    /// was.
    fn written_pages(
        &self,
        number: u64,
        inode: InodeId,
        (position, count): (Option<u64>, u64),
    ) -> Result<Range<u64>, Errno> {
        let file = self.file(number)?;
        let appends = file.flags & O_APPEND != 0;
        let end = match position {
            _ if appends => self.kernel.files.file(inode)?.size,
            Some(at) => at.saturating_add(count),
            None => file.offset,
        };
        // Of several steps, others may have written between.
        let is_one = position.is_some() && !appends || count <= STEP_BYTES;
        let start = if is_one { end.saturating_sub(count) } else { 0 };
        Ok(start / PAGE_BYTES..end.div_ceil(PAGE_BYTES))
    }

    /// The answer to a call when these pages of a file are durable.
    fn synchronised(&mut self, inode: InodeId, pages: Range<u64>, answer: u64) -> Answer {
        if (self.kernel).synchronise_pool(self.machine, inode, pages)? {
            Ok(answer)
        } else {
            Err(Stop::Commit(answer))
        }
    }
}

/// What a write of so many bytes to a position, or to where the open file was, answers: when the pages that
/// it wrote to are durable, if that is `wished` or the file was opened so.
pub(crate) fn made_durable(
    call: &mut Call,
    number: u64,
    (position, wished): (Option<u64>, bool),
    count: u64,
) -> Answer {
    let wished = count > 0 && (wished || call.file(number)?.flags & O_DSYNC != 0);
    if wished && let Target::File(inode) = target(call, number)? {
        let pages = call.written_pages(number, inode, (position, count))?;
        return call.synchronised(inode, pages, count);
    }
    Ok(count)
}

/// `sync`.
pub(crate) fn sync(call: &mut Call) -> Answer {
    call.kernel.synchronise_pools(call.machine)?;
    Err(Stop::Commit(0))
}

/// `syncfs`.
pub(crate) fn syncfs(call: &mut Call) -> Answer {
    let inode = call.usable(call.arguments[0])?.inode();
    if inode.is_some_and(|inode| call.kernel.is_pool(inode)) {
        call.kernel.synchronise_pools(call.machine)?;
        return Ok(0);
    }
    fsync(call)
}

/// `fadvise64`: advice about a file that exists, which nothing follows.
pub(crate) fn fadvise64(call: &mut Call) -> Answer {
    const ADVICE_MAX: u64 = 5;
    let [number, _, length, advice, ..] = call.arguments;
    let object = &call.usable(number)?.object;
    if matches!(
        object,
        Object::PipeReader(_) | Object::PipeWriter(_) | Object::Fifo { .. }
    ) {
        return Err(Errno::ESPIPE.into());
    }
    if advice > ADVICE_MAX || (length as i64).is_negative() {
        return Err(Errno::EINVAL.into());
    }
    Ok(0)
}

/// `readahead`: of what can be read, a file.
pub(crate) fn readahead(call: &mut Call) -> Answer {
    let file = call.usable(call.arguments[0])?;
    if !file.readable() {
        return Err(Errno::EBADF.into());
    }
    let is_file = match file.object {
        Object::Inode(inode) => call.kernel.files.file(inode).is_ok(),
        Object::Text { .. } => true,
        _ => false,
    };
    if is_file {
        Ok(0)
    } else {
        Err(Errno::EINVAL.into())
    }
}

/// `sync_file_range`: starts or awaits no more than the machine does by itself.
pub(crate) fn sync_file_range(call: &mut Call) -> Answer {
    const HOW: u64 = 7;
    let [number, offset, length, flags, ..] = call.arguments;
    let object = &call.usable(number)?.object;
    let end = (offset as i64).checked_add(length as i64);
    let is_range = offset as i64 >= 0 && end.is_some_and(|end| end >= offset as i64);
    if flags & !HOW != 0 || !is_range {
        return Err(Errno::EINVAL.into());
    }
    match object {
        Object::Inode(inode) if call.kernel.files.device(*inode).is_some() => {
            Err(Errno::ESPIPE.into())
        }
        Object::Inode(_) | Object::Text { .. } => Ok(0),
        _ => Err(Errno::ESPIPE.into()),
    }
}
