//! The background work of the OMCs: indexes, registers, merges, and when compaction begins.
//!
//! One step is one call, made by an event; it says when the next may come. Steps ask for nothing but
//! the time: what must be durable first has a time at which it is. So an insertion that waits for
//! space may run them one after another, each at the time that the one before has named.
//!
//! Always true here:
//! - A write that must not be durable before another is issued when that other is durable, so that
//!   the controller's queue never waits for it.
//! - Indexes go first: rec-epoch does not wait for merges.

use std::cell::RefCell;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;

use super::compaction::Compaction;
use super::format::{
    BlockWriter, Header, Kind, PAGE_BYTES, PAGE_UNITS, Register, Slot, line_number, line_of_word,
};
use super::master::{self, Plan, Unplanned};
use super::pool::Pool;
use super::table::Table;
use super::{Mnm, REGISTER_DURABLE, SHORT_ONE_IN, SPACE_FOUND, STEP, link_to};

/// The index of an epoch, as far as it is written.
#[derive(Clone, Debug)]
pub struct Indexing {
    epoch: u64,
    /// For each OMC.
    scans: Vec<Scan>,
    blocks: Vec<Vec<Header>>,
}

/// An epoch on its way to the master tables.
#[derive(Clone, Debug)]
pub struct Merging {
    epoch: u64,
    scans: Vec<Scan>,
    pending: Option<Planned>,
    /// When the entries written so far are durable.
    durable: Cycles,
}

/// A batch whose new nodes are on their way.
#[derive(Clone, Debug)]
struct Planned {
    plans: Vec<Plan>,
    /// When the nodes are durable.
    durable: Cycles,
    /// When the next batch may come, at the stated rate.
    next: Cycles,
}

/// How far an epoch's table was scanned.
#[derive(Clone, Debug)]
struct Scan {
    pages: Vec<u32>,
    next: usize,
}

impl Scan {
    fn of(table: Option<&Table>) -> Self {
        Self {
            pages: table.map(Table::scan).unwrap_or_default(),
            next: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.next == self.pages.len()
    }
}

/// The pool has no room for what a step wants to write; nothing has changed.
pub struct NoRoom;

impl Mnm {
    /// Has the next step made at a time, if none is due earlier.
    pub(super) fn wake(&mut self, hardware: &mut Hardware, time: Cycles) {
        if self.step_at.is_none_or(|at| time < at) {
            self.step_at = Some(time);
            hardware.events.schedule(time, STEP);
        }
    }

    /// When the step after one at `now` may come, at the stated rate, once its writes are accepted.
    pub(super) fn paced(&self, now: Cycles, accepted: Cycles) -> Cycles {
        (now + self.parameters.merge_step_cycles).max(accepted)
    }

    /// One step; returns when the next may come, if there is more to do.
    pub(super) fn step(&mut self, hardware: &mut Hardware, now: Cycles) -> Option<Cycles> {
        if hardware.failure.is_some() {
            return None;
        }
        let pending = self.merging.as_ref().and_then(|one| one.pending.as_ref());
        let planned = pending.map(|planned| planned.durable);
        let stepped = if planned.is_some_and(|durable| durable <= now) {
            Ok(self.write_updates(hardware, now))
        } else if self.starved && self.compaction.is_some() {
            match planned {
                Some(durable) => Ok(durable),
                None => self.compaction_step(hardware, now),
            }
        } else if self.indexed < self.completed {
            self.index_step(hardware, now)
        } else if self.register.recoverable < self.indexed && self.register_may_be_written(now) {
            Ok(self.write_register(hardware, now))
        } else if let Some(durable) = planned {
            Ok(durable)
        } else if self.compaction.is_some() {
            self.compaction_step(hardware, now)
        } else if self.merged < self.mergeable(now) {
            match self.merge_allowed_at(now) {
                told if told > now => Ok(told),
                _ => self.merge_step(hardware, now),
            }
        } else if self.register.recoverable < self.indexed {
            Ok(self.named_durable.max(self.register_durable))
        } else if self.merged < self.indexed {
            // Nothing else to do: the other copy of the registers is told of the epoch, too.
            if self.register_may_be_written(now) {
                Ok(self.write_register(hardware, now))
            } else {
                Ok(self.named_durable.max(self.register_durable))
            }
        } else if self.is_short() && self.merged > self.horizon {
            self.begin_compaction();
            Ok(now)
        } else {
            return None;
        };
        match stepped {
            Ok(next) => Some(next),
            Err(NoRoom) => self.relieve(hardware, now),
        }
    }

    /// True if compaction should begin before anybody has to wait for it.
    pub(super) fn is_short(&self) -> bool {
        let low = self.reserve() + self.pool.quota_units() / SHORT_ONE_IN;
        !self.pool.can_grow() && self.pool.free_units() < low
    }

    /// A step found no room: the kernel grants an extent, or compaction goes first.
    fn relieve(&mut self, hardware: &mut Hardware, now: Cycles) -> Option<Cycles> {
        if let Some(granted) = self.ask_kernel(now) {
            return Some(granted);
        }
        if self.compaction.is_some() && self.starved {
            self.fail(hardware);
            return None;
        }
        if self.compaction.is_none() {
            if self.merged == self.horizon {
                self.fail(hardware);
                return None;
            }
            self.begin_compaction();
        }
        self.starved = true;
        Some(now)
    }

    /// The kernel grants an extent, if it may; returns when the interrupt is over.
    fn ask_kernel(&mut self, now: Cycles) -> Option<Cycles> {
        if !self.pool.grow() {
            return None;
        }
        self.statistics.extents = self.pool.extents();
        self.statistics.extent_interrupts += 1;
        Some(now + self.parameters.pool_extent_interrupt_cycles)
    }

    /// Half of the epochs between the horizon and the newest that is merged are given up.
    fn begin_compaction(&mut self) {
        let horizon = self.horizon + (self.merged - self.horizon).div_ceil(2);
        self.compaction = Some(Compaction::new(horizon, &self.omcs));
    }

    /// An insertion found no room: it waits until there may be some. Returns when that is.
    pub(super) fn make_room(&mut self, hardware: &mut Hardware, now: Cycles) -> Option<Cycles> {
        if let Some(granted) = self.ask_kernel(now) {
            return Some(granted);
        }
        let before = self.statistics.compactions;
        let mut time = now;
        while self.statistics.compactions == before {
            if self.compaction.is_none() && self.merged > self.horizon {
                self.begin_compaction();
            }
            self.starved = self.compaction.is_some();
            let Some(next) = self.stepped(hardware, time) else {
                self.fail(hardware);
                return None;
            };
            time = time.max(next);
        }
        self.statistics.compactions_waited += 1;
        self.waits_until = Some(time);
        hardware.events.schedule(time, SPACE_FOUND);
        self.step_at = None;
        self.wake(hardware, time);
        Some(time)
    }

    // ---- Indexes ---------------------------------------------------------------------------

    fn index_step(&mut self, hardware: &mut Hardware, now: Cycles) -> Result<Cycles, NoRoom> {
        let epoch = self.next_epoch(self.indexed, self.completed);
        let omcs = &self.omcs;
        let mut indexing = self.indexing.take().unwrap_or_else(|| Indexing {
            epoch,
            scans: (omcs.iter())
                .map(|omc| Scan::of(omc.tables.get(&epoch)))
                .collect(),
            blocks: vec![Vec::new(); omcs.len()],
        });
        let mut accepted = now;
        let mut result = Ok(());
        for omc in 0..self.omcs.len() {
            if indexing.scans[omc].is_over() {
                continue;
            }
            match self.index_block(hardware, &mut indexing, omc, now) {
                Ok(done) => accepted = accepted.max(done),
                Err(why) => result = Err(why),
            }
        }
        if indexing.scans.iter().all(Scan::is_over) {
            self.finish_index(indexing);
        } else {
            self.indexing = Some(indexing);
        }
        result.map(|()| self.paced(now, accepted))
    }

    /// Writes the next block of an OMC's index; returns when it was accepted.
    fn index_block(
        &mut self,
        hardware: &mut Hardware,
        indexing: &mut Indexing,
        omc: usize,
        now: Cycles,
    ) -> Result<Cycles, NoRoom> {
        let epoch = indexing.epoch;
        let blocks = &indexing.blocks[omc];
        let previous = blocks.last().map_or(self.omcs[omc].chains.index, link_to);
        let empty = BlockWriter::new(Kind::Epoch, omc, epoch, previous, blocks.len() as u32);
        let scan = &indexing.scans[omc];
        let table = self.omcs[omc].tables.get_mut(&epoch);
        let table = table.expect("a table that is scanned");
        let (writer, address, next) = fit_block(&mut self.pool, &empty, |pool, writer, units| {
            let mut next = scan.next;
            while let Some(&page) = scan.pages.get(next) {
                let overlay = table.page_mut(page as usize);
                if let Some((unit, units)) = overlay.trim() {
                    pool.free(unit, units);
                }
                if !writer.add_page(units, epoch, overlay) {
                    break;
                }
                next += 1;
            }
            next
        })?;
        self.note_peak();
        let bytes = writer.seal(address);
        let mut accepted = now;
        if self.flaws.registers_before_index {
            self.index_put_off.push((address, bytes.clone()));
        } else {
            let done = self.write(hardware, address, &bytes, Traffic::Metadata, now);
            self.index_durable = self.index_durable.max(done.durable);
            self.named_durable = self.named_durable.max(done.durable);
            accepted = done.accepted;
        }
        self.statistics.index_blocks += 1;
        self.statistics.index_bytes += bytes.len() as u64;
        indexing.scans[omc].next = next;
        indexing.blocks[omc].push(writer.header(address));
        Ok(accepted)
    }

    /// The next registers may name the epoch's index.
    fn finish_index(&mut self, indexing: Indexing) {
        for (omc, blocks) in self.omcs.iter_mut().zip(indexing.blocks) {
            if let Some(newest) = blocks.last() {
                omc.chains.index = link_to(newest);
            }
            omc.blocks.extend(blocks);
        }
        self.statistics.epochs_indexed += indexing.epoch - self.indexed;
        self.indexed = indexing.epoch;
        let later = self.versions_durable.split_off(&(indexing.epoch + 1));
        let versions = std::mem::replace(&mut self.versions_durable, later);
        self.index_durable = versions.into_values().fold(self.index_durable, Cycles::max);
        // Each OMC tells the master when all of its own are.
        let told = self.index_durable + self.message_cycles();
        self.named_durable = self.named_durable.max(told);
    }

    // ---- Registers -------------------------------------------------------------------------

    /// True if all that they will name is durable, and so is the other copy.
    pub(super) fn register_may_be_written(&self, now: Cycles) -> bool {
        self.register_durable <= now && self.named_durable <= now
    }

    /// Writes the registers as everything stands.
    pub(super) fn write_register(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        while let Some(&(durable, epoch)) = self.merges_durable.front()
            && durable <= now
        {
            self.merged_durably = epoch;
            self.merges_durable.pop_front();
        }
        let in_place = self.flaws.registers_in_place;
        let relinks = self.compaction.as_ref().is_some_and(Compaction::relinks);
        let register = Register {
            sequence: self.register.sequence + 1 + u64::from(in_place),
            recoverable: self.indexed,
            // From the base on, recovery merges everything again.
            merged: if relinks {
                self.horizon - 1
            } else {
                self.merged_durably
            },
            horizon: self.horizon,
            pool: self.register.pool.clone(),
            extent_bytes: self.register.extent_bytes,
            extents: self.pool.extents(),
            chains: self.omcs.iter().map(|omc| omc.chains).collect(),
        };
        let bytes = register.encode();
        let traffic = Traffic::Metadata;
        let done = self.write(hardware, register.address(), &bytes, traffic, now);
        for (address, bytes) in std::mem::take(&mut self.index_put_off) {
            self.write(hardware, address, &bytes, traffic, now);
        }
        self.statistics.register_writes += 1;
        self.statistics.register_bytes += bytes.len() as u64;
        self.overwritten_recoverable = self.other_recoverable;
        self.other_recoverable = self.register.recoverable;
        self.register = register;
        self.register_durable = done.durable;
        self.announcements.push_back((done.durable, self.indexed));
        hardware.events.schedule(done.durable, REGISTER_DURABLE);
        done.accepted
    }

    /// Epochs up to this one are named by both copies of the registers, whatever a power cut leaves
    /// of the one that is being written.
    fn mergeable(&self, now: Cycles) -> u64 {
        if self.flaws.merges_before_register {
            return self.indexed;
        }
        let newest = if self.register_durable <= now {
            self.register.recoverable
        } else {
            self.overwritten_recoverable
        };
        newest.min(self.other_recoverable)
    }

    /// The master OMC has written the registers and tells the others, before they merge.
    fn merge_allowed_at(&self, now: Cycles) -> Cycles {
        if self.register_durable <= now {
            self.register_durable + self.message_cycles()
        } else {
            now
        }
    }

    // ---- Merges ----------------------------------------------------------------------------

    fn merge_step(&mut self, hardware: &mut Hardware, now: Cycles) -> Result<Cycles, NoRoom> {
        let epoch = self.next_epoch(self.merged, self.mergeable(now));
        let omcs = &self.omcs;
        let mut merging = self.merging.take().unwrap_or_else(|| Merging {
            epoch,
            scans: (omcs.iter())
                .map(|omc| Scan::of(omc.tables.get(&epoch)))
                .collect(),
            pending: None,
            durable: 0,
        });
        let mut plans = Vec::new();
        let mut steps = 1;
        let mut durable = now;
        let mut accepted = now;
        let mut result = Ok(());
        for omc in 0..self.omcs.len() {
            if merging.scans[omc].is_over() {
                continue;
            }
            let (batch, next) = self.merge_batch(&merging, omc);
            let Some(plan) = self.plan(hardware, omc, &batch) else {
                result = Err(NoRoom);
                continue;
            };
            merging.scans[omc].next = next;
            self.statistics.merged_versions += batch.len() as u64;
            if self.flaws.links_before_node {
                self.write_master(hardware, &plan.updates, now);
            }
            let nodes = self.write_master(hardware, &plan.nodes, now);
            accepted = accepted.max(nodes.0);
            durable = durable.max(nodes.1);
            steps = steps.max(batch.len().div_ceil(self.parameters.merge_entries_per_step));
            plans.push(plan);
        }
        let rate = self.parameters.merge_step_cycles * steps as u64;
        let next = accepted.max(now + rate);
        if !plans.is_empty() {
            merging.pending = Some(Planned {
                plans,
                durable,
                next,
            });
            self.merging = Some(merging);
            let written = (durable == now).then(|| self.write_updates(hardware, now));
            return result.map(|()| written.unwrap_or(durable));
        }
        if merging.scans.iter().all(Scan::is_over) {
            self.finish_merge(&merging);
        } else {
            self.merging = Some(merging);
        }
        result.map(|()| next)
    }

    /// The versions of the epoch's next pages, with where they are; and how far the scan has then
    /// come. Pages are not divided, so that a new leaf is written once, with all that it gets.
    fn merge_batch(&self, merging: &Merging, omc: usize) -> (Vec<(u64, u64)>, usize) {
        let Scan { pages, next } = &merging.scans[omc];
        let mut next = *next;
        let most = self.parameters.merge_entries_per_step;
        let mut batch = Vec::new();
        let table = self.omcs[omc].tables.get(&merging.epoch);
        let table = table.expect("a table that is scanned");
        while batch.len() < most
            && let Some(&page) = pages.get(next)
        {
            let overlay = &table.pages()[page as usize];
            for (unit, words) in overlay.segments() {
                let start = self.pool.address(unit);
                batch.extend(words.iter().enumerate().map(|(slot, &word)| {
                    let line = line_number(overlay.page, line_of_word(word));
                    (line, start + (slot * LINE_BYTES) as u64)
                }));
            }
            next += 1;
        }
        if self.flaws.merge_skips_last && batch.len() > 1 {
            batch.pop();
        }
        (batch, next)
    }

    /// Plans to enter versions in an OMC's master table, if there is room.
    fn plan(&mut self, hardware: &Hardware, omc: usize, batch: &[(u64, u64)]) -> Option<Plan> {
        let pool = RefCell::new(&mut self.pool);
        let plan = master::plan(
            &hardware.memory.arena,
            self.omcs[omc].chains.root,
            batch.iter().copied(),
            &mut |units| {
                let unit = pool.borrow_mut().allocate_units(units)?;
                Some(pool.borrow().address(unit))
            },
            &mut |address, units| {
                let unit = pool.borrow().unit(address);
                pool.borrow_mut().free(unit, units);
            },
        );
        match plan {
            Ok(plan) => {
                self.note_peak();
                for (_, bytes) in &plan.nodes {
                    if bytes.len() == PAGE_BYTES as usize {
                        self.statistics.master_nodes += 1;
                    } else {
                        self.statistics.master_leaves += 1;
                    }
                }
                self.statistics.master_lines += plan.new_lines;
                Some(plan)
            }
            Err(Unplanned::NoRoom) => None,
            Err(Unplanned::Unreadable(why)) => {
                unreachable!("the OMC's own table: {why}")
            }
        }
    }

    /// Writes parts of master tables; returns when they are accepted and durable.
    pub(super) fn write_master(
        &mut self,
        hardware: &mut Hardware,
        parts: &[(u64, Vec<u8>)],
        now: Cycles,
    ) -> (Cycles, Cycles) {
        let (mut accepted, mut durable) = (now, now);
        for (address, bytes) in parts {
            let done = self.write(hardware, *address, bytes, Traffic::Metadata, now);
            accepted = accepted.max(done.accepted);
            durable = durable.max(done.durable);
            self.statistics.master_bytes += bytes.len() as u64;
        }
        (accepted, durable)
    }

    /// The new nodes are durable: they are linked, and entries change.
    fn write_updates(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        let mut merging = self.merging.take().expect("a merge with a plan");
        let planned = merging.pending.take().expect("a merge with a plan");
        let mut accepted = planned.next.max(now);
        for plan in &planned.plans {
            let (one, durable) = self.write_master(hardware, &plan.updates, now);
            accepted = accepted.max(one);
            merging.durable = merging.durable.max(durable);
        }
        if merging.scans.iter().all(Scan::is_over) {
            self.finish_merge(&merging);
        } else {
            self.merging = Some(merging);
        }
        accepted
    }

    /// The master tables have the epoch; its volatile tables are given up.
    fn finish_merge(&mut self, merging: &Merging) {
        self.statistics.epochs_merged += merging.epoch - self.merged;
        self.merged = merging.epoch;
        self.merges_durable
            .push_back((merging.durable, merging.epoch));
        for omc in &mut self.omcs {
            omc.tables.remove(&merging.epoch);
        }
    }

    /// The first epoch after one that has any version, or the last one that matters: those between
    /// are empty.
    fn next_epoch(&self, after: u64, last: u64) -> u64 {
        let tables = self.omcs.iter().map(|omc| &omc.tables);
        let next = tables.filter_map(|tables| Some(*tables.range(after + 1..).next()?.0));
        next.fold(last, u64::min)
    }
}

/// Puts into a block as much as the pool has units for. `fill` puts something into an empty block,
/// up to so many units, and says where it has stopped. Returns the block, its address, and that.
pub(super) fn fit_block(
    pool: &mut Pool,
    empty: &BlockWriter,
    mut fill: impl FnMut(&mut Pool, &mut BlockWriter, u32) -> usize,
) -> Result<(BlockWriter, u64, usize), NoRoom> {
    let mut most_units = PAGE_UNITS;
    while most_units > 0 {
        let mut writer = empty.clone();
        let stopped = fill(pool, &mut writer, most_units);
        if !writer.is_empty()
            && let Some(unit) = pool.allocate_units(writer.units())
        {
            return Ok((writer, pool.address(unit), stopped));
        }
        most_units /= 2;
    }
    Err(NoRoom)
}

impl BlockWriter {
    /// Adds all segments of an overlay page, or nothing.
    fn add_page(&mut self, units: u32, epoch: u64, overlay: &super::table::OverlayPage) -> bool {
        let before = self.length();
        for (unit, words) in overlay.segments() {
            let slots = words.iter().map(|&word| {
                Some(Slot {
                    line: line_of_word(word),
                    writer: word >> 6,
                    epoch,
                })
            });
            if !self.add(units, overlay.page, unit, slots) {
                self.truncate(before);
                return false;
            }
        }
        true
    }
}
