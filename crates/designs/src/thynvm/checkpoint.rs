//! The overlapped checkpoint: the epoch is over, its lines are flushed, the harts run on, and the
//! tables and the commit record become durable behind them.
//!
//! ```text
//! end of epoch    flush (the harts stand still)
//! Tables          the list of everything that is not at home, some blocks at a time
//! Draining        until all that the controller has accepted is durable
//! Copy0, Copy1    the commit record, one copy after the other
//!                 then: durable, announced; what is idle goes home
//! ```
//!
//! The same steps record the same epoch again with shorter tables once idle versions are at home
//! (*clean-up*): that is how entries become free without the end of another epoch.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::Track;

use super::Thynvm;
use super::bugs::Flaws;
use super::format::{KINDS, Kind, Listed, PAGE_LINES, Record};
use super::version::{Place, Places, Versions};
use crate::bytes::Sealed;
use crate::copies::COPIES;

/// The checkpoint may take its next step.
pub const EVENT: u32 = 0;

/// Table blocks written at one step; a demand request waits for no more than these.
const BLOCKS_PER_STEP: usize = 4;

/// Where the steps of checkpoints are drawn.
const CHECKPOINT: (Track, u64) = (Track::of_design("checkpoint"), 0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Flushing,
    Tables { next: usize },
    Draining,
    Copy0,
    Copy1,
}

/// The checkpoint in flight.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    step: Option<Step>,
    /// Table entries that it lists. Kept between checkpoints for its memory.
    listed: Vec<u64>,
    record: Option<Record>,
    cleans_up: bool,
}

impl Checkpoint {
    /// For coverage; `None` if none is in flight.
    pub fn phase(&self) -> Option<&'static str> {
        self.step.map(|step| match step {
            Step::Flushing => "caches being flushed",
            Step::Tables { .. } => "tables being written",
            Step::Draining => "checkpoint draining",
            Step::Copy0 => "record copy 0 in flight",
            Step::Copy1 => "record copy 1 in flight",
        })
    }
}

/// The slot that a unit is listed with, if it is.
fn listed_place(versions: &Versions, cleans_up: bool, flaws: Flaws) -> Option<Place> {
    let away = Places::only(versions.newest).slot();
    if cleans_up {
        let at_home = if flaws.clean_up_forgets_rewritten {
            versions.newest == Place::Home
        } else {
            versions.settled
        };
        return versions.durable.slot().filter(|_| !at_home);
    }
    away.filter(|_| versions.live || flaws.lists_stale_entry)
}

impl Thynvm {
    /// True while one is in flight.
    pub(super) fn checkpoint_in_flight(&self) -> bool {
        self.checkpoint.step.is_some()
    }

    /// Starts the checkpoint of the epoch that has just ended.
    pub(super) fn start_checkpoint(&mut self, hardware: &mut Hardware, epoch: u64, now: Cycles) {
        self.begin(hardware, epoch, false, now);
        if self.flaws.copies_home_early {
            self.start_copying(hardware, now);
        }
    }

    /// Records the durable epoch again, without what has come home.
    pub(super) fn clean_up(&mut self, hardware: &mut Hardware, now: Cycles) {
        self.counters.clean_ups += 1;
        self.begin(hardware, self.announced, true, now);
    }

    fn begin(&mut self, hardware: &mut Hardware, epoch: u64, cleans_up: bool, now: Cycles) {
        self.copying.forget_copied();
        self.number += 1;
        let listed = self.list(cleans_up);
        self.checkpoint.record = Some(Record {
            number: self.number,
            epoch,
            listed,
        });
        self.checkpoint.cleans_up = cleans_up;
        self.checkpoint.step = Some(if cleans_up {
            Step::Tables { next: 0 }
        } else {
            Step::Flushing
        });
        self.draw_checkpoint(hardware, now);
        hardware.events.schedule(now, EVENT);
    }

    /// Tells who draws which step is under way.
    fn draw_checkpoint(&self, hardware: &mut Hardware, now: Cycles) {
        if let (Some(timeline), Some(step)) = (hardware.memory.timeline(), self.checkpoint.phase())
        {
            timeline.state(CHECKPOINT.0, step, now, &[]);
        }
    }

    /// Lists what the checkpoint needs from slots, and reserves it. Returns how many of each kind.
    fn list(&mut self, cleans_up: bool) -> [u64; 3] {
        let flaws = self.flaws;
        let mut words = std::mem::take(&mut self.checkpoint.listed);
        words.clear();
        let counts = KINDS.map(|kind| {
            let before = words.len();
            let mut note = |slot: usize, key: u64, place: Option<Place>| {
                if let Some(place) = place {
                    words.push(Listed { key, slot, place }.encode());
                }
                place.map_or(Places::HOME, Places::only)
            };
            match kind {
                Kind::Page => {
                    for slot in 0..self.pages.capacity() {
                        if let Some(page) = self.pages.key(slot) {
                            let versions = self.pages.value_mut(slot);
                            let place = listed_place(versions, cleans_up, flaws);
                            versions.in_flight = note(slot, page, place);
                        }
                    }
                }
                Kind::Block => {
                    for slot in 0..self.blocks.capacity() {
                        if let Some(line) = self.blocks.key(slot) {
                            let versions = *self.blocks.value(slot);
                            let place = listed_place(&versions, cleans_up, flaws)
                                .or_else(|| self.over_listed_page(line, &versions, cleans_up));
                            self.blocks.value_mut(slot).in_flight = note(slot, line, place);
                        }
                    }
                }
                Kind::Overflow if flaws.forgets_overflow => {}
                Kind::Overflow => {
                    let slots: Vec<_> = self
                        .overflow
                        .iter()
                        .map(|(slot, line, versions)| {
                            let place = listed_place(versions, cleans_up, flaws)
                                .or_else(|| self.over_listed_page(line, versions, cleans_up));
                            (slot, line, place)
                        })
                        .collect();
                    for (slot, line, place) in slots {
                        self.overflow.value_mut(slot).in_flight = note(slot, line, place);
                    }
                }
            }
            (words.len() - before) as u64
        });
        self.checkpoint.listed = words;
        counts
    }

    /// A line that is home stays listed when its page is: the page's bytes are older.
    fn over_listed_page(&self, line: u64, versions: &Versions, cleans_up: bool) -> Option<Place> {
        let page = self.pages.find(line / PAGE_LINES)?;
        let page_is_listed = self.pages.value(page).in_flight.slot().is_some();
        versions
            .durable
            .slot()
            .filter(|_| cleans_up && page_is_listed)
    }

    /// Does the next thing.
    pub(super) fn checkpoint_step(&mut self, hardware: &mut Hardware, now: Cycles) {
        let (Some(step), Some(record)) = (self.checkpoint.step, self.checkpoint.record) else {
            return;
        };
        let (next, time) = match step {
            Step::Flushing => {
                if self.flaws.records_before_data {
                    Self::write_record(hardware, 0, &record, now);
                }
                (Step::Tables { next: 0 }, now)
            }
            Step::Tables { next } => self.write_tables(hardware, record.number, next, now),
            Step::Draining => {
                let durable = Self::write_record(hardware, 0, &record, now);
                if self.flaws.writes_copies_together {
                    (Step::Copy1, Self::write_record(hardware, 1, &record, now))
                } else {
                    (Step::Copy0, durable)
                }
            }
            Step::Copy0 => (Step::Copy1, Self::write_record(hardware, 1, &record, now)),
            Step::Copy1 => return self.checkpoint_durable(hardware, record.epoch, now),
        };
        self.checkpoint.step = Some(next);
        self.draw_checkpoint(hardware, now);
        hardware.events.schedule(time, EVENT);
    }

    fn write_tables(
        &mut self,
        hardware: &mut Hardware,
        number: u64,
        next: usize,
        now: Cycles,
    ) -> (Step, Cycles) {
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let per_block = self.regions.shape.listed_per_block();
        let chunks = self.checkpoint.listed.chunks(per_block).enumerate();
        let mut accepted = now;
        for (index, listed) in chunks.skip(next).take(BLOCKS_PER_STEP) {
            let bytes = self.regions.encode_table_block(number, index, listed);
            let address = self.regions.table_block(number, index);
            let metadata = Traffic::Metadata;
            accepted = memory
                .write_block(address, &bytes, metadata, accepted, 0, statistics)
                .accepted;
        }
        let next = next + BLOCKS_PER_STEP;
        if next < self.checkpoint.listed.len().div_ceil(per_block) {
            return (Step::Tables { next }, accepted);
        }
        (Step::Draining, memory.quiet_at().max(accepted))
    }

    fn write_record(hardware: &mut Hardware, copy: usize, record: &Record, now: Cycles) -> Cycles {
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let (bytes, metadata) = (record.encode(), Traffic::Metadata);
        memory
            .write_block(COPIES[copy], &bytes, metadata, now, 0, statistics)
            .durable
    }

    /// Both copies are durable: what only the checkpoint before needed may be overwritten.
    fn checkpoint_durable(&mut self, hardware: &mut Hardware, epoch: u64, now: Cycles) {
        self.checkpoint.step = None;
        hardware.memory.draw_end(CHECKPOINT, now, &[]);
        let settle = |versions: &mut Versions| {
            versions.durable = std::mem::take(&mut versions.in_flight);
        };
        for slot in 0..self.pages.capacity() {
            settle(self.pages.value_mut(slot));
        }
        for slot in 0..self.blocks.capacity() {
            settle(self.blocks.value_mut(slot));
        }
        self.overflow.change_all(settle);
        self.overflow.sweep();
        if !self.checkpoint.cleans_up {
            hardware.statistics.epochs_persisted += epoch - self.announced;
            self.announced = epoch;
            self.start_copying(hardware, now);
        }
        self.clean_up_if_due(hardware, now);
    }
}
