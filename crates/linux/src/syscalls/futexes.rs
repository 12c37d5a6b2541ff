//! The calls of futexes and of lists of robust mutexes.

use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::futex::{
    FUTEX_COMMAND, FUTEX_OWNER_DIED, FUTEX_TID, FUTEX_WAIT_REQUEUE_PI, FUTEX_WAITERS,
    ROBUST_HEAD_BYTES,
};
use crate::machine::ThreadId;
use crate::refusals::Refusal;
use crate::thread::{FutexKey, Wait};

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
const FUTEX_CMP_REQUEUE_PI: u64 = 12;
const FUTEX_LOCK_PI2: u64 = 13;
const FUTEX_PRIVATE: u64 = 128;
const FUTEX_CLOCK_REALTIME: u64 = 256;

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
            let thread = call.thread;
            if (call.kernel).waits_for_word_of(call.machine, owner, thread) {
                return Err(Errno::EDEADLK.into());
            }
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
    if !kernel.hand_on(call.machine, call.space, address, key)? {
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
    let command = operation & FUTEX_COMMAND;
    let bitset = if command == FUTEX_WAIT_BITSET || command == FUTEX_WAKE_BITSET {
        sixth as u32
    } else {
        u32::MAX
    };
    if bitset == 0 {
        return Err(Errno::EINVAL.into());
    }
    let has_clock = matches!(
        command,
        FUTEX_WAIT_BITSET | FUTEX_WAIT_REQUEUE_PI | FUTEX_LOCK_PI2
    );
    if operation & FUTEX_CLOCK_REALTIME != 0 && !has_clock {
        return Err(Errno::ENOSYS.into());
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
            let count = value.min(i32::MAX as u64);
            Ok(call.kernel.futex_wake(key, count, bitset))
        }
        FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => {
            let compared = (command == FUTEX_CMP_REQUEUE).then_some(sixth as u32);
            let second = call.kernel.futex_key(call.space, second_address, private);
            let (woken, moved) = requeue(call, address, (key, second), [value, fourth], compared)?;
            // FUTEX_REQUEUE tells how many were woken, FUTEX_CMP_REQUEUE both.
            Ok(woken + compared.map_or(0, |_| moved))
        }
        FUTEX_WAKE_OP => {
            let second = call.kernel.futex_key(call.space, second_address, private);
            let old = call
                .kernel
                .futex_word(call.machine, call.space, second_address)?;
            let (new, compares) = wake_operation(sixth as u32, old).ok_or(Errno::ENOSYS)?;
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

/// Wakes some who wait for the word at an address, if it is the one that is expected, and lets others wait
/// for another one; how many.
fn requeue(
    call: &mut Call,
    address: u64,
    (from, to): (FutexKey, FutexKey),
    counts: [u64; 2],
    expected: Option<u32>,
) -> Result<(u64, u64), Errno> {
    let [woken, moved] = counts.map(|count| u64::try_from(count as i32));
    let (Ok(woken), Ok(moved), 0) = (woken, moved, address % 4) else {
        return Err(Errno::EINVAL);
    };
    if let Some(expected) = expected
        && call.kernel.futex_word(call.machine, call.space, address)? != expected
    {
        return Err(Errno::EAGAIN);
    }
    let woken = call.kernel.futex_wake(from, woken, u32::MAX);
    Ok((woken, call.kernel.futex_move(from, to, moved)))
}

/// The new word of `FUTEX_WAKE_OP`, and whether the old one passes the comparison; `None` of what there
/// is not.
fn wake_operation(encoded: u32, old: u32) -> Option<(u32, bool)> {
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
        4 => old ^ operand,
        _ => return None,
    };
    let (signed, against) = (old as i32, comparand as i32);
    let compares = match encoded >> 24 & 15 {
        0 => signed == against,
        1 => signed != against,
        2 => signed < against,
        3 => signed <= against,
        4 => signed > against,
        5 => signed >= against,
        _ => return None,
    };
    Some((new, compares))
}
