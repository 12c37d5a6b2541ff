//! Futexes: threads waiting for a word in memory to change.
//!
//! Always true: a thread that waits for words stands in the queue of each of them, once, and in no
//! other; a queue that nobody stands in is not there.

use std::collections::BTreeSet;

use crate::address_space::Backing;
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, SpaceId, ThreadId};
use crate::page_table::{READ, WRITE};
use crate::thread::{FutexKey, ThreadState, Wait};

/// The owner in a word that is a mutex, and the two flags beside it.
pub(crate) const FUTEX_TID: u32 = 0x3fff_ffff;
pub(crate) const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
pub(crate) const FUTEX_WAITERS: u32 = 0x8000_0000;

/// What of an operation says what is done.
pub(crate) const FUTEX_COMMAND: u64 = 0x7f;
pub(crate) const FUTEX_PRIVATE: u64 = 128;
pub(crate) const FUTEX_WAIT_REQUEUE_PI: u64 = 11;

/// A futex as a call names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Futex {
    pub key: FutexKey,
    /// Who waits at a private one does not meet who names the same word without saying so.
    pub private: bool,
}

impl Futex {
    /// As it stands in the list of a thread that waits for several: the addresses of words are multiples
    /// of four, and odd there if they are private.
    pub fn listed(self) -> FutexKey {
        match self.key {
            FutexKey::Private(space, at) if self.private => FutexKey::Private(space, at | 1),
            key => key,
        }
    }
}

/// The queue of a futex in a list.
fn queue_of(listed: FutexKey) -> FutexKey {
    match listed {
        FutexKey::Private(space, at) => FutexKey::Private(space, at & !1),
        key @ FutexKey::File(..) => key,
    }
}

impl Kernel {
    /// The futex at an address: the file behind a shared mapping, so that two mappings of one file
    /// meet, else the address.
    pub(crate) fn futex(
        &self,
        space: SpaceId,
        address: u64,
        private: bool,
    ) -> Result<Futex, Errno> {
        if !address.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        let mut key = FutexKey::Private(space, address);
        if !private {
            let found = self.spaces[space].find(address);
            let readable = found.filter(|(_, mapping)| mapping.permissions & (READ | WRITE) != 0);
            let (start, mapping) = readable.ok_or(Errno::EFAULT)?;
            if let (true, Backing::File { inode, offset, .. }) = (mapping.shared, mapping.backing) {
                key = FutexKey::File(inode, offset + (address - start));
            }
        }
        Ok(Futex { key, private })
    }

    /// The futexes that a thread stands at which waits so, each once.
    pub(crate) fn futex_keys(&self, id: ThreadId, wait: Wait) -> Vec<FutexKey> {
        match wait {
            Wait::Futex { key, .. } | Wait::FutexMove { key, .. } => vec![key],
            Wait::Futexes => {
                let list = self.rare.futex_lists.get(&id).into_iter().flatten();
                let distinct: BTreeSet<FutexKey> = list.copied().map(queue_of).collect();
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
    pub(crate) fn wait_of(&self, id: ThreadId) -> Option<Wait> {
        match self.threads.get(&id)?.state {
            ThreadState::Blocked { wait, .. } => Some(wait),
            _ => None,
        }
    }

    /// The threads that stand at a futex, in the order in which they came, and how each waits.
    pub(crate) fn standing(&self, futex: Futex) -> impl Iterator<Item = (ThreadId, Wait)> {
        let queue = self.futexes.get(&futex.key).into_iter().flatten();
        queue.filter_map(move |&id| {
            let wait = self.wait_of(id)?;
            let meets = match (futex.key, wait) {
                (FutexKey::File(..), _) => true,
                (_, Wait::Futexes) => {
                    let list = self.rare.futex_lists.get(&id);
                    list.is_some_and(|list| list.contains(&futex.listed()))
                }
                // Its registers are still those of the call.
                _ => {
                    let thread = self.threads.get(&id)?;
                    (thread.context.x[11] & FUTEX_PRIVATE != 0) == futex.private
                }
            };
            meets.then_some((id, wait))
        })
    }

    /// True if the first thread at a futex waits for something else than to be given the word.
    pub(crate) fn is_only_waited_for(&self, futex: Futex) -> bool {
        let first = self.standing(futex).next();
        first.is_some_and(|(_, wait)| !matches!(wait, Wait::Futex { bitset: 0, .. }))
    }

    /// Wakes up to `count` waiters whose bits meet `bitset`, first come first served; like Linux, one if
    /// that is none. Where somebody waits to be given the word, EINVAL, and those before it are woken.
    pub(crate) fn futex_wake(
        &mut self,
        futex: Futex,
        count: i32,
        bitset: u32,
    ) -> Result<u64, Errno> {
        let most = count.max(1) as usize;
        let (mut woken, mut is_owned) = (Vec::new(), false);
        for (id, wait) in self.standing(futex) {
            match wait {
                Wait::Futex { bitset: 0, .. } | Wait::FutexMove { .. } => is_owned = true,
                Wait::Futex { bitset: bits, .. } if bits & bitset == 0 => continue,
                _ => woken.push(id),
            }
            if is_owned || woken.len() == most {
                break;
            }
        }
        for &id in &woken {
            self.wake_from(id, futex);
        }
        if is_owned {
            return Err(Errno::EINVAL);
        }
        Ok(woken.len() as u64)
    }

    fn wake_from(&mut self, id: ThreadId, futex: Futex) {
        // Who waits for several is told which one it was.
        let list = self.rare.futex_lists.get(&id);
        let place = list.and_then(|list| list.iter().position(|&one| one == futex.listed()));
        self.unblock(id, Some(place.unwrap_or(0) as i64));
    }

    /// Wakes one waiter of the word at an address.
    pub(crate) fn futex_wake_at(&mut self, space: SpaceId, address: u64) {
        if let Ok(futex) = self.futex(space, address, false) {
            let _ = self.futex_wake(futex, 1, u32::MAX);
        }
    }

    /// Wakes up to so many waiters, and moves up to so many of the next ones to another futex without
    /// waking them; how many both are. EINVAL as in [`Self::futex_wake`].
    pub(crate) fn futex_requeue(
        &mut self,
        from: Futex,
        to: Futex,
        [woken, moved]: [usize; 2],
    ) -> Result<u64, Errno> {
        let (mut found, mut is_owned) = (Vec::new(), false);
        for (id, wait) in self.standing(from) {
            if found.len() == woken + moved {
                break;
            }
            if matches!(wait, Wait::Futex { bitset: 0, .. } | Wait::FutexMove { .. }) {
                is_owned = true;
                break;
            }
            found.push(id);
        }
        for (place, &id) in found.iter().enumerate() {
            if place < woken {
                self.wake_from(id, from);
            } else {
                self.futex_move(id, from, to);
            }
        }
        if is_owned {
            return Err(Errno::EINVAL);
        }
        Ok(found.len() as u64)
    }

    fn futex_move(&mut self, id: ThreadId, from: Futex, to: Futex) {
        if let Some(list) = self.rare.futex_lists.get_mut(&id) {
            for key in list.iter_mut().filter(|key| **key == from.listed()) {
                *key = to.listed();
            }
        }
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        let ThreadState::Blocked { wait, .. } = &mut thread.state else {
            return;
        };
        if let Wait::Futex { key, .. } = wait {
            *key = to.key;
        }
        let wait = *wait;
        if !self.futex_keys(id, wait).contains(&from.key) {
            self.leave_futex(id, from.key);
        }
        let queue = self.futexes.entry(to.key).or_default();
        if !queue.contains(&id) {
            queue.push_back(id);
        }
    }

    /// `FUTEX_CMP_REQUEUE_PI`: of those that wait to be moved to a word, the first one gets it if nobody
    /// has it, and up to `count` others wait for it from then on. Tells how many those are together.
    pub(crate) fn futex_move_to_word(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        from: Futex,
        (address, to): (u64, Futex),
        count: usize,
    ) -> Result<u64, Errno> {
        let word = self.futex_word(machine, space, address)?;
        let all: Vec<ThreadId> = self.standing(from).map(|(id, _)| id).collect();
        let mut rest = all.into_iter();
        let Some(&first) = rest.as_slice().first() else {
            return Ok(0);
        };
        let owner = word & FUTEX_TID;
        if !self.waits_to_be_moved(first, to.key) || self.is_only_waited_for(to) {
            return Err(Errno::EINVAL);
        }
        if owner == first.0 & FUTEX_TID {
            return Err(Errno::EDEADLK);
        }
        let given = if owner == 0 { rest.next() } else { None };
        // The one that may be woken waits with the others if somebody has the word.
        let most = count + usize::from(given.is_none());
        let known = owner == 0 || self.threads.contains_key(&ThreadId(owner));
        let mut result = if known { Ok(()) } else { Err(Errno::ESRCH) };
        let mut moved = Vec::new();
        for id in rest.take(if known { most } else { 0 }) {
            if !self.waits_to_be_moved(id, to.key) {
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
            self.leave_futex(id, from.key);
            if let Some(thread) = self.threads.get_mut(&id)
                && let ThreadState::Blocked { wait, .. } = &mut thread.state
            {
                *wait = Wait::Futex {
                    key: to.key,
                    bitset: 0,
                };
            }
            self.futexes.entry(to.key).or_default().push_back(id);
        }
        self.word_is_of(to.key, owned & FUTEX_TID);
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
