//! A campaign of power cuts: survey, schedule, cut, judge, resume.
//!
//! 1. The *survey* runs the program once, uncut: its output is the golden output, its length bounds
//!    the schedule, and it notes when design states and persistence events occurred.
//! 2. The *schedule* chooses the cycles.
//! 3. *Cutting* runs the program again, pausing at each chosen cycle; the state hash at its end must
//!    equal the survey's, which makes every campaign a determinism check too. Several jobs cut
//!    disjoint subsets of the same schedule; results do not depend on how many there are.
//! 4. *Resuming* boots a machine from a recovered image and lets it live on ([`crate::lives`]): to the
//!    end, or to the next cut.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use perdure_designs::Design;
use perdure_hardware::random::Random;
use perdure_hardware::time::Cycles;
use serde_json::{Map, Value, json};

use crate::api::Observer;
use crate::cost::{self, CutCost};
use crate::error::Error;
use crate::lives::{Life, Lives, Plan, Sequel, Uncut};
use crate::machine::{Machine, Pause};
use crate::mistakes::Blind;
use crate::reads;
use crate::replication::follower::Follower;
use crate::report::{state_hash, symbol_of};
use crate::request::{Prepared, Request, Resume, Schedule};
use crate::token::{BUILD, Token};
use crate::verify::{self, CutOptions, FirstDifference, Golden, Verdict, first_difference};

/// Cuts of the power during one recovery, at most.
const RECOVERY_STEPS: u64 = 32;

/// Failures that are looked at byte by byte until one shows a difference.
const EXPLANATIONS: usize = 5;

/// How often in a row the power is cut, for a share of those cuts that are resumed.
const GENERATIONS: u32 = 3;

/// How far a run goes between two looks at the observer.
const STRIDE: Cycles = 20_000_000;

/// Cuts that `every-event` makes at most, unless told otherwise.
const MOST_EVENTS: usize = 200_000;

/// Where the design was, and where the program, at some time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    time: Cycles,
    phase: &'static str,
    pc: u64,
}

/// What the survey found.
pub struct Survey {
    /// What its end is compared with.
    pub uncut: Uncut,
    state_hash: String,
    samples: Vec<Sample>,
    events: Vec<Cycles>,
    /// What the run has read of the host.
    pub named: reads::Named,
}

/// One cut's result.
pub struct CutResult {
    cycle: Cycles,
    recovered_epoch: Option<u64>,
    replica_epoch: Option<u64>,
    resumed: bool,
    /// The verdict.
    pub verdict: Verdict,
    message: Option<String>,
    /// For replay.
    pub token: String,
    phase: &'static str,
    location: Option<String>,
    cost: CutCost,
    torn: usize,
    lost: usize,
    recovery_cuts: u64,
    /// The lives that were cut, this cut's first.
    lives: Vec<Life>,
    generations: u32,
    depends_on_timing: bool,
    first_difference: Option<FirstDifference>,
    resumed_output: Option<Vec<u8>>,
    resumed_cycles: Option<u64>,
}

/// A finished campaign.
pub struct Campaign {
    /// In order of cycles.
    pub results: Vec<CutResult>,
    paths: Vec<(&'static str, u64)>,
    survey: Survey,
    /// The user stopped it.
    pub interrupted: bool,
    deterministic: bool,
}

/// Runs the whole campaign of a request.
pub fn run<D: Design>(
    request: &Request,
    prepared: &Prepared,
    bug: Option<&'static str>,
    observer: &dyn Observer,
) -> Result<Campaign, Error> {
    let schedule = request.schedule.unwrap_or(Schedule::Random);
    let survey = survey::<D>(prepared, bug, schedule, request.at, observer)?;
    if let Some((before, same_build)) = &request.reads
        && let Some(difference) = survey.named.difference(before, *same_build)
    {
        return Err(Error::Request(format!(
            "since the token was made, what the program reads is another: {difference}"
        )));
    }
    let seed = request.seed.unwrap_or(1);
    let cycles = choose(request, schedule, &survey, seed)?;
    let resumes = resumed_indices(request, cycles.len(), seed);
    let jobs = request.jobs.unwrap_or(1).clamp(1, cycles.len().max(1));
    let done = AtomicU64::new(0);
    let first_failure = AtomicUsize::new(usize::MAX);
    let job = |job: usize| {
        let mine: Vec<usize> = (job..cycles.len()).step_by(jobs).collect();
        let cutter = Cutter {
            request,
            prepared,
            bug,
            survey: &survey,
            cycles: &cycles,
            resumes: &resumes,
            seed,
            done: &done,
            first_failure: &first_failure,
            observer,
        };
        cutter.run::<D>(&mine)
    };
    let finished: Vec<Result<JobResult, Error>> = if jobs == 1 {
        vec![job(0)]
    } else {
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..jobs)
                .map(|index| {
                    std::thread::Builder::new()
                        .stack_size(16 << 20)
                        .spawn_scoped(scope, move || job(index))
                })
                .collect();
            handles
                .into_iter()
                .map(|handle| match handle {
                    Ok(handle) => handle
                        .join()
                        .unwrap_or_else(|_| Err(Error::Defect("a cutting thread failed".into()))),
                    Err(source) => Err(Error::Host {
                        what: "starting a thread (--jobs)".into(),
                        source,
                    }),
                })
                .collect()
        })
    };
    let mut results = Vec::new();
    let mut interrupted = false;
    let mut deterministic = true;
    let mut paths = Vec::new();
    for one in finished {
        let one = one?;
        results.extend(one.results);
        interrupted |= one.interrupted;
        deterministic &= one.state_hash.is_none_or(|hash| hash == survey.state_hash);
        paths = if paths.is_empty() { one.paths } else { paths };
    }
    results.sort_by_key(|(index, _)| *index);
    let first_failure = first_failure.into_inner();
    results.retain(|(index, _)| *index <= first_failure);
    let mut results: Vec<CutResult> = results.into_iter().map(|(_, result)| result).collect();
    let blind = prepared.workload.blind;
    if !deterministic && blind != Some(Blind::Determinism) {
        return Err(Error::Defect(
            "two runs of the same program ended in different states".into(),
        ));
    }
    // A byte-by-byte comparison explains the first failure that has one; the others have tokens.
    let explicable = results.iter_mut().filter(|one| {
        matches!(
            one.verdict,
            Verdict::Lost
                | Verdict::MemoryDiffers
                | Verdict::NotConverged
                | Verdict::OlderThanAnnounced
        )
    });
    let lives = Lives {
        prepared,
        bug,
        uncut: &survey.uncut,
        check: None,
        recovery_steps: 0,
        observer,
        progress: &|| (),
    };
    let explained = if prepared.until_failure {
        0
    } else {
        EXPLANATIONS
    };
    for failed in explicable.take(explained) {
        failed.first_difference = explain::<D>(&lives, failed)?;
        if failed.first_difference.is_some() {
            break;
        }
    }
    Ok(Campaign {
        results,
        paths,
        survey,
        interrupted,
        deterministic,
    })
}

/// Runs to the end or until the observer asks to stop. True if it got there.
pub(crate) fn run_on<D: Design>(
    machine: &mut Machine<D>,
    until: Cycles,
    observer: &dyn Observer,
    mut at_epoch: impl FnMut(&mut Machine<D>, u64),
    mut at_stride: impl FnMut(&Machine<D>),
) -> Result<Option<Pause>, Error> {
    let mut length = STRIDE;
    let mut stride = machine.time().saturating_add(length);
    loop {
        match machine.run(until.min(stride))? {
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

pub(crate) fn survey<D: Design>(
    prepared: &Prepared,
    bug: Option<&'static str>,
    schedule: Schedule,
    at: Option<Cycles>,
    observer: &dyn Observer,
) -> Result<Survey, Error> {
    let mut machine = Machine::<D>::boot(
        &prepared.configuration,
        &prepared.workload,
        prepared.engine,
        bug,
    )?;
    machine.hardware.enforce_contract();
    let mut samples = Vec::new();
    let wants_events =
        matches!(schedule, Schedule::EveryEvent | Schedule::NearEvents) && at.is_none();
    if wants_events {
        machine.hardware.memory.persistence_times = Some(Vec::new());
    }
    if schedule == Schedule::Stratified && at.is_none() {
        let mut interval = 1000;
        let mut next = interval;
        machine.phase_changes = Some(Vec::new());
        loop {
            match machine.run(next)? {
                Pause::Finished => break,
                Pause::EpochEnded(_) => {}
                Pause::Time => {
                    samples.push(Sample {
                        time: next,
                        phase: machine.design.phase(),
                        pc: machine.location().0,
                    });
                    if samples.len() >= 16_384 {
                        // Twice as far apart from here on, and back to here.
                        let mut keep = false;
                        samples.retain(|_| {
                            keep = !keep;
                            keep
                        });
                        interval *= 2;
                    }
                    next += interval;
                    if observer.interrupted() {
                        return Err(Error::Request("interrupted during the survey".into()));
                    }
                }
            }
        }
        let changes = machine.phase_changes.take().unwrap_or_default();
        samples.extend(
            changes
                .into_iter()
                .map(|(time, phase, pc)| Sample { time, phase, pc }),
        );
        samples.sort_by_key(|sample| sample.time);
    } else {
        let progress = |machine: &Machine<D>| {
            observer.progress(
                machine.retired(),
                0,
                "instructions",
                "survey: the uncut run",
            );
        };
        if run_on(&mut machine, Cycles::MAX - 1, observer, |_, _| {}, progress)?.is_none() {
            return Err(Error::Request(
                "interrupted during the survey; nothing was cut yet".into(),
            ));
        }
    }
    let mut events = machine
        .hardware
        .memory
        .persistence_times
        .take()
        .unwrap_or_default();
    events.sort_unstable();
    events.dedup();
    let end = machine.time().max(machine.hardware.memory.quiet_at());
    events.retain(|&time| time > 0 && time <= end);
    Ok(Survey {
        named: reads::Named::of(&machine.kernel().host_view()),
        state_hash: state_hash(&machine),
        uncut: Uncut {
            end,
            status: machine.ended().map(|ended| ended.report.status),
            outside: machine.outside,
        },
        samples,
        events,
    })
}

fn choose(
    request: &Request,
    schedule: Schedule,
    survey: &Survey,
    seed: u64,
) -> Result<Vec<Cycles>, Error> {
    if let Some(at) = request.at {
        if at > survey.uncut.end {
            return Err(Error::Request(format!(
                "--at {at}: beyond the end of the run, which is at cycle {}",
                survey.uncut.end
            )));
        }
        return Ok(vec![at]);
    }
    let cuts = request.cuts.unwrap_or(100);
    if cuts == 0 && schedule != Schedule::EveryEvent {
        return Err(Error::Request("--cuts 0: must be at least 1".into()));
    }
    let mut random = Random::new(seed);
    let mut cycles = match schedule {
        Schedule::Random => (0..cuts)
            .map(|_| 1 + random.below(survey.uncut.end))
            .collect(),
        Schedule::NearEvents if !survey.events.is_empty() => {
            let events = &survey.events;
            let near = |random: &mut Random| {
                let event = events[random.below(events.len() as u64) as usize];
                (event + random.below(3)).saturating_sub(1)
            };
            let moments = (0..cuts).map(|_| near(&mut random).clamp(1, survey.uncut.end));
            moments.collect()
        }
        Schedule::NearEvents => (0..cuts)
            .map(|_| 1 + random.below(survey.uncut.end))
            .collect(),
        Schedule::EveryEvent => {
            let most = request.cuts.map_or(MOST_EVENTS, |cuts| cuts as usize);
            if survey.events.len() > most {
                return Err(Error::Request(format!(
                    "--schedule every-event: this run has {} distinct persistence events, more than {most}; shorten the run, raise --cuts, or take stratified or random",
                    survey.events.len()
                )));
            }
            survey.events.clone()
        }
        Schedule::Stratified => stratified(survey, cuts, &mut random),
    };
    cycles.sort_unstable();
    Ok(cycles)
}

/// Round-robin over the strata (design state × 4 KiB code page), a random moment in each.
fn stratified(survey: &Survey, cuts: u64, random: &mut Random) -> Vec<Cycles> {
    let mut strata: BTreeMap<(&str, u64), Vec<(Cycles, Cycles)>> = BTreeMap::new();
    for (index, sample) in survey.samples.iter().enumerate() {
        let end = survey
            .samples
            .get(index + 1)
            .map_or(survey.uncut.end, |next| next.time);
        let length = end.saturating_sub(sample.time).max(1);
        strata
            .entry((sample.phase, sample.pc >> 12))
            .or_default()
            .push((sample.time, length));
    }
    let strata: Vec<_> = strata.into_values().collect();
    if strata.is_empty() {
        return (0..cuts)
            .map(|_| 1 + random.below(survey.uncut.end))
            .collect();
    }
    (0..cuts as usize)
        .map(|index| {
            let stratum = &strata[index % strata.len()];
            let (start, length) = stratum[random.below(stratum.len() as u64) as usize];
            (start + random.below(length)).clamp(1, survey.uncut.end)
        })
        .collect()
}

/// Which cuts are resumed, and which of these are cut again in their later lives by default: every
/// second one.
fn resumed_indices(request: &Request, cuts: usize, seed: u64) -> BTreeMap<usize, bool> {
    if request.stop_after.is_some() || request.is_measured() {
        return BTreeMap::new();
    }
    let resumed: Vec<usize> = match request.resume.unwrap_or(Resume::Sample) {
        Resume::None => Vec::new(),
        Resume::All => (0..cuts).collect(),
        Resume::Sample => {
            let wanted = (cuts / 20).max(5).min(cuts);
            let mut random = Random::new(seed ^ 0x7265_7375_6d65);
            // One from each of `wanted` equal parts of the schedule.
            (0..wanted)
                .map(|part| {
                    let (start, end) = (part * cuts / wanted, (part + 1) * cuts / wanted);
                    start + random.below((end - start) as u64) as usize
                })
                .collect()
        }
    };
    (resumed.into_iter().enumerate())
        .map(|(place, index)| (index, place % 2 == 1))
        .collect()
}

struct JobResult {
    results: Vec<(usize, CutResult)>,
    paths: Vec<(&'static str, u64)>,
    state_hash: Option<String>,
    interrupted: bool,
}

struct Cutter<'a> {
    request: &'a Request,
    prepared: &'a Prepared,
    bug: Option<&'static str>,
    survey: &'a Survey,
    cycles: &'a [Cycles],
    resumes: &'a BTreeMap<usize, bool>,
    seed: u64,
    done: &'a AtomicU64,
    /// The lowest cut that has failed, if cuts after it are of no interest.
    first_failure: &'a AtomicUsize,
    observer: &'a dyn Observer,
}

impl Cutter<'_> {
    fn run<D: Design>(&self, mine: &[usize]) -> Result<JobResult, Error> {
        let progress = || self.report_progress();
        let lives = Lives {
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
            progress: &progress,
        };
        let mut machine = lives.first::<D>()?;
        let mut golden = Golden::watch(&mut machine, 0);
        let mut follower = if self.request.replica {
            Some(Follower::start(self.prepared, &machine, golden.range())?)
        } else {
            None
        };
        let mut result = JobResult {
            results: Vec::new(),
            paths: Vec::new(),
            state_hash: None,
            interrupted: false,
        };
        let progress = |_: &Machine<D>| self.report_progress();
        for &index in mine {
            if self.first_failure.load(Ordering::Relaxed) < index {
                return Ok(result);
            }
            let at = self.cycles[index];
            let mut followed = Ok(());
            let watch = |machine: &mut Machine<D>, epoch| {
                golden.record(machine, epoch);
                if let (Some(follower), true) = (&mut follower, followed.is_ok()) {
                    followed = follower.follow(machine);
                }
            };
            let Some(_) = run_on(&mut machine, at, self.observer, watch, progress)? else {
                result.interrupted = true;
                return Ok(result);
            };
            followed?;
            let mut cut = self.cut(&lives, &mut machine, &mut golden, index)?;
            if let Some(follower) = &mut follower {
                Self::lose_primary(&lives, &machine, &golden, follower, &mut cut)?;
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
        // On to the end, where the state must be the survey's.
        machine.hardware.trace = None;
        let watch = |_: &mut Machine<D>, _| {};
        match run_on(
            &mut machine,
            Cycles::MAX - 1,
            self.observer,
            watch,
            progress,
        )? {
            None => result.interrupted = true,
            Some(_) => result.state_hash = Some(state_hash(&machine)),
        }
        result.paths = D::paths(&machine.statistics());
        Ok(result)
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

    fn cut<D: Design>(
        &self,
        lives: &Lives,
        machine: &mut Machine<D>,
        golden: &mut Golden,
        index: usize,
    ) -> Result<CutResult, Error> {
        let at = self.cycles[index];
        let tear_seed = match self.request.tear_seed {
            Some(seed) => seed,
            None => Random::new(self.seed ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bits(),
        };
        let generations = self.generations(index);
        let options = CutOptions {
            tear_seed,
            recovery_steps: lives.recovery_steps,
            keep_image: generations > 0,
        };
        let phase = machine.design.phase();
        let location = symbol_of(machine, machine.location().0);
        let judged = verify::cut(machine, golden, at, options);
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
            recovery_cuts: judged.recovery_cuts,
            lives: vec![Life {
                cycle: at,
                tear_seed,
                recovered_epoch: judged.recovered_epoch,
                judged_by_epoch: judged.judged_by_epoch,
                verdict: judged.verdict,
            }],
            generations,
            depends_on_timing: false,
            first_difference: None,
            resumed_output: None,
            resumed_cycles: None,
        };
        if let Some(image) = judged.image
            && D::SAVES_CONTEXTS
        {
            let plan = Plan {
                generations,
                later_cuts: &self.request.later_cuts,
            };
            let sequel = lives.go_on(machine, golden, image, &result.lives[0], &plan)?;
            token.later_cuts.clone_from(&sequel.later_cuts);
            result.take(sequel, self.request.at.is_some());
        }
        result.token = token.encode();
        Ok(result)
    }

    /// How often the power is cut in a row, each time in the machine that has come back; 0 if nobody
    /// goes on after this cut.
    fn generations(&self, index: usize) -> u32 {
        match (self.resumes.get(&index), self.request.generations) {
            (None, _) => 0,
            (Some(_), Some(generations)) => generations,
            (Some(true), None) => GENERATIONS,
            (Some(false), None) => 1,
        }
    }

    fn token(&self, at: Cycles, tear_seed: u64, generations: u32) -> Token {
        Token {
            request: Request {
                resume: Some(if generations > 0 {
                    Resume::All
                } else {
                    Resume::None
                }),
                generations: (generations > 1).then_some(generations),
                ..self.request.clone()
            },
            at,
            tear_seed,
            later_cuts: Vec::new(),
            checked: self.prepared.check.is_some(),
            config_hash: self.prepared.configuration.hash(),
            given: self.prepared.digests(),
            reads: self.survey.named.reads.clone(),
            build: BUILD.into(),
        }
    }

    /// The primary is lost at a cut, after any of the bytes that it had sent: the replica must hold an
    /// epoch as it was, no newer than the primary's own recovery finds. Where the cut is resumed, the
    /// replica gets the rest and is resumed, too.
    fn lose_primary<D: Design>(
        lives: &Lives,
        machine: &Machine<D>,
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
        let wrong = wrong.filter(|_| lives.prepared.workload.blind != Some(Blind::Replica));
        if let (Some(wrong), Verdict::Verified) = (wrong, result.verdict) {
            result.verdict = Verdict::ReplicaDiffers;
            result.message = Some(format!("the replica {wrong}"));
        }
        if !result.resumed || result.verdict != Verdict::Verified {
            return Ok(());
        }
        follower.receive(follower.on_the_way())?;
        if let Some((epoch, _)) = follower.holds() {
            let host = |source| Error::Host {
                what: "copying a replica".into(),
                source,
            };
            let memory = follower.memory().map_err(host)?;
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

/// Runs once more to the last cut of a result, this time with a whole image of the epoch it is judged
/// by.
fn explain<D: Design>(lives: &Lives, failed: &CutResult) -> Result<Option<FirstDifference>, Error> {
    let Some((cut, before)) = failed.lives.split_last() else {
        return Ok(None);
    };
    let mut machine = lives.restored::<D>(before)?;
    let epoch = cut.judged_by_epoch;
    let expected = verify::image_of_epoch(&mut machine, epoch, cut.cycle)?;
    Ok(first_difference(
        &mut machine,
        &expected,
        epoch,
        cut.cycle,
        cut.tear_seed,
    ))
}

impl Campaign {
    fn count(&self, counts: impl Fn(Verdict) -> bool) -> usize {
        let verdicts = self.results.iter().map(|one| one.verdict);
        verdicts.filter(|&verdict| counts(verdict)).count()
    }

    /// Cuts that were verified.
    pub fn verified(&self) -> usize {
        self.count(|verdict| verdict == Verdict::Verified)
    }

    /// Cuts at which something was lost that nobody had promised to keep.
    pub fn lost(&self) -> usize {
        self.count(|verdict| verdict == Verdict::Lost)
    }

    /// Cuts at which a promise was broken.
    pub fn failed(&self) -> usize {
        self.count(Verdict::is_failure)
    }

    /// As JSON.
    pub fn to_json(&self, prepared: &Prepared) -> Map<String, Value> {
        let results: Vec<Value> = self.results.iter().map(CutResult::to_json).collect();
        let count = |key: fn(&CutResult) -> Option<&str>| {
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            for name in self.results.iter().filter_map(key) {
                *counts.entry(name).or_default() += 1;
            }
            counts
        };
        let sum = |value: fn(&CutResult) -> u64| self.results.iter().map(value).sum::<u64>();
        let costs: Vec<CutCost> = self.results.iter().map(|one| one.cost).collect();
        let paths: BTreeMap<_, _> = self.paths.iter().copied().collect();
        let value = json!({
            "build": BUILD,
            "design": prepared.configuration.design,
            "machine": prepared.configuration.machine,
            "config_hash": prepared.configuration.hash(),
            "state_hash": self.survey.state_hash,
            "exit_code": self.survey.uncut.status,
            "interrupted": self.interrupted,
            "deterministic": self.deterministic,
            "run_cycles": self.survey.uncut.end,
            "cuts": self.results.len(),
            "verified": self.verified(),
            "lost": self.lost(),
            "failed": self.failed(),
            "resumed": self.results.iter().filter(|one| one.resumed).count(),
            "depends_on_timing": self.results.iter().filter(|one| one.depends_on_timing).count(),
            "checked": prepared.check.is_some(),
            "generations": self.results.iter().map(|one| one.generations).max(),
            "coverage": {
                "design_states": count(|one| Some(one.phase)),
                "locations": count(|one| one.location.as_deref()),
                "paths": paths,
                "cuts_with_torn_writes": sum(|one| u64::from(one.torn > 0)),
                "cuts_with_lost_writes": sum(|one| u64::from(one.lost > 0)),
                "cuts_during_recovery": sum(|one| one.recovery_cuts),
                "cuts_of_later_lives": sum(|one| one.lives.len() as u64 - 1),
            },
            "cut_cost": cost::summary(&costs),
            "results": results,
        });
        let Value::Object(map) = value else {
            unreachable!("built as an object")
        };
        map
    }
}

impl CutResult {
    /// Takes in what came of the lives after the first.
    fn take(&mut self, sequel: Sequel, keep_output: bool) {
        self.resumed = sequel.end.is_some() || sequel.failure.is_some();
        self.lives.extend(sequel.lives);
        self.recovery_cuts += sequel.recovery_cuts;
        self.depends_on_timing = sequel.depends_on_timing;
        if let Some((verdict, message)) = sequel.failure {
            self.verdict = verdict;
            self.message = Some(message);
        }
        if let Some((cycles, output)) = sequel.end {
            self.resumed_cycles = Some(cycles);
            self.resumed_output = keep_output.then_some(output);
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let output = self
            .resumed_output
            .as_ref()
            .map(|bytes| String::from_utf8_lossy(bytes));
        let mut value = json!({
            "cycle": self.cycle,
            "recovered_epoch": self.recovered_epoch,
            "resumed": self.resumed,
            "verdict": self.verdict,
            "token": self.token,
            "design_state": self.phase,
            "location": self.location,
            "writes_in_flight": self.torn,
            "writes_lost": self.lost,
            "cuts_during_recovery": self.recovery_cuts,
        });
        if let Value::Object(result) = &mut value {
            result.extend(self.cost.to_json());
        }
        let lives = (self.generations > 1).then(|| self.lives.iter().map(Life::to_json).collect());
        let timing = self.depends_on_timing.then_some(Value::Bool(true));
        for (key, optional) in [
            ("lives", lives),
            ("depends_on_timing", timing),
            (
                "replica_epoch",
                self.replica_epoch.map(|epoch| json!(epoch)),
            ),
            ("message", self.message.as_ref().map(|text| json!(text))),
            (
                "first_difference",
                self.first_difference.as_ref().map(|one| json!(one)),
            ),
            ("resumed_output", output.map(|text| json!(text))),
            (
                "resumed_cycles",
                self.resumed_cycles.map(|cycles| json!(cycles)),
            ),
        ] {
            if let Some(present) = optional {
                value[key] = present;
            }
        }
        value
    }
}
