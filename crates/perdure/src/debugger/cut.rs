//! Power cuts on the time line: what they leave, and the life that follows.
//!
//! Always true here: a cut is the one that `perdure cut --at` makes at that cycle, and the life after it is
//! the one that goes on there.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::mem;

use perdure_hardware::time::Cycles;

use super::forward::{Goal, Stop};
use super::head::Head;
use super::life::{Cut, End, Life};
use super::session::{Poll, Position, Session};
use crate::error::Error;
use crate::lives::{Left, Lives, Uncut};
use crate::machine::Machine;
use crate::observer::Unobserved;
use crate::outside::Outside;
use crate::verify::{self, CameBack};

impl Session {
    /// Lets the power fail at a cycle of the position's life, and goes into the life after that; what the
    /// user is told. What was ahead is forgotten.
    pub fn cut(&mut self, cycle: Cycles) -> Result<String, Error> {
        let first = self.first_cycle(self.life)?;
        if cycle < first {
            return Err(Error::Request(format!(
                "cut {cycle}: life {} begins at cycle {first}; there is nothing of it before that",
                self.life + 1
            )));
        }
        let head = self.at_cycle(self.life, cycle)?;
        if head.machine.time() < cycle && head.machine.ended().is_some() {
            return Err(Error::Request(format!(
                "the program has ended at cycle {}, before cycle {cycle}: there is nothing left to cut",
                head.machine.time()
            )));
        }
        let moment = head.moment();
        let cut = Cut::at(cycle);
        self.lives.truncate(self.life + 1);
        let life = self.life;
        let ends = Position { life, moment };
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = mem::take(&mut self.bookmarks)
            .into_iter()
            .partition(|(_, (at, _))| *at <= ends);
        self.bookmarks = kept;
        let own = &mut self.lives[self.life];
        own.forget_after(moment);
        own.planned = Some(cut);
        own.ends(moment, End::Cut(cut), moment);
        self.forget_near();
        self.stand(head);
        let forgotten = forgotten(&gone);
        match self.enter_next_life() {
            Err(Error::Request(words)) => Err(Error::Request(forgotten + &words)),
            began => Ok(forgotten + &began?),
        }
    }

    /// When a life begins, in its own time.
    fn first_cycle(&self, life: usize) -> Result<Cycles, Error> {
        let start = self.lives[life].start();
        Ok(self.nearest(life, start)?.machine.time())
    }

    /// Goes to where the power fails first.
    pub fn go_to_cut(&mut self, poll: Poll) -> Result<(), Error> {
        match self.advance(Goal::Stop, poll)? {
            Stop::PowerFails | Stop::Interrupted => Ok(()),
            _ => Err(Error::Request(
                "the program ends before the power would fail: the cut is later than its end"
                    .into(),
            )),
        }
    }

    /// Goes from a cut into the life after it, which begins then if it has not been lived yet.
    pub fn enter_next_life(&mut self) -> Result<String, Error> {
        let Some((moment, End::Cut(cut))) = self.lives[self.life].end.clone() else {
            return Err(Error::Defect("a life that no cut has ended".into()));
        };
        if self.life + 1 == self.lives.len() {
            let mut head = self.at_cycle(self.life, cut.cycle)?;
            let (machine, told) = match self.next_machine(&mut head.machine, cut) {
                Ok(next) => next,
                Err(error) => {
                    let end = End::Failed(error.to_string());
                    self.lives[self.life].ends(moment, end, moment);
                    return Err(error);
                }
            };
            let began = format!("the power fails at cycle {}; {told}", cut.cycle);
            let first = machine.time();
            let mut life = Life::new(Head::new(machine), self.most, began);
            life.planned = self.plan.get(self.lives.len() - 1).copied();
            if let Some(next) = life.planned.filter(|next| next.cycle < first) {
                let words = format!(
                    "the cut at cycle {} was to end life {}, which begins at cycle {first}, after the cut at cycle {}: give a later one",
                    next.cycle,
                    self.lives.len() + 1,
                    cut.cycle
                );
                // Another cut of this life is entered as if there were no plan for the next.
                self.plan.truncate(self.lives.len() - 1);
                self.lives[self.life].ends(moment, End::Failed(words.clone()), moment);
                return Err(Error::Request(words));
            }
            self.lives.push(life);
        }
        let life = self.life + 1;
        let moment = self.lives[life].start();
        self.go(Position { life, moment })?;
        Ok(self.lives[life].began.clone())
    }

    /// The machine that begins after a cut, and what happened in words.
    pub fn next_machine(
        &self,
        machine: &mut Machine,
        cut: Cut,
    ) -> Result<(Machine, String), Error> {
        let Cut { cycle, tear_seed } = cut;
        let came = verify::came_back(machine, cycle, tear_seed);
        let refused = |error| {
            Error::Request(format!(
                "the power fails at cycle {cycle}, and recovery refuses what survived: {error}"
            ))
        };
        let CameBack { image, epoch, cost } = came.map_err(refused)?;
        let uncut = Uncut {
            end: cycle,
            outside: Outside::default(),
            status: None,
            again: None,
        };
        let lives = Lives {
            prepared: &self.prepared,
            bug: self.bug,
            uncut: &uncut,
            check: None,
            recovery_steps: 0,
            observer: &Unobserved,
            progress: &|| {},
        };
        let (recovery, lost) = (cost.recovery.cycles, cost.lost);
        let mut told = format!("recovery takes {recovery} cycles");
        let mut next = if let Some(restart) = &self.prepared.restart {
            told += "; the processes are lost, and a program starts on the pools that survived";
            let left = Left::of(machine, image.memory);
            lives.boot_again(restart, &left)?
        } else {
            let epoch = epoch.unwrap_or_default();
            let (instructions, cycles) = (lost.instructions, lost.cycles);
            let _ = write!(
                told,
                " and goes back to the end of epoch {epoch}: {instructions} instructions in {cycles} cycles are lost"
            );
            lives.next(machine, image, epoch)?
        };
        let printer = match &self.prepared.restart {
            Some(_) => self.printer.anew(),
            None => self.printer.clone(),
        };
        next.outside.forward = Some(printer.receiver());
        next.outside.forgets = true;
        next.keep_progress(epoch.unwrap_or_default());
        Ok((next, told))
    }
}

/// What the user hears of bookmarks that lay ahead of a cut.
fn forgotten(bookmarks: &BTreeMap<String, (Position, u32)>) -> String {
    let names: Vec<&str> = bookmarks.keys().map(String::as_str).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("the bookmark {one} is forgotten: it was later than the cut\n"),
        all => format!(
            "the bookmarks {} are forgotten: they were later than the cut\n",
            all.join(", ")
        ),
    }
}
