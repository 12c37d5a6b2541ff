//! Perdure's own persistence instructions: the machine's, and those of designs.

use perdure_hardware::core_timing::AccessKind;
use perdure_riscv::{Access, Fault};

use super::Port;
use crate::primitives;
use crate::watch::HINT;

impl<const SHORTCUTS: bool, const WINDOW: bool> Port<'_, SHORTCUTS, WINDOW> {
    /// Executes one; `None` if there is none of that function. A design that takes an address gets it as a
    /// physical one, to which the program may store.
    pub(super) fn instruct(
        &mut self,
        function: u16,
        mut operands: [u64; 2],
        retired: u64,
    ) -> Result<Option<u64>, Fault> {
        if function == HINT {
            self.watch.hit = true;
            return Ok(Some(0));
        }
        if function >= primitives::FIRST_OF_MACHINE {
            return Ok(None);
        }
        if self.design.takes_address(function) {
            let (physical, _) = self.translate(operands[0], Access::Store)?;
            if self.hardware.memory.map().is_device(physical) {
                return Err(self.refuse(operands[0], Access::Store));
            }
            operands[0] = physical;
        }
        let now = self.made_at(retired);
        let (design, hart) = (&mut *self.design, self.hart);
        let answer = (self.hardware).instruct(design, hart, function, operands, now);
        let Some((value, ready)) = answer else {
            return Ok(None);
        };
        (self.hardware).accessed(self.hart, AccessKind::Persistence, now, ready);
        self.lets_others_catch_up();
        Ok(Some(value))
    }
}
