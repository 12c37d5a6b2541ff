//! The L2s on a transaction's way: what an L1 asks of its L2, what the L2 asks of the shared cache, and
//! what leaves it.
//!
//! Always true here: an L2 gives an L1 no more rights than it has itself, and a line that it gives up is
//! in none of its L1s any more.

use crate::cache::{Slot, State, Word};
use crate::coherence::{Request, transition};
use crate::directories::Directories;
use crate::hierarchy::{Granted, Hardware};
use crate::line::{LineNumber, Version};
use crate::policy::Policy;
use crate::time::Cycles;
use crate::timeline::Part;

impl Hardware {
    /// The right to write a line that the hart's L1D holds shared. Returns the line's version and
    /// when.
    pub(super) fn upgrade_l1d<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) -> (Version, Cycles) {
        let l2 = &self.groups[self.cores[hart].group].l2;
        let slot = l2
            .find(line)
            .expect("inclusion: a line in an L1 is in its sharing group's L2");
        let word = l2.word(slot);
        let (version, ready) = if word.state() == State::Shared {
            self.upgrade(policy, hart, line, now)
        } else {
            // The sharing group has it: a sibling shares it.
            (word.version(), self.take_l2_port(hart, now))
        };
        let (_, ready) = self.ask_siblings(policy, hart, line, Request::Write, ready);
        (version, ready)
    }

    /// When a hart's L2 has answered.
    #[inline(always)]
    pub(super) fn take_l2_port(&self, hart: usize, now: Cycles) -> Cycles {
        let free = self.groups[self.cores[hart].group].port_free;
        now.max(free) + self.specification.l2.latency_cycles
    }

    /// A line as the L2 can give it to an L1, filling the L2 on a miss.
    pub(super) fn ask_l2<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        request: Request,
        now: Cycles,
    ) -> Granted {
        self.statistics.l2_accesses += 1;
        let ready = self.take_l2_port(hart, now);
        let number = self.cores[hart].group;
        let l2 = &mut self.groups[number].l2;
        let found = l2.find_or_victim(line);
        if let Ok(slot) = found {
            l2.touch(slot);
            self.groups[number].reached_by(request, slot);
            let l2 = &self.groups[number].l2;
            let mut ready = ready;
            if request == Request::Write && l2.word(slot).state() == State::Shared {
                (_, ready) = self.upgrade(policy, hart, line, ready);
            }
            let (most, ready) = self.ask_siblings(policy, hart, line, request, ready);
            let l2 = &self.groups[number].l2;
            let word = l2.word(slot);
            return Granted {
                slot,
                state: word.state().min(most),
                version: word.version(),
                ready,
            };
        }
        let (Ok(mut slot) | Err(mut slot)) = found;
        let changes = l2.changes();
        self.statistics.l2_misses += 1;
        self.prefetch_departure(number, slot);
        let mut granted = self.ask_llc(policy, hart, line, request, ready);
        if self.groups[number].l2.changes() != changes {
            slot = self.groups[number].l2.victim(line);
        }
        if self.groups[number].l2.occupied(slot) {
            let free = self.evict_l2(policy, number, slot, granted.ready);
            granted.ready = granted.ready.max(free);
        }
        let group = &mut self.groups[number];
        let word = Word::new(line, granted.state, false, granted.version);
        group.l2.set_word(slot, word);
        *group.l2.data_mut(slot) = match self.directories {
            Directories::InTags(_) => *self.llc.data(granted.slot),
            Directories::Apart(_) => self.came,
        };
        group.l2.touch(slot);
        group.came_for(hart, request, slot, granted.state);
        if let Some(below) = group.below.get_mut(slot.0 as usize) {
            *below = granted.slot;
        }
        granted.slot = slot;
        self.draw_miss(Part::Group(number), line, [now, granted.ready]);
        granted
    }

    /// Ownership of a line that the hart's sharing group holds shared. Returns the line's version and
    /// when.
    pub(super) fn upgrade<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) -> (Version, Cycles) {
        let granted = self.ask_llc(policy, hart, line, Request::Write, now);
        let l2 = &mut self.groups[self.cores[hart].group].l2;
        let slot = l2
            .find(line)
            .expect("inclusion: a line shared in a sharing group is in its L2");
        let word = l2
            .word(slot)
            .with_state(State::Exclusive)
            .with_version(granted.version);
        l2.set_word(slot, word);
        (granted.version, granted.ready)
    }

    /// A line leaves an L2, and with it the sharing group. Returns when the way is free.
    #[inline(always)]
    pub(super) fn evict_l2<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        group: usize,
        slot: Slot,
        now: Cycles,
    ) -> Cycles {
        if self.directories.apart().is_some() {
            return self.evict_l2_apart(policy, group, slot, now);
        }
        let shared = self.groups[group].below[slot.0 as usize];
        let surrendered = self.surrender((group, slot), shared, State::Invalid);
        if surrendered.is_some() {
            self.statistics.l2_write_backs += 1;
            let port_cycles = self.specification.llc.port_cycles;
            let line = self.llc.word(shared).line();
            self.take_llc_port(self.llc.set_of(line), now, port_cycles);
            self.draw_l2_write_back(group, line, now);
        }
        let change = transition(self.directory(shared), Request::Evict, group as u32);
        self.set_directory(shared, change.next);
        now
    }
}
