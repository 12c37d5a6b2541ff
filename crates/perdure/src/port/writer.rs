//! Which instruction stores, and what programs say of themselves, for whoever watches what becomes of lines.
//!
//! Always true here: nobody looks for it unless somebody watches.

use perdure_hardware::line::line_of;
use perdure_hardware::watched::{Ordered, Writer};
use perdure_riscv::{Access, Mark, Memory, offset_behind};

use super::{OFFSET_MASK, Port};

/// What a program says of itself as [`Ordered::Said`] has it: the start of bytes by its physical address.
pub(crate) fn said_of(mark: Mark, physical: Option<u64>) -> Option<(u8, [u64; 2])> {
    match (mark, physical) {
        (Mark::OperationBegins { number }, _) => Some((0, [number, 0])),
        (Mark::OperationEnds, _) => Some((1, [0; 2])),
        (Mark::Atomic { bytes, .. }, Some(start)) => Some((2, [start, bytes])),
        (Mark::Atomic { .. }, None) => None,
    }
}

/// The same as it was said, but for the start of bytes.
pub(crate) fn mark_of((what, [first, second]): (u8, [u64; 2])) -> Mark {
    match what {
        0 => Mark::OperationBegins { number: first },
        1 => Mark::OperationEnds,
        _ => Mark::Atomic {
            start: first,
            bytes: second,
        },
    }
}

/// Memory that says on whose behalf it stores.
pub(crate) trait Attributed: Memory {
    /// From now on stores are made by the instruction before which so many were `retired`, in the block
    /// before which it were `before`.
    fn stores_for(&mut self, block: u64, before: u64, retired: u64);
}

impl<const SHORTCUTS: bool, const WINDOW: bool> Port<'_, SHORTCUTS, WINDOW> {
    /// The program says something of itself, which changes nothing.
    pub(super) fn says(&mut self, mark: Mark, retired: u64) {
        if self.hardware.memory.watched.is_none() {
            return;
        }
        let physical = match mark {
            Mark::Atomic { start, .. } => self.translate(start, Access::Load).ok(),
            Mark::OperationBegins { .. } | Mark::OperationEnds => None,
        };
        let physical = physical.map(|(physical, _)| physical);
        let (hart, at) = (self.hart, self.now(retired));
        if let Some(what) = said_of(mark, physical) {
            (self.hardware.memory).hear_order(|| Ordered::Said { hart, at, what });
        }
    }

    /// The address of an instruction that is so many behind the first one of a block.
    fn address_in_block(&mut self, block: u64, index: u64) -> Option<u64> {
        if index == 0 {
            return Some(block);
        }
        let (physical, _) = self.translate(block, Access::Fetch).ok()?;
        let l1i = &self.hardware.cores[self.hart].l1i;
        // Only a block of one instruction lies in two lines.
        let line = l1i.data(l1i.find(line_of(physical))?).0;
        let offset = offset_behind(&line, (block & OFFSET_MASK) as usize, index)?;
        Some((block & !OFFSET_MASK) + offset as u64)
    }
}

impl<const SHORTCUTS: bool, const WINDOW: bool> Attributed for Port<'_, SHORTCUTS, WINDOW> {
    #[inline]
    fn stores_for(&mut self, block: u64, before: u64, retired: u64) {
        if self.hardware.memory.watched.is_none() {
            return;
        }
        let address = self.address_in_block(block, retired - before);
        let writer = Writer {
            instruction: address.map(|address| (self.space.0, address)),
            system: None,
            began: Some(self.now(retired)),
        };
        self.hardware.memory.stores_for(|| writer);
    }
}
