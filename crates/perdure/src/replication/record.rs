//! Records: what a stream of epochs is made of.
//!
//! | kind | payload |
//! |---|---|
//! | 1 identity | [`super::Identity`] as JSON; first, once |
//! | 2 fact | something that the guest found on its host (postcard) |
//! | 3 memory | initial memory: u64 line, its 64 bytes; again and again |
//! | 4 versions | u64 line, u32 epochs before the next seal's, u16 writer, u16 zero, 64 bytes; again and again |
//! | 5 seal | u64 epoch that is now complete, u64 the epoch before it in the stream (all ones: none), u64 checksum of all bytes of memory and versions since the last seal |
//!
//! Numbers are little-endian, checksums XXH3 (`perdure_designs::bytes::checksum`'s).

use std::hash::Hasher as _;

use perdure_designs::bytes::{checksum, decoded, encoded};
use perdure_hardware::line::{LINE_BYTES, LineNumber};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Most bytes of a payload.
pub const PAYLOAD_MAX: u32 = 256 << 20;
/// Bytes of lines that are collected in a record.
pub const BATCH_BYTES: usize = 1 << 20;
/// Bytes of a line of initial memory.
pub const MEMORY_BYTES: usize = 8 + LINE_BYTES;
/// Bytes of a version.
pub const VERSION_BYTES: usize = 16 + LINE_BYTES;
/// Bytes of a seal.
pub const SEAL_BYTES: usize = size_of::<Seal>();
/// No epoch.
pub const NO_EPOCH: u64 = u64::MAX;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Which run it is.
    Identity = 1,
    /// Something from the guest's host.
    Fact = 2,
    /// Initial memory.
    Memory = 3,
    /// Versions.
    Versions = 4,
    /// An epoch is complete.
    Seal = 5,
}

impl Kind {
    /// From its number.
    pub fn of(number: u32) -> Option<Self> {
        let kinds = [
            Self::Identity,
            Self::Fact,
            Self::Memory,
            Self::Versions,
            Self::Seal,
        ];
        kinds.into_iter().find(|&kind| kind as u32 == number)
    }
}

/// The little-endian number at a place.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let raw = bytes.get(at..).and_then(|rest| rest.first_chunk());
    raw.map_or(0, |raw| u64::from_le_bytes(*raw))
}

/// The same, of four bytes.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let raw = bytes.get(at..).and_then(|rest| rest.first_chunk());
    raw.map_or(0, |raw| u32::from_le_bytes(*raw))
}

/// A version in a record, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionHead {
    /// The line.
    pub line: LineNumber,
    /// How many epochs before the sealed one it was written.
    pub age: u32,
    /// Who wrote it.
    pub writer: u16,
}

/// Appends a version with its line's bytes to a payload.
pub fn put_version(payload: &mut Vec<u8>, head: VersionHead, bytes: &[u8]) {
    payload.extend_from_slice(&head.line.to_le_bytes());
    payload.extend_from_slice(&head.age.to_le_bytes());
    payload.extend_from_slice(&head.writer.to_le_bytes());
    payload.extend_from_slice(&[0; 2]);
    payload.extend_from_slice(bytes);
}

/// The versions of a payload, each with the place of its bytes in it.
pub fn versions(payload: &[u8]) -> impl Iterator<Item = (VersionHead, usize)> {
    let pieces = payload.chunks_exact(VERSION_BYTES).enumerate();
    pieces.map(|(index, piece)| {
        let head = VersionHead {
            line: u64_at(piece, 0),
            age: u32_at(piece, 8),
            writer: u32_at(piece, 12) as u16,
        };
        (head, index * VERSION_BYTES + 16)
    })
}

/// Appends a line of initial memory to a payload.
pub fn put_memory(payload: &mut Vec<u8>, line: LineNumber, bytes: &[u8]) {
    payload.extend_from_slice(&line.to_le_bytes());
    payload.extend_from_slice(bytes);
}

/// The lines of a payload, each with the place of its bytes in it.
pub fn memory(payload: &[u8]) -> impl Iterator<Item = (LineNumber, usize)> {
    let pieces = payload.chunks_exact(MEMORY_BYTES).enumerate();
    pieces.map(|(index, piece)| (u64_at(piece, 0), index * MEMORY_BYTES + 8))
}

/// A seal: a position in a stream, too.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, FromBytes, IntoBytes, Immutable,
)]
#[repr(C)]
pub struct Seal {
    /// The epoch that is complete.
    pub epoch: u64,
    /// The one before it in the stream, or [`NO_EPOCH`].
    pub after: u64,
    /// Checksum of what lies between.
    pub digest: u64,
}

impl Seal {
    /// Its payload.
    pub fn encode(self) -> Vec<u8> {
        encoded(&self)
    }

    /// From its payload.
    pub fn decode(payload: &[u8]) -> Self {
        decoded(payload)
    }
}

/// A running checksum of the bytes between two seals.
#[derive(Clone, Default)]
pub struct Sum(XxHash3_64);

impl std::fmt::Debug for Sum {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(formatter, "Sum({:016x})", self.value())
    }
}

impl Sum {
    /// Adds a payload.
    pub fn add(&mut self, payload: &[u8]) {
        self.0.write(payload);
    }

    /// The checksum so far.
    pub fn value(&self) -> u64 {
        self.0.finish()
    }
}

/// The checksum of a record, which stands behind it in a file, by that of the record before.
pub fn chained(before: u64, kind: Kind, payload: &[u8]) -> u64 {
    let mut head = [0; 24];
    head[..8].copy_from_slice(&before.to_le_bytes());
    head[8..12].copy_from_slice(&(kind as u32).to_le_bytes());
    head[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[16..].copy_from_slice(&checksum(payload).to_le_bytes());
    checksum(&head)
}
