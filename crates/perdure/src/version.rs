//! Which build this is, and which timing it has.

/// This build: version, commit where there is one, and a hash of the sources.
pub const BUILD: &str = env!("PERDURE_BUILD");

/// Grows whenever the same program, configuration and seed would give another cycle count, another
/// statistic or another state hash; `CHANGELOG.md` says what changed with each. It is part of the
/// hash of every configuration, and of every token.
pub const TIMING: u32 = 5;
