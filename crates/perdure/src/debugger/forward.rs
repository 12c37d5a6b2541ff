//! Going forward: to the next place where somebody wants to look.
//!
//! Always true here: the machine runs as fast as it can until a block may hold a place to stop; then that
//! block is looked at instruction by instruction, on a copy.

use super::head::{Head, Met, NEVER, Reach, Round};
use super::life::End;
use super::session::{Poll, Position, Session};
use super::view;
use crate::error::Error;
use crate::machine::{Next, Pause};
use crate::stepping::Touch;

/// How far the machine runs between two looks at whoever may interrupt it, in moments.
pub(super) const STRIDE: u64 = 1 << 21;
/// The same where watch points are set: what is run again when one is met.
const WATCHED_STRIDE: u64 = 1 << 18;

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// To the next stop.
    Stop,
    /// Until a thread has executed an instruction, and is outside of a range of addresses if there is one.
    Step {
        thread: u32,
        range: Option<(u64, u64)>,
    },
}

/// Why going ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Before the instruction at a breakpoint.
    Breakpoint,
    /// A watched address is touched next: going forward before that, going back behind it.
    Watch { address: u64, touch: Touch },
    /// A thread has made its step.
    Stepped,
    /// Somebody wanted it.
    Interrupted,
    /// The power fails next.
    PowerFails,
    /// Nothing is before this.
    HistoryBegins,
    /// The programs end next, or the machine cannot go on, as the words say.
    HistoryEnds(String),
    /// The programs have ended with this status, and perhaps by this signal.
    Exited(i32, Option<u8>),
}

impl Session {
    /// Goes forward.
    pub fn advance(&mut self, goal: Goal, poll: Poll) -> Result<Stop, Error> {
        self.keep_reported(false);
        self.passed = None;
        if let [one] = self.only[..]
            && view::pc_of(self.machine(), one).is_some()
        {
            self.thread = one;
        }
        if let Some(stop) = self.step_over_access(goal, false)? {
            return Ok(stop);
        }
        if let Some(stop) = self.leave_end()? {
            return Ok(stop);
        }
        let stops = self.stops.clone();
        self.head.look_for(&stops);
        let stop = self.look(goal, poll);
        match stop {
            Err(error @ Error::Host { .. }) => Err(error),
            // What is wrong with the machine or the program is the end of this history.
            Err(error) => {
                let words = error.to_string();
                let moment = self.head.moment();
                let head = self.head.clone();
                self.stand(head);
                self.lives[self.life].ends(moment, End::Failed(words.clone()), moment);
                Ok(Stop::HistoryEnds(words))
            }
            Ok(stop) => {
                self.choose_thread();
                Ok(stop)
            }
        }
    }

    /// At the end of a life, what comes next: the end of the programs, or the next life.
    fn leave_end(&mut self) -> Result<Option<Stop>, Error> {
        let at = self.position();
        if self.last_moment(at.life) != Some(at.moment) {
            return Ok(None);
        }
        let end = self.lives[at.life].end.clone().map(|(_, end)| end);
        match end {
            Some(End::Finished(ended)) => {
                let (status, signal) = ended.map_or((0, None), |ended| {
                    let fatal = ended.report.fatal.map(|fatal| fatal.signal);
                    (ended.report.status, fatal)
                });
                Ok(Some(Stop::Exited(status, signal)))
            }
            Some(End::Failed(words)) => Ok(Some(Stop::HistoryEnds(words))),
            Some(End::Cut(_)) => match self.enter_next_life() {
                Ok(_) => Ok(None),
                // There is no life behind this cut: the past is still there.
                Err(Error::Request(words)) => Ok(Some(Stop::HistoryEnds(words))),
                Err(error) => Err(error),
            },
            None => Ok(None),
        }
    }

    fn look(&mut self, goal: Goal, poll: Poll) -> Result<Stop, Error> {
        let began = match goal {
            Goal::Step { thread, .. } => view::pc_of(self.machine(), thread),
            Goal::Stop => None,
        };
        let watches = !self.stops.watches.is_empty();
        let stride = if watches { WATCHED_STRIDE } else { STRIDE };
        let own = self.thread;
        let mut looked = 0;
        let mut before: Option<Head> = None;
        // Whoever stands at a breakpoint has seen it.
        let (mut first, mut closely) = (true, false);
        loop {
            let moment = self.head.moment();
            if moment >= looked {
                if poll() {
                    return Ok(Stop::Interrupted);
                }
                looked = moment + stride;
                before = (watches && self.inside == 0).then(|| self.head.clone());
                if self.inside == 0 {
                    self.lives[self.life].keep(&self.head);
                }
            }
            let mut close = None;
            if let Next::Instructions { hart } = self.head.machine.next() {
                let thread = self.head.machine.running(hart).map(|one| one.thread.0);
                let steps = matches!(goal, Goal::Step { thread: one, .. } if Some(one) == thread);
                let seen = first && thread == Some(own);
                if steps || closely || self.inside > 0 || seen {
                    if let Some(stop) = self.look_at_block(hart, goal, seen) {
                        return Ok(stop);
                    }
                    first &= !seen;
                    close = Some(self.inside);
                    self.stand_inside(0);
                }
            }
            closely = false;
            let planned = self.lives[self.life].planned;
            let reach = Reach {
                until: planned.map_or(NEVER, |cut| cut.cycle),
                moment: if close.is_some() { moment + 1 } else { looked },
                passes: close.is_some(),
            };
            let round = self.head.round(reach)?;
            closely |= round.refused;
            if let Some(stop) = self.after(&round, (goal, began), close, before.as_ref())? {
                return Ok(stop);
            }
        }
    }

    /// What a round came to, if that is a stop. `close` says that it was a block that had been looked at from
    /// there on.
    fn after(
        &mut self,
        round: &Round,
        (goal, began): (Goal, Option<u64>),
        close: Option<u64>,
        before: Option<&Head>,
    ) -> Result<Option<Stop>, Error> {
        let from = round.before + close.unwrap_or(0);
        let life = self.life;
        let wanted = |met: &&Met| {
            met.moment >= from && self.may_stop(met.thread) && !self.is_reported(life, met.moment)
        };
        if let Some(&met) = round.hits.iter().find(wanted) {
            let moment = met.moment;
            if let Some(before) = before.filter(|head| head.moment() <= moment) {
                self.head = before.clone();
            }
            self.go(Position { life, moment })?;
            return Ok(Some(self.watch_stop(life, met)));
        }
        match round.pause {
            Some(Pause::Finished) => return self.finished().map(Some),
            Some(Pause::Time) => {
                let planned = self.lives[self.life].planned;
                let moment = self.head.moment();
                if let Some(cut) = planned {
                    self.lives[self.life].ends(moment, End::Cut(cut), moment);
                }
                return Ok(Some(Stop::PowerFails));
            }
            _ => {}
        }
        let Goal::Step { thread, range } = goal else {
            return Ok(self.has_arrived(round));
        };
        let Some(pc) = view::pc_of(&self.head.machine, thread) else {
            return Ok(None); // It is gone: the others go on.
        };
        let executed = round.thread == thread && close.is_some() && self.head.moment() > from;
        let outside = range.is_none_or(|(start, end)| !(start..end).contains(&pc));
        let stepped = (executed || Some(pc) != began) && outside;
        if stepped {
            self.thread = thread;
        }
        Ok(stepped.then_some(Stop::Stepped))
    }

    /// Whether the only thread that the client lets go on has come to a breakpoint in a round: gdb steps one
    /// over a breakpoint like this. Nobody stops for the others meanwhile, so they are not waited for.
    fn has_arrived(&mut self, round: &Round) -> Option<Stop> {
        let Next::Instructions { hart } = round.did else {
            return None;
        };
        let running = self.head.machine.running(hart)?;
        let pc = self.head.machine.registers(hart).pc;
        let alone = self.only == [round.thread] && running.thread.0 == round.thread;
        let arrived = alone
            && self.head.moment() > round.before
            && self.may_stop(round.thread)
            && self.stops.breakpoints.contains(&pc);
        if arrived {
            self.thread = round.thread;
        }
        arrived.then_some(Stop::Breakpoint)
    }

    /// The programs are over: stands where that can still be looked at.
    fn finished(&mut self) -> Result<Stop, Error> {
        let ended = self.head.machine.ended().cloned();
        let words = match &ended {
            Some(ended) => match &ended.report.fatal {
                Some(fatal) => format!("the program ends by {} next: {}", fatal.name, fatal.cause),
                None => format!("the program exits with status {} next", ended.report.status),
            },
            None => "the run stops here, as it was told to".into(),
        };
        let end = self.head.moment();
        let life = self.life;
        let moment = match &ended {
            // What was handled last was the end of the last program.
            Some(_) => self.head.last_entry,
            None => end,
        };
        self.lives[life].ends(end, End::Finished(ended), moment);
        self.go(Position { life, moment })?;
        Ok(Stop::HistoryEnds(words))
    }

    /// Looks at the block that a hart executes next, from where the position is inside it on.
    fn look_at_block(&mut self, hart: usize, goal: Goal, seen: bool) -> Option<Stop> {
        let running = self.head.machine.running(hart)?;
        let thread = running.thread.0;
        let pc = self.head.machine.registers(hart).pc;
        let addresses = view::block(&self.head.machine, running.space, pc);
        let hits = if self.stops.watches.is_empty() {
            Vec::new()
        } else {
            self.head.inside(u64::MAX).2
        };
        let (from, watched) = (self.inside, self.may_stop(thread));
        for (index, address) in (0..).zip(&addresses).skip(from as usize) {
            let stop = if index > from && steps_at(goal, thread, *address) {
                Some(Stop::Stepped)
            } else if watched
                && self.stops.breakpoints.contains(address)
                && !(seen && index == from)
            {
                Some(Stop::Breakpoint)
            } else {
                None
            };
            if !watched && self.stops.breakpoints.contains(address) {
                self.note_passed(hart, thread, *address);
            }
            if let Some(stop) = stop
                && self.stand_inside(index)
            {
                self.thread = thread;
                return Some(stop);
            }
            let (life, moment) = (self.life, self.head.moment() + index);
            let hit = hits.iter().find(|(at, _)| *at == index);
            if let Some(&(_, hit)) = hit
                && watched
                && !self.is_reported(life, moment)
                && self.stand_inside(index)
            {
                let met = Met {
                    moment,
                    thread,
                    hit,
                };
                return Some(self.watch_stop(life, met));
            }
        }
        None
    }
}

impl Session {
    /// A thread that may not stop meets a breakpoint: nobody waits for it, so the user hears of the first.
    fn note_passed(&mut self, hart: usize, thread: u32, address: u64) {
        if self.passed.is_none() && self.is_debugged(thread) {
            let (alone, cycle) = (self.only[0], self.head.machine.clock(hart));
            self.passed = Some(format!(
                "[perdure] thread {thread} has passed the breakpoint at {address:#x}, because thread {alone} is to go on alone, \
                 and no thread waits for another here: monitor goto {cycle} goes there"
            ));
        }
    }
}

/// Whether a thread's step ends before the instruction at an address.
fn steps_at(goal: Goal, thread: u32, address: u64) -> bool {
    match goal {
        Goal::Step { thread: one, range } => {
            one == thread && range.is_none_or(|(start, end)| !(start..end).contains(&address))
        }
        Goal::Stop => false,
    }
}
