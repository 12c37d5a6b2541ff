//! Which instruction stores, for whoever watches what becomes of lines.
//!
//! Always true here: nobody looks for it unless somebody watches.

use perdure_hardware::line::line_of;
use perdure_hardware::watched::Writer;
use perdure_riscv::{Access, Instruction, Memory};

use super::{OFFSET_MASK, Port};

/// Memory that says on whose behalf it stores.
pub(crate) trait Attributed: Memory {
    /// From now on stores are made by the instruction that is so many behind the first one of a block.
    fn stores_for(&mut self, block: u64, index: u64);
}

impl<const SHORTCUTS: bool, const WINDOW: bool> Port<'_, SHORTCUTS, WINDOW> {
    /// The address of an instruction that is so many behind the first one of a block.
    fn address_in_block(&self, block: u64, index: u64) -> Option<u64> {
        if index == 0 {
            return Some(block);
        }
        let (physical, _) = self.translate(block, Access::Fetch).ok()?;
        let l1i = &self.hardware.cores[self.hart].l1i;
        // Only a block of one instruction lies in two lines.
        let line = l1i.data(l1i.find(line_of(physical))?).0;
        let mut offset = (block & OFFSET_MASK) as usize;
        for _ in 0..index {
            let mut bits = [0; 4];
            let rest = line.get(offset..)?;
            let length = rest.len().min(bits.len());
            bits[..length].copy_from_slice(&rest[..length]);
            let instruction = Instruction::decode(u32::from_le_bytes(bits))?;
            offset += usize::from(instruction.length);
        }
        Some((block & !OFFSET_MASK) + offset as u64)
    }
}

impl<const SHORTCUTS: bool, const WINDOW: bool> Attributed for Port<'_, SHORTCUTS, WINDOW> {
    #[inline]
    fn stores_for(&mut self, block: u64, index: u64) {
        if self.hardware.memory.watched.is_none() {
            return;
        }
        let address = self.address_in_block(block, index);
        let writer = Writer {
            instruction: address.map(|address| (self.space.0, address)),
            system: None,
        };
        self.hardware.memory.stores_for(|| writer);
    }
}
