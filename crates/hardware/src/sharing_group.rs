//! A sharing group: an L2, the harts that share it, and what happens between it and their L1s.
//!
//! Between the L1s of one sharing group the protocol is the one that stands between sharing groups
//! (`coherence.rs`), once more: each line of the L2 knows which harts hold it, and whether one of
//! them exclusively. A dirty L1 copy that another hart of the sharing group asks for is first written
//! down to the L2, as on an eviction; where versions are kept, an older dirty version that it finds
//! there departs. A hart that has an L2 to itself needs no such directory, and none is kept.
//!
//! Always true between transactions:
//! - A line in an L1 is in its sharing group's L2.
//! - The directory is exact: a hart holds a line if its L1D or its L1I does. It holds it exclusively
//!   if its L1D word is Exclusive or Modified; nobody else in the sharing group then holds it, and the
//!   L2's word is Exclusive or Modified.
//! - An L1D copy that is not Modified has the L2's bytes and version.
//! - A reserved line is in its hart's L1D, where an L2 is shared.

use std::ops::Range;

use crate::cache::{Cache, Slot, State, Word};
use crate::coherence::{Directory, Request, Snoop, transition};
use crate::hierarchy::{Core, Hardware, Older};
use crate::line::{Line, LineNumber, Version};
use crate::policy::{Policy, Reason};
use crate::specification::Specification;
use crate::time::Cycles;

/// An L2 with its directory. All of it is lost at power-off.
#[derive(Clone, Debug)]
pub struct SharingGroup {
    /// The second level, inclusive of the L1s of its harts.
    pub l2: Cache,
    /// The harts that share it.
    pub harts: Range<usize>,
    /// By slot of the L2, which harts hold the line. Empty if one hart has the L2 to itself.
    holders: Vec<Directory>,
    /// When a walk over the tags lets go of the L2's port.
    pub(crate) port_free: Cycles,
}

/// What a sharing group gave up of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenUp {
    /// Its newest bytes there, and their version.
    pub bytes: Line,
    pub version: Version,
    /// They were dirty.
    pub dirty: bool,
    /// An older dirty version.
    pub older: Older,
}

/// The numbers of the bits that are set.
pub(crate) fn members(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (first < 64).then_some(first)
    })
}

impl SharingGroup {
    /// The sharing groups of a machine. Harts are dealt out in order; the last sharing group may have
    /// fewer.
    pub(crate) fn all(specification: &Specification) -> Vec<Self> {
        let (harts, l2) = (specification.harts, &specification.l2);
        (0..harts)
            .step_by(l2.harts)
            .map(|first| {
                let cache = Cache::new(l2.bytes, l2.ways, 1);
                let harts = first..harts.min(first + l2.harts);
                let entries = if harts.len() > 1 {
                    cache.sets() * cache.ways()
                } else {
                    0
                };
                Self {
                    l2: cache,
                    harts,
                    holders: vec![Directory::default(); entries],
                    port_free: 0,
                }
            })
            .collect()
    }

    #[inline(always)]
    fn is_shared(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The harts whose L1s may hold the line of a slot, one bit each.
    #[inline(always)]
    fn may_hold(&self, slot: Slot) -> u64 {
        match self.holders.get(slot.0 as usize) {
            Some(directory) => directory.holders,
            None => 1 << self.harts.start,
        }
    }

    /// The only hart that may have the line of a slot Modified in its L1D.
    #[inline(always)]
    fn may_have_modified(&self, slot: Slot) -> Option<usize> {
        match self.holders.get(slot.0 as usize) {
            Some(directory) if directory.exclusive => {
                Some(directory.holders.trailing_zeros() as usize)
            }
            Some(_) => None,
            None => Some(self.harts.start),
        }
    }

    /// Notes that a line has come to the L2 for one hart.
    #[inline(always)]
    pub(crate) fn came_for(&mut self, hart: usize, slot: Slot, state: State) {
        if let Some(directory) = self.holders.get_mut(slot.0 as usize) {
            *directory = Directory {
                holders: 1 << hart,
                exclusive: state > State::Shared,
            };
        }
    }

    fn slot_of(&self, line: LineNumber) -> Slot {
        self.l2
            .find(line)
            .expect("inclusion: a line in an L1 is in its sharing group's L2")
    }

    /// The sharing group's copy of a line that it holds, its L2's being the newest.
    pub(crate) fn copy(&self, line: LineNumber) -> (Line, Version) {
        let slot = self.slot_of(line);
        (*self.l2.data(slot), self.l2.word(slot).version())
    }

    /// The L1D's Modified line takes its place in the L2. An older version that it displaces is
    /// returned if versions are kept.
    fn take_down(&mut self, word: Word, bytes: &Line, keeps_versions: bool) -> Older {
        let below = self.slot_of(word.line());
        let below_word = self.l2.word(below);
        let older = (keeps_versions
            && below_word.state() == State::Modified
            && below_word.version() != word.version())
        .then(|| (*self.l2.data(below), below_word.version()));
        *self.l2.data_mut(below) = *bytes;
        let newer = below_word
            .with_state(State::Modified)
            .with_version(word.version());
        self.l2.set_word(below, newer);
        older
    }
}

impl Core {
    /// Writes a Modified L1D line down and leaves it Exclusive: the L2's bytes are then the newest.
    /// An older version that this displaced in the L2 is returned if versions are kept.
    pub(crate) fn push_down(
        &mut self,
        group: &mut SharingGroup,
        line: LineNumber,
        keeps_versions: bool,
    ) -> Older {
        let slot = self.l1d.find(line)?;
        let word = self.l1d.word(slot);
        if word.state() != State::Modified {
            return None;
        }
        let older = self.write_down(group, slot, keeps_versions);
        self.l1d.set_word(slot, word.with_state(State::Exclusive));
        self.lookaside.revoke_write(slot);
        older
    }

    /// [`SharingGroup::take_down`] for an L1D slot, which stays as it is.
    pub(crate) fn write_down(
        &self,
        group: &mut SharingGroup,
        slot: Slot,
        keeps_versions: bool,
    ) -> Older {
        group.take_down(self.l1d.word(slot), self.l1d.data(slot), keeps_versions)
    }

    /// Frees an L1D slot.
    pub(crate) fn evict_l1d(
        &mut self,
        group: &mut SharingGroup,
        slot: Slot,
        keeps_versions: bool,
    ) -> Older {
        if !self.l1d.occupied(slot) {
            return None;
        }
        self.lookaside.kill(slot);
        let word = self.l1d.word(slot);
        let mut older = None;
        if word.state() == State::Modified {
            older = self.write_down(group, slot, keeps_versions);
        }
        self.l1d.invalidate(slot);
        self.lost(group, word.line());
        older
    }

    /// Frees an L1I slot.
    pub(crate) fn evict_l1i(&mut self, group: &mut SharingGroup, slot: Slot) {
        if self.l1i.occupied(slot) {
            let line = self.l1i.word(slot).line();
            self.l1i.invalidate(slot);
            self.lost(group, line);
        }
    }

    /// One of the L1s has lost a line: the L2 is told.
    #[inline(always)]
    fn lost(&mut self, group: &mut SharingGroup, line: LineNumber) {
        if !group.is_shared() {
            return;
        }
        let slot = group.slot_of(line);
        let directory = &mut group.holders[slot.0 as usize];
        if self.l1d.find(line).is_none() {
            // Others may write the line from now on without asking.
            self.reservation = self.reservation.filter(|&reserved| reserved != line);
            directory.exclusive &= directory.holders != 1 << self.hart;
            if self.l1i.find(line).is_none() {
                directory.holders &= !(1 << self.hart);
            }
        }
    }

    /// Drops what the L1s hold of a line, the L1D in that slot.
    #[inline(always)]
    fn drop_line(&mut self, line: LineNumber, in_l1d: Option<Slot>) {
        if let Some(slot) = in_l1d {
            self.lookaside.kill(slot);
            self.l1d.invalidate(slot);
        }
        if let Some(slot) = self.l1i.find(line) {
            self.l1i.invalidate(slot);
        }
        if self.reservation == Some(line) {
            self.reservation = None;
        }
    }

    /// Lowers the state of an L1D copy, whose version becomes what `kept` makes of it.
    #[inline(always)]
    fn lower(&mut self, slot: Slot, to: State, kept: impl Fn(Version) -> Version) {
        let word = self.l1d.word(slot);
        self.lookaside.revoke_write(slot);
        let lowered = word
            .with_state(word.state().min(to))
            .with_version(kept(word.version()));
        self.l1d.set_word(slot, lowered);
    }
}

impl Hardware {
    /// The sharing group of a hart.
    #[inline(always)]
    pub fn group_of(&self, hart: usize) -> usize {
        self.cores[hart].group
    }

    /// A hart's core and its sharing group.
    #[inline(always)]
    pub(crate) fn core_and_group(&mut self, hart: usize) -> (&mut Core, &mut SharingGroup) {
        let core = &mut self.cores[hart];
        let group = &mut self.groups[core.group];
        (core, group)
    }

    /// Asks the other L1s of a hart's sharing group, whose L2 has the line with the right to do what is
    /// requested. Returns the state that the hart's L1 gets, and when.
    #[inline(always)]
    pub(crate) fn ask_siblings<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        request: Request,
        now: Cycles,
    ) -> (State, Cycles) {
        if self.groups[self.cores[hart].group].is_shared() {
            self.ask_shared(policy, hart, line, request, now)
        } else {
            (State::Exclusive, now)
        }
    }

    #[inline(never)]
    fn ask_shared<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        request: Request,
        now: Cycles,
    ) -> (State, Cycles) {
        let number = self.cores[hart].group;
        let group = &mut self.groups[number];
        let slot = group.slot_of(line);
        let before = group.holders[slot.0 as usize];
        if request == Request::Fetch && before.holders == 1 << hart {
            return (State::Shared, now);
        }
        let others = before.holders & !(1 << hart);
        let before = Directory {
            holders: others,
            exclusive: before.exclusive && others != 0,
        };
        let change = transition(before, request, hart as u32);
        let owned = group.l2.word(slot).state() > State::Shared;
        group.holders[slot.0 as usize] = Directory {
            holders: change.next.holders,
            exclusive: change.next.exclusive && owned,
        };
        let (targets, drops) = match change.snoop {
            Snoop::None | Snoop::Clean(_) => return (change.grant, now),
            Snoop::Invalidate(holders) => (holders, true),
            Snoop::Downgrade(owner) => (1 << owner, false),
        };
        let mut ready = now + self.specification.l2.snoop_cycles;
        for sibling in members(targets) {
            self.statistics.l2_snoops += 1;
            let core = &mut self.cores[sibling];
            let keeps = policy.keeps_versions();
            let older = core.push_down(&mut self.groups[number], line, keeps);
            let above = core.l1d.find(line);
            if drops {
                core.drop_line(line, above);
            } else if let Some(above) = above {
                core.lower(above, State::Shared, |version| version);
            }
            ready = self.depart(policy, number, line, older, Reason::StoreEviction, ready);
        }
        (change.grant, ready)
    }

    /// Changes the sharing group's copies of a line to `after` at most (Invalid, Shared, or Exclusive
    /// and clean), which keep what `kept` makes of the version of their bytes, and hands over what they
    /// held.
    pub(crate) fn give_up(
        &mut self,
        number: usize,
        line: LineNumber,
        after: State,
        kept: impl Fn(Version) -> Version,
    ) -> Option<GivenUp> {
        let group = &mut self.groups[number];
        let below = group.l2.find(line)?;
        let word = group.l2.word(below);
        let mut given = GivenUp {
            bytes: *group.l2.data(below),
            version: word.version(),
            dirty: word.state() == State::Modified,
            older: None,
        };
        for hart in members(group.may_hold(below)) {
            let core = &mut self.cores[hart];
            let in_l1d = core.l1d.find(line);
            if let Some(slot) = in_l1d {
                let above = core.l1d.word(slot);
                if above.state() == State::Modified {
                    if given.dirty && given.version != above.version() {
                        given.older = Some((given.bytes, given.version));
                    }
                    given.bytes = *core.l1d.data(slot);
                    given.version = above.version();
                    given.dirty = true;
                    *group.l2.data_mut(below) = given.bytes;
                }
            }
            if after == State::Invalid {
                core.drop_line(line, in_l1d);
            } else if let Some(slot) = in_l1d {
                core.lower(slot, after, &kept);
            }
        }
        if after == State::Invalid {
            group.l2.invalidate(below);
        } else {
            let version = kept(given.version);
            let clean = word.with_state(after).with_version(version);
            group.l2.set_word(below, clean);
        }
        if let Some(directory) = group.holders.get_mut(below.0 as usize) {
            directory.exclusive &= after > State::Shared;
            if after == State::Invalid {
                *directory = Directory::default();
            }
        }
        Some(given)
    }

    /// The hart of a sharing group that has the line of an L2 slot Modified in its L1D, and where.
    pub fn modified_above(&self, number: usize, slot: Slot) -> Option<(usize, Slot)> {
        let group = &self.groups[number];
        let hart = group.may_have_modified(slot)?;
        let l1d = &self.cores[hart].l1d;
        let above = l1d.find(group.l2.word(slot).line())?;
        (l1d.word(above).state() == State::Modified).then_some((hart, above))
    }

    /// Gives the L1D copies of the line of an L2 slot another version.
    pub(crate) fn set_version_above(&mut self, number: usize, slot: Slot, version: Version) {
        let group = &self.groups[number];
        let line = group.l2.word(slot).line();
        for hart in members(group.may_hold(slot)) {
            let l1d = &mut self.cores[hart].l1d;
            if let Some(above) = l1d.find(line) {
                l1d.set_word(above, l1d.word(above).with_version(version));
            }
        }
    }

    /// A sharing group's newest bytes of a line, if they are newer than what is below.
    pub(crate) fn dirty_in(&self, number: usize, line: LineNumber) -> Option<&Line> {
        let l2 = &self.groups[number].l2;
        let slot = l2.find(line)?;
        if let Some((hart, above)) = self.modified_above(number, slot) {
            return Some(self.cores[hart].l1d.data(above));
        }
        (l2.word(slot).state() == State::Modified).then(|| l2.data(slot))
    }

    /// Checks what is always true within the sharing groups; for tests.
    pub(crate) fn audit_groups(&self) -> Result<(), String> {
        for (number, group) in self.groups.iter().enumerate() {
            for (slot, word) in group.l2.iter() {
                self.audit_above(group, slot).map_err(|wrong| {
                    format!("sharing group {number}, line {:#x}: {wrong}", word.line())
                })?;
            }
        }
        for (hart, core) in self.cores.iter().enumerate() {
            for (name, cache) in [("l1d", &core.l1d), ("l1i", &core.l1i)] {
                let l2 = &self.groups[core.group].l2;
                if let Some((_, word)) = cache
                    .iter()
                    .find(|(_, word)| l2.find(word.line()).is_none())
                {
                    let line = word.line();
                    return Err(format!("hart {hart}: line {line:#x} in {name}, not in l2"));
                }
            }
        }
        Ok(())
    }

    fn audit_above(&self, group: &SharingGroup, slot: Slot) -> Result<(), String> {
        let line = group.l2.word(slot).line();
        let mut exact = Directory::default();
        for hart in group.harts.clone() {
            let core = &self.cores[hart];
            let above = core.l1d.find(line);
            if above.is_some() || core.l1i.find(line).is_some() {
                exact.holders |= 1 << hart;
            }
            if group.is_shared() && core.reservation == Some(line) && above.is_none() {
                return Err(format!("hart {hart} reserves it and has lost it"));
            }
            let Some(above) = above else {
                continue;
            };
            let (above_word, below_word) = (core.l1d.word(above), group.l2.word(slot));
            let (state, below) = (above_word.state(), below_word.state());
            exact.exclusive |= state > State::Shared;
            if state > State::Shared && below <= State::Shared {
                return Err(format!(
                    "{state:?} in hart {hart}'s l1d over {below:?} in l2"
                ));
            }
            let alike = above_word.version() == below_word.version()
                && core.l1d.data(above) == group.l2.data(slot);
            if state != State::Modified && !alike {
                return Err(format!(
                    "hart {hart}'s unwritten copy differs from the l2's"
                ));
            }
        }
        if exact.exclusive && exact.holders.count_ones() != 1 {
            return Err(format!(
                "several hold it, one of them exclusively: {exact:?}"
            ));
        }
        match group.holders.get(slot.0 as usize) {
            Some(directory) if *directory != exact => {
                Err(format!("directory {directory:?} instead of {exact:?}"))
            }
            _ => Ok(()),
        }
    }
}
