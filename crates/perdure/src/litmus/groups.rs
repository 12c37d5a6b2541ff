//! Strands that persist as wholes, as SPMS has them (Li, Wang, Xiao, Sun, Liu, *SPMS: Strand based
//! Persistent Memory System*), by an explorer of their own.
//!
//! Accesses take effect in order. What a thread stores between two `new-strand`s is a strand. Whoever
//! stores to a line of a strand that is not durable joins its *group* (section IV-B). A group becomes
//! durable all at once, at any time when each of its strands has ended.
//!
//! Always true here:
//! - A line is of one group or of none. If it is of none, memory holds of it what is durable. So a group
//!   leaves of its lines what memory holds when it becomes durable.
//! - Only who touches a group's lines or waits for it can tell when it became durable, and a cut. So that
//!   is decided there, and a group that has nothing to wait for may be durable or not until then.
//! - Nothing is random.

use std::collections::{BTreeSet, HashSet};

use twox_hash::XxHash3_128;

use super::explore::{Explored, STATES, TooLarge};
use super::model::Kind;
use super::program::{Action, Contents, Instruction, Operand, REGISTERS, THREADS, Test};

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// `new-strand` ends a strand and begins the next.
    pub new_strand_ends: bool,
    /// A group waits until its strands have ended.
    pub waits_for_ends: bool,
    /// A conflict is one about a line, and not about a location.
    pub by_line: bool,
    /// A strand joins the group to whose line it stores. Otherwise the line is the strand's alone.
    pub stores_merge: bool,
    /// A strand joins the group from whose line it loads.
    pub loads_merge: bool,
    /// A strand waits for its thread's earlier ones.
    pub chains_threads: bool,
    /// `strand-sync` ends a strand, if that has stored anything.
    pub sync_ends: bool,
    /// `strand-sync` waits until the thread's ended strands are durable.
    pub sync_waits: bool,
}

/// Numbers of strands of one thread, a bit each.
type Strands = u32;

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    at: usize,
    /// How many strands it has ended.
    strand: usize,
    registers: [u8; REGISTERS],
}

/// Strands that become durable together.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Of each thread.
    strands: [Strands; THREADS],
    /// What they have stored to: lines, or locations. A bit each, and never none.
    places: u32,
}

#[derive(Clone, Debug, Default)]
struct State {
    threads: [Thread; THREADS],
    memory: Contents,
    durable: Contents,
    groups: Vec<Group>,
}

struct Explorer<'a> {
    test: &'a Test,
    rules: &'a Groups,
}

/// Finds everything that a cut may leave.
pub fn explore(test: &Test, rules: &Groups) -> Result<Explored, TooLarge> {
    let explorer = Explorer { test, rules };
    let mut contents = BTreeSet::new();
    let mut seen = HashSet::new();
    let mut stack = vec![State::default()];
    let mut bytes = Vec::new();
    while let Some(mut state) = stack.pop() {
        explorer.settle(&mut state);
        bytes.clear();
        explorer.write(&state, &mut bytes);
        if !seen.insert(XxHash3_128::oneshot(&bytes)) {
            continue;
        }
        explorer.cut(&state, &mut contents);
        if seen.len() > STATES || contents.len() > STATES {
            return Err(TooLarge);
        }
        for thread in 0..test.threads.len() {
            explorer.step(&state, thread, &mut stack);
        }
    }
    Ok(Explored {
        contents,
        states: seen.len(),
    })
}

impl Explorer<'_> {
    fn next(&self, state: &State, thread: usize) -> Option<&Instruction> {
        self.test.threads[thread].get(state.threads[thread].at)
    }

    /// Goes on while nobody else can tell: the earlier a strand has ended, the more may become durable.
    fn settle(&self, state: &mut State) {
        for thread in 0..self.test.threads.len() {
            while let Some(instruction) = self.next(state, thread) {
                let skips = match (instruction.action, instruction.kind) {
                    (
                        Action::Branch {
                            register,
                            if_zero,
                            skips,
                        },
                        _,
                    ) => {
                        let is_zero = state.threads[thread].registers[register] == 0;
                        skips * usize::from(is_zero == if_zero)
                    }
                    (_, Kind::NewStrand) => {
                        let ends = usize::from(self.rules.new_strand_ends);
                        state.threads[thread].strand += ends;
                        0
                    }
                    (_, Kind::PersistBarrier) => 0,
                    (_, Kind::StrandSync) => {
                        let ends = self.rules.sync_ends && state.own(thread).is_some();
                        state.threads[thread].strand += usize::from(ends);
                        if self.awaited(state, thread) != 0 {
                            break;
                        }
                        0
                    }
                    _ => break,
                };
                state.threads[thread].at += 1 + skips;
            }
        }
    }

    /// What a thread does next, in every way.
    fn step(&self, state: &State, thread: usize, next: &mut Vec<State>) {
        let Some(instruction) = self.next(state, thread) else {
            return;
        };
        let mut before = state.clone();
        before.threads[thread].at += 1;
        let value = |operand| match operand {
            Operand::Value(value) => value,
            Operand::Register(register) => state.threads[thread].registers[register],
        };
        let loaded = |state: &mut State, register: usize, location| {
            state.threads[thread].registers[register] = state.memory.of(location);
        };
        let rules = self.rules;
        match instruction.action {
            Action::Load { register, location } => {
                loaded(&mut before, register, location);
                if rules.loads_merge {
                    self.meet(&before, thread, location, true, |after| next.push(after));
                } else {
                    next.push(before);
                }
            }
            Action::Store { location, operand } => {
                self.meet(
                    &before,
                    thread,
                    location,
                    rules.stores_merge,
                    |mut after| {
                        self.store(&mut after, thread, location, value(operand));
                        next.push(after);
                    },
                );
            }
            Action::Exchange {
                register,
                location,
                operand,
            } => {
                loaded(&mut before, register, location);
                self.meet(
                    &before,
                    thread,
                    location,
                    rules.stores_merge,
                    |mut after| {
                        self.store(&mut after, thread, location, value(operand));
                        next.push(after);
                    },
                );
            }
            // What is left is a strand-sync.
            _ => next.extend(self.persisted(&before, self.awaited(&before, thread))),
        }
    }

    fn place(&self, location: usize) -> u32 {
        let place = if self.rules.by_line {
            self.test.lines[location]
        } else {
            location
        };
        1 << place
    }

    /// A thread touches the line of a location. If a group of others has it, that is durable already, or
    /// the thread's strand joins it.
    fn meet(
        &self,
        state: &State,
        thread: usize,
        location: usize,
        merges: bool,
        mut each: impl FnMut(State),
    ) {
        let place = self.place(location);
        let owner = (state.groups.iter()).position(|group| group.places & place != 0);
        let own = state.own(thread);
        let Some(owner) = owner.filter(|_| owner != own) else {
            each(state.clone());
            return;
        };
        if let Some(durable) = self.persisted(state, 1 << owner) {
            each(durable);
        }
        let mut after = state.clone();
        if merges {
            let strand = state.threads[thread].strand;
            after.groups[owner].strands[thread] |= 1 << strand;
            if let Some(own) = own {
                let joined = after.groups[own];
                after.groups[owner].join(&joined);
                after.groups.remove(own);
            }
        }
        each(after);
    }

    /// A thread's strand stores; the line is not another group's, or leaves it.
    fn store(&self, state: &mut State, thread: usize, location: usize, value: u8) {
        let place = self.place(location);
        let own = state.own(thread).unwrap_or_else(|| {
            let mut group = Group::default();
            group.strands[thread] = 1 << state.threads[thread].strand;
            state.groups.push(group);
            state.groups.len() - 1
        });
        for (number, group) in state.groups.iter_mut().enumerate() {
            if number == own {
                group.places |= place;
            } else {
                group.places &= !place;
            }
        }
        state.groups.retain(|group| group.places != 0);
        state.memory.set(location, value);
    }

    /// Groups that a thread waits for at a `strand-sync`, a bit each.
    fn awaited(&self, state: &State, thread: usize) -> u32 {
        let ended = (1 << state.threads[thread].strand) - 1;
        let groups = state.groups.iter().enumerate();
        groups
            .filter(|(_, group)| self.rules.sync_waits && group.strands[thread] & ended != 0)
            .fold(0, |set, (number, _)| set | 1 << number)
    }

    /// These groups, and all that have to be durable before them.
    fn with_earlier(&self, state: &State, mut set: u32) -> u32 {
        if !self.rules.chains_threads {
            return set;
        }
        loop {
            let before = set;
            for (later, group) in state.groups.iter().enumerate() {
                for (earlier, other) in state.groups.iter().enumerate() {
                    let follows = set & 1 << later != 0 && group.follows(other);
                    set |= u32::from(follows) << earlier;
                }
            }
            if set == before {
                return set;
            }
        }
    }

    /// Whether nothing keeps groups from becoming durable.
    fn may_persist(&self, state: &State, set: u32) -> bool {
        let is_active = |group: &Group| {
            let mut threads = group.strands.iter().zip(&state.threads);
            threads.any(|(strands, thread)| strands & 1 << thread.strand != 0)
        };
        !self.rules.waits_for_ends
            || (state.groups.iter().enumerate())
                .all(|(number, group)| set & 1 << number == 0 || !is_active(group))
    }

    /// What is durable with these groups.
    fn with(&self, state: &State, set: u32) -> Contents {
        let groups = state.groups.iter().enumerate();
        let places = groups
            .filter(|(number, _)| set & 1 << number != 0)
            .fold(0, |places, (_, group)| places | group.places);
        let mut durable = state.durable;
        for location in 0..self.test.locations.len() {
            if places & self.place(location) != 0 {
                durable.set(location, state.memory.of(location));
            }
        }
        durable
    }

    /// These groups have become durable, if they can.
    fn persisted(&self, state: &State, set: u32) -> Option<State> {
        let set = self.with_earlier(state, set);
        self.may_persist(state, set).then(|| {
            let mut after = state.clone();
            after.durable = self.with(state, set);
            let mut number = 0;
            after.groups.retain(|_| {
                number += 1;
                set & 1 << (number - 1) == 0
            });
            after
        })
    }

    /// A cut finds what is durable, and any groups that may be.
    fn cut(&self, state: &State, contents: &mut BTreeSet<Contents>) {
        let mut sets = BTreeSet::from([0]);
        for number in 0..state.groups.len() {
            let set = self.with_earlier(state, 1 << number);
            if self.may_persist(state, set) {
                let more: Vec<u32> = sets.iter().map(|other| other | set).collect();
                sets.extend(more);
            }
        }
        contents.extend(sets.iter().map(|set| self.with(state, *set)));
    }

    /// A state as bytes that are equal for states that nothing can tell apart.
    fn write(&self, state: &State, bytes: &mut Vec<u8>) {
        let threads = self.test.threads.iter().zip(&state.threads);
        let mut waits = [false; THREADS];
        for (number, (instructions, thread)) in threads.enumerate() {
            let rest = &instructions[thread.at..];
            waits[number] = rest.iter().any(|it| it.kind == Kind::StrandSync);
            bytes.push(thread.at as u8);
            for (register, value) in thread.registers.iter().enumerate() {
                let is_read = rest.iter().any(|it| it.read() == Some(register));
                bytes.push(u8::from(is_read) * value);
            }
        }
        bytes.extend(state.memory.bytes());
        bytes.extend(state.durable.bytes());
        let mut groups: Vec<&Group> = state.groups.iter().collect();
        groups.sort_unstable_by_key(|group| group.places);
        for group in groups {
            bytes.extend(group.places.to_le_bytes());
            for (number, thread) in state.threads.iter().enumerate() {
                let active = group.strands[number] >> thread.strand;
                let ended = group.strands[number] & ((1 << thread.strand) - 1);
                // Which they are is asked where threads are chained, and whether there are any by who waits.
                let ended = match (self.rules.chains_threads, waits[number]) {
                    (true, _) => ended,
                    (false, waits) => u32::from(waits && ended != 0),
                };
                bytes.push(active as u8);
                bytes.extend(ended.to_le_bytes());
            }
        }
    }
}

impl State {
    /// The group of a thread's strand.
    fn own(&self, thread: usize) -> Option<usize> {
        let strand = 1 << self.threads[thread].strand;
        (self.groups.iter()).position(|group| group.strands[thread] & strand != 0)
    }
}

impl Group {
    fn join(&mut self, other: &Self) {
        self.places |= other.places;
        for (strands, more) in self.strands.iter_mut().zip(other.strands) {
            *strands |= more;
        }
    }

    /// Whether it has a strand that comes behind one of the other's, in a thread.
    fn follows(&self, other: &Self) -> bool {
        let mut threads = self.strands.iter().zip(&other.strands);
        threads.any(|(later, earlier)| {
            *later != 0 && *earlier != 0 && earlier.trailing_zeros() < later.ilog2()
        })
    }
}
