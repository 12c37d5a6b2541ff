//! Clocks, sleeping and timers, all on the machine's virtual clock.

use super::{Answer, Call, Stop, time_bytes};
use crate::errno::Errno;
use crate::thread::Wait;

const TIMER_ABSTIME: u64 = 1;

/// A clock's time. CPU-time clocks run like the monotonic one.
fn clock_now(call: &Call, clock: u64) -> Result<u64, Errno> {
    match clock as i32 {
        // Real time: plain, coarse, alarm, TAI.
        0 | 5 | 8 | 11 => Ok(call.now_ns()),
        1..=4 | 6 | 7 | 9 => Ok(call.machine.clock_ns()),
        // Per-process and per-thread CPU clocks of the process itself.
        negative if negative < 0 => Ok(call.machine.clock_ns()),
        _ => Err(Errno::EINVAL),
    }
}

/// `clock_gettime`.
pub(crate) fn clock_gettime(call: &mut Call) -> Answer {
    let [clock, address, ..] = call.arguments;
    let now = clock_now(call, clock)?;
    call.write(address, &time_bytes(now))?;
    Ok(0)
}

/// `clock_getres`: one nanosecond; coarse clocks are as fine as the others.
pub(crate) fn clock_getres(call: &mut Call) -> Answer {
    let [clock, address, ..] = call.arguments;
    clock_now(call, clock)?;
    if address != 0 {
        call.write(address, &time_bytes(1))?;
    }
    Ok(0)
}

/// `clock_settime`: real time may not be set, and no other clock can be.
pub(crate) fn clock_settime(call: &mut Call) -> Answer {
    match call.arguments[0] {
        0 => Err(Errno::EPERM.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `gettimeofday`.
pub(crate) fn gettimeofday(call: &mut Call) -> Answer {
    let [address, zone, ..] = call.arguments;
    if address != 0 {
        let now = call.now_ns();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(now / 1_000_000_000).to_le_bytes());
        bytes[8..].copy_from_slice(&(now / 1000 % 1_000_000).to_le_bytes());
        call.write(address, &bytes)?;
    }
    if zone != 0 {
        call.write(zone, &[0; 8])?;
    }
    Ok(0)
}

/// `nanosleep`.
pub(crate) fn nanosleep(call: &mut Call) -> Answer {
    let [request, remaining, ..] = call.arguments;
    let time = call.duration_at(request)?;
    if time == 0 {
        return Ok(0);
    }
    let deadline = call.machine.clock_ns().saturating_add(time);
    Err(Stop::Wait(Wait::Sleep { remaining }, Some(deadline)))
}

/// `clock_nanosleep`.
pub(crate) fn clock_nanosleep(call: &mut Call) -> Answer {
    let [clock, flags, request, remaining, ..] = call.arguments;
    let now = clock_now(call, clock)?;
    let time = call.duration_at(request)?;
    let absolute = flags & TIMER_ABSTIME != 0;
    let wait_ns = if absolute {
        time.saturating_sub(now)
    } else {
        time
    };
    if wait_ns == 0 {
        return Ok(0);
    }
    let deadline = call.machine.clock_ns().saturating_add(wait_ns);
    let remaining = if absolute { 0 } else { remaining };
    Err(Stop::Wait(Wait::Sleep { remaining }, Some(deadline)))
}

fn timeval(ns: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(ns / 1_000_000_000).to_le_bytes());
    // A timer that runs is never shown as zero.
    bytes[8..].copy_from_slice(&(ns % 1_000_000_000).div_ceil(1000).to_le_bytes());
    bytes
}

fn timer_bytes(call: &Call) -> [u8; 32] {
    let timer = call.process().timer;
    let left = timer
        .due_ns
        .map_or(0, |due| due.saturating_sub(call.machine.clock_ns()));
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&timeval(timer.interval_ns));
    bytes[16..].copy_from_slice(&timeval(left));
    bytes
}

/// `getitimer`. Only `ITIMER_REAL` can be armed.
pub(crate) fn getitimer(call: &mut Call) -> Answer {
    let [which, address, ..] = call.arguments;
    let bytes = match which {
        0 => timer_bytes(call),
        1 | 2 => [0; 32],
        _ => return Err(Errno::EINVAL.into()),
    };
    call.write(address, &bytes)?;
    Ok(0)
}

/// `setitimer`. The CPU-time timers run on the virtual clock too, but signal differently, and
/// are refused.
pub(crate) fn setitimer(call: &mut Call) -> Answer {
    let [which, new, old, ..] = call.arguments;
    if which > 2 {
        return Err(Errno::EINVAL.into());
    }
    let mut words = [0; 4];
    for (index, word) in words.iter_mut().enumerate() {
        *word = call.read_u64(new.wrapping_add(8 * index as u64))?;
    }
    let time = |seconds: u64, micros: u64| {
        if (seconds as i64) < 0 || micros >= 1_000_000 {
            return Err(Errno::EINVAL);
        }
        Ok(seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(micros * 1000))
    };
    let interval_ns = time(words[0], words[1])?;
    let first_ns = time(words[2], words[3])?;
    if which != 0 {
        return if first_ns == 0 {
            Ok(0)
        } else {
            Err(Errno::ENOSYS.into())
        };
    }
    if old != 0 {
        let bytes = timer_bytes(call);
        call.write(old, &bytes)?;
    }
    let due = call.machine.clock_ns().saturating_add(first_ns);
    call.process_mut().timer.due_ns = (first_ns != 0).then_some(due);
    call.process_mut().timer.interval_ns = interval_ns;
    Ok(0)
}

/// `times`: in hundredths of a second; all time is user time.
pub(crate) fn times(call: &mut Call) -> Answer {
    const TICK_NS: u64 = 10_000_000;
    let ticks = call.machine.clock_ns() / TICK_NS;
    if call.arguments[0] != 0 {
        let own = call.kernel.usage(call.process(), call.machine).time_ns;
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(own / TICK_NS).to_le_bytes());
        let children = call.process().children.time_ns;
        bytes[16..24].copy_from_slice(&(children / TICK_NS).to_le_bytes());
        call.write(call.arguments[0], &bytes)?;
    }
    Ok(ticks)
}
