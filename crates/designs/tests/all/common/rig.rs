//! A machine without processors: hardware, a design, and a flat reference of what its memory holds
//! now and held at the end of every epoch.
//!
//! Always true here: everything that starts up to the time of a cut has been done when the power is
//! cut, nothing that starts later has, and a cut leaves the rig as it was.

use std::collections::BTreeMap;

use perdure_designs::layout::Layout;
use perdure_designs::surviving::Surviving;
use perdure_designs::{Design, END_EPOCH, EpochNumbers, EpochsOf, MachineEpochs, Urgency};
use perdure_hardware::arena::Arena;
use perdure_hardware::core_timing::AccessKind;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use perdure_hardware::memory::Tear;
use perdure_hardware::persist::{Effect, Persist};
use perdure_hardware::specification::Specification;
use perdure_hardware::time::Cycles;

use super::judge::{Accusation, Image, Judge, Kept, recovered_epoch};

/// The machine.
pub struct Rig<D: Design> {
    pub hardware: Hardware,
    pub design: D,
    pub layout: Layout,
    /// What the program's memory holds now.
    pub model: Image,
    /// What it held at the end of each epoch.
    pub golden: BTreeMap<u64, Image>,
    /// Harts stand still until this epoch is announced.
    pub awaited: u64,
    /// The design has run out of room and wants the epoch ended.
    pub overflowed: bool,
    /// Whether images of epochs that can no longer come back are kept.
    pub keeps_all_epochs: bool,
    bug: Option<&'static str>,
    retired: Vec<Cycles>,
}

impl<D: Design> Rig<D> {
    /// A machine at first boot.
    pub fn new(
        specification: Specification,
        parameters: &D::Parameters,
        bug: Option<&'static str>,
    ) -> Self {
        let arena = Arena::new(specification.nvm.bytes).expect("memory for the arena");
        Self::over(specification, parameters, bug, arena, 0, Image::new())
    }

    /// A machine over bytes that hold an epoch.
    pub fn over(
        specification: Specification,
        parameters: &D::Parameters,
        bug: Option<&'static str>,
        arena: Arena,
        epoch: u64,
        model: Image,
    ) -> Self {
        let harts = specification.harts;
        let layout = Layout::new(harts, specification.nvm.bytes);
        let mut hardware = Hardware::new(specification, arena, layout.contexts.clone());
        hardware.memory.interleave_home(layout.protected());
        let design = D::start(parameters, &layout, &mut hardware, epoch, bug)
            .expect("parameters that are possible");
        hardware.memory.persistence_times = Some(Vec::new());
        hardware.enforce_contract();
        Self {
            hardware,
            design,
            layout,
            golden: BTreeMap::from([(epoch, model.clone())]),
            model,
            awaited: 0,
            overflowed: false,
            keeps_all_epochs: false,
            bug,
            retired: vec![0; harts],
        }
    }

    /// The number of a line of the program's.
    pub fn frame_line(&self, index: u64) -> LineNumber {
        line_of(self.layout.frames.start) + index
    }

    // ---- Time ------------------------------------------------------------------------------

    /// A hart's local time.
    pub fn clock(&self, hart: usize) -> Cycles {
        self.hardware.cores[hart].timing.now(self.retired[hart])
    }

    /// The hart that is furthest behind.
    pub fn next_hart(&self) -> usize {
        (0..self.retired.len())
            .min_by_key(|&hart| (self.clock(hart), hart))
            .expect("a machine has a hart")
    }

    /// A hart computes for a while.
    pub fn pause(&mut self, hart: usize, cycles: Cycles) {
        self.retired[hart] += cycles;
    }

    /// No hart goes on before this.
    pub fn hold_until(&mut self, time: Cycles) {
        for hart in 0..self.retired.len() {
            let clock = self.clock(hart);
            (self.hardware.cores[hart].timing).stand_still_until(clock, time);
        }
    }

    /// True while harts stand still.
    pub fn waits(&self) -> bool {
        self.announced_epoch() < self.awaited
    }

    /// Fires the next event. Harts that waited for it go on after it.
    pub fn fire_next(&mut self, harts_wait: bool) {
        let due = self.hardware.events.next_time();
        let (time, event) = self
            .hardware
            .events
            .take_due(due)
            .expect("an event is pending");
        self.hardware.memory.forget_until(time.saturating_sub(1));
        if event == END_EPOCH {
            self.overflowed = true;
        } else {
            let design = &mut self.design;
            (self.hardware).asking("fired", time, |hardware| {
                design.fired(hardware, event, time);
            });
            self.check_epochs();
        }
        if harts_wait {
            let before = self.clock(0);
            self.hold_until(time);
            self.hardware.statistics.epoch_wait_cycles += self.clock(0) - before;
        }
        if !self.keeps_all_epochs {
            let announced = self.announced_epoch();
            self.golden = self.golden.split_off(&announced);
        }
    }

    fn check_epochs(&mut self) {
        if let (Some(epochs), true) = (D::Epochs::numbers(&self.design), D::RECOVERY.resumes()) {
            let (announced, executing) = (epochs.announced_epoch(), epochs.executing_epoch());
            self.hardware.hold_to_epochs(announced, executing);
        }
    }

    fn epochs(design: &mut D) -> &mut dyn MachineEpochs {
        D::Epochs::of_machine(design).expect("the machine has epochs")
    }

    /// Whether the design can take another epoch.
    pub fn can_end_epoch(&mut self) -> bool {
        Self::epochs(&mut self.design).can_end_epoch()
    }

    /// The newest epoch that is announced; 0 where there are none.
    fn announced_epoch(&self) -> u64 {
        D::Epochs::numbers(&self.design).map_or(0, EpochNumbers::announced_epoch)
    }

    /// Fires every event, and those that they schedule; harts then go on.
    pub fn settle(&mut self) -> Cycles {
        while self.hardware.events.next_time() < Cycles::MAX {
            self.fire_next(true);
        }
        self.hold_until(self.hardware.memory.quiet_at());
        self.now()
    }

    /// The latest hart's time.
    pub fn now(&self) -> Cycles {
        (0..self.retired.len())
            .map(|hart| self.clock(hart))
            .max()
            .unwrap_or(0)
    }

    // ---- What harts do ---------------------------------------------------------------------

    /// Stores eight bytes.
    pub fn store(&mut self, hart: usize, line: LineNumber, word: usize, value: u64) {
        let now = self.clock(hart);
        let stored = (word * 8, &value.to_le_bytes()[..]);
        let (_, ready) = (self.hardware).store(&mut self.design, hart, line, stored, now);
        let model = self.model.entry(line).or_insert(Line::ZERO);
        model.0[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
        self.retired[hart] += 1;
        let now = self.clock(hart);
        (self.hardware).accessed(hart, AccessKind::Store, now, ready);
    }

    /// Stores a whole line of one byte's repetition.
    pub fn store_line(&mut self, hart: usize, line: LineNumber, byte: u8) {
        for word in 0..LINE_BYTES / 8 {
            self.store(hart, line, word, u64::from_le_bytes([byte; 8]));
        }
    }

    /// Loads a line; what it holds must be what was stored.
    pub fn load(&mut self, hart: usize, line: LineNumber) {
        let loaded = self.try_load(hart, line);
        loaded.expect("a load finds what was stored");
    }

    /// Loads a line; what it holds is what was stored, or the design is accused.
    pub fn try_load(&mut self, hart: usize, line: LineNumber) -> Result<(), Accusation> {
        let now = self.clock(hart);
        let (slot, ready) = self.hardware.load(&mut self.design, hart, line, now);
        let found = self.hardware.cores[hart].l1d.data(slot);
        let expected = self.model.get(&line).unwrap_or(&Line::ZERO);
        if found != expected {
            return Err(Accusation::WrongLoad { hart, line });
        }
        self.retired[hart] += 1;
        let now = self.clock(hart);
        (self.hardware).accessed(hart, AccessKind::Load, now, ready);
        Ok(())
    }

    /// Checks that every line's newest bytes are found, wherever the design keeps them.
    pub fn check_newest(&self) -> Result<(), Accusation> {
        let (mut newer, mut twice) = (Image::new(), None);
        self.hardware.newer_lines(&self.design, &mut |line, bytes| {
            if newer.insert(line, *bytes).is_some() {
                twice = Some(line);
            }
        });
        if let Some(line) = twice {
            return Err(Accusation::NotNewest { line });
        }
        for (&line, expected) in &self.model {
            let found = self.hardware.peek(&self.design, line);
            let home = self.hardware.memory.arena.line(line * LINE_BYTES as u64);
            let listed = newer.get(&line).unwrap_or(home);
            if &found != expected || listed != expected {
                return Err(Accusation::NotNewest { line });
            }
        }
        Ok(())
    }

    /// A cache-block clean or flush.
    pub fn cache_block(&mut self, hart: usize, line: LineNumber, drop_copies: bool) {
        let now = self.clock(hart);
        let effect = if drop_copies {
            Effect::Flush
        } else {
            Effect::Clean
        };
        let persist = Persist::behind_stores(hart, line, effect);
        let ready = (self.hardware).persist(&mut self.design, &persist, now);
        self.retired[hart] += 1;
        // A rig's hart waits for it.
        (self.hardware).accessed(hart, AccessKind::Load, now, ready);
    }

    /// Ends the executing epoch, contexts first, as the machine does.
    pub fn end_epoch(&mut self, urgency: Urgency) -> u64 {
        assert!(self.can_end_epoch(), "the caller waits for that");
        let epoch = Self::epochs(&mut self.design).executing_epoch();
        self.overflowed = false;
        if D::RECOVERY.resumes() {
            for hart in 0..=self.retired.len() {
                let line = line_of(self.layout.context(hart));
                let saver = hart % self.retired.len();
                self.store(saver, line, 0, epoch);
                self.store(saver, line + 1, 3, self.retired[saver]);
            }
        }
        let now = self.now();
        let epochs = Self::epochs(&mut self.design);
        let go_on = (self.hardware).asking("end_epoch", now, |hardware| {
            epochs.end_epoch(hardware, urgency, now)
        });
        self.check_epochs();
        self.golden.insert(epoch, self.model.clone());
        self.hardware.statistics.epochs_committed += 1;
        if urgency == Urgency::Overflow {
            self.hardware.statistics.epochs_overflowed += 1;
        }
        if urgency == Urgency::OutputCommit {
            self.hardware.statistics.epochs_forced += 1;
            self.awaited = epoch;
        }
        self.hold_until(go_on);
        epoch
    }

    /// Ends the executing epoch, and leaves contexts out. Returns when harts may go on; none waits.
    pub fn end_epoch_without_contexts(&mut self, urgency: Urgency) -> Cycles {
        let now = self.now();
        let epochs = Self::epochs(&mut self.design);
        let epoch = epochs.executing_epoch();
        let go_on = epochs.end_epoch(&mut self.hardware, urgency, now);
        self.golden.insert(epoch, self.model.clone());
        go_on
    }

    // ---- Power cuts ------------------------------------------------------------------------

    /// Cuts the power, lets `then` look at what survived, and gives everything back. `then` leaves
    /// the image as it found it.
    pub fn after_cut<R>(
        &mut self,
        at: Cycles,
        tear: u64,
        then: impl FnOnce(&mut Arena, &Judge) -> R,
    ) -> R {
        let judge = Judge {
            golden: &self.golden,
            announced: self.announced_epoch(),
            protected: self.layout.protected(),
            bug: self.bug,
        };
        let memory = &mut self.hardware.memory;
        let lost = memory.power_off(at, &mut Tear::new(tear));
        let result = then(&mut memory.arena, &judge);
        memory.power_back(&lost);
        result
    }

    /// Cuts the power, recovers, judges, and gives everything back.
    pub fn cut(&mut self, at: Cycles, tear: u64) -> Result<Kept, Accusation> {
        self.after_cut(at, tear, |arena, judge| judge.recover::<D>(arena))
    }

    /// Cuts the power, recovers, judges, and gives everything back: the epoch that came back, and
    /// what `look` saw then.
    pub fn recovered<R>(
        &mut self,
        at: Cycles,
        tear: u64,
        look: impl FnOnce(&Arena) -> R,
    ) -> (u64, R) {
        let kept = self.cut(at, tear).expect("the promise is kept");
        let seen = self.after_cut(at, tear, |arena, judge| {
            let mut surviving = Surviving::new(arena);
            D::recover(&mut surviving, judge.bug).expect("it was recovered a moment ago");
            let journal = surviving.into_journal();
            let seen = look(arena);
            journal.undo(arena);
            seen
        });
        (kept.epoch, seen)
    }

    /// Cuts the power for good: the machine that boots from what recovery brought back.
    pub fn reborn(
        mut self,
        parameters: &D::Parameters,
        at: Cycles,
        tear: u64,
    ) -> Result<Self, Accusation> {
        let specification = self.hardware.specification.clone();
        let bug = self.bug;
        let (arena, epoch) = self.after_cut(at, tear, |arena, judge| {
            let mut surviving = Surviving::new(arena);
            let recovered = recovered_epoch::<D>(&mut surviving, judge.bug);
            let epoch = recovered.map_err(Accusation::Refused)?;
            let journal = surviving.into_journal();
            let copy = arena.clone();
            journal.undo(arena);
            judge.memory(&copy, epoch)?;
            Ok((copy, epoch))
        })?;
        let model = self.golden.remove(&epoch).expect("the judge found it");
        Ok(Self::over(
            specification,
            parameters,
            bug,
            arena,
            epoch,
            model,
        ))
    }
}
