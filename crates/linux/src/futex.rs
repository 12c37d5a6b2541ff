//! Futexes: threads waiting for a word in memory to change.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::address_space::Backing;
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, SpaceId, ThreadId};
use crate::process::ProcessId;
use crate::refusals::Refusal;
use crate::syscalls::{Answer, Call, Stop};
use crate::thread::{FutexKey, Thread, ThreadState, Wait};

const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const FUTEX_REQUEUE: u64 = 3;
const FUTEX_CMP_REQUEUE: u64 = 4;
const FUTEX_WAKE_OP: u64 = 5;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_UNLOCK_PI: u64 = 7;
const FUTEX_TRYLOCK_PI: u64 = 8;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAKE_BITSET: u64 = 10;
const FUTEX_WAIT_REQUEUE_PI: u64 = 11;
const FUTEX_CMP_REQUEUE_PI: u64 = 12;
const FUTEX_LOCK_PI2: u64 = 13;
const FUTEX_PRIVATE: u64 = 128;
const FUTEX_CLOCK_REALTIME: u64 = 256;

/// The owner in a word that is a mutex, and the two flags beside it.
const FUTEX_TID: u32 = 0x3fff_ffff;
const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
const FUTEX_WAITERS: u32 = 0x8000_0000;

impl Kernel {
    /// What identifies the futex at an address: the file behind a shared mapping, so that two
    /// mappings of one file meet, else the address.
    fn futex_key(&self, space: SpaceId, address: u64, private: bool) -> FutexKey {
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
    fn futex_wake(&mut self, key: FutexKey, count: u64, bitset: u32) -> u64 {
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
    fn futex_move(&mut self, from: FutexKey, to: FutexKey, count: u64) -> u64 {
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
    fn futex_move_to_word(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        from: FutexKey,
        (address, to): (u64, FutexKey),
        count: u64,
    ) -> Result<u64, Errno> {
        let word = self.futex_word(machine, space, address)?;
        let all = self.waiters(from, u64::MAX, |_| true);
        let meets = |id: &ThreadId| {
            let wait = self.wait_of(*id);
            matches!(wait, Some(Wait::FutexMove { target, .. }) if target == to)
        };
        if !all.iter().all(meets) {
            return Err(Errno::EINVAL);
        }
        let mut rest = all.into_iter();
        let given = if word & FUTEX_TID == 0 {
            rest.next()
        } else {
            None
        };
        // The one that may be woken waits with the others if somebody has the word.
        let most = count as usize + usize::from(given.is_none());
        let moved: Vec<ThreadId> = rest.take(most).collect();
        let owner = given.map_or(word, |id| id.0 & FUTEX_TID | word & !FUTEX_TID);
        let waiters = if moved.is_empty() { 0 } else { FUTEX_WAITERS };
        if owner | waiters != word {
            self.copy_out(machine, space, address, &(owner | waiters).to_le_bytes())?;
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
        Ok(u64::from(given.is_some()) + moved.len() as u64)
    }

    fn futex_word(
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
const ROBUST_HEAD_BYTES: u64 = 24;

impl Kernel {
    /// Marks the robust mutexes that departed threads held, and wakes who waits for them.
    pub(crate) fn leave_robust_lists(&mut self, machine: &mut dyn Machine) {
        while self.exit.is_none() && !self.rare.departed.is_empty() {
            let gone = self.rare.departed.remove(0);
            if let Some(process) = self.processes.get(gone.process) {
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
        if hands_on && self.hand_on(machine, space, address, key, FUTEX_OWNER_DIED)? {
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
    fn hand_on(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
        key: FutexKey,
        flags: u32,
    ) -> Result<bool, Errno> {
        let to_be_given = |wait| matches!(wait, Wait::Futex { bitset: 0, .. });
        let waiting = self.waiters(key, 2, to_be_given);
        let (next, more) = (waiting.first().copied(), waiting.len() > 1);
        let Some(next) = next else {
            return Ok(false);
        };
        let waiters = if more { FUTEX_WAITERS } else { 0 };
        let word = next.0 & FUTEX_TID | waiters | flags;
        self.copy_out(machine, space, address, &word.to_le_bytes())?;
        self.unblock(next, Some(0));
        Ok(true)
    }
}

/// `set_robust_list`.
pub(crate) fn set_robust_list(call: &mut Call) -> Answer {
    let [head, bytes, ..] = call.arguments;
    if bytes != ROBUST_HEAD_BYTES {
        return Err(Errno::EINVAL.into());
    }
    if let Some(thread) = call.kernel.threads.get_mut(&call.thread) {
        thread.robust_list = head;
    }
    Ok(0)
}

/// `get_robust_list`.
pub(crate) fn get_robust_list(call: &mut Call) -> Answer {
    let [thread, head, bytes, ..] = call.arguments;
    let id = match thread as u32 {
        0 => call.thread,
        number => ThreadId(number),
    };
    let thread = call.kernel.threads.get(&id).ok_or(Errno::ESRCH)?;
    let list = thread.robust_list;
    call.write(bytes, &ROBUST_HEAD_BYTES.to_le_bytes())?;
    call.write(head, &list.to_le_bytes())?;
    Ok(0)
}

/// What a thread does that finds a word taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Refuse,
    /// Waits, perhaps until a time.
    Wait(Option<u64>),
}

/// `FUTEX_LOCK_PI` and its kin. Threads have no priorities, so what is left is that the word is
/// handed from owner to owner, first come first served.
fn lock_word(call: &mut Call, address: u64, key: FutexKey, taken: Taken) -> Answer {
    let word = call.kernel.futex_word(call.machine, call.space, address)?;
    let (owner, own) = (word & FUTEX_TID, call.thread.0 & FUTEX_TID);
    if owner == own {
        return Err(Errno::EDEADLK.into());
    }
    let new = if owner == 0 {
        own | word & (FUTEX_OWNER_DIED | FUTEX_WAITERS)
    } else {
        let known = call.kernel.threads.contains_key(&ThreadId(owner));
        if !known {
            return Err(Errno::ESRCH.into());
        }
        if taken == Taken::Refuse {
            return Err(Errno::EAGAIN.into());
        }
        word | FUTEX_WAITERS
    };
    call.write(address, &new.to_le_bytes())?;
    match taken {
        Taken::Wait(deadline) if owner != 0 => {
            if deadline.is_some_and(|at| at <= call.machine.clock_ns()) {
                return Err(Errno::ETIMEDOUT.into());
            }
            Err(Stop::Wait(Wait::Futex { key, bitset: 0 }, deadline))
        }
        _ => Ok(0),
    }
}

fn unlock_word(call: &mut Call, address: u64, key: FutexKey) -> Answer {
    let word = call.kernel.futex_word(call.machine, call.space, address)?;
    if word & FUTEX_TID != call.thread.0 & FUTEX_TID {
        return Err(Errno::EPERM.into());
    }
    let kernel = &mut *call.kernel;
    if !kernel.hand_on(call.machine, call.space, address, key, 0)? {
        call.write(address, &0_u32.to_le_bytes())?;
    }
    Ok(0)
}

/// The point in time at an address, on the machine's clock; none without an address.
fn deadline_at(call: &mut Call, address: u64, real: bool) -> Result<Option<u64>, Errno> {
    if address == 0 {
        return Ok(None);
    }
    let time = call.duration_at(address)?;
    let start = if real {
        call.kernel.settings.clock_start_ns
    } else {
        0
    };
    Ok(Some(time.saturating_sub(start)))
}

/// `futex_waitv`.
pub(crate) fn futex_waitv(call: &mut Call) -> Answer {
    const WAITERS_MAX: u64 = 128;
    const WAITER_BYTES: u64 = 24;
    const SIZE_U32: u32 = 2;
    const PRIVATE: u32 = FUTEX_PRIVATE as u32;
    let [list, count, flags, timeout, clock, _] = call.arguments;
    if flags as u32 != 0 || !(1..=WAITERS_MAX).contains(&count) || list == 0 {
        return Err(Errno::EINVAL.into());
    }
    // CLOCK_REALTIME, CLOCK_MONOTONIC.
    if timeout != 0 && !matches!(clock as i32, 0 | 1) {
        return Err(Errno::EINVAL.into());
    }
    let deadline = deadline_at(call, timeout, clock as i32 == 0)?;
    let mut waiters = Vec::new();
    for index in 0..count {
        let at = list.wrapping_add(index * WAITER_BYTES);
        let (value, address) = (call.read_u64(at)?, call.read_u64(at.wrapping_add(8))?);
        let flags = call.read_u32(at.wrapping_add(16))?;
        let reserved = call.read_u32(at.wrapping_add(20))?;
        if flags & !PRIVATE != SIZE_U32 || reserved != 0 {
            return Err(Errno::EINVAL.into());
        }
        waiters.push((value, address, flags & PRIVATE != 0));
    }
    let mut keys = Vec::new();
    for (value, address, private) in waiters {
        let word = call.kernel.futex_word(call.machine, call.space, address)?;
        if word != value as u32 {
            return Err(Errno::EAGAIN.into());
        }
        keys.push(call.kernel.futex_key(call.space, address, private));
    }
    if deadline.is_some_and(|at| at <= call.machine.clock_ns()) {
        return Err(Errno::ETIMEDOUT.into());
    }
    call.kernel.rare.futex_lists.insert(call.thread, keys);
    Err(Stop::Wait(Wait::Futexes, deadline))
}

/// `futex`.
pub(crate) fn futex(call: &mut Call) -> Answer {
    let [address, operation, value, fourth, second_address, sixth] = call.arguments;
    let private = operation & FUTEX_PRIVATE != 0;
    let key = call.kernel.futex_key(call.space, address, private);
    let command = operation & 0x7f & !FUTEX_PRIVATE;
    let bitset = if command == FUTEX_WAIT_BITSET || command == FUTEX_WAKE_BITSET {
        sixth as u32
    } else {
        u32::MAX
    };
    if bitset == 0 {
        return Err(Errno::EINVAL.into());
    }
    match command {
        FUTEX_WAIT | FUTEX_WAIT_BITSET | FUTEX_WAIT_REQUEUE_PI => {
            let real = operation & FUTEX_CLOCK_REALTIME != 0;
            let deadline = if command == FUTEX_WAIT && fourth != 0 {
                let time = call.duration_at(fourth)?;
                Some(call.machine.clock_ns().saturating_add(time))
            } else {
                deadline_at(call, fourth, real)?
            };
            let wait = if command == FUTEX_WAIT_REQUEUE_PI {
                let target = call.kernel.futex_key(call.space, second_address, private);
                if target == key || !second_address.is_multiple_of(4) {
                    return Err(Errno::EINVAL.into());
                }
                Wait::FutexMove { key, target }
            } else {
                Wait::Futex { key, bitset }
            };
            if call.kernel.futex_word(call.machine, call.space, address)? != value as u32 {
                return Err(Errno::EAGAIN.into());
            }
            if deadline.is_some_and(|at| at <= call.machine.clock_ns()) {
                return Err(Errno::ETIMEDOUT.into());
            }
            Err(Stop::Wait(wait, deadline))
        }
        FUTEX_CMP_REQUEUE_PI => {
            let second = call.kernel.futex_key(call.space, second_address, private);
            if value != 1 || second == key {
                return Err(Errno::EINVAL.into());
            }
            if call.kernel.futex_word(call.machine, call.space, address)? != sixth as u32 {
                return Err(Errno::EAGAIN.into());
            }
            let count = fourth.min(i32::MAX as u64);
            let target = (second_address, second);
            let moved =
                (call.kernel).futex_move_to_word(call.machine, call.space, key, target, count)?;
            Ok(moved)
        }
        FUTEX_WAKE | FUTEX_WAKE_BITSET => {
            if address % 4 != 0 {
                return Err(Errno::EINVAL.into());
            }
            Ok(call
                .kernel
                .futex_wake(key, value.min(i32::MAX as u64), bitset))
        }
        FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => {
            if command == FUTEX_CMP_REQUEUE
                && call.kernel.futex_word(call.machine, call.space, address)? != sixth as u32
            {
                return Err(Errno::EAGAIN.into());
            }
            let second = call.kernel.futex_key(call.space, second_address, private);
            let woken = call
                .kernel
                .futex_wake(key, value.min(i32::MAX as u64), u32::MAX);
            let moved = call
                .kernel
                .futex_move(key, second, fourth.min(i32::MAX as u64));
            // FUTEX_REQUEUE tells how many were woken, FUTEX_CMP_REQUEUE both.
            Ok(if command == FUTEX_REQUEUE {
                woken
            } else {
                woken + moved
            })
        }
        FUTEX_WAKE_OP => {
            let second = call.kernel.futex_key(call.space, second_address, private);
            let old = call
                .kernel
                .futex_word(call.machine, call.space, second_address)?;
            let (new, compares) = wake_operation(sixth as u32, old);
            call.kernel
                .copy_out(call.machine, call.space, second_address, &new.to_le_bytes())?;
            let mut woken = call
                .kernel
                .futex_wake(key, value.min(i32::MAX as u64), u32::MAX);
            if compares {
                woken += call
                    .kernel
                    .futex_wake(second, fourth.min(i32::MAX as u64), u32::MAX);
            }
            Ok(woken)
        }
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => {
            let real = command == FUTEX_LOCK_PI || operation & FUTEX_CLOCK_REALTIME != 0;
            let deadline = deadline_at(call, fourth, real)?;
            lock_word(call, address, key, Taken::Wait(deadline))
        }
        FUTEX_TRYLOCK_PI => lock_word(call, address, key, Taken::Refuse),
        FUTEX_UNLOCK_PI => unlock_word(call, address, key),
        _ => {
            call.kernel.note_refusal(Refusal::Futex(command as u32));
            Err(Errno::ENOSYS.into())
        }
    }
}

/// The new word of `FUTEX_WAKE_OP`, and whether the old one passes the comparison.
fn wake_operation(encoded: u32, old: u32) -> (u32, bool) {
    let sign_extend = |value: u32| ((value << 20) as i32 >> 20) as u32;
    let comparand = sign_extend(encoded & 0xfff);
    let mut operand = sign_extend(encoded >> 12 & 0xfff);
    if encoded >> 31 != 0 {
        operand = 1 << (operand & 31);
    }
    let new = match encoded >> 28 & 7 {
        0 => operand,
        1 => old.wrapping_add(operand),
        2 => old | operand,
        3 => old & !operand,
        _ => old ^ operand,
    };
    let (signed, against) = (old as i32, comparand as i32);
    let compares = match encoded >> 24 & 15 {
        0 => signed == against,
        1 => signed != against,
        2 => signed < against,
        3 => signed <= against,
        4 => signed > against,
        _ => signed >= against,
    };
    (new, compares)
}
