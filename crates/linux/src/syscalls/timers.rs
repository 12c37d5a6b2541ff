//! Timers of POSIX, and timers and signals that are read from files.

use super::time::{Clock, TIMER_ABSTIME, clock};
use super::transfer::{Pieces, scatter};
use super::{Answer, Call, Stop, time_bytes};
use crate::errno::Errno;
use crate::limits::Resource;
use crate::machine::ThreadId;
use crate::process::ProcessId;
use crate::signal::{SIGALRM, SIGNAL_MAX, SignalFile, UNBLOCKABLE};
use crate::timers::{Notice, PosixTimer, TimerClock, TimerFile, expirations};
use crate::vfs::descriptor::{O_CLOEXEC, O_NONBLOCK, Object, OpenFile};

const SIGEV_SIGNAL: u32 = 0;
const SIGEV_NONE: u32 = 1;
const SIGEV_THREAD: u32 = 2;
const SIGEV_THREAD_ID: u32 = 4;

/// Bytes of a `struct signalfd_siginfo`.
const SIGNAL_RECORD_BYTES: u64 = 128;

/// What a clock of `timer_create` counts.
fn timer_clock(call: &Call, number: u64) -> Result<TimerClock, Errno> {
    match number as i32 {
        // Raw and coarse clocks have no timers; waking a machine up takes a right.
        4..=6 => return Err(Errno::EOPNOTSUPP),
        8 | 9 => return Err(Errno::EPERM),
        _ => {}
    }
    Ok(match clock(call, number)? {
        Clock::Real => TimerClock::Real,
        Clock::Monotonic => TimerClock::Monotonic,
        Clock::OfProcess(id) => TimerClock::Process(id),
        Clock::OfThread(id) => TimerClock::Thread(id),
    })
}

/// `timer_create`.
pub(crate) fn timer_create(call: &mut Call) -> Answer {
    let [number, event, address, ..] = call.arguments;
    let clock = timer_clock(call, number)?;
    let own = call.process;
    let posix = &call.kernel.rare.timers.posix;
    let taken = posix.range((own, 0)..=(own, u32::MAX));
    let (count, last) = taken.fold((0, None), |(count, _), (key, _)| (count + 1, Some(key.1)));
    let id = last.map_or(0, |last| last + 1);
    let most = call.process().limit(Resource::PendingSignals);
    if count >= most || id > i32::MAX as u32 {
        return Err(Errno::EAGAIN.into());
    }
    let mut notice = Some(Notice {
        signal: SIGALRM,
        thread: None,
        value: u64::from(id),
    });
    if event != 0 {
        let value = call.read_u64(event)?;
        let signal = call.read_u32(event.wrapping_add(8))?;
        let how = call.read_u32(event.wrapping_add(12))?;
        let thread = match how {
            SIGEV_THREAD_ID => {
                let id = ThreadId(call.read_u32(event.wrapping_add(16))?);
                let thread = call.kernel.threads.get(&id);
                let own = thread.filter(|thread| thread.process == own);
                Some(own.ok_or(Errno::EINVAL)?.id)
            }
            SIGEV_SIGNAL | SIGEV_NONE | SIGEV_THREAD => None,
            _ => return Err(Errno::EINVAL.into()),
        };
        notice = match u8::try_from(signal) {
            _ if how == SIGEV_NONE => None,
            Ok(signal) if (1..=SIGNAL_MAX).contains(&signal) => Some(Notice {
                signal,
                thread,
                value,
            }),
            _ => return Err(Errno::EINVAL.into()),
        };
    }
    call.write(address, &id.to_le_bytes())?;
    let timer = PosixTimer {
        clock,
        notice,
        due_ns: None,
        interval_ns: 0,
        waits: false,
        overruns: 0,
    };
    call.kernel.rare.timers.posix.insert((own, id), timer);
    Ok(0)
}

fn timer_of(call: &Call, number: u64) -> Result<((ProcessId, u32), PosixTimer), Errno> {
    let key = (call.process, number as u32);
    let timer = call.kernel.rare.timers.posix.get(&key);
    timer.map(|&timer| (key, timer)).ok_or(Errno::EINVAL)
}

/// A `struct itimerspec`: interval, then value.
fn setting_at(call: &mut Call, address: u64) -> Result<(u64, u64), Errno> {
    let interval = call.duration_at(address)?;
    let value = call.duration_at(address.wrapping_add(16))?;
    Ok((interval, value))
}

/// The setting of a timer as it is now.
fn setting_bytes(due_ns: Option<u64>, interval_ns: u64, now_ns: u64) -> [u8; 32] {
    let next = due_ns.and_then(|due| expirations(due, interval_ns, now_ns).1);
    // A timer that runs is never shown as zero.
    let left = next.map_or(0, |next| next.saturating_sub(now_ns).max(1));
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&time_bytes(interval_ns));
    bytes[16..].copy_from_slice(&time_bytes(left));
    bytes
}

/// When a timer is due that is set to a value now.
fn due_at(value: u64, absolute: bool, real: bool, start_ns: u64, now_ns: u64) -> Option<u64> {
    if value == 0 {
        return None;
    }
    Some(match (absolute, real) {
        (false, _) => now_ns.saturating_add(value),
        (true, false) => value,
        (true, true) => value.saturating_sub(start_ns),
    })
}

/// `timer_settime`.
pub(crate) fn timer_settime(call: &mut Call) -> Answer {
    let [number, flags, new, old, ..] = call.arguments;
    if new == 0 {
        return Err(Errno::EINVAL.into());
    }
    let (interval_ns, value) = setting_at(call, new)?;
    let (key, timer) = timer_of(call, number)?;
    let now = call.kernel.timer_now_ns(timer.clock, call.machine);
    if old != 0 {
        call.write(old, &setting_bytes(timer.due_ns, timer.interval_ns, now))?;
    }
    let start = call.kernel.settings.clock_start_ns;
    let real = timer.clock == TimerClock::Real;
    let due_ns = due_at(value, flags & TIMER_ABSTIME != 0, real, start, now);
    let set = PosixTimer {
        due_ns,
        interval_ns: due_ns.map_or(0, |_| interval_ns),
        waits: false,
        ..timer
    };
    call.kernel.rare.timers.posix.insert(key, set);
    call.kernel.expire_timers(call.machine.clock_ns());
    Ok(0)
}

/// `timer_gettime`.
pub(crate) fn timer_gettime(call: &mut Call) -> Answer {
    let [number, address, ..] = call.arguments;
    let (_, timer) = timer_of(call, number)?;
    let now = call.kernel.timer_now_ns(timer.clock, call.machine);
    call.write(
        address,
        &setting_bytes(timer.due_ns, timer.interval_ns, now),
    )?;
    Ok(0)
}

/// `timer_getoverrun`.
pub(crate) fn timer_getoverrun(call: &mut Call) -> Answer {
    let (_, timer) = timer_of(call, call.arguments[0])?;
    Ok(u64::from(timer.overruns))
}

/// `timer_delete`.
pub(crate) fn timer_delete(call: &mut Call) -> Answer {
    let (key, _) = timer_of(call, call.arguments[0])?;
    call.kernel.rare.timers.posix.remove(&key);
    Ok(0)
}

/// `timerfd_create`.
pub(crate) fn timerfd_create(call: &mut Call) -> Answer {
    let [number, flags, ..] = call.arguments;
    let flags = flags as u32;
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let real = match number as i32 {
        0 => true,
        1 | 7 => false,
        8 | 9 => return Err(Errno::EPERM.into()),
        _ => return Err(Errno::EINVAL.into()),
    };
    let timer = TimerFile {
        real,
        ..TimerFile::default()
    };
    let id = call.kernel.open.timer_files.insert(timer);
    let name = "anon_inode:[timerfd]".to_owned();
    let file = OpenFile::new(Object::Timer(id), flags & O_NONBLOCK | 2, name);
    call.open_made(file, flags & O_CLOEXEC != 0, |kernel| {
        kernel.open.timer_files.remove(id);
    })
}

fn timer_file(call: &Call, number: u64) -> Result<(u32, TimerFile), Errno> {
    let Object::Timer(id) = call.file(number)?.object else {
        return Err(Errno::EINVAL);
    };
    let timer = call.kernel.open.timer_files.get(id);
    timer.map(|&timer| (id, timer)).ok_or(Errno::EINVAL)
}

/// `timerfd_settime`. Nothing sets the real clock, so `TFD_TIMER_CANCEL_ON_SET` never cancels.
pub(crate) fn timerfd_settime(call: &mut Call) -> Answer {
    const CANCEL_ON_SET: u64 = 2;
    let [number, flags, new, old, ..] = call.arguments;
    if flags & !(TIMER_ABSTIME | CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let (interval_ns, value) = setting_at(call, new)?;
    let (id, timer) = timer_file(call, number)?;
    let now = call.machine.clock_ns();
    if old != 0 {
        call.write(old, &setting_bytes(timer.due_ns, timer.interval_ns, now))?;
    }
    let start = call.kernel.settings.clock_start_ns;
    let due_ns = due_at(value, flags & TIMER_ABSTIME != 0, timer.real, start, now);
    if let Some(timer) = call.kernel.open.timer_files.get_mut(id) {
        timer.due_ns = due_ns;
        timer.interval_ns = interval_ns;
        timer.expired = false;
    }
    call.kernel.expire_timers(now);
    Ok(0)
}

/// `timerfd_gettime`.
pub(crate) fn timerfd_gettime(call: &mut Call) -> Answer {
    let [number, address, ..] = call.arguments;
    let (_, timer) = timer_file(call, number)?;
    let now = call.machine.clock_ns();
    call.write(
        address,
        &setting_bytes(timer.due_ns, timer.interval_ns, now),
    )?;
    Ok(0)
}

/// Reading a timer: how often it has expired.
pub(crate) fn read_timer(
    call: &mut Call,
    id: u32,
    pieces: &Pieces,
    wanted: u64,
    nonblocking: bool,
) -> Answer {
    if wanted < 8 {
        return Err(Errno::EINVAL.into());
    }
    let now = call.machine.clock_ns();
    let timer = call.kernel.open.timer_files.get(id).ok_or(Errno::EBADF)?;
    let (count, next) = timer.due_ns.map_or((0, None), |due| {
        // Who was told that it expired finds it so, whichever hart's clock it looks at.
        let now = if timer.expired { now.max(due) } else { now };
        expirations(due, timer.interval_ns, now)
    });
    if count == 0 {
        return Err(if nonblocking {
            Errno::EAGAIN.into()
        } else {
            Stop::for_files()
        });
    }
    scatter(call, pieces, &count.to_le_bytes())?;
    if let Some(timer) = call.kernel.open.timer_files.get_mut(id) {
        timer.due_ns = next;
        timer.expired = false;
    }
    Ok(8)
}

/// `signalfd4`.
pub(crate) fn signalfd4(call: &mut Call) -> Answer {
    let [number, set, set_bytes, flags, ..] = call.arguments;
    let flags = flags as u32;
    if set_bytes != 8 || flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let mask = call.read_u64(set)? & !UNBLOCKABLE;
    if number as u32 != u32::MAX {
        let Object::Signals(id) = call.file(number)?.object else {
            return Err(Errno::EINVAL.into());
        };
        if let Some(file) = call.kernel.open.signal_files.get_mut(id) {
            file.mask = mask;
            file.activity += 1;
        }
        call.wake_file_waiters();
        return Ok(number);
    }
    let id = call
        .kernel
        .open
        .signal_files
        .insert(SignalFile { mask, activity: 0 });
    let name = "anon_inode:[signalfd]".to_owned();
    let file = OpenFile::new(Object::Signals(id), flags & O_NONBLOCK | 2, name);
    call.open_made(file, flags & O_CLOEXEC != 0, |kernel| {
        kernel.open.signal_files.remove(id);
    })
}

/// Reading signals: as many as wait and fit.
pub(crate) fn read_signals(
    call: &mut Call,
    id: u32,
    pieces: &Pieces,
    wanted: u64,
    nonblocking: bool,
) -> Answer {
    let mask = call
        .kernel
        .open
        .signal_files
        .get(id)
        .ok_or(Errno::EBADF)?
        .mask;
    let most = wanted / SIGNAL_RECORD_BYTES;
    if most == 0 {
        return Err(Errno::EINVAL.into());
    }
    for &(address, length) in pieces {
        let kernel = &mut *call.kernel;
        let access = perdure_riscv::Access::Store;
        let length = length.min(SIGNAL_RECORD_BYTES * 128);
        kernel.touch(call.machine, call.space, address, length, access)?;
    }
    let mut bytes = Vec::new();
    // Not more at once than there can be.
    for _ in 0..most.min(128) {
        match call.kernel.next_signal(call.thread, mask, call.machine) {
            Some(info) => bytes.extend(info.record_bytes()),
            None => break,
        }
    }
    if bytes.is_empty() {
        return Err(if nonblocking {
            Errno::EAGAIN.into()
        } else {
            Stop::for_files()
        });
    }
    scatter(call, pieces, &bytes)?;
    Ok(bytes.len() as u64)
}
