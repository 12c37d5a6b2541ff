//! The assembled machine and its run loop.
//!
//! Order of things, the same on every run (DESIGN §3): the hart with the smallest local clock takes
//! a turn until it passes the next one by the lookahead; ties go to the lower number; a timed event
//! fires before any hart passes its time. A pause (for a power cut, or to report progress) never
//! changes this order: a turn that was interrupted goes on as if it had not been.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use perdure_designs::layout::{CONTEXT_BYTES, Layout};
use perdure_designs::{Design, END_EPOCH, Promise, Urgency};
use perdure_hardware::arena::Arena;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::specification::{Inclusion, Specification};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use perdure_linux::{
    Exception, ExitReport, HostView, Kernel, Machine as _, Outcome, Release, Restart, Running,
    SpaceId,
};
use perdure_riscv::{Exit, fast, plain};

use crate::configuration::{Configuration, Counted};
use crate::context::{
    self, HartContext, MachineRecord, RECORD_BYTES, SAVED_BYTES, Saved, SavedAt, restore,
};
use crate::cost::{Progress, Unpersisted};
use crate::error::Error;
use crate::losses::Lost;
use crate::mistakes::{Blind, Mistake};
use crate::outside::Outside;
use crate::port::{
    BootPort, Changed, DevicePort, FetchHint, KernelPort, Limits, Port, VirtualClock,
};
use crate::region::{Meter, Region};
use crate::verify::Image;
use crate::watch::{Burst, Lengths, Watch, Watched};

/// Events with this bit are the machine's, the others the design's.
const MACHINE_EVENT: u32 = 1 << 31;
const EVENT_EPOCH_CYCLES: u32 = MACHINE_EVENT;

/// Which engine runs the harts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Pre-decoded blocks and the lookaside.
    Fast,
    /// Fetch, decode, execute, and every access through the caches: the reference.
    Plain,
}

/// A program and the world it sees.
#[derive(Clone, Debug)]
pub struct Workload {
    /// For the kernel; frames, harts and costs are filled in from the configuration.
    pub kernel: perdure_linux::Configuration,
    /// Stop after so many instructions of all harts together.
    pub stop_after: Option<u64>,
    /// Measure a part of the run, and stop after it.
    pub region: Option<Region>,
    /// What to watch.
    pub watch: Option<Watched>,
    /// A mistake to plant in the machine.
    pub mistake: Option<Mistake>,
    /// A check that the judge leaves out.
    pub blind: Option<Blind>,
}

/// What a machine that goes on in another's place goes on with.
pub struct Resumption {
    /// At whose end it goes on.
    pub epoch: u64,
    /// What has left so far.
    pub outside: Outside,
    /// The engine.
    pub engine: Engine,
    /// The design's planted bug.
    pub bug: Option<&'static str>,
    /// The machine's own.
    pub mistake: Option<Mistake>,
}

/// The machine beside its memory, as it was at the end of an epoch: itself, and not what was saved of
/// it. For the judge, who resumes from it what no restoring has touched.
#[derive(Clone, Debug, Default)]
pub struct EpochEnd {
    epoch: u64,
    /// The kernel, and the virtual time skipped while all harts were idle.
    kernel: Option<(Kernel, u64)>,
    /// Every hart's context, and when that was.
    harts: Vec<Option<(HartContext, SavedAt)>>,
}

/// What the judge is told of output, beside the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// The kernel's state as of the end of an epoch: bytes written to its streams by then.
    Ended {
        /// The epoch.
        epoch: u64,
        /// By program.
        written: Vec<[u64; 2]>,
    },
    /// Files are held back until an epoch is announced.
    Held {
        /// That epoch.
        epoch: u64,
        /// The epoch that the files are as of.
        made: u64,
    },
}

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

pub(crate) struct HartState {
    pub(crate) context: HartContext,
    blocks: fast::BlockCache<FetchHint>,
    /// The engine stopped for this and it is not handled yet.
    pending: Option<Exit>,
    /// The thread waits until this epoch is persisted.
    waits_for: Option<u64>,
    slice_end: Cycles,
    /// Instructions that are counted for a program.
    counted: u64,
    /// The address space that the lookaside and the decoded blocks are of.
    space: Option<SpaceId>,
    /// `retired` when the epoch began, and how many stores the hart had made.
    pub(crate) epoch_start: u64,
    pub(crate) epoch_start_stores: u64,
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

/// The machine under one design.
pub struct Machine<D: Design> {
    configuration: Arc<Configuration>,
    /// The map of its NVM.
    pub layout: Layout,
    /// The substrate.
    pub hardware: Hardware,
    /// The design.
    pub design: D,
    pub(crate) kernel: Kernel,
    pub(crate) harts: Vec<HartState>,
    engine: Engine,
    turn: Option<Turn>,
    /// When the executing epoch began.
    epoch_began: Cycles,
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
    /// The newest epoch in which mappings were changed.
    pub(crate) mappings_epoch: u64,
    pub(crate) skipped_ns: u64,
    next_deadline_ns: Option<u64>,
    stop_after: u64,
    /// Programs that finish are started again.
    restart: bool,
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
    bug: Option<&'static str>,
    pub(crate) mistake: Option<Mistake>,
    pub(crate) blind: Option<Blind>,
}

impl<D: Design> Machine<D> {
    /// Boots a program: epoch 0 is its first instruction, durable in NVM.
    pub fn boot(
        configuration: &Arc<Configuration>,
        workload: &Workload,
        engine: Engine,
        bug: Option<&'static str>,
    ) -> Result<Self, Error> {
        let specification = configuration.specification.clone();
        let harts = specification.harts;
        let layout = Layout::new(harts, specification.nvm.bytes);
        let arena = Arena::new(specification.nvm.bytes).map_err(|source| Error::Host {
            what: format!(
                "reserving {} bytes of simulated NVM (nvm.bytes)",
                specification.nvm.bytes
            ),
            source,
        })?;
        reserve_directory(&specification)?;
        let contexts = layout.contexts.start..layout.kernel.end;
        let mut hardware = Hardware::new(specification, arena, contexts);
        hardware.memory.interleave_home(layout.protected());
        let kernel_configuration = perdure_linux::Configuration {
            frames: layout.frames.clone(),
            harts,
            caches: configuration.caches(),
            random_seed: configuration.kernel.random_seed,
            clock_start_ns: configuration.kernel.clock_start_ns,
            output_limit_bytes: configuration.kernel.output_limit_bytes,
            host_limit_bytes: configuration.kernel.host_limit_bytes,
            image_room_bytes: layout.kernel.end - layout.kernel.start,
            stack_bytes: configuration.kernel.stack_bytes,
            ..workload.kernel.clone()
        };
        let mut kernel = Kernel::boot(kernel_configuration, &mut BootPort(&mut hardware))?;
        let mut contexts = vec![HartContext::default(); harts];
        for (index, context) in contexts.iter_mut().enumerate() {
            context.running =
                kernel.schedule(index, &mut context.hart, &mut BootPort(&mut hardware));
        }
        let mut saved_image = Vec::new();
        let mut saved_contexts = Vec::new();
        if D::SAVES_CONTEXTS {
            saved_image = kernel.save();
            let record = MachineRecord::new(0, &saved_image, 0);
            let arena = &mut hardware.memory.arena;
            arena.write(layout.kernel.start, &saved_image);
            arena.write(layout.context(harts), &record.encode());
            saved_contexts = contexts
                .iter()
                .map(|context| context.encode(SavedAt::default()))
                .collect();
            for (index, context) in saved_contexts.iter().enumerate() {
                arena.write(layout.context(index), context);
            }
        }
        let parts = Parts {
            layout,
            hardware,
            kernel,
            contexts,
            saved_image,
            saved_contexts,
            skipped_ns: 0,
            start: 0,
            programs: workload.kernel.programs.len(),
        };
        let stop_after = workload.stop_after;
        let mut machine = Self::assemble(configuration, parts, 0, stop_after, engine, bug)?;
        machine.blind = workload.blind;
        machine.mistake = (workload.mistake).filter(|mistake| !mistake.strikes_only_resumed());
        if machine.mistake == Some(Mistake::Drifts) {
            static RUNS: AtomicU64 = AtomicU64::new(0);
            machine.hardware.cores[0].stalls += 977 * RUNS.fetch_add(1, Ordering::Relaxed);
        }
        machine.restart = workload.kernel.restart != Restart::Never;
        machine.meter = Meter::new(workload.kernel.programs.len(), workload.region);
        if let Some(watched) = &workload.watch {
            machine.lengths = Lengths::new(&configuration.epoch, watched.burst)?;
            let space = machine.harts[0].space;
            machine.watch = watched.resolve(&machine.kernel, space)?;
        }
        machine.look_at_region(0);
        Ok(machine)
    }

    /// Goes on from a recovered image.
    pub fn resume(
        configuration: &Arc<Configuration>,
        image: Image,
        host: HostView,
        resumption: Resumption,
    ) -> Result<Self, Error> {
        let specification = &configuration.specification;
        let harts = specification.harts;
        let layout = Layout::new(harts, specification.nvm.bytes);
        let read = |address, length| image.memory.slice(address, length).to_vec();
        let lost = match resumption.mistake {
            Some(Mistake::Forgets(lost)) => Some(lost),
            _ => None,
        };
        let saved = restore(read, &layout, harts, host, lost).map_err(|message| {
            Error::Request(format!("the recovered state is unusable: {message}"))
        })?;
        Self::go_on_from(configuration, image, saved, resumption)
    }

    /// True if a recovered image holds something of what could be lost. What cannot even be read
    /// without it does.
    pub fn saves(&self, image: &Image, lost: Lost) -> bool {
        let read = |address, length| image.memory.slice(address, length).to_vec();
        context::holds(read, &self.layout, self.harts.len(), lost).unwrap_or(true)
    }

    /// Goes on from a golden image, with the kernel and the contexts of that epoch's end.
    pub fn fork(
        configuration: &Arc<Configuration>,
        image: Image,
        end: EpochEnd,
        resumption: Resumption,
    ) -> Result<Self, Error> {
        let incomplete = || Error::Defect(format!("epoch {} had not ended", end.epoch));
        let (kernel, skipped_ns) = end.kernel.ok_or_else(incomplete)?;
        let harts: Option<Vec<_>> = end.harts.into_iter().collect();
        let (harts, times): (_, Vec<SavedAt>) = harts.ok_or_else(incomplete)?.into_iter().unzip();
        let record = MachineRecord::new(end.epoch, &kernel.save(), skipped_ns);
        let saved = Saved::of(record, harts, &times, kernel);
        Self::go_on_from(configuration, image, saved, resumption)
    }

    fn go_on_from(
        configuration: &Arc<Configuration>,
        image: Image,
        saved: Saved,
        resumption: Resumption,
    ) -> Result<Self, Error> {
        let Resumption {
            epoch,
            outside,
            engine,
            bug,
            mistake,
        } = resumption;
        let specification = configuration.specification.clone();
        let harts = specification.harts;
        let layout = Layout::new(harts, specification.nvm.bytes);
        let Image {
            memory: arena,
            behind,
        } = image;
        let saved_image = arena
            .slice(layout.kernel.start, saved.record.kernel_bytes as usize)
            .to_vec();
        let saved_contexts = (0..harts)
            .map(|hart| {
                let address = layout.context(hart);
                arena.slice(address, SAVED_BYTES).to_vec()
            })
            .collect();
        let contexts = layout.contexts.start..layout.kernel.end;
        let programs = saved.kernel.program_reports().len();
        let mut hardware = Hardware::new(specification, arena, contexts);
        hardware.memory.interleave_home(layout.protected());
        hardware.memory.load_dram(behind);
        let parts = Parts {
            hardware,
            layout,
            kernel: saved.kernel,
            contexts: saved.harts,
            saved_image,
            saved_contexts,
            skipped_ns: saved.record.skipped_ns,
            start: saved.at.cycles,
            programs,
        };
        let mut machine = Self::assemble(configuration, parts, epoch, None, engine, bug)?;
        machine.mistake = mistake;
        // Harts that stood still at different times: nobody's clock goes backwards.
        machine.skipped_ns += saved.at.clock_ns.saturating_sub(machine.clock_ns());
        machine.outside = outside;
        if mistake == Some(Mistake::ResumesOtherMemory) {
            let last = machine.layout.frames.end - LINE_BYTES as u64;
            machine.hardware.memory.arena.write(last, &[1]);
        }
        // What was persisted but may not have left before the cut leaves now; a duplicate is
        // recognised outside.
        machine.let_out(epoch, Mistake::GarblesAgain);
        let mut port = DevicePort(&mut machine.hardware, &machine.design);
        let spool = machine.outside.spool.clone();
        let files = machine.kernel.release_files(&mut port, &spool);
        let files = files.map_err(spool_failed)?;
        for file in files {
            machine.outside.receive(epoch, file);
        }
        if let Some(report) = machine.kernel.exited() {
            machine.ended = Some(Ended {
                report: report.clone(),
                at: 0,
                epoch,
            });
            machine.finished = true;
        }
        Ok(machine)
    }

    fn assemble(
        configuration: &Arc<Configuration>,
        mut parts: Parts,
        epoch: u64,
        stop_after: Option<u64>,
        engine: Engine,
        bug: Option<&'static str>,
    ) -> Result<Self, Error> {
        let parameters = configuration.parameters::<D>()?;
        let design = D::start(&parameters, &parts.layout, &mut parts.hardware, epoch, bug)
            .map_err(|problem| Error::Configuration(problem.to_string()))?;
        // A hart's clock is `retired + stalls`. Recovered harts have a past, and the machine's time goes
        // on from the longest one.
        let start = parts.start;
        for (core, context) in parts.hardware.cores.iter_mut().zip(&parts.contexts) {
            core.stalls = start - context.hart.retired;
        }
        let slice_end = start + configuration.scheduling.slice_cycles;
        let harts = parts
            .contexts
            .into_iter()
            .map(|context| HartState {
                epoch_start: context.hart.retired,
                epoch_start_stores: 0,
                counted: context.hart.retired,
                space: context.running.map(|running| running.space),
                context,
                blocks: fast::BlockCache::default(),
                pending: None,
                waits_for: None,
                slice_end,
            })
            .collect();
        if configuration.epoch.cycles > 0 {
            let first = start + configuration.epoch.cycles;
            parts.hardware.events.schedule(first, EVENT_EPOCH_CYCLES);
        }
        let record = parts.layout.context(parts.hardware.cores.len());
        let saved_record = parts.hardware.memory.arena.slice(record, RECORD_BYTES);
        let saved_record = saved_record.to_vec();
        let mut machine = Self {
            configuration: Arc::clone(configuration),
            layout: parts.layout,
            hardware: parts.hardware,
            design,
            kernel: parts.kernel,
            harts,
            engine,
            turn: None,
            epoch_began: start,
            epoch_due: None,
            lengths: Lengths::new(&configuration.epoch, Burst::default())?,
            counts_all: configuration.epoch.counted == Counted::All
                && D::PROMISE != Promise::CausalCut,
            watch: Watch::default(),
            saved_image: parts.saved_image,
            saved_contexts: parts.saved_contexts,
            saved_record,
            kernel_epoch: epoch + 1,
            kernel_changed: true,
            mappings_epoch: 0,
            skipped_ns: parts.skipped_ns,
            next_deadline_ns: None,
            stop_after: stop_after.unwrap_or(u64::MAX),
            restart: false,
            meter: Meter::new(parts.programs, None),
            ended: None,
            finished: false,
            held_files: Vec::new(),
            outside: Outside::new(configuration.kernel.output_memory_bytes),
            phase_changes: None,
            notes: None,
            epoch_end: None,
            progress: None,
            unpersisted: Unpersisted::default(),
            bug,
            mistake: None,
            blind: None,
        };
        machine.next_deadline_ns = machine.kernel.next_deadline_ns();
        Ok(machine)
    }

    /// Ends the run after so many more instructions of all harts.
    pub fn stop_in(&mut self, instructions: u64) {
        self.stop_after = self.retired().saturating_add(instructions);
    }

    // ---- What others may ask ---------------------------------------------------------------

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
        self.harts[hart].context.hart.retired + self.hardware.cores[hart].stalls
    }

    /// The latest local time.
    pub fn time(&self) -> Cycles {
        (0..self.harts.len())
            .map(|hart| self.clock(hart))
            .max()
            .unwrap_or(0)
    }

    /// All counters, the design's own included.
    pub fn statistics(&self) -> Statistics {
        statistics_of(&self.hardware, &self.design)
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

    // ---- The run loop ----------------------------------------------------------------------

    /// Runs until everything up to `until` has happened, or an epoch ended, or the end.
    pub fn run(&mut self, until: Cycles) -> Result<Pause, Error> {
        loop {
            if let Some(breach) = self.hardware.breach.take() {
                return Err(Error::Contract {
                    design: D::NAME,
                    message: breach.0,
                });
            }
            if let Some(failure) = self.hardware.failure.take() {
                return Err(Error::Design {
                    design: D::NAME,
                    message: failure.0,
                });
            }
            if let Some(failure) = self.outside.failure.take() {
                return Err(spool_failed(std::io::Error::other(failure)));
            }
            if self.finished {
                return Ok(Pause::Finished);
            }
            if let Some((hart, urgency)) = self.epoch_due
                && self.design.can_end_epoch()
            {
                if self.clock(hart) > until {
                    return Ok(Pause::Time);
                }
                self.epoch_due = None;
                return self.end_epoch(hart, urgency).map(Pause::EpochEnded);
            }
            if let Some(turn) = self.turn {
                if self.clock(turn.hart) > until {
                    return Ok(Pause::Time);
                }
                self.go_on(turn, until);
                continue;
            }
            let next = self.next_hart();
            let event_time = self.hardware.events.next_time();
            let hart_time = next.map_or(Cycles::MAX, |(_, time, _)| time);
            let (wake_time, change_ns) = match next {
                None => self.idle_until()?,
                Some(_) => (Cycles::MAX, 0),
            };
            let first = event_time.min(hart_time).min(wake_time);
            if first == Cycles::MAX {
                return Err(self.deadlock());
            }
            if first > until {
                return Ok(Pause::Time);
            }
            if first == wake_time {
                self.skip_idle_time(wake_time, change_ns);
                continue;
            }
            if event_time <= hart_time {
                self.hardware
                    .memory
                    .forget_until(event_time.saturating_sub(1));
                self.fire(event_time);
                continue;
            }
            let (hart, time, limit) = next.expect("a hart has the smallest time");
            self.hardware.memory.forget_until(time.saturating_sub(1));
            self.wake_sleepers(hart);
            if self.lengths.may_change() {
                let hit = std::mem::take(&mut self.watch.hit);
                self.lengths.look(self.retired(), hit);
            }
            // A store takes a cycle at least, so a turn cannot pass the epoch's last one by much.
            let epoch_end = time.saturating_add(self.stores_left(hart).max(1));
            self.turn = Some(Turn {
                hart,
                limit: limit.min(self.harts[hart].slice_end).min(epoch_end),
            });
        }
    }

    /// The runnable hart with the smallest clock, that clock, and how far its turn may go.
    fn next_hart(&self) -> Option<(usize, Cycles, Cycles)> {
        if self.epoch_due.is_some() || self.ended.is_some() {
            return None;
        }
        let mut first: Option<(usize, Cycles)> = None;
        let mut second = Cycles::MAX;
        for (index, hart) in self.harts.iter().enumerate() {
            if hart.context.running.is_none() || hart.waits_for.is_some() {
                continue;
            }
            let time = self.clock(index);
            match first {
                Some((_, best)) if time >= best => second = second.min(time),
                _ => {
                    second = first.map_or(Cycles::MAX, |(_, best)| best);
                    first = Some((index, time));
                }
            }
        }
        let lookahead = self.configuration.scheduling.lookahead_cycles;
        first.map(|(hart, time)| (hart, time, second.saturating_add(lookahead)))
    }

    /// Continues a turn: a pending exit first, then the engine, until the turn is over.
    fn go_on(&mut self, turn: Turn, until: Cycles) {
        if let Some(exit) = self.harts[turn.hart].pending.take() {
            return self.handle(turn.hart, exit);
        }
        let now = self.clock(turn.hart);
        let over = now >= turn.limit
            || self.hardware.events.next_time() <= now
            || self.epoch_due.is_some()
            || self.harts[turn.hart].context.running.is_none();
        if over {
            self.turn = None;
            if self.stores_left(turn.hart) == 0 && self.epoch_due.is_none() {
                self.epoch_due = Some((turn.hart, Urgency::Routine));
            }
            if now >= self.harts[turn.hart].slice_end {
                self.end_slice(turn.hart);
            }
            return;
        }
        self.see_mappings(turn.hart);
        let exit = self.run_engine(turn, until);
        self.count(turn.hart);
        if exit == Exit::Limit {
            return self.check_instruction_limits(turn.hart);
        }
        self.harts[turn.hart].pending = Some(exit);
    }

    fn run_engine(&mut self, turn: Turn, until: Cycles) -> Exit {
        let clock = self.virtual_clock(turn.hart);
        let epoch_end = match self.configuration.epoch.instructions {
            0 => u64::MAX,
            instructions => self.harts[turn.hart].epoch_start + instructions,
        };
        let retired = self.retired();
        let state = &mut self.harts[turn.hart];
        let stop = self
            .stop_after
            .saturating_sub(retired - state.context.hart.retired);
        let Running { space, program, .. } = state
            .context
            .running
            .expect("a hart in its turn runs a thread");
        let region = self.meter.left(program as usize);
        let limits = Limits {
            time: turn.limit.min(until.saturating_add(1)),
            instructions: epoch_end
                .min(stop)
                .min(state.counted.saturating_add(region)),
        };
        let hart = &mut state.context.hart;
        let (hardware, design, kernel) = (&mut self.hardware, &mut self.design, &self.kernel);
        let watch = &mut self.watch;
        let who = (turn.hart, space);
        match self.engine {
            Engine::Fast => {
                let mut port =
                    Port::<true>::new(hardware, design, kernel, watch, who, limits, clock);
                fast::run(hart, &mut port, &mut state.blocks)
            }
            Engine::Plain => {
                let mut port =
                    Port::<false>::new(hardware, design, kernel, watch, who, limits, clock);
                plain::run(hart, &mut port)
            }
        }
    }

    /// Counts what a hart has retired for the program that it runs.
    fn count(&mut self, hart: usize) {
        let state = &mut self.harts[hart];
        let retired = state.context.hart.retired;
        if let Some(running) = state.context.running {
            self.meter.retired[running.program as usize] += retired - state.counted;
        }
        state.counted = retired;
        self.look_at_region(self.clock(hart));
    }

    fn look_at_region(&mut self, now: Cycles) {
        let (reports, restart) = (self.kernel.program_reports(), self.restart);
        let finished = |program: usize| !restart && reports[program].exit.is_some();
        let (hardware, design) = (&self.hardware, &self.design);
        if self
            .meter
            .look(now, finished, || statistics_of(hardware, design))
        {
            self.finished = true;
        }
    }

    /// What a hart runs now. Whatever is remembered by virtual address is of one space.
    fn adopt(&mut self, hart: usize, running: Option<Running>) {
        let state = &mut self.harts[hart];
        state.context.running = running;
        let Some(Running { space, .. }) = running else {
            return;
        };
        if state.space.replace(space) != Some(space) {
            state.blocks.flush();
            self.hardware.cores[hart].lookaside.kill_all();
        }
    }

    /// Stores that a hart may still make in this epoch, if the others make none.
    fn stores_left(&self, hart: usize) -> u64 {
        match self.lengths.stores {
            0 => u64::MAX,
            stores => {
                let harts = if self.counts_all {
                    0..self.harts.len()
                } else {
                    hart..hart + 1
                };
                let made = |hart: usize| {
                    self.hardware.cores[hart].stores - self.harts[hart].epoch_start_stores
                };
                stores.saturating_sub(harts.map(made).sum())
            }
        }
    }

    fn check_instruction_limits(&mut self, hart: usize) {
        if self.retired() >= self.stop_after {
            self.finished = true;
            return;
        }
        let length = self.configuration.epoch.instructions;
        let state = &self.harts[hart];
        if length > 0 && state.context.hart.retired - state.epoch_start >= length {
            self.epoch_due = Some((hart, Urgency::Routine));
        }
    }

    fn virtual_clock(&self, hart: usize) -> VirtualClock {
        let (before, after) = self.harts.split_at(hart);
        let others = before.iter().chain(&after[1..]);
        VirtualClock {
            others: others
                .map(|state| state.context.progress())
                .max()
                .unwrap_or(0),
            idle: self.harts[hart].context.idle,
            skipped_ns: self.skipped_ns,
            instructions_per_us: self.configuration.specification.core.frequency_mhz,
        }
    }

    // ---- Kernel entries --------------------------------------------------------------------

    /// Calls the kernel on behalf of a hart, then does what any kernel entry can make necessary.
    fn enter_kernel<R>(
        &mut self,
        hart: usize,
        cycles: u64,
        call: impl FnOnce(&mut Kernel, &mut perdure_riscv::Hart, &mut KernelPort) -> R,
    ) -> R {
        let clock = self.virtual_clock(hart);
        self.kernel_comes_up_to_date(hart);
        let mut changed = Changed::default();
        let (before, rest) = self.harts.split_at_mut(hart);
        let (own, after) = rest.split_first_mut().expect("the hart exists");
        let registers = &mut own.context.hart;
        let mut port = KernelPort {
            hardware: &mut self.hardware,
            design: &mut self.design,
            hart,
            retired: registers.retired,
            clock,
            others: [before, after],
            changed: &mut changed,
        };
        port.charge(cycles);
        let result = call(&mut self.kernel, registers, &mut port);
        self.hardware.cores[hart].reservation = None;
        self.kernel_changed = true;
        if changed.mappings {
            self.mappings_epoch = self.kernel_epoch;
        }
        if changed.code {
            for state in &mut self.harts {
                state.blocks.flush();
            }
        }
        self.next_deadline_ns = self.kernel.next_deadline_ns();
        result
    }

    fn handle(&mut self, hart: usize, exit: Exit) {
        let costs = &self.configuration.kernel;
        let (system_call, page_fault) = (costs.system_call_cycles, costs.page_fault_cycles);
        let exception = |exception| {
            move |kernel: &mut Kernel,
                  registers: &mut perdure_riscv::Hart,
                  port: &mut KernelPort| {
                kernel.exception(hart, registers, exception, port)
            }
        };
        let outcome = match exit {
            Exit::Limit => return,
            Exit::EnvironmentCall => {
                self.enter_kernel(hart, system_call, |kernel, registers, port| {
                    kernel.system_call(hart, registers, port)
                })
            }
            Exit::Fault(_) if self.hardware.cores[hart].ahead.is_some() => {
                return self.catch_up(hart);
            }
            Exit::Fault(fault) => self.enter_kernel(hart, page_fault, |kernel, registers, port| {
                kernel.fault(hart, registers, fault, port)
            }),
            Exit::Breakpoint => {
                self.enter_kernel(hart, page_fault, exception(Exception::Breakpoint))
            }
            Exit::Misaligned { address, .. } => self.enter_kernel(
                hart,
                page_fault,
                exception(Exception::Misaligned { address }),
            ),
            Exit::Illegal { bits } => {
                self.enter_kernel(hart, page_fault, exception(Exception::Illegal { bits }))
            }
        };
        self.follow(hart, outcome);
    }

    fn follow(&mut self, hart: usize, outcome: Outcome) {
        match outcome {
            Outcome::Continue => self.adopt(hart, self.kernel.running(hart)),
            Outcome::Blocked => {
                self.harts[hart].context.running = None;
                self.turn = None;
            }
            Outcome::Commit => {
                self.turn = None;
                self.harts[hart].waits_for = Some(self.design.executing_epoch());
                self.epoch_due = Some((hart, Urgency::OutputCommit));
            }
            Outcome::Exited { .. } => self.programs_ended(hart),
        }
        if self.meter.follows_threads() {
            self.meter.threads = self.kernel.threads_of_programs();
            self.look_at_region(self.clock(hart));
        }
        if D::PROMISE == perdure_designs::Promise::Nothing {
            // Nothing holds output back.
            let epoch = self.design.executing_epoch();
            self.kernel.seal(epoch);
            self.let_out(epoch, Mistake::GarblesOutput);
        }
        self.schedule_idle_harts(self.clock(hart));
    }

    fn programs_ended(&mut self, hart: usize) {
        let mut report = self
            .kernel
            .exited()
            .expect("the kernel said that all programs ended")
            .clone();
        if self.mistake == Some(Mistake::LosesStatus) {
            report.status = 0;
        }
        self.look_at_region(self.clock(hart));
        let epoch = self.design.executing_epoch();
        self.ended = Some(Ended {
            report,
            at: self.clock(hart),
            epoch,
        });
        self.turn = None;
        self.epoch_due = Some((hart, Urgency::OutputCommit));
    }

    fn end_slice(&mut self, hart: usize) {
        self.harts[hart].slice_end = self.clock(hart) + self.configuration.scheduling.slice_cycles;
        let outcome = self.enter_kernel(hart, 0, |kernel, registers, port| {
            kernel.preempt(hart, registers, port)
        });
        self.follow(hart, outcome);
    }

    fn schedule_idle_harts(&mut self, now: Cycles) {
        for hart in 0..self.harts.len() {
            if self.harts[hart].context.running.is_some() || !self.kernel.has_ready() {
                continue;
            }
            // An idle hart's clock stood still.
            let behind = now.saturating_sub(self.clock(hart));
            self.hardware.cores[hart].stalls += behind;
            let furthest = self
                .harts
                .iter()
                .map(|state| state.context.progress())
                .max();
            let context = &mut self.harts[hart].context;
            context.idle = furthest.unwrap_or(0) - context.hart.retired;
            let running = self.enter_kernel(hart, 0, |kernel, registers, port| {
                kernel.schedule(hart, registers, port)
            });
            self.adopt(hart, running);
            self.harts[hart].slice_end =
                self.clock(hart) + self.configuration.scheduling.slice_cycles;
        }
    }

    fn wake_sleepers(&mut self, hart: usize) {
        let Some(deadline) = self.next_deadline_ns else {
            return;
        };
        let now_ns = self.clock_ns();
        if now_ns < deadline {
            return;
        }
        self.kernel.wake_sleepers(now_ns);
        self.kernel_changed = true;
        self.next_deadline_ns = self.kernel.next_deadline_ns();
        if self.kernel.exited().is_some() && self.ended.is_none() {
            self.programs_ended(hart);
        }
        self.schedule_idle_harts(self.clock(hart));
    }

    fn deadlock(&self) -> Error {
        Error::Deadlock {
            cycle: self.time(),
            stopped: self.kernel.stopped_processes(),
        }
    }

    /// When the first sleeper is due, if every hart is idle, in the machine's time and in the virtual
    /// one; the end of time if something else will let a hart go on. Where nothing ever will, that is
    /// an error: then there is no instruction, either, at which a run could be stopped.
    fn idle_until(&self) -> Result<(Cycles, u64), Error> {
        let under_way = self.epoch_due.is_some() || self.ended.is_some();
        if under_way || self.harts.iter().any(|hart| hart.context.running.is_some()) {
            return Ok((Cycles::MAX, 0));
        }
        let change = self.kernel.next_change_ns();
        let change_ns = change.ok_or_else(|| self.deadlock())?;
        let clock = self.configuration.specification.clock();
        let idle = clock.cycles(change_ns.saturating_sub(self.clock_ns()) as f64);
        Ok((self.time().saturating_add(idle), change_ns))
    }

    /// Lets the time pass in which every hart is idle, up to the first sleeper's deadline.
    fn skip_idle_time(&mut self, wake_time: Cycles, change_ns: u64) {
        self.skipped_ns += change_ns.saturating_sub(self.clock_ns());
        self.hardware.cores[0].stalls += wake_time - self.clock(0);
        self.wake_sleepers(0);
    }

    /// The virtual clock, between turns.
    pub(crate) fn clock_ns(&self) -> u64 {
        self.virtual_clock(0)
            .nanoseconds(self.harts[0].context.hart.retired)
    }

    /// When a hart's context is saved: now.
    pub(crate) fn saved_at(&self, hart: usize) -> SavedAt {
        SavedAt {
            clock_ns: self.clock_ns(),
            cycles: self.clock(hart),
        }
    }

    // ---- Epochs and output -----------------------------------------------------------------

    fn fire(&mut self, time: Cycles) {
        let Some((time, event)) = self.hardware.events.take_due(time) else {
            return;
        };
        if event == EVENT_EPOCH_CYCLES {
            if self.epoch_due.is_none() && self.ended.is_none() {
                self.epoch_due = Some((0, Urgency::Routine));
            }
            let next = time + self.configuration.epoch.cycles;
            self.hardware.events.schedule(next, EVENT_EPOCH_CYCLES);
            return;
        }
        if event == END_EPOCH {
            // One that was scheduled while the last epoch came to its end is stale.
            if time < self.epoch_began {
                return;
            }
            if self.epoch_due.is_none() && self.ended.is_none() {
                self.epoch_due = Some((0, Urgency::Overflow));
            }
            return;
        }
        let before = self.design.announced_epoch();
        let design = &mut self.design;
        (self.hardware).asking("fired", time, |hardware| {
            design.fired(hardware, event, time);
        });
        self.check_epochs();
        self.note_phase(time);
        if self.design.announced_epoch() != before {
            self.announced(time);
        }
    }

    /// Holds what the design says of its epochs against what it said before.
    pub(crate) fn check_epochs(&mut self) {
        // Who promises nothing lets everything out at once.
        let promises = D::PROMISE != perdure_designs::Promise::Nothing;
        if !promises || !self.hardware.enforces_contract() {
            return;
        }
        let announced = self.design.announced_epoch();
        let executing = match self.oldest_epoch() {
            Some(oldest) => oldest,
            None => self.design.executing_epoch(),
        };
        self.hardware.hold_to_epochs(announced, executing);
    }

    /// An epoch ends: contexts are stored, the design takes over, everybody goes on.
    fn end_epoch(&mut self, hart: usize, urgency: Urgency) -> Result<u64, Error> {
        if self.design.groups().is_some() {
            return Ok(self.end_group_epoch(hart, urgency));
        }
        let epoch = self.design.executing_epoch();
        self.seal(epoch, epoch);
        if D::SAVES_CONTEXTS {
            self.save_contexts(hart, epoch)?;
        }
        self.keep_kernel(epoch, epoch);
        let before = self.time();
        for hart in 0..self.harts.len() {
            self.note_left(hart, epoch, before);
        }
        self.unpersisted.end(epoch, before);
        let design = &mut self.design;
        let now = (self.hardware).asking("end_epoch", before, |hardware| {
            design.end_epoch(hardware, urgency, before)
        });
        let now = now.max(before);
        self.check_epochs();
        self.hardware.statistics.flush_stall_cycles += now - before;
        self.hardware.statistics.epochs_committed += 1;
        if urgency == Urgency::Overflow {
            self.hardware.statistics.epochs_overflowed += 1;
        }
        if urgency == Urgency::OutputCommit {
            self.hardware.statistics.epochs_forced += 1;
            self.hold_files(epoch, epoch);
        }
        for (state, core) in self.harts.iter_mut().zip(&self.hardware.cores) {
            state.epoch_start = state.context.hart.retired;
            state.epoch_start_stores = core.stores;
        }
        self.epoch_began = now;
        // Harts go on when the epoch has ended everywhere.
        for index in 0..self.harts.len() {
            if self.harts[index].context.running.is_some() {
                let wait = now.saturating_sub(self.clock(index));
                self.hardware.cores[index].stalls += wait;
            }
        }
        self.announced(now);
        Ok(epoch)
    }

    /// What was written so far is of `epoch`, and stays so until the end of `last`.
    pub(crate) fn seal(&mut self, epoch: u64, last: u64) {
        let early = self.mistake == Some(Mistake::SealsEarly);
        self.kernel.seal(epoch.saturating_sub(u64::from(early)));
        if let Some(notes) = &mut self.notes {
            notes.push(Noted::Ended {
                epoch: last,
                written: self.kernel.output_written().to_vec(),
            });
        }
    }

    /// From now on, keeps what the machine beside its memory is at the end of an epoch: one that is
    /// yet to end, or epoch 0 of a machine that has just booted.
    pub fn keep_epoch_end(&mut self, epoch: u64) {
        self.epoch_end = Some(EpochEnd {
            epoch,
            kernel: None,
            harts: vec![None; self.harts.len()],
        });
        if epoch == 0 {
            self.keep_kernel(0, 0);
            for hart in 0..self.harts.len() {
                self.keep_context(hart, 0, 0);
            }
        }
    }

    /// From now on, remembers where harts are when they leave their epochs; the state is that of the
    /// end of `epoch`.
    pub fn keep_progress(&mut self, epoch: u64) {
        self.progress = Some(Progress::start(epoch, self.time(), self.retired_by_hart()));
    }

    /// A hart leaves an epoch.
    pub(crate) fn note_left(&mut self, hart: usize, epoch: u64, time: Cycles) {
        let retired = self.harts[hart].context.hart.retired;
        if let Some(progress) = &mut self.progress {
            progress.leave(hart, epoch, time, retired);
        }
    }

    /// The kernel's state is that of the ends of these epochs.
    pub(crate) fn keep_kernel(&mut self, first: u64, last: u64) {
        if let Some(end) = &mut self.epoch_end
            && (first..=last).contains(&end.epoch)
        {
            end.kernel = Some((self.kernel.clone(), self.skipped_ns));
        }
    }

    /// A hart's context is that of the ends of these epochs.
    pub(crate) fn keep_context(&mut self, hart: usize, first: u64, last: u64) {
        let at = self.saved_at(hart);
        if let Some(end) = &mut self.epoch_end
            && (first..=last).contains(&end.epoch)
        {
            end.harts[hart] = Some((self.harts[hart].context.clone(), at));
        }
    }

    /// Files leave as they are now, which is as of `made`, when an epoch may.
    pub(crate) fn hold_files(&mut self, epoch: u64, made: u64) {
        let early = self.mistake == Some(Mistake::HoldsFilesEarly);
        let epoch = epoch.saturating_sub(u64::from(early));
        if let Some(notes) = &mut self.notes {
            notes.push(Noted::Held { epoch, made });
        }
        self.kernel_changed = true;
        let mut port = DevicePort(&mut self.hardware, &self.design);
        match self.kernel.release_files(&mut port, &self.outside.spool) {
            Ok(files) => {
                let files = files.into_iter().map(|file| (epoch, file));
                self.held_files.extend(files);
            }
            Err(error) => {
                self.outside.failure.get_or_insert(error.to_string());
            }
        }
    }

    /// The guest's files as they are now, all of each that has left before.
    pub(crate) fn files(&mut self) -> Result<Vec<Release>, Error> {
        let mut port = DevicePort(&mut self.hardware, &self.design);
        let files = self.kernel.released_files(&mut port, &self.outside.spool);
        files.map_err(spool_failed)
    }

    fn note_phase(&mut self, time: Cycles) {
        let pc = self.location().0;
        let phase = self.design.phase();
        if let Some(changes) = &mut self.phase_changes
            && changes.last().is_none_or(|(_, last, _)| *last != phase)
        {
            changes.push((time, phase, pc));
        }
    }

    /// The kernel's state as of now, if its region has room for it; else what to do about it.
    pub(crate) fn kernel_image(&self) -> Result<Vec<u8>, String> {
        let image = self.kernel.save();
        let room = self.layout.kernel.end - self.layout.kernel.start;
        if image.len() as u64 <= room {
            return Ok(image);
        }
        Err(format!(
            "nvm.bytes is too small: the kernel's state takes {} bytes and its region has {room}",
            image.len()
        ))
    }

    fn save_contexts(&mut self, hart: usize, epoch: u64) -> Result<(), Error> {
        let image = self.kernel_image().map_err(Error::Configuration)?;
        let mut record = MachineRecord::new(epoch, &image, self.skipped_ns).encode();
        record[LINE_BYTES] ^= u8::from(self.mistake == Some(Mistake::SavesDamagedRecord));
        let old = std::mem::take(&mut self.saved_image);
        let mut lines = 0;
        for (index, line) in image.chunks(LINE_BYTES).enumerate() {
            let start = index * LINE_BYTES;
            if old.get(start..start + line.len()) != Some(line) {
                lines += 1;
                self.store_context(hart, self.layout.kernel.start + start as u64, line);
            }
        }
        self.saved_image = image;
        self.store_context(hart, self.layout.context(self.harts.len()), &record);
        for index in 0..self.harts.len() {
            self.keep_context(index, epoch, epoch);
            if self.mistake == Some(Mistake::SavesOldContexts) && epoch.is_multiple_of(2) {
                continue;
            }
            let bytes = self.harts[index].context.encode(self.saved_at(index));
            lines += bytes.len().div_ceil(LINE_BYTES) as u64;
            // A hart that runs nothing has stood still since it last did: another stores for it.
            let idle = self.harts[index].context.running.is_none();
            let storing = if idle { hart } else { index };
            self.store_context(storing, self.layout.context(index), &bytes);
        }
        self.hardware.statistics.context_lines += lines + 2;
        Ok(())
    }

    fn store_context(&mut self, hart: usize, address: u64, bytes: &[u8]) {
        let clock = self.virtual_clock(hart);
        let retired = self.harts[hart].context.hart.retired;
        let mut port = KernelPort {
            hardware: &mut self.hardware,
            design: &mut self.design,
            hart,
            retired,
            clock,
            others: [&[], &[]],
            changed: &mut Changed::default(),
        };
        port.write(address, bytes);
    }

    /// More may have become visible outside: release it, and let those who waited go on.
    pub(crate) fn announced(&mut self, time: Cycles) {
        let epoch = self.design.announced_epoch();
        (self.unpersisted).persist(epoch, time, &mut self.hardware.statistics);
        self.let_out(epoch, Mistake::GarblesOutput);
        for index in 0..self.harts.len() {
            if self.harts[index]
                .waits_for
                .is_some_and(|waited| waited <= epoch)
            {
                self.harts[index].waits_for = None;
                let wait = time.saturating_sub(self.clock(index));
                self.hardware.cores[index].stalls += wait;
                self.hardware.statistics.persist_stall_cycles += wait;
            }
        }
        if self
            .ended
            .as_ref()
            .is_some_and(|ended| ended.epoch <= epoch && self.epoch_due.is_none())
        {
            self.finished = true;
        }
    }

    /// Lets out what is not newer than an epoch. `garbles` is the mistake that changes it.
    fn let_out(&mut self, epoch: u64, garbles: Mistake) {
        let early = self.mistake == Some(Mistake::ReleasesEarly);
        let epoch = epoch.saturating_add(u64::from(early));
        for (sealed, mut release) in self.kernel.release(epoch) {
            if let Release::Stream { bytes, .. } = &mut release
                && self.mistake == Some(garbles)
                && let Some(last) = bytes.last_mut()
            {
                *last ^= 1;
            }
            self.outside.receive(sealed, release);
        }
        let (out, held) = std::mem::take(&mut self.held_files)
            .into_iter()
            .partition(|(written, _)| *written <= epoch);
        self.held_files = held;
        let out: Vec<(u64, Release)> = out;
        for (written, file) in out {
            self.outside.receive(written, file);
        }
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

struct Parts {
    layout: Layout,
    hardware: Hardware,
    kernel: Kernel,
    contexts: Vec<HartContext>,
    saved_image: Vec<u8>,
    saved_contexts: Vec<Vec<u8>>,
    skipped_ns: u64,
    /// Local time from which the harts go on.
    start: Cycles,
    programs: usize,
}

/// What waits for the outside cannot be kept.
fn spool_failed(source: std::io::Error) -> Error {
    Error::Host {
        what: format!(
            "keeping what the guest wrote, in {}",
            std::env::temp_dir().display()
        ),
        source,
    }
}

/// Refuses an NVM whose directory, a word for each line, this host has no room for: reserving it
/// later would end the process.
fn reserve_directory(specification: &Specification) -> Result<(), Error> {
    let words = usize::try_from(specification.nvm.bytes / LINE_BYTES as u64).unwrap_or(usize::MAX);
    if specification.llc.inclusion != Inclusion::NonInclusive {
        return Ok(());
    }
    Vec::<u64>::new().try_reserve_exact(words).map_err(|why| {
        Error::Configuration(format!(
            "nvm.bytes = {}: this host has no room for the directory of a last-level cache that is not inclusive ({why})",
            specification.nvm.bytes
        ))
    })
}

/// All counters, the design's own included.
fn statistics_of<D: Design>(hardware: &Hardware, design: &D) -> Statistics {
    let mut statistics = hardware.statistics();
    design.report(&mut statistics);
    statistics
}
