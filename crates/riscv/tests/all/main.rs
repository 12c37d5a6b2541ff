//! The tests of instructions, in one program; `cargo test -p perdure-riscv traps::` runs those of one file.

mod against_qemu;
mod common;
mod decoding;
mod engines_agree;
mod recorder;
mod traps;
