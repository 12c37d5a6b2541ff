//! Pools when a machine starts, and what is found of them when its power is gone.
//!
//! Always true here: a machine mounts what the bytes of its persistent memory say, be it that files of the
//! host were just brought there, or that an earlier life left them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::frames::Cells;
use super::table::{Area, Extent, Pool, Table};
use super::{POOLS_DIRECTORY, Pools};
use crate::configuration;
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES};
use crate::vfs::content::FILE_BYTES_MAX;
use crate::vfs::inode::{PAGE_FRAME_SHIFT, PAGE_PRESENT};
use crate::vfs::{DirectoryNode, FileNode, MountPoint, Node};

/// A file of the host that becomes a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolFile {
    /// Its name.
    pub name: String,
    /// Length in bytes.
    pub size: u64,
    /// Whole pages that are not all zeros, by the number of the first of those that lie together; the
    /// rest of the file is zeros.
    pub pieces: BTreeMap<u64, Vec<u8>>,
}

impl PoolFile {
    /// The longest that there can be.
    pub const SIZE_MAX: u64 = FILE_BYTES_MAX;

    /// Pages that it has as a whole.
    fn pages(&self) -> u64 {
        self.size.div_ceil(PAGE_BYTES)
    }

    /// Where pages of its own lie in it: all, or those that are not zeros.
    fn held(&self, all: bool) -> Vec<Range<u64>> {
        if all {
            return (self.size > 0)
                .then_some(0..self.pages())
                .into_iter()
                .collect();
        }
        let piece = |(&page, bytes): (&u64, &Vec<u8>)| page..page + bytes.len() as u64 / PAGE_BYTES;
        self.pieces.iter().map(piece).collect()
    }
}

/// The pools that a machine starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolSource {
    /// These and no others, in memory that has nothing yet.
    Files(Vec<PoolFile>),
    /// What an earlier life left.
    Surviving,
}

/// Why a machine cannot start with its pools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolsError {
    /// Too little memory for any.
    #[error("persistent memory {start:#x}..{end:#x} is too small for pools")]
    Area {
        /// First byte.
        start: u64,
        /// First byte beyond.
        end: u64,
    },
    /// Too many files, or a name that is too long.
    #[error("{0} pools: there is room for the names of {1}")]
    Many(usize, u64),
    /// They do not fit.
    #[error(
        "the pools have {needed} bytes in whole pages, and persistent memory has room for {room}"
    )]
    Large {
        /// What they take.
        needed: u64,
        /// What there is.
        room: u64,
    },
    /// There is no whole table.
    #[error("persistent memory has no table of pools that is whole")]
    Damaged,
}

/// The pools that a table in persistent memory names, where `read` gets bytes at physical addresses.
pub fn surviving(
    addresses: &Range<u64>,
    read: &mut dyn FnMut(u64, &mut [u8]),
) -> Result<Vec<Pool>, PoolsError> {
    let area = area(addresses)?;
    let table = area.read(read).ok_or(PoolsError::Damaged)?;
    Ok(table.pools)
}

fn area(addresses: &Range<u64>) -> Result<Area, PoolsError> {
    let Range { start, end } = *addresses;
    Area::new(addresses).ok_or(PoolsError::Area { start, end })
}

/// Brings files into memory that has nothing yet, with the table that names them. Every page of theirs
/// has a frame, in the order of the files; where there are too few for all, pages of zeros have none.
fn format(
    machine: &mut dyn Machine,
    area: &Area,
    files: &[PoolFile],
    now_ns: u64,
) -> Result<(), PoolsError> {
    if files.len() as u64 > area.files_max() {
        return Err(PoolsError::Many(files.len(), area.files_max()));
    }
    let frames = area.frames();
    let room = u64::from(frames.end - frames.start);
    let needed = |all: bool| -> u64 {
        let held = files.iter().flat_map(|file| file.held(all));
        held.map(|pages| pages.end - pages.start)
            .fold(0, u64::saturating_add)
    };
    let all = needed(true) <= room;
    let needed = needed(all);
    if needed > room {
        return Err(PoolsError::Large {
            needed: needed * PAGE_BYTES,
            room: room * PAGE_BYTES,
        });
    }
    let mut frame = area.first_frame() + u64::from(frames.start);
    let mut table = Table {
        sequence: 1,
        pools: Vec::new(),
    };
    for file in files {
        let mut extents = Vec::new();
        for held in file.held(all) {
            for (&page, bytes) in file.pieces.range(held.clone()) {
                machine.write((frame + page - held.start) * PAGE_BYTES, bytes);
            }
            let (page, pages) = (held.start, held.end - held.start);
            extents.push(Extent { page, frame, pages });
            frame += pages;
        }
        table.pools.push(Pool {
            name: file.name.clone(),
            size: file.size,
            mode: 0o644,
            modified_ns: now_ns,
            extents,
        });
    }
    table.pools.sort_by(|a, b| a.name.cmp(&b.name));
    machine.write(area.slot(table.sequence), &area.encode(&table));
    Ok(())
}

impl Kernel {
    /// Makes the pools of persistent memory the files of a directory, if they are wanted.
    pub(crate) fn mount_pools(
        &mut self,
        machine: &mut dyn Machine,
        wanted: Option<&configuration::Pools>,
    ) -> Result<(), PoolsError> {
        let Some(wanted) = wanted else {
            return Ok(());
        };
        let area = area(&wanted.addresses)?;
        if let PoolSource::Files(files) = &*wanted.source {
            format(machine, &area, files, self.files.start_ns)?;
        }
        let read = &mut |address, buffer: &mut [u8]| machine.read(address, buffer);
        let table = area.read(read).ok_or(PoolsError::Damaged)?;
        self.enter_pools(area, &table, wanted)
            .map_err(|_| PoolsError::Damaged)
    }

    fn enter_pools(
        &mut self,
        area: Area,
        table: &Table,
        wanted: &configuration::Pools,
    ) -> Result<(), Errno> {
        let (root, now) = (self.files.root, self.files.start_ns);
        let name = POOLS_DIRECTORY.trim_start_matches('/');
        let directory = (self.files).create(DirectoryNode::empty(root, name, None), 0o777, now);
        self.files.enter(root, name, directory)?;
        self.files.mounts.push(MountPoint {
            inode: directory,
            path: POOLS_DIRECTORY.into(),
            released: false,
        });
        let mut files = BTreeSet::new();
        for pool in &table.pools {
            let node = Node::File(FileNode {
                size: pool.size,
                ..FileNode::default()
            });
            let id = self.files.create(node, pool.mode, pool.modified_ns);
            self.files.enter(directory, &pool.name, id)?;
            files.insert(id);
            for extent in &pool.extents {
                for page in 0..extent.pages {
                    let entry = (extent.frame + page) << PAGE_FRAME_SHIFT | PAGE_PRESENT;
                    self.files.set_page_entry(id, extent.page + page, entry)?;
                }
                self.files.file_mut(id)?.pages_held += extent.pages;
            }
        }
        self.frames.pools = Some(Box::new(Pools {
            cells: Cells::new(&area, table),
            area,
            directory,
            files,
            changed: BTreeSet::new(),
            names_changed: false,
            sequence: table.sequence,
            faults_commit: wanted.faults_commit,
            unsynchronised: BTreeSet::new(),
            mistake: wanted.mistake,
        }));
        Ok(())
    }
}
