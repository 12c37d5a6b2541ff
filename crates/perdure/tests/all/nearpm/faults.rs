//! Commands that make no sense, and commands to what is somebody else's.

use perdure_designs::Design;
use perdure_designs::nearpm::operations::copy::COPY;
use perdure_designs::nearpm::operations::page_crc::PAGE_CRC;
use perdure_designs::nearpm::{Command, Fault, Opcode};
use perdure_hardware::policy::Policy as _;

use super::{GRANULE, Near, PAGE, POOL, VIRTUAL, command, instruct, machines};
use crate::rigs::rig::Rig;

/// Sends a command, and what its thread then hears of all devices.
fn heard(near: &mut Near, devices: u64, sent: &Command) -> u64 {
    let (port, rig) = (near.port, &mut near.run.rig);
    command(rig, 0, port, sent, 8);
    let status = 0x400 + 8 * u64::from(sent.thread);
    let now = rig.clock(0) + 1_000_000;
    rig.hold_until(now);
    let mut heard = 0;
    for device in 0..devices {
        let mut bytes = [0; 8];
        let (memory, statistics) = (&mut rig.hardware.memory, &mut rig.hardware.statistics);
        memory.device_load(port + device * PAGE + status, &mut bytes, now, statistics);
        heard |= u64::from_le_bytes(bytes);
    }
    let Rig {
        hardware, design, ..
    } = rig;
    hardware.device_store(design, (0, port + status), &[0; 8], now);
    heard
}

/// What a program hears of a command that makes no sense, which changes nothing and hangs nothing.
#[test]
fn a_wrong_command_has_an_outcome_that_its_sender_can_see() {
    let machine = machines().swap_remove(0);
    let mut near = Near::new(&machine, None);
    let (pool, end) = (near.pool, near.bytes());
    let (undo, copy, crc) = (Opcode::UndologCreate as u8, COPY.opcode, PAGE_CRC.opcode);
    let (attach, recover) = (Opcode::LogAttach as u8, Opcode::Recover as u8);
    let (last, far, near_by) = (end - PAGE, end - GRANULE, end - 2 * GRANULE);
    let wrapped = u64::MAX - VIRTUAL;
    // Opcode, pool, thread, operand, second operand, size.
    let cases = [
        ((undo, POOL, 0, last, 0, 64), None),
        ((0x55, POOL, 0, last, 0, 64), Some(Fault::Opcode)),
        ((undo, 9, 0, last, 0, 64), Some(Fault::Pool)),
        ((undo, POOL, 1, last, 0, 64), Some(Fault::Pool)),
        ((undo, 200, 0, last, 0, 64), Some(Fault::Pool)),
        ((undo, POOL, 0, end - 63, 0, 64), Some(Fault::Bounds)),
        ((undo, POOL, 0, wrapped, 0, 64), Some(Fault::Bounds)),
        ((undo, POOL, 0, last, 0, 0), Some(Fault::Size)),
        ((undo, POOL, 0, last, 0, 65_537), Some(Fault::Size)),
        ((copy, POOL, 0, far, near_by, 64), Some(Fault::Crosses)),
        ((copy, POOL, 0, far, far + 8, 64), Some(Fault::Overlap)),
        ((crc, POOL, 0, far, near_by, 64), Some(Fault::Crosses)),
        (
            (crc, POOL, 0, far - 64, far + 64, 128),
            Some(Fault::Crosses),
        ),
        ((crc, POOL, 0, far, far + 60, 64), Some(Fault::Overlap)),
        ((crc, POOL, 0, far, end - 3, 64), Some(Fault::Bounds)),
        ((attach, POOL, 0, last, 0, 64), Some(Fault::NoLog)),
        ((recover, POOL, 0, last, 0, 64), None),
        ((recover, POOL, 0, last, 0, 64), Some(Fault::Recovered)),
    ];
    let bytes = |near: &Near| {
        let arena = &near.run.rig.hardware.memory.arena;
        arena.slice(pool + far, GRANULE as usize).to_vec()
    };
    let before = bytes(&near);
    for ((opcode, pool, thread, operand, second, size), fault) in cases {
        let sent = Command {
            opcode,
            pool,
            thread,
            operand: VIRTUAL.wrapping_add(operand),
            second: VIRTUAL + second,
            size,
        };
        let expected = fault.map_or(0, |fault| (fault as u64) << 32 | u64::from(opcode) << 40);
        assert_eq!(
            heard(&mut near, machine.devices as u64, &sent),
            expected,
            "{sent:?}"
        );
    }
    assert_eq!(before, bytes(&near));
}

/// A thread cannot have a unit touch another one's pool: not by its numbers, and not by addresses beyond its
/// own.
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
        opcode: COPY.opcode,
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
}

/// One device has lost its part of a log, and its sender takes no heed: the transaction never ends, and what
/// would wait for that is refused.
#[test]
fn a_log_that_one_device_has_alone_holds_nothing_up() {
    let machine = machines().swap_remove(0);
    assert_eq!(machine.devices, 2);
    let mut near = Near::new(&machine, None);
    let pool = near.pool;
    let rig = &mut near.run.rig;
    let header = pool + GRANULE;
    assert_eq!(*rig.hardware.memory.arena.slice(header, 8), *b"NPMLOG01");
    rig.hardware.memory.arena.write(header, &[0; 8]);
    let other = 6;
    for page in (0..near.log_bytes).step_by(PAGE as usize) {
        let number = (VIRTUAL + page) / PAGE;
        let words = other | u64::from(page == 0) << 16 | number << 24;
        assert_eq!(instruct(rig, 0, [pool + page, words]), 0);
    }
    let of = |opcode: Opcode, size: u64| Command {
        opcode: opcode as u8,
        pool: other as u8,
        thread: 0,
        operand: VIRTUAL,
        second: 0,
        size: size as u32,
    };
    let refused = |opcode| (Fault::NoLog as u64) << 32 | (opcode as u64) << 40;
    let attach = of(Opcode::LogAttach, near.log_bytes);
    let heard_of_attach = heard(&mut near, 2, &attach);
    assert_eq!(heard_of_attach, refused(Opcode::LogAttach));
    // The first has the command under way for ever, the second refuses it; then both do.
    for _ in 0..5 {
        let commit = of(Opcode::CommitLog, 0);
        let heard_of_commit = heard(&mut near, 2, &commit);
        assert_eq!(heard_of_commit, 1 | refused(Opcode::CommitLog));
    }
    let end = VIRTUAL + near.bytes();
    let copy = Command {
        opcode: COPY.opcode,
        pool: POOL,
        operand: end - PAGE,
        second: end - 2 * PAGE,
        ..of(Opcode::Recover, 64)
    };
    assert_eq!(heard(&mut near, 2, &copy), 1);
}
