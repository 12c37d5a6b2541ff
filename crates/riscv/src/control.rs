//! Control and status registers: the floating-point ones, and the three counters, read-only.

use crate::memory::Memory;

const FFLAGS: u16 = 0x001;
const FRM: u16 = 0x002;
const FCSR: u16 = 0x003;
const CYCLE: u16 = 0xc00;
const TIME: u16 = 0xc01;
const INSTRET: u16 = 0xc02;

/// CSR numbers and names, for disassembly.
pub(crate) const NAMES: [(u16, &str); 6] = [
    (FFLAGS, "fflags"),
    (FRM, "frm"),
    (FCSR, "fcsr"),
    (CYCLE, "cycle"),
    (TIME, "time"),
    (INSTRET, "instret"),
];

/// The value of CSR `number`, or `None` if there is no such register.
pub(crate) fn read<M: Memory>(number: u16, fcsr: u32, retired: u64, memory: &M) -> Option<u64> {
    match number {
        FFLAGS => Some(u64::from(fcsr & 0x1f)),
        FRM => Some(u64::from(fcsr >> 5)),
        FCSR => Some(u64::from(fcsr)),
        CYCLE => Some(memory.cycle(retired)),
        TIME => Some(memory.time(retired)),
        INSTRET => Some(retired),
        _ => None,
    }
}

/// `fcsr` after a write of `value` to CSR `number`, or `None` if that cannot be written.
/// A reserved rounding mode can be kept here; only an operation that rounds by it is illegal.
pub(crate) fn write(number: u16, fcsr: u32, value: u64) -> Option<u32> {
    let value = value as u32;
    match number {
        FFLAGS => Some(fcsr & 0xe0 | value & 0x1f),
        FRM => Some(fcsr & 0x1f | (value & 7) << 5),
        FCSR => Some(value & 0xff),
        _ => None,
    }
}
