//! The tests of the kernel, in one program; `cargo test -p perdure-linux hostile::` runs those of one file.

mod conformance;
mod host;
mod hostile;
mod programs;
mod qemu;
#[allow(dead_code, reason = "other crates' tests use the rest")]
#[path = "../../../../tests/random.rs"]
mod random;
mod resume;
mod support;
