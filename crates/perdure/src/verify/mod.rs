//! Judging a power cut: the golden epochs, the cut itself, recovery on what survived, the verdict.
//!
//! The verifier stands outside the machine. It takes the digest of memory as the program sees it at
//! every epoch's end (contexts and kernel state are part of that memory), and after a cut compares
//! it with the digest of what recovery brought back. Nothing else ever sees a golden digest. A cut
//! works on the machine's own NVM bytes, and puts them back afterwards: the run goes on, uncut.

use std::ops::Range;

use perdure_designs::oracle::{Beginning, Evidence, Fault, Oracle, Remember, Without, Witness};
use perdure_designs::surviving::{Corruption, Interrupted, Journal, Surviving};
use perdure_designs::{Epochs, Recovered};
use perdure_hardware::arena::{Arena, Digest};
use perdure_hardware::recovery_clock::RecoveryClock;
use perdure_hardware::time::Cycles;

use crate::cost::CutCost;
use crate::error::Error;
use crate::machine::{Image, Machine, Noted, Pause};
use crate::mistakes::{Blind, Mistake};
use crate::outside::Receipt;

mod again;
mod devices;
mod difference;
mod verdict;

pub use difference::{Against, Images, images, overwrite};
pub use verdict::Verdict;

/// What is known of a run that may be cut: its promise's oracle, and what has left it.
#[derive(Debug)]
pub struct Golden {
    range: Range<u64>,
    oracle: Box<dyn Oracle>,
    /// A breach is a broken promise.
    binds: bool,
    /// What had been written to streams by the ends of epochs.
    written: Vec<(u64, Vec<[u64; 2]>)>,
    /// The first thing that left as an epoch's and was written later.
    early: Option<String>,
    /// Memory for a recovery to write its journal to.
    journal: Journal,
    /// The same for one whose power fails, and for the one that follows that.
    others: [Journal; 2],
}

/// A machine, as an oracle sees it.
fn witness(machine: &Machine) -> Witness<'_> {
    Witness {
        hardware: &machine.hardware,
        design: &*machine.design,
        range: scope(machine),
    }
}

/// The memory that a machine's promise is about.
fn scope(machine: &Machine) -> Range<u64> {
    (machine.facts().promise.scope)(machine.hardware.memory.map(), &machine.layout)
}

/// The oracle of a machine whose state is that of `epoch`.
fn oracle_of(
    machine: &mut Machine,
    epoch: u64,
    remember: Remember,
) -> Result<Box<dyn Oracle>, Error> {
    let beginning = Beginning {
        epoch,
        executing: machine.executing_epoch(),
        groups: machine.hardware.groups.len(),
    };
    let promise = &machine.facts().promise;
    let begun = (promise.begin)(&witness(machine), beginning, remember);
    let oracle = begun.map_err(copying)?;
    if promise.hears_loads {
        let range = scope(machine);
        machine.hardware.hear_loads(range);
    }
    if oracle.wants_trace() {
        machine.hardware.memory.trace = Some(machine.trace_threads());
    }
    Ok(oracle)
}

/// Shows an oracle what has happened since the last time.
fn show(oracle: &mut dyn Oracle, machine: &mut Machine) {
    if let Some(events) = machine.hardware.memory.trace.as_mut().map(std::mem::take) {
        oracle.follow(&witness(machine), events);
    }
}

fn copying(source: std::io::Error) -> Error {
    Error::Host {
        what: "copying an image".into(),
        source,
    }
}

impl Golden {
    /// Starts watching a machine that has just booted, or been resumed: its state is that of `epoch`.
    pub fn watch(machine: &mut Machine, epoch: u64) -> Result<Self, Error> {
        let range = scope(machine);
        machine.hardware.memory.arena.keep_digest(range.clone());
        machine.notes = Some(Vec::new());
        machine.outside.receipts = Some(Vec::new());
        machine.keep_progress(epoch);
        Ok(Self {
            range,
            oracle: oracle_of(machine, epoch, Remember::Digests)?,
            binds: machine.facts().promise.binds,
            written: vec![(epoch, machine.kernel().output_written().to_vec())],
            early: None,
            journal: Journal::default(),
            others: Default::default(),
        })
    }

    /// Takes in what was written and what has left since the last time.
    fn follow_output(&mut self, machine: &mut Machine) {
        if machine.facts().epochs == Epochs::None {
            return; // It all leaves at once.
        }
        for note in machine.notes.iter_mut().flat_map(std::mem::take) {
            match note {
                Noted::Ended { epoch, written } => self.written.push((epoch, written)),
                Noted::Held { epoch, made } if epoch < made => {
                    self.early.get_or_insert(format!(
                        "files as of epoch {made} were to leave as epoch {epoch}'s"
                    ));
                }
                Noted::Held { .. } => {}
            }
        }
        for receipt in machine.outside.receipts.iter_mut().flat_map(std::mem::take) {
            let Receipt { stream, end, epoch } = receipt;
            let sealed = self.written.partition_point(|(ended, _)| *ended < epoch);
            // One that has not ended is newer than anything that can be recovered.
            let Some((_, written)) = self.written.get(sealed) else {
                continue;
            };
            let written = written[stream.0 as usize][usize::from(stream.1 == 2)];
            if end > written {
                self.early.get_or_insert(format!(
                    "program {}, stream {}: {end} bytes have left as epoch {epoch}'s, at whose end {written} were written",
                    stream.0, stream.1
                ));
            }
        }
    }

    /// An epoch has just ended.
    pub fn record(&mut self, machine: &mut Machine, epoch: u64) {
        show(&mut *self.oracle, machine);
        self.oracle.epoch_ended(&witness(machine), epoch);
    }

    /// What the oracle says, by the gravest breach that is looked at.
    fn judge(&self, evidence: &Evidence, options: CutOptions) -> Judged {
        let CutOptions {
            blind,
            starts_again,
            ..
        } = options;
        let judgement = self.oracle.judge(evidence);
        let epoch = judgement.epoch;
        let counts = self.binds || !starts_again;
        let mut breaches = judgement.breaches.into_iter().filter(|_| counts);
        let breach = breaches.find(|breach| blind != Some(verdict_on(breach.fault).1));
        let (verdict, judged_by_epoch, message) = match breach {
            None => {
                let judged_by_epoch = epoch.unwrap_or(self.oracle.newest());
                (Verdict::Verified, judged_by_epoch, judgement.found)
            }
            Some(breach) => {
                let verdict = if self.binds {
                    verdict_on(breach.fault).0
                } else {
                    Verdict::Lost
                };
                (verdict, breach.judged_by_epoch, Some(breach.message))
            }
        };
        Judged {
            verdict,
            without: judgement.without,
            recovered_epoch: epoch,
            judged_by_epoch,
            message,
            cost: CutCost::default(),
            writes_in_flight: 0,
            writes_lost: 0,
            saved_bytes: None,
            recovery_steps: 0,
            recovery_cuts: 0,
            image: None,
        }
    }

    /// The addresses that digests are over.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// What memory was at the end of an epoch, if that is known.
    pub fn digest(&self, epoch: u64) -> Option<Digest> {
        self.oracle.memory(epoch)
    }
}

/// How to cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct CutOptions {
    /// Chooses what torn writes leave.
    pub tear_seed: u64,
    /// Cut the power again during recovery, at up to so many of its steps.
    pub recovery_steps: u64,
    /// Hand the recovered image out, for whoever goes on from it.
    pub keep_image: bool,
    /// Programs start again on what survived, and that is judged by how they end: where the design promises
    /// nothing, nothing is lost by this cut alone.
    pub starts_again: bool,
    /// A check that is left out.
    pub blind: Option<Blind>,
}

/// A cut, judged.
#[derive(Debug)]
pub struct Judged {
    /// The verdict; resuming may still change a good one.
    pub verdict: Verdict,
    /// What is missing of what came before what is there.
    pub without: Without,
    /// The epoch that came back.
    pub recovered_epoch: Option<u64>,
    /// The epoch that memory should be compared with.
    pub judged_by_epoch: u64,
    /// In words, where it is not verified; else what came back, where no epoch says it.
    pub message: Option<String>,
    /// The work that is lost, and what recovery took.
    pub cost: CutCost,
    /// Writes torn or lost.
    pub writes_in_flight: usize,
    /// Writes accepted and lost.
    pub writes_lost: usize,
    /// What modules' devices saved with what energy they have, where there is one.
    pub saved_bytes: Option<u64>,
    /// Steps that recovery took, and how many of them were cut again.
    pub recovery_steps: u64,
    /// Second cuts made.
    pub recovery_cuts: u64,
    /// The recovered image.
    pub image: Option<Image>,
}

/// Cuts the power now, at `at`, judges, and puts everything back.
pub fn cut(machine: &mut Machine, golden: &mut Golden, at: Cycles, options: CutOptions) -> Judged {
    let (recovery, design) = (machine.recovery(), machine.facts());
    // What was seen is known from the bytes' own stamps; that the design announced more counts as well.
    let (announced, seen) = (machine.announced_epoch(), machine.outside.seen_epoch);
    golden.follow_output(machine);
    show(&mut *golden.oracle, machine);
    let clock = RecoveryClock::new(&machine.hardware.specification, machine.layout.protected());
    let lost = machine.power_off(at, options.tear_seed);
    let memory = &mut machine.hardware.memory;

    let journal = std::mem::take(&mut golden.journal);
    let mut surviving = Surviving::of(memory, journal).timed(clock);
    let recovered = misnamed(machine.mistake, recovery.run(&mut surviving));
    let steps = surviving.steps();
    let recovery_cost = surviving.cost();
    let (journal, behind) = surviving.into_parts();
    let digest = memory.arena.digest().expect("the verifier keeps a digest");
    let evidence = Evidence {
        recovered: &recovered,
        image: &memory.arena,
        memory: digest,
        at,
        announced,
        seen,
        early: golden.early.as_deref(),
    };
    let mut judged = golden.judge(&evidence, options);
    if judged.verdict == Verdict::Verified && !design.recovery.resumes() {
        let found = judged.message.take();
        judged.message = found.map(|found| format!("processes are lost; {found}"));
    }
    (judged.writes_in_flight, judged.writes_lost) = (lost.writes_in_flight, lost.writes_lost);
    judged.saved_bytes = (!recovery.of_devices().is_empty()).then_some(lost.saved_bytes);
    judged.recovery_steps = steps;
    if options.keep_image && judged.verdict == Verdict::Verified {
        let memory = memory.arena.clone();
        judged.image = Some(Image { memory, behind });
    }
    let left = journal.take_back(&mut memory.arena);

    let converges = options.blind == Some(Blind::Convergence);
    if judged.verdict == Verdict::Verified && options.recovery_steps > 0 && !converges {
        let once = again::Once {
            epoch: judged.recovered_epoch,
            left: &left,
            range: &golden.range,
            steps,
            oracle: &*golden.oracle,
            recovery: &recovery,
        };
        let how = (options.recovery_steps, options.tear_seed);
        let again = again::converge(memory, &once, &mut golden.others, how);
        judged.recovery_cuts = again.cuts;
        if let Err(message) = again.result {
            judged.verdict = Verdict::NotConverged;
            judged.message = Some(message);
            judged.image = None;
        }
    }
    memory.power_back(&lost);
    golden.journal = left.forget();
    judged.cost = CutCost::of(machine, at, judged.recovered_epoch, recovery_cost);
    judged
}

/// Names another epoch, or refuses the image, where that mistake is planted.
fn misnamed(
    mistake: Option<Mistake>,
    recovered: Result<Recovered, Interrupted>,
) -> Result<Recovered, Interrupted> {
    if mistake == Some(Mistake::Refuses) {
        return Err(Interrupted::Corrupt(Corruption {
            what: "nothing is trusted",
            address: 0,
        }));
    }
    recovered.map(|Recovered { epoch }| Recovered {
        epoch: epoch.map(|epoch| match mistake {
            Some(Mistake::NamesNextEpoch) => epoch + 1,
            Some(Mistake::NamesLastEpoch) => epoch.saturating_sub(1),
            _ => epoch,
        }),
    })
}

/// The verdict on a breach, and the check that finds it.
fn verdict_on(fault: Fault) -> (Verdict, Blind) {
    match fault {
        Fault::Refused => (Verdict::RecoveryFailed, Blind::Refusal),
        Fault::Causality => (Verdict::CausalityBroken, Blind::Causality),
        Fault::Age => (Verdict::OlderThanAnnounced, Blind::Age),
        Fault::Stamps => (Verdict::ReleasedEarly, Blind::Stamps),
        Fault::Memory => (Verdict::MemoryDiffers, Blind::Digest),
    }
}

/// What came back after a cut that nobody judges.
#[derive(Debug)]
pub struct CameBack {
    /// Memory.
    pub image: Image,
    /// The epoch, if recovery knows of one.
    pub epoch: Option<u64>,
    /// The work that is lost, as far as the machine keeps its progress, and what recovery took.
    pub cost: CutCost,
}

/// Cuts the power, recovers, and returns what came back; the machine is as before.
pub fn recovered_image(machine: &mut Machine, at: Cycles, tear_seed: u64) -> Result<Image, Error> {
    let came = came_back(machine, at, tear_seed);
    came.map(|came| came.image)
        .map_err(|error| Error::Defect(error.to_string()))
}

/// The same, with what it cost; recovery may refuse what survived.
pub fn came_back(
    machine: &mut Machine,
    at: Cycles,
    tear_seed: u64,
) -> Result<CameBack, Interrupted> {
    let recovery = machine.recovery();
    let clock = RecoveryClock::new(&machine.hardware.specification, machine.layout.protected());
    let lost = machine.power_off(at, tear_seed);
    let memory = &mut machine.hardware.memory;
    let mut surviving = Surviving::of(memory, Journal::default()).timed(clock);
    let recovered = recovery.run(&mut surviving);
    let cost = surviving.cost();
    let (journal, behind) = surviving.into_parts();
    let copy = memory.arena.clone();
    journal.undo(&mut memory.arena);
    memory.power_back(&lost);
    let epoch = recovered?.epoch;
    Ok(CameBack {
        image: Image {
            memory: copy,
            behind,
        },
        epoch,
        cost: CutCost::of(machine, at, epoch, cost),
    })
}

/// Memory at the end of an epoch, for a machine that has just booted or been resumed and is run to
/// `until`: found where a whole image is wanted in place of digests.
pub fn image_of_epoch(machine: &mut Machine, epoch: u64, until: Cycles) -> Result<Arena, Error> {
    let oracle = watched_until(machine, epoch, until)?;
    // Of an epoch that had not ended, what was seen outside was as of now.
    oracle.into_image(&witness(machine)).map_err(copying)
}

/// Runs a machine that has just booted or been resumed, watched by its promise's oracle, which remembers
/// memory at the end of that epoch.
pub fn watched_until(
    machine: &mut Machine,
    epoch: u64,
    until: Cycles,
) -> Result<Box<dyn Oracle>, Error> {
    let state = machine.executing_epoch().saturating_sub(1);
    let mut oracle = oracle_of(machine, state, Remember::Image(epoch))?;
    while let Pause::EpochEnded(ended) = machine.run(until)? {
        show(&mut *oracle, machine);
        oracle.epoch_ended(&witness(machine), ended);
    }
    show(&mut *oracle, machine);
    Ok(oracle)
}
