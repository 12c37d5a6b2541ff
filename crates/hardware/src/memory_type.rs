//! Memory types: what an access asks of the caches. A mapping has one, and whoever makes an access hands
//! it down; only write-back accesses ([`Hardware::load`], [`Hardware::update`]) may enter the lookaside.
//!
//! | type | a load | a store | the core waits |
//! |---|---|---|---|
//! | write-back | from the caches | into the caches | for a load |
//! | write-through | from the caches | into the caches and to memory | for a load |
//! | uncached | from memory | to memory | for both |
//! | write-combining | from memory | into a buffer of the hart, and later to memory | for a load, and for a buffer |
//!
//! Always true here:
//! - Whatever types a line is accessed with, one after the other, everybody sees the newest bytes that
//!   have been sent: an access that goes around the caches first takes every copy out of them.
//! - A hart sees its own stores, those that wait in its buffers included.
//! - A store around the caches is a store to the design: it hears of it before memory is written.
//! - A fence that waits for stores sends what waits in the hart's buffers.

use crate::combining::Combined;
use crate::core_timing::AccessKind;
use crate::hierarchy::{Change, Hardware};
use crate::line::{LINE_BYTES, Line, LineNumber};
use crate::persist::{Effect, Fence, Persist, Point};
use crate::policy::{Cause, Eviction, Policy, Reason};
use crate::time::Cycles;
use crate::trace::Traced;
use crate::watched::Ordered;

/// What an access asks of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryType {
    /// Caches keep what is loaded and stored.
    WriteBack,
    /// Caches keep it, and memory gets every store.
    WriteThrough,
    /// No cache keeps it, and a store stays behind all earlier ones of its hart, combined ones included.
    Uncached,
    /// No cache keeps it; stores are gathered line by line, in no order among lines.
    WriteCombining,
}

impl MemoryType {
    /// The type with which a non-temporal store accesses a mapping of this one.
    #[must_use]
    pub fn non_temporal(self) -> Self {
        match self {
            Self::Uncached => Self::Uncached,
            Self::WriteBack | Self::WriteThrough | Self::WriteCombining => Self::WriteCombining,
        }
    }
}

impl Hardware {
    /// A hart's load with a memory type, charged to its core. Returns the line's bytes and when the hart
    /// goes on. If the hart is behind the line ([`crate::hierarchy::Core::ahead`]), it has to be made
    /// again.
    pub fn load_as<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        memory_type: MemoryType,
        now: Cycles,
    ) -> (Line, Cycles) {
        let (bytes, ready) = match memory_type {
            MemoryType::WriteBack | MemoryType::WriteThrough => {
                let (slot, ready) = self.load(policy, hart, line, now);
                (*self.cores[hart].l1d.data(slot), ready)
            }
            MemoryType::Uncached | MemoryType::WriteCombining => {
                self.load_around(policy, hart, line, now)
            }
        };
        self.accessed(hart, AccessKind::Load, now, ready);
        (bytes, now.max(ready))
    }

    /// A hart's store with a memory type, charged to its core. Nothing is stored if the hart is behind the
    /// line: then it has to be made again.
    pub fn store_as<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        stored: (usize, &[u8]),
        memory_type: MemoryType,
        now: Cycles,
    ) {
        let (offset, bytes) = stored;
        let mut copy = |stored: &mut [u8]| stored.copy_from_slice(bytes);
        let change = (offset..offset + bytes.len(), &mut copy as &mut _);
        match memory_type {
            MemoryType::WriteBack | MemoryType::WriteThrough => {
                let ready = self.update_as(policy, hart, line, change, memory_type, now);
                self.accessed(hart, AccessKind::Store, now, ready);
            }
            // Versions that are compared by age are settled when a store is made: it cannot wait.
            MemoryType::WriteCombining if !policy.keeps_versions() => {
                let ready = self.combine(policy, hart, line, stored, now);
                self.accessed(hart, AccessKind::Combined, now, ready);
            }
            MemoryType::Uncached | MemoryType::WriteCombining => {
                let now = self.fence(policy, hart, Fence::STORES, now);
                let ready = self.update_as(policy, hart, line, change, memory_type, now);
                self.accessed(hart, AccessKind::Around, now, ready);
            }
        }
    }

    /// Changes a piece of a line with a memory type, all at once and where everybody sees it: nothing is
    /// combined. Returns when its line is there, or when memory has taken it; the core has yet to be told.
    /// Nothing is changed if the hart is behind the line: then it has to be made again.
    pub fn update_as<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        change: Change,
        memory_type: MemoryType,
        now: Cycles,
    ) -> Cycles {
        if matches!(
            memory_type,
            MemoryType::Uncached | MemoryType::WriteCombining
        ) {
            return self.update_around(policy, hart, line, change, now);
        }
        let (_, ready) = self.update(policy, hart, line, change, now);
        if memory_type == MemoryType::WriteBack || self.cores[hart].ahead.is_some() {
            return ready;
        }
        let clean = Persist::behind_stores(hart, line, Effect::Clean);
        self.persist(policy, &clean, ready)
    }

    /// Takes every copy of a line out of the caches; memory has the newest bytes then.
    fn take_out<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) -> Cycles {
        let flush = Persist {
            point: Point::Coherence,
            ..Persist::behind_stores(hart, line, Effect::Flush)
        };
        self.persist(policy, &flush, now)
    }

    /// A line that no cache has is seen by a hart. True if the hart is behind it.
    fn sees<P: Policy + ?Sized>(
        &mut self,
        policy: &P,
        hart: usize,
        line: LineNumber,
        write: bool,
    ) -> bool {
        if self.directories.apart().is_none() {
            return false;
        }
        let (group, version) = (self.group_of(hart), policy.memory_version(line));
        if let Some(trace) = &mut self.memory.trace {
            trace.push(Traced::Observed { group, line });
        }
        let behind = policy.is_ahead(group, version, write);
        if behind {
            self.cores[hart].ahead = Some(version);
        }
        behind
    }

    fn load_around<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) -> (Line, Cycles) {
        let sent = self.send_combined_line(policy, hart, line, now);
        let ready = self.take_out(policy, hart, line, sent);
        self.sees(policy, hart, line, false);
        self.fill(policy, line, ready)
    }

    /// Changes a piece of a line in memory, past the caches. Returns when memory has taken it.
    fn update_around<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        (piece, change): Change,
        now: Cycles,
    ) -> Cycles {
        let mut ready = self.take_out(policy, hart, line, now);
        if self.sees(policy, hart, line, true) {
            return ready;
        }
        let group = self.group_of(hart);
        let old = policy.peek(self, line);
        let mut new = old;
        change(&mut new.0[piece.clone()]);
        if let Some(trace) = &mut self.memory.trace {
            let old = Box::new(old);
            trace.push(Traced::Stored {
                group,
                hart,
                line,
                old,
            });
        }
        let version = policy.memory_version(line);
        if version != policy.current_version(hart) || policy.sees_every_store() {
            let stored = (line, None, version);
            ready = self.ask_store(policy, hart, stored, [&old, &new], &piece, ready);
        }
        let version = policy.current_version(hart);
        self.hear_bytes(hart, line, version, &new, ready);
        (self.memory).hear_order(|| Ordered::Persisted { hart, line });
        if self.directories.apart().is_some() {
            let stored = Some((new, version));
            ready = self.depart(policy, group, line, stored, Reason::CacheBlock, ready);
        }
        let eviction = Eviction {
            line,
            bytes: new,
            version,
            cause: Cause::CacheBlock,
        };
        let evicted = self.evict(policy, &eviction, ready);
        self.cores[hart].timing.persists_until(evicted.durable);
        evicted.accepted
    }

    /// Stores into a combining buffer of the hart. Returns when it had room.
    fn combine<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        stored: (usize, &[u8]),
        now: Cycles,
    ) -> Cycles {
        if self.cores[hart].l1d.find(line).is_some() {
            self.take_out(policy, hart, line, now);
        }
        let mut ready = now;
        if let Some(oldest) = self.cores[hart].combining.make_room(line) {
            ready = self.send_combined(policy, hart, &oldest, now);
        }
        self.memory.hear_combined(hart, line);
        match self.cores[hart].combining.put(line, stored) {
            Some(complete) => _ = self.send_combined(policy, hart, &complete, ready),
            None if self.memory.hears_order() => self.hear_waiting(policy, hart, line, ready),
            None => {}
        }
        ready
    }

    /// What waits in a combining buffer has its place among all stores, and is sent at the next fence.
    #[cold]
    fn hear_waiting<P: Policy + ?Sized>(
        &mut self,
        policy: &P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) {
        let newest = self.peek(policy, line);
        self.hear_bytes(hart, line, policy.current_version(hart), &newest, now);
        (self.memory).hear_order(|| Ordered::Persisted { hart, line });
    }

    /// Sends what a combining buffer has of a line. Returns when memory has taken it.
    fn send_combined<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        combined: &Combined,
        now: Cycles,
    ) -> Cycles {
        let mut lay_over = |bytes: &mut [u8]| combined.lay_over(bytes);
        let whole = 0..LINE_BYTES;
        self.update_around(policy, hart, combined.line, (whole, &mut lay_over), now)
    }

    /// Sends what waits in a hart's combining buffers for a line that it is about to access otherwise.
    #[cold]
    pub(crate) fn send_combined_line<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) -> Cycles {
        match self.cores[hart].combining.take(line) {
            Some(combined) => self.send_combined(policy, hart, &combined, now),
            None => now,
        }
    }

    /// Sends everything that waits in a hart's combining buffers, the oldest first. Returns when memory
    /// has taken the last of it. Whoever ends an epoch, or lets another thread run on the hart, asks for it
    /// first.
    pub fn send_all_combined<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        now: Cycles,
    ) -> Cycles {
        let mut ready = now;
        while let Some(combined) = self.cores[hart].combining.take_oldest() {
            ready = ready.max(self.send_combined(policy, hart, &combined, now));
        }
        ready
    }

    /// What combining buffers hold of a line is newer than what anybody else has.
    pub(crate) fn lay_combined_over(&self, line: LineNumber, bytes: &mut Line) {
        let buffers = self.cores.iter().flat_map(|core| core.combining.iter());
        for combined in buffers.filter(|combined| combined.line == line) {
            combined.lay_over(&mut bytes.0);
        }
    }
}
