//! mmap and its kin, and the program break.

use std::ops::Range;

use super::locked_memory::locked_limit;
use super::memory_types::without_type;
use super::seals::SEAL_WRITE;
use super::{Answer, Call, Stop};
use crate::address_space::{
    AddressSpace, Backing, LOWEST, Mapping, Purpose, SPACE_END, later_written,
};
use crate::errno::Errno;
use crate::machine::{MemoryType, PAGE_BYTES};
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

const MS_ASYNC: u64 = 1;
const MS_SYNC: u64 = 4;

fn round_up(length: u64) -> Option<u64> {
    Some(length.checked_add(PAGE_BYTES - 1)? & !(PAGE_BYTES - 1))
}

/// A page-aligned range inside user space.
pub(super) fn range_of(address: u64, length: u64) -> Result<std::ops::Range<u64>, Errno> {
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

/// What is wrong with a mapping is looked for in this order.
fn check_mapped(
    call: &Call,
    descriptor: Option<u64>,
    (offset, length): (u64, u64),
) -> Result<(), Errno> {
    if offset % PAGE_BYTES != 0 {
        return Err(Errno::EINVAL);
    }
    if let Some(number) = descriptor {
        call.usable(number)?;
    }
    if length == 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `mmap`.
pub(crate) fn mmap(call: &mut Call) -> Answer {
    let [address, length, protection, flags, descriptor, offset] = call.arguments;
    let (flags, memory_type) = without_type(flags)?;
    let permissions = permissions_of(protection)? | of_type(memory_type);
    let of_file = flags & MAP_ANONYMOUS == 0;
    check_mapped(call, of_file.then_some(descriptor), (offset, length))?;
    let length = round_up(length)
        .filter(|&l| l <= SPACE_END)
        .ok_or(Errno::ENOMEM)?;
    let shared = match flags & MAP_TYPE {
        MAP_PRIVATE => false,
        MAP_SHARED => true,
        MAP_SHARED_VALIDATE if of_file => true,
        _ => return Err(Errno::EINVAL.into()),
    };
    let writes = permissions & WRITE != 0;
    let (mut backing, mut sync, mut may_write) = (Backing::Anonymous, 0, true);
    if of_file {
        let inode = call.file(descriptor)?.inode();
        sync = call.kernel.check_validated(flags, inode)?;
        let typed = memory_type != MemoryType::WriteBack;
        (backing, may_write) =
            file_backing(call, descriptor, (offset, length), (shared, writes), typed)?;
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
    let data = !shared && writes;
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
    let later = if shared && may_write {
        later_written(permissions)
    } else {
        0
    };
    let mapping = Mapping {
        end: start + length,
        permissions: permissions | locked | sync | later,
        shared,
        backing,
        purpose: Purpose::Plain,
    };
    call.kernel.map(call.machine, call.space, start, mapping);
    Ok(start)
}

/// What a mapping of an open file is filled with, and whether it may be written at any time: a `shared` one
/// through what was opened for that, and is not sealed. `writes` says that it is to be now, `typed` that it
/// has a memory type of its own.
fn file_backing(
    call: &Call,
    descriptor: u64,
    (offset, length): (u64, u64),
    (shared, writes): (bool, bool),
    typed: bool,
) -> Result<(Backing, bool), Errno> {
    let file = call.file(descriptor)?;
    if !file.readable() || shared && writes && !file.writable() {
        return Err(Errno::EACCES);
    }
    let Object::Inode(inode) = file.object else {
        return Err(Errno::ENODEV);
    };
    let end = offset.checked_add(length);
    let whole = Backing::File {
        inode,
        offset,
        limit: u64::MAX,
    };
    match call.kernel.files.inode(inode)?.node {
        Node::File(_) => {
            let sealed = call.check_seals(inode, SEAL_WRITE);
            if shared && writes {
                sealed?;
            }
            end.filter(|&end| end < 1 << 62).ok_or(Errno::EOVERFLOW)?;
            Ok((whole, file.writable() && sealed.is_ok()))
        }
        Node::Device(Device::Zero) => Ok((Backing::Anonymous, file.writable())),
        Node::Device(Device::Region { pages, device, .. }) => {
            if !shared || device && typed || end.is_none_or(|end| end > pages * PAGE_BYTES) {
                return Err(Errno::EINVAL);
            }
            Ok((whole, file.writable()))
        }
        _ => Err(Errno::ENODEV),
    }
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

/// `mprotect`. What lies before the first place where it cannot be done is protected all the same.
pub(crate) fn mprotect(call: &mut Call) -> Answer {
    let [address, length, protection, ..] = call.arguments;
    let permissions = permissions_of(protection)?;
    if address % PAGE_BYTES != 0 {
        return Err(Errno::EINVAL.into());
    }
    let wished = range_of(address, length).map_err(|_| Errno::ENOMEM)?;
    let space = &call.kernel.spaces[call.space];
    let wished = grown(space, wished, protection)?;
    let mut range = space.covered(&wished);
    let mut error = (range != wished).then_some(Errno::ENOMEM);
    if permissions & WRITE != 0 {
        let refused = space
            .parts(&range)
            .filter(|(_, mapping)| !mapping.may_be_written());
        if let Some(first) = refused.map(|(part, _)| part.start).min() {
            (range.end, error) = (first, Some(Errno::EACCES));
        }
    }
    if !range.is_empty() {
        if permissions & WRITE != 0 {
            call.kernel.check_data(call.process, &range)?;
        }
        call.kernel
            .protect(call.machine, call.space, &range, permissions);
    }
    error.map_or(Ok(0), |error| Err(error.into()))
}

/// What is protected where a mapping is to be so as far as it grows: a stack, from its lowest page.
fn grown(space: &AddressSpace, range: Range<u64>, protection: u64) -> Result<Range<u64>, Errno> {
    const GROWS_DOWN: u64 = 0x0100_0000;
    const GROWS: u64 = 0x0300_0000;
    if protection & GROWS == 0 || range.is_empty() {
        return Ok(range);
    }
    let (start, first) = space.find(range.start).ok_or(Errno::ENOMEM)?;
    if protection & GROWS != GROWS_DOWN || first.purpose != Purpose::Stack {
        return Err(Errno::EINVAL);
    }
    Ok(start..range.end)
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
    {
        return Err(Errno::EINVAL.into());
    }
    // What a smaller one leaves behind may be other mappings, or nothing; so may what stays where it is.
    let kept = address + old_length.min(new_length);
    let in_place = flags & MREMAP_FIXED == 0 && !stays;
    let shrinks = in_place && new_length <= old_length;
    let (start, mapping) = match call.kernel.spaces[call.space].find(address) {
        Some((start, &mapping)) if shrinks || mapping.end >= kept => (start, mapping),
        _ => return Err(Errno::EFAULT.into()),
    };
    if old_length == 0 && !mapping.shared {
        return Err(Errno::EINVAL.into());
    }
    let more = new_length.saturating_sub(if stays { 0 } else { old_length });
    let data = !mapping.shared && mapping.permissions & WRITE != 0;
    call.kernel
        .check_mapped(call.process, more, data, &(0..0))?;
    call.check_locked(mapping.permissions & LOCKED, more)?;
    let kernel = &mut *call.kernel;
    if in_place {
        if shrinks {
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
    if old_length == 0 {
        // A second mapping of what is shared.
        let second = Mapping {
            end: target + new_length,
            ..mapping.advanced(address - start)
        };
        kernel.spaces[call.space].insert(target, second);
        return Ok(target);
    }
    if kept < old.end {
        kernel.unmap(call.machine, call.space, &(kept..old.end));
    }
    move_mapping(call, address..kept, target..target + new_length, stays)
}

/// Takes a mapping out, and its pages to another place; one that `stays` begins anew.
fn move_mapping(call: &mut Call, old: Range<u64>, new: Range<u64>, stays: bool) -> Answer {
    let kernel = &mut *call.kernel;
    let removed = kernel.spaces[call.space].remove(&old).into_iter().next();
    let (_, moved) = removed.ok_or(Errno::EFAULT)?;
    let mut leaves = Vec::new();
    let first = old.start / PAGE_BYTES;
    let pages = first..old.end / PAGE_BYTES;
    kernel
        .spaces
        .update(call.space, pages.clone(), |page, leaf| {
            leaves.push((page - first, leaf));
            0
        });
    for (page, leaf) in leaves {
        kernel
            .spaces
            .set_leaf(call.space, new.start / PAGE_BYTES + page, leaf);
    }
    call.machine
        .mappings_changed(call.space, pages, moved.executable());
    let mapping = Mapping {
        end: new.end,
        ..moved
    };
    kernel.spaces[call.space].insert(new.start, mapping);
    if stays {
        // The pages are at the new place alone.
        kernel.spaces[call.space].insert(old.start, moved);
    }
    Ok(new.start)
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
    let space = &call.kernel.spaces[call.space];
    // Who locks pages has been promised that they are there.
    let locked = |page: u64| {
        let at = page * PAGE_BYTES;
        space.locked_bytes(&(at..at + PAGE_BYTES)) > 0
    };
    let resident: Vec<u8> = (first..last)
        .map(|page| u8::from(call.kernel.spaces.leaf(call.space, page) != 0 || locked(page)))
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
