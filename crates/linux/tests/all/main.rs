//! The tests of the kernel, in one program; `cargo test -p perdure-linux hostile::` runs those of one file.

mod conformance;
mod host;
mod hostile;
mod programs;
mod resume;
mod support;
