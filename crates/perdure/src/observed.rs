//! What an out-of-order core is told of an instruction: the instruction set's classes in the core's terms.
//!
//! Always true here: every class is in the table once, in its own place.

use perdure_hardware::window::{Alone, Instruction, NOWHERE, Transfer, Work};
use perdure_riscv::{Class, Observed};

const WORKS: [(Class, Work); 18] = [
    (Class::Integer, Work::Integer),
    (Class::Multiply, Work::Multiply),
    (Class::Divide, Work::Divide),
    (Class::Float, Work::Float),
    (Class::FloatMultiply, Work::FloatMultiply),
    (Class::FloatDivide, Work::FloatDivide),
    (Class::Load, Work::Load),
    (Class::Store, Work::Store),
    (Class::Branch, Work::Transfer(Transfer::Branch)),
    (Class::Jump, Work::Transfer(Transfer::Jump)),
    (Class::Call, Work::Transfer(Transfer::Call)),
    (Class::Indirect, Work::Transfer(Transfer::Indirect)),
    (Class::IndirectCall, Work::Transfer(Transfer::IndirectCall)),
    (Class::Return, Work::Transfer(Transfer::Return)),
    (Class::Fence, Work::Alone(Alone::Fence)),
    (Class::CacheBlock, Work::Alone(Alone::Flush)),
    (Class::Atomic, Work::Alone(Alone::Atomic)),
    (Class::System, Work::Alone(Alone::Other)),
];

/// What an instruction of that class does.
#[inline(always)]
pub fn work(class: Class) -> Work {
    WORKS[class as usize].1
}

/// The instruction as the core sees it.
#[inline(always)]
pub fn instruction(observed: Observed) -> Instruction {
    Instruction {
        work: work(observed.class),
        sources: observed.sources,
        // What is written to `x0` nobody reads.
        destination: match observed.destination {
            0 => NOWHERE,
            register => register,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_in_its_place() {
        for (place, (class, _)) in WORKS.iter().enumerate() {
            assert_eq!(*class as usize, place);
        }
        assert_eq!(Class::System as usize + 1, WORKS.len());
    }

    #[test]
    fn what_is_written_to_x0_goes_nowhere() {
        let seen = |destination| {
            let observed = Observed {
                class: Class::Integer,
                sources: [1, 0, 0],
                destination,
            };
            instruction(observed).destination
        };
        assert_eq!((seen(0), seen(7), seen(33)), (NOWHERE, 7, 33));
    }
}
