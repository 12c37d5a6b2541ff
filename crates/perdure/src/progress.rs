//! Where harts were when they left their epochs, and which epochs have ended without being persisted
//! yet.
//!
//! Always true here: each hart has its own point, the end of the epoch as that hart left it;
//! instructions are summed over harts, and the cycles are those of the hart that goes back furthest.

use std::collections::VecDeque;

use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

/// Where a hart was when it left an epoch.
#[derive(Clone, Copy, Debug)]
struct Left {
    epoch: u64,
    time: Cycles,
    retired: u64,
}

/// Where the harts were when they left their epochs.
#[derive(Clone, Debug)]
pub struct Progress {
    /// By hart, in the order of epochs.
    harts: Vec<Vec<Left>>,
}

impl Progress {
    /// From now on: the machine's state is that of the end of `epoch`.
    pub fn start(epoch: u64, time: Cycles, retired: impl Iterator<Item = u64>) -> Self {
        let left = |retired| Left {
            epoch,
            time,
            retired,
        };
        Self {
            harts: retired.map(|retired| vec![left(retired)]).collect(),
        }
    }

    /// A hart leaves an epoch, and every one before it that it has not left.
    pub fn leave(&mut self, hart: usize, epoch: u64, time: Cycles, retired: u64) {
        self.harts[hart].push(Left {
            epoch,
            time,
            retired,
        });
    }

    /// What is lost if the power is cut now and that epoch comes back; everything if none does.
    pub fn lost(
        &self,
        epoch: Option<u64>,
        at: Cycles,
        retired: impl Iterator<Item = u64>,
    ) -> WorkLost {
        let mut lost = WorkLost::default();
        for (left, now) in self.harts.iter().zip(retired) {
            let point = match epoch {
                Some(epoch) => left.partition_point(|left| left.epoch < epoch),
                None => 0,
            };
            let Some(point) = left.get(point) else {
                continue;
            };
            lost.instructions += now.saturating_sub(point.retired);
            lost.cycles = lost.cycles.max(at.saturating_sub(point.time));
        }
        lost
    }
}

/// The work between the recovered point and the cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkLost {
    /// Of all harts.
    pub instructions: u64,
    /// Of the hart that goes back furthest.
    pub cycles: Cycles,
}

/// What epochs come to: when, and which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It has ended everywhere.
    Ended(Cycles, u64),
    /// It is announced as persisted.
    Persisted(Cycles, u64),
}

/// Epochs that have ended everywhere and are not announced as persisted yet.
#[derive(Clone, Debug, Default)]
pub struct Unpersisted {
    /// Each newer than the one before, with when it ended.
    ended: VecDeque<(u64, Cycles)>,
    /// Filled with what epochs come to, if present.
    pub passages: Option<Vec<Passage>>,
}

impl Unpersisted {
    /// An epoch has ended.
    pub fn end(&mut self, epoch: u64, time: Cycles) {
        if self.ended.back().is_none_or(|&(newest, _)| newest < epoch) {
            self.ended.push_back((epoch, time));
            let passages = self.passages.iter_mut();
            passages.for_each(|all| all.push(Passage::Ended(time, epoch)));
        }
    }

    /// Those up to that epoch, with when each has ended.
    pub fn until(&self, epoch: u64) -> impl Iterator<Item = (u64, Cycles)> {
        (self.ended.iter().copied()).take_while(move |(ended, _)| *ended <= epoch)
    }

    /// All epochs up to this one are persisted; counts how long that took.
    pub fn persist(&mut self, epoch: u64, time: Cycles, statistics: &mut Statistics) {
        while let Some(&(oldest, ended)) = self.ended.front()
            && oldest <= epoch
        {
            self.ended.pop_front();
            let passages = self.passages.iter_mut();
            passages.for_each(|all| all.push(Passage::Persisted(time, oldest)));
            let took = time.saturating_sub(ended);
            statistics.epoch_to_persisted_cycles += took;
            let longest = &mut statistics.epoch_to_persisted_longest_cycles;
            *longest = (*longest).max(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epochs_persistence_is_timed_from_its_end() {
        let (mut epochs, mut statistics) = (Unpersisted::default(), Statistics::default());
        epochs.end(1, 100);
        epochs.end(2, 200);
        epochs.end(2, 250);
        epochs.persist(1, 130, &mut statistics);
        epochs.persist(1, 140, &mut statistics);
        epochs.persist(2, 300, &mut statistics);
        assert_eq!(statistics.epoch_to_persisted_cycles, 30 + 100);
        assert_eq!(statistics.epoch_to_persisted_longest_cycles, 100);
    }

    #[test]
    fn each_hart_goes_back_to_where_it_left_the_epoch() {
        let mut progress = Progress::start(0, 0, [0, 0].into_iter());
        progress.leave(0, 1, 100, 80);
        progress.leave(1, 3, 150, 120);
        progress.leave(0, 2, 200, 150);
        let lost = |epoch| progress.lost(epoch, 300, [230, 200].into_iter());
        let work = |instructions, cycles| WorkLost {
            instructions,
            cycles,
        };
        assert_eq!(lost(Some(2)), work(80 + 80, 150));
        assert_eq!(lost(Some(1)), work(150 + 80, 200));
        assert_eq!(lost(Some(0)), work(430, 300));
        assert_eq!(lost(None), work(430, 300), "nothing came back");
    }
}
