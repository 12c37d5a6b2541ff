//! Perdure: hardware.
