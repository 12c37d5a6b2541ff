//! How the life of a machine ends, and what of that is somebody's verdict.
//!
//! Always true here: what the host refused is nobody's.

use crate::error::Error;
use crate::machine::Machine;

/// How a machine ended.
#[derive(Debug)]
pub enum End {
    /// Its programs are over.
    Finished,
    /// They never will be, and why.
    Hangs(String),
    /// The machine could not go on.
    Broken(String),
    /// The user stopped it.
    Stopped,
}

impl End {
    /// What is wrong, in words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Finished | Self::Stopped => String::new(),
            Self::Hangs(why) | Self::Broken(why) => why.clone(),
        }
    }
}

/// A machine that was resumed, or why it could not be. What the host refused is nobody's verdict.
pub(super) fn resumable<T>(resumed: Result<T, Error>) -> Result<Result<T, String>, Error> {
    match resumed {
        Err(error @ Error::Host { .. }) => Err(error),
        other => Ok(other.map_err(|error| error.to_string())),
    }
}

/// What an error says of a machine. What the host refused is nobody's verdict.
pub fn failure_of(error: Error) -> Result<End, Error> {
    match error {
        Error::Host { .. } => Err(error),
        Error::Deadlock { .. } => Ok(End::Hangs(error.to_string())),
        other => Ok(End::Broken(other.to_string())),
    }
}

/// The exit status, if there is one yet.
pub fn status_of(machine: &Machine) -> Option<i32> {
    machine.ended().map(|ended| ended.report.status)
}
