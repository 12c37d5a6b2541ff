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

use perdure_hardware::line::LineNumber;
use perdure_hardware::time::Cycles;

use super::buffer::Ticket;

/// A strand's identifier.
pub type Strand = u16;

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
    /// The group's list.
    links: [Option<Strand>; 2],
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
        Self {
            entries: vec![Entry::default(); holders << bits.sid],
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

    /// A strand's entry, to change.
    pub fn of_mut(&mut self, strand: Strand) -> &mut Entry {
        &mut self.entries[usize::from(strand)]
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
        if !self.lives(strand) {
            self.live += 1;
            self.holders[holder].live += 1;
        }
        self.holders[holder].thread = name.thread;
        self.holders[holder].next = (sid + 1) % sids;
        self.begun += 1;
        let begun = self.begun;
        let entry = self.of_mut(strand);
        (entry.state, entry.cnt, entry.links, entry.begun) = (State::Active, 0, [None; 2], begun);
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

    /// A strand's entry is free again.
    pub fn free(&mut self, strand: Strand) {
        self.unlink(strand);
        self.of_mut(strand).state = State::Invalid;
        self.live -= 1;
        self.holders[usize::from(strand) >> self.bits.sid].live -= 1;
    }

    /// The strands of a group, from the first of its list to the last.
    pub fn group(&self, strand: Strand) -> impl Iterator<Item = Strand> + '_ {
        std::iter::successors(Some(self.end(strand, 0)), |&at| self.of(at).links[1])
    }

    /// The first (0) or last (1) of the list in which a strand is.
    fn end(&self, strand: Strand, side: usize) -> Strand {
        let mut at = strand;
        while let Some(next) = self.of(at).links[side] {
            at = next;
        }
        at
    }

    /// Makes one group of two strands' groups. False if it is one already.
    pub fn merge(&mut self, one: Strand, other: Strand) -> bool {
        let (last, first) = (self.end(one, 1), self.end(other, 0));
        if self.end(last, 0) == first {
            return false;
        }
        self.of_mut(last).links[1] = Some(first);
        self.of_mut(first).links[0] = Some(last);
        true
    }

    fn unlink(&mut self, strand: Strand) {
        let [before, after] = std::mem::take(&mut self.of_mut(strand).links);
        if let Some(before) = before {
            self.of_mut(before).links[1] = after;
        }
        if let Some(after) = after {
            self.of_mut(after).links[0] = before;
        }
    }

    /// The strands of a range of identifiers that have ended, the oldest first.
    pub fn ended(&self, range: std::ops::Range<Strand>) -> Vec<Strand> {
        let mut ended: Vec<Strand> = range
            .filter(|&strand| self.of(strand).state == State::Committing)
            .collect();
        ended.sort_by_key(|&strand| self.of(strand).begun);
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
