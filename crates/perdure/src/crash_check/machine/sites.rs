//! Where in a program the stores are that cuts have lost: the call stack of the same instruction in the run
//! without time.
//!
//! Always true here: it is that of the first such store in the same operation, or else in another one.

use std::collections::BTreeMap;

use perdure_linux::ThreadId;
use perdure_riscv::Mark;

use super::super::cause::Cause;
use super::super::uncut::{Stacks, stacks_and_parts};
use crate::functional::{At, Engine, Functional, Pool, Watcher};

/// Finds out where the stores of causes are in the program that a machine begins.
pub fn name(began: &Functional, patience: u64, causes: &mut [&mut Cause]) {
    if causes.is_empty() {
        return;
    }
    let mut sites = Sites::default();
    let mut machine = began.clone();
    machine.run(&mut sites, &mut Engine::default(), patience);
    let all = causes.iter().flat_map(|cause| sites.moments(cause));
    let retired = all.map(|(_, retired)| retired);
    let (known, _) = stacks_and_parts(began.clone(), retired, &BTreeMap::new());
    for cause in causes {
        let stacks: Stacks = (sites.moments(cause).into_iter())
            .filter_map(|(moment, retired)| Some((moment, known.get(&retired)?.clone())))
            .collect();
        cause.look_up(&stacks, &BTreeMap::new());
    }
}

/// The first store of each instruction in each operation, by how much was retired before it.
#[derive(Clone, Default)]
struct Sites {
    first: BTreeMap<(u64, Option<u64>), u64>,
    open: BTreeMap<ThreadId, u64>,
}

impl Sites {
    /// How much was retired, for the moments of a cause.
    fn moments(&self, cause: &Cause) -> Vec<(u64, u64)> {
        let at = (cause.involved()).flat_map(|one| [one.store.at, one.last]);
        let at = at.chain([cause.at]).filter(|at| at.pc != 0);
        at.filter_map(|at| Some((at.retired, self.retired(at.pc, cause.operation)?)))
            .collect()
    }

    fn retired(&self, pc: u64, operation: Option<u64>) -> Option<u64> {
        let of_any = || self.first.range((pc, None)..).next();
        let (_, retired) = (self.first)
            .get_key_value(&(pc, operation))
            .or_else(|| of_any().filter(|((of, _), _)| *of == pc))?;
        Some(*retired)
    }
}

impl Watcher for Sites {
    const LOCATES: bool = true;

    fn stores(&mut self, _: &Pool, _: u64, _: &[u8], at: &At) {
        let operation = self.open.get(&at.thread).copied();
        self.first.entry((at.pc, operation)).or_insert(at.retired);
    }

    fn marks(&mut self, _: &Pool, mark: Mark, _: Option<u64>, at: &At) -> bool {
        match mark {
            Mark::OperationBegins { number } => drop(self.open.insert(at.thread, number)),
            Mark::OperationEnds => drop(self.open.remove(&at.thread)),
            Mark::Atomic { .. } => {}
        }
        true
    }
}
