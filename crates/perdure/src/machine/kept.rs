//! What the machine keeps for whoever looks on: itself as it was at the end of an epoch, where its harts
//! left their epochs, and what was sealed and held back.
//!
//! Always true here: nothing of it is kept unless it was asked for, and nothing of it changes the run.

use perdure_hardware::time::Cycles;
use perdure_linux::Kernel;

use super::Machine;
use crate::context::{HartContext, SavedAt};
use crate::progress::Progress;
use crate::source::Source;

/// The machine beside its memory, as it was at the end of an epoch: itself, and not what was saved of
/// it. For the judge, who resumes from it what no restoring has touched.
#[derive(Clone, Debug, Default)]
pub struct EpochEnd {
    pub(super) epoch: u64,
    /// The kernel, and the virtual time skipped while all harts were idle.
    pub(super) kernel: Option<(Kernel, u64)>,
    /// Every hart's context, and when that was.
    pub(super) harts: Vec<Option<(HartContext, SavedAt)>>,
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

impl<S: Source> Machine<S> {
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

    /// What was kept of the end of an epoch, if it has ended: the kernel and every hart's context.
    pub fn kept_epoch_end(&mut self) -> Option<(Kernel, Vec<HartContext>)> {
        let end = self.epoch_end.take()?;
        let harts = end
            .harts
            .into_iter()
            .map(|hart| hart.map(|(context, _)| context));
        Some((end.kernel?.0, harts.collect::<Option<_>>()?))
    }

    /// From now on, keeps nothing for anybody, the digest of memory and the trace included.
    pub fn forget_onlookers(&mut self) {
        self.hardware.memory.arena.take_digest();
        self.hardware.memory.trace = None;
        self.notes = None;
        self.outside.receipts = None;
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
}
