//! How pools become durable: their pages, and the table.

use std::ops::Range;

use perdure_riscv::Access;

use super::{Pool, PoolMistake, Table};
use crate::address_space::{AddressSpace, Backing, Mapping};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES, SpaceId};
use crate::memory::BadAccess;
use crate::page_table::SYNC;
use crate::pools::table::Extent;
use crate::vfs::InodeId;
use crate::vfs::inode::{PAGE_DIRTY, PAGE_FRAME_SHIFT};

fn bytes_of(frame: u64) -> Range<u64> {
    frame * PAGE_BYTES..(frame + 1) * PAGE_BYTES
}

/// What a range of addresses shows of files that stores reach, with their pages.
fn shown(space: &AddressSpace, range: &Range<u64>) -> Vec<(InodeId, Range<u64>)> {
    let before = space.find(range.start).map(|(start, _)| start);
    let first = before.unwrap_or(range.start);
    let mut shown = Vec::new();
    for (&start, mapping) in space.mappings.range(first..range.end) {
        if let (true, Backing::File { inode, offset, .. }) = (mapping.shared, mapping.backing) {
            let page = |address: u64| (offset + address - start) / PAGE_BYTES;
            let (from, to) = (range.start.max(start), range.end.min(mapping.end));
            shown.push((inode, page(from)..page(to)));
        }
    }
    shown
}

/// Makes what was written to new pages durable by itself, as a table is that a fault commits where every one
/// does: nothing waits for it.
fn keep_new_pages(machine: &mut dyn Machine, frames: &[u64]) {
    let mut bytes = [0; PAGE_BYTES as usize];
    for frame in frames {
        let address = bytes_of(*frame).start;
        machine.peek(address, &mut bytes);
        if bytes.iter().any(|byte| *byte != 0) {
            machine.system_stores(true);
            machine.write(address, &bytes);
            machine.system_stores(false);
        }
    }
}

/// Why a page cannot be had.
impl From<Errno> for BadAccess {
    fn from(error: Errno) -> Self {
        match error {
            Errno::ENOSPC => BadAccess::NoSpace,
            _ => BadAccess::OutOfMemory,
        }
    }
}

impl Kernel {
    /// `msync`: writes back what a range shows of pools; true if it shows nothing else that is shared.
    pub(crate) fn synchronise_shown(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        range: &Range<u64>,
    ) -> Result<bool, Errno> {
        let shown = shown(&self.spaces[space], range);
        let mut all_pools = !shown.is_empty();
        for (inode, pages) in shown {
            all_pools &= self.synchronise_pool(machine, inode, pages)?;
        }
        Ok(all_pools)
    }

    /// `fsync` of a pool, or of the directory of pools; false if it is neither. Of a pool, the pages in a
    /// range are written back.
    pub(crate) fn synchronise_pool(
        &mut self,
        machine: &mut dyn Machine,
        id: InodeId,
        range: Range<u64>,
    ) -> Result<bool, Errno> {
        let Some(pools) = self.pools_of(id) else {
            return Ok(false);
        };
        let mistake = pools.mistake;
        if pools.has_file(id) {
            self.write_protect(machine, |_, shown| shown == id);
            for (page, entry) in self.files.held_pages(id)? {
                if entry & PAGE_DIRTY == 0 || !range.contains(&page) {
                    continue;
                }
                if mistake != Some(PoolMistake::SynchronisesNothing) {
                    machine.persist(bytes_of(entry >> PAGE_FRAME_SHIFT));
                }
                self.files.set_page_entry(id, page, entry & !PAGE_DIRTY)?;
            }
        }
        machine.wait_durable();
        self.commit_pools(machine)?;
        Ok(true)
    }

    /// `sync`: all pools and the directory.
    pub(crate) fn synchronise_pools(&mut self, machine: &mut dyn Machine) -> Result<(), Errno> {
        let Some(pools) = self.frames.pools.as_deref() else {
            return Ok(());
        };
        for id in pools.files.clone() {
            self.synchronise_pool(machine, id, 0..u64::MAX)?;
        }
        self.commit_pools(machine)
    }

    /// An access to a page of a mapping is to be let through: if it is a store, and the mapping one with
    /// `MAP_SYNC`, where the page lies must be durable.
    pub(crate) fn commit_for(
        &mut self,
        machine: &mut dyn Machine,
        mapping: &Mapping,
        access: Access,
    ) -> Result<(), BadAccess> {
        let Some(id) = mapping.inode() else {
            return Ok(());
        };
        let is_synchronous = mapping.permissions & SYNC != 0;
        let Some(pools) = self.pools_of(id) else {
            return Ok(());
        };
        if access != Access::Store || !(is_synchronous || pools.faults_commit && mapping.shared) {
            return Ok(());
        }
        let is_new = pools.names_changed || pools.changed.contains(&id);
        let due = is_new || is_synchronous && pools.unsynchronised.contains(&id);
        if !due || pools.mistake == Some(PoolMistake::FaultCommitsNothing) {
            return Ok(());
        }
        if is_synchronous {
            return Ok(self.commit_pools(machine)?);
        }
        pools.unsynchronised.extend(&pools.changed);
        let unnamed = pools.cells.unnamed();
        keep_new_pages(machine, &unnamed);
        let table = self.next_table()?;
        self.write_table(machine, &table);
        self.committed(&table);
        Ok(())
    }

    /// Makes a table durable, if anything has changed since the last one.
    fn commit_pools(&mut self, machine: &mut dyn Machine) -> Result<(), Errno> {
        let Some(pools) = self.frames.pools.as_deref_mut() else {
            return Ok(());
        };
        pools.unsynchronised.clear();
        if pools.changed.is_empty() && !pools.names_changed {
            return Ok(());
        }
        let table = self.next_table()?;
        let Some(pools) = self.frames.pools.as_deref_mut() else {
            return Ok(());
        };
        let fresh = pools.cells.take_fresh();
        let early = pools.mistake == Some(PoolMistake::TableFirst);
        let persist_fresh = |machine: &mut dyn Machine| {
            for &frame in &fresh {
                machine.persist(bytes_of(frame));
            }
            machine.wait_durable();
        };
        if !early {
            persist_fresh(machine);
        }
        let written = self.write_table(machine, &table);
        machine.persist(written);
        machine.wait_durable();
        if early {
            persist_fresh(machine);
        }
        self.committed(&table);
        Ok(())
    }

    /// The table that says how everything is now.
    fn next_table(&self) -> Result<Table, Errno> {
        let pools = self.frames.pools.as_deref();
        Ok(Table {
            sequence: pools.map_or(0, |pools| pools.sequence) + 1,
            pools: self.named_pools()?,
        })
    }

    /// Writes a table where it belongs. Returns where that is.
    fn write_table(&mut self, machine: &mut dyn Machine, table: &Table) -> Range<u64> {
        let Some(pools) = self.frames.pools.as_deref() else {
            return 0..0;
        };
        let (place, bytes) = (pools.area.slot(table.sequence), pools.area.encode(table));
        machine.system_stores(true);
        machine.write(place, &bytes);
        machine.system_stores(false);
        place..place + bytes.len() as u64
    }

    /// A table is durable.
    fn committed(&mut self, table: &Table) {
        if let Some(pools) = self.frames.pools.as_deref_mut() {
            pools.sequence = table.sequence;
            pools.cells.committed(table);
            pools.changed.clear();
            pools.names_changed = false;
        }
    }

    /// The pools that have a name, as they are now.
    fn named_pools(&self) -> Result<Vec<Pool>, Errno> {
        let Some(pools) = self.frames.pools.as_deref() else {
            return Ok(Vec::new());
        };
        let entries = &self.files.directory(pools.directory)?.entries;
        let named = entries.iter().filter_map(|(name, id)| Some((name, (*id)?)));
        named
            .map(|(name, id)| {
                let inode = self.files.inode(id)?;
                let mut extents: Vec<Extent> = Vec::new();
                for (page, entry) in self.files.held_pages(id)? {
                    let frame = entry >> PAGE_FRAME_SHIFT;
                    match extents.last_mut() {
                        Some(last)
                            if last.page + last.pages == page
                                && last.frame + last.pages == frame =>
                        {
                            last.pages += 1;
                        }
                        _ => extents.push(Extent {
                            page,
                            frame,
                            pages: 1,
                        }),
                    }
                }
                Ok(Pool {
                    name: name.clone(),
                    size: inode.size(),
                    mode: inode.mode,
                    modified_ns: inode.modified_ns,
                    extents,
                })
            })
            .collect()
    }
}
