//! Berkeley SoftFloat 3, specialised for RISC-V: exact in every mode and every flag.
//!
//! SoftFloat keeps flags and rounding mode in thread-local variables; every operation here sets
//! what it needs and reads what it gets, so nothing carries over between operations or harts.

use super::{Double, Format, Integer, Rounding, Single};
use softfloat_wrapper::{ExceptionFlags, Float, RoundingMode};

impl From<Rounding> for RoundingMode {
    fn from(rounding: Rounding) -> Self {
        match rounding {
            Rounding::NearestEven => Self::TiesToEven,
            Rounding::TowardZero => Self::TowardZero,
            Rounding::Down => Self::TowardNegative,
            Rounding::Up => Self::TowardPositive,
            Rounding::NearestAway => Self::TiesToAway,
        }
    }
}

/// Runs one operation and adds its flags to `fcsr`. SoftFloat's flag bits are RISC-V's.
pub(super) fn flagged<R>(fcsr: &mut u32, operation: impl FnOnce() -> R) -> R {
    let mut flags = ExceptionFlags::default();
    flags.set();
    let result = operation();
    flags.get();
    *fcsr |= u32::from(flags.to_bits());
    result
}

macro_rules! binary {
    ($($name:ident = $soft:ident;)*) => {$(
        #[cold]
        #[inline(never)]
        pub(crate) fn $name<F: Format>(a: F, b: F, rounding: Rounding, fcsr: &mut u32) -> F {
            flagged(fcsr, || F::from_soft(a.soft().$soft(b.soft(), rounding.into())))
        }
    )*};
}
binary! { add = add; subtract = sub; multiply = mul; divide = div; }

#[cold]
#[inline(never)]
pub(crate) fn square_root<F: Format>(a: F, rounding: Rounding, fcsr: &mut u32) -> F {
    flagged(fcsr, || F::from_soft(a.soft().sqrt(rounding.into())))
}

#[cold]
#[inline(never)]
pub(crate) fn fused_multiply_add<F: Format>(
    a: F,
    b: F,
    c: F,
    rounding: Rounding,
    fcsr: &mut u32,
) -> F {
    flagged(fcsr, || {
        F::from_soft(a.soft().fused_mul_add(b.soft(), c.soft(), rounding.into()))
    })
}

#[cold]
#[inline(never)]
pub(crate) fn widen(a: Single, rounding: Rounding, fcsr: &mut u32) -> Double {
    flagged(fcsr, || Double::from_soft(a.soft().to_f64(rounding.into())))
}

#[cold]
#[inline(never)]
pub(crate) fn narrow(a: Double, rounding: Rounding, fcsr: &mut u32) -> Single {
    flagged(fcsr, || Single::from_soft(a.soft().to_f32(rounding.into())))
}

#[cold]
#[inline(never)]
pub(crate) fn to_integer<F: Format>(
    a: F,
    integer: Integer,
    rounding: Rounding,
    fcsr: &mut u32,
) -> u64 {
    let (a, mode) = (a.soft(), rounding.into());
    flagged(fcsr, || match integer {
        Integer::Word => a.to_i32(mode, true) as u64,
        Integer::WordUnsigned => a.to_u32(mode, true) as i32 as u64,
        Integer::Long => a.to_i64(mode, true) as u64,
        Integer::LongUnsigned => a.to_u64(mode, true),
    })
}

#[cold]
#[inline(never)]
pub(crate) fn from_integer<F: Format>(
    a: u64,
    integer: Integer,
    rounding: Rounding,
    fcsr: &mut u32,
) -> F {
    let mode = rounding.into();
    flagged(fcsr, || {
        F::from_soft(match integer {
            Integer::Word => F::Soft::from_i32(a as i32, mode),
            Integer::WordUnsigned => F::Soft::from_u32(a as u32, mode),
            Integer::Long => F::Soft::from_i64(a as i64, mode),
            Integer::LongUnsigned => F::Soft::from_u64(a, mode),
        })
    })
}
