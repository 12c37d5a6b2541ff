//! `frm`: undo logging at the memory controller, as the PiCL paper describes and evaluates it under
//! the name FRM (Nguyen and Wentzlaff, MICRO 2018, §II-B, Fig. 3b, §VI-A), which stands for a line
//! of high-frequency checkpoint designs.
//!
//! | the paper | here |
//! |---|---|
//! | *read-log-modify* on each eviction, §II-B | [`Frm::evict`](Policy::evict), [`Frm::log`], [`Frm::modify`]; the evictions under way are in [`buffer`] |
//! | undo buffer in NVM, §II-B | [`log`] |
//! | synchronous cache flush at the epoch's end, §II-A | [`Frm::end_epoch`](MachineEpochs::end_epoch) |
//! | commit | [`registers`] |
//! | reverting after a crash, §II-B | [`recovery`] |
//!
//! Always true here:
//! - No home address is written before the undo record with the bytes that it overwrites is
//!   durable, and records become durable in the order of their indices.
//! - The newest bytes of a line that is not cached are in the buffer if the line stands there, else
//!   at home.
//! - The commit record names an epoch only when everything that it wrote is durable at home, and no
//!   record of its log is overwritten before both copies of the commit record are.

pub mod buffer;
pub mod bugs;
pub mod counters;
pub mod log;
pub mod recovery;
pub mod registers;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Cause, Evicted, Eviction, Policy, PolicyFailure};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Track, line_fact};
use serde::{Deserialize, Serialize};

use self::buffer::{Buffer, Pending, Step};
use self::bugs::Flaws;
use self::counters::Counters;
use self::log::{Log, Record, SLOT_BYTES};
use self::recovery::MOST_BUFFER_ENTRIES;
use self::registers::Commit;
use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered};
use crate::epochs::{END_EPOCH, EpochNumbers, MachineEpochs, OfMachine, Urgency};
use crate::layout::Layout;
use crate::oracle::EpochPrefix;
use crate::surviving::{Interrupted, Surviving};

/// The `frm` section of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Evictions that may be under way in the controller, each between its arrival and the moment
    /// when its in-place write enters the write queue.
    pub buffer_entries: usize,
    /// Most NVM that the undo log takes; less if the log area is smaller.
    pub log_limit_bytes: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            buffer_entries: 32,
            log_limit_bytes: 2 << 30,
        }
    }
}

impl Parameters {
    /// The log that these parameters give on a machine whose last-level cache has so many lines.
    fn log(
        &self,
        layout: &Layout,
        hardware: &Hardware,
        llc_lines: u64,
    ) -> Result<Log, ImpossibleParameter> {
        ImpossibleParameter::unless(
            (1..=MOST_BUFFER_ENTRIES).contains(&(self.buffer_entries as u64)),
            "frm.buffer_entries",
            self.buffer_entries,
            format!("must be 1 to {MOST_BUFFER_ENTRIES}"),
        )?;
        let nvm = &hardware.specification.nvm;
        ImpossibleParameter::unless(
            nvm.row_bytes >= SLOT_BYTES,
            "nvm.row_bytes",
            nvm.row_bytes,
            format!("must be at least {SLOT_BYTES}: an undo record is one row operation"),
        )?;
        let area = &layout.log_area;
        let (row_bytes, banks) = (nvm.row_bytes as u64, nvm.banks as u64);
        let least = 3 * llc_lines + 2 * self.buffer_entries as u64;
        match Log::within(area, self.log_limit_bytes, row_bytes, banks) {
            Some(log) if log.capacity >= least => Ok(log),
            log => {
                let problem = format!(
                    "must give room for {least} undo records of {SLOT_BYTES} bytes, three for each line of the last-level cache and two for each buffer entry, in whole stripes of {row_bytes}-byte rows over {banks} banks; with a log area of {} bytes (a quarter of nvm.bytes) it gives room for {}",
                    area.end - area.start,
                    log.map_or(0, |log| log.capacity)
                );
                let (key, value) = ("frm.log_limit_bytes", self.log_limit_bytes);
                Err(ImpossibleParameter::new(key, value, problem))
            }
        }
    }
}

/// What the design is doing about the end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Nothing: an epoch executes.
    No,
    /// Flushed lines and evictions go home.
    Flushing,
    /// That copy of the commit record is being written.
    Copy(usize),
}

const EVENT_STEP: u32 = 0;
const EVENT_FLUSHED: u32 = 1;
const EVENT_COPY_0: u32 = 2;
const EVENT_COMMITTED: u32 = 3;

/// The design's volatile state: all of it is lost at power-off.
#[derive(Clone)]
pub struct Frm {
    flaws: Flaws,
    log: Log,
    /// Records that the log must have room for when an epoch's end is asked for: the lines that
    /// the flush may write, and what is evicted until the epoch ends.
    reserve: u64,
    buffer: Buffer,
    buffer_entries: usize,
    /// The controller takes evictions through their steps in order, one after another; this is
    /// when it took the last one.
    stepped: Cycles,
    /// Index of the next undo record.
    next_index: u64,
    /// Of the live log, and of the commit record that emptied it.
    generation: u64,
    executing: u64,
    announced: u64,
    ending: Ending,
    /// When the executing epoch may write its first undo record.
    log_free_at: Cycles,
    /// The end of the executing epoch was asked for, because the log runs out.
    asked_to_end: bool,
    counters: Counters,
}

impl Policy for Frm {
    /// *Read-log-modify* begins: the eviction takes a buffer entry, and its old bytes are read. It
    /// goes on when they are here ([`Self::log`]).
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let now = now.max(self.log_free_at);
        self.advance(hardware, now);
        let line = eviction.line;
        let mut accepted = now;
        if self.flaws.flushes_past_log && eviction.cause == Cause::Flush {
            let (line, bytes) = (eviction.line, &eviction.bytes);
            return write_home(hardware, line, bytes, Traffic::Flush, now);
        }
        if self.buffer.merge(line, &eviction.bytes) {
            self.counters.merged += 1;
        } else {
            while self.buffer.len() >= self.buffer_entries {
                self.step(hardware);
                accepted = accepted.max(self.stepped);
            }
            self.counters.buffer_wait_cycles += accepted - now;
            self.read(hardware, eviction, accepted);
        }
        let mut durable = accepted;
        if eviction.cause == Cause::CacheBlock {
            // A fence will want to know when: the controller's steps up to then are taken now.
            while self.buffer.find(line).is_some() {
                durable = durable.max(self.step(hardware));
            }
        }
        Evicted { accepted, durable }
    }

    /// The buffer is snooped: a pending line's bytes are at hand without a read of the NVM.
    #[inline]
    fn fill(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        if !self.buffer.is_empty() {
            self.advance(hardware, now);
            if let Some(bytes) = self.buffer.find(line)
                && !self.flaws.fills_past_buffer
            {
                self.counters.buffer_fills += 1;
                return (*bytes, now);
            }
        }
        hardware.read_memory(line, now)
    }

    fn peek(&self, hardware: &Hardware, line: LineNumber) -> Line {
        let home = || hardware.memory.arena.line(line * LINE_BYTES as u64);
        *self.buffer.find(line).unwrap_or_else(home)
    }

    fn displaced(&self, show: &mut dyn FnMut(LineNumber)) {
        self.buffer.lines().for_each(show);
    }

    fn holds(&self, _: &Hardware, line: LineNumber, show: &mut dyn FnMut(String, &Line)) {
        let newest = self.buffer.find(line).into_iter();
        newest.for_each(|bytes| show("the controller's buffer".into(), bytes));
        let old = self.buffer.old(line).into_iter();
        old.for_each(|bytes| show("the controller's buffer, for its log".into(), bytes));
    }

    fn fired(&mut self, hardware: &mut Hardware, event: u32, now: Cycles) {
        match event {
            EVENT_STEP => self.advance(hardware, now),
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

impl Frm {
    // ---- Read, log, modify -----------------------------------------------------------------

    /// The eviction enters the buffer, and its old bytes are read.
    fn read(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) {
        let records = self.next_index + self.buffer.len() as u64;
        if records + self.reserve >= self.log.capacity && !self.asked_to_end {
            self.asked_to_end = true;
            hardware.events.schedule(now, END_EPOCH);
        }
        let address = eviction.line * LINE_BYTES as u64;
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let ready = memory.read_block(address, LINE_BYTES, now, statistics);
        let traffic = match eviction.cause {
            Cause::Replacement | Cause::CacheBlock => Traffic::WriteBack,
            Cause::Flush => Traffic::Flush,
        };
        let pending = Pending {
            bytes: eviction.bytes,
            old: *memory.arena.line(address),
            traffic,
            ready,
            index: 0,
        };
        self.buffer.push(eviction.line, pending);
        let level = Track::of_design("read-log-modify buffer");
        memory.draw_level(level, now, self.buffer.len());
        hardware.events.schedule(ready, EVENT_STEP);
    }

    /// The old bytes are here: they go to the log.
    fn log(&mut self, hardware: &mut Hardware, now: Cycles) {
        let Some((line, &pending)) = self.buffer.reading() else {
            return;
        };
        let index = self.next_index;
        self.next_index += 1;
        if index >= self.log.capacity {
            let message = format!(
                "the undo log is full: one epoch has evicted {index} lines, and the system call under way goes on; raise frm.log_limit_bytes and nvm.bytes, or shorten epochs"
            );
            hardware.failure.get_or_insert(PolicyFailure(message));
            self.buffer.logged(index, now);
            return;
        }
        let record = Record {
            generation: self.generation,
            index,
            durable_below: self.buffer.oldest_logging().unwrap_or(index),
            line,
            old: pending.old.0,
        };
        if self.flaws.modifies_before_log {
            write_home(hardware, line, &pending.bytes, pending.traffic, now);
        }
        let slot = if self.flaws.slot_counter_wraps {
            index % 256
        } else {
            index
        };
        let address = self.log.address(slot);
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let done = memory.write_block(address, &record.encode(), Traffic::Log, now, 0, statistics);
        let track = Track::of_design("undo log");
        memory.draw_span(track, "record", [now, done.durable], &[line_fact(line)]);
        let live_bytes = self.next_index * SLOT_BYTES as u64;
        let peak = &mut self.counters.log_bytes_live_peak;
        *peak = live_bytes.max(*peak);
        self.buffer.logged(index, done.durable);
        self.stepped = done.accepted;
        hardware.events.schedule(done.durable, EVENT_STEP);
    }

    /// The undo record is durable: the eviction goes home. Returns when that is durable.
    fn modify(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        let Some((line, pending)) = self.buffer.pop() else {
            return now;
        };
        if hardware.failure.is_some() {
            return now;
        }
        let done = write_home(hardware, line, &pending.bytes, pending.traffic, now);
        self.stepped = done.accepted;
        done.durable
    }

    /// Takes the next step, whenever it is; returns when what it wrote in place is durable.
    fn step(&mut self, hardware: &mut Hardware) -> Cycles {
        let Some((ready, step)) = self.buffer.next_step() else {
            return self.stepped;
        };
        // The write queue may hold the controller up: then all that follows is later.
        self.stepped = self.stepped.max(ready);
        match step {
            Step::Log => {
                self.log(hardware, self.stepped);
                self.stepped
            }
            Step::Modify => self.modify(hardware, self.stepped),
        }
    }

    /// Takes every step that is due by `now`.
    fn advance(&mut self, hardware: &mut Hardware, now: Cycles) {
        while self.buffer.next_step().is_some_and(|(due, _)| due <= now) {
            self.step(hardware);
        }
    }
}

/// Writes a line in place.
fn write_home(
    hardware: &mut Hardware,
    line: LineNumber,
    bytes: &Line,
    traffic: Traffic,
    now: Cycles,
) -> Evicted {
    let Hardware {
        memory, statistics, ..
    } = hardware;
    let done = memory.write_line(line, bytes, traffic, now, 0, statistics);
    done.into()
}

impl EpochNumbers for Frm {
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

impl MachineEpochs for Frm {
    fn can_end_epoch(&self) -> bool {
        self.ending == Ending::No
    }

    /// Everything is flushed, through the same steps as any eviction; when all is durable at home
    /// the commit record is written, which also empties the log.
    fn end_epoch(&mut self, hardware: &mut Hardware, _: Urgency, now: Cycles) -> Cycles {
        let mut flushed = hardware.flush(self, now).ready;
        if !self.flaws.commit_leaves_buffer {
            while !self.buffer.is_empty() {
                self.step(hardware);
            }
            flushed = flushed.max(self.stepped);
        }
        if !self.flaws.commits_before_durable {
            flushed = flushed.max(hardware.memory.quiet_at());
        }
        self.generation += u64::from(!self.flaws.keeps_generation);
        let commit = Commit {
            generation: self.generation,
            epoch: self.executing,
        };
        let copy_0 = commit.write(hardware, 0, flushed);
        let after = if self.flaws.writes_copies_together {
            flushed
        } else {
            copy_0
        };
        let copy_1 = commit.write(hardware, 1, after);
        self.ending = Ending::Flushing;
        let stages = [("flush", flushed), ("copy 0", copy_0), ("copy 1", copy_1)];
        (hardware.memory).draw_stages(Track::of_design("commit"), now, &stages);
        hardware.events.schedule(flushed, EVENT_FLUSHED);
        hardware.events.schedule(copy_0, EVENT_COPY_0);
        hardware.events.schedule(copy_1, EVENT_COMMITTED);
        self.executing += 1;
        self.next_index = 0;
        self.asked_to_end = false;
        self.log_free_at = copy_1;
        copy_1
    }
}

impl Design for Frm {
    const NAME: &'static str = "frm";
    const SUMMARY: &'static str =
        "FRM: undo logging at the memory controller, synchronous cache flush at epoch ends";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    // Logs that run out within an epoch, and buffers that are full all the time.
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[
        &["frm.log_limit_bytes=416KiB"],
        &["frm.buffer_entries=4", "frm.log_limit_bytes=160KiB"],
        &["frm.buffer_entries=256"],
        &["frm.buffer_entries=1", "frm.log_limit_bytes=416KiB"],
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
        let llc_lines = (hardware.llc.sets() * hardware.llc.ways()) as u64;
        let log = parameters.log(layout, hardware, llc_lines)?;
        let buffered = parameters.buffer_entries as u64;
        let generation = registers::begin(layout, hardware, &log, buffered, epoch);
        Ok(Self {
            flaws: Flaws::of(bug),
            reserve: (2 * llc_lines + buffered).max(log.capacity / 8),
            log,
            buffer: Buffer::new(parameters.buffer_entries),
            buffer_entries: parameters.buffer_entries,
            stepped: 0,
            next_index: 0,
            generation,
            executing: epoch + 1,
            announced: epoch,
            ending: Ending::No,
            log_free_at: 0,
            asked_to_end: false,
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
        match self.ending {
            Ending::Flushing => "flushing the caches",
            Ending::Copy(0) => "commit record copy 0 in flight",
            Ending::Copy(_) => "commit record copy 1 in flight",
            Ending::No if self.buffer.is_empty() => "executing, no eviction pending",
            Ending::No if self.buffer.logging() == 0 => "executing, old bytes being read",
            Ending::No => "executing, undo records in flight",
        }
    }

    fn paths(hardware: &Statistics, own: &Counters) -> Vec<(&'static str, u64)> {
        vec![
            ("line evicted by replacement", hardware.llc_write_backs),
            ("line flushed at an epoch's end", hardware.flush_lines),
            ("eviction merged with one that was pending", own.merged),
            ("eviction waited for a buffer entry", own.buffer_wait_cycles),
            ("miss answered by the buffer", own.buffer_fills),
            (
                "cache-block instruction wrote a line",
                hardware.cleaned_lines,
            ),
            ("epoch forced by output commit", hardware.epochs_forced),
            ("epoch ended by a full log", hardware.epochs_overflowed),
        ]
    }
}
