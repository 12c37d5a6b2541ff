//! Version compaction (§V-D): the horizon rises to an epoch H, and of all versions of epochs up to H
//! only the newest of each line stays.
//!
//! 1. What the OMC buffers hold of these epochs is written out.
//! 2. The epochs' indexes are read, from the newest to the oldest. A version whose line was seen
//!    before is dead. Units without any live version will be freed, whatever segment they lie in.
//! 3. Runs of units that are at most half alive are given up as well, if that saves units: their
//!    versions are copied to new segments.
//! 4. A base index for H is written. It has all that stays.
//! 5. The registers switch to the new horizon and base. They also say that the master tables lack
//!    everything from the base on: should the power fail now, recovery merges it all again.
//! 6. Master entries of moved lines change to the new places.
//! 7. The registers say that the master tables are complete again. Now neither copy of them leads to
//!    an old unit: these are freed.
//!
//! What differs from the paper, which copies the versions "as if these addresses were written in the
//! current epoch": ours keep their epochs, so that every epoch from H on still reads as it was.
//!
//! Always true here:
//! - Each stage begins when all writes of those before it are durable.
//! - Nothing that the registers lead to is overwritten or freed before stage 7 is over.

use std::collections::BTreeMap;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::PolicyFailure;
use perdure_hardware::time::Cycles;

use super::engine::{NoRoom, fit_block};
use super::format::{
    BlockWriter, ChainReader, Header, Kind, Link, PAGE_UNITS, Segment, Slot, UNIT_BYTES,
    UNIT_LINES, line_number,
};
use super::master::{self, Lookup};
use super::pool::Pool;
use super::{Mnm, Omc, link_to};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Drain,
    Read,
    Copy,
    Index,
    Switch,
    Relink,
    Settle,
    Free,
}

/// Consecutive units of the pool, with the versions in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// First unit.
    pub unit: u32,
    /// One for each line of the units, `None` if nothing there is needed; the last may be left out.
    pub slots: Vec<Option<Slot>>,
}

impl Run {
    fn units(&self) -> u32 {
        self.slots.len().div_ceil(UNIT_LINES) as u32
    }

    fn live(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// At most half of its lines are needed.
    fn is_sparse(&self) -> bool {
        2 * self.live() <= self.units() as usize * UNIT_LINES
    }
}

/// A page of the image at the horizon, as it is put together from newest to oldest.
#[derive(Clone, Debug, Default)]
struct Page {
    /// Lines that have been seen.
    seen: u64,
    runs: Vec<Run>,
}

/// A version that is copied.
#[derive(Clone, Copy, Debug)]
struct Move {
    line: LineNumber,
    from: u64,
    to: u64,
}

/// One OMC's part.
#[derive(Clone, Debug, Default)]
struct Part {
    /// Blocks to read, newest first.
    old: Vec<Header>,
    read: usize,
    pages: BTreeMap<u64, Page>,
    moves: Vec<Move>,
    /// How many of them are read, and written or linked.
    done: usize,
    /// The base: page and run, in order; how many are in blocks.
    base: Vec<(u64, Run)>,
    indexed: usize,
    blocks: Vec<Header>,
    garbage: Vec<(u32, u32)>,
}

/// A compaction under way.
#[derive(Clone, Debug)]
pub struct Compaction {
    horizon: u64,
    stage: Stage,
    parts: Vec<Part>,
    /// What was read so far has arrived, or the registers are durable, by then.
    after: Cycles,
    /// What was written so far is durable by then.
    durable: Cycles,
    /// Moves of each part whose bytes arrive by `after`.
    arriving: Vec<usize>,
    discarded: u64,
}

impl Compaction {
    /// One that raises the horizon to an epoch which is merged.
    pub(super) fn new(horizon: u64, omcs: &[Omc]) -> Self {
        let parts = omcs.iter().map(|omc| {
            let epochs = omc.blocks.iter().filter(|block| block.epoch <= horizon);
            Part {
                old: epochs.rev().chain(&omc.base_blocks).copied().collect(),
                ..Part::default()
            }
        });
        let parts: Vec<_> = parts.collect();
        Self {
            horizon,
            stage: Stage::Drain,
            arriving: vec![0; parts.len()],
            parts,
            after: 0,
            durable: 0,
            discarded: 0,
        }
    }

    /// True while some master entries name units that are to be freed.
    pub(super) fn relinks(&self) -> bool {
        self.stage == Stage::Relink && self.parts.iter().any(|part| !part.moves.is_empty())
    }

    /// For coverage.
    pub(super) fn phase(&self) -> &'static str {
        match self.stage {
            Stage::Drain | Stage::Read => "compaction: reading",
            Stage::Copy => "compaction: copying",
            Stage::Index => "compaction: index",
            Stage::Switch => "compaction: switch",
            Stage::Relink | Stage::Settle => "compaction: relinking",
            Stage::Free => "compaction: freeing",
        }
    }
}

impl Part {
    /// A segment of an older epoch than all before it.
    fn take_in(&mut self, segment: &Segment, keeps_oldest: bool) -> u64 {
        let page = self.pages.entry(segment.page).or_default();
        let mut discarded = 0;
        let mut keep = |slot: Slot| {
            let bit = 1u64 << slot.line;
            let newest = page.seen & bit == 0;
            page.seen |= bit;
            discarded += u64::from(!newest);
            newest
        };
        let mut slots: Vec<_> = segment.slots().collect();
        if keeps_oldest {
            for slot in slots.iter().flatten() {
                page.runs.iter_mut().for_each(|run| run.forget(slot.line));
            }
        } else {
            for slot in &mut slots {
                *slot = slot.filter(|&slot| keep(slot));
            }
        }
        let mut open = None;
        for (index, lines) in slots.chunks(UNIT_LINES).enumerate() {
            let unit = segment.unit + index as u32;
            if lines.iter().all(Option::is_none) {
                self.garbage.push((unit, 1));
                open = None;
                continue;
            }
            let at = *open.get_or_insert_with(|| {
                let slots = Vec::new();
                page.runs.push(Run { unit, slots });
                page.runs.len() - 1
            });
            page.runs[at].slots.extend_from_slice(lines);
        }
        discarded
    }

    /// Everything is read: decides what moves where, and what the base has. `room` is how many units
    /// copies may take.
    fn decide(&mut self, pool: &mut Pool, mut room: u64) {
        for (number, page) in std::mem::take(&mut self.pages) {
            let (sparse, mut runs): (Vec<_>, Vec<_>) =
                page.runs.into_iter().partition(Run::is_sparse);
            let live: usize = sparse.iter().map(Run::live).sum();
            let units: u32 = sparse.iter().map(Run::units).sum();
            let needed = live.div_ceil(UNIT_LINES) as u32;
            let saves = needed < units && u64::from(needed) <= room;
            match saves.then(|| pool.allocate_units(needed)).flatten() {
                None => runs.extend(sparse),
                Some(unit) => {
                    room -= u64::from(needed);
                    runs.push(self.gather(number, &sparse, unit, pool));
                    self.garbage
                        .extend(sparse.iter().map(|run| (run.unit, run.units())));
                }
            }
            runs.retain(|run| run.live() > 0);
            runs.sort_unstable_by_key(|run| run.unit);
            self.base.extend(runs.into_iter().map(|run| (number, run)));
        }
    }

    /// The run of all versions of some others, in the order of lines.
    fn gather(&mut self, page: u64, sparse: &[Run], unit: u32, pool: &Pool) -> Run {
        let mut from: Vec<(Slot, u64)> = Vec::new();
        for run in sparse {
            let address = pool.address(run.unit);
            let slots = run.slots.iter().enumerate();
            let slots = slots.filter_map(|(at, slot)| Some(((*slot)?, at)));
            from.extend(slots.map(|(slot, at)| (slot, address + (at * LINE_BYTES) as u64)));
        }
        from.sort_unstable_by_key(|(slot, _)| slot.line);
        let to = pool.address(unit);
        for (at, &(slot, from)) in from.iter().enumerate() {
            self.moves.push(Move {
                line: line_number(page, slot.line),
                from,
                to: to + (at * LINE_BYTES) as u64,
            });
        }
        Run {
            unit,
            slots: from.iter().map(|(slot, _)| Some(*slot)).collect(),
        }
    }
}

impl Run {
    fn forget(&mut self, line: u8) {
        for slot in &mut self.slots {
            *slot = slot.filter(|slot| slot.line != line);
        }
    }
}

impl Mnm {
    /// A step of the compaction under way.
    pub(super) fn compaction_step(
        &mut self,
        hardware: &mut Hardware,
        now: Cycles,
    ) -> Result<Cycles, NoRoom> {
        let mut compaction = self.compaction.take().expect("a compaction under way");
        let waits = match compaction.stage {
            Stage::Drain | Stage::Read | Stage::Index => 0,
            Stage::Copy | Stage::Relink | Stage::Free => compaction.after,
            Stage::Switch | Stage::Settle => {
                let named = self.named_durable.max(self.register_durable);
                compaction.durable.max(named)
            }
        };
        if now < waits {
            self.compaction = Some(compaction);
            return Ok(waits);
        }
        let step = match compaction.stage {
            Stage::Drain => Ok(self.drain_old(hardware, &mut compaction, now)),
            Stage::Read => Ok(self.read_old(hardware, &mut compaction, now)),
            Stage::Copy => Ok(self.copy(hardware, &mut compaction, now)),
            Stage::Index => self.index_base(hardware, &mut compaction, now),
            Stage::Switch => {
                self.switch(&mut compaction);
                self.compaction = Some(compaction);
                let accepted = self.write_register(hardware, now);
                let compaction = self.compaction.as_mut().expect("it goes on");
                compaction.after = self.register_durable;
                return Ok(self.paced(now, accepted));
            }
            Stage::Relink => Ok(self.relink(hardware, &mut compaction, now)),
            Stage::Settle => {
                compaction.stage = Stage::Free;
                self.compaction = Some(compaction);
                let accepted = self.write_register(hardware, now);
                let compaction = self.compaction.as_mut().expect("it goes on");
                compaction.after = self.register_durable;
                return Ok(self.paced(now, accepted));
            }
            Stage::Free => {
                self.free(&mut compaction);
                self.fence = self.fence.max(now);
                self.statistics.compactions += 1;
                self.statistics.versions_discarded += compaction.discarded;
                self.starved = false;
                return Ok(now);
            }
        };
        self.compaction = Some(compaction);
        step
    }

    fn drain_old(
        &mut self,
        hardware: &mut Hardware,
        compaction: &mut Compaction,
        now: Cycles,
    ) -> Cycles {
        let mut accepted = now;
        for omc in 0..self.omcs.len() {
            for held in self.omcs[omc].buffer.take_until(compaction.horizon) {
                let done = self.write_version(hardware, omc, held, now);
                accepted = accepted.max(done.accepted);
                compaction.durable = compaction.durable.max(done.durable);
            }
        }
        compaction.stage = Stage::Read;
        self.paced(now, accepted)
    }

    /// Each OMC reads a block.
    fn read_old(
        &mut self,
        hardware: &mut Hardware,
        compaction: &mut Compaction,
        now: Cycles,
    ) -> Cycles {
        let keeps_oldest = self.flaws.compacts_to_oldest;
        let mut arrived = now;
        for (omc, part) in compaction.parts.iter_mut().enumerate() {
            let Some(&header) = part.old.get(part.read) else {
                continue;
            };
            part.read += 1;
            let mut address = header.address;
            let end = address + u64::from(header.units) * UNIT_BYTES;
            while address < end {
                let piece = (self.row_bytes - address % self.row_bytes).min(end - address);
                let Hardware {
                    memory, statistics, ..
                } = hardware;
                let done = memory.read_block(address, piece as usize, now, statistics);
                arrived = arrived.max(done);
                address += piece;
            }
            let reader = ChainReader::new(&hardware.memory.arena, &self.register, omc);
            let read = reader.block(link_to(&header), header.kind, |segment| {
                compaction.discarded += part.take_in(&segment, keeps_oldest);
                Ok(())
            });
            if let Err(why) = read {
                hardware
                    .failure
                    .get_or_insert(PolicyFailure(why.to_string()));
            }
            part.garbage
                .push((self.pool.unit(header.address), header.units));
        }
        let parts = &mut compaction.parts;
        if parts.iter().all(|part| part.read == part.old.len()) {
            // The base index must have room, whatever moves: a block of a page holds 200 bytes a
            // unit at least.
            let runs = parts.iter().flat_map(|part| part.pages.values());
            let runs = runs.flat_map(|page| &page.runs);
            let bytes: usize = runs.map(|run| 12 + 4 * run.slots.len()).sum();
            let base = (bytes as u64).div_ceil(200) + u64::from(PAGE_UNITS) * parts.len() as u64;
            for part in parts {
                let room = self.pool.free_units().saturating_sub(base);
                part.decide(&mut self.pool, room);
            }
            self.note_peak();
            compaction.stage = Stage::Copy;
            if self.flaws.frees_before_switch {
                self.free(compaction);
            }
        }
        self.paced(now, arrived)
    }

    /// Each OMC writes what it has read, and reads some more.
    fn copy(
        &mut self,
        hardware: &mut Hardware,
        compaction: &mut Compaction,
        now: Cycles,
    ) -> Cycles {
        let mut accepted = now;
        let most = self.parameters.merge_entries_per_step;
        for part in 0..compaction.parts.len() {
            let arrived = std::mem::take(&mut compaction.arriving[part]);
            let part = &mut compaction.parts[part];
            for one in &part.moves[part.done..][..arrived] {
                let arena = &hardware.memory.arena;
                let bytes = *arena.line(one.from);
                let traffic = Traffic::Flush;
                let done = self.write(hardware, one.to, &bytes.0, traffic, now);
                accepted = accepted.max(done.accepted);
                compaction.durable = compaction.durable.max(done.durable);
                self.statistics.compaction_copies += 1;
                self.statistics.compaction_bytes += LINE_BYTES as u64;
            }
            part.done += arrived;
        }
        let mut over = true;
        for (part, arriving) in compaction.parts.iter().zip(&mut compaction.arriving) {
            let rest = &part.moves[part.done..];
            let batch = &rest[..rest.len().min(most)];
            for one in batch {
                let Hardware {
                    memory, statistics, ..
                } = hardware;
                let done = memory.read_block(one.from, LINE_BYTES, now, statistics);
                compaction.after = compaction.after.max(done);
            }
            *arriving = batch.len();
            over &= batch.is_empty();
        }
        if over {
            compaction.stage = Stage::Index;
        }
        self.paced(now, accepted).max(compaction.after)
    }

    /// Each OMC writes a block of the base index.
    fn index_base(
        &mut self,
        hardware: &mut Hardware,
        compaction: &mut Compaction,
        now: Cycles,
    ) -> Result<Cycles, NoRoom> {
        let mut accepted = now;
        let horizon = compaction.horizon;
        for (omc, part) in compaction.parts.iter_mut().enumerate() {
            if part.indexed == part.base.len() {
                continue;
            }
            let previous = part.blocks.last().map_or(Link::default(), link_to);
            let number = part.blocks.len() as u32;
            let empty = BlockWriter::new(Kind::Base, omc, horizon, previous, number);
            let (writer, address, next) = fit_block(&mut self.pool, &empty, |_, writer, units| {
                let mut next = part.indexed;
                while let Some((page, run)) = part.base.get(next)
                    && writer.add(units, *page, run.unit, run.slots.iter().copied())
                {
                    next += 1;
                }
                next
            })?;
            self.note_peak();
            let bytes = writer.seal(address);
            let traffic = Traffic::Metadata;
            let done = self.write(hardware, address, &bytes, traffic, now);
            accepted = accepted.max(done.accepted);
            compaction.durable = compaction.durable.max(done.durable);
            self.statistics.compaction_bytes += bytes.len() as u64;
            part.indexed = next;
            part.blocks.push(writer.header(address));
        }
        let parts = &compaction.parts;
        if parts.iter().all(|part| part.indexed == part.base.len()) {
            compaction.stage = Stage::Switch;
        }
        Ok(self.paced(now, accepted))
    }

    /// The next registers name the new base.
    fn switch(&mut self, compaction: &mut Compaction) {
        self.horizon = compaction.horizon;
        for (omc, part) in self.omcs.iter_mut().zip(&mut compaction.parts) {
            omc.blocks.retain(|block| block.epoch > compaction.horizon);
            omc.chains.base = part.blocks.last().map_or(0, |block| block.address);
            omc.base_blocks = part.blocks.iter().rev().copied().collect();
            part.done = 0;
        }
        compaction.stage = Stage::Relink;
    }

    /// Each OMC changes some entries of its master table.
    fn relink(
        &mut self,
        hardware: &mut Hardware,
        compaction: &mut Compaction,
        now: Cycles,
    ) -> Cycles {
        let mut accepted = now;
        let most = self.parameters.merge_entries_per_step;
        for (omc, part) in compaction.parts.iter_mut().enumerate() {
            let rest = &part.moves[part.done..];
            let batch = &rest[..rest.len().min(most)];
            let arena = &hardware.memory.arena;
            let root = self.omcs[omc].chains.root;
            let mut lookup = Lookup::new(root);
            // A line that has been written since has a newer version there.
            let mut old = |one: &&Move| lookup.find(arena, one.line) == Ok(Some(one.from));
            let moved: Vec<_> = batch.iter().filter(&mut old).collect();
            let moved = moved.into_iter().map(|one| (one.line, one.to));
            let plan = master::plan(arena, root, moved, &mut |_| None, &mut |_, _| {});
            part.done += batch.len();
            let Ok(plan) = plan else {
                hardware.failure.get_or_insert(PolicyFailure(
                    "the master table in NVM is not as it was written".into(),
                ));
                return now;
            };
            if self.flaws.leaves_copies_unlinked {
                continue;
            }
            let before = self.statistics.master_bytes;
            let (one, durable) = self.write_master(hardware, &plan.updates, now);
            self.statistics.compaction_bytes += self.statistics.master_bytes - before;
            accepted = accepted.max(one);
            compaction.durable = compaction.durable.max(durable);
        }
        let parts = &compaction.parts;
        if parts.iter().all(|part| part.done == part.moves.len()) {
            compaction.stage = Stage::Settle;
        }
        self.paced(now, accepted)
    }

    /// Nothing leads to the old units any more.
    fn free(&mut self, compaction: &mut Compaction) {
        for part in &mut compaction.parts {
            for (unit, units) in part.garbage.drain(..) {
                self.pool.free(unit, units);
                self.statistics.units_freed += u64::from(units);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(lines: &[u8]) -> Vec<Option<Slot>> {
        let slot = |line| Slot {
            line,
            writer: 0,
            epoch: 1,
        };
        let lines = lines.iter();
        lines
            .map(|&line| (line != 99).then_some(slot(line)))
            .collect()
    }

    #[test]
    fn sparse_runs_of_a_page_move_together_if_that_saves_units() {
        let mut pool = Pool::new(4096..4096 + (64 << 10), 64 << 10, 64 << 10);
        pool.grow();
        let taken = pool.allocate(4).expect("there is room");
        let run = |unit: u32, lines: &[u8]| Run {
            unit: taken + unit,
            slots: slots(lines),
        };
        let dense = run(0, &[1, 2, 99, 3]);
        let mut part = Part::default();
        let page = part.pages.entry(7).or_default();
        page.runs = vec![dense.clone(), run(1, &[99, 9, 99, 4]), run(3, &[99, 99, 5])];
        let lonely = part.pages.entry(8).or_default();
        lonely.runs = vec![run(4, &[6])];
        part.decide(&mut pool, 16);
        assert_eq!(part.moves.len(), 3);
        assert_eq!(part.garbage, [(taken + 1, 1), (taken + 3, 1)]);
        let lines: Vec<u64> = part.moves.iter().map(|one| one.line % 64).collect();
        assert_eq!(lines, [4, 5, 9]);
        assert_eq!(part.moves[1].from, pool.address(taken + 3) + 2 * 64);
        assert_eq!(part.base.len(), 3);
        assert_eq!(part.base[0], (7, dense));
        assert_eq!(part.base[1].1.slots, slots(&[4, 5, 9]));
        assert_eq!(part.base[2].0, 8, "a single run gains nothing by moving");
    }
}
