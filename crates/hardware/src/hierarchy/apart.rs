//! The hierarchy with a last-level cache that is not inclusive: what happens between the L2s, the
//! shared cache and memory then.
//!
//! The shared cache is filled by lines that leave the L2s, dirty or clean, and by the newest bytes
//! of lines that come to be shared; a line that comes from memory goes past it. It replaces lines
//! without asking the L2s. So its tags cannot be the directory, which lies apart, as a full map.
//!
//! Always true between transactions, beside what the hierarchy says:
//! - A sharing group that holds a line Exclusive or Shared, and not Modified, holds the bytes that the
//!   shared cache has, or memory if that has none.
//! - If the policy keeps versions ([`Policy::keeps_versions`]): a sharing group holds at most two dirty
//!   versions of a line, the newer one in one of its L1Ds, the older one in the L2; and every copy,
//!   clean or dirty, carries the version of its bytes.

use crate::cache::{Slot, State, Word};
use crate::coherence::{Directory, Request, Snoop, transition};
use crate::directories::{Directories, FullMap};
use crate::hierarchy::siblings::GivenUp;
use crate::hierarchy::{Granted, Hardware};
use crate::line::{Line, LineNumber, Version};
use crate::persist::{Effect, Persist};
use crate::policy::{Policy, Reason};
use crate::sharing_group::members;
use crate::time::Cycles;
use crate::timeline::Part;
use crate::trace::Traced;

impl Hardware {
    fn map(&mut self) -> &mut FullMap {
        match &mut self.directories {
            Directories::Apart(map) => map,
            Directories::InTags(_) => unreachable!("only called where the directory lies apart"),
        }
    }

    /// [`Hardware::ask_llc`], after the port: the directory, then whoever has the bytes.
    pub(crate) fn ask_apart<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        request: Request,
        now: Cycles,
    ) -> Granted {
        let requester = self.cores[hart].group;
        let before = self.map().get(line);
        let change = transition(before, request, requester as u32);
        self.map().set(line, change.next);
        let mut granted = Granted {
            slot: Slot::default(),
            state: change.grant,
            version: Version::NONE,
            ready: now,
        };
        let (targets, after) = match change.snoop {
            Snoop::None | Snoop::Clean(_) => (0, State::Shared),
            Snoop::Invalidate(holders) => (holders, State::Invalid),
            Snoop::Downgrade(owner) => (1 << owner, State::Shared),
        };
        if targets != 0 {
            granted.ready += self.specification.llc.snoop_cycles;
        }
        let kept = |version| policy.departed_version(version);
        if let Some(given) = self.give_up_all(targets, line, after, kept) {
            granted.version = given.version;
            // Dirty only if it was the one owner, whom `targets` then is.
            let owner = targets.trailing_zeros() as usize;
            let reason = if after == State::Invalid {
                Reason::Invalidation
            } else {
                Reason::Downgrade
            };
            let older = given.older;
            granted.ready = self.depart(policy, owner, line, older, reason, granted.ready);
            let newest = given.dirty.then_some((self.came, given.version));
            if after == State::Invalid
                && given.dirty
                && policy.passes_dirty(requester, given.version)
            {
                self.statistics.dirty_transfers += 1;
                granted.state = State::Modified;
            } else if given.dirty {
                granted.ready = self.depart(policy, owner, line, newest, reason, granted.ready);
                let (bytes, version) = (self.came, given.version);
                let free = self.put_llc(policy, line, &bytes, version, true, granted.ready);
                granted.ready = granted.ready.max(free);
                granted.version = policy.departed_version(version);
            }
        } else if before.holders >> requester & 1 != 0 {
            // An upgrade: the bytes are there.
            (self.came, granted.version) = self.groups[requester].copy(line);
        } else if let Some(slot) = self.llc.find(line) {
            self.llc.touch(slot);
            self.came = *self.llc.data(slot);
            granted.version = self.llc.word(slot).version();
        } else if before.holders != 0 {
            let sharer = before.holders.trailing_zeros() as usize;
            self.statistics.snoops += 1;
            granted.ready += self.specification.llc.snoop_cycles;
            (self.came, granted.version) = self.groups[sharer].copy(line);
        } else {
            self.statistics.llc_misses += 1;
            (self.came, granted.ready) = self.fill(policy, line, now);
            granted.version = policy.memory_version(line);
            self.draw_miss(Part::LastLevel, line, [now, granted.ready]);
        }
        if let Some(trace) = &mut self.memory.trace {
            let group = requester;
            trace.push(Traced::Observed { group, line });
        }
        if policy.is_ahead(requester, granted.version, request == Request::Write) {
            self.cores[hart].ahead = Some(granted.version);
        }
        granted
    }

    /// Has sharing groups give a line up, whose bytes have come then. Returns what the last of them held.
    fn give_up_all(
        &mut self,
        groups: u64,
        line: LineNumber,
        after: State,
        kept: impl Fn(Version) -> Version,
    ) -> Option<GivenUp> {
        let mut given = None;
        for group in members(groups) {
            self.statistics.snoops += 1;
            if let Some(one) = self.give_up(group, line, after, &kept) {
                self.came = *self.groups[group].l2.data(one.slot);
                given = Some(one);
            }
        }
        given
    }

    /// Puts bytes that leave an L2 into the shared cache. Returns when its way was free.
    pub(super) fn put_llc<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        line: LineNumber,
        bytes: &Line,
        version: Version,
        dirty: bool,
        now: Cycles,
    ) -> Cycles {
        let set = self.llc.set_of(line);
        let start = self.take_llc_port(set, now, self.specification.llc.port_cycles);
        let mut free = now;
        let (slot, dirty) = match self.llc.find_or_victim(line) {
            Ok(slot) => (slot, dirty || self.llc.word(slot).dirty()),
            Err(slot) => {
                if self.llc.occupied(slot) && self.llc.word(slot).dirty() {
                    free = self.write_back_llc(policy, slot, start);
                }
                (slot, dirty)
            }
        };
        let known = policy.departed_version(version);
        let word = Word::new(line, State::Shared, dirty, known);
        self.llc.set_word(slot, word);
        *self.llc.data_mut(slot) = *bytes;
        self.llc.touch(slot);
        free
    }

    /// A line leaves an L2, and with it the sharing group. Returns when the way is free.
    pub(crate) fn evict_l2_apart<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        group: usize,
        slot: Slot,
        now: Cycles,
    ) -> Cycles {
        let line = self.groups[group].l2.word(slot).line();
        let given = self.give_up_at(group, slot, State::Invalid, |version| version);
        let bytes = *self.groups[group].l2.data(slot);
        let before = self.map().get(line);
        let change = transition(before, Request::Evict, group as u32);
        self.map().set(line, change.next);
        let mut free = self.depart(policy, group, line, given.older, Reason::Capacity, now);
        if given.dirty {
            self.statistics.l2_write_backs += 1;
            self.draw_l2_write_back(group, line, now);
            let newest = Some((bytes, given.version));
            free = self.depart(policy, group, line, newest, Reason::Capacity, free);
        }
        let placed = self.put_llc(policy, line, &bytes, given.version, given.dirty, now);
        free.max(placed)
    }

    /// [`Hardware::persist`], after the port.
    pub(crate) fn persist_apart<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        persist: &Persist,
        now: Cycles,
    ) -> Cycles {
        let line = persist.line;
        let before = self.map().get(line);
        let mut ready = now;
        let mut newest = None;
        if before.exclusive {
            let owner = before.holders.trailing_zeros() as usize;
            self.statistics.snoops += 1;
            ready += self.specification.llc.snoop_cycles;
            let kept = |version| policy.departed_version(version);
            let given = self.give_up(owner, line, State::Exclusive, kept);
            let given = given.expect("the directory is exact");
            let bytes = self.groups[owner].l2.data(given.slot);
            newest = given.dirty.then_some((*bytes, given.version));
            for version in [given.older, newest] {
                ready = self.depart(policy, owner, line, version, Reason::CacheBlock, ready);
            }
        }
        if let Some(slot) = self.llc.find(line) {
            let word = self.llc.word(slot);
            if let Some((bytes, version)) = newest {
                *self.llc.data_mut(slot) = bytes;
                let known = policy.departed_version(version);
                self.llc
                    .set_word(slot, word.with_dirty(false).with_version(known));
            } else if word.dirty() {
                newest = Some((*self.llc.data(slot), word.version()));
                self.llc.set_word(slot, word.with_dirty(false));
            }
        }
        ready = self.send_out(policy, persist, newest, ready);
        if persist.effect == Effect::Flush {
            for group in members(before.holders) {
                self.statistics.snoops += 1;
                self.give_up(group, line, State::Invalid, |version| version);
            }
            self.map().set(line, Directory::default());
            if let Some(slot) = self.llc.find(line) {
                self.llc.invalidate(slot);
            }
        }
        ready
    }
}
