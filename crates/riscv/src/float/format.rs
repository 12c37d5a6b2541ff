//! The two formats as bits. A value of either type is any bit pattern, signaling NaNs included.

use super::host::Host;
use softfloat_wrapper::{F32, F64, Float};

/// A floating-point format.
pub(crate) trait Format: Copy + PartialEq + std::fmt::Debug {
    /// The host's type of this format.
    type Host: Host;
    /// SoftFloat's type of this format.
    type Soft: Float;

    /// The sign bit.
    const SIGN: u64;
    /// All exponent bits, which is also the encoding of infinity.
    const EXPONENT: u64;
    /// The bit that makes a NaN a quiet one: the uppermost of the fraction.
    const QUIET: u64;
    /// The NaN that every operation gives.
    const CANONICAL_NAN: Self;

    /// The value in a floating-point register; the canonical NaN if it is not well boxed.
    fn unbox(register: u64) -> Self;
    /// The register that holds this value.
    fn boxed(self) -> u64;
    fn bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
    fn host(self) -> Self::Host;
    fn from_host(host: Self::Host) -> Self;
    fn soft(self) -> Self::Soft;
    fn from_soft(soft: Self::Soft) -> Self;

    #[inline(always)]
    fn is_negative(self) -> bool {
        self.bits() & Self::SIGN != 0
    }

    #[inline(always)]
    fn is_signaling(self) -> bool {
        self.bits() & !Self::SIGN > Self::EXPONENT && self.bits() & Self::QUIET == 0
    }

    #[inline(always)]
    fn negated(self) -> Self {
        Self::from_bits(self.bits() ^ Self::SIGN)
    }
}

/// A single-precision value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Single(u32);

/// A double-precision value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Double(u64);

/// The upper half of a register that holds a single-precision value.
const BOX: u64 = 0xffff_ffff_0000_0000;

impl Format for Single {
    type Host = f32;
    type Soft = F32;
    const SIGN: u64 = 1 << 31;
    const EXPONENT: u64 = 0xff << 23;
    const QUIET: u64 = 1 << 22;
    const CANONICAL_NAN: Self = Self(0x7fc0_0000);

    #[inline(always)]
    fn unbox(register: u64) -> Self {
        if register >= BOX {
            Self(register as u32)
        } else {
            Self::CANONICAL_NAN
        }
    }
    #[inline(always)]
    fn boxed(self) -> u64 {
        BOX | u64::from(self.0)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self.0)
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Self(bits as u32)
    }
    #[inline(always)]
    fn host(self) -> f32 {
        f32::from_bits(self.0)
    }
    #[inline(always)]
    fn from_host(host: f32) -> Self {
        Self(host.to_bits())
    }
    fn soft(self) -> F32 {
        F32::from_bits(self.0)
    }
    fn from_soft(soft: F32) -> Self {
        Self(soft.to_bits())
    }
}

impl Format for Double {
    type Host = f64;
    type Soft = F64;
    const SIGN: u64 = 1 << 63;
    const EXPONENT: u64 = 0x7ff << 52;
    const QUIET: u64 = 1 << 51;
    const CANONICAL_NAN: Self = Self(0x7ff8_0000_0000_0000);

    #[inline(always)]
    fn unbox(register: u64) -> Self {
        Self(register)
    }
    #[inline(always)]
    fn boxed(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    #[inline(always)]
    fn host(self) -> f64 {
        f64::from_bits(self.0)
    }
    #[inline(always)]
    fn from_host(host: f64) -> Self {
        Self(host.to_bits())
    }
    fn soft(self) -> F64 {
        F64::from_bits(self.0)
    }
    fn from_soft(soft: F64) -> Self {
        Self(soft.to_bits())
    }
}
