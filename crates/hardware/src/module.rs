//! A memory module: a controller with its link and media, what waits there, and what it has counted.
//!
//! Always true here: a module knows its own bytes only, from 0 on, except in `waiting`, which stands for
//! physical addresses. [`crate::memory`] routes requests to modules and has the bytes.

use std::ops::Range;

use crate::controller::{Controller, Path, Request, Served};
use crate::counters::{Counters as _, equal};
use crate::device::Device;
use crate::line::LineNumber;
use crate::memory::Traffic;
use crate::mistaken::PersistMistake;
use crate::physical_map::RegionKind;
use crate::placement::Placement;
use crate::posted::PostedWrites;
use crate::specification::{MAIN_MODULE, Persistence, Specification};
use crate::statistics::Statistics;
use crate::time::Cycles;
use crate::waiting::Waiting;

crate::counters! {
    /// What a module has done, whoever asked for it.
    pub struct Counters {
        reads, "reads", "operations", "row reads";
        read_bytes, "read_bytes", "bytes", "bytes read";
        writes, "writes", "operations", "row writes";
        written_bytes, "written_bytes", "bytes", "bytes written";
        link_bytes, "link_bytes", "bytes", "of the bytes read and written, those that crossed the link";
        device_loads, "device_loads", "accesses", "loads from its device region";
        device_stores, "device_stores", "accesses", "stores to its device region";
        energy_peak_bytes, "energy_peak", "bytes", gauge "most bytes that its device would have had to save at once, had the power failed then";
    }
    at_most(link_bytes, read_bytes + written_bytes);
}

impl Counters {
    fn count_link(&mut self, path: Path, bytes: usize) {
        if path == Path::Link {
            self.link_bytes += bytes as u64;
        }
    }
}

/// A row operation that writes, as it is counted.
pub(crate) struct Operation {
    pub module: usize,
    /// The first byte's physical address.
    pub address: u64,
    /// The program's line that the bytes belong to.
    pub home: LineNumber,
    /// How many are written.
    pub bytes: usize,
    /// As an operation of so many it counts.
    pub counted: usize,
    pub traffic: Traffic,
}

/// What the persistent modules have done comes to what statistics say of the NVM, and each one's counters
/// agree with each other; says which does not.
pub fn check_conservation(modules: &[Module], statistics: &Statistics) -> Result<(), String> {
    let mut sums = [0; 4];
    for module in modules {
        let counters = &module.counters;
        let named = |problem| format!("module {}: {problem}", module.name);
        counters.check_conservation().map_err(named)?;
        if module.kind == RegionKind::Persistent {
            let Counters {
                reads,
                read_bytes,
                writes,
                written_bytes,
                ..
            } = *counters;
            for (sum, part) in sums
                .iter_mut()
                .zip([reads, read_bytes, writes, written_bytes])
            {
                *sum += part;
            }
        }
    }
    let totals = [
        ("nvm.reads", statistics.nvm_reads),
        ("nvm.read_bytes", statistics.nvm_read_bytes),
        ("nvm.writes", statistics.nvm_writes),
        (
            "nvm.written_bytes.total",
            statistics.nvm_written_bytes_total,
        ),
    ];
    let mut pairs = sums.into_iter().zip(totals);
    pairs
        .try_for_each(|(sum, (name, total))| equal("persistent modules together", sum, name, total))
}

/// The module.
#[derive(Clone, Debug)]
pub struct Module {
    /// What it is called in the configuration.
    pub name: String,
    /// What its bytes are to the machine.
    pub kind: RegionKind,
    /// What it keeps when the power fails, the machine's domain considered.
    pub persistence: Persistence,
    /// What it has done.
    pub counters: Counters,
    pub(crate) controller: Controller,
    /// Instead of the controller, for writes.
    pub(crate) posted: Option<PostedWrites>,
    pub(crate) waiting: Waiting,
    /// Its program, if it has one.
    pub(crate) device: Option<Box<dyn Device>>,
    /// When everything will be durable that its write queue makes durable.
    last_durable: Cycles,
    /// When the last write was accepted that came over the link.
    pub(crate) last_accepted: Cycles,
    pub(crate) persist_mistake: Option<PersistMistake>,
}

impl Module {
    /// The machine's modules, by their numbers in its map.
    pub fn all(specification: &Specification) -> Vec<Self> {
        let domain = specification.persistence.domain;
        let main = (
            MAIN_MODULE,
            RegionKind::Persistent,
            specification.nvm_keeps(),
        );
        let others = (specification.modules.iter())
            .map(|module| (module.name.as_str(), module.kind, module.kept(domain)));
        let modules = std::iter::once(main).chain(others);
        let mut posted = PostedWrites::new(specification);
        modules
            .zip(Controller::all(specification))
            .map(|((name, kind, persistence), controller)| Self {
                name: name.into(),
                kind,
                persistence,
                counters: Counters::default(),
                controller,
                posted: posted.take(),
                waiting: Waiting::default(),
                device: None,
                last_durable: 0,
                last_accepted: 0,
                persist_mistake: None,
            })
            .collect()
    }

    /// Which bank has which of its bytes.
    #[inline]
    pub fn placement(&self) -> &Placement {
        self.controller.placement()
    }

    /// When a write to a place would start if it came at `now`.
    pub(crate) fn could_start_at(&self, offset: u64, now: Cycles) -> Cycles {
        if self.posted.is_some() {
            return now;
        }
        self.controller.could_start_at(offset, now)
    }

    /// Reads so many bytes of a row, of which the request says how far they reach.
    #[inline(always)]
    pub(crate) fn read(&mut self, request: &Request, bytes: usize, now: Cycles) -> Served {
        self.counters.reads += 1;
        self.counters.read_bytes += bytes as u64;
        self.counters.count_link(request.path, bytes);
        self.controller.read(request, now)
    }

    /// Accepts the write of so many bytes of a row, which belong to a line of the program.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        request: &Request,
        bytes: usize,
        home: LineNumber,
        now: Cycles,
    ) -> Served {
        self.counters.writes += 1;
        self.counters.written_bytes += bytes as u64;
        self.counters.count_link(request.path, bytes);
        match &mut self.posted {
            Some(posted) => posted.write(request.address, bytes, home, now),
            None => self.controller.write(request, now),
        }
    }

    /// Counts writes that were posted past the controller, of so many bytes together.
    pub(crate) fn count_posted(&mut self, writes: u64, bytes: u64) {
        self.counters.writes += writes;
        self.counters.written_bytes += bytes;
        self.counters.link_bytes += bytes;
    }

    /// When a write of these bytes is durable, for which the controller has answered. The write queue takes
    /// it for durable when it has it, if that is in the persistence domain: not before what it is ordered
    /// behind, nor before an earlier write of the same bytes.
    #[inline(always)]
    pub(crate) fn durable(
        &mut self,
        written: Served,
        bytes: &Range<u64>,
        not_before: Cycles,
    ) -> Served {
        if self.persistence != Persistence::WriteQueue {
            return written;
        }
        let ordered = written.accepted.max(not_before);
        let durable = self.waiting.durable_at(bytes, ordered);
        let taken = self.taken(Served {
            accepted: written.accepted,
            crossed: written.crossed,
            start: durable,
            done: durable,
        });
        self.last_durable = self.last_durable.max(taken.done);
        taken
    }

    /// Keeps what a write displaces, which is accepted next, as long as a cut could bring it back.
    #[inline(always)]
    pub(crate) fn displaces(&mut self, bytes: &[u8]) {
        if self.persistence != Persistence::None {
            self.waiting.displaces(bytes);
        }
    }

    /// The write was accepted, as so many bytes at an address.
    #[inline(always)]
    pub(crate) fn wait(&mut self, written: &Served, address: u64, length: usize) {
        if self.persistence != Persistence::None {
            let survives = self.survives(written);
            self.waiting.push(&survives, address, length);
        }
    }

    /// When the last accepted write will be durable, for whoever waits for that.
    pub(crate) fn quiet_at(&self) -> Cycles {
        match (&self.posted, self.persistence) {
            (Some(posted), _) => posted.quiet_at(),
            (None, Persistence::Media) => self.controller.quiet_at(),
            (None, Persistence::WriteQueue) => self.last_durable,
            (None, Persistence::None) => 0,
        }
    }

    /// When it is done with every write that it was given.
    pub(crate) fn drained_at(&self) -> Cycles {
        match &self.posted {
            Some(posted) => posted.drained_at(),
            None => self.controller.quiet_at(),
        }
    }

    /// Says which of its bytes belong to programs and the kernel.
    pub(crate) fn interleave_home(&mut self, home: Range<u64>) {
        self.controller.interleave_home(home);
    }
}
