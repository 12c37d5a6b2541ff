//! Words that have owners: what becomes of them when an owner ends, and who waits for whom.
//!
//! Always true: a word is given to one thread at a time, to the one that has waited longest. Which word
//! a thread waits for stands in its registers, its owner in the word.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::errno::Errno;
use crate::futex::{
    FUTEX_COMMAND, FUTEX_OWNER_DIED, FUTEX_TID, FUTEX_WAIT_REQUEUE_PI, FUTEX_WAITERS, Futex,
};
use crate::kernel::Kernel;
use crate::machine::{Machine, SpaceId, ThreadId};
use crate::process::ProcessId;
use crate::thread::{FutexKey, Thread, Wait};

/// A thread that is gone, and its list of robust mutexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Departed {
    process: ProcessId,
    thread: u32,
    list: u64,
}

impl Departed {
    pub fn of(thread: &Thread) -> Self {
        Self {
            process: thread.process,
            thread: thread.id.0,
            list: thread.robust_list,
        }
    }
}

/// Mutexes of one list that are looked at; it could be a circle.
const ROBUST_LIST_MAX: usize = 2048;
/// Bytes of `struct robust_list_head`.
pub(crate) const ROBUST_HEAD_BYTES: u64 = 24;

impl Kernel {
    /// Hands on the words that departed threads had, marks the robust mutexes that they held, and wakes
    /// who waits for them.
    pub(crate) fn leave_robust_lists(&mut self, machine: &mut dyn Machine) {
        while self.exit.is_none() && !self.rare.departed.is_empty() {
            let gone = self.rare.departed.remove(0);
            self.hand_on_words_of(machine, gone.thread);
            if gone.list != 0
                && let Some(process) = self.processes.get(gone.process)
            {
                let space = process.space;
                self.leave_robust_list(machine, space, gone.thread, gone.list);
            }
        }
    }

    /// The same for one thread. Like Linux, a list that is not right is left where it goes wrong.
    pub(crate) fn leave_robust_list(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        thread: u32,
        head: u64,
    ) {
        let mut word = |kernel: &mut Self, at: u64| kernel.u64_in(machine, space, at);
        let words = [0, 8, 16].map(|offset| word(self, head.wrapping_add(offset)));
        let [Ok(first), Ok(offset), Ok(pending)] = words else {
            return;
        };
        // The lowest bit says that a mutex hands its word on.
        let split = |entry: u64| (entry & !1, entry & 1 != 0);
        let (mut at, mut hands_on) = split(first);
        let mut complete = true;
        for _ in 0..ROBUST_LIST_MAX {
            if at == head {
                break;
            }
            let next = self.u64_in(machine, space, at);
            if at != pending & !1 {
                let futex = at.wrapping_add(offset);
                let left = self.leave_mutex(machine, space, futex, thread, hands_on, false);
                complete &= left.is_ok();
            }
            let (Ok(next), true) = (next, complete) else {
                return;
            };
            (at, hands_on) = split(next);
        }
        if pending & !1 != 0 {
            let (at, hands_on) = split(pending);
            let futex = at.wrapping_add(offset);
            let _ = self.leave_mutex(machine, space, futex, thread, hands_on, true);
        }
    }

    /// Marks a mutex whose owner is gone.
    fn leave_mutex(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
        thread: u32,
        hands_on: bool,
        is_pending: bool,
    ) -> Result<(), Errno> {
        let old = self.futex_word(machine, space, address)?;
        if is_pending && !hands_on && old & FUTEX_TID == 0 {
            // It was let go, but nobody was told of it any more.
            self.futex_wake_at(space, address);
            return Ok(());
        }
        if old & FUTEX_TID != thread & FUTEX_TID {
            return Ok(());
        }
        let new = old & FUTEX_WAITERS | FUTEX_OWNER_DIED;
        self.copy_out(machine, space, address, &new.to_le_bytes())?;
        if !hands_on && old & FUTEX_WAITERS != 0 {
            self.futex_wake_at(space, address);
        }
        Ok(())
    }

    /// Gives a word to the first thread that waits to be given it; false if none does.
    pub(crate) fn hand_on(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
        futex: Futex,
    ) -> Result<bool, Errno> {
        let standing = self.standing(futex).map(|(id, _)| id);
        let to_be_given = standing.filter(|&id| self.is_to_be_given(id));
        let waiting: Vec<ThreadId> = to_be_given.take(2).collect();
        let Some(&next) = waiting.first() else {
            return Ok(false);
        };
        let waiters = if waiting.len() > 1 { FUTEX_WAITERS } else { 0 };
        let word = next.0 & FUTEX_TID | waiters;
        self.copy_out(machine, space, address, &word.to_le_bytes())?;
        self.unblock(next, Some(0));
        self.word_is_of(futex.key, next.0);
        Ok(true)
    }

    /// True if a thread waits to be given a word that this one may have.
    pub(crate) fn may_have_words(&self, owner: u32) -> bool {
        let all = self.futexes.values().flatten();
        all.copied()
            .any(|id| self.is_to_be_given(id) && self.may_wait_for(id, owner))
    }

    /// False if the word that a thread waits for is known to be somebody else's.
    fn may_wait_for(&self, id: ThreadId, owner: u32) -> bool {
        let known = self.threads.get(&id).and_then(|thread| thread.word_owner);
        known.is_none_or(|known| known == owner & FUTEX_TID)
    }

    /// Those who stand at a futex wait for a word that this thread has from now on.
    pub(crate) fn word_is_of(&mut self, key: FutexKey, owner: u32) {
        for id in self.futexes.get(&key).into_iter().flatten() {
            if let Some(thread) = self.threads.get_mut(id) {
                thread.word_owner = Some(owner & FUTEX_TID);
            }
        }
    }

    fn is_to_be_given(&self, id: ThreadId) -> bool {
        matches!(self.wait_of(id), Some(Wait::Futex { bitset: 0, .. }))
    }

    /// The word that a thread waits to be given, as it sees it: its registers are still those of the call.
    fn word_to_be_given(&self, id: ThreadId) -> Option<(SpaceId, u64)> {
        let thread = self.threads.get(&id).filter(|_| self.is_to_be_given(id))?;
        let [first, operation, _, _, second] = [10, 11, 12, 13, 14].map(|at| thread.context.x[at]);
        let was_moved = operation & FUTEX_COMMAND == FUTEX_WAIT_REQUEUE_PI;
        let space = self.processes.get(thread.process)?.space;
        Some((space, if was_moved { second } else { first }))
    }

    /// A thread is gone, or its memory: whatever word it had goes to the first one of those who wait to
    /// be given it, whether or not it stood in a list.
    pub(crate) fn hand_on_words_of(&mut self, machine: &mut dyn Machine, owner: u32) {
        let first = |&key: &FutexKey| {
            [true, false].map(|private| {
                let mut standing = self.standing(Futex { key, private });
                let first = standing.find(|&(id, _)| self.is_to_be_given(id));
                first.map(|(id, _)| id)
            })
        };
        let next: BTreeSet<ThreadId> = self.futexes.keys().flat_map(first).flatten().collect();
        for id in next {
            let (Some((space, address)), true) =
                (self.word_to_be_given(id), self.may_wait_for(id, owner))
            else {
                continue;
            };
            let word = self.futex_word(machine, space, address);
            if word.is_ok_and(|word| word & FUTEX_TID == owner & FUTEX_TID) {
                // Like Linux, which does not look whether more of them wait.
                let word = id.0 & FUTEX_TID | FUTEX_WAITERS | FUTEX_OWNER_DIED;
                let _ = self.copy_out(machine, space, address, &word.to_le_bytes());
                let wait = self.wait_of(id);
                self.unblock(id, Some(0));
                if let Some(Wait::Futex { key, .. }) = wait {
                    self.word_is_of(key, id.0);
                }
            }
        }
    }

    /// True if the owner of a word waits for one that a thread has, or for one whose owner does so, and
    /// so on: the thread would wait for itself. Like Linux, a chain that is too long is taken for a ring.
    pub(crate) fn waits_for_word_of(
        &mut self,
        machine: &mut dyn Machine,
        owner: u32,
        thread: ThreadId,
    ) -> bool {
        const CHAIN_MAX: usize = 1024;
        let mut owner = owner & FUTEX_TID;
        for _ in 0..CHAIN_MAX {
            if owner == thread.0 & FUTEX_TID {
                return true;
            }
            let Some((space, address)) = self.word_to_be_given(ThreadId(owner)) else {
                return false;
            };
            let Ok(word) = self.futex_word(machine, space, address) else {
                return false;
            };
            owner = word & FUTEX_TID;
        }
        true
    }
}
