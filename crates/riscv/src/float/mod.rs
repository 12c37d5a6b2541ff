//! Floating-point arithmetic as RISC-V defines it: values, rounding modes, flags, canonical NaNs.
//!
//! Berkeley SoftFloat (module `soft`) is the truth. Where the result and its flags are certain
//! beforehand, the host's floating-point unit gives the same bits in a twentieth of the time: each
//! operation here tries that first, under the condition written beside it, and falls back. The
//! conditions rest on one fact: a host operation rounds to nearest even and its result is then
//! *the* result; only the flags have to be known some other way.
//!
//! Flags only ever accumulate into `fcsr`.

mod format;
mod host;
pub(crate) mod soft;

pub(crate) use format::{Double, Format, Single};
use host::Host;

/// Invalid operation.
pub(crate) const INVALID: u32 = 0x10;
/// Inexact.
pub(crate) const INEXACT: u32 = 0x01;

/// A rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    NearestEven,
    TowardZero,
    Down,
    Up,
    NearestAway,
}

/// The rounding mode of an instruction whose `rm` field is `mode`; `None` if it is reserved.
#[inline(always)]
pub(crate) fn rounding(mode: u32, fcsr: u32) -> Option<Rounding> {
    const DYNAMIC: u32 = 7;
    match if mode == DYNAMIC { fcsr >> 5 } else { mode } {
        0 => Some(Rounding::NearestEven),
        1 => Some(Rounding::TowardZero),
        2 => Some(Rounding::Down),
        3 => Some(Rounding::Up),
        4 => Some(Rounding::NearestAway),
        _ => None,
    }
}

#[inline(always)]
fn inexact_already(fcsr: u32) -> bool {
    fcsr & INEXACT != 0
}

/// `a + b`. On the host: a sum is never tiny and inexact at once, so a finite one can only be
/// inexact.
#[inline(always)]
pub(crate) fn add<F: Format>(a: F, b: F, rounding: Rounding, fcsr: &mut u32) -> F {
    if rounding == Rounding::NearestEven {
        let (x, y) = (a.host(), b.host());
        let sum = x + y;
        if sum.is_finite() && (inexact_already(*fcsr) || Host::exact_sum(x, y, sum)) {
            return F::from_host(sum);
        }
    }
    soft::add(a, b, rounding, fcsr)
}

/// `a - b`, which is `a + -b` in every case but the sign of a NaN, and a NaN result is canonical.
#[inline(always)]
pub(crate) fn subtract<F: Format>(a: F, b: F, rounding: Rounding, fcsr: &mut u32) -> F {
    if rounding == Rounding::NearestEven {
        let (x, y) = (a.host(), b.host());
        let difference = x - y;
        if difference.is_finite() && (inexact_already(*fcsr) || Host::exact_sum(x, -y, difference))
        {
            return F::from_host(difference);
        }
    }
    soft::subtract(a, b, rounding, fcsr)
}

/// `a × b`. On the host: a finite product above the smallest normal number can only be inexact;
/// zero times a finite number is exact.
#[inline(always)]
pub(crate) fn multiply<F: Format>(a: F, b: F, rounding: Rounding, fcsr: &mut u32) -> F {
    if rounding == Rounding::NearestEven {
        let (x, y) = (a.host(), b.host());
        let product = x * y;
        let certain = product.is_above_tiny()
            && (inexact_already(*fcsr) || Host::exact_product(x, y, product));
        if certain || (product.is_zero() && (x.is_zero() || y.is_zero())) {
            return F::from_host(product);
        }
    }
    soft::multiply(a, b, rounding, fcsr)
}

/// `a ÷ b`. On the host: as for products; zero divided by a number other than zero is exact.
#[inline(always)]
pub(crate) fn divide<F: Format>(a: F, b: F, rounding: Rounding, fcsr: &mut u32) -> F {
    if rounding == Rounding::NearestEven {
        let (x, y) = (a.host(), b.host());
        let quotient = x / y;
        let certain = quotient.is_above_tiny()
            && (inexact_already(*fcsr) || Host::exact_quotient(x, y, quotient));
        if certain || (quotient.is_zero() && x.is_zero()) {
            return F::from_host(quotient);
        }
    }
    soft::divide(a, b, rounding, fcsr)
}

/// `√a`. On the host: the root of a positive finite number is normal, so it can only be inexact.
#[inline(always)]
pub(crate) fn square_root<F: Format>(a: F, rounding: Rounding, fcsr: &mut u32) -> F {
    if rounding == Rounding::NearestEven {
        let x = a.host();
        let root = x.square_root();
        if root.is_above_tiny() && (inexact_already(*fcsr) || Host::exact_root(x, root)) {
            return F::from_host(root);
        }
    }
    soft::square_root(a, rounding, fcsr)
}

/// `a × b + c`, rounded once. On the host: as for products, when inexact is already set.
#[inline(always)]
pub(crate) fn fused_multiply_add<F: Format>(
    a: F,
    b: F,
    c: F,
    rounding: Rounding,
    fcsr: &mut u32,
) -> F {
    if rounding == Rounding::NearestEven && inexact_already(*fcsr) {
        let sum = a.host().fused_multiply_add(b.host(), c.host());
        if sum.is_above_tiny() {
            return F::from_host(sum);
        }
    }
    soft::fused_multiply_add(a, b, c, rounding, fcsr)
}

/// Single to double: exact unless it is a NaN.
#[inline(always)]
pub(crate) fn widen(a: Single, rounding: Rounding, fcsr: &mut u32) -> Double {
    let x = a.host();
    if x.is_nan() {
        soft::widen(a, rounding, fcsr)
    } else {
        Double::from_host(f64::from(x))
    }
}

/// Double to single. On the host: what single precision holds exactly; the rest as for products.
#[inline(always)]
pub(crate) fn narrow(a: Double, rounding: Rounding, fcsr: &mut u32) -> Single {
    let x = a.host();
    let narrowed = x as f32;
    let exact = f64::from(narrowed) == x;
    let nearest = rounding == Rounding::NearestEven && inexact_already(*fcsr);
    if exact || (nearest && narrowed.is_above_tiny()) {
        return Single::from_host(narrowed);
    }
    soft::narrow(a, rounding, fcsr)
}

/// `a` with the sign that `sign` makes of the two operands' signs.
#[inline(always)]
pub(crate) fn inject_sign<F: Format>(a: F, b: F, sign: impl Fn(u64, u64) -> u64) -> F {
    let sign_bits = sign(a.bits(), b.bits()) & F::SIGN;
    F::from_bits(a.bits() & !F::SIGN | sign_bits)
}

/// The lesser number; −0 is less than +0, a NaN loses against a number.
#[inline(always)]
pub(crate) fn minimum<F: Format>(a: F, b: F, fcsr: &mut u32) -> F {
    choose(a, b, fcsr, |x, y| x < y, a.is_negative())
}

/// The greater number; +0 is greater than −0, a NaN loses against a number.
#[inline(always)]
pub(crate) fn maximum<F: Format>(a: F, b: F, fcsr: &mut u32) -> F {
    choose(a, b, fcsr, |x, y| x > y, !a.is_negative())
}

#[inline(always)]
fn choose<F: Format>(
    a: F,
    b: F,
    fcsr: &mut u32,
    wins: impl Fn(F::Host, F::Host) -> bool,
    a_wins_equal: bool,
) -> F {
    if a.is_signaling() || b.is_signaling() {
        *fcsr |= INVALID;
    }
    let (x, y) = (a.host(), b.host());
    match (x.is_nan(), y.is_nan()) {
        (true, true) => F::CANONICAL_NAN,
        (true, false) => b,
        (false, true) => a,
        (false, false) if wins(x, y) || (x == y && a_wins_equal) => a,
        (false, false) => b,
    }
}

/// `a = b`; only a signaling NaN is invalid.
#[inline(always)]
pub(crate) fn equal<F: Format>(a: F, b: F, fcsr: &mut u32) -> bool {
    if a.is_signaling() || b.is_signaling() {
        *fcsr |= INVALID;
    }
    a.host() == b.host()
}

/// `a < b`; any NaN is invalid.
#[inline(always)]
pub(crate) fn less<F: Format>(a: F, b: F, fcsr: &mut u32) -> bool {
    if a.host().is_nan() || b.host().is_nan() {
        *fcsr |= INVALID;
    }
    a.host() < b.host()
}

/// `a ≤ b`; any NaN is invalid.
#[inline(always)]
pub(crate) fn less_or_equal<F: Format>(a: F, b: F, fcsr: &mut u32) -> bool {
    if a.host().is_nan() || b.host().is_nan() {
        *fcsr |= INVALID;
    }
    a.host() <= b.host()
}

/// The `fclass` mask.
pub(crate) fn classify<F: Format>(a: F) -> u64 {
    let magnitude = a.bits() & !F::SIGN;
    let negative = a.is_negative();
    let infinity = F::EXPONENT;
    let smallest_normal = F::QUIET << 1 & F::EXPONENT;
    let mirrored = |class: u32, positive_class: u32| if negative { class } else { positive_class };
    1 << if magnitude > infinity {
        if a.is_signaling() { 8 } else { 9 }
    } else if magnitude == infinity {
        mirrored(0, 7)
    } else if magnitude >= smallest_normal {
        mirrored(1, 6)
    } else if magnitude > 0 {
        mirrored(2, 5)
    } else {
        mirrored(3, 4)
    }
}

/// An integer type of the conversions; its values travel as the `x` register holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integer {
    Word,
    WordUnsigned,
    Long,
    LongUnsigned,
}

impl Integer {
    /// The inclusive range, as far as 64 signed bits reach.
    #[inline(always)]
    fn range(self) -> (i64, i64) {
        match self {
            Self::Word => (i64::from(i32::MIN), i64::from(i32::MAX)),
            Self::WordUnsigned => (0, i64::from(u32::MAX)),
            Self::Long => (i64::MIN, i64::MAX),
            Self::LongUnsigned => (0, i64::MAX),
        }
    }
}

/// Float to integer, saturating. On the host: a number below 2⁵² that is an integer, or is
/// rounded towards zero when inexact is already set.
#[inline(always)]
pub(crate) fn to_integer<F: Format>(
    a: F,
    integer: Integer,
    rounding: Rounding,
    fcsr: &mut u32,
) -> u64 {
    const LIMIT: f64 = (1_u64 << 52) as f64;
    let x = a.host().to_f64();
    if x.abs() < LIMIT {
        let truncated = x as i64;
        let truncation_is_right =
            truncated as f64 == x || (rounding == Rounding::TowardZero && inexact_already(*fcsr));
        let (lowest, highest) = integer.range();
        if truncation_is_right && (lowest..=highest).contains(&truncated) {
            return match integer {
                Integer::WordUnsigned => truncated as i32 as u64,
                _ => truncated as u64,
            };
        }
    }
    soft::to_integer(a, integer, rounding, fcsr)
}

/// Integer to float. On the host: integers that the format holds exactly.
#[inline(always)]
pub(crate) fn from_integer<F: Format>(
    a: u64,
    integer: Integer,
    rounding: Rounding,
    fcsr: &mut u32,
) -> F {
    let value = match integer {
        Integer::Word => i64::from(a as i32),
        Integer::WordUnsigned => i64::from(a as u32),
        Integer::Long | Integer::LongUnsigned => a as i64,
    };
    let beyond_signed = integer == Integer::LongUnsigned && value < 0;
    if !beyond_signed && value.unsigned_abs() <= F::Host::LARGEST_EXACT {
        return F::from_host(F::Host::from_i64(value));
    }
    soft::from_integer(a, integer, rounding, fcsr)
}

#[cfg(test)]
mod tests;
