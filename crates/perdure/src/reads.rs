//! What a run has read of its host, in few bytes: so that a replay can say what is another one.
//!
//! Always true: equal digests of everything mean that the guest was shown the same bytes, names and
//! kinds under the same paths, and was told of the same paths that nothing is there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use perdure_linux::{HostView, Shown};

/// So many things can be told apart by name.
const NAMED: usize = 24;

/// Digests of what was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reads {
    /// Of everything.
    all: u64,
    /// Of single things, by a digest of the name: those whose content was read come first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    some: Vec<(u16, u16)>,
}

/// The same with names, and whether something is there.
pub struct Named {
    /// The digests.
    pub reads: Reads,
    /// In the order in which they count.
    shown: Vec<Shown>,
    names: BTreeMap<u16, Shown>,
}

impl Named {
    /// Of what a guest has been shown.
    pub fn of(host: &HostView) -> Self {
        Self::of_all(host.shown())
    }

    /// The same with what another guest has been shown beside.
    #[must_use]
    pub fn and(self, host: &HostView) -> Self {
        let mut shown = self.shown;
        for one in host.shown() {
            if shown.iter().all(|known| *known != one) {
                shown.push(one);
            }
        }
        Self::of_all(shown)
    }

    fn of_all(all: Vec<Shown>) -> Self {
        let mut shown = all.clone();
        let mut everything = Vec::new();
        for one in &shown {
            everything.extend_from_slice(one.name.as_bytes());
            everything.extend_from_slice(&one.digest.to_le_bytes());
        }
        shown.sort_by_key(|one| one.weight);
        let key = |one: &Shown| XxHash3_64::oneshot(one.name.as_bytes()) as u16;
        let reads = Reads {
            all: XxHash3_64::oneshot(&everything),
            some: (shown.iter().take(NAMED))
                .map(|one| (key(one), one.digest as u16))
                .collect(),
        };
        let names = shown.into_iter().map(|one| (key(&one), one)).collect();
        Self {
            reads,
            shown: all,
            names,
        }
    }

    /// What differs from what was read before, in words. Another build may read other things: then only
    /// those count that both have read.
    pub fn difference(&self, before: &Reads, same_build: bool) -> Option<String> {
        if self.reads.all == before.all {
            return None;
        }
        self.changed(before)
            .or_else(|| same_build.then(|| self.others(before)))
    }

    /// The same where this run has not come as far as that one: what it has not read yet does not count.
    pub fn difference_so_far(&self, before: &Reads, same_build: bool) -> Option<String> {
        let all_known = same_build && before.some.len() < NAMED;
        self.changed(before)
            .or_else(|| self.read_anew(before).filter(|_| all_known))
    }

    /// What both have read, and is another one now.
    fn changed(&self, before: &Reads) -> Option<String> {
        for (key, digest) in &before.some {
            match self.names.get(key) {
                Some(now) if now.digest as u16 == *digest => {}
                Some(now) if now.is_there => return Some(format!("{} has changed", now.name)),
                Some(now) => return Some(format!("{} is not found", now.name)),
                None => {}
            }
        }
        None
    }

    /// What is read now and was not then.
    fn read_anew(&self, before: &Reads) -> Option<String> {
        let known = |key: &u16| before.some.iter().any(|(before, _)| before == key);
        let new = self.reads.some.iter().find(|(key, _)| !known(key));
        let now = new.and_then(|(key, _)| self.names.get(key))?;
        Some(format!("{} is read now and was not read then", now.name))
    }

    /// What differs otherwise.
    fn others(&self, before: &Reads) -> String {
        let told_apart = before.some.len();
        let new = self.read_anew(before).filter(|_| told_apart < NAMED);
        new.unwrap_or_else(|| {
            format!(
                "something is another one that the program reads or looks for, and not one of the {told_apart} things that a token tells apart"
            )
        })
    }
}
