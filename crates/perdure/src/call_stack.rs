//! Call stacks without debug information and without frame pointers: where a hart stands, and the words above
//! its stack pointer that point behind a call in executable memory.
//!
//! A word that an earlier call left there counts like one of today; that makes more callers, and never one
//! too few.

use perdure_riscv::{Access, Hart};

/// How far up a stack is looked, and how many callers count.
const WORDS: u64 = 2048;
const CALLERS: usize = 24;

/// What a program's thread reads: bytes within a line, if they may be accessed so.
pub trait Memory {
    /// Fills the buffer.
    fn read(&self, address: u64, buffer: &mut [u8], access: Access) -> Option<()>;
}

/// The word at an address, if it may be read.
pub fn word(memory: &impl Memory, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes, Access::Load)?;
    Some(u64::from_le_bytes(bytes))
}

/// Where a hart stands, and where it will come back to, innermost first.
pub fn of(registers: &Hart, memory: &impl Memory) -> Vec<u64> {
    let stack_pointer = registers.x[2] & !7;
    let callers = (0..WORDS)
        .map_while(|number| word(memory, stack_pointer + 8 * number))
        .filter(|&word| is_behind_call(memory, word))
        .take(CALLERS);
    [registers.pc, registers.x[1]]
        .into_iter()
        .chain(callers)
        .collect()
}

/// True if the instruction before an address is a call: `jal` or `jalr` that links `ra`, or `c.jalr`.
pub fn is_behind_call(memory: &impl Memory, address: u64) -> bool {
    if !address.is_multiple_of(2) || address < 4 {
        return false;
    }
    let half = |address: u64| {
        let mut bytes = [0; 2];
        memory.read(address, &mut bytes, Access::Fetch)?;
        Some(u16::from_le_bytes(bytes))
    };
    let Some(last) = half(address - 2) else {
        return false;
    };
    let short = last & 0xf07f == 0x9002 && last & 0x0f80 != 0;
    let long = |first: u16| matches!(first & 0x0fff, 0x00ef | 0x00e7);
    short || half(address - 4).is_some_and(long)
}
