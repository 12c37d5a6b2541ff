//! One run of a litmus test on a machine, with the power cut at every event: harts that take turns at
//! random, and luck that is bad in every way that a machine allows.
//!
//! Always true here:
//! - Nothing is done to a machine that could not happen to it: a hart waits (an interrupt), and a line is
//!   loaded or stored to that no test names (a prefetch, another program), which takes others out of the
//!   caches and keeps queues and banks busy.
//! - A run follows from the machine that it begins with and its seed.
//! - A cut is undone, and the run goes on as if it had not been.

use perdure_designs::surviving::{Journal, Surviving};
use perdure_hardware::line::{LINE_BYTES, LineNumber, line_of};
use perdure_hardware::policy::Policy;
use perdure_hardware::random::Random;
use perdure_hardware::specification::Domain;
use perdure_hardware::time::Cycles;

use super::super::program::{Contents, Test};
use super::assembly;
use crate::error::Error;
use crate::machine::{Machine, Pause};

/// Lines of a page.
const PAGE_LINES: u64 = perdure_linux::PAGE_BYTES / LINE_BYTES as u64;
/// For how long, at most, a hart waits between two instructions: one of these, for a whole run.
const WAITS: [u64; 5] = [1, 8, 60, 500, 4000];
/// How often, of 16 times, a line is in the way: one of these, for a whole run.
const DISTURBANCES: [u64; 4] = [0, 1, 4, 10];
/// The longest that a machine is left to itself.
const LONGEST_STEP: Cycles = 2000;
/// Lines that come in the way when all threads are done, so that what is dirty leaves the caches.
const LAST_DISTURBANCES: usize = 6;

/// After so many turns in a row in which no thread comes further, the machine is left to itself for long
/// enough for whatever memory has to do. Who has come no further by then waits for ever (`strand-sync` may).
const IDLE_TURNS: u32 = 1000;
const PATIENCE_CYCLES: Cycles = 200_000;

/// Epochs that a machine with epochs goes on for when all threads are done, so that the last of theirs is
/// durable.
const LAST_EPOCHS: u64 = 8;
/// How long it is let wait at once for an epoch's end.
const WAITS_FOR_EPOCH_CYCLES: Cycles = 500;
/// Of so many moments, the power of a machine with epochs is cut at one: at most of them nothing has become
/// durable since the one before.
const ONE_MOMENT_OF: u64 = 8;

/// A machine whose threads wait for a test.
pub(super) struct Ready {
    pub machine: Machine,
    /// The addresses of its pages, as programs and as memory know them.
    pub pages: Vec<(u64, u64)>,
}

/// A cut that somebody may want to see again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub contents: Contents,
    pub at: Cycles,
}

/// A run.
pub(super) struct Trial<'a> {
    machine: Machine,
    test: &'a Test,
    /// Where its threads begin and end.
    threads: &'a [(u64, u64)],
    pages: &'a [(u64, u64)],
    /// Of each location: its page, and where in that.
    places: Vec<(usize, u64)>,
    random: Random,
    longest_wait: u64,
    disturbances: u64,
    /// For how long, at most, the machine is left to itself: harts may get ahead of each other.
    longest_step: Cycles,
    /// How long the machine's epochs are, if it has some.
    epochs: Option<Cycles>,
    /// Everything up to here has happened, and cuts have been made.
    now: Cycles,
    /// How far each thread has come; and for how many turns none has come further.
    furthest: Vec<u64>,
    idle_turns: u32,
    journal: Journal,
    /// What cuts have left.
    pub seen: Vec<Seen>,
    /// How many were made.
    pub cuts: u64,
}

impl<'a> Trial<'a> {
    /// A run that is about to begin.
    pub(super) fn new(
        ready: &'a Ready,
        test: &'a Test,
        threads: &'a [(u64, u64)],
        epochs: Option<Cycles>,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed);
        let mut machine = ready.machine.clone();
        machine.is_disturbed = true;
        let one_of = |random: &mut Random, of: &[u64]| of[random.below(of.len() as u64) as usize];
        let longest_wait = one_of(&mut random, &WAITS);
        let disturbances = one_of(&mut random, &DISTURBANCES);
        let lookahead = machine.configuration.scheduling.lookahead_cycles;
        let longest_step = LONGEST_STEP.min(lookahead.max(1));
        let places = places(test, &mut random);
        let now = (0..threads.len()).map(|hart| machine.clock(hart));
        let mut trial = Self {
            now: now.max().unwrap_or(0),
            machine,
            test,
            threads,
            pages: &ready.pages,
            places,
            random,
            longest_wait,
            disturbances,
            longest_step,
            epochs,
            furthest: vec![0; threads.len()],
            idle_turns: 0,
            journal: Journal::default(),
            seen: Vec::new(),
            cuts: 0,
        };
        trial.begin();
        trial
    }

    fn begin(&mut self) {
        for (hart, &(begins, _)) in self.threads.iter().enumerate() {
            let behind = self.now - self.machine.clock(hart) + self.random.below(self.longest_wait);
            let registers = &mut self.machine.harts[hart].context.hart;
            registers.pc = begins;
            for (location, &(page, offset)) in self.places.iter().enumerate() {
                registers.x[assembly::LOCATIONS + location] = self.pages[page].0 + offset;
            }
            (self.machine.hardware.cores[hart].timing).stand_still(behind);
        }
        // Some lines are in some caches.
        for location in 0..self.places.len() {
            if self.random.below(2) == 0 {
                let line = self.line(location);
                self.touch(line, false);
            }
        }
        self.machine.hardware.memory.persistence_times = Some(Vec::new());
    }

    /// Runs to the end.
    pub(super) fn run(&mut self) -> Result<(), Error> {
        while let Some((hart, clock)) = self.next() {
            if self.is_done(hart) {
                (self.machine.hardware.cores[hart].timing).stand_still(200);
            } else if self.random.below(2) == 0 {
                let wait = self.random.below(self.longest_wait);
                (self.machine.hardware.cores[hart].timing).stand_still(wait);
            }
            if self.random.below(16) < self.disturbances {
                self.disturb();
            }
            let step = self.random.below(2) * self.random.below(self.longest_step);
            self.go_to(clock.max(self.now) + step)?;
            if self.epochs.is_some() && self.machine.clock(hart) == clock {
                // Harts wait until an epoch has ended.
                self.go_to(self.now + WAITS_FOR_EPOCH_CYCLES)?;
            }
            if !self.comes_further() && self.idle_turns > IDLE_TURNS {
                self.go_to(self.now + PATIENCE_CYCLES)?;
                if !self.comes_further() {
                    break;
                }
            }
        }
        for _ in 0..LAST_DISTURBANCES {
            self.disturb();
            let wait = self.random.below(1000);
            self.go_to(self.now + wait)?;
        }
        if let Some(epoch) = self.epochs {
            return self.end_epochs(epoch);
        }
        let quiet = self.machine.hardware.memory.quiet_at();
        self.go_to(quiet.max(self.now))
    }

    /// Goes on until the epochs of the test are durable.
    fn end_epochs(&mut self, epoch: Cycles) -> Result<(), Error> {
        self.machine.hardware.memory.persistence_times = None;
        for _ in 0..LAST_EPOCHS {
            self.now += epoch;
            while let Pause::EpochEnded(_) = self.machine.run(self.now)? {}
            self.cut()?;
        }
        Ok(())
    }

    /// True if a thread has come further since it was last asked. They go forward, but for one that asks
    /// again and again whether its strands are committed.
    fn comes_further(&mut self) -> bool {
        let mut any = false;
        for (hart, furthest) in self.furthest.iter_mut().enumerate() {
            let at = self.machine.harts[hart].context.hart.pc;
            any |= at > *furthest;
            *furthest = at.max(*furthest);
        }
        self.idle_turns = if any { 0 } else { self.idle_turns + 1 };
        any
    }

    /// The hart whose turn it is with its clock, as long as a thread has something to do.
    fn next(&self) -> Option<(usize, Cycles)> {
        let harts = 0..self.threads.len();
        if harts.clone().all(|hart| self.is_done(hart)) {
            return None;
        }
        let clocks = harts.map(|hart| (hart, self.machine.clock(hart)));
        clocks.min_by_key(|&(_, clock)| clock)
    }

    fn is_done(&self, hart: usize) -> bool {
        self.machine.harts[hart].context.hart.pc == self.threads[hart].1
    }

    /// Goes on to a time, and cuts the power whenever a write starts or is durable, and then.
    fn go_to(&mut self, until: Cycles) -> Result<(), Error> {
        // Clocks have been moved, and it is another hart's turn.
        self.machine.end_turn();
        loop {
            let now = self.now;
            let times = self.machine.hardware.memory.persistence_times.iter_mut();
            let mut next = until;
            for times in times {
                times.retain(|&time| time > now);
                next = times.iter().copied().fold(next, Cycles::min);
            }
            match self.machine.run(next)? {
                Pause::EpochEnded(_) => continue,
                Pause::Time => {}
                Pause::Finished => return Err(stuck("it has ended")),
            }
            self.now = next;
            if self.epochs.is_none() || self.random.below(ONE_MOMENT_OF) == 0 {
                self.cut()?;
            }
            if next == until {
                return Ok(());
            }
        }
    }

    fn cut(&mut self) -> Result<(), Error> {
        let at = self.now;
        let seed = self.random.bits();
        self.cuts += 1;
        let recovery = self.machine.recovery();
        let lost = self.machine.power_off(at, seed);
        let memory = &mut self.machine.hardware.memory;
        let journal = std::mem::take(&mut self.journal);
        let mut surviving = Surviving::of(memory, journal);
        let recovered = recovery.run(&mut surviving);
        let journal = surviving.into_journal();
        let mut contents = Contents::default();
        for (location, &(page, offset)) in self.places.iter().enumerate() {
            let address = self.pages[page].1 + offset;
            contents.set(location, memory.arena.slice(address, 1)[0]);
        }
        self.journal = journal.undo(&mut memory.arena);
        memory.power_back(&lost);
        recovered.map_err(|error| Error::Defect(format!("a litmus test: {error}")))?;
        let torn = lost.writes_in_flight > 0 && self.may_tear();
        if !torn && self.seen.iter().all(|seen| seen.contents != contents) {
            self.seen.push(Seen { contents, at });
        }
        Ok(())
    }

    /// True if a write in flight may leave words of a line behind others that the test has there.
    fn may_tear(&self) -> bool {
        let lines = self.test.lines.iter().max();
        let shares_lines = lines.is_some_and(|&last| last + 1 < self.test.lines.len());
        let domain = self.machine.hardware.specification.persistence.domain;
        shares_lines && domain == Domain::Media
    }

    fn line(&self, location: usize) -> LineNumber {
        let (page, offset) = self.places[location];
        line_of(self.pages[page].1 + offset)
    }

    /// A line that shares a location's place in the caches comes into one of them.
    fn disturb(&mut self) {
        // A test need not name any location.
        if self.places.is_empty() {
            return;
        }
        let location = self.random.below(self.places.len() as u64) as usize;
        let (page, offset) = self.places[location];
        let others = self.pages.len() as u64 - 1;
        let other = (page as u64 + 1 + self.random.below(others)) % (others + 1);
        let line = line_of(self.pages[other as usize].1 + offset);
        let is_free = (0..self.places.len()).all(|location| self.line(location) != line);
        let writes = is_free && self.random.below(3) == 0;
        self.touch(line, writes);
    }

    fn touch(&mut self, line: LineNumber, writes: bool) {
        let hart = self.random.below(self.machine.harts.len() as u64) as usize;
        let mut now = self.now;
        if self.epochs.is_some() {
            // While an epoch ends, harts may stand still.
            now = now.max(self.machine.clock(hart));
        }
        let Machine {
            hardware, design, ..
        } = &mut self.machine;
        let design: &mut dyn Policy = &mut **design;
        // No thread's, so that it is of no strand of the test's: one that has loaded what another stored is
        // waited for, and nobody ends the last strand of a thread that is done.
        design.system_stores(hardware, hart, true);
        if writes {
            hardware.store(design, hart, line, (60, &[1]), now);
        } else {
            hardware.load(design, hart, line, now);
        }
        design.system_stores(hardware, hart, false);
        // It may have been of a newer epoch.
        self.machine.catch_up(hart);
    }
}

/// Where locations lie: those of a line one behind the other, and lines anywhere in the first pages.
fn places(test: &Test, random: &mut Random) -> Vec<(usize, u64)> {
    let count = test.lines.iter().max().map_or(0, |last| last + 1);
    let mut taken: Vec<(usize, u64)> = Vec::new();
    while taken.len() < count {
        // Often in the same row, and often in each other's way.
        let page = random.below(3) as usize;
        let lines = if random.below(2) == 0 { 6 } else { PAGE_LINES };
        let line = random.below(lines);
        if !taken.contains(&(page, line)) {
            taken.push((page, line));
        }
    }
    let mut next = vec![0; count];
    let words = test.lines.iter().map(|&line| {
        let word = next[line];
        next[line] += 1;
        word
    });
    let words: Vec<u64> = words.collect();
    let stride = if next.iter().all(|&words| words <= 7) {
        8
    } else {
        4
    };
    let place = |(&line, word): (&usize, u64)| {
        let (page, in_page) = taken[line];
        (page, in_page * LINE_BYTES as u64 + word * stride)
    };
    test.lines.iter().zip(words).map(place).collect()
}

/// A machine did something else than to run a test.
pub(super) fn stuck(what: &str) -> Error {
    Error::Defect(format!("the machine of a litmus test: {what}"))
}
