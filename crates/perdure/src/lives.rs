//! The lives of a machine: what comes after a power cut.
//!
//! A recovered machine goes on. It may be cut and recovered again, any number of times; every life is
//! judged by a golden trace of its own, and the last one by how it ends.
//!
//! An end that is not the uncut run's is looked at twice, because a program's output may depend on
//! time: a recovered machine's caches are cold, so its time is another one. The same lives are lived
//! once more by the *golden* machine, which is never restored: at each cut it is replaced by one with
//! - the kernel and the contexts that the machine had at the end of the recovered epoch, cloned in
//!   memory ([`Machine::fork`]), so that nothing which saving or restoring loses is lost here,
//! - memory as the program saw it then, in place of what recovery made of it,
//! - everything else as the recovered machine has it: cold caches, the design's own NVM as recovery
//!   left it, the outside as it was at the cut.
//!
//! Where the design kept its promise, and saving and restoring lose nothing, both machines are equal,
//! cycle by cycle, and so are their ends: then the program's output depends on timing, and nobody is to
//! blame. Under a design whose sharing groups have an epoch each, the golden state is that of the causal
//! cut: each sharing group's contexts as it left the recovered epoch, the kernel as it was before it was
//! first changed in a newer one, and each line in its newest version that is not newer.

use perdure_hardware::arena::Arena;
use perdure_hardware::random::Random;
use perdure_hardware::time::Cycles;
use perdure_linux::HostView;
use serde_json::{Value, json};

use crate::check::Check;
use crate::error::Error;
use crate::machine::{EpochEnd, Image, Machine, Pause, Resumption};
use crate::mistakes::Blind;
use crate::observer::{Observer, run_on};
use crate::outside::Outside;
use crate::replication::restore::formatted;
use crate::request::Prepared;
use crate::verify::{self, CutOptions, Golden, Judged, Verdict};

mod again;
mod drawn;
mod end;

pub use again::{Left, Restarted};
pub(crate) use drawn::later_tear_seeds;
pub use end::{End, failure_of, status_of};

use drawn::{RESUMED, drawn};
use end::resumable;

/// One life that a power cut ended.
#[derive(Clone, Debug)]
pub struct Life {
    /// When, in its own time.
    pub cycle: Cycles,
    /// What torn writes leave.
    pub tear_seed: u64,
    /// What came back.
    pub recovered_epoch: Option<u64>,
    /// The epoch that memory should be compared with.
    pub judged_by_epoch: u64,
    /// The verdict on this cut alone.
    pub verdict: Verdict,
}

impl Life {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "cycle": self.cycle,
            "recovered_epoch": self.recovered_epoch,
            "verdict": self.verdict,
        })
    }
}

/// How an uncut run ends.
pub struct Uncut {
    /// Nothing changes any more after this.
    pub end: Cycles,
    /// What left the machine.
    pub outside: Outside,
    /// The exit status.
    pub status: Option<i32>,
    /// How the program ends that is started again after that, where one is and does.
    pub again: Option<Restarted>,
}

/// How often the power is to be cut.
pub struct Plan<'a> {
    /// So often in a row, the first cut included.
    pub generations: u32,
    /// When the later ones end, as far as that is given and not to be drawn.
    pub later_cuts: &'a [Cycles],
}

/// What came of the lives after the first.
#[derive(Default)]
pub struct Sequel {
    /// Those that were cut.
    pub lives: Vec<Life>,
    /// How those ended, left to themselves, that began by starting a program again.
    pub restarts: Vec<Restarted>,
    /// The user stopped it before there was a verdict.
    pub stopped: bool,
    /// When they were to be cut, the one that ended before included.
    pub later_cuts: Vec<Cycles>,
    /// What is wrong, and in words.
    pub failure: Option<(Verdict, String)>,
    /// The end is not the uncut run's, and the golden machine's is the same.
    pub depends_on_timing: bool,
    /// The last life's time at its end, and what it has written to standard output; nothing if the
    /// user stopped it.
    pub end: Option<(Cycles, Vec<u8>)>,
    /// Second cuts of recoveries.
    pub recovery_cuts: u64,
}

/// What all lives of a campaign have in common.
pub struct Lives<'a> {
    /// The program and the machine.
    pub prepared: &'a Prepared,
    /// The design's planted bug.
    pub bug: Option<&'static str>,
    /// What the last life's end is compared with.
    pub uncut: &'a Uncut,
    /// Who decides in its place whether an end is good.
    pub check: Option<&'a Check>,
    /// Steps of each recovery that are cut.
    pub recovery_steps: u64,
    /// Who may stop it.
    pub observer: &'a dyn Observer,
    /// Called from time to time.
    pub progress: &'a dyn Fn(),
}

impl Lives<'_> {
    /// A machine before its first instruction.
    pub fn first(&self) -> Result<Machine, Error> {
        self.prepared.boot(self.bug)
    }

    fn resumption(&self, epoch: u64, outside: Outside) -> Resumption {
        Resumption {
            epoch,
            outside,
            engine: self.prepared.engine,
            bug: self.bug,
            mistake: self.prepared.workload.mistake,
        }
    }

    /// The machine that goes on from what recovery brought back.
    pub(crate) fn next(
        &self,
        machine: &Machine,
        image: Image,
        epoch: u64,
    ) -> Result<Machine, Error> {
        let (host, outside) = world_of(machine);
        let configuration = &self.prepared.configuration;
        let resumption = self.resumption(epoch, outside);
        let mut next = Machine::resume(configuration, image, host, resumption)?;
        next.hardware.enforce_contract();
        Ok(next)
    }

    /// The lives after a cut that was verified, to the end of the last one.
    pub fn go_on(
        &self,
        machine: &Machine,
        golden: &Golden,
        image: Image,
        cut: &Life,
        plan: &Plan,
    ) -> Result<Sequel, Error> {
        let mut sequel = Sequel::default();
        let mut random = Random::new(cut.tear_seed ^ RESUMED);
        let mut left = self.uncut.end.saturating_sub(cut.cycle);
        let epoch = cut.recovered_epoch.unwrap_or_default();
        let mut current = match self.begin(machine, golden, image, epoch)? {
            Ok(next) => next,
            Err(failure) => return Ok(self.not_begun(sequel, failure)),
        };
        let mut began = epoch;
        for number in 1..plan.generations as usize {
            let start = current.time();
            let drawn = self.draw(&mut random, left);
            let at = match plan.later_cuts.get(number - 1) {
                Some(&at) => at,
                None => start.saturating_add(drawn),
            };
            left = left.saturating_sub(at.saturating_sub(start));
            sequel.later_cuts.push(at);
            let mut golden = Golden::watch(&mut current, began)?;
            let watch = |machine: &mut Machine, epoch| golden.record(machine, epoch);
            let progress = |_: &Machine| (self.progress)();
            match run_on(&mut current, at, self.observer, watch, progress) {
                Ok(Some(Pause::Time)) => {}
                // It ended before the power went.
                Ok(Some(_)) => break,
                Ok(None) => return Ok(sequel),
                Err(error) => match failure_of(error)? {
                    End::Hangs(_) => break,
                    other => return Ok(sequel.failing((Verdict::OutputDiffers, other.words()))),
                },
            }
            let judged = self.cut(&mut current, &mut golden, (at, random.bits()), &mut sequel);
            let (Some(image), Some(epoch)) = (judged.image, judged.recovered_epoch) else {
                let why = judged.message.unwrap_or_default();
                let message = format!("life {}, cut at cycle {at}: {why}", number + 1);
                return Ok(sequel.failing((judged.verdict, message)));
            };
            current = match self.begin(&current, &golden, image, epoch)? {
                Ok(next) => next,
                Err(failure) => return Ok(self.not_begun(sequel, failure)),
            };
            began = epoch;
        }
        let mut all = vec![cut.clone()];
        all.extend(sequel.lives.iter().cloned());
        self.judge_end(&mut current, sequel, || self.golden(&all))
    }

    /// Goes on from a replica's memory, as of the end of an epoch, after a cut that lost the primary.
    pub fn go_on_from_replica(
        &self,
        machine: &Machine,
        memory: Arena,
        epoch: u64,
        cut: &Life,
    ) -> Result<Sequel, Error> {
        let sequel = Sequel::default();
        let (host, outside) = world_of(machine);
        let configuration = &self.prepared.configuration;
        let image = formatted(configuration, memory, epoch)?;
        let resumption = self.resumption(epoch, outside);
        let next = Machine::resume(configuration, image, host, resumption);
        match resumable(next)? {
            Err(why) => Ok(sequel.failing((Verdict::NotResumable, why))),
            Ok(mut next) => {
                next.hardware.enforce_contract();
                self.judge_end(&mut next, sequel, || {
                    let mut machine = self.first()?;
                    machine.keep_epoch_end(epoch);
                    let memory = verify::image_of_epoch(&mut machine, epoch, cut.cycle)?;
                    let image = formatted(configuration, memory, epoch)?;
                    let end = machine.epoch_end.take();
                    let (_, outside) = world_of(&machine);
                    let resumption = Resumption {
                        // The judge's own machine makes no mistakes.
                        mistake: None,
                        ..self.resumption(epoch, outside)
                    };
                    Machine::fork(configuration, image, end.unwrap_or_default(), resumption)
                })
            }
        }
    }

    /// How long the next life is to be, where so much of the program is left: half of them any part
    /// of that, the others rather short, because what a resume carries over is used first.
    fn draw(&self, random: &mut Random, left: Cycles) -> Cycles {
        drawn(random, left.max(self.uncut.end / 64))
    }

    /// Cuts a life after the first, and judges that.
    fn cut(
        &self,
        machine: &mut Machine,
        golden: &mut Golden,
        (at, tear_seed): (Cycles, u64),
        sequel: &mut Sequel,
    ) -> Judged {
        let options = CutOptions {
            tear_seed,
            recovery_steps: self.recovery_steps,
            keep_image: true,
            starts_again: self.prepared.restart.is_some(),
            blind: None, // A judge that is blind is so at the first cut.
        };
        let judged = verify::cut(machine, golden, at, options);
        sequel.recovery_cuts += judged.recovery_cuts;
        sequel.lives.push(Life {
            cycle: at,
            tear_seed,
            recovered_epoch: judged.recovered_epoch,
            judged_by_epoch: judged.judged_by_epoch,
            verdict: judged.verdict,
        });
        judged
    }

    /// True unless this check is switched off.
    fn looks(&self, check: Blind) -> bool {
        self.prepared.blind != Some(check)
    }

    /// What came of lives of which the next one did not begin.
    fn not_begun(&self, sequel: Sequel, failure: (Verdict, String)) -> Sequel {
        if failure.0 == Verdict::NotResumable && !self.looks(Blind::Resumption) {
            return sequel;
        }
        sequel.failing(failure)
    }

    /// Lets the next life begin; what is wrong with it from the first.
    fn begin(
        &self,
        machine: &Machine,
        golden: &Golden,
        image: Image,
        epoch: u64,
    ) -> Result<Result<Machine, (Verdict, String)>, Error> {
        let next = match resumable(self.next(machine, image, epoch))? {
            Ok(next) => next,
            Err(why) => return Ok(Err((Verdict::NotResumable, why))),
        };
        let found = (next.hardware).coherent_digest(&*next.design, &golden.range());
        if golden.digest(epoch) != Some(found) && self.looks(Blind::Carried) {
            let message = format!("the machine goes on with other memory than epoch {epoch}'s");
            return Ok(Err((Verdict::ResumeDiffers, message)));
        }
        Ok(Ok(next))
    }

    /// Runs the last life to its end and judges that, if need be beside the golden machine.
    fn judge_end(
        &self,
        last: &mut Machine,
        mut sequel: Sequel,
        golden: impl FnOnce() -> Result<Machine, Error>,
    ) -> Result<Sequel, Error> {
        let end = self.run_to_end(last)?;
        let words = end.words();
        let broken =
            |message: String| (Verdict::OutputDiffers, format!("after resuming: {message}"));
        let difference = match &end {
            End::Stopped => return Ok(sequel),
            End::Broken(message) => return Ok(sequel.failing(broken(message.clone()))),
            End::Hangs(message) => Some(message.clone()),
            End::Finished => self.difference(last),
        };
        sequel.end = Some((last.time(), last.outside.stream(0, 1)));
        if !self.looks(Blind::Repetition) {
            last.outside.contradiction = None;
        }
        if let Some(contradiction) = &last.outside.contradiction {
            return Ok(sequel.failing(broken(contradiction.clone())));
        }
        if let (Some(check), End::Finished) = (self.check, &end) {
            if let Some(wrong) = check.run(&last.outside, status_of(last))? {
                return Ok(sequel.failing((Verdict::CheckFailed, wrong)));
            }
            return Ok(sequel);
        }
        let Some(difference) = difference else {
            return Ok(sequel);
        };
        let mut golden = match golden() {
            Err(Error::Defect(_)) if self.bug.is_some() => {
                let message =
                    format!("after resuming: {difference}; without the bug, no epoch ends so");
                return Ok(sequel.failing((Verdict::ResumeDiffers, message)));
            }
            golden => golden?,
        };
        golden.hardware.enforce_contract();
        let golden_end = self.run_to_end(&mut golden)?;
        let same = !self.looks(Blind::Timing)
            || golden_end.words() == words
                && status_of(&golden) == status_of(last)
                && last.outside.difference(&golden.outside).is_none();
        if let End::Stopped = golden_end {
            sequel.end = None;
        } else if same {
            sequel.depends_on_timing = true;
        } else {
            let message = format!(
                "after resuming: {difference}; from the same epoch, without saving and restoring, the program does not end so"
            );
            return Ok(sequel.failing((Verdict::ResumeDiffers, message)));
        }
        Ok(sequel)
    }

    /// What differs between the end of a run and that of the uncut one, in words.
    pub fn difference(&self, ended: &Machine) -> Option<String> {
        let (mine, theirs) = (status_of(ended), self.uncut.status);
        if mine != theirs && self.looks(Blind::Status) {
            let number = |status: Option<i32>| status.unwrap_or(-1);
            return Some(format!(
                "exit status {} in place of {}",
                number(mine),
                number(theirs)
            ));
        }
        let difference = ended.outside.difference(&self.uncut.outside);
        difference.filter(|_| self.looks(Blind::Output))
    }

    fn run_to_end(&self, machine: &mut Machine) -> Result<End, Error> {
        // Nobody compares memory any more.
        machine.forget_onlookers();
        // A resumed run may be slower, its caches are cold; it may not run on for ever.
        let patience = self.uncut.end.saturating_mul(4);
        let patience = patience.saturating_add(1_000_000_000);
        let progress = |_: &Machine| (self.progress)();
        Ok(
            match run_on(machine, patience, self.observer, |_, _| {}, progress) {
                Ok(None) => End::Stopped,
                Ok(Some(Pause::Finished)) => End::Finished,
                Ok(Some(_)) => End::Hangs(format!(
                    "the resumed run had not ended after {patience} cycles"
                )),
                Err(error) => failure_of(error)?,
            },
        )
    }

    /// The machine that the life after these cuts begins as, recovered and restored at each of them.
    pub fn restored(&self, cuts: &[Life]) -> Result<Machine, Error> {
        let mut machine = self.first()?;
        for cut in cuts {
            while let Pause::EpochEnded(_) = machine.run(cut.cycle)? {}
            let image = verify::recovered_image(&mut machine, cut.cycle, cut.tear_seed)?;
            let epoch = cut.recovered_epoch.unwrap_or_default();
            machine = self.next(&machine, image, epoch)?;
        }
        Ok(machine)
    }

    /// The same machine, golden: never saved and restored.
    fn golden(&self, cuts: &[Life]) -> Result<Machine, Error> {
        // A planted bug or mistake would make the golden machine hand out the same wrong bytes.
        let mut prepared = self.prepared.clone();
        prepared.workload.mistake = None;
        let sound = Lives {
            bug: None,
            prepared: &prepared,
            ..*self
        };
        let mut machine = sound.first()?;
        let mut began: Option<(u64, EpochEnd)> = None;
        for cut in cuts {
            let epoch = cut.recovered_epoch.unwrap_or_default();
            let known = began.take().filter(|(known, _)| *known == epoch);
            let (image, end) = golden_state(&mut machine, epoch, cut, known.map(|(_, end)| end))?;
            let (_, outside) = world_of(&machine);
            let configuration = &self.prepared.configuration;
            let resumption = sound.resumption(epoch, outside);
            machine = Machine::fork(configuration, image, end.clone(), resumption)?;
            machine.hardware.enforce_contract();
            began = Some((epoch, end));
        }
        Ok(machine)
    }
}

/// Runs a machine from its beginning to a cut. Returns its golden state of the recovered epoch's end,
/// and beside the golden memory what recovery left of the design's. `known` is what the machine began
/// with, if it is that epoch.
fn golden_state(
    machine: &mut Machine,
    epoch: u64,
    cut: &Life,
    known: Option<EpochEnd>,
) -> Result<(Image, EpochEnd), Error> {
    if known.is_none() {
        machine.keep_epoch_end(epoch);
    }
    let memory = verify::image_of_epoch(machine, epoch, cut.cycle)?;
    let mut image = verify::recovered_image(machine, cut.cycle, cut.tear_seed)?;
    verify::overwrite(&mut image.memory, &memory, &machine.layout.protected());
    let end = known.or_else(|| machine.epoch_end.take());
    let end = end.ok_or_else(|| Error::Defect("an epoch's end was not kept".into()))?;
    Ok((image, end))
}

impl Sequel {
    fn failing(mut self, failure: (Verdict, String)) -> Self {
        self.failure = Some(failure);
        self
    }
}

/// What a machine that goes on in another's place finds: the same host, and an outside that has seen
/// what it has seen.
pub fn world_of(machine: &Machine) -> (HostView, Outside) {
    let outside = Outside {
        forward: None,
        receipts: None,
        ..machine.outside.clone()
    };
    (machine.kernel().host_view(), outside)
}
