//! What a crash-consistency design states about itself, over and above its hooks ([`Policy`]).

use std::fmt::Display;
use std::io;

use perdure_hardware::arena::Arena;
use perdure_hardware::counters::Counters;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{Line, LineNumber, Version};
use perdure_hardware::policy::Policy;
use perdure_hardware::specification::{Inclusion, Specification};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::layout::Layout;
use crate::oracle::{Beginning, Oracle, Remember, Witness};
use crate::snapshots::SnapshotSource;
use crate::surviving::{Interrupted, Surviving};

/// What a recovered state may be, by name; [`Promise::oracle`] makes the judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Memory and every context equal the program's state at the end of one committed epoch, no
    /// older than the newest one announced to the outside.
    EpochPrefix,
    /// Memory and contexts equal those of a *causal cut*: each sharing group stands at the end of one of
    /// its epochs, and nothing that is part of the cut follows, in program order or in the order of
    /// coherence, from something that isn't. No older than the newest epoch announced to the outside.
    /// For designs with [`GroupEpochs`].
    CausalCut,
    /// Nothing is promised. When cut all the same, the machine is judged by [`Self::EpochPrefix`],
    /// because the question is what an unprotected machine would lose.
    Nothing,
}

/// A realistic mistake in a design, which verification must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PlantedBug {
    /// Name for the command line.
    pub name: &'static str,
    /// What is wrong.
    pub summary: &'static str,
}

/// A design's planted bugs as one table (flaw, name, summary): `ALL` for [`Design::PLANTED_BUGS`], and
/// `Flaws` with a switch for each. A flaw says what the flawed design does, so that the code of a rule
/// names a deviation and no more; where a deviation is more than a word, it is a function of `Flaws`.
#[macro_export]
macro_rules! planted_bugs {
    ($($flaw:ident, $name:literal, $summary:literal;)*) => {
        /// How the design deviates from its rules: nowhere, or by the planted bug that is switched on.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Flaws { $(#[doc = $summary] pub $flaw: bool,)* }

        /// For the command line.
        pub const ALL: &[$crate::design::PlantedBug] = &[$($crate::design::PlantedBug { name: $name, summary: $summary },)*];

        impl Flaws {
            /// With the planted bug of that name, if it is one of these.
            pub fn of(bug: Option<&str>) -> Self {
                Self { $($flaw: bug == Some($name),)* }
            }
        }
    };
}

/// An event that a design schedules for now when it has run out of room: the machine ends the
/// epoch at the next instruction boundary, with [`Urgency::Overflow`]. Evictions go on until then,
/// and also while the kernel finishes what it is at.
pub const END_EPOCH: u32 = 1 << 30;

/// How urgent the end of an epoch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// The epoch's length was reached.
    Routine,
    /// Somebody waits for durability (output commit).
    OutputCommit,
    /// The design asked for it ([`END_EPOCH`]).
    Overflow,
}

/// What recovery brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The epoch at whose end the recovered state stood.
    pub epoch: u64,
}

/// A design that could not be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {problem}")]
pub struct ImpossibleParameter {
    /// Configuration key.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl ImpossibleParameter {
    /// That value of that key.
    pub fn new(key: &'static str, value: impl Display, problem: impl Into<String>) -> Self {
        Self {
            key,
            value: value.to_string(),
            problem: problem.into(),
        }
    }

    /// For chains of checks: refuses the value unless it is `good`.
    pub fn unless(
        good: bool,
        key: &'static str,
        value: impl Display,
        problem: impl Into<String>,
    ) -> Result<(), Self> {
        if good {
            Ok(())
        } else {
            Err(Self::new(key, value, problem))
        }
    }
}

/// Refuses an inclusive last-level cache to a design whose tags are in the L2s.
pub(crate) fn refuse_inclusion(
    specification: &Specification,
    design: &str,
) -> Result<(), ImpossibleParameter> {
    ImpossibleParameter::unless(
        specification.llc.inclusion == Inclusion::NonInclusive,
        "llc.inclusion",
        "inclusive",
        format!(
            "{design} is for a last-level cache that is not: write \"non-inclusive\" or \"by-design\""
        ),
    )
}

/// What a design offers to the machine whose sharing groups have an epoch each, in place of one for all.
///
/// The machine ends a sharing group's epoch when it is long enough, when the sharing group is about to
/// see something of a newer epoch ([`Policy::is_ahead`]), and when the design says that it lags too far
/// behind: it saves the contexts of the sharing group's harts as of the epoch's end, then calls
/// [`Self::advance`]. The kernel's state has an epoch, too, the newest in which it was changed; whoever
/// enters the kernel first comes to the newest epoch of all, so a system call is an event that follows
/// from everything before it.
pub trait GroupEpochs {
    /// The epoch of a sharing group.
    fn epoch(&self, group: usize) -> u64;

    /// The newest of all sharing groups'.
    fn newest(&self) -> u64;

    /// The epoch that a version stands for.
    fn epoch_of(&self, version: Version) -> u64;

    /// True if a sharing group has to advance to the newest epoch now.
    fn lags(&self, group: usize) -> bool;

    /// Saves a line past the caches, as of the end of `epoch`: part of a context or of the kernel's
    /// state. Returns when the sharing group that writes it may go on.
    #[allow(
        clippy::too_many_arguments,
        reason = "one line of one epoch, by a sharing group"
    )]
    fn save(
        &mut self,
        hardware: &mut Hardware,
        group: usize,
        epoch: u64,
        line: LineNumber,
        bytes: &Line,
        now: Cycles,
    ) -> Cycles;

    /// A sharing group, whose contexts were saved, goes on in a newer epoch. Returns when it may.
    fn advance(&mut self, hardware: &mut Hardware, group: usize, epoch: u64, now: Cycles)
    -> Cycles;

    /// Somebody waits for the epochs that have ended.
    fn persist(&mut self, hardware: &mut Hardware, now: Cycles);

    /// The kernel's state as of the end of every epoch before this one is saved.
    fn kernel_advanced(&mut self, hardware: &mut Hardware, epoch: u64, now: Cycles);
}

/// A design. The epoch protocol: the machine stores every context, then calls
/// [`Design::end_epoch`]; epochs count from 1, and epoch 0 is the state before the first
/// instruction, durable from the start.
pub trait Design: Policy + Clone + Send {
    /// Name for the command line, results and the configuration section.
    const NAME: &'static str;
    /// One line.
    const SUMMARY: &'static str;
    /// What a recovered state may be.
    const PROMISE: Promise;
    /// At least eight mistakes; none for a design that promises nothing.
    const PLANTED_BUGS: &'static [PlantedBug];
    /// Settings of the design's own section (`name.key=value`) that make its rare paths common:
    /// small tables, logs and windows. `perdure mutants` tries its machines with each set in turn.
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[&[]];
    /// Output is held back until the epoch that wrote it is announced; else it leaves at once.
    const HOLDS_OUTPUT: bool = true;
    /// True if contexts are stored at epoch ends.
    const SAVES_CONTEXTS: bool;
    /// True if the design works only with a last-level cache that holds every line of the private
    /// caches: because it walks its tags, or flushes the caches by them.
    const NEEDS_INCLUSION: bool = true;
    /// How epochs are read back out of the NVM, if the design keeps such.
    const SNAPSHOTS: Option<SnapshotSource> = None;
    /// The design's section of the configuration.
    type Parameters: Serialize + DeserializeOwned + Default + Clone + Send + Sync;
    /// What the design counts for itself, over and above the hardware's [`Statistics`]; `()` if nothing.
    type Counters: Counters;

    /// Lays the design's formats out in NVM that already holds epoch `epoch` (0 at first boot, the
    /// recovered one afterwards), and starts it. `bug` is one of [`Self::PLANTED_BUGS`].
    fn start(
        parameters: &Self::Parameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter>;

    /// Prepares an NVM that holds the memory of an epoch, and nothing of the design's, for
    /// [`start`](Self::start) at that epoch: a copy that came from elsewhere. For designs with
    /// [`SNAPSHOTS`](Self::SNAPSHOTS).
    fn format(
        _parameters: &Self::Parameters,
        _layout: &Layout,
        _harts: usize,
        _arena: &mut Arena,
        epoch: u64,
    ) -> Result<(), ImpossibleParameter> {
        let problem = format!("{} keeps no copies of epochs", Self::NAME);
        Err(ImpossibleParameter::new("epoch", epoch, problem))
    }

    /// The promise, as an oracle of a run that begins now.
    fn oracle(
        run: &Witness,
        beginning: Beginning,
        remember: Remember,
    ) -> io::Result<Box<dyn Oracle>> {
        Self::PROMISE.oracle(run, beginning, remember)
    }

    /// The epoch that is executing.
    fn executing_epoch(&self) -> u64;

    /// The newest epoch whose output may leave the machine.
    fn announced_epoch(&self) -> u64;

    /// False while the design cannot take another epoch; the machine then stands still until its
    /// events have changed that.
    fn can_end_epoch(&self) -> bool {
        true
    }

    /// The executing epoch ends; all contexts have been stored. Returns when harts may go on. The
    /// call is made at one moment, but what it writes is durable at the times that the controller
    /// answers: an epoch that is durable only later is announced by an event at that time.
    fn end_epoch(&mut self, hardware: &mut Hardware, urgency: Urgency, now: Cycles) -> Cycles;

    /// The design's epochs by sharing group, if it has such: [`Self::end_epoch`] is then never called.
    fn groups(&mut self) -> Option<&mut dyn GroupEpochs> {
        None
    }

    /// What energy backup writes to the NVM when the power fails at that time: addresses and bytes.
    fn drain(&self, _at: Cycles, _write: &mut dyn FnMut(u64, &[u8])) {}

    /// Brings memory back from what survived, and leaves the image such that [`Self::start`] and
    /// another recovery both work. `bug` only for planted bugs that live in recovery.
    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted>;

    /// What the design is doing right now, for coverage and for stratified cuts.
    fn phase(&self) -> &'static str;

    /// What it has counted since it started.
    fn counters(&self) -> Self::Counters;

    /// Overflow and corner paths with how often they were taken, for coverage: by what the hardware
    /// counts, and by the design's own counters.
    fn paths(hardware: &Statistics, own: &Self::Counters) -> Vec<(&'static str, u64)>;
}
