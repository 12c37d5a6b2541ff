//! What the tests share: seeded randomness, and random instructions made from the table.
#[allow(dead_code, reason = "each crate's tests use some of it")]
#[path = "../../../../../tests/random.rs"]
mod random;

pub mod encode;

use perdure_riscv::{Format, Instruction, Operation, TABLE};

pub use random::{Random, seeds};

/// How many cases to run: `PERDURE_CASES`, or `default`.
pub fn cases(default: usize) -> usize {
    std::env::var("PERDURE_CASES").map_or(default, |text| {
        text.parse()
            .expect("PERDURE_CASES must be a decimal number")
    })
}

/// A random word that is an instruction of the given line of the table.
pub fn random_word(random: &mut Random, operation: Operation) -> u32 {
    let encoding = operation.description().encoding;
    loop {
        let word = random.next() as u32 & !encoding.mask | encoding.fixed;
        // A special case of the same encoding comes out now and then.
        if Instruction::decode(word).is_some_and(|decoded| decoded.operation == operation) {
            return word;
        }
    }
}

/// A random operation for which `wanted` holds.
pub fn random_operation(random: &mut Random, wanted: impl Fn(Operation) -> bool) -> Operation {
    loop {
        let operation = random.pick(TABLE).operation;
        if wanted(operation) {
            return operation;
        }
    }
}

/// True if `rm` of `word` may be any mode and is one of the two reserved ones.
pub fn has_reserved_rounding(word: u32) -> bool {
    let rounded = Instruction::decode(word).is_some_and(|decoded| {
        matches!(
            decoded.operation.description().format,
            Format::FloatRounded
                | Format::FloatUnaryRounded
                | Format::FloatFused
                | Format::FloatToIntegerRounded
                | Format::IntegerToFloatRounded
        )
    });
    rounded && matches!(word >> 12 & 7, 5 | 6)
}

/// Integers at which arithmetic goes wrong.
pub fn random_integer(random: &mut Random) -> u64 {
    const SPECIAL: [u64; 14] = [
        0,
        1,
        2,
        u64::MAX,
        u64::MAX - 1,
        1 << 63,
        (1 << 63) - 1,
        1 << 31,
        (1 << 31) - 1,
        0xffff_ffff_8000_0000,
        0xffff_ffff,
        1 << 32,
        0x8080_8080_8080_8080,
        63,
    ];
    match random.below(4) {
        0 => random.pick(&SPECIAL),
        1 => random.next() >> random.below(64),
        2 => !(random.next() >> random.below(64)),
        _ => random.next(),
    }
}

/// Floating-point registers at which arithmetic goes wrong, in either format, well boxed or not.
pub fn random_float(random: &mut Random) -> u64 {
    const DOUBLES: [u64; 20] = [
        0x0000_0000_0000_0000, // zero
        0x0000_0000_0000_0001, // smallest subnormal
        0x000f_ffff_ffff_ffff, // largest subnormal
        0x0010_0000_0000_0000, // smallest normal
        0x0010_0000_0000_0001,
        0x3fe0_0000_0000_0000, // 0.5
        0x3ff0_0000_0000_0000, // 1
        0x3ff0_0000_0000_0001,
        0x3fef_ffff_ffff_ffff,
        0x4000_0000_0000_0000, // 2
        0x41df_ffff_ffc0_0000, // 2^31 - 1
        0x41e0_0000_0000_0000, // 2^31
        0x41ef_ffff_ffe0_0000, // 2^32 - 1
        0x43e0_0000_0000_0000, // 2^63
        0x43f0_0000_0000_0000, // 2^64
        0x7fef_ffff_ffff_ffff, // largest
        0x7ff0_0000_0000_0000, // infinity
        0x7ff8_0000_0000_0000, // canonical NaN
        0x7ff8_dead_beef_0001, // quiet NaN
        0x7ff0_0000_0000_0001, // signaling NaN
    ];
    const SINGLES: [u32; 18] = [
        0x0000_0000,
        0x0000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x0080_0001,
        0x3f00_0000,
        0x3f80_0000,
        0x3f80_0001,
        0x3f7f_ffff,
        0x4000_0000,
        0x4eff_ffff,
        0x4f00_0000,
        0x5f00_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7fc0_0000,
        0x7fc1_2345,
        0x7f80_0001,
    ];
    const HALVES: [u64; 8] = [
        0x0001, // smallest subnormal
        0x03ff, // largest subnormal
        0x0400, // smallest normal
        0x3c00, // 1
        0x7bff, // largest
        0x7c00, // infinity
        0x7c01, // signaling NaN
        0x7e01, // quiet NaN
    ];
    let boxed = |single: u32| 0xffff_ffff_0000_0000 | u64::from(single);
    let sign = random.next() & 1;
    if random.once_in(8) {
        // A half, boxed or nearly.
        let half = random.next() & 0xffff;
        let half = if random.once_in(4) {
            random.pick(&HALVES)
        } else {
            half
        };
        return half
            | if random.once_in(8) {
                0xffff_ffff_0000_0000
            } else {
                !0xffff
            };
    }
    match random.below(10) {
        0 | 1 => random.pick(&DOUBLES) ^ sign << 63,
        2 | 3 => boxed(random.pick(&SINGLES) ^ (sign as u32) << 31),
        // Small integers and quarters: results are often exact.
        4 => (random.below(4096) as f64 / 4.0).to_bits() ^ sign << 63,
        5 => boxed((random.below(4096) as f32 / 4.0).to_bits() ^ (sign as u32) << 31),
        // Moderate exponents: sums cancel, products neither overflow nor vanish.
        6 => random.next() & 0x800f_ffff_ffff_ffff | (1023 - 40 + random.next() % 80) << 52,
        7 => {
            boxed(random.next() as u32 & 0x807f_ffff | (127 - 20 + random.next() as u32 % 40) << 23)
        }
        8 => boxed(random.next() as u32),
        _ => random.next(),
    }
}
