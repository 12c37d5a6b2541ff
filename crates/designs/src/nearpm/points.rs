//! What a device tells whoever verifies a run.

use perdure_hardware::time::Cycles;
use perdure_hardware::trace::{Accessor, Traced};

/// What a device tells whoever verifies ([`Traced::Reached`]): a command is taken; `of` is its number, the
/// device's, its opcode (0 if it is refused), who else has it, whether they agree on when it is done, its
/// pool and thread, where its operand begins and ends, and of an operation its second operand, and where its
/// pool begins and ends.
pub const POINT_TAKEN: u16 = 1;
/// Its part of a command is done, or of what is before a commit; `of` is number and device.
pub const POINT_DONE: u16 = 2;
/// All devices' parts are; `of` is number and device.
pub const POINT_SYNCHRONISED: u16 = 3;
/// Bytes that programs leave to the devices from then on: first and last.
pub const POINT_AREA: u16 = 4;

pub(super) fn reached(module: usize, point: u16, at: Cycles, of: &[u64]) -> Traced {
    Traced::Reached {
        module,
        point,
        of: of.into(),
        at,
    }
}

pub(super) fn accessed(
    module: usize,
    command: u64,
    address: u64,
    length: usize,
    wrote: Option<Box<[u8]>>,
    when: [Cycles; 2],
) -> Traced {
    Traced::Accessed {
        module,
        by: Accessor::Device { command },
        address,
        length,
        wrote,
        when,
    }
}
