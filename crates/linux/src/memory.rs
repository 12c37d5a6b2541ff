//! Demand paging, copy-on-write, and the kernel's own access to guest memory.

use std::ops::Range;

use perdure_riscv::Access;

use crate::address_space::{Backing, Mapping, Purpose, pages};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES, SpaceId};
use crate::page_table::{DEVICE, EXECUTE, KEPT, READ, VALID, WRITE, entry, frame_of};
use crate::room::Growth;
use crate::vfs::InodeId;
use crate::vfs::inode::{Device, PAGE_PRESENT};
use crate::vfs::spelling::text_of;
use crate::vfs::tree::PATH_BYTES_MAX;

/// Cycles of a fault beside the work on the page itself.
pub(crate) const FAULT_CYCLES: u64 = 600;

/// Why an access cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadAccess {
    /// Nothing is mapped there.
    Unmapped,
    /// The mapping forbids it.
    Forbidden,
    /// Beyond the end of the mapped file.
    PastEnd,
    /// A device has it, which takes a program's own loads and stores alone.
    OfDevice,
    /// There is no free frame.
    OutOfMemory,
    /// A pool's page has nowhere to lie.
    NoSpace,
}

impl From<BadAccess> for Errno {
    fn from(bad: BadAccess) -> Self {
        match bad {
            BadAccess::OutOfMemory => Errno::ENOMEM,
            _ => Errno::EFAULT,
        }
    }
}

fn needed(access: Access) -> u64 {
    match access {
        Access::Fetch => EXECUTE,
        Access::Load => READ,
        Access::Store => WRITE,
    }
}

impl Kernel {
    /// The page-table entry that allows an access, made if the mapping allows it.
    pub(crate) fn resolve(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
        access: Access,
    ) -> Result<u64, BadAccess> {
        let page = address / PAGE_BYTES;
        let need = needed(access);
        let old = self.spaces.leaf(space, page);
        if old & need != 0 {
            return Ok(old);
        }
        if self.spaces[space].find(address).is_none() {
            self.grow_stack(space, address);
        }
        let (start, &mapping) = self.spaces[space]
            .find(address)
            .ok_or(BadAccess::Unmapped)?;
        let is_new = old & VALID == 0;
        if is_new && mapping.purpose == Purpose::Stack && !self.stack_may_reach(space, page) {
            return Err(BadAccess::Unmapped);
        }
        if mapping.permissions & need == 0 {
            return Err(BadAccess::Forbidden);
        }
        machine.charge(FAULT_CYCLES);
        if old & VALID == 0 {
            self.make_room_for_page(space, page, mapping.shared)?;
        }
        self.spaces[space].page_faults += 1;
        let never_used = self.frames.never_used();
        let new = if old & VALID == 0 {
            self.fill_page(machine, start, &mapping, page, access)?
        } else {
            self.make_writable(machine, &mapping, start, page, old)?
        };
        self.spaces.set_leaf(space, page, new);
        self.commit_for(machine, &mapping, access)?;
        let was_used = frame_of(new) < never_used || self.frames.is_of_pool(frame_of(new));
        let is_known = was_used && frame_of(new) != frame_of(old);
        if new & EXECUTE != 0 && is_known {
            machine.code_written();
        }
        if old & VALID != 0 {
            // Nobody can hold a translation of a page that had none.
            machine.mappings_changed(space, page..page + 1, mapping.executable());
        }
        Ok(new)
    }

    /// Fails if the state has no room for the page tables of a page, or the page list of a file's.
    fn make_room_for_page(
        &mut self,
        space: SpaceId,
        page: u64,
        shared: bool,
    ) -> Result<(), BadAccess> {
        let growth = Growth {
            bytes: 64,
            page_tables: (self.spaces.tables()).missing(self.spaces[space].root(), page),
            page_lists: u64::from(shared),
        };
        let grows = growth.page_tables + growth.page_lists > 0;
        if grows && !self.make_last_room(growth) {
            return Err(BadAccess::OutOfMemory);
        }
        Ok(())
    }

    /// The page of a file that shows so far into a mapping of it, which begins at `offset` and shows
    /// `limit` bytes; and how many bytes of the page show. `None` beyond the end of the file.
    pub(crate) fn file_page(
        &self,
        inode: InodeId,
        offset: u64,
        limit: u64,
        in_mapping: u64,
    ) -> Option<(u64, u64)> {
        let file_page = (offset + in_mapping) / PAGE_BYTES;
        let shown = limit.saturating_sub(in_mapping).min(PAGE_BYTES);
        let size = self.files.file(inode).map_or(0, |file| file.size);
        (limit != u64::MAX || file_page * PAGE_BYTES < size).then_some((file_page, shown))
    }

    /// The entry of a page that has none.
    fn fill_page(
        &mut self,
        machine: &mut dyn Machine,
        start: u64,
        mapping: &Mapping,
        page: u64,
        access: Access,
    ) -> Result<u64, BadAccess> {
        let Backing::File {
            inode,
            offset,
            limit,
        } = mapping.backing
        else {
            let frame = self.frames.take(machine, true)?;
            return Ok(entry(frame, mapping.permissions));
        };
        let in_mapping = page * PAGE_BYTES - start;
        if let Some(Device::Region {
            first_frame,
            pages,
            device,
        }) = self.files.device(inode)
        {
            let place = (offset + in_mapping) / PAGE_BYTES;
            let whose = if device { DEVICE } else { 0 };
            return (place < pages)
                .then(|| entry(first_frame + place, mapping.permissions) | whose)
                .ok_or(BadAccess::PastEnd);
        }
        let (file_page, shown) = self
            .file_page(inode, offset, limit, in_mapping)
            .ok_or(BadAccess::PastEnd)?;
        if mapping.shared {
            let dirty = access == Access::Store;
            let frame = self.hold_page(machine, inode, file_page, dirty)?;
            self.frames.retain(frame);
            let allowed = if dirty { u64::MAX } else { !WRITE };
            return Ok(entry(frame, mapping.permissions & allowed));
        }
        let copied = access == Access::Store || shown != PAGE_BYTES;
        let held = self.files.page_entry(inode, file_page).unwrap_or(0) & PAGE_PRESENT != 0;
        // What somebody writes to the file is seen until the page is stored to.
        if !copied && (held || self.open.is_written(inode) && !self.is_pool(inode)) {
            let frame = self.hold_page(machine, inode, file_page, false)?;
            self.frames.retain(frame);
            return Ok(entry(frame, mapping.permissions & !WRITE));
        }
        let bytes = self
            .read_file(machine, inode, file_page * PAGE_BYTES, shown)
            .map_err(|_| BadAccess::PastEnd)?;
        let zero = bytes.len() < PAGE_BYTES as usize;
        let frame = self.frames.take(machine, zero)?;
        machine.write(frame * PAGE_BYTES, &bytes);
        Ok(entry(frame, mapping.permissions))
    }

    /// The entry of a page that is there but not writable, for a store.
    fn make_writable(
        &mut self,
        machine: &mut dyn Machine,
        mapping: &Mapping,
        start: u64,
        page: u64,
        old: u64,
    ) -> Result<u64, BadAccess> {
        let frame = frame_of(old);
        if let (true, Backing::File { inode, offset, .. }) = (mapping.shared, mapping.backing) {
            if self.files.device(inode).is_some() {
                return Ok(entry(frame, mapping.permissions) | old & DEVICE);
            }
            let file_page = (offset + page * PAGE_BYTES - start) / PAGE_BYTES;
            self.hold_page(machine, inode, file_page, true)?;
            return Ok(entry(frame, mapping.permissions));
        }
        if self.frames.holders(frame) == 1 {
            return Ok(entry(frame, mapping.permissions));
        }
        let copy = self.frames.take(machine, false)?;
        let mut bytes = [0; PAGE_BYTES as usize];
        machine.read(frame * PAGE_BYTES, &mut bytes);
        machine.write(copy * PAGE_BYTES, &bytes);
        self.frames.release(frame);
        Ok(entry(copy, mapping.permissions))
    }

    /// Calls `act(physical address, part of the range)` for each page of a guest range.
    fn for_each_page(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
        length: usize,
        access: Access,
        mut act: impl FnMut(&mut dyn Machine, u64, Range<usize>),
    ) -> Result<(), Errno> {
        let end = address.checked_add(length as u64).ok_or(Errno::EFAULT)?;
        let mut at = address;
        while at < end {
            let next = (at / PAGE_BYTES + 1).saturating_mul(PAGE_BYTES).min(end);
            let leaf = self.resolve(machine, space, at, access)?;
            if leaf & DEVICE != 0 {
                return Err(BadAccess::OfDevice.into());
            }
            let part = (at - address) as usize..(next - address) as usize;
            act(machine, frame_of(leaf) * PAGE_BYTES + at % PAGE_BYTES, part);
            at = next;
        }
        Ok(())
    }

    /// Reads guest memory.
    pub(crate) fn copy_in(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
        buffer: &mut [u8],
    ) -> Result<(), Errno> {
        self.for_each_page(
            machine,
            space,
            address,
            buffer.len(),
            Access::Load,
            |machine, from, part| {
                machine.read(from, &mut buffer[part]);
            },
        )
    }

    /// Writes guest memory.
    pub(crate) fn copy_out(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        self.for_each_page(
            machine,
            space,
            address,
            bytes.len(),
            Access::Store,
            |machine, to, part| {
                machine.write(to, &bytes[part]);
            },
        )
    }

    /// Bytes of guest memory; the length is the guest's, so it grows as pages prove to be there.
    pub(crate) fn bytes_in(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
        length: u64,
    ) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            let at = address
                .checked_add(bytes.len() as u64)
                .ok_or(Errno::EFAULT)?;
            let piece = (PAGE_BYTES - at % PAGE_BYTES).min(length - bytes.len() as u64);
            let old = bytes.len();
            bytes.resize(old + piece as usize, 0);
            self.copy_in(machine, space, at, &mut bytes[old..])?;
        }
        Ok(bytes)
    }

    /// Checks, and makes, the pages of a range before anything irrevocable is done.
    pub(crate) fn touch(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
        length: u64,
        access: Access,
    ) -> Result<(), Errno> {
        let length = usize::try_from(length).map_err(|_| Errno::EFAULT)?;
        self.for_each_page(machine, space, address, length, access, |_, _, _| {})
    }

    pub(crate) fn u32_in(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        at: u64,
    ) -> Result<u32, Errno> {
        let mut raw = [0; 4];
        self.copy_in(machine, space, at, &mut raw)?;
        Ok(u32::from_le_bytes(raw))
    }

    pub(crate) fn u64_in(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        at: u64,
    ) -> Result<u64, Errno> {
        let mut raw = [0; 8];
        self.copy_in(machine, space, at, &mut raw)?;
        Ok(u64::from_le_bytes(raw))
    }

    /// A string that ends in a zero byte.
    pub(crate) fn string_in(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
    ) -> Result<String, Errno> {
        (self.text_in(machine, space, address, PATH_BYTES_MAX)).map(text_of)
    }

    /// The bytes before a zero byte; ENAMETOOLONG if they and it are more than `limit`.
    pub(crate) fn text_in(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
        limit: usize,
    ) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        loop {
            let at = address
                .checked_add(bytes.len() as u64)
                .ok_or(Errno::EFAULT)?;
            let mut piece = vec![0; 64.min(PAGE_BYTES - at % PAGE_BYTES) as usize];
            self.copy_in(machine, space, at, &mut piece)?;
            let end = piece.iter().position(|&byte| byte == 0);
            bytes.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
            if bytes.len() >= limit {
                return Err(Errno::ENAMETOOLONG);
            }
            if end.is_some() {
                return Ok(bytes);
            }
        }
    }

    /// Unmaps a range: its pages, then the mappings themselves.
    pub(crate) fn unmap(&mut self, machine: &mut dyn Machine, space: SpaceId, range: &Range<u64>) {
        let taken = self.spaces[space].remove(range);
        if taken.is_empty() {
            return;
        }
        self.drop_pages(machine, space, range);
        for (_, mapping) in taken {
            if let Some(inode) = mapping.inode() {
                self.free_inode_if_unused(inode);
            }
        }
    }

    /// Lets go of the frames of a range; the mappings stay.
    pub(crate) fn drop_pages(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        range: &Range<u64>,
    ) {
        let frames = &mut self.frames;
        let mut executable = false;
        let mut any = false;
        self.spaces.update(space, pages(range), |_, leaf| {
            executable |= leaf & EXECUTE != 0;
            any = true;
            frames.release(frame_of(leaf));
            0
        });
        if any {
            machine.mappings_changed(space, pages(range), executable);
        }
    }

    /// Puts a mapping in place of whatever was there.
    pub(crate) fn map(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        start: u64,
        mapping: Mapping,
    ) {
        self.unmap(machine, space, &(start..mapping.end));
        self.spaces[space].insert(start, mapping);
    }

    /// Changes permissions of a range that is mapped throughout.
    pub(crate) fn protect(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        range: &Range<u64>,
        permissions: u64,
    ) {
        let (mut changed, mut executable, mut begins) = (false, false, false);
        for (start, mapping) in self.spaces[space].take(range) {
            let frames = &self.frames;
            self.spaces
                .update(space, pages(&(start..mapping.end)), |_, leaf| {
                    // A page that may be written keeps that right only if a store needs nothing more.
                    let own = !mapping.shared && frames.holders(frame_of(leaf)) == 1;
                    let stays = mapping.shared && leaf & WRITE != 0;
                    let allowed = if own || stays { u64::MAX } else { !WRITE };
                    let new = entry(frame_of(leaf), permissions & allowed) | leaf & (DEVICE | KEPT);
                    changed |= new != leaf;
                    executable |= (new | leaf) & EXECUTE != 0 && new != leaf;
                    begins |= new & !leaf & EXECUTE != 0;
                    new
                });
            self.spaces[space].insert(
                start,
                Mapping {
                    permissions: mapping.permissions_with(permissions),
                    ..mapping
                },
            );
        }
        if changed {
            machine.mappings_changed(space, pages(range), executable);
        }
        if begins {
            machine.code_written();
        }
    }

    /// Drops every page of a file's mappings from `first_gone` on; later accesses are SIGBUS.
    pub(crate) fn unmap_file_pages(
        &mut self,
        machine: &mut dyn Machine,
        inode: InodeId,
        first_gone: u64,
    ) {
        let gone = |start: u64, mapping: &Mapping| match mapping.backing {
            Backing::File {
                inode: mapped,
                offset,
                limit: u64::MAX,
            } if mapped == inode => {
                let gone = (first_gone * PAGE_BYTES).saturating_sub(offset);
                let from = start.saturating_add(gone).min(mapping.end);
                Some(from..mapping.end)
            }
            _ => None,
        };
        for (space, range) in self.ranges_of(gone) {
            if !range.is_empty() {
                self.drop_pages(machine, space, &range);
            }
        }
    }

    /// What `choose(start, mapping)` answers for the mappings of all spaces, in order.
    pub(crate) fn ranges_of(
        &self,
        choose: impl Fn(u64, &Mapping) -> Option<Range<u64>>,
    ) -> Vec<(SpaceId, Range<u64>)> {
        let mut ranges = Vec::new();
        for (id, space) in self.spaces.iter() {
            let chosen = space
                .mappings
                .iter()
                .filter_map(|(&start, mapping)| choose(start, mapping));
            ranges.extend(chosen.map(|range| (id, range)));
        }
        ranges
    }

    /// Makes stores to the shared mappings of some files fault again, so that they mark pages dirty.
    pub(crate) fn write_protect(
        &mut self,
        machine: &mut dyn Machine,
        whose: impl Fn(&Self, InodeId) -> bool,
    ) {
        let shared = self.ranges_of(|start, mapping| {
            let watched = mapping.shared && mapping.inode().is_some_and(|id| whose(self, id));
            watched.then_some(start..mapping.end)
        });
        for (space, range) in shared {
            let mut any = false;
            self.spaces.update(space, pages(&range), |_, leaf| {
                any |= leaf & WRITE != 0;
                leaf & !WRITE
            });
            if any {
                machine.mappings_changed(space, pages(&range), false);
            }
        }
    }
}
