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
use crate::coherence::{Directory, Request};
use crate::hierarchy::{Core, Older};
use crate::line::{Line, LineNumber, Version};
use crate::specification::{Inclusion, Specification};
use crate::time::Cycles;

/// An L2 with its directory. All of it is lost at power-off.
#[derive(Clone, Debug)]
pub struct SharingGroup {
    /// The second level, inclusive of the L1s of its harts.
    pub l2: Cache,
    /// The harts that share it.
    pub harts: Range<usize>,
    /// By slot of the L2, which harts hold the line. Empty if one hart has the L2 to itself.
    pub(crate) holders: Vec<Directory>,
    /// By slot of the L2, where the shared cache has the same line. Empty if that is not inclusive.
    pub(crate) below: Box<[Slot]>,
    /// When a walk over the tags lets go of the L2's port.
    pub(crate) port_free: Cycles,
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
        let inclusive = specification.llc.inclusion == Inclusion::Inclusive;
        (0..harts)
            .step_by(l2.harts)
            .map(|first| {
                let cache = Cache::new(l2.bytes, l2.ways, 1);
                let harts = first..harts.min(first + l2.harts);
                let slots = cache.sets() * cache.ways();
                let slots_if = |needed| if needed { slots } else { 0 };
                Self {
                    l2: cache,
                    holders: vec![Directory::default(); slots_if(harts.len() > 1)],
                    below: vec![Slot::default(); slots_if(inclusive)].into(),
                    harts,
                    port_free: 0,
                }
            })
            .collect()
    }

    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The harts whose L1s may hold the line of a slot, one bit each.
    #[inline(always)]
    pub(crate) fn may_hold(&self, slot: Slot) -> u64 {
        match self.holders.get(slot.0 as usize) {
            Some(directory) => directory.holders,
            None => 1 << self.harts.start,
        }
    }

    /// The only hart that may have the line of a slot Modified in its L1D.
    #[inline(always)]
    pub(crate) fn may_have_modified(&self, slot: Slot) -> Option<usize> {
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
    pub(crate) fn came_for(&mut self, hart: usize, request: Request, slot: Slot, state: State) {
        if let Some(directory) = self.holders.get_mut(slot.0 as usize) {
            *directory = Directory {
                holders: 1 << hart,
                exclusive: state > State::Shared,
            };
            // Which L1s of several harts have it is not kept.
            let word = self.l2.word(slot).with_l1d().with_l1i();
            self.l2.set_word(slot, word);
        } else {
            self.reached_by(request, slot);
        }
    }

    /// Notes which L1 has asked for a line.
    #[inline(always)]
    pub(crate) fn reached_by(&mut self, request: Request, slot: Slot) {
        let word = self.l2.word(slot);
        let word = match request {
            Request::Fetch => word.with_l1i(),
            _ => word.with_l1d(),
        };
        self.l2.set_word(slot, word);
    }

    pub(crate) fn slot_of(&self, line: LineNumber) -> Slot {
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
    fn take_down(&mut self, below: Slot, word: Word, bytes: &Line, keeps_versions: bool) -> Older {
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
        let below = self.below[slot.0 as usize];
        group.take_down(
            below,
            self.l1d.word(slot),
            self.l1d.data(slot),
            keeps_versions,
        )
    }

    /// Where the L1D has the line of an L2's word.
    #[inline(always)]
    pub(crate) fn find_above(&self, below: Word) -> Option<Slot> {
        if !below.may_be_in_l1d() {
            return None;
        }
        self.l1d.find(below.line())
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
        let below = self.below[slot.0 as usize];
        if group.is_shared() {
            self.lost(group, below, word.line());
        } else {
            let alone = group.l2.word(below).without_l1d();
            group.l2.set_word(below, alone);
        }
        older
    }

    /// Frees an L1I slot.
    pub(crate) fn evict_l1i(&mut self, group: &mut SharingGroup, slot: Slot) {
        if self.l1i.occupied(slot) {
            let line = self.l1i.word(slot).line();
            self.l1i.invalidate(slot);
            if group.is_shared() {
                self.lost(group, group.slot_of(line), line);
            }
        }
    }

    /// One of the L1s has lost a line: the L2 is told.
    fn lost(&mut self, group: &mut SharingGroup, slot: Slot, line: LineNumber) {
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

    /// Drops what the L1s hold of the line of an L2's word, the L1D in that slot.
    #[inline(always)]
    pub(crate) fn drop_line(&mut self, below: Word, in_l1d: Option<Slot>) {
        let line = below.line();
        if let Some(slot) = in_l1d {
            self.lookaside.kill(slot);
            self.l1d.invalidate(slot);
        }
        if below.may_be_in_l1i()
            && let Some(slot) = self.l1i.find(line)
        {
            self.l1i.invalidate(slot);
        }
        if self.reservation == Some(line) {
            self.reservation = None;
        }
    }

    /// Lowers the state of an L1D copy, whose version becomes what `kept` makes of it.
    #[inline(always)]
    pub(crate) fn lower(&mut self, slot: Slot, to: State, kept: impl Fn(Version) -> Version) {
        let word = self.l1d.word(slot);
        self.lookaside.revoke_write(slot);
        let lowered = word
            .with_state(word.state().min(to))
            .with_version(kept(word.version()));
        self.l1d.set_word(slot, lowered);
    }
}
