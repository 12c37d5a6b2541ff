//! NearPM by hand: harts that store, flush and command devices at random, cut at every event and in recovery,
//! before the oracle of partitioned persist ordering; on machines short of everything, so that every way to
//! wait is taken.

mod counts;
mod faults;
mod machines;
mod operations;

use perdure_designs::Design;
use perdure_designs::nearpm::operations::copy::{COPY, SHADOW_COPY};
use perdure_designs::nearpm::{Command, Counters, MAP, NearPm, Opcode, Parameters, Sync};
use perdure_designs::oracle;
use perdure_hardware::line::{LINE_BYTES, LineNumber, line_of};
use perdure_hardware::persist::Fence;
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
use crate::rigs::geometry::{Geometry, MANY_HARTS, TINY};
use crate::rigs::rig::Rig;

const PAGE: u64 = 4096;
const GRANULE: u64 = 16 << 10;
/// Granules of data that all threads work on, behind the logs.
const DATA_GRANULES: u64 = 6;
/// Granules of a thread's log, where devices are few.
const LOG_GRANULES: u64 = 8;
/// Where programs see the pool.
const VIRTUAL: u64 = 0x10_0000_0000;
const POOL: u8 = 3;

/// A way to be short of something.
struct Machine {
    name: &'static str,
    geometry: Geometry,
    devices: usize,
    latency_ns: f64,
    banks: usize,
    parameters: Parameters,
}

fn machines() -> Vec<Machine> {
    let short = Parameters {
        units: 1,
        fifo_entries: 2,
        host_queue_entries: 2,
        clock_mhz: 50,
        burst_bytes: 256,
        ..Parameters::default()
    };
    let machine = |name, geometry, devices, latency_ns, banks, parameters| Machine {
        name,
        geometry,
        devices,
        latency_ns,
        banks,
        parameters,
    };
    let two = Geometry { harts: 2, ..TINY };
    vec![
        machine("two devices", two, 2, 150.0, 4, Parameters::default()),
        machine("one device", two, 1, 0.0, 16, Parameters::default()),
        machine("short of everything", two, 2, 20.0, 1, short.clone()),
        machine("three devices", MANY_HARTS, 3, 300.0, 2, short),
        machine("long links", two, 2, 4000.0, 4, Parameters::default()),
    ]
}

impl Machine {
    /// Bytes of a thread's log, of which every device needs two granules.
    fn log_bytes(&self) -> u64 {
        LOG_GRANULES.max(2 * self.devices as u64) * GRANULE
    }

    fn specification(&self) -> Specification {
        let mut specification = self.geometry.specification();
        specification.persistence = PersistenceDomain {
            domain: Domain::Adr,
        };
        let media = specification.nvm.clone();
        let mut main = ModuleSpecification {
            name: "main".into(),
            kind: RegionKind::Dram,
            persistence: Persistence::None,
            region: String::new(),
            interleaving_bytes: PAGE,
            device_bytes: 0,
            media: media.clone(),
            link: specification.link.clone(),
        };
        main.media.bytes = 4 << 20;
        specification.nvm.bytes = 0;
        specification.modules = vec![main.clone()];
        for device in 0..self.devices {
            let mut near = ModuleSpecification {
                name: format!("nearpm-{device}"),
                kind: RegionKind::Persistent,
                persistence: Persistence::Media,
                region: "pmem".into(),
                interleaving_bytes: GRANULE,
                device_bytes: PAGE,
                ..main.clone()
            };
            near.media.bytes = 2 << 20;
            near.media.banks = self.banks;
            near.link.latency_ns = self.latency_ns;
            specification.modules.push(near);
        }
        specification
    }
}

/// A rig whose harts use the devices, each as a thread with a log of its own.
struct Near {
    run: Run<NearPm>,
    /// Where the pool lies.
    pool: u64,
    port: u64,
    harts: u64,
    log_bytes: u64,
}

fn instruct(rig: &mut Rig<NearPm>, hart: usize, operands: [u64; 2]) -> u64 {
    let now = rig.clock(hart);
    let Rig {
        hardware, design, ..
    } = rig;
    let answer = hardware.instruct(design, hart, MAP, operands, now);
    let (value, done) = answer.expect("the design has it");
    rig.hardware.cores[hart].timing.stand_still_until(now, done);
    rig.pause(hart, 1);
    value
}

fn store_word(rig: &mut Rig<NearPm>, hart: usize, port: u64, word: u32) {
    let now = rig.clock(hart);
    let Rig {
        hardware, design, ..
    } = rig;
    hardware.device_store(design, (hart, port), &word.to_le_bytes(), now);
    rig.pause(hart, 1);
}

/// Sends a command, or its first words.
fn command(rig: &mut Rig<NearPm>, hart: usize, port: u64, command: &Command, words: usize) {
    for word in command.words(hart as u8).take(words) {
        store_word(rig, hart, port, word);
    }
}

/// A thread's status, as a program reads it.
fn status(rig: &mut Rig<NearPm>, hart: usize, port: u64) -> u64 {
    let (now, mut bytes) = (rig.clock(hart), [0; 8]);
    let Rig {
        hardware, design, ..
    } = rig;
    hardware.device_load(
        design,
        (hart, port + 0x400 + 8 * hart as u64),
        &mut bytes,
        now,
    );
    rig.pause(hart, 1);
    u64::from_le_bytes(bytes)
}

impl Near {
    fn new(machine: &Machine, bug: Option<&'static str>) -> Self {
        let specification = machine.specification();
        let run = Run::<NearPm>::with(specification, &machine.parameters, bug, 3);
        let map = run.rig.hardware.memory.map();
        let pool = NearPm::pool_data(&map.pools().next().expect("a region")).start;
        let device = map
            .regions()
            .iter()
            .find(|one| one.kind == RegionKind::Device);
        let port = device.expect("a device").addresses.start;
        let harts = machine.geometry.harts.min(3) as u64;
        let mut near = Self {
            run,
            pool,
            port,
            harts,
            log_bytes: machine.log_bytes(),
        };
        for hart in 0..harts {
            near.begin(hart as usize);
        }
        near
    }

    fn bytes(&self) -> u64 {
        self.harts * self.log_bytes + DATA_GRANULES * GRANULE
    }

    /// A thread maps the pool and lays its log down.
    fn begin(&mut self, hart: usize) {
        let (pool, port, bytes) = (self.pool, self.port, self.bytes());
        let numbers = u64::from(POOL) | (hart as u64) << 8;
        let log = Command {
            opcode: Opcode::LogReset as u8,
            pool: POOL,
            thread: hart as u8,
            operand: VIRTUAL + hart as u64 * self.log_bytes,
            second: 7,
            size: self.log_bytes as u32,
        };
        self.run.act(|rig| {
            let thread = 40 + hart as u32;
            if let Some(trace) = &mut rig.hardware.memory.trace {
                trace.push(Traced::Ran { hart, thread });
            }
            rig.design.thread_runs(&mut rig.hardware, hart, thread, 0);
            for page in (0..bytes).step_by(PAGE as usize) {
                let first = u64::from(page == 0) << 16;
                let number = (VIRTUAL + page) / PAGE;
                let words = numbers | first | number << 24;
                assert_eq!(instruct(rig, hart, [pool + page, words]), 0);
            }
            command(rig, hart, port, &log, 8);
        });
    }

    /// One random step of the hart that is behind.
    fn step(&mut self, random: &mut Random) {
        let harts = self.harts;
        let step = Step::random(self, random);
        self.run.step(|rig, hart| {
            if hart as u64 >= harts {
                rig.pause(hart, 1_000_000_000);
                return;
            }
            rig.pause(hart, step.pause);
            step.make(rig, hart);
        });
    }
}

/// What a hart does next.
struct Step {
    port: u64,
    /// Where the data lies, and where programs see it.
    data: [u64; 2],
    /// Lines that are stored to, loaded, and written back.
    lines: [LineNumber; 3],
    word: usize,
    value: u64,
    chosen: u64,
    /// Where an operand begins, where a copy goes, and how long they are.
    from: u64,
    to: u64,
    size: u64,
    words: usize,
    pause: Cycles,
}

impl Step {
    fn random(near: &Near, random: &mut Random) -> Self {
        let logs = near.harts * near.log_bytes;
        let data = [near.pool + logs, VIRTUAL + logs];
        let lines = std::array::from_fn(|_| {
            // Few, so that they meet.
            let near_by = random.below(3) * (GRANULE - 128) / 64;
            line_of(data[0]) + near_by + random.below(24)
        });
        let (word, value, chosen) = (random.below(8), random.bits(), random.below(100));
        let from = random.below(DATA_GRANULES * GRANULE - 20_000);
        Self {
            port: near.port,
            data,
            lines,
            word: word as usize,
            value,
            chosen,
            from: if value & 1 == 0 { from } else { from % 2048 },
            to: random.below(DATA_GRANULES * GRANULE - 20_000),
            size: [8, 64, 200, 4096, 9000, 20_000][random.below(6) as usize],
            words: 1 + random.below(7) as usize,
            pause: random.below(600),
        }
    }

    fn command(&self, hart: usize, opcode: Opcode) -> Command {
        Command {
            opcode: opcode as u8,
            pool: POOL,
            thread: hart as u8,
            operand: self.data[1] + self.from,
            second: self.data[1] + self.to,
            size: self.size as u32,
        }
    }

    fn make(&self, rig: &mut Rig<NearPm>, hart: usize) {
        let [stored, loaded, flushed] = self.lines;
        let undo = self.command(hart, Opcode::UndologCreate);
        let commit = self.command(hart, Opcode::CommitLog);
        let send = |rig: &mut Rig<NearPm>, sent: &Command| command(rig, hart, self.port, sent, 8);
        match self.chosen {
            0..=29 => rig.store(hart, stored, self.word, self.value),
            30..=44 => {
                rig.cache_block(hart, flushed, self.value & 1 == 0);
                wait(rig, hart);
            }
            45..=59 => rig.load(hart, loaded),
            60..=74 => {
                let opcode = [Opcode::UndologCreate, Opcode::CheckpointCreate][self.word % 2];
                send(rig, &self.command(hart, opcode));
            }
            // Transactions one behind the other, faster than logs are deleted.
            75..=76 => {
                for _ in 0..3 {
                    send(rig, &undo);
                    send(rig, &commit);
                }
            }
            77..=84 => send(rig, &commit),
            85..=91 => self.copy(rig, hart),
            // Words that never become a command, with a tag of their own.
            92..=93 => {
                for word in commit.words(100 + self.word as u8).take(self.words) {
                    store_word(rig, hart, self.port, word);
                }
            }
            94..=95 => {
                let wrong = [
                    Command {
                        opcode: 0x77,
                        ..undo
                    },
                    Command { size: 0, ..undo },
                    Command {
                        operand: VIRTUAL - 64,
                        ..undo
                    },
                    Command {
                        thread: (hart as u8) ^ 1,
                        ..undo
                    },
                ];
                send(rig, &wrong[self.word % 4]);
            }
            96..=97 => {
                status(rig, hart, self.port);
            }
            _ => rig.pause(hart, 20_000),
        }
    }

    /// Who lets a device write lets go of the bytes first.
    fn copy(&self, rig: &mut Rig<NearPm>, hart: usize) {
        let start = self.data[0] + self.to;
        let lines = line_of(start)..=line_of(start + self.size - 1);
        for line in lines.clone() {
            rig.cache_block(hart, line, true);
        }
        wait(rig, hart);
        let copy = Command {
            opcode: [COPY, SHADOW_COPY][self.word % 2].opcode,
            ..self.command(hart, Opcode::UndologCreate)
        };
        command(rig, hart, self.port, &copy, 8);
        for line in lines {
            let there = *rig.hardware.memory.arena.line(line * LINE_BYTES as u64);
            rig.model.insert(line, there);
        }
    }
}

fn wait(rig: &mut Rig<NearPm>, hart: usize) {
    let now = rig.clock(hart);
    rig.hardware.fence(&mut rig.design, hart, Fence::FULL, now);
    rig.pause(hart, 1);
}

/// What a run is accused of, with its cuts, and what was counted.
fn accused(
    machine: &Machine,
    seed: u64,
    steps: u64,
    bug: Option<&'static str>,
) -> (Option<oracle::Fault>, u64, Counters) {
    let mut near = Near::new(machine, bug);
    let mut random = Random::new(seed);
    for _ in 0..steps {
        near.step(&mut random);
        let hardware = &near.run.rig.hardware;
        if near.run.fault.is_some() || hardware.failure.is_some() || hardware.breach.is_some() {
            break;
        }
    }
    let Rig {
        hardware, design, ..
    } = &near.run.rig;
    let name = machine.name;
    if bug.is_none() {
        assert_eq!(hardware.failure, None, "'{name}', PERDURE_SEED={seed}");
        assert_eq!(hardware.breach, None, "'{name}', PERDURE_SEED={seed}");
        let newest = near.run.rig.check_newest();
        assert!(newest.is_ok(), "'{name}', PERDURE_SEED={seed}: {newest:?}");
    }
    (
        near.run.fault,
        near.run.cuts,
        design.counters_with(hardware),
    )
}

#[test]
fn no_cut_at_any_event_finds_it_wrong_and_every_way_to_wait_is_taken() {
    let mut taken = std::collections::BTreeMap::new();
    for machine in machines() {
        for seed in crate::rigs::seeds(2) {
            let (fault, cuts, counters) = accused(&machine, seed, 300, None);
            let name = machine.name;
            println!("'{name}', PERDURE_SEED={seed}: {cuts} cuts, {counters:?}");
            assert_eq!(fault, None, "'{name}', PERDURE_SEED={seed}");
            for (path, times) in NearPm::paths(&Statistics::default(), &counters) {
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
    for bug in NearPm::PLANTED_BUGS {
        let found = machines().iter().find_map(|machine| {
            (1..=3).find_map(|seed| {
                let (fault, cuts, _) = accused(machine, seed, 300, Some(bug.name));
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

/// Devices that do not agree make no promise about each other, and are judged by what each does.
#[test]
fn devices_that_do_not_agree_keep_their_own_order() {
    for sync in [Sync::Software, Sync::None] {
        let mut machine = machines().swap_remove(0);
        machine.parameters.sync = sync;
        let (fault, ..) = accused(&machine, 5, 200, None);
        assert_eq!(fault, None, "{sync:?}");
    }
}
