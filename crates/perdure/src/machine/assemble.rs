//! Assembling a machine: the substrate, the design, the kernel and the harts, for a program that boots
//! or one that goes on.
//!
//! Always true here: what a machine is at its start follows from the configuration, the workload and, if
//! it goes on, from the image alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use perdure_designs::bytes::Sealed;
use perdure_designs::layout::Layout;
use perdure_designs::{AnyDesign, Epochs, Facts};
use perdure_hardware::arena::{Arena, PAGE_BYTES};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::physical_map::{self, PhysicalMap, RegionKind};
use perdure_hardware::specification::Specification;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::NotCopied;
use perdure_linux::pools::PoolSource;
use perdure_linux::{Kernel, Pools, Region, Repeat};

use super::epochs::EVENT_EPOCH_CYCLES;
use super::{HartState, Machine, Runnable};
use crate::configuration::{Configuration, Counted};
use crate::context::{HartContext, MachineRecord, SavedAt};
use crate::error::Error;
use crate::kernel_ports::BootPort;
use crate::mistakes::Mistake;
use crate::outside::Outside;
use crate::progress::Unpersisted;
use crate::region::{self, Meter};
use crate::source::Source;
use crate::watch::{Burst, Lengths, Watch, Watched};

/// A program and the world it sees.
#[derive(Clone, Debug)]
pub struct Workload {
    /// For the kernel; frames, harts and costs are filled in from the configuration.
    pub kernel: perdure_linux::Configuration,
    /// Stop after so many instructions of all harts together.
    pub stop_after: Option<u64>,
    /// Measure a part of the run, and stop after it.
    pub region: Option<region::Region>,
    /// The pools to begin with, if it shall have any.
    pub pools: Option<Arc<PoolSource>>,
    /// Programs begin anew after a power cut, whatever the design could bring back.
    pub begins_anew: bool,
    /// The lives of the machine before this one.
    pub past: Past,
    /// What to watch.
    pub watch: Option<Watched>,
    /// A mistake to plant in the machine.
    pub mistake: Option<Mistake>,
}

impl Workload {
    /// Programs and nothing else.
    pub fn new(kernel: perdure_linux::Configuration) -> Self {
        Self {
            kernel,
            stop_after: None,
            region: None,
            pools: None,
            begins_anew: false,
            past: Past::default(),
            watch: None,
            mistake: None,
        }
    }
}

/// What a machine that starts has behind it: its clock goes on, and its random numbers are others than
/// before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Lives that power cuts ended.
    pub lives: u64,
    /// How long they were together.
    pub nanoseconds: u64,
}

impl Past {
    /// The random seed of the life after these, where the first one has this one.
    fn seed(self, first: u64) -> u64 {
        first ^ self.lives.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// What a machine is put together from.
pub(super) struct Parts {
    pub(super) layout: Layout,
    pub(super) hardware: Hardware,
    pub(super) kernel: Kernel,
    pub(super) contexts: Vec<HartContext>,
    pub(super) saved_image: Vec<u8>,
    pub(super) saved_contexts: Vec<Vec<u8>>,
    pub(super) skipped_ns: u64,
    /// Local time from which the harts go on.
    pub(super) start: Cycles,
    pub(super) programs: usize,
}

impl Parts {
    /// The machine record, as it is in memory.
    fn record(&self) -> Vec<u8> {
        let record = self.layout.context(self.hardware.cores.len());
        let arena = &self.hardware.memory.arena;
        arena.slice(record, MachineRecord::BYTES).to_vec()
    }
}

impl<S: Source> Machine<S> {
    /// Boots a program: epoch 0 is its first instruction, durable in NVM.
    pub fn boot(
        configuration: &Arc<Configuration>,
        workload: &Workload,
        engine: S::Choice,
        bug: Option<&'static str>,
    ) -> Result<Self, Error> {
        let bytes = configuration.specification.physical_map().bytes();
        Self::boot_on(configuration, workload, reserve(bytes)?, engine, bug)
    }

    /// Boots a program after a power cut: memory is as recovery left it, but what programs and the design
    /// live in is empty.
    pub fn boot_again(
        configuration: &Arc<Configuration>,
        workload: &Workload,
        mut memory: Arena,
        engine: S::Choice,
        bug: Option<&'static str>,
    ) -> Result<Self, Error> {
        memory.take_digest();
        let map = configuration.specification.physical_map();
        let pools = super::pools::of(configuration, workload)?;
        let pools = pools.map_or(0..0, |pools| pools.addresses);
        let main = &map.main().addresses;
        let pages: Vec<u64> = (memory.written_pages())
            .filter(|page| main.contains(page) && !pools.contains(page))
            .filter(|&page| memory.slice(page, PAGE_BYTES).iter().any(|&byte| byte != 0))
            .collect();
        for page in pages {
            memory.write(page, &[0; PAGE_BYTES]);
        }
        Self::boot_on(configuration, workload, memory, engine, bug)
    }

    fn boot_on(
        configuration: &Arc<Configuration>,
        workload: &Workload,
        arena: Arena,
        engine: S::Choice,
        bug: Option<&'static str>,
    ) -> Result<Self, Error> {
        let specification = configuration.specification.clone();
        let harts = specification.harts;
        let layout = layout_of(&specification);
        let map = specification.physical_map();
        let mut hardware = hardware_of(specification, &layout, arena);
        let pools = super::pools::of(configuration, workload)?;
        let ends = pools.iter().map(|pools| pools.addresses.start);
        let end = ends.fold(layout.frames.end, u64::min);
        let kernel_configuration = perdure_linux::Configuration {
            frames: layout.frames.start..end,
            regions: regions(configuration.design, &map, pools.as_ref()),
            pools,
            harts,
            caches: configuration.caches(),
            random_seed: workload.past.seed(configuration.kernel.random_seed),
            clock_start_ns: configuration.kernel.clock_start_ns + workload.past.nanoseconds,
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
        let (saved_image, saved_contexts) = if configuration.design.recovery.resumes() {
            save_beginning(&mut hardware, &layout, &kernel, &contexts)
        } else {
            (Vec::new(), Vec::new())
        };
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
        machine.plant(workload.mistake);
        if machine.mistake == Some(Mistake::Drifts) {
            static RUNS: AtomicU64 = AtomicU64::new(0);
            let runs = RUNS.fetch_add(1, Ordering::Relaxed);
            machine.hardware.cores[0].timing.stand_still(977 * runs);
        }
        machine.past = workload.past;
        machine.repeats = workload.kernel.repeat != Repeat::Never;
        machine.meter = Meter::new(workload.kernel.programs.len(), workload.region);
        if let Some(watched) = &workload.watch {
            machine.lengths = lengths_of(configuration, watched.burst)?;
            let space = machine.harts[0].space;
            machine.watch = watched.resolve(&machine.kernel, space)?;
        }
        machine.look_at_region(0);
        Ok(machine)
    }

    pub(super) fn assemble(
        configuration: &Arc<Configuration>,
        mut parts: Parts,
        epoch: u64,
        stop_after: Option<u64>,
        engine: S::Choice,
        bug: Option<&'static str>,
    ) -> Result<Self, Error> {
        let design = started(
            configuration,
            &parts.layout,
            &mut parts.hardware,
            epoch,
            bug,
        )?;
        // Recovered harts have a past, and the machine's time goes on from the longest one.
        let start = parts.start;
        for (core, context) in parts.hardware.cores.iter_mut().zip(&parts.contexts) {
            core.timing.set_clock(context.hart.retired, start);
        }
        let slice_end = start + configuration.scheduling.slice_cycles;
        let saved_record = parts.record();
        let hart = |context| HartState::new(context, S::new(engine), slice_end);
        let epoch_lengths = lengths_of(configuration, Burst::default())?;
        if epoch_lengths.cycles > 0 {
            (parts.hardware.events).schedule(start + epoch_lengths.cycles, EVENT_EPOCH_CYCLES);
        }
        let mut machine = Self {
            configuration: Arc::clone(configuration),
            layout: parts.layout,
            hardware: parts.hardware,
            design,
            next_deadline_ns: parts.kernel.next_deadline_ns(),
            kernel: parts.kernel,
            harts: parts.contexts.into_iter().map(hart).collect(),
            turn: None,
            runnable: Runnable::default(),
            epoch_began: start,
            overtaken: None,
            epoch_due: None,
            lengths: epoch_lengths,
            counts_all: configuration.epoch.counted == Counted::All
                && configuration.design.epochs == Epochs::Machine,
            watch: Watch::default(),
            saved_image: parts.saved_image,
            saved_contexts: parts.saved_contexts,
            saved_record,
            kernel_epoch: epoch + 1,
            kernel_changed: true,
            mappings_epoch: 0,
            skipped_ns: parts.skipped_ns,
            stop_after: stop_after.unwrap_or(u64::MAX),
            repeats: false,
            is_disturbed: false,
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
            listener: NotCopied::default(),
            bug,
            mistake: None,
            past: Past::default(),
        };
        (0..machine.harts.len()).for_each(|hart| machine.tell_thread(hart));
        Ok(machine)
    }

    /// Plants a mistake, unless it is one of machines that have come back.
    fn plant(&mut self, mistake: Option<Mistake>) {
        self.mistake = mistake.filter(|mistake| !mistake.strikes_only_resumed());
        self.hardware.plant(mistake.and_then(Mistake::of_persists));
    }
}

/// Whether there can be a machine that is configured so: what its design says when it starts.
///
/// # Errors
/// What the design, or the epochs, cannot be.
pub fn check_starts(configuration: &Configuration) -> Result<(), Error> {
    let specification = configuration.specification.clone();
    let arena = reserve(specification.physical_map().bytes())?;
    let layout = layout_of(&specification);
    let mut hardware = hardware_of(specification, &layout, arena);
    started(configuration, &layout, &mut hardware, 0, None)?;
    lengths_of(configuration, Burst::default())?;
    Ok(())
}

/// The design, started on that hardware.
fn started(
    configuration: &Configuration,
    layout: &Layout,
    hardware: &mut Hardware,
    epoch: u64,
    bug: Option<&'static str>,
) -> Result<Box<dyn AnyDesign>, Error> {
    let parameters = configuration.parameters()?;
    let start = configuration.design.start;
    let design = start(&parameters, layout, hardware, epoch, bug)
        .map_err(|problem| Error::Configuration(problem.to_string()))?;
    let memory = &hardware.memory;
    if memory.keeps_caches() && !memory.device_recoveries().is_empty() {
        return Err(Error::Configuration(
            "persistence.domain = \"eadr\": what the caches drain would lie below what a module's device does when it recovers; take adr or media".into(),
        ));
    }
    Ok(design)
}

/// Makes the first instruction durable, as epoch 0; what is there then of kernel and contexts.
fn save_beginning(
    hardware: &mut Hardware,
    layout: &Layout,
    kernel: &Kernel,
    contexts: &[HartContext],
) -> (Vec<u8>, Vec<Vec<u8>>) {
    let saved_image = kernel.save();
    let record = MachineRecord::new(0, &saved_image, 0);
    let arena = &mut hardware.memory.arena;
    arena.write(layout.kernel.start, &saved_image);
    arena.write(layout.context(contexts.len()), &record.encode());
    let saved_contexts: Vec<_> = (contexts.iter())
        .map(|context| context.encode(SavedAt::default()))
        .collect();
    for (index, context) in saved_contexts.iter().enumerate() {
        arena.write(layout.context(index), context);
    }
    (saved_image, saved_contexts)
}

/// How long epochs are; without an end where there are none.
fn lengths_of(configuration: &Configuration, burst: Burst) -> Result<Lengths, Error> {
    if configuration.design.epochs == Epochs::None {
        return Ok(Lengths::default());
    }
    Lengths::new(&configuration.epoch, burst)
}

/// Memory of so many bytes.
fn reserve(bytes: u64) -> Result<Arena, Error> {
    Arena::new(bytes).map_err(|source| Error::Host {
        what: format!("reserving {bytes} bytes of simulated memory (nvm.bytes)"),
        source,
    })
}

/// Where everything lies in such a machine's memory.
pub(super) fn layout_of(specification: &Specification) -> Layout {
    let main = specification.physical_map().main().addresses.clone();
    Layout::new(specification.harts, main.end)
}

/// The hardware around a memory that is laid out so.
pub(super) fn hardware_of(specification: Specification, layout: &Layout, arena: Arena) -> Hardware {
    let contexts = layout.contexts.start..layout.kernel.end;
    let mut hardware = Hardware::new(specification, arena, contexts);
    hardware.memory.interleave_home(layout.protected());
    hardware
}

/// What programs may map of physical memory beside the region that they live in, and beside pools: nothing
/// under a design that brings machines back as they were, which keeps that region alone.
fn regions(design: &Facts, map: &PhysicalMap, pools: Option<&Pools>) -> Vec<Region> {
    let mapped = |kind| kind != RegionKind::Dram && !design.recovery.resumes();
    let has_pools = |region: &&physical_map::Region| {
        pools.is_some_and(|pools| region.addresses.contains(&pools.addresses.start))
    };
    let beside = (map.regions().iter().skip(1))
        .filter(|region| mapped(region.kind))
        .filter(|region| !has_pools(region));
    beside
        .map(|region| Region {
            name: region.name.clone(),
            addresses: region.addresses.clone(),
            device: region.kind == RegionKind::Device,
        })
        .collect()
}
