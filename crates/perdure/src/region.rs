//! The measured part of a run: it begins when every program has retired its warm-up, and ends when
//! every program has retired so many instructions more; or it follows the programs' threads.
//!
//! Always true here: an instruction is counted for the program whose thread retired it. A program
//! that has finished and is not started again waits for nobody. A region that follows threads is a
//! program's first parallel phase, from its second thread's start until it has one thread again: the
//! same work whatever the machine, where instructions also count those of waiting.

use perdure_hardware::time::Cycles;

use crate::statistics::MachineStatistics;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Instructions that every program retires first.
    pub warm_up_instructions: u64,
    /// Instructions of every program that are measured, at most; `u64::MAX` for no limit.
    pub measure_instructions: u64,
    /// Only while a program has several threads, the first time that it has.
    pub follows_threads: bool,
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
    /// How long the NVM then goes on with what it was given.
    pub drain_cycles: Cycles,
    /// All programs' instructions.
    pub instructions: u64,
    /// The counters' growth.
    pub statistics: MachineStatistics,
    /// By program.
    pub programs: Vec<Share>,
    /// False if a program finished too early.
    pub complete: bool,
    /// Every program's parallel phase, from begin to end: equal work under every design.
    pub whole_phase: bool,
}

/// How the region ended for a program.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Cycles,
    /// With its parallel phase, and not by a limit.
    whole: bool,
}

#[derive(Clone, Debug)]
struct Begun {
    at: Cycles,
    retired: Vec<u64>,
    statistics: MachineStatistics,
}

/// Counts by program, and watches the region.
#[derive(Clone, Debug)]
pub struct Meter {
    region: Option<Region>,
    /// Instructions retired so far, by program.
    pub retired: Vec<u64>,
    /// Threads that live now, by program; kept up to date only if the region follows them.
    pub threads: Vec<usize>,
    begun: Option<Begun>,
    ends: Vec<Option<End>>,
    measured: Option<Measured>,
}

impl Meter {
    /// A meter for so many programs.
    pub fn new(programs: usize, region: Option<Region>) -> Self {
        Self {
            region,
            retired: vec![0; programs],
            threads: vec![1; programs],
            begun: None,
            ends: vec![None; programs],
            measured: None,
        }
    }

    /// The result, once the region is over.
    pub fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }

    /// True from the region's begin on.
    pub fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// True as long as `threads` is looked at.
    pub fn follows_threads(&self) -> bool {
        self.measured.is_none() && self.region.is_some_and(|region| region.follows_threads)
    }

    /// What is left for a program until something begins or ends for it.
    pub fn left(&self, program: usize) -> u64 {
        let Some(region) = self.region else {
            return u64::MAX;
        };
        let target = match &self.begun {
            None => region.warm_up_instructions,
            Some(_) if self.ends[program].is_some() => u64::MAX,
            Some(begun) => begun.retired[program].saturating_add(region.measure_instructions),
        };
        match target.saturating_sub(self.retired[program]) {
            0 => u64::MAX,
            left => left,
        }
    }

    /// A program has retired instructions, got or lost threads, or finished: begins or ends what is
    /// due at `now`. True when the region has just ended. `finished` tells of each program whether it
    /// will never go on.
    pub fn look(
        &mut self,
        now: Cycles,
        finished: impl Fn(usize) -> bool,
        statistics: impl Fn() -> MachineStatistics,
    ) -> bool {
        let Some(region) = self.region else {
            return false;
        };
        if self.measured.is_some() {
            return false;
        }
        let Some(begun) = &self.begun else {
            let parallel = |program: usize| self.threads[program] > 1;
            let warm = |program: usize| {
                (self.retired[program] >= region.warm_up_instructions
                    && (parallel(program) || !region.follows_threads))
                    || finished(program)
            };
            let mut programs = 0..self.retired.len();
            let begins = !region.follows_threads || programs.clone().any(parallel);
            if begins && programs.all(warm) {
                self.begun = Some(Begun {
                    at: now,
                    retired: self.retired.clone(),
                    statistics: statistics(),
                });
            }
            return false;
        };
        let growth = |program: usize| self.retired[program] - begun.retired[program];
        let mut open = false;
        for (program, end) in self.ends.iter_mut().enumerate() {
            if end.is_some() {
                continue;
            }
            let limit = growth(program) >= region.measure_instructions;
            let alone = region.follows_threads && self.threads[program] < 2;
            if limit || alone || finished(program) {
                let whole = region.follows_threads && !limit;
                *end = Some(End { at: now, whole });
            } else {
                open = true;
            }
        }
        if open {
            return false;
        }
        let ends: Vec<End> = self.ends.iter().copied().flatten().collect();
        let programs: Vec<Share> = (ends.iter().enumerate())
            .map(|(program, end)| Share {
                cycles: end.at - begun.at,
                instructions: growth(program),
            })
            .collect();
        let statistics = statistics();
        let drained_at = statistics.hardware.nvm_drained_at_cycle;
        self.measured = Some(Measured {
            cycles: now - begun.at,
            drain_cycles: drained_at.saturating_sub(now),
            instructions: programs.iter().map(|share| share.instructions).sum(),
            statistics: statistics.since(&begun.statistics),
            complete: (ends.iter().zip(&programs))
                .all(|(end, share)| end.whole || share.instructions >= region.measure_instructions),
            whole_phase: ends.iter().all(|end| end.whole),
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
                follows_threads: false,
            }),
        );
        let nobody = |_| false;
        let at = |meter: &mut Meter, retired: [u64; 2], now| {
            meter.retired = retired.to_vec();
            meter.look(now, nobody, MachineStatistics::default)
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
            follows_threads: false,
        };
        let mut meter = Meter::new(1, Some(region));
        meter.look(0, |_| false, MachineStatistics::default);
        meter.retired = vec![40];
        assert!(meter.look(50, |_| true, MachineStatistics::default));
        assert!(!meter.measured().unwrap().complete);
    }

    fn parallel(measure_instructions: u64) -> Meter {
        let region = Region {
            warm_up_instructions: 0,
            measure_instructions,
            follows_threads: true,
        };
        Meter::new(1, Some(region))
    }

    fn step(meter: &mut Meter, threads: usize, retired: u64, now: Cycles) -> bool {
        meter.threads = vec![threads];
        meter.retired = vec![retired];
        meter.look(now, |_| false, MachineStatistics::default)
    }

    #[test]
    fn a_region_follows_the_threads_of_the_first_parallel_phase() {
        let mut meter = parallel(u64::MAX);
        assert!(meter.follows_threads());
        assert!(!step(&mut meter, 1, 1000, 100), "set-up");
        assert!(!step(&mut meter, 2, 1010, 200), "begins");
        assert!(!step(&mut meter, 16, 5000, 300));
        assert!(!step(&mut meter, 2, 8000, 400));
        assert_eq!(meter.left(0), u64::MAX - 8000);
        assert!(step(&mut meter, 1, 9010, 500), "ends");
        let measured = meter.measured().unwrap();
        assert!(measured.complete && measured.whole_phase);
        assert_eq!((measured.cycles, measured.instructions), (300, 8000));
        assert!(!meter.follows_threads());
        assert!(!step(&mut meter, 16, 9999, 600), "a second phase");
    }

    #[test]
    fn a_program_without_threads_has_no_parallel_phase() {
        let mut meter = parallel(u64::MAX);
        assert!(!step(&mut meter, 1, 10, 10));
        meter.threads = vec![0];
        for now in [20, 30] {
            assert!(!meter.look(now, |_| true, MachineStatistics::default));
        }
        assert!(meter.measured().is_none());
    }

    #[test]
    fn a_limit_ends_a_parallel_phase_before_it_is_whole() {
        let mut meter = parallel(500);
        step(&mut meter, 2, 100, 10);
        assert_eq!(meter.left(0), 500);
        assert!(step(&mut meter, 2, 600, 20));
        let measured = meter.measured().unwrap();
        assert!(measured.complete && !measured.whole_phase);
    }
}
