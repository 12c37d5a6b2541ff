//! Perdure: perdure.
