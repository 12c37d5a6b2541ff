//! The worked example of `docs/add-a-near-memory-operation.md`, by hand: CRCs of pages among everything else
//! that harts have devices do, cut at every event and in recovery, before the oracle.

use perdure_designs::Design;
use perdure_designs::nearpm::operations::apply_log::APPLY_LOG;
use perdure_designs::nearpm::operations::page_crc::PAGE_CRC;
use perdure_designs::nearpm::{Coherence, Command, Opcode, POINT_DONE, POINT_TAKEN};
use perdure_designs::oracle::Fault;
use perdure_hardware::line::{LINE_BYTES, line_of};
use perdure_hardware::random::Random;
use perdure_hardware::trace::{Accessor, Traced};

use super::{GRANULE, Machine, Near, PAGE, POOL, VIRTUAL, command, machines, wait};
use crate::rigs::rig::Rig;

/// Pages of each granule of data have their CRCs at the end of it.
const PAGES: u64 = GRANULE / PAGE - 1;

/// The first device's module, behind DRAM's.
const FIRST_MODULE: usize = 2;

/// Where a page of the data lies, and its CRC, from the pool's start.
fn places(near: &Near, page: u64) -> [u64; 2] {
    let granule = near.harts * near.log_bytes + page / PAGES * GRANULE;
    let crcs = granule + PAGES * PAGE;
    [granule + page % PAGES * PAGE, crcs + page % PAGES * 4]
}

/// A thread has the CRC of a page made, as `NearPM_page_crc` does.
fn make_crc(near: &mut Near, page: u64) {
    let [page, crc] = places(near, page);
    let (pool, port, harts) = (near.pool, near.port, near.harts);
    near.run.step(|rig, hart| {
        if hart as u64 >= harts {
            rig.pause(hart, 1_000_000_000);
            return;
        }
        for line in line_of(pool + page)..line_of(pool + page + PAGE) {
            rig.cache_block(hart, line, false);
        }
        rig.cache_block(hart, line_of(pool + crc), true);
        wait(rig, hart);
        let asked = Command {
            opcode: PAGE_CRC.opcode,
            pool: POOL,
            thread: hart as u8,
            operand: VIRTUAL + page,
            second: VIRTUAL + crc,
            size: PAGE as u32,
        };
        command(rig, hart, port, &asked, 8);
        let line = line_of(pool + crc);
        let there = *rig.hardware.memory.arena.line(line * LINE_BYTES as u64);
        rig.model.insert(line, there);
    });
}

/// A random run in which one of five steps makes a CRC.
fn run(machine: &Machine, seed: u64, steps: u64, bug: Option<&'static str>) -> Near {
    let mut near = Near::new(machine, bug);
    let mut random = Random::new(seed);
    for _ in 0..steps {
        if random.below(5) == 0 {
            let page = random.below(3 * PAGES);
            make_crc(&mut near, page);
        } else {
            near.step(&mut random);
        }
        if near.run.fault.is_some() {
            break;
        }
    }
    near
}

#[test]
fn no_cut_among_crcs_finds_it_wrong() {
    for (machine, seed) in machines().iter().take(3).zip(crate::rigs::seeds(3)) {
        let near = run(machine, seed, 120, None);
        let name = machine.name;
        let Rig {
            hardware, design, ..
        } = &near.run.rig;
        assert_eq!(near.run.fault, None, "'{name}', PERDURE_SEED={seed}");
        let counters = design.counters_with(hardware);
        assert!(
            counters.others > 5 && near.run.in_recovery > 100,
            "{counters:?}"
        );
        let newest = near.run.rig.check_newest();
        assert!(newest.is_ok(), "'{name}', PERDURE_SEED={seed}: {newest:?}");
    }
}

/// What a device has taken of it is in memory after any cut, so energy must save it.
#[test]
fn a_crc_that_is_lost_with_the_power_is_found() {
    for bug in [
        "units-lost",
        "fifo-lost",
        "host-writes-pass",
        "requests-pass",
    ] {
        let found = machines().iter().any(|machine| {
            (1..=3).any(|seed| run(machine, seed, 120, Some(bug)).run.fault.is_some())
        });
        assert!(found, "{bug}");
    }
}

/// A thread's page, and the CRC that the devices have made of it.
#[test]
fn a_page_has_the_crc_that_the_usual_program_computes() {
    for coherence in [Coherence::Software, Coherence::Hardware] {
        let mut machine = machines().swap_remove(0);
        machine.parameters.coherence = coherence;
        let mut near = Near::new(&machine, None);
        let [page, crc] = places(&near, 4);
        let (pool, lines) = (near.pool, PAGE / LINE_BYTES as u64);
        near.run.act(|rig| {
            for line in 0..lines {
                rig.store_line(0, line_of(pool + page) + line, line as u8);
            }
        });
        make_crc(&mut near, 4);
        let bytes: Vec<u8> = (0..PAGE).map(|at| (at / LINE_BYTES as u64) as u8).collect();
        let expected = crc32c_of_zlib_kind(&bytes);
        let arena = &near.run.rig.hardware.memory.arena;
        assert_eq!(*arena.slice(pool + crc, 4), expected.to_le_bytes());
    }
}

/// An undo entry is a record of a redo log, too: applied, it brings the old data back.
#[test]
fn a_record_that_is_applied_goes_home() {
    let mut near = Near::new(&machines().swap_remove(0), None);
    let (pool, port) = (near.pool, near.port);
    // In a granule of the device that has the log's first one, where the first entry is.
    let home = near.harts * near.log_bytes;
    let entry = LINE_BYTES as u64;
    let line = line_of(pool + home);
    let asked = |opcode: u8, operand: u64, size| Command {
        opcode,
        pool: POOL,
        thread: 0,
        operand: VIRTUAL + operand,
        second: 0,
        size,
    };
    let (undo, apply) = (Opcode::UndologCreate as u8, APPLY_LOG.opcode);
    let store = |near: &mut Near, value: u8| {
        near.run.act(|rig| {
            for at in 0..2 {
                rig.store_line(0, line + at, value + at as u8);
                rig.cache_block(0, line + at, true);
            }
            wait(rig, 0);
        });
    };
    store(&mut near, 1);
    near.run
        .act(|rig| command(rig, 0, port, &asked(undo, home, 128), 8));
    store(&mut near, 11);
    near.run
        .act(|rig| command(rig, 0, port, &asked(apply, entry, 64 + 128), 8));
    near.run.act(|rig| rig.pause(0, 1_000_000));
    assert_eq!(near.run.fault, None);
    let Rig {
        hardware, design, ..
    } = &near.run.rig;
    let counters = design.counters_with(hardware);
    assert_eq!((counters.applied, counters.faults), (1, 0));
    let found = hardware.memory.arena.slice(pool + home, 128).to_vec();
    assert_eq!(found, [[1; 64], [2; 64]].concat());
}

/// The loop that everybody has.
fn crc32c_of_zlib_kind(bytes: &[u8]) -> u32 {
    let mut crc = 0xffff_ffff_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

/// A device that writes anything but what its operation means is found out, though memory after the cut is as
/// it wrote.
#[test]
fn a_device_that_computes_something_else_is_found() {
    let written: [(&[u8], u64, Option<Fault>); 4] = [
        (&[0x89, 0x41, 0xf9, 0x98], 0, None),
        (&[0x89, 0x41, 0xf9, 0x99], 0, Some(Fault::Causality)),
        (&[0x89, 0x41, 0xf9, 0x98], 4, Some(Fault::Causality)),
        (&[], 0, Some(Fault::Causality)),
    ];
    for (bytes, away, fault) in written {
        let mut near = Near::new(&machines().swap_remove(0), None);
        let [page, crc] = places(&near, 0).map(|at| near.pool + at);
        let numbers = u64::from(POOL);
        near.run.act(|rig| rig.pause(0, 10_000));
        near.run.act(|rig| {
            let now = rig.clock(0);
            let map = rig.hardware.memory.map();
            let module = map
                .pieces(page..page + 1)
                .next()
                .expect("a piece")
                .place
                .module;
            let device = (module - FIRST_MODULE) as u64;
            let (pool, end) = (page - page % PAGE, page + GRANULE);
            let taken = [
                9999,
                device,
                PAGE_CRC.opcode.into(),
                1 << device,
                0,
                numbers,
                page,
                page + PAGE,
                crc,
                pool,
                end,
            ];
            let reached = |point, of: &[u64]| Traced::Reached {
                module,
                point,
                of: of.into(),
                at: now,
            };
            let trace = rig.hardware.memory.trace.as_mut().expect("a trace");
            trace.push(reached(POINT_TAKEN, &taken));
            if !bytes.is_empty() {
                rig.hardware.memory.arena.write(crc + away, bytes);
                trace.push(Traced::Accessed {
                    module,
                    by: Accessor::Device { command: 9999 },
                    address: crc + away,
                    length: bytes.len(),
                    wrote: Some(bytes.into()),
                    when: [now, now],
                });
            }
            trace.push(reached(POINT_DONE, &[9999, device]));
            rig.pause(0, 100);
        });
        assert_eq!(near.run.fault, fault, "{bytes:?} {away}");
    }
}
