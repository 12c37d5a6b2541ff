//! What flushes and fences cost on the machine itself: its program runs there once, with caches, queues and
//! time, and nobody cuts it.
//!
//! Always true here: what is told of an instruction was measured on that machine. Where its run differs from
//! the one that was checked (threads take other turns), it is the mean over all times that the instruction
//! was carried out.

use std::collections::{BTreeMap, BTreeSet};

use perdure_hardware::specification::Domain;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::NotCopied;
use perdure_riscv::Class;
use serde_json::{Value, json};

use super::Asked;
use super::machine::made_ready;
use crate::error::Error;
use crate::machine::{Machine, Pause};
use crate::observer::{Observer, run_on};
use crate::request::Prepared;
use crate::retired::{Listener, Step};
use crate::shared::Shared;

/// The run here is left when it has retired so many times what the checked one did: it goes another way.
const PATIENCE: u64 = 4;

/// How often something was carried out, and how long it held up what comes behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spent {
    times: u64,
    cycles: Cycles,
}

impl Spent {
    fn add(&mut self, cycles: Cycles) {
        self.times += 1;
        self.cycles += cycles;
    }
}

/// Who measures.
#[derive(Debug, Default)]
struct Measured {
    flushes: Spent,
    fences: Spent,
    places: BTreeMap<u64, Spent>,
    /// Moments of the checked run.
    wanted: BTreeSet<(u64, u64)>,
    exact: BTreeMap<(u64, u64), Cycles>,
}

impl Listener for Measured {
    fn retires(&mut self, _: usize, step: &Step, _: bool, _: Cycles) {
        let all = match step.observed.class {
            Class::CacheBlock => &mut self.flushes,
            Class::Fence => &mut self.fences,
            _ => return,
        };
        let cycles = step.held_up;
        all.add(cycles);
        self.places.entry(step.address).or_default().add(cycles);
        let moment = (step.retired, step.address);
        if self.wanted.contains(&moment) {
            self.exact.insert(moment, cycles);
        }
    }
}

/// What everything cost.
pub struct Costs {
    domain: Domain,
    cycles: Cycles,
    measured: Measured,
}

impl Costs {
    /// Of a run like the one that retired so many instructions; and, where it is the same, exactly for these:
    /// what was retired before them, and their addresses. None if there is no such run.
    pub fn measure(
        asked: &Asked,
        instructions: u64,
        wanted: BTreeSet<(u64, u64)>,
        observer: &dyn Observer,
    ) -> Result<Option<Self>, Error> {
        let prepared = made_ready(&asked.request)?;
        let Prepared {
            configuration,
            workload,
            engine,
            ..
        } = &prepared;
        let mut machine = Machine::boot(configuration, workload, *engine, None)?;
        machine.outside.forgets = true;
        machine.stop_in(instructions.saturating_mul(PATIENCE));
        let measured = Shared::new(Measured {
            wanted,
            ..Measured::default()
        });
        machine.listener = NotCopied(Some(Box::new(measured.clone())));
        let progress = |machine: &Machine| {
            let message = "the machine's time for it";
            observer.progress(machine.retired(), instructions, "instructions", message);
        };
        let end = run_on(&mut machine, Cycles::MAX - 1, observer, |_, _| {}, progress)?;
        let went_well = machine.ended().is_some_and(|end| end.report.status == 0);
        let measured = std::mem::take(&mut *measured.lock());
        Ok((end == Some(Pause::Finished) && went_well).then(|| Self {
            domain: configuration.specification.persistence.domain,
            cycles: machine.time(),
            measured,
        }))
    }

    /// What the instruction at this address cost at these moments.
    pub fn of(&self, pc: u64, moments: &[u64]) -> Option<Cycles> {
        let all = self.measured.places.get(&pc)?;
        let one = |&retired: &u64| match self.measured.exact.get(&(retired, pc)) {
            Some(&cycles) => cycles,
            None => all.cycles / all.times,
        };
        Some(moments.iter().map(one).sum())
    }

    /// The whole.
    pub fn to_json(&self) -> Value {
        let Measured {
            flushes, fences, ..
        } = &self.measured;
        json!({
            "domain": self.domain,
            "cycles": self.cycles,
            "flushes": flushes.times,
            "flush_cycles": flushes.cycles,
            "fences": fences.times,
            "fence_cycles": fences.cycles,
        })
    }
}
