//! What persistent memory says of the pools that lie in it: which there are, how long they are, and where
//! their pages are. The two ends of this file are all that a machine and its next boot have in common.
//!
//! ```text
//! area     slot 0, slot 1, then the frames of pools, to the end; all in whole pages
//! table    u64 "PERDPMEM"  u64 bytes of it all  u64 sequence  u64 files  each file  u64 checksum (XXH3)
//! file     u64 size  u64 modified_ns  u32 mode  u32 bytes of the name  u64 extents
//!          the name, with zeros to a multiple of 8; each extent
//! extent   u64 first page of the file  u32 first frame, counted from the area's start  u32 pages
//! ```
//!
//! Always true here:
//! - A table is written to the slot that does not have the last one. What was torn does not come to its
//!   checksum, so that the newest table that is whole is the last one that was committed.
//! - No table that is read names a page beyond the area, or one frame twice.

use std::collections::BTreeSet;
use std::ops::Range;

use twox_hash::XxHash3_64;

use crate::machine::PAGE_BYTES;

const MAGIC: u64 = u64::from_le_bytes(*b"PERDPMEM");
const HEADER_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 8;
const FILE_BYTES: usize = 32;
const EXTENT_BYTES: usize = 16;
/// The longest name of a file.
const NAME_BYTES_MAX: usize = 255;
/// The most files, however large the area is.
const FILES_MAX: u64 = 4096;
/// The fewest pages of an area.
const PAGES_MIN: u64 = 16;

/// Persistent memory that has pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    addresses: Range<u64>,
}

/// Pages of a pool that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first page of the file.
    pub page: u64,
    /// Where it lies: its physical address divided by the page size.
    pub frame: u64,
    /// How many.
    pub pages: u64,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name in the directory of pools.
    pub name: String,
    /// Length in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Nanoseconds since 1970.
    pub modified_ns: u64,
    /// Where its pages are, in the order of the file; what no extent has is zero.
    pub extents: Vec<Extent>,
}

/// All pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// How many were committed before it.
    pub sequence: u64,
    /// In the order of their names.
    pub pools: Vec<Pool>,
}

impl Area {
    /// Whole pages; `None` if there are too few.
    pub fn new(addresses: &Range<u64>) -> Option<Self> {
        let start = addresses.start.next_multiple_of(PAGE_BYTES);
        let end = addresses.end / PAGE_BYTES * PAGE_BYTES;
        let enough = end.saturating_sub(start) / PAGE_BYTES >= PAGES_MIN;
        enough.then_some(Self {
            addresses: start..end,
        })
    }

    /// Its physical addresses.
    pub fn addresses(&self) -> Range<u64> {
        self.addresses.clone()
    }

    fn pages(&self) -> u64 {
        (self.addresses.end - self.addresses.start) / PAGE_BYTES
    }

    /// The number of its first frame.
    pub fn first_frame(&self) -> u64 {
        self.addresses.start / PAGE_BYTES
    }

    /// The most files that its tables have room for.
    pub fn files_max(&self) -> u64 {
        (self.pages() / PAGES_MIN).min(FILES_MAX)
    }

    /// Bytes of a slot: room for so many files, each page in an extent of its own.
    fn slot_bytes(&self) -> u64 {
        let file = FILE_BYTES + NAME_BYTES_MAX.next_multiple_of(8);
        let bytes = (HEADER_BYTES + CHECKSUM_BYTES) as u64
            + self.files_max() * file as u64
            + self.pages() * EXTENT_BYTES as u64;
        bytes.next_multiple_of(PAGE_BYTES)
    }

    /// Where the table with this sequence stands.
    pub fn slot(&self, sequence: u64) -> u64 {
        self.addresses.start + sequence % 2 * self.slot_bytes()
    }

    /// The frames of pools, counted from the area's start.
    pub fn frames(&self) -> Range<u32> {
        let first = 2 * self.slot_bytes() / PAGE_BYTES;
        first as u32..self.pages().min(u64::from(u32::MAX >> 1)) as u32
    }

    /// The newest whole table.
    pub fn read(&self, read: &mut dyn FnMut(u64, &mut [u8])) -> Option<Table> {
        let tables = [0, 1].map(|sequence| {
            let place = self.slot(sequence);
            let mut header = [0; HEADER_BYTES];
            read(place, &mut header);
            let bytes = word(&header, 8).filter(|&bytes| bytes <= self.slot_bytes())?;
            if word(&header, 0) != Some(MAGIC) || word(&header, 16)? % 2 != sequence {
                return None;
            }
            let mut all = vec![0; bytes as usize];
            read(place, &mut all);
            self.decode(&all)
        });
        tables
            .into_iter()
            .flatten()
            .max_by_key(|table| table.sequence)
    }

    /// A table as bytes. There is room: no more files than [`Self::files_max`], and no page twice.
    pub fn encode(&self, table: &Table) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [MAGIC, 0, table.sequence, table.pools.len() as u64] {
            out.extend(number.to_le_bytes());
        }
        for pool in &table.pools {
            out.extend(pool.size.to_le_bytes());
            out.extend(pool.modified_ns.to_le_bytes());
            out.extend(pool.mode.to_le_bytes());
            out.extend((pool.name.len() as u32).to_le_bytes());
            out.extend((pool.extents.len() as u64).to_le_bytes());
            out.extend(pool.name.as_bytes());
            out.resize(out.len().next_multiple_of(8), 0);
            for extent in &pool.extents {
                let frame = extent.frame - self.first_frame();
                out.extend(extent.page.to_le_bytes());
                out.extend((frame as u32).to_le_bytes());
                out.extend((extent.pages as u32).to_le_bytes());
            }
        }
        let bytes = (out.len() + CHECKSUM_BYTES) as u64;
        out[8..16].copy_from_slice(&bytes.to_le_bytes());
        let checksum = XxHash3_64::oneshot(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    /// The table that bytes are, if they are one.
    fn decode(&self, bytes: &[u8]) -> Option<Table> {
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        if XxHash3_64::oneshot(body) != u64::from_le_bytes(*checksum) {
            return None;
        }
        let mut table = Table {
            sequence: word(body, 16)?,
            pools: Vec::new(),
        };
        let (mut at, mut taken) = (HEADER_BYTES, BTreeSet::new());
        for _ in 0..word(body, 24)? {
            let lengths = word(body, at + 16)?;
            let (mode, name_bytes) = (lengths as u32, (lengths >> 32) as usize);
            let extents = word(body, at + 24)?;
            let name = body.get(at + FILE_BYTES..at + FILE_BYTES + name_bytes)?;
            let mut pool = Pool {
                name: String::from_utf8(name.to_vec()).ok()?,
                size: word(body, at)?,
                mode,
                modified_ns: word(body, at + 8)?,
                extents: Vec::new(),
            };
            at += FILE_BYTES + name_bytes.next_multiple_of(8);
            for _ in 0..extents {
                let place = word(body, at + 8)?;
                let (frame, pages) = (place as u32, (place >> 32) as u32);
                let within = self.frames();
                for frame in frame..frame.checked_add(pages)? {
                    (within.contains(&frame) && taken.insert(frame)).then_some(())?;
                }
                pool.extents.push(Extent {
                    page: word(body, at)?,
                    frame: self.first_frame() + u64::from(frame),
                    pages: u64::from(pages),
                });
                at += EXTENT_BYTES;
            }
            table.pools.push(pool);
        }
        (at == body.len()).then_some(table)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let raw = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(raw.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area() -> Area {
        Area::new(&(0x10_0000..0x20_0000)).expect("it is large enough")
    }

    fn table(sequence: u64) -> Table {
        let first = area().first_frame() + u64::from(area().frames().start);
        let extent = |page, frame, pages| Extent {
            page,
            frame: first + frame,
            pages,
        };
        let pool = |name: &str, extents| Pool {
            name: name.into(),
            size: 9000,
            mode: 0o640,
            modified_ns: 7,
            extents,
        };
        Table {
            sequence,
            pools: vec![
                pool("a", vec![extent(0, 1, 2), extent(5, 0, 1)]),
                pool("a longer name", vec![]),
                pool("z", vec![extent(0, 3, 1)]),
            ],
        }
    }

    fn memory_with(tables: &[Table]) -> Vec<u8> {
        let mut memory = vec![0; 0x10_0000];
        for table in tables {
            let at = (area().slot(table.sequence) - 0x10_0000) as usize;
            let bytes = area().encode(table);
            memory[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        memory
    }

    fn read(memory: &[u8]) -> Option<Table> {
        area().read(&mut |address, buffer| {
            let at = (address - 0x10_0000) as usize;
            buffer.copy_from_slice(&memory[at..at + buffer.len()]);
        })
    }

    #[test]
    fn the_newest_whole_table_counts_whatever_is_torn_of_the_other() {
        assert_eq!(read(&vec![0; 0x10_0000]), None);
        assert_eq!(read(&memory_with(&[table(4)])), Some(table(4)));
        let both = memory_with(&[table(4), table(5)]);
        assert_eq!(read(&both), Some(table(5)));
        let start = (area().slot(5) - 0x10_0000) as usize;
        for at in start..start + area().encode(&table(5)).len() {
            let mut torn = both.clone();
            torn[at] ^= 0x10;
            assert_eq!(read(&torn), Some(table(4)), "byte {at}");
        }
    }

    #[test]
    fn a_table_that_names_what_it_must_not_is_none() {
        let mut twice = table(1);
        twice.pools[2].extents[0].frame -= 1;
        assert_eq!(read(&memory_with(&[twice])), None);
        let mut beyond = table(1);
        beyond.pools[2].extents[0].pages = 1 << 20;
        assert_eq!(read(&memory_with(&[beyond])), None);
        let mut own = table(1);
        own.pools[2].extents[0].frame = area().first_frame();
        assert_eq!(read(&memory_with(&[own])), None);
    }

    #[test]
    fn a_slot_has_room_for_the_worst_table() {
        for pages in [16, 17, 256, 16384] {
            let area = Area::new(&(0..pages * PAGE_BYTES)).expect("it is large enough");
            let frames = area.frames();
            let files = area.files_max();
            let each = u64::from(frames.end - frames.start);
            let worst = Table {
                sequence: 1,
                pools: (0..files)
                    .map(|number| Pool {
                        name: "n".repeat(NAME_BYTES_MAX),
                        size: 0,
                        mode: 0,
                        modified_ns: 0,
                        extents: (0..if number == 0 { each } else { 0 })
                            .map(|at| Extent {
                                page: 2 * at,
                                frame: u64::from(frames.start) + at,
                                pages: 1,
                            })
                            .collect(),
                    })
                    .collect(),
            };
            assert!(
                area.encode(&worst).len() as u64 <= area.slot_bytes(),
                "{pages}"
            );
            assert!(!frames.is_empty() && files > 0, "{pages}");
        }
        assert_eq!(Area::new(&(1..16 * PAGE_BYTES)), None);
    }
}
