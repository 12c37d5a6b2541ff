//! The plain engine.
use crate::{Exit, Hart, Memory};

/// Runs `hart` until something stops it.
pub fn run<M: Memory>(_hart: &mut Hart, _memory: &mut M) -> Exit {
    Exit::Limit
}
