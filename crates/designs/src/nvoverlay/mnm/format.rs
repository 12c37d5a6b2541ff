//! Byte formats of the multi-snapshot mapping in NVM, and how they are read and checked.
//!
//! The pool is the log area, in units of 256 bytes. What has a format of its own there:
//!
//! ```text
//! registers, two copies in METADATA, 4 KiB apart; copy = sequence mod 2
//!     0  u64  magic "MNMREGS1"
//!     8  u64  overlay memory controllers (OMCs)
//!    16  u64  sequence number: the larger one is the newer
//!    24  u64  rec-epoch
//!    32  u64  merged epoch: the master tables have every epoch up to it, and none above rec-epoch
//!    40  u64  horizon: the oldest epoch that can be read; epochs before it were compacted
//!    48  u64  start of the pool      56  u64  its end
//!    64  u64  bytes of an extent     72  u64  extents granted
//!    80  for each OMC:  0 u64  address of its newest index block, or 0     8 u64  that one's epoch
//!                      16 u64  address of its newest base block, or 0     24 u64  root of its master
//!        zeros to the next multiple of 64, the last 8 bytes being a u64 checksum (xxh3)
//!
//! index block, 1 to 16 units, a chain of them for each OMC, newest epoch first
//!     0  u64  checksum over its own address and the used bytes from 8 on (xxh3)
//!     8  u32  magic "MNM1"
//!    12  u16  OMC                    14  u16  0: index of an epoch, 1: base index
//!    16  u64  epoch
//!    24  u64  address of the next older block of the chain, or 0
//!    32  u64  that one's epoch
//!    40  u32  number of this block within its epoch
//!    44  u16  used bytes             46  u16  units
//!    48  segments:
//!         0  u64  page number << 8 | slots, 1 to 64
//!         8  u32  first unit of the segment, counted from the start of the pool
//!        12  for each slot u16: line in the page | writer << 6, or 0xffff: no version;
//!            in a base index followed by u16: epochs before the block's, at most 65,535
//!
//! segment       64 bytes for each slot, in whole units
//! master table  see `master`
//! ```
//!
//! Slot *i* of a segment holds the bytes of the version that the index's *i*-th word names. A base
//! index has what compaction left of all epochs up to the horizon: the newest version of each line.
//!
//! Always true here:
//! - A whole block that a whole block or register names was written for that place in the chain:
//!   its address is under its checksum, and (epoch, number) falls along the chain.
//! - No bytes, however damaged, make reading panic or go on for ever.

use std::borrow::Cow;
use std::ops::Range;

use perdure_hardware::line::{LINE_BYTES, LineNumber};

use crate::bytes::{Writer, checksum, sealed, unsealed};
use crate::copies::COPIES;
use crate::snapshots::Source;
use crate::surviving::Corruption;

/// The unit of the pool.
pub const UNIT_BYTES: u64 = 256;
/// Lines in a unit.
pub const UNIT_LINES: usize = UNIT_BYTES as usize / LINE_BYTES;
/// Address partitions, overlays and the kernel's pages all go by this.
pub const PAGE_BYTES: u64 = 4096;
/// Units in a page of the pool, the most that is allocated at once.
pub const PAGE_UNITS: u32 = (PAGE_BYTES / UNIT_BYTES) as u32;
/// Lines in a page.
pub const PAGE_LINES: usize = PAGE_BYTES as usize / LINE_BYTES;
/// Most OMCs.
pub const OMCS_MAX: usize = 16;
/// Writers are numbered below this.
pub const WRITERS_MAX: u16 = 0x3ff;
/// Programs' addresses have fewer bits (§V-C).
pub const ADDRESS_BITS: u32 = 48;

const REGISTER_MAGIC: u64 = u64::from_le_bytes(*b"MNMREGS1");
const REGISTER_FIELDS: usize = 10;
const CHAIN_FIELDS: usize = 4;
const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"MNM1");
const BLOCK_HEADER: usize = 48;
const SEGMENT_HEADER: usize = 12;
const NO_VERSION: u16 = u16::MAX;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The little-endian number at a place.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

// ---- Registers -----------------------------------------------------------------------------

/// A block of a chain, named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its address; 0 for none.
    pub address: u64,
    /// Its epoch.
    pub epoch: u64,
}

/// Where an OMC's structures are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chains {
    /// The newest index block.
    pub index: Link,
    /// The newest base block; its epoch is the horizon.
    pub base: u64,
    /// The root of the master table.
    pub root: u64,
}

/// The registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Counts writes.
    pub sequence: u64,
    /// The newest epoch that can be recovered (rec-epoch).
    pub recoverable: u64,
    /// The master tables have every epoch up to this one.
    pub merged: u64,
    /// The oldest epoch that can be read.
    pub horizon: u64,
    /// The pool.
    pub pool: Range<u64>,
    /// What the kernel grants at a time.
    pub extent_bytes: u64,
    /// How often it has.
    pub extents: u64,
    /// For each OMC.
    pub chains: Vec<Chains>,
}

impl Register {
    /// Bytes of the record for so many OMCs.
    pub const fn length(omcs: usize) -> usize {
        ((REGISTER_FIELDS + CHAIN_FIELDS * omcs + 1) * 8).next_multiple_of(LINE_BYTES)
    }

    /// Where this one goes.
    pub fn address(&self) -> u64 {
        COPIES[(self.sequence % 2) as usize]
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(REGISTER_MAGIC);
        writer.u64(self.chains.len() as u64);
        writer.u64(self.sequence).u64(self.recoverable);
        writer.u64(self.merged).u64(self.horizon);
        writer.u64(self.pool.start).u64(self.pool.end);
        writer.u64(self.extent_bytes).u64(self.extents);
        for chains in &self.chains {
            writer.u64(chains.index.address).u64(chains.index.epoch);
            writer.u64(chains.base).u64(chains.root);
        }
        sealed(writer, Self::length(self.chains.len()))
    }

    /// The record at a place, if its bytes are whole.
    fn read_copy<S: Source + ?Sized>(source: &S, address: u64) -> Result<Option<Self>, S::Error> {
        let omcs = u64_at(&source.bytes(address + 8, 8)?, 0);
        if !(1..=OMCS_MAX as u64).contains(&omcs) {
            return Ok(None);
        }
        let bytes = source.bytes(address, Self::length(omcs as usize))?;
        let Some(mut reader) = unsealed(&bytes, REGISTER_MAGIC) else {
            return Ok(None);
        };
        reader.u64();
        let mut register = Self {
            sequence: reader.u64(),
            recoverable: reader.u64(),
            merged: reader.u64(),
            horizon: reader.u64(),
            pool: reader.u64()..reader.u64(),
            extent_bytes: reader.u64(),
            extents: reader.u64(),
            chains: Vec::new(),
        };
        for _ in 0..omcs {
            register.chains.push(Chains {
                index: Link {
                    address: reader.u64(),
                    epoch: reader.u64(),
                },
                base: reader.u64(),
                root: reader.u64(),
            });
        }
        Ok(Some(register))
    }

    /// Both copies, as far as they are whole, the newer one first.
    pub fn read_copies<S: Source + ?Sized>(source: &S) -> Result<Vec<Self>, S::Error> {
        let mut copies = Vec::new();
        for address in COPIES {
            copies.extend(Self::read_copy(source, address)?);
        }
        copies.sort_by_key(|copy| std::cmp::Reverse(copy.sequence));
        Ok(copies)
    }

    /// The newest whole copy.
    pub fn read<S: Source + ?Sized>(source: &S) -> Result<Self, S::Error> {
        if let Some(newest) = Self::read_copies(source)?.into_iter().next() {
            return Ok(newest);
        }
        let mut what =
            "no registers of a multi-snapshot mapping: there is none, or they are damaged";
        for address in COPIES {
            let magic = source.bytes(address, 8)?;
            let version = u64_at(&magic, 0) ^ REGISTER_MAGIC;
            if version == 0 {
                what = "registers of the multi-snapshot mapping: both copies are damaged";
                break;
            } else if version << 8 == 0 {
                what = "registers of another version of the multi-snapshot mapping";
            }
        }
        let address = COPIES[0];
        Err(Corruption { what, address }.into())
    }
}

// ---- Index blocks --------------------------------------------------------------------------

/// What kind of index a block is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of one epoch.
    Epoch,
    /// Of all epochs up to the horizon.
    Base,
}

/// A version as an index tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its line in the page.
    pub line: u8,
    /// Who wrote it.
    pub writer: u16,
    /// In which epoch.
    pub epoch: u64,
}

/// Line and writer as one word, as indexes and volatile tables hold them.
pub fn version_word(line: u8, writer: u16) -> u16 {
    u16::from(line) | writer.min(WRITERS_MAX - 1) << 6
}

/// The line in the page of a version word.
pub fn line_of_word(word: u16) -> u8 {
    (word & 0x3f) as u8
}

/// Builds the blocks' bodies: takes segments, and says what fits.
#[derive(Clone, Debug)]
pub struct BlockWriter {
    kind: Kind,
    /// The chain's.
    omc: usize,
    epoch: u64,
    previous: Link,
    number: u32,
    body: Vec<u8>,
}

impl BlockWriter {
    /// An empty block: of an epoch or of the base, whose epoch is the horizon; the next older block,
    /// and its own number within the epoch.
    pub fn new(kind: Kind, omc: usize, epoch: u64, previous: Link, number: u32) -> Self {
        Self {
            kind,
            omc,
            epoch,
            previous,
            number,
            body: Vec::new(),
        }
    }

    /// Bytes of a segment with so many slots.
    fn segment_bytes(kind: Kind, slots: usize) -> usize {
        SEGMENT_HEADER
            + slots
                * match kind {
                    Kind::Epoch => 2,
                    Kind::Base => 4,
                }
    }

    /// Adds a segment, if a block of so many units has room for it.
    pub fn add(
        &mut self,
        units: u32,
        page: u64,
        unit: u32,
        slots: impl ExactSizeIterator<Item = Option<Slot>>,
    ) -> bool {
        let bytes = Self::segment_bytes(self.kind, slots.len());
        if BLOCK_HEADER + self.body.len() + bytes > (u64::from(units) * UNIT_BYTES) as usize {
            return false;
        }
        let word = page << 8 | slots.len() as u64;
        self.body.extend_from_slice(&word.to_le_bytes());
        self.body.extend_from_slice(&unit.to_le_bytes());
        for slot in slots {
            let word = slot.map_or(NO_VERSION, |slot| version_word(slot.line, slot.writer));
            self.body.extend_from_slice(&word.to_le_bytes());
            if self.kind == Kind::Base {
                let age = slot.map_or(0, |slot| self.epoch - slot.epoch);
                let age = age.min(u64::from(u16::MAX)) as u16;
                self.body.extend_from_slice(&age.to_le_bytes());
            }
        }
        true
    }

    /// Bytes of its segments.
    pub fn length(&self) -> usize {
        self.body.len()
    }

    /// Takes out what was added since it had so many bytes.
    pub fn truncate(&mut self, length: usize) {
        self.body.truncate(length);
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Units that the block takes.
    pub fn units(&self) -> u32 {
        (BLOCK_HEADER + self.body.len()).div_ceil(UNIT_BYTES as usize) as u32
    }

    /// What reading the block at that address will tell of it.
    pub fn header(&self, address: u64) -> Header {
        Header {
            address,
            kind: self.kind,
            epoch: self.epoch,
            previous: self.previous,
            number: self.number,
            units: self.units(),
        }
    }

    /// The block's used bytes, for that address.
    pub fn seal(&self, address: u64) -> Vec<u8> {
        let used = BLOCK_HEADER + self.body.len();
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&BLOCK_MAGIC.to_le_bytes());
        bytes.extend_from_slice(&(self.omc as u16).to_le_bytes());
        bytes.extend_from_slice(&(self.kind as u16).to_le_bytes());
        for field in [self.epoch, self.previous.address, self.previous.epoch] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&(used as u16).to_le_bytes());
        bytes.extend_from_slice(&(self.units() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.body);
        let seal = block_seal(&bytes, address);
        bytes[..8].copy_from_slice(&seal.to_le_bytes());
        bytes
    }
}

fn block_seal(bytes: &[u8], address: u64) -> u64 {
    checksum(&bytes[8..]) ^ checksum(&address.to_le_bytes())
}

/// Where a block is and what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its address.
    pub address: u64,
    /// Of an epoch or of the base.
    pub kind: Kind,
    /// Its epoch.
    pub epoch: u64,
    /// The next older block.
    pub previous: Link,
    /// Number within the epoch.
    pub number: u32,
    /// Units that it takes.
    pub units: u32,
}

/// A segment as an index block tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The page whose lines it holds.
    pub page: u64,
    /// Its first unit in the pool.
    pub unit: u32,
    /// The epoch of its block.
    pub epoch: u64,
    kind: Kind,
    words: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Its slots, in order; `None` where there is no version any more.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = Option<Slot>> + use<'a> {
        let (kind, epoch) = (self.kind, self.epoch);
        let width = BlockWriter::segment_bytes(kind, 1) - SEGMENT_HEADER;
        self.words.chunks_exact(width).map(move |words| {
            let word = u16_at(words, 0);
            let age = match kind {
                Kind::Epoch => 0,
                Kind::Base => u64::from(u16_at(words, 2)),
            };
            (word != NO_VERSION).then(|| Slot {
                line: line_of_word(word),
                writer: word >> 6,
                epoch: epoch.saturating_sub(age),
            })
        })
    }

    /// Units that it takes.
    pub fn units(&self) -> u32 {
        self.slots().len().div_ceil(UNIT_LINES) as u32
    }
}

/// What a walk along a chain comes across: a block's segments, then the block.
#[derive(Clone, Copy, Debug)]
pub enum Visit<'a> {
    /// A segment.
    Segment(Segment<'a>),
    /// A block.
    Block(&'a Header),
}

/// Everything that reading a chain of blocks must know.
#[derive(Clone, Debug)]
pub struct ChainReader<'a, S: ?Sized> {
    source: &'a S,
    pool: Range<u64>,
    horizon: u64,
    omc: usize,
    omcs: usize,
}

impl<'a, S: Source + ?Sized> ChainReader<'a, S> {
    /// For that OMC's chains.
    pub fn new(source: &'a S, register: &Register, omc: usize) -> Self {
        Self {
            source,
            pool: register.pool.clone(),
            horizon: register.horizon,
            omc,
            omcs: register.chains.len(),
        }
    }

    fn header(&self, link: Link, kind: Kind) -> Result<(Header, Cow<'a, [u8]>), S::Error> {
        let Link { address, epoch } = link;
        let corrupt = |what| Corruption { what, address };
        let in_pool = self.pool.contains(&address) && address.is_multiple_of(UNIT_BYTES);
        if !in_pool || self.pool.end - address < UNIT_BYTES {
            return Err(corrupt("index: a block outside the pool").into());
        }
        let head = self.source.bytes(address, BLOCK_HEADER)?;
        let used = usize::from(u16_at(&head, 44));
        let units = u32::from(u16_at(&head, 46));
        let room = u64::from(units) * UNIT_BYTES;
        if !(1..=PAGE_UNITS).contains(&units)
            || !(BLOCK_HEADER as u64..=room).contains(&(used as u64))
            || room > self.pool.end - address
        {
            return Err(corrupt("index: a block's lengths are damaged").into());
        }
        let bytes = self.source.bytes(address, used)?;
        if u64_at(&bytes, 0) != block_seal(&bytes, address) || u32_at(&bytes, 8) != BLOCK_MAGIC {
            return Err(corrupt("index: a block is damaged").into());
        }
        let header = Header {
            address,
            kind,
            epoch: u64_at(&bytes, 16),
            previous: Link {
                address: u64_at(&bytes, 24),
                epoch: u64_at(&bytes, 32),
            },
            number: u32_at(&bytes, 40),
            units,
        };
        let expected = (self.omc as u16, kind as u16, epoch);
        if (u16_at(&bytes, 12), u16_at(&bytes, 14), header.epoch) != expected {
            return Err(corrupt("index: a block of another chain").into());
        }
        Ok((header, bytes))
    }

    /// One block that is known to be whole, or is to be checked for it.
    pub fn block(
        &self,
        link: Link,
        kind: Kind,
        mut visit: impl FnMut(Segment) -> Result<(), S::Error>,
    ) -> Result<Header, S::Error> {
        let (header, bytes) = self.header(link, kind)?;
        let corrupt = || Corruption {
            what: "index: a segment is damaged",
            address: header.address,
        };
        let mut rest = &bytes[BLOCK_HEADER..];
        while !rest.is_empty() {
            let (head, after) = rest.split_at_checked(SEGMENT_HEADER).ok_or_else(corrupt)?;
            let word = u64_at(head, 0);
            let (page, slots) = (word >> 8, (word & 0xff) as usize);
            let length = BlockWriter::segment_bytes(kind, slots) - SEGMENT_HEADER;
            let (words, after) = after.split_at_checked(length).ok_or_else(corrupt)?;
            rest = after;
            let unit = u32_at(head, 8);
            let segment = Segment {
                page,
                unit,
                epoch: header.epoch,
                kind,
                words,
            };
            let end = (u64::from(unit) + u64::from(segment.units())) * UNIT_BYTES;
            let good = (1..=PAGE_LINES).contains(&slots)
                && end <= self.pool.end - self.pool.start
                && page < self.pool.start / PAGE_BYTES
                && page % self.omcs as u64 == self.omc as u64;
            if !good {
                return Err(corrupt().into());
            }
            visit(segment)?;
        }
        Ok(header)
    }

    /// All blocks of the chains, from the newest to the oldest, then those of the base.
    pub fn walk(
        &self,
        chains: &Chains,
        mut visit: impl FnMut(Visit) -> Result<(), S::Error>,
    ) -> Result<(), S::Error> {
        let base = Link {
            address: chains.base,
            epoch: self.horizon,
        };
        for (mut link, kind) in [(chains.index, Kind::Epoch), (base, Kind::Base)] {
            let mut newer = (link.epoch, u32::MAX);
            // What lies behind the horizon was compacted, and its place may be in use again.
            while link.address != 0 && (kind == Kind::Base || link.epoch > self.horizon) {
                let header = self.block(link, kind, |one| visit(Visit::Segment(one)))?;
                let place = (header.epoch, header.number);
                if place >= newer || header.previous.epoch > header.epoch {
                    return Err(Corruption {
                        what: "index: blocks out of order",
                        address: header.address,
                    }
                    .into());
                }
                newer = place;
                link = header.previous;
                visit(Visit::Block(&header))?;
            }
        }
        Ok(())
    }
}

/// The number of a page's line.
pub fn line_number(page: u64, line: u8) -> LineNumber {
    page * PAGE_LINES as u64 + u64::from(line)
}

/// Page and line in it.
pub fn page_of(line: LineNumber) -> (u64, u8) {
    (line / PAGE_LINES as u64, (line % PAGE_LINES as u64) as u8)
}
