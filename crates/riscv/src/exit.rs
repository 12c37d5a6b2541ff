//! Why an engine stopped. Each reason names all that the machine or the kernel needs to go on.

use crate::Fault;
use crate::memory::Access;

/// Why an engine returned. In every case `pc` is the instruction that stopped it (the next one to
/// run, for [`Exit::Limit`]), that instruction is not retired, and no register has changed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// At a block boundary, `retired` had reached `Memory::limit()`.
    Limit,
    /// `ecall`. Not retired, as the privileged specification demands; the kernel sets `pc` to
    /// `pc + 4` before the hart runs again.
    EnvironmentCall,
    /// `ebreak` or `c.ebreak`.
    Breakpoint,
    /// Memory refused an access: a data access, or an instruction fetch.
    Fault(Fault),
    /// An atomic access (AMO, LR, SC) at an address that is not a multiple of its size. Memory
    /// was not asked. LR counts as a load, SC and AMO as stores.
    Misaligned {
        /// What the access was for.
        access: Access,
        /// The address that is not aligned.
        address: u64,
    },
    /// No such instruction, a reserved rounding mode, an unknown or read-only CSR, or a
    /// persistence function that the machine does not know.
    Illegal {
        /// The instruction; a compressed one has its upper half zero.
        bits: u32,
    },
}
