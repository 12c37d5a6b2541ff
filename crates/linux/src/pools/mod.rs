//! Pools: the files of `/pmem`, whose pages are frames of persistent memory.
//!
//! A program maps one and stores, flushes and fences; or it reads, writes and synchronises it as any file.
//! What a cut leaves of it is what its frames have, under the table that was committed last ([`table`]).
//!
//! Always true here:
//! - A table takes in everything that was done to names, lengths and places of pages before it, and is
//!   durable as a whole or not at all. One is committed by `fsync` and its kin of a pool or of the
//!   directory, and by the fault that lets a program store to a page mapped with `MAP_SYNC`, if the pool or
//!   the directory has changed; never otherwise.
//! - The bytes of a page that is new are durable before the table that names it.
//! - Pools are no part of the kernel's saved state: where they are, programs begin anew.

mod frames;
mod mapping;
mod mount;
mod synchronise;
mod table;

use std::collections::BTreeSet;
use std::ops::Range;

use frames::Cells;
pub use mount::{PoolFile, PoolSource, PoolsError, surviving};
use table::{Area, Table};
pub use table::{Extent, Pool};

use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES, SpaceId};
use crate::vfs::InodeId;

/// Where the guest sees its pools.
pub const POOLS_DIRECTORY: &str = "/pmem";

/// A mistake of the kernel's, planted to see whether it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMistake {
    /// A table is durable before the bytes of the new pages that it names.
    TableFirst,
    /// `msync` and `fsync` write no page back.
    SynchronisesNothing,
    /// The fault of a page mapped with `MAP_SYNC` commits nothing.
    FaultCommitsNothing,
    /// Frames that the durable table names are handed out again.
    FreesEarly,
}

/// The pools of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Pools {
    area: Area,
    cells: Cells,
    directory: InodeId,
    /// Every pool, those without a name included.
    files: BTreeSet<InodeId>,
    /// Pools whose length or pages are not as in the durable table.
    changed: BTreeSet<InodeId>,
    /// So is the directory.
    names_changed: bool,
    /// That of the durable table.
    sequence: u64,
    /// Every fault of a store commits.
    faults_commit: bool,
    /// Pools of which a table says something that was committed by such a fault alone.
    unsynchronised: BTreeSet<InodeId>,
    mistake: Option<PoolMistake>,
}

impl Pools {
    /// True if a file's pages lie here.
    pub fn has_file(&self, id: InodeId) -> bool {
        self.files.contains(&id)
    }

    /// True if a frame is one of a pool's.
    pub fn has_frame(&self, frame: u64) -> bool {
        self.cells.has(frame)
    }

    /// A frame with one holder for a pool's page, zeroed if that is asked for.
    pub fn take(
        &mut self,
        machine: &mut dyn Machine,
        id: InodeId,
        zero: bool,
    ) -> Result<u64, Errno> {
        let frame = self.cells.take().ok_or(Errno::ENOSPC)?;
        self.changed.insert(id);
        if zero {
            machine.system_stores(true);
            machine.zero_frame(frame * PAGE_BYTES);
            machine.system_stores(false);
        }
        Ok(frame)
    }

    /// Number of holders of a frame.
    pub fn holders(&self, frame: u64) -> u32 {
        self.cells.holders(frame)
    }

    /// One more holder.
    pub fn retain(&mut self, frame: u64) {
        self.cells.retain(frame);
    }

    /// One holder less.
    pub fn release(&mut self, frame: u64) {
        self.cells
            .release(frame, self.mistake == Some(PoolMistake::FreesEarly));
    }

    /// A file is gone.
    pub fn forget(&mut self, id: InodeId) {
        self.files.remove(&id);
        self.changed.remove(&id);
        self.unsynchronised.remove(&id);
    }

    /// A directory's names have changed.
    pub fn names_changed(&mut self, directory: InodeId) {
        self.names_changed |= directory == self.directory;
    }
}

impl Kernel {
    /// Where pools lie, if there are any, and those of which the last table says something else, as
    /// it will be if the power is cut now.
    pub fn pools(&self) -> Option<(std::ops::Range<u64>, Vec<String>)> {
        let pools = self.frames.pools.as_deref()?;
        Some((pools.area.addresses(), self.names_of(pools, &pools.changed)))
    }

    /// Pools that have a name, and of which nothing that the program has done makes durable where they lie:
    /// no `fsync` and its kin, and no mapping with `MAP_SYNC`. They are known where every fault of a store
    /// commits.
    pub fn unsynchronised_pools(&self) -> Vec<String> {
        let pools = self.frames.pools.as_deref();
        let names = pools.map(|pools| self.names_of(pools, &pools.unsynchronised));
        names.unwrap_or_default()
    }

    /// The names of some pools, as far as they have any.
    fn names_of(&self, pools: &Pools, some: &BTreeSet<InodeId>) -> Vec<String> {
        let directory = self.files.directory(pools.directory);
        let entries = directory.map(|directory| &directory.entries);
        let named = entries.into_iter().flatten();
        let is_one = |id: &Option<InodeId>| id.is_some_and(|id| some.contains(&id));
        named
            .filter(|(_, id)| is_one(id))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// The machine's pools, if a file is one of them.
    pub(crate) fn pools_of(&mut self, id: InodeId) -> Option<&mut Pools> {
        let pools = self.frames.pools.as_deref_mut()?;
        (pools.has_file(id) || pools.directory == id).then_some(pools)
    }

    /// True if a file is one of them.
    pub(crate) fn is_pool(&self, id: InodeId) -> bool {
        let pools = self.frames.pools.as_deref();
        pools.is_some_and(|pools| pools.has_file(id))
    }

    /// The mapping of a pool in which an address lies, from where to where.
    pub fn pool_mapping(&self, space: SpaceId, address: u64) -> Option<Range<u64>> {
        let (start, mapping) = self.spaces.get(space)?.find(address)?;
        let is_pool = mapping.inode().is_some_and(|inode| self.is_pool(inode));
        is_pool.then_some(start..mapping.end)
    }

    /// True if a directory is that of pools.
    pub(crate) fn is_pool_directory(&self, directory: InodeId) -> bool {
        let pools = self.frames.pools.as_deref();
        pools.is_some_and(|pools| pools.directory == directory)
    }

    /// A file that is made in a directory is a pool if that is theirs. Fails if there is no room for one.
    pub(crate) fn check_new_pool(&self, directory: InodeId) -> Result<(), Errno> {
        let Some(pools) = self.frames.pools.as_deref() else {
            return Ok(());
        };
        let full = pools.files.len() as u64 >= pools.area.files_max();
        if pools.directory == directory && full {
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    /// A file was made in a directory.
    pub(crate) fn new_pool(&mut self, directory: InodeId, id: InodeId) {
        if let Some(pools) = self.frames.pools.as_deref_mut()
            && pools.directory == directory
        {
            pools.files.insert(id);
            pools.changed.insert(id);
        }
    }

    /// A file's length was changed, from so much.
    pub(crate) fn length_changed(&mut self, id: InodeId, old: u64) {
        let size = self.files.file(id).map_or(old, |file| file.size);
        let last = size / PAGE_BYTES;
        let entry = self.files.page_entry(id, last).unwrap_or(0);
        let Some(pools) = self.pools_of(id).filter(|_| size != old) else {
            return;
        };
        pools.changed.insert(id);
        // Behind the end of a file that was cut off there are zeros now, which have to stay.
        if size < old && entry != 0 {
            pools
                .cells
                .refresh(entry >> crate::vfs::inode::PAGE_FRAME_SHIFT);
        }
    }

    /// Fails if a pool's pages in a range cannot all have frames.
    pub(crate) fn check_pages_left(
        &mut self,
        id: InodeId,
        pages: &std::ops::Range<u64>,
    ) -> Result<(), Errno> {
        let Some(left) = self.pools_of(id).map(|pools| pools.cells.left()) else {
            return Ok(());
        };
        let held = self.files.held_pages(id)?;
        let held = held.iter().filter(|(page, _)| pages.contains(page)).count();
        if (pages.end - pages.start).saturating_sub(held as u64) > left {
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }
}
