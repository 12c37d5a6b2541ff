//! The tests of the substrate, in one program; `cargo test -p perdure-hardware calibration::` runs those
//! of one file.

mod calibration;
mod coherence;
mod device;
mod dram;
mod hierarchy;
mod memory;
mod memory_types;
mod modules;
mod noninclusive;
mod prefetcher;
mod recovery_clock;
mod scheduling;
mod support;
mod versions;
