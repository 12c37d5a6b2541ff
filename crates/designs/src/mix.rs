//! Hash tables of designs that are asked for one line at a time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash table for look-ups alone: nothing ever goes through it in order.
pub type Table<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// A hash without a random seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }
}
