//! Going backward: the last place before the position where somebody would have wanted to stop.
//!
//! Always true here: the past is run again, from a copy of the machine, as often as it takes; what is found
//! there is what going forward would have found.

use std::sync::Arc;

use super::forward::{Goal, STRIDE, Stop};
use super::head::{Head, Met, NEVER, Reach, Round};
use super::session::{Poll, Position, Session};
use super::view;
use crate::error::Error;
use crate::machine::{Next, Pause};
use crate::stepping::{Hit, Stops};

/// Places of a stretch that are remembered: the last is wanted, and the others if it was none.
const REMEMBERED: usize = 16;

/// A place where somebody may have wanted to stop: before what happened at a moment, or behind it if a watch
/// point has met that.
#[derive(Clone, Copy, Debug)]
struct Place {
    moment: u64,
    thread: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Breakpoint(u64),
    Watch(Hit),
    Step,
}

/// The last places of a stretch of time.
#[derive(Default)]
struct Places(Vec<Place>);

impl Places {
    /// Adds one where it belongs: they are met in another order than they lie in time.
    fn add(&mut self, moment: u64, thread: u32, what: What) {
        let key = |place: &Place| (place.moment, matches!(place.what, What::Watch(_)));
        let place = Place {
            moment,
            thread,
            what,
        };
        let at = self.0.partition_point(|one| key(one) <= key(&place));
        self.0.insert(at, place);
        if self.0.len() > REMEMBERED {
            self.0.remove(0);
        }
    }
}

impl Session {
    /// Goes backward. A range is for going forward alone, and is not looked at.
    pub fn retreat(&mut self, goal: Goal, poll: Poll) -> Result<Stop, Error> {
        self.keep_reported(true);
        if let Some(stop) = self.step_over_access(goal, true)? {
            return Ok(stop);
        }
        let began = self.position();
        let mut places = self.places_in_block(goal);
        if let Some(stop) = self.try_places(began.life, &mut places)? {
            return Ok(stop);
        }
        let (mut life, mut end) = (began.life, self.head.moment());
        loop {
            for start in self.copies_before(life, end) {
                let Some(mut places) = self.places_between(life, (start, end), goal, poll)? else {
                    self.go(began)?;
                    return Ok(Stop::Interrupted);
                };
                if let Some(stop) = self.try_places(life, &mut places)? {
                    return Ok(stop);
                }
                end = start;
            }
            if life == 0 {
                let moment = self.lives[0].start();
                self.go(Position { life, moment })?;
                return Ok(Stop::HistoryBegins);
            }
            life -= 1;
            let last = self.lives[life].end.as_ref().map(|(moment, _)| *moment);
            end = last.ok_or_else(|| Error::Defect("a life that has not ended".into()))?;
        }
    }

    /// Goes to the last of some places that is one.
    fn try_places(&mut self, life: usize, places: &mut Places) -> Result<Option<Stop>, Error> {
        while let Some(Place {
            moment,
            thread,
            what,
        }) = places.0.pop()
        {
            let back = self.position();
            if let What::Watch(hit) = what {
                let met = Met {
                    moment,
                    thread,
                    hit,
                };
                let moment = moment + 1;
                self.go(Position { life, moment })?;
                let stop = self.watch_stop(life, met);
                self.choose_thread();
                return Ok(Some(stop));
            }
            self.go(Position { life, moment })?;
            let pc = view::pc_of(self.machine(), thread);
            let stop = match what {
                // An instruction before it in its block may have stopped the hart.
                What::Breakpoint(address) if pc != Some(address) => {
                    self.go(back)?;
                    continue;
                }
                What::Breakpoint(_) => Stop::Breakpoint,
                What::Watch(_) | What::Step => Stop::Stepped,
            };
            self.thread = thread;
            self.choose_thread();
            return Ok(Some(stop));
        }
        Ok(None)
    }

    /// Places in the position's block before it.
    fn places_in_block(&mut self, goal: Goal) -> Places {
        let mut places = Places::default();
        let Next::Instructions { hart } = self.head.machine.next() else {
            return places;
        };
        let Some(running) = self.head.machine.running(hart) else {
            return places;
        };
        let (thread, inside, first) = (running.thread.0, self.inside, self.head.moment());
        if let Goal::Step { thread: one, .. } = goal
            && one == thread
            && inside > 0
        {
            places.add(first + inside - 1, thread, What::Step);
        }
        if inside == 0 || !self.is_debugged(thread) {
            return places;
        }
        let stops = self.stops.clone();
        self.head.look_for(&stops);
        for (index, hit) in self.head.inside(inside).2 {
            if index < inside && !self.is_reported(self.life, first + index) {
                places.add(first + index, thread, What::Watch(hit));
            }
        }
        if goal == Goal::Stop {
            let pc = self.head.machine.registers(hart).pc;
            let addresses = view::block(&self.head.machine, running.space, pc);
            for (moment, address) in (first..first + inside).zip(addresses) {
                if stops.breakpoints.contains(&address) {
                    places.add(moment, thread, What::Breakpoint(address));
                }
            }
        }
        places
    }

    /// Places of a life from one copy's moment up to another, unless somebody interrupts it.
    fn places_between(
        &mut self,
        life: usize,
        (start, end): (u64, u64),
        goal: Goal,
        poll: Poll,
    ) -> Result<Option<Places>, Error> {
        let mut places = Places::default();
        let mut head = self.nearest(life, start)?;
        if goal == Goal::Stop {
            head.look_for(&self.stops);
        } else if !self.stops.watches.is_empty() {
            let watches = self.stops.watches.clone();
            head.look_for(&Arc::new(Stops {
                watches,
                ..Stops::default()
            }));
        }
        let mut passes = false;
        let mut looked = start;
        while head.moment() < end {
            let moment = head.moment();
            if moment >= looked {
                if poll() {
                    return Ok(None);
                }
                // Copies at a quarter of what is left: the next way back is a short one.
                looked = end - (end - moment) * 3 / 4;
                looked = looked.clamp(moment + 1024, moment + STRIDE);
                if life == self.life && moment > start && end - moment < STRIDE {
                    self.keep_near(&head);
                }
            }
            let mut before = None;
            if let (Goal::Step { thread, .. }, Next::Handling { fault: true, .. }) =
                (goal, head.machine.next())
            {
                before = view::pc_of(&head.machine, thread);
            }
            let reach = Reach {
                until: NEVER,
                moment: looked.min(end),
                passes,
            };
            let round = head.round(reach)?;
            passes = round.refused;
            for met in round.hits.iter().filter(|met| met.moment < end) {
                if self.runs_program(&head.machine, met.thread)
                    && !self.is_reported(life, met.moment)
                {
                    places.add(met.moment, met.thread, What::Watch(met.hit));
                }
            }
            match goal {
                Goal::Stop => self.note_breakpoints(&head, &round, end, &mut places),
                Goal::Step { thread, .. } if round.thread == thread => {
                    let after = view::pc_of(&head.machine, thread);
                    if head.moment() > round.before && (before.is_none() || before != after) {
                        places.add(head.moment().min(end) - 1, thread, What::Step);
                    }
                }
                Goal::Step { .. } => {}
            }
            if round.pause == Some(Pause::Finished) {
                break;
            }
        }
        Ok(Some(places))
    }

    /// Breakpoints of the block that a round came back before.
    fn note_breakpoints(&self, head: &Head, round: &Round, end: u64, places: &mut Places) {
        let (thread, machine) = (round.thread, &head.machine);
        if !round.refused || !self.runs_program(machine, thread) {
            return;
        }
        let Next::Instructions { hart } = round.did else {
            return;
        };
        let Some(running) = machine.running(hart) else {
            return;
        };
        let first = head.moment();
        let addresses = view::block(machine, running.space, machine.registers(hart).pc);
        for (moment, address) in (first..end).zip(addresses) {
            if self.stops.breakpoints.contains(&address) {
                places.add(moment, thread, What::Breakpoint(address));
            }
        }
    }
}
