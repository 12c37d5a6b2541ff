//! What a design is held to when it brings a line to the caches: every line as it left them last, or as it
//! was at the start ([`crate::contract`]).
//!
//! A line that has left is known by a seal of its bytes, which the host finds in a twelfth of the room that
//! the bytes take, and mostly in its own caches. Two lines have the same seal once in 2^64. Where devices
//! change bytes of a line that has left, the bytes themselves are kept.

use twox_hash::XxHash3_64;

use crate::arena::Arena;
use crate::line::{LINE_BYTES, Line, LineNumber};
use crate::pages::Sparse;

/// The shadow.
#[derive(Clone, Debug)]
pub(crate) enum Shadow {
    /// All bytes.
    Bytes(Arena),
    /// Memory as it was at the start, and the seal of every line that has left the caches since, by its
    /// number; 0 where none has.
    Seals { start: Arena, left: Sparse<u64> },
}

/// The seal of a line's bytes, which is not 0.
#[inline]
fn seal(address: u64, bytes: &Line) -> u64 {
    XxHash3_64::oneshot_with_seed(address, &bytes.0).max(1)
}

impl Shadow {
    /// Of memory as it is; `changes_inside` says whether devices write to it.
    pub fn of(memory: &Arena, changes_inside: bool) -> Self {
        let mut start = memory.clone();
        start.take_digest();
        let lines = start.len().div_ceil(LINE_BYTES as u64);
        match Sparse::new(lines as usize) {
            Ok(left) if !changes_inside => Self::Seals { start, left },
            _ => Self::Bytes(start),
        }
    }

    /// A line has left the caches with these bytes.
    #[inline]
    pub fn leaves(&mut self, address: u64, bytes: &Line) {
        match self {
            Self::Bytes(all) => all.write_line(address, bytes),
            Self::Seals { left, .. } => {
                *left.get_mut((address / LINE_BYTES as u64) as usize) = seal(address, bytes);
            }
        }
    }

    /// Starts loading what is known of a line: it is asked for soon.
    #[inline]
    pub fn prefetch(&self, line: LineNumber) {
        match self {
            Self::Bytes(all) => all.prefetch(line * LINE_BYTES as u64),
            Self::Seals { left, .. } => left.prefetch(line as usize),
        }
    }

    /// Whether a line has these bytes.
    #[inline]
    pub fn is(&self, address: u64, bytes: &Line) -> bool {
        match self {
            Self::Bytes(all) => all.line(address) == bytes,
            Self::Seals { start, left } => {
                let left = *left.get((address / LINE_BYTES as u64) as usize);
                match left {
                    0 => start.line(address) == bytes,
                    _ => left == seal(address, bytes),
                }
            }
        }
    }

    /// A device has written bytes of its module.
    pub fn changed_inside(&mut self, address: u64, bytes: &[u8]) {
        match self {
            Self::Bytes(all) => all.write(address, bytes),
            Self::Seals { .. } => panic!("it was said that no device writes to memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Seals against bytes: lines that leave, with one bit changed now and then, and are asked for.
    #[test]
    fn a_seal_tells_what_the_bytes_tell() {
        let seed = 31;
        let mut random = Random::new(seed);
        let mut memory = Arena::new(1 << 20).unwrap();
        memory.write(64 * 7, &[3; 64]);
        let mut shadows = [false, true].map(|inside| Shadow::of(&memory, inside));
        assert!(matches!(shadows[0], Shadow::Seals { .. }));
        let mut wrong = 0;
        for step in 0..20_000 {
            let address = random.below(16) * LINE_BYTES as u64;
            let mut bytes = Line([[0, 3, 5][random.below(3) as usize]; LINE_BYTES]);
            if random.below(4) == 0 {
                bytes.0[random.below(64) as usize] ^= 1 << random.below(8);
            }
            let right = shadows.each_ref().map(|shadow| shadow.is(address, &bytes));
            assert_eq!(right[0], right[1], "seed {seed}, step {step}");
            wrong += usize::from(!right[0]);
            if random.below(3) == 0 {
                for shadow in &mut shadows {
                    shadow.leaves(address, &bytes);
                }
            }
        }
        assert!((1000..19_000).contains(&wrong), "seed {seed}: {wrong}");
    }

    #[test]
    fn what_a_device_changes_is_kept_as_bytes() {
        let memory = Arena::new(1 << 20).unwrap();
        let mut shadow = Shadow::of(&memory, true);
        shadow.leaves(64, &Line([7; 64]));
        shadow.changed_inside(70, &[1, 2]);
        let mut expected = Line([7; 64]);
        expected.0[6..8].copy_from_slice(&[1, 2]);
        assert!(shadow.is(64, &expected) && !shadow.is(64, &Line([7; 64])));
    }
}
