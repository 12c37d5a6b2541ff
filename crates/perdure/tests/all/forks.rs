//! Forks of a machine are values: each goes on as the machine that nobody forked, in any order, beside
//! the others and on any thread; nothing that one does is seen by another.

use perdure::machine::{Machine, Pause};
use perdure::report::state_hash;
use perdure::request::{Prepared, Request};
use perdure_hardware::random::Random;

use crate::common;

fn run_to(machine: &mut Machine, until: u64) {
    while let Pause::EpochEnded(_) = machine.run(until).expect("it runs") {}
}

/// Runs to the end. What it shows there: state, every counter, and what is in memory.
fn end_of(mut machine: Machine) -> (String, String, u128) {
    run_to(&mut machine, u64::MAX - 1);
    let arena = &machine.hardware.memory.arena;
    let memory = arena.compute_digest(0..arena.len());
    let counters = machine.statistics().describe();
    let counters: Vec<_> = counters.iter().map(|one| (one.name, one.value)).collect();
    (state_hash(&machine), format!("{counters:?}"), memory.0)
}

fn forks_end_alike(prepared: &Prepared, seed: u64) {
    let boot = || {
        let (configuration, workload) = (&prepared.configuration, &prepared.workload);
        Machine::boot(configuration, workload, prepared.engine, None).expect("it boots")
    };
    let mut machine = boot();
    run_to(&mut machine, u64::MAX - 1);
    let length = machine.time();
    let expected = end_of(machine);
    let mut random = Random::new(seed);
    let mut machines = vec![boot()];
    for _ in 0..12 {
        let place = random.below(machines.len() as u64) as usize;
        let further = machines[place].time() + random.below(length / 4);
        run_to(&mut machines[place], further);
        if machines.len() < 4 {
            machines.push(machines[place].clone());
        }
    }
    for machine in machines {
        assert_eq!(
            end_of(machine),
            expected,
            "{}, seed {seed}",
            prepared.configuration.design.name
        );
    }
}

#[test]
fn every_fork_ends_as_the_machine_that_nobody_forked() {
    for design in common::designs() {
        let mut asked = common::request(&design, "@exerciser:2000:64:300:2");
        asked["machine"] = common::machine_of(&design).into();
        asked["harts"] = 2.into();
        let request = Request::parse(&asked.to_string()).expect("a request");
        let prepared = request.prepare().expect("it can run");
        for seed in crate::rigs::seeds(1) {
            forks_end_alike(&prepared, seed);
        }
    }
}
