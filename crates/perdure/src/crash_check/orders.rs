//! What may be shown after operations of several threads: what some order shows in which they could have been
//! done one by one (linearisability; Witcher, SOSP 2021, asks that of one thread).
//!
//! The operations are those since the last moment with none under way, an *episode*. The machine as it was
//! then is gone back to, and its threads are run one at a time, each until its operation has ended, in every
//! order in which none comes before one that had ended when it began. What was complete at the failure is
//! done; what was under way is done, or not.
//!
//! Always true here: an order that a program cannot be run in, because one of its threads waits for another,
//! or that was not tried because there are too many, may explain what was found: then nobody is accused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use perdure_linux::ThreadId;
use perdure_riscv::Mark;
use serde::{Deserialize, Serialize};

use super::record::{Operation, Phase, Recorder};
use super::recovery::{End, Recoveries, Which};
use crate::error::Error;
use crate::functional::{At, Engine, Functional, Pool, Stop, Watcher};
use crate::wholes::Piece;

/// Operations that are run from one moment with none under way, in all orders together.
const RUNS_MAX: usize = 600;
/// Instructions that one may take.
const PATIENCE: u64 = 500_000;
/// Operations that could not be run, after which no more are tried.
const REFUSALS_MAX: usize = 12;

/// The machine as an episode begins.
#[derive(Clone)]
pub struct Episode {
    machine: Functional,
    /// Threads that have begun their first operation, with its number, and have done nothing of it.
    begun: BTreeMap<ThreadId, u64>,
    table: u64,
}

impl Episode {
    /// The one that begins here, with its number, if it is to be kept.
    pub fn begins(machine: &Functional, recorder: &mut Recorder) -> Option<(u64, Self)> {
        if !std::mem::take(&mut recorder.episode_begins) {
            return None;
        }
        let begun = recorder.under_way().collect();
        let mut machine = machine.clone();
        machine.let_operations_be();
        let table = recorder.table();
        let episode = Self {
            machine,
            begun,
            table,
        };
        Some((recorder.episode(), episode))
    }
}

/// Why something that was shown is not held against anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Missing {
    /// There are more orders than are tried.
    TooMany,
    /// In some order a thread waits for another one.
    Waits,
    /// In some order the threads do other operations.
    Others,
    /// In some order the dump fails.
    DumpFails,
}

impl Missing {
    /// In a message.
    pub fn words(self) -> &'static str {
        match self {
            Self::TooMany => "there are too many orders of the operations under way",
            Self::Waits => "a thread waits for another one where operations are run one by one",
            Self::Others => "threads do other operations where they are run one by one",
            Self::DumpFails => "the dump fails after operations that were run one by one",
        }
    }
}

/// What may be shown at a moment.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// What each order shows.
    pub dumps: BTreeSet<Arc<Vec<u8>>>,
    /// Why that is not all.
    pub missing: Option<Missing>,
}

/// Operations up to a moment.
struct Done<'o> {
    /// Those of the episode.
    all: Vec<&'o Operation>,
    /// A bit for each that was complete.
    complete: u64,
    /// Of each, those that had ended when it began.
    before: Vec<u64>,
}

impl<'o> Done<'o> {
    /// None if there are too many.
    fn of(operations: &'o [Operation], episode: u64, marks: u64) -> Option<Self> {
        let first = operations.partition_point(|one| one.episode < episode);
        let of_episode = operations[first..].iter();
        let all: Vec<&Operation> = of_episode
            .take_while(|one| one.episode == episode && one.began < marks)
            .collect();
        if all.len() > 64 {
            return None;
        }
        let those = |fits: &dyn Fn(&Operation) -> bool| {
            let fitting = all.iter().enumerate().filter(|(_, one)| fits(one));
            fitting.fold(0, |set, (number, _)| set | 1 << number)
        };
        let complete = those(&|one| one.ended.is_some_and(|ended| ended <= marks));
        let before = (all.iter())
            .map(|later| those(&|one| one.ended.is_some_and(|ended| ended <= later.began)))
            .collect();
        Some(Self {
            all,
            complete,
            before,
        })
    }

    /// Those that may come next behind these.
    fn next(&self, done: u64) -> impl Iterator<Item = usize> {
        (0..self.all.len())
            .filter(move |&one| done >> one & 1 == 0 && self.before[one] & !done == 0)
    }
}

/// A machine in which some operations were run.
#[derive(Clone)]
struct Ran {
    machine: Functional,
    begun: BTreeMap<ThreadId, u64>,
    /// A bit for each.
    done: u64,
    /// The table of pools is another one.
    has_new_table: bool,
}

/// Which operations are around a phase: what tells one set of orders from others.
pub fn key(phase: &Phase) -> Option<(u64, u64)> {
    Some((phase.episode?, phase.marks))
}

/// What may be shown at a moment of an episode.
pub fn shown(
    recoveries: &Recoveries,
    episode: &Episode,
    operations: &[Operation],
    (number, marks): (u64, u64),
) -> Result<Orders, Error> {
    let mut orders = Orders::default();
    let Some(asked) = Done::of(operations, number, marks) else {
        orders.missing = Some(Missing::TooMany);
        return Ok(orders);
    };
    let mut waiting = vec![Ran {
        machine: episode.machine.clone(),
        begun: episode.begun.clone(),
        done: 0,
        has_new_table: false,
    }];
    let (mut runs, mut refusals) = (0, 0);
    let (mut dumping, mut running) = (Engine::default(), Engine::default());
    while let Some(ran) = waiting.pop() {
        if asked.complete & !ran.done == 0 {
            match dump(recoveries, &ran, episode.table, &mut dumping)? {
                Some(shown) => drop(orders.dumps.insert(Arc::new(shown))),
                None => orders.missing = Some(Missing::DumpFails),
            }
        }
        for one in asked.next(ran.done) {
            if runs == RUNS_MAX {
                orders.missing = Some(Missing::TooMany);
            }
            if runs == RUNS_MAX || refusals == REFUSALS_MAX {
                return Ok(orders);
            }
            runs += 1;
            let mut next = ran.clone();
            match next.run(asked.all[one], &mut running) {
                None => {
                    next.done |= 1 << one;
                    waiting.push(next);
                }
                Some(missing) => {
                    orders.missing = Some(missing);
                    refusals += 1;
                }
            }
        }
    }
    Ok(orders)
}

/// What is shown of what some operations have made.
fn dump(
    recoveries: &Recoveries,
    ran: &Ran,
    table: u64,
    engine: &mut Engine,
) -> Result<Option<Vec<u8>>, Error> {
    let pool = &ran.machine.pool;
    let life = if ran.has_new_table {
        recoveries.run_on(Which::Dump, pool.clone(), engine)?
    } else {
        let mut life = recoveries.start(Which::Dump, (pool, table), &BTreeMap::new())?;
        life.live_out(engine, recoveries.patience)?
    };
    Ok((life.end == End::Status(0)).then_some(life.output))
}

impl Ran {
    /// Runs an operation to its end; or says why it cannot be.
    fn run(&mut self, operation: &Operation, engine: &mut Engine) -> Option<Missing> {
        let thread = operation.thread;
        let mut helped = false;
        loop {
            match self.go_on(thread, engine) {
                Some(Mark::OperationEnds) => break,
                Some(Mark::OperationBegins { number }) => {
                    self.begun.insert(thread, number);
                }
                // Others may hold something that they give back before they begin.
                _ if !helped => {
                    helped = true;
                    self.let_others_begin(thread, engine);
                }
                _ => return Some(Missing::Waits),
            }
        }
        let begun = self.begun.remove(&thread);
        let is_other = self.machine.says_numbers() && begun != Some(operation.number);
        is_other.then_some(Missing::Others)
    }

    /// Runs a thread until it says something of its operations, as far as it gets without the others.
    fn go_on(&mut self, thread: ThreadId, engine: &mut Engine) -> Option<Mark> {
        let mut told = Told::default();
        self.machine.give_turn_to(thread);
        let limit = self.machine.retired() + PATIENCE;
        let stop = self.machine.run(&mut told, engine, limit);
        self.has_new_table |= told.has_new_table;
        told.mark.filter(|_| stop == Stop::Watcher)
    }

    /// Runs all others that have no operation under way until they begin one.
    fn let_others_begin(&mut self, thread: ThreadId, engine: &mut Engine) {
        for other in self.machine.ready() {
            if other == thread || self.begun.contains_key(&other) {
                continue;
            }
            if let Some(Mark::OperationBegins { number }) = self.go_on(other, engine) {
                self.begun.insert(other, number);
            }
        }
    }
}

/// Comes back where an operation begins or ends.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    mark: Option<Mark>,
    has_new_table: bool,
}

impl Watcher for Told {
    fn bookkeeping(&mut self, _: u64, bytes: &[u8]) {
        self.has_new_table |= bytes.iter().any(|&byte| byte != 0);
    }

    fn marks(&mut self, _: &Pool, mark: Mark, _: &[Piece], _: &At) -> bool {
        let tells = !matches!(mark, Mark::Atomic { .. });
        if tells {
            self.mark = Some(mark);
        }
        !tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations of an episode, each from one mark to another.
    fn operations(marks: &[(u64, Option<u64>)]) -> Vec<Operation> {
        let operation = |(thread, &(began, ended)): (usize, &(u64, Option<u64>))| Operation {
            number: thread as u64,
            after: None,
            overlaps: true,
            thread: ThreadId(thread as u32),
            began,
            ended,
            episode: 1,
        };
        marks.iter().enumerate().map(operation).collect()
    }

    #[test]
    fn who_had_ended_comes_before_who_begins_then() {
        // The first ends, and then the third begins; the second is under way all the time.
        let all = operations(&[(0, Some(3)), (1, None), (3, None), (5, None)]);
        let done = Done::of(&all, 1, 4).expect("few");
        assert_eq!((done.all.len(), done.complete), (3, 0b001));
        let next = |set: u64| done.next(set).collect::<Vec<_>>();
        assert_eq!(next(0b000), [0, 1]);
        assert_eq!(next(0b010), [0]);
        assert_eq!(next(0b001), [1, 2]);
        assert_eq!(next(0b111), [0_usize; 0]);
    }

    #[test]
    fn what_ends_later_is_not_complete_yet() {
        let all = operations(&[(0, Some(3)), (1, Some(4))]);
        let at = |marks| Done::of(&all, 1, marks).expect("few").complete;
        assert_eq!([at(2), at(3), at(4)], [0b00, 0b01, 0b11]);
        let many = operations(&[(0, None); 65]);
        assert!(Done::of(&many, 1, 1).is_none());
    }
}
