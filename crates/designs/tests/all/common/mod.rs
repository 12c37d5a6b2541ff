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
#[allow(dead_code, reason = "each crate's tests use some of it")]
#[path = "../../../../../tests/random.rs"]
pub mod random;
pub mod random_cuts;
pub mod rig;
pub mod workload;

pub use random::{Random, seed_alone, seeds};
