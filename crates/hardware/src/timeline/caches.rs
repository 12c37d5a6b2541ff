//! What the caches tell: misses with what answered them, lines that leave, walks.

use super::{Event, Fact, Kind, Part, Track, Value, line_fact};
use crate::cache::Slot;
use crate::coherence::Request;
use crate::hierarchy::Hardware;
use crate::line::LineNumber;
use crate::policy::{Cause, Eviction, Policy};
use crate::time::Cycles;

/// Where the misses of a hart's data cache are drawn.
pub const L1D: &str = "L1D misses";
/// Where those of its instruction cache are.
pub const L1I: &str = "L1I misses";
/// Where those of an L2 and of the last-level cache are.
pub const MISSES: &str = "misses";
/// Where lines are that leave an L2 or the caches, dirty.
pub const WRITE_BACKS: &str = "write-backs";

impl Cause {
    const fn name(self) -> &'static str {
        match self {
            Self::Replacement => "replacement",
            Self::CacheBlock => "persist operation",
            Self::Flush => "flush",
        }
    }
}

/// How many misses the levels below an L1 had by then.
#[derive(Clone, Copy)]
pub(crate) struct Below([u64; 3]);

impl Hardware {
    /// A line that is not in a hart's L1D, to be read or written, is brought there.
    #[inline(always)]
    pub(crate) fn miss_l1d<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        hart: usize,
        line: LineNumber,
        request: Request,
        now: Cycles,
    ) -> (Slot, Cycles) {
        self.statistics.l1d_misses += 1;
        if !self.memory.draws() {
            return self.fill_l1d(policy, hart, line, request, now);
        }
        let below = self.below();
        let (slot, ready) = self.fill_l1d(policy, hart, line, request, now);
        let name = match request {
            Request::Write => "store miss",
            _ => "load miss",
        };
        self.draw_l1(hart, L1D, name, line, [now, ready], below);
        (slot, ready)
    }

    pub(crate) fn below(&self) -> Below {
        let counted = &self.statistics;
        Below([counted.l2_misses, counted.llc_misses, counted.snoops])
    }

    /// An L1 had no line, and has got it.
    #[cold]
    pub(crate) fn draw_l1(
        &mut self,
        hart: usize,
        track: &'static str,
        name: &'static str,
        line: LineNumber,
        when: [Cycles; 2],
        Below([l2, llc, snoops]): Below,
    ) {
        let Below(now) = self.below();
        let answered = if now[0] == l2 {
            "L2"
        } else if now[1] != llc {
            "memory"
        } else if now[2] != snoops {
            "another L2"
        } else {
            "last-level cache"
        };
        let facts = [line_fact(line), ("answered_by", Value::Text(answered))];
        self.draw_cache(Part::Hart(hart), track, name, when, &facts);
    }

    /// A cache of several harts had no line, and has got it.
    #[inline]
    pub(crate) fn draw_miss(&mut self, part: Part, line: LineNumber, when: [Cycles; 2]) {
        if self.memory.draws() {
            self.draw_cache(part, MISSES, "miss", when, &[line_fact(line)]);
        }
    }

    /// A line leaves the caches, and is accepted and durable then.
    #[inline]
    pub(crate) fn draw_eviction(&mut self, eviction: &Eviction, now: Cycles, done: [Cycles; 2]) {
        if self.memory.draws() {
            let facts = [
                line_fact(eviction.line),
                ("version", Value::Number(eviction.version.0.into())),
                ("durable_cycle", Value::Number(done[1])),
            ];
            let (name, when) = (eviction.cause.name(), [now, done[0]]);
            self.draw_cache(Part::LastLevel, WRITE_BACKS, name, when, &facts);
        }
    }

    /// A dirty line has left a sharing group's L2 for the shared cache.
    #[inline]
    pub(crate) fn draw_l2_write_back(&mut self, group: usize, line: LineNumber, now: Cycles) {
        if self.memory.draws() {
            let facts = [line_fact(line)];
            self.draw_cache(
                Part::Group(group),
                WRITE_BACKS,
                "write-back",
                [now; 2],
                &facts,
            );
        }
    }

    /// All caches were flushed.
    #[inline]
    pub(crate) fn draw_flush(&mut self, lines: u64, when: [Cycles; 2]) {
        if self.memory.draws() {
            let facts = [("lines", Value::Number(lines))];
            self.draw_cache(Part::LastLevel, "walks", "flush", when, &facts);
        }
    }

    #[cold]
    fn draw_cache(
        &mut self,
        part: Part,
        track: &'static str,
        name: &'static str,
        when: [Cycles; 2],
        facts: &[Fact],
    ) {
        let track = Track::new(Kind::Caches, part, track);
        self.memory.draw(|| Event::span(track, name, when, facts));
    }
}
