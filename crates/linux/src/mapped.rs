//! What is mapped in a range of an address space: how much limits count of it, and its marks.

use std::ops::Range;

use crate::address_space::{AddressSpace, Mapping};
use crate::page_table::LOCKED;

impl AddressSpace {
    /// Bytes mapped in a range, as limits count them, and how many of them are data.
    pub fn counted_bytes(&self, range: &Range<u64>) -> (u64, u64) {
        let (mut all, mut data) = (0, 0);
        for (length, mapping) in self.parts(range) {
            all += mapping.counted(length);
            data += if mapping.is_data() { length } else { 0 };
        }
        (all, data)
    }

    /// Bytes of a range that `mlock` holds, as limits count them.
    pub fn locked_bytes(&self, range: &Range<u64>) -> u64 {
        self.parts(range)
            .filter(|(_, mapping)| mapping.permissions & LOCKED != 0)
            .map(|(length, mapping)| mapping.counted(length))
            .sum()
    }

    /// The mappings in a range, each with the length of what lies there.
    pub fn parts(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &Mapping)> {
        let (from, to) = (range.start, range.end);
        let found = self.mappings.range(..to).rev();
        let found = found.take_while(move |(_, mapping)| mapping.end > from);
        found.map(move |(&start, mapping)| (mapping.end.min(to) - start.max(from), mapping))
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
