//! How long epochs are: a schedule over the run, and bursts of short epochs that a watch point or the
//! program itself starts (NVOverlay §I: snapshots upon events of interest).
//!
//! Always true: the length changes only between turns, at an instruction count that does not depend
//! on where the run pauses.

use std::ops::Range;

use perdure_hardware::line::LINE_BYTES;
use perdure_linux::{Kernel, SpaceId};

use crate::configuration::Epoch;
use crate::error::Error;

/// The persistence instruction by which a program asks for a burst: funct7 0x7f, funct3 0.
pub const HINT: u16 = 0x7f << 3;

/// Short epochs for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Stores in each.
    pub stores: u64,
    /// For so many instructions of all harts after the last event.
    pub instructions: u64,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Addresses (`0x…`) or symbols, each perhaps with `:BYTES`.
    pub places: Vec<String>,
    /// What a store there starts.
    pub burst: Burst,
}

/// Watched virtual addresses, rounded to lines because that is what the hit path tells apart.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    lines: Vec<Range<u64>>,
    /// One of them was stored to, or the program gave the hint, since this was last looked at.
    pub hit: bool,
}

impl Watch {
    /// True if an address is in a watched line.
    #[inline]
    pub fn covers(&self, address: u64) -> bool {
        !self.lines.is_empty() && self.lines.iter().any(|lines| lines.contains(&address))
    }
}

impl Watched {
    /// Finds the symbols in the program of that address space.
    pub fn resolve(&self, kernel: &Kernel, space: Option<SpaceId>) -> Result<Watch, Error> {
        let lines = self
            .places
            .iter()
            .map(|place| resolve(kernel, space, place));
        Ok(Watch {
            lines: lines.collect::<Result<_, _>>()?,
            hit: false,
        })
    }
}

fn resolve(kernel: &Kernel, space: Option<SpaceId>, place: &str) -> Result<Range<u64>, Error> {
    let wrong = |problem: &str| Error::Request(format!("--watch {place}: {problem}"));
    let (name, bytes) = match place.rsplit_once(':') {
        Some((name, bytes)) => {
            let bytes = bytes.parse::<u64>().ok().filter(|&bytes| bytes > 0);
            let bytes = bytes.ok_or_else(|| wrong("write ADDRESS:BYTES or SYMBOL:BYTES"))?;
            (name, Some(bytes))
        }
        None => (place, None),
    };
    let (address, size) = if let Some(digits) = name.strip_prefix("0x") {
        let address = u64::from_str_radix(digits, 16);
        (address.map_err(|_| wrong("not an address"))?, 1)
    } else {
        space
            .and_then(|space| kernel.address_of(space, name))
            .ok_or_else(|| wrong("the program has no such symbol"))?
    };
    let length = bytes.unwrap_or(size).max(1);
    let line = LINE_BYTES as u64;
    let end = address
        .checked_add(length)
        .ok_or_else(|| wrong("beyond the last address"))?;
    Ok(address / line * line..end.next_multiple_of(line))
}

/// How long an epoch is, now and later; everywhere 0 for no limit.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    /// In instructions of a hart.
    pub instructions: u64,
    /// In cycles of the machine.
    pub cycles: u64,
    /// In stores, now.
    pub stores: u64,
    usual: u64,
    /// What is still to come of the schedule, last first.
    steps: Vec<(u64, u64)>,
    burst: Burst,
    burst_end: u64,
}

impl Lengths {
    /// As configured.
    pub fn new(epoch: &Epoch, burst: Burst) -> Result<Self, Error> {
        let mut steps = epoch.scheduled()?;
        steps.reverse();
        Ok(Self {
            instructions: epoch.instructions,
            cycles: epoch.cycles,
            stores: epoch.stores,
            usual: epoch.stores,
            steps,
            burst,
            burst_end: 0,
        })
    }

    /// False if the length stays as it is for ever.
    #[inline]
    pub fn may_change(&self) -> bool {
        !self.steps.is_empty() || self.burst.stores > 0
    }

    /// All harts have retired so many instructions; `hit` if an event of interest has happened.
    pub fn look(&mut self, retired: u64, hit: bool) {
        while self.steps.last().is_some_and(|&(at, _)| at <= retired) {
            if let Some((_, stores)) = self.steps.pop() {
                self.usual = stores;
            }
        }
        if hit && self.burst.stores > 0 {
            self.burst_end = retired + self.burst.instructions;
        }
        self.stores = if retired < self.burst_end {
            self.burst.stores
        } else {
            self.usual
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_and_a_burst_change_the_length() {
        let epoch = Epoch {
            instructions: 0,
            stores: 1000,
            counted: crate::configuration::Counted::Hart,
            cycles: 0,
            schedule: "100:500,200:2000".into(),
        };
        let burst = Burst {
            stores: 100,
            instructions: 50,
        };
        let mut lengths = Lengths::new(&epoch, burst).unwrap();
        let mut seen = Vec::new();
        for (retired, hit) in [
            (0, false),
            (100, false),
            (110, true),
            (159, false),
            (160, false),
            (300, false),
        ] {
            lengths.look(retired, hit);
            seen.push(lengths.stores);
        }
        assert_eq!(seen, [1000, 500, 100, 100, 500, 2000]);
        for wrong in ["5", "5:6", "5:1000,5:1000", "a:1000"] {
            let schedule = wrong.into();
            assert!(
                Epoch {
                    schedule,
                    ..epoch.clone()
                }
                .scheduled()
                .is_err(),
                "{wrong}"
            );
        }
    }
}
