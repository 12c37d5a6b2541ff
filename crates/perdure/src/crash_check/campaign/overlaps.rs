//! The part of a campaign that works out what may be shown where operations overlap.
//!
//! Always true here: of operations that were under way at the same time, in the same episode, that is worked
//! out once for all points of a batch.

use std::collections::BTreeMap;

use super::Campaign;
use crate::crash_check::orders::{self, Episode};
use crate::crash_check::record::Point;
use crate::error::Error;
use crate::parallel;

impl Campaign<'_> {
    /// Runs operations in their orders, for points at which several are under way.
    pub(super) fn run_orders(
        &mut self,
        points: &[Point],
        episodes: &BTreeMap<u64, Episode>,
    ) -> Result<(), Error> {
        let asked = points.iter().filter_map(|point| {
            let key = self.expected.orders_of(&point.phase)?;
            Some((key, episodes.get(&key.0)?))
        });
        let asked: BTreeMap<(u64, u64), &Episode> = asked.collect();
        self.expected
            .orders
            .retain(|key, _| asked.contains_key(key));
        let new: Vec<((u64, u64), &Episode)> = (asked.into_iter())
            .filter(|(key, _)| !self.expected.orders.contains_key(key))
            .collect();
        let (recoveries, operations) = (&self.recoveries, &self.expected.operations);
        let found = parallel::map(self.asked.jobs(), &new, |&(key, episode)| {
            Ok((key, orders::shown(recoveries, episode, operations, key)?))
        })?;
        self.expected.orders.extend(found);
        Ok(())
    }

    /// Counts a point at which operations overlap: whether what is shown there was compared.
    pub(super) fn count_compared(&mut self, point: &Point) {
        let key = self.expected.orders_of(&point.phase);
        let Some(orders) = key.and_then(|key| self.expected.orders.get(&key)) else {
            self.book.done.unjudged += u64::from(point.phase.several);
            return;
        };
        match orders.missing {
            None => self.book.done.ordered += 1,
            Some(missing) => *self.book.done.not_compared.entry(missing).or_default() += 1,
        }
    }
}
