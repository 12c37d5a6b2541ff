//! The per-epoch mapping table `M_E` (§V-C): a volatile four-level radix tree, nine bits at address
//! bits 39, 30, 21 and 12, whose leaves are overlay pages: the versions of one 4 KiB page of one
//! epoch, and the segments of the pool that hold them.
//!
//! A page starts with a segment of one unit (four lines). When that is full, another of double the
//! size follows, and so on; data never moves, since the table knows each line's slot. A full page
//! has taken 1 + 2 + 4 + 8 + 1 units, exactly 4 KiB.

use super::format::{PAGE_LINES, UNIT_LINES, line_of_word, version_word};

const LEVEL_BITS: u32 = 9;
const LEVELS: u32 = 4;
const FANOUT: usize = 1 << LEVEL_BITS;
const NONE: u32 = u32::MAX;

/// Where a page keeps some of its versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First unit.
    pub unit: u32,
    /// Slots.
    pub slots: u8,
}

/// A page of one epoch.
#[derive(Clone, Debug)]
pub struct OverlayPage {
    /// The page's number.
    pub page: u64,
    /// Which of its lines have a version.
    present: u64,
    /// For each slot, in order: line and writer ([`version_word`]).
    words: Vec<u16>,
    segments: Vec<Segment>,
}

impl OverlayPage {
    fn new(page: u64) -> Self {
        Self {
            page,
            present: 0,
            words: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// The slot of a line's version.
    pub fn slot(&self, line: u8) -> Option<usize> {
        if self.present >> line & 1 == 0 {
            return None;
        }
        // Eight at a time: every version asks, and a full page has 64.
        let is_it = |word: &u16| line_of_word(*word) == line;
        let (eights, _) = self.words.as_chunks::<8>();
        let has_it = |eight: &[u16; 8]| eight.iter().fold(false, |has, word| has | is_it(word));
        let before = 8 * eights.iter().position(has_it).unwrap_or(eights.len());
        let rest = &self.words[before..];
        rest.iter().position(is_it).map(|at| before + at)
    }

    /// Units that another segment should have; `None` if there is a free slot.
    pub fn wants_units(&self) -> Option<u32> {
        let slots: usize = self.segments.iter().map(|one| usize::from(one.slots)).sum();
        if self.words.len() < slots {
            return None;
        }
        let last = self.segments.last().map_or(0, |last| u32::from(last.slots));
        let double = (2 * last).max(UNIT_LINES as u32);
        Some(double.min((PAGE_LINES - slots) as u32) / UNIT_LINES as u32)
    }

    /// Gives it another segment.
    pub fn add_segment(&mut self, unit: u32, units: u32) {
        self.segments.push(Segment {
            unit,
            slots: (units as usize * UNIT_LINES) as u8,
        });
    }

    /// Takes the next free slot for a line's version.
    pub fn add(&mut self, line: u8, writer: u16) -> usize {
        debug_assert!(self.slot(line).is_none() && self.wants_units().is_none());
        self.present |= 1 << line;
        self.words.push(version_word(line, writer));
        self.words.len() - 1
    }

    /// Somebody else wrote the same version again.
    pub fn set_writer(&mut self, slot: usize, writer: u16) {
        self.words[slot] = version_word(line_of_word(self.words[slot]), writer);
    }

    /// Unit of a slot, and which line of the unit it is.
    pub fn place(&self, slot: usize) -> (u32, usize) {
        let mut before = 0;
        for segment in &self.segments {
            let slots = usize::from(segment.slots);
            if slot < before + slots {
                let within = slot - before;
                let unit = segment.unit + (within / UNIT_LINES) as u32;
                return (unit, within % UNIT_LINES);
            }
            before += slots;
        }
        unreachable!("a slot lies in a segment")
    }

    /// Its segments with the words of their used slots.
    pub fn segments(&self) -> impl Iterator<Item = (u32, &[u16])> {
        let mut rest = &self.words[..];
        self.segments.iter().map(move |segment| {
            let (used, after) = rest.split_at(rest.len().min(usize::from(segment.slots)));
            rest = after;
            (segment.unit, used)
        })
    }

    /// Gives up the units at the end that no version uses: the page takes no more versions.
    pub fn trim(&mut self) -> Option<(u32, u32)> {
        let full: usize = self.segments.iter().map(|one| usize::from(one.slots)).sum();
        let unused = ((full - self.words.len()) / UNIT_LINES) as u32;
        let last = self.segments.last_mut()?;
        last.slots -= unused as u8 * UNIT_LINES as u8;
        let units = u32::from(last.slots) / UNIT_LINES as u32;
        (unused > 0).then_some((last.unit + units, unused))
    }

    /// Versions in it.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// True for a page without any.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

/// The table.
#[derive(Clone, Debug)]
pub struct Table {
    /// The first is the root; an entry is the number of a node, at the last level of a page.
    nodes: Vec<[u32; FANOUT]>,
    pages: Vec<OverlayPage>,
    /// The page that was asked for last.
    recent: u32,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            nodes: vec![[NONE; FANOUT]],
            pages: Vec::new(),
            recent: NONE,
        }
    }
}

fn digit(page: u64, level: u32) -> usize {
    (page >> ((LEVELS - 1 - level) * LEVEL_BITS)) as usize % FANOUT
}

impl Table {
    /// The number of a page in [`Self::pages`]; it is made if there is none.
    pub fn page(&mut self, page: u64) -> usize {
        if let Some(recent) = self.pages.get(self.recent as usize)
            && recent.page == page
        {
            return self.recent as usize;
        }
        let mut node = 0;
        for level in 0..LEVELS {
            let entry = self.nodes[node][digit(page, level)];
            let next = if entry == NONE {
                let last = level == LEVELS - 1;
                let next = if last {
                    self.pages.push(OverlayPage::new(page));
                    self.pages.len()
                } else {
                    self.nodes.push([NONE; FANOUT]);
                    self.nodes.len()
                } as u32
                    - 1;
                self.nodes[node][digit(page, level)] = next;
                next
            } else {
                entry
            };
            node = next as usize;
        }
        self.recent = node as u32;
        node
    }

    /// A page, if any of its lines has a version.
    pub fn find(&self, page: u64) -> Option<&OverlayPage> {
        let mut node = 0;
        for level in 0..LEVELS {
            node = self.nodes.get(node)?[digit(page, level)] as usize;
        }
        self.pages.get(node)
    }

    /// The pages, in the order in which they came.
    pub fn pages(&self) -> &[OverlayPage] {
        &self.pages
    }

    /// A page.
    pub fn page_mut(&mut self, number: usize) -> &mut OverlayPage {
        &mut self.pages[number]
    }

    /// The numbers of all pages in the order of their addresses: a scan of the tree.
    pub fn scan(&self) -> Vec<u32> {
        let mut level: Vec<u32> = vec![0];
        for _ in 0..LEVELS {
            level = level
                .iter()
                .flat_map(|&node| self.nodes[node as usize].iter().copied())
                .filter(|&entry| entry != NONE)
                .collect();
        }
        level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_far_apart_are_found_and_scanned_in_order() {
        let mut table = Table::default();
        let pages: Vec<u64> = (0..500u64)
            .map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 28 >> (index % 3 * 9))
            .collect();
        for &page in &pages {
            let number = table.page(page);
            assert_eq!(table.page(page), number);
            assert_eq!(table.pages()[number].page, page);
        }
        let mut expected = pages.clone();
        expected.sort_unstable();
        expected.dedup();
        let scanned = table.scan();
        let scanned: Vec<u64> = scanned
            .iter()
            .map(|&number| table.pages()[number as usize].page)
            .collect();
        assert_eq!(scanned, expected);
        for page in 0..1000 {
            assert_eq!(table.find(page).is_some(), expected.contains(&page));
        }
    }

    #[test]
    fn a_page_grows_through_its_classes_and_takes_no_more_than_a_page() {
        let mut page = OverlayPage::new(7);
        let mut classes = Vec::new();
        let mut next = 0;
        for line in 0..PAGE_LINES as u8 {
            // An order that is not that of the lines.
            let line = (u32::from(line) * 11 % 64) as u8;
            if let Some(units) = page.wants_units() {
                classes.push(units);
                page.add_segment(next, units);
                next += units;
            }
            let slot = page.add(line, u16::from(line) + 1);
            assert_eq!(page.slot(line), Some(slot));
            assert_eq!(page.place(slot), ((slot / 4) as u32, slot % 4));
        }
        assert_eq!(
            classes,
            [1, 2, 4, 8, 1],
            "256 B, 512 B, 1 KiB, 2 KiB, 256 B"
        );
        assert_eq!(page.trim(), None);
        let words: Vec<_> = page.segments().flat_map(|(_, words)| words).collect();
        assert_eq!(words.len(), PAGE_LINES);
    }

    #[test]
    fn what_a_page_does_not_use_is_given_back() {
        for (lines, left) in [(1, None), (5, Some((2, 1))), (13, Some((4, 3))), (28, None)] {
            let mut page = OverlayPage::new(0);
            let mut next = 0;
            for line in 0..lines {
                if let Some(units) = page.wants_units() {
                    page.add_segment(next, units);
                    next += units;
                }
                page.add(line, 0);
            }
            assert_eq!(page.trim(), left, "{lines} lines");
            assert_eq!(page.trim(), None);
            let held: usize = page.segments().map(|(_, words)| words.len()).sum();
            assert_eq!(held, usize::from(lines));
        }
    }
}
