//! Swarm testing: on which machines, and at which moments of them, power is cut.
//!
//! Always true here: a seed and a round's number give the same round; what the user has set holds.

use perdure_hardware::random::Random;
use perdure_hardware::time::Cycles;
use perdure_hardware::watched::{Heard, Ordered};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Counts;
use super::timed::{Run, When};
use crate::campaign::tear_seed;
use crate::hunt::{CACHES, Choice, MACHINES, caches, one_of};
use crate::request::Request;

/// Moments of a run that are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Schedule {
    /// A write begins or ends at the media, a cycle more or less.
    NearEvents,
    /// Any.
    Random,
    /// Behind a store to persistent memory, and not after its hart has waited for its flushes again.
    InFlight,
}

/// Of a machine as it is, and of machines that are drawn.
const SCHEDULES: [Schedule; 3] = [Schedule::NearEvents, Schedule::InFlight, Schedule::Random];
/// So many rounds come before the first machine that is drawn, one of each schedule.
const PLAIN: u64 = SCHEDULES.len() as u64;
/// Dirty lines may leave the caches at any time.
const EAGER: &[Choice] = &[("ideal.eager_write_back", &["true"])];
/// Machines that are drawn for a round, until one can be.
const ATTEMPTS: u64 = 8;

/// A machine, and how it is cut.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    /// Its number.
    pub number: u64,
    /// Overrides of the machine.
    pub set: Vec<String>,
    /// Moments.
    pub schedule: Schedule,
}

impl Schedule {
    /// In reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NearEvents => "near-events",
            Self::Random => "random",
            Self::InFlight => "in-flight",
        }
    }
}

impl Round {
    /// The machine as it is, near persistence events.
    pub fn first() -> Self {
        Self {
            number: 0,
            set: Vec::new(),
            schedule: Schedule::NearEvents,
        }
    }

    /// The rounds of a number, the most different first: what does not fit a machine is drawn again, nearer
    /// to it.
    pub fn drawn(base: &Request, number: u64) -> impl Iterator<Item = Self> + use<'_> {
        let seed = base.seed.unwrap_or(1);
        let attempts = if number < PLAIN { 1 } else { ATTEMPTS };
        (0..attempts).map(move |attempt| {
            let mut random =
                Random::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ attempt << 56);
            let set = if number < PLAIN {
                Vec::new()
            } else {
                machine(&mut random, attempt)
            };
            let schedule = match SCHEDULES.get(number as usize) {
                Some(&schedule) => schedule,
                None => one_of(&mut random, &SCHEDULES),
            };
            Self {
                number,
                set,
                schedule,
            }
        })
    }

    /// The request of the machine.
    pub fn request(&self, base: &Request) -> Request {
        Request {
            set: [self.set.as_slice(), &base.set].concat(),
            ..base.clone()
        }
    }

    /// So many cuts of its run, in their order.
    pub fn moments(&self, run: &Run, cuts: u64, seed: u64) -> Vec<When> {
        let mut random = Random::new(seed ^ self.number.wrapping_mul(0xd1b5_4a32_d192_ed03));
        let random = &mut random;
        let flights = match self.schedule {
            Schedule::InFlight => flights(&run.log, run.end),
            _ => Vec::new(),
        };
        let mut cycles: Vec<Cycles> = (0..cuts)
            .map(|_| {
                let near = match self.schedule {
                    Schedule::NearEvents if !run.events.is_empty() => {
                        one_of(random, &run.events).saturating_add(random.below(3)) - 1
                    }
                    Schedule::InFlight if !flights.is_empty() => {
                        let flight = one_of(random, &flights);
                        within(random, flight)
                    }
                    _ => 1 + random.below(run.end.max(1)),
                };
                near.clamp(1, run.end.max(1))
            })
            .collect();
        cycles.sort_unstable();
        (cycles.into_iter().map(|cycle| at(cycle, seed))).collect()
    }

    /// As JSON: with its cuts and those of recoveries, and how many of each went wrong.
    pub fn to_json(&self, first: Counts, again: Counts) -> Value {
        json!({
            "number": self.number,
            "set": self.set,
            "schedule": self.schedule.name(),
            "cuts": first.cuts,
            "failed": first.failed,
            "in_recoveries": again,
        })
    }
}

/// A cut at a cycle.
pub fn at(cycle: Cycles, seed: u64) -> When {
    let tear_seed = tear_seed(seed, cycle);
    When { cycle, tear_seed }
}

/// Some moment between two.
pub fn within(random: &mut Random, [from, until]: [Cycles; 2]) -> Cycles {
    from + random.below(until.saturating_sub(from) + 1)
}

/// From when to when a store is made and not waited for.
fn flights(log: &[Heard], end: Cycles) -> Vec<[Cycles; 2]> {
    let mut flights: Vec<[Cycles; 2]> = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    for heard in log {
        match *heard {
            Heard::Stored { hart, at, .. } => {
                open.push((hart, flights.len()));
                flights.push([at, end]);
            }
            Heard::Ordered(Ordered::Fenced { hart, done }) => open.retain(|&(of, flight)| {
                if of == hart {
                    flights[flight][1] = done.max(flights[flight][0]);
                }
                of != hart
            }),
            _ => {}
        }
    }
    flights
}

/// Overrides of a machine: every second one has caches of a few lines.
fn machine(random: &mut Random, attempt: u64) -> Vec<String> {
    let tiny = random.below(2) == 0;
    let alone = if tiny { &[] } else { CACHES };
    let mut set = Vec::new();
    for (key, values) in alone.iter().chain(MACHINES).chain(EAGER) {
        // The later the attempt, the closer to the preset: something must fit.
        if random.below(2 + attempt) == 0 {
            set.push(format!("{key}={}", one_of(random, values)));
        }
    }
    if tiny && random.below(1 + attempt) == 0 {
        set.extend(caches(random, 1));
    }
    set
}
