//! Which instruction stores, and what programs say of themselves, for whoever watches what becomes of lines.
//!
//! Always true here: nobody looks for it unless somebody watches.

use perdure_hardware::line::line_of;
use perdure_hardware::watched::{Ordered, Writer};
use perdure_riscv::{Access, Fault, Mark, Memory, offset_behind};

use super::{OFFSET_MASK, Port};
use crate::wholes::{Piece, pieces_of};

/// The words in which [`Ordered::Said`] has what a program says of itself.
pub(crate) mod said {
    /// An operation begins.
    pub const BEGINS: u8 = 0;
    /// It ends.
    pub const ENDS: u8 = 1;
    /// A piece of bytes that change as a whole: the last one.
    pub const LAST_PIECE: u8 = 2;
    /// One with another one behind it.
    pub const PIECE: u8 = 3;
}

/// What a program says of itself, in these words: bytes by the physical addresses of their pieces.
fn said_of(mark: Mark, whole: &[Piece]) -> Vec<(u8, [u64; 2])> {
    match mark {
        Mark::OperationBegins { number } => vec![(said::BEGINS, [number, 0])],
        Mark::OperationEnds => vec![(said::ENDS, [0; 2])],
        Mark::Atomic { .. } => {
            let pieces = whole.iter();
            let mut words: Vec<_> = pieces
                .map(|&(start, bytes)| (said::PIECE, [start, bytes]))
                .collect();
            if let Some((word, _)) = words.last_mut() {
                *word = said::LAST_PIECE;
            }
            words
        }
    }
}

/// Memory that says on whose behalf it stores.
pub(crate) trait Attributed: Memory {
    /// From now on stores are made by the instruction before which so many were `retired`, in the block
    /// before which it were `before`.
    fn stores_for(&mut self, block: u64, before: u64, retired: u64);
}

impl<const SHORTCUTS: bool, const WINDOW: bool> Port<'_, SHORTCUTS, WINDOW> {
    /// The program says something of itself, which changes nothing. Bytes are looked for where nobody
    /// watches, too: a run that is watched faults where any other does.
    pub(super) fn says(&mut self, mark: Mark, retired: u64) -> Result<(), Fault> {
        let whole = pieces_of(mark, self.kernel, self.space, |address| {
            Ok(self.translate(address, Access::Load)?.0)
        })?;
        if self.hardware.memory.watched.is_none() {
            return Ok(());
        }
        let (hart, at) = (self.hart, self.now(retired));
        for what in said_of(mark, &whole) {
            (self.hardware.memory).hear_order(|| Ordered::Said { hart, at, what });
        }
        Ok(())
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
