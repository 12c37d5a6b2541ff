//! What the instruction sets' flushes and fences ask of the hardware: one table. RISC-V's are its own
//! instructions; x86's and Arm's are functions of custom-1 (`docs/machine.md`).
//!
//! Always true here: an instruction has one meaning, under every design and both engines.

use perdure_hardware::line::LineNumber;
use perdure_hardware::memory_type::MemoryType;
use perdure_hardware::persist::{Effect, Fence, Order, Persist, Point};
use perdure_riscv::{Barrier, CacheBlock};

/// The instructions that write a block back, and what each of them does: what stays in the caches, how far
/// the bytes come before a fence lets go, and what of its hart it is ordered with.
///
/// `cbo.inval` is a flush, which the extension allows: nothing that was stored is taken back. `cbo.zero` is
/// a store, and not among them. Arm's point of coherence is where bytes survive, as on the machine of the
/// flush study.
const CACHE_BLOCKS: [(CacheBlock, Effect, Point, Order); 9] = {
    use {CacheBlock as B, Effect as E, Order as O, Point as P};
    [
        (B::Invalidate, E::Flush, P::Persistence, O::Stores),
        (B::Clean, E::Clean, P::Persistence, O::Stores),
        (B::Flush, E::Flush, P::Persistence, O::Stores),
        (B::Clflush, E::Flush, P::Persistence, O::Accesses),
        (B::Clflushopt, E::Flush, P::Persistence, O::Line),
        (B::Clwb, E::Clean, P::Persistence, O::Line),
        (B::DcCivac, E::Flush, P::Persistence, O::Line),
        (B::DcCvac, E::Clean, P::Persistence, O::Line),
        (B::DcCvap, E::Clean, P::Persistence, O::Line),
    ]
};

/// What the fences of x86 and Arm wait for. `sfence` lets later loads pass, of which no core here makes
/// use; `dmb` orders accesses, and does not wait for `dc`.
const BARRIERS: [(Barrier, Fence); 4] = [
    (
        Barrier::Sfence,
        Fence {
            loads: false,
            ..Fence::FULL
        },
    ),
    (Barrier::Mfence, Fence::FULL),
    (
        Barrier::DmbIsh,
        Fence {
            persists: false,
            ..Fence::FULL
        },
    ),
    (Barrier::DsbIsh, Fence::FULL),
];

/// Persistence instructions from this function number on are the machine's under every design; those below
/// are the design's.
pub const FIRST_OF_MACHINE: u16 = 0x40 << 3;

/// What a hart's cache-block instruction asks for; `None` if it is a store.
pub fn persist(operation: CacheBlock, hart: usize, line: LineNumber) -> Option<Persist> {
    let row = CACHE_BLOCKS.iter().find(|row| row.0 == operation)?;
    let &(_, effect, point, order) = row;
    Some(Persist {
        hart,
        line,
        effect,
        point,
        order,
    })
}

/// What a fence of x86 or Arm waits for.
pub fn barrier(barrier: Barrier) -> Fence {
    let row = BARRIERS.iter().find(|row| row.0 == barrier);
    row.map_or(Fence::FULL, |row| row.1)
}

/// A mapping's memory type, as the hardware calls it.
pub fn memory_type(of_mapping: perdure_linux::MemoryType) -> MemoryType {
    match of_mapping {
        perdure_linux::MemoryType::WriteBack => MemoryType::WriteBack,
        perdure_linux::MemoryType::WriteThrough => MemoryType::WriteThrough,
        perdure_linux::MemoryType::Uncached => MemoryType::Uncached,
        perdure_linux::MemoryType::WriteCombining => MemoryType::WriteCombining,
    }
}

/// What a `fence` with this predecessor set (bits I=8, O=4, R=2, W=1) waits for. Cache-block
/// instructions are ordered as writes are.
pub fn fence(predecessor: u8) -> Fence {
    let writes = predecessor & 1 != 0;
    Fence {
        loads: predecessor & 2 != 0,
        stores: writes,
        persists: writes,
    }
}

/// What `fence.i` waits for: later fetches see this hart's earlier stores.
pub const FENCE_INSTRUCTION: Fence = Fence::FULL;

/// What an atomic instruction waits for before its access.
pub const ATOMIC: Fence = Fence::FULL;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_that_writes_back_is_in_the_table() {
        let asked = |operation| persist(operation, 3, 7);
        for (operation, effect) in [
            (CacheBlock::Clean, Effect::Clean),
            (CacheBlock::Flush, Effect::Flush),
            (CacheBlock::Invalidate, Effect::Flush),
        ] {
            let persist = asked(operation).expect("it writes back");
            assert_eq!((persist.hart, persist.line), (3, 7));
            assert_eq!(persist.effect, effect, "{operation:?}");
            assert_eq!(persist.point, Point::Persistence, "{operation:?}");
        }
        assert_eq!(asked(CacheBlock::Zero), None, "it is a store");
    }

    #[test]
    fn what_keeps_its_line_and_what_is_ordered_with_what() {
        let asked = |operation| persist(operation, 3, 7).expect("it writes back");
        let keeps = |operation| asked(operation).effect == Effect::Clean;
        for operation in [CacheBlock::Clwb, CacheBlock::DcCvac, CacheBlock::DcCvap] {
            assert!(keeps(operation), "{operation:?}");
            assert_eq!(asked(operation).order, Order::Line, "{operation:?}");
        }
        for operation in [CacheBlock::Clflushopt, CacheBlock::DcCivac] {
            assert!(!keeps(operation), "{operation:?}");
            assert_eq!(asked(operation).order, Order::Line, "{operation:?}");
        }
        let (strict, relaxed) = (asked(CacheBlock::Clflush), asked(CacheBlock::Clflushopt));
        assert_eq!(strict.order, Order::Accesses);
        let order = relaxed.order;
        assert_eq!(Persist { order, ..strict }, relaxed, "nothing else differs");
    }

    #[test]
    fn every_fence_waits_for_stores_and_only_dmb_for_no_flush() {
        use Barrier::{DmbIsh, DsbIsh, Mfence, Sfence};
        for one in [Sfence, Mfence, DmbIsh, DsbIsh] {
            assert!(barrier(one).stores, "{one:?}");
            assert_eq!(barrier(one).loads, one != Sfence, "{one:?}");
            assert_eq!(barrier(one).persists, one != DmbIsh, "{one:?}");
        }
    }

    #[test]
    fn a_fence_waits_for_its_predecessors() {
        assert_eq!(fence(0b0011), Fence::FULL);
        assert!(!fence(0b0010).stores && fence(0b0010).loads);
        assert_eq!(fence(0b1100), Fence::default(), "there are no such devices");
        assert!(fence(0b0001).persists, "cleans are ordered as writes");
    }
}
