//! What a verifier gets to see of a run under a design without global epochs: the events that say
//! which domain's stores and observations came in which order. Kept only while somebody verifies,
//! written by the hierarchy and the machine, read by nothing that is part of either.

use crate::line::{Line, LineNumber};

/// One event, in the order of the simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traced {
    /// A domain is about to store to a line that was clean there, or of another version than the
    /// domain's current one.
    Stored {
        /// Who.
        domain: usize,
        /// Where.
        line: LineNumber,
        /// The bytes before.
        old: Box<Line>,
    },
    /// A domain got a line from outside.
    Observed {
        /// Who.
        domain: usize,
        /// Which.
        line: LineNumber,
    },
    /// A domain goes on in another epoch.
    Advanced {
        /// Who.
        domain: usize,
        /// The new epoch.
        epoch: u64,
    },
    /// Bytes were saved past the caches, as of the end of an epoch.
    Saved {
        /// The epoch.
        epoch: u64,
        /// Which line.
        line: LineNumber,
        /// What was there before.
        old: Box<Line>,
        /// What was saved.
        new: Box<Line>,
    },
}
