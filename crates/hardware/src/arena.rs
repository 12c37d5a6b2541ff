//! The bytes of the NVM array: one sparse, zero-filled arena over the whole physical address space.
//!
//! The arena knows which 4 KiB pages were ever written, so that images can be copied and compared
//! in time proportional to what a program touched. On request it also keeps a digest of a range up
//! to date, write by write: the sum over all lines of a keyed hash of (address, bytes). The digest
//! is what makes judging a thousand power cuts cheap; nothing but the verifier asks for it.

use std::ops::Range;

use crate::line::{LINE_BYTES, Line};

/// Granularity at which the arena tracks what was written.
pub const PAGE_BYTES: usize = 4096;

/// A digest of an image: equal images have equal digests, different ones almost certainly not
/// (128 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Digest(pub u128);

impl Digest {
    /// The digest of one line's content. A line of zeros counts nothing, so that memory never
    /// touched needs no visit.
    #[inline]
    pub fn of_line(address: u64, line: &[u8; LINE_BYTES]) -> u128 {
        if line == &Line::ZERO.0 {
            return 0;
        }
        xxhash_rust::xxh3::xxh3_128_with_seed(line, address.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The digest after one line changed.
    #[inline]
    pub fn replace(&mut self, address: u64, old: &[u8; LINE_BYTES], new: &[u8; LINE_BYTES]) {
        self.0 = self
            .0
            .wrapping_sub(Self::of_line(address, old))
            .wrapping_add(Self::of_line(address, new));
    }
}

/// A range and its digest, if one is being kept.
pub type KeptDigest = Option<(Range<u64>, Digest)>;

/// The arena.
#[derive(Debug)]
pub struct Arena {
    bytes: memmap2::MmapMut,
    written_pages: Vec<u64>,
    digest: KeptDigest,
}

/// # Panics
///
/// Where the host has no room for a copy; [`Arena::duplicate`] says so instead.
impl Clone for Arena {
    fn clone(&self) -> Self {
        self.duplicate().expect("the host has room for a copy")
    }
}

impl Arena {
    /// An arena of `bytes` zero bytes; host memory is used only for what is written.
    pub fn new(bytes: u64) -> std::io::Result<Self> {
        let length = usize::try_from(bytes).map_err(std::io::Error::other)?;
        let bytes = memmap2::MmapOptions::new()
            .len(length)
            .no_reserve_swap()
            .map_anon()?;
        #[cfg(target_os = "linux")]
        let _ = bytes.advise(memmap2::Advice::HugePage); // Faster where the host has them.
        Ok(Self {
            bytes,
            written_pages: vec![0; length.div_ceil(PAGE_BYTES * 64)],
            digest: None,
        })
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// True for an arena of no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes of the line at `address`, which is a multiple of the line size.
    #[inline(always)]
    pub fn line(&self, address: u64) -> &Line {
        debug_assert!(address.is_multiple_of(LINE_BYTES as u64));
        let bytes = &self.bytes[address as usize..][..LINE_BYTES];
        // SAFETY: the slice is 64 bytes long, and aligned to 64 because the map is page-aligned
        // and the address is a multiple of 64. `Line` has no invalid bit patterns. Copying through
        // an unaligned temporary instead cost 3 % on miss-heavy programs.
        #[expect(clippy::cast_ptr_alignment, reason = "aligned, as said")]
        unsafe {
            &*bytes.as_ptr().cast::<Line>()
        }
    }

    /// Starts loading the host's cache line: a read of it follows soon.
    #[inline(always)]
    pub fn prefetch(&self, address: u64) {
        if let Some(byte) = self.bytes.get(address as usize) {
            crate::prefetch(byte);
        }
    }

    /// Some bytes.
    pub fn slice(&self, address: u64, length: usize) -> &[u8] {
        &self.bytes[address as usize..][..length]
    }

    /// Writes bytes anywhere.
    #[inline]
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.digest.is_some() {
            self.before_write(address, bytes);
        }
        self.bytes[address as usize..][..bytes.len()].copy_from_slice(bytes);
        let first = address as usize / PAGE_BYTES;
        let last = (address as usize + bytes.len() - 1) / PAGE_BYTES;
        for page in first..=last {
            self.written_pages[page / 64] |= 1 << (page % 64);
        }
    }

    /// Writes a line at its address.
    #[inline]
    pub fn write_line(&mut self, address: u64, new: &Line) {
        if let Some((range, digest)) = &mut self.digest
            && range.contains(&address)
        {
            let bytes = &self.bytes[address as usize..][..LINE_BYTES];
            let mut old = Line::ZERO;
            old.0.copy_from_slice(bytes);
            digest.replace(address, &old.0, &new.0);
        }
        self.bytes[address as usize..][..LINE_BYTES].copy_from_slice(&new.0);
        let page = address as usize / PAGE_BYTES;
        self.written_pages[page / 64] |= 1 << (page % 64);
    }

    fn before_write(&mut self, address: u64, bytes: &[u8]) {
        let Some((range, digest)) = &mut self.digest else {
            return;
        };
        let line_bytes = LINE_BYTES as u64;
        let end = address + bytes.len() as u64;
        let mut line = address / line_bytes * line_bytes;
        while line < end {
            if range.contains(&line) {
                let mut old = [0; LINE_BYTES];
                old.copy_from_slice(&self.bytes[line as usize..][..LINE_BYTES]);
                let mut new = old;
                let (from, to) = (line.max(address), (line + line_bytes).min(end));
                new[(from - line) as usize..(to - line) as usize]
                    .copy_from_slice(&bytes[(from - address) as usize..(to - address) as usize]);
                digest.replace(line, &old, &new);
            }
            line += line_bytes;
        }
    }

    /// Keeps the digest of a line-aligned range from now on.
    pub fn keep_digest(&mut self, range: Range<u64>) {
        let digest = self.compute_digest(range.clone());
        self.digest = Some((range, digest));
    }

    /// The digest being kept, with its range.
    pub fn kept_digest(&self) -> &KeptDigest {
        &self.digest
    }

    /// Stops keeping a digest.
    pub fn take_digest(&mut self) -> KeptDigest {
        self.digest.take()
    }

    /// Goes on keeping a digest whose value the caller knows to be right.
    pub fn put_digest(&mut self, digest: KeptDigest) {
        self.digest = digest;
    }

    /// The digest being kept.
    pub fn digest(&self) -> Option<Digest> {
        self.digest.as_ref().map(|(_, digest)| *digest)
    }

    /// The digest of a line-aligned range: the kept one if it is of that range, else computed.
    pub fn digest_of(&self, range: Range<u64>) -> Digest {
        match &self.digest {
            Some((kept, digest)) if *kept == range => *digest,
            _ => self.compute_digest(range),
        }
    }

    /// The digest of a line-aligned range, from its bytes.
    pub fn compute_digest(&self, range: Range<u64>) -> Digest {
        let mut digest = Digest::default();
        for page in self.written_pages() {
            for address in (page..page + PAGE_BYTES as u64).step_by(LINE_BYTES) {
                if range.contains(&address) {
                    digest.0 = digest
                        .0
                        .wrapping_add(Digest::of_line(address, &self.line(address).0));
                }
            }
        }
        digest
    }

    /// Addresses of the pages ever written, in order.
    pub fn written_pages(&self) -> impl Iterator<Item = u64> + '_ {
        self.written_pages
            .iter()
            .enumerate()
            .flat_map(|(index, &bits)| {
                (0..64)
                    .filter(move |bit| bits >> bit & 1 != 0)
                    .map(move |bit| ((index * 64 + bit) * PAGE_BYTES) as u64)
            })
    }

    /// A copy of everything ever written.
    pub fn duplicate(&self) -> std::io::Result<Self> {
        let mut copy = Self::new(self.len())?;
        for page in self.written_pages() {
            let length = PAGE_BYTES.min((self.len() - page) as usize);
            copy.bytes[page as usize..][..length].copy_from_slice(self.slice(page, length));
        }
        copy.written_pages.copy_from_slice(&self.written_pages);
        copy.digest.clone_from(&self.digest);
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_digest_is_the_computed_one() {
        let mut arena = Arena::new(1 << 20).unwrap();
        arena.write(100, &[7; 300]);
        arena.keep_digest(64..1 << 19);
        for step in 0..200u64 {
            arena.write(
                step * 2621 % 500_000,
                &step.to_le_bytes()[..=(step % 8) as usize],
            );
        }
        arena.write(63, &[1, 2]);
        assert_eq!(arena.digest().unwrap(), arena.compute_digest(64..1 << 19));
        let copy = arena.duplicate().unwrap();
        assert_eq!(
            copy.compute_digest(0..1 << 20),
            arena.compute_digest(0..1 << 20)
        );
    }
}
