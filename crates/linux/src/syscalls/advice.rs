//! `madvise`. Advice that the content of memory depends on is followed; of the rest, what Linux refuses is.

use std::ops::Range;

use super::lengths::zero_range;
use super::memory::range_of;
use super::{Answer, Call};
use crate::address_space::{Backing, Mapping};
use crate::errno::Errno;
use crate::machine::PAGE_BYTES;
use crate::page_table::{LOCKED, NOT_FORKED, READ, WIPED, WRITE};

const DONTNEED: u64 = 4;
const FREE: u64 = 8;
const REMOVE: u64 = 9;
const DONTFORK: u64 = 10;
const DOFORK: u64 = 11;
const WIPEONFORK: u64 = 18;
const KEEPONFORK: u64 = 19;
const POPULATE_READ: u64 = 22;
const POPULATE_WRITE: u64 = 23;
const DONTNEED_LOCKED: u64 = 24;

/// `madvise`: of what is mapped in the range, mapping by mapping, and an error where nothing is.
pub(crate) fn madvise(call: &mut Call) -> Answer {
    let [address, length, advice, ..] = call.arguments;
    let range = range_of(address, length)?;
    if !matches!(advice, 0..=4 | 8..=25) {
        return Err(Errno::EINVAL.into());
    }
    if range.is_empty() {
        return Ok(0);
    }
    let space = &call.kernel.spaces[call.space];
    let is_covered = space.is_covered(&range);
    let parts: Vec<_> = space.parts(&range).collect();
    for (part, mapping) in parts.into_iter().rev() {
        follow(call, advice, &part, &mapping)?;
    }
    if is_covered {
        Ok(0)
    } else {
        Err(Errno::ENOMEM.into())
    }
}

/// Follows advice on a part of memory, as a mapping that begins with it.
fn follow(call: &mut Call, advice: u64, part: &Range<u64>, mapping: &Mapping) -> Result<(), Errno> {
    let is_locked = mapping.permissions & LOCKED != 0;
    let is_anonymous = !mapping.shared && mapping.backing == Backing::Anonymous;
    let space = call.space;
    match advice {
        DONTNEED | REMOVE if is_locked => return Err(Errno::EINVAL),
        FREE | WIPEONFORK if !is_anonymous => return Err(Errno::EINVAL),
        POPULATE_READ => check_pages(call, part.end - part.start, mapping, READ)?,
        POPULATE_WRITE => check_pages(call, part.end - part.start, mapping, WRITE)?,
        DONTNEED | DONTNEED_LOCKED => call.kernel.drop_pages(call.machine, space, part),
        REMOVE => remove(call, part.end - part.start, mapping)?,
        DONTFORK | DOFORK => {
            call.kernel.spaces[space].mark(part, NOT_FORKED, advice == DONTFORK);
        }
        WIPEONFORK | KEEPONFORK => {
            call.kernel.spaces[space].mark(part, WIPED, advice == WIPEONFORK);
        }
        _ => {}
    }
    Ok(())
}

/// Fails if a page of a mapping could not be read or written at once. It becomes one when it is.
fn check_pages(call: &Call, length: u64, mapping: &Mapping, right: u64) -> Result<(), Errno> {
    if mapping.permissions & right == 0 {
        return Err(Errno::EINVAL);
    }
    let Backing::File { inode, offset, .. } = mapping.backing else {
        return Ok(());
    };
    let size = call
        .kernel
        .files
        .file(inode)
        .map_or(u64::MAX, |file| file.size);
    if offset.saturating_add(length) > size.next_multiple_of(PAGE_BYTES) {
        return Err(Errno::EFAULT);
    }
    Ok(())
}

/// Makes a hole in the file that a mapping shows from its beginning.
fn remove(call: &mut Call, length: u64, mapping: &Mapping) -> Result<(), Errno> {
    let Backing::File { inode, offset, .. } = mapping.backing else {
        return Err(Errno::EINVAL);
    };
    if !mapping.shared || !mapping.may_be_written() {
        return Err(Errno::EACCES);
    }
    let size = (call.kernel.files.file(inode).map_err(|_| Errno::EINVAL)?).size;
    zero_range(call, inode, offset, offset.saturating_add(length).min(size))
}
