//! `hardware-shadow`: shadow paging of single lines with three versions, the third rival of
//! NVOverlay's evaluation (Wang et al., ISCA 2021, §VI-B, "HW Shadow").
//!
//! | the paper, §VI-B | here |
//! |---|---|
//! | "three-version, cache line granularity shadow scheme similar to ThyNVM" | places in [`format`](mod@format); [`table`] |
//! | "overlap the persistence of the previous epoch with the execution of the current epoch" | [`HardwareShadow::walk`] |
//! | "the centralized mapping table is updated synchronously" | [`HardwareShadow::end_epoch`](MachineEpochs::end_epoch) |
//! | "the number of eight byte writes performed on the radix tree mapping table", §VII-B | [`Table::write`] |
//!
//! The three versions of a line are the last checkpoint's, that of the checkpoint under way, and the
//! executing epoch's. Each has its place, and an epoch writes none but its own.
//!
//! Always true here:
//! - A place that a committed table word stands for is not written.
//! - A dirty line in the caches carries the tag of the executing epoch, or that of the checkpoint
//!   under way; the tag in the last-level cache is that of the newest bytes.
//! - The commit record names an epoch only when its table words and all its lines are durable.

pub mod bugs;
pub mod format;
pub mod recovery;
pub mod table;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, Version};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{
    Cause, CrossVersionStore, Evicted, Eviction, Policy, PolicyFailure,
};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::Track;
use serde::{Deserialize, Serialize};

use self::bugs::Flaws;
use self::format::{Map, Record};
use self::table::{Full, Grain, Table, write_record, write_version};
use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered};
use crate::epochs::{EpochNumbers, MachineEpochs, OfMachine, Urgency};
use crate::layout::Layout;
use crate::oracle::EpochPrefix;
use crate::surviving::{Interrupted, Surviving};

/// The `hardware-shadow` section of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Lines that one step of the background walk looks at, before requests of harts come again.
    pub walk_lines_per_step: usize,
    /// False: nobody waits until the table's words are durable, as no machine can have it.
    pub table_takes_time: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            walk_lines_per_step: 8,
            table_takes_time: true,
        }
    }
}

/// How far the checkpoint under way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is none.
    None,
    /// Its table words are being written; harts stand still.
    Table,
    /// Its lines are being written.
    Walking,
    /// All of them are accepted, and not all durable.
    Draining,
    /// That copy of its commit record is being written.
    Copy(usize),
}

/// Where checkpoints are drawn.
const CHECKPOINT: (Track, u64) = (Track::of_design("checkpoint"), 0);

const EVENT_TABLE: u32 = 0;
const EVENT_WALK: u32 = 1;
const EVENT_DRAINED: u32 = 2;
const EVENT_COPY_0: u32 = 3;
const EVENT_COMMITTED: u32 = 4;

/// The design's volatile state: all of it is lost at power-off.
#[derive(Clone)]
pub struct HardwareShadow {
    flaws: Flaws,
    parameters: Parameters,
    table: Table,
    /// Lines stored to in the executing epoch, each once.
    written: Vec<LineNumber>,
    /// Those of the checkpoint under way, and how many the walk has looked at.
    under_way: Vec<LineNumber>,
    walked: usize,
    stage: Stage,
    record: Record,
    executing: u64,
    announced: u64,
}

/// The tag of a line stored to in that epoch. Two epochs can be in the caches at a time.
fn tag(epoch: u64) -> Version {
    Version((epoch % 4) as u16)
}

impl Policy for HardwareShadow {
    #[inline(always)]
    fn current_version(&self, _hart: usize) -> Version {
        tag(self.executing)
    }

    /// The first store to a cached line in an epoch. If its bytes are of the checkpoint under way, they
    /// are written now: nobody else has them.
    fn store(&mut self, hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        let line = store.line;
        let mut ready = now;
        if store.version != Version::NONE && !self.flaws.overwrites_old_version {
            ready = self
                .write(hardware, line, store.old, false, Traffic::Flush, now)
                .accepted;
        }
        hardware.set_llc_version_of(store, tag(self.executing));
        hardware.statistics.translation_lookups += 1;
        hardware.statistics.translation_misses += u64::from(self.table.known(line).is_none());
        match self.table.stored_to(line) {
            Ok(known) if known.stored != self.executing => {
                known.stored = self.executing;
                self.written.push(line);
            }
            Ok(_) => {}
            Err(full) => fail(hardware, full),
        }
        ready
    }

    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let (line, bytes) = (eviction.line, &eviction.bytes);
        let traffic = match eviction.cause {
            Cause::Flush => Traffic::Flush,
            Cause::Replacement | Cause::CacheBlock => Traffic::WriteBack,
        };
        let of_executing =
            eviction.version == tag(self.executing) || self.flaws.misplaces_old_version;
        self.write(hardware, line, bytes, of_executing, traffic, now)
    }

    fn fill(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        let from = match self.table.known(line) {
            Some(known) if self.flaws.fills_from_checkpoint => {
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

    fn fired(&mut self, hardware: &mut Hardware, event: u32, now: Cycles) {
        match event {
            EVENT_TABLE => {
                self.stage = Stage::Walking;
                (hardware.memory).draw_begin(CHECKPOINT, "walk", now, &[]);
                if self.flaws.commits_with_table {
                    write_record(hardware, 0, &self.record, now);
                }
                self.walk(hardware, now);
            }
            EVENT_WALK => self.walk(hardware, now),
            EVENT_DRAINED => self.drained(hardware, now),
            EVENT_COPY_0 => {
                self.stage = Stage::Copy(1);
                if !self.flaws.writes_copies_together {
                    let durable = write_record(hardware, 1, &self.record, now);
                    hardware.events.schedule(durable, EVENT_COMMITTED);
                }
            }
            _ => {
                self.stage = Stage::None;
                hardware.memory.draw_end(CHECKPOINT, now, &[]);
                hardware.statistics.epochs_persisted += 1;
                self.announced = self.executing - 1;
            }
        }
    }
}

impl HardwareShadow {
    /// Writes a line's version of the executing epoch, or that of the checkpoint under way, to its
    /// place.
    fn write(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        bytes: &Line,
        of_executing: bool,
        traffic: Traffic,
        now: Cycles,
    ) -> Evicted {
        let flaws = self.flaws;
        let place = self.table.written_to(line, |map, known| {
            if !of_executing {
                known.newest
            } else if flaws.has_two_places {
                known.before
            } else {
                map.other_place(known.newest, known.before)
            }
        });
        place.map_or_else(
            || Evicted {
                accepted: now,
                durable: now,
            },
            |to| write_version(hardware, line, to, bytes, traffic, now),
        )
    }

    /// A step of the walk over the lines of the checkpoint under way: those that are still in the
    /// caches with its bytes become clean and are written. It writes when the controller has nothing
    /// else to do that it would hold up.
    fn walk(&mut self, hardware: &mut Hardware, now: Cycles) {
        let under_way = tag(self.executing - 1);
        let port_cycles = hardware.specification.llc.port_cycles;
        let mut time = now;
        let early = usize::from(self.flaws.ends_walk_early);
        let lines = self.under_way.len().saturating_sub(early);
        let end = (self.walked + self.parameters.walk_lines_per_step).min(lines);
        while self.walked < end {
            let line = self.under_way[self.walked];
            let cached = hardware.llc.find(line);
            let still_needed =
                cached.filter(|&slot| hardware.llc.word(slot).version() == under_way);
            if still_needed.is_some() {
                let newest = self.table.newest_place(line);
                let free = hardware
                    .memory
                    .could_start_at(newest * LINE_BYTES as u64, time);
                if free > time {
                    time = free;
                    break;
                }
            }
            self.walked += 1;
            let set = hardware.llc.set_of(line);
            time = hardware.take_llc_port(set, time, port_cycles) + port_cycles;
            let Some(slot) = still_needed else {
                continue;
            };
            let (newer, _, at_hand) = hardware.clean(self, slot, true, time);
            if let Some(bytes) = newer {
                hardware.statistics.flush_lines += 1;
                let done = self.write(hardware, line, &bytes, false, Traffic::Flush, at_hand);
                time = time.max(done.accepted);
            }
        }
        if self.walked < lines {
            hardware.events.schedule(time.max(now + 1), EVENT_WALK);
            return;
        }
        self.under_way.clear();
        self.stage = Stage::Draining;
        (hardware.memory).draw_begin(CHECKPOINT, "drain", time, &[]);
        // Versions that were evicted, or saved for a store, may be in the queue, too.
        let durable = if self.flaws.commits_before_durable {
            time
        } else {
            hardware.memory.quiet_at().max(time)
        };
        hardware.events.schedule(durable, EVENT_DRAINED);
    }

    /// Lines and table of the checkpoint are durable: it is recorded.
    fn drained(&mut self, hardware: &mut Hardware, now: Cycles) {
        self.stage = Stage::Copy(0);
        (hardware.memory).draw_begin(CHECKPOINT, "commit record", now, &[]);
        let durable = write_record(hardware, 0, &self.record, now);
        hardware.events.schedule(durable, EVENT_COPY_0);
        if self.flaws.writes_copies_together {
            let durable = write_record(hardware, 1, &self.record, now);
            hardware.events.schedule(durable, EVENT_COMMITTED);
        }
    }
}

/// The run ends: there is no room for another line's versions.
pub(crate) fn fail(hardware: &mut Hardware, full: Full) {
    let message = format!(
        "no room for shadow versions of more than {} lines; raise nvm.bytes, a quarter of which is the log area",
        full.lines
    );
    hardware.failure.get_or_insert(PolicyFailure(message));
}

/// The map for so many copies of each line, if the machine has room for one.
pub(crate) fn map_of(
    layout: &Layout,
    hardware: &Hardware,
    copies: u64,
) -> Result<Map, ImpossibleParameter> {
    let nvm = &hardware.specification.nvm;
    let numbers = [copies, nvm.row_bytes as u64, nvm.banks as u64];
    Map::new(layout, numbers).ok_or_else(|| {
        let problem = format!(
            "a quarter of it, the log area, must have room for a mapping table and shadow slots in rows of {} bytes over {} banks",
            nvm.row_bytes, nvm.banks
        );
        ImpossibleParameter::new("nvm.bytes", nvm.bytes, problem)
    })
}

impl EpochNumbers for HardwareShadow {
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

impl MachineEpochs for HardwareShadow {
    /// There is a third place, and no fourth: one checkpoint can be under way.
    fn can_end_epoch(&self) -> bool {
        self.stage == Stage::None
    }

    /// The table is updated while harts stand still; the lines follow while they execute.
    fn end_epoch(&mut self, hardware: &mut Hardware, _: Urgency, now: Cycles) -> Cycles {
        let words = self.table.switch(&self.written, self.executing);
        self.record = self.table.next_record(self.executing);
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let done = self
            .table
            .write(memory, words, Grain::Word, now, statistics);
        let durable = if self.parameters.table_takes_time {
            done.durable.max(now)
        } else {
            now
        };
        self.stage = Stage::Table;
        // The walk takes lines in the order in which they were first stored to.
        self.under_way.append(&mut self.written);
        self.walked = 0;
        self.executing += 1;
        hardware.version_changed();
        hardware.events.schedule(durable, EVENT_TABLE);
        durable
    }
}

impl Design for HardwareShadow {
    const NAME: &'static str = "hardware-shadow";
    const SUMMARY: &'static str = "shadow versions of lines, persisted in the background; a mapping table updated synchronously";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    // A walk that takes long, one that takes no time, memory behind DRAM, rows of one line that take
    // long to write.
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[
        &["hardware-shadow.walk_lines_per_step=1"],
        &["hardware-shadow.walk_lines_per_step=1", "nvm.banks=1"],
        &["dram.present=true", "nvm.row_bytes=64"],
        &[
            "nvm.row_bytes=64",
            "nvm.row_write_ns=4000",
            "nvm.banks=64",
            "nvm.write_queue_entries=4",
        ],
        &["hardware-shadow.walk_lines_per_step=1000"],
    ];
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
        let step = parameters.walk_lines_per_step;
        ImpossibleParameter::unless(
            (1..=1 << 16).contains(&step),
            "hardware-shadow.walk_lines_per_step",
            step,
            "must be 1 to 65536",
        )?;
        let map = map_of(layout, hardware, 2)?;
        hardware.memory.count_durability();
        let mut table = Table::new(map, layout, hardware, epoch, Flaws::of(bug));
        Ok(Self {
            flaws: Flaws::of(bug),
            parameters: parameters.clone(),
            record: table.next_record(epoch),
            table,
            written: Vec::new(),
            under_way: Vec::new(),
            walked: 0,
            stage: Stage::None,
            executing: epoch + 1,
            announced: epoch,
        })
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        recovery::recover(image, Flaws::of(bug))
    }

    fn counters(&self) {}

    fn phase(&self) -> &'static str {
        match self.stage {
            Stage::None => "executing, nothing under way",
            Stage::Table => "updating the table",
            Stage::Walking => "executing, lines being written",
            Stage::Draining => "executing, lines not durable yet",
            Stage::Copy(0) => "commit record copy 0 in flight",
            Stage::Copy(_) => "commit record copy 1 in flight",
        }
    }

    fn paths(hardware: &Statistics, (): &()) -> Vec<(&'static str, u64)> {
        vec![
            ("line got its slots", hardware.translation_misses),
            (
                "line with slots stored to again",
                hardware.translation_lookups - hardware.translation_misses,
            ),
            ("line evicted by replacement", hardware.llc_write_backs),
            ("line written by the walk", hardware.flush_lines),
            (
                "cache-block instruction wrote a line",
                hardware.cleaned_lines,
            ),
            ("epoch forced by output commit", hardware.epochs_forced),
            (
                "epoch end waited for the checkpoint",
                hardware.epoch_wait_cycles,
            ),
        ]
    }
}
