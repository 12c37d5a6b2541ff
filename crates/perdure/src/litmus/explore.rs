//! The explorer: every way in which the threads of a test may take turns under a model's tables, and
//! everything that a cut may leave.
//!
//! An instruction *takes effect* once, for all threads together, when nothing that it waits for
//! ([`Order::waits`]) is still to come. A load sees its own thread's youngest earlier store to the
//! location if that has not taken effect, and memory otherwise: that is a store buffer. Where a model lets
//! instructions pass branches, both ways are tried, and the wrong one is given up when the branch knows.
//!
//! Always true here: two states that nothing can tell apart are one, and are gone on from once. Where what
//! one thread can do touches nothing that another one still will, only that is tried: every other order
//! ends in the same states. Nothing is random.

mod states;

use std::collections::{BTreeSet, HashSet};

use twox_hash::XxHash3_128;

use super::cut::{Cut, Stored};
use super::model::{Left, Rules};
use super::program::{
    Action, Contents, INSTRUCTIONS, Instruction, LOCATIONS, Operand, THREADS, Test,
};

/// More states than this are too many, and so is what may be left in more ways.
pub const STATES: usize = 8_000_000;

/// What a model allows, and what it took to find out.
#[derive(Debug)]
pub struct Explored {
    /// What a cut may leave.
    pub contents: BTreeSet<Contents>,
    /// States that were looked at.
    pub states: usize,
}

/// There are more states, or ways in which something is left, than [`STATES`].
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge;

/// A set of a thread's instructions, a bit each.
type Set = u16;

const fn bit(instruction: usize) -> Set {
    1 << instruction
}

/// How far a thread is.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// What has taken effect.
    done: Set,
    /// What a branch passes over.
    skipped: Set,
    /// Branches of which it is known, or guessed, where they go.
    known: Set,
    /// Of these, the ones that jump.
    jumps: Set,
    /// What the loads and exchanges got.
    values: [u8; INSTRUCTIONS],
}

#[derive(Clone, Debug, Default)]
struct State {
    threads: [Progress; THREADS],
    memory: Contents,
    cut: Cut,
    /// By location: values that may be found there beside what is kept, a bit for each of the test's values.
    also: [u64; LOCATIONS],
    rest: Rest,
}

/// What is still to come, which follows from how far the threads are. A bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// Locations that will be loaded from.
    loads: u32,
    /// Places that will be stored to, loaded from or written back.
    places: u32,
    /// Locations of which a cut may find any store from now on: nothing will look at them again but the
    /// cut, and they have their line for themselves.
    any: u32,
}

/// A thread of the test.
struct Thread<'a> {
    instructions: &'a [Instruction],
    /// For each instruction, those that may read what it writes to its register.
    readers: Vec<Set>,
}

struct Explorer<'a> {
    test: &'a Test,
    rules: &'a Rules,
    threads: Vec<Thread<'a>>,
    /// The values that the test has.
    values: Vec<u8>,
    /// Locations whose stores nothing else orders: they have their line for themselves. A bit each.
    lone: u32,
}

/// What a thread can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// An instruction can take effect.
    Effect(usize),
    /// It can be guessed where a branch goes.
    Guess(usize, bool),
}

/// Places that are loaded from and stored to, a bit each.
#[derive(Clone, Copy, Default)]
struct Touched {
    loads: u16,
    stores: u16,
}

/// Finds everything that a cut may leave.
pub fn explore(test: &Test, rules: &Rules) -> Result<Explored, TooLarge> {
    let explorer = Explorer::new(test, rules);
    let mut contents = BTreeSet::new();
    let mut seen = HashSet::new();
    let mut stack = vec![State::default()];
    let mut bytes = Vec::new();
    let mut next = Vec::new();
    while let Some(mut state) = stack.pop() {
        explorer.forget(&mut state);
        bytes.clear();
        explorer.write(&state, &mut bytes);
        if !seen.insert(XxHash3_128::oneshot(&bytes)) {
            continue;
        }
        if seen.len() > STATES {
            return Err(TooLarge);
        }
        next.clear();
        if explorer.goes_on(&state, &mut next) {
            stack.append(&mut next);
        } else {
            explorer.found(&state, &mut contents)?;
        }
    }
    Ok(Explored {
        contents,
        states: seen.len(),
    })
}

impl<'a> Explorer<'a> {
    fn new(test: &'a Test, rules: &'a Rules) -> Self {
        let thread = |instructions: &'a Vec<Instruction>| {
            let readers = instructions.iter().enumerate().map(|(at, instruction)| {
                let written = instruction.written();
                let later = instructions.iter().enumerate().skip(at + 1);
                later
                    .filter(|(_, later)| written.is_some() && later.read() == written)
                    .fold(0, |set, (reader, _)| set | bit(reader))
            });
            Thread {
                instructions,
                readers: readers.collect(),
            }
        };
        let operands = test
            .threads
            .iter()
            .flatten()
            .filter_map(|it| match it.action {
                Action::Store { operand, .. } | Action::Exchange { operand, .. } => Some(operand),
                _ => None,
            });
        let mut values: Vec<u8> = operands
            .filter_map(|operand| match operand {
                Operand::Value(value) => Some(value),
                Operand::Register(_) => None,
            })
            .chain([0])
            .collect();
        values.sort_unstable();
        values.dedup();
        let has_line = |location: usize| {
            let line = test.lines[location];
            test.lines.iter().filter(|other| **other == line).count() == 1
        };
        let is_lone = |location: &usize| match rules.left {
            Left::Lines => values.len() <= 64 && has_line(*location),
            Left::Strands(_) => values.len() <= 64,
            Left::Prefix | Left::Causal(_) => false,
        };
        let lone = (0..test.locations.len()).filter(is_lone);
        let lone = lone.fold(0, |set, location| set | 1 << location);
        Self {
            test,
            rules,
            threads: test.threads.iter().map(thread).collect(),
            values,
            lone,
        }
    }

    /// Puts what can come next into `next`. False if nothing can.
    fn goes_on(&self, state: &State, next: &mut Vec<State>) -> bool {
        if state.cut.is_over(&self.rules.left, self.threads.len()) {
            return false;
        }
        if let Some((thread, at)) = self.unseen(state) {
            self.effect(state, thread, at, next);
            return true;
        }
        let ways: Vec<Vec<Next>> = (0..self.threads.len())
            .map(|thread| self.ways(state, thread))
            .collect();
        let alone = (0..ways.len()).find(|&thread| self.is_alone(state, thread, &ways[thread]));
        let mut any = false;
        for (thread, ways) in ways.iter().enumerate() {
            if alone.is_some_and(|alone| alone != thread) {
                continue;
            }
            for way in ways {
                any = true;
                match *way {
                    Next::Effect(at) => self.effect(state, thread, at, next),
                    Next::Guess(at, jumps) => {
                        let mut after = state.clone();
                        self.know(&mut after, thread, at, jumps);
                        next.push(after);
                    }
                }
            }
        }
        any
    }

    /// An instruction that can take effect and that no other thread could ever notice.
    fn unseen(&self, state: &State) -> Option<(usize, usize)> {
        let all = self.threads.iter().enumerate();
        all.flat_map(|(thread, it)| (0..it.instructions.len()).map(move |at| (thread, at)))
            .find(|&(thread, at)| {
                let instruction = &self.threads[thread].instructions[at];
                let is_unseen = match instruction.action {
                    Action::Store { location, .. } => self.is_unseen(state, location),
                    _ => instruction.location().is_none(),
                };
                is_unseen && self.is_ready(state, thread, at)
            })
    }

    /// Whether nothing depends on when a location is stored to.
    fn is_unseen(&self, state: &State, location: usize) -> bool {
        let is_lost = state.cut.is_behind(self.test.lines[location]);
        let is_loaded = state.rest.loads & 1 << location != 0;
        state.rest.any & 1 << location != 0
            || self.rules.left == Left::Lines && is_lost && !is_loaded
    }

    /// What a thread can do next, seen by others.
    fn ways(&self, state: &State, thread: usize) -> Vec<Next> {
        let instructions = self.threads[thread].instructions;
        let mut ways: Vec<Next> = (0..instructions.len())
            .filter(|&at| instructions[at].location().is_some())
            .filter(|&at| self.is_ready(state, thread, at))
            .map(Next::Effect)
            .collect();
        if let Some(branch) = self.guessable(state, thread) {
            ways.extend([Next::Guess(branch, false), Next::Guess(branch, true)]);
        }
        ways
    }

    /// The first branch of which nothing is known, if something behind it may pass it.
    fn guessable(&self, state: &State, thread: usize) -> Option<usize> {
        let it = &state.threads[thread];
        let instructions = self.threads[thread].instructions;
        let is_open = |at: usize| (it.done | it.skipped | it.known) & bit(at) == 0;
        let branch = (0..instructions.len())
            .find(|&at| matches!(instructions[at].action, Action::Branch { .. }) && is_open(at))?;
        (branch + 1..instructions.len())
            .any(|at| is_open(at) && self.rules.past_branches.contains(&instructions[at].kind))
            .then_some(branch)
    }

    /// Whether what a thread can do touches nothing that another one still will.
    fn is_alone(&self, state: &State, thread: usize, ways: &[Next]) -> bool {
        let mut own = Touched::default();
        for way in ways {
            if let Next::Effect(at) = way {
                self.touch(thread, *at, &mut own);
            }
        }
        let mut others = Touched::default();
        for other in (0..self.threads.len()).filter(|other| *other != thread) {
            let it = &state.threads[other];
            let open = (0..self.threads[other].instructions.len())
                .filter(|&at| (it.done | it.skipped) & bit(at) == 0);
            open.for_each(|at| self.touch(other, at, &mut others));
        }
        !ways.is_empty()
            && own.stores & (others.loads | others.stores) == 0
            && own.loads & others.stores == 0
    }

    fn touch(&self, thread: usize, at: usize, touched: &mut Touched) {
        let instruction = &self.threads[thread].instructions[at];
        let Some(location) = instruction.location() else {
            return;
        };
        let line = if self.rules.left == Left::Prefix {
            1
        } else {
            1 << self.test.lines[location]
        };
        match instruction.action {
            Action::Store { .. } | Action::Exchange { .. } => touched.stores |= line,
            _ => touched.loads |= line,
        }
    }

    /// The instruction whose value a thread's instruction reads, and which always is on its way.
    fn writer(&self, it: &Progress, thread: usize, at: usize) -> Option<usize> {
        let instructions = self.threads[thread].instructions;
        let register = instructions[at].read()?;
        (0..at).rev().find(|&earlier| {
            it.skipped & bit(earlier) == 0 && instructions[earlier].written() == Some(register)
        })
    }

    fn has_operand(&self, it: &Progress, thread: usize, at: usize) -> bool {
        self.writer(it, thread, at)
            .is_none_or(|writer| it.done & bit(writer) != 0)
    }

    fn register(&self, it: &Progress, thread: usize, at: usize) -> u8 {
        self.writer(it, thread, at)
            .map_or(0, |writer| it.values[writer])
    }

    fn operand(&self, it: &Progress, thread: usize, at: usize, operand: Operand) -> u8 {
        match operand {
            Operand::Value(value) => value,
            Operand::Register(_) => self.register(it, thread, at),
        }
    }

    /// Its thread's own store that a load sees before anybody else does.
    fn buffered(&self, it: &Progress, thread: usize, at: usize) -> Option<usize> {
        let instructions = self.threads[thread].instructions;
        let Action::Load { location, .. } = instructions[at].action else {
            return None;
        };
        (0..at).rev().find(|&earlier| {
            (it.done | it.skipped) & bit(earlier) == 0
                && matches!(instructions[earlier].action, Action::Store { location: there, .. } if there == location)
        })
    }

    /// Whether an instruction can take effect.
    fn is_ready(&self, state: &State, thread: usize, at: usize) -> bool {
        let it = &state.threads[thread];
        if (it.done | it.skipped) & bit(at) != 0 {
            return false;
        }
        let instructions = self.threads[thread].instructions;
        let instruction = &instructions[at];
        let is_branch = matches!(instruction.action, Action::Branch { .. });
        let buffered = self.buffered(it, thread, at);
        for (earlier, before) in instructions[..at].iter().enumerate() {
            if it.skipped & bit(earlier) != 0 {
                continue;
            }
            let is_done = it.done & bit(earlier) != 0;
            if let Action::Branch { .. } = before.action {
                let passes = is_branch || self.rules.past_branches.contains(&instruction.kind);
                if it.known & bit(earlier) == 0 || !(is_done || passes) {
                    return false;
                }
                continue;
            }
            // Bytes out of the store buffer are as young as the store there, whatever came before it.
            let is_older = buffered.is_some_and(|store| earlier <= store)
                && self.is_load_to_load(before, instruction);
            if !(is_done || is_branch || is_older)
                && self
                    .rules
                    .order
                    .waits(before, instruction, &self.test.lines)
            {
                return false;
            }
        }
        let place = instruction
            .location()
            .map(|location| self.test.lines[location]);
        let is_over = !matches!(instruction.action, Action::WriteBack { .. })
            || place.is_some_and(|line| state.cut.lets_write_back(&self.rules.left, line));
        is_over
            && self.has_operand(it, thread, at)
            && buffered.is_none_or(|store| self.has_operand(it, thread, store))
    }

    fn is_load_to_load(&self, earlier: &Instruction, later: &Instruction) -> bool {
        use super::model::{Cell, Kind};
        (earlier.kind, later.kind) == (Kind::Load, Kind::Load)
            && self.rules.order.cell(Kind::Load, Kind::Load) == Cell::Location
    }

    /// From now on it is known, or guessed, where a branch goes.
    fn know(&self, state: &mut State, thread: usize, at: usize, jumps: bool) {
        let it = &mut state.threads[thread];
        it.known |= bit(at);
        if let (true, Action::Branch { skips, .. }) =
            (jumps, self.threads[thread].instructions[at].action)
        {
            it.jumps |= bit(at);
            (at + 1..=at + skips).for_each(|passed| it.skipped |= bit(passed));
        }
    }

    /// An instruction takes effect, in every way that it may.
    fn effect(&self, state: &State, thread: usize, at: usize, next: &mut Vec<State>) {
        let instruction = &self.threads[thread].instructions[at];
        let left = &self.rules.left;
        let it = &state.threads[thread];
        let mut after = state.clone();
        after.threads[thread].done |= bit(at);
        match instruction.action {
            Action::Branch { if_zero, .. } => {
                let jumps = (self.register(it, thread, at) == 0) == if_zero;
                if it.known & bit(at) == 0 {
                    self.know(&mut after, thread, at, jumps);
                } else if jumps != (it.jumps & bit(at) != 0) {
                    return;
                }
            }
            Action::Barrier => after.cut.marked(left, thread, instruction.kind),
            Action::WriteBack { .. } => {}
            Action::Load { location, .. } => {
                let value = match self.buffered(it, thread, at) {
                    Some(store) => self.stored_value(it, thread, store),
                    None => state.memory.of(location),
                };
                after.threads[thread].values[at] = value;
                (after.cut).loaded(left, thread, location, self.test.lines[location]);
            }
            Action::Store { location, .. } => {
                self.store(after, thread, at, location, next);
                return;
            }
            Action::Exchange { location, .. } => {
                after.threads[thread].values[at] = state.memory.of(location);
                (after.cut).loaded(left, thread, location, self.test.lines[location]);
                self.store(after, thread, at, location, next);
                return;
            }
        }
        next.push(after);
    }

    fn stored_value(&self, it: &Progress, thread: usize, at: usize) -> u8 {
        match self.threads[thread].instructions[at].action {
            Action::Store { operand, .. } | Action::Exchange { operand, .. } => {
                self.operand(it, thread, at, operand)
            }
            _ => 0,
        }
    }

    /// A store takes effect, and will be found after the cut or not.
    fn store(
        &self,
        mut after: State,
        thread: usize,
        at: usize,
        place: usize,
        next: &mut Vec<State>,
    ) {
        let stored = Stored {
            thread,
            location: place,
            line: self.test.lines[place],
            value: self.stored_value(&after.threads[thread], thread, at),
        };
        after.memory.set(place, stored.value);
        if after.rest.any & 1 << place != 0 {
            let value = self.values.binary_search(&stored.value);
            let kept_by = Cut::place(&self.rules.left, place, stored.line);
            if !after.cut.is_behind(kept_by) {
                after.also[place] |= value.map_or(0, |at| 1 << at);
            }
            next.push(after);
            return;
        }
        after.cut.stored(&self.rules.left, stored, |cut| {
            next.push(State {
                cut,
                ..after.clone()
            });
        });
    }
}
