//! `shadow-paging`: copy-on-write of whole pages at the memory controller, as PiCL's evaluation
//! configures it (Nguyen and Wentzlaff, MICRO 2018, §VI-A).
//!
//! | the paper, §VI-A | here |
//! |---|---|
//! | translation table, 6,144 entries, 16 ways | [`Parameters`], [`Table`] |
//! | "page copy-on-write is done on a translation write miss … locally within the memory module" | [`ShadowPaging::copy_on_write`] |
//! | redo buffer "snooped on every memory access" (§II-B) | [`ShadowPaging::place_of`] |
//! | "page write-back is done on a commit" | [`commit`] |
//! | "even though the page is written back, the entry is retained" | [`Entry`] |
//! | overflow ends the epoch early (§II-B) | [`ShadowPaging::keep_aside`] |
//!
//! Always true here:
//! - A home address is written only between the commit record and the retiring record of an epoch
//!   in which its page was written, with that epoch's bytes, while the harts stand still.
//! - A page written in the executing epoch has an entry with lines marked, and its shadow page holds
//!   its newest bytes outside the caches; or some of its lines are kept aside, and it has no entry.
//! - An entry without marks is *retained*: its shadow page equals the page at home.
//! - Shadow pages, table and overflow lines that a commit record speaks of do not change before it
//!   is retired.

pub mod bugs;
mod commit;
pub mod counters;
pub mod places;
pub mod records;
pub mod recovery;

use std::collections::BTreeMap;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Cause, Evicted, Eviction, Policy, PolicyFailure};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use serde::{Deserialize, Serialize};

use self::bugs::Flaws;
use self::commit::Stage;
use self::counters::Counters;
use self::places::{ENTRIES_MOST, LINES_PER_PAGE, PAGE_BYTES, Places, ROW_BYTES};
use self::records::Record;
use crate::copies::CommitRecord;
use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered};
use crate::epochs::{END_EPOCH, EpochNumbers, MachineEpochs, OfMachine, Urgency};
use crate::layout::Layout;
use crate::oracle::EpochPrefix;
use crate::surviving::{Interrupted, Surviving};
use crate::translation::Table;

/// The `shadow-paging` section of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Entries of the translation table; each has a shadow page (§VI-A: 6,144).
    pub table_entries: u64,
    /// Its associativity (§VI-A: 16).
    pub table_ways: u64,
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
    /// The places in NVM, if these parameters are possible on that machine.
    fn places(&self, layout: &Layout, hardware: &Hardware) -> Result<Places, ImpossibleParameter> {
        let (entries, ways) = (self.table_entries, self.table_ways);
        ImpossibleParameter::unless(
            (1..=1024).contains(&ways),
            "shadow-paging.table_ways",
            ways,
            "must be 1 to 1024",
        )?;
        ImpossibleParameter::unless(
            (1..=ENTRIES_MOST).contains(&entries) && entries.is_multiple_of(ways),
            "shadow-paging.table_entries",
            entries,
            format!(
                "must be a multiple of shadow-paging.table_ways = {ways}, at most {ENTRIES_MOST}"
            ),
        )?;
        let nvm = &hardware.specification.nvm;
        ImpossibleParameter::unless(
            ROW_BYTES.contains(&(nvm.row_bytes as u64)),
            "nvm.row_bytes",
            nvm.row_bytes,
            format!(
                "must be {} to {} for shadow-paging: a page is made of whole rows, and a register record lies within one",
                ROW_BYTES.start(),
                ROW_BYTES.end()
            ),
        )?;
        let numbers = [entries, nvm.row_bytes as u64, nvm.banks as u64];
        let cached = (hardware.llc.sets() * hardware.llc.ways()) as u64;
        // A flush may find no entry for any line of the caches, after as many evictions.
        Places::new(&layout.log_area, numbers)
            .filter(|places| places.overflow_lines >= 2 * cached)
            .ok_or_else(|| {
                let area = layout.log_area.end - layout.log_area.start;
                let problem = format!(
                    "must leave more room: a shadow page of 4 KiB for each entry, their table, and twice the last-level cache's {cached} lines must fit in a quarter of nvm.bytes = {area}"
                );
                ImpossibleParameter::new("shadow-paging.table_entries", entries, problem)
            })
    }
}

/// What the translation table says about a page that it holds.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Lines of the page that were written in the executing epoch, one bit each. None: the entry is
    /// retained. (Hardware needs to know only whether there are any; which ones they are spares
    /// the verifier looking at all.)
    lines: u64,
}

/// Lines that found no entry: kept one by one until the commit (our assumption).
#[derive(Clone, Default)]
struct Overflow {
    /// In the order of their places.
    lines: Vec<LineNumber>,
    indices: BTreeMap<LineNumber, u64>,
}

const EVENT_FULL: u32 = 0;

/// The design's volatile state: all of it is lost at power-off.
#[derive(Clone)]
pub struct ShadowPaging {
    flaws: Flaws,
    places: Places,
    ways: u64,
    table: Table<Entry>,
    /// Slots whose pages were written in the executing epoch, in the order of the first writes.
    written: Vec<usize>,
    overflow: Overflow,
    /// When an overflow asked for the end of this epoch.
    full_at: Option<Cycles>,
    executing: u64,
    announced: u64,
    stage: Stage,
    /// The newest record.
    record: Record,
    counters: Counters,
}

impl Policy for ShadowPaging {
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let (line, page) = (eviction.line, eviction.line / LINES_PER_PAGE);
        hardware.statistics.translation_lookups += 1;
        let Some(slot) = self.table.find(page) else {
            hardware.statistics.translation_misses += 1;
            return match self.table.room(page, |_, entry| entry.lines == 0) {
                Some(slot) => self.copy_on_write(hardware, eviction, slot, now),
                None => self.keep_aside(hardware, eviction, now),
            };
        };
        if self.table.value(slot).lines == 0 {
            self.counters.retained_hits += 1;
            if self.flaws.leaves_hit_unmarked {
                let place = self.shadow_line(slot, line);
                return write(hardware, place, eviction, now);
            }
        }
        self.mark(slot, line);
        write(hardware, self.shadow_line(slot, line), eviction, now)
    }

    fn fill(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        let place = self.place_of(line, self.flaws);
        hardware.read_memory(place, now)
    }

    fn peek(&self, hardware: &Hardware, line: LineNumber) -> Line {
        let place = self.place_of(line, Flaws::default());
        *hardware.memory.arena.line(place * LINE_BYTES as u64)
    }

    fn displaced(&self, show: &mut dyn FnMut(LineNumber)) {
        for &slot in &self.written {
            let page = self.table.key(slot).expect("a written page has its entry");
            let lines = self.table.value(slot).lines;
            for index in (0..LINES_PER_PAGE).filter(|index| lines >> index & 1 != 0) {
                show(page * LINES_PER_PAGE + index);
            }
        }
        for &line in &self.overflow.lines {
            show(line);
        }
    }

    fn fired(&mut self, hardware: &mut Hardware, event: u32, now: Cycles) {
        match event {
            // Unless that epoch has ended in the meantime.
            EVENT_FULL if self.full_at == Some(now) => hardware.events.schedule(now, END_EPOCH),
            EVENT_FULL => {}
            _ => self.commit_proceeds(hardware, event),
        }
    }
}

/// Writes an evicted line to its place.
fn write(hardware: &mut Hardware, place: LineNumber, eviction: &Eviction, now: Cycles) -> Evicted {
    let Hardware {
        memory, statistics, ..
    } = hardware;
    let traffic = match eviction.cause {
        Cause::Replacement | Cause::CacheBlock => Traffic::WriteBack,
        Cause::Flush => Traffic::Flush,
    };
    let done = memory.write_line(place, &eviction.bytes, traffic, now, 0, statistics);
    done.into()
}

impl ShadowPaging {
    /// The shadow page of a slot. Way by way, so that pages whose numbers follow each other, which
    /// lie in sets that do, have shadow pages that do, in different banks.
    fn frame(&self, slot: usize) -> u64 {
        let sets = self.places.shadow_pages / self.ways;
        let (set, way) = (slot as u64 / self.ways, slot as u64 % self.ways);
        way * sets + set
    }

    fn shadow_line(&self, slot: usize, line: LineNumber) -> LineNumber {
        line_of(self.places.shadow_page(self.frame(slot))) + line % LINES_PER_PAGE
    }

    /// Marks a line's page as written in the executing epoch.
    fn mark(&mut self, slot: usize, line: LineNumber) {
        let entry = self.table.value_mut(slot);
        if entry.lines == 0 {
            self.written.push(slot);
        }
        entry.lines |= 1 << (line % LINES_PER_PAGE);
        self.table.touch(slot);
    }

    /// Where the newest bytes of a line are, outside the caches.
    #[inline]
    fn place_of(&self, line: LineNumber, flaws: Flaws) -> LineNumber {
        if let Some(slot) = self.table.find(line / LINES_PER_PAGE)
            && self.table.value(slot).lines != 0
            && !flaws.fills_past_shadow
        {
            return self.shadow_line(slot, line);
        }
        if !self.overflow.lines.is_empty()
            && let Some(&index) = self.overflow.indices.get(&line)
        {
            return self.places.overflow_line(index);
        }
        line
    }

    /// A write that misses in the table takes a slot: the page is copied within the memory module,
    /// and the line goes to the copy.
    fn copy_on_write(
        &mut self,
        hardware: &mut Hardware,
        eviction: &Eviction,
        slot: usize,
        now: Cycles,
    ) -> Evicted {
        let page = eviction.line / LINES_PER_PAGE;
        let replaced = self.table.put(slot, page, Entry::default()).is_some();
        self.mark(slot, eviction.line);
        let place = self.shadow_line(slot, eviction.line);
        self.counters.retained_replaced += u64::from(replaced);
        if replaced && self.flaws.replaces_without_copy {
            return write(hardware, place, eviction, now);
        }
        self.counters.copies_on_write += 1;
        let shadow_page = self.places.shadow_page(self.frame(slot));
        let copy = |hardware: &mut Hardware, now| {
            let Hardware {
                memory, statistics, ..
            } = hardware;
            let (from, length) = (page * PAGE_BYTES, PAGE_BYTES as usize);
            memory.copy_within(
                from,
                shadow_page,
                length,
                Traffic::Flush,
                now,
                0,
                statistics,
            )
        };
        if self.flaws.writes_line_before_copy {
            let written = write(hardware, place, eviction, now);
            copy(hardware, written.accepted);
            return written;
        }
        let copied = copy(hardware, now);
        write(hardware, place, eviction, copied.accepted)
    }

    /// A line whose set is full of pages of this epoch is kept by itself, and the epoch must end.
    fn keep_aside(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let next = self.overflow.lines.len() as u64;
        let index = *self.overflow.indices.entry(eviction.line).or_insert(next);
        if index == next {
            if next == self.places.overflow_lines {
                self.overflow.indices.remove(&eviction.line);
                let message = format!(
                    "the translation table is full, and so is the room for lines kept aside ({next}); give more nvm.bytes, or more shadow-paging.table_entries"
                );
                hardware.failure.get_or_insert(PolicyFailure(message));
                return Evicted {
                    accepted: now,
                    durable: now,
                };
            }
            self.overflow.lines.push(eviction.line);
            hardware.statistics.translation_overflows += 1;
        } else {
            self.counters.overflow_rewrites += 1;
        }
        if self.stage == Stage::Executing && self.full_at.is_none() {
            self.full_at = Some(now);
            hardware.events.schedule(now, EVENT_FULL);
        }
        write(hardware, self.places.overflow_line(index), eviction, now)
    }
}

impl EpochNumbers for ShadowPaging {
    fn executing_epoch(&self) -> u64 {
        self.executing
    }

    fn announced_epoch(&self) -> u64 {
        if self.flaws.releases_before_commit {
            self.executing - 1
        } else {
            self.announced
        }
    }
}

impl MachineEpochs for ShadowPaging {
    /// One commit at a time.
    fn can_end_epoch(&self) -> bool {
        self.stage == Stage::Executing
    }

    fn end_epoch(&mut self, hardware: &mut Hardware, _: Urgency, now: Cycles) -> Cycles {
        self.commit(hardware, now)
    }
}

impl Design for ShadowPaging {
    const NAME: &'static str = "shadow-paging";
    const SUMMARY: &'static str =
        "shadow paging: copy-on-write of pages in the memory module, synchronous flush per epoch";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    // Tables of a few entries, so that sets overflow and retained entries change hands all the
    // time; and the whole one, in which everything stays.
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[
        &[
            "shadow-paging.table_entries=32",
            "shadow-paging.table_ways=4",
        ],
        &[
            "shadow-paging.table_entries=8",
            "shadow-paging.table_ways=2",
        ],
        &[
            "shadow-paging.table_entries=64",
            "shadow-paging.table_ways=16",
        ],
        &[
            "shadow-paging.table_entries=12",
            "shadow-paging.table_ways=1",
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
        let places = parameters.places(layout, hardware)?;
        let harts = hardware.cores.len();
        let arena = &mut hardware.memory.arena;
        layout.put_boot_record(harts, places.boot_numbers(), arena);
        // After a recovery, records go on from its number; at first boot there are none.
        let record = Record {
            number: Record::left(arena).map_or(1, |record| record.number + 1),
            epoch,
            pages: 0,
            lines: 0,
        };
        record.put(arena);
        let (entries, ways) = (parameters.table_entries, parameters.table_ways);
        Ok(Self {
            flaws: Flaws::of(bug),
            places,
            ways,
            table: Table::new(entries as usize, ways as usize),
            written: Vec::with_capacity(entries as usize),
            overflow: Overflow::default(),
            full_at: None,
            executing: epoch + 1,
            announced: epoch,
            stage: Stage::Executing,
            record,
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
            Stage::Executing if !self.overflow.lines.is_empty() => "executing, lines kept aside",
            Stage::Executing if self.written.is_empty() => "executing, no page written",
            Stage::Executing => "executing, pages written",
            Stage::Flushing => "flushing the caches, writing the table",
            Stage::Committing => "commit record in flight",
            Stage::WritingBack => "pages on their way home",
            Stage::Retiring => "retiring record in flight",
        }
    }

    fn paths(hardware: &Statistics, own: &Counters) -> Vec<(&'static str, u64)> {
        vec![
            ("page copied on a write miss", own.copies_on_write),
            (
                "retained entry written again without a copy",
                own.retained_hits,
            ),
            (
                "retained entry given up for another page",
                own.retained_replaced,
            ),
            ("set full, line kept aside", hardware.translation_overflows),
            ("line kept aside written again", own.overflow_rewrites),
            ("page written back at a commit", own.pages_written_back),
            ("epoch forced by output commit", hardware.epochs_forced),
        ]
    }
}
