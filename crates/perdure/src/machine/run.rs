//! The run loop: whose turn it is, how far it goes, and what fires before it.
//!
//! Always true here:
//! - The order of things is the same on every run: the hart with the smallest local clock takes a turn
//!   until it passes the next one by the lookahead; ties go to the lower number; a timed event fires
//!   before any hart passes its time.
//! - A pause (for a power cut, or to report progress) never changes this order: a turn that was
//!   interrupted goes on as if it had not been.

use perdure_designs::Urgency;
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;
use perdure_linux::Running;

use super::output::spool_failed;
use super::{HartState, Machine, Pause, Turn, statistics_of};
use crate::error::Error;
use crate::port::{Door, Limits};
use crate::source::{Exit, Source};
use crate::virtual_clock::VirtualClock;

impl<S: Source> Machine<S> {
    /// Runs until everything up to `until` has happened, or an epoch ended, or the end.
    pub fn run(&mut self, until: Cycles) -> Result<Pause, Error> {
        self.runnable.known = false;
        loop {
            if let Some(pause) = self.next_round(until)? {
                return Ok(pause);
            }
        }
    }

    /// One round of that, for who may have changed anything since the last one.
    pub(crate) fn round(&mut self, until: Cycles) -> Result<Option<Pause>, Error> {
        self.runnable.known = false;
        self.next_round(until)
    }

    /// The next thing happens, whatever it is, unless the machine pauses.
    #[inline]
    fn next_round(&mut self, until: Cycles) -> Result<Option<Pause>, Error> {
        // Whatever happens may let harts run or stop them, unless it says that it did not.
        let known = std::mem::take(&mut self.runnable.known);
        self.check_failures()?;
        if self.finished {
            return Ok(Some(Pause::Finished));
        }
        if let Some((hart, urgency)) = self.epoch_due
            && self.can_end_epoch()
        {
            if self.clock(hart) > until {
                return Ok(Some(Pause::Time));
            }
            self.epoch_due = None;
            let ended = self.end_epoch(hart, urgency)?;
            return Ok(Some(Pause::EpochEnded(ended)));
        }
        if let Some(turn) = self.turn {
            if self.clock(turn.hart) > until {
                return Ok(Some(Pause::Time));
            }
            self.go_on(turn, until, known);
            return Ok(None);
        }
        let next = self.next_hart(known);
        let event_time = self.hardware.next_event_time();
        let hart_time = next.map_or(Cycles::MAX, |(_, time, _)| time);
        let (wake_time, change_ns) = match next {
            Some(_) => (Cycles::MAX, 0),
            None => match self.idle_until()? {
                Some(idle) => idle,
                None => return Ok(None),
            },
        };
        let first = event_time.min(hart_time).min(wake_time);
        if first == Cycles::MAX {
            return Err(self.stands_still());
        }
        if first > until {
            return Ok(Some(Pause::Time));
        }
        if first == wake_time {
            self.skip_idle_time(wake_time, change_ns);
            return Ok(None);
        }
        if event_time <= hart_time {
            self.hardware
                .memory
                .forget_until(event_time.saturating_sub(1));
            self.fire(event_time);
            return Ok(None);
        }
        let (hart, time, limit) = next.expect("a hart has the smallest time");
        self.hardware.memory.forget_until(time.saturating_sub(1));
        self.runnable.known = !self.wake_sleepers(hart);
        if self.lengths.may_change() {
            let hit = std::mem::take(&mut self.watch.hit);
            self.lengths.look(self.retired(), hit);
        }
        // A store takes a cycle at least, so a turn cannot pass the epoch's last one by much.
        let epoch_end = time.saturating_add(self.stores_left(hart).max(1));
        self.turn = Some(Turn {
            hart,
            limit: limit.min(self.harts[hart].slice_end).min(epoch_end),
        });
        Ok(None)
    }

    /// What has gone wrong since the last round.
    #[inline]
    fn check_failures(&mut self) -> Result<(), Error> {
        if let Some(breach) = self.hardware.breach.take() {
            return Err(Error::Contract {
                design: self.facts().name,
                message: breach.0,
            });
        }
        if let Some(failure) = self.hardware.failure.take() {
            return Err(Error::Design {
                design: self.facts().name,
                message: failure.0,
            });
        }
        if let Some(failure) = self.outside.failure.take() {
            return Err(spool_failed(std::io::Error::other(failure)));
        }
        Ok(())
    }

    /// The runnable hart with the smallest clock, that clock, and how far its turn may go.
    fn next_hart(&mut self, known: bool) -> Option<(usize, Cycles, Cycles)> {
        if self.epoch_due.is_some() || self.ended.is_some() {
            return None;
        }
        if !known {
            self.runnable.look(&self.harts);
        }
        // Once a turn, all harts are looked at, so in few steps. Who cannot run is as one that is never due.
        let (mut first, mut time, mut second) = (0, Cycles::MAX, Cycles::MAX);
        let harts = self.runnable.retired(&self.harts);
        for (hart, (retired, core)) in harts.zip(&self.hardware.cores).enumerate() {
            let own = retired.map_or(Cycles::MAX, |retired| core.timing.now(retired));
            second = second.min(own.max(time));
            if own < time {
                (first, time) = (hart, own);
            }
        }
        let lookahead = self.configuration.scheduling.lookahead_cycles;
        // Of harts whose clocks are equal, one goes first, also where nobody may run ahead.
        let limit = second.saturating_add(lookahead.max(u64::from(second == time)));
        (time < Cycles::MAX).then_some((first, time, limit))
    }

    /// Continues a turn: a pending exit first, then the source, until the turn is over.
    fn go_on(&mut self, turn: Turn, until: Cycles, known: bool) {
        if let Some(exit) = self.harts[turn.hart].pending.take() {
            self.handle(turn.hart, exit);
            return self.let_others_catch_up(turn.hart);
        }
        if self.is_over(turn) {
            self.runnable.known = known;
            return self.end_turn();
        }
        self.see_mappings(turn.hart);
        let exit = self.run_source(turn, until);
        if self.hardware.memory.draws() {
            self.hardware.draw_windows();
        }
        self.count(turn.hart);
        if exit == Exit::Limit {
            self.runnable.known = known;
            self.runnable
                .went_on(turn.hart, self.harts[turn.hart].context.hart.retired);
            self.check_instruction_limits(turn.hart);
        } else {
            self.harts[turn.hart].pending = Some(exit);
        }
        self.let_others_catch_up(turn.hart);
    }

    /// Whether a turn is over, its hart being at the beginning of a block.
    pub(super) fn is_over(&self, turn: Turn) -> bool {
        let now = self.clock(turn.hart);
        now >= turn.limit
            || self.hardware.next_event_time() <= now
            || self.epoch_due.is_some()
            || self.harts[turn.hart].context.running.is_none()
    }

    /// Ends the turn of a hart that has waited for bytes to be durable and is ahead of others by now, so that
    /// none of them sees what it does next before those bytes are safe.
    fn let_others_catch_up(&mut self, hart: usize) {
        if std::mem::take(&mut self.hardware.cores[hart].waited)
            && self
                .clocks_of_others(hart)
                .any(|clock| clock < self.clock(hart))
        {
            self.end_turn();
        }
    }

    /// The clocks of the other harts that have something to run.
    fn clocks_of_others(&self, hart: usize) -> impl Iterator<Item = Cycles> {
        let harts = self.harts.iter().enumerate();
        let others = harts.filter(move |(other, state)| *other != hart && state.can_run());
        others.map(|(other, _)| self.clock(other))
    }

    /// Ends the turn that is under way, if one is. Whoever has moved a hart's clock does so, for the turn
    /// began with another.
    pub(crate) fn end_turn(&mut self) {
        let Some(Turn { hart, .. }) = self.turn.take() else {
            return;
        };
        if self.stores_left(hart) == 0 && self.epoch_due.is_none() {
            self.epoch_due = Some((hart, Urgency::Routine));
        }
        if self.clock(hart) >= self.harts[hart].slice_end {
            self.runnable.known = false;
            self.end_slice(hart);
        }
    }

    pub(super) fn run_source(&mut self, turn: Turn, until: Cycles) -> Exit {
        self.order_of(Some(turn.hart));
        let epoch_end = match self.lengths.instructions {
            0 => u64::MAX,
            instructions => self.harts[turn.hart].epoch_start + instructions,
        };
        let stop = self.retired_at_stop(turn.hart);
        let alone = self.clocks_of_others(turn.hart).next().is_none();
        let own = self.clock_without_others(turn.hart);
        let (before, rest) = self.harts.split_at_mut(turn.hart);
        let (state, after) = rest.split_first_mut().expect("the hart exists");
        let others = before.iter().chain(&*after);
        let clock = |retired| with_others(own, others.clone()).nanoseconds(retired);
        let Running { space, program, .. } = state
            .context
            .running
            .expect("a hart in its turn runs a thread");
        let region = self.meter.left(program as usize);
        let limits = Limits {
            time: turn.limit.min(until.saturating_add(1)),
            instructions: epoch_end
                .min(stop)
                .min(state.counted.saturating_add(region)),
            among_others: !alone || self.is_disturbed,
        };
        let door = Door {
            hardware: &mut self.hardware,
            design: &mut *self.design,
            kernel: &self.kernel,
            walked: &mut state.walked,
            watch: &mut self.watch,
            hart: turn.hart,
            space,
            limits,
            clock: &clock,
            listener: self.listener.0.as_deref_mut(),
        };
        state.source.run(&mut state.context.hart, door)
    }

    /// How many instructions a hart will have retired when the run stops, if it runs alone until then.
    fn retired_at_stop(&self, hart: usize) -> u64 {
        match self.stop_after {
            u64::MAX => u64::MAX,
            all => all.saturating_sub(self.retired() - self.harts[hart].context.hart.retired),
        }
    }

    /// Counts what a hart has retired for the program that it runs.
    fn count(&mut self, hart: usize) {
        let state = &mut self.harts[hart];
        let retired = state.context.hart.retired;
        if let Some(running) = state.context.running {
            self.meter.retired[running.program as usize] += retired - state.counted;
        }
        state.counted = retired;
        self.look_at_region(self.clock(hart));
    }

    pub(super) fn look_at_region(&mut self, now: Cycles) {
        let (reports, repeats) = (self.kernel.program_reports(), self.repeats);
        let finished = |program: usize| !repeats && reports[program].exit.is_some();
        let (hardware, design) = (&self.hardware, &*self.design);
        let had_begun = self.meter.has_begun();
        if self
            .meter
            .look(now, finished, || statistics_of(hardware, design))
        {
            self.finished = true;
        }
        if self.meter.has_begun() != had_begun {
            self.draw_from(now);
        }
    }

    /// What a hart runs now. Whatever is remembered by virtual address is of one space.
    pub(super) fn adopt(&mut self, hart: usize, running: Option<Running>) {
        let state = &mut self.harts[hart];
        state.context.running = running;
        self.draw_hart(hart);
        let Some(Running { space, .. }) = running else {
            return;
        };
        let state = &mut self.harts[hart];
        if state.space.replace(space) != Some(space) {
            state.source.forget();
            self.hardware.cores[hart].lookaside.kill_all();
        }
        self.tell_thread(hart);
    }

    /// Which thread every hart that has one runs, for a trace that begins now.
    pub fn trace_threads(&self) -> Vec<Traced> {
        let running = self.harts.iter().enumerate();
        let ran = running.filter_map(|(hart, state)| {
            let thread = state.thread?.0;
            Some(Traced::Ran { hart, thread })
        });
        ran.collect()
    }

    /// The design hears of it if another thread begins to run on a hart.
    pub(super) fn tell_thread(&mut self, hart: usize) {
        let state = &mut self.harts[hart];
        let Some(Running { thread, .. }) = state.context.running else {
            return;
        };
        if state.thread.replace(thread) == Some(thread) {
            return;
        }
        if let Some(trace) = &mut self.hardware.memory.trace {
            let thread = thread.0;
            trace.push(Traced::Ran { hart, thread });
        }
        self.hardware.hear_loads_again(hart);
        let now = self.clock(hart);
        let design = &mut self.design;
        let ready = (self.hardware).asking("thread_runs", now, |hardware| {
            design.thread_runs(hardware, hart, thread.0, now)
        });
        (self.hardware.cores[hart].timing).stand_still_until(now, ready);
    }

    /// Stores that a hart may still make in this epoch, if the others make none.
    fn stores_left(&self, hart: usize) -> u64 {
        match self.lengths.stores {
            0 => u64::MAX,
            stores => {
                let harts = if self.counts_all {
                    0..self.harts.len()
                } else {
                    hart..hart + 1
                };
                let made = |hart: usize| {
                    self.hardware.cores[hart].stores - self.harts[hart].epoch_start_stores
                };
                stores.saturating_sub(harts.map(made).sum())
            }
        }
    }

    fn check_instruction_limits(&mut self, hart: usize) {
        if self.stop_after < u64::MAX && self.retired() >= self.stop_after {
            self.finished = true;
            return;
        }
        let length = self.lengths.instructions;
        let state = &self.harts[hart];
        if length > 0 && state.context.hart.retired - state.epoch_start >= length {
            self.epoch_due = Some((hart, Urgency::Routine));
        }
    }

    pub(super) fn virtual_clock(&self, hart: usize) -> VirtualClock {
        let others = self.harts[..hart].iter().chain(&self.harts[hart + 1..]);
        with_others(self.clock_without_others(hart), others)
    }

    /// What a hart's virtual clock is by itself.
    fn clock_without_others(&self, hart: usize) -> VirtualClock {
        VirtualClock {
            others: 0,
            idle: self.harts[hart].context.idle,
            skipped_ns: self.skipped_ns,
            instructions_per_us: self.configuration.specification.core.frequency_mhz,
        }
    }
}

/// A hart's virtual clock beside those others.
fn with_others<'h, S: 'h>(
    clock: VirtualClock,
    others: impl Iterator<Item = &'h HartState<S>>,
) -> VirtualClock {
    let progress = others.map(|other| other.context.progress());
    VirtualClock {
        others: progress.max().unwrap_or(0),
        ..clock
    }
}
