//! The branch predictor: TAGE for directions (Seznec and Michaud, "A case for (partially) tagged geometric
//! history length branch prediction", JILP 2006), a stack for returns, last targets for other indirect
//! jumps.
//!
//! Always true here:
//! - Branches are predicted and learnt in program order, each from all before it: there is no wrong path
//!   that the history would have to be mended after.
//! - Direct jumps are known to the front end.

use crate::specification::WindowSpecification;

/// Bits of a tag.
const TAG_BITS: u32 = 11;
/// Where useful counts end.
const USEFUL_MOST: u8 = 3;
/// Branches after which useful entries count as less so.
const FORGET_EVERY: u32 = 1 << 18;
/// The table with the shortest history looks back so far, if there are longer ones.
const SHORTEST_HISTORY: usize = 4;

/// A transfer of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// To one target or on, as a condition says.
    Branch,
    /// To one target.
    Jump,
    /// To one target; the place behind is where the callee returns to.
    Call,
    /// To where a register says.
    Indirect,
    /// To where a register says; the place behind is where the callee returns to.
    IndirectCall,
    /// To where the last call came from.
    Return,
}

/// A tagged entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u16,
    /// Taken from 0 on; -4 to 3.
    counter: i8,
    useful: u8,
}

/// No branch has its tag.
const EMPTY: Entry = Entry {
    tag: u16::MAX,
    counter: 0,
    useful: 0,
};

/// Most tagged tables.
const TABLES_MOST: usize = 8;
/// Tables that the host's vector instructions do at once.
const LANES: usize = 4;

/// A number for each of some tagged tables.
type Lanes = [u32; LANES];

/// Of each of some tables the newest outcomes, as many as it looks at, folded into few bits: each step costs
/// the same, however many they are.
#[derive(Clone, Copy, Debug)]
struct Folded {
    values: Lanes,
    bits: u32,
    /// Where the outcome that leaves has been folded to, as a bit.
    leaves_at: Lanes,
}

impl Folded {
    fn new(bits: u32, lengths: Lanes) -> Self {
        Self {
            values: [0; LANES],
            bits,
            leaves_at: lengths.map(|length| 1 << (length % bits)),
        }
    }

    /// An outcome comes, and of each table the oldest one leaves: all bits if it was taken, or none.
    #[inline(always)]
    fn push(&mut self, taken: bool, leaves: Lanes) {
        let last = (1 << self.bits) - 1;
        for (lane, value) in self.values.iter_mut().enumerate() {
            let mut next = *value << 1 | u32::from(taken);
            next ^= leaves[lane] & self.leaves_at[lane];
            next ^= next >> self.bits;
            *value = next & last;
        }
    }
}

/// All outcomes that matter: the newest is bit 0 of the first byte.
type Outcomes = [u8; 16];

/// What some tagged tables look at, from the shortest history to the longest.
#[derive(Clone, Copy, Debug)]
struct Histories {
    /// Of each table the oldest outcome that it looks at: its byte, and its bit there.
    oldest: [(u8, u8); LANES],
    index: Folded,
    tags: [Folded; 2],
}

impl Histories {
    /// For tables with so many bits of an index, that look at so many outcomes, of which there are none yet.
    fn new(index_bits: u32, lengths: &[usize]) -> Self {
        let mut lanes = [1; LANES];
        for (length, &known) in lanes.iter_mut().zip(lengths) {
            *length = u32::try_from(known).expect("the specification is valid");
        }
        Self {
            oldest: lanes.map(|length| ((length - 1) as u8 / 8, 1 << ((length - 1) % 8))),
            index: Folded::new(index_bits, lanes),
            tags: [TAG_BITS, TAG_BITS - 1].map(|bits| Folded::new(bits, lanes)),
        }
    }

    /// An outcome comes, behind those.
    #[inline(always)]
    fn push(&mut self, taken: bool, outcomes: &Outcomes) {
        let leaves = self.oldest.map(|(byte, bit)| {
            let leaves = outcomes[usize::from(byte) % outcomes.len()] & bit != 0;
            u32::from(leaves).wrapping_neg()
        });
        self.index.push(taken, leaves);
        for tag in &mut self.tags {
            tag.push(taken, leaves);
        }
    }

    /// Where in each table an entry for this address is, and what tag it has.
    #[inline(always)]
    fn places(&self, address: u64) -> [Place; LANES] {
        let address = (address >> 1) as u32;
        let mixed = address ^ address >> self.index.bits;
        let last = (1 << self.index.bits) - 1;
        std::array::from_fn(|lane| {
            let tag = address ^ self.tags[0].values[lane] ^ self.tags[1].values[lane] << 1;
            Place {
                index: (mixed ^ self.index.values[lane]) & last,
                tag: tag & ((1 << TAG_BITS) - 1),
            }
        })
    }
}

/// An entry of a tagged table, and the tag that it has if it is of the branch at hand.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    index: u32,
    tag: u32,
}

/// Directions of branches.
#[derive(Clone, Debug)]
struct Tage {
    /// Without tags: taken from 0 on; -2 to 1.
    base: Box<[i8]>,
    /// Tagged, from the shortest history to the longest.
    tables: Box<[Box<[Entry]>]>,
    histories: Box<[Histories]>,
    outcomes: u128,
    /// What a new entry says is worth less than the alternative while this is 0 or more; -8 to 7.
    alternative: i8,
    until_forgetting: u32,
    /// For whom the next entry is made: a small generator, which is part of the state.
    dice: u32,
}

fn step(counter: &mut i8, up: bool, least: i8, most: i8) {
    *counter = if up {
        (*counter + 1).min(most)
    } else {
        (*counter - 1).max(least)
    };
}

impl Tage {
    fn new(core: &WindowSpecification) -> Self {
        let lengths = lengths(core.predictor_tables, core.predictor_history);
        let entries = core.predictor_entries;
        let tables = lengths.iter().map(|_| vec![EMPTY; entries].into());
        Self {
            base: vec![-1; 4 * entries].into(),
            tables: tables.collect(),
            histories: (lengths.chunks(LANES))
                .map(|lengths| Histories::new(entries.trailing_zeros(), lengths))
                .collect(),
            outcomes: 0,
            alternative: 0,
            until_forgetting: FORGET_EVERY,
            dice: 1,
        }
    }

    /// Predicts a branch, then learns how it went. True if it was predicted so.
    fn predict(&mut self, address: u64, taken: bool) -> bool {
        let base = (address >> 1) as usize & (self.base.len() - 1);
        let mut places = [[Place::default(); LANES]; TABLES_MOST / LANES];
        for (places, histories) in places.iter_mut().zip(&self.histories) {
            *places = histories.places(address);
        }
        let places = places.as_flattened();
        // The tables with the longest and the second longest history that know the branch.
        let (mut provider, mut other) = (None, None);
        for (number, (table, place)) in self.tables.iter().zip(places).enumerate() {
            if u32::from(table[place.index as usize].tag) == place.tag {
                other = provider;
                provider = Some(number);
            }
        }
        let entry = |number: usize| &self.tables[number][places[number].index as usize];
        let says = |number: usize| entry(number).counter >= 0;
        let second = other.map_or(self.base[base] >= 0, says);
        let first = provider.map_or(second, says);
        let is_new = |number: usize| {
            let entry = entry(number);
            entry.useful == 0 && matches!(entry.counter, -1 | 0)
        };
        let weak = provider.is_some_and(is_new);
        let predicted = if weak && self.alternative >= 0 {
            second
        } else {
            first
        };
        if weak && first != second {
            step(&mut self.alternative, second == taken, -8, 7);
        }
        match provider {
            Some(number) => {
                let entry = &mut self.tables[number][places[number].index as usize];
                step(&mut entry.counter, taken, -4, 3);
                if first != second {
                    entry.useful = if first == taken {
                        (entry.useful + 1).min(USEFUL_MOST)
                    } else {
                        entry.useful.saturating_sub(1)
                    };
                }
            }
            None => step(&mut self.base[base], taken, -2, 1),
        }
        if predicted != taken {
            self.allocate(provider.map_or(0, |number| number + 1), places, taken);
        }
        self.grow_older(taken);
        predicted == taken
    }

    /// Makes an entry in a table with a longer history than the one that was wrong.
    fn allocate(&mut self, from: usize, places: &[Place], taken: bool) {
        self.dice = self
            .dice
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        // One time in four the shortest of them is passed over, so that histories of all lengths get entries.
        let skip = usize::from(self.dice >> 30 == 0 && from + 1 < self.tables.len());
        let longer = &mut self.tables[from..];
        let mut candidates = (longer.iter_mut().zip(&places[from..])).skip(skip);
        let made = candidates.any(|(table, place)| {
            let entry = &mut table[place.index as usize];
            let free = entry.useful == 0;
            if free {
                *entry = Entry {
                    tag: place.tag as u16,
                    counter: if taken { 0 } else { -1 },
                    useful: 0,
                };
            }
            free
        });
        if !made {
            for (table, place) in self.tables[from..].iter_mut().zip(&places[from..]) {
                let entry = &mut table[place.index as usize];
                entry.useful = entry.useful.saturating_sub(1);
            }
        }
    }

    fn grow_older(&mut self, taken: bool) {
        let outcomes = self.outcomes.to_le_bytes();
        for histories in &mut self.histories {
            histories.push(taken, &outcomes);
        }
        self.outcomes = self.outcomes << 1 | u128::from(taken);
        self.until_forgetting -= 1;
        if self.until_forgetting == 0 {
            self.until_forgetting = FORGET_EVERY;
            let entries = self.tables.iter_mut().flatten();
            entries.for_each(|entry| entry.useful >>= 1);
        }
    }
}

/// The lengths of the tables' histories: a geometric series from [`SHORTEST_HISTORY`] to the longest.
fn lengths(tables: usize, longest: usize) -> Vec<usize> {
    let last = tables - 1;
    if last == 0 {
        return vec![longest];
    }
    let shortest = SHORTEST_HISTORY.min(longest - last);
    let mut lengths: Vec<usize> = Vec::new();
    for number in 0..=last {
        // The largest length whose ratio to the shortest is within the series: integers alone.
        let within = |length: &usize| {
            let power = |base: usize, times: usize| (base as u128).pow(times as u32);
            power(*length, last) <= power(longest, number) * power(shortest, last - number)
        };
        let length = (shortest..=longest).rev().find(within).unwrap_or(shortest);
        let least = lengths.last().map_or(1, |before| before + 1);
        lengths.push(length.max(least).min(longest - (last - number)));
    }
    lengths
}

/// The predictor of a core.
#[derive(Clone, Debug)]
pub(super) struct Predictor {
    directions: Tage,
    /// A ring: the oldest return address is overwritten.
    returns: Box<[u64]>,
    top: usize,
    /// By place of the jump: its last target.
    targets: Box<[u64]>,
}

impl Predictor {
    pub(super) fn new(core: &WindowSpecification) -> Self {
        Self {
            directions: Tage::new(core),
            returns: vec![0; core.return_stack_entries].into(),
            top: 0,
            targets: vec![0; core.indirect_entries].into(),
        }
    }

    /// Predicts where a transfer goes, whose next instruction in memory is at `behind`, and learns that it
    /// went to `target`, or on. True if it was predicted so.
    #[inline]
    pub(super) fn predict(&mut self, transfer: Transfer, behind: u64, target: Option<u64>) -> bool {
        let goes_to = target.unwrap_or(behind);
        match transfer {
            Transfer::Branch => self.directions.predict(behind, target.is_some()),
            Transfer::Jump => true,
            Transfer::Call => {
                self.push(behind);
                true
            }
            Transfer::Indirect => self.last_target(behind, goes_to),
            Transfer::IndirectCall => {
                let right = self.last_target(behind, goes_to);
                self.push(behind);
                right
            }
            Transfer::Return => {
                let right = self.returns[self.top] == goes_to;
                self.top = self.top.checked_sub(1).unwrap_or(self.returns.len() - 1);
                right
            }
        }
    }

    fn push(&mut self, address: u64) {
        self.top = (self.top + 1) % self.returns.len();
        self.returns[self.top] = address;
    }

    fn last_target(&mut self, behind: u64, target: u64) -> bool {
        let place = (behind >> 1 ^ behind >> 12) as usize & (self.targets.len() - 1);
        std::mem::replace(&mut self.targets[place], target) == target
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn predictor() -> Predictor {
        Predictor::new(&WindowSpecification::default())
    }

    /// How many of the last thousand of so many branches were mispredicted.
    fn wrong_at_last(branches: usize, mut outcome: impl FnMut(usize) -> (u64, bool)) -> usize {
        let mut predictor = predictor();
        let mut wrong = 0;
        for number in 0..branches {
            let (behind, taken) = outcome(number);
            let target = taken.then_some(0x8000);
            let right = predictor.predict(Transfer::Branch, behind, target);
            wrong += usize::from(!right && number + 1000 >= branches);
        }
        wrong
    }

    #[test]
    fn what_always_goes_one_way_is_known_at_once() {
        assert_eq!(wrong_at_last(1004, |_| (0x1000, true)), 0);
        assert_eq!(wrong_at_last(1000, |_| (0x1000, false)), 0);
    }

    #[test]
    fn loops_and_patterns_are_learnt_by_their_history() {
        for period in [3, 7, 20, 50] {
            let wrong = wrong_at_last(60_000, |number| (0x1000, number % period != 0));
            assert!(wrong <= 2, "a loop of {period}: {wrong} of 1000");
        }
        // The second branch repeats the first; a two-bit counter is wrong every other time.
        let mut random = Random::new(7);
        let mut coin = false;
        let wrong = wrong_at_last(60_000, |number| {
            if number % 2 == 0 {
                coin = random.bits() & 1 == 0;
            }
            (0x1000 + 0x40 * (number as u64 % 2), coin)
        });
        assert!((150..350).contains(&wrong), "half of the first: {wrong}");
    }

    #[test]
    fn what_is_random_is_not_foreseen() {
        let mut random = Random::new(3);
        let wrong = wrong_at_last(20_000, |_| (0x1000, random.bits() & 1 == 0));
        assert!((400..600).contains(&wrong), "{wrong} of 1000");
    }

    #[test]
    fn returns_go_where_calls_came_from_as_deep_as_the_stack_is() {
        let mut predictor = predictor();
        for depth in 0..16u64 {
            let transfer = [Transfer::Call, Transfer::IndirectCall][depth as usize % 2];
            predictor.predict(transfer, 0x100 * (depth + 1), Some(0x9000));
        }
        for depth in (0..16u64).rev() {
            let back = Some(0x100 * (depth + 1));
            assert!(predictor.predict(Transfer::Return, 0x9010, back));
        }
        assert!(!predictor.predict(Transfer::Return, 0x9010, Some(0x77)));
    }

    #[test]
    fn an_indirect_jump_goes_where_it_went_last() {
        let mut predictor = predictor();
        let mut go = |target| predictor.predict(Transfer::Indirect, 0x500, Some(target));
        assert_eq!(
            [go(8), go(8), go(16), go(16), go(8)],
            [false, true, false, true, false]
        );
        assert!(predictor.predict(Transfer::Jump, 0x600, Some(4)));
    }

    #[test]
    fn histories_are_a_geometric_series() {
        assert_eq!(lengths(4, 64), [4, 10, 25, 64]);
        assert_eq!(lengths(1, 30), [30]);
        assert_eq!(lengths(8, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(lengths(3, 100), [4, 20, 100]);
    }

    #[test]
    fn a_folded_history_is_the_exclusive_or_of_its_pieces() {
        let mut random = Random::new(5);
        for (bits, length) in [(10, 64), (11, 25), (4, 4), (7, 128)] {
            let mut histories = Histories::new(bits, &[length]);
            let mut history = 0u128;
            for _ in 0..300 {
                let taken = random.bits() & 1 == 1;
                histories.push(taken, &history.to_le_bytes());
                history = history << 1 | u128::from(taken);
            }
            let kept = if length == 128 {
                history
            } else {
                history & ((1 << length) - 1)
            };
            let expected = (0..128)
                .filter(|place| kept >> place & 1 == 1)
                .fold(0, |value, place| value ^ 1 << (place % bits));
            assert_eq!(
                histories.index.values[0], expected,
                "{length} in {bits} bits"
            );
        }
    }
}
