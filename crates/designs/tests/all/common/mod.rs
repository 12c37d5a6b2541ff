//! What the tests of the designs share: small machines, a driver that runs loads and stores on
//! them without any processor, and a judge that knows what memory was at the end of every epoch.
//!
//! Always true here: the judge's knowledge comes from a flat reference of bytes that the driver
//! keeps beside the machine; nothing of it ever reaches the design.

pub mod campaign;
pub mod damage;
pub mod geometry;
pub mod judge;
pub mod mapping_table;
pub mod picl_log;
pub mod random_cuts;
pub mod rig;
pub mod workload;

/// The seeds of a test: 1 to `count`, or the one that `PERDURE_SEED` names.
pub fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("PERDURE_SEED") {
        Ok(seed) => vec![seed.parse().expect("PERDURE_SEED is a number")],
        Err(_) => (1..=count).collect(),
    }
}

/// splitmix64: the seed is the whole story.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..bound`, near enough.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An index into something of that length.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
