//! Timers: of POSIX, of CPU time, and those that are open files.
//!
//! Always true: a timer that has expired and was not noticed yet makes no further events. How often
//! it would have expired meanwhile is counted when its signal is taken or its file read. CPU time is
//! looked at when a time slice is over or a call is made, as a real kernel does at its ticks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::machine::{Machine, ThreadId};
use crate::process::{IntervalTimer, ProcessId};
use crate::signal::{SIGNAL_MAX, SIGPROF, SIGVTALRM, SignalInfo, Target};
use crate::vfs::descriptor::Object;

/// `si_code` of a timer's signal.
const SI_TIMER: i32 = -2;

/// What a timer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TimerClock {
    /// Time since 1970.
    Real,
    /// Time since the machine started.
    Monotonic,
    /// CPU time of a process.
    Process(ProcessId),
    /// CPU time of a thread.
    Thread(ThreadId),
}

impl TimerClock {
    pub fn counts_cpu_time(self) -> bool {
        matches!(self, TimerClock::Process(_) | TimerClock::Thread(_))
    }
}

/// What a timer does when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    pub signal: u8,
    /// Of the process, whichever takes it; else `SIGEV_THREAD_ID`.
    pub thread: Option<ThreadId>,
    pub value: u64,
}

/// A timer made by `timer_create`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct PosixTimer {
    pub clock: TimerClock,
    /// `None` for `SIGEV_NONE`.
    pub notice: Option<Notice>,
    /// When it is due, in the time that its clock counts, monotonic for the real one; in the past
    /// while its signal waits.
    pub due_ns: Option<u64>,
    pub interval_ns: u64,
    /// Its signal waits to be taken.
    pub waits: bool,
    /// Expirations that the last signal stood for, beside its own.
    pub overruns: u32,
}

impl Notice {
    /// Whom a timer of a process tells.
    fn target(self, process: ProcessId) -> Target {
        self.thread.map_or(Target::Process(process), Target::Thread)
    }
}

impl PosixTimer {
    /// True if it is not CPU time that makes it expire, and its last signal does not wait.
    fn is_running_on_the_clock(&self) -> bool {
        !self.waits && !self.clock.counts_cpu_time()
    }
}

/// All timers of POSIX by process and number, and those of CPU time by process and signal.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Timers {
    pub posix: BTreeMap<(ProcessId, u32), PosixTimer>,
    /// `ITIMER_VIRTUAL` and `ITIMER_PROF`.
    pub intervals: BTreeMap<(ProcessId, u8), IntervalTimer>,
}

impl Timers {
    pub fn is_empty(&self) -> bool {
        self.posix.is_empty() && self.intervals.is_empty()
    }
}

/// An open file made by `timerfd_create`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TimerFile {
    /// It counts time since 1970; `due_ns` is monotonic all the same.
    pub real: bool,
    pub due_ns: Option<u64>,
    pub interval_ns: u64,
    /// It is due, and those who wait were told.
    pub expired: bool,
    /// Counts changes.
    pub activity: u64,
}

/// How often a timer has expired, if it was due then and is looked at now; and when it is due next.
pub(crate) fn expirations(due_ns: u64, interval_ns: u64, now_ns: u64) -> (u64, Option<u64>) {
    if due_ns > now_ns {
        return (0, Some(due_ns));
    }
    let Some(more) = (now_ns - due_ns).checked_div(interval_ns) else {
        return (1, None);
    };
    let count = more.saturating_add(1);
    let next = due_ns.saturating_add(count.saturating_mul(interval_ns));
    (count, Some(next))
}

impl Kernel {
    /// The time that a timer counts, as its `due_ns` does.
    pub(crate) fn timer_now_ns(&self, clock: TimerClock, machine: &dyn Machine) -> u64 {
        match clock {
            TimerClock::Real | TimerClock::Monotonic => machine.clock_ns(),
            TimerClock::Process(id) => self.processes.get(id).map_or(0, |process| {
                machine.duration_ns(self.usage(process, machine).retired)
            }),
            TimerClock::Thread(id) => self.threads.get(&id).map_or(0, |thread| {
                machine.duration_ns(thread.retired_by_now(machine))
            }),
        }
    }

    /// The earliest time at which a timer of the virtual clock is due.
    pub(crate) fn next_timer_ns(&self) -> Option<u64> {
        self.next_timer_where(|_, _| true)
    }

    /// The earliest time at which one is due that makes a difference while no thread runs.
    pub(crate) fn next_change_by_timer_ns(&self) -> Option<u64> {
        self.next_timer_where(|process, timer| {
            let notice = timer.notice;
            notice.is_some_and(|notice| self.would_matter(notice.target(process), notice.signal))
        })
    }

    fn next_timer_where(&self, counts: impl Fn(ProcessId, &PosixTimer) -> bool) -> Option<u64> {
        let posix = self.rare.timers.posix.iter();
        let posix = posix
            .filter(|(key, timer)| timer.is_running_on_the_clock() && counts(key.0, timer))
            .map(|(_, timer)| timer);
        let files = self.open.timer_files.iter();
        let files = files.filter(|(_, timer)| !timer.expired);
        let posix = posix.filter_map(|timer| timer.due_ns);
        posix
            .chain(files.filter_map(|(_, timer)| timer.due_ns))
            .min()
    }

    /// Lets the timers of the virtual clock expire that are due.
    pub(crate) fn expire_timers(&mut self, now_ns: u64) {
        let mut any = false;
        for (_, timer) in self.open.timer_files.iter_mut() {
            if !timer.expired && timer.due_ns.is_some_and(|due| due <= now_ns) {
                timer.expired = true;
                timer.activity += 1;
                any = true;
            }
        }
        if any {
            self.wake_all_file_waiters();
        }
        let posix = self.rare.timers.posix.iter();
        let due = posix.filter(|(_, timer)| {
            timer.is_running_on_the_clock() && timer.due_ns.is_some_and(|due| due <= now_ns)
        });
        let due: Vec<(ProcessId, u32)> = due.map(|(&key, _)| key).collect();
        for key in due {
            self.expire_posix(key, now_ns);
        }
    }

    /// Lets the timers of CPU time expire that are due.
    pub(crate) fn expire_cpu_timers(&mut self, machine: &dyn Machine) {
        if self.rare.timers.is_empty() {
            return;
        }
        let posix = self.rare.timers.posix.iter();
        let due = posix.filter_map(|(&key, timer)| {
            if timer.waits || !timer.clock.counts_cpu_time() {
                return None;
            }
            let now = self.timer_now_ns(timer.clock, machine);
            timer.due_ns.filter(|&due| due <= now).map(|_| (key, now))
        });
        let due: Vec<((ProcessId, u32), u64)> = due.collect();
        for (key, now_ns) in due {
            self.expire_posix(key, now_ns);
        }
        let intervals: Vec<(ProcessId, u8)> = self.rare.timers.intervals.keys().copied().collect();
        for key in intervals {
            let now = self.timer_now_ns(TimerClock::Process(key.0), machine);
            let Some(timer) = self.rare.timers.intervals.get_mut(&key) else {
                continue;
            };
            let Some(due) = timer.due_ns.filter(|&due| due <= now) else {
                continue;
            };
            timer.due_ns = expirations(due, timer.interval_ns, now).1;
            if timer.due_ns.is_none() {
                self.rare.timers.intervals.remove(&key);
            }
            self.send_signal(Target::Process(key.0), SignalInfo::kernel(key.1));
        }
    }

    fn expire_posix(&mut self, key: (ProcessId, u32), now_ns: u64) {
        let Some(timer) = self.rare.timers.posix.get_mut(&key) else {
            return;
        };
        let due = timer.due_ns.unwrap_or(now_ns);
        let Some(notice) = timer.notice else {
            timer.due_ns = expirations(due, timer.interval_ns, now_ns).1;
            return;
        };
        timer.waits = true;
        let info = SignalInfo {
            signal: notice.signal,
            code: SI_TIMER,
            words: [u64::from(key.1), notice.value],
        };
        self.send_signal(notice.target(key.0), info);
        let pending = self.processes.get(key.0).is_some_and(|process| {
            let threads = self.threads.values();
            let of_threads = threads.filter(|thread| thread.process == key.0);
            let mut all = of_threads
                .flat_map(|thread| &thread.pending)
                .chain(&process.pending);
            all.any(|found| *found == info)
        });
        if !pending && let Some(timer) = self.rare.timers.posix.get_mut(&key) {
            // Nobody wants the signal, or one of its kind waits already.
            timer.waits = false;
            timer.due_ns = expirations(due, timer.interval_ns, now_ns).1;
        }
    }

    /// A timer's signal is taken: it goes on, and the signal says how often it had expired.
    pub(crate) fn timer_signal_taken(
        &mut self,
        process: ProcessId,
        info: &mut SignalInfo,
        machine: &dyn Machine,
    ) {
        if info.code != SI_TIMER {
            return;
        }
        let key = (process, info.words[0] as u32);
        let Some(timer) = self.rare.timers.posix.get(&key).filter(|t| t.waits) else {
            return;
        };
        let now = self.timer_now_ns(timer.clock, machine);
        let due = timer.due_ns.unwrap_or(now);
        let (count, next) = expirations(due, timer.interval_ns, now.max(due));
        let overruns = count.saturating_sub(1).min(i32::MAX as u64);
        info.words[0] = u64::from(key.1) | overruns << 32;
        if let Some(timer) = self.rare.timers.posix.get_mut(&key) {
            timer.waits = false;
            timer.overruns = overruns as u32;
            timer.due_ns = next;
        }
    }

    /// The timers that `timer_create` made for a process are gone.
    pub(crate) fn forget_timers(&mut self, process: ProcessId) {
        self.rare.timers.posix.retain(|key, _| key.0 != process);
    }

    /// The timers of CPU time are gone, too.
    pub(crate) fn forget_all_timers(&mut self, process: ProcessId) {
        self.forget_timers(process);
        self.rare.timers.intervals.retain(|key, _| key.0 != process);
    }

    /// Timers belong to live processes and send signals that exist; files that are timers have one.
    pub(crate) fn validate_timers(&self) -> Result<(), &'static str> {
        let alive = |id: ProcessId| self.processes.get(id).is_some();
        for (key, timer) in &self.rare.timers.posix {
            let signal = timer.notice.map_or(1, |notice| notice.signal);
            if !alive(key.0) || !(1..=SIGNAL_MAX).contains(&signal) || key.1 > i32::MAX as u32 {
                return Err("a timer is impossible");
            }
        }
        for key in self.rare.timers.intervals.keys() {
            if !alive(key.0) || !matches!(key.1, SIGVTALRM | SIGPROF) {
                return Err("a timer of CPU time is impossible");
            }
        }
        for (_, file) in self.open.files.iter() {
            let exists = match file.object {
                Object::Timer(id) => self.open.timer_files.get(id).is_some(),
                Object::Signals(id) => self.open.signal_files.get(id).is_some(),
                _ => true,
            };
            if !exists {
                return Err("an open timer or signal file does not exist");
            }
        }
        Ok(())
    }
}
