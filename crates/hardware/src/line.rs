//! The unit of everything in the substrate: the 64-byte line, its number and its version tag.

use std::ops::{Range, RangeInclusive};

/// Bytes in a line, everywhere.
pub const LINE_BYTES: usize = 64;

/// The bytes of one line, aligned as a host cache line so that a copy touches one.
#[derive(Clone, Copy, Debug, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [u8; LINE_BYTES]);

impl Line {
    /// A line of zeros, the content of memory never written.
    pub const ZERO: Self = Self([0; LINE_BYTES]);
}

impl PartialEq for Line {
    /// In place: what the compiler makes of two arrays of this size is a call.
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        is_same(&self.0, &other.0)
    }
}

/// True for the same bytes.
#[inline(always)]
pub(crate) fn is_same(one: &[u8; LINE_BYTES], other: &[u8; LINE_BYTES]) -> bool {
    let word = |line: &[u8; LINE_BYTES], at: usize| {
        u64::from_ne_bytes(line[at..at + 8].try_into().expect("eight bytes"))
    };
    let mut differing = 0;
    for at in (0..LINE_BYTES).step_by(8) {
        differing |= word(one, at) ^ word(other, at);
    }
    differing == 0
}

/// A physical address divided by the line size.
pub type LineNumber = u64;

/// The line that holds a physical address.
#[inline(always)]
pub const fn line_of(physical: u64) -> LineNumber {
    physical / LINE_BYTES as u64
}

/// The lines that hold some bytes; where there are none, the one that holds their address.
#[inline(always)]
pub fn lines_of(physical: u64, length: usize) -> RangeInclusive<LineNumber> {
    line_of(physical)..=line_of(physical + length.max(1) as u64 - 1)
}

/// Cuts a range at multiples of a size, as of a line: each piece with its address.
#[inline(always)]
pub fn cut_at(size: u64, address: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = address + done as u64;
        let room = (size - at % size) as usize;
        let piece = done..length.min(done + room);
        done = piece.end;
        Some((at, piece))
    })
}

/// Cuts a range where lines end.
#[inline(always)]
pub fn pieces(address: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    cut_at(LINE_BYTES as u64, address, length)
}

/// The version tag of a cached line. What a version means (epoch, overlay, strand) belongs to the
/// design; the substrate only carries it along and compares it for equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16);

impl Version {
    /// No version: the line is as memory has it. A design's versions must be below this.
    pub const NONE: Self = Self(u16::MAX);
}
