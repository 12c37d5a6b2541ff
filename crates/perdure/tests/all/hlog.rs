//! Hlog by hand: random wraps of several threads, cut at every event and in recovery, before the oracle of
//! its promise; with logs and caches so small that every way out of a full one is taken.

use perdure_designs::Design;
use perdure_designs::hlog::{Counters, Hlog, Parameters, WRAP_CLOSE, WRAP_OPEN, WRAP_RECORD};
use perdure_designs::oracle::Fault;
use perdure_hardware::line::{LineNumber, line_of};
use perdure_hardware::physical_map::RegionKind;
use perdure_hardware::policy::Policy as _;
use perdure_hardware::random::Random;
use perdure_hardware::specification::{
    Domain, ModuleSpecification, Persistence, PersistenceDomain, Specification,
};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;

use crate::restart_rig::Run;
use crate::rigs::geometry::{DIRECT_MAPPED, Geometry, MANY_HARTS, TINY};
use crate::rigs::rig::Rig;

/// The word of each line that all threads store to, one after the other.
const SHARED: usize = 7;

/// A way to be short of something.
struct Machine {
    name: &'static str,
    geometry: Geometry,
    domain: Domain,
    /// Lines of the log, of the controller's buffer, of the victim cache.
    sizes: (u64, u64, u64),
    threads: u32,
    /// Lines of the pool that are stored to.
    lines: u64,
    /// Of 100 steps, those that close a wrap.
    closes: u64,
    banks: usize,
    /// Most cycles between two steps of a hart.
    pause: u64,
}

const MACHINES: &[Machine] = &[
    Machine {
        name: "roomy",
        geometry: TINY,
        domain: Domain::Adr,
        sizes: (256, 64, 64),
        threads: 2,
        lines: 24,
        closes: 12,
        banks: 16,
        pause: 40,
    },
    Machine {
        name: "small log",
        geometry: DIRECT_MAPPED,
        domain: Domain::Media,
        sizes: (128, 8, 32),
        threads: 2,
        lines: 40,
        closes: 25,
        banks: 16,
        pause: 40,
    },
    Machine {
        name: "many harts, small log",
        geometry: MANY_HARTS,
        domain: Domain::Media,
        sizes: (192, 4, 8),
        threads: 5,
        lines: 64,
        closes: 20,
        banks: 2,
        pause: 40,
    },
    Machine {
        name: "small victim cache",
        geometry: MANY_HARTS,
        domain: Domain::Adr,
        sizes: (512, 2, 3),
        threads: 4,
        lines: 48,
        closes: 8,
        banks: 16,
        pause: 40,
    },
    Machine {
        name: "one bank",
        geometry: TINY,
        domain: Domain::Media,
        sizes: (96, 4, 4),
        threads: 2,
        lines: 24,
        closes: 40,
        banks: 1,
        pause: 40,
    },
    Machine {
        name: "unhurried",
        geometry: Geometry { harts: 3, ..TINY },
        domain: Domain::Media,
        sizes: (512, 32, 16),
        threads: 3,
        lines: 64,
        closes: 12,
        banks: 16,
        pause: 3000,
    },
];

impl Machine {
    fn specification(&self) -> Specification {
        let mut specification = self.geometry.specification();
        let domain = self.domain;
        specification.persistence = PersistenceDomain { domain };
        specification.nvm.bytes = 4 << 20;
        specification.nvm.banks = self.banks;
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

    fn parameters(&self) -> Parameters {
        let (log, buffer, victims) = self.sizes;
        Parameters {
            log_bytes: log * 64,
            buffer_bytes: buffer * 64,
            victim_bytes: victims * 64,
            ..Parameters::default()
        }
    }
}

/// A rig whose harts run threads that make wraps.
struct Wraps {
    run: Run<Hlog>,
    /// On each hart.
    threads: Vec<u32>,
    first: LineNumber,
    /// By thread, whether it has a wrap open.
    open: Vec<bool>,
    /// The thread that may store to shared words, until it closes its wrap; and from when on another may.
    owner: Option<u32>,
    given_up: Cycles,
}

/// What a step does to memory.
#[derive(Clone, Copy)]
struct Stored {
    line: LineNumber,
    word: usize,
    value: u64,
}

fn instruct(rig: &mut Rig<Hlog>, hart: usize, function: u16, operands: [u64; 2]) {
    let now = rig.clock(hart);
    let Rig {
        hardware, design, ..
    } = rig;
    let answer = hardware.instruct(design, hart, function, operands, now);
    let (_, done) = answer.expect("the design has it");
    rig.hardware.cores[hart].timing.stand_still_until(now, done);
    rig.pause(hart, 1);
}

/// `hlog_store`.
fn store(rig: &mut Rig<Hlog>, hart: usize, stored: Stored) {
    let Stored { line, word, value } = stored;
    rig.store(hart, line, word, value);
    let address = line * 64 + word as u64 * 8;
    instruct(rig, hart, WRAP_RECORD, [address, value]);
}

/// A thread begins to run on a hart.
fn switch(rig: &mut Rig<Hlog>, hart: usize, thread: u32) {
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
fn store_for_system(rig: &mut Rig<Hlog>, hart: usize, line: LineNumber) {
    for begins in [true, false] {
        if let Some(trace) = &mut rig.hardware.memory.trace {
            trace.push(Traced::SystemStores { hart, begins });
        }
        let Rig {
            hardware, design, ..
        } = &mut *rig;
        design.system_stores(hardware, hart, begins);
        if begins {
            rig.store(hart, line, 6, 0);
        }
    }
}

impl Wraps {
    fn new(machine: &Machine, bug: Option<&'static str>) -> Self {
        let mut run = Run::<Hlog>::with(machine.specification(), &machine.parameters(), bug, 3);
        let harts = machine.geometry.harts;
        let threads: Vec<u32> = (0..harts as u32).collect();
        for (hart, &thread) in threads.iter().enumerate() {
            switch(&mut run.rig, hart, thread);
        }
        let region = run.rig.hardware.memory.map().pools().next();
        let pool = Hlog::pool_data(&region.expect("a pool"));
        Self {
            run,
            threads,
            first: line_of(pool.start),
            open: vec![false; machine.threads.max(harts as u32) as usize],
            owner: None,
            given_up: 0,
        }
    }

    /// One random step of the hart that is behind. Threads share lines; a word is one thread's, or a wrap
    /// owns it until it is closed.
    fn step(&mut self, machine: &Machine, random: &mut Random) {
        let line = self.first + random.below(machine.lines);
        let [other, value] = [4096 + random.below(96), random.bits()];
        let own = random.below(8) as usize;
        let waiting: Vec<u32> = (0..machine.threads)
            .filter(|thread| !self.threads.contains(thread))
            .collect();
        let next = random.below(waiting.len().max(1) as u64) as usize;
        let next = waiting.get(next).copied();
        let (chosen, shares) = (random.below(100), random.below(100) < 25);
        let pause = random.below(machine.pause);
        let system = self.first + machine.lines + random.below(6);
        let (threads, open) = (&mut self.threads, &mut self.open);
        let (owner, given_up) = (&mut self.owner, &mut self.given_up);
        self.run.step(|rig, hart| {
            let thread = threads[hart];
            let opened = &mut open[thread as usize];
            let word = (own * machine.threads as usize + thread as usize) % SHARED;
            let mine = word % machine.threads as usize == thread as usize;
            let word = if mine { word } else { thread as usize };
            let mut stored = Stored { line, word, value };
            rig.pause(hart, pause);
            if chosen < machine.closes {
                instruct(rig, hart, WRAP_CLOSE, [0; 2]);
                *opened = false;
                if *owner == Some(thread) {
                    *owner = None;
                    *given_up = rig.clock(hart);
                }
                return;
            }
            match chosen - machine.closes {
                0..=5 => {
                    if let Some(next) = next {
                        threads[hart] = next;
                        switch(rig, hart, next);
                    }
                }
                6 => rig.cache_block(hart, line, value & 1 == 0),
                7 => store_for_system(rig, hart, system),
                8 => rig.store(hart, system, thread as usize, value),
                9 => rig.load(hart, system),
                10..=13 => rig.store(hart, line, word, value),
                14..=20 => rig.load(hart, line),
                21..=30 => rig.store(hart, other, word, value),
                32 if !*opened => {
                    instruct(rig, hart, WRAP_OPEN, [0; 2]);
                    instruct(rig, hart, WRAP_CLOSE, [0; 2]);
                }
                // By itself.
                31 if !*opened => store(rig, hart, stored),
                _ => {
                    if !*opened {
                        instruct(rig, hart, WRAP_OPEN, [0; 2]);
                        *opened = true;
                    }
                    let free = owner.is_none() && rig.clock(hart) >= *given_up;
                    if shares && (free || *owner == Some(thread)) {
                        *owner = Some(thread);
                        stored.word = SHARED;
                    }
                    store(rig, hart, stored);
                }
            }
        });
    }
}

/// What a run of random wraps is accused of, with its cuts, and what the design counted.
fn accused(
    machine: &Machine,
    seed: u64,
    steps: u64,
    bug: Option<&'static str>,
) -> (Option<Fault>, u64, Counters) {
    let mut wraps = Wraps::new(machine, bug);
    let mut random = Random::new(seed);
    for _ in 0..steps {
        wraps.step(machine, &mut random);
        let hardware = &wraps.run.rig.hardware;
        let over = wraps.run.fault.is_some() || hardware.failure.is_some();
        if over || hardware.breach.is_some() {
            break;
        }
    }
    let Rig {
        hardware, design, ..
    } = &wraps.run.rig;
    let name = machine.name;
    if bug.is_none() {
        assert_eq!(hardware.failure, None, "'{name}', PERDURE_SEED={seed}");
        assert_eq!(hardware.breach, None, "'{name}', PERDURE_SEED={seed}");
        let newest = wraps.run.rig.check_newest();
        assert!(newest.is_ok(), "'{name}', PERDURE_SEED={seed}: {newest:?}");
    }
    // Wrong bytes for a miss are a breach, and wrong without any cut.
    let wrong = hardware.breach.as_ref().map(|_| Fault::Memory);
    let fault = wraps.run.fault.or(wrong);
    (fault, wraps.run.cuts, design.counters())
}

#[test]
fn no_cut_at_any_event_finds_it_wrong_and_every_way_out_is_taken() {
    let mut taken = std::collections::BTreeMap::new();
    for machine in MACHINES {
        for seed in crate::rigs::seeds(2) {
            let (fault, cuts, counters) = accused(machine, seed, 800, None);
            let name = machine.name;
            println!("'{name}', PERDURE_SEED={seed}: {cuts} cuts, {counters:?}");
            assert_eq!(fault, None, "'{name}', PERDURE_SEED={seed}");
            for (path, times) in Hlog::paths(&Statistics::default(), &counters) {
                *taken.entry(path).or_insert(0) += times;
            }
        }
    }
    let never: Vec<_> = taken.iter().filter(|(_, times)| **times == 0).collect();
    assert!(never.is_empty(), "{never:?}");
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Hlog::PLANTED_BUGS {
        let found = MACHINES.iter().find_map(|machine| {
            (1..=3).find_map(|seed| {
                let (fault, cuts, _) = accused(machine, seed, 800, Some(bug.name));
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
