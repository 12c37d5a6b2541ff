//! Futexes: threads waiting for a word in memory to change.
//!
//! Always true: a thread that waits for words stands in the queue of each of them, once, and in no
//! other; a queue that nobody stands in is not there.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::address_space::Backing;
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, SpaceId, ThreadId};
use crate::process::ProcessId;
use crate::thread::{FutexKey, Thread, ThreadState, Wait};

/// The owner in a word that is a mutex, and the two flags beside it.
pub(crate) const FUTEX_TID: u32 = 0x3fff_ffff;
pub(crate) const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
pub(crate) const FUTEX_WAITERS: u32 = 0x8000_0000;

/// What of an operation says what is done.
pub(crate) const FUTEX_COMMAND: u64 = 0x7f;
pub(crate) const FUTEX_WAIT_REQUEUE_PI: u64 = 11;

impl Kernel {
    /// What identifies the futex at an address: the file behind a shared mapping, so that two
    /// mappings of one file meet, else the address.
    pub(crate) fn futex_key(&self, space: SpaceId, address: u64, private: bool) -> FutexKey {
        if !private
            && let Some((start, mapping)) = self.spaces[space].find(address)
            && let (true, Backing::File { inode, offset, .. }) = (mapping.shared, mapping.backing)
        {
            return FutexKey::File(inode, offset + (address - start));
        }
        FutexKey::Private(space, address)
    }

    /// The futexes that a thread stands at which waits so, each once.
    pub(crate) fn futex_keys(&self, id: ThreadId, wait: Wait) -> Vec<FutexKey> {
        match wait {
            Wait::Futex { key, .. } | Wait::FutexMove { key, .. } => vec![key],
            Wait::Futexes => {
                let list = self.rare.futex_lists.get(&id).into_iter().flatten();
                let distinct: BTreeSet<FutexKey> = list.copied().collect();
                distinct.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Takes a thread out of a futex's queue.
    pub(crate) fn leave_futex(&mut self, id: ThreadId, key: FutexKey) {
        if let Some(queue) = self.futexes.get_mut(&key) {
            queue.retain(|&waiter| waiter != id);
            if queue.is_empty() {
                self.futexes.remove(&key);
            }
        }
    }

    /// What a thread waits for, if it is blocked.
    fn wait_of(&self, id: ThreadId) -> Option<Wait> {
        match self.threads.get(&id)?.state {
            ThreadState::Blocked { wait, .. } => Some(wait),
            _ => None,
        }
    }

    /// Up to `count` of the threads at a futex that wait so, in the order in which they came.
    fn waiters(&self, key: FutexKey, count: u64, meets: impl Fn(Wait) -> bool) -> Vec<ThreadId> {
        let queue = self.futexes.get(&key).into_iter().flatten().copied();
        let found = queue.filter(|&id| self.wait_of(id).is_some_and(&meets));
        found.take(count as usize).collect()
    }

    /// Wakes up to `count` waiters whose bits meet `bitset`, first come first served.
    pub(crate) fn futex_wake(&mut self, key: FutexKey, count: u64, bitset: u32) -> u64 {
        let woken = self.waiters(key, count, |wait| match wait {
            Wait::Futex { bitset: bits, .. } => bits & bitset != 0,
            Wait::Futexes => true,
            _ => false,
        });
        for &id in &woken {
            // Who waits for several is told which one it was.
            let list = self.rare.futex_lists.get(&id);
            let place = list.and_then(|list| list.iter().position(|&one| one == key));
            self.unblock(id, Some(place.unwrap_or(0) as i64));
        }
        woken.len() as u64
    }

    /// Wakes one waiter of the word at an address, whatever it waits for.
    pub(crate) fn futex_wake_at(&mut self, space: SpaceId, address: u64) {
        let key = self.futex_key(space, address, false);
        self.futex_wake(key, 1, u32::MAX);
    }

    /// Moves up to `count` waiters to another futex without waking them.
    pub(crate) fn futex_move(&mut self, from: FutexKey, to: FutexKey, count: u64) -> u64 {
        let moved = self.waiters(from, count, |wait| {
            matches!(wait, Wait::Futex { bitset: 1.., .. } | Wait::Futexes)
        });
        for &id in &moved {
            self.leave_futex(id, from);
            if let Some(thread) = self.threads.get_mut(&id)
                && let ThreadState::Blocked {
                    wait: Wait::Futex { key, .. },
                    ..
                } = &mut thread.state
            {
                *key = to;
            }
            if let Some(list) = self.rare.futex_lists.get_mut(&id) {
                for key in list.iter_mut().filter(|key| **key == from) {
                    *key = to;
                }
            }
            let queue = self.futexes.entry(to).or_default();
            if !queue.contains(&id) {
                queue.push_back(id);
            }
        }
        moved.len() as u64
    }

    /// `FUTEX_CMP_REQUEUE_PI`: of those that wait to be moved to a word, the first one gets it if nobody
    /// has it, and up to `count` others wait for it from then on. Tells how many those are together.
    pub(crate) fn futex_move_to_word(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        from: FutexKey,
        (address, to): (u64, FutexKey),
        count: u64,
    ) -> Result<u64, Errno> {
        let word = self.futex_word(machine, space, address)?;
        let mut rest = self.waiters(from, u64::MAX, |_| true).into_iter();
        let Some(&first) = rest.as_slice().first() else {
            return Ok(0);
        };
        let owner = word & FUTEX_TID;
        if !self.waits_to_be_moved(first, to) {
            return Err(Errno::EINVAL);
        }
        if owner == first.0 & FUTEX_TID {
            return Err(Errno::EDEADLK);
        }
        let given = if owner == 0 { rest.next() } else { None };
        // The one that may be woken waits with the others if somebody has the word.
        let most = count as usize + usize::from(given.is_none());
        let known = owner == 0 || self.threads.contains_key(&ThreadId(owner));
        let mut result = if known { Ok(()) } else { Err(Errno::ESRCH) };
        let mut moved = Vec::new();
        for id in rest.take(if known { most } else { 0 }) {
            if !self.waits_to_be_moved(id, to) {
                result = Err(Errno::EINVAL);
            } else if owner != 0 && self.waits_for_word_of(machine, owner, id) {
                result = Err(Errno::EDEADLK);
            } else {
                moved.push(id);
                continue;
            }
            // Like Linux, those before it are moved all the same.
            break;
        }
        let owned = given.map_or(word, |id| id.0 & FUTEX_TID | word & !FUTEX_TID);
        let is_waited_for = given.is_none() || !moved.is_empty();
        let new = owned | if is_waited_for { FUTEX_WAITERS } else { 0 };
        if new != word {
            self.copy_out(machine, space, address, &new.to_le_bytes())?;
        }
        if let Some(id) = given {
            self.unblock(id, Some(0));
        }
        for &id in &moved {
            self.leave_futex(id, from);
            if let Some(thread) = self.threads.get_mut(&id)
                && let ThreadState::Blocked { wait, .. } = &mut thread.state
            {
                *wait = Wait::Futex { key: to, bitset: 0 };
            }
            self.futexes.entry(to).or_default().push_back(id);
        }
        result.map(|()| u64::from(given.is_some()) + moved.len() as u64)
    }

    fn waits_to_be_moved(&self, id: ThreadId, to: FutexKey) -> bool {
        matches!(self.wait_of(id), Some(Wait::FutexMove { target, .. }) if target == to)
    }

    pub(crate) fn futex_word(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
    ) -> Result<u32, Errno> {
        if !address.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        self.u32_in(machine, space, address)
    }
}

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
            let Ok(next) = next else { break };
            if !complete {
                return;
            }
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
        let key = self.futex_key(space, address, false);
        if is_pending && !hands_on && old == 0 {
            // It was let go, but nobody was told of it any more.
            self.futex_wake(key, 1, u32::MAX);
            return Ok(());
        }
        if old & FUTEX_TID != thread & FUTEX_TID {
            return Ok(());
        }
        let new = old & FUTEX_WAITERS | FUTEX_OWNER_DIED;
        self.copy_out(machine, space, address, &new.to_le_bytes())?;
        if !hands_on && old & FUTEX_WAITERS != 0 {
            self.futex_wake(key, 1, u32::MAX);
        }
        Ok(())
    }

    /// Gives a word to the first thread that waits to be given it; false if none does.
    pub(crate) fn hand_on(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
        key: FutexKey,
    ) -> Result<bool, Errno> {
        let to_be_given = |wait| matches!(wait, Wait::Futex { bitset: 0, .. });
        let waiting = self.waiters(key, 2, to_be_given);
        let (next, more) = (waiting.first().copied(), waiting.len() > 1);
        let Some(next) = next else {
            return Ok(false);
        };
        let waiters = if more { FUTEX_WAITERS } else { 0 };
        let word = next.0 & FUTEX_TID | waiters;
        self.copy_out(machine, space, address, &word.to_le_bytes())?;
        self.unblock(next, Some(0));
        Ok(true)
    }

    /// True if a thread waits to be given a word.
    pub(crate) fn somebody_is_to_be_given(&self) -> bool {
        let all = self.futexes.values().flatten();
        all.copied().any(|id| self.is_to_be_given(id))
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
        let first = |queue: &VecDeque<ThreadId>| {
            let mut queue = queue.iter().copied();
            queue.find(|&id| self.is_to_be_given(id))
        };
        let next: Vec<ThreadId> = self.futexes.values().filter_map(first).collect();
        for id in next {
            let Some((space, address)) = self.word_to_be_given(id) else {
                continue;
            };
            let word = self.futex_word(machine, space, address);
            if word.is_ok_and(|word| word & FUTEX_TID == owner & FUTEX_TID) {
                // Like Linux, which does not look whether more of them wait.
                let word = id.0 & FUTEX_TID | FUTEX_WAITERS | FUTEX_OWNER_DIED;
                let _ = self.copy_out(machine, space, address, &word.to_le_bytes());
                self.unblock(id, Some(0));
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
