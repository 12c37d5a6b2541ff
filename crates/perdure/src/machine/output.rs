//! What leaves the machine, and when: output is sealed with the epoch that wrote it, and let out when
//! the design announces that epoch.
//!
//! Always true here: a machine that resumes lets nothing out that a power cut could undo; one that does
//! not lets everything out at once.

use perdure_designs::{Epochs, Urgency};
use perdure_hardware::time::Cycles;
use perdure_linux::Release;

use super::{Machine, Noted};
use crate::error::Error;
use crate::kernel_ports::DevicePort;
use crate::mistakes::Mistake;
use crate::source::Source;

impl<S: Source> Machine<S> {
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

    /// Somebody waits until what was written so far has left, or it is the last that programs write: that
    /// is so when the executing epoch, which is to end now, is announced; at once where there is none.
    pub(super) fn output_is_awaited(&mut self, hart: usize) {
        if self.facts().epochs == Epochs::None {
            self.hold_files(0, 0);
            self.let_out_at_once();
            self.finished = self.ended.is_some();
        } else {
            self.epoch_due = Some((hart, Urgency::OutputCommit));
        }
    }

    /// What was written so far leaves: nothing that a power cut does to it matters.
    pub(super) fn let_out_at_once(&mut self) {
        let epoch = self.executing_epoch();
        self.kernel.seal(epoch);
        self.let_out(epoch, Mistake::GarblesOutput);
    }

    /// Files leave as they are now, which is as of `made`, when an epoch may.
    pub(crate) fn hold_files(&mut self, epoch: u64, made: u64) {
        let early = self.mistake == Some(Mistake::HoldsFilesEarly);
        let epoch = epoch.saturating_sub(u64::from(early));
        if let Some(notes) = &mut self.notes {
            notes.push(Noted::Held { epoch, made });
        }
        self.kernel_changed = true;
        let mut port = DevicePort(&mut self.hardware, &*self.design);
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
        let mut port = DevicePort(&mut self.hardware, &*self.design);
        let files = self.kernel.released_files(&mut port, &self.outside.spool);
        files.map_err(spool_failed)
    }

    /// More may have become visible outside: release it, and let those who waited go on.
    pub(crate) fn announced(&mut self, time: Cycles) {
        let epoch = self.announced_epoch();
        self.draw_persisted(epoch, time);
        (self.unpersisted).persist(epoch, time, &mut self.hardware.statistics);
        self.let_out(epoch, Mistake::GarblesOutput);
        for index in 0..self.harts.len() {
            if self.harts[index]
                .waits_for
                .is_some_and(|waited| waited <= epoch)
            {
                self.harts[index].waits_for = None;
                let clock = self.clock(index);
                let wait = (self.hardware.cores[index].timing).stand_still_until(clock, time);
                self.hardware.statistics.persist_stall_cycles += wait;
                self.draw_hart(index);
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
    pub(super) fn let_out(&mut self, epoch: u64, garbles: Mistake) {
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
}

/// What waits for the outside cannot be kept.
pub(super) fn spool_failed(source: std::io::Error) -> Error {
    Error::Host {
        what: format!(
            "keeping what the guest wrote, in {}",
            std::env::temp_dir().display()
        ),
        source,
    }
}
