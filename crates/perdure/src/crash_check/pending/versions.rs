//! What a line may be found as: its versions.
//!
//! Always true here: the newest and the oldest version are among them, however many there are.

use std::collections::BTreeSet;

use super::{Bytes, History, Kept, VERSIONS_MAX, Version, mask_of, overlay};
use crate::crash_check::rules::Model;

/// Versions that are told apart, the newest first.
#[derive(Default)]
struct Versions {
    seen: BTreeSet<Bytes>,
    all: Vec<Version>,
}

impl Versions {
    /// One more, if there is none with the same bytes.
    fn add(&mut self, bytes: Bytes, kept: Kept) {
        if self.seen.insert(bytes) {
            self.all.push(Version { bytes, kept });
        }
    }
}

impl History {
    /// Every version, the newest first, and of equal ones that which has most; and whether these are all.
    pub fn versions(&self, model: Model) -> (Vec<Version>, bool) {
        if model.reorders_stores() && self.stores.len() <= 64 {
            return self.downward_closed();
        }
        let mut versions = Versions::default();
        let mut prefixes = vec![self.durable];
        for store in &self.stores {
            let mut bytes = prefixes[prefixes.len() - 1];
            overlay(&mut bytes, &store.bytes, store.mask);
            prefixes.push(bytes);
        }
        for (count, bytes) in prefixes.into_iter().enumerate().rev() {
            versions.add(bytes, Kept::First(count));
        }
        let mut versions = versions.all;
        let all = versions.len() <= VERSIONS_MAX && !self.thinned && !model.reorders_stores();
        // The newest, the oldest and some in between.
        while versions.len() > VERSIONS_MAX {
            if versions.len().is_multiple_of(2) {
                versions.remove(versions.len() - 2);
            }
            let mut number = 0;
            versions.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        (versions, all)
    }

    /// The same where stores can pass each other.
    fn downward_closed(&self) -> (Vec<Version>, bool) {
        let stays_behind: Vec<u64> = (0..self.stores.len())
            .map(|later| {
                (0..later)
                    .filter(|&earlier| self.is_ordered(earlier, later))
                    .fold(0, |set, earlier| set | 1 << earlier)
            })
            .collect();
        let all = mask_of(0, self.stores.len());
        let (mut queue, mut seen) = (vec![all], BTreeSet::from([all]));
        let mut versions = Versions::default();
        let mut next = 0;
        while next < queue.len() && versions.all.len() < VERSIONS_MAX {
            let set = queue[next];
            next += 1;
            let kept = Kept::These(set);
            versions.add(self.with(&kept), kept);
            // Whatever no store of the set stays behind may be missing.
            for store in (0..self.stores.len()).filter(|&store| set >> store & 1 != 0) {
                let needed = (0..self.stores.len())
                    .any(|other| set >> other & 1 != 0 && stays_behind[other] >> store & 1 != 0);
                if !needed && seen.insert(set & !(1 << store)) {
                    queue.push(set & !(1 << store));
                }
            }
        }
        let is_all = next == queue.len();
        if !is_all {
            self.add_beginnings(&mut versions);
        }
        (versions.all, is_all && !self.thinned)
    }

    /// Where few of many stores are missing in all versions that there is room for: those that have a
    /// beginning of the stores take the place of the last.
    fn add_beginnings(&self, versions: &mut Versions) {
        let room = VERSIONS_MAX - self.stores.len();
        for version in versions.all.drain(room.min(versions.all.len())..) {
            versions.seen.remove(&version.bytes);
        }
        for count in (0..self.stores.len()).rev() {
            let kept = Kept::These(mask_of(0, count));
            versions.add(self.with(&kept), kept);
        }
    }

    fn is_ordered(&self, earlier: usize, later: usize) -> bool {
        let (earlier, later) = (&self.stores[earlier], &self.stores[later]);
        let is_put_before = earlier.before.is_some_and(|at| at <= later.behind);
        earlier.mask & later.mask != 0 || is_put_before
    }
}
