//! Turning the power off: what is in memory afterwards, and what energy that takes.
//!
//! Always true here: what a cut takes or brings is in [`Lost`], and giving it back undoes the cut.

use crate::arena::PAGE_BYTES;
use crate::dram::Dram;
use crate::energy::EnergyReserve;
use crate::hierarchy::Hardware;
use crate::line::{LINE_BYTES, LineNumber};
use crate::memory::{Lost, Memory, Tear};
use crate::policy::Policy;
use crate::specification::Persistence;
use crate::statistics::Statistics;
use crate::time::Cycles;

impl Hardware {
    /// Cuts the power at `at`: memory's bytes are then those that survived, with the newest bytes of every
    /// line where the caches are kept.
    pub fn power_off<P: Policy + ?Sized>(
        &mut self,
        policy: &P,
        at: Cycles,
        tear: &mut Tear,
    ) -> Lost {
        let mut lost = self.memory.power_off(at, tear);
        if self.memory.keeps_caches() {
            let mut newer = Vec::new();
            self.newer_lines(policy, &mut |line, bytes| newer.push((line, *bytes)));
            self.without_harts(&mut newer);
            for (line, bytes) in newer {
                let address = line * LINE_BYTES as u64;
                if self.memory.keeps(address) {
                    self.memory.drain(&mut lost, address, &bytes.0);
                }
            }
        }
        lost
    }

    /// A line's newest bytes outside the sharing groups leave the shared cache: no energy is needed to
    /// drain it, unless a sharing group has newer ones.
    #[inline]
    pub(crate) fn needs_no_energy(&mut self, line: LineNumber) {
        if self.memory.keeps_caches() {
            self.leaves_shared(line);
        }
    }

    #[cold]
    fn leaves_shared(&mut self, line: LineNumber) {
        if !self.dirty_inside(line) {
            self.memory.becomes_clean(line);
        }
    }
}

impl Memory {
    /// Cuts the power at `at`: the arena then holds what survived of memory. Where the caches are kept,
    /// what has left them is, too, wherever it was on its way.
    pub fn power_off(&mut self, at: Cycles, tear: &mut Tear) -> Lost {
        let mut lost = Lost::default();
        let keeps_caches = self.keeps_caches();
        let arena = &mut self.arena;
        // Newest first: what the DRAM holds is newer than what waits for the same line.
        for (line, bytes) in self.dram.iter().flat_map(Dram::behind) {
            lost.replace(arena, line * LINE_BYTES as u64, &bytes.0);
            lost.writes_lost += 1;
        }
        for module in &self.modules {
            if !keeps_caches {
                module.waiting.power_off(arena, at, tear, &mut lost);
            }
        }
        self.forget_bytes(&mut lost);
        self.save_devices(at, &mut lost);
        lost
    }

    /// Memory without persistence is empty when the power comes back.
    fn forget_bytes(&mut self, lost: &mut Lost) {
        for region in self.map.regions() {
            if self.modules[region.modules[0]].persistence != Persistence::None {
                continue;
            }
            let addresses = region.addresses.clone();
            let pages: Vec<_> = (self.arena.written_pages())
                .filter(|page| addresses.contains(page))
                .collect();
            for page in pages {
                lost.replace(&mut self.arena, page, &[0; PAGE_BYTES]);
            }
        }
    }

    /// True if what an address has may survive a power cut.
    pub fn keeps(&self, address: u64) -> bool {
        let module = self.map.locate(address).module;
        self.modules[module].persistence != Persistence::None
    }

    /// What energy backup writes after the cut.
    pub fn drain(&mut self, lost: &mut Lost, address: u64, bytes: &[u8]) {
        lost.replace(&mut self.arena, address, bytes);
    }

    /// Undoes a cut.
    pub fn power_back(&mut self, lost: &Lost) {
        lost.restore(&mut self.arena);
    }

    /// Adds what is known of the end only: when all is written, and what energy was needed at the most.
    pub(crate) fn report(&self, statistics: &mut Statistics) {
        statistics.nvm_drained_at_cycle = self.drained_at();
        statistics.reserve_peak_bytes = self.reserve_peak_bytes();
    }

    /// Most bytes that the reserve of energy would have had to drain at once, had the power failed then.
    pub fn reserve_peak_bytes(&self) -> u64 {
        (self.reserve.as_ref()).map_or(0, EnergyReserve::peak_bytes)
    }

    /// A line becomes dirty in the caches.
    #[inline]
    pub(crate) fn becomes_dirty(&mut self, line: LineNumber, now: Cycles) {
        if self.keeps_caches() {
            self.needs_energy(line, now);
        }
    }

    #[cold]
    fn needs_energy(&mut self, line: LineNumber, now: Cycles) {
        if self.keeps(line * LINE_BYTES as u64) {
            (self.reserve.iter_mut()).for_each(|reserve| reserve.becomes_dirty(line, now));
        }
    }

    /// A line's newest bytes leave the caches.
    #[inline]
    pub(crate) fn becomes_clean(&mut self, line: LineNumber) {
        if let Some(reserve) = &mut self.reserve {
            reserve.becomes_clean(line);
        }
    }

    /// True if caches and store buffers are in the persistence domain.
    pub fn keeps_caches(&self) -> bool {
        (self.reserve.as_ref()).is_some_and(EnergyReserve::keeps_caches)
    }
}
