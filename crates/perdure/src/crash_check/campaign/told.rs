//! What others have told of points before the user stopped them.
//!
//! Always true here: all of it is in the report, and nothing more is explored for it. What is kept, so that
//! another check goes on from there, ends where others left the first gap.

use std::slice;

use super::Campaign;
use crate::crash_check::record::Point;
use crate::error::Error;

impl Campaign<'_> {
    /// Takes in those of some points that were told of; false if these were the last, or nobody was stopped.
    pub(super) fn explore_told(&mut self, points: &[Point]) -> Result<bool, Error> {
        if !self.was_told_more() {
            return Ok(false);
        }
        self.book.keep(true)?;
        self.book.is_torn = true;
        let run = self.uncut.number;
        for point in points {
            if self.book.shares.points.knows(&(run, point.number)) {
                self.explore(slice::from_ref(point))?;
            }
        }
        Ok(self.was_told_more())
    }

    /// Whether more of this run's points were told of by who was stopped.
    pub(super) fn was_told_more(&self) -> bool {
        let run = self.uncut.number;
        let points = &self.book.shares.points;
        self.book.shares.interrupted && points.knows_some(&(run, 0)..&(run + 1, 0))
    }
}
