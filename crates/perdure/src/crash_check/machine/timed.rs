//! The timed machine under a program: once from its beginning to its end, to hear in which order it stores
//! and makes bytes durable, and once more to be cut.
//!
//! Always true here: both are the same run, and a cut changes nothing of it; what a cut leaves is what the
//! design's recovery makes of surviving bytes alone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use perdure_hardware::time::Cycles;
use perdure_hardware::watched::{Heard, Watched};
use perdure_linux::pools::PoolSource;
use perdure_linux::{PAGE_BYTES, Program};
use serde::{Deserialize, Serialize};

use super::super::pending::Bytes;
use super::super::refused;
use crate::configuration::Configuration;
use crate::error::Error;
use crate::functional::{Pool, World};
use crate::machine::{Engine, Machine, Pause, Workload};
use crate::observer::Observer;
use crate::request::{Prepared, Request};
use crate::verify;

/// How far the run goes between two looks at the observer, and at what was heard.
const STRIDE: Cycles = 1_000_000;

/// What was heard of the run that nobody cuts.
pub struct Run {
    /// Everything, in the order of the simulation.
    pub log: Vec<Heard>,
    /// When writes begin and end at the media.
    pub events: Vec<Cycles>,
    /// Nothing changes any more after this.
    pub end: Cycles,
    /// Persistent memory before the first instruction.
    pub first: Pool,
}

/// When power is cut, and what chooses what torn writes leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct When {
    /// The cycle.
    pub cycle: Cycles,
    /// Of torn writes.
    pub tear_seed: u64,
}

/// What a cut leaves.
pub struct Left {
    /// When it was.
    pub when: When,
    /// How much of the log had been heard.
    pub heard: usize,
    /// Lines that are not as they were stored last, by their addresses, as they are found.
    pub lost: BTreeMap<u64, Bytes>,
}

/// A request made ready for the machine itself: no folder of pools is an empty one.
pub fn made_ready(request: &Request) -> Result<Prepared, Error> {
    let mut prepared = request.prepare()?;
    let none = || Arc::new(PoolSource::Files(Vec::new()));
    prepared.workload.pools.get_or_insert_with(none);
    Ok(prepared)
}

/// A machine that is ready to run.
pub struct Timed<'t> {
    configuration: Arc<Configuration>,
    workload: Workload,
    world: &'t World,
    observer: &'t dyn Observer,
    /// What an earlier cut has left, if there was one.
    found: Option<Pool>,
}

impl<'t> Timed<'t> {
    /// Of a request; persistent memory lies as it does in the world that recoveries run in.
    pub fn of(
        request: &Request,
        world: &'t World,
        observer: &'t dyn Observer,
    ) -> Result<Self, Error> {
        let request = Request {
            restart: true,
            ..request.clone()
        };
        let prepared = made_ready(&request)?;
        prepared.configuration.refuse_timing_only("a power cut")?;
        Ok(Self {
            configuration: prepared.configuration,
            workload: prepared.workload,
            world,
            observer,
            found: None,
        })
    }

    /// The same machine after a cut: a program starts on what that has left.
    pub fn after(&self, found: Pool, program: &Program) -> Self {
        let mut workload = self.workload.clone();
        workload.kernel.programs = vec![program.clone()];
        workload.pools = Some(Arc::new(PoolSource::Surviving));
        Self {
            configuration: Arc::clone(&self.configuration),
            workload,
            world: self.world,
            observer: self.observer,
            found: Some(found),
        }
    }

    /// Runs it to its end; nothing if the user does not want to wait for that.
    pub fn listen(&self) -> Result<Option<Run>, Error> {
        // It says which instruction stores.
        let mut watching = self.boot(Engine::Stepping)?;
        let first = watching.pool(self.world)?;
        watching.machine.hardware.memory.persistence_times = Some(Vec::new());
        let (mut log, mut next, mut stride) = (Vec::new(), STRIDE, STRIDE);
        while !watching.go_to(next, |heard| log.push(heard))? {
            // While every hart sleeps, ever further.
            let idle = watching.machine.time() < next.saturating_sub(stride);
            stride = if idle {
                stride.saturating_mul(2)
            } else {
                STRIDE
            };
            next = next.saturating_add(stride);
            if self.observer.interrupted() {
                return Ok(None);
            }
        }
        let machine = &mut watching.machine;
        let end = machine.time().max(machine.hardware.memory.quiet_at());
        let times = machine.hardware.memory.persistence_times.take();
        let mut events = times.unwrap_or_default();
        events.retain(|&time| time > 0 && time <= end);
        events.sort_unstable();
        events.dedup();
        Ok(Some(Run {
            log,
            events,
            end,
            first,
        }))
    }

    /// Runs it again, and cuts it at these moments, which are in order; fewer if the user stops it.
    pub fn cut(&self, moments: &[When]) -> Result<Vec<Left>, Error> {
        let mut watching = self.boot(Engine::Fast)?;
        let (mut newest, mut heard) = (BTreeMap::<LineNumber, Box<Line>>::new(), 0);
        let mut all = Vec::new();
        for &when in moments {
            watching.go_to(when.cycle, |event| {
                heard += 1;
                if let Heard::Stored { line, bytes, .. } = event {
                    newest.insert(line, bytes);
                }
            })?;
            if self.observer.interrupted() {
                break;
            }
            let came = verify::came_back(&mut watching.machine, when.cycle, when.tear_seed);
            let image = came
                .map_err(|error| Error::Defect(format!("after the cut: {error}")))?
                .image;
            let addressed = (newest.iter()).map(|(line, bytes)| (line * LINE_BYTES as u64, bytes));
            let lost = addressed.filter_map(|(address, bytes)| {
                let found = image.memory.line(address).0;
                (found != bytes.0).then_some((address, found))
            });
            all.push(Left {
                when,
                heard,
                lost: lost.collect(),
            });
        }
        Ok(all)
    }

    fn boot(&self, engine: Engine) -> Result<Watching, Error> {
        let (configuration, workload) = (&self.configuration, &self.workload);
        let mut machine = match &self.found {
            None => Machine::boot(configuration, workload, engine, None),
            Some(found) => {
                let memory = found.memory(configuration.specification.physical_map().bytes())?;
                Machine::boot_again(configuration, workload, memory, engine, None)
            }
        }?;
        let pools = machine.kernel().pools().map(|(addresses, _)| addresses);
        let Some(addresses) = pools.filter(|addresses| *addresses == self.world.pools()) else {
            return refused(format!(
                "check: the machine's design, {}, does not have its pools in all of persistent memory",
                configuration.design.name
            ));
        };
        let lines = line_of(addresses.start)..addresses.end / LINE_BYTES as u64;
        machine.hardware.memory.watched = Some(Box::new(Watched::all_of(lines)));
        Ok(Watching { machine, addresses })
    }
}

struct Watching {
    machine: Machine,
    addresses: Range<u64>,
}

impl Watching {
    /// Goes on to a cycle, or to the end if that comes first: then true. Takes in what is heard.
    fn go_to(&mut self, at: Cycles, mut take: impl FnMut(Heard)) -> Result<bool, Error> {
        let pause = loop {
            match self.machine.run(at)? {
                Pause::EpochEnded(_) => {}
                pause => break pause,
            }
        };
        let heard = self.machine.hardware.memory.watched.as_mut();
        let heard = heard.map(|watched| watched.take()).unwrap_or_default();
        heard.into_iter().filter(is_of_interest).for_each(&mut take);
        Ok(pause == Pause::Finished)
    }

    /// Persistent memory now.
    fn pool(&self, world: &World) -> Result<Pool, Error> {
        let mut pool = world.empty_pool()?;
        let arena = &self.machine.hardware.memory.arena;
        let pages = arena.written_pages();
        for page in pages.filter(|page| self.addresses.contains(page)) {
            pool.write(page, &arena.slice(page, PAGE_BYTES as usize));
        }
        Ok(pool)
    }
}

/// What says in which order bytes are stored and become durable.
fn is_of_interest(heard: &Heard) -> bool {
    matches!(heard, Heard::Stored { .. } | Heard::Ordered(_))
}
