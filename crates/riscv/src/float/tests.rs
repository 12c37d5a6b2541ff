//! The host's results against SoftFloat's: wherever the host gives one, it is the same bits and
//! raises nothing that was not raised before.

use super::{Conditions, Double, Format, Integer, Rounding, Single, soft};
use super::{add, divide, fused_multiply_add, multiply, square_root, subtract};
use super::{from_integer, narrow, to_integer, widen};

const MODES: [Rounding; 5] = [
    Rounding::NearestEven,
    Rounding::TowardZero,
    Rounding::Down,
    Rounding::Up,
    Rounding::NearestAway,
];

/// A random sequence that depends on its seed alone (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A value whose kind is random too: zero, subnormal, at the edges of the normal range, of a
    /// moderate exponent with few significant bits, infinite, not a number, anything.
    fn float<F: Format>(&mut self) -> F {
        let fraction_bits = F::QUIET.trailing_zeros() + 1;
        let exponent_max = F::EXPONENT >> fraction_bits;
        let fraction = match self.next() % 4 {
            0 => 0,
            1 => F::QUIET >> (self.next() % 8),
            2 => (F::QUIET << 1) - 1 - self.next() % 3,
            _ => self.next() & ((F::QUIET << 1) - 1),
        };
        let exponent = match self.next() % 10 {
            0 => 0,
            1 => 1 + self.next() % 3,
            2 => exponent_max - 1 - self.next() % 3,
            3 => exponent_max,
            4 => self.next() % exponent_max,
            _ => exponent_max / 2 - 30 + self.next() % 60,
        };
        let sign = if self.next().is_multiple_of(2) {
            F::SIGN
        } else {
            0
        };
        F::from_bits(sign | exponent << fraction_bits | fraction)
    }
}

/// Counts how often the host had a result, so that a host path that never runs is noticed.
#[derive(Default)]
struct Tally {
    asked: u32,
    answered: u32,
}

impl Tally {
    /// One operation under one set of conditions.
    fn check<R: PartialEq + std::fmt::Debug>(
        &mut self,
        given: Conditions,
        quick: Option<R>,
        exact: impl FnOnce(Rounding, &mut u32) -> R,
        what: impl FnOnce() -> String,
    ) {
        self.asked += 1;
        let Some(result) = quick else { return };
        self.answered += 1;
        let flags_before = u32::from(given.inexact_already);
        let mut fcsr = flags_before;
        let right = exact(given.rounding, &mut fcsr);
        assert_eq!(
            (result, flags_before),
            (right, fcsr),
            "{} under {given:?}",
            what()
        );
    }

    fn assert_useful(&self, name: &str) {
        let Self { asked, answered } = self;
        assert!(
            answered * 8 > *asked,
            "{name}: the host answered {answered} of {asked}"
        );
    }
}

fn conditions(random: &mut Random) -> Conditions {
    let mode = random.next();
    Conditions {
        // Nearest even is what the host is for.
        rounding: if mode.is_multiple_of(2) {
            MODES[0]
        } else {
            MODES[mode as usize / 2 % 5]
        },
        inexact_already: random.next().is_multiple_of(2),
        may_test_exactness: random.next().is_multiple_of(2),
    }
}

fn host_agrees<F: Format>(seed: u64) {
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut tallies: [Tally; 8] = Default::default();
    for _ in 0..300_000 {
        let (a, b, c): (F, F, F) = (random.float(), random.float(), random.float());
        let given = conditions(&mut random);
        let integer = random.next() >> (random.next() % 64);
        let kind = [
            Integer::Word,
            Integer::WordUnsigned,
            Integer::Long,
            Integer::LongUnsigned,
        ][random.next() as usize % 4];
        let [sum, difference, product, quotient, root, fused, to, from] = &mut tallies;
        sum.check(
            given,
            add(a, b, given),
            |m, f| soft::add(a, b, m, f),
            || format!("{a:?} + {b:?}"),
        );
        difference.check(
            given,
            subtract(a, b, given),
            |m, f| soft::subtract(a, b, m, f),
            || format!("{a:?} - {b:?}"),
        );
        product.check(
            given,
            multiply(a, b, given),
            |m, f| soft::multiply(a, b, m, f),
            || format!("{a:?} × {b:?}"),
        );
        quotient.check(
            given,
            divide(a, b, given),
            |m, f| soft::divide(a, b, m, f),
            || format!("{a:?} ÷ {b:?}"),
        );
        root.check(
            given,
            square_root(a, given),
            |m, f| soft::square_root(a, m, f),
            || format!("√{a:?}"),
        );
        fused.check(
            given,
            fused_multiply_add(a, b, c, given),
            |m, f| soft::fused_multiply_add(a, b, c, m, f),
            || format!("{a:?} × {b:?} + {c:?}"),
        );
        to.check(
            given,
            to_integer(a, kind, given),
            |m, f| soft::to_integer(a, kind, m, f),
            || format!("{a:?} to {kind:?}"),
        );
        from.check(
            given,
            from_integer::<F>(integer, kind, given),
            |m, f| soft::from_integer(integer, kind, m, f),
            || format!("{integer:#x} as {kind:?}"),
        );
    }
    let names = [
        "sum",
        "difference",
        "product",
        "quotient",
        "root",
        "fused",
        "to",
        "from",
    ];
    for (tally, name) in tallies.iter().zip(names) {
        tally.assert_useful(name);
    }
}

#[test]
fn host_agrees_with_softfloat_in_single_precision() {
    host_agrees::<Single>(0x5eed_0001);
}

#[test]
fn host_agrees_with_softfloat_in_double_precision() {
    host_agrees::<Double>(0x5eed_0002);
}

#[test]
fn host_agrees_with_softfloat_between_the_formats() {
    let mut random = Random(0x5eed_0003);
    let (mut wider, mut narrower) = (Tally::default(), Tally::default());
    for _ in 0..300_000 {
        let (a, b): (Single, Double) = (random.float(), random.float());
        let given = conditions(&mut random);
        wider.check(
            given,
            widen(a, given),
            |m, f| soft::widen(a, m, f),
            || format!("{a:?}"),
        );
        narrower.check(
            given,
            narrow(b, given),
            |m, f| soft::narrow(b, m, f),
            || format!("{b:?}"),
        );
    }
    wider.assert_useful("widen");
    narrower.assert_useful("narrow");
}

#[test]
fn a_badly_boxed_single_is_the_canonical_nan() {
    assert_eq!(Single::unbox(0xffff_fffe_3f80_0000), Single::CANONICAL_NAN);
    assert_eq!(Single::unbox(0xffff_ffff_3f80_0000).bits(), 0x3f80_0000);
    assert_eq!(
        Single::from_bits(0x3f80_0000).boxed(),
        0xffff_ffff_3f80_0000
    );
}
