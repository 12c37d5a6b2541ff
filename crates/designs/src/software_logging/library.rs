//! The library that a program under software persistence runs with: its write set, and what its
//! instructions cost the core.
//!
//! A library's instructions run on the hart that stores. They are charged by moving that hart's clock,
//! one cycle each: they touch nothing but the library's own data, whose cache misses are not modelled.
//!
//! Always true here: a line is in the write set exactly if it was stored to in the executing epoch,
//! once, in the list of the hart that did so first.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LineNumber, Version};
use perdure_hardware::persist::{Effect, Fence, Persist};
use perdure_hardware::policy::Policy;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::FENCE;

/// Lines stored to in the executing epoch.
#[derive(Clone, Debug, Default)]
pub struct WriteSet {
    /// A bit for each line of memory.
    members: Vec<u64>,
    /// By hart, in the order of first stores.
    lines: Vec<Vec<LineNumber>>,
}

impl WriteSet {
    /// An empty one.
    pub fn new(hardware: &Hardware) -> Self {
        Self {
            members: vec![0; hardware.specification.lines().div_ceil(64)],
            lines: vec![Vec::new(); hardware.cores.len()],
        }
    }

    /// True if the line was not in it.
    pub fn insert(&mut self, hart: usize, line: LineNumber) -> bool {
        let (word, bit) = ((line / 64) as usize, 1 << (line % 64));
        let new = self.members[word] & bit == 0;
        if new {
            self.members[word] |= bit;
            self.lines[hart].push(line);
        }
        new
    }

    /// The lines of each hart.
    pub fn lists(&mut self) -> &mut [Vec<LineNumber>] {
        &mut self.lines
    }

    /// True if nothing was stored.
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(Vec::is_empty)
    }

    /// Every hart walks its list, all at the same time. `visit` gets hart, line and time, and says
    /// when the hart can visit its next line. Returns when the last hart has done.
    pub fn walk(
        &self,
        start: Cycles,
        mut visit: impl FnMut(usize, LineNumber, Cycles) -> Cycles,
    ) -> Cycles {
        let mut harts: Vec<_> = (self.lines.iter().map(|lines| lines.iter()))
            .map(|lines| (start, lines))
            .collect();
        let behind = |harts: &[(Cycles, std::slice::Iter<LineNumber>)]| {
            let waiting = (0..harts.len()).filter(|&hart| harts[hart].1.len() > 0);
            waiting.min_by_key(|&hart| harts[hart].0)
        };
        while let Some(hart) = behind(&harts) {
            let (time, lines) = &mut harts[hart];
            if let Some(&line) = lines.next() {
                *time = visit(hart, line, *time);
            }
        }
        harts.iter().map(|(time, _)| *time).max().unwrap_or(start)
    }

    /// Empties it.
    pub fn clear(&mut self) {
        for line in self.lines.iter_mut().flat_map(|lines| lines.drain(..)) {
            self.members[(line / 64) as usize] = 0;
        }
    }
}

/// The hart flushes a line, a cache-block instruction. Returns when it can issue the next one.
pub fn flush_line<P: Policy>(
    hardware: &mut Hardware,
    policy: &mut P,
    hart: usize,
    line: LineNumber,
    now: Cycles,
) -> Cycles {
    let mut private = hardware.groups.iter().map(|group| &group.l2);
    if hardware.llc.find(line).is_some() || private.any(|l2| l2.find(line).is_some()) {
        let clean = Persist::behind_stores(hart, line, Effect::Clean);
        return hardware.persist(policy, &clean, now);
    }
    // Only the DRAM may hold it. (Asking the caches by the instruction finds nothing, at the cost of
    // host time.)
    let Hardware {
        memory, statistics, ..
    } = hardware;
    let done = memory.write_through(line, now, statistics);
    done.map_or(now, |done| done.accepted)
}

/// The hart runs so many instructions of the library.
pub fn execute(hardware: &mut Hardware, hart: usize, instructions: u64) {
    hardware.cores[hart].timing.stand_still(instructions);
}

/// The hart, which is at `now`, waits at a fence until its earlier stores are done, and until what it
/// flushed is durable. Returns when it goes on.
pub fn fence(hardware: &mut Hardware, hart: usize, now: Cycles, durable: Cycles) -> Cycles {
    let timing = &mut hardware.cores[hart].timing;
    let before = timing.stood_still();
    let mut waits = timing.stand_still_until(now, durable);
    waits += timing.fence(Fence::FULL, now + waits);
    hardware.statistics.fence_stall_cycles += waits;
    hardware.draw_wait(hart, FENCE, now, before);
    now + waits
}

/// Epochs whose tags on cached lines differ.
const TAGS: u64 = 256;

/// The tag of a line stored to in that epoch.
#[inline(always)]
pub fn tag(epoch: u64) -> Version {
    Version((epoch % TAGS) as u16)
}

/// An epoch begins, and no dirty line is left of the one before: every store asks again. Tags that
/// come round must not be found on lines that have stayed cached, clean.
pub fn begin_epoch(hardware: &mut Hardware, epoch: u64) {
    hardware.version_changed();
    if epoch.is_multiple_of(TAGS) {
        hardware.retag(|_| Version::NONE);
    }
}
