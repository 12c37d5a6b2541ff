//! `journaling`: redo logging with a synchronous commit, as the PiCL paper's evaluation has it
//! (Nguyen and Wentzlaff, MICRO 2018, §II-B and §VI-A, where it stands for ARIES-like redo logs).
//!
//! | the paper | here |
//! |---|---|
//! | evictions are held in an NVM redo buffer, §II-B | [`Journaling::evict`](Policy::evict), [`journal`] |
//! | the buffer is snooped on every memory access, §II-B | [`Journaling::fill`](Policy::fill) |
//! | translation table of 6,144 entries, 16-way, §VI-A | [`crate::translation::Table`] |
//! | overflow aborts the epoch prematurely, §II-B | [`Journaling::slot_for`], [`END_EPOCH`] |
//! | synchronous cache flush at each commit, §II-A and §II-B | [`commit`] |
//!
//! Always true here:
//! - While an epoch executes, home memory holds the last committed epoch: nothing is written home
//!   except between the commit record's becoming durable and the journal's retirement.
//! - The newest bytes of a line outside the caches are in its redo slot, if the table or the
//!   overflow list knows one, and at home otherwise.
//! - No redo slot or block that a durable record names is overwritten.

pub mod bugs;
pub mod commit;
pub mod counters;
pub mod journal;
pub mod recovery;
pub mod registers;

use std::collections::BTreeMap;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Cause, Evicted, Eviction, Policy, PolicyFailure};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use serde::{Deserialize, Serialize};

use self::bugs::Flaws;
use self::commit::{EVENT_COMMITTED, EVENT_HOME, EVENT_JOURNALED, EVENT_RETIRED, Stage};
use self::counters::Counters;
use self::journal::{Builder, Kind, LEAST_ROW_BYTES, Map};
use self::registers::Record;
use crate::copies::CommitRecord;
use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered};
use crate::epochs::{END_EPOCH, EpochNumbers, MachineEpochs, OfMachine, Urgency};
use crate::layout::Layout;
use crate::oracle::EpochPrefix;
use crate::surviving::{Interrupted, Surviving};
use crate::translation::Table;

/// The `journaling` section of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Lines that the translation table can hold (§VI-A: 6144).
    pub table_entries: usize,
    /// Its associativity (§VI-A: 16).
    pub table_ways: usize,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            table_entries: 6144,
            table_ways: 16,
        }
    }
}

impl Parameters {
    fn validate(&self, map: &Map, llc_lines: u64) -> Result<(), ImpossibleParameter> {
        let block_bytes = map.block_bytes();
        ImpossibleParameter::unless(
            block_bytes >= LEAST_ROW_BYTES,
            "nvm.row_bytes",
            block_bytes,
            format!("must be at least {LEAST_ROW_BYTES} for journaling, whose blocks are rows"),
        )?;
        ImpossibleParameter::unless(
            self.table_ways > 0,
            "journaling.table_ways",
            0,
            "must be at least 1",
        )?;
        ImpossibleParameter::unless(
            self.table_entries > 0 && self.table_entries.is_multiple_of(self.table_ways),
            "journaling.table_entries",
            self.table_entries,
            format!(
                "must be a multiple of journaling.table_ways = {}, and at least that",
                self.table_ways
            ),
        )?;
        let slots = map.slot_capacity();
        ImpossibleParameter::unless(
            self.table_entries as u64 <= slots,
            "journaling.table_entries",
            self.table_entries,
            format!(
                "must be at most {slots}: redo slots of {LINE_BYTES} bytes take half of the log area, which is a quarter of nvm.bytes"
            ),
        )?;
        let blocks = llc_lines.div_ceil(Kind::Lines.entries(block_bytes) as u64)
            + slots.div_ceil(Kind::Addresses.entries(block_bytes) as u64);
        ImpossibleParameter::unless(
            blocks <= map.block_capacity(),
            "journaling.table_entries",
            self.table_entries,
            format!(
                "the journal of a whole last-level cache takes {blocks} rows and half of the log area has {}: raise nvm.bytes, or lower llc.bytes_per_hart",
                map.block_capacity()
            ),
        )
    }
}

/// The table has overflowed; the machine is asked to end the epoch if that still holds.
const EVENT_OVERFLOWED: u32 = 4;

/// In place of a slot's line: the line was flushed since, and the journal has newer bytes.
const SUPERSEDED: LineNumber = LineNumber::MAX;

/// The design's volatile state: all of it is lost at power-off.
#[derive(Clone)]
pub struct Journaling {
    flaws: Flaws,
    map: Map,
    executing: u64,
    announced: u64,
    stage: Stage,
    /// Number of the last register record.
    record_number: u64,
    /// Line → redo slot.
    table: Table<u32>,
    /// The same for lines for which the table had no room.
    overflow: BTreeMap<LineNumber, u32>,
    /// The line of each redo slot in use, in the order of first eviction.
    slots: Vec<LineNumber>,
    /// The machine has been asked to end this epoch.
    asked: bool,
    /// Lines of the flush, in its order.
    flushed: Vec<LineNumber>,
    /// The blocks that fill, and how many were written for this epoch.
    lines: Builder,
    addresses: Builder,
    blocks: u64,
    counters: Counters,
}

impl Policy for Journaling {
    /// Evictions go to the redo buffer; a later eviction of the same line overwrites its slot, to
    /// which nothing committed refers.
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        if eviction.cause == Cause::Flush {
            return self.journal_line(hardware, eviction.line, &eviction.bytes, now);
        }
        let known = self.slots.len();
        let place = match self.slot_for(hardware, eviction.line, now) {
            Some(slot)
                if self.flaws.drops_rewrite && slot % 8 == 3 && known == self.slots.len() =>
            {
                return Evicted {
                    accepted: now,
                    durable: now,
                };
            }
            Some(slot) => self.map.slot_line(slot),
            None if self.flaws.overflows_in_place => eviction.line,
            None => {
                return Evicted {
                    accepted: now,
                    durable: now,
                };
            }
        };
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let traffic = Traffic::WriteBack;
        let done = memory.write_line(place, &eviction.bytes, traffic, now, 0, statistics);
        done.into()
    }

    fn fill(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        match self.slot_of(line) {
            Some(slot) if !self.flaws.misses_snoop => {
                self.counters.redo_fills += 1;
                hardware.read_memory(self.map.slot_line(slot), now)
            }
            _ => hardware.read_memory(line, now),
        }
    }

    fn peek(&self, hardware: &Hardware, line: LineNumber) -> Line {
        let place = match self.slot_of(line) {
            Some(slot) => self.map.slot_line(slot),
            None => line,
        };
        *hardware.memory.arena.line(place * LINE_BYTES as u64)
    }

    fn displaced(&self, show: &mut dyn FnMut(LineNumber)) {
        for &line in self.slots.iter().filter(|&&line| line != SUPERSEDED) {
            show(line);
        }
    }

    fn fired(&mut self, hardware: &mut Hardware, event: u32, now: Cycles) {
        match event {
            EVENT_JOURNALED => {
                self.stage = Stage::Recording;
                if self.flaws.announces_before_commit {
                    self.announced += 1;
                }
            }
            EVENT_COMMITTED => {
                self.stage = Stage::CopyingHome;
                hardware.statistics.epochs_persisted += 1;
                if !self.flaws.announces_before_commit {
                    self.announced += 1;
                }
            }
            EVENT_HOME => self.stage = Stage::Retiring,
            EVENT_RETIRED => self.stage = Stage::Executing,
            // The epoch may have ended by itself meanwhile.
            EVENT_OVERFLOWED if !self.overflow.is_empty() => {
                hardware.events.schedule(now, END_EPOCH);
            }
            _ => {}
        }
    }
}

impl Journaling {
    /// Where the redo buffer holds a line.
    #[inline]
    fn slot_of(&self, line: LineNumber) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        match self.table.find(line) {
            Some(entry) => Some(*self.table.value(entry)),
            None if self.overflow.is_empty() => None,
            None => self.overflow.get(&line).copied(),
        }
    }

    /// The redo slot of an evicted line, a new one if it has none. `None` if there is none to be
    /// had.
    fn slot_for(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> Option<u32> {
        let statistics = &mut hardware.statistics;
        statistics.translation_lookups += 1;
        if let Some(entry) = self.table.find(line) {
            return Some(*self.table.value(entry));
        }
        statistics.translation_misses += 1;
        if let Some(&slot) = self.overflow.get(&line) {
            return Some(slot);
        }
        let slot = self.slots.len() as u32;
        if u64::from(slot) >= self.map.slot_capacity() {
            let message = format!(
                "the redo buffer is full: {slot} lines of {LINE_BYTES} bytes were evicted before the epoch could end; raise nvm.bytes, a quarter of which is the log area"
            );
            hardware.failure.get_or_insert(PolicyFailure(message));
            return None;
        }
        if let Some(room) = self.table.room(line, |_, _| false) {
            self.table.put(room, line, slot);
        } else {
            statistics.translation_overflows += 1;
            if !self.asked {
                self.asked = true;
                hardware.events.schedule(now, EVENT_OVERFLOWED);
            }
            if self.flaws.overflows_in_place {
                return None;
            }
            self.overflow.insert(line, slot);
        }
        self.slots.push(line);
        Some(slot)
    }

    /// Drops a line's translation. Returns the slot that it had.
    fn forget(&mut self, line: LineNumber) -> Option<u32> {
        match self.table.find(line) {
            Some(entry) => self.table.remove(entry).map(|(_, slot)| slot),
            None => self.overflow.remove(&line),
        }
    }
}

impl EpochNumbers for Journaling {
    fn executing_epoch(&self) -> u64 {
        self.executing
    }

    fn announced_epoch(&self) -> u64 {
        self.announced
    }
}

impl MachineEpochs for Journaling {
    /// One commit at a time: events of the last one must have come first.
    fn can_end_epoch(&self) -> bool {
        self.stage == Stage::Executing
    }

    fn end_epoch(&mut self, hardware: &mut Hardware, _: Urgency, now: Cycles) -> Cycles {
        self.commit(hardware, now)
    }
}

impl Design for Journaling {
    const NAME: &'static str = "journaling";
    const SUMMARY: &'static str =
        "redo logging: evictions held in NVM, synchronous flush, commit, then copy home";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    // Tables from one that nearly every epoch overflows to one that none does.
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[
        &["journaling.table_entries=256", "journaling.table_ways=4"],
        &["journaling.table_entries=64", "journaling.table_ways=1"],
        &["journaling.table_entries=512", "journaling.table_ways=8"],
        &["journaling.table_entries=96", "journaling.table_ways=2"],
        &[],
    ];
    type Epochs = OfMachine;
    type Promise = EpochPrefix;
    type Parameters = Parameters;
    type Counters = Counters;

    fn start(
        parameters: &Parameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        let nvm = &hardware.specification.nvm;
        let (row_bytes, spread) = (nvm.row_bytes as u64, nvm.line_spread() as u64);
        let map = Map::new(&layout.log_area, row_bytes, spread);
        let llc_lines = hardware.llc.sets() * hardware.llc.ways();
        parameters.validate(&map, llc_lines as u64)?;
        let harts = hardware.cores.len();
        let arena = &mut hardware.memory.arena;
        layout.put_boot_record(harts, [row_bytes, spread, 0, 0], arena);
        // After a recovery, numbers go on; at first boot there are no registers.
        let record = Record {
            number: Record::left(arena).map_or(0, |record| record.number + 1),
            epoch,
            blocks: 0,
        };
        record.put(arena);
        Ok(Self {
            flaws: Flaws::of(bug),
            executing: epoch + 1,
            announced: epoch,
            stage: Stage::Executing,
            record_number: record.number,
            table: Table::new(parameters.table_entries, parameters.table_ways),
            overflow: BTreeMap::new(),
            slots: Vec::with_capacity(parameters.table_entries),
            asked: false,
            flushed: Vec::with_capacity(llc_lines),
            lines: Builder::new(Kind::Lines, map.block_bytes()),
            addresses: Builder::new(Kind::Addresses, map.block_bytes()),
            blocks: 0,
            map,
            counters: Counters::default(),
        })
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        recovery::recover(image, Flaws::of(bug))
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn phase(&self) -> &'static str {
        match self.stage {
            Stage::Executing if !self.overflow.is_empty() => "executing, table overflowed",
            Stage::Executing if self.slots.is_empty() => "executing, redo buffer empty",
            Stage::Executing => "executing, redo buffer filling",
            Stage::Flushing => "flushing caches into the journal",
            Stage::Recording => "commit record in flight",
            Stage::CopyingHome => "copying home",
            Stage::Retiring => "retiring the journal",
        }
    }

    fn paths(hardware: &Statistics, own: &Counters) -> Vec<(&'static str, u64)> {
        vec![
            ("eviction took a redo slot", hardware.translation_misses),
            (
                "eviction overwrote its redo slot",
                hardware.translation_lookups - hardware.translation_misses,
            ),
            (
                "translation table overflowed",
                hardware.translation_overflows,
            ),
            ("miss answered by the redo buffer", own.redo_fills),
            ("flush superseded an evicted copy", own.superseded),
            ("epoch forced by output commit", hardware.epochs_forced),
        ]
    }
}
