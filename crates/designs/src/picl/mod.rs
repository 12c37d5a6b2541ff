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
//! - The bytes of epoch *e* go in place only after the log blocks with the undo entries that they
//!   displace are durable, and all blocks before those.
//! - At most two blocks are on their way, because there are two undo buffers: entries come into one
//!   only when its last block is durable.
//! - PersistedEID is announced only after both copies of its record are durable, and the record is
//!   written only after every line and undo entry of that epoch is.

mod block;
pub mod bugs;
pub mod counters;
pub mod epoch_id;
pub mod filter;
mod full;
pub mod level;
pub mod log;
pub mod recovery;
pub mod registers;
pub mod scan;
mod space;

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

use self::block::REGISTERS;
use self::bugs::Flaws;
use self::counters::Counters;
use self::epoch_id::EpochIds;
use self::filter::{Filter, Key};
use self::full::Full;
use self::level::{Keys, LastLevel, Level};
use self::log::{Entry, Header, SUPER_BLOCK_BYTES, UndoBuffer, entries_per_block};
use self::registers::Record;
use self::scan::Scan;
use self::space::{Place, Space};
use crate::bytes::Sealed;
use crate::copies::{COPIES, CommitRecord};
use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered};
use crate::epochs::{END_EPOCH, EpochNumbers, MachineEpochs, OfMachine, Urgency};
use crate::layout::Layout;
use crate::oracle::EpochPrefix;
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
    /// Size of a log region that the kernel hands out (§IV-B: e.g. 128 MB).
    pub log_extent_bytes: u64,
    /// Most log that the kernel hands out.
    pub log_limit_bytes: u64,
    /// The interrupt in which it does.
    pub log_extent_interrupt_cycles: Cycles,
    /// The kernel's work to reclaim one super-block.
    pub log_collect_cycles: Cycles,
    /// Of `picl-l2`. False: a line that another sharing group reads stays dirty, as no machine can have it.
    pub coherence_evicts: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            eid_bits: 4,
            acs_gap: 3,
            acs_sets_per_step: 16,
            undo_buffer_bytes: 2048,
            bloom_filter_bits: 4096,
            log_extent_bytes: 128 << 20,
            log_limit_bytes: 1 << 30,
            log_extent_interrupt_cycles: 5000,
            log_collect_cycles: 100,
            coherence_evicts: true,
        }
    }
}

impl Parameters {
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

/// A block of the log that may still be on its way.
#[derive(Clone)]
struct Flushed {
    sequence: u64,
    place: Place,
    durable: Cycles,
    /// When all blocks before it are, too: recovery then reaches it.
    reachable: Cycles,
    /// Its undo buffer's, which takes no new entries before the block is durable.
    filter: Filter,
    lines: Vec<LineNumber>,
}

/// Why an undo buffer is flushed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Because {
    /// It is full.
    Full,
    /// A line that may have an entry in it is evicted.
    Evicted,
    /// A scan has come to its end.
    Scanned,
}

/// How far the register record being written has come.
#[derive(Clone, Copy)]
enum Writing {
    Nothing,
    Copy0 { record: Record, durable: Cycles },
    Copy1 { record: Record, durable: Cycles },
}

/// While the log stays nearly full, an epoch ends each time it grows by this part of its limit, until
/// it is full: then the machine stands still until what those epochs hold of it expires.
const REQUESTS: u64 = 128;

const EVENT_SCAN: u32 = 0;
const EVENT_DRAINED: u32 = 1;
const EVENT_REGISTERS: u32 = 2;

/// The design of the paper.
pub type Picl = InCacheLog<LastLevel>;

/// The design's volatile state, with the tags at any level: all of it is lost at power-off.
#[derive(Clone)]
pub struct InCacheLog<L: Level> {
    pub(crate) level: L,
    parameters: Parameters,
    flaws: Flaws,
    ids: EpochIds,
    log_area: Range<u64>,
    /// SystemEID.
    system: u64,
    /// PersistedEID, as announced.
    persisted: u64,
    /// The undo buffer that fills.
    buffer: UndoBuffer,
    filter: Filter,
    /// Since when it may: its last block is durable.
    buffer_free: Cycles,
    /// Blocks that may be on their way at some hart's time, oldest first. At one time they are two at
    /// most, each still in its undo buffer.
    flushed: VecDeque<Flushed>,
    space: Space,
    full: Full,
    /// With so many bytes of log live, the machine is asked to end the epoch.
    next_request_bytes: u64,
    /// The newest epoch that should be persisted by now.
    due: u64,
    scan: Scan,
    writing: Writing,
    /// The epoch that the next register record shall announce; its lines are durable.
    to_announce: u64,
    record_number: u64,
    pub(crate) counters: Counters,
}

impl<L: Level> Policy for InCacheLog<L> {
    #[inline(always)]
    fn current_version(&self, _hart: usize) -> Version {
        self.ids.tag(self.system)
    }

    /// Cache-driven logging (Fig. 7 and 8): the old bytes become an undo entry, the private cache
    /// forwards it to the level of the tags, and the EID there becomes SystemEID.
    fn store(&mut self, hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        let clean = store.version == Version::NONE;
        let valid_from = if clean {
            self.flaws.valid_from_of_clean(self.persisted, self.system)
        } else {
            self.epoch_of(store.version)
        };
        let mut ready = L::forward(hardware, store, now);
        let unlogged = clean && self.flaws.no_undo_for_clean;
        if !self.level.is_logged(store.line, self.system) && !unlogged {
            let entry = Entry {
                line: store.line,
                valid_from,
                valid_till: self.system,
                bytes: store.old,
            };
            ready = self.append(hardware, entry, clean, ready);
        }
        if !self.flaws.keeps_tag_in_private {
            L::set_tag(hardware, store, self.ids.tag(self.system));
        }
        ready
    }

    /// A line leaves the last-level cache, or a cache-block instruction writes it back. If the chip
    /// ends before that cache, it is in place already.
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let (line, bytes) = (eviction.line, &eviction.bytes);
        if self.level.evicts_from_last_level(line) {
            return self.write_in_place(hardware, line, bytes, Traffic::WriteBack, now);
        }
        let durable = match eviction.cause {
            Cause::Replacement => now,
            Cause::CacheBlock | Cause::Flush => hardware.memory.durable_at(line, now),
        };
        Evicted {
            accepted: now,
            durable,
        }
    }

    /// A line leaves a sharing group's private caches: if the chip ends there, that is an eviction.
    fn depart(&mut self, hardware: &mut Hardware, departure: &Departure, now: Cycles) -> Cycles {
        let epoch = self.epoch_of(departure.version);
        if !self.level.evicts(hardware, departure, epoch) {
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
    fn holds(&self, _: &Hardware, line: LineNumber, show: &mut dyn FnMut(String, &Line)) {
        self.buffer.show(line, show);
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

    /// Adds an entry to the undo buffer; a full buffer is flushed (§IV-A, *Undo Buffers*). Returns
    /// when the store may go on: it waits while both buffers are on their way to the log.
    fn append(
        &mut self,
        hardware: &mut Hardware,
        entry: Entry<&Line>,
        from_clean: bool,
        now: Cycles,
    ) -> Cycles {
        if self.buffer.entries().is_empty() {
            // They take turns: this one's last block is the last but one.
            let last = self.flushed.iter().rev().nth(1);
            self.buffer_free = last.map_or(0, |block| block.durable);
        }
        let ready = now.max(self.buffer_free);
        if self.flaws.loses_entry_when_busy && ready > now {
            return now;
        }
        self.counters.undo_buffer_wait_cycles += ready - now;
        self.counters.undo_entries += 1;
        self.counters.undo_entries_from_clean += u64::from(from_clean);
        self.counters.undo_entries_from_committed += u64::from(!from_clean);
        self.filter.insert(Key::of(entry.line));
        self.prefetch_entry(hardware);
        self.buffer.push(entry, self.ids);
        if self.buffer.entries().len() < entries_per_block(self.parameters.undo_buffer_bytes) {
            return ready;
        }
        self.flush(hardware, Because::Full, ready)
    }

    /// Writes the undo buffer to the log as one block, which is then the newest of `flushed`. Returns
    /// when the sender may go on.
    fn flush(&mut self, hardware: &mut Hardware, because: Because, now: Cycles) -> Cycles {
        let Some(newest) = self.buffer.entries().last() else {
            return now;
        };
        let sequence = self.space.next_sequence;
        let place = match self.space.advance(newest.valid_till) {
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
                return now;
            }
        };
        let live_bytes = self.space.live_bytes();
        let counters = &mut self.counters;
        counters.undo_flushes += 1;
        counters.undo_flushes_partial += u64::from(because != Because::Full);
        counters.undo_flushes_forced += u64::from(because == Because::Evicted);
        counters.undo_flushes_by_scan += u64::from(because == Because::Scanned);
        counters.log_bytes_live_peak = counters.log_bytes_live_peak.max(live_bytes);
        if live_bytes >= self.next_request_bytes {
            hardware.events.schedule(now, END_EPOCH);
            self.next_request_bytes = live_bytes + self.parameters.log_limit_bytes / REQUESTS;
        }
        // Harts' clocks differ a little: one may flush what another has waited for.
        let mut now = now.max(self.buffer_free);
        if place.grown {
            self.counters.log_extents = self.space.extents;
            now += self.parameters.log_extent_interrupt_cycles;
        }
        let past = self.forget_past(hardware.memory.horizon());
        let before = self.flushed.back();
        let header = Header {
            sequence,
            predecessor: place.predecessor,
            successors: place.successors,
            system: self.system as u32,
            follows_unfinished: before.is_some_and(|block| block.reachable > now),
        };
        let durable = self.write_block(hardware, (&place, header), because, now);
        let before = self.flushed.back();
        let reachable = before.map_or(durable, |block| durable.max(block.reachable));
        let (filter, lines) = self.empty_buffer(past);
        self.flushed.push_back(Flushed {
            sequence,
            place,
            durable,
            reachable,
            filter,
            lines,
        });
        now
    }

    /// Writes a line to its home address, in the order that undo logging needs: its undo entries
    /// first (§III-B, *On-chip undo buffer*).
    pub(crate) fn write_in_place(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        bytes: &Line,
        traffic: Traffic,
        now: Cycles,
    ) -> Evicted {
        let (key, mut now, mut not_before) = (Key::of(line), now, 0);
        if !self.flaws.evicts_before_flush {
            self.counters.bloom_queries += 1;
            if self.filter.may_contain(key) {
                now = self.flush(hardware, Because::Evicted, now);
            }
            // A line whose entry is safe, and those before it, waits for nothing.
            let mut on_their_way = (self.flushed.iter().rev()).take_while(|it| it.reachable > now);
            if let Some(block) = on_their_way.find(|block| block.filter.may_contain(key)) {
                let wrongly = !block.lines.contains(&line);
                self.counters.bloom_matches += 1;
                self.counters.bloom_false_matches += u64::from(wrongly);
                not_before = self.flaws.behind_block(block.durable, block.reachable);
            }
        }
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let done = memory.write_line(line, bytes, traffic, now, not_before, statistics);
        done.into()
    }

    // ---- Registers -------------------------------------------------------------------------

    /// The record that says what is durable at `time`.
    fn record_at(&mut self, time: Cycles) -> Record {
        self.record_number += 1;
        let counts_unfinished = self.flaws.record_counts_unfinished;
        let mut on_their_way = self.flushed.iter();
        let oldest = on_their_way.find(|block| block.reachable > time && !counts_unfinished);
        let space = &self.space;
        let all = (space.next_sequence, space.last_slot, space.next_slots);
        let (durable_below, last_slot, next_slots) = oldest.map_or(all, |block| {
            let next_slots = [block.place.slot, block.place.successors[0]];
            (block.sequence, block.place.predecessor, next_slots)
        });
        let persisted = self.to_announce.max(self.persisted);
        Record {
            number: self.record_number,
            persisted,
            durable_below,
            last_slot: u64::from(last_slot),
            next_slots: next_slots.map(u64::from),
            oldest_needed: self.space.oldest_needed(persisted).min(durable_below),
        }
    }

    fn write_copy(hardware: &mut Hardware, copy: usize, record: &Record, now: Cycles) -> Cycles {
        debug_assert!(COPIES[copy].is_multiple_of(Record::BYTES as u64));
        let bytes = record.encode();
        rows::write(hardware, COPIES[copy], &bytes, Traffic::Metadata, now, 0).durable
    }

    /// Starts a record in the background unless one is under way.
    fn start_record(&mut self, hardware: &mut Hardware, now: Cycles) {
        if !matches!(self.writing, Writing::Nothing) {
            return;
        }
        let record = self.record_at(now);
        let durable = Self::write_copy(hardware, 0, &record, now);
        (hardware.memory).draw_span(REGISTERS, "copy 0", [now, durable], &[]);
        self.writing = Writing::Copy0 { record, durable };
        if self.flaws.writes_copies_together {
            let durable = Self::write_copy(hardware, 1, &record, now);
            self.writing = Writing::Copy1 { record, durable };
            hardware.events.schedule(durable, EVENT_REGISTERS);
        }
        self.counters.register_records += 1;
        hardware.events.schedule(durable, EVENT_REGISTERS);
    }

    /// A copy of the record became durable.
    fn registers_written(&mut self, hardware: &mut Hardware, now: Cycles) {
        match self.writing {
            Writing::Copy0 { record, durable } if durable <= now => {
                let durable = Self::write_copy(hardware, 1, &record, now);
                self.writing = Writing::Copy1 { record, durable };
                (hardware.memory).draw_span(REGISTERS, "copy 1", [now, durable], &[]);
                hardware.events.schedule(durable, EVENT_REGISTERS);
            }
            Writing::Copy1 { record, durable } if durable <= now => {
                self.writing = Writing::Nothing;
                self.record_durable(hardware, &record, now);
            }
            // With a planted bug that writes both copies at once.
            _ => {}
        }
    }

    fn record_durable(&mut self, hardware: &mut Hardware, record: &Record, now: Cycles) {
        if record.persisted > self.persisted {
            hardware.statistics.epochs_persisted += record.persisted - self.persisted;
            self.persisted = record.persisted;
            let early = u64::from(self.flaws.collects_early);
            self.collect(hardware, self.persisted + early);
            if self.space.live_bytes() < self.full.nearly_bytes {
                self.next_request_bytes = self.full.nearly_bytes;
            }
        }
        if self.to_announce > self.persisted {
            self.start_record(hardware, now);
        }
        self.start_scan_if_due(hardware, now);
    }
}

impl<L: Level> InCacheLog<L> {
    /// Garbage collection (§IV-B): the kernel, told of the new PersistedEID, reclaims what expired. It
    /// works on the first hart, whatever that was doing.
    fn collect(&mut self, hardware: &mut Hardware, persisted: u64) {
        let super_blocks = self.space.collect(persisted);
        let cycles = super_blocks * self.parameters.log_collect_cycles;
        hardware.cores[0].timing.stand_still(cycles);
        hardware.statistics.kernel_cycles += cycles;
        self.counters.log_collect_cycles += cycles;
        self.counters.log_collections += u64::from(super_blocks > 0);
        self.counters.log_super_blocks_collected += super_blocks;
    }
}

impl<L: Level> EpochNumbers for InCacheLog<L> {
    fn executing_epoch(&self) -> u64 {
        self.system
    }

    fn announced_epoch(&self) -> u64 {
        if self.flaws.releases_at_commit {
            self.system - 1
        } else {
            self.persisted
        }
    }
}

impl<L: Level> MachineEpochs for InCacheLog<L> {
    /// With too many epochs outstanding, tags could not be told apart any more; and one that runs while
    /// the log is full takes room that those before it have yet to make.
    fn can_end_epoch(&self) -> bool {
        let told_apart = self.system + 1 - self.persisted <= self.ids.span();
        let full = self.space.live_bytes() >= self.full.bytes;
        told_apart && !(full && self.persisted < self.due)
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
}

impl<L: Level> Design for InCacheLog<L> {
    const NAME: &'static str = L::NAME;
    const SUMMARY: &'static str = L::SUMMARY;
    const PLANTED_BUGS: &'static [PlantedBug] = L::PLANTED_BUGS;
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = L::UNLUCKY_SETTINGS;
    const NEEDS_INCLUSION: bool = L::KEEPS_LAST_LEVEL;
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
        let log_area = layout.log_area.clone();
        L::check(&hardware.specification)?;
        parameters.validate(&L::KEYS, log_area.end - log_area.start)?;
        let block_bytes = parameters.undo_buffer_bytes as u64;
        let harts = hardware.cores.len();
        let arena = &mut hardware.memory.arena;
        layout.put_boot_record(
            harts,
            [u64::from(parameters.eid_bits), block_bytes, 0, 0],
            arena,
        );
        // After a recovery the registers say where sequence numbers go on; at first boot there are none.
        let left = Record::left(arena);
        let (record_number, sequence) =
            left.map_or((0, 0), |record| (record.number, record.durable_below));
        let space = Space::new(
            log_area.clone(),
            parameters.log_extent_bytes,
            parameters.log_limit_bytes,
            block_bytes,
            sequence,
        );
        let flaws = Flaws::of(bug);
        let persisted = flaws.persisted_at_start(epoch);
        let full = Full::of(parameters, harts);
        let mut picl = Self {
            ids: EpochIds::new(parameters.eid_bits),
            filter: Filter::new(parameters.bloom_filter_bits),
            level: L::new(parameters, bug),
            flaws,
            log_area,
            system: epoch + 1,
            persisted,
            buffer: UndoBuffer::empty(),
            buffer_free: 0,
            flushed: VecDeque::new(),
            space,
            full,
            next_request_bytes: full.nearly_bytes,
            due: epoch,
            scan: Scan::Idle,
            writing: Writing::Nothing,
            to_announce: persisted,
            record_number,
            parameters: parameters.clone(),
            counters: Counters::default(),
        };
        let record = picl.record_at(0);
        record.put(arena);
        picl.counters.log_extents = picl.space.extents;
        Ok(picl)
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        recovery::recover(image, Flaws::of(bug))
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn phase(&self) -> &'static str {
        match (&self.scan, self.writing) {
            (_, Writing::Copy0 { .. }) => "register copy 0 in flight",
            (_, Writing::Copy1 { .. }) => "register copy 1 in flight",
            (Scan::Running { .. }, _) => "cache scan running",
            (Scan::Draining { .. }, _) => "cache scan draining",
            (Scan::Idle, _) if self.buffer.entries().is_empty() => "logging, undo buffer empty",
            (Scan::Idle, _) => "logging, undo buffer filling",
        }
    }

    fn paths(hardware: &Statistics, own: &Counters) -> Vec<(&'static str, u64)> {
        vec![
            (
                "undo buffer flushed full",
                own.undo_flushes - own.undo_flushes_partial,
            ),
            (
                "undo buffer flushed partly filled",
                own.undo_flushes_partial,
            ),
            ("flush forced by an eviction", own.undo_flushes_forced),
            ("bloom filter matched wrongly", own.bloom_false_matches),
            (
                "stores waited for an undo buffer",
                own.undo_buffer_wait_cycles,
            ),
            ("scan took bytes from a private cache", own.acs_snoops),
            ("epoch ended by a full log", hardware.epochs_overflowed),
            ("super-blocks reclaimed", own.log_super_blocks_collected),
            ("log region added", own.log_extents.saturating_sub(1)),
            ("epoch forced by output commit", hardware.epochs_forced),
            ("epoch end waited for the scan", hardware.epoch_wait_cycles),
        ]
    }
}
