//! Where a transaction asks the design: a store is made, a line comes, a line leaves, a version departs.
//!
//! Always true here: every answer is held against the contract, if that is wanted.

use std::ops::Range;

use crate::arena::PAGE_BYTES;
use crate::cache::Slot;
use crate::core_timing::AccessKind;
use crate::hierarchy::{Hardware, Older};
use crate::line::{LINE_BYTES, Line, LineNumber, Version};
use crate::persist::Fence;
use crate::policy::{
    Cause, CrossVersionStore, Departure, DeviceAccess, DeviceAnswer, DeviceBytes, Evicted,
    Eviction, Policy, Reason,
};
use crate::time::Cycles;
use crate::trace::Traced;

impl Hardware {
    /// Tells the policy of a store, which changes a piece of a line of that version from the first bytes
    /// to the second, and counts it if that is not the current version. Returns when it may complete.
    #[inline]
    pub(crate) fn ask_store<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        (line, slot, version): (LineNumber, Option<Slot>, Version),
        [old, new]: [&Line; 2],
        piece: &Range<usize>,
        now: Cycles,
    ) -> Cycles {
        if version != policy.current_version(hart) {
            self.statistics.cross_version_stores += 1;
            self.note_page(line);
        }
        if let Some(trace) = &mut self.memory.trace
            && policy.sees_every_store()
        {
            let [old, new] = [old, new].map(|bytes| Box::new(*bytes));
            trace.push(Traced::Wrote { line, old, new });
        }
        let store = CrossVersionStore {
            hart,
            group: self.group_of(hart),
            line,
            version,
            old,
            new,
            offset: piece.start,
            length: piece.len(),
            slot,
        };
        self.asking("store", now, |hardware| policy.store(hardware, &store, now))
    }

    /// Tells the policy, and whoever verifies, of a load from a line of that version. Returns when it may
    /// complete.
    pub(crate) fn ask_load<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        (line, version): (LineNumber, Version),
        now: Cycles,
    ) -> Cycles {
        if let Some(trace) = &mut self.memory.trace {
            trace.push(Traced::Loaded { hart, line });
        }
        self.asking("load", now, |hardware| {
            policy.load(hardware, hart, (line, version), now)
        })
    }

    fn note_page(&mut self, line: LineNumber) {
        let page = line as usize / (PAGE_BYTES / LINE_BYTES);
        if *self.page_generations.get(page) != self.generation {
            *self.page_generations.get_mut(page) = self.generation;
            self.statistics.pages_written += 1;
        }
    }

    /// Tells the policy of a dirty version that leaves a sharing group, if there is one.
    #[inline]
    pub(crate) fn depart<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        group: usize,
        line: LineNumber,
        version: Older,
        reason: Reason,
        now: Cycles,
    ) -> Cycles {
        let Some((bytes, version)) = version else {
            return now;
        };
        *match reason {
            Reason::Capacity => &mut self.statistics.version_capacity,
            Reason::StoreEviction => &mut self.statistics.version_store_evictions,
            Reason::Invalidation => &mut self.statistics.version_invalidations,
            Reason::Downgrade => &mut self.statistics.version_downgrades,
            Reason::Walk => &mut self.statistics.version_walks,
            Reason::CacheBlock => &mut self.statistics.version_cache_blocks,
        } += 1;
        let departure = Departure {
            group,
            line,
            bytes,
            version,
            reason,
        };
        self.asking("depart", now, |hardware| {
            policy.depart(hardware, &departure, now)
        })
    }

    /// A hart executes one of the design's persistence instructions. What it answers, and when the hart
    /// goes on; `None` if the design has no such function.
    pub fn instruct<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        function: u16,
        operands: [u64; 2],
        now: Cycles,
    ) -> Option<(u64, Cycles)> {
        let (value, done) = self.asking("instruction", now, |hardware| {
            policy.instruction(hardware, hart, function, operands, now)
        })?;
        if let Some(trace) = &mut self.memory.trace {
            trace.push(Traced::Instructed {
                hart,
                function,
                operands,
                value,
                done,
            });
        }
        Some((value, done))
    }

    /// A line from outside the caches.
    #[inline(always)]
    pub(crate) fn fill<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        line: LineNumber,
        now: Cycles,
    ) -> (Line, Cycles) {
        let shown = self.fills(policy, line);
        let (bytes, arrived) =
            self.asking("fill", now, |hardware| policy.fill(hardware, line, now));
        self.filled(line, shown, &bytes, now);
        (bytes, arrived)
    }

    /// A dirty line leaves the caches.
    #[inline(always)]
    pub(crate) fn evict<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        eviction: &Eviction,
        now: Cycles,
    ) -> Evicted {
        self.leaves(eviction.line, &eviction.bytes);
        self.hear_eviction(eviction, now);
        let evicted = self.asking("evict", now, |hardware| {
            policy.evict(hardware, eviction, now)
        });
        self.draw_eviction(eviction, now, [evicted.accepted, evicted.durable]);
        if eviction.cause == Cause::Replacement {
            self.replaced(policy, eviction.line, &eviction.bytes, now);
        }
        evicted
    }

    /// A hart's load from a device region, charged to its core.
    pub fn device_load<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        (hart, address): (usize, u64),
        bytes: &mut [u8],
        now: Cycles,
    ) {
        let asked = DeviceBytes::Load(&mut *bytes);
        let ready = match self.ask_device(policy, (hart, address), asked, now) {
            DeviceAnswer::Answered { at } => at,
            DeviceAnswer::Admitted { at } => {
                (self.memory).device_load(address, bytes, at, &mut self.statistics)
            }
        };
        self.accessed(hart, AccessKind::Load, now, ready);
    }

    /// A hart's store to a device region, behind all its earlier stores and charged to its core, which goes
    /// on when the device has taken it.
    pub fn device_store<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        (hart, address): (usize, u64),
        bytes: &[u8],
        now: Cycles,
    ) {
        let now = self.fence(policy, hart, Fence::STORES, now);
        let asked = DeviceBytes::Store(bytes);
        let taken = match self.ask_device(policy, (hart, address), asked, now) {
            DeviceAnswer::Answered { at } => at,
            DeviceAnswer::Admitted { at } => {
                (self.memory).device_store(address, bytes, at, &mut self.statistics)
            }
        };
        if let Some(trace) = &mut self.memory.trace {
            trace.push(Traced::Commanded {
                hart,
                address,
                bytes: bytes.into(),
                taken,
            });
        }
        self.accessed(hart, AccessKind::Around, now, taken);
    }

    fn ask_device<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        (hart, address): (usize, u64),
        bytes: DeviceBytes,
        now: Cycles,
    ) -> DeviceAnswer {
        let mut access = DeviceAccess {
            hart,
            address,
            bytes,
        };
        self.asking("device_access", now, |hardware| {
            policy.device_access(hardware, &mut access, now)
        })
    }

    /// When the next event fires, a device's or anybody else's; the end of time if there is none.
    #[inline]
    pub fn next_event_time(&self) -> Cycles {
        let of_devices = self.memory.device_events.next_time();
        self.events.next_time().min(of_devices)
    }

    /// Wakes a device that wants to be woken at `time`, if there is one and nobody else's event is due
    /// before.
    pub fn wake_device(&mut self, time: Cycles) -> bool {
        let first = self.memory.device_events.next_time() < self.events.next_time();
        first && (self.memory).wake_device(time, &mut self.statistics)
    }

    /// Reads a line at its home address: bytes and time of arrival.
    #[inline(always)]
    pub fn read_memory(&mut self, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        let arrived = self.memory.read(line, now, &mut self.statistics);
        (*self.memory.arena.line(line * LINE_BYTES as u64), arrived)
    }
}
