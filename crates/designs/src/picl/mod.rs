//! `picl`: PiCL, the persistent in-cache log (Nguyen and Wentzlaff, MICRO 2018).
//!
//! The tags of the paper's PiCL lie in an inclusive last-level cache, where its chip ends. They may
//! lie elsewhere: all that depends on it is in [`level`], and `picl-l2` ([`crate::picl_l2`]) is this
//! design with its tags in the L2s.
//!
//! | the paper | here |
//! |---|---|
//! | cache-driven logging, §III-B and §IV-A | [`InCacheLog::store`](Policy::store), [`InCacheLog::append`] |
//! | undo buffer, bloom filter, flush before evict, §III-B | [`InCacheLog::flush`], [`filter`], [`InCacheLog::write_in_place`] |
//! | asynchronous cache scan, bulk ACS, §III-C and §IV-C | [`scan`] |
//! | multi-undo logging, §III-D | [`log`] |
//! | EID tags, §IV-A | [`epoch_id`] |
//! | log allocation, garbage collection, §IV-B | [`log::Space`] |
//! | PersistedEID, §IV-B | [`registers`] |
//! | crash handling, §IV-B | [`recovery`] |
//!
//! Always true here:
//! - A line whose bytes differ from memory's carries, at the level of the tags, that of the epoch
//!   that wrote it last; any other line carries none.
//! - The bytes of epoch *e* go in place only after the undo entries that they displace are durable
//!   and acknowledged.
//! - PersistedEID is announced only after both copies of its record are durable, and the record is
//!   written only after every line and undo entry of that epoch is.

pub mod bugs;
pub mod epoch_id;
pub mod filter;
pub mod level;
pub mod log;
pub mod recovery;
pub mod registers;
pub mod scan;

use std::collections::VecDeque;
use std::ops::Range;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{Line, LineNumber, Version};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{
    Cause, CrossVersionStore, Departure, Evicted, Eviction, Policy, PolicyFailure, Reason,
};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use serde::{Deserialize, Serialize};

use self::bugs::Bug;
use self::epoch_id::EpochIds;
use self::filter::Filter;
use self::level::{Keys, LastLevel, Level};
use self::log::{Entry, Header, SUPER_BLOCK_BYTES, Space, entries_per_block, slot_address};
use self::registers::{COPIES, RECORD_BYTES, Record};
use self::scan::Scan;
use crate::design::{
    Design, END_EPOCH, ImpossibleParameter, PlantedBug, Promise, Recovered, Urgency,
};
use crate::layout::{BootRecord, Layout};
use crate::rows;
use crate::surviving::{Interrupted, Surviving};

/// The `picl` section of the configuration, and the `picl-l2` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Width of EID tags (§IV-A: 4 bits are sufficient).
    pub eid_bits: u32,
    /// How many epochs the cache scan trails behind the commit (§III-C).
    pub acs_gap: u64,
    /// Sets of the EID array that the scan looks at in one step; a set takes one cycle.
    pub acs_sets_per_step: usize,
    /// Size of one undo buffer, and of a block in the log (§III-B). There are two buffers. One row
    /// holds a block, or as many as it needs.
    pub undo_buffer_bytes: usize,
    /// Size of a buffer's bloom filter (§III-B).
    pub bloom_filter_bits: usize,
    /// Flushed blocks that may wait for a register record to acknowledge them; each keeps its
    /// filter until then.
    pub acknowledge_window_blocks: usize,
    /// Size of a log region that the kernel hands out (§IV-B: e.g. 128 MB).
    pub log_extent_bytes: u64,
    /// Most log that the kernel hands out.
    pub log_limit_bytes: u64,
    /// The interrupt in which it does.
    pub log_extent_interrupt_cycles: Cycles,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            eid_bits: 4,
            acs_gap: 3,
            acs_sets_per_step: 16,
            undo_buffer_bytes: 2048,
            bloom_filter_bits: 4096,
            acknowledge_window_blocks: 8,
            log_extent_bytes: 128 << 20,
            log_limit_bytes: 1 << 30,
            log_extent_interrupt_cycles: 5000,
        }
    }
}

impl Parameters {
    /// So much of the log is live when epochs begin to end early, so that it expires.
    fn nearly_full_bytes(&self) -> u64 {
        self.log_limit_bytes - self.log_limit_bytes / 8
    }

    fn validate(&self, keys: &Keys, area_bytes: u64) -> Result<(), ImpossibleParameter> {
        ImpossibleParameter::unless(
            (2..=8).contains(&self.eid_bits),
            keys.eid_bits,
            self.eid_bits,
            "must be 2 to 8",
        )?;
        let most = (1u64 << self.eid_bits) - 3;
        ImpossibleParameter::unless(
            self.acs_gap <= most,
            keys.acs_gap,
            self.acs_gap,
            format!(
                "must be at most {most} with {} EID bits, so that outstanding epochs can be told apart",
                self.eid_bits
            ),
        )?;
        ImpossibleParameter::unless(
            self.acs_sets_per_step > 0,
            keys.acs_sets_per_step,
            0,
            "must be at least 1",
        )?;
        ImpossibleParameter::unless(
            self.undo_buffer_bytes.is_power_of_two()
                && (128..=4096).contains(&self.undo_buffer_bytes),
            keys.undo_buffer_bytes,
            self.undo_buffer_bytes,
            "must be a power of two, 128 to 4096",
        )?;
        ImpossibleParameter::unless(
            self.bloom_filter_bits.is_power_of_two()
                && (64..=1 << 20).contains(&self.bloom_filter_bits),
            keys.bloom_filter_bits,
            self.bloom_filter_bits,
            "must be a power of two, 64 to 1048576",
        )?;
        ImpossibleParameter::unless(
            (1..=1024).contains(&self.acknowledge_window_blocks),
            keys.acknowledge_window_blocks,
            self.acknowledge_window_blocks,
            "must be 1 to 1024",
        )?;
        ImpossibleParameter::unless(
            self.log_extent_bytes >= 4 * SUPER_BLOCK_BYTES
                && self.log_extent_bytes.is_multiple_of(SUPER_BLOCK_BYTES),
            keys.log_extent_bytes,
            self.log_extent_bytes,
            format!("must be a multiple of {SUPER_BLOCK_BYTES}, four of these at least"),
        )?;
        ImpossibleParameter::unless(
            self.log_limit_bytes >= self.log_extent_bytes && self.log_limit_bytes <= area_bytes,
            keys.log_limit_bytes,
            self.log_limit_bytes,
            format!(
                "must be at least {} = {} and at most a quarter of nvm.bytes = {area_bytes}",
                keys.log_extent_bytes, self.log_extent_bytes
            ),
        )
    }
}

/// A block of the log that no register record acknowledges yet.
struct Flushed {
    sequence: u64,
    durable: Cycles,
    filter: Filter,
    lines: Vec<LineNumber>,
}

/// How far the register record being written has come.
#[derive(Clone, Copy)]
enum Writing {
    Nothing,
    Copy0 { record: Record, durable: Cycles },
    Copy1 { record: Record, durable: Cycles },
}

/// Slots that the log remembers: more blocks than can wait for acknowledgement, because a record
/// under way lets a few more gather.
const RECENT_BLOCKS: usize = 4096;

/// While the log stays nearly full, an epoch ends each time it grows by this part of its limit; once
/// too many are outstanding, the machine stands still until some are persisted.
const REQUESTS: u64 = 128;

const EVENT_SCAN: u32 = 0;
const EVENT_DRAINED: u32 = 1;
const EVENT_REGISTERS: u32 = 2;

/// The design of the paper.
pub type Picl = InCacheLog<LastLevel>;

/// The design's volatile state, with the tags at any level: all of it is lost at power-off.
pub struct InCacheLog<L: Level> {
    pub(crate) level: L,
    parameters: Parameters,
    bug: Option<Bug>,
    ids: EpochIds,
    log_area: Range<u64>,
    /// SystemEID.
    system: u64,
    /// PersistedEID, as announced.
    persisted: u64,
    /// The undo buffer that fills; the other one is the newest of `flushed` while it is in flight.
    buffer: Vec<Entry>,
    filter: Filter,
    flushed: VecDeque<Flushed>,
    /// All their filters in one. Not hardware: it spares the simulator looking at each when none
    /// can match.
    any_flushed: Filter,
    space: Space,
    /// With so many bytes of log live, the machine is asked to end the epoch.
    next_request_bytes: u64,
    /// The newest epoch that should be persisted by now.
    due: u64,
    scan: Scan,
    writing: Writing,
    /// The epoch that the next register record shall announce; its lines are durable.
    to_announce: u64,
    record_number: u64,
}

impl<L: Level> Policy for InCacheLog<L> {
    #[inline(always)]
    fn current_version(&self, _domain: usize) -> Version {
        self.ids.tag(self.system)
    }

    /// Cache-driven logging (Fig. 7 and 8): the old bytes become an undo entry, the private cache
    /// forwards it to the level of the tags, and the EID there becomes SystemEID.
    fn store(&mut self, hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        let clean = store.version == Version::NONE;
        let valid_from = match (clean, self.bug) {
            (true, Some(Bug::ValidFromTooLate)) => self.system - 1,
            (true, _) => self.persisted,
            (false, _) => self.epoch_of(store.version),
        };
        let mut ready = L::forward(hardware, store, now);
        if !(clean && self.bug == Some(Bug::NoUndoForClean)) {
            hardware.statistics.undo_entries_from_clean += u64::from(clean);
            let entry = Entry {
                line: store.line,
                valid_from,
                valid_till: self.system,
                bytes: store.old,
            };
            ready = self.append(hardware, entry, ready);
        }
        if self.bug != Some(Bug::TagStaysInPrivate) {
            L::set_tag(hardware, store, self.ids.tag(self.system));
        }
        ready
    }

    /// A line leaves the last-level cache, or a cache-block instruction writes it back. If the chip
    /// ends before that cache, it is in place already.
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let (line, bytes) = (eviction.line, &eviction.bytes);
        if self.level.evicts_from_last_level() {
            return self.write_in_place(hardware, line, bytes, Traffic::WriteBack, now);
        }
        let durable = match eviction.cause {
            Cause::Replacement => now,
            Cause::CacheBlock | Cause::Flush => hardware.memory.durable_at(line).max(now),
        };
        Evicted {
            accepted: now,
            durable,
        }
    }

    /// A line leaves a domain's private caches: if the chip ends there, that is an eviction.
    fn depart(&mut self, hardware: &mut Hardware, departure: &Departure, now: Cycles) -> Cycles {
        if !self.level.evicts(departure) {
            return now;
        }
        let traffic = match departure.reason {
            Reason::Walk => Traffic::Flush,
            _ => Traffic::WriteBack,
        };
        let (line, bytes) = (departure.line, &departure.bytes);
        self.write_in_place(hardware, line, bytes, traffic, now)
            .accepted
    }

    #[inline(always)]
    fn departed_version(&self, version: Version) -> Version {
        self.level.departed_tag(version)
    }

    fn fired(&mut self, hardware: &mut Hardware, event: u32, now: Cycles) {
        match event {
            EVENT_SCAN => self.scan_step(hardware, now),
            EVENT_DRAINED => self.scan_drained(hardware, now),
            _ => self.registers_written(hardware, now),
        }
    }
}

impl<L: Level> InCacheLog<L> {
    /// The epoch that a tag on a cached line stands for.
    pub(crate) fn epoch_of(&self, tag: Version) -> u64 {
        self.ids.epoch(u64::from(tag.0), self.system)
    }

    /// Adds an entry to the undo buffer; a full buffer is flushed (§IV-A, *Undo Buffers*).
    fn append(&mut self, hardware: &mut Hardware, entry: Entry, now: Cycles) -> Cycles {
        hardware.statistics.undo_entries += 1;
        self.filter.insert(entry.line);
        self.buffer.push(entry);
        if self.buffer.len() < entries_per_block(self.parameters.undo_buffer_bytes) {
            return now;
        }
        // Double buffering: the flush can start only when the other buffer's is over.
        let free = self
            .flushed
            .back()
            .map_or(now, |other| now.max(other.durable));
        hardware.statistics.undo_buffer_wait_cycles += free - now;
        self.flush(hardware, free);
        free
    }

    /// Writes the undo buffer to the log as one block. It is durable when the newest of `flushed`
    /// says.
    fn flush(&mut self, hardware: &mut Hardware, now: Cycles) {
        let Some(newest) = self.buffer.last() else {
            return;
        };
        let block_bytes = self.parameters.undo_buffer_bytes;
        let statistics = &mut hardware.statistics;
        statistics.undo_flushes += 1;
        let full = self.buffer.len() == entries_per_block(block_bytes);
        statistics.undo_flushes_partial += u64::from(!full);
        let sequence = self.space.next_sequence;
        let predecessor = self.space.last_slot();
        let (slot, successor, grown) = match self.space.advance(newest.valid_till) {
            Ok(place) => place,
            Err(full) => {
                let message = format!(
                    "the undo log is full: {} bytes are live and {} = {} allows no more; one epoch span needs more log, so raise the limit or shorten epochs",
                    full.bytes,
                    L::KEYS.log_limit_bytes,
                    self.parameters.log_limit_bytes
                );
                hardware.failure.get_or_insert(PolicyFailure(message));
                self.buffer.clear();
                return;
            }
        };
        let live_bytes = self.space.live_bytes();
        statistics.log_bytes_live_peak = statistics.log_bytes_live_peak.max(live_bytes);
        if live_bytes >= self.next_request_bytes {
            hardware.events.schedule(now, END_EPOCH);
            self.next_request_bytes = live_bytes + self.parameters.log_limit_bytes / REQUESTS;
        }
        let mut now = now;
        if grown {
            statistics.log_extents = self.space.extents;
            now += self.parameters.log_extent_interrupt_cycles;
        }
        let header = Header {
            sequence,
            predecessor,
            successor,
            system: self.system as u32,
        };
        let row_bytes = hardware.specification.nvm.row_bytes;
        let bytes = log::encode(header, &self.buffer, self.ids, block_bytes, row_bytes);
        let address = slot_address(&self.log_area, slot, block_bytes as u64);
        // Blocks become durable one after another: recovery follows the chain to its end.
        let after = self.flushed.back().map_or(0, |block| block.durable);
        let done = rows::write(hardware, address, &bytes, Traffic::Log, now, after);
        let filter = std::mem::replace(
            &mut self.filter,
            Filter::new(self.parameters.bloom_filter_bits),
        );
        let lines = self.buffer.drain(..).map(|entry| entry.line).collect();
        self.any_flushed.merge(&filter);
        self.flushed.push_back(Flushed {
            sequence,
            durable: done.durable,
            filter,
            lines,
        });
        if self.flushed.len() >= self.parameters.acknowledge_window_blocks {
            self.start_record(hardware, now);
        }
    }

    /// Writes a line to its home address, in the order that undo logging needs: its undo entries
    /// first (§III-B, *On-chip undo buffer*).
    fn write_in_place(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        bytes: &Line,
        traffic: Traffic,
        now: Cycles,
    ) -> Evicted {
        let mut not_before = 0;
        if self.bug != Some(Bug::EvictBeforeFlush) {
            if self.filter.may_contain(line) {
                hardware.statistics.undo_flushes_forced += 1;
                if !self.buffer.iter().any(|entry| entry.line == line) {
                    hardware.statistics.bloom_false_matches += 1;
                }
                self.flush(hardware, now);
            }
            let mut newest_first = self.flushed.iter().rev();
            let matching = self
                .any_flushed
                .may_contain(line)
                .then(|| newest_first.find(|block| block.filter.may_contain(line)))
                .flatten();
            if let Some(block) = matching {
                if !block.lines.contains(&line) {
                    hardware.statistics.bloom_false_matches += 1;
                }
                let sequence = block.sequence;
                if self.bug != Some(Bug::LineBesideBlock) {
                    not_before = self.acknowledge_now(hardware, sequence, now);
                }
            }
        }
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let done = memory.write_line(line, bytes, traffic, now, not_before, statistics);
        Evicted {
            accepted: done.accepted,
            durable: done.durable,
        }
    }

    // ---- Registers -------------------------------------------------------------------------

    /// The record that says what is durable at `time`.
    fn record_at(&mut self, time: Cycles) -> Record {
        self.record_number += 1;
        let acknowledged = self
            .flushed
            .iter()
            .find(|block| block.durable > time)
            .map_or(self.space.next_sequence, |block| block.sequence);
        let (last_slot, next_slot) = self.space.slots_around(acknowledged);
        let persisted = self.to_announce.max(self.persisted);
        Record {
            number: self.record_number,
            persisted,
            acknowledged,
            last_slot,
            next_slot,
            oldest_needed: self.space.oldest_needed(persisted).min(acknowledged),
        }
    }

    fn write_copy(
        hardware: &mut Hardware,
        copy: usize,
        record: &Record,
        now: Cycles,
        after: Cycles,
    ) -> Cycles {
        debug_assert!(COPIES[copy].is_multiple_of(RECORD_BYTES as u64));
        let bytes = record.encode();
        rows::write(
            hardware,
            COPIES[copy],
            &bytes,
            Traffic::Metadata,
            now,
            after,
        )
        .durable
    }

    /// Starts a record in the background unless one is under way.
    fn start_record(&mut self, hardware: &mut Hardware, now: Cycles) {
        if !matches!(self.writing, Writing::Nothing) {
            return;
        }
        let record = self.record_at(now);
        let durable = Self::write_copy(hardware, 0, &record, now, 0);
        self.writing = Writing::Copy0 { record, durable };
        if self.bug == Some(Bug::RoutineCopiesTogether) {
            let durable = Self::write_copy(hardware, 1, &record, now, 0);
            self.writing = Writing::Copy1 { record, durable };
            hardware.events.schedule(durable, EVENT_REGISTERS);
        }
        hardware.statistics.log_acknowledgements += 1;
        hardware.events.schedule(durable, EVENT_REGISTERS);
    }

    /// Makes sure that the block of this sequence number is acknowledged; returns when it is.
    fn acknowledge_now(&mut self, hardware: &mut Hardware, sequence: u64, now: Cycles) -> Cycles {
        if let Writing::Copy1 { record, durable } = self.writing
            && record.acknowledged > sequence
        {
            return durable;
        }
        let block_durable = self
            .flushed
            .back()
            .map_or(now, |block| block.durable.max(now));
        // A record that is under way is overtaken: this one says all that it said, and more. While
        // copy 1 is in flight, copy 0 is the only whole one and must stay.
        let copy_1_durable = match self.writing {
            Writing::Copy1 { durable, .. } if self.bug != Some(Bug::RecordOverRecord) => durable,
            Writing::Copy1 { .. } | Writing::Copy0 { .. } | Writing::Nothing => 0,
        };
        let record = self.record_at(block_durable);
        let not_before = match self.bug {
            Some(Bug::RecordBeforeBlock) => copy_1_durable,
            _ => block_durable.max(copy_1_durable),
        };
        let mut first = Self::write_copy(hardware, 0, &record, now, not_before);
        if self.bug == Some(Bug::CopiesTogether) {
            first = not_before;
        }
        let durable = Self::write_copy(hardware, 1, &record, now, first);
        self.writing = Writing::Copy1 { record, durable };
        hardware.statistics.log_acknowledgements += 1;
        hardware.events.schedule(durable, EVENT_REGISTERS);
        durable
    }

    /// A copy of the record became durable.
    fn registers_written(&mut self, hardware: &mut Hardware, now: Cycles) {
        match self.writing {
            Writing::Copy0 { record, durable } if durable <= now => {
                let durable = Self::write_copy(hardware, 1, &record, now, 0);
                self.writing = Writing::Copy1 { record, durable };
                hardware.events.schedule(durable, EVENT_REGISTERS);
            }
            Writing::Copy1 { record, durable } if durable <= now => {
                self.writing = Writing::Nothing;
                self.record_durable(hardware, &record, now);
            }
            // The event of a record that was overtaken.
            _ => {}
        }
    }

    fn record_durable(&mut self, hardware: &mut Hardware, record: &Record, now: Cycles) {
        self.flushed
            .retain(|block| block.sequence >= record.acknowledged);
        self.any_flushed.clear();
        for block in &self.flushed {
            self.any_flushed.merge(&block.filter);
        }
        if record.persisted > self.persisted {
            hardware.statistics.epochs_persisted += record.persisted - self.persisted;
            self.persisted = record.persisted;
            let early = u64::from(self.bug == Some(Bug::EarlyCollection));
            hardware.statistics.log_super_blocks_collected +=
                self.space.collect(self.persisted + early);
            if self.space.live_bytes() < self.parameters.nearly_full_bytes() {
                self.next_request_bytes = self.parameters.nearly_full_bytes();
            }
        }
        if self.to_announce > self.persisted
            || self.flushed.len() >= self.parameters.acknowledge_window_blocks
        {
            self.start_record(hardware, now);
        }
        self.start_scan_if_due(hardware, now);
    }
}

impl<L: Level> Design for InCacheLog<L> {
    const NAME: &'static str = L::NAME;
    const SUMMARY: &'static str = L::SUMMARY;
    const PROMISE: Promise = Promise::EpochPrefix;
    const PLANTED_BUGS: &'static [PlantedBug] = L::PLANTED_BUGS;
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = L::UNLUCKY_SETTINGS;
    const NEEDS_INCLUSION: bool = L::KEEPS_LAST_LEVEL;
    const SAVES_CONTEXTS: bool = true;
    type Parameters = Parameters;

    fn start(
        parameters: &Parameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        let log_area = layout.log_area.clone();
        L::check(&hardware.specification)?;
        parameters.validate(&L::KEYS, log_area.end - log_area.start)?;
        let block_bytes = parameters.undo_buffer_bytes as u64;
        let boot = BootRecord {
            layout: layout.clone(),
            harts: hardware.cores.len() as u64,
            design: [u64::from(parameters.eid_bits), block_bytes, 0, 0],
        };
        let arena = &mut hardware.memory.arena;
        // After a recovery the registers say where sequence numbers go on; at first boot there are
        // none.
        let (record_number, sequence) = COPIES
            .iter()
            .filter_map(|&copy| Record::decode(arena.slice(copy, RECORD_BYTES)))
            .map(|record| (record.number, record.acknowledged))
            .max()
            .unwrap_or((0, 0));
        let space = Space::new(
            log_area.clone(),
            parameters.log_extent_bytes,
            parameters.log_limit_bytes,
            block_bytes,
            sequence,
            RECENT_BLOCKS,
        );
        let bug_named = bug.and_then(Bug::named);
        let persisted = match bug_named {
            Some(Bug::RegistersStartAnew) => 0,
            _ => epoch,
        };
        let mut picl = Self {
            ids: EpochIds::new(parameters.eid_bits),
            filter: Filter::new(parameters.bloom_filter_bits),
            level: L::new(bug),
            bug: bug_named,
            log_area,
            system: epoch + 1,
            persisted,
            buffer: Vec::new(),
            flushed: VecDeque::new(),
            any_flushed: Filter::new(parameters.bloom_filter_bits),
            space,
            next_request_bytes: parameters.nearly_full_bytes(),
            due: epoch,
            scan: Scan::Idle,
            writing: Writing::Nothing,
            to_announce: persisted,
            record_number,
            parameters: parameters.clone(),
        };
        let record = picl.record_at(0);
        for (address, bytes) in boot.encode() {
            arena.write(address, &bytes);
        }
        for copy in COPIES {
            arena.write(copy, &record.encode());
        }
        hardware.statistics.log_extents = picl.space.extents;
        Ok(picl)
    }

    fn executing_epoch(&self) -> u64 {
        self.system
    }

    fn announced_epoch(&self) -> u64 {
        if self.bug == Some(Bug::ReleaseAtCommit) {
            self.system - 1
        } else {
            self.persisted
        }
    }

    /// With too many epochs outstanding, tags could not be told apart any more.
    fn can_end_epoch(&self) -> bool {
        self.system + 1 - self.persisted <= self.ids.span()
    }

    fn end_epoch(&mut self, hardware: &mut Hardware, urgency: Urgency, now: Cycles) -> Cycles {
        let committed = self.system;
        self.system += 1;
        hardware.version_changed();
        let gap = match urgency {
            Urgency::Routine => self.parameters.acs_gap,
            // Only what is persisted expires, and makes room.
            Urgency::OutputCommit | Urgency::Overflow => 0,
        };
        self.due = self.due.max(committed.saturating_sub(gap));
        self.start_scan_if_due(hardware, now);
        now
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        recovery::recover(image, bug.and_then(Bug::named))
    }

    fn phase(&self) -> &'static str {
        match (&self.scan, self.writing) {
            (_, Writing::Copy0 { .. }) => "register copy 0 in flight",
            (_, Writing::Copy1 { .. }) => "register copy 1 in flight",
            (Scan::Running { .. }, _) => "cache scan running",
            (Scan::Draining { .. }, _) => "cache scan draining",
            (Scan::Idle, _) if self.buffer.is_empty() => "logging, undo buffer empty",
            (Scan::Idle, _) => "logging, undo buffer filling",
        }
    }

    fn paths(statistics: &Statistics) -> Vec<(&'static str, u64)> {
        vec![
            (
                "undo buffer flushed full",
                statistics.undo_flushes - statistics.undo_flushes_partial,
            ),
            (
                "undo buffer flushed partly filled",
                statistics.undo_flushes_partial,
            ),
            (
                "flush forced by an eviction",
                statistics.undo_flushes_forced,
            ),
            (
                "bloom filter matched wrongly",
                statistics.bloom_false_matches,
            ),
            (
                "stores waited for an undo buffer",
                statistics.undo_buffer_wait_cycles,
            ),
            (
                "scan took bytes from a private cache",
                statistics.acs_snoops,
            ),
            ("epoch ended by a full log", statistics.epochs_overflowed),
            (
                "super-blocks reclaimed",
                statistics.log_super_blocks_collected,
            ),
            ("log region added", statistics.log_extents.saturating_sub(1)),
            ("epoch forced by output commit", statistics.epochs_forced),
            (
                "epoch end waited for the scan",
                statistics.epoch_wait_cycles,
            ),
        ]
    }
}
