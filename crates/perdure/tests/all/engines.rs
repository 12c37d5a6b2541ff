//! What is run in several ways and must come to the same end.

use perdure::machine::{Machine, Pause};
use perdure::port::Door;
use perdure::report::state_hash;
use perdure::request::Prepared;
use perdure::source::{Engine, Engines, Exit, Registers, Source};
use perdure_hardware::random::Random;

/// No pause before the end.
pub const WHOLE: u64 = u64::MAX / 4;

/// One engine or the other, at random.
#[derive(Clone)]
pub struct Either {
    engines: [Engines; 2],
    random: Random,
}

impl Source for Either {
    type Choice = u64;

    fn new(seed: u64) -> Self {
        Self {
            engines: [Engine::Fast, Engine::Plain].map(Engines::new),
            random: Random::new(seed),
        }
    }
    fn run(&mut self, registers: &mut Registers, door: Door) -> Exit {
        let which = self.random.below(2) as usize;
        self.engines[which].run(registers, door)
    }
    fn forget(&mut self) {
        self.engines.iter_mut().for_each(Source::forget);
    }
}

/// Runs a machine to its end, stopping every so many cycles: its state there, and every counter.
pub fn end_of<S: Source>(
    prepared: &Prepared,
    choice: S::Choice,
    pause_cycles: u64,
) -> (String, u64, Vec<(&'static str, u64)>) {
    let (configuration, workload) = (&prepared.configuration, &prepared.workload);
    let mut machine = Machine::<S>::boot(configuration, workload, choice, None).expect("it boots");
    let mut until = pause_cycles;
    loop {
        match machine.run(until).expect("it runs") {
            Pause::Finished => break,
            Pause::Time => until = until.saturating_add(pause_cycles),
            Pause::EpochEnded(_) => {}
        }
    }
    let statistics = machine.statistics();
    statistics.check_conservation().expect("they add up");
    let counters = statistics.describe();
    let counters = counters.iter().map(|one| (one.name, one.value)).collect();
    (state_hash(&machine), machine.time(), counters)
}
