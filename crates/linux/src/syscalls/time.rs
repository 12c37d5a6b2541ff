//! Clocks, sleeping and timers: the machine's virtual clock, and CPU time, which is the instructions
//! that a thread or a process has retired, at one a cycle.

use super::{Answer, Call, Stop, time_bytes};
use crate::errno::Errno;
use crate::machine::ThreadId;
use crate::process::{IntervalTimer, ProcessId};
use crate::signal::{SIGPROF, SIGVTALRM};
use crate::thread::Wait;
use crate::timers::TimerClock;

pub(crate) const TIMER_ABSTIME: u64 = 1;
/// The clock that `adjtimex` means.
const CLOCK_REALTIME: i32 = 0;

/// What a clock counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
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
pub(crate) fn clock(call: &Call, number: u64) -> Result<Clock, Errno> {
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

/// `adjtimex`: nobody adjusts the clock, and nobody may.
pub(crate) fn adjtimex(call: &mut Call) -> Answer {
    let address = call.arguments[0];
    adjust(call, CLOCK_REALTIME, address)
}

/// `clock_adjtime`: nor any other clock.
pub(crate) fn clock_adjtime(call: &mut Call) -> Answer {
    let [clock, address, ..] = call.arguments;
    adjust(call, clock as i32, address)
}

/// The state of a clock that was never set by another.
fn adjust(call: &mut Call, clock: i32, address: u64) -> Answer {
    const TIMEX_BYTES: usize = 208;
    /// Of `adjtime`, only to be told what is left.
    const OFFSET_READ: u32 = 0xa001;
    /// Microseconds that the clock may be wrong by, at most.
    const ERROR_MAX: u64 = 16_000_000;
    const UNSYNCHRONISED: u64 = 64;
    const TIME_ERROR: u64 = 5;
    let modes = call.read_u32(address)?;
    match clock {
        CLOCK_REALTIME if modes == 0 || modes == OFFSET_READ => {}
        CLOCK_REALTIME => return Err(Errno::EPERM.into()),
        1..=9 => return Err(Errno::EOPNOTSUPP.into()),
        _ => return Err(Errno::EINVAL.into()),
    }
    let now = call.now_ns();
    let words = [
        (16, 0),
        (24, ERROR_MAX),
        (32, ERROR_MAX),
        (40, UNSYNCHRONISED),
        // The loop's time constant, and the precision and the tolerance of the clock.
        (48, 2),
        (56, 1),
        (64, 500 << 16),
        (72, now / 1_000_000_000),
        (80, now / 1000 % 1_000_000),
        // Microseconds between ticks.
        (88, 10_000),
    ];
    let mut bytes = [0; TIMEX_BYTES];
    bytes[..4].copy_from_slice(&modes.to_le_bytes());
    for (at, value) in words {
        bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
    }
    call.write(address, &bytes)?;
    Ok(TIME_ERROR)
}

/// `gettimeofday`.
pub(crate) fn gettimeofday(call: &mut Call) -> Answer {
    let [address, zone, ..] = call.arguments;
    if address != 0 {
        let now = call.now_ns();
        call.write(address, &timeval_bytes(now))?;
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
        // Raw and coarse ones have no timers.
        _ if matches!(number as i32, 4..=6) => return Err(Errno::EOPNOTSUPP.into()),
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

/// `struct timeval` of a moment.
pub(crate) fn timeval_bytes(ns: u64) -> [u8; 16] {
    let mut bytes = time_bytes(ns);
    super::put(&mut bytes, 8, ns % 1_000_000_000 / 1000);
    bytes
}

/// `struct timeval` of a timer.
fn timeval(ns: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(ns / 1_000_000_000).to_le_bytes());
    // A timer that runs is never shown as zero.
    bytes[8..].copy_from_slice(&(ns % 1_000_000_000).div_ceil(1000).to_le_bytes());
    bytes
}

/// The signal of an interval timer that counts CPU time.
fn cpu_signal(which: u64) -> Result<Option<u8>, Errno> {
    match which {
        0 => Ok(None),
        1 => Ok(Some(SIGVTALRM)),
        2 => Ok(Some(SIGPROF)),
        _ => Err(Errno::EINVAL),
    }
}

/// An interval timer, and the time that it counts.
fn interval_timer(call: &Call, signal: Option<u8>) -> (IntervalTimer, u64) {
    let Some(signal) = signal else {
        return (call.process().timer, call.machine.clock_ns());
    };
    let timers = &call.kernel.rare.timers.intervals;
    let timer = timers.get(&(call.process, signal)).copied();
    let clock = TimerClock::Process(call.process);
    let now = call.kernel.timer_now_ns(clock, call.machine);
    (timer.unwrap_or_default(), now)
}

fn timer_bytes((timer, now_ns): (IntervalTimer, u64)) -> [u8; 32] {
    let left = timer.due_ns.map_or(0, |due| due.saturating_sub(now_ns));
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&timeval(timer.interval_ns));
    bytes[16..].copy_from_slice(&timeval(left));
    bytes
}

/// `getitimer`.
pub(crate) fn getitimer(call: &mut Call) -> Answer {
    let [which, address, ..] = call.arguments;
    let bytes = timer_bytes(interval_timer(call, cpu_signal(which)?));
    call.write(address, &bytes)?;
    Ok(0)
}

/// `setitimer`.
pub(crate) fn setitimer(call: &mut Call) -> Answer {
    let [which, new, old, ..] = call.arguments;
    let signal = cpu_signal(which)?;
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
    let (present, now) = interval_timer(call, signal);
    if old != 0 {
        call.write(old, &timer_bytes((present, now)))?;
    }
    let wished = IntervalTimer {
        due_ns: (first_ns != 0).then(|| now.saturating_add(first_ns)),
        interval_ns,
    };
    let Some(signal) = signal else {
        call.process_mut().timer = wished;
        return Ok(0);
    };
    let key = (call.process, signal);
    let timers = &mut call.kernel.rare.timers.intervals;
    timers.remove(&key);
    if wished.due_ns.is_some() {
        timers.insert(key, wished);
    }
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
