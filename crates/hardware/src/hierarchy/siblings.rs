//! Between an L2 and the L1s of its harts: what a line's other copies in a sharing group give up.
//!
//! Always true here: what a sharing group hands over is its newest bytes, wherever in it they were, and
//! with them an older dirty version, if it has one.

use crate::cache::{Slot, State};
use crate::coherence::{Directory, Request, Snoop, transition};
use crate::hierarchy::{Core, Hardware, Older};
use crate::line::{LineNumber, Version};
use crate::policy::{Policy, Reason};
use crate::sharing_group::{SharingGroup, members};
use crate::time::Cycles;

/// What a sharing group gave up of a line, whose newest bytes there its L2 has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenUp {
    /// Where, until another line takes the place.
    pub slot: Slot,
    /// The version of these bytes.
    pub version: Version,
    /// They were dirty.
    pub dirty: bool,
    /// An older dirty version.
    pub older: Older,
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
        let word = group.l2.word(slot);
        let owned = word.state() > State::Shared;
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
                core.drop_line(word, above);
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
        let below = self.groups[number].l2.find(line)?;
        Some(self.give_up_at(number, below, after, kept))
    }

    /// The same for the line of an L2 slot.
    #[inline(always)]
    pub(crate) fn give_up_at(
        &mut self,
        number: usize,
        below: Slot,
        after: State,
        kept: impl Fn(Version) -> Version,
    ) -> GivenUp {
        let group = &mut self.groups[number];
        let word = group.l2.word(below);
        let mut given = GivenUp {
            slot: below,
            version: word.version(),
            dirty: word.state() == State::Modified,
            older: None,
        };
        for hart in members(group.may_hold(below)) {
            let core = &mut self.cores[hart];
            let in_l1d = core.find_above(word);
            if let Some(slot) = in_l1d {
                let above = core.l1d.word(slot);
                if above.state() == State::Modified {
                    if given.dirty && given.version != above.version() {
                        given.older = Some((*group.l2.data(below), given.version));
                    }
                    given.version = above.version();
                    given.dirty = true;
                    *group.l2.data_mut(below) = *core.l1d.data(slot);
                }
            }
            if after == State::Invalid {
                core.drop_line(word, in_l1d);
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
        given
    }

    /// The hart of a sharing group that has the line of an L2 slot Modified in its L1D, and where.
    pub fn modified_above(&self, number: usize, slot: Slot) -> Option<(usize, Slot)> {
        let group = &self.groups[number];
        let hart = group.may_have_modified(slot)?;
        let core = &self.cores[hart];
        let above = core.find_above(group.l2.word(slot))?;
        (core.l1d.word(above).state() == State::Modified).then_some((hart, above))
    }

    /// Gives the L1D copies of the line of an L2 slot another version.
    pub(crate) fn set_version_above(&mut self, number: usize, slot: Slot, version: Version) {
        let group = &self.groups[number];
        for hart in members(group.may_hold(slot)) {
            let core = &mut self.cores[hart];
            if let Some(above) = core.find_above(group.l2.word(slot)) {
                let l1d = &mut core.l1d;
                l1d.set_word(above, l1d.word(above).with_version(version));
            }
        }
    }
}
