//! The host's floating-point types, and tests for exactness that need no flags.
//!
//! Comparisons for equality are meant: a result is exact or it is not.
//!
//! `exact_*` may only say yes when it is certain; a no costs a slower way to the same result.

#![allow(clippy::float_cmp)]

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A floating-point type of the host.
pub(crate) trait Host:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// Every integer up to this magnitude is a value of the type.
    const LARGEST_EXACT: u64;

    fn is_finite(self) -> bool;
    fn is_nan(self) -> bool;
    fn is_zero(self) -> bool;
    /// True if finite and above the smallest normal magnitude: a rounded result that certainly
    /// neither overflowed nor was tiny before it was rounded.
    fn is_above_tiny(self) -> bool;
    fn square_root(self) -> Self;
    fn fused_multiply_add(self, b: Self, c: Self) -> Self;
    fn to_f64(self) -> f64;
    fn from_i64(value: i64) -> Self;

    /// True if `a + b` is exactly the finite `sum`: Knuth's error term is zero.
    #[inline(always)]
    fn exact_sum(a: Self, b: Self, sum: Self) -> bool {
        let b_part = sum - a;
        let a_part = sum - b_part;
        let error = (a - a_part) + (b - b_part);
        error.is_zero()
    }
    fn exact_product(a: Self, b: Self, product: Self) -> bool;
    fn exact_quotient(a: Self, b: Self, quotient: Self) -> bool;
    fn exact_root(a: Self, root: Self) -> bool;
}

macro_rules! common {
    ($t:ty) => {
        const LARGEST_EXACT: u64 = 1 << <$t>::MANTISSA_DIGITS;
        #[inline(always)]
        fn is_finite(self) -> bool {
            <$t>::is_finite(self)
        }
        #[inline(always)]
        fn is_nan(self) -> bool {
            <$t>::is_nan(self)
        }
        #[inline(always)]
        fn is_zero(self) -> bool {
            self == 0.0
        }
        #[inline(always)]
        fn is_above_tiny(self) -> bool {
            let magnitude = self.abs();
            magnitude > <$t>::MIN_POSITIVE && magnitude <= <$t>::MAX
        }
        #[inline(always)]
        fn square_root(self) -> Self {
            self.sqrt()
        }
        #[inline(always)]
        fn fused_multiply_add(self, b: Self, c: Self) -> Self {
            self.mul_add(b, c)
        }
        #[inline(always)]
        fn from_i64(value: i64) -> Self {
            value as Self
        }
    };
}

impl Host for f32 {
    common!(f32);
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    // A product of two 24-bit significands fits a double.
    #[inline(always)]
    fn exact_product(a: f32, b: f32, product: f32) -> bool {
        f64::from(a) * f64::from(b) == f64::from(product)
    }
    #[inline(always)]
    fn exact_quotient(a: f32, b: f32, quotient: f32) -> bool {
        f64::from(quotient) * f64::from(b) == f64::from(a)
    }
    #[inline(always)]
    fn exact_root(a: f32, root: f32) -> bool {
        f64::from(root) * f64::from(root) == f64::from(a)
    }
}

/// Above this magnitude the low half of a product of doubles is not lost to underflow.
const LOW_HALF_SAFE: f64 = 1e-280;

impl Host for f64 {
    common!(f64);
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn exact_product(a: f64, b: f64, product: f64) -> bool {
        product.abs() > LOW_HALF_SAFE && a.mul_add(b, -product) == 0.0
    }
    #[inline(always)]
    fn exact_quotient(a: f64, b: f64, quotient: f64) -> bool {
        a.abs() > LOW_HALF_SAFE && quotient.mul_add(b, -a) == 0.0
    }
    #[inline(always)]
    fn exact_root(a: f64, root: f64) -> bool {
        a.abs() > LOW_HALF_SAFE && root.mul_add(root, -a) == 0.0
    }
}
