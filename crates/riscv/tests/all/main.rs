//! The tests of instructions, in one program; `cargo test -p perdure-riscv traps::` runs those of one file.

mod against_qemu;
mod common;
mod compiled;
mod decoding;
mod engines_agree;
mod hitting;
mod recorder;
mod traps;
