//! The cutter: one job's cuts, each judged, lived on after where the schedule says so, and put back.
//!
//! Always true here: after all its cuts a job's run ends as the survey did; nothing that is done at a
//! cut is seen by the run that goes on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use perdure_hardware::random::Random;
use perdure_hardware::time::Cycles;

use super::report::CutResult;
use super::survey::Survey;
use crate::error::Error;
use crate::lives::{Left, Life, Lives, Plan, Sequel};
use crate::machine::{Image, Machine};
use crate::mistakes::Blind;
use crate::observer::{Observer, run_on};
use crate::panics;
use crate::pools;
use crate::reads::Reads;
use crate::replication::follower::Follower;
use crate::report::{state_hash, symbol_of};
use crate::request::{Prepared, Request, Resume};
use crate::token::Token;
use crate::verify::{self, CutOptions, Golden, Verdict};

/// Cuts of the power during one recovery, at most.
const RECOVERY_STEPS: u64 = 32;

/// How often in a row the power is cut, for a share of those cuts that are resumed.
const GENERATIONS: u32 = 3;

/// The same where a program is started again and recovery is cut, too: three times, each within the last.
const NESTED_GENERATIONS: u32 = 4;

/// What one job found.
pub(super) struct JobResult {
    pub(super) results: Vec<(usize, CutResult)>,
    pub(super) state_hash: Option<String>,
    pub(super) interrupted: bool,
}

/// A machine on its way from cut to cut, and who watches it.
pub(super) struct Watched {
    /// The machine.
    pub(super) machine: Machine,
    golden: Golden,
    follower: Option<Follower>,
}

impl Watched {
    /// Before the first instruction.
    pub(super) fn first(
        request: &Request,
        prepared: &Prepared,
        bug: Option<&'static str>,
    ) -> Result<Self, Error> {
        let mut machine = prepared.boot(bug)?;
        let golden = Golden::watch(&mut machine, 0)?;
        let range = golden.range();
        let follower = (request.replica).then(|| Follower::start(prepared, &machine, range));
        Ok(Self {
            follower: follower.transpose()?,
            machine,
            golden,
        })
    }

    /// Goes on to a cycle, or to the end if that comes first. False if the user stopped it.
    pub(super) fn go_to(
        &mut self,
        at: Cycles,
        observer: &dyn Observer,
        progress: impl FnMut(&Machine),
    ) -> Result<bool, Error> {
        let Self {
            machine,
            golden,
            follower,
        } = self;
        let mut followed = Ok(());
        let watch = |machine: &mut Machine, epoch| {
            golden.record(machine, epoch);
            if let (Some(follower), true) = (&mut *follower, followed.is_ok()) {
                followed = follower.follow(machine);
            }
        };
        let reached = run_on(machine, at, observer, watch, progress)?;
        followed?;
        Ok(reached.is_some())
    }
}

/// One job of a campaign.
pub(super) struct Cutter<'a> {
    pub(super) request: &'a Request,
    pub(super) prepared: &'a Prepared,
    pub(super) bug: Option<&'static str>,
    pub(super) survey: &'a Survey,
    pub(super) cycles: &'a [Cycles],
    pub(super) resumes: &'a BTreeMap<usize, bool>,
    pub(super) seed: u64,
    pub(super) done: &'a AtomicU64,
    /// The lowest cut that has failed, if cuts after it are of no interest.
    pub(super) first_failure: &'a AtomicUsize,
    pub(super) observer: &'a dyn Observer,
}

impl Cutter<'_> {
    /// Cuts at its part of the schedule, then runs to the end. A machine that has begun already stands at
    /// its only cut, and its end is known.
    pub(super) fn run(&self, mine: &[usize], begun: Option<Watched>) -> Result<JobResult, Error> {
        let progress = || self.report_progress();
        let lives = self.lives(&progress);
        let mut result = JobResult {
            results: Vec::new(),
            state_hash: None,
            interrupted: false,
        };
        let one_cut = begun.is_some();
        let mut watched = match begun {
            Some(watched) => watched,
            None => Watched::first(self.request, self.prepared, self.bug)?,
        };
        let progress = |_: &Machine| self.report_progress();
        for &index in mine {
            if self.first_failure.load(Ordering::Relaxed) < index {
                return Ok(result);
            }
            if !watched.go_to(self.cycles[index], self.observer, progress)? {
                result.interrupted = true;
                return Ok(result);
            }
            let Watched {
                machine,
                golden,
                follower,
            } = &mut watched;
            let at = self.cycles[index];
            let cut = panics::told(Some(at), || self.cut(&lives, machine, golden, index));
            let Some(mut cut) = cut? else {
                result.interrupted = true;
                return Ok(result);
            };
            if let Some(follower) = follower {
                Self::lose_primary(&lives, machine, golden, follower, &mut cut)?;
            }
            if cut.verdict.is_failure() && self.prepared.until_failure {
                self.first_failure.fetch_min(index, Ordering::Relaxed);
            }
            result.results.push((index, cut));
            self.done.fetch_add(1, Ordering::Relaxed);
            self.report_progress();
            if self.observer.interrupted() {
                result.interrupted = true;
                return Ok(result);
            }
        }
        if one_cut {
            return Ok(result);
        }
        // On to the end, where the state must be the survey's.
        let mut machine = watched.machine;
        machine.hardware.memory.trace = None;
        let end = Cycles::MAX - 1;
        match run_on(&mut machine, end, self.observer, |_, _| {}, progress)? {
            None => result.interrupted = true,
            Some(_) => result.state_hash = Some(state_hash(&machine)),
        }
        Ok(result)
    }

    fn lives<'a>(&'a self, progress: &'a dyn Fn()) -> Lives<'a> {
        Lives {
            prepared: self.prepared,
            bug: self.bug,
            uncut: &self.survey.uncut,
            check: self.prepared.check.as_ref(),
            recovery_steps: if self.request.during_recovery {
                RECOVERY_STEPS
            } else {
                0
            },
            observer: self.observer,
            progress,
        }
    }

    fn report_progress(&self) {
        let done = self.done.load(Ordering::Relaxed);
        self.observer.progress(
            done,
            self.cycles.len() as u64,
            "cuts",
            "cutting and recovering",
        );
    }

    /// One cut, with what comes after it; nothing if the user stopped it before there was a verdict.
    fn cut(
        &self,
        lives: &Lives,
        machine: &mut Machine,
        golden: &mut Golden,
        index: usize,
    ) -> Result<Option<CutResult>, Error> {
        let at = self.cycles[index];
        let tear_seed = match self.request.tear_seed {
            Some(seed) => seed,
            None => tear_seed(self.seed, at),
        };
        let generations = self.generations(index);
        let options = CutOptions {
            tear_seed,
            recovery_steps: lives.recovery_steps,
            keep_image: generations > 0,
            starts_again: self.prepared.restart.is_some(),
            blind: self.prepared.blind,
        };
        let phase = machine.design.phase();
        let location = symbol_of(machine, machine.location().0);
        let judged = verify::cut(machine, golden, at, options);
        self.leave_pools(machine, at, tear_seed)?;
        let mut token = self.token(at, tear_seed, generations);
        let mut result = CutResult {
            cycle: at,
            recovered_epoch: judged.recovered_epoch,
            replica_epoch: None,
            resumed: false,
            verdict: judged.verdict,
            message: judged.message,
            token: String::new(),
            phase,
            location,
            cost: judged.cost,
            torn: judged.writes_in_flight,
            lost: judged.writes_lost,
            without: judged.without,
            saved_bytes: judged.saved_bytes,
            recovery_cuts: judged.recovery_cuts,
            lives: vec![Life {
                cycle: at,
                tear_seed,
                recovered_epoch: judged.recovered_epoch,
                judged_by_epoch: judged.judged_by_epoch,
                verdict: judged.verdict,
            }],
            generations,
            restarts: Vec::new(),
            depends_on_timing: false,
            explanation: None,
            resumed_output: None,
            resumed_cycles: None,
        };
        if let Some(image) = judged.image {
            let sequel = self.sequel(lives, machine, golden, image, &result)?;
            if sequel.stopped {
                return Ok(None);
            }
            token.later_cuts.clone_from(&sequel.later_cuts);
            result.take(sequel, self.request.at.is_some());
        }
        result.token = token.encode();
        Ok(Some(result))
    }

    /// The lives after a cut: of the program that goes on, or of one that is started again.
    fn sequel(
        &self,
        lives: &Lives,
        machine: &mut Machine,
        golden: &Golden,
        image: Image,
        cut: &CutResult,
    ) -> Result<Sequel, Error> {
        let plan = Plan {
            generations: cut.generations,
            later_cuts: &self.request.later_cuts,
        };
        let first = &cut.lives[0];
        match &self.prepared.restart {
            Some(restart) => {
                let left = Left::of(machine, image.memory);
                lives.start_again(restart, left, first, &plan)
            }
            None if machine.facts().recovery.resumes() => {
                lives.go_on(machine, golden, image, first, &plan)
            }
            None => Ok(Sequel::default()),
        }
    }

    fn leave_pools(&self, machine: &mut Machine, at: Cycles, tear_seed: u64) -> Result<(), Error> {
        if let Some(folder) = &self.prepared.folder
            && let Some(survived) = pools::Survived::cut(machine, at, tear_seed)?
        {
            folder.put(&survived)?;
        }
        Ok(())
    }

    /// How often the power is cut in a row, each time in the machine that has come back; 0 if nobody
    /// goes on after this cut.
    fn generations(&self, index: usize) -> u32 {
        if self.prepared.restart.is_some() {
            let nested = if self.request.during_recovery {
                NESTED_GENERATIONS
            } else {
                1
            };
            return self.request.generations.unwrap_or(nested);
        }
        match (self.resumes.get(&index), self.request.generations) {
            (None, _) => 0,
            (Some(_), Some(generations)) => generations,
            (Some(true), None) => GENERATIONS,
            (Some(false), None) => 1,
        }
    }

    fn token(&self, at: Cycles, tear_seed: u64, generations: u32) -> Token {
        let request = Request {
            resume: match generations {
                _ if self.prepared.restart.is_some() => None,
                0 => Some(Resume::None),
                _ => Some(Resume::All),
            },
            generations: (generations > 1).then_some(generations),
            ..self.request.clone()
        };
        Token::of(request, self.prepared, (at, tear_seed), self.reads())
    }

    /// Digests of what the run reads of its host; as far as it has come, unless all is known from before.
    fn reads(&self) -> Reads {
        match &self.request.reads {
            Some((before, _)) if self.prepared.until_cut => before.clone(),
            _ => self.survey.named.reads.clone(),
        }
    }

    /// The primary is lost at a cut, after any of the bytes that it had sent: the replica must hold an
    /// epoch as it was, no newer than the primary's own recovery finds. Where the cut is resumed, the
    /// replica gets the rest and is resumed, too.
    fn lose_primary(
        lives: &Lives,
        machine: &Machine,
        golden: &Golden,
        follower: &mut Follower,
        result: &mut CutResult,
    ) -> Result<(), Error> {
        follower.follow(machine)?;
        let cut = result.lives[0].clone();
        let mut random = Random::new(cut.tear_seed ^ 0x0072_6570_6c69_6361);
        // Half of the time between two records, where little is missing and all of it matters.
        let ends = follower.record_ends();
        let came = if ends.is_empty() || random.below(2) == 0 {
            random.below(follower.on_the_way() as u64 + 1) as usize
        } else {
            ends[random.below(ends.len() as u64) as usize]
        };
        follower.receive(came)?;
        let held = follower.holds();
        result.replica_epoch = held.map(|(epoch, _)| epoch);
        let wrong = held.and_then(|(epoch, digest)| {
            if result
                .recovered_epoch
                .is_some_and(|recovered| epoch > recovered)
            {
                return Some(format!("holds epoch {epoch}, which the primary lost"));
            }
            let as_it_was = golden.digest(epoch) == Some(digest);
            (!as_it_was).then(|| format!("holds memory that is not as at the end of epoch {epoch}"))
        });
        let wrong = wrong.filter(|_| lives.prepared.blind != Some(Blind::Replica));
        if let (Some(wrong), Verdict::Verified) = (wrong, result.verdict) {
            result.verdict = Verdict::ReplicaDiffers;
            result.message = Some(format!("the replica {wrong}"));
        }
        if !result.resumed || result.verdict != Verdict::Verified {
            return Ok(());
        }
        follower.receive(follower.on_the_way())?;
        if let Some((epoch, _)) = follower.holds() {
            let memory = follower.memory();
            let sequel = lives.go_on_from_replica(machine, memory, epoch, &cut)?;
            result.depends_on_timing |= sequel.depends_on_timing;
            if let Some((_, difference)) = sequel.failure {
                result.verdict = Verdict::ReplicaDiffers;
                result.message = Some(format!("the replica, {difference}"));
            }
        }
        Ok(())
    }
}

/// What torn writes leave by a cut of a campaign with that seed.
pub fn tear_seed(seed: u64, at: Cycles) -> u64 {
    Random::new(seed ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bits()
}
