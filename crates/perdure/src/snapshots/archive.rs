//! The file of a snapshot store: those bytes of an NVM that its snapshots are made of.
//!
//! ```text
//! 0    "PERDSNAP"
//! 8    u32  version of the format        12   u32  zero
//! 16   u64  bytes of the file            24   u64  bytes of the NVM
//! 32   u64  pages held                   40   u64  where the table of pages begins
//! 48   u64  checksum of store.json       56   u64  checksum of the table
//! 64   zeros                            120   u64  checksum of bytes 0 to 119
//! 128  for each page, its lines that are held, one after the other
//!  …   the table; for each page, by number:
//!        0 u64 page number   8 u64 lines held, a bit for each   16 u64 where they are
//!       24 u64 checksum over page number, lines held, and their bytes
//! ```
//!
//! Checksums are XXH3. A page has 4,096 bytes, 64 lines. A line that is not held is zero, or the
//! snapshots do not lead to it.
//!
//! Always true: no byte that an archive gives out was damaged since it was written. The header and the
//! table are checked when it is opened, a page whenever it is read from the file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use perdure_designs::bytes::{checksum, decoded, encoded};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::SnapshotsError;

/// The file's name in a store.
pub const NAME: &str = "snapshots.nvm";
/// Version of the format.
pub const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"PERDSNAP";
const HEADER_BYTES: usize = 128;
const ENTRY_BYTES: usize = size_of::<Entry>();
const PAGE_BYTES: u64 = 4096;
const PAGE_LINES: u64 = PAGE_BYTES / LINE_BYTES as u64;
/// Pages kept in memory: 4 MiB.
const CACHED_PAGES: usize = 1024;

fn seal(page: u64, lines: u64, bytes: &[u8]) -> u64 {
    checksum(bytes) ^ checksum(&encoded(&[page, lines]))
}

/// Lines of pages, by page number: a bit for each.
pub type Lines = BTreeMap<u64, u64>;

/// Adds the lines of a range.
pub fn add_lines(lines: &mut Lines, address: u64, length: u64) {
    if length == 0 {
        return;
    }
    let line_bytes = LINE_BYTES as u64;
    for line in address / line_bytes..(address + length).div_ceil(line_bytes) {
        *lines.entry(line / PAGE_LINES).or_default() |= 1 << (line % PAGE_LINES);
    }
}

/// Of those lines of an NVM the ones that are not zero: pages and a bit for each line, in order.
pub fn held(nvm: &Arena, wanted: &Lines) -> Vec<(u64, u64)> {
    let held = |page: u64, line: u64| {
        let bytes = nvm.line(page * PAGE_BYTES + line * LINE_BYTES as u64);
        *bytes != Line::ZERO
    };
    let pages = wanted.iter().map(|(&page, &lines)| {
        let lines = (0..PAGE_LINES).filter(|&line| lines >> line & 1 != 0 && held(page, line));
        (page, lines.fold(0, |lines, line| lines | 1 << line))
    });
    pages.filter(|(_, lines)| *lines != 0).collect()
}

/// The length of a file that holds so many pages and lines.
pub fn length(pages: u64, lines: u64) -> u64 {
    HEADER_BYTES as u64 + pages * ENTRY_BYTES as u64 + lines * LINE_BYTES as u64
}

/// Writes lines of an NVM; `other` is the checksum of store.json.
pub fn write(path: &Path, nvm: &Arena, held: &[(u64, u64)], other: u64) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&[0; HEADER_BYTES])?;
    let mut table = Vec::with_capacity(held.len() * ENTRY_BYTES);
    let mut offset = HEADER_BYTES as u64;
    let mut kept = Vec::with_capacity(PAGE_BYTES as usize);
    for &(page, lines) in held {
        kept.clear();
        for line in (0..PAGE_LINES).filter(|line| lines >> line & 1 != 0) {
            let address = page * PAGE_BYTES + line * LINE_BYTES as u64;
            kept.extend_from_slice(&nvm.line(address).0);
        }
        table.extend(encoded(&Entry {
            page,
            lines,
            offset,
            seal: seal(page, lines, &kept),
        }));
        file.write_all(&kept)?;
        offset += kept.len() as u64;
    }
    file.write_all(&table)?;
    let mut header = MAGIC.to_vec();
    header.extend(encoded(&Header {
        version: u64::from(VERSION),
        length: offset + table.len() as u64,
        nvm_bytes: nvm.len(),
        pages: held.len() as u64,
        table: offset,
        other,
        table_seal: checksum(&table),
    }));
    header.resize(HEADER_BYTES - 8, 0);
    header.extend(checksum(&header).to_le_bytes());
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&header)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

/// What follows the magic number.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Header {
    /// Four bytes of it, and four of zeros.
    version: u64,
    length: u64,
    nvm_bytes: u64,
    pages: u64,
    table: u64,
    other: u64,
    table_seal: u64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Entry {
    page: u64,
    lines: u64,
    offset: u64,
    seal: u64,
}

/// The lines held of the page at a place of the table.
type Cached = (usize, Vec<u8>);

/// An open archive.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    file: RefCell<File>,
    nvm_bytes: u64,
    /// By page.
    pages: Vec<Entry>,
    /// By place in `pages` modulo its length: that place, and the lines held.
    cache: RefCell<Vec<Option<Cached>>>,
}

impl Archive {
    /// Opens the archive of a store whose store.json has that checksum.
    pub fn open(path: &Path, other: u64) -> Result<Self, SnapshotsError> {
        let host = |source| SnapshotsError::Host {
            what: format!("the snapshot store {}", path.display()),
            source,
        };
        let mut file = File::open(path).map_err(host)?;
        let length = file.metadata().map_err(host)?.len();
        let damaged = |place: u64, what: &str| SnapshotsError::Damaged {
            file: path.to_owned(),
            place,
            what: what.to_owned(),
        };
        let mut header = Vec::new();
        let head = Read::by_ref(&mut file).take(HEADER_BYTES as u64);
        { head }.read_to_end(&mut header).map_err(host)?;
        if !header.starts_with(MAGIC) {
            return Err(SnapshotsError::NotAStore {
                file: path.to_owned(),
            });
        }
        let said: Header = decoded(&header[MAGIC.len()..]);
        let version = said.version as u32;
        if version != VERSION && header.len() >= 12 {
            return Err(SnapshotsError::OtherVersion {
                file: path.to_owned(),
                found: u64::from(version),
                known: u64::from(VERSION),
            });
        }
        let cut_short = |expected| SnapshotsError::CutShort {
            file: path.to_owned(),
            length,
            expected,
        };
        if header.len() < HEADER_BYTES {
            return Err(cut_short(HEADER_BYTES as u64));
        }
        let (body, seal) = header.split_at(HEADER_BYTES - 8);
        if checksum(body).to_le_bytes() != seal {
            return Err(damaged(0, "the header's checksum is wrong"));
        }
        let (expected, start) = (said.length, said.table);
        if length < expected {
            return Err(cut_short(expected));
        }
        let end = said.pages.checked_mul(ENTRY_BYTES as u64);
        let end = end.and_then(|bytes| start.checked_add(bytes));
        if length > expected || end != Some(expected) {
            return Err(damaged(
                length.min(expected),
                "it is longer than it should be",
            ));
        }
        if said.other != other {
            return Err(SnapshotsError::Damaged {
                file: path.with_file_name(super::manifest::NAME),
                place: 0,
                what: "its checksum is not the one that the store was written with".into(),
            });
        }
        file.seek(SeekFrom::Start(start)).map_err(host)?;
        let mut table = vec![0; (expected - start) as usize];
        file.read_exact(&mut table).map_err(host)?;
        if checksum(&table) != said.table_seal {
            return Err(damaged(
                start,
                "the checksum of the table of pages is wrong",
            ));
        }
        let pages: Vec<Entry> = table.chunks_exact(ENTRY_BYTES).map(decoded).collect();
        Ok(Self {
            path: path.to_owned(),
            file: RefCell::new(file),
            nvm_bytes: said.nvm_bytes,
            pages,
            cache: RefCell::new(vec![None; CACHED_PAGES]),
        })
    }

    /// Bytes of the whole NVM.
    pub fn nvm_bytes(&self) -> u64 {
        self.nvm_bytes
    }

    /// Bytes of the NVM; what is not held is zero.
    pub fn bytes(&self, address: u64, length: usize) -> io::Result<Vec<u8>> {
        let end = address.checked_add(length as u64);
        let end = end.filter(|&end| end <= self.nvm_bytes);
        let end = end.ok_or_else(|| io::Error::other("an address beyond the end of the NVM"))?;
        let mut bytes = vec![0; length];
        let mut at = address;
        while at < end {
            let page = at / PAGE_BYTES;
            let stop = end.min((page + 1) * PAGE_BYTES);
            if let Ok(index) = self.pages.binary_search_by_key(&page, |entry| entry.page) {
                let out = &mut bytes[(at - address) as usize..(stop - address) as usize];
                self.copy(index, at % PAGE_BYTES, out)?;
            }
            at = stop;
        }
        Ok(bytes)
    }

    /// Copies a part of a page.
    fn copy(&self, index: usize, start: u64, out: &mut [u8]) -> io::Result<()> {
        let mut cache = self.cache.borrow_mut();
        let slot = &mut cache[index % CACHED_PAGES];
        let held = match slot {
            Some((cached, held)) if *cached == index => held,
            _ => &mut slot.insert((index, self.load(index)?)).1,
        };
        let lines = self.pages[index].lines;
        let line_bytes = LINE_BYTES as u64;
        let (mut at, end) = (start, start + out.len() as u64);
        while at < end {
            let line = at / line_bytes;
            let stop = end.min((line + 1) * line_bytes);
            if lines >> line & 1 != 0 {
                let before = (lines & ((1 << line) - 1)).count_ones() as usize;
                let from = before * LINE_BYTES + (at % line_bytes) as usize;
                let length = (stop - at) as usize;
                out[(at - start) as usize..][..length].copy_from_slice(&held[from..from + length]);
            }
            at = stop;
        }
        Ok(())
    }

    /// The lines held of a page, from the file.
    fn load(&self, index: usize) -> io::Result<Vec<u8>> {
        let entry = self.pages[index];
        let damaged = || {
            let file = self.path.display();
            let place = entry.offset;
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{file} is damaged from byte {place} on: a page's checksum is wrong; {}",
                    super::WHAT_TO_DO
                ),
            )
        };
        let mut held = vec![0; entry.lines.count_ones() as usize * LINE_BYTES];
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(entry.offset))?;
        file.read_exact(&mut held)?;
        if seal(entry.page, entry.lines, &held) != entry.seal {
            return Err(damaged());
        }
        Ok(held)
    }
}
