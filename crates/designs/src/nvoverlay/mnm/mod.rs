//! Multi-snapshot NVM Mapping (NVOverlay §V): everything below the overlay memory controllers.
//!
//! Versions come in as (epoch, line, bytes, writer). Every epoch's versions stay in NVM, found by an
//! index; a master table maps the newest recoverable image; any retained epoch can be read. Home
//! addresses in NVM are never written: they hold epoch 0, what memory was when snapshotting began.
//!
//! An epoch's way:
//! 1. A version gets a slot in a segment of the pool (per-epoch table `M_E`, [`table`]), and goes to
//!    the OMC buffer ([`buffer`]) or straight to the NVM.
//! 2. When all versions of an epoch have come ([`Mnm::complete`]), each OMC writes the epoch's index
//!    ([`format`]).
//! 3. Registers that name the indexes are written: rec-epoch has risen. There are two copies,
//!    written in turn, so that one is always whole.
//! 4. The versions are entered in the master table ([`master`]). Should the power fail meanwhile, the
//!    index is the redo log.
//! 5. When the pool has run out, compaction ([`compaction`]) raises the horizon, the oldest epoch
//!    that can be read.
//!
//! Steps 2 to 5 happen in the background ([`engine`]), each OMC at a stated rate, through the same
//! controller, link and banks as everything else.
//!
//! Always true here:
//! - Registers are written only when everything that they name is durable, the versions in the
//!   battery-backed buffer counting as durable.
//! - The master tables have no epoch that not both copies of the registers name as recoverable, so
//!   that whichever copy recovery finds whole, the master tables are not ahead of it.
//! - A unit is reused only when neither copy of the registers leads to it.
//!
//! What is not timed: the volatile tables and the OMCs' copy of the master tables, which they keep
//! in their DRAM (our assumption, after §V-A).

pub mod buffer;
pub mod bugs;
pub mod compaction;
pub mod delta;
mod drawn;
pub mod engine;
pub mod format;
pub mod master;
mod parameters;
pub mod pool;
pub mod recovery;
mod start;
pub mod statistics;
pub mod store;
pub mod table;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::{Accepted, Traffic};
use perdure_hardware::policy::{Evicted, PolicyFailure};
use perdure_hardware::time::Cycles;

use crate::rows;
use buffer::{Buffer, Put};
use bugs::Flaws;
use compaction::Compaction;
use engine::{Indexing, Merging};
use format::{Chains, Header, Link, Register, page_of};
pub use parameters::MnmParameters;
use pool::{Pool, order_of};
pub use recovery::recover;
pub use statistics::MnmStatistics;
pub use store::SNAPSHOTS;
use table::Table;

/// Event numbers that belong to the mapping.
pub const EVENTS: Range<u32> = 16..20;
const STEP: u32 = EVENTS.start;
const REGISTER_DURABLE: u32 = EVENTS.start + 1;
const SPACE_FOUND: u32 = EVENTS.start + 2;
const COMPLETED: u32 = EVENTS.start + 3;

/// From a version's arrival until the OMC buffer has it, and the battery guards it. Whoever sends the
/// version does not wait for that: evictions are off the critical path (§IV-E). (ours)
const BUFFER_CYCLES: Cycles = 8;

/// The pool keeps one unit in so many for indexes, master tables and compaction. (ours)
const RESERVED_ONE_IN: u64 = 8;

/// When insertions may take fewer than one unit in so many, compaction begins in the background.
/// (ours)
const SHORT_ONE_IN: u64 = 16;

/// One overlay memory controller.
#[derive(Clone, Debug)]
struct Omc {
    /// Tables of epochs that are not merged yet.
    tables: BTreeMap<u64, Table>,
    buffer: Buffer,
    /// As the next registers will name them.
    chains: Chains,
    /// All blocks of epoch indexes, oldest first.
    blocks: VecDeque<Header>,
    /// All blocks of the base index.
    base_blocks: Vec<Header>,
}

/// The mapping. All of it but what `drain` shows is lost at power-off.
#[derive(Clone, Debug)]
pub struct Mnm {
    parameters: MnmParameters,
    flaws: Flaws,
    row_bytes: u64,
    pool: Pool,
    omcs: Vec<Omc>,
    /// Messages on their way to the master OMC: when each arrives, and up to which epoch every version
    /// has arrived.
    told: VecDeque<(Cycles, u64)>,
    /// Every version of epochs up to this one has arrived.
    completed: u64,
    /// Epochs up to this one have their indexes written.
    indexed: u64,
    /// Epochs up to this one are in the master tables.
    merged: u64,
    /// The oldest epoch that can be read.
    horizon: u64,
    /// When the versions of each incomplete epoch are durable, as far as they have arrived.
    versions_durable: BTreeMap<u64, Cycles>,
    /// When all indexes are durable, and the versions that they name.
    named_durable: Cycles,
    /// The same without the messages that tell the master OMC.
    index_durable: Cycles,
    /// Merged epochs whose entries are on their way, and when each has all of them in NVM.
    merges_durable: VecDeque<(Cycles, u64)>,
    /// The master tables in NVM have all epochs up to this one.
    merged_durably: u64,
    /// The registers last written, and when they are durable.
    register: Register,
    register_durable: Cycles,
    /// The rec-epoch of the other copy.
    other_recoverable: u64,
    /// The rec-epoch of the copy that was there before.
    overwritten_recoverable: u64,
    /// Registers under way: when each is durable, and its rec-epoch.
    announcements: VecDeque<(Cycles, u64)>,
    recoverable: u64,
    indexing: Option<Indexing>,
    /// Only a planted bug puts index blocks off.
    index_put_off: Vec<(u64, Vec<u8>)>,
    merging: Option<Merging>,
    compaction: Option<Compaction>,
    /// Background work waits for units, so compaction goes first.
    starved: bool,
    /// When the next step is due.
    step_at: Option<Cycles>,
    /// Nothing may be written to the pool before this: freed units become free then.
    fence: Cycles,
    /// Insertions wait for space until then.
    waits_until: Option<Cycles>,
    statistics: MnmStatistics,
}

impl Mnm {
    /// A version arrives at its OMC.
    pub fn insert(
        &mut self,
        hardware: &mut Hardware,
        epoch: u64,
        line: LineNumber,
        bytes: &Line,
        writer: u16,
        now: Cycles,
    ) -> Evicted {
        let dropped = Evicted {
            accepted: now,
            durable: now,
        };
        self.statistics.versions += 1;
        if epoch <= self.completed {
            self.statistics.versions_late += 1;
            return dropped;
        }
        let (page, line_in_page) = page_of(line);
        let omc = (page % self.omcs.len() as u64) as usize;
        self.omcs[omc].buffer.settle(hardware.memory.horizon());
        let mut start = now.max(self.fence);
        let (epoch_of_slot, number) = self.page_for(omc, epoch, page, line_in_page);
        let (place, redundant) = loop {
            let table = self.omcs[omc].tables.entry(epoch_of_slot).or_default();
            let overlay = table.page_mut(number);
            if let Some(slot) = overlay.slot(line_in_page) {
                overlay.set_writer(slot, writer);
                break (overlay.place(slot), true);
            }
            let Some(units) = overlay.wants_units() else {
                let slot = overlay.add(line_in_page, writer);
                break (overlay.place(slot), false);
            };
            if let Some((unit, units)) = self.allocate_segment(units) {
                let table = self.omcs[omc].tables.entry(epoch_of_slot).or_default();
                table.page_mut(number).add_segment(unit, units);
                if self.compaction.is_none() && self.is_short() && self.merged > self.horizon {
                    self.wake(hardware, now);
                }
                continue;
            }
            let Some(found) = self.make_room(hardware, start) else {
                return dropped;
            };
            self.statistics.space_wait_cycles += found - start;
            start = found;
        };
        self.statistics.versions_redundant += u64::from(redundant);
        let address = self.pool.address(place.0) + (place.1 * LINE_BYTES) as u64;
        let buffer = &mut self.omcs[omc].buffer;
        let evicted = if buffer.exists() {
            let guarded = start + BUFFER_CYCLES;
            let accepted = match buffer.put((line, epoch), address, bytes, guarded) {
                Put::New => start,
                Put::Again => {
                    self.statistics.buffer_hits += 1;
                    start
                }
                // Its entry is free when the controller has taken the one that had it.
                Put::Displaced(victim) => {
                    self.statistics.buffer_evictions += 1;
                    self.write_version(hardware, omc, victim, start).accepted
                }
            };
            Evicted {
                accepted,
                durable: guarded,
            }
        } else {
            self.statistics.data_bytes += LINE_BYTES as u64;
            let done = self.write_slot(hardware, line, address, bytes, start);
            done.into()
        };
        let durable = self.versions_durable.entry(epoch).or_default();
        *durable = evicted.durable.max(*durable);
        evicted
    }

    /// The table and page that a version goes to.
    fn page_for(&mut self, omc: usize, epoch: u64, page: u64, line: u8) -> (u64, usize) {
        let tables = &mut self.omcs[omc].tables;
        if self.flaws.takes_slot_of_older_epoch
            && let Some((&older, table)) = tables.range_mut(..epoch).next_back()
            && let Some(overlay) = table.find(page)
            && overlay.slot(line).is_some()
        {
            return (older, table.page(page));
        }
        (epoch, tables.entry(epoch).or_default().page(page))
    }

    /// A segment of so many units, or a smaller one, as far as insertions may take units.
    fn allocate_segment(&mut self, units: u32) -> Option<(u32, u32)> {
        let reserve = self.reserve();
        for order in (0..=order_of(units)).rev() {
            let units = 1u32 << order;
            if self.pool.free_units() < reserve + u64::from(units) {
                continue;
            }
            if let Some(unit) = self.pool.allocate(order) {
                self.statistics.segments += 1;
                self.note_peak();
                return Some((unit, units));
            }
        }
        None
    }

    /// Units that insertions leave alone.
    fn reserve(&self) -> u64 {
        self.pool.quota_units() / RESERVED_ONE_IN
    }

    fn note_peak(&mut self) {
        let peak = &mut self.statistics.units_used_peak;
        *peak = self.pool.used_units().max(*peak);
    }

    /// Writes a version that the buffer gives up.
    fn write_version(
        &mut self,
        hardware: &mut Hardware,
        omc: usize,
        held: buffer::Held,
        now: Cycles,
    ) -> Accepted {
        self.statistics.data_bytes += LINE_BYTES as u64;
        let done = self.write_slot(hardware, held.key.0, held.address, &held.bytes, now);
        self.omcs[omc].buffer.leave(held, done.durable);
        done
    }

    /// Writes a version of a line to its slot.
    fn write_slot(
        &self,
        hardware: &mut Hardware,
        line: LineNumber,
        address: u64,
        bytes: &Line,
        now: Cycles,
    ) -> Accepted {
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let traffic = Traffic::WriteBack;
        memory.write_block_of(
            line, address, &bytes.0, traffic, now, self.fence, statistics,
        )
    }

    /// Writes bytes to the pool, row by row.
    fn write(
        &self,
        hardware: &mut Hardware,
        address: u64,
        bytes: &[u8],
        traffic: Traffic,
        now: Cycles,
    ) -> Accepted {
        rows::write(hardware, address, bytes, traffic, now, self.fence)
    }

    /// Every version of epochs up to `epoch` has arrived: `E_r` (§V-B) has risen, as the sharing groups
    /// that say so at `now` tell the master OMC.
    pub fn complete(&mut self, hardware: &mut Hardware, epoch: u64, now: Cycles) {
        let told = now + self.parameters.message_cycles;
        self.told.push_back((told, epoch));
        hardware.events.schedule(told, COMPLETED);
    }

    /// What a message from one OMC to another takes; a single one sends none.
    fn message_cycles(&self) -> Cycles {
        match self.omcs.len() {
            1 => 0,
            _ => self.parameters.message_cycles,
        }
    }

    /// One of the mapping's own events is due.
    pub fn fired(&mut self, hardware: &mut Hardware, event: u32, now: Cycles) {
        match event {
            STEP if self.step_at == Some(now) => {
                self.step_at = None;
                if let Some(next) = self.stepped(hardware, now) {
                    self.wake(hardware, next);
                }
            }
            REGISTER_DURABLE => {
                while let Some(&(durable, epoch)) = self.announcements.front()
                    && durable <= now
                {
                    self.recoverable = epoch;
                    self.announcements.pop_front();
                }
            }
            COMPLETED => {
                while let Some(&(told, epoch)) = self.told.front()
                    && told <= now
                {
                    self.told.pop_front();
                    if epoch > self.completed {
                        self.completed = epoch;
                        self.wake(hardware, now);
                    }
                }
            }
            SPACE_FOUND if self.waits_until.is_some_and(|until| until <= now) => {
                self.waits_until = None;
            }
            _ => {}
        }
    }

    /// rec-epoch as it is durable in NVM now.
    pub fn recoverable(&self) -> u64 {
        self.recoverable
    }

    /// The oldest epoch that can be read.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// True while a message, an index, a merge, a compaction or a register write is under way.
    pub fn busy(&self) -> bool {
        self.step_at.is_some() || !self.announcements.is_empty() || !self.told.is_empty()
    }

    /// What the mapping is doing, for coverage.
    pub fn phase(&self) -> &'static str {
        if self.waits_until.is_some() {
            "waiting for space"
        } else if let Some(compaction) = &self.compaction {
            compaction.phase()
        } else if self.indexed < self.completed {
            "index"
        } else if !self.announcements.is_empty() {
            "register"
        } else if self.merging.is_some() {
            "merge"
        } else {
            "idle"
        }
    }

    /// What the batteries write to the NVM if the power fails at a time: addresses and bytes, in
    /// order. At that time nothing that is to start later has been done.
    pub fn drain(&self, at: Cycles) -> impl Iterator<Item = (u64, &Line)> {
        let forgetful = self.flaws.leaves_victim_unguarded;
        self.omcs
            .iter()
            .flat_map(move |omc| omc.buffer.drain(at, forgetful))
    }

    /// Counters.
    pub fn statistics(&self) -> &MnmStatistics {
        &self.statistics
    }

    fn fail(&mut self, hardware: &mut Hardware) {
        let message = format!(
            "the snapshots of the newest image alone fill the pool of {} bytes: raise \
             nvoverlay.pool_limit_bytes or nvm.bytes",
            self.pool.quota_units() * format::UNIT_BYTES
        );
        hardware.failure.get_or_insert(PolicyFailure(message));
    }
}

/// A chain's head after a block was put before it.
fn link_to(header: &Header) -> Link {
    Link {
        address: header.address,
        epoch: header.epoch,
    }
}
