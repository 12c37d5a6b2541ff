//! Floating-point arithmetic as RISC-V defines it: values, rounding modes, flags, canonical NaNs.
//!
//! Berkeley SoftFloat (module [`soft`]) is the truth. Where the result and its flags are certain
//! beforehand, the host's floating-point unit gives the same bits in a twentieth of the time: the
//! functions here do that under the condition written beside each, or return `None`. The conditions
//! rest on one fact: a host operation rounds to nearest even and its result is then *the* result;
//! only the flags have to be known some other way. What succeeds here raises no new flag.
//! Comparisons for equality are meant: a result is exact or it is not.

#![allow(clippy::float_cmp)]

mod format;
pub(crate) mod half;
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

/// What an attempt on the host may build on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// The rounding mode of the instruction.
    pub(crate) rounding: Rounding,
    /// The inexact flag is set already, so that raising it again changes nothing.
    pub(crate) inexact_already: bool,
    /// There is time to find out whether a result is exact.
    pub(crate) may_test_exactness: bool,
}

impl Conditions {
    /// True if a result that rounds to nearest even and can at worst be inexact may be given.
    #[inline(always)]
    fn allow(self, is_exact: impl FnOnce() -> bool) -> bool {
        self.inexact_already || (self.may_test_exactness && is_exact())
    }

    #[inline(always)]
    fn nearest(self) -> bool {
        self.rounding == Rounding::NearestEven
    }
}

/// `a + b`: a sum is never tiny and inexact at once, so a finite one can only be inexact.
#[inline(always)]
pub(crate) fn add<F: Format>(a: F, b: F, given: Conditions) -> Option<F> {
    let (x, y) = (a.host(), b.host());
    let sum = x + y;
    let right = given.nearest() && sum.is_finite() && given.allow(|| Host::exact_sum(x, y, sum));
    right.then(|| F::from_host(sum))
}

/// `a - b`, which is `a + -b`.
#[inline(always)]
pub(crate) fn subtract<F: Format>(a: F, b: F, given: Conditions) -> Option<F> {
    add(a, b.negated(), given)
}

/// `a × b`: a finite product above the smallest normal number can only be inexact; zero times a
/// finite number is exact.
#[inline(always)]
pub(crate) fn multiply<F: Format>(a: F, b: F, given: Conditions) -> Option<F> {
    let (x, y) = (a.host(), b.host());
    let product = x * y;
    let certain = given.nearest()
        && product.is_above_tiny()
        && given.allow(|| Host::exact_product(x, y, product));
    let exactly_zero = product.is_zero() && (x.is_zero() || y.is_zero());
    (certain || exactly_zero).then(|| F::from_host(product))
}

/// `a ÷ b`: as for products; zero divided by a number other than zero is exact.
#[inline(always)]
pub(crate) fn divide<F: Format>(a: F, b: F, given: Conditions) -> Option<F> {
    let (x, y) = (a.host(), b.host());
    let quotient = x / y;
    let certain = given.nearest()
        && quotient.is_above_tiny()
        && given.allow(|| Host::exact_quotient(x, y, quotient));
    let exactly_zero = quotient.is_zero() && x.is_zero();
    (certain || exactly_zero).then(|| F::from_host(quotient))
}

/// `√a`: the root of a positive finite number is normal, so it can only be inexact.
#[inline(always)]
pub(crate) fn square_root<F: Format>(a: F, given: Conditions) -> Option<F> {
    let x = a.host();
    let root = x.square_root();
    let right =
        given.nearest() && root.is_above_tiny() && given.allow(|| Host::exact_root(x, root));
    right.then(|| F::from_host(root))
}

/// `a × b + c`, rounded once: as for products, if inexact is set already.
#[inline(always)]
pub(crate) fn fused_multiply_add<F: Format>(a: F, b: F, c: F, given: Conditions) -> Option<F> {
    if !(given.nearest() && given.inexact_already) {
        return None;
    }
    let sum = a.host().fused_multiply_add(b.host(), c.host());
    sum.is_above_tiny().then(|| F::from_host(sum))
}

/// Single to double: exact unless it is a NaN.
#[inline(always)]
pub(crate) fn widen(a: Single, _given: Conditions) -> Option<Double> {
    let x = a.host();
    (!x.is_nan()).then(|| Double::from_host(f64::from(x)))
}

/// Double to single: what single precision holds exactly; the rest as for products.
#[inline(always)]
pub(crate) fn narrow(a: Double, given: Conditions) -> Option<Single> {
    let x = a.host();
    let narrowed = x as f32;
    let exact = f64::from(narrowed) == x;
    let certain = given.nearest() && given.inexact_already && narrowed.is_above_tiny();
    (exact || certain).then(|| Single::from_host(narrowed))
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
        (false, true) => a,
        (false, false) if wins(x, y) || (x == y && a_wins_equal) => a,
        (_, false) => b,
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

/// Float to integer, saturating: a number below 2⁵² in the integer's range that is an integer
/// itself, or is rounded towards zero when inexact is set already.
#[inline(always)]
pub(crate) fn to_integer<F: Format>(a: F, integer: Integer, given: Conditions) -> Option<u64> {
    const LIMIT: f64 = (1_u64 << 52) as f64;
    let x = a.host().to_f64();
    let truncated = x as i64;
    let truncates = given.rounding == Rounding::TowardZero && given.inexact_already;
    let (lowest, highest) = integer.range();
    let right = x.abs() < LIMIT
        && (truncated as f64 == x || truncates)
        && (lowest..=highest).contains(&truncated);
    right.then_some(match integer {
        Integer::WordUnsigned => truncated as i32 as u64,
        _ => truncated as u64,
    })
}

/// Integer to float: integers that the format holds exactly.
#[inline(always)]
pub(crate) fn from_integer<F: Format>(a: u64, integer: Integer, _given: Conditions) -> Option<F> {
    let value = match integer {
        Integer::Word => i64::from(a as i32),
        Integer::WordUnsigned => i64::from(a as u32),
        Integer::Long | Integer::LongUnsigned => a as i64,
    };
    let beyond_signed = integer == Integer::LongUnsigned && value < 0;
    let right = !beyond_signed && value.unsigned_abs() <= F::Host::LARGEST_EXACT;
    right.then(|| F::from_host(F::Host::from_i64(value)))
}

#[cfg(test)]
mod tests;
