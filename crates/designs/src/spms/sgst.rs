//! The Strand Group State Table (§IV-B, figure 2): an entry for each strand that lives, and groups of them as
//! doubly linked lists.
//!
//! A strand is known by its identifier, CID, TID and SID in one number: that is the tag of its lines in the
//! caches, and its entry's place in the table. (*Our assumption*: the paper has both, and says of neither how
//! many bits are whose.)
//!
//! Always true here:
//! - Entries that are linked are of one group; an entry that stands alone is a group.
//! - No identifier is given to a strand while another one has it.
//! - A group knows how many of its strands are *under way*: have not ended, or have lines in the caches.

use perdure_hardware::line::LineNumber;
use perdure_hardware::time::Cycles;
use smallvec::SmallVec;

use super::buffer::Ticket;

/// A strand's identifier.
pub type Strand = u16;
/// Some of them: most often one group of few.
pub type Strands = SmallVec<[Strand; 16]>;

/// What a strand is doing (figure 2c). Committed ones are told to the module at once, and their entries are
/// invalid from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// There is none.
    #[default]
    Invalid,
    /// Its thread is at it.
    Active,
    /// It has ended, and lines of it, or of its group, are still in the caches.
    Committing,
}

/// A strand as programs know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Whose.
    pub thread: u32,
    /// Strands that the thread has begun before it.
    pub ordinal: u64,
    /// When it ended, if it has.
    pub ended: Cycles,
}

/// An entry.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// State.
    pub state: State,
    /// Cnt: lines in the caches that carry its tag.
    pub cnt: u32,
    /// Prev and Next of the group's list.
    links: [Option<Strand>; 2],
    /// In the list of all groups, the one of this list.
    group: u16,
    /// In its thread, the strand before and the one behind, as long as they have entries: where threads are
    /// chained.
    chain: [Option<Strand>; 2],
    /// In the order in which they began.
    begun: u64,
    /// The strand, and those that were folded into it.
    pub names: Vec<Name>,
    /// Where its lines are, which hardware finds by their tags. Some have left, or belong to another one by
    /// now.
    pub lines: Vec<LineNumber>,
    /// What the strand buffer has of it, which hardware finds by its identifier.
    pub tickets: Vec<Ticket>,
}

impl Entry {
    /// It has not ended, or there are lines of it in the caches.
    fn is_under_way(&self) -> bool {
        self.state == State::Active || self.cnt > 0
    }
}

/// A group: its list's ends, how many strands it has, and how many of them are under way. Hardware has the
/// list alone, and walks it while nobody waits.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    ends: [Strand; 2],
    strands: u16,
    under_way: u16,
}

/// Which resource is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Short {
    /// The table has no free entry.
    Entries,
    /// A thread's identifiers, which these are, are all in use.
    Identifiers(std::ops::Range<Strand>),
    /// No TID of the hart is free: other threads' strands have them all.
    Threads(std::ops::Range<Strand>),
}

impl Short {
    /// The identifiers of which one has to become free.
    pub fn range(&self, all: Strand) -> std::ops::Range<Strand> {
        match self {
            Self::Entries => 0..all,
            Self::Identifiers(range) | Self::Threads(range) => range.clone(),
        }
    }
}

/// How many bits an identifier's parts have.
#[derive(Clone, Copy, Debug)]
pub struct Bits {
    /// TID.
    pub tid: u32,
    /// SID.
    pub sid: u32,
}

/// Who has a TID of a hart.
#[derive(Clone, Copy, Debug, Default)]
struct Holder {
    thread: u32,
    live: u32,
    /// The SID that is tried next.
    next: u32,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Sgst {
    entries: Vec<Entry>,
    groups: Vec<Group>,
    free_groups: Vec<u16>,
    /// Entries that may be in use, and are.
    capacity: usize,
    live: usize,
    begun: u64,
    bits: Bits,
    /// By hart, then by TID.
    holders: Vec<Holder>,
}

impl Sgst {
    /// An empty table for so many harts.
    pub fn new(harts: usize, bits: Bits, capacity: usize) -> Self {
        let holders = harts << bits.tid;
        let identifiers = holders << bits.sid;
        Self {
            entries: vec![Entry::default(); identifiers],
            groups: vec![Group::default(); identifiers],
            free_groups: (0..identifiers as u16).rev().collect(),
            capacity,
            live: 0,
            begun: 0,
            bits,
            holders: vec![Holder::default(); holders],
        }
    }

    /// Identifiers that there are.
    pub fn identifiers(&self) -> Strand {
        self.entries.len() as Strand
    }

    /// A strand's entry.
    pub fn of(&self, strand: Strand) -> &Entry {
        &self.entries[usize::from(strand)]
    }

    /// A strand's entry, to change anything of but [`State`] and Cnt.
    pub fn of_mut(&mut self, strand: Strand) -> &mut Entry {
        &mut self.entries[usize::from(strand)]
    }

    fn group_of(&mut self, strand: Strand) -> &mut Group {
        &mut self.groups[usize::from(self.entries[usize::from(strand)].group)]
    }

    /// Changes State or Cnt.
    fn change(&mut self, strand: Strand, change: impl FnOnce(&mut Entry)) {
        let entry = &mut self.entries[usize::from(strand)];
        let before = entry.is_under_way();
        change(entry);
        let after = entry.is_under_way();
        let group = self.group_of(strand);
        group.under_way = group.under_way + u16::from(after) - u16::from(before);
    }

    /// One more line in the caches carries the strand's tag.
    pub fn count_line(&mut self, strand: Strand) {
        self.change(strand, |entry| entry.cnt += 1);
    }

    /// One less does.
    pub fn uncount_line(&mut self, strand: Strand) {
        self.change(strand, |entry| entry.cnt = entry.cnt.saturating_sub(1));
    }

    /// A strand has ended.
    pub fn end(&mut self, strand: Strand, now: Cycles) {
        self.change(strand, |entry| entry.state = State::Committing);
        if let Some(name) = self.of_mut(strand).names.first_mut() {
            name.ended = now;
        }
    }

    /// True if all strands of a strand's group have ended and have no line in the caches.
    pub fn is_complete(&self, strand: Strand) -> bool {
        self.groups[usize::from(self.of(strand).group)].under_way == 0
    }

    /// True if a strand has that identifier.
    pub fn lives(&self, strand: Strand) -> bool {
        let entry = self.entries.get(usize::from(strand));
        entry.is_some_and(|entry| entry.state != State::Invalid)
    }

    /// Begins a strand of a thread on a hart. `reuses` is a planted bug.
    pub fn begin(&mut self, hart: usize, name: Name, reuses: bool) -> Result<Strand, Short> {
        let (holder, first) = self.holder(hart, name.thread)?;
        if self.live == self.capacity {
            return Err(Short::Entries);
        }
        let sids = 1 << self.bits.sid;
        let next = self.holders[holder].next;
        let free = (next..next + sids).find(|sid| {
            let entry = &self.entries[usize::from(first) + (sid % sids) as usize];
            reuses || entry.state == State::Invalid
        });
        let Some(sid) = free else {
            return Err(Short::Identifiers(first..first + sids as Strand));
        };
        let strand = first + (sid % sids) as Strand;
        if self.lives(strand) {
            self.leave_group(strand);
        } else {
            self.live += 1;
            self.holders[holder].live += 1;
        }
        self.holders[holder].thread = name.thread;
        self.holders[holder].next = (sid + 1) % sids;
        self.begun += 1;
        let begun = self.begun;
        let group = self.free_groups.pop().expect("as many as entries");
        self.groups[usize::from(group)] = Group {
            ends: [strand; 2],
            strands: 1,
            under_way: 1,
        };
        let entry = self.of_mut(strand);
        (entry.state, entry.cnt, entry.group, entry.begun) = (State::Active, 0, group, begun);
        (entry.links, entry.chain) = ([None; 2], [None; 2]);
        entry.names.clear();
        entry.lines.clear();
        entry.tickets.clear();
        entry.names.push(name);
        Ok(strand)
    }

    /// The TID that a thread has on a hart, or may have, and its first identifier.
    fn holder(&self, hart: usize, thread: u32) -> Result<(usize, Strand), Short> {
        let tids = 1 << self.bits.tid;
        let of_hart = hart * tids..(hart + 1) * tids;
        let mut holders = of_hart.clone();
        let own = (holders.clone()).find(|&at| {
            let holder = &self.holders[at];
            holder.live > 0 && holder.thread == thread
        });
        let found = own.or_else(|| holders.find(|&at| self.holders[at].live == 0));
        let first = |at: usize| (at << self.bits.sid) as Strand;
        match found {
            Some(at) => Ok((at, first(at))),
            None => Err(Short::Threads(first(of_hart.start)..first(of_hart.end))),
        }
    }

    /// A strand's entry is free again. Those before and behind it in its thread have nothing to do with each
    /// other any more.
    pub fn free(&mut self, strand: Strand) {
        self.leave_group(strand);
        self.unchain(strand);
        self.of_mut(strand).state = State::Invalid;
        self.live -= 1;
        self.holders[usize::from(strand) >> self.bits.sid].live -= 1;
    }

    /// The strands of a group, from the first of its list to the last.
    pub fn group(&self, strand: Strand) -> impl Iterator<Item = Strand> + '_ {
        let [first, _] = self.groups[usize::from(self.of(strand).group)].ends;
        std::iter::successors(Some(first), |&at| self.of(at).links[1])
    }

    /// Makes one group of two strands' groups: the second's list comes behind the first's. False if it is one
    /// already.
    pub fn merge(&mut self, one: Strand, other: Strand) -> bool {
        let [front, back] = [one, other].map(|strand| self.of(strand).group);
        if front == back {
            return false;
        }
        let [before, behind] = [front, back].map(|group| self.groups[usize::from(group)]);
        let (last, first) = (before.ends[1], behind.ends[0]);
        self.of_mut(last).links[1] = Some(first);
        self.of_mut(first).links[0] = Some(last);
        let joined = Group {
            ends: [before.ends[0], behind.ends[1]],
            strands: before.strands + behind.strands,
            under_way: before.under_way + behind.under_way,
        };
        // Whose list is the shorter learns of the other's number.
        let (kept, given_up, renamed) = if before.strands < behind.strands {
            (back, front, before)
        } else {
            (front, back, behind)
        };
        let mut at = renamed.ends[0];
        for _ in 0..renamed.strands {
            self.of_mut(at).group = kept;
            at = self.of(at).links[1].unwrap_or(at);
        }
        self.groups[usize::from(kept)] = joined;
        self.free_groups.push(given_up);
        true
    }

    fn leave_group(&mut self, strand: Strand) {
        let [before, after] = std::mem::take(&mut self.of_mut(strand).links);
        if let Some(before) = before {
            self.of_mut(before).links[1] = after;
        }
        if let Some(after) = after {
            self.of_mut(after).links[0] = before;
        }
        let under_way = u16::from(self.of(strand).is_under_way());
        let number = self.of(strand).group;
        let group = self.group_of(strand);
        group.strands -= 1;
        group.under_way -= under_way;
        if let (None, Some(after)) = (before, after) {
            group.ends[0] = after;
        }
        if let (Some(before), None) = (before, after) {
            group.ends[1] = before;
        }
        if group.strands == 0 {
            self.free_groups.push(number);
        }
    }

    /// A strand comes behind another one of its thread.
    pub fn chain(&mut self, earlier: Strand, later: Strand) {
        self.of_mut(earlier).chain[1] = Some(later);
        self.of_mut(later).chain[0] = Some(earlier);
    }

    /// The strand behind this one in its thread, if they are chained.
    pub fn behind(&self, strand: Strand) -> Option<Strand> {
        self.of(strand).chain[1]
    }

    fn unchain(&mut self, strand: Strand) {
        let [before, behind] = std::mem::take(&mut self.of_mut(strand).chain);
        if let Some(before) = before {
            self.of_mut(before).chain[1] = None;
        }
        if let Some(behind) = behind {
            self.of_mut(behind).chain[0] = None;
        }
    }

    /// A strand's group and those that have to be committed no later, as threads are chained: one strand of
    /// each, the strand itself first.
    pub fn groups_before(&self, strand: Strand) -> impl Iterator<Item = Strand> + '_ {
        let (mut groups, mut at) = (Strands::from_iter([strand]), 0);
        std::iter::from_fn(move || {
            if at > 0 {
                for strand in self.group(groups[at - 1]) {
                    let earlier = self.of(strand).chain[0];
                    let known = |group| groups.iter().any(|&one| self.of(one).group == group);
                    let unknown = earlier.filter(|&earlier| !known(self.of(earlier).group));
                    groups.extend(unknown);
                }
            }
            at += 1;
            groups.get(at - 1).copied()
        })
    }

    /// The strands of a range of identifiers that have ended, the oldest first.
    pub fn ended(&self, range: std::ops::Range<Strand>) -> Vec<Strand> {
        let mut ended: Vec<Strand> = range
            .filter(|&strand| self.of(strand).state == State::Committing)
            .collect();
        ended.sort_unstable_by_key(|&strand| self.of(strand).begun);
        ended
    }

    /// How many strands are active.
    pub fn active(&self) -> usize {
        let active = self.entries.iter();
        active.filter(|entry| entry.state == State::Active).count()
    }

    /// How many entries are in use.
    pub fn live(&self) -> usize {
        self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(thread: u32, ordinal: u64) -> Name {
        Name {
            thread,
            ordinal,
            ended: 0,
        }
    }

    fn table(capacity: usize) -> Sgst {
        Sgst::new(2, Bits { tid: 1, sid: 2 }, capacity)
    }

    #[test]
    fn identifiers_come_round_and_skip_those_in_use() {
        let mut table = table(16);
        let mut begin = |ordinal| table.begin(1, name(7, ordinal), false);
        let strands: Vec<Strand> = (0..4).map(|at| begin(at).expect("four")).collect();
        assert_eq!(strands, [8, 9, 10, 11]);
        assert_eq!(begin(4), Err(Short::Identifiers(8..12)));
        table.free(10);
        assert_eq!(table.begin(1, name(7, 4), false), Ok(10));
        assert_eq!(table.begin(1, name(8, 0), false), Ok(12));
        assert_eq!(
            table.begin(1, name(9, 0), false),
            Err(Short::Threads(8..16))
        );
        table.free(12);
        assert_eq!(table.begin(1, name(9, 0), false), Ok(13));
    }

    #[test]
    fn a_full_table_says_so() {
        let mut table = table(2);
        assert_eq!(table.begin(0, name(0, 0), false), Ok(0));
        assert_eq!(table.begin(0, name(0, 1), false), Ok(1));
        assert_eq!(table.begin(0, name(0, 2), false), Err(Short::Entries));
    }

    #[test]
    fn groups_are_lists_that_grow_at_their_ends_and_lose_members_anywhere() {
        let mut table = table(16);
        for ordinal in 0..4 {
            table.begin(0, name(0, ordinal), false).expect("free");
        }
        assert!(table.merge(0, 1) && table.merge(2, 3) && table.merge(1, 2));
        assert!(!table.merge(3, 0) && !table.merge(2, 2));
        assert!((0..4).all(|strand| table.group(strand).eq(0..4)));
        table.free(1);
        assert!(table.group(3).eq([0, 2, 3]));
        table.free(0);
        assert!(table.group(3).eq([2, 3]));
    }
}
