//! What programs ask of the caches and of memory beside loads and stores, as data: persist operations,
//! which send a line on its way to where it survives, and fences, which wait.
//!
//! Always true here:
//! - What instruction sets call such an operation is not known here: whoever decodes them has a table of
//!   these values.
//! - When an operation's bytes are durable is known to its own hart's core alone: no fence of another
//!   hart waits for it.
//! - After an operation no cache has bytes of its line that memory has not been given.

use crate::coherence::{Request, transition};
use crate::core_timing::AccessKind;
use crate::hierarchy::{Hardware, Older};
use crate::line::LineNumber;
use crate::memory::Accepted;
use crate::mistaken::PersistMistake;
use crate::policy::{Cause, Evicted, Eviction, Policy};
use crate::time::Cycles;
use crate::timeline;
use crate::trace::Traced;
use crate::watched::Ordered;

/// What an operation leaves of a line in the caches. Nothing that was stored is ever taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// All copies stay, clean.
    Clean,
    /// No copy stays.
    Flush,
}

/// How far an operation's bytes have to come before a fence lets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// To where everybody reads them: memory has taken them.
    Coherence,
    /// To where they survive a power cut.
    Persistence,
}

/// What of its own hart an operation stays behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All earlier stores, to whatever line, and earlier operations of this order; later stores stay
    /// behind it.
    Stores,
    /// Earlier stores to its line alone.
    Line,
    /// All earlier stores and operations; and everything later stays behind it: the hart waits until its
    /// bytes have come to their point.
    Accesses,
}

/// A persist operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Persist {
    /// The hart that asks for it.
    pub hart: usize,
    /// The line.
    pub line: LineNumber,
    /// What stays in the caches.
    pub effect: Effect,
    /// How far the bytes come.
    pub point: Point,
    /// Behind what.
    pub order: Order,
}

impl Persist {
    /// Brings a line's bytes to where they survive, behind all earlier stores, and leaves `effect` of it.
    pub fn behind_stores(hart: usize, line: LineNumber, effect: Effect) -> Self {
        Self {
            hart,
            line,
            effect,
            point: Point::Persistence,
            order: Order::Stores,
        }
    }
}

/// What of its own hart a fence waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// Earlier loads have their bytes.
    pub loads: bool,
    /// Earlier stores are done: everybody sees them.
    pub stores: bool,
    /// The bytes of earlier persist operations have come to their point.
    pub persists: bool,
}

impl Fence {
    /// Waits for everything.
    pub const FULL: Self = Self {
        loads: true,
        stores: true,
        persists: true,
    };

    /// Waits for earlier stores, and for nothing else.
    pub const STORES: Self = Self {
        loads: false,
        stores: true,
        persists: false,
    };
}

impl Hardware {
    /// Carries a persist operation out, which its hart makes at `now` and which begins behind the stores
    /// that are under way. Returns when memory has taken the bytes, or when they have come to their point if
    /// later accesses stay behind it. The core has to be told of that ([`Hardware::accessed`]).
    pub fn persist<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        persist: &Persist,
        now: Cycles,
    ) -> Cycles {
        let line = persist.line;
        if persist.point == Point::Persistence {
            let (hart, at) = (persist.hart, now);
            if let Some(trace) = &mut self.memory.trace {
                trace.push(Traced::Persisted { hart, line, at });
            }
            (self.memory).hear_order(|| Ordered::Persisted { hart, line });
        }
        let now = self.cores[persist.hart].timing.persist_begins(now);
        let now = self.send_combined_line(policy, persist.hart, line, now);
        let port_cycles = self.specification.llc.port_cycles;
        let start = self.take_llc_port(self.llc.set_of(line), now, port_cycles);
        let mut ready = start + self.specification.llc.latency_cycles;
        if self.mistaken_about(persist) {
            return self.send_through(policy, persist, ready);
        }
        if self.directories.apart().is_some() {
            return self.persist_apart(policy, persist, ready);
        }
        let Some(slot) = self.llc.find(line) else {
            return self.send_through(policy, persist, ready);
        };
        let (newer, _, at_hand) = self.take_newer(policy, slot, true, ready);
        ready = self.send_out(policy, persist, newer, at_hand);
        if persist.effect == Effect::Flush {
            let recall = transition(self.directory(slot), Request::Recall, 0);
            ready = self.snoop(policy, slot, recall.snoop, None, ready);
            self.llc.invalidate(slot);
            self.directories.set_holders(slot, 0);
        }
        ready
    }

    /// Sends what the caches had newer of an operation's line to memory, if they had.
    pub(crate) fn send_out<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        persist: &Persist,
        newer: Older,
        now: Cycles,
    ) -> Cycles {
        let Some((bytes, version)) = newer else {
            return self.send_through(policy, persist, now);
        };
        self.statistics.cleaned_lines += 1;
        let eviction = Eviction {
            line: persist.line,
            bytes,
            version,
            cause: Cause::CacheBlock,
        };
        let Evicted { accepted, durable } = self.evict(policy, &eviction, now);
        let at_coherence = self.is_mistaken(PersistMistake::DurableAtCoherence);
        self.arrives(persist, accepted, if at_coherence { now } else { durable })
    }

    /// A clean line may be newer in the DRAM than in the NVM: then it is sent on to where it survives.
    /// Or it is clean only because its write still waits in the queue, which is volatile. Where a design
    /// keeps versions of a line apart, home is what it goes back to, and gets nothing before its epoch.
    fn send_through<P: Policy + ?Sized>(
        &mut self,
        policy: &P,
        persist: &Persist,
        now: Cycles,
    ) -> Cycles {
        let counts = self.is_mistaken(PersistMistake::CleanIsDurable);
        if persist.point == Point::Coherence || counts {
            return now;
        }
        let mut sent = None;
        if !policy.keeps_versions() {
            sent = (self.memory).write_through(persist.line, now, &mut self.statistics);
        }
        let done = sent.unwrap_or_else(|| Accepted {
            accepted: now,
            durable: self.memory.durable_at(persist.line, now),
        });
        self.arrives(persist, done.accepted, done.durable)
    }

    /// An operation's bytes have been taken and will be durable. The fences of its hart wait for that, if
    /// it asked for that; returns when whoever waits for the operation itself goes on.
    fn arrives(&mut self, persist: &Persist, accepted: Cycles, durable: Cycles) -> Cycles {
        if persist.point == Point::Coherence {
            return accepted;
        }
        let core = &mut self.cores[persist.hart];
        core.waited |= persist.order == Order::Accesses;
        let timing = &mut core.timing;
        match self.persist_mistake {
            Some(PersistMistake::FencesForgetCleans) if persist.effect == Effect::Clean => {}
            Some(PersistMistake::FencesForLast) => timing.only_persist_until(durable),
            _ => timing.persists_until(durable),
        }
        let early = self.is_mistaken(PersistMistake::GoesOnEarly);
        match persist.order {
            Order::Accesses if !early => accepted.max(durable),
            Order::Stores | Order::Line | Order::Accesses => accepted,
        }
    }

    /// Carries a hart's fence out, which begins at `now`. Returns when the hart goes on.
    pub fn fence<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        mut fence: Fence,
        now: Cycles,
    ) -> Cycles {
        if self.is_mistaken(PersistMistake::FencesForStoresAlone) {
            fence.persists = false;
        }
        let waits = fence.persists && !self.is_mistaken(PersistMistake::SeenEarly);
        let mut sent = now;
        if fence.stores && !self.cores[hart].combining.is_empty() {
            sent = self.send_all_combined(policy, hart, now);
        }
        let core = &mut self.cores[hart];
        core.waited |= waits && core.timing.is_before_persists(now);
        let before = core.timing.stood_still();
        let wait = core.timing.fence_behind(fence, now, sent);
        self.statistics.fence_stall_cycles += wait;
        if self.memory.draws() {
            self.draw_wait(hart, timeline::FENCE, now, before);
        }
        let done = now + wait;
        if fence.persists {
            if let Some(trace) = &mut self.memory.trace {
                trace.push(Traced::Fenced { hart, done });
            }
            (self.memory).hear_order(|| Ordered::Fenced { hart, done });
        }
        done
    }

    /// A hart's access of this kind, made at `now`, has its line at `ready`.
    #[inline]
    pub fn accessed(&mut self, hart: usize, kind: AccessKind, now: Cycles, ready: Cycles) {
        let timing = &mut self.cores[hart].timing;
        let before = timing.stood_still();
        let buffered = self.statistics.store_buffer_stall_cycles;
        timing.accessed(kind, now, ready, &mut self.statistics);
        if self.memory.draws() {
            self.draw_access(hart, kind, now, (before, buffered));
        }
    }
}
