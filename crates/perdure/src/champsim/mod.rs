//! The instructions of a run as `ChampSim` reads them (`inc/trace_instruction.h`): a record of 64 bytes for
//! each that was retired, a file for each hart.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | address of the instruction |
//! | 1, 1 | 1 for a branch, and if it was taken |
//! | 2 | registers that are written, 0 for none |
//! | 4 | registers that are read |
//! | 2 × 8 | addresses that are written |
//! | 4 × 8 | addresses that are read |
//!
//! Addresses are the program's virtual ones. `ChampSim` knows kinds of branches by the registers that x86
//! uses in them; [`registers`] says the same of RISC-V's, so that calls, returns and jumps are what they are.
//!
//! Always true here: an instruction is in the file once, when it has retired. What traps is not, nor is what
//! the kernel does.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use perdure_hardware::time::Cycles;
use perdure_riscv::{Class, Observed};
use serde_json::{Value, json};

use crate::retired::{Listener, Step};
use crate::timeline::{Output, Windows};

/// A record.
pub const RECORD_BYTES: usize = 64;

const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
/// RISC-V's register for it.
const SP: u8 = 2;
/// Where RISC-V's registers begin: integer ones, and 32 later those of floating point.
const FIRST: u8 = 32;
/// `sp` where `ChampSim` would take it for a call's or a return's: `x2` has no other use for its number.
const SP_AS_OPERAND: u8 = FIRST + SP;

/// `ChampSim`'s number of a register.
const fn number(register: u8) -> u8 {
    match register {
        0 => 0,
        SP => STACK_POINTER,
        other => FIRST + other,
    }
}

/// The same in a branch.
const fn operand(register: u8) -> u8 {
    match register {
        0 => 0,
        SP => SP_AS_OPERAND,
        other => FIRST + other,
    }
}

/// The registers that are written and read, as `ChampSim` infers an instruction's kind from them. A call
/// writes its return address to no register there, because stack pointer and target take both places.
pub fn registers(observed: &Observed) -> ([u8; 2], [u8; 4]) {
    const IP: u8 = INSTRUCTION_POINTER;
    let [first, second, third] = observed.sources;
    // What an indirect branch reads is a register, `x0` included.
    let target = operand(first).max(FIRST);
    match observed.class {
        Class::Jump => ([IP, 0], [IP, 0, 0, 0]),
        Class::Branch => {
            let condition = if first == 0 && second == 0 { FLAGS } else { 0 };
            let read = [IP, operand(first), operand(second), condition];
            ([IP, 0], read)
        }
        Class::Indirect => ([IP, 0], [target, 0, 0, 0]),
        Class::Call => ([IP, STACK_POINTER], [IP, STACK_POINTER, 0, 0]),
        Class::IndirectCall => ([IP, STACK_POINTER], [IP, STACK_POINTER, target, 0]),
        Class::Return => ([IP, STACK_POINTER], [STACK_POINTER, target, 0, 0]),
        _ => (
            [number(observed.destination), 0],
            [number(first), number(second), number(third), 0],
        ),
    }
}

/// Kinds of branches, in `ChampSim`'s order and with its names.
const BRANCHES: [(Class, &str); 6] = [
    (Class::Jump, "BRANCH_DIRECT_JUMP"),
    (Class::Indirect, "BRANCH_INDIRECT"),
    (Class::Branch, "BRANCH_CONDITIONAL"),
    (Class::Call, "BRANCH_DIRECT_CALL"),
    (Class::IndirectCall, "BRANCH_INDIRECT_CALL"),
    (Class::Return, "BRANCH_RETURN"),
];

fn encoded(step: &Step, taken: bool) -> [u8; RECORD_BYTES] {
    let is_branch = BRANCHES
        .iter()
        .any(|(class, _)| *class == step.observed.class);
    let (written, read) = registers(&step.observed);
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&step.address.to_le_bytes());
    record[8] = is_branch.into();
    record[9] = (is_branch && taken).into();
    record[10..12].copy_from_slice(&written);
    record[12..16].copy_from_slice(&read);
    let addresses = step.written.iter().chain(&step.read);
    for (place, address) in record[16..].chunks_exact_mut(8).zip(addresses) {
        place.copy_from_slice(&address.to_le_bytes());
    }
    record
}

/// A hart's file.
struct HartFile {
    path: PathBuf,
    output: Output,
    instructions: u64,
    branches: [u64; BRANCHES.len()],
    taken: u64,
    left_out: u64,
    trouble: Option<io::Error>,
}

impl HartFile {
    fn write(&mut self, step: &Step, taken: bool) {
        if self.trouble.is_some() || self.left_out > 0 || self.output.is_full() {
            self.left_out += 1;
            return;
        }
        self.instructions += 1;
        let kind = BRANCHES
            .iter()
            .position(|(class, _)| *class == step.observed.class);
        if let Some(kind) = kind {
            self.branches[kind] += 1;
            self.taken += u64::from(taken);
        }
        self.trouble = self.output.write_all(&encoded(step, taken)).err();
    }
}

/// The files of a run.
pub struct Instructions {
    harts: Vec<HartFile>,
    windows: Windows,
}

impl std::fmt::Debug for Instructions {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        to.debug_struct("Instructions").finish_non_exhaustive()
    }
}

/// The file of a hart: of the only one as it was asked for, else with its number in the name.
fn path_of(asked: &Path, hart: usize, harts: usize) -> PathBuf {
    let name = asked.file_name().and_then(|name| name.to_str());
    match name.and_then(|name| name.split_once('.')) {
        _ if harts == 1 => asked.to_owned(),
        Some((stem, ending)) => asked.with_file_name(format!("{stem}.hart{hart}.{ending}")),
        None => asked.with_extension(format!("hart{hart}")),
    }
}

impl Instructions {
    /// New files for so many harts.
    pub fn create(
        asked: &Path,
        harts: usize,
        windows: Windows,
        most_bytes: u64,
    ) -> io::Result<Self> {
        let file = |hart| {
            let path = path_of(asked, hart, harts);
            Ok(HartFile {
                output: Output::create(&path, most_bytes)?,
                path,
                instructions: 0,
                branches: [0; BRANCHES.len()],
                taken: 0,
                left_out: 0,
                trouble: None,
            })
        };
        let harts = (0..harts).map(file).collect::<io::Result<_>>()?;
        Ok(Self { harts, windows })
    }

    /// Ends the files, and tells what they have.
    pub fn finish(&mut self) -> Result<Value, String> {
        self.harts.iter_mut().enumerate().map(of_file).collect()
    }
}

impl Listener for Instructions {
    fn retires(&mut self, hart: usize, step: &Step, taken: bool, now: Cycles) {
        if self.windows.have(now) {
            self.harts[hart].write(step, taken);
        }
    }

    fn begins_at(&mut self, from: Cycles) {
        self.windows.from = from;
    }
}

fn of_file((hart, file): (usize, &mut HartFile)) -> Result<Value, String> {
    let ended = match file.trouble.take() {
        Some(trouble) => Err(trouble),
        None => file.output.finish(),
    };
    ended.map_err(|trouble| format!("the ChampSim trace {}: {trouble}", file.path.display()))?;
    let branches = BRANCHES.iter().zip(file.branches);
    let branches: serde_json::Map<String, Value> = branches
        .map(|((_, name), count)| ((*name).to_owned(), json!(count)))
        .collect();
    Ok(json!({
        "file": file.path,
        "hart": hart,
        "bytes": file.output.bytes(),
        "instructions": file.instructions,
        "branches": branches,
        "branches_taken": file.taken,
        "left_out": file.left_out,
    }))
}

#[cfg(test)]
mod tests;
