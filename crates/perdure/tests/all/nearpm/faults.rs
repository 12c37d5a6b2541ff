//! Commands that make no sense, and commands to what is somebody else's.

use perdure_designs::Design;
use perdure_designs::nearpm::{Command, Fault, Opcode};
use perdure_hardware::policy::Policy as _;

use super::{GRANULE, Near, PAGE, POOL, VIRTUAL, command, instruct, machines};
use crate::rigs::rig::Rig;

/// What a program hears of a command that makes no sense, which changes nothing and hangs nothing.
#[test]
fn a_wrong_command_has_an_outcome_that_its_sender_can_see() {
    let machine = machines().swap_remove(0);
    let mut near = Near::new(&machine, None);
    let (port, pool, bytes) = (near.port, near.pool, near.bytes());
    let good = Command {
        opcode: Opcode::UndologCreate as u8,
        pool: POOL,
        thread: 0,
        operand: VIRTUAL + bytes - PAGE,
        second: 0,
        size: 64,
    };
    let crossing = Command {
        opcode: Opcode::Copy as u8,
        operand: VIRTUAL + bytes - GRANULE,
        second: VIRTUAL + bytes - 2 * GRANULE,
        ..good
    };
    let cases = [
        (good, None),
        (
            Command {
                opcode: 0x55,
                ..good
            },
            Some(Fault::Opcode),
        ),
        (Command { pool: 9, ..good }, Some(Fault::Pool)),
        (Command { thread: 1, ..good }, Some(Fault::Pool)),
        (Command { pool: 200, ..good }, Some(Fault::Pool)),
        (
            Command {
                operand: VIRTUAL - 1,
                ..good
            },
            Some(Fault::Bounds),
        ),
        (
            Command {
                operand: VIRTUAL + bytes - 63,
                ..good
            },
            Some(Fault::Bounds),
        ),
        (
            Command {
                operand: u64::MAX,
                ..good
            },
            Some(Fault::Bounds),
        ),
        (Command { size: 0, ..good }, Some(Fault::Size)),
        (
            Command {
                size: 65_537,
                ..good
            },
            Some(Fault::Size),
        ),
        (crossing, Some(Fault::Crosses)),
        (
            Command {
                second: crossing.operand + 8,
                ..crossing
            },
            Some(Fault::Overlap),
        ),
        (
            Command {
                opcode: Opcode::LogAttach as u8,
                ..good
            },
            Some(Fault::NoLog),
        ),
        (
            Command {
                opcode: Opcode::Recover as u8,
                ..good
            },
            None,
        ),
        (
            Command {
                opcode: Opcode::Recover as u8,
                ..good
            },
            Some(Fault::Recovered),
        ),
    ];
    let before = near
        .run
        .rig
        .hardware
        .memory
        .arena
        .slice(pool + bytes - GRANULE, 64)
        .to_vec();
    for (sent, fault) in cases {
        let rig = &mut near.run.rig;
        // A thread's faults are its own, whatever its commands say.
        let sent = Command {
            thread: sent.thread,
            ..sent
        };
        command(rig, 0, port, &sent, 8);
        let mut heard = 0;
        for device in 0..machine.devices as u64 {
            let at = port + device * PAGE + 8 * u64::from(sent.thread);
            let now = rig.clock(0) + 1_000_000;
            rig.hold_until(now);
            let mut bytes = [0; 8];
            let (memory, statistics) = (&mut rig.hardware.memory, &mut rig.hardware.statistics);
            memory.device_load(at + 0x400, &mut bytes, now, statistics);
            heard |= u64::from_le_bytes(bytes);
        }
        let expected = fault.map_or(0, |fault| {
            (fault as u64) << 32 | u64::from(sent.opcode) << 40
        });
        assert_eq!(heard, expected, "{sent:?}");
        let now = rig.clock(0);
        let at = (0, port + 0x400 + 8 * u64::from(sent.thread));
        let Rig {
            hardware, design, ..
        } = rig;
        hardware.device_store(design, at, &[0; 8], now);
    }
    let after = near
        .run
        .rig
        .hardware
        .memory
        .arena
        .slice(pool + bytes - GRANULE, 64)
        .to_vec();
    assert_eq!(before, after);
}

/// A thread cannot have a unit touch another one's pool: not by its numbers, and not by addresses beyond its own.
#[test]
fn another_threads_pool_is_out_of_reach() {
    let machine = machines().swap_remove(0);
    let mut near = Near::new(&machine, None);
    let (port, bytes) = (near.port, near.bytes());
    let faults = |near: &Near| {
        let rig = &near.run.rig;
        rig.design.counters_with(&rig.hardware).faults
    };
    // Thread 1 runs on hart 0 now, and names the pool of thread 0.
    near.run
        .rig
        .design
        .thread_runs(&mut near.run.rig.hardware, 0, 77, 0);
    let steal = Command {
        opcode: Opcode::Copy as u8,
        pool: POOL,
        thread: 0,
        operand: VIRTUAL + bytes - GRANULE,
        second: VIRTUAL + bytes - 3 * GRANULE,
        size: 64,
    };
    command(&mut near.run.rig, 0, port, &steal, 8);
    assert_eq!(faults(&near), 1);
    let rig = &mut near.run.rig;
    // A page that does not lie behind the one before is not taken, nor one that is no device's.
    let first = 1u64 << 16;
    let page = |number: u64| (VIRTUAL / PAGE + number) << 24 | 6;
    assert_eq!(instruct(rig, 0, [near.pool, page(0) | first]), 0);
    assert_eq!(instruct(rig, 0, [near.pool + 2 * PAGE, page(1)]), 1);
    assert_eq!(instruct(rig, 0, [64, page(1)]), 2);
    assert_eq!(instruct(rig, 0, [near.pool, 99]), 3);
    let beyond = Command {
        pool: 6,
        operand: VIRTUAL + PAGE,
        second: VIRTUAL,
        ..steal
    };
    command(rig, 0, port, &beyond, 8);
    assert_eq!(faults(&near), 2);
    let _: Cycles = near.run.rig.clock(0);
}
