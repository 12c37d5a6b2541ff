//! `software-logging`: undo logging by a library, the first rival of NVOverlay's evaluation (Wang et
//! al., ISCA 2021, §VI-B, "SW Logging").
//!
//! | the paper, §VI-B | here |
//! |---|---|
//! | "generates and flushes an undo log entry before the first write" | [`SoftwareLogging::store`](Policy::store) |
//! | "the software library tracks the write set" | [`library`] |
//! | "and flushes them at the end of an epoch" | [`SoftwareLogging::end_epoch`](MachineEpochs::end_epoch) |
//! | "all NVM writes use barriers"; one per write, Table I | [`library::fence`] |
//!
//! The log in NVM, the commit record and recovery are those of [`frm`](crate::frm), which differs in
//! who writes an entry, and when.
//!
//! Always true here:
//! - No home address is written in NVM before the undo entry of its line, with the bytes at the end
//!   of the last epoch, is durable; a line has one entry in an epoch.
//! - A line that differs from what the NVM has at its home address, in the caches or in the DRAM, is
//!   in the write set.
//! - The commit record names an epoch only when everything that it wrote is durable at home, and no
//!   entry is overwritten before both copies of the record are.

pub mod bugs;
pub mod counters;
pub mod library;
mod log;

use std::collections::VecDeque;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LineNumber, Version};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Cause, CrossVersionStore, Evicted, Eviction, Policy};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Track, Value, line_fact};
use serde::{Deserialize, Serialize};

use self::bugs::Flaws;
use self::counters::Counters;
use self::library::WriteSet;
use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered};
use crate::epochs::{EpochNumbers, MachineEpochs, OfMachine, Urgency};
use crate::frm;
use crate::frm::log::{Log, SLOT_BYTES};
use crate::frm::recovery::MOST_BUFFER_ENTRIES;
use crate::frm::registers::{self, Commit};
use crate::layout::Layout;
use crate::oracle::EpochPrefix;
use crate::surviving::{Interrupted, Surviving};

/// The `software-logging` section of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Instructions of the library for the first store to a line in an epoch.
    pub log_instructions: u64,
    /// Instructions of the library for each line that it flushes at the end of an epoch.
    pub flush_instructions: u64,
    /// Most NVM that the undo log takes; less if the log area is smaller.
    pub log_limit_bytes: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            log_instructions: 60,
            flush_instructions: 8,
            log_limit_bytes: 2 << 30,
        }
    }
}

/// Entries that a log must have room for.
const LEAST_CAPACITY: u64 = 256;

/// Most instructions of one step of the library.
pub(crate) const MOST_INSTRUCTIONS: u64 = 100_000;

impl Parameters {
    /// The log that these parameters give on a machine.
    fn log(&self, layout: &Layout, hardware: &Hardware) -> Result<Log, ImpossibleParameter> {
        let nvm = &hardware.specification.nvm;
        for (key, instructions) in [
            ("software-logging.log_instructions", self.log_instructions),
            (
                "software-logging.flush_instructions",
                self.flush_instructions,
            ),
        ] {
            let problem = format!("must be at most {MOST_INSTRUCTIONS}");
            let possible = instructions <= MOST_INSTRUCTIONS;
            ImpossibleParameter::unless(possible, key, instructions, problem)?;
        }
        ImpossibleParameter::unless(
            nvm.banks as u64 <= MOST_BUFFER_ENTRIES,
            "nvm.banks",
            nvm.banks,
            format!(
                "must be at most {MOST_BUFFER_ENTRIES} for software-logging: as many entries may be torn by one power cut"
            ),
        )?;
        let area = &layout.log_area;
        // An entry may take two rows.
        let row_bytes = (nvm.row_bytes as u64).max(SLOT_BYTES as u64);
        match Log::within(area, self.log_limit_bytes, row_bytes, nvm.banks as u64) {
            Some(log) if log.capacity >= LEAST_CAPACITY => Ok(log),
            log => {
                let problem = format!(
                    "must give room for {LEAST_CAPACITY} undo entries of {SLOT_BYTES} bytes; with a log area of {} bytes (a quarter of nvm.bytes) it gives room for {}",
                    area.end - area.start,
                    log.map_or(0, |log| log.capacity)
                );
                let (key, value) = ("software-logging.log_limit_bytes", self.log_limit_bytes);
                Err(ImpossibleParameter::new(key, value, problem))
            }
        }
    }
}

/// What is going on about the end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Nothing: an epoch executes.
    No,
    /// The write set is being flushed.
    Flushing,
    /// That copy of the commit record is being written.
    Copy(usize),
}

const EVENT_FLUSHED: u32 = 0;
const EVENT_COPY_0: u32 = 1;
const EVENT_COMMITTED: u32 = 2;

/// Lines of a thread's write set, for [`Flaws::set_too_small`].
const TOO_SMALL: usize = 96;

/// An undo entry on its way.
#[derive(Clone)]
struct InFlight {
    line: LineNumber,
    /// When it will be durable.
    durable: Cycles,
    /// When it and all entries before it will be.
    all_durable: Cycles,
}

/// The library's state: all of it is lost at power-off.
#[derive(Clone)]
pub struct SoftwareLogging {
    flaws: Flaws,
    parameters: Parameters,
    log: Log,
    /// Entries that the log must have room for when an epoch's end is asked for.
    reserve: u64,
    write_set: WriteSet,
    /// Entries that a cut may still find not durable, oldest first.
    in_flight: VecDeque<InFlight>,
    /// When each hart passed its last fence.
    fenced: Vec<Cycles>,
    /// Index of the next entry.
    next_index: u64,
    /// Of the live log, and of the commit record that emptied it.
    generation: u64,
    executing: u64,
    announced: u64,
    ending: Ending,
    /// The end of the executing epoch was asked for, because the log runs out.
    asked_to_end: bool,
    counters: Counters,
}

impl Policy for SoftwareLogging {
    #[inline(always)]
    fn current_version(&self, _hart: usize) -> Version {
        library::tag(self.executing)
    }

    /// The first store to a line in an epoch: the library logs the old bytes and waits at a fence.
    /// It runs on the core, whose clock it moves; the store itself then takes no further time.
    fn store(&mut self, hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        let hart = store.hart;
        if !self.write_set.insert(hart, store.line) {
            return now; // It has come back after its eviction, or after it was cleaned.
        }
        // The fence of the entry before may have let a store wait in the buffer for its line.
        let start = now.max(self.fenced[hart]);
        library::execute(
            hardware,
            hart,
            start - now + self.parameters.log_instructions,
        );
        let composed = start + self.parameters.log_instructions;
        let durable = self.log(hardware, store.line, store.old, composed);
        let facts = [line_fact(store.line), ("hart", Value::Number(hart as u64))];
        let (memory, track) = (&mut hardware.memory, Track::of_design("undo log"));
        memory.draw_span(track, "entry", [composed, durable], &facts);
        if !self.flaws.stores_before_log {
            self.fenced[hart] = library::fence(hardware, hart, composed, durable);
        }
        now
    }

    /// Evicted lines stay in the DRAM, if there is one, until the library flushes them.
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let line = eviction.line;
        // Another hart may get to the line while its entry is under way.
        let entry = self.in_flight.iter().find(|entry| entry.line == line);
        let logged = if self.flaws.stores_before_log {
            0
        } else {
            entry.map_or(0, |entry| entry.durable)
        };
        let traffic = match self.ending {
            Ending::Flushing => Traffic::Flush,
            _ => Traffic::WriteBack,
        };
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let bytes = &eviction.bytes;
        let done = if eviction.cause == Cause::Replacement && logged <= now {
            memory.write_back(line, bytes, now, statistics)
        } else {
            memory.write_line(line, bytes, traffic, now, logged, statistics)
        };
        done.into()
    }

    fn fired(&mut self, hardware: &mut Hardware, event: u32, _now: Cycles) {
        match event {
            EVENT_FLUSHED => self.ending = Ending::Copy(0),
            EVENT_COPY_0 => self.ending = Ending::Copy(1),
            _ => {
                self.ending = Ending::No;
                hardware.statistics.epochs_persisted += 1;
                self.announced = self.executing - 1;
            }
        }
    }
}

impl SoftwareLogging {
    /// Every hart flushes its part of the write set, line by line, and waits at one fence. Returns
    /// when all of it is durable.
    fn flush(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        self.ending = Ending::Flushing;
        let mut set = std::mem::take(&mut self.write_set);
        for lines in set.lists() {
            if self.flaws.set_too_small {
                lines.truncate(TOO_SMALL);
            }
            if self.flaws.forgets_last_line {
                lines.truncate(lines.len().saturating_sub(1));
            }
        }
        let flush_instructions = self.parameters.flush_instructions;
        let flushed = set.walk(now, |hart, line, at| {
            if self.flaws.forgets_dram && hardware.llc.find(line).is_none() {
                return at;
            }
            let writes = hardware.statistics.nvm_writes;
            let next = library::flush_line(hardware, self, hart, line, at + flush_instructions);
            hardware.statistics.flush_lines += hardware.statistics.nvm_writes - writes;
            next
        });
        set.clear();
        self.write_set = set;
        // Evicted lines, too, must have come home.
        flushed.max(hardware.memory.quiet_at())
    }
}

impl EpochNumbers for SoftwareLogging {
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

impl MachineEpochs for SoftwareLogging {
    fn can_end_epoch(&self) -> bool {
        self.ending == Ending::No
    }

    /// The write set goes home behind one fence, then the commit record, which truncates the log, a
    /// copy at a time behind a fence each. Harts stand still meanwhile.
    fn end_epoch(&mut self, hardware: &mut Hardware, _: Urgency, now: Cycles) -> Cycles {
        let fenced = self.fenced.iter().fold(now, |latest, &at| latest.max(at));
        self.generation += u64::from(!self.flaws.keeps_log);
        let commit = Commit {
            generation: self.generation,
            epoch: self.executing,
        };
        let early = (self.flaws.commits_before_flush).then(|| commit.write(hardware, 0, fenced));
        let flushed = self.flush(hardware, fenced);
        let copy_0 = early
            .unwrap_or_else(|| commit.write(hardware, 0, flushed))
            .max(flushed);
        let after = if self.flaws.writes_copies_together {
            flushed
        } else {
            copy_0
        };
        let copy_1 = commit.write(hardware, 1, after);
        let stages = [("flush", flushed), ("copy 0", copy_0), ("copy 1", copy_1)];
        (hardware.memory).draw_stages(Track::of_design("commit"), fenced, &stages);
        hardware.events.schedule(flushed, EVENT_FLUSHED);
        hardware.events.schedule(copy_0, EVENT_COPY_0);
        hardware.events.schedule(copy_1, EVENT_COMMITTED);
        self.executing += 1;
        self.next_index = 0;
        self.in_flight.clear();
        self.asked_to_end = false;
        self.fenced.fill(copy_1);
        library::begin_epoch(hardware, self.executing);
        copy_1
    }
}

impl Design for SoftwareLogging {
    const NAME: &'static str = "software-logging";
    const SUMMARY: &'static str =
        "undo logging by a library: a flushed and fenced entry before the first store to a line";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    // A log that runs out within an epoch; caches so small that lines leave them while their entries
    // are in flight; memory behind DRAM; rows of one line that take long to write.
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[
        &["software-logging.log_limit_bytes=416KiB"],
        &[
            "software-logging.log_instructions=0",
            "l1i.bytes=1KiB",
            "l1d.bytes=1KiB",
            "l2.bytes=2KiB",
            "llc.bytes_per_hart=2KiB",
        ],
        &["dram.present=true", "llc.inclusion=non-inclusive"],
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
    type Counters = Counters;

    fn start(
        parameters: &Parameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        let log = parameters.log(layout, hardware)?;
        hardware.memory.count_durability();
        let banks = hardware.specification.nvm.banks as u64;
        let generation = registers::begin(layout, hardware, &log, banks, epoch);
        Ok(Self {
            flaws: Flaws::of(bug),
            parameters: parameters.clone(),
            reserve: log.capacity / 4,
            log,
            write_set: WriteSet::new(hardware),
            in_flight: VecDeque::new(),
            fenced: vec![0; hardware.cores.len()],
            next_index: 0,
            generation,
            executing: epoch + 1,
            announced: epoch,
            ending: Ending::No,
            asked_to_end: false,
            counters: Counters::default(),
        })
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        frm::recovery::recover(image, Flaws::of(bug).of_recovery())
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn phase(&self) -> &'static str {
        match self.ending {
            Ending::Flushing => "flushing the write set",
            Ending::Copy(0) => "commit record copy 0 in flight",
            Ending::Copy(_) => "commit record copy 1 in flight",
            Ending::No if self.next_index == 0 => "executing, log empty",
            Ending::No => "executing, log filling",
        }
    }

    fn paths(hardware: &Statistics, _: &Counters) -> Vec<(&'static str, u64)> {
        vec![
            (
                "store found a line that was not its epoch's",
                hardware.cross_version_stores,
            ),
            ("line evicted by replacement", hardware.llc_write_backs),
            ("line flushed at an epoch's end", hardware.flush_lines),
            (
                "line that the DRAM alone held was flushed",
                hardware.dram_written_through,
            ),
            ("epoch forced by output commit", hardware.epochs_forced),
            ("epoch ended by a full log", hardware.epochs_overflowed),
        ]
    }
}
