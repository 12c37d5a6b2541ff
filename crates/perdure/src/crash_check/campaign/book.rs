//! What is written down of a check under way: what was done, where that is kept, and what others have told.
//!
//! Always true here: who does a share of a check goes on from what is kept, and changes nothing of it.

use crate::crash_check::Asked;
use crate::crash_check::done::Done;
use crate::crash_check::kept::Keeper;
use crate::crash_check::shares::Shares;
use crate::crash_check::uncut::Surveyed;
use crate::error::Error;

/// The book.
pub struct Book {
    /// What was done.
    pub done: Done,
    /// Who does what, and what others have told.
    pub shares: Shares,
    /// What follows from points that were explored has been stopped: that is no moment to go on from.
    pub is_torn: bool,
    keeper: Option<Keeper>,
}

impl Book {
    /// Opens it, where something is kept of an earlier check.
    pub(super) fn open(asked: &Asked, surveyed: &Surveyed, shares: Shares) -> Result<Self, Error> {
        let (keeper, done) = match &asked.keep {
            None => (None, Done::default()),
            Some(path) => {
                let (keeper, done) = Keeper::open(path, asked, surveyed)?;
                (Some(keeper), done)
            }
        };
        let keeper = keeper.filter(|_| shares.part.is_none());
        keeper.as_ref().map_or(Ok(()), Keeper::probe)?;
        Ok(Self {
            done,
            is_torn: false,
            keeper,
            shares,
        })
    }

    /// Writes what was done where it is kept.
    pub(super) fn keep(&mut self, is_last: bool) -> Result<(), Error> {
        match &mut self.keeper {
            Some(keeper) if !self.is_torn => keeper.write(&self.done, is_last),
            _ => Ok(()),
        }
    }

    /// What there is to say of a file that could not be written the last time.
    pub(super) fn unkept(&self) -> Option<String> {
        let why = self.keeper.as_ref()?.unkept.as_ref()?;
        Some(format!(
            "{why}; what was explored since it was last written is not there"
        ))
    }
}
