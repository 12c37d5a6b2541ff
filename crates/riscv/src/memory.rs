//! Memory as a hart sees it: the one door between the instruction set and the machine.
//!
//! The engine (plain or fast) is generic over [`Memory`], so that a machine's hit path is inlined
//! into the instruction handlers. Addresses are virtual; translation, caches, coherence and time
//! are the implementer's business.
//!
//! # Time
//! The engine counts retired instructions and nothing else. `retired` in every call is the number
//! of instructions that this hart has retired before the one that makes the access. The
//! implementer keeps the hart's stall cycles; under a 1-CPI core the local clock is then
//! `retired + stalls`, computed only when somebody needs it. [`Memory::limit`] is a bound on
//! `retired`: the engine compares it once per block. An access that stalls lowers it.

use crate::layout::{Direct, Layout};
use crate::observe::{Class, Observed};

/// An integer as wide as one memory access.
pub trait Scalar: Copy {
    /// Width in bytes: 1, 2, 4 or 8.
    const BYTES: usize;
    /// Little-endian bytes, so many, to value.
    fn from_le(bytes: &[u8]) -> Self;
    /// The value as so many little-endian bytes.
    fn put_le(self, bytes: &mut [u8]);
    /// The value as its low bits, zero-extended.
    fn to_u64(self) -> u64;
    /// The low bits of `value`.
    fn from_u64(value: u64) -> Self;
}

macro_rules! scalar {
    ($($t:ty),*) => {$(
        impl Scalar for $t {
            const BYTES: usize = size_of::<$t>();
            #[inline(always)]
            fn from_le(bytes: &[u8]) -> Self {
                debug_assert_eq!(bytes.len(), Self::BYTES);
                // A chunk of constant length: one load, whatever the compiler inlines.
                Self::from_le_bytes(*bytes.first_chunk().expect("as many bytes"))
            }
            #[inline(always)]
            fn put_le(self, bytes: &mut [u8]) {
                debug_assert_eq!(bytes.len(), Self::BYTES);
                *bytes.first_chunk_mut().expect("as many bytes") = self.to_le_bytes();
            }
            #[inline(always)]
            fn to_u64(self) -> u64 { u64::from(self) }
            #[inline(always)]
            fn from_u64(value: u64) -> Self { value as Self }
        }
    )*};
}
scalar!(u8, u16, u32, u64);

/// What an access was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Access {
    /// Instruction fetch.
    Fetch,
    /// Data read.
    Load,
    /// Data write, read-modify-write, or a cache-block operation that needs write permission.
    Store,
}

/// An access that could not be done. The hart's state is as before the instruction; the kernel
/// either mends the mapping and lets the instruction run again, or raises a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What the access was for.
    pub access: Access,
    /// The virtual address that faulted (the exact byte, not the line).
    pub address: u64,
}

/// The read-modify-write operations of the A extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Amo {
    Swap,
    Add,
    Xor,
    And,
    Or,
    Min,
    Max,
    MinUnsigned,
    MaxUnsigned,
}

/// The cache-block operations of Zicbom and Zicboz, and in custom-1 those of x86 and Arm. The block is 64
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CacheBlock {
    Invalidate,
    Clean,
    Flush,
    Zero,
    Clflush,
    Clflushopt,
    Clwb,
    DcCivac,
    DcCvac,
    DcCvap,
}

/// The fences of x86 and Arm, in custom-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Barrier {
    Sfence,
    Mfence,
    DmbIsh,
    DsbIsh,
}

/// What a program says of itself, in custom-1, to whoever watches it. It changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// An operation of the program begins, which calls it so.
    OperationBegins {
        /// The program's own number for it.
        number: u64,
    },
    /// The hart's operation is over.
    OperationEnds,
    /// These bytes change as a whole, or not at all, as anybody sees them after a power cut.
    Atomic {
        /// Where they begin.
        start: u64,
        /// How many there are.
        bytes: u64,
    },
}

/// The line that an instruction fetch delivered.
#[derive(Clone, Copy, Debug)]
pub struct FetchedLine<'a, H> {
    /// The 64 bytes of the line that holds the program counter, where they lie.
    pub bytes: &'a [u8; 64],
    /// Where the line sits in the instruction cache, for [`Memory::fetch_again`].
    pub hint: H,
}

/// Memory as a hart sees it. See the module's documentation for the meaning of `retired`.
pub trait Memory {
    /// A place in the instruction cache; small, copied into every decoded block.
    type FetchHint: Copy + Default;

    /// True for a machine whose time depends on every instruction: the engines tell it of each, before and
    /// behind all accesses that the instruction makes. Where this is false, nothing of that is compiled.
    const OBSERVES: bool = false;

    /// True where the fast engine may join instructions in pairs. Each memory of which this is true makes the
    /// program longer by some hundred kilobytes. An observer is told of each instruction, and has none.
    const PAIRS: bool = false;

    /// How hits look, where an engine may make them by code of its own.
    const LAYOUT: Option<&'static Layout> = None;

    /// Where this hart's are made. Only asked where there is a [`Memory::LAYOUT`].
    fn direct(&mut self) -> Direct {
        unreachable!("there is no layout")
    }

    /// An instruction begins. It ends ([`Memory::ends`]), or the engine comes back with why it did not.
    #[inline(always)]
    fn begins(&mut self, instruction: Observed, retired: u64) {
        let _ = (instruction, retired);
    }

    /// The instruction that began last, of that class, has been carried out and is about to count as retired.
    /// If it may transfer control: `behind` is the address behind it, which it left for `target` if it did.
    #[inline(always)]
    fn ends(&mut self, class: Class, behind: u64, target: Option<u64>) {
        let _ = (class, behind, target);
    }

    /// The engine returns [`crate::Exit::Limit`] at the first block boundary at which
    /// `retired >= limit()`.
    fn limit(&self) -> u64;

    /// Reads a value. Misaligned addresses are legal, also across lines and pages.
    fn load<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault>;

    /// Writes a value. Misaligned addresses are legal, also across lines and pages.
    fn store<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> Result<(), Fault>;

    /// The common case of [`Memory::load`], where an engine wants it as straight code without a
    /// function call: the value, charged exactly as `load` would, or `None` with nothing done, and
    /// the engine calls `load`. Should be `#[inline(always)]`; right without being implemented.
    #[inline(always)]
    fn load_hit<T: Scalar>(&mut self, address: u64, retired: u64) -> Option<T> {
        let _ = (address, retired);
        None
    }

    /// The common case of [`Memory::store`], likewise: true if stored, false with nothing done.
    #[inline(always)]
    fn store_hit<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> bool {
        let _ = (address, value, retired);
        false
    }

    /// Fetches the line that holds `pc`, charging the instruction cache.
    fn fetch(&mut self, pc: u64, retired: u64) -> Result<FetchedLine<'_, Self::FetchHint>, Fault>;

    /// True if the line once fetched for `pc` at `hint` is still there unchanged; charges the
    /// hit exactly as [`Memory::fetch`] would. False charges nothing: call `fetch` then.
    fn fetch_again(&mut self, pc: u64, hint: Self::FetchHint, retired: u64) -> bool;

    /// LR: loads and reserves the 64-byte line of `address`, which is naturally aligned.
    fn load_reserved<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault>;

    /// SC: stores if this hart's reservation on that line still stands; true on success.
    /// The reservation is gone afterwards either way.
    fn store_conditional<T: Scalar>(
        &mut self,
        address: u64,
        value: T,
        retired: u64,
    ) -> Result<bool, Fault>;

    /// AMO: one atomic read-modify-write at a naturally aligned address; returns the old value.
    /// [`Amo::apply`] is the arithmetic.
    fn atomic<T: Scalar>(
        &mut self,
        operation: Amo,
        address: u64,
        operand: T,
        retired: u64,
    ) -> Result<T, Fault>;

    /// A cache-block operation on the block that holds `address`.
    fn cache_block(
        &mut self,
        operation: CacheBlock,
        address: u64,
        retired: u64,
    ) -> Result<(), Fault>;

    /// MOVNT: writes a value around the caches, where the machine has a way around them.
    fn store_non_temporal(&mut self, address: u64, value: u64, retired: u64) -> Result<(), Fault> {
        self.store(address, value, retired)
    }

    /// A fence of x86 or Arm; any orders at most what the strongest FENCE does.
    fn barrier(&mut self, barrier: Barrier, retired: u64) {
        let _ = barrier;
        self.fence(0b1111, 0b1111, retired);
    }

    /// FENCE with its predecessor and successor sets (bits I=8, O=4, R=2, W=1).
    fn fence(&mut self, predecessor: u8, successor: u8, retired: u64);

    /// The program says something of itself. Of bytes: faults as a load of them would.
    fn mark(&mut self, mark: Mark, retired: u64) -> Result<(), Fault> {
        let _ = (mark, retired);
        Ok(())
    }

    /// FENCE.I: later fetches see this hart's earlier stores.
    fn fence_instruction(&mut self, retired: u64);

    /// One of Perdure's own persistence instructions (opcode custom-1, see `docs/machine.md`).
    /// `function` is funct7 and funct3 as `funct7 << 3 | funct3`; returns the value for `rd`, or
    /// `None` where the machine knows no such function, which makes the instruction illegal. One that takes
    /// an address faults as an access to that would.
    fn persistence(
        &mut self,
        function: u16,
        operands: [u64; 2],
        retired: u64,
    ) -> Result<Option<u64>, Fault>;

    /// The `cycle` CSR.
    fn cycle(&self, retired: u64) -> u64;

    /// When a hart that has retired so many instructions is done with the last of them. Where several are
    /// under way, the `cycle` of a later one can be before that of an earlier one; this cannot.
    fn committed(&self, retired: u64) -> u64 {
        self.cycle(retired)
    }

    /// The `time` CSR.
    fn time(&self, retired: u64) -> u64;
}

impl Amo {
    /// The new value from the old one and the operand, in the width of `T`.
    #[inline]
    pub fn apply<T: Scalar>(self, old: T, operand: T) -> T {
        let signed = |value: T| {
            let unused_bits = 64 - 8 * T::BYTES as u32;
            ((value.to_u64() << unused_bits) as i64) >> unused_bits
        };
        let (a, b) = (old.to_u64(), operand.to_u64());
        let first = |first_wins| if first_wins { a } else { b };
        T::from_u64(match self {
            Self::Swap => b,
            Self::Add => a.wrapping_add(b),
            Self::Xor => a ^ b,
            Self::And => a & b,
            Self::Or => a | b,
            Self::Min => first(signed(old) < signed(operand)),
            Self::Max => first(signed(old) > signed(operand)),
            Self::MinUnsigned => first(a < b),
            Self::MaxUnsigned => first(a > b),
        })
    }
}

/// Hands calls of [`Memory`] on, as they come, in the implementation of one memory that stands in front of
/// another: `hand_on!(inner: fence cycle)` for the field `inner`.
#[macro_export]
macro_rules! hand_on {
    ($inner:ident: $($call:ident)*) => { $($crate::hand_on!(@$call $inner);)* };
    (@begins $inner:ident) => {
        #[inline(always)]
        fn begins(&mut self, instruction: $crate::Observed, retired: u64) {
            self.$inner.begins(instruction, retired);
        }
    };
    (@ends $inner:ident) => {
        #[inline(always)]
        fn ends(&mut self, class: $crate::Class, behind: u64, target: Option<u64>) {
            self.$inner.ends(class, behind, target);
        }
    };
    (@limit $inner:ident) => {
        #[inline(always)]
        fn limit(&self) -> u64 {
            self.$inner.limit()
        }
    };
    (@load $inner:ident) => {
        #[inline(always)]
        fn load<T: $crate::Scalar>(&mut self, address: u64, retired: u64) -> Result<T, $crate::Fault> {
            self.$inner.load(address, retired)
        }
    };
    (@store $inner:ident) => {
        #[inline(always)]
        fn store<T: $crate::Scalar>(
            &mut self,
            address: u64,
            value: T,
            retired: u64,
        ) -> Result<(), $crate::Fault> {
            self.$inner.store(address, value, retired)
        }
    };
    (@fetch $inner:ident) => {
        fn fetch(
            &mut self,
            pc: u64,
            retired: u64,
        ) -> Result<$crate::FetchedLine<'_, Self::FetchHint>, $crate::Fault> {
            self.$inner.fetch(pc, retired)
        }
    };
    (@fetch_again $inner:ident) => {
        #[inline(always)]
        fn fetch_again(&mut self, pc: u64, hint: Self::FetchHint, retired: u64) -> bool {
            self.$inner.fetch_again(pc, hint, retired)
        }
    };
    (@load_reserved $inner:ident) => {
        fn load_reserved<T: $crate::Scalar>(
            &mut self,
            address: u64,
            retired: u64,
        ) -> Result<T, $crate::Fault> {
            self.$inner.load_reserved(address, retired)
        }
    };
    (@store_conditional $inner:ident) => {
        fn store_conditional<T: $crate::Scalar>(
            &mut self,
            address: u64,
            value: T,
            retired: u64,
        ) -> Result<bool, $crate::Fault> {
            self.$inner.store_conditional(address, value, retired)
        }
    };
    (@atomic $inner:ident) => {
        fn atomic<T: $crate::Scalar>(
            &mut self,
            operation: $crate::Amo,
            address: u64,
            operand: T,
            retired: u64,
        ) -> Result<T, $crate::Fault> {
            self.$inner.atomic(operation, address, operand, retired)
        }
    };
    (@cache_block $inner:ident) => {
        fn cache_block(
            &mut self,
            operation: $crate::CacheBlock,
            address: u64,
            retired: u64,
        ) -> Result<(), $crate::Fault> {
            self.$inner.cache_block(operation, address, retired)
        }
    };
    (@store_non_temporal $inner:ident) => {
        fn store_non_temporal(
            &mut self,
            address: u64,
            value: u64,
            retired: u64,
        ) -> Result<(), $crate::Fault> {
            self.$inner.store_non_temporal(address, value, retired)
        }
    };
    (@barrier $inner:ident) => {
        fn barrier(&mut self, barrier: $crate::Barrier, retired: u64) {
            self.$inner.barrier(barrier, retired);
        }
    };
    (@fence $inner:ident) => {
        fn fence(&mut self, predecessor: u8, successor: u8, retired: u64) {
            self.$inner.fence(predecessor, successor, retired);
        }
    };
    (@fence_instruction $inner:ident) => {
        fn fence_instruction(&mut self, retired: u64) {
            self.$inner.fence_instruction(retired);
        }
    };
    (@mark $inner:ident) => {
        fn mark(&mut self, mark: $crate::Mark, retired: u64) -> Result<(), $crate::Fault> {
            self.$inner.mark(mark, retired)
        }
    };
    (@persistence $inner:ident) => {
        fn persistence(
            &mut self,
            function: u16,
            operands: [u64; 2],
            retired: u64,
        ) -> Result<Option<u64>, $crate::Fault> {
            self.$inner.persistence(function, operands, retired)
        }
    };
    (@cycle $inner:ident) => {
        fn cycle(&self, retired: u64) -> u64 {
            self.$inner.cycle(retired)
        }
    };
    (@time $inner:ident) => {
        fn time(&self, retired: u64) -> u64 {
            self.$inner.time(retired)
        }
    };
}
