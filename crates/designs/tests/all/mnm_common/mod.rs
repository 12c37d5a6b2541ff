//! What the tests of the multi-snapshot mapping share: machines with nothing but memory, a driver
//! that sends versions of several epochs at once, and a model that knows every version of every
//! line, from which nothing ever reaches the mapping.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use perdure_designs::layout::Layout;
use perdure_designs::nvoverlay::{Nvoverlay, mnm::Mnm, mnm::MnmParameters, mnm::SNAPSHOTS};
use perdure_designs::snapshots::SnapshotStore;
use perdure_designs::surviving::{Interrupted, Surviving};
use perdure_hardware::arena::Arena;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use perdure_hardware::memory::Tear;
use perdure_hardware::specification::{Scheduling, Specification};
use perdure_hardware::time::Cycles;

use crate::common::{Random, geometry, judge::recovered_epoch};

/// A machine and how it is used.
#[derive(Clone, Debug)]
pub struct Machine {
    pub name: &'static str,
    pub banks: usize,
    pub row_bytes: usize,
    pub write_queue_entries: usize,
    pub scheduling: Scheduling,
    pub parameters: MnmParameters,
    /// Pages that are written, how far apart, and how many lines of each.
    pub pages: u64,
    pub page_stride: u64,
    pub lines_of_page: u64,
    /// Epochs that are open at once.
    pub open_epochs: u64,
    /// Versions for each epoch, about.
    pub epoch_versions: u64,
    /// Most cycles between two of them.
    pub pause_cycles: u64,
}

const KIB: u64 = 1024;

fn parameters(omcs: usize, sets: usize, ways: usize, pool: u64, extent: u64) -> MnmParameters {
    MnmParameters {
        omcs,
        buffer_sets: sets,
        buffer_ways: ways,
        pool_limit_bytes: pool,
        pool_extent_bytes: extent,
        pool_extent_interrupt_cycles: 500,
        merge_entries_per_step: 4,
        merge_step_cycles: 32,
        message_cycles: 5,
    }
}

/// All of them.
pub fn machines() -> Vec<Machine> {
    let roomy = Machine {
        name: "roomy",
        banks: 16,
        row_bytes: 2048,
        write_queue_entries: 8,
        scheduling: Scheduling::Fcfs,
        parameters: parameters(2, 1, 8, 8192 * KIB, 512 * KIB),
        pages: 12,
        page_stride: 1,
        lines_of_page: 24,
        open_epochs: 3,
        epoch_versions: 40,
        pause_cycles: 200,
    };
    vec![
        roomy.clone(),
        Machine {
            name: "unbuffered, rows of a line",
            scheduling: Scheduling::Fcfs,
            row_bytes: 64,
            parameters: parameters(1, 0, 0, 8192 * KIB, 256 * KIB),
            ..roomy.clone()
        },
        Machine {
            name: "compaction all the time",
            scheduling: Scheduling::Fcfs,
            parameters: parameters(1, 2, 4, 160 * KIB, 32 * KIB),
            pages: 6,
            lines_of_page: 40,
            epoch_versions: 60,
            ..roomy.clone()
        },
        Machine {
            name: "compaction before anybody waits",
            parameters: parameters(2, 2, 4, 192 * KIB, 32 * KIB),
            pages: 6,
            lines_of_page: 40,
            epoch_versions: 60,
            pause_cycles: 3000,
            ..roomy.clone()
        },
        Machine {
            name: "compaction, unbuffered, one bank",
            banks: 1,
            write_queue_entries: 1,
            row_bytes: 256,
            parameters: parameters(2, 0, 0, 192 * KIB, 96 * KIB),
            pages: 8,
            lines_of_page: 32,
            pause_cycles: 900,
            ..roomy.clone()
        },
        Machine {
            name: "four OMCs, parallel media, small buffers",
            banks: 256,
            write_queue_entries: 64,
            parameters: parameters(4, 4, 2, 512 * KIB, 128 * KIB),
            pages: 16,
            lines_of_page: 64,
            epoch_versions: 120,
            pause_cycles: 60,
            ..roomy.clone()
        },
        Machine {
            name: "sparse pages",
            row_bytes: 64,
            banks: 64,
            parameters: parameters(3, 1, 12, 4096 * KIB, 256 * KIB),
            pages: 90,
            page_stride: 97,
            lines_of_page: 2,
            epoch_versions: 30,
            ..roomy.clone()
        },
        Machine {
            name: "sparse pages, tight pool",
            scheduling: Scheduling::Fcfs,
            parameters: parameters(1, 1, 16, 320 * KIB, 64 * KIB),
            pages: 60,
            page_stride: 97,
            lines_of_page: 3,
            epoch_versions: 50,
            pause_cycles: 120,
            ..roomy
        },
    ]
}

impl Machine {
    pub fn specification(&self) -> Specification {
        let mut specification = geometry::Geometry {
            banks: self.banks,
            row_bytes: self.row_bytes,
            write_queue_entries: self.write_queue_entries,
            dram: true,
            ..geometry::TINY
        }
        .specification();
        specification.nvm.scheduling = self.scheduling;
        specification
    }
}

/// What was written: bytes and writer.
pub type Written = (Line, u16);

/// Every version of every line, and what memory was before.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub initial: BTreeMap<LineNumber, Line>,
    pub versions: BTreeMap<LineNumber, BTreeMap<u64, Written>>,
}

impl Model {
    pub fn at(&self, line: LineNumber, epoch: u64) -> Line {
        self.versions
            .get(&line)
            .and_then(|versions| versions.range(..=epoch).next_back())
            .map(|(_, (bytes, _))| *bytes)
            .or_else(|| self.initial.get(&line).copied())
            .unwrap_or(Line::ZERO)
    }

    /// Only epochs up to this one have happened.
    pub fn forget_after(&mut self, epoch: u64) {
        for versions in self.versions.values_mut() {
            versions.split_off(&(epoch + 1));
        }
        self.versions.retain(|_, versions| !versions.is_empty());
    }

    /// The versions of a line that a store with that horizon has.
    fn history(&self, line: LineNumber, horizon: u64, newest: u64) -> Vec<(u64, Written)> {
        let Some(versions) = self.versions.get(&line) else {
            return Vec::new();
        };
        let base = versions.range(..=horizon).next_back();
        let after = versions.range(horizon + 1..=newest.max(horizon + 1));
        base.into_iter()
            .chain(after.filter(|(epoch, _)| **epoch <= newest))
            .map(|(&epoch, &written)| (epoch, written))
            .collect()
    }
}

/// What the clean mapping must never earn.
pub type Accusation = String;

/// A machine that runs.
pub struct Rig {
    pub machine: Machine,
    pub hardware: Hardware,
    pub mnm: Mnm,
    pub layout: Layout,
    pub model: Model,
    pub random: Random,
    pub completed: u64,
    pub now: Cycles,
    bug: Option<&'static str>,
    pub phases: BTreeSet<&'static str>,
}

impl Rig {
    /// A machine at first boot.
    pub fn new(machine: &Machine, seed: u64, bug: Option<&'static str>) -> Self {
        let specification = machine.specification();
        let mut arena = Arena::new(specification.nvm.bytes).expect("memory for the arena");
        let layout = Layout::new(1, specification.nvm.bytes);
        let mut random = Random(seed);
        layout.put_boot_record(1, [0; 4], &mut arena);
        let mut model = Model::default();
        let first = line_of(layout.frames.start);
        for page in 0..machine.pages / 2 {
            let line = first + page * machine.page_stride * 64;
            let bytes = Line([random.next() as u8; LINE_BYTES]);
            model.initial.insert(line, bytes);
            arena.write_line(line * LINE_BYTES as u64, &bytes);
        }
        // The pool is full of what somebody left there.
        for at in (layout.log_area.start..layout.log_area.start + (1 << 20)).step_by(64) {
            arena.write(at, &[0xa5; 64]);
        }
        Self::over(machine, arena, 0, model, random, bug).expect("a machine that can start")
    }

    fn over(
        machine: &Machine,
        arena: Arena,
        epoch: u64,
        model: Model,
        random: Random,
        bug: Option<&'static str>,
    ) -> Result<Self, Accusation> {
        let specification = machine.specification();
        let layout = Layout::new(1, specification.nvm.bytes);
        let mut hardware = Hardware::new(specification, arena, layout.contexts.clone());
        let mnm = Mnm::start(&machine.parameters, &layout, &mut hardware, epoch, bug)
            .map_err(|why| format!("it does not start: {why}"))?;
        hardware.memory.persistence_times = Some(Vec::new());
        Ok(Self {
            machine: machine.clone(),
            hardware,
            mnm,
            layout,
            model,
            random,
            completed: epoch,
            now: 0,
            bug,
            phases: BTreeSet::new(),
        })
    }

    pub fn line(&self, page: u64, line: u64) -> LineNumber {
        line_of(self.layout.frames.start) + page * self.machine.page_stride * 64 + line
    }

    fn any_line(&mut self) -> LineNumber {
        let hot = self.random.once_in(2);
        let pages = if hot { 1 } else { self.machine.pages };
        let page = self.random.below(pages);
        let line = self.random.below(self.machine.lines_of_page);
        self.line(page, line)
    }

    /// Fires every event up to a time.
    pub fn fire_until(&mut self, time: Cycles) -> Result<(), Accusation> {
        while let Some((due, event)) = self.hardware.events.take_due(time) {
            self.hardware.memory.forget_until(due.saturating_sub(1));
            self.mnm.fired(&mut self.hardware, event, due);
            self.phases.insert(self.mnm.phase());
            if let Some(failure) = &self.hardware.failure {
                return Err(format!("it cannot go on: {failure}"));
            }
        }
        self.now = self.now.max(time);
        Ok(())
    }

    /// Waits until nothing is left to do.
    pub fn settle(&mut self) -> Result<(), Accusation> {
        while self.hardware.events.next_time() < Cycles::MAX {
            let next = self.hardware.events.next_time();
            self.fire_until(next)?;
        }
        let quiet = self.hardware.memory.quiet_at().max(self.now);
        self.fire_until(quiet)
    }

    /// Sends a version.
    pub fn insert(
        &mut self,
        epoch: u64,
        line: LineNumber,
        bytes: Line,
        writer: u16,
    ) -> Result<Cycles, Accusation> {
        let evicted = self
            .mnm
            .insert(&mut self.hardware, epoch, line, &bytes, writer, self.now);
        self.phases.insert(self.mnm.phase());
        if let Some(failure) = &self.hardware.failure {
            return Err(format!("it cannot go on: {failure}"));
        }
        assert!(evicted.accepted >= self.now && evicted.durable >= self.now);
        let versions = self.model.versions.entry(line).or_default();
        versions.insert(epoch, (bytes, writer));
        // Working memory has the newest bytes; no power cut leaves them.
        let Hardware {
            memory, statistics, ..
        } = &mut self.hardware;
        memory.write_back(line, &bytes, self.now, statistics);
        Ok(evicted.accepted)
    }

    pub fn complete(&mut self, epoch: u64) {
        self.completed = self.completed.max(epoch);
        self.mnm.complete(&mut self.hardware, epoch, self.now);
        self.phases.insert(self.mnm.phase());
    }

    /// One thing that may happen.
    pub fn act(&mut self) -> Result<(), Accusation> {
        let pause = if self.random.once_in(60) {
            self.random.below(40_000)
        } else {
            self.random.below(self.machine.pause_cycles + 1)
        };
        self.fire_until(self.now + pause)?;
        if self.random.once_in(self.machine.epoch_versions) {
            let risen = self.completed + self.random.below(self.machine.open_epochs);
            self.complete(risen);
        } else {
            let epoch = self.completed + 1 + self.random.below(self.machine.open_epochs);
            let line = self.any_line();
            let mut bytes = Line([self.random.next() as u8; LINE_BYTES]);
            bytes.0[..8].copy_from_slice(&self.random.next().to_le_bytes());
            let writer = self.random.below(16) as u16;
            let accepted = self.insert(epoch, line, bytes, writer)?;
            let busy = self.compacts() && self.random.once_in(2);
            if !busy && self.random.once_in(2) {
                self.fire_until(accepted)?;
            }
        }
        Ok(())
    }

    /// A compaction is under way, or has just made somebody wait.
    pub fn compacts(&self) -> bool {
        let phase = self.mnm.phase();
        phase.starts_with("compaction") || phase == "waiting for space"
    }

    // ---- Power cuts ------------------------------------------------------------------------

    /// Goes on for a moment, then cuts the power and lets `then` look at the bytes that survive.
    /// Everything is given back; `then` leaves the bytes as it found them.
    pub fn after_cut<T>(
        &mut self,
        then: impl FnOnce(&mut Arena, &Judge) -> Result<T, Accusation>,
    ) -> Result<T, Accusation> {
        let kind = self.random.below(3);
        let mut at = self.now + self.random.below(1 + [3, 900, 4000][kind as usize]);
        let times = self.hardware.memory.persistence_times.as_mut();
        let times = std::mem::take(times.expect("they are kept"));
        let ahead: Vec<_> = times.into_iter().filter(|&time| time > self.now).collect();
        if !ahead.is_empty() && self.random.once_in(2) {
            at = ahead[self.random.index(ahead.len())];
            at = (at + self.random.below(3)).saturating_sub(1).max(self.now);
        }
        self.fire_until(at)?;
        let judge = Judge {
            model: &self.model,
            announced: self.mnm.recoverable(),
            completed: self.completed,
            bug: self.bug,
        };
        let memory = &mut self.hardware.memory;
        let lost = memory.power_off(at, &mut Tear::new(self.random.next()));
        let mut drained = Vec::new();
        for (address, bytes) in self.mnm.drain(at) {
            drained.push((address, *memory.arena.line(address)));
            memory.arena.write_line(address, bytes);
        }
        let result = then(&mut memory.arena, &judge);
        for (address, bytes) in drained.iter().rev() {
            memory.arena.write_line(*address, bytes);
        }
        memory.power_back(&lost);
        result
    }

    /// Cuts the power, and goes on with the machine that boots from what recovery brought back.
    pub fn reborn(mut self) -> Result<Self, Accusation> {
        let (arena, epoch) = self.after_cut(|arena, judge| {
            let mut surviving = Surviving::new(arena);
            let recovered = recovered_epoch::<Nvoverlay>(&mut surviving, judge.bug);
            let (journal, loaded) = surviving.into_parts();
            let recovered = recovered.map_err(|why| format!("refused: {why}"))?;
            let mut copy = arena.clone();
            journal.undo(arena);
            for (line, bytes) in loaded {
                copy.write_line(line * LINE_BYTES as u64, &bytes);
            }
            Ok((copy, recovered))
        })?;
        let mut model = self.model;
        model.forget_after(epoch);
        let mut reborn = Self::over(&self.machine, arena, epoch, model, self.random, self.bug)?;
        reborn.phases = self.phases;
        Ok(reborn)
    }

    /// Reads everything from the bytes as they are now, without a power cut. Nothing is under way.
    pub fn check_store(&mut self) -> Result<(), Accusation> {
        self.settle()?;
        let newest = self.mnm.recoverable();
        assert_eq!(newest, self.completed, "it has settled");
        self.after_cut(|arena, judge| judge.store(arena, &BTreeMap::new(), newest))
    }
}

/// Everything that the verifier knows at a cut.
pub struct Judge<'a> {
    pub model: &'a Model,
    pub announced: u64,
    pub completed: u64,
    pub bug: Option<&'static str>,
}

impl Judge<'_> {
    /// Recovers, judges memory and the snapshot store, and puts the bytes back. Returns epoch and
    /// steps.
    pub fn recover(&self, arena: &mut Arena, reads_store: bool) -> Result<(u64, u64), Accusation> {
        let mut surviving = Surviving::new(arena);
        let recovered = recovered_epoch::<Nvoverlay>(&mut surviving, self.bug);
        let steps = surviving.steps();
        let (journal, loaded) = surviving.into_parts();
        let judged = match recovered {
            Err(why) => Err(format!("refused: {why}")),
            Ok(epoch) => self.memory(arena, epoch).and_then(|()| {
                if reads_store {
                    self.store(arena, &loaded, epoch)?;
                }
                Ok((epoch, steps))
            }),
        };
        journal.undo(arena);
        judged
    }

    /// Is this the memory of that epoch, and may it be that one?
    pub fn memory(&self, arena: &Arena, epoch: u64) -> Result<(), Accusation> {
        if epoch < self.announced || epoch > self.completed {
            return Err(format!(
                "epoch {epoch}, of {} announced and {} completed",
                self.announced, self.completed
            ));
        }
        self.image(arena, epoch)
    }

    /// Is this the memory of that epoch?
    pub fn image(&self, arena: &Arena, epoch: u64) -> Result<(), Accusation> {
        for &line in self.model.versions.keys().chain(self.model.initial.keys()) {
            if *arena.line(line * LINE_BYTES as u64) != self.model.at(line, epoch) {
                return Err(format!("line {line:#x} at epoch {epoch} is wrong"));
            }
        }
        Ok(())
    }

    /// Is every read of the snapshot store right? `loaded` is what the NVM has at home.
    pub fn store(
        &self,
        arena: &Arena,
        loaded: &BTreeMap<LineNumber, Line>,
        newest: u64,
    ) -> Result<(), Accusation> {
        let read = |address: u64, length: usize| {
            if let Some(line) = loaded.get(&line_of(address))
                && length == LINE_BYTES
            {
                return Ok(line.0.to_vec());
            }
            let end = address.checked_add(length as u64);
            let fits = end.is_some_and(|end| end <= arena.len());
            let bytes = fits.then(|| arena.slice(address, length).to_vec());
            bytes.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        };
        let store = SnapshotStore::open(&SNAPSHOTS, read).map_err(|why| why.to_string())?;
        let held = store.held();
        if *held.end() != newest {
            return Err(format!("the store holds {held:?}, not {newest}"));
        }
        let wrong = |line: u64, epoch: u64| format!("line {line:#x} at {epoch} read wrongly");
        let lines = || self.model.versions.keys().chain(self.model.initial.keys());
        for &line in lines() {
            for epoch in held.clone() {
                let found = store.read(line, epoch).map_err(|why| why.to_string())?;
                if found != self.model.at(line, epoch) {
                    return Err(wrong(line, epoch));
                }
            }
            let history = store.history(line).map_err(|why| why.to_string())?;
            let history: Vec<_> = (history.iter())
                .map(|entry| (entry.epoch, (entry.bytes, entry.writer)))
                .collect();
            if history != self.model.history(line, *held.start(), newest) {
                return Err(format!("history of line {line:#x}"));
            }
        }
        let (one, other) = (*held.start(), newest);
        let changed = store.changed(one, other).map_err(|why| why.to_string())?;
        let mut expected: Vec<_> = lines()
            .copied()
            .filter(|&line| self.model.at(line, one) != self.model.at(line, other))
            .collect();
        expected.sort_unstable();
        expected.dedup();
        if changed != expected {
            return Err("lines that differ".into());
        }
        let sum: u64 = store.epochs().iter().map(|epoch| epoch.versions).sum();
        let bounds = store.epochs().len() as u64 == newest - one + 1;
        if !bounds || sum + store.epochs()[0].versions < store.len() as u64 {
            return Err("summaries of epochs".into());
        }
        for epoch in [one.wrapping_sub(1), newest + 1] {
            match store.read(*lines().next().unwrap_or(&0), epoch) {
                Err(why) if why.to_string().contains(&format!("{one} to {newest}")) => {}
                other => return Err(format!("epoch {epoch} is not held, but {other:?}")),
            }
        }
        Ok(())
    }

    /// Lets the power fail again at steps of recovery, and wants the same epoch in the end.
    pub fn converges(
        &self,
        arena: &mut Arena,
        expected: (u64, u64),
        random: &mut Random,
    ) -> Result<(), Accusation> {
        let (epoch, steps) = expected;
        for step in 0..steps {
            if steps > 12 && !random.once_in(steps / 8) {
                continue;
            }
            let mut journals = Vec::new();
            let mut fails_at = vec![step];
            if random.once_in(3) {
                fails_at.push(random.below(steps));
            }
            let mut refused = None;
            for fails_at in fails_at {
                let tear = Tear::new(random.next());
                let mut surviving = Surviving::new(arena).failing_at(fails_at, tear);
                let cut_off = recovered_epoch::<Nvoverlay>(&mut surviving, self.bug);
                let (journal, loaded) = surviving.into_parts();
                journals.push(journal);
                // The DRAM is lost.
                for (line, bytes) in loaded {
                    arena.write_line(line * LINE_BYTES as u64, &bytes);
                }
                match cut_off {
                    Err(Interrupted::PowerLost) | Ok(_) => {}
                    Err(why) => refused = Some(format!("refused after step {step}: {why}")),
                }
            }
            let again = refused.map_or_else(|| self.recover(arena, false), Err);
            for journal in journals.into_iter().rev() {
                journal.undo(arena);
            }
            match again {
                Ok((found, _)) if found == epoch => {}
                Ok((found, _)) => return Err(format!("step {step}: {found}, not {epoch}")),
                Err(why) => return Err(format!("not converged at step {step}: {why}")),
            }
        }
        Ok(())
    }
}
