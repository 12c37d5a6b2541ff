//! Pools after power cuts: random programs that map, store, flush, fence and synchronise, cut after every
//! instruction and within every call, against a model of what they did.
//!
//! Always true here: the model knows the operations alone ([`model`]); mistakes that are planted in the
//! kernel are found by it.

mod lives;
mod model;
mod program;

use std::collections::BTreeMap;

use perdure::machine::Machine;
use perdure::mistakes::Mistake;
use perdure::pools::Survived;
use perdure::request::{Prepared, Request};
use perdure::{Engine, Pause};
use perdure_hardware::mistaken::PersistMistake;
use perdure_hardware::random::Random;
use perdure_hardware::specification::Domain;
use perdure_linux::pools::PoolMistake;

use crate::common::Directory;
use model::Model;
use program::Program;
pub use program::elf;

/// Caches that keep everything that these programs touch.
const LARGE: &[&str] = &["nvm.bytes=67108864"];
/// Caches that let go of lines all the time.
const SMALL: &[&str] = &[
    "nvm.bytes=67108864",
    "l1i.bytes=512",
    "l1i.ways=1",
    "l1d.bytes=512",
    "l1d.ways=1",
    "l2.bytes=1024",
    "l2.ways=1",
    "llc.bytes_per_hart=2048",
    "llc.ways=1",
];

/// How a program is run and cut.
struct Trial {
    domain: Domain,
    large: bool,
    core: &'static str,
    mistake: Option<Mistake>,
}

const PLAIN: Trial = Trial {
    domain: Domain::Adr,
    large: false,
    core: "in-order",
    mistake: None,
};

fn prepared_of(trial: &Trial, folder: &Directory, program: &Program) -> Prepared {
    let path = folder.at("program");
    std::fs::write(&path, &program.elf).expect("a program");
    let domain = match trial.domain {
        Domain::Media => "media",
        Domain::Adr => "adr",
        Domain::Eadr => "eadr",
    };
    let settings = if trial.large { LARGE } else { SMALL };
    let mut set: Vec<String> = settings.iter().map(ToString::to_string).collect();
    set.push(format!("persistence.domain={domain}"));
    set.push(format!("core.model={}", trial.core));
    if trial.core != "out-of-order" {
        set.push("l1d.latency_cycles=1".into());
    }
    let request = Request {
        machine: "x86-pm".into(),
        design: "ideal".into(),
        set,
        program: vec![path.display().to_string()],
        pmem: Some(folder.at("pools")),
        ..Request::default()
    };
    let mut prepared = request.prepare().expect("a good request");
    prepared.workload.mistake = trial.mistake;
    prepared
}

fn machine_of(trial: &Trial, folder: &Directory, program: &Program) -> Machine {
    let prepared = prepared_of(trial, folder, program);
    let machine = Machine::boot(
        &prepared.configuration,
        &prepared.workload,
        Engine::Fast,
        None,
    );
    machine.expect("it boots")
}

fn survived(machine: &mut Machine, at: u64, seed: u64) -> BTreeMap<String, Vec<u8>> {
    let survived = Survived::cut(machine, at, seed).expect("a table is whole");
    let survived = survived.expect("there are pools");
    let pools = survived.pools().iter();
    pools
        .map(|pool| (pool.name.clone(), survived.bytes(pool)))
        .collect()
}

/// Runs a program and cuts it again and again; what is wrong first, and how many cuts were made.
fn cut_everywhere(trial: &Trial, seed: u64) -> (Option<String>, u64) {
    let mut random = Random::new(seed);
    let program = Program::new(program::random(&mut random, 90));
    let folder = Directory::new(&format!("pools-{seed}-{:?}", std::thread::current().id()));
    let mut machine = machine_of(trial, &folder, &program);
    // What was over at the last pause, and what has begun by now.
    let (mut over, mut begun) = (Model::new(trial), Model::new(trial));
    let (mut places, mut cuts, mut before) = ((0, 0), 0, 0);
    loop {
        let stride = 1 + random.below(2) * random.below(120);
        let pause = machine.run(before + stride).expect("it runs");
        let now = machine.clock(0).max(before);
        let (last_over, last_begun) = program.progress(machine.location().0);
        let step = |model: &mut Model, from: usize, to: usize| {
            (program.operations[from..to].iter()).for_each(|&operation| model.step(operation));
        };
        step(&mut begun, places.1, last_begun);
        let at = before + random.below(now - before + 1);
        let found = survived(&mut machine, at, random.bits());
        cuts += 1;
        if let Some(wrong) = begun.refuses(&over, &found) {
            let last = &program.operations[places.0..last_begun];
            return (Some(format!("cycle {at}, in {last:?}: {wrong}")), cuts);
        }
        step(&mut over, places.0, last_over);
        places = (last_over, last_begun);
        if pause == Pause::Finished {
            let ended = machine.ended().expect("it has").report.status;
            assert_eq!((ended, last_over), (0, program.operations.len()));
            return (None, cuts);
        }
        before = now;
    }
}

#[test]
fn a_cut_leaves_of_pools_what_was_made_durable_or_later() {
    for (domain, large, core) in [
        (Domain::Media, false, "out-of-order"),
        (Domain::Media, true, "in-order"),
        (Domain::Adr, false, "timing-simple"),
        (Domain::Adr, true, "out-of-order"),
        (Domain::Eadr, false, "in-order"),
    ] {
        for seed in crate::rigs::seeds(1) {
            let trial = Trial {
                domain,
                large,
                core,
                ..PLAIN
            };
            let (wrong, cuts) = cut_everywhere(&trial, seed);
            let told =
                format!("{domain:?}, large {large}, {core}, PERDURE_SEED={seed}: {cuts} cuts");
            println!("{told}");
            assert_eq!(wrong, None, "{told}");
            assert!(cuts > 100, "{told}");
        }
    }
}

#[test]
fn mistakes_with_pools_are_found() {
    use PersistMistake::{FencesForStoresAlone, PassesItsStores};
    for (mistake, large, domain) in [
        (Mistake::Pools(PoolMistake::TableFirst), false, Domain::Adr),
        (
            Mistake::Pools(PoolMistake::SynchronisesNothing),
            true,
            Domain::Adr,
        ),
        (
            Mistake::Pools(PoolMistake::FaultCommitsNothing),
            true,
            Domain::Adr,
        ),
        (Mistake::Pools(PoolMistake::FreesEarly), false, Domain::Adr),
        (Mistake::ReadsPoolsBack, true, Domain::Adr),
        (Mistake::Persists(PassesItsStores), true, Domain::Adr),
        (Mistake::Persists(FencesForStoresAlone), true, Domain::Media),
    ] {
        let trial = Trial {
            domain,
            large,
            mistake: Some(mistake),
            ..PLAIN
        };
        let found = (1..=120).find_map(|seed| cut_everywhere(&trial, seed).0);
        println!("{mistake:?}: {found:?}");
        assert!(found.is_some(), "{mistake:?} was not found");
    }
}
