//! What asks for lines ahead.

use serde::{Deserialize, Serialize};

use super::{ImpossibleGeometry, require};

/// The stride prefetcher of each L1D.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefetcherSpecification {
    /// Lines that it asks for ahead; 0: there is none.
    pub degree: usize,
    /// Pages in which it knows what was asked for last.
    pub streams: usize,
}

/// There is none.
impl Default for PrefetcherSpecification {
    fn default() -> Self {
        Self {
            degree: 0,
            streams: 64,
        }
    }
}

impl PrefetcherSpecification {
    /// Refuses what cannot be built, naming the key.
    pub(super) fn validate(&self) -> Result<(), ImpossibleGeometry> {
        require(
            self.degree <= 64,
            "prefetcher.degree",
            &self.degree,
            "must be at most 64, the lines of a page",
        )?;
        require(
            (1..=4096).contains(&self.streams),
            "prefetcher.streams",
            &self.streams,
            "must be 1 to 4096",
        )
    }
}
