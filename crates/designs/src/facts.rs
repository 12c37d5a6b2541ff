//! Designs as values: what one states about itself, and one that runs, whichever it is. Machines and whoever
//! judges them are compiled once and not for each design.
//!
//! Always true here: everything comes from an [`impl Design`](Design), and nothing is added.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::ops::Range;

use perdure_hardware::arena::Arena;
use perdure_hardware::counters::{Counters, Described};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::physical_map::PhysicalMap;
use perdure_hardware::policy::Policy;
use perdure_hardware::time::Cycles;
use toml::Value;

use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered, RecoveryMode};
use crate::epochs::{EpochNumbers, Epochs, EpochsOf, GroupEpochs, MachineEpochs};
use crate::layout::Layout;
use crate::oracle::{Beginning, Oracle, Promise, Remember, Witness};
use crate::snapshots::SnapshotSource;
use crate::surviving::{Interrupted, Surviving};

/// What a [`Design`] states about itself: its constants, and what it does before it runs and when the power
/// is back.
pub struct Facts {
    /// [`Design::NAME`].
    pub name: &'static str,
    /// [`Design::SUMMARY`].
    pub summary: &'static str,
    /// [`Design::PLANTED_BUGS`].
    pub planted_bugs: &'static [PlantedBug],
    /// [`Design::UNLUCKY_SETTINGS`].
    pub unlucky_settings: &'static [&'static [&'static str]],
    /// [`Design::INSTRUCTIONS`].
    pub instructions: &'static [(u16, &'static str)],
    /// [`Design::RECOVERY`].
    pub recovery: RecoveryMode,
    /// [`Design::NEEDS_INCLUSION`].
    pub needs_inclusion: bool,
    /// [`Design::SNAPSHOTS`].
    pub snapshots: Option<SnapshotSource>,
    /// Whether it has epochs, and whose they are.
    pub epochs: Epochs,
    /// [`Design::Promise`].
    pub promise: PromiseFacts,
    /// The design's section of the configuration as it is unless somebody says otherwise.
    pub defaults: fn() -> Value,
    /// That section, read.
    pub parameters: fn(Value) -> Result<Parameters, toml::de::Error>,
    /// [`Design::start`].
    pub start: Start,
    /// [`Design::format`].
    pub format: Format,
    /// [`Design::pool_data`].
    pub pool_data: fn(&Range<u64>) -> Range<u64>,
    /// [`Design::recover`].
    pub recover: fn(&mut Surviving, Option<&'static str>) -> Result<Recovered, Interrupted>,
    /// The design's counters before anything is counted.
    pub counters: fn() -> OwnCounters,
}

/// What a [`Promise`] states about itself.
pub struct PromiseFacts {
    /// [`Promise::NAME`].
    pub name: &'static str,
    /// [`Promise::BINDS`].
    pub binds: bool,
    /// [`Promise::HEARS_LOADS`].
    pub hears_loads: bool,
    /// [`Promise::scope`].
    pub scope: fn(&PhysicalMap, &Layout) -> Range<u64>,
    /// [`Promise::begin`].
    pub begin: fn(&Witness, Beginning, Remember) -> io::Result<Box<dyn Oracle>>,
}

/// Starts a design: see [`Design::start`].
pub type Start = fn(
    &Parameters,
    &Layout,
    &mut Hardware,
    u64,
    Option<&'static str>,
) -> Result<Box<dyn AnyDesign>, ImpossibleParameter>;

/// Prepares a copy of an epoch: see [`Design::format`].
pub type Format =
    fn(&Parameters, &Layout, usize, &mut Arena, u64) -> Result<(), ImpossibleParameter>;

/// A design's parameters, of the type that it says.
pub struct Parameters(Box<dyn Any + Send + Sync>);

impl Parameters {
    fn of<D: Design>(&self) -> &D::Parameters {
        self.0
            .downcast_ref()
            .expect("a design is given its own parameters")
    }
}

impl Facts {
    /// Those of a design. Does not compile for one that could not be.
    pub const fn of<D: Design>() -> &'static Self {
        &Of::<D>::FACTS
    }
}

struct Of<D>(D);

impl<D: Design> Of<D> {
    const POSSIBLE: () = assert!(
        D::RECOVERY.goes_with(D::Epochs::WHOSE),
        "a design resumes at the end of an epoch, and for nothing else have sharing groups epochs"
    );

    const FACTS: Facts = {
        let () = Self::POSSIBLE;
        Facts {
            name: D::NAME,
            summary: D::SUMMARY,
            planted_bugs: D::PLANTED_BUGS,
            unlucky_settings: D::UNLUCKY_SETTINGS,
            instructions: D::INSTRUCTIONS,
            recovery: D::RECOVERY,
            needs_inclusion: D::NEEDS_INCLUSION,
            snapshots: D::SNAPSHOTS,
            epochs: D::Epochs::WHOSE,
            promise: PromiseFacts {
                name: D::Promise::NAME,
                binds: D::Promise::BINDS,
                hears_loads: D::Promise::HEARS_LOADS,
                scope: D::Promise::scope,
                begin: |run, beginning, remember| {
                    Ok(Box::new(D::Promise::begin(run, beginning, remember)?))
                },
            },
            defaults: || {
                let parameters = Value::try_from(D::Parameters::default());
                parameters.expect("parameters are a table of plain values")
            },
            parameters: |section| {
                let parameters: D::Parameters = section.try_into()?;
                Ok(Parameters(Box::new(parameters)))
            },
            start: |parameters, layout, hardware, epoch, bug| {
                let design = D::start(parameters.of::<D>(), layout, hardware, epoch, bug)?;
                Ok(Box::new(design))
            },
            format: |parameters, layout, harts, memory, epoch| {
                D::format(parameters.of::<D>(), layout, harts, memory, epoch)
            },
            pool_data: D::pool_data,
            recover: D::recover,
            counters: || OwnCounters::new(D::Counters::default()),
        }
    };
}

impl Debug for Facts {
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// A [`Design`] that runs.
pub trait AnyDesign: Policy + Send {
    /// One that goes on as this one would.
    fn copied(&self) -> Box<dyn AnyDesign>;

    /// Where it stands, if it has epochs.
    fn epoch_numbers(&self) -> Option<&dyn EpochNumbers>;

    /// The machine's epochs, if it has such.
    fn machine_epochs(&mut self) -> Option<&mut dyn MachineEpochs>;

    /// The sharing groups' epochs, if it has such.
    fn group_epochs(&mut self) -> Option<&mut dyn GroupEpochs>;

    /// [`Design::drain`].
    fn drain(&self, at: Cycles, write: &mut dyn FnMut(u64, &[u8]));

    /// [`Design::phase`].
    fn phase(&self) -> &'static str;

    /// [`Design::counters_with`].
    fn counters(&self, hardware: &Hardware) -> OwnCounters;

    /// [`Design::remarks`].
    fn remarks(&self) -> Vec<String>;

    /// [`Design::paths`].
    fn paths(&self, hardware: &Hardware) -> Vec<(&'static str, u64)>;
}

impl<D: Design> AnyDesign for D {
    fn copied(&self) -> Box<dyn AnyDesign> {
        Box::new(self.clone())
    }

    fn epoch_numbers(&self) -> Option<&dyn EpochNumbers> {
        D::Epochs::numbers(self)
    }

    fn machine_epochs(&mut self) -> Option<&mut dyn MachineEpochs> {
        D::Epochs::of_machine(self)
    }

    fn group_epochs(&mut self) -> Option<&mut dyn GroupEpochs> {
        D::Epochs::of_groups(self)
    }

    fn drain(&self, at: Cycles, write: &mut dyn FnMut(u64, &[u8])) {
        Design::drain(self, at, write);
    }

    fn phase(&self) -> &'static str {
        Design::phase(self)
    }

    fn counters(&self, hardware: &Hardware) -> OwnCounters {
        OwnCounters::new(self.counters_with(hardware))
    }

    fn remarks(&self) -> Vec<String> {
        Design::remarks(self)
    }

    fn paths(&self, hardware: &Hardware) -> Vec<(&'static str, u64)> {
        D::paths(&hardware.statistics(), &self.counters_with(hardware))
    }
}

impl Clone for Box<dyn AnyDesign> {
    fn clone(&self) -> Self {
        (**self).copied()
    }
}

/// What a design has counted for itself. Two are alike if they say the same.
pub struct OwnCounters(Box<dyn AnyCounters>);

impl OwnCounters {
    /// Those counters.
    pub fn new<C: Counters + 'static>(counters: C) -> Self {
        Self(Box::new(counters))
    }

    /// All of them in a fixed order.
    pub fn describe(&self) -> Vec<Described> {
        self.0.describe()
    }

    /// What was counted since an earlier moment of the same design. Gauges stay as they are now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(self.0.since(&*earlier.0))
    }

    /// Sums that must add up; says which one doesn't.
    pub fn check_conservation(&self) -> Result<(), String> {
        self.0.check_conservation()
    }
}

impl Default for OwnCounters {
    /// For a design that counts nothing of its own.
    fn default() -> Self {
        Self::new(())
    }
}

impl Clone for OwnCounters {
    fn clone(&self) -> Self {
        Self(self.0.copied())
    }
}

impl PartialEq for OwnCounters {
    fn eq(&self, other: &Self) -> bool {
        self.describe() == other.describe()
    }
}

impl Eq for OwnCounters {}

impl Debug for OwnCounters {
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        let all = self.describe();
        let values = all.iter().map(|one| (one.name, one.value));
        formatter.debug_map().entries(values).finish()
    }
}

/// [`Counters`], whichever they are.
trait AnyCounters: Send {
    fn any(&self) -> &dyn Any;
    fn copied(&self) -> Box<dyn AnyCounters>;
    fn describe(&self) -> Vec<Described>;
    fn since(&self, earlier: &dyn AnyCounters) -> Box<dyn AnyCounters>;
    fn check_conservation(&self) -> Result<(), String>;
}

impl<C: Counters + 'static> AnyCounters for C {
    fn any(&self) -> &dyn Any {
        self
    }

    fn copied(&self) -> Box<dyn AnyCounters> {
        Box::new(self.clone())
    }

    fn describe(&self) -> Vec<Described> {
        Counters::describe(self)
    }

    fn since(&self, earlier: &dyn AnyCounters) -> Box<dyn AnyCounters> {
        let earlier = earlier.any().downcast_ref();
        let earlier = earlier.expect("counters of one design are compared");
        Box::new(Counters::since(self, earlier))
    }

    fn check_conservation(&self) -> Result<(), String> {
        Counters::check_conservation(self)
    }
}
