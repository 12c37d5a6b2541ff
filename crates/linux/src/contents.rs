//! Files' content as the kernel sees it: with the mappings that show it and everybody who holds an
//! inode.
//!
//! Always true: a page that is cut off a file is in no address space any more; an inode without a name
//! is there as long as somebody holds it.

use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES};
use crate::vfs::content::{FILE_BYTES_MAX, Store, first_gone};
use crate::vfs::{FileSystem, InodeId, Node};

impl Kernel {
    /// The file system, and where its bytes are.
    fn files_and_store<'a>(
        &'a mut self,
        machine: &'a mut dyn Machine,
    ) -> (&'a mut FileSystem, Store<'a>) {
        let store = Store {
            machine,
            frames: &mut self.frames,
            host: &self.host,
        };
        (&mut self.files, store)
    }

    /// The frame that holds a file's page: [`FileSystem::hold_page`].
    pub(crate) fn hold_page(
        &mut self,
        machine: &mut dyn Machine,
        id: InodeId,
        page: u64,
        dirty: bool,
    ) -> Result<u64, Errno> {
        let (files, mut store) = self.files_and_store(machine);
        files.hold_page(&mut store, id, page, dirty, true)
    }

    /// Up to `length` bytes of a file.
    pub(crate) fn read_file(
        &mut self,
        machine: &mut dyn Machine,
        id: InodeId,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, Errno> {
        let (files, mut store) = self.files_and_store(machine);
        files.read_content(&mut store, id, offset, length)
    }

    /// Writes bytes into a file, growing it.
    pub(crate) fn write_file(
        &mut self,
        machine: &mut dyn Machine,
        id: InodeId,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let old = self.files.file(id)?.size;
        if offset > old {
            self.clear_stored_tail(machine, id, old)?;
        }
        let (files, mut store) = self.files_and_store(machine);
        let written = files.write_content(&mut store, id, offset, bytes);
        self.length_changed(id, old);
        written
    }

    /// Sets a file's size, and takes what is cut off out of every mapping.
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
            self.unmap_file_pages(machine, id, first_gone(size));
        } else {
            self.clear_stored_tail(machine, id, old)?;
        }
        let (files, mut store) = self.files_and_store(machine);
        files.set_size(&mut store, id, size)?;
        self.length_changed(id, old);
        Ok(())
    }

    /// Whoever has a file mapped may have stored beyond its end, which must not show once it is longer.
    /// Hardly anybody has, and a tail of zeros is not written to.
    fn clear_stored_tail(
        &mut self,
        machine: &mut dyn Machine,
        id: InodeId,
        size: u64,
    ) -> Result<(), Errno> {
        if !size.is_multiple_of(PAGE_BYTES) && self.spaces.map_inode(id) {
            let (files, mut store) = self.files_and_store(machine);
            if files.has_tail(&mut store, id, size)? {
                files.clear_tail(&mut store, id, size)?;
            }
        }
        Ok(())
    }

    /// True if somebody holds an inode: under a name, open, mapped, or in whatever else has one.
    fn is_held(&mut self, id: InodeId, links: u32) -> bool {
        let mut processes = self.processes.live.values();
        links > 0
            || self.open.holds_inode(id)
            || self.open.is_slave_of_master(id)
            || self.rare.sockets.holds_inode(id)
            || self.spaces.map_inode(id)
            || self.waits_for_fifo(id)
            || self.rare.asynchronous.contexts.contains_key(&id)
            || processes.any(|process| process.directory == id)
            || !self.rare.system_v.is_empty() && self.is_segment(id)
    }

    /// Frees an inode that has no name and that nobody uses.
    pub(crate) fn free_inode_if_unused(&mut self, id: InodeId) {
        let Ok(inode) = self.files.inode(id) else {
            return;
        };
        let (links, is_file) = (inode.links, matches!(inode.node, Node::File(_)));
        if self.is_held(id, links) {
            return;
        }
        if is_file
            && self
                .files
                .drop_pages(&mut self.frames, id, 0..u64::MAX)
                .is_err()
        {
            return;
        }
        if let Some(pools) = self.frames.pools.as_deref_mut() {
            pools.forget(id);
        }
        self.rare.seals.remove(&id);
        self.rare.attributes.remove(&id);
        self.rare.lifetimes.remove(&id);
        self.forget_watches(id);
        self.files.inodes[id.0 as usize] = None;
        self.files.free.push(id);
    }
}
