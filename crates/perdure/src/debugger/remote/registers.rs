//! The registers that gdb sees, and their description for it.
//!
//! Always true here: their order in a packet is that of the description.

use std::fmt::Write;
use std::num::NonZeroUsize;

use gdbstub::arch::{self, Arch, RegId};

use crate::debugger::view;

/// Integer registers by their names in the calling convention.
const INTEGER: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "t5", "t6",
];
/// Floating-point registers, likewise.
const FLOAT: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2",
    "fa3", "fa4", "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9",
    "fs10", "fs11", "ft8", "ft9", "ft10", "ft11",
];
/// The number of the first register behind the floating-point ones.
const CONTROL: usize = 65;

/// RISC-V of 64 bits with doubles and counters.
pub(super) enum Riscv {}

/// All registers of a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct All(pub Vec<u64>);

/// A register by its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub usize);

impl Arch for Riscv {
    type Usize = u64;
    type Registers = All;
    type BreakpointKind = usize;
    type RegId = Number;
}

/// How many bytes a register has; `fflags`, `frm` and `fcsr` have four.
pub(super) fn bytes_of(number: usize) -> usize {
    if (CONTROL..CONTROL + 3).contains(&number) {
        4
    } else {
        8
    }
}

impl RegId for Number {
    fn from_raw_id(id: usize) -> Option<(Self, Option<NonZeroUsize>)> {
        (id < CONTROL + 6).then(|| (Self(id), NonZeroUsize::new(bytes_of(id))))
    }
}

impl arch::Registers for All {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.0.get(32).copied().unwrap_or_default()
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        for (number, value) in self.0.iter().enumerate() {
            for byte in &value.to_le_bytes()[..bytes_of(number)] {
                write_byte(Some(*byte));
            }
        }
    }

    /// What gdb wants to write is refused by whoever is asked to, so that it need not be understood.
    fn gdb_deserialize(&mut self, _bytes: &[u8]) -> Result<(), ()> {
        Ok(())
    }
}

/// A thread's registers in that order.
pub(super) fn all(registers: &view::Registers) -> All {
    let mut all = registers.x.to_vec();
    all.push(registers.pc);
    all.extend(registers.f);
    let fcsr = u64::from(registers.fcsr);
    all.extend([fcsr & 0x1f, fcsr >> 5 & 7, fcsr & 0xff]);
    all.extend(registers.counters);
    All(all)
}

/// The description of all of them.
pub(super) fn description() -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target version=\"1.0\">\n\
         <architecture>riscv:rv64</architecture>\n<osabi>GNU/Linux</osabi>\n\
         <feature name=\"org.gnu.gdb.riscv.cpu\">\n",
    );
    let mut one = |name: &str, bits: usize, kind: &str| {
        let _ = writeln!(
            xml,
            "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\"/>"
        );
    };
    for name in INTEGER {
        let kind = match name {
            "ra" => "code_ptr",
            "sp" | "gp" | "tp" | "fp" => "data_ptr",
            _ => "int",
        };
        one(name, 64, kind);
    }
    one("pc", 64, "code_ptr");
    xml += "</feature>\n<feature name=\"org.gnu.gdb.riscv.fpu\">\n\
            <union id=\"riscv_double\"><field name=\"float\" type=\"ieee_single\"/>\
            <field name=\"double\" type=\"ieee_double\"/></union>\n";
    for name in FLOAT {
        let _ = writeln!(
            xml,
            "<reg name=\"{name}\" bitsize=\"64\" type=\"riscv_double\"/>"
        );
    }
    for name in ["fflags", "frm", "fcsr"] {
        let _ = writeln!(xml, "<reg name=\"{name}\" bitsize=\"32\" type=\"int\"/>");
    }
    xml += "</feature>\n<feature name=\"org.gnu.gdb.riscv.csr\">\n";
    for name in ["cycle", "time", "instret"] {
        let _ = writeln!(xml, "<reg name=\"{name}\" bitsize=\"64\" type=\"int\"/>");
    }
    xml + "</feature>\n</target>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_that_is_described_is_sent() {
        let registers = view::Registers {
            x: std::array::from_fn(|register| register as u64),
            f: [7; 32],
            pc: 0x1_0000,
            fcsr: 0xe3,
            counters: [1, 2, 3],
        };
        let all = all(&registers);
        assert_eq!(all.0.len(), description().matches("<reg ").count());
        assert_eq!(all.0[CONTROL..], [3, 7, 0xe3, 1, 2, 3]);
        assert!(Number::from_raw_id(all.0.len() - 1).is_some());
        assert!(Number::from_raw_id(all.0.len()).is_none());
        let mut bytes = 0;
        arch::Registers::gdb_serialize(&all, |_| bytes += 1);
        assert_eq!(bytes, 8 * 68 + 4 * 3);
    }
}
