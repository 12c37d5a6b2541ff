//! The OIDs of lines in DRAM (§IV-A4, §V-F): which version the working copy is, so that a dependency
//! is remembered when the line has left the caches.
//!
//! Always true: an OID is no older than the version of any line that it is for. With super-blocks
//! of four lines it may be newer than one's, which makes a reader's sharing group advance without need.

use std::ops::Range;

use perdure_hardware::line::{LINE_BYTES, LineNumber, Version};
use perdure_hardware::pages::Sparse;

/// Lines that share an OID in the super-block variant.
const SUPER_BLOCK_SHIFT: u32 = 2;

/// One OID for each line, or for each super-block.
#[derive(Clone, Debug)]
pub struct Oids {
    shift: u32,
    /// Tag + 1; 0 for none.
    words: Sparse<u16>,
}

impl Oids {
    /// None set, for so much memory.
    pub fn new(memory_bytes: u64, super_blocks: bool) -> Self {
        let shift = if super_blocks { SUPER_BLOCK_SHIFT } else { 0 };
        let lines = memory_bytes / LINE_BYTES as u64;
        Self {
            shift,
            words: Sparse::new((lines >> shift) as usize + 1)
                .expect("less than the list of memory's pages"),
        }
    }

    /// The version of a line.
    #[inline]
    pub fn get(&self, line: LineNumber) -> Version {
        match *self.words.get((line >> self.shift) as usize) {
            0 => Version::NONE,
            word => Version(word - 1),
        }
    }

    /// A line is written back. A super-block's OID only grows.
    pub fn set(&mut self, line: LineNumber, version: Version, epoch: impl Fn(Version) -> u64) {
        let grows = epoch(version) >= epoch(self.get(line));
        if self.shift == 0 || grows {
            *self.words.get_mut((line >> self.shift) as usize) = version.0.wrapping_add(1);
        }
    }

    /// Forgets the OIDs for which `stale` holds, among lines of these addresses. Tells of every OID
    /// there is, by the first line that it is for, and whether it was forgotten.
    pub fn forget(
        &mut self,
        addresses: Range<u64>,
        stale: impl Fn(Version) -> bool,
        mut visited: impl FnMut(LineNumber, bool),
    ) {
        let word_bytes = (LINE_BYTES as u64) << self.shift;
        let words = addresses.start / word_bytes..addresses.end.div_ceil(word_bytes);
        for at in words {
            let word = *self.words.get(at as usize);
            if word != 0 {
                let forgotten = stale(Version(word - 1));
                if forgotten {
                    *self.words.get_mut(at as usize) = 0;
                }
                visited(at << self.shift, forgotten);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::numbers::Numbers;
    use super::*;

    #[test]
    fn a_super_blocks_oid_only_grows() {
        let numbers = Numbers::new(4);
        let mut oids = Oids::new(4096, true);
        assert_eq!(oids.get(5), Version::NONE);
        for (line, epoch, expected) in [(4, 3, 3), (7, 2, 3), (5, 6, 6), (8, 1, 1)] {
            oids.set(line, numbers.tag(epoch), |tag| numbers.epoch(tag, 7));
            assert_eq!(oids.get(line), numbers.tag(expected), "line {line}");
        }
        let mut seen = Vec::new();
        oids.forget(
            0..4096,
            |tag| tag == numbers.tag(6),
            |line, forgotten| seen.push((line, forgotten)),
        );
        assert_eq!(seen, [(4, true), (8, false)]);
        assert_eq!(oids.get(4), Version::NONE);
        assert_eq!(oids.get(9), numbers.tag(1));
    }
}
