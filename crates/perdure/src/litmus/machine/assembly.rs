//! A litmus test as a program of the machine.
//!
//! Always true here:
//! - Each instruction of a test is a block by itself, whatever RISC-V instructions it takes, so that harts
//!   may take turns between any two.
//! - Where a thread's locations lie is in registers, so that one program serves every placement.
//! - The program makes its memory and its threads, and then every thread waits to be put somewhere.

use perdure_linux::PAGE_BYTES;

use super::super::model::Kind;
use super::super::program::{Action, Instruction, Operand, Test};
use crate::guest_code::{
    A0, A1, A2, ADD, CODE, Code, DATA, HEADERS, SP, T0, T1, T2, THREAD_FLAGS, ZERO, elf,
};

/// The file of the pool in which locations lie.
pub(super) const POOL: &str = "p";
/// Pages of memory for locations, and for what is in their way.
pub(super) const PAGES: u64 = 8;
/// The register with the address of these pages.
pub(super) const BASE: usize = 18;
/// The register with the number of threads to make.
pub(super) const MAKE: usize = 19;
/// The register that says whether the pages are a pool's.
pub(super) const IS_POOL: usize = 20;
/// The first of the registers with the addresses of a test's locations.
pub(super) const LOCATIONS: usize = 16;

/// Ends a thread's strand.
const NEW_STRAND: u32 = 0x10 << 25 | 0x2b;
/// Ends it, and answers how many of the thread's strands are not committed, in no register.
const STRAND_SYNC: u32 = NEW_STRAND | 1 << 12;

/// The first of a test's own registers.
const REGISTERS: u32 = 6;

/// The program.
pub(super) struct Assembly {
    /// The executable.
    pub file: Vec<u8>,
    /// Where threads wait before a test.
    pub waits: u64,
    /// Where each thread begins, and where it stays when it is done.
    pub threads: Vec<(u64, u64)>,
}

/// Makes the program of a test.
pub(super) fn assemble(test: &Test) -> Assembly {
    let mut code = Code::default();
    let has_strands = test.model.kinds.contains(&Kind::StrandSync);
    let waits = address(begin(&mut code, has_strands));
    let threads = test.threads.iter();
    let threads = threads
        .map(|thread| add_thread(&mut code, thread))
        .collect();
    Assembly {
        file: elf(&code.0, (PAGES + 1) * PAGE_BYTES),
        waits,
        threads,
    }
}

/// Where an instruction lies.
fn address(index: i32) -> u64 {
    CODE + HEADERS + 4 * u64::from(index.cast_unsigned())
}

/// What makes memory and threads. Returns where they wait.
fn begin(code: &mut Code, has_strands: bool) -> i32 {
    let (base, make, is_pool) = (BASE as u32, MAKE as u32, IS_POOL as u32);
    code.constant(base, DATA);
    let no_pool = code.here();
    code.branch(0, is_pool, ZERO, 0);
    // openat(AT_FDCWD, "/pmem/p", O_RDWR, 0), and all of it with mmap(MAP_SHARED).
    code.constant(T0, u64::from_le_bytes(*b"/pmem/p\0"));
    code.addi(SP, SP, -16);
    code.store_double(T0, SP, 0);
    code.addi(A0, ZERO, -100);
    code.addi(A1, SP, 0);
    code.addi(A2, ZERO, 2);
    code.addi(13, ZERO, 0);
    code.call_system(56);
    code.addi(14, A0, 0);
    code.addi(A0, ZERO, 0);
    code.constant(A1, PAGES * PAGE_BYTES);
    code.addi(A2, ZERO, 3);
    code.addi(13, ZERO, 1);
    code.addi(15, ZERO, 0);
    code.call_system(222);
    code.addi(base, A0, 0);
    let here = code.here();
    code.patch(no_pool, 0, is_pool, ZERO, here);
    // Every page is there before a test begins.
    code.addi(T0, base, 0);
    code.addi(T1, ZERO, PAGES as i32);
    code.constant(T2, PAGE_BYTES);
    let page = code.here();
    code.add_atomically(T0, ZERO);
    code.register(ADD, T0, T0, T2);
    code.addi(T1, T1, -1);
    let back = page - code.here();
    code.branch(1, T1, ZERO, back);
    if has_strands {
        // What touched the pages is no strand of the test's.
        wait_for_strands(code);
    }
    let again = code.here();
    code.addi(make, make, -1);
    let enough = code.here();
    code.branch(0, make, ZERO, 0);
    code.constant(A0, THREAD_FLAGS);
    code.constant(A1, DATA + (PAGES + 1) * PAGE_BYTES);
    for register in [A2, 13, 14] {
        code.addi(register, ZERO, 0);
    }
    code.call_system(220);
    let back = again - code.here();
    code.branch(1, A0, ZERO, back);
    let waits = code.here();
    code.patch(enough, 0, make, ZERO, waits);
    code.branch(0, ZERO, ZERO, 0);
    waits
}

/// Where a thread of a test begins and ends.
fn add_thread(code: &mut Code, thread: &[Instruction]) -> (u64, u64) {
    let begins = address(code.here());
    let mut starts = Vec::new();
    let mut branches = Vec::new();
    for (index, instruction) in thread.iter().enumerate() {
        starts.push(code.here());
        if let Action::Branch {
            register,
            if_zero,
            skips,
        } = instruction.action
        {
            branches.push((index, u32::from(!if_zero), own(register), index + 1 + skips));
        }
        add_instruction(code, instruction);
        // The end of the block.
        code.branch(0, ZERO, ZERO, 1);
    }
    let ends = code.here();
    starts.push(ends);
    code.branch(0, ZERO, ZERO, 0);
    for (from, function, register, to) in branches {
        code.patch(starts[from], function, register, ZERO, starts[to]);
    }
    (begins, address(ends))
}

/// The register with the address of a location.
fn place(location: usize) -> u32 {
    (LOCATIONS + location) as u32
}

fn own(register: usize) -> u32 {
    REGISTERS + register as u32
}

fn operand(code: &mut Code, operand: Operand) -> u32 {
    match operand {
        Operand::Value(value) => {
            code.addi(T0, ZERO, i32::from(value));
            T0
        }
        Operand::Register(register) => own(register),
    }
}

fn add_instruction(code: &mut Code, instruction: &Instruction) {
    match instruction.action {
        Action::Load { register, location } => {
            code.immediate(0x03, 2, own(register), place(location), 0);
        }
        Action::Store {
            location,
            operand: stored,
        } => {
            let value = operand(code, stored);
            code.store_word(value, place(location));
        }
        Action::Exchange {
            register,
            location,
            operand: stored,
        } => {
            let value = operand(code, stored);
            code.exchange(own(register), place(location), value);
        }
        // Filled in when its target is known.
        Action::Branch { .. } => code.0.push(0),
        Action::WriteBack { location } => {
            let bits = primitive(instruction).unwrap_or(0);
            code.0.push(bits | place(location) << 15);
        }
        Action::Barrier if instruction.kind == Kind::StrandSync => wait_for_strands(code),
        Action::Barrier => code.0.push(primitive(instruction).unwrap_or(0)),
    }
}

/// Waits until none of the thread's strands has yet to be committed.
fn wait_for_strands(code: &mut Code) {
    let again = code.here();
    code.0.push(STRAND_SYNC | T0 << 7);
    let back = again - code.here();
    code.branch(1, T0, ZERO, back);
}

/// A flush or a fence as the machine executes it, of the address in no register; `None` if no machine has
/// it.
fn primitive(instruction: &Instruction) -> Option<u32> {
    let of_x86 = |function: u32| 0x40 << 25 | function << 12 | 0x2b;
    let of_arm = |function: u32| 0x41 << 25 | function << 12 | 0x2b;
    let [before, after] = instruction
        .sets
        .map(|set| u32::from(set.reads) << 1 | u32::from(set.writes));
    Some(match instruction.name {
        "cbo.clean" => 0x0010_200f,
        "cbo.flush" => 0x0020_200f,
        "fence" => before << 24 | after << 20 | 0x0f,
        "clflush" => of_x86(0),
        "clflushopt" => of_x86(1),
        "clwb" => of_x86(2),
        "sfence" => of_x86(4),
        "mfence" => of_x86(5),
        "dc-civac" => of_arm(0),
        "dc-cvac" => of_arm(1),
        "dc-cvap" => of_arm(2),
        "dmb" => of_arm(4),
        "dsb" => of_arm(5),
        "new-strand" => NEW_STRAND,
        "strand-sync" => STRAND_SYNC,
        // Where strands are wholes, a barrier inside does nothing.
        "persist-barrier" => 0x13,
        _ => return None,
    })
}

/// True if the machine has every instruction of a test.
pub(super) fn can_run(test: &Test) -> bool {
    let mut instructions = test.threads.iter().flatten();
    instructions.all(|instruction| match instruction.action {
        Action::WriteBack { .. } | Action::Barrier => primitive(instruction).is_some(),
        _ => true,
    })
}
