//! The pool of NVM units: a bitmap, and which pages of it have room for what (§V-C).
//!
//! It is volatile and the same for all OMCs; recovery and start mark again what indexes and master
//! tables use. Units are handed out in aligned runs of 1, 2, 4, 8 or 16, from the fullest pages that
//! have such a run (best fit), so that whole pages stay whole.
//!
//! Always true here:
//! - Free units are those whose bit is clear in an extent that the kernel has granted.
//! - A page is listed under the longest aligned run that is free in it.

use std::collections::BTreeSet;
use std::ops::Range;

use super::format::{PAGE_BYTES, PAGE_UNITS, UNIT_BYTES};
use crate::surviving::Corruption;

/// Orders of runs: 2⁰ to 2⁴ units.
const ORDERS: usize = 5;

/// The smallest order that has so many units.
pub fn order_of(units: u32) -> usize {
    units.next_power_of_two().trailing_zeros() as usize
}

/// The pool.
#[derive(Clone, Debug)]
pub struct Pool {
    area: Range<u64>,
    extent_bytes: u64,
    extents_max: u64,
    extents: u64,
    /// Used units of each page in the whole area, one bit for each.
    used: Vec<u16>,
    /// Pages with room, by the order of their longest free run.
    with_room: [BTreeSet<u32>; ORDERS],
    free_units: u64,
}

/// The order of the longest aligned free run of a page.
fn longest_run(used: u16) -> Option<usize> {
    (0..ORDERS)
        .rev()
        .find(|&order| first_run(used, order).is_some())
}

/// The first aligned free run of that order.
fn first_run(used: u16, order: usize) -> Option<u32> {
    let length = 1 << order;
    let mask = ((1u32 << length) - 1) as u16;
    (0..PAGE_UNITS)
        .step_by(length)
        .find(|&at| used >> at & mask == 0)
}

impl Pool {
    /// A pool over an area that may grow to `limit_bytes`, with no extent yet.
    pub fn new(area: Range<u64>, extent_bytes: u64, limit_bytes: u64) -> Self {
        let bytes = area.end - area.start;
        Self {
            extents_max: limit_bytes.min(bytes) / extent_bytes,
            area,
            extent_bytes,
            extents: 0,
            used: vec![0; (bytes / PAGE_BYTES) as usize],
            with_room: Default::default(),
            free_units: 0,
        }
    }

    /// Address of a unit.
    pub fn address(&self, unit: u32) -> u64 {
        self.area.start + u64::from(unit) * UNIT_BYTES
    }

    /// The unit that an address of the pool lies in.
    pub fn unit(&self, address: u64) -> u32 {
        ((address - self.area.start) / UNIT_BYTES) as u32
    }

    /// The area.
    pub fn area(&self) -> &Range<u64> {
        &self.area
    }

    /// Extents granted.
    pub fn extents(&self) -> u64 {
        self.extents
    }

    /// Units that nobody uses.
    pub fn free_units(&self) -> u64 {
        self.free_units
    }

    /// Units that somebody uses.
    pub fn used_units(&self) -> u64 {
        self.extents * (self.extent_bytes / UNIT_BYTES) - self.free_units
    }

    /// Units that the pool may have in the end.
    pub fn quota_units(&self) -> u64 {
        self.extents_max * (self.extent_bytes / UNIT_BYTES)
    }

    /// True if the kernel would grant another extent.
    pub fn can_grow(&self) -> bool {
        self.extents < self.extents_max
    }

    /// The kernel grants another extent, if it may.
    pub fn grow(&mut self) -> bool {
        if !self.can_grow() {
            return false;
        }
        let pages = self.extent_bytes / PAGE_BYTES;
        let first = self.extents * pages;
        self.extents += 1;
        // Sets of many pages are made at once: one by one, an extent's take the host as long as a short run.
        let mut more: [Vec<u32>; ORDERS] = Default::default();
        for page in first..first + pages {
            let used = self.used[page as usize];
            self.free_units += u64::from(used.count_zeros());
            if let Some(order) = longest_run(used) {
                more[order].push(page as u32);
            }
        }
        for (listed, more) in self.with_room.iter_mut().zip(more) {
            listed.append(&mut more.into_iter().collect());
        }
        true
    }

    /// Marks units that somebody uses already, before any extent is granted; and how far the
    /// granted extents must reach at least.
    pub fn mark(&mut self, unit: u32, units: u32) -> Result<(), Corruption> {
        for unit in unit..unit.saturating_add(units) {
            let address = self.address(unit);
            let (page, bit) = (unit / PAGE_UNITS, 1 << (unit % PAGE_UNITS));
            let used = self.used.get_mut(page as usize).ok_or(Corruption {
                what: "a unit outside the pool",
                address,
            })?;
            if *used & bit != 0 {
                let what = "a unit of the pool with two owners";
                return Err(Corruption { what, address });
            }
            *used |= bit;
        }
        Ok(())
    }

    /// Grants extents until there are so many, as far as the limit allows; and until everything
    /// that is marked lies in one, even beyond the limit.
    pub fn reach(&mut self, extents: u64) {
        let last = self.used.iter().rposition(|&used| used != 0);
        let marked = last.map_or(0, |page| {
            (page as u64 + 1).div_ceil(self.extent_bytes / PAGE_BYTES)
        });
        let all = (self.area.end - self.area.start) / self.extent_bytes;
        let limit = self.extents_max;
        self.extents_max = all;
        while self.extents < extents.min(limit).max(marked) && self.grow() {}
        self.extents_max = limit.max(self.extents);
    }

    fn relist(&mut self, page: u32, before: u16) {
        let after = self.used[page as usize];
        let (from, to) = (longest_run(before), longest_run(after));
        if from != to {
            if let Some(order) = from {
                self.with_room[order].remove(&page);
            }
            if let Some(order) = to {
                self.with_room[order].insert(page);
            }
        }
    }

    /// An aligned run of 2^`order` units, the first of which is returned.
    pub fn allocate(&mut self, order: usize) -> Option<u32> {
        let page = self.with_room[order..]
            .iter()
            .find_map(|pages| pages.first().copied())?;
        let used = &mut self.used[page as usize];
        let before = *used;
        let at = first_run(before, order).expect("the page is listed for such a run");
        let units = 1u32 << order;
        *used |= (((1u32 << units) - 1) << at) as u16;
        self.free_units -= u64::from(units);
        self.relist(page, before);
        Some(page * PAGE_UNITS + at)
    }

    /// A run of exactly so many units, at most a page.
    pub fn allocate_units(&mut self, units: u32) -> Option<u32> {
        let order = order_of(units);
        let unit = self.allocate(order)?;
        self.free(unit + units, (1 << order) - units);
        Some(unit)
    }

    /// Gives units back; they lie in one page.
    pub fn free(&mut self, unit: u32, units: u32) {
        if units == 0 {
            return;
        }
        let page = unit / PAGE_UNITS;
        let mask = (((1u32 << units) - 1) << (unit % PAGE_UNITS)) as u16;
        let used = &mut self.used[page as usize];
        let before = *used;
        debug_assert_eq!(before & mask, mask, "only used units are freed");
        *used &= !mask;
        self.free_units += u64::from(units);
        self.relist(page, before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_aligned_disjoint_and_come_back() {
        let mut pool = Pool::new(4096..4096 + (64 << 10), 16 << 10, 40 << 10);
        assert_eq!(pool.allocate(0), None, "no extent yet");
        assert!(pool.grow() && pool.grow() && !pool.grow(), "two extents");
        assert_eq!(pool.free_units(), 128);
        let mut owned = [false; 128];
        let mut runs = Vec::new();
        for step in 0..400u32 {
            let order = (step * 7 % 5) as usize;
            if step % 3 == 2 && !runs.is_empty() {
                let (unit, units) = runs.swap_remove(step as usize * 31 % runs.len());
                pool.free(unit, units);
                owned[unit as usize..][..units as usize].fill(false);
            } else if let Some(unit) = pool.allocate(order) {
                assert_eq!(unit % (1 << order), 0, "aligned");
                for owned in &mut owned[unit as usize..][..1 << order] {
                    assert!(!std::mem::replace(owned, true), "handed out twice");
                }
                runs.push((unit, 1 << order));
            } else {
                let mask = (1usize << order) - 1;
                let free = |at: usize| owned[at..=at + mask].iter().all(|&owned| !owned);
                let any = (0..128).step_by(1 << order).any(free);
                assert!(!any, "there was a run of order {order}");
            }
            let used = owned.iter().filter(|&&owned| owned).count() as u64;
            assert_eq!(pool.used_units(), used);
        }
    }

    #[test]
    fn small_runs_leave_whole_pages_alone() {
        let mut pool = Pool::new(0..8192, 8192, 8192);
        pool.grow();
        for _ in 0..16 {
            assert!(pool.allocate(0).unwrap() < 16);
        }
        assert_eq!(pool.allocate(4), Some(16));
        pool.free(5, 1);
        pool.free(7, 1);
        assert_eq!(pool.allocate(1), None);
        assert_eq!(pool.allocate_units(1), Some(5));
    }

    #[test]
    fn marking_finds_two_owners_and_reaches_beyond_the_limit() {
        let mut pool = Pool::new(0..64 << 10, 4096, 8192);
        pool.mark(40, 8).unwrap();
        assert!(pool.mark(47, 1).is_err());
        assert!(pool.mark(255, 2).is_err());
        pool.reach(1);
        assert_eq!(pool.extents(), 16, "unit 255 is in the last page");
        assert_eq!(pool.used_units(), 9);
    }
}
