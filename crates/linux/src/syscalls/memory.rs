//! mmap and its kin, and the program break.

use super::memory_types::without_type;
use super::seals::SEAL_WRITE;
use super::{Answer, Call, Stop};
use crate::address_space::{Backing, LOWEST, Mapping, Purpose, SPACE_END};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::limits::{Resource, UNLIMITED};
use crate::machine::{MemoryType, PAGE_BYTES, SpaceId};
use crate::page_table::{EXECUTE, LOCKED, READ, WRITE, of_type};
use crate::vfs::descriptor::Object;
use crate::vfs::inode::Device;
use crate::vfs::{FileNode, Node};

const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
pub(crate) const MAP_SHARED_VALIDATE: u64 = 3;
pub(crate) const MAP_TYPE: u64 = 0xf;
pub(crate) const MAP_FIXED: u64 = 0x10;
pub(crate) const MAP_ANONYMOUS: u64 = 0x20;
const MAP_LOCKED: u64 = 0x2000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const MREMAP_MAYMOVE: u64 = 1;
const MREMAP_FIXED: u64 = 2;
const MREMAP_DONTUNMAP: u64 = 4;

/// Pages that `mincore` tells of before others can have a turn.
const STEP_PAGES: u64 = 1 << 16;

const MADV_DONTNEED: u64 = 4;
const MS_ASYNC: u64 = 1;
const MS_SYNC: u64 = 4;

fn round_up(length: u64) -> Option<u64> {
    Some(length.checked_add(PAGE_BYTES - 1)? & !(PAGE_BYTES - 1))
}

/// A page-aligned range inside user space.
fn range_of(address: u64, length: u64) -> Result<std::ops::Range<u64>, Errno> {
    if !address.is_multiple_of(PAGE_BYTES) {
        return Err(Errno::EINVAL);
    }
    let length = round_up(length).ok_or(Errno::EINVAL)?;
    let end = address
        .checked_add(length)
        .filter(|&end| end <= SPACE_END)
        .ok_or(Errno::EINVAL)?;
    Ok(address..end)
}

/// Permissions of a protection; like the hardware, writing implies reading.
fn permissions_of(protection: u64) -> Result<u64, Errno> {
    if protection & !0x0300_000f != 0 {
        return Err(Errno::EINVAL);
    }
    let mut permissions = 0;
    if protection & 1 != 0 {
        permissions |= READ;
    }
    if protection & 2 != 0 {
        permissions |= READ | WRITE;
    }
    if protection & 4 != 0 {
        permissions |= EXECUTE;
    }
    Ok(permissions)
}

/// `mmap`.
pub(crate) fn mmap(call: &mut Call) -> Answer {
    let [address, length, protection, flags, descriptor, offset] = call.arguments;
    let (flags, memory_type) = without_type(flags)?;
    let permissions = permissions_of(protection)? | of_type(memory_type);
    if length == 0 || offset % PAGE_BYTES != 0 {
        return Err(Errno::EINVAL.into());
    }
    let length = round_up(length)
        .filter(|&l| l <= SPACE_END)
        .ok_or(Errno::ENOMEM)?;
    let of_file = flags & MAP_ANONYMOUS == 0;
    let shared = match flags & MAP_TYPE {
        MAP_PRIVATE => false,
        MAP_SHARED => true,
        MAP_SHARED_VALIDATE if of_file => true,
        _ => return Err(Errno::EINVAL.into()),
    };
    let mut backing = Backing::Anonymous;
    let mut sync = 0;
    if of_file {
        let file = call.file(descriptor)?;
        sync = call.kernel.check_validated(flags, file.inode())?;
        if !file.readable() || shared && permissions & WRITE != 0 && !file.writable() {
            return Err(Errno::EACCES.into());
        }
        let Object::Inode(inode) = file.object else {
            return Err(Errno::ENODEV.into());
        };
        let whole = Backing::File {
            inode,
            offset,
            limit: u64::MAX,
        };
        match call.kernel.files.inode(inode)?.node {
            Node::File(_) => {
                if shared && permissions & WRITE != 0 {
                    call.check_seals(inode, SEAL_WRITE)?;
                }
                offset
                    .checked_add(length)
                    .filter(|&end| end < 1 << 62)
                    .ok_or(Errno::EOVERFLOW)?;
                backing = whole;
            }
            Node::Device(Device::Zero) => {}
            Node::Device(Device::Region { pages, device, .. }) => {
                let end = offset.checked_add(length);
                let typed = device && memory_type != MemoryType::WriteBack;
                if !shared || typed || end.is_none_or(|end| end > pages * PAGE_BYTES) {
                    return Err(Errno::EINVAL.into());
                }
                backing = whole;
            }
            _ => return Err(Errno::ENODEV.into()),
        }
    }
    let start = if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 {
        let range = range_of(address, length).map_err(|error| {
            if address % PAGE_BYTES == 0 {
                Errno::ENOMEM
            } else {
                error
            }
        })?;
        if address < LOWEST {
            return Err(Errno::EPERM.into());
        }
        if flags & MAP_FIXED_NOREPLACE != 0 && !call.kernel.spaces[call.space].is_free(&range) {
            return Err(Errno::EEXIST.into());
        }
        address
    } else {
        let wished = address & !(PAGE_BYTES - 1);
        let fits = range_of(wished, length)
            .is_ok_and(|range| call.kernel.spaces[call.space].is_free(&range));
        if wished >= LOWEST && fits {
            wished
        } else {
            call.kernel.spaces[call.space]
                .find_gap(length)
                .ok_or(Errno::ENOMEM)?
        }
    };
    let data = !shared && permissions & WRITE != 0;
    call.kernel
        .check_mapped(call.process, length, data, &(start..start + length))?;
    let locked = if flags & MAP_LOCKED != 0 {
        locked_limit(call).map(|_| LOCKED)?
    } else {
        call.kernel.future_lock(call.space)
    };
    call.check_locked(locked, length)?;
    if shared && backing == Backing::Anonymous {
        backing = shared_memory(call, length);
    }
    let mapping = Mapping {
        end: start + length,
        permissions: permissions | locked | sync,
        shared,
        backing,
        purpose: Purpose::Plain,
    };
    call.kernel.map(call.machine, call.space, start, mapping);
    Ok(start)
}

/// Memory that processes share: a file without a name, which goes with its last mapping.
pub(crate) fn shared_memory(call: &mut Call, length: u64) -> Backing {
    let file = FileNode {
        size: length,
        ..FileNode::default()
    };
    let now = call.now_ns();
    let inode = call.kernel.files.create(Node::File(file), 0o777, now);
    Backing::File {
        inode,
        offset: 0,
        limit: u64::MAX,
    }
}

/// `munmap`.
pub(crate) fn munmap(call: &mut Call) -> Answer {
    let [address, length, ..] = call.arguments;
    if length == 0 {
        return Err(Errno::EINVAL.into());
    }
    let range = range_of(address, length)?;
    call.kernel.unmap(call.machine, call.space, &range);
    Ok(0)
}

/// `mprotect`.
pub(crate) fn mprotect(call: &mut Call) -> Answer {
    let [address, length, protection, ..] = call.arguments;
    let permissions = permissions_of(protection)?;
    if address % PAGE_BYTES != 0 {
        return Err(Errno::EINVAL.into());
    }
    let range = range_of(address, length).map_err(|_| Errno::ENOMEM)?;
    if range.is_empty() {
        return Ok(0);
    }
    if !call.kernel.spaces[call.space].is_covered(&range) {
        return Err(Errno::ENOMEM.into());
    }
    if permissions & WRITE != 0 {
        call.kernel.check_data(call.process, &range)?;
    }
    call.kernel
        .protect(call.machine, call.space, &range, permissions);
    Ok(0)
}

/// `mremap`.
pub(crate) fn mremap(call: &mut Call) -> Answer {
    let [address, old_length, new_length, flags, new_address, _] = call.arguments;
    let old = range_of(address, old_length)?;
    let new_length = round_up(new_length)
        .filter(|&l| l > 0 && l < SPACE_END)
        .ok_or(Errno::EINVAL)?;
    let old_length = old.end - old.start;
    let stays = flags & MREMAP_DONTUNMAP != 0;
    if flags & !(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP) != 0
        || stays && (flags & MREMAP_MAYMOVE == 0 || old_length != new_length)
        || flags & MREMAP_FIXED != 0 && flags & MREMAP_MAYMOVE == 0
        || old_length == 0
    {
        return Err(Errno::EINVAL.into());
    }
    let (start, mapping) = match call.kernel.spaces[call.space].find(address) {
        Some((start, &mapping)) if mapping.end >= old.end => (start, mapping),
        _ => return Err(Errno::EFAULT.into()),
    };
    let more = if stays {
        new_length
    } else {
        new_length.saturating_sub(old_length)
    };
    let data = !mapping.shared && mapping.permissions & WRITE != 0;
    call.kernel
        .check_mapped(call.process, more, data, &(0..0))?;
    call.check_locked(mapping.permissions & LOCKED, more)?;
    let kernel = &mut *call.kernel;
    if flags & MREMAP_FIXED == 0 && !stays {
        if new_length <= old_length {
            kernel.unmap(call.machine, call.space, &(address + new_length..old.end));
            return Ok(address);
        }
        let room = old.end..address.saturating_add(new_length);
        if mapping.end == old.end
            && room.end <= SPACE_END
            && kernel.spaces[call.space].is_free(&room)
        {
            kernel.spaces[call.space].mappings.insert(
                start,
                Mapping {
                    end: room.end,
                    ..mapping
                },
            );
            return Ok(address);
        }
        if flags & MREMAP_MAYMOVE == 0 {
            return Err(Errno::ENOMEM.into());
        }
    }
    let target = if flags & MREMAP_FIXED != 0 {
        let range = range_of(new_address, new_length)?;
        if range.start < old.end && old.start < range.end || range.start < LOWEST {
            return Err(Errno::EINVAL.into());
        }
        kernel.unmap(call.machine, call.space, &range);
        new_address
    } else {
        kernel.spaces[call.space]
            .find_gap(new_length)
            .ok_or(Errno::ENOMEM)?
    };
    // Take the old mapping out, and its pages to the new place.
    let kept = old_length.min(new_length);
    if kept < old_length {
        kernel.unmap(call.machine, call.space, &(address + kept..old.end));
    }
    let Some((_, moved)) = kernel.spaces[call.space]
        .remove(&(address..address + kept))
        .into_iter()
        .next()
    else {
        return Err(Errno::EFAULT.into());
    };
    let mut leaves = Vec::new();
    let first = address / PAGE_BYTES;
    let pages = first..first + kept / PAGE_BYTES;
    kernel
        .spaces
        .update(call.space, pages.clone(), |page, leaf| {
            leaves.push((page - first, leaf));
            0
        });
    for (page, leaf) in leaves {
        kernel
            .spaces
            .set_leaf(call.space, target / PAGE_BYTES + page, leaf);
    }
    call.machine
        .mappings_changed(call.space, pages, moved.executable());
    kernel.spaces[call.space].insert(
        target,
        Mapping {
            end: target + new_length,
            ..moved
        },
    );
    if stays {
        // The pages are at the new place alone; the old one begins anew.
        kernel.spaces[call.space].insert(address, moved);
    }
    Ok(target)
}

/// `brk`.
pub(crate) fn brk(call: &mut Call) -> Answer {
    let wished = call.arguments[0];
    let space = &call.kernel.spaces[call.space];
    let (start, now) = (space.break_start, space.break_now);
    if wished < start || wished > SPACE_END {
        return Ok(now);
    }
    let old_end = now.next_multiple_of(PAGE_BYTES);
    let new_end = wished.next_multiple_of(PAGE_BYTES);
    if new_end > old_end {
        let more = new_end - old_end;
        let may = call.kernel.check_mapped(call.process, more, true, &(0..0));
        let locked = call.kernel.future_lock(call.space);
        let may = may.and_then(|()| call.check_locked(locked, more));
        if !space.is_free(&(old_end..new_end)) || may.is_err() {
            return Ok(now);
        }
        let mapping = Mapping {
            end: new_end,
            permissions: READ | WRITE | locked,
            shared: false,
            backing: Backing::Anonymous,
            purpose: Purpose::Heap,
        };
        call.kernel.spaces[call.space].insert(old_end, mapping);
    } else if new_end < old_end {
        call.kernel
            .unmap(call.machine, call.space, &(new_end..old_end));
    }
    call.kernel.spaces[call.space].break_now = wished;
    Ok(wished)
}

/// `madvise`. Only what changes content does anything.
pub(crate) fn madvise(call: &mut Call) -> Answer {
    let [address, length, advice, ..] = call.arguments;
    let range = range_of(address, length)?;
    if !matches!(advice, 0..=4 | 8..=25) {
        return Err(Errno::EINVAL.into());
    }
    if range.is_empty() {
        return Ok(0);
    }
    if !call.kernel.spaces[call.space].is_covered(&range) {
        return Err(Errno::ENOMEM.into());
    }
    if advice == MADV_DONTNEED {
        call.kernel.drop_pages(call.machine, call.space, &range);
    }
    Ok(0)
}

/// `mincore`.
pub(crate) fn mincore(call: &mut Call) -> Answer {
    let [address, length, vector, ..] = call.arguments;
    let range = range_of(address, length).map_err(|error| {
        if address % PAGE_BYTES == 0 {
            Errno::ENOMEM
        } else {
            error
        }
    })?;
    if !call.kernel.spaces[call.space].is_covered(&range) {
        return Err(Errno::ENOMEM.into());
    }
    // One byte for each page, in steps.
    let pages = crate::address_space::pages(&range);
    let done = call.transferred();
    let first = pages.start.saturating_add(done).min(pages.end);
    let last = first.saturating_add(STEP_PAGES).min(pages.end);
    let vector = vector.checked_add(done).ok_or(Errno::EFAULT)?;
    let resident: Vec<u8> = (first..last)
        .map(|page| u8::from(call.kernel.spaces.leaf(call.space, page) != 0))
        .collect();
    call.write(vector, &resident)?;
    if last < pages.end {
        call.set_transferred(last - pages.start);
        return Err(Stop::Again);
    }
    Ok(0)
}

/// `msync`. A synchronous one is durable before it returns.
pub(crate) fn msync(call: &mut Call) -> Answer {
    let [address, length, flags, ..] = call.arguments;
    let range = range_of(address, length)?;
    if flags & !7 != 0 || flags & (MS_ASYNC | MS_SYNC) == (MS_ASYNC | MS_SYNC) {
        return Err(Errno::EINVAL.into());
    }
    if !call.kernel.spaces[call.space].is_covered(&range) {
        return Err(Errno::ENOMEM.into());
    }
    let (machine, space) = (&mut *call.machine, call.space);
    if flags & MS_SYNC == 0 || call.kernel.synchronise_shown(machine, space, &range)? {
        Ok(0)
    } else {
        Err(Stop::Commit(0))
    }
}

impl Kernel {
    /// [`LOCKED`] if what will be mapped in a space is locked (`MCL_FUTURE`), else nothing.
    pub(crate) fn future_lock(&self, space: SpaceId) -> u64 {
        let locked = self.rare.future_locks.contains(&space);
        if locked { LOCKED } else { 0 }
    }
}

impl Call<'_> {
    /// Fails if the process may not have so many more bytes locked; `locked` says whether they will be.
    pub fn check_locked(&self, locked: u64, more: u64) -> Result<(), Errno> {
        let limit = self.process().limit(Resource::LockedBytes);
        if locked == 0 || limit == UNLIMITED {
            return Ok(());
        }
        let now = self.kernel.spaces[self.space].locked_bytes(&(0..SPACE_END));
        if now.saturating_add(more) > limit {
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }
}

/// The pages that `mlock` and its kin are about.
fn locked_range(call: &Call) -> Result<std::ops::Range<u64>, Errno> {
    let [address, length, ..] = call.arguments;
    let start = address & !(PAGE_BYTES - 1);
    let range = range_of(start, length.saturating_add(address - start))?;
    if call.kernel.spaces[call.space].is_covered(&range) {
        Ok(range)
    } else {
        Err(Errno::ENOMEM)
    }
}

/// The limit of an unprivileged process, which may lock nothing if that is 0.
fn locked_limit(call: &Call) -> Result<u64, Errno> {
    match call.process().limit(Resource::LockedBytes) {
        0 => Err(Errno::EPERM),
        limit => Ok(limit),
    }
}

/// `mlock`: nothing is ever paged out, so it only counts against the limit.
pub(crate) fn mlock(call: &mut Call) -> Answer {
    let limit = locked_limit(call)?;
    let range = locked_range(call)?;
    let space = &mut call.kernel.spaces[call.space];
    let new = (range.end - range.start) - space.locked_bytes(&range);
    if space.locked_bytes(&(0..SPACE_END)) + new > limit {
        return Err(Errno::ENOMEM.into());
    }
    space.set_locked(&range, true);
    Ok(0)
}

/// `mlock2`: pages count whether they are there or not, so that `MLOCK_ONFAULT` changes nothing.
pub(crate) fn mlock2(call: &mut Call) -> Answer {
    const MLOCK_ONFAULT: u64 = 1;
    if call.arguments[2] & !MLOCK_ONFAULT != 0 {
        return Err(Errno::EINVAL.into());
    }
    mlock(call)
}

/// `munlock`.
pub(crate) fn munlock(call: &mut Call) -> Answer {
    let range = locked_range(call)?;
    call.kernel.spaces[call.space].set_locked(&range, false);
    Ok(0)
}

/// `mlockall`: what is mapped now, and what will be.
pub(crate) fn mlockall(call: &mut Call) -> Answer {
    const MCL_CURRENT: u64 = 1;
    const MCL_FUTURE: u64 = 2;
    const MCL_ONFAULT: u64 = 4;
    let flags = call.arguments[0];
    if flags & !(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0 || flags & !MCL_ONFAULT == 0 {
        return Err(Errno::EINVAL.into());
    }
    let limit = locked_limit(call)?;
    let space = &mut call.kernel.spaces[call.space];
    if flags & MCL_CURRENT != 0 {
        if space.counted_bytes(&(0..SPACE_END)).0 > limit {
            return Err(Errno::ENOMEM.into());
        }
        space.set_locked(&(0..SPACE_END), true);
    }
    let future = &mut call.kernel.rare.future_locks;
    if flags & MCL_FUTURE != 0 {
        future.insert(call.space);
    } else {
        future.remove(&call.space);
    }
    Ok(0)
}

/// `munlockall`.
pub(crate) fn munlockall(call: &mut Call) -> Answer {
    call.kernel.spaces[call.space].set_locked(&(0..SPACE_END), false);
    call.kernel.rare.future_locks.remove(&call.space);
    Ok(0)
}

/// `riscv_flush_icache`.
pub(crate) fn flush_instruction_cache(call: &mut Call) -> Answer {
    let [start, end, flags, ..] = call.arguments;
    if flags & !1 != 0 {
        return Err(Errno::EINVAL.into());
    }
    let pages = start / PAGE_BYTES..end.div_ceil(PAGE_BYTES).min(SPACE_END / PAGE_BYTES);
    if !pages.is_empty() {
        call.machine.mappings_changed(call.space, pages, true);
        call.machine.code_written();
    }
    Ok(0)
}
