//! Clocks, sleeping and timers: the machine's virtual clock, and CPU time, which is the instructions
//! that a thread or a process has retired, at one a cycle.

use super::{Answer, Call, Stop, time_bytes};
use crate::errno::Errno;
use crate::machine::ThreadId;
use crate::process::ProcessId;
use crate::thread::Wait;

const TIMER_ABSTIME: u64 = 1;

/// What a clock counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// Time since 1970.
    Real,
    /// Time since the machine started.
    Monotonic,
    /// CPU time of a process.
    OfProcess(ProcessId),
    /// CPU time of a thread of the caller's process.
    OfThread(ThreadId),
}

/// The clock of a `clockid_t`, if there is such a one.
fn clock(call: &Call, number: u64) -> Result<Clock, Errno> {
    let own = call.process().id;
    match number as i32 {
        // Plain, coarse, alarm, TAI.
        0 | 5 | 8 | 11 => Ok(Clock::Real),
        // Monotonic, raw, coarse, since boot, alarm.
        1 | 4 | 6 | 7 | 9 => Ok(Clock::Monotonic),
        2 => Ok(Clock::OfProcess(own)),
        3 => Ok(Clock::OfThread(call.thread)),
        negative if negative < 0 => cpu_clock(call, negative),
        _ => Err(Errno::EINVAL),
    }
}

/// A CPU clock by the number of its process or thread: `~number << 3 | is_thread << 2 | kind`, where
/// 0 stands for the caller and the kinds (profiling, virtual, scheduler) all count the same here.
fn cpu_clock(call: &Call, number: i32) -> Result<Clock, Errno> {
    const KIND: i32 = 3;
    const IS_THREAD: i32 = 4;
    if number & KIND == KIND {
        return Err(Errno::EINVAL);
    }
    let own = call.process().id;
    let whose = !(number >> 3) as u32;
    if number & IS_THREAD == 0 {
        let id = if whose == 0 { own } else { ProcessId(whose) };
        let process = call.kernel.processes.get(id);
        return process.map(|_| Clock::OfProcess(id)).ok_or(Errno::EINVAL);
    }
    let id = if whose == 0 {
        call.thread
    } else {
        ThreadId(whose)
    };
    let thread = call.kernel.threads.get(&id);
    let thread = thread.filter(|thread| thread.process == own);
    thread.map(|_| Clock::OfThread(id)).ok_or(Errno::EINVAL)
}

/// A clock's time.
fn clock_now(call: &Call, number: u64) -> Result<u64, Errno> {
    let kernel = &call.kernel;
    let retired = match clock(call, number)? {
        Clock::Real => return Ok(call.now_ns()),
        Clock::Monotonic => return Ok(call.machine.clock_ns()),
        Clock::OfProcess(id) => kernel.usage(&kernel.processes[id], call.machine).retired,
        Clock::OfThread(id) => kernel.threads[&id].retired_by_now(call.machine),
    };
    Ok(call.machine.duration_ns(retired))
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

/// `clock_nanosleep`. A thread's own CPU clock would never wake it, and nobody sleeps by a process's.
pub(crate) fn clock_nanosleep(call: &mut Call) -> Answer {
    let [number, flags, request, remaining, ..] = call.arguments;
    match clock(call, number)? {
        Clock::OfThread(_) => return Err(Errno::EINVAL.into()),
        Clock::OfProcess(_) => return Err(Errno::EOPNOTSUPP.into()),
        Clock::Real | Clock::Monotonic => {}
    }
    let now = clock_now(call, number)?;
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
        let own = call.kernel.usage(call.process(), call.machine).retired;
        let own = call.machine.duration_ns(own);
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(own / TICK_NS).to_le_bytes());
        let children = call.process().children.retired;
        let children = call.machine.duration_ns(children);
        bytes[16..24].copy_from_slice(&(children / TICK_NS).to_le_bytes());
        call.write(call.arguments[0], &bytes)?;
    }
    Ok(ticks)
}
