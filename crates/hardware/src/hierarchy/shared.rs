//! The shared cache on a transaction's way: its ports, and what happens in it if it is inclusive and its
//! tags are the directory. What happens if it is not stands in `apart.rs`.
//!
//! Always true here: whatever leaves an inclusive shared cache has left every private one, and its bytes
//! are the newest by then.

use crate::cache::{Slot, State, Word};
use crate::coherence::{Directory, Request, Snoop, transition};
use crate::hierarchy::{Granted, Hardware};
use crate::line::{LineNumber, Version};
use crate::policy::{Cause, Eviction, Policy, Transfer};
use crate::sharing_group::members;
use crate::time::Cycles;
use crate::timeline::Part;

impl Hardware {
    /// Takes the port of the slice that holds a set; returns when it was free.
    #[inline(always)]
    pub fn take_llc_port(&mut self, set: usize, now: Cycles, cycles: Cycles) -> Cycles {
        let slice = self.llc.slice_of(set);
        let start = now.max(self.ports[slice].reserve(now, cycles) - cycles);
        self.statistics.llc_port_wait_cycles += start - now;
        start
    }

    #[inline(always)]
    pub(super) fn ask_llc<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        request: Request,
        now: Cycles,
    ) -> Granted {
        self.statistics.llc_accesses += 1;
        let port_cycles = self.specification.llc.port_cycles;
        let start = self.take_llc_port(self.llc.set_of(line), now, port_cycles);
        let mut ready = start + self.specification.llc.latency_cycles;
        if self.directories.apart().is_some() {
            return self.ask_apart(policy, hart, line, request, ready);
        }
        let slot = match self.llc.find_or_victim(line) {
            Ok(slot) => slot,
            Err(slot) => {
                ready = self.fill_llc(policy, line, slot, ready);
                slot
            }
        };
        self.llc.touch(slot);
        let group = self.cores[hart].group;
        let change = transition(self.directory(slot), request, group as u32);
        ready = self.snoop(policy, slot, change.snoop, Some(group), ready);
        self.set_directory(slot, change.next);
        Granted {
            slot,
            state: change.grant,
            version: self.llc.word(slot).version(),
            ready,
        }
    }

    /// Brings a line from outside to a slot. Returns when it is there.
    #[inline(always)]
    fn fill_llc<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        line: LineNumber,
        slot: Slot,
        now: Cycles,
    ) -> Cycles {
        self.statistics.llc_misses += 1;
        self.prefetch_replacement(slot);
        // The read goes out first; the victim leaves through a buffer behind it.
        let (bytes, arrived) = self.fill(policy, line, now);
        let mut ready = arrived;
        if self.llc.occupied(slot) {
            ready = ready.max(self.evict_llc(policy, slot, now));
        }
        self.llc
            .set_word(slot, Word::new(line, State::Shared, false, Version::NONE));
        *self.llc.data_mut(slot) = bytes;
        self.directories.set_holders(slot, 0);
        self.draw_miss(Part::LastLevel, line, [now, ready]);
        ready
    }

    #[inline(always)]
    pub(super) fn evict_llc<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        slot: Slot,
        now: Cycles,
    ) -> Cycles {
        let mut now = now;
        if self.directories.holders(slot) != 0 {
            let recall = transition(self.directory(slot), Request::Recall, 0);
            now = self.snoop(policy, slot, recall.snoop, None, now);
            self.directories.set_holders(slot, 0);
        }
        let free = if self.llc.word(slot).dirty() {
            self.write_back_llc(policy, slot, now)
        } else {
            now
        };
        self.llc.invalidate(slot);
        free
    }

    /// Sends a dirty line to memory that is replaced in the shared cache. Returns when its way is free.
    pub(super) fn write_back_llc<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        slot: Slot,
        now: Cycles,
    ) -> Cycles {
        self.statistics.llc_write_backs += 1;
        let word = self.llc.word(slot);
        let eviction = Eviction {
            line: word.line(),
            bytes: *self.llc.data(slot),
            version: word.version(),
            cause: Cause::Replacement,
        };
        self.evict(policy, &eviction, now).accepted
    }

    pub(crate) fn directory(&self, slot: Slot) -> Directory {
        Directory {
            holders: self.directories.holders(slot),
            exclusive: self.llc.word(slot).state() == State::Exclusive,
        }
    }

    pub(super) fn set_directory(&mut self, slot: Slot, directory: Directory) {
        self.directories.set_holders(slot, directory.holders);
        let state = if directory.exclusive {
            State::Exclusive
        } else {
            State::Shared
        };
        self.llc
            .set_word(slot, self.llc.word(slot).with_state(state));
    }

    /// Carries a snoop out: private copies change state, the newest bytes come to the shared cache.
    #[inline(always)]
    pub(crate) fn snoop<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        slot: Slot,
        snoop: Snoop,
        requester: Option<usize>,
        now: Cycles,
    ) -> Cycles {
        let asked = match snoop {
            Snoop::None => return now,
            Snoop::Invalidate(holders) => (holders, State::Invalid),
            Snoop::Downgrade(owner) => (1 << owner, State::Shared),
            Snoop::Clean(owner) => (1 << owner, State::Exclusive),
        };
        self.snoop_groups(policy, slot, asked, requester, now)
    }

    fn snoop_groups<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        slot: Slot,
        (targets, after): (u64, State),
        requester: Option<usize>,
        now: Cycles,
    ) -> Cycles {
        let mut ready = now + self.specification.llc.snoop_cycles;
        let line = self.llc.word(slot).line();
        for group in members(targets) {
            self.statistics.snoops += 1;
            let below = self.groups[group].slot_of(line);
            if let Some(version) = self.surrender((group, below), slot, after) {
                let transfer = Transfer {
                    from: group,
                    to: requester,
                    line,
                    version,
                };
                ready = self.asking("transfer", ready, |hardware| {
                    policy.transfer(hardware, &transfer, ready)
                });
            }
        }
        ready
    }

    /// What a sharing group has, in a slot of its L2, newer than the shared cache: changes its copies to
    /// `after` (Invalid, Shared, or Exclusive and clean) and puts bytes and version into the shared cache's
    /// slot of the line if they were modified there. Returns that version.
    #[inline(always)]
    pub(super) fn surrender(
        &mut self,
        (group, slot): (usize, Slot),
        shared: Slot,
        after: State,
    ) -> Option<Version> {
        let given = self.give_up_at(group, slot, after, |_| Version::NONE);
        if !given.dirty {
            return None;
        }
        *self.llc.data_mut(shared) = *self.groups[group].l2.data(slot);
        let word = self.llc.word(shared).with_dirty(true);
        self.llc.set_word(shared, word.with_version(given.version));
        Some(given.version)
    }
}
