//! What is in a regular file: reading, writing, holding pages for mappings, cutting off.

use super::FileSystem;
use super::inode::{CHUNK_PAGES, InodeId, Node, PAGE_DIRTY, PAGE_FRAME_SHIFT, PAGE_PRESENT};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES};

/// The largest file: what the page-list index and signed offsets can hold with room to spare.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 46;

fn place(page: u64) -> (u64, usize) {
    (
        page / CHUNK_PAGES as u64,
        (page % CHUNK_PAGES as u64) as usize,
    )
}

impl FileSystem {
    /// The page-list entry of a file's page; zero if it holds no frame.
    pub fn page_entry(&self, id: InodeId, page: u64) -> Result<u64, Errno> {
        let (chunk, index) = place(page);
        let slot = self.file(id)?.chunks.get(&chunk);
        Ok(slot.map_or(0, |&slot| self.page_lists.get(slot)[index]))
    }

    pub fn set_page_entry(&mut self, id: InodeId, page: u64, entry: u64) -> Result<(), Errno> {
        let (chunk, index) = place(page);
        let slot = if let Some(&slot) = self.file(id)?.chunks.get(&chunk) {
            slot
        } else {
            let slot = self.page_lists.allocate();
            self.file_mut(id)?.chunks.insert(chunk, slot);
            slot
        };
        self.page_lists.get_mut(slot)[index] = entry;
        Ok(())
    }

    /// The pages of a file that hold frames, as (page, entry), in order.
    pub fn held_pages(&self, id: InodeId) -> Result<Vec<(u64, u64)>, Errno> {
        let mut pages = Vec::new();
        for (&chunk, &slot) in &self.file(id)?.chunks {
            let first = chunk * CHUNK_PAGES as u64;
            let entries = self.page_lists.get(slot).iter().zip(first..);
            pages.extend(
                entries
                    .filter(|(e, _)| **e != 0)
                    .map(|(&entry, page)| (page, entry)),
            );
        }
        Ok(pages)
    }
}

impl Kernel {
    /// A frame with one holder. It is zero if `zero`, else whatever it was before.
    pub(crate) fn allocate_frame(
        &mut self,
        machine: &mut dyn Machine,
        zero: bool,
    ) -> Result<u64, Errno> {
        let frame = self.frames.allocate().ok_or(Errno::ENOMEM)?;
        if frame.recycled && zero {
            machine.zero_frame(frame.number * PAGE_BYTES);
        }
        Ok(frame.number)
    }

    /// The frame that holds a file's page, made and filled if there is none. `dirty` if the
    /// caller is about to change it; `fill` unless it will change every byte.
    pub(crate) fn hold_page(
        &mut self,
        machine: &mut dyn Machine,
        id: InodeId,
        page: u64,
        dirty: bool,
        fill: bool,
    ) -> Result<u64, Errno> {
        let entry = self.files.page_entry(id, page)?;
        let dirty_bit = if dirty { PAGE_DIRTY } else { 0 };
        if dirty {
            self.files.file_mut(id)?.changed = true;
        }
        if entry & PAGE_PRESENT != 0 {
            if entry & dirty_bit != dirty_bit {
                self.files.set_page_entry(id, page, entry | dirty_bit)?;
            }
            return Ok(entry >> PAGE_FRAME_SHIFT);
        }
        let content = if fill {
            self.host_page(id, page)?
        } else {
            Vec::new()
        };
        let frame = self.allocate_frame(machine, fill && content.len() < PAGE_BYTES as usize)?;
        if !content.is_empty() {
            machine.write(frame * PAGE_BYTES, &content);
        }
        let entry = frame << PAGE_FRAME_SHIFT | dirty_bit | PAGE_PRESENT;
        self.files.set_page_entry(id, page, entry)?;
        self.files.file_mut(id)?.pages_held += 1;
        Ok(frame)
    }

    /// The host's bytes in a page that holds no frame; fewer than a page where the host's
    /// content ends.
    pub(crate) fn host_page(&self, id: InodeId, page: u64) -> Result<Vec<u8>, Errno> {
        let start = page * PAGE_BYTES;
        self.host_bytes(id, start, PAGE_BYTES)
    }

    fn host_bytes(&self, id: InodeId, offset: u64, length: u64) -> Result<Vec<u8>, Errno> {
        let file = self.files.file(id)?;
        let Some(path) = &file.host else {
            return Ok(Vec::new());
        };
        let end = offset.saturating_add(length).min(file.host_bytes);
        if offset >= end {
            return Ok(Vec::new());
        }
        let bytes = self
            .host
            .contents(path.mount, &path.path)
            .ok_or(Errno::EIO)?;
        let range = offset as usize..(end as usize).min(bytes.len());
        Ok(bytes.get(range).map(<[u8]>::to_vec).unwrap_or_default())
    }

    /// Up to `length` bytes of a file.
    pub(crate) fn read_file(
        &mut self,
        machine: &mut dyn Machine,
        id: InodeId,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, Errno> {
        let file = self.files.file(id)?;
        let end = offset.saturating_add(length).min(file.size);
        if offset >= end {
            return Ok(Vec::new());
        }
        let has_frames = !file.chunks.is_empty();
        let mut bytes = self.host_bytes(id, offset, end - offset)?;
        bytes.resize((end - offset) as usize, 0);
        if has_frames {
            for page in offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
                let entry = self.files.page_entry(id, page)?;
                if entry & PAGE_PRESENT == 0 {
                    continue;
                }
                let from = (page * PAGE_BYTES).max(offset);
                let to = ((page + 1) * PAGE_BYTES).min(end);
                let physical = (entry >> PAGE_FRAME_SHIFT) * PAGE_BYTES + from % PAGE_BYTES;
                machine.read(
                    physical,
                    &mut bytes[(from - offset) as usize..(to - offset) as usize],
                );
            }
        }
        Ok(bytes)
    }

    /// Writes bytes into a file, growing it.
    pub(crate) fn write_file(
        &mut self,
        machine: &mut dyn Machine,
        id: InodeId,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let end = offset
            .checked_add(bytes.len() as u64)
            .filter(|&end| end <= FILE_BYTES_MAX);
        let end = end.ok_or(Errno::EFBIG)?;
        let mut from = offset;
        while from < end {
            let page = from / PAGE_BYTES;
            let to = ((page + 1) * PAGE_BYTES).min(end);
            let fill = to - from < PAGE_BYTES;
            let frame = match self.hold_page(machine, id, page, true, fill) {
                Ok(frame) => frame,
                Err(_) if from > offset => break,
                Err(Errno::ENOMEM) => return Err(Errno::ENOSPC),
                Err(error) => return Err(error),
            };
            let piece = &bytes[(from - offset) as usize..(to - offset) as usize];
            machine.write(frame * PAGE_BYTES + from % PAGE_BYTES, piece);
            from = to;
        }
        let now = self.now_ns(machine);
        let inode = self.files.inode_mut(id)?;
        inode.modified_ns = now;
        inode.changed_ns = now;
        if let Node::File(file) = &mut inode.node {
            file.size = file.size.max(from);
            file.changed = true;
        }
        if from < end {
            Err(Errno::ENOSPC)
        } else {
            Ok(())
        }
    }

    /// Sets a file's size. Bytes cut off are gone; new ones are zero.
    pub(crate) fn truncate_file(
        &mut self,
        machine: &mut dyn Machine,
        id: InodeId,
        size: u64,
    ) -> Result<(), Errno> {
        if size > FILE_BYTES_MAX {
            return Err(Errno::EFBIG);
        }
        let old = self.files.file(id)?.size;
        if size < old {
            let first_gone = size.div_ceil(PAGE_BYTES);
            self.unmap_file_pages(machine, id, first_gone);
            self.drop_file_pages(id, first_gone..u64::MAX)?;
            let tail = size % PAGE_BYTES;
            let last = size / PAGE_BYTES;
            let shows_tail = self.files.page_entry(id, last)? & PAGE_PRESENT != 0;
            if tail != 0 && shows_tail {
                let frame = self.hold_page(machine, id, last, true, true)?;
                let zeros = vec![0; (PAGE_BYTES - tail) as usize];
                machine.write(frame * PAGE_BYTES + tail, &zeros);
            }
        }
        let now = self.now_ns(machine);
        let inode = self.files.inode_mut(id)?;
        inode.modified_ns = now;
        inode.changed_ns = now;
        if let Node::File(file) = &mut inode.node {
            file.shrunk |= size < file.size;
            file.size = size;
            file.host_bytes = file.host_bytes.min(size);
            file.changed = true;
        }
        Ok(())
    }

    /// Lets go of a file's pages in a range.
    pub(crate) fn drop_file_pages(
        &mut self,
        id: InodeId,
        pages: std::ops::Range<u64>,
    ) -> Result<(), Errno> {
        for (page, entry) in self.files.held_pages(id)? {
            if pages.contains(&page) {
                self.frames.release(entry >> PAGE_FRAME_SHIFT);
                self.files.set_page_entry(id, page, 0)?;
                self.files.file_mut(id)?.pages_held -= 1;
            }
        }
        let empty: Vec<(u64, u32)> = self
            .files
            .file(id)?
            .chunks
            .iter()
            .filter(|(_, slot)| {
                self.files
                    .page_lists
                    .get(**slot)
                    .iter()
                    .all(|&entry| entry == 0)
            })
            .map(|(&chunk, &slot)| (chunk, slot))
            .collect();
        for (chunk, slot) in empty {
            self.files.file_mut(id)?.chunks.remove(&chunk);
            self.files.page_lists.release(slot);
        }
        Ok(())
    }

    /// Frees an inode that has no name and that nobody uses.
    pub(crate) fn free_inode_if_unused(&mut self, id: InodeId) {
        let Ok(inode) = self.files.inode(id) else {
            return;
        };
        let used = inode.links > 0
            || self.open.holds_inode(id)
            || self.open.is_slave_of_master(id)
            || self.rare.sockets.holds_inode(id)
            || self.spaces.map_inode(id)
            || self.waits_for_fifo(id)
            || self.rare.asynchronous.contexts.contains_key(&id)
            || self
                .processes
                .live
                .values()
                .any(|process| process.directory == id);
        if used || !self.rare.system_v.is_empty() && self.is_segment(id) {
            return;
        }
        let is_file = (self.files.inode(id)).is_ok_and(|inode| matches!(inode.node, Node::File(_)));
        if is_file && self.drop_file_pages(id, 0..u64::MAX).is_err() {
            return;
        }
        self.rare.seals.remove(&id);
        self.rare.attributes.remove(&id);
        self.forget_watches(id);
        self.files.inodes[id.0 as usize] = None;
        self.files.free.push(id);
    }
}
