//! Timed events, and the ends of epochs that all harts share: when one is due, what is stored then, and
//! when everybody goes on. Designs whose sharing groups have an epoch each: [`super::groups`].
//!
//! Always true here: an epoch ends between two instructions, and every context and the kernel's state as
//! of that moment are stored before the design takes over. Where there are no epochs, none ends.

use perdure_designs::bytes::Sealed;
use perdure_designs::{END_EPOCH, EpochNumbers, Epochs, Urgency};
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::policy::{Policy, PolicyFailure};
use perdure_hardware::time::Cycles;
use perdure_hardware::watched::Writer;
use perdure_linux::Machine as _;

use super::Machine;
use crate::context::MachineRecord;
use crate::error::Error;
use crate::kernel_ports::{Changed, KernelPort};
use crate::mistakes::Mistake;
use crate::source::Source;

/// Events with this bit are the machine's, the others the design's.
const MACHINE_EVENT: u32 = 1 << 31;
/// What the system does when it stores contexts, for people.
pub(crate) const SAVES_CONTEXTS: &str = "saving contexts";
pub(super) const EVENT_EPOCH_CYCLES: u32 = MACHINE_EVENT;
/// So many epochs in a row may end before they have begun, as long as the machine does not catch up.
const OVERTAKEN_MOST: u32 = 1000;

/// Epochs in which nothing was executed, because their `epoch.cycles` had passed before they began: the end
/// of the one before took longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overtaken {
    epochs: u32,
    /// How much all harts had retired by then.
    retired: u64,
    /// By how much the first of them began later.
    first_cycles: Cycles,
}

impl<S: Source> Machine<S> {
    pub(super) fn fire(&mut self, time: Cycles) {
        self.order_of(None);
        if self.hardware.wake_device(time) {
            return;
        }
        let Some((time, event)) = self.hardware.events.take_due(time) else {
            return;
        };
        if event == EVENT_EPOCH_CYCLES {
            self.note_overtaken(time);
            if self.epoch_due.is_none() && self.ended.is_none() {
                self.epoch_due = Some((0, Urgency::Routine));
            }
            let next = time + self.lengths.cycles;
            self.hardware.events.schedule(next, EVENT_EPOCH_CYCLES);
            return;
        }
        if event == END_EPOCH {
            if self.facts().epochs == Epochs::None {
                let problem = "it wants an epoch to end, and has none";
                (self.hardware.failure).get_or_insert(PolicyFailure(problem.into()));
                return;
            }
            // One that was scheduled while the last epoch came to its end is stale.
            if time < self.epoch_began {
                return;
            }
            if self.epoch_due.is_none() && self.ended.is_none() {
                self.epoch_due = Some((0, Urgency::Overflow));
            }
            return;
        }
        let before = self.announced_epoch();
        let design = &mut self.design;
        (self.hardware).asking("fired", time, |hardware| {
            design.fired(hardware, event, time);
        });
        self.check_epochs();
        self.note_phase(time);
        if self.announced_epoch() != before {
            self.announced(time);
        }
    }

    /// An epoch's cycles have passed. Where each end of an epoch takes as long, nobody does anything else.
    fn note_overtaken(&mut self, time: Cycles) {
        let retired = self.retired();
        self.overtaken = self.overtaken.filter(|before| before.retired == retired);
        let cycles = self.epoch_began.saturating_sub(time);
        if cycles == 0 {
            return;
        }
        let overtaken = self.overtaken.get_or_insert(Overtaken {
            epochs: 0,
            retired,
            first_cycles: cycles,
        });
        overtaken.epochs += 1;
        if overtaken.epochs < OVERTAKEN_MOST {
            return;
        }
        if cycles < overtaken.first_cycles {
            self.overtaken = None;
            return;
        }
        let problem = format!(
            "the end of an epoch takes longer than epoch.cycles = {}: {OVERTAKEN_MOST} in a row ended before they \
             began, and no instruction was executed; raise epoch.cycles, or set it to 0",
            self.lengths.cycles
        );
        (self.hardware.failure).get_or_insert(PolicyFailure(problem));
    }

    /// The epoch that is executing, the newest of those; 0 where there are none.
    pub fn executing_epoch(&self) -> u64 {
        (self.design.epoch_numbers()).map_or(0, EpochNumbers::executing_epoch)
    }

    /// The newest epoch whose output may leave; 0 where there are none.
    pub fn announced_epoch(&self) -> u64 {
        (self.design.epoch_numbers()).map_or(0, EpochNumbers::announced_epoch)
    }

    pub(super) fn can_end_epoch(&mut self) -> bool {
        (self.design.machine_epochs()).is_none_or(|epochs| epochs.can_end_epoch())
    }

    /// Holds what the design says of its epochs against what it said before, where output goes by that.
    pub(crate) fn check_epochs(&mut self) {
        if !self.facts().recovery.resumes() || !self.hardware.enforces_contract() {
            return;
        }
        let announced = self.announced_epoch();
        let executing = match self.oldest_epoch() {
            Some(oldest) => oldest,
            None => self.executing_epoch(),
        };
        self.hardware.hold_to_epochs(announced, executing);
    }

    /// An epoch ends: contexts are stored, the design takes over, everybody goes on.
    pub(super) fn end_epoch(&mut self, hart: usize, urgency: Urgency) -> Result<u64, Error> {
        if self.facts().epochs == Epochs::ByGroup {
            return Ok(self.end_group_epoch(hart, urgency));
        }
        self.order_of(None);
        self.send_combined();
        let epoch = self.executing_epoch();
        self.seal(epoch, epoch);
        if self.facts().recovery.resumes() {
            self.save_contexts(hart, epoch)?;
        }
        self.keep_kernel(epoch, epoch);
        let before = self.time();
        for hart in 0..self.harts.len() {
            self.note_left(hart, epoch, before);
        }
        self.unpersisted.end(epoch, before);
        let design = self.design.machine_epochs();
        let now = (self.hardware).asking("end_epoch", before, |hardware| {
            design.map_or(before, |design| design.end_epoch(hardware, urgency, before))
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
        self.draw_epoch_end(urgency, [before, now]);
        self.draw_phase(self.design.phase(), now);
        // Harts go on when the epoch has ended everywhere.
        for index in 0..self.harts.len() {
            if self.harts[index].context.running.is_some() {
                let clock = self.clock(index);
                (self.hardware.cores[index].timing).stand_still_until(clock, now);
                self.draw_standing(index, "epoch end", clock, now);
            }
        }
        self.announced(now);
        Ok(epoch)
    }

    /// What harts have stored is part of the epoch, also what waits in their combining buffers.
    fn send_combined(&mut self) {
        for hart in 0..self.harts.len() {
            if !self.hardware.cores[hart].combining.is_empty() {
                let now = self.clock(hart);
                let design: &mut dyn Policy = &mut *self.design;
                let sent = self.hardware.send_all_combined(design, hart, now);
                (self.hardware.cores[hart].timing).stand_still_until(now, sent);
            }
        }
    }

    fn note_phase(&mut self, time: Cycles) {
        let pc = self.location().0;
        let phase = self.design.phase();
        self.draw_phase(phase, time);
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
        let began = Some(self.clock(hart));
        self.hardware.memory.stores_for(|| Writer {
            instruction: None,
            system: Some(SAVES_CONTEXTS),
            began,
        });
        let clock = self.virtual_clock(hart);
        let retired = self.harts[hart].context.hart.retired;
        let mut port = KernelPort {
            hardware: &mut self.hardware,
            design: &mut *self.design,
            hart,
            retired,
            clock,
            others: &|_| 0,
            changed: &mut Changed::default(),
        };
        port.write(address, bytes);
    }
}
