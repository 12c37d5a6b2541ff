//! The shortest run in which each cause is seen: the earliest failure point at which the same goes wrong for
//! the same reason.
//!
//! Always true here: what is tried are the first points at which failures of the cause's kinds were seen,
//! earliest first, and a cause is taken from there only if its key is the same, and it says no less.

use std::collections::BTreeMap;

use super::{Campaign, explorer};
use crate::crash_check::cause::{Cause, Key};
use crate::crash_check::explore::{Choices, Failed};
use crate::crash_check::record::Point;
use crate::crash_check::search;
use crate::crash_check::uncut::Surveyed;
use crate::error::Error;
use crate::parallel;

/// Points that are tried for each cause.
const TRIES: usize = 6;

/// A cause that may be seen earlier.
type Try = (u64, Key, Failed);

impl Campaign<'_> {
    /// Puts each cause of this run where it is seen first.
    pub(super) fn shorten(&mut self, surveyed: &Surveyed) -> Result<(), Error> {
        let mut tries = self.tries();
        tries.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        let place = |number: u64| {
            let points = &surveyed.points;
            points.binary_search_by_key(&number, |(seen, _)| seen.number)
        };
        let mut points: Vec<usize> = (tries.iter())
            .filter_map(|(number, ..)| place(*number).ok())
            .collect();
        points.dedup();
        if points.is_empty() {
            return Ok(());
        }
        let mut shorter: BTreeMap<Key, Cause> = BTreeMap::new();
        self.round(surveyed, &points, &mut |campaign, points| {
            campaign.try_at(points, &tries, &mut shorter)?;
            Ok(!campaign.observer.interrupted())
        })?;
        for (key, cause) in shorter {
            if let Some((known, _)) = self.book.done.causes.get_mut(&key) {
                *known = cause;
            }
        }
        Ok(())
    }

    /// Where which cause may be seen earlier than it is known to be.
    fn tries(&self) -> Vec<Try> {
        let mut tries = Vec::new();
        for (key, (cause, outlines)) in &self.book.done.causes {
            if cause.schedule != self.uncut.number || cause.in_recovery.is_some() {
                continue;
            }
            let earliest = outlines
                .iter()
                .filter_map(|one| self.book.done.earliest.get(one));
            let mut earlier: Vec<_> = earliest.filter(|(point, _)| *point < cause.point).collect();
            earlier.sort_by_key(|(point, _)| *point);
            let few = earlier.into_iter().take(TRIES);
            tries.extend(few.map(|(point, failed)| (*point, key.clone(), failed.clone())));
        }
        tries
    }

    /// Looks for causes at some points, as far as they have not been seen before them.
    fn try_at(
        &self,
        points: &[Point],
        tries: &[Try],
        shorter: &mut BTreeMap<Key, Cause>,
    ) -> Result<(), Error> {
        let explorer = explorer(
            self.asked,
            self.uncut,
            (&self.recoveries, &self.expected),
            self.observer,
        );
        let choices: BTreeMap<u64, Choices> = (points.iter())
            .map(|point| (point.number, Choices::new(point, self.asked.model)))
            .collect();
        let open: Vec<_> = (tries.iter())
            .filter(|(number, key, _)| choices.contains_key(number) && !shorter.contains_key(key))
            .collect();
        let found = parallel::map(self.asked.jobs(), &open, |(number, _, failed)| {
            (self.recoveries)
                .with_engine(|engine| search::find(&explorer, &choices[number], failed, engine))
        })?;
        for ((_, key, _), cause) in open.into_iter().zip(found) {
            let Some(cause) = cause.filter(|cause| cause.key() == *key) else {
                continue;
            };
            let says_less = |known: &Cause| cause.kept.is_empty() && !known.kept.is_empty();
            if !says_less(&self.book.done.causes[key].0) {
                shorter.entry(key.clone()).or_insert(cause);
            }
        }
        Ok(())
    }
}
