//! What stops an engine, and the state that it leaves: `pc` at the instruction, nothing retired,
//! nothing changed. Each case runs on both engines.

use perdure_riscv::fast::BlockCache;
use perdure_riscv::{Access, Exit, Fault, FlatMemory, Hart, fast, plain};

const BASE: u64 = 0x1_0000;
const BYTES: usize = 4096;

const NOP: u32 = 0x0000_0013;
const EBREAK: u32 = 0x0010_0073;

/// Runs `words` behind a `nop` on both engines; returns how it ended and the hart.
fn run(words: &[u32], prepare: impl Fn(&mut Hart)) -> (Exit, Hart) {
    run_to(u64::MAX, words, prepare)
}

fn run_to(limit: u64, words: &[u32], prepare: impl Fn(&mut Hart)) -> (Exit, Hart) {
    let mut start = Hart {
        pc: BASE,
        ..Hart::default()
    };
    prepare(&mut start);
    let mut memory = FlatMemory::new(BASE, BYTES);
    memory.limit = limit;
    let code = [NOP].iter().chain(words).chain(&[EBREAK]);
    let code: Vec<u8> = code.flat_map(|word| word.to_le_bytes()).collect();
    memory.bytes_mut()[..code.len()].copy_from_slice(&code);
    let (mut hart, mut copy) = (start.clone(), memory.clone());
    let exit = plain::run(&mut hart, &mut copy);
    let (mut on_fast, mut copy_fast) = (start, memory);
    let exit_fast = fast::run(&mut on_fast, &mut copy_fast, &mut BlockCache::new());
    assert_eq!((exit, &hart), (exit_fast, &on_fast), "the engines disagree");
    assert_eq!(
        copy.bytes(),
        copy_fast.bytes(),
        "the engines leave other memory"
    );
    (exit, hart)
}

/// Runs one word behind the `nop`, expecting `exit` there with nothing changed.
fn stops(word: u32, exit: Exit, prepare: impl Fn(&mut Hart)) {
    let mut untouched = Hart {
        pc: BASE + 4,
        retired: 1,
        ..Hart::default()
    };
    prepare(&mut untouched);
    assert_eq!(run(&[word], prepare), (exit, untouched), "{word:#010x}");
}

fn illegal(word: u32) -> Exit {
    Exit::Illegal { bits: word }
}

#[test]
fn calls_and_breakpoints_do_not_retire() {
    stops(0x0000_0073, Exit::EnvironmentCall, |_| ());
    stops(EBREAK, Exit::Breakpoint, |_| ());
    stops(0x9002_9002, Exit::Breakpoint, |_| ());
}

#[test]
fn what_does_not_exist_is_illegal() {
    for word in [
        0xffff_ffff, // all ones
        0x0000_707f, // reserved opcode
        0x3020_0073, // mret: no privileged mode here
        0x1050_0073, // wfi
        0x0000_2063, // branch with a reserved funct3
        0xfc00_302b, // a mark that there is not
        0xfc00_00ab, // one that would write a register
        0x0000_002b, // a persistence function that flat memory does not know
    ] {
        stops(word, illegal(word), |_| ());
    }
    // A compressed one is reported in sixteen bits.
    stops(0x0000_0000, illegal(0), |_| ());
    stops(0x0001_8000 | 0x0001_0000, illegal(0x8000), |_| ());
}

#[test]
fn reserved_rounding_modes_are_illegal() {
    let fadd_d = |mode: u32| 0x02b5_7553 & !(7 << 12) | mode << 12;
    for mode in [5, 6] {
        stops(fadd_d(mode), illegal(fadd_d(mode)), |_| ());
    }
    for mode in [5, 6, 7] {
        stops(fadd_d(7), illegal(fadd_d(7)), |hart| hart.fcsr = mode << 5);
    }
    // Also where nothing is rounded: fcvt.d.w fa0, a0.
    stops(0xd205_5553, illegal(0xd205_5553), |_| ());
    // The mode may be written; only its use is illegal.
    let (exit, hart) = run(&[0x0023_d073, fadd_d(0)], |_| ()); // fsrmi 7
    assert_eq!((exit, hart.fcsr), (Exit::Breakpoint, 7 << 5));
}

#[test]
fn counters_can_be_read_but_not_written() {
    let (exit, hart) = run(&[0xc020_2573, 0xc020_25f3], |_| ()); // rdinstret a0, a1
    assert_eq!((exit, hart.x[10], hart.x[11]), (Exit::Breakpoint, 1, 2));
    for word in [
        0xc000_1073, // csrw cycle, zero
        0xc005_a573, // csrrs a0, cycle, a1, even if a1 is zero
        0xc000_d573, // csrrwi a0, cycle, 1
        0x3000_2573, // csrr a0, mstatus
    ] {
        stops(word, illegal(word), |_| ());
    }
    let (exit, hart) = run(&[0x0015_1073, 0x0020_6573, 0x0030_2573], |hart| {
        hart.x[10] = 0xff;
    });
    // fsflags a0; csrrsi a0, frm, 0 (reads only); frcsr a0
    assert_eq!(
        (exit, hart.fcsr, hart.x[10]),
        (Exit::Breakpoint, 0x1f, 0x1f)
    );
}

#[test]
fn atomic_accesses_must_be_aligned() {
    let cases = [
        (0x1005_a52f, Access::Load),  // lr.w a0, (a1)
        (0x18c5_a52f, Access::Store), // sc.w a0, a2, (a1)
        (0x00c5_a52f, Access::Store), // amoadd.w a0, a2, (a1)
        (0x00c5_b52f, Access::Store), // amoadd.d a0, a2, (a1)
    ];
    for (word, access) in cases {
        let address = BASE + 0x802;
        stops(word, Exit::Misaligned { access, address }, |hart| {
            hart.x[11] = address;
        });
    }
}

#[test]
fn faults_name_the_first_byte_that_is_missing() {
    let end = BASE + BYTES as u64;
    let fault = |access, address| Exit::Fault(Fault { access, address });
    stops(0x0005_b503, fault(Access::Load, end), |hart| {
        hart.x[11] = end - 3;
    }); // ld a0, 0(a1)
    stops(0x00c5_b023, fault(Access::Store, end), |hart| {
        hart.x[11] = end - 3;
    }); // sd a2, 0(a1)
    stops(0x0005_b503, fault(Access::Load, BASE - 8), |hart| {
        hart.x[11] = BASE - 8;
    });
    stops(0x0005_b003, fault(Access::Load, 8), |hart| hart.x[11] = 8); // ld zero, 0(a1)
    stops(0x0045_a00f, fault(Access::Store, 7), |hart| hart.x[11] = 7); // cbo.zero (a1)
    // A jump to nowhere retires; the fetch behind it faults.
    let (exit, hart) = run(&[0x0005_8067], |hart| hart.x[11] = 0x4000);
    assert_eq!(exit, fault(Access::Fetch, 0x4000));
    assert_eq!((hart.pc, hart.retired), (0x4000, 2));
}

#[test]
fn the_limit_stops_at_the_next_block() {
    // The code of `run` is one block up to its ebreak; a jump in it makes two.
    let jump_over = 0x0080_006f;
    let words = [NOP, NOP, jump_over, NOP, NOP, NOP];
    let (exit, hart) = run_to(0, &words, |_| ());
    assert_eq!((exit, hart.retired, hart.pc), (Exit::Limit, 0, BASE));
    for limit in 1..=4 {
        let (exit, hart) = run_to(limit, &words, |_| ());
        assert_eq!(
            (exit, hart.retired, hart.pc),
            (Exit::Limit, 4, BASE + 20),
            "{limit}"
        );
    }
    assert_eq!(run_to(5, &words, |_| ()).0, Exit::Breakpoint);
}

#[test]
fn an_odd_pc_loses_its_last_bit() {
    let (exit, hart) = run(&[], |hart| hart.pc |= 1);
    assert_eq!((exit, hart.pc), (Exit::Breakpoint, BASE + 4));
}

#[test]
fn cache_block_zero_clears_its_block_only() {
    let mut memory = FlatMemory::new(BASE, BYTES);
    memory.bytes_mut().fill(0xff);
    memory.bytes_mut()[..8].copy_from_slice(&[0x0f, 0xa0, 0x45, 0x00, 0x73, 0x00, 0x10, 0x00]);
    let mut hart = Hart {
        pc: BASE,
        ..Hart::default()
    };
    hart.x[11] = BASE + 0x7c1;
    assert_eq!(plain::run(&mut hart, &mut memory), Exit::Breakpoint);
    let zeros: Vec<usize> = (8..BYTES)
        .filter(|&place| memory.bytes()[place] == 0)
        .collect();
    assert_eq!(zeros, (0x7c0..0x800).collect::<Vec<_>>());
}

#[test]
fn count_trailing_zeros_of_a_word_looks_at_the_word() {
    // Left out of the comparison with qemu 7.2, which looks at all 64 bits.
    let (_, hart) = run(&[0x6015_951b], |hart| hart.x[11] = 1 << 40); // ctzw a0, a1
    assert_eq!(hart.x[10], 32);
}

/// Zicond, which no other engine at hand knows.
#[test]
fn conditional_zeros() {
    for (rs1, rs2) in [(7, 0), (7, 1), (0, 0), (u64::MAX, 1 << 63), (5, u64::MAX)] {
        for (funct3, zeroed) in [(5, rs2 == 0), (7, rs2 != 0)] {
            let word = 7 << 25 | 12 << 20 | 11 << 15 | funct3 << 12 | 10 << 7 | 0x33_u32;
            let mut memory = FlatMemory::new(0x1000, 64);
            memory.bytes_mut()[..4].copy_from_slice(&word.to_le_bytes());
            memory.bytes_mut()[4..8].copy_from_slice(&0x0010_0073_u32.to_le_bytes());
            let mut hart = Hart {
                pc: 0x1000,
                ..Hart::default()
            };
            (hart.x[11], hart.x[12]) = (rs1, rs2);
            let mut on_fast = hart.clone();
            assert_eq!(plain::run(&mut hart, &mut memory), Exit::Breakpoint);
            let mut blocks = BlockCache::new();
            let exit = fast::run(&mut on_fast, &mut memory, &mut blocks);
            assert_eq!(exit, Exit::Breakpoint);
            assert_eq!(hart, on_fast);
            assert_eq!(hart.x[10], if zeroed { 0 } else { rs1 });
        }
    }
}
