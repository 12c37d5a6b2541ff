//! Perdure: linux.
