//! `thynvm`: redo versions at two granularities, with the checkpoint of one epoch overlapping the
//! execution of the next: ThyNVM (Ren et al., MICRO 2015) as PiCL's evaluation configures it
//! (Nguyen and Wentzlaff, MICRO 2018, §II-B and §VI-A).
//!
//! | ThyNVM | here |
//! |---|---|
//! | working, last and penultimate version, checkpoint regions | [`version`], [`format::Regions`] |
//! | block remapping, page write-back | [`Thynvm::write`] |
//! | block and page translation table | [`translation::Table`](crate::translation::Table) |
//! | overlapped checkpoint | [`checkpoint`] |
//! | migration by store counters; entries freed when their data is at home | [`home`] |
//! | recovery | [`recovery`] |
//!
//! Always true here:
//! - The newest bytes of a line that no cache holds are those of its live block entry, else of its
//!   live entry in the overflow list, else of its page's live entry, else those at home.
//! - Evictions never overwrite a place that the durable checkpoint needs, or the one in flight.
//! - A commit record is written only after everything that it lists is durable, and an epoch is
//!   announced only after both copies of its record are.

pub mod bugs;
pub mod checkpoint;
pub mod counters;
pub mod format;
pub mod home;
pub mod overflow;
pub mod recovery;
pub mod version;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::{Accepted, Traffic};
use perdure_hardware::policy::{Cause, Evicted, Eviction, Policy, PolicyFailure};
use perdure_hardware::specification::Interleaving;
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use serde::{Deserialize, Serialize};

use self::bugs::Flaws;
use self::checkpoint::Checkpoint;
use self::counters::Counters;
use self::format::{Kind, PAGE_BYTES, PAGE_LINES, Record, Regions, Shape};
use self::home::Copying;
use self::overflow::Overflow;
use self::version::{Place, Places, Versions};
use crate::copies::CommitRecord;
use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered};
use crate::epochs::{END_EPOCH, EpochNumbers, MachineEpochs, OfMachine, Urgency};
use crate::layout::Layout;
use crate::oracle::EpochPrefix;
use crate::surviving::{Interrupted, Surviving};
use crate::translation::Table;

/// The `thynvm` section of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Entries of the block translation table; a block is a line.
    pub block_entries: usize,
    /// Entries of the page translation table; a page is 4 KiB.
    pub page_entries: usize,
    /// Associativity of both.
    pub table_ways: usize,
    /// A page whose blocks were written at least so often in an epoch is tracked as a page.
    pub promote_writes: u32,
    /// A page that was written at most so often in an epoch is no longer tracked as a page.
    pub demote_writes: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            block_entries: 2048,
            page_entries: 4096,
            table_ways: 16,
            promote_writes: 22,
            demote_writes: 16,
        }
    }
}

impl Parameters {
    fn validate(&self) -> Result<(), ImpossibleParameter> {
        ImpossibleParameter::unless(
            (1..=64).contains(&self.table_ways),
            "thynvm.table_ways",
            self.table_ways,
            "must be 1 to 64",
        )?;
        for (key, entries) in [
            ("thynvm.block_entries", self.block_entries),
            ("thynvm.page_entries", self.page_entries),
        ] {
            ImpossibleParameter::unless(
                (1..=1 << 20).contains(&entries) && entries.is_multiple_of(self.table_ways),
                key,
                entries,
                format!(
                    "must be a multiple of thynvm.table_ways = {}, at most 1048576",
                    self.table_ways
                ),
            )?;
        }
        ImpossibleParameter::unless(
            self.promote_writes > self.demote_writes,
            "thynvm.promote_writes",
            self.promote_writes,
            format!(
                "must be more than thynvm.demote_writes = {}, or pages would change to and fro",
                self.demote_writes
            ),
        )
    }

    /// Where everything goes on this machine.
    fn regions(
        &self,
        layout: &Layout,
        hardware: &Hardware,
    ) -> Result<Regions, ImpossibleParameter> {
        let nvm = &hardware.specification.nvm;
        let llc_lines = hardware.llc.sets() * hardware.llc.ways();
        let area = layout.log_area.clone();
        ImpossibleParameter::unless(
            nvm.row_bytes >= 256,
            "nvm.row_bytes",
            nvm.row_bytes,
            "must be at least 256 under thynvm: a block of its tables is one row operation",
        )?;
        Shape::fitting(
            area.end - area.start,
            self.block_entries as u64,
            self.page_entries as u64,
            self.table_ways as u64,
            nvm.banks as u64,
            nvm.row_bytes as u64,
        )
        .filter(|shape| shape.overflow_entries >= llc_lines as u64)
        .and_then(|shape| Regions::new(shape, area))
        .ok_or_else(|| {
            let problem = format!(
                "with thynvm.block_entries = {}: two slots for each entry, the tables, and room for the {llc_lines} lines of the last-level cache do not fit in a quarter of nvm.bytes = {}; take fewer entries or more memory",
                self.block_entries, nvm.bytes
            );
            ImpossibleParameter::new("thynvm.page_entries", self.page_entries, problem)
        })
    }
}

/// The design's volatile state: all of it is lost at power-off.
#[derive(Clone)]
pub struct Thynvm {
    parameters: Parameters,
    flaws: Flaws,
    regions: Regions,
    /// The block translation table (BTT).
    blocks: Table<Versions>,
    /// The page translation table (PTT).
    pages: Table<Versions>,
    overflow: Overflow,
    executing: u64,
    announced: u64,
    checkpoint: Checkpoint,
    /// Number of the newest commit record, written or being written.
    number: u64,
    copying: Copying,
    /// The caches are being flushed: the epoch is over already.
    flushing: bool,
    /// A line of the executing epoch found no room in the tables.
    overflowed: bool,
    /// So did one of the epoch before.
    pressed: bool,
    counters: Counters,
}

impl Policy for Thynvm {
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let traffic = match eviction.cause {
            Cause::Replacement | Cause::CacheBlock => Traffic::WriteBack,
            Cause::Flush => Traffic::Flush,
        };
        let done = self.write(hardware, eviction.line, &eviction.bytes, traffic, now);
        done.into()
    }

    #[inline]
    fn fill(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        let address = if self.flaws.fills_past_pages {
            self.locate_line(line).unwrap_or(line * LINE_BYTES as u64)
        } else {
            self.locate(line)
        };
        hardware.read_memory(address / LINE_BYTES as u64, now)
    }

    #[inline]
    fn peek(&self, hardware: &Hardware, line: LineNumber) -> Line {
        *hardware.memory.arena.line(self.locate(line))
    }

    fn displaced(&self, show: &mut dyn FnMut(LineNumber)) {
        let away = |versions: &Versions| versions.live && versions.newest != Place::Home;
        for (_, line, versions) in self.blocks.iter().chain(self.overflow.iter()) {
            if away(versions) {
                show(line);
            }
        }
        for (_, page, versions) in self.pages.iter() {
            if away(versions) {
                (page * PAGE_LINES..(page + 1) * PAGE_LINES)
                    .filter(|&line| self.locate_line(line).is_none())
                    .for_each(&mut *show);
            }
        }
    }

    fn fired(&mut self, hardware: &mut Hardware, event: u32, now: Cycles) {
        match event {
            checkpoint::EVENT => self.checkpoint_step(hardware, now),
            home::EVENT => self.home_step(hardware, now),
            _ => self.home_arrived(hardware, now),
        }
    }
}

impl Thynvm {
    /// Where the newest bytes of a line are, if it is tracked by itself.
    #[inline]
    fn locate_line(&self, line: LineNumber) -> Option<u64> {
        let block = self.blocks.find(line).and_then(|slot| {
            let versions = self.blocks.value(slot);
            let place = versions.newest;
            versions
                .live
                .then(|| self.regions.address(Kind::Block, line, slot, place))
        });
        block.or_else(|| {
            let slot = self.overflow.find(line)?;
            let versions = self.overflow.value(slot);
            let place = versions.newest;
            versions
                .live
                .then(|| self.regions.address(Kind::Overflow, line, slot, place))
        })
    }

    /// Where the newest bytes of a line are.
    #[inline]
    fn locate(&self, line: LineNumber) -> u64 {
        if let Some(address) = self.locate_line(line) {
            return address;
        }
        let page = line / PAGE_LINES;
        match self.live_page(page) {
            Some(slot) => {
                let place = self.pages.value(slot).newest;
                let start = self.regions.address(Kind::Page, page, slot, place);
                start + line % PAGE_LINES * LINE_BYTES as u64
            }
            None => line * LINE_BYTES as u64,
        }
    }

    /// The entry of a page that is tracked as one.
    #[inline]
    fn live_page(&self, page: u64) -> Option<usize> {
        self.pages
            .find(page)
            .filter(|&slot| self.pages.value(slot).live)
    }

    fn value(&self, kind: Kind, slot: usize) -> &Versions {
        match kind {
            Kind::Page => self.pages.value(slot),
            Kind::Block => self.blocks.value(slot),
            Kind::Overflow => self.overflow.value(slot),
        }
    }

    fn value_mut(&mut self, kind: Kind, slot: usize) -> &mut Versions {
        match kind {
            Kind::Page => self.pages.value_mut(slot),
            Kind::Block => self.blocks.value_mut(slot),
            Kind::Overflow => self.overflow.value_mut(slot),
        }
    }

    /// Gives a line that left the caches a place, in this order: its page if that is tracked as
    /// one, its block entry, a new block entry, the overflow list if it is there already, a new
    /// page, the overflow list.
    fn write(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        bytes: &Line,
        traffic: Traffic,
        now: Cycles,
    ) -> Accepted {
        hardware.statistics.translation_lookups += 1;
        let page = line / PAGE_LINES;
        let in_list = self.overflow.find(line);
        if let Some(slot) = self.live_page(page) {
            self.pages.value_mut(slot).writes += 1;
            return self.write_to_page(hardware, slot, line, bytes, traffic, now);
        }
        let found = self.blocks.find(line);
        let is_live = |versions: &Versions| versions.live;
        let known = found.is_some_and(|slot| is_live(self.blocks.value(slot)))
            || in_list.is_some_and(|slot| is_live(self.overflow.value(slot)));
        hardware.statistics.translation_misses += u64::from(!known);

        if let Some(slot) = found.or_else(|| self.new_block(line)) {
            if let Some(slot) = in_list {
                self.overflow.value_mut(slot).die();
            }
            self.blocks.touch(slot);
            return self.write_unit(hardware, Kind::Block, slot, line, bytes, traffic, now);
        }
        if let Some(slot) = in_list {
            return self.write_unit(hardware, Kind::Overflow, slot, line, bytes, traffic, now);
        }
        // Lines of a flush are as many as they are: the epoch cannot end any earlier for them, and
        // a page of its own for each would be dear.
        if !self.flushing
            && let Some(slot) = self.new_page(page)
        {
            self.counters.pages_spilled += 1;
            self.pages.value_mut(slot).writes += 1;
            return self.write_to_page(hardware, slot, line, bytes, traffic, now);
        }
        self.write_to_list(hardware, line, bytes, traffic, now)
    }

    /// A block entry for a line that has none.
    fn new_block(&mut self, line: LineNumber) -> Option<usize> {
        let slot = self.blocks.room(line, |_, versions| versions.is_free())?;
        let fresh = Versions::at_home(self.checkpoint_in_flight());
        self.blocks.put(slot, line, fresh);
        Some(slot)
    }

    /// Tracks a page as one, from home.
    fn new_page(&mut self, page: u64) -> Option<usize> {
        if let Some(slot) = self.pages.find(page) {
            // Its slots are still needed: a page that was brought home not long ago.
            let versions = self.pages.value_mut(slot);
            versions.live = true;
            versions.homebound = false;
            self.pages.touch(slot);
            return Some(slot);
        }
        let slot = self.pages.room(page, |_, versions| versions.is_free())?;
        let fresh = Versions::at_home(self.checkpoint_in_flight());
        self.pages.put(slot, page, fresh);
        Some(slot)
    }

    /// The line joins the overflow list; the epoch should end.
    fn write_to_list(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        bytes: &Line,
        traffic: Traffic,
        now: Cycles,
    ) -> Accepted {
        hardware.statistics.translation_overflows += 1;
        if !self.overflowed && !self.flushing {
            hardware.events.schedule(now, END_EPOCH);
        }
        self.overflowed = true;
        let fresh = Versions::at_home(self.checkpoint_in_flight());
        let Some(slot) = self.overflow.add(line, fresh) else {
            let capacity = self.regions.shape.overflow_entries;
            let message = format!(
                "the overflow list is full: {capacity} lines found no room in the translation tables; give more thynvm.block_entries or thynvm.page_entries, or more nvm.bytes"
            );
            hardware.failure.get_or_insert(PolicyFailure(message));
            return Accepted::at(now);
        };
        self.write_unit(hardware, Kind::Overflow, slot, line, bytes, traffic, now)
    }

    /// The places of a unit that a write must leave alone.
    fn needed(&self, versions: &Versions) -> Places {
        self.flaws.spared(versions, self.checkpoint_in_flight())
    }

    /// Writes a block or an overflowed line.
    #[allow(clippy::too_many_arguments, reason = "a write, and the unit's entry")]
    fn write_unit(
        &mut self,
        hardware: &mut Hardware,
        kind: Kind,
        slot: usize,
        line: LineNumber,
        bytes: &Line,
        traffic: Traffic,
        now: Cycles,
    ) -> Accepted {
        let versions = *self.value(kind, slot);
        let place = versions.place_to_write(self.needed(&versions));
        let versions = self.value_mut(kind, slot);
        versions.newest = place;
        versions.live = true;
        versions.written = true;
        versions.settled = false;
        versions.writes += 1;
        let address = self.regions.address(kind, line, slot, place);
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let at = address / LINE_BYTES as u64;
        memory.write_line(at, bytes, traffic, now, 0, statistics)
    }

    /// Writes a line of a page that is tracked as one. The first write in an epoch copies the page
    /// to where the working version goes, within the memory module.
    fn write_to_page(
        &mut self,
        hardware: &mut Hardware,
        slot: usize,
        line: LineNumber,
        bytes: &Line,
        traffic: Traffic,
        now: Cycles,
    ) -> Accepted {
        // From now on the page has the newest bytes.
        if let Some(block) = self.blocks.find(line) {
            self.blocks.value_mut(block).die();
        }
        if let Some(listed) = self.overflow.find(line) {
            self.overflow.value_mut(listed).die();
        }
        let page = line / PAGE_LINES;
        let before = *self.pages.value(slot);
        let place = before.place_to_write(self.needed(&before));
        let to = self.regions.address(Kind::Page, page, slot, place);
        if place != before.newest {
            self.counters.page_copies += 1;
            let from = self.regions.address(Kind::Page, page, slot, before.newest);
            let length = if self.flaws.copies_half_page {
                PAGE_BYTES / 2
            } else {
                PAGE_BYTES
            };
            let traffic = if place == Place::Home {
                Traffic::Flush
            } else {
                Traffic::Log
            };
            Self::copy_page(hardware, from, to, length, traffic, now);
        }
        let versions = self.pages.value_mut(slot);
        versions.newest = place;
        versions.written = true;
        versions.settled = false;
        self.pages.touch(slot);
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let at = to / LINE_BYTES as u64 + line % PAGE_LINES;
        memory.write_line(at, bytes, traffic, now, 0, statistics)
    }

    /// Copies a page, or its beginning, within the module; where one row holds several pages it
    /// takes the way over the controller.
    fn copy_page(
        hardware: &mut Hardware,
        from: u64,
        to: u64,
        length: u64,
        traffic: Traffic,
        now: Cycles,
    ) -> Accepted {
        let Hardware {
            memory,
            statistics,
            specification,
            ..
        } = hardware;
        let length = length as usize;
        if specification.nvm.row_bytes as u64 <= PAGE_BYTES {
            return memory.copy_within(from, to, length, traffic, now, 0, statistics);
        }
        // One end of the copy is home, whose lines may be dealt out to the banks.
        let unit = match specification.nvm.home_interleaving {
            Interleaving::Line => LINE_BYTES,
            Interleaving::Row => length,
        };
        let units = || (0..length).step_by(unit);
        let arrived = units().fold(now, |arrived, at| {
            arrived.max(memory.read_block(from + at as u64, unit, now, statistics))
        });
        let bytes = memory.arena.slice(from, length).to_vec();
        let mut done = Accepted {
            accepted: arrived,
            durable: arrived,
        };
        for at in units() {
            let (place, part) = (to + at as u64, &bytes[at..at + unit]);
            let one = memory.write_block(place, part, traffic, done.accepted, 0, statistics);
            done.accepted = one.accepted;
            done.durable = done.durable.max(one.durable);
        }
        done
    }
}

impl EpochNumbers for Thynvm {
    fn executing_epoch(&self) -> u64 {
        self.executing
    }

    fn announced_epoch(&self) -> u64 {
        if self.flaws.announces_at_end {
            self.executing - 1
        } else {
            self.announced
        }
    }
}

impl MachineEpochs for Thynvm {
    /// One checkpoint overlaps with execution, not two; and the overflow list takes the lines of one
    /// flush, not of two.
    fn can_end_epoch(&self) -> bool {
        !self.checkpoint_in_flight() && !self.copying.holds_overflow()
    }

    fn end_epoch(&mut self, hardware: &mut Hardware, _: Urgency, now: Cycles) -> Cycles {
        self.flushing = true;
        let flushed = hardware.flush(self, now);
        self.flushing = false;
        self.pressed = std::mem::take(&mut self.overflowed);
        self.choose_granularities();
        let ended = self.executing;
        self.executing += 1;
        self.start_checkpoint(hardware, ended, flushed.ready);
        flushed.ready
    }
}

impl Design for Thynvm {
    const NAME: &'static str = "thynvm";
    const SUMMARY: &'static str =
        "ThyNVM: redo versions of blocks and pages, checkpoint overlapped with execution";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    // Tables that overflow, pages that come and go.
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[
        &[
            "thynvm.block_entries=64",
            "thynvm.page_entries=32",
            "thynvm.table_ways=4",
            "thynvm.promote_writes=6",
            "thynvm.demote_writes=3",
        ],
        // Media so slow that evictions meet a checkpoint in flight, and pages that stay.
        &[
            "thynvm.promote_writes=2",
            "thynvm.demote_writes=0",
            "nvm.row_write_ns=3000",
        ],
        &[
            "thynvm.block_entries=256",
            "thynvm.page_entries=8",
            "thynvm.promote_writes=4",
            "thynvm.demote_writes=2",
            "thynvm.table_ways=8",
        ],
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
        parameters.validate()?;
        let regions = parameters.regions(layout, hardware)?;
        let harts = hardware.cores.len();
        let arena = &mut hardware.memory.arena;
        layout.put_boot_record(harts, regions.shape.encode(), arena);
        // After a recovery the records go on where it left them; at first boot there are none.
        let record = Record {
            number: Record::left(arena).map_or(0, |record| record.number),
            epoch,
            listed: [0; 3],
        };
        record.put(arena);
        Ok(Self {
            flaws: Flaws::of(bug),
            overflow: Overflow::new(
                regions.shape.overflow_entries as usize,
                regions.shape.spread_rows as usize,
            ),
            regions,
            blocks: Table::new(parameters.block_entries, parameters.table_ways),
            pages: Table::new(parameters.page_entries, parameters.table_ways),
            executing: epoch + 1,
            announced: epoch,
            checkpoint: Checkpoint::default(),
            number: record.number,
            copying: Copying::default(),
            flushing: false,
            overflowed: false,
            pressed: false,
            parameters: parameters.clone(),
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
        self.checkpoint
            .phase()
            .unwrap_or(if self.copying.is_active() {
                "copying home"
            } else {
                "executing"
            })
    }

    fn paths(hardware: &Statistics, own: &Counters) -> Vec<(&'static str, u64)> {
        vec![
            (
                "line found no room in the tables",
                hardware.translation_overflows,
            ),
            ("block table full, page tracked instead", own.pages_spilled),
            ("page promoted", own.pages_promoted),
            ("page demoted", own.pages_demoted),
            ("page copied for its working version", own.page_copies),
            ("idle version brought home", own.units_brought_home),
            ("idle block moved to its page", own.blocks_merged),
            ("tables cleaned up", own.clean_ups),
            ("epoch forced by output commit", hardware.epochs_forced),
            (
                "epoch end waited for the checkpoint",
                hardware.epoch_wait_cycles,
            ),
        ]
    }
}
