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

/// The newest so many outcomes, folded into few bits: each step costs the same, however many they are.
#[derive(Clone, Copy, Debug)]
struct Folded {
    value: u32,
    bits: u32,
    /// Where the outcome that leaves has been folded to.
    leaves_at: u32,
}

impl Folded {
    fn new(bits: u32, length: u32) -> Self {
        Self {
            value: 0,
            bits,
            leaves_at: length % bits,
        }
    }

    /// One outcome comes, and the oldest one leaves.
    #[inline(always)]
    fn push(&mut self, taken: bool, leaves: u32) {
        let mut value = self.value << 1 | u32::from(taken);
        value ^= leaves << self.leaves_at;
        value ^= value >> self.bits;
        self.value = value & ((1 << self.bits) - 1);
    }
}

/// A tagged table.
#[derive(Clone, Debug)]
struct Table {
    entries: Box<[Entry]>,
    /// Outcomes that it looks at.
    length: u32,
    index: Folded,
    tags: [Folded; 2],
}

impl Table {
    fn new(entries: usize, history: usize) -> Self {
        let length = u32::try_from(history).expect("the specification is valid");
        Self {
            entries: vec![EMPTY; entries].into(),
            length,
            index: Folded::new(entries.trailing_zeros(), length),
            tags: [TAG_BITS, TAG_BITS - 1].map(|bits| Folded::new(bits, length)),
        }
    }

    /// An outcome comes, behind that history.
    #[inline(always)]
    fn push(&mut self, taken: bool, history: u128) {
        let leaves = (history >> (self.length - 1)) as u32 & 1;
        self.index.push(taken, leaves);
        for tag in &mut self.tags {
            tag.push(taken, leaves);
        }
    }

    /// Where an entry for this address is, and what tag it has.
    #[inline(always)]
    fn place(&self, address: u64) -> (usize, u16) {
        let address = (address >> 1) as u32;
        let index = address ^ address >> self.index.bits ^ self.index.value;
        let tag = address ^ self.tags[0].value ^ self.tags[1].value << 1;
        let tag = tag & ((1 << TAG_BITS) - 1);
        (index as usize & (self.entries.len() - 1), tag as u16)
    }
}

/// Directions of branches.
#[derive(Clone, Debug)]
struct Tage {
    /// Without tags: taken from 0 on; -2 to 1.
    base: Box<[i8]>,
    /// From the shortest history to the longest.
    tables: Box<[Table]>,
    history: u128,
    /// What a new entry says is worth less than the alternative while this is 0 or more; -8 to 7.
    alternative: i8,
    until_forgetting: u32,
    /// For whom the next entry is made: a small generator, which is part of the state.
    dice: u32,
}

/// Most tagged tables.
const TABLES_MOST: usize = 8;

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
        let table = |length| Table::new(core.predictor_entries, length);
        Self {
            base: vec![-1; 4 * core.predictor_entries].into(),
            tables: lengths.into_iter().map(table).collect(),
            history: 0,
            alternative: 0,
            until_forgetting: FORGET_EVERY,
            dice: 1,
        }
    }

    /// Predicts a branch, then learns how it went. True if it was predicted so.
    fn predict(&mut self, address: u64, taken: bool) -> bool {
        let base = (address >> 1) as usize & (self.base.len() - 1);
        let mut places = [(0, 0); TABLES_MOST];
        // The tables with the longest and the second longest history that know the branch.
        let (mut provider, mut other) = (None, None);
        for (number, table) in self.tables.iter().enumerate() {
            let (index, tag) = table.place(address);
            places[number] = (index, tag);
            if table.entries[index].tag == tag {
                other = provider;
                provider = Some(number);
            }
        }
        let says = |number: usize| self.tables[number].entries[places[number].0].counter >= 0;
        let second = other.map_or(self.base[base] >= 0, says);
        let first = provider.map_or(second, says);
        let is_new = |number: usize| {
            let entry = &self.tables[number].entries[places[number].0];
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
                let entry = &mut self.tables[number].entries[places[number].0];
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
            self.allocate(provider.map_or(0, |number| number + 1), &places, taken);
        }
        self.grow_older(taken);
        predicted == taken
    }

    /// Makes an entry in a table with a longer history than the one that was wrong.
    fn allocate(&mut self, from: usize, places: &[(usize, u16); TABLES_MOST], taken: bool) {
        self.dice = self
            .dice
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        // One time in four the shortest of them is passed over, so that histories of all lengths get entries.
        let skip = usize::from(self.dice >> 30 == 0 && from + 1 < self.tables.len());
        let longer = &mut self.tables[from..];
        let mut candidates = (longer.iter_mut().zip(&places[from..])).skip(skip);
        let made = candidates.any(|(table, &(index, tag))| {
            let entry = &mut table.entries[index];
            let free = entry.useful == 0;
            if free {
                *entry = Entry {
                    tag,
                    counter: if taken { 0 } else { -1 },
                    useful: 0,
                };
            }
            free
        });
        if !made {
            for (table, &(index, _)) in self.tables[from..].iter_mut().zip(&places[from..]) {
                let entry = &mut table.entries[index];
                entry.useful = entry.useful.saturating_sub(1);
            }
        }
    }

    fn grow_older(&mut self, taken: bool) {
        for table in &mut self.tables {
            table.push(taken, self.history);
        }
        self.history = self.history << 1 | u128::from(taken);
        self.until_forgetting -= 1;
        if self.until_forgetting == 0 {
            self.until_forgetting = FORGET_EVERY;
            let entries = self.tables.iter_mut().flat_map(|table| &mut table.entries);
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
            let mut table = Table::new(1 << bits, length);
            let mut history = 0u128;
            for _ in 0..300 {
                let taken = random.bits() & 1 == 1;
                table.push(taken, history);
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
            assert_eq!(table.index.value, expected, "{length} in {bits} bits");
        }
    }
}
