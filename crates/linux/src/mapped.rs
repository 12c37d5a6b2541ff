//! What is mapped in a range of an address space: how much limits count of it, and its marks.

use std::ops::Range;

use crate::address_space::{AddressSpace, Mapping};
use crate::page_table::LOCKED;

impl AddressSpace {
    /// Bytes mapped in a range, as limits count them, and how many of them are data.
    pub fn counted_bytes(&self, range: &Range<u64>) -> (u64, u64) {
        let (mut all, mut data) = (0, 0);
        for (part, mapping) in self.parts(range) {
            let length = part.end - part.start;
            all += mapping.counted(length);
            data += if mapping.is_data() { length } else { 0 };
        }
        (all, data)
    }

    /// Bytes of a range that `mlock` holds, as limits count them.
    pub fn locked_bytes(&self, range: &Range<u64>) -> u64 {
        self.parts(range)
            .filter(|(_, mapping)| mapping.permissions & LOCKED != 0)
            .map(|(part, mapping)| mapping.counted(part.end - part.start))
            .sum()
    }

    /// What lies in a range of each mapping there, the last one first: where, and as a mapping that begins
    /// with it.
    pub fn parts(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, Mapping)> {
        let (from, to) = (range.start, range.end);
        let found = self.mappings.range(..to).rev();
        let found = found.take_while(move |(_, mapping)| mapping.end > from);
        found.map(move |(&start, mapping)| {
            let begin = start.max(from);
            (begin..mapping.end.min(to), mapping.advanced(begin - start))
        })
    }

    /// Gives what is mapped in a range a mark that mappings keep ([`KEPT`]), or takes it away.
    pub fn mark(&mut self, range: &Range<u64>, mark: u64, is_on: bool) {
        for (start, mapping) in self.take(range) {
            let permissions = mapping.permissions & !mark | if is_on { mark } else { 0 };
            self.insert(
                start,
                Mapping {
                    permissions,
                    ..mapping
                },
            );
        }
    }

    /// Bytes mapped.
    pub fn mapped_bytes(&self) -> u64 {
        self.mappings
            .iter()
            .map(|(start, mapping)| mapping.end - start)
            .sum()
    }
}
