//! SPMS by hand: random strands of several threads, cut at every event and in recovery, before the oracle of
//! its promise; with tables and buffers so small that every way out of a full one is taken.

use perdure_designs::Design;
use perdure_designs::oracle::Fault;
use perdure_designs::spms::{Counters, NEW_STRAND, Order, Parameters, STRAND_SYNC, Spms};
use perdure_hardware::line::{LineNumber, line_of};
use perdure_hardware::physical_map::RegionKind;
use perdure_hardware::policy::Policy as _;
use perdure_hardware::random::Random;
use perdure_hardware::specification::{
    Domain, ModuleSpecification, Persistence, PersistenceDomain, Specification,
};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::trace::Traced;

use crate::restart_rig::Run;
use crate::rigs::geometry::{DIRECT_MAPPED, Geometry, MANY_HARTS, TINY};
use crate::rigs::rig::Rig;

/// A way to be short of something.
struct Machine {
    name: &'static str,
    geometry: Geometry,
    domain: Domain,
    /// TID, SID, entries, lines of the strand buffer.
    sizes: (u32, u32, usize, u64),
    threads: u32,
    /// Lines of the pool that are stored to.
    lines: u64,
    /// Of 100 steps, those that end a strand.
    ends: u64,
}

const MACHINES: &[Machine] = &[
    Machine {
        name: "roomy",
        geometry: TINY,
        domain: Domain::Adr,
        sizes: (2, 5, 128, 64),
        threads: 2,
        lines: 24,
        ends: 12,
    },
    Machine {
        name: "few identifiers",
        geometry: DIRECT_MAPPED,
        domain: Domain::Media,
        sizes: (1, 2, 8, 32),
        threads: 2,
        lines: 40,
        ends: 30,
    },
    Machine {
        name: "few entries",
        geometry: MANY_HARTS,
        domain: Domain::Adr,
        sizes: (2, 3, 6, 64),
        threads: 5,
        lines: 16,
        ends: 30,
    },
    Machine {
        name: "small buffer",
        geometry: TINY,
        domain: Domain::Media,
        sizes: (2, 4, 64, 4),
        threads: 2,
        lines: 24,
        ends: 6,
    },
    Machine {
        name: "small buffer, many harts",
        geometry: MANY_HARTS,
        domain: Domain::Adr,
        sizes: (2, 4, 64, 3),
        threads: 4,
        lines: 32,
        ends: 10,
    },
];

impl Machine {
    fn specification(&self) -> Specification {
        let mut specification = self.geometry.specification();
        let domain = self.domain;
        specification.persistence = PersistenceDomain { domain };
        specification.nvm.bytes = 4 << 20;
        specification.modules = vec![ModuleSpecification {
            name: "main".into(),
            kind: RegionKind::Dram,
            persistence: Persistence::None,
            region: String::new(),
            interleaving_bytes: 4096,
            device_bytes: 0,
            media: specification.nvm.clone(),
            link: specification.link.clone(),
        }];
        specification
    }

    fn parameters(&self, order: Order) -> Parameters {
        let (tid_bits, sid_bits, sgst_entries, lines) = self.sizes;
        Parameters {
            cid_bits: 2,
            tid_bits,
            sid_bits,
            sgst_entries,
            buffer_bytes: lines * 64,
            order,
            ..Parameters::default()
        }
    }
}

/// A rig whose harts run threads that make strands.
struct Strands {
    run: Run<Spms>,
    /// On each hart.
    threads: Vec<u32>,
    first: LineNumber,
}

fn instruct(rig: &mut Rig<Spms>, hart: usize, function: u16) -> u64 {
    let now = rig.clock(hart);
    let Rig {
        hardware, design, ..
    } = rig;
    let answer = hardware.instruct(design, hart, function, [0; 2], now);
    let (value, done) = answer.expect("the design has it");
    rig.hardware.cores[hart].timing.stand_still_until(now, done);
    rig.pause(hart, 1);
    value
}

/// A thread begins to run on a hart.
fn switch(rig: &mut Rig<Spms>, hart: usize, thread: u32) {
    let now = rig.clock(hart);
    if let Some(trace) = &mut rig.hardware.memory.trace {
        trace.push(Traced::Ran { hart, thread });
    }
    let Rig {
        hardware, design, ..
    } = rig;
    design.thread_runs(hardware, hart, thread, now);
    rig.pause(hart, 1);
}

/// The system zeroes a word.
fn store_for_system(rig: &mut Rig<Spms>, hart: usize, line: LineNumber) {
    for begins in [true, false] {
        if let Some(trace) = &mut rig.hardware.memory.trace {
            trace.push(Traced::SystemStores { hart, begins });
        }
        let Rig {
            hardware, design, ..
        } = &mut *rig;
        design.system_stores(hardware, hart, begins);
        if begins {
            rig.store(hart, line, 7, 0);
        }
    }
}

impl Strands {
    fn new(machine: &Machine, order: Order, bug: Option<&'static str>) -> Self {
        let parameters = machine.parameters(order);
        let mut run = Run::<Spms>::with(machine.specification(), &parameters, bug, 6);
        let harts = machine.geometry.harts;
        let threads: Vec<u32> = (0..harts as u32).collect();
        for (hart, &thread) in threads.iter().enumerate() {
            switch(&mut run.rig, hart, thread);
        }
        let region = run.rig.hardware.memory.map().pools().next();
        let pool = Spms::pool_data(&region.expect("a pool"));
        Self {
            run,
            threads,
            first: line_of(pool.start),
        }
    }

    /// One random step of the hart that is behind.
    fn step(&mut self, machine: &Machine, random: &mut Random) {
        let (own, shared) = (random.below(machine.lines), random.below(100) < 6);
        let threads = u64::from(machine.threads);
        let line_of = |thread: u32| {
            let part = u64::from(thread) * machine.lines / threads;
            let line = if shared { own } else { part + own / threads };
            self.first + line
        };
        let lines: Vec<LineNumber> = self.threads.iter().map(|&thread| line_of(thread)).collect();
        let other = 4096 + random.below(96);
        let (word, value) = (random.below(7) as usize, random.bits());
        let waiting: Vec<u32> = (0..machine.threads)
            .filter(|thread| !self.threads.contains(thread))
            .collect();
        let next = waiting.get(random.below(8) as usize).copied();
        let chosen = random.below(100);
        let pause = random.below(machine.geometry.pause_cycles);
        let threads = &mut self.threads;
        self.run.step(|rig, hart| {
            let line = lines[hart];
            rig.pause(hart, pause);
            if chosen < machine.ends {
                instruct(rig, hart, NEW_STRAND);
                return;
            }
            match chosen - machine.ends {
                0 => {
                    instruct(rig, hart, STRAND_SYNC);
                }
                1..=3 => {
                    if let Some(next) = next {
                        threads[hart] = next;
                        switch(rig, hart, next);
                    }
                }
                4 => rig.cache_block(hart, line, value & 1 == 0),
                5 => store_for_system(rig, hart, line),
                6..=15 => rig.load(hart, line),
                16..=30 => rig.store(hart, other, word, value),
                _ => rig.store(hart, line, word, value),
            }
        });
    }
}

/// A run of random strands.
struct Ran {
    /// What it is accused of.
    fault: Option<Fault>,
    cuts: u64,
    without: [u64; 2],
    counters: Counters,
}

fn ran(machine: &Machine, order: Order, seed: u64, bug: Option<&'static str>) -> Ran {
    let mut strands = Strands::new(machine, order, bug);
    let mut random = Random::new(seed);
    for _ in 0..1200 {
        strands.step(machine, &mut random);
        let hardware = &strands.run.rig.hardware;
        if strands.run.fault.is_some() || hardware.failure.is_some() {
            break;
        }
    }
    let Rig {
        hardware, design, ..
    } = &strands.run.rig;
    let name = machine.name;
    if bug.is_none() {
        let which = format!("'{name}', {order:?}, PERDURE_SEED={seed}");
        assert_eq!(hardware.failure, None, "{which}");
        assert_eq!(hardware.breach, None, "{which}");
        let newest = strands.run.rig.check_newest();
        assert!(newest.is_ok(), "{which}: {newest:?}");
        assert_eq!(strands.run.fault, None, "{which}");
    }
    Ran {
        fault: strands.run.fault,
        cuts: strands.run.cuts,
        without: strands.run.without,
        counters: design.counters(),
    }
}

const ORDERS: [Order; 3] = [Order::Paper, Order::Reads, Order::Thread];

#[test]
fn no_cut_at_any_event_finds_it_wrong_and_every_way_out_is_taken() {
    let mut taken = std::collections::BTreeMap::new();
    for order in ORDERS {
        let mut without = [0; 2];
        for machine in MACHINES {
            for seed in crate::rigs::seeds(if order == Order::Paper { 2 } else { 1 }) {
                let ran = ran(machine, order, seed, None);
                let (name, cuts, counters) = (machine.name, ran.cuts, &ran.counters);
                println!("'{name}', {order:?}, PERDURE_SEED={seed}: {cuts} cuts, {counters:?}");
                for (path, times) in Spms::paths(&Statistics::default(), counters) {
                    *taken.entry(path).or_insert(0) += times;
                }
                (0..2).for_each(|at| without[at] += ran.without[at]);
            }
        }
        let expected = [order == Order::Paper, order != Order::Thread];
        assert_eq!(without.map(|cuts| cuts > 0), expected, "{order:?}");
    }
    let never: Vec<_> = taken.iter().filter(|(_, times)| **times == 0).collect();
    assert!(never.is_empty(), "{never:?}");
}

/// Runs in which the system stored over all that a strand had, or somebody read a line whose tag another
/// reader had sent down.
#[test]
fn runs_that_once_went_wrong_do_not() {
    for (name, order, seed) in [
        ("few identifiers", Order::Paper, 1_753_671_179_675_504),
        ("few entries", Order::Paper, 126_717),
        ("few entries", Order::Reads, 744_399),
    ] {
        let machine = MACHINES.iter().find(|machine| machine.name == name);
        ran(machine.expect("it is listed"), order, seed, None);
    }
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Spms::PLANTED_BUGS {
        let order = match bug.name {
            "load-unheard" => Order::Reads,
            "chain-forgotten" => Order::Thread,
            _ => Order::Paper,
        };
        let found = MACHINES.iter().find_map(|machine| {
            (1..=3).find_map(|seed| {
                let Ran { fault, cuts, .. } = ran(machine, order, seed, Some(bug.name));
                fault.map(|fault| (machine.name, seed, fault, cuts))
            })
        });
        println!("{}: {found:?}", bug.name);
        if found.is_none() {
            missed.push(bug.name);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn a_thread_that_comes_back_to_a_hart_unheard_has_its_strand_there() {
    let machine = &MACHINES[2];
    let mut strands = Strands::new(machine, Order::Paper, None);
    let first = strands.first;
    let rig = &mut strands.run.rig;
    rig.store(0, first, 0, 1);
    switch(rig, 1, 0);
    instruct(rig, 1, NEW_STRAND);
    let of = |rig: &Rig<Spms>, hart| rig.design.current_version(hart);
    assert_eq!(of(rig, 0), of(rig, 1));
    switch(rig, 1, 1);
    assert_ne!(of(rig, 0), of(rig, 1));
}
