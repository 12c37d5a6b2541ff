//! The calls of futexes and of lists of robust mutexes.

use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::futex::{
    FUTEX_COMMAND, FUTEX_OWNER_DIED, FUTEX_PRIVATE, FUTEX_TID, FUTEX_WAIT_REQUEUE_PI, FUTEX_WAITERS,
};
use crate::machine::ThreadId;
use crate::owned_words::ROBUST_HEAD_BYTES;
use crate::refusals::Refusal;
use crate::thread::Wait;

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
fn lock_word(call: &mut Call, address: u64, private: bool, taken: Taken) -> Answer {
    let futex = call.kernel.futex(call.space, address, private)?;
    let word = call.kernel.futex_word(call.machine, call.space, address)?;
    let (owner, own) = (word & FUTEX_TID, call.thread.0 & FUTEX_TID);
    if owner == own {
        return Err(Errno::EDEADLK.into());
    }
    if call.kernel.is_only_waited_for(futex) {
        return Err(Errno::EINVAL.into());
    }
    let new = if owner == 0 {
        let is_waited_for = call.kernel.standing(futex).next().is_some();
        let kept = if is_waited_for { FUTEX_WAITERS } else { 0 };
        own | word & (FUTEX_OWNER_DIED | kept)
    } else {
        word | FUTEX_WAITERS
    };
    call.write(address, &new.to_le_bytes())?;
    if owner == 0 {
        call.kernel.word_is_of(futex.key, own);
        return Ok(0);
    }
    if !call.kernel.threads.contains_key(&ThreadId(owner)) {
        return Err(Errno::ESRCH.into());
    }
    let Taken::Wait(deadline) = taken else {
        return Err(Errno::EAGAIN.into());
    };
    if (call.kernel).waits_for_word_of(call.machine, owner, call.thread) {
        return Err(Errno::EDEADLK.into());
    }
    if deadline.is_some_and(|at| at <= call.machine.clock_ns()) {
        return Err(Errno::ETIMEDOUT.into());
    }
    let key = futex.key;
    if let Some(thread) = call.kernel.threads.get_mut(&call.thread) {
        thread.word_owner = Some(owner);
    }
    Err(Stop::Wait(Wait::Futex { key, bitset: 0 }, deadline))
}

fn unlock_word(call: &mut Call, address: u64, private: bool) -> Answer {
    let word = call.kernel.futex_word(call.machine, call.space, address)?;
    if word & FUTEX_TID != call.thread.0 & FUTEX_TID {
        return Err(Errno::EPERM.into());
    }
    let kernel = &mut *call.kernel;
    let futex = kernel.futex(call.space, address, private)?;
    if kernel.is_only_waited_for(futex) {
        return Err(Errno::EINVAL.into());
    }
    if !kernel.hand_on(call.machine, call.space, address, futex)? {
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
        let Ok(value) = u32::try_from(value) else {
            return Err(Errno::EINVAL.into());
        };
        if flags & !PRIVATE != SIZE_U32 || reserved != 0 {
            return Err(Errno::EINVAL.into());
        }
        waiters.push((value, address, flags & PRIVATE != 0));
    }
    let mut keys = Vec::new();
    for &(_, address, private) in &waiters {
        keys.push(call.kernel.futex(call.space, address, private)?.listed());
    }
    for (value, address, _) in waiters {
        if call.kernel.futex_word(call.machine, call.space, address)? != value {
            return Err(Errno::EAGAIN.into());
        }
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
            let key = call.kernel.futex(call.space, address, private)?.key;
            let wait = if command == FUTEX_WAIT_REQUEUE_PI {
                let target = call.kernel.futex(call.space, second_address, private)?.key;
                if target == key {
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
        FUTEX_WAKE | FUTEX_WAKE_BITSET => {
            let futex = call.kernel.futex(call.space, address, private)?;
            Ok(call.kernel.futex_wake(futex, value as i32, bitset)?)
        }
        FUTEX_REQUEUE | FUTEX_CMP_REQUEUE | FUTEX_CMP_REQUEUE_PI => {
            let compared = (command != FUTEX_REQUEUE).then_some(sixth as u32);
            let to_word = command == FUTEX_CMP_REQUEUE_PI;
            requeue(call, private, compared, to_word)
        }
        FUTEX_WAKE_OP => wake_and_operate(call, private),
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => {
            let real = command == FUTEX_LOCK_PI || operation & FUTEX_CLOCK_REALTIME != 0;
            let deadline = deadline_at(call, fourth, real)?;
            lock_word(call, address, private, Taken::Wait(deadline))
        }
        FUTEX_TRYLOCK_PI => lock_word(call, address, private, Taken::Refuse),
        FUTEX_UNLOCK_PI => unlock_word(call, address, private),
        _ => {
            call.kernel.note_refusal(Refusal::Futex(command as u32));
            Err(Errno::ENOSYS.into())
        }
    }
}

/// Wakes some who wait for the word at an address, if it is the one that is expected, and lets others wait
/// for another one; how many.
fn requeue(call: &mut Call, private: bool, expected: Option<u32>, to_word: bool) -> Answer {
    let [address, _, woken, moved, second_address, _] = call.arguments;
    let [Ok(woken), Ok(moved)] = [woken, moved].map(|count| usize::try_from(count as i32)) else {
        return Err(Errno::EINVAL.into());
    };
    if to_word && (woken != 1 || second_address == address) {
        return Err(Errno::EINVAL.into());
    }
    let kernel = &mut *call.kernel;
    let from = kernel.futex(call.space, address, private)?;
    let to = kernel.futex(call.space, second_address, private)?;
    if to_word && to == from {
        return Err(Errno::EINVAL.into());
    }
    if let Some(expected) = expected
        && kernel.futex_word(call.machine, call.space, address)? != expected
    {
        return Err(Errno::EAGAIN.into());
    }
    if to_word {
        let target = (second_address, to);
        return Ok(kernel.futex_move_to_word(call.machine, call.space, from, target, moved)?);
    }
    Ok(kernel.futex_requeue(from, to, [woken, moved])?)
}

/// `FUTEX_WAKE_OP`.
fn wake_and_operate(call: &mut Call, private: bool) -> Answer {
    let [address, _, count, second_count, second_address, encoded] = call.arguments;
    let kernel = &mut *call.kernel;
    let first = kernel.futex(call.space, address, private)?;
    let second = kernel.futex(call.space, second_address, private)?;
    let old = kernel.futex_word(call.machine, call.space, second_address)?;
    let new = new_word(encoded as u32, old).ok_or(Errno::ENOSYS)?;
    kernel.copy_out(call.machine, call.space, second_address, &new.to_le_bytes())?;
    let passes = passes(encoded as u32, old).ok_or(Errno::ENOSYS)?;
    let mut woken = kernel.futex_wake(first, count as i32, u32::MAX)?;
    if passes {
        woken += kernel.futex_wake(second, second_count as i32, u32::MAX)?;
    }
    Ok(woken)
}

/// A field of what `FUTEX_WAKE_OP` shall do.
fn signed_field(encoded: u32, shift: u32) -> u32 {
    ((encoded >> shift << 20) as i32 >> 20) as u32
}

/// The new word of `FUTEX_WAKE_OP`; `None` of what there is not.
fn new_word(encoded: u32, old: u32) -> Option<u32> {
    let mut operand = signed_field(encoded, 12);
    if encoded >> 31 != 0 {
        operand = 1 << (operand & 31);
    }
    Some(match encoded >> 28 & 7 {
        0 => operand,
        1 => old.wrapping_add(operand),
        2 => old | operand,
        3 => old & !operand,
        4 => old ^ operand,
        _ => return None,
    })
}

/// Whether the old word passes the comparison; `None` if there is no such.
fn passes(encoded: u32, old: u32) -> Option<bool> {
    let (signed, against) = (old as i32, signed_field(encoded, 0) as i32);
    Some(match encoded >> 24 & 15 {
        0 => signed == against,
        1 => signed != against,
        2 => signed < against,
        3 => signed <= against,
        4 => signed > against,
        5 => signed >= against,
        _ => return None,
    })
}
