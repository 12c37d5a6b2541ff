//! Perdure: designs.
