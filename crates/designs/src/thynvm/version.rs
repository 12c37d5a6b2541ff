//! Where the versions of a tracked unit (a block or a page) are.
//!
//! A unit has three places: home, and its entry's slots in checkpoint regions A and B. Its newest
//! version is in one of them; the durable checkpoint needs one, and so does the checkpoint in
//! flight. So there is always a place that the executing epoch may write.
//!
//! Always true here:
//! - A place that a checkpoint needs is never written, except with the bytes that it holds.
//! - An entry passes to another unit only when no checkpoint needs its slots.

/// A place for a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The unit's own address.
    #[default]
    Home,
    /// The entry's slot in checkpoint region A.
    A,
    /// The entry's slot in checkpoint region B.
    B,
}

/// A set of places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places(u8);

impl Places {
    /// No place.
    pub const NONE: Self = Self(0);
    /// The home address alone.
    pub const HOME: Self = Self(1);

    /// That place alone.
    pub const fn only(place: Place) -> Self {
        Self(1 << place as u8)
    }

    /// All that are in one of the two.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if the place is among them.
    pub const fn contains(self, place: Place) -> bool {
        self.0 & Self::only(place).0 != 0
    }

    /// The slot among them, of which there is one at most; `None` for the home address.
    pub const fn slot(self) -> Option<Place> {
        if self.contains(Place::A) {
            Some(Place::A)
        } else if self.contains(Place::B) {
            Some(Place::B)
        } else {
            None
        }
    }
}

/// What a table entry says about its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// Where the newest version is.
    pub newest: Place,
    /// The unit is tracked here. A dead entry only keeps its slots for checkpoints.
    pub live: bool,
    /// The newest version is the executing epoch's: the working one.
    pub written: bool,
    /// The durable checkpoint's version was copied home, and home has not been written since.
    pub settled: bool,
    /// The next background copy brings the unit home: it was idle for an epoch, or is demoted.
    pub homebound: bool,
    /// Writes in the executing epoch.
    pub writes: u32,
    /// The place that the durable checkpoint needs.
    pub durable: Places,
    /// The place that the checkpoint in flight needs; none if there is none in flight.
    pub in_flight: Places,
}

impl Versions {
    /// A unit that was not tracked so far: all its versions are at home.
    pub fn at_home(checkpoint_in_flight: bool) -> Self {
        Self {
            live: true,
            durable: Places::HOME,
            in_flight: if checkpoint_in_flight {
                Places::HOME
            } else {
                Places::NONE
            },
            ..Self::default()
        }
    }

    /// The places that a checkpoint needs.
    pub fn needed(&self) -> Places {
        self.durable.or(self.in_flight)
    }

    /// Where the executing epoch's next write of the unit goes, given the places that it must not
    /// touch: over its working version, or to a place that no checkpoint needs, home if possible.
    pub fn place_to_write(&self, needed: Places) -> Place {
        if self.written && self.live {
            return self.newest;
        }
        [Place::Home, Place::A]
            .into_iter()
            .find(|&place| !needed.contains(place))
            .unwrap_or(Place::B)
    }

    /// True if the newest version may be copied home.
    pub fn may_go_home(&self) -> bool {
        self.live
            && !self.written
            && self.newest != Place::Home
            && !self.needed().contains(Place::Home)
    }

    /// True if the entry may pass to another unit.
    pub fn is_free(&self) -> bool {
        !self.written
            && (self.newest == Place::Home || !self.live)
            && self.needed().slot().is_none()
    }

    /// The line went elsewhere: the entry tracks nothing any more.
    pub fn die(&mut self) {
        self.live = false;
        self.written = false;
        self.settled = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state that can be reached by writes, copies home and checkpoints.
    #[test]
    fn no_write_ever_meets_a_version_that_a_checkpoint_needs() {
        let mut reached = vec![Versions::at_home(false), Versions::at_home(true)];
        let mut index = 0;
        while index < reached.len() {
            let from = reached[index];
            index += 1;
            let mut next = Vec::new();
            let mut written = from;
            written.newest = from.place_to_write(from.needed());
            assert!(!from.needed().contains(written.newest), "{from:?}");
            written.live = true;
            written.written = true;
            written.settled = false;
            next.push(written);
            let mut dead = from;
            dead.die();
            next.push(dead);
            if from.may_go_home() {
                let mut copied = from;
                copied.newest = Place::Home;
                copied.settled = true;
                next.push(copied);
            }
            let mut epoch = from;
            if from.in_flight == Places::NONE {
                epoch.written = false;
                epoch.in_flight = if from.live {
                    Places::only(from.newest)
                } else {
                    Places::HOME
                };
            } else {
                epoch.durable = from.in_flight;
                epoch.in_flight = Places::NONE;
            }
            next.push(epoch);
            for state in next {
                if !reached.contains(&state) {
                    reached.push(state);
                }
            }
        }
        assert!(reached.len() > 40, "{} states", reached.len());
    }
}
