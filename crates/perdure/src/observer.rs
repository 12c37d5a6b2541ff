//! Who follows long work, and a run that is followed.
//!
//! Always true here: how often somebody looks never changes what a run does.

use std::time::Instant;

use perdure_hardware::time::Cycles;

use crate::error::Error;
use crate::machine::{Machine, Pause};
use crate::panics;

/// How far a run goes between two looks at the observer.
const STRIDE: Cycles = 20_000_000;

/// How a caller follows long work, and stops it.
pub trait Observer: Sync {
    /// So much is done of so much (0: unknown).
    fn progress(&self, done: u64, total: u64, unit: &str, message: &str);
    /// True once the caller wants what is finished so far.
    fn interrupted(&self) -> bool;
    /// Whether [`Observer::released`] is to be called.
    fn listens(&self) -> bool {
        false
    }
    /// What programs wrote to a standard stream has left the machine.
    fn released(&self, _descriptor: u8, _bytes: Vec<u8>) {}
}

/// Nobody watches.
pub struct Unobserved;

impl Observer for Unobserved {
    fn progress(&self, _done: u64, _total: u64, _unit: &str, _message: &str) {}

    fn interrupted(&self) -> bool {
        false
    }
}

/// Who also stops what is under way when the time is over that the user has given.
pub struct Timely<'o> {
    /// The user.
    pub observer: &'o dyn Observer,
    /// When that is, if there is a bound.
    pub until: Option<Instant>,
}

impl Observer for Timely<'_> {
    fn progress(&self, done: u64, total: u64, unit: &str, message: &str) {
        self.observer.progress(done, total, unit, message);
    }

    fn interrupted(&self) -> bool {
        self.observer.interrupted() || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Runs to the end or until the observer asks to stop. True if it got there.
pub(crate) fn run_on(
    machine: &mut Machine,
    until: Cycles,
    observer: &dyn Observer,
    mut at_epoch: impl FnMut(&mut Machine, u64),
    mut at_stride: impl FnMut(&Machine),
) -> Result<Option<Pause>, Error> {
    let mut length = STRIDE;
    let mut stride = machine.time().saturating_add(length);
    loop {
        match panics::told(None, || machine.run(until.min(stride)))? {
            Pause::EpochEnded(epoch) => at_epoch(machine, epoch),
            Pause::Finished => return Ok(Some(Pause::Finished)),
            Pause::Time if until <= stride => return Ok(Some(Pause::Time)),
            Pause::Time => {
                // While every hart sleeps, ever further: a sleep of years is over at once.
                let idle = machine.time() < stride.saturating_sub(length);
                length = if idle {
                    length.saturating_mul(2)
                } else {
                    STRIDE
                };
                stride = stride.saturating_add(length);
                at_stride(machine);
                if observer.interrupted() {
                    return Ok(None);
                }
            }
        }
    }
}
