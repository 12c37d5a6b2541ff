//! `flush-at-epoch-end`: undo logging with a synchronous cache flush, the textbook checkpoint.
//!
//! During an epoch, a dirty line that leaves the caches goes to its home address only after the
//! bytes that it overwrites there are durable in the undo log (read, log, modify). At the end of an
//! epoch everybody waits until all dirty lines are home; then one record commits the epoch and
//! empties the log at the same stroke. Recovery undoes what the unfinished epoch wrote home.
//!
//! ```text
//! register      u64: epoch << 32 | recoveries << 16 | check
//! log entry i   u64 magic "FLUSHLOG", u64 register, u64 i, u64 line, 64 bytes; sealed, 128 bytes
//! ```
//!
//! An entry may span rows and so be torn anywhere; its checksum is over all of it.
//!
//! The register is one word, which no power cut tears; the check tells damage apart. It says which
//! epoch is in memory, and entries that carry another value belong to another epoch, or to an
//! attempt at this one that a power cut ended.
//!
//! Always true here:
//! - No home address is written before the log entry with its old bytes is durable.
//! - The register names a new epoch only when everything that the epoch wrote is durable, and no
//!   entry is overwritten before the register has made it worthless.

use perdure_designs::bytes::{Writer, checksum, sealed, unsealed};
use perdure_designs::design::ImpossibleParameter;
use perdure_designs::layout::{BootRecord, Layout, METADATA};
use perdure_designs::oracle::EpochPrefix;
use perdure_designs::rows;
use perdure_designs::surviving::{Corruption, Interrupted, Surviving};
use perdure_designs::{
    Design, EpochNumbers, MachineEpochs, OfMachine, PlantedBug, Recovered, Urgency,
};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Cause, Evicted, Eviction, Policy, PolicyFailure};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

const REGISTER: u64 = METADATA.start;
const ENTRY: u64 = u64::from_le_bytes(*b"FLUSHLOG");
const ENTRY_BYTES: usize = 128;

/// The state. All of it is lost at power-off.
#[derive(Clone)]
pub struct FlushAtEpochEnd {
    log: std::ops::Range<u64>,
    executing: u64,
    announced: u64,
    recoveries: u64,
    /// Entries that the executing epoch has logged.
    entries: u64,
    /// When the register will name the last epoch, so that the log may start over.
    recorded: Cycles,
    /// When all log entries so far are durable.
    logged: Cycles,
    flaws: Flaws,
    counters: Counters,
}

perdure_hardware::counters! {
    /// What it counts for itself.
    pub struct Counters {
        log_entries, "flush-at-epoch-end.log_entries", "entries", "undo entries written";
        log_entries_longest, "flush-at-epoch-end.log_entries.longest", "entries", gauge "most of them in one epoch";
    }
    at_most(log_entries_longest, log_entries);
}

perdure_designs::planted_bugs! {
    writes_home_before_log, "home-before-log", "a line is written home without waiting for its undo entry";
    commits_before_flush, "commit-before-flush", "the register names the epoch, and only then are the caches flushed";
    commits_before_durable, "commit-before-durable", "the register names the epoch when the last flushed line was accepted, not when it is durable";
    announces_at_end, "announce-at-end", "output leaves the machine when its epoch ends, not when the register names it";
    logs_new_bytes, "new-bytes-logged", "an undo entry has the bytes that the line gets, not those that it had";
    undoes_forward, "forward-undo", "recovery applies the log from oldest to newest, so the newest entry wins";
    accepts_stale_entry, "stale-entry-accepted", "recovery does not look at the register in an entry, and applies what earlier epochs left behind";
    skips_newest_entry, "newest-entry-skipped", "recovery takes the newest entry for a torn one";
    empties_log_first, "log-emptied-first", "recovery makes the log worthless before it has put the old bytes back";
}

/// No parameters.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {}

// ---- Byte formats --------------------------------------------------------------------------

fn register(epoch: u64, recoveries: u64) -> u64 {
    let value = epoch << 32 | (recoveries & 0xffff) << 16;
    value | checksum(&value.to_le_bytes()) & 0xffff
}

/// Epoch and recoveries, if the word is as [`register`] makes it.
fn decode_register(bytes: &[u8]) -> Option<(u64, u64)> {
    let word = u64::from_le_bytes(bytes.try_into().ok()?);
    let (epoch, recoveries) = (word >> 32, word >> 16 & 0xffff);
    (register(epoch, recoveries) == word).then_some((epoch, recoveries))
}

fn encode_entry(register: u64, index: u64, line: LineNumber, old: &Line) -> Vec<u8> {
    let mut writer = Writer::new(ENTRY);
    writer.u64(register).u64(index).u64(line);
    for word in old.0.chunks_exact(8) {
        writer.u64(u64::from_le_bytes(word.try_into().expect("eight bytes")));
    }
    sealed(writer, ENTRY_BYTES)
}

/// Address and old bytes, if this is that entry, and whole. Without a register, it may be any epoch's.
fn decode_entry(bytes: &[u8], register: Option<u64>, index: u64) -> Option<(u64, Line)> {
    let mut reader = unsealed(bytes, ENTRY)?;
    let written = reader.u64();
    if written != register.unwrap_or(written) || reader.u64() != index {
        return None;
    }
    let address = reader.u64().checked_mul(LINE_BYTES as u64)?;
    let mut old = Line::ZERO;
    for word in old.0.chunks_exact_mut(8) {
        word.copy_from_slice(&reader.u64().to_le_bytes());
    }
    Some((address, old))
}

/// What the log says, in the order in which it is undone.
fn undo_entries(
    image: &mut Surviving,
    layout: &Layout,
    register: u64,
    flaws: Flaws,
) -> Result<Vec<(u64, Line)>, Interrupted> {
    // The log ends at the first entry that isn't whole: it was torn, and the line that it protects was not
    // written yet, nor were those of entries behind it.
    let mut entries = Vec::new();
    let register = (!flaws.accepts_stale_entry).then_some(register);
    for (index, place) in layout.log_area.clone().step_by(ENTRY_BYTES).enumerate() {
        let bytes = image.read(place, ENTRY_BYTES)?;
        match decode_entry(&bytes, register, index as u64) {
            Some(entry) => entries.push(entry),
            None => break,
        }
    }
    if flaws.skips_newest_entry {
        entries.pop();
    }
    if !flaws.undoes_forward {
        // Of several entries for one line the oldest holds the epoch's bytes: it goes last.
        entries.reverse();
    }
    Ok(entries)
}

// ---- What happens while the power is on ----------------------------------------------------

impl Policy for FlushAtEpochEnd {
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let traffic = match eviction.cause {
            Cause::Flush => Traffic::Flush,
            Cause::Replacement | Cause::CacheBlock => Traffic::WriteBack,
        };
        self.write_home(hardware, eviction.line, &eviction.bytes, traffic, now)
    }

    /// The register names the epoch that just ended.
    fn fired(&mut self, hardware: &mut Hardware, _event: u32, _now: Cycles) {
        hardware.statistics.epochs_persisted += 1;
        self.announced += 1;
    }
}

impl FlushAtEpochEnd {
    /// What the register says while this epoch executes.
    fn register(&self) -> u64 {
        register(self.executing - 1, self.recoveries)
    }

    /// Read, log, modify.
    fn write_home(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        bytes: &Line,
        traffic: Traffic,
        now: Cycles,
    ) -> Evicted {
        let place = self.log.start + self.entries * ENTRY_BYTES as u64;
        if place + ENTRY_BYTES as u64 > self.log.end {
            let message = "the undo log is full: shorten epochs, or give more nvm.bytes";
            hardware
                .failure
                .get_or_insert(PolicyFailure(message.into()));
            return Evicted {
                accepted: now,
                durable: now,
            };
        }
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let home = line * LINE_BYTES as u64;
        let now = memory.read_block(home, LINE_BYTES, now, statistics);
        let overwritten = memory.arena.line(home);
        let old = if self.flaws.logs_new_bytes {
            bytes
        } else {
            overwritten
        };
        let entry = encode_entry(self.register(), self.entries, line, old);
        self.entries += 1;
        self.counters.log_entries += 1;
        self.counters.log_entries_longest = self.counters.log_entries_longest.max(self.entries);
        // A block lies within a row, and rows may be as short as a line: piece by piece, then.
        let logged = rows::write(hardware, place, &entry, Traffic::Log, now, self.recorded);
        let Hardware {
            memory, statistics, ..
        } = hardware;
        // Of entries in different banks the later may be durable first; recovery stops at the first
        // hole.
        self.logged = self.logged.max(logged.durable);
        let not_before = if self.flaws.writes_home_before_log {
            0
        } else {
            self.logged
        };
        let now = logged.accepted;
        let home = memory.write_line(line, bytes, traffic, now, not_before, statistics);
        Evicted {
            accepted: home.accepted,
            durable: home.durable,
        }
    }
}

// ---- What the design states about itself ---------------------------------------------------

impl EpochNumbers for FlushAtEpochEnd {
    fn executing_epoch(&self) -> u64 {
        self.executing
    }

    fn announced_epoch(&self) -> u64 {
        self.announced
    }
}

impl MachineEpochs for FlushAtEpochEnd {
    fn can_end_epoch(&self) -> bool {
        self.announced + 1 == self.executing
    }

    fn end_epoch(&mut self, hardware: &mut Hardware, _: Urgency, now: Cycles) -> Cycles {
        let flush_late = self.flaws.commits_before_flush;
        let flushed = if flush_late {
            now
        } else {
            hardware.flush(self, now).ready
        };
        // Lines evicted before may still be on their way home, too.
        let quiet = hardware.memory.quiet_at().max(now);
        let home = if self.flaws.commits_before_durable {
            flushed
        } else {
            quiet
        };
        self.executing += 1;
        self.entries = 0;
        let word = self.register().to_le_bytes();
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let named = memory.write_block(REGISTER, &word, Traffic::Metadata, home, home, statistics);
        self.recorded = named.durable;
        let announced = if self.flaws.announces_at_end {
            now
        } else {
            self.recorded
        };
        hardware.events.schedule(announced, 0);
        if flush_late {
            hardware.flush(self, now);
        }
        self.recorded
    }
}

impl Design for FlushAtEpochEnd {
    const NAME: &'static str = "flush-at-epoch-end";
    const SUMMARY: &'static str = "undo logging at evictions, a synchronous cache flush per epoch";
    const PLANTED_BUGS: &'static [PlantedBug] = ALL;
    type Epochs = OfMachine;
    type Promise = EpochPrefix;
    type Parameters = Parameters;
    type Counters = Counters;

    fn start(
        _: &Parameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        // What the machine cannot give is said now, and not found out in the middle of a run.
        let room = layout.log_area.end - layout.log_area.start;
        ImpossibleParameter::unless(
            room >= ENTRY_BYTES as u64,
            "nvm.bytes",
            hardware.specification.nvm.bytes,
            "leaves no room for the undo log: give more",
        )?;
        let harts = hardware.cores.len();
        let arena = &mut hardware.memory.arena;
        layout.put_boot_record(harts, [0; 4], arena);
        // At first boot there is no register yet; after a recovery it is as recovery left it.
        let (_, recoveries) = decode_register(&arena.slice(REGISTER, 8)).unwrap_or((0, 0));
        arena.write(REGISTER, &register(epoch, recoveries).to_le_bytes());
        Ok(Self {
            log: layout.log_area.clone(),
            executing: epoch + 1,
            announced: epoch,
            recoveries,
            entries: 0,
            recorded: 0,
            logged: 0,
            flaws: Flaws::of(bug),
            counters: Counters::default(),
        })
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        let layout = BootRecord::read(image)?.layout;
        let (epoch, recoveries) = decode_register(&image.read(REGISTER, 8)?).ok_or(Corruption {
            what: "the register is damaged",
            address: REGISTER,
        })?;

        let flaws = Flaws::of(bug);
        let emptied = register(epoch, recoveries + 1).to_le_bytes();
        if flaws.empties_log_first {
            image.write(REGISTER, &emptied)?;
        }
        for (address, old) in undo_entries(image, &layout, register(epoch, recoveries), flaws)? {
            if !layout.protected().contains(&address) {
                let what = "an entry for a line outside memory";
                return Err(Corruption { what, address }.into());
            }
            image.write(address, &old.0)?;
        }
        // Only now is the log worthless. Until then, another recovery starts over.
        image.write(REGISTER, &emptied)?;
        Ok(Recovered::at(epoch))
    }

    fn phase(&self) -> &'static str {
        if self.announced + 1 == self.executing {
            "running"
        } else {
            "recording"
        }
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn paths(hardware: &Statistics, own: &Counters) -> Vec<(&'static str, u64)> {
        vec![
            ("eviction logged", own.log_entries),
            ("epoch forced by output commit", hardware.epochs_forced),
        ]
    }
}
