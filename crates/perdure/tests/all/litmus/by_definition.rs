//! The models in which accesses take effect in order, by their definitions: every interleaving of a small
//! test, every moment of it, every set of stores that the definition lets a cut find.

use std::collections::BTreeSet;

use perdure::litmus::Test;
use perdure::litmus::model::Kind;
use perdure::litmus::program::{Action, Contents, Instruction, Operand};

use super::generate::Shape;
use super::{difference, random, set};

/// What happened, in the order in which it did.
#[derive(Clone, Copy)]
pub struct Event {
    pub thread: usize,
    pub instruction: Instruction,
    pub value: u8,
}

impl Event {
    pub fn stores(&self) -> bool {
        matches!(
            self.instruction.action,
            Action::Store { .. } | Action::Exchange { .. }
        )
    }

    pub fn loads(&self) -> bool {
        self.instruction.written().is_some()
    }

    fn accesses(&self) -> bool {
        self.stores() || self.loads()
    }
}

/// What a cut finds behind these events.
type Definition = dyn Fn(&Test, &[Event]) -> BTreeSet<Contents>;

struct Walk<'a> {
    test: &'a Test,
    definition: &'a Definition,
    found: BTreeSet<Contents>,
}

pub fn by_definition(test: &Test, definition: &Definition) -> BTreeSet<Contents> {
    let mut walk = Walk {
        test,
        definition,
        found: BTreeSet::new(),
    };
    let at = vec![0; test.threads.len()];
    let registers = vec![[0; 8]; test.threads.len()];
    walk.go(&at, &registers, Contents::default(), &mut Vec::new());
    walk.found
}

impl Walk<'_> {
    fn go(
        &mut self,
        at: &[usize],
        registers: &[[u8; 8]],
        memory: Contents,
        events: &mut Vec<Event>,
    ) {
        self.found.extend((self.definition)(self.test, events));
        for thread in 0..at.len() {
            let Some(&instruction) = self.test.threads[thread].get(at[thread]) else {
                continue;
            };
            let (mut at, mut registers, mut memory) = (at.to_vec(), registers.to_vec(), memory);
            at[thread] += 1;
            let value = |operand| match operand {
                Operand::Value(value) => value,
                Operand::Register(register) => registers[thread][register],
            };
            let stored = match instruction.action {
                Action::Store { operand, .. } | Action::Exchange { operand, .. } => value(operand),
                _ => 0,
            };
            match instruction.action {
                Action::Load { register, location } => {
                    registers[thread][register] = memory.of(location);
                }
                Action::Store { location, .. } => memory.set(location, stored),
                Action::Exchange {
                    register, location, ..
                } => {
                    registers[thread][register] = memory.of(location);
                    memory.set(location, stored);
                }
                Action::Branch {
                    register,
                    if_zero,
                    skips,
                } => {
                    if (registers[thread][register] == 0) == if_zero {
                        at[thread] += skips;
                    }
                }
                Action::WriteBack { .. } | Action::Barrier => {}
            }
            events.push(Event {
                thread,
                instruction,
                value: stored,
            });
            self.go(&at, &registers, memory, events);
            events.pop();
        }
    }
}

/// Sets of stores, each with what it must not be found without, and all with what must be found.
fn sets(events: &[Event], (needs, must): (Vec<u32>, u32)) -> BTreeSet<Contents> {
    let stores: Vec<usize> = (0..events.len())
        .filter(|at| events[*at].stores())
        .collect();
    let mut found = BTreeSet::new();
    for subset in 0..1u32 << stores.len() {
        let kept = stores
            .iter()
            .enumerate()
            .filter(|(bit, _)| subset & 1 << bit != 0);
        let kept: Vec<usize> = kept.map(|(_, at)| *at).collect();
        let set = kept.iter().fold(0u32, |set, at| set | 1 << at);
        if must & !set == 0 && kept.iter().all(|at| needs[*at] & !set == 0) {
            found.insert(left(events, kept));
        }
    }
    found
}

/// What these stores leave.
pub fn left(events: &[Event], kept: impl IntoIterator<Item = usize>) -> Contents {
    let mut contents = Contents::default();
    for at in kept {
        let location = events[at].instruction.location().expect("a store has one");
        contents.set(location, events[at].value);
    }
    contents
}

/// Which events each event must not be found without, and which must be found.
type Needs = fn(&Test, &[Event]) -> (Vec<u32>, u32);

/// What each event needs, if it needs what `follows` says, directly or not: stores only.
fn closed(events: &[Event], follows: impl Fn(usize, usize) -> bool) -> Vec<u32> {
    let mut past = vec![0u32; events.len()];
    for later in 0..events.len() {
        for earlier in 0..later {
            if follows(earlier, later) {
                past[later] |= past[earlier] | 1 << earlier;
            }
        }
    }
    let stores = (0..events.len()).filter(|at| events[*at].stores());
    let stores = stores.fold(0u32, |set, at| set | 1 << at);
    past.iter().map(|past| past & stores).collect()
}

pub fn share(test: &Test, one: &Event, other: &Event, by_line: bool) -> bool {
    let both = one.instruction.location().zip(other.instruction.location());
    both.is_some_and(|(one, other)| one == other || by_line && test.lines[one] == test.lines[other])
}

/// A beginning of all stores.
fn epoch_prefix(_: &Test, events: &[Event]) -> (Vec<u32>, u32) {
    (closed(events, |_, _| true), 0)
}

/// Closed under program order, and under what a line's last store hands on to whoever gets the line.
fn causal_cut(test: &Test, events: &[Event]) -> (Vec<u32>, u32) {
    let follows = |earlier: usize, later: usize| {
        let (one, other) = (&events[earlier], &events[later]);
        one.thread == other.thread
            || one.stores() && other.accesses() && share(test, one, other, true)
    };
    (closed(events, follows), 0)
}

/// Barriers inside strands, joins, and conflicting accesses.
fn strand(test: &Test, events: &[Event]) -> (Vec<u32>, u32) {
    let follows = |earlier: usize, later: usize| {
        let (one, other) = (&events[earlier], &events[later]);
        if !one.accesses() || !other.accesses() {
            return false;
        }
        let has = |kind: Kind| {
            let between = events[earlier..later].iter();
            between
                .filter(|it| it.thread == one.thread)
                .any(|it| it.instruction.kind == kind)
        };
        let by_marks = one.thread == other.thread
            && (has(Kind::JoinStrand) || has(Kind::PersistBarrier) && !has(Kind::NewStrand));
        by_marks || (one.stores() || other.stores()) && share(test, one, other, false)
    };
    (closed(events, follows), 0)
}

/// Lines keep their order, and a fence waits for its hart's cleans of what their lines held.
fn contract(test: &Test, events: &[Event]) -> (Vec<u32>, u32) {
    let follows = |earlier: usize, later: usize| {
        let (one, other) = (&events[earlier], &events[later]);
        one.stores() && other.stores() && share(test, one, other, true)
    };
    let mut must = 0;
    for (at, fence) in events.iter().enumerate() {
        let waits = fence.instruction.kind == Kind::Fence && fence.instruction.sets[0].writes;
        for clean in (0..at).filter(|_| waits) {
            let it = &events[clean];
            if it.thread == fence.thread && it.instruction.kind == Kind::Clean {
                let held = (0..clean).filter(|store| {
                    events[*store].stores() && share(test, it, &events[*store], true)
                });
                must |= held.fold(0, |set, store| set | 1 << store);
            }
        }
    }
    (closed(events, follows), must)
}

#[test]
fn models_in_order_are_their_definitions() {
    let definitions: [(&str, Needs); 4] = [
        ("epoch-prefix", epoch_prefix),
        ("causal-cut", causal_cut),
        ("strand", strand),
        ("perdure", contract),
    ];
    for (model, definition) in definitions {
        let tests = random(model, Shape::TINY, 1000).chain(random(model, Shape::PAIR, 1000));
        for test in tests {
            let defined = by_definition(&test, &move |test, events| {
                sets(events, definition(test, events))
            });
            let found = set(&test);
            assert!(found == defined, "{}", difference(&test, &found, &defined));
        }
    }
}
