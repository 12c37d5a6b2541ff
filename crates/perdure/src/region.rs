//! The measured part of a run: it begins when every program has retired its warm-up, and ends when
//! every program has retired so many instructions more.
//!
//! Always true here: an instruction is counted for the program whose thread retired it. A program
//! that has finished and is not started again waits for nobody.

use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Instructions that every program retires first.
    pub warm_up_instructions: u64,
    /// Instructions of every program that are measured.
    pub measure_instructions: u64,
}

/// One program's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// From the region's begin until the program had retired its instructions.
    pub cycles: Cycles,
    /// What it retired until the region's end.
    pub instructions: u64,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// From begin to end.
    pub cycles: Cycles,
    /// All programs' instructions.
    pub instructions: u64,
    /// The counters' growth.
    pub statistics: Statistics,
    /// By program.
    pub programs: Vec<Share>,
    /// False if a program finished too early.
    pub complete: bool,
}

#[derive(Clone, Debug)]
struct Begun {
    at: Cycles,
    retired: Vec<u64>,
    statistics: Statistics,
}

/// Counts by program, and watches the region.
#[derive(Clone, Debug)]
pub struct Meter {
    region: Option<Region>,
    /// Instructions retired so far, by program.
    pub retired: Vec<u64>,
    begun: Option<Begun>,
    ends: Vec<Option<Cycles>>,
    measured: Option<Measured>,
}

impl Meter {
    /// A meter for so many programs.
    pub fn new(programs: usize, region: Option<Region>) -> Self {
        Self {
            region,
            retired: vec![0; programs],
            begun: None,
            ends: vec![None; programs],
            measured: None,
        }
    }

    /// The result, once the region is over.
    pub fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }

    /// What is left for a program until something begins or ends for it.
    pub fn left(&self, program: usize) -> u64 {
        let Some(region) = self.region else {
            return u64::MAX;
        };
        let target = match &self.begun {
            None => region.warm_up_instructions,
            Some(_) if self.ends[program].is_some() => u64::MAX,
            Some(begun) => begun.retired[program] + region.measure_instructions,
        };
        match target.saturating_sub(self.retired[program]) {
            0 => u64::MAX,
            left => left,
        }
    }

    /// A program has retired instructions or finished: begins or ends what is due at `now`. True
    /// when the region has just ended. `finished` tells of each program whether it will never go
    /// on.
    pub fn look(
        &mut self,
        now: Cycles,
        finished: impl Fn(usize) -> bool,
        statistics: impl Fn() -> Statistics,
    ) -> bool {
        let Some(region) = self.region else {
            return false;
        };
        if self.measured.is_some() {
            return false;
        }
        let Some(begun) = &self.begun else {
            let warm = |program: usize| {
                self.retired[program] >= region.warm_up_instructions || finished(program)
            };
            if (0..self.retired.len()).all(warm) {
                self.begun = Some(Begun {
                    at: now,
                    retired: self.retired.clone(),
                    statistics: statistics(),
                });
            }
            return false;
        };
        for program in 0..self.ends.len() {
            let done =
                self.retired[program] - begun.retired[program] >= region.measure_instructions;
            if done || finished(program) {
                self.ends[program].get_or_insert(now);
            }
        }
        if self.ends.iter().any(Option::is_none) {
            return false;
        }
        let growth = |program: usize| self.retired[program] - begun.retired[program];
        let programs: Vec<Share> = (0..self.ends.len())
            .map(|program| Share {
                cycles: self.ends[program].map_or(0, |end| end - begun.at),
                instructions: growth(program),
            })
            .collect();
        self.measured = Some(Measured {
            cycles: now - begun.at,
            instructions: programs.iter().map(|share| share.instructions).sum(),
            statistics: statistics().since(&begun.statistics),
            complete: programs
                .iter()
                .all(|share| share.instructions >= region.measure_instructions),
            programs,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_waits_for_the_slowest_at_both_ends() {
        let mut meter = Meter::new(
            2,
            Some(Region {
                warm_up_instructions: 10,
                measure_instructions: 100,
            }),
        );
        let nobody = |_| false;
        let at = |meter: &mut Meter, retired: [u64; 2], now| {
            meter.retired = retired.to_vec();
            meter.look(now, nobody, Statistics::default)
        };
        assert!(!at(&mut meter, [15, 5], 100));
        assert_eq!((meter.left(0), meter.left(1)), (u64::MAX, 5));
        assert!(!at(&mut meter, [20, 10], 200), "begins");
        assert_eq!((meter.left(0), meter.left(1)), (100, 100));
        assert!(!at(&mut meter, [120, 60], 300), "the first is done");
        assert!(at(&mut meter, [170, 110], 400), "the second is done");
        let measured = meter.measured().unwrap();
        assert!(measured.complete);
        assert_eq!((measured.cycles, measured.instructions), (200, 250));
        let cycles: Vec<_> = measured.programs.iter().map(|share| share.cycles).collect();
        assert_eq!(cycles, [100, 200]);
    }

    #[test]
    fn a_program_that_finished_too_early_is_said() {
        let region = Region {
            warm_up_instructions: 0,
            measure_instructions: 100,
        };
        let mut meter = Meter::new(1, Some(region));
        meter.look(0, |_| false, Statistics::default);
        meter.retired = vec![40];
        assert!(meter.look(50, |_| true, Statistics::default));
        assert!(!meter.measured().unwrap().complete);
    }
}
