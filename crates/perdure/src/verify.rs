//! Judging a power cut: the golden epochs, the cut itself, recovery on what survived, the verdict.
//!
//! The verifier stands outside the machine. It takes the digest of memory as the program sees it at
//! every epoch's end (contexts and kernel state are part of that memory), and after a cut compares
//! it with the digest of what recovery brought back. Nothing else ever sees a golden digest. A cut
//! works on the machine's own NVM bytes, and puts them back afterwards: the run goes on, uncut.

use std::ops::Range;

use perdure_designs::surviving::{Corruption, Interrupted, Journal, Surviving};
use perdure_designs::{Design, Promise, Recovered};
use perdure_hardware::arena::{Arena, Digest, PAGE_BYTES};
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::memory::Tear;
use perdure_hardware::random::Random;
use perdure_hardware::recovery_clock::RecoveryClock;
use perdure_hardware::time::Cycles;
use serde::{Serialize, Serializer};

use crate::causal::Causal;
use crate::cost::CutCost;
use crate::error::Error;
use crate::machine::{Image, Machine, Noted, Pause};
use crate::mistakes::{Blind, Mistake};
use crate::outside::Receipt;

/// What was found out about one cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The promise held.
    Verified,
    /// The design promises nothing (`ideal`), and memory is not as at the end of any epoch that is new
    /// enough.
    Lost,
    /// Memory or a context is not as at the end of the recovered epoch.
    MemoryDiffers,
    /// A sharing group went on after it had seen something of a newer epoch than its own.
    CausalityBroken,
    /// The recovered epoch is older than one that the design has announced, or that sealed something
    /// that the outside has seen.
    OlderThanAnnounced,
    /// Something left as an epoch's that was written after its end.
    ReleasedEarly,
    /// Recovery refused the surviving image.
    RecoveryFailed,
    /// Power failed during recovery, and the next recovery ended elsewhere.
    NotConverged,
    /// The recovered state could not be resumed.
    NotResumable,
    /// With `--replica`: a replica of the primary that was cut holds no epoch as it was, or cannot go on
    /// from it.
    ReplicaDiffers,
    /// The resumed machine could not go on, or sent something again with other content.
    OutputDiffers,
    /// The checker refused what the resumed run left behind.
    CheckFailed,
    /// The resumed machine holds other memory than was recovered, or does not end as the machine that was
    /// cut would have, had it gone on.
    ResumeDiffers,
}

impl Verdict {
    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Lost => "lost",
            Self::MemoryDiffers => "memory-differs",
            Self::CausalityBroken => "causality-broken",
            Self::OlderThanAnnounced => "older-than-announced",
            Self::ReleasedEarly => "released-early",
            Self::RecoveryFailed => "recovery-failed",
            Self::NotConverged => "not-converged",
            Self::NotResumable => "not-resumable",
            Self::ReplicaDiffers => "replica-differs",
            Self::OutputDiffers => "output-differs",
            Self::CheckFailed => "check-failed",
            Self::ResumeDiffers => "resume-differs",
        }
    }

    /// True where a promise was broken.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Verified | Self::Lost)
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What memory was at the ends of epochs.
#[derive(Debug)]
pub struct Golden {
    range: Range<u64>,
    epochs: Vec<(u64, Digest)>,
    /// In place of `epochs`, where each sharing group has its own.
    causal: Option<Causal>,
    /// What had been written to streams by the ends of epochs.
    written: Vec<(u64, Vec<[u64; 2]>)>,
    /// The first thing that left as an epoch's and was written later.
    early: Option<String>,
    /// Memory for recoveries to write their journals to: one, and one for a second recovery.
    journals: [Journal; 2],
}

impl Golden {
    /// Starts watching a machine that has just booted, or been resumed: its state is that of `epoch`.
    pub fn watch<D: Design>(machine: &mut Machine<D>, epoch: u64) -> Self {
        let range = machine.layout.protected();
        machine.hardware.memory.arena.keep_digest(range.clone());
        let start = machine.hardware.memory.arena.digest().unwrap_or_default();
        let causal = D::PROMISE == Promise::CausalCut;
        machine.notes = Some(Vec::new());
        machine.outside.receipts = Some(Vec::new());
        machine.keep_progress(epoch);
        let mut golden = Self {
            range,
            epochs: Vec::new(),
            causal: causal.then(|| Causal::watch(machine, start)),
            written: vec![(epoch, machine.kernel().output_written().to_vec())],
            early: None,
            journals: Default::default(),
        };
        golden.record(machine, epoch);
        golden
    }

    /// Takes in what was written and what has left since the last time.
    fn follow_output<D: Design>(&mut self, machine: &mut Machine<D>) {
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

    /// Remembers the state at the end of an epoch: now.
    pub fn record<D: Design>(&mut self, machine: &mut Machine<D>, epoch: u64) {
        if let Some(causal) = &mut self.causal {
            return causal.follow(machine);
        }
        let digest = machine
            .hardware
            .coherent_digest(&machine.design, &self.range);
        self.epochs.push((epoch, digest));
    }

    /// The addresses that digests are over.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// What memory was at the end of an epoch, if that is known.
    pub fn digest(&self, epoch: u64) -> Option<Digest> {
        if let Some(causal) = &self.causal {
            return causal.digest(epoch);
        }
        self.epochs
            .iter()
            .rev()
            .find(|(known, _)| *known == epoch)
            .map(|(_, digest)| *digest)
    }

    /// The newest epoch with this digest.
    fn epoch(&self, digest: Digest) -> Option<u64> {
        self.epochs
            .iter()
            .rev()
            .find(|(_, known)| *known == digest)
            .map(|(epoch, _)| *epoch)
    }

    /// The newest epoch.
    pub fn newest(&self) -> u64 {
        self.epochs.last().map_or(0, |(epoch, _)| *epoch)
    }
}

/// How to cut.
#[derive(Clone, Copy, Debug)]
pub struct CutOptions {
    /// Chooses what torn writes leave.
    pub tear_seed: u64,
    /// Cut the power again during recovery, at up to so many of its steps.
    pub recovery_steps: u64,
    /// Hand the recovered image out, for resuming.
    pub keep_image: bool,
}

/// A cut, judged.
#[derive(Debug)]
pub struct Judged {
    /// The verdict; resuming may still change a good one.
    pub verdict: Verdict,
    /// The epoch that came back.
    pub recovered_epoch: Option<u64>,
    /// The epoch that memory should be compared with.
    pub judged_by_epoch: u64,
    /// In words, where it is not verified.
    pub message: Option<String>,
    /// The work that is lost, and what recovery took.
    pub cost: CutCost,
    /// Writes torn or lost.
    pub writes_in_flight: usize,
    /// Writes accepted and lost.
    pub writes_lost: usize,
    /// Steps that recovery took, and how many of them were cut again.
    pub recovery_steps: u64,
    /// Second cuts made.
    pub recovery_cuts: u64,
    /// The recovered image.
    pub image: Option<Image>,
}

/// Cuts the power now, at `at`, judges, and puts everything back.
pub fn cut<D: Design>(
    machine: &mut Machine<D>,
    golden: &mut Golden,
    at: Cycles,
    options: CutOptions,
) -> Judged {
    let bug = machine.planted_bug();
    // What was seen is known from the bytes' own stamps; that the design announced more counts as well.
    let announced = match D::PROMISE {
        Promise::EpochPrefix | Promise::CausalCut => machine.design.announced_epoch(),
        Promise::Nothing => 0,
    };
    let announced = [announced, machine.outside.seen_epoch];
    golden.follow_output(machine);
    if let Some(causal) = &mut golden.causal {
        causal.follow(machine);
    }
    let clock = RecoveryClock::new(&machine.hardware.specification, machine.layout.protected());
    let lost = machine.power_off(at, options.tear_seed);
    let memory = &mut machine.hardware.memory;

    let [first_journal, second_journal] = std::mem::take(&mut golden.journals);
    let mut surviving = Surviving::with_journal(&mut memory.arena, first_journal).timed(clock);
    let recovered = misnamed(machine.mistake, D::recover(&mut surviving, bug));
    let steps = surviving.steps();
    let recovery = surviving.cost();
    let (journal, behind) = surviving.into_parts();
    let digest = memory.arena.digest().expect("the verifier keeps a digest");
    let mut judged = judge::<D>(golden, recovered, digest, announced, machine.blind);
    if D::PROMISE == Promise::Nothing && judged.verdict != Verdict::Verified {
        judged.verdict = Verdict::Lost;
    }
    judged.writes_in_flight = lost.writes_in_flight;
    judged.writes_lost = lost.writes_lost;
    judged.recovery_steps = steps;
    if options.keep_image && judged.verdict == Verdict::Verified {
        let memory = memory.arena.duplicate().ok();
        judged.image = memory.map(|memory| Image { memory, behind });
    }
    let mut journals = [journal.undo(&mut memory.arena), second_journal];

    let converges = machine.blind == Some(Blind::Convergence);
    if judged.verdict == Verdict::Verified && options.recovery_steps > 0 && !converges {
        let expected = (judged.recovered_epoch, digest);
        for step in chosen_steps(steps, options.recovery_steps, options.tear_seed) {
            judged.recovery_cuts += 1;
            let seed = options.tear_seed ^ step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if let Err(message) = recover_twice::<D>(
                &mut memory.arena,
                &mut journals,
                step,
                Tear::new(seed),
                bug,
                expected,
            ) {
                judged.verdict = Verdict::NotConverged;
                judged.message = Some(message);
                judged.image = None;
                break;
            }
        }
    }
    memory.power_back(&lost);
    golden.journals = journals;
    judged.cost = CutCost::of(machine, at, judged.recovered_epoch, recovery);
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
        epoch: match mistake {
            Some(Mistake::NamesNextEpoch) => epoch + 1,
            Some(Mistake::NamesLastEpoch) => epoch.saturating_sub(1),
            _ => epoch,
        },
    })
}

fn judge<D: Design>(
    golden: &Golden,
    recovered: Result<Recovered, Interrupted>,
    digest: Digest,
    [announced, seen]: [u64; 2],
    blind: Option<Blind>,
) -> Judged {
    let looks = |check: Blind| blind != Some(check);
    let (verdict, recovered_epoch, judged_by_epoch, message) = match recovered {
        Err(_) if !looks(Blind::Refusal) => (Verdict::Verified, None, golden.newest(), None),
        Err(error) => (
            Verdict::RecoveryFailed,
            None,
            golden.newest(),
            Some(error.to_string()),
        ),
        Ok(recovered) => {
            let epoch = match D::PROMISE {
                Promise::EpochPrefix | Promise::CausalCut => Some(recovered.epoch),
                // Nothing says which epoch this should be; any will do.
                Promise::Nothing => golden.epoch(digest),
            };
            let broken = golden.causal.as_ref().and_then(Causal::broken);
            match epoch {
                Some(epoch) if broken.is_some() && looks(Blind::Causality) => (
                    Verdict::CausalityBroken,
                    Some(epoch),
                    epoch,
                    broken.map(ToOwned::to_owned),
                ),
                Some(epoch) if epoch < announced.max(seen) && looks(Blind::Age) => (
                    Verdict::OlderThanAnnounced,
                    Some(epoch),
                    announced.max(seen),
                    Some(if epoch < seen {
                        format!(
                            "recovered epoch {epoch}, but the outside has seen output of epoch {seen}"
                        )
                    } else {
                        format!("recovered epoch {epoch}, but epoch {announced} was announced")
                    }),
                ),
                Some(epoch) if golden.early.is_some() && looks(Blind::Stamps) => (
                    Verdict::ReleasedEarly,
                    Some(epoch),
                    epoch,
                    golden.early.clone(),
                ),
                Some(epoch) if golden.digest(epoch) == Some(digest) || !looks(Blind::Digest) => {
                    (Verdict::Verified, Some(epoch), epoch, None)
                }
                Some(epoch) => (
                    Verdict::MemoryDiffers,
                    Some(epoch),
                    epoch,
                    Some(format!(
                        "memory is not as it was at the end of epoch {epoch}"
                    )),
                ),
                None => (
                    Verdict::MemoryDiffers,
                    None,
                    golden.newest(),
                    Some("memory is not as it was at the end of any epoch".into()),
                ),
            }
        }
    };
    Judged {
        verdict,
        recovered_epoch,
        judged_by_epoch,
        message,
        cost: CutCost::default(),
        writes_in_flight: 0,
        writes_lost: 0,
        recovery_steps: 0,
        recovery_cuts: 0,
        image: None,
    }
}

/// All steps if they are few; else the last ones, where registers change, the first, and a random
/// choice between.
fn chosen_steps(steps: u64, most: u64, seed: u64) -> Vec<u64> {
    if steps <= most {
        return (0..steps).collect();
    }
    let ends = (most / 4).max(1);
    let mut chosen: Vec<u64> = (0..ends).chain(steps - ends..steps).collect();
    let mut random = Random::new(seed);
    while (chosen.len() as u64) < most {
        chosen.push(random.below(steps));
    }
    chosen
}

/// Recovers with the power failing at one step, recovers again, and compares.
fn recover_twice<D: Design>(
    arena: &mut Arena,
    journals: &mut [Journal; 2],
    step: u64,
    tear: Tear,
    bug: Option<&'static str>,
    (epoch, digest): (Option<u64>, Digest),
) -> Result<(), String> {
    let [first, second] = std::mem::take(journals);
    let mut first = Surviving::with_journal(arena, first).failing_at(step, tear);
    let _ = D::recover(&mut first, bug);
    let (first, loaded) = first.into_parts();
    // What was in DRAM is lost again.
    for (line, bytes) in &loaded {
        arena.write_line(line * LINE_BYTES as u64, bytes);
    }
    let mut second = Surviving::with_journal(arena, second);
    let recovered = D::recover(&mut second, bug);
    let second = second.into_journal();
    let same = arena.digest() == Some(digest);
    let result = match recovered {
        Err(error) => Err(format!("cut again at recovery step {step}: {error}")),
        Ok(recovered) if D::PROMISE != Promise::Nothing && Some(recovered.epoch) != epoch => {
            Err(format!(
                "cut again at recovery step {step}: recovered epoch {} in place of {}",
                recovered.epoch,
                epoch.unwrap_or_default()
            ))
        }
        Ok(_) if !same => Err(format!("cut again at recovery step {step}: memory differs")),
        Ok(_) => Ok(()),
    };
    let second = second.undo(arena);
    *journals = [first.undo(arena), second];
    result
}

/// The first place where a recovered image is wrong.
#[derive(Clone, Debug, Serialize)]
pub struct FirstDifference {
    /// `lost`: the line is older than it should be. `mixed`: it holds a later epoch's bytes.
    pub kind: &'static str,
    /// Physical address of the line.
    pub physical_address: String,
    /// Virtual address of its first wrong byte, if a program maps it.
    pub address: Option<String>,
    /// What lies there.
    pub symbol: Option<String>,
    /// The epoch whose memory was expected.
    pub epoch: u64,
    /// The line as it should be.
    pub expected: String,
    /// The line as it came back.
    pub found: String,
    /// How many lines differ in all.
    pub lines: u64,
}

/// How many wrong lines are searched for one with a symbol.
const NAMED_LINES: usize = 256;

/// A whole copy of memory as the program sees it.
pub fn coherent_image<D: Design>(machine: &Machine<D>) -> std::io::Result<Arena> {
    let mut image = machine.hardware.memory.arena.duplicate()?;
    machine
        .hardware
        .newer_lines(&machine.design, &mut |line, newest| {
            image.write(line * LINE_BYTES as u64, &newest.0);
        });
    Ok(image)
}

/// Cuts the power, recovers, and returns what came back; the machine is as before.
pub fn recovered_image<D: Design>(
    machine: &mut Machine<D>,
    at: Cycles,
    tear_seed: u64,
) -> Result<Image, Error> {
    let bug = machine.planted_bug();
    let lost = machine.power_off(at, tear_seed);
    let memory = &mut machine.hardware.memory;
    let mut surviving = Surviving::new(&mut memory.arena);
    let recovered = D::recover(&mut surviving, bug);
    let (journal, behind) = surviving.into_parts();
    let copy = memory.arena.duplicate();
    journal.undo(&mut memory.arena);
    memory.power_back(&lost);
    recovered.map_err(|error| Error::Defect(error.to_string()))?;
    let memory = copy.map_err(|source| Error::Host {
        what: "copying an image".into(),
        source,
    })?;
    Ok(Image { memory, behind })
}

/// Makes a range what it is elsewhere.
pub fn overwrite(memory: &mut Arena, with: &Arena, range: &Range<u64>) {
    for address in differing_lines(memory, with, range) {
        memory.write_line(address, with.line(address));
    }
}

/// Memory at the end of an epoch, for a machine that has just booted or been resumed and is run to
/// `until`: found where a whole image is wanted in place of digests.
pub fn image_of_epoch<D: Design>(
    machine: &mut Machine<D>,
    epoch: u64,
    until: Cycles,
) -> Result<Arena, Error> {
    let host = |source| Error::Host {
        what: "copying an image".into(),
        source,
    };
    let start = coherent_image(machine).map_err(host)?;
    let first = machine.design.executing_epoch();
    if D::PROMISE == Promise::CausalCut {
        let mut causal = Causal::watch(machine, Digest::default());
        causal.keep_image(epoch, start);
        while let Pause::EpochEnded(_) = machine.run(until)? {
            causal.follow(machine);
        }
        causal.follow(machine);
        return causal
            .into_image()
            .ok_or_else(|| Error::Defect("the image was given up".into()));
    }
    let mut expected = (epoch < first).then_some(start);
    loop {
        match machine.run(until)? {
            Pause::EpochEnded(ended) if ended == epoch => {
                expected = Some(coherent_image(machine).map_err(host)?);
            }
            Pause::EpochEnded(_) => {}
            Pause::Time | Pause::Finished => break,
        }
    }
    // An epoch that had not ended: what was seen outside was as of now.
    match expected {
        Some(expected) => Ok(expected),
        None => coherent_image(machine).map_err(host),
    }
}

/// Cuts and recovers as [`cut`] does, and compares byte by byte with the image of an epoch.
pub fn first_difference<D: Design>(
    machine: &mut Machine<D>,
    expected: &Arena,
    epoch: u64,
    at: Cycles,
    tear_seed: u64,
) -> Option<FirstDifference> {
    let bug = machine.planted_bug();
    let range = machine.layout.protected();
    let newest = coherent_image(machine).ok()?;
    let lost = machine.power_off(at, tear_seed);
    let memory = &mut machine.hardware.memory;
    let mut surviving = Surviving::new(&mut memory.arena);
    let _ = D::recover(&mut surviving, bug);
    let journal = surviving.into_journal();
    let mut wrong = differing_lines(&memory.arena, expected, &range);
    wrong.sort_unstable();
    let machine_after = &*machine;
    let place_of = |address: u64| {
        let found = machine_after.hardware.memory.arena.line(address).0;
        let wanted = expected.line(address).0;
        let same = found.iter().zip(wanted).take_while(|(a, b)| *a == b);
        machine_after
            .kernel()
            .reverse_translate(address + same.count() as u64)
    };
    let symbol_at = |address: u64| {
        let (space, virtual_address) = place_of(address)?;
        let (name, offset) = machine_after.kernel().symbol(space, virtual_address)?;
        Some(format!("{name}+{offset:#x}"))
    };
    // Of the program's own lines, one with a name says most to its author.
    let frames = machine_after.layout.frames.clone();
    let mine = || {
        wrong
            .iter()
            .copied()
            .filter(|address| frames.contains(address))
    };
    let named = mine()
        .take(NAMED_LINES)
        .find(|&address| symbol_at(address).is_some());
    let first = named.or_else(|| mine().next()).or(wrong.first().copied());
    let difference = first.map(|address| {
        let found = machine_after.hardware.memory.arena.line(address).0;
        let wanted = expected.line(address).0;
        let place = place_of(address);
        let symbol = match place {
            Some(_) => symbol_at(address),
            None => Some(machine_after.layout_name(address)),
        };
        FirstDifference {
            kind: if found == newest.line(address).0 {
                "mixed"
            } else {
                "lost"
            },
            physical_address: format!("{address:#x}"),
            address: place.map(|(_, virtual_address)| format!("{virtual_address:#x}")),
            symbol,
            epoch,
            expected: hexadecimal(&wanted),
            found: hexadecimal(&found),
            lines: wrong.len() as u64,
        }
    });
    journal.undo(&mut machine.hardware.memory.arena);
    machine.hardware.memory.power_back(&lost);
    difference
}

fn hexadecimal(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes
        .chunks_exact(8)
        .map(|word| {
            format!(
                "{:016x}",
                u64::from_le_bytes(word.try_into().expect("eight bytes"))
            )
        })
        .collect();
    words.join(" ")
}

fn differing_lines(a: &Arena, b: &Arena, range: &Range<u64>) -> Vec<u64> {
    let mut pages: Vec<u64> = a.written_pages().chain(b.written_pages()).collect();
    pages.sort_unstable();
    pages.dedup();
    pages
        .into_iter()
        .filter(|&page| a.slice(page, PAGE_BYTES) != b.slice(page, PAGE_BYTES))
        .flat_map(|page| (page..page + PAGE_BYTES as u64).step_by(LINE_BYTES))
        .filter(|address| range.contains(address) && a.line(*address) != b.line(*address))
        .collect()
}
