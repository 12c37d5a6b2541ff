//! What is in a regular file: reading, writing, holding pages for mappings, cutting off.
//!
//! Always true: a page of a file is in the frame that its entry names, or, without one, what the host
//! has there, and zero beyond that. Nothing here knows who has a file open or mapped.

use super::FileSystem;
use super::host_view::HostView;
use super::inode::{CHUNK_PAGES, FileNode, InodeId, PAGE_DIRTY, PAGE_FRAME_SHIFT, PAGE_PRESENT};
use crate::errno::Errno;
use crate::frames::Frames;
use crate::machine::{Machine, PAGE_BYTES};

/// The largest file: what the page-list index and signed offsets can hold with room to spare.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 46;

/// Where the bytes of files are: in frames of memory, and below them on the host.
pub(crate) struct Store<'a> {
    pub machine: &'a mut dyn Machine,
    pub frames: &'a mut Frames,
    pub host: &'a HostView,
}

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

    /// The frame that holds a file's page, made and filled if there is none. `dirty` if the
    /// caller is about to change it; `fill` unless it will change every byte.
    pub fn hold_page(
        &mut self,
        store: &mut Store,
        id: InodeId,
        page: u64,
        dirty: bool,
        fill: bool,
    ) -> Result<u64, Errno> {
        let entry = self.page_entry(id, page)?;
        let dirty_bit = if dirty { PAGE_DIRTY } else { 0 };
        if dirty {
            self.file_mut(id)?.changed = true;
        }
        if entry & PAGE_PRESENT != 0 {
            if entry & dirty_bit != dirty_bit {
                self.set_page_entry(id, page, entry | dirty_bit)?;
            }
            return Ok(entry >> PAGE_FRAME_SHIFT);
        }
        let content = if fill {
            self.host_page(store.host, id, page)?
        } else {
            Vec::new()
        };
        let zero = fill && content.len() < PAGE_BYTES as usize;
        let frame = store.frames.take_for(store.machine, id, zero)?;
        if !content.is_empty() {
            store.machine.write(frame * PAGE_BYTES, &content);
        }
        let entry = frame << PAGE_FRAME_SHIFT | dirty_bit | PAGE_PRESENT;
        self.set_page_entry(id, page, entry)?;
        self.file_mut(id)?.pages_held += 1;
        Ok(frame)
    }

    /// The host's bytes in a page that holds no frame; fewer than a page where the host's
    /// content ends.
    pub fn host_page(&self, host: &HostView, id: InodeId, page: u64) -> Result<Vec<u8>, Errno> {
        self.host_bytes(host, id, page * PAGE_BYTES, PAGE_BYTES)
    }

    fn host_bytes(
        &self,
        host: &HostView,
        id: InodeId,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, Errno> {
        let file = self.file(id)?;
        let Some(path) = &file.host else {
            return Ok(Vec::new());
        };
        let end = offset.saturating_add(length).min(file.host_bytes);
        if offset >= end {
            return Ok(Vec::new());
        }
        let bytes = host.contents(path.mount, &path.path).ok_or(Errno::EIO)?;
        let range = offset as usize..(end as usize).min(bytes.len());
        Ok(bytes.get(range).map(<[u8]>::to_vec).unwrap_or_default())
    }

    /// Up to `length` bytes of a file.
    pub fn read_content(
        &self,
        store: &mut Store,
        id: InodeId,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, Errno> {
        let file = self.file(id)?;
        let end = offset.saturating_add(length).min(file.size);
        if offset >= end {
            return Ok(Vec::new());
        }
        let mut bytes = self.host_bytes(store.host, id, offset, end - offset)?;
        bytes.resize((end - offset) as usize, 0);
        if file.chunks.is_empty() {
            return Ok(bytes);
        }
        for page in offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            let entry = self.page_entry(id, page)?;
            if entry & PAGE_PRESENT == 0 {
                continue;
            }
            let from = (page * PAGE_BYTES).max(offset);
            let to = ((page + 1) * PAGE_BYTES).min(end);
            let physical = (entry >> PAGE_FRAME_SHIFT) * PAGE_BYTES + from % PAGE_BYTES;
            let part = &mut bytes[(from - offset) as usize..(to - offset) as usize];
            store.machine.read(physical, part);
        }
        Ok(bytes)
    }

    /// Writes bytes into a file, growing it.
    pub fn write_content(
        &mut self,
        store: &mut Store,
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
            let frame = match self.hold_page(store, id, page, true, fill) {
                Ok(frame) => frame,
                Err(_) if from > offset => break,
                Err(Errno::ENOMEM) => return Err(Errno::ENOSPC),
                Err(error) => return Err(error),
            };
            let piece = &bytes[(from - offset) as usize..(to - offset) as usize];
            let physical = frame * PAGE_BYTES + from % PAGE_BYTES;
            store.machine.write(physical, piece);
            from = to;
        }
        let file = self.changed_file(store.machine, id)?;
        file.size = file.size.max(from);
        if from < end {
            Err(Errno::ENOSPC)
        } else {
            Ok(())
        }
    }

    /// Sets a file's size. Bytes cut off are gone; new ones are zero. Whoever has pages mapped that are
    /// cut off has let go of them.
    pub fn set_size(&mut self, store: &mut Store, id: InodeId, size: u64) -> Result<(), Errno> {
        if size < self.file(id)?.size {
            self.drop_pages(store.frames, id, first_gone(size)..u64::MAX)?;
            self.clear_tail(store, id, size)?;
        }
        let file = self.changed_file(store.machine, id)?;
        file.shrunk |= size < file.size;
        file.size = size;
        file.host_bytes = file.host_bytes.min(size);
        Ok(())
    }

    /// Where the rest of the last page of a file of a size is, if that page is in memory, and zeros for all
    /// of it.
    fn tail(&self, id: InodeId, size: u64) -> Result<Option<(u64, Vec<u8>)>, Errno> {
        let (used, entry) = (size % PAGE_BYTES, self.page_entry(id, size / PAGE_BYTES)?);
        if used == 0 || entry & PAGE_PRESENT == 0 {
            return Ok(None);
        }
        let frame = (entry >> PAGE_FRAME_SHIFT) * PAGE_BYTES;
        Ok(Some((frame + used, vec![0; (PAGE_BYTES - used) as usize])))
    }

    /// Whether the last page of a file of a size holds anything beyond it.
    pub fn has_tail(&self, store: &mut Store, id: InodeId, size: u64) -> Result<bool, Errno> {
        let Some((at, mut bytes)) = self.tail(id, size)? else {
            return Ok(false);
        };
        store.machine.peek(at, &mut bytes);
        Ok(bytes.iter().any(|&byte| byte != 0))
    }

    /// Makes zero what the last page of a file of a size holds beyond it.
    pub fn clear_tail(&mut self, store: &mut Store, id: InodeId, size: u64) -> Result<(), Errno> {
        if let Some((at, zeros)) = self.tail(id, size)? {
            self.hold_page(store, id, size / PAGE_BYTES, true, true)?; // It is written to.
            store.machine.write(at, &zeros);
        }
        Ok(())
    }

    /// A file that has just been changed, for what else is new about it.
    fn changed_file(&mut self, machine: &dyn Machine, id: InodeId) -> Result<&mut FileNode, Errno> {
        let now = self.start_ns.saturating_add(machine.clock_ns());
        let inode = self.inode_mut(id)?;
        inode.modified_ns = now;
        inode.changed_ns = now;
        let file = self.file_mut(id)?;
        file.changed = true;
        Ok(file)
    }

    /// Lets go of a file's pages in a range.
    pub fn drop_pages(
        &mut self,
        frames: &mut Frames,
        id: InodeId,
        pages: std::ops::Range<u64>,
    ) -> Result<(), Errno> {
        for (page, entry) in self.held_pages(id)? {
            if pages.contains(&page) {
                frames.release(entry >> PAGE_FRAME_SHIFT);
                self.set_page_entry(id, page, 0)?;
                self.file_mut(id)?.pages_held -= 1;
            }
        }
        let is_empty = |slot: u32| self.page_lists.get(slot).iter().all(|&entry| entry == 0);
        let chunks = self.file(id)?.chunks.iter();
        let empty: Vec<(u64, u32)> = chunks
            .filter(|(_, slot)| is_empty(**slot))
            .map(|(&chunk, &slot)| (chunk, slot))
            .collect();
        for (chunk, slot) in empty {
            self.file_mut(id)?.chunks.remove(&chunk);
            self.page_lists.release(slot);
        }
        Ok(())
    }
}

/// The first page that a file of a size does not have.
pub(crate) fn first_gone(size: u64) -> u64 {
    size.div_ceil(PAGE_BYTES)
}
