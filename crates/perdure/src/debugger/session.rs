//! A session: a time line of lives, and the position on it that is looked at.
//!
//! Always true here:
//! - A position is a life and a moment in it. Going there and being there are the same state, however one
//!   came.
//! - The machine at the position's block stands at the beginning of that block; what is shown of the inside
//!   of a block is a copy that was run into it and never goes on.
//! - Nothing of what is looked at changes what happens. Only a cut that the user asks for does: what lay
//!   ahead of it is forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use perdure_hardware::time::Cycles;

use super::head::{Head, NEVER, Reach};
use super::life::{Cut, Life};
use super::output::Printer;
use super::view;
use super::watched::Access;
use crate::error::Error;
use crate::machine::{Machine, Next, Pause};
use crate::request::Prepared;
use crate::stepping::Stops;

/// A block has at most so many instructions, and a half more.
const BLOCK: u64 = 64;
/// Copies near the position that are kept beside those of the life.
const NEAR: usize = 24;

/// Where on the time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// The life, from 0.
    pub life: usize,
    /// The moment in it.
    pub moment: u64,
}

/// Asks whether somebody wants to interrupt what goes on.
pub(super) type Poll<'a> = &'a mut dyn FnMut() -> bool;

/// Whether the next instruction has already been tried, and stopped its hart: a core that is out of order has
/// waited for it by then, so what is shown is the state before that.
fn is_stopped(head: &mut Head) -> bool {
    matches!(head.machine.next(), Next::Handling { .. })
}

/// A session.
pub(super) struct Session {
    pub prepared: Prepared,
    pub bug: Option<&'static str>,
    pub lives: Vec<Life>,
    /// Cuts of later lives that are planned: which life, and the cut.
    pub plan: Vec<Cut>,
    pub life: usize,
    /// The machine at the beginning of the position's block.
    pub head: Head,
    /// So many instructions into that block.
    pub inside: u64,
    /// The machine there, if it is not at the block's beginning.
    shown: Option<Machine>,
    /// Copies near the position, of the same life.
    near: BTreeMap<u64, Head>,
    pub stops: Arc<Stops>,
    /// The threads that the client lets go on where these are not all: the others run, too, but stop nowhere.
    pub only: Vec<u32>,
    /// What the user should know of the first breakpoint that one of these others has passed.
    pub passed: Option<String>,
    /// The access that a watch point stopped at last, until that is of no interest.
    pub reported: Option<Access>,
    /// The thread that stopped last.
    pub thread: u32,
    /// The program that is debugged: what runs another one stops nowhere.
    pub program: String,
    /// By name, with the thread that was looked at.
    pub bookmarks: BTreeMap<String, (Position, u32)>,
    pub printer: Printer,
    /// Copies of a life that are kept at most.
    pub most: usize,
}

impl Session {
    /// One at the first instruction of a machine that has just booted.
    pub fn new(
        prepared: Prepared,
        bug: Option<&'static str>,
        mut plan: Vec<Cut>,
        most: usize,
        printer: Printer,
    ) -> Result<Self, Error> {
        let mut machine: Machine = prepared.boot(bug)?;
        machine.outside.forward = Some(printer.receiver());
        machine.outside.forgets = true;
        machine.keep_progress(0);
        let head = Head::new(machine);
        let mut life = Life::new(head.clone(), most, "boot".into());
        if !plan.is_empty() {
            life.planned = Some(plan.remove(0));
        }
        let mut session = Self {
            prepared,
            bug,
            lives: vec![life],
            plan,
            life: 0,
            head,
            inside: 0,
            shown: None,
            near: BTreeMap::new(),
            stops: Arc::default(),
            only: Vec::new(),
            passed: None,
            reported: None,
            thread: 0,
            program: String::new(),
            bookmarks: BTreeMap::new(),
            printer,
            most,
        };
        session.choose_thread();
        let executable = (session.machine().kernel()).executable_of_thread(session.thread);
        session.program = executable.unwrap_or_default().to_owned();
        Ok(session)
    }

    /// Whether a thread runs the program that is debugged.
    pub fn is_debugged(&self, thread: u32) -> bool {
        self.runs_program(&self.head.machine, thread)
    }

    /// Whether what a thread meets going forward is a stop: it is debugged, and the client has let it go on,
    /// or all that it has let go on are gone.
    pub fn may_stop(&self, thread: u32) -> bool {
        let lives = |one: &u32| view::pc_of(&self.head.machine, *one).is_some();
        self.is_debugged(thread)
            && (self.only.is_empty() || self.only.contains(&thread) || !self.only.iter().any(lives))
    }

    /// The same as [`Self::is_debugged`], in a machine at another time.
    pub fn runs_program(&self, machine: &Machine, thread: u32) -> bool {
        let executable = machine.kernel().executable_of_thread(thread);
        executable.is_some_and(|executable| executable == self.program)
    }

    /// The machine as it is at the position.
    pub fn machine(&self) -> &Machine {
        self.shown.as_ref().unwrap_or(&self.head.machine)
    }

    /// The position.
    pub fn position(&self) -> Position {
        Position {
            life: self.life,
            moment: self.head.moment() + self.inside,
        }
    }

    /// The time at the position: that of the thread's hart, else the latest.
    pub fn cycle(&self) -> Cycles {
        let machine = self.machine();
        let hart = view::hart_of(machine, self.thread);
        hart.map_or_else(|| machine.time(), |hart| machine.clock(hart))
    }

    /// The earliest cycle at which a power cut finds everything done that is done at the position: on other
    /// harts, time may be ahead.
    pub fn now(&self) -> Cycles {
        self.machine().time()
    }

    /// The thread that is shown is one that lives: the last one if it does, else one on a hart.
    pub fn choose_thread(&mut self) {
        if view::pc_of(self.machine(), self.thread).is_some() {
            return;
        }
        let running = self.machine().contexts().find_map(|hart| hart.running);
        let first = || {
            view::threads(self.machine())
                .first()
                .map(|(thread, _)| *thread)
        };
        let thread = running.map(|running| running.thread.0).or_else(first);
        self.thread = thread.unwrap_or(0);
    }

    /// Stands at the beginning of a block.
    pub fn stand(&mut self, head: Head) {
        self.head = head;
        (self.inside, self.shown) = (0, None);
    }

    /// Stands so many instructions inside the block that comes next; false, and nothing has changed, if that
    /// stops before.
    pub fn stand_inside(&mut self, instructions: u64) -> bool {
        if instructions == 0 {
            (self.inside, self.shown) = (0, None);
            return true;
        }
        let (shown, ran, _) = self.head.inside(instructions);
        if ran != instructions {
            return false;
        }
        (self.inside, self.shown) = (ran, Some(shown));
        true
    }

    /// A copy of the machine at a moment of a life or before it, that looks for nothing.
    pub fn nearest(&self, life: usize, moment: u64) -> Result<Head, Error> {
        let mut found = self.lives[life].before(moment);
        if life == self.life {
            let near = self.near.range(..=moment).next_back().map(|(_, head)| head);
            let own = (self.head.moment() <= moment).then_some(&self.head);
            let all = [found, near, own].into_iter().flatten();
            found = all.max_by_key(|head| head.moment());
        }
        let found = found.ok_or_else(|| Error::Defect("a life without a beginning".into()))?;
        let mut head = found.clone();
        head.look_for(&Arc::default());
        Ok(head)
    }

    /// Keeps a copy near the position.
    pub fn keep_near(&mut self, head: &Head) {
        let moment = head.moment();
        if self.near.contains_key(&moment) {
            return;
        }
        self.near.insert(moment, head.clone());
        while self.near.len() > NEAR {
            // What is furthest from where the user is now is of the least use.
            let first = self.near.keys().next().copied().unwrap_or_default();
            let last = self.near.keys().next_back().copied().unwrap_or_default();
            let gone = if moment.abs_diff(first) > moment.abs_diff(last) {
                first
            } else {
                last
            };
            self.near.remove(&gone);
        }
    }

    /// Moments of copies before one, the last first: those of the life, and those near the position.
    pub fn copies_before(&self, life: usize, moment: u64) -> Vec<u64> {
        let mut all: Vec<u64> = self.lives[life].moments_before(moment).collect();
        if life == self.life {
            all.extend(self.near.range(..moment).map(|(at, _)| *at));
        }
        all.sort_unstable();
        all.dedup();
        all.reverse();
        all
    }

    /// What was kept of another life, or of a future that is no more, is of no use.
    pub fn forget_near(&mut self) {
        self.near.clear();
    }

    /// Goes to a moment of a life.
    pub fn go(&mut self, to: Position) -> Result<(), Error> {
        let mut head = self.nearest(to.life, to.moment)?;
        if head.moment() == to.moment && is_stopped(&mut head) {
            let start = self.lives[to.life].start();
            head = self.nearest(to.life, to.moment.saturating_sub(1).max(start))?;
        }
        if to.life != self.life {
            self.forget_near();
            self.life = to.life;
        }
        let far = to.moment.saturating_sub(2 * BLOCK);
        while head.moment() < far {
            let left = to.moment - head.moment();
            // Copies at a quarter of what is left: who steps back from there has a short way.
            let rung = to.moment - left / 4;
            if head.run_to(
                rung.min(far)
                    .min(self.lives[to.life].next_copy(head.moment())),
                NEVER,
            )? {
                break;
            }
            self.lives[to.life].keep(&head);
            self.keep_near(&head);
        }
        while head.moment() < to.moment {
            let before = match head.machine.next() {
                Next::Instructions { .. } => Some(head.clone()),
                _ => None,
            };
            let reach = Reach {
                until: NEVER,
                moment: head.moment() + 1,
                passes: true,
            };
            let round = head.round(reach)?;
            let stopped = head.moment() == to.moment && is_stopped(&mut head);
            let beyond = head.moment() > to.moment || stopped;
            if let (true, Some(before)) = (beyond, before) {
                let inside = to.moment - before.moment();
                self.stand(before);
                self.stand_inside(inside);
                self.choose_thread();
                return Ok(());
            }
            if round.pause == Some(Pause::Finished) {
                break;
            }
        }
        self.stand(head);
        self.choose_thread();
        Ok(())
    }

    /// A copy of a life's machine when everything up to a time has happened, as for a power cut then.
    pub fn at_cycle(&self, life: usize, cycle: Cycles) -> Result<Head, Error> {
        let found = self.lives[life].before_cycle(cycle);
        let start = self.lives[life].start();
        let found = found.or_else(|| self.lives[life].before(start));
        let mut head = found
            .ok_or_else(|| Error::Defect("a life without a beginning".into()))?
            .clone();
        head.look_for(&Arc::default());
        head.run_to(u64::MAX, cycle)?;
        Ok(head)
    }

    /// The last moment of a life at which something can be looked at, if that is known.
    pub fn last_moment(&self, life: usize) -> Option<u64> {
        self.lives[life].last
    }
}
