//! Where in a program the stores are that cuts have lost: the call stack of the same instruction in the run
//! without time; and what the words are that it stores to.
//!
//! Always true here:
//! - It is that of the first such store to the same line in the same operation, or else to another line or in
//!   another operation.
//! - Words have names only where it is the same line in the same operation.

use std::collections::{BTreeMap, BTreeSet};

use perdure_hardware::line::LINE_BYTES;
use perdure_linux::ThreadId;
use perdure_riscv::Mark;

use super::super::cause::Cause;
use super::super::parts::Parts;
use super::super::rules::Model;
use super::super::uncut::{Stacks, stacks_and_parts};
use crate::functional::{At, Engine, Functional, Pool, Watcher};
use crate::wholes::Piece;

/// An operation, by the program's number, if there is one.
type Operation = Option<u64>;

/// Finds out where the stores of causes are in the program that a machine begins.
pub fn name(began: &Functional, patience: u64, causes: &mut [&mut Cause]) {
    if causes.is_empty() {
        return;
    }
    let asked = causes.iter().flat_map(|cause| moments(cause));
    let mut sites = Sites {
        asked: asked.map(|(_, pc)| pc).collect(),
        ..Sites::default()
    };
    let mut machine = began.clone();
    machine.run(&mut sites, &mut Engine::default(), patience);
    let (mut visited, mut words) = (BTreeSet::new(), BTreeMap::<u64, BTreeSet<u64>>::new());
    for cause in causes.iter() {
        visited.extend(sites.of(cause).into_values());
        for (_, retired, of_cause) in sites.words(cause) {
            words.entry(retired).or_default().extend(of_cause);
        }
    }
    let (known, parts) = stacks_and_parts((began.clone(), Model::Machine), visited, &words);
    for cause in causes {
        let stacks: Stacks = (sites.of(cause).into_iter())
            .filter_map(|(moment, retired)| Some((moment, known.get(&retired)?.clone())))
            .collect();
        cause.look_up(&stacks, &BTreeMap::new());
        let named = sites.words(cause).flat_map(|(moment, retired, words)| {
            let parts = &parts;
            let named = move |word| Some(((moment, word), parts.get(&(retired, word))?.clone()));
            words.into_iter().filter_map(named)
        });
        let named: Parts = named.collect();
        cause.name_parts(&named);
    }
}

/// The moments of a cause that are asked for, with their instructions.
fn moments(cause: &Cause) -> impl Iterator<Item = (u64, u64)> {
    let at = (cause.involved()).flat_map(|one| [one.store.at, one.last]);
    let at = at.chain([cause.at]).filter(|at| at.pc != 0);
    at.map(|at| (at.retired, at.pc))
}

/// The first store of each instruction that is asked for, in each operation and to each line, by how much was
/// retired before it.
#[derive(Clone, Default)]
struct Sites {
    asked: BTreeSet<u64>,
    first: BTreeMap<(u64, Operation), u64>,
    to_line: BTreeMap<(u64, Operation, u64), u64>,
    open: BTreeMap<ThreadId, u64>,
}

impl Sites {
    /// How much was retired at the moments of a cause.
    fn of(&self, cause: &Cause) -> BTreeMap<u64, u64> {
        let others = moments(cause)
            .filter_map(|(moment, pc)| Some((moment, self.retired(pc, cause.operation)?)));
        others.chain(self.same_lines(cause)).collect()
    }

    fn retired(&self, pc: u64, operation: Operation) -> Option<u64> {
        let of_any = || self.first.range((pc, None)..).next();
        let (_, retired) = (self.first)
            .get_key_value(&(pc, operation))
            .or_else(|| of_any().filter(|((of, _), _)| *of == pc))?;
        Some(*retired)
    }

    /// The stores of a cause that are made here to the same line in the same operation.
    fn same_lines(&self, cause: &Cause) -> impl Iterator<Item = (u64, u64)> {
        cause.involved().flat_map(move |one| {
            let find = |at: At| {
                let key = (at.pc, cause.operation, one.line);
                Some((at.retired, *self.to_line.get(&key)?))
            };
            [one.last, one.store.at].into_iter().filter_map(find)
        })
    }

    /// The words of a cause, by the moments of such stores, with how much was retired.
    fn words(&self, cause: &Cause) -> impl Iterator<Item = (u64, u64, BTreeSet<u64>)> {
        let same: BTreeMap<u64, u64> = self.same_lines(cause).collect();
        let of_cause = cause.words();
        of_cause.filter_map(move |(moment, words)| Some((moment, *same.get(&moment)?, words)))
    }
}

impl Watcher for Sites {
    const LOCATES: bool = true;

    fn stores(&mut self, _: &Pool, address: u64, _: &[u8], at: &At) {
        if !self.asked.contains(&at.pc) {
            return;
        }
        let operation = self.open.get(&at.thread).copied();
        let line = address & !(LINE_BYTES as u64 - 1);
        self.first.entry((at.pc, operation)).or_insert(at.retired);
        let of_line = self.to_line.entry((at.pc, operation, line));
        of_line.or_insert(at.retired);
    }

    fn marks(&mut self, _: &Pool, mark: Mark, _: &[Piece], at: &At) -> bool {
        match mark {
            Mark::OperationBegins { number } => drop(self.open.insert(at.thread, number)),
            Mark::OperationEnds => drop(self.open.remove(&at.thread)),
            Mark::Atomic { .. } => {}
        }
        true
    }
}
