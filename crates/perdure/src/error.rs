//! Everything that can go wrong before a result: one clear message for the user, exit status 2.

use crate::snapshots::SnapshotsError;

/// A request that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error("configuration: {0}")]
    Configuration(String),
    /// The program cannot be started.
    #[error("{0}")]
    Boot(#[from] perdure_linux::BootError),
    /// The request itself is wrong.
    #[error("{0}")]
    Request(String),
    /// The design cannot go on.
    #[error("{design}: {message}")]
    Design {
        /// The design.
        design: &'static str,
        /// Why.
        message: String,
    },
    /// The guest can never run again.
    #[error(
        "the program is deadlocked at cycle {cycle}: every thread waits, and nothing will ever wake one"
    )]
    Deadlock {
        /// When.
        cycle: u64,
    },
    /// The host refused something.
    #[error("{what}: {source}")]
    Host {
        /// What was tried.
        what: String,
        /// The host's words.
        source: std::io::Error,
    },
    /// From a snapshot store or a replica.
    #[error(transparent)]
    Snapshots(#[from] SnapshotsError),
    /// The simulator contradicts itself: a defect.
    #[error("this is a defect in the simulator: {0}")]
    Defect(String),
}
