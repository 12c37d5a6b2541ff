//! What a crash-consistency design states about itself, over and above its hooks ([`Policy`]).

use std::fmt::Display;
use std::ops::Range;

use perdure_hardware::arena::Arena;
use perdure_hardware::counters::Counters;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::policy::Policy;
use perdure_hardware::specification::{Inclusion, Specification};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::epochs::{Epochs, EpochsOf};
use crate::layout::Layout;
use crate::oracle::Promise;
use crate::snapshots::SnapshotSource;
use crate::surviving::{Interrupted, Surviving};

/// What becomes of the machine after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryMode {
    /// Memory and contexts come back as at the end of an epoch, and everything goes on from there. So
    /// contexts and the kernel's state are stored when an epoch ends, and output waits until the epoch
    /// that wrote it is announced.
    Resume,
    /// Processes are lost. What recovery brings back is memory, which programs find again when they are
    /// started anew; no context is stored, and output leaves at once.
    Restart,
}

impl RecoveryMode {
    /// True if the machine goes on.
    pub const fn resumes(self) -> bool {
        matches!(self, Self::Resume)
    }

    /// True if a design can have it with epochs of that kind: who goes on does so at the end of an epoch,
    /// and sharing groups have epochs of their own for nothing else.
    pub const fn goes_with(self, epochs: Epochs) -> bool {
        match epochs {
            Epochs::None => !self.resumes(),
            Epochs::Machine => true,
            Epochs::ByGroup => self.resumes(),
        }
    }

    /// What a design with such epochs has, unless it says otherwise.
    pub const fn usual_with(epochs: Epochs) -> Self {
        match epochs {
            Epochs::None => Self::Restart,
            Epochs::Machine | Epochs::ByGroup => Self::Resume,
        }
    }
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

/// What recovery brought back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The epoch at whose end the recovered state stood, if recovery knows of one.
    pub epoch: Option<u64>,
}

impl Recovered {
    /// The state at the end of that epoch.
    pub fn at(epoch: u64) -> Self {
        Self { epoch: Some(epoch) }
    }
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

/// The persistent region that has the pools, for a design that can work on one module alone.
pub(crate) fn only_pools(
    hardware: &Hardware,
    design: &str,
) -> Result<Range<u64>, ImpossibleParameter> {
    let map = hardware.memory.map();
    let mut pools = map.pools();
    let problem = format!(
        "{design} needs persistent memory in one piece, of one module, beside the memory of programs: take the machine spms, or give this one a [[module]] of kind dram, and no second persistent one (count=1)"
    );
    let modules = |region: &Range<u64>| map.region(region.start).map_or(0, |it| it.modules.len());
    match (pools.next(), pools.next()) {
        (Some(region), None) if modules(&region) == 1 => Ok(region),
        (region, _) => Err(ImpossibleParameter::new(
            "module",
            if region.is_some() { "several" } else { "none" },
            problem,
        )),
    }
}

/// A design.
pub trait Design: Policy + Clone + Send + 'static {
    /// Name for the command line, results and the configuration section.
    const NAME: &'static str;
    /// One line.
    const SUMMARY: &'static str;
    /// At least eight mistakes; none for a design that promises nothing.
    const PLANTED_BUGS: &'static [PlantedBug];
    /// Settings of the design's own section (`name.key=value`) that make its rare paths common:
    /// small tables, logs and windows. `perdure mutants` tries its machines with each set in turn.
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[&[]];
    /// Persistence instructions that it has, by function: their names, for people whose program meets one
    /// under another design.
    const INSTRUCTIONS: &'static [(u16, &'static str)] = &[];
    /// What becomes of the machine after a power cut.
    const RECOVERY: RecoveryMode = RecoveryMode::usual_with(Self::Epochs::WHOSE);
    /// True if the design works only with a last-level cache that holds every line of the private
    /// caches: because it walks its tags, or flushes the caches by them.
    const NEEDS_INCLUSION: bool = true;
    /// How epochs are read back out of the NVM, if the design keeps such.
    const SNAPSHOTS: Option<SnapshotSource> = None;
    /// Whether it has epochs, and whose they are.
    type Epochs: EpochsOf<Self>;
    /// What a recovered state may be: who watches a run, and judges what recovery brings back.
    type Promise: Promise;
    /// The design's section of the configuration.
    type Parameters: Serialize + DeserializeOwned + Default + Clone + Send + Sync + 'static;
    /// What the design counts for itself, over and above the hardware's [`Statistics`]; `()` if nothing.
    type Counters: Counters + 'static;

    /// Lays the design's formats out in NVM that already holds epoch `epoch` (0 at first boot, the
    /// recovered one afterwards; always 0 where there are none), and starts it. `bug` is one of
    /// [`Self::PLANTED_BUGS`].
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

    /// What programs have of the persistent region in which their pools lie; the rest is the design's.
    fn pool_data(region: &Range<u64>) -> Range<u64> {
        region.clone()
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

    /// The same with what its devices have counted, if it has some.
    fn counters_with(&self, _hardware: &Hardware) -> Self::Counters {
        self.counters()
    }

    /// What its user should hear when all programs have ended, line by line: what they seem to have
    /// forgotten.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Overflow and corner paths with how often they were taken, for coverage: by what the hardware
    /// counts, and by the design's own counters.
    fn paths(hardware: &Statistics, own: &Self::Counters) -> Vec<(&'static str, u64)>;
}
