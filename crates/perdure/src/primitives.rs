//! What the instruction set's cache-block instructions and fences ask of the hardware: one table.
//!
//! Always true here: an instruction has one meaning, under every design and both engines.

use perdure_hardware::line::LineNumber;
use perdure_hardware::persist::{Effect, Fence, Order, Persist, Point};
use perdure_riscv::CacheBlock;

/// The instructions that write a block back: `cbo.inval` (which the extension allows to be a flush:
/// nothing that was stored is taken back), `cbo.clean` and `cbo.flush`. `cbo.zero` is a store, and not
/// among them.
const CACHE_BLOCKS: [(CacheBlock, Effect, Point, Order); 3] = [
    (
        CacheBlock::Invalidate,
        Effect::Flush,
        Point::Persistence,
        Order::Stores,
    ),
    (
        CacheBlock::Clean,
        Effect::Clean,
        Point::Persistence,
        Order::Stores,
    ),
    (
        CacheBlock::Flush,
        Effect::Flush,
        Point::Persistence,
        Order::Stores,
    ),
];

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
    fn a_fence_waits_for_its_predecessors() {
        assert_eq!(fence(0b0011), Fence::FULL);
        assert!(!fence(0b0010).stores && fence(0b0010).loads);
        assert_eq!(fence(0b1100), Fence::default(), "there are no such devices");
        assert!(fence(0b0001).persists, "cleans are ordered as writes");
    }
}
