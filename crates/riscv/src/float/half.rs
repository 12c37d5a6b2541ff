//! Half precision, as far as Zfhmin goes: a format to keep numbers in, converted from and to the
//! others by SoftFloat.
//!
//! Always true: a value in a register is boxed, all bits above it being one; what is not well boxed
//! is the canonical NaN.

use super::soft::flagged;
use super::{Double, Format, Rounding, Single};
use softfloat_wrapper::{F16, Float};

/// All bits of a register but those of a half.
const BOX: u64 = 0xffff_ffff_ffff_0000;
const CANONICAL_NAN: u16 = 0x7e00;

/// The register that holds these bits.
#[inline(always)]
pub(crate) fn boxed(bits: u16) -> u64 {
    BOX | u64::from(bits)
}

fn unboxed(register: u64) -> F16 {
    F16::from_bits(if register >= BOX {
        register as u16
    } else {
        CANONICAL_NAN
    })
}

#[cold]
#[inline(never)]
pub(crate) fn to_single(register: u64, rounding: Rounding, fcsr: &mut u32) -> u64 {
    let half = unboxed(register);
    flagged(fcsr, || Single::from_soft(half.to_f32(rounding.into()))).boxed()
}

#[cold]
#[inline(never)]
pub(crate) fn to_double(register: u64, rounding: Rounding, fcsr: &mut u32) -> u64 {
    let half = unboxed(register);
    flagged(fcsr, || Double::from_soft(half.to_f64(rounding.into()))).boxed()
}

#[cold]
#[inline(never)]
pub(crate) fn from_single(register: u64, rounding: Rounding, fcsr: &mut u32) -> u64 {
    let single = Single::unbox(register).soft();
    boxed(flagged(fcsr, || single.to_f16(rounding.into()).to_bits()))
}

#[cold]
#[inline(never)]
pub(crate) fn from_double(register: u64, rounding: Rounding, fcsr: &mut u32) -> u64 {
    let double = Double::unbox(register).soft();
    boxed(flagged(fcsr, || double.to_f16(rounding.into()).to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a half's bits, by its definition.
    fn value(bits: u16) -> f64 {
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
        let magnitude = match exponent {
            0 => fraction * 2_f64.powi(-24),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
        };
        if bits >> 15 == 0 {
            magnitude
        } else {
            -magnitude
        }
    }

    #[test]
    fn every_half_is_a_single_and_a_double_and_comes_back() {
        let mode = Rounding::NearestEven;
        for bits in 0..=u16::MAX {
            let mut flags = 0;
            let single = to_single(boxed(bits), mode, &mut flags);
            let double = to_double(boxed(bits), mode, &mut flags);
            let expected = value(bits);
            if expected.is_nan() {
                assert_eq!(single, Single::CANONICAL_NAN.boxed(), "{bits:#x}");
                assert_eq!(double, Double::CANONICAL_NAN.boxed(), "{bits:#x}");
                let signals = bits & 0x200 == 0;
                assert_eq!(flags != 0, signals, "{bits:#x}");
                continue;
            }
            assert_eq!(double, expected.to_bits(), "{bits:#x}");
            assert_eq!(single as u32, (expected as f32).to_bits(), "{bits:#x}");
            assert_eq!(from_single(single, mode, &mut flags), boxed(bits));
            assert_eq!(from_double(double, mode, &mut flags), boxed(bits));
            assert_eq!(flags, 0, "{bits:#x}: every step is exact");
        }
    }

    #[test]
    fn what_is_not_boxed_is_no_number() {
        let mut flags = 0;
        let single = to_single(0xffff_ffff_0000_3c00, Rounding::NearestEven, &mut flags);
        assert_eq!(single, Single::CANONICAL_NAN.boxed());
        assert_eq!(flags, 0);
    }
}
