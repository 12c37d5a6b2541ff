//! Promises that can be run: an oracle watches a run, and judges what recovery brings back after a power
//! cut of it.
//!
//! An oracle is made for one run and one *scope*: all of the machine's memory, or a part of it that the
//! promise is about (a pool's). It sees the golden trace (the ends of epochs, who stored and who saw what in
//! which order, and memory as the program sees it) and, at a cut, what the outside knows; it judges the
//! recovered image. Whether a machine then goes on in that image or the next program begins in it makes no
//! difference here: a promise to programs that are started anew names no epoch, and what the next program
//! finds is judged where it ends.
//!
//! Always true here:
//! - An oracle knows the run by its [`Witness`] alone, and nothing that is part of the run knows of it.
//! - The same run and evidence get the same judgement.

mod causal_cut;
mod epoch_prefix;
mod nothing;
mod ppo;
mod strand_groups;
mod wraps;

use std::fmt::Debug;
use std::io;
use std::ops::Range;

use perdure_hardware::arena::{Arena, Digest};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::physical_map::PhysicalMap;
use perdure_hardware::policy::Policy;
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;

pub use causal_cut::CausalCut;
pub use epoch_prefix::EpochPrefix;
pub use nothing::Nothing;
pub use ppo::PartitionedPersistOrdering;
pub use strand_groups::StrandGroups;
pub use wraps::Wraps;

use crate::design::Recovered;
use crate::layout::Layout;
use crate::surviving::Interrupted;

/// The run, as its program sees memory now.
pub struct Witness<'a> {
    /// The substrate.
    pub hardware: &'a Hardware,
    /// The design, for lines that are not at their home addresses.
    pub design: &'a dyn Policy,
    /// The memory that the promise is about.
    pub range: Range<u64>,
}

impl Witness<'_> {
    /// A line's newest bytes.
    pub fn line(&self, line: LineNumber) -> Line {
        self.hardware.peek(self.design, line)
    }

    /// The digest of all memory in the range.
    pub fn digest(&self) -> Digest {
        self.hardware.coherent_digest(self.design, &self.range)
    }

    /// A whole copy of memory.
    pub fn image(&self) -> io::Result<Arena> {
        let mut image = self.hardware.memory.arena.clone();
        (self.hardware).newer_lines(self.design, &mut |line, newest| {
            image.write(line * LINE_BYTES as u64, &newest.0);
        });
        Ok(image)
    }
}

/// What an oracle is to remember of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remember {
    /// What it needs to judge.
    Digests,
    /// Every byte, as of the end of this epoch; it will not be asked to judge.
    Image(u64),
}

/// Where a run begins.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    /// Memory is as at the end of this epoch.
    pub epoch: u64,
    /// The epoch that executes.
    pub executing: u64,
    /// Sharing groups.
    pub groups: usize,
}

/// What there is to judge after a cut.
pub struct Evidence<'a> {
    /// What recovery says, or why it refused.
    pub recovered: &'a Result<Recovered, Interrupted>,
    /// Memory as recovery left it.
    pub image: &'a Arena,
    /// Its digest over the range of the promise.
    pub memory: Digest,
    /// When the power was cut.
    pub at: Cycles,
    /// The newest epoch that the design had announced.
    pub announced: u64,
    /// The newest epoch of which the outside had seen something.
    pub seen: u64,
    /// The first thing that left as an epoch's and was written after its end.
    pub early: Option<&'a str>,
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Recovery refused the image.
    Refused,
    /// Something is part of the state without what it follows from.
    Causality,
    /// The state is older than what was announced or seen.
    Age,
    /// Something left too early.
    Stamps,
    /// Memory is not what it should be.
    Memory,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// What.
    pub fault: Fault,
    /// The epoch that memory should be compared with.
    pub judged_by_epoch: u64,
    /// In words.
    pub message: String,
}

/// What is there without something that came before it, where nobody may have promised otherwise: an
/// example of each, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Without {
    /// What it had loaded.
    pub loaded: Option<String>,
    /// What its thread had done before.
    pub before: Option<String>,
}

/// What an oracle says of a recovered image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The epoch that came back, where the promise is about epochs and one did.
    pub epoch: Option<u64>,
    /// What came back, in words, where no epoch says it.
    pub found: Option<String>,
    /// What is missing of what came before what is there.
    pub without: Without,
    /// All that is wrong, the gravest first.
    pub breaches: Vec<Breach>,
}

impl Judgement {
    /// Recovery refused, or did not say what it had to.
    pub fn refused(why: String, judged_by_epoch: u64) -> Self {
        Self {
            breaches: vec![Breach {
                fault: Fault::Refused,
                judged_by_epoch,
                message: why,
            }],
            ..Self::default()
        }
    }
}

/// What a recovered state may be. It is its own oracle.
pub trait Promise: Oracle + Sized + 'static {
    /// What reports call it.
    const NAME: &'static str;
    /// Whether a breach is a broken promise; else it is a loss that nobody has promised to prevent.
    const BINDS: bool = true;
    /// Whether its oracle has to hear of loads in its scope ([`Hardware::hear_loads`]).
    const HEARS_LOADS: bool = false;

    /// The memory that it is about, of a machine with that map and layout: all that a machine resumes with,
    /// or a part of a pool.
    fn scope(_map: &PhysicalMap, layout: &Layout) -> Range<u64> {
        layout.protected()
    }

    /// The oracle of a run that begins now.
    fn begin(run: &Witness, beginning: Beginning, remember: Remember) -> io::Result<Self>;
}

/// A promise that watches a run.
pub trait Oracle: Debug + Send {
    /// Whether it has to see the trace.
    fn wants_trace(&self) -> bool {
        false
    }

    /// What was traced since the last time, in its order.
    fn follow(&mut self, _run: &Witness, _events: Vec<Traced>) {}

    /// An epoch has just ended; nothing has run since.
    fn epoch_ended(&mut self, _run: &Witness, _epoch: u64) {}

    /// Judges what recovery brought back.
    fn judge(&self, evidence: &Evidence) -> Judgement;

    /// The lines that are wrong, each with what it should be, in order; where no epoch's image says it.
    fn wrong_lines(&self, _evidence: &Evidence) -> Option<Vec<(LineNumber, Line)>> {
        None
    }

    /// The newest epoch whose end it has seen.
    fn newest(&self) -> u64 {
        0
    }

    /// What memory was at the end of an epoch, if that is known.
    fn memory(&self, _epoch: u64) -> Option<Digest> {
        None
    }

    /// Whether a recovery that was cut and begun again says what the first one said.
    fn converged(&self, first: Option<u64>, again: &Recovered) -> bool {
        first == again.epoch
    }

    /// The image that was to be remembered; of an epoch that has not ended, as of now.
    fn into_image(self: Box<Self>, run: &Witness) -> io::Result<Arena> {
        run.image()
    }
}

/// Something that is wrong from a moment on, whatever is found after a cut.
type Wrong = (Cycles, Fault, String);

/// What of that is wrong when the power is cut.
fn breaches_until(at: Cycles, wrong: &[Wrong]) -> Vec<Breach> {
    let until = wrong.iter().filter(|(from, ..)| *from <= at);
    let breach = until.map(|(_, fault, message)| Breach {
        fault: *fault,
        judged_by_epoch: 0,
        message: message.clone(),
    });
    breach.collect()
}

/// Where recovery named an epoch: breaches that do not depend on which memory should have come back.
fn breaches_of(epoch: u64, evidence: &Evidence, announced: u64) -> Vec<Breach> {
    let seen = evidence.seen;
    let mut breaches = Vec::new();
    if epoch < announced.max(seen) {
        let message = if epoch < seen {
            format!("recovered epoch {epoch}, but the outside has seen output of epoch {seen}")
        } else {
            format!("recovered epoch {epoch}, but epoch {announced} was announced")
        };
        breaches.push(Breach {
            fault: Fault::Age,
            judged_by_epoch: announced.max(seen),
            message,
        });
    }
    if let Some(early) = evidence.early {
        breaches.push(Breach {
            fault: Fault::Stamps,
            judged_by_epoch: epoch,
            message: early.to_owned(),
        });
    }
    breaches
}

/// The epoch that recovery says came back; else the judgement on that.
fn recovered_epoch(evidence: &Evidence, newest: u64) -> Result<u64, Judgement> {
    let refused = |why: String| Judgement::refused(why, newest);
    let recovered = (evidence.recovered.as_ref()).map_err(|why| refused(why.to_string()))?;
    (recovered.epoch).ok_or_else(|| refused("recovery names no epoch".into()))
}

/// Memory that is not the epoch's, if it is not.
fn wrong_memory(epoch: u64, should: Option<Digest>, is: Digest) -> Option<Breach> {
    (should != Some(is)).then(|| Breach {
        fault: Fault::Memory,
        judged_by_epoch: epoch,
        message: format!("memory is not as it was at the end of epoch {epoch}"),
    })
}
