//! `software-shadow`: shadow paging by a library, the second rival of NVOverlay's evaluation (Wang et
//! al., ISCA 2021, §VI-B, "SW Shadow").
//!
//! | the paper, §VI-B | here |
//! |---|---|
//! | "software tracks the write set" | [`library`](crate::software_logging::library) |
//! | "and flushes dirty lines back at the end of each epoch" | [`SoftwareShadow::flush`] |
//! | "a persistent mapping table, which is updated at the end of an epoch" | [`table`](crate::hardware_shadow::table) |
//! | "all NVM writes use barriers"; a constant number of them, Table I | [`SoftwareShadow::end_epoch`](MachineEpochs::end_epoch) |
//!
//! A line has two places, its home address and a slot. The committed version is in one of them, the
//! executing epoch's goes to the other one: there is no log, and nothing is copied.
//!
//! Always true here:
//! - A place that a committed table word stands for is not written.
//! - A line that differs from its committed version, in the caches or in the DRAM, is in the write
//!   set.
//! - The commit record names an epoch only when its lines and its table words are durable.

pub mod bugs;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, Version};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Cause, CrossVersionStore, Evicted, Eviction, Policy};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::Track;
use serde::{Deserialize, Serialize};

use self::bugs::Flaws;
use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered};
use crate::epochs::{EpochNumbers, MachineEpochs, OfMachine, Urgency};
use crate::hardware_shadow;
use crate::hardware_shadow::recovery;
use crate::hardware_shadow::table::{Grain, Table, write_record, write_version};
use crate::hardware_shadow::{fail, map_of};
use crate::layout::Layout;
use crate::oracle::EpochPrefix;
use crate::software_logging::MOST_INSTRUCTIONS;
use crate::software_logging::library::{self, WriteSet};
use crate::surviving::{Interrupted, Surviving};

/// The `software-shadow` section of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Instructions of the library for the first store to a line in an epoch.
    pub track_instructions: u64,
    /// Instructions of the library for each line that it flushes at the end of an epoch.
    pub flush_instructions: u64,
    /// Instructions of the library for each table word that it writes.
    pub table_instructions: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            track_instructions: 20,
            flush_instructions: 8,
            table_instructions: 16,
        }
    }
}

impl Parameters {
    fn validate(&self) -> Result<(), ImpossibleParameter> {
        for (key, instructions) in [
            (
                "software-shadow.track_instructions",
                self.track_instructions,
            ),
            (
                "software-shadow.flush_instructions",
                self.flush_instructions,
            ),
            (
                "software-shadow.table_instructions",
                self.table_instructions,
            ),
        ] {
            let problem = format!("must be at most {MOST_INSTRUCTIONS}");
            let possible = instructions <= MOST_INSTRUCTIONS;
            ImpossibleParameter::unless(possible, key, instructions, problem)?;
        }
        Ok(())
    }
}

/// What is going on about the end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Nothing: an epoch executes.
    No,
    /// The write set is being flushed.
    Flushing,
    /// The table is being updated.
    Table,
    /// That copy of the commit record is being written.
    Copy(usize),
}

const EVENT_FLUSHED: u32 = 0;
const EVENT_TABLE: u32 = 1;
const EVENT_COPY_0: u32 = 2;
const EVENT_COMMITTED: u32 = 3;

/// Lines of a thread's write set, for [`Flaws::set_too_small`].
const TOO_SMALL: usize = 96;

/// The library's state: all of it is lost at power-off.
#[derive(Clone)]
pub struct SoftwareShadow {
    flaws: Flaws,
    parameters: Parameters,
    table: Table,
    write_set: WriteSet,
    ending: Ending,
    executing: u64,
    announced: u64,
}

impl Policy for SoftwareShadow {
    #[inline(always)]
    fn current_version(&self, _hart: usize) -> Version {
        library::tag(self.executing)
    }

    /// The first store to a line in an epoch: the library enters it in its write set, on the core,
    /// whose clock it moves.
    fn store(&mut self, hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        if !self.write_set.insert(store.hart, store.line) {
            return now; // It has come back after its eviction, or after it was cleaned.
        }
        library::execute(hardware, store.hart, self.parameters.track_instructions);
        hardware.statistics.translation_lookups += 1;
        let new = self.table.known(store.line).is_none();
        hardware.statistics.translation_misses += u64::from(new);
        if let Err(full) = self.table.stored_to(store.line) {
            fail(hardware, full);
        }
        now
    }

    /// Evicted lines stay in the DRAM, if there is one, until the library flushes them.
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let line = eviction.line;
        let in_place = self.flaws.writes_in_place;
        let place = self.table.written_to(line, |map, known| {
            if in_place {
                known.newest
            } else {
                map.other_place(known.newest, known.before)
            }
        });
        let Some(to) = place else {
            return Evicted {
                accepted: now,
                durable: now,
            };
        };
        if eviction.cause != Cause::Replacement {
            let traffic = match self.ending {
                Ending::No => Traffic::WriteBack,
                _ => Traffic::Flush,
            };
            return write_version(hardware, eviction.line, to, &eviction.bytes, traffic, now);
        }
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let done = memory.write_back(to, &eviction.bytes, now, statistics);
        done.into()
    }

    fn fill(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        let from = match self.table.known(line) {
            Some(known) if self.flaws.fills_from_committed => {
                self.table.place(line, known, known.newest)
            }
            _ => self.table.newest_at(line),
        };
        hardware.read_memory(from, now)
    }

    fn peek(&self, hardware: &Hardware, line: LineNumber) -> Line {
        let from = self.table.newest_at(line);
        *hardware.memory.arena.line(from * LINE_BYTES as u64)
    }

    fn displaced(&self, show: &mut dyn FnMut(LineNumber)) {
        self.table.displaced(show);
    }

    fn fired(&mut self, hardware: &mut Hardware, event: u32, _now: Cycles) {
        self.ending = match event {
            EVENT_FLUSHED => Ending::Table,
            EVENT_TABLE => Ending::Copy(0),
            EVENT_COPY_0 => Ending::Copy(1),
            _ => {
                hardware.statistics.epochs_persisted += 1;
                self.announced = self.executing - 1;
                Ending::No
            }
        };
    }
}

impl SoftwareShadow {
    /// Every hart flushes its part of the write set to the lines' working places. Returns when the
    /// last line was accepted.
    fn flush(&mut self, hardware: &mut Hardware, set: &WriteSet, now: Cycles) -> Cycles {
        let flush_instructions = self.parameters.flush_instructions;
        set.walk(now, |hart, line, at| {
            if self.flaws.forgets_dram && hardware.llc.find(line).is_none() {
                return at;
            }
            let writes = hardware.statistics.nvm_writes;
            let at = library::flush_line(hardware, self, hart, line, at + flush_instructions);
            // In the DRAM a line is where it will be in the NVM.
            let to = self.table.newest_at(line);
            let Hardware {
                memory, statistics, ..
            } = hardware;
            let sent = memory.write_through(to, at, statistics);
            statistics.flush_lines += statistics.nvm_writes - writes;
            sent.map_or(at, |done| done.accepted)
        })
    }

    /// Writes table words; the harts share the work. Returns when they are durable.
    fn write_table(&self, hardware: &mut Hardware, words: Vec<(u64, u64)>, now: Cycles) -> Cycles {
        let instructions = self.parameters.table_instructions * words.len() as u64;
        let composed = now + instructions.div_ceil(hardware.cores.len() as u64);
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let done = self
            .table
            .write(memory, words, Grain::Line, composed, statistics);
        done.durable.max(composed)
    }
}

impl EpochNumbers for SoftwareShadow {
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

impl MachineEpochs for SoftwareShadow {
    fn can_end_epoch(&self) -> bool {
        self.ending == Ending::No
    }

    /// Lines, fence; table, fence; the commit record, a copy at a time behind a fence each. Harts
    /// stand still meanwhile.
    fn end_epoch(&mut self, hardware: &mut Hardware, _: Urgency, now: Cycles) -> Cycles {
        self.ending = Ending::Flushing;
        let mut set = std::mem::take(&mut self.write_set);
        if self.flaws.set_too_small {
            set.lists()
                .iter_mut()
                .for_each(|lines| lines.truncate(TOO_SMALL));
        }
        // Evicted lines, too, must have come to their places.
        let flushed = self.flush(hardware, &set, now);
        let flushed = flushed.max(hardware.memory.quiet_at());
        let words = self.table.switch(&set.lists().concat(), self.executing);
        let record = self.table.next_record(self.executing);
        let early =
            (self.flaws.commits_before_table).then(|| write_record(hardware, 0, &record, flushed));
        let table = self.write_table(hardware, words, flushed);
        let copy_0 = early
            .unwrap_or_else(|| write_record(hardware, 0, &record, table))
            .max(table);
        let after = if self.flaws.writes_copies_together {
            table
        } else {
            copy_0
        };
        let copy_1 = write_record(hardware, 1, &record, after);
        let stages = [
            ("flush", flushed),
            ("table", table),
            ("copy 0", copy_0),
            ("copy 1", copy_1),
        ];
        (hardware.memory).draw_stages(Track::of_design("commit"), now, &stages);
        for (at, event) in [
            (flushed, EVENT_FLUSHED),
            (table, EVENT_TABLE),
            (copy_0, EVENT_COPY_0),
            (copy_1, EVENT_COMMITTED),
        ] {
            hardware.events.schedule(at, event);
        }
        set.clear();
        self.write_set = set;
        self.executing += 1;
        library::begin_epoch(hardware, self.executing);
        copy_1
    }
}

impl Design for SoftwareShadow {
    const NAME: &'static str = "software-shadow";
    const SUMMARY: &'static str = "shadow versions of lines by a library: flushed, mapped and committed while harts stand still";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    // Memory behind DRAM, a cache that is not inclusive, rows of one line that take long to write.
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[
        &["software-shadow.track_instructions=0"],
        &["dram.present=true", "llc.inclusion=non-inclusive"],
        &["llc.inclusion=non-inclusive"],
        &[
            "nvm.row_bytes=64",
            "nvm.row_write_ns=4000",
            "nvm.banks=64",
            "nvm.write_queue_entries=4",
        ],
        &["dram.present=true"],
    ];
    const NEEDS_INCLUSION: bool = false;
    type Epochs = OfMachine;
    type Promise = EpochPrefix;
    type Parameters = Parameters;
    type Counters = ();

    fn start(
        parameters: &Parameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        parameters.validate()?;
        let map = map_of(layout, hardware, 1)?;
        hardware.memory.count_durability();
        Ok(Self {
            flaws: Flaws::of(bug),
            parameters: parameters.clone(),
            table: Table::new(
                map,
                layout,
                hardware,
                epoch,
                hardware_shadow::bugs::Flaws::of(bug),
            ),
            write_set: WriteSet::new(hardware),
            ending: Ending::No,
            executing: epoch + 1,
            announced: epoch,
        })
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        recovery::recover(image, hardware_shadow::bugs::Flaws::of(bug))
    }

    fn counters(&self) {}

    fn phase(&self) -> &'static str {
        match self.ending {
            Ending::Flushing => "flushing the write set",
            Ending::Table => "updating the table",
            Ending::Copy(0) => "commit record copy 0 in flight",
            Ending::Copy(_) => "commit record copy 1 in flight",
            Ending::No if self.write_set.is_empty() => "executing, nothing stored",
            Ending::No => "executing",
        }
    }

    fn paths(hardware: &Statistics, (): &()) -> Vec<(&'static str, u64)> {
        vec![
            ("line got its slot", hardware.translation_misses),
            (
                "line with a slot stored to again",
                hardware.translation_lookups - hardware.translation_misses,
            ),
            ("line evicted by replacement", hardware.llc_write_backs),
            ("line flushed at an epoch's end", hardware.flush_lines),
            (
                "line that the DRAM alone held was flushed",
                hardware.dram_written_through,
            ),
            ("epoch forced by output commit", hardware.epochs_forced),
        ]
    }
}
