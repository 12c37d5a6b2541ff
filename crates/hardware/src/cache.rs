//! A set-associative array of lines that hold data: {tag, state, dirty, version, 64 bytes}.
//!
//! The array is storage and exact least-recently-used replacement, nothing more: who may hold a
//! line in which state is the hierarchy's and the coherence protocol's business. A way's word and
//! stamp lie side by side: an eight-way set is one record of 128 bytes.

use crate::array::Array;
use crate::line::{LINE_BYTES, Line, LineNumber, Version};

/// The coherence state of a cached line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// Not here.
    Invalid = 0,
    /// Readable, others may hold it too.
    Shared = 1,
    /// The only private copy, unwritten since it came.
    Exclusive = 2,
    /// The only private copy, written.
    Modified = 3,
}

/// One way's word: line number in bits 24 and up, version in 8–23, may be in an L1I in 4, in an L1D in 3,
/// dirty in 2, state in 0–1. In an L1I: the generation of its code in 2–23. No way's word is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Word(u64);

const TAG_SHIFT: u32 = 24;
const VERSION_SHIFT: u32 = 8;
const DIRTY: u64 = 1 << 2;
const IN_L1D: u64 = 1 << 3;
const IN_L1I: u64 = 1 << 4;
const STATE_MASK: u64 = 3;
const GENERATION_SHIFT: u32 = 2;
const INVALID: u64 = u64::MAX << TAG_SHIFT;

/// Generations of code that an L1I's words tell apart.
pub const GENERATIONS: u32 = 1 << (TAG_SHIFT - GENERATION_SHIFT);

/// Line numbers must fit the tag: 40 bits, 64 TiB of physical memory.
pub const LINE_NUMBER_LIMIT: LineNumber = (1 << (64 - TAG_SHIFT)) - 1;

impl Word {
    /// A valid word.
    #[inline(always)]
    pub fn new(line: LineNumber, state: State, dirty: bool, version: Version) -> Self {
        Self(
            line << TAG_SHIFT
                | u64::from(version.0) << VERSION_SHIFT
                | if dirty { DIRTY } else { 0 }
                | state as u64,
        )
    }

    /// A valid word of an L1I.
    #[inline(always)]
    pub fn code(line: LineNumber, generation: u32) -> Self {
        debug_assert!(generation < GENERATIONS);
        let generation = u64::from(generation) << GENERATION_SHIFT;
        Self(line << TAG_SHIFT | generation | State::Shared as u64)
    }

    /// The line number.
    #[inline(always)]
    pub fn line(self) -> LineNumber {
        self.0 >> TAG_SHIFT
    }

    /// The state.
    #[inline(always)]
    pub fn state(self) -> State {
        match self.0 & STATE_MASK {
            0 => State::Invalid,
            1 => State::Shared,
            2 => State::Exclusive,
            _ => State::Modified,
        }
    }

    /// True if the bytes differ from the next level's.
    #[inline(always)]
    pub fn dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// The version tag.
    #[inline(always)]
    pub fn version(self) -> Version {
        Version((self.0 >> VERSION_SHIFT) as u16)
    }

    /// In an L2: an L1D above may have the line.
    #[inline(always)]
    pub fn may_be_in_l1d(self) -> bool {
        self.0 & IN_L1D != 0
    }

    /// In an L2: an L1I above may have the line.
    #[inline(always)]
    pub fn may_be_in_l1i(self) -> bool {
        self.0 & IN_L1I != 0
    }

    /// The same line, of which an L1D may have a copy.
    #[inline(always)]
    #[must_use]
    pub fn with_l1d(self) -> Self {
        Self(self.0 | IN_L1D)
    }

    /// The same line, of which no L1D has a copy.
    #[inline(always)]
    #[must_use]
    pub fn without_l1d(self) -> Self {
        Self(self.0 & !IN_L1D)
    }

    /// The same line, of which an L1I may have a copy.
    #[inline(always)]
    #[must_use]
    pub fn with_l1i(self) -> Self {
        Self(self.0 | IN_L1I)
    }

    /// The same line in another state.
    #[inline(always)]
    #[must_use]
    pub fn with_state(self, state: State) -> Self {
        Self(self.0 & !STATE_MASK | state as u64)
    }

    /// The same line, dirty or not.
    #[inline(always)]
    #[must_use]
    pub fn with_dirty(self, dirty: bool) -> Self {
        Self(self.0 & !DIRTY | if dirty { DIRTY } else { 0 })
    }

    /// The same line with another version tag.
    #[inline(always)]
    #[must_use]
    pub fn with_version(self, version: Version) -> Self {
        Self(self.0 & !(0xffff << VERSION_SHIFT) | u64::from(version.0) << VERSION_SHIFT)
    }
}

/// A place in a cache: set × ways + way. Stays valid until the way is refilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Slot(pub u32);

/// The array.
#[derive(Clone, Debug)]
pub struct Cache {
    ways: usize,
    sets_per_slice: usize,
    /// Logarithm of it.
    slice_shift: u32,
    slices: usize,
    /// Per slot: its word, then its stamp (the time of last use, in accesses).
    records: Array<[u64; 2]>,
    data: Array<Line>,
    /// Uses, where they are counted here, and lines that left.
    changes: u64,
}

impl Cache {
    /// An empty cache of `slices` slices of `bytes` each. Geometry was checked with the
    /// specification: sets per slice are a power of two and at least one.
    pub fn new(bytes: usize, ways: usize, slices: usize) -> Self {
        let sets_per_slice = bytes / LINE_BYTES / ways;
        debug_assert!(sets_per_slice.is_power_of_two());
        let sets = sets_per_slice * slices;
        Self {
            ways,
            sets_per_slice,
            slice_shift: sets_per_slice.trailing_zeros(),
            slices,
            records: Array::new([INVALID, 0], sets * ways),
            data: Array::zeros(sets * ways),
            changes: 0,
        }
    }

    /// Number of sets over all slices.
    pub fn sets(&self) -> usize {
        self.sets_per_slice * self.slices
    }

    /// Number of ways.
    pub fn ways(&self) -> usize {
        self.ways
    }

    /// The set of a line. Slices are chosen by a hash, so that strides spread over them.
    #[inline(always)]
    pub fn set_of(&self, line: LineNumber) -> usize {
        let within = line as usize & (self.sets_per_slice - 1);
        if self.slices == 1 {
            return within;
        }
        let hash = ((line >> self.slice_shift) ^ line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slice = (((hash >> 32) * self.slices as u64) >> 32) as usize;
        slice * self.sets_per_slice + within
    }

    /// The slice that has a set.
    #[inline(always)]
    pub fn slice_of(&self, set: usize) -> usize {
        set >> self.slice_shift
    }

    /// Where a line is, if here. Does not count as a use.
    #[inline(always)]
    pub fn find(&self, line: LineNumber) -> Option<Slot> {
        let set = self.set_of(line);
        let record = &self.records[set * self.ways..][..self.ways];
        let way = record
            .iter()
            .position(|&[word, _]| word >> TAG_SHIFT == line)?;
        Some(Slot((set * self.ways + way) as u32))
    }

    /// Where a line is, or else the slot that it would take ([`Self::victim`]): one look at the set.
    #[inline(always)]
    pub fn find_or_victim(&self, line: LineNumber) -> Result<Slot, Slot> {
        let set = self.set_of(line);
        let mut best = 0;
        let mut best_time = u64::MAX;
        for (way, &[word, stamp]) in self.records[set * self.ways..][..self.ways]
            .iter()
            .enumerate()
        {
            if word >> TAG_SHIFT == line {
                return Ok(Slot((set * self.ways + way) as u32));
            }
            let time = if word == INVALID { 0 } else { stamp + 1 };
            if time < best_time {
                best = way;
                best_time = time;
            }
        }
        Err(Slot((set * self.ways + best) as u32))
    }

    /// As long as this is the same, [`Self::victim`] answers the same: no line was used, and none has left.
    #[inline(always)]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The word of a slot.
    #[inline(always)]
    pub fn word(&self, slot: Slot) -> Word {
        Word(self.records[slot.0 as usize][0])
    }

    /// Replaces the word of a slot.
    #[inline(always)]
    pub fn set_word(&mut self, slot: Slot, word: Word) {
        self.records[slot.0 as usize][0] = word.0;
    }

    /// Marks a slot as just used.
    #[inline(always)]
    pub fn touch(&mut self, slot: Slot) {
        self.changes += 1;
        self.records[slot.0 as usize][1] = self.changes;
    }

    /// Marks a slot as just used if it has that word; says whether it does.
    #[inline(always)]
    pub fn touch_if(&mut self, slot: Slot, word: Word) -> bool {
        let Some([found, stamp]) = self.records.get_mut(slot.0 as usize) else {
            return false; // No slot is out of reach, but who looks cannot panic this way.
        };
        if *found != word.0 {
            return false;
        }
        self.changes += 1;
        *stamp = self.changes;
        true
    }

    /// From slot to slot, for who reads the records by itself: each has the word, then the time of last use.
    pub const RECORD_BYTES: usize = size_of::<[u64; 2]>();
    /// Where a record has that time.
    pub const STAMP: usize = size_of::<u64>();

    /// Where the records and the count of changes are: places that stay as long as the cache is not moved.
    #[inline(always)]
    pub fn places(&mut self) -> (*mut u64, *mut u64) {
        (self.records.as_mut_ptr().cast(), &raw mut self.changes)
    }

    /// Where the time of a slot's last use is kept, for a cache whose user keeps the time itself
    /// (see the lookaside).
    #[inline(always)]
    pub fn stamp_mut(&mut self, slot: Slot) -> &mut u64 {
        &mut self.records[slot.0 as usize][1]
    }

    /// The slot that a line would take: a free one, else the least recently used of its set.
    #[inline(always)]
    pub fn victim(&self, line: LineNumber) -> Slot {
        let set = self.set_of(line);
        let mut best = 0;
        let mut best_stamp = u64::MAX;
        for (way, &[word, stamp]) in self.records[set * self.ways..][..self.ways]
            .iter()
            .enumerate()
        {
            if word == INVALID {
                best = way;
                break;
            }
            if stamp < best_stamp {
                best = way;
                best_stamp = stamp;
            }
        }
        Slot((set * self.ways + best) as u32)
    }

    /// True if at least half of its set's ways were used later than this one.
    pub fn in_older_half(&self, slot: Slot) -> bool {
        let set = slot.0 as usize / self.ways * self.ways;
        let stamp = self.records[slot.0 as usize][1];
        let ways = self.records[set..][..self.ways].iter();
        2 * ways.filter(|record| record[1] > stamp).count() >= self.ways
    }

    /// True if the slot holds a line.
    #[inline(always)]
    pub fn occupied(&self, slot: Slot) -> bool {
        self.records[slot.0 as usize][0] != INVALID
    }

    /// Empties a slot.
    #[inline(always)]
    pub fn invalidate(&mut self, slot: Slot) {
        self.changes += 1;
        self.records[slot.0 as usize][0] = INVALID;
    }

    /// The bytes of a slot.
    #[inline(always)]
    pub fn data(&self, slot: Slot) -> &Line {
        &self.data[slot.0 as usize]
    }

    /// The bytes of a slot, to change.
    #[inline(always)]
    pub fn data_mut(&mut self, slot: Slot) -> &mut Line {
        &mut self.data[slot.0 as usize]
    }

    /// Starts loading the host's lines of a set's record: the look-up follows soon.
    #[inline(always)]
    pub fn prefetch(&self, line: LineNumber) {
        let record = &self.records[self.set_of(line) * self.ways..][..self.ways];
        for way in record.iter().step_by(LINE_BYTES / Self::RECORD_BYTES) {
            crate::prefetch(way);
        }
    }

    /// Starts loading the host's lines of a slot: its record and its bytes are looked at soon.
    #[inline(always)]
    pub fn prefetch_slot(&self, slot: Slot) {
        crate::prefetch(&raw const self.records[slot.0 as usize]);
        crate::prefetch(self.data(slot));
    }

    /// The occupied slots of one set with their words.
    pub fn set(&self, set: usize) -> impl Iterator<Item = (Slot, Word)> + '_ {
        let record = &self.records[set * self.ways..][..self.ways];
        record
            .iter()
            .enumerate()
            .filter(|(_, way)| way[0] != INVALID)
            .map(move |(way, &[word, _])| (Slot((set * self.ways + way) as u32), Word(word)))
    }

    /// Every occupied slot, in set order.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, Word)> + '_ {
        (0..self.sets()).flat_map(|set| self.set(set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_keeps_every_field_apart() {
        let word = Word::new(0x12_3456_789a, State::Modified, true, Version(0xbeef));
        assert_eq!(word.line(), 0x12_3456_789a);
        assert_eq!(word.state(), State::Modified);
        assert_eq!(word.version(), Version(0xbeef));
        assert!(word.dirty());
        let changed = word
            .with_state(State::Exclusive)
            .with_dirty(false)
            .with_version(Version::NONE);
        assert_eq!(
            changed,
            Word::new(word.line(), State::Exclusive, false, Version::NONE)
        );
    }

    #[test]
    fn the_victim_is_free_or_least_recently_used() {
        let mut cache = Cache::new(4 * LINE_BYTES, 4, 1);
        for line in 0..4 {
            let slot = cache.victim(line);
            assert!(!cache.occupied(slot));
            cache.set_word(slot, Word::new(line, State::Shared, false, Version::NONE));
            cache.touch(slot);
        }
        cache.touch(cache.find(0).unwrap());
        assert_eq!(cache.word(cache.victim(9)).line(), 1);
        cache.invalidate(cache.find(3).unwrap());
        assert!(!cache.occupied(cache.victim(9)));
    }
}
