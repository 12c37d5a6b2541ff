//! The assembled machine: what it consists of, and what others may ask it.
//!
//! [`assemble`] and [`resume`] make one, [`run`] is its loop, [`entries`] what the kernel is called for,
//! [`epochs`] and [`groups`] end epochs, [`output`] lets out what may leave, [`power`] turns it off,
//! [`kept`] is what onlookers have asked it to remember, [`drawn`] what it tells who draws it, and [`part`]
//! what a debugger needs of it.
//!
//! Always true: whoever judges a machine stands outside it. It does not know that there is one.

use std::sync::Arc;

use perdure_designs::Urgency;
use perdure_designs::layout::{CONTEXT_BYTES, Layout};
use perdure_designs::{AnyDesign, Facts};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::NotCopied;
use perdure_linux::{ExitReport, Kernel, Release, Running, SpaceId, ThreadId};

use crate::configuration::Configuration;
use crate::context::HartContext;
use crate::mistakes::Mistake;
use crate::outside::Outside;
use crate::port::Walked;
use crate::progress::{Progress, Unpersisted};
use crate::region::Meter;
use crate::retired::Listener;
use crate::source::{Engines, Exit, Source};
use crate::statistics::MachineStatistics;
use crate::watch::{Lengths, Watch};

mod assemble;
mod drawn;
mod entries;
mod epochs;
mod groups;
mod kept;
mod output;
mod part;
mod pools;
mod power;
mod resume;
mod run;
mod runnable;

pub use crate::source::Engine;
pub use assemble::{Past, Workload, check_starts};
use epochs::Overtaken;
pub(crate) use epochs::SAVES_CONTEXTS;
pub use kept::{EpochEnd, Noted};
pub(crate) use part::Next;
pub(crate) use pools::addresses as pool_addresses;
pub use power::Recovery;
pub use resume::{Image, Resumption};
use runnable::Runnable;

/// Why [`Machine::run`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Everything up to the given time has happened.
    Time,
    /// An epoch has just ended; no hart has run since.
    EpochEnded(u64),
    /// Every program is over and its output has left the machine, or `stop_after` or the region's
    /// end was reached.
    Finished,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    hart: usize,
    limit: Cycles,
}

#[derive(Clone)]
pub(crate) struct HartState<S> {
    pub(crate) context: HartContext,
    source: S,
    /// The source stopped for this and it is not handled yet.
    pending: Option<Exit>,
    /// The thread waits until this epoch is persisted.
    waits_for: Option<u64>,
    slice_end: Cycles,
    /// Instructions that are counted for a program.
    counted: u64,
    /// The address space that the lookaside, and what the source remembers, are of.
    space: Option<SpaceId>,
    /// What it remembers of the page tables.
    walked: Walked,
    /// The thread that ran last.
    thread: Option<ThreadId>,
    /// `retired` when the epoch began, and how many stores the hart had made.
    pub(crate) epoch_start: u64,
    pub(crate) epoch_start_stores: u64,
}

impl<S> HartState<S> {
    /// It has a thread, which waits for no epoch.
    fn can_run(&self) -> bool {
        self.context.running.is_some() && self.waits_for.is_none()
    }

    /// A hart that goes on from there, and has nothing to handle.
    fn new(context: HartContext, source: S, slice_end: Cycles) -> Self {
        Self {
            epoch_start: context.hart.retired,
            epoch_start_stores: 0,
            counted: context.hart.retired,
            space: context.running.map(|running| running.space),
            walked: Walked::default(),
            thread: None,
            context,
            source,
            pending: None,
            waits_for: None,
            slice_end,
        }
    }
}

/// How the program ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit code, or 128 + signal.
    pub report: ExitReport,
    /// Local time of the hart on which it ended.
    pub at: Cycles,
    /// The epoch that holds its end.
    epoch: u64,
}

/// The machine under one design, whose harts' instructions come from a source. A copy goes on as the one
/// that it was made of would have.
#[derive(Clone)]
pub struct Machine<S: Source = Engines> {
    pub(crate) configuration: Arc<Configuration>,
    /// The map of its NVM.
    pub layout: Layout,
    /// The substrate.
    pub hardware: Hardware,
    /// The design.
    pub design: Box<dyn AnyDesign>,
    pub(crate) kernel: Kernel,
    pub(crate) harts: Vec<HartState<S>>,
    turn: Option<Turn>,
    runnable: Runnable,
    /// When the executing epoch began.
    epoch_began: Cycles,
    /// Epochs that are over before they begin, if the last was one.
    overtaken: Option<Overtaken>,
    /// An epoch should end, but the design cannot take another one yet.
    epoch_due: Option<(usize, Urgency)>,
    /// How long epochs are now.
    lengths: Lengths,
    /// Stores of all harts together are counted, and not each hart's by itself.
    counts_all: bool,
    /// What shortens them for a while when it is stored to.
    watch: Watch,
    pub(crate) saved_image: Vec<u8>,
    /// Of each hart, for designs with an epoch for each sharing group.
    pub(crate) saved_contexts: Vec<Vec<u8>>,
    pub(crate) saved_record: Vec<u8>,
    /// The newest epoch in which the kernel's state was changed, there.
    pub(crate) kernel_epoch: u64,
    /// It was changed since it was last saved.
    pub(crate) kernel_changed: bool,
    /// The newest epoch in which mappings were changed, where sharing groups have epochs.
    pub(crate) mappings_epoch: u64,
    pub(crate) skipped_ns: u64,
    next_deadline_ns: Option<u64>,
    stop_after: u64,
    /// Programs that finish are started again.
    repeats: bool,
    /// Whoever runs the machine makes accesses of its own: each hart is among others, however few run.
    pub(crate) is_disturbed: bool,
    /// Instructions by program, and the measured region.
    pub meter: Meter,
    ended: Option<Ended>,
    finished: bool,
    held_files: Vec<(u64, Release)>,
    /// What has left the machine.
    pub outside: Outside,
    /// Filled with every change of the design's state, if present: time, new state, pc.
    pub phase_changes: Option<Vec<(Cycles, &'static str, u64)>>,
    /// Filled for the judge, if present.
    pub notes: Option<Vec<Noted>>,
    /// Filled when the epoch that it names ends, if present.
    pub epoch_end: Option<EpochEnd>,
    /// Where harts were when they left their epochs, if somebody wants to know.
    pub progress: Option<Progress>,
    /// When epochs ended that are not persisted yet.
    pub(crate) unpersisted: Unpersisted,
    /// Who is told of each instruction, if somebody is.
    pub(crate) listener: NotCopied<dyn Listener>,
    bug: Option<&'static str>,
    pub(crate) mistake: Option<Mistake>,
    past: Past,
}

impl<S: Source> Machine<S> {
    /// What a machine has behind it that starts after the power of this one is cut now.
    pub fn behind_it(&self) -> Past {
        Past {
            lives: self.past.lives + 1,
            nanoseconds: self.past.nanoseconds + self.clock_ns(),
        }
    }

    /// Ends the run after so many more instructions of all harts.
    pub fn stop_in(&mut self, instructions: u64) {
        self.stop_after = self.retired().saturating_add(instructions);
    }

    /// Instructions retired by all harts.
    pub fn retired(&self) -> u64 {
        self.retired_by_hart().sum()
    }

    /// Instructions that each hart has retired.
    pub fn retired_by_hart(&self) -> impl Iterator<Item = u64> {
        self.harts.iter().map(|hart| hart.context.hart.retired)
    }

    /// A hart's local time.
    pub fn clock(&self, hart: usize) -> Cycles {
        let retired = self.harts[hart].context.hart.retired;
        self.hardware.cores[hart].timing.now(retired)
    }

    /// The latest local time.
    pub fn time(&self) -> Cycles {
        (0..self.harts.len())
            .map(|hart| self.clock(hart))
            .max()
            .unwrap_or(0)
    }

    /// All counters, the design's own included.
    pub fn statistics(&self) -> MachineStatistics {
        statistics_of(&self.hardware, &*self.design)
    }

    /// Overflow and corner paths, with how often they were taken.
    pub fn paths(&self) -> Vec<(&'static str, u64)> {
        self.design.paths(&self.hardware)
    }

    /// What its design states about itself.
    pub fn facts(&self) -> &'static Facts {
        self.configuration.design
    }

    /// How the program ended, once it has.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// The kernel, for reports.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The hart whose turn it is or was, with its pc and space: where the program is.
    pub fn location(&self) -> (u64, Option<Running>) {
        let hart = self.turn.map_or(0, |turn| turn.hart);
        let context = &self.harts[hart].context;
        (context.hart.pc, context.running)
    }

    /// Contexts as they are now, for hashes.
    pub fn contexts(&self) -> impl Iterator<Item = &HartContext> {
        self.harts.iter().map(|hart| &hart.context)
    }

    /// What lies at a physical address that no program maps.
    pub fn layout_name(&self, physical: u64) -> String {
        let layout = &self.layout;
        if layout.contexts.contains(&physical) {
            let hart = (physical - layout.contexts.start) / CONTEXT_BYTES;
            if hart < self.harts.len() as u64 {
                return format!("context of hart {hart}");
            }
            return "machine record".into();
        }
        if layout.kernel.contains(&physical) {
            return "kernel state".into();
        }
        "a frame that no program maps now".into()
    }

    /// The bug that is planted.
    pub fn planted_bug(&self) -> Option<&'static str> {
        self.bug
    }
}

/// All counters, the design's own included.
fn statistics_of(hardware: &Hardware, design: &dyn AnyDesign) -> MachineStatistics {
    MachineStatistics {
        hardware: hardware.statistics(),
        design: design.counters(hardware),
    }
}
