//! The controller in the background: words of closed wraps go home, the log's head moves, held lines go
//! home; and what a line does that leaves the caches.
//!
//! Wraps go home in the order of their closes. Each of a wrap's lines is read, gets the wrap's words and is
//! written, when its bank has nothing else to do, or at once if somebody waits for a place in the log.
//!
//! Always true here:
//! - No word goes home before its wrap's close record is durable.
//! - No header moves the head past a wrap whose words are not durable at home.
//! - A held line gets every word that was recorded after it left the caches, when the word goes home.

use std::collections::BTreeMap;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Evicted, PolicyFailure};
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Track, Value};

use super::Hlog;
use super::log::{Entry, LogLine};
use super::victims::{Bytes, Dependences, Held};
use super::wraps::Closed;
use crate::bytes::Sealed;

/// Where wraps are drawn that go home.
const RETIRING: (Track, u64) = (Track::of_design("wraps going home"), 0);

/// The head moves by no less, unless the log is short of places.
const LINES_PER_HEADER: u64 = 64;

/// A word of a wrap on its way home.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// Where in its line.
    at: usize,
    value: u64,
    /// The log line that has its record.
    number: u64,
}

/// The wrap whose words are going home.
#[derive(Clone, Debug)]
pub(super) struct Retiring {
    wrap: Closed,
    homes: BTreeMap<LineNumber, Vec<Word>>,
    /// When its words are at hand.
    ready: Cycles,
    /// When all that went home is durable.
    durable: Cycles,
}

fn laid_over(bytes: &mut Line, words: &[Word]) {
    for word in words {
        bytes.0[word.at..word.at + 8].copy_from_slice(&word.value.to_le_bytes());
    }
}

// ---- Wraps go home --------------------------------------------------------------------------

impl Hlog {
    /// How many wraps are home by then: their words are durable.
    pub(super) fn retired_by(&self, now: Cycles) -> u64 {
        let later = self.retired.iter().rev().take_while(|&&at| at > now);
        self.retired_count - later.count() as u64
    }

    /// Takes the next closed wrap to bring home.
    fn take_next(&mut self, hardware: &mut Hardware, now: Cycles) {
        let Some(wrap) = self.closed.pop_front() else {
            return;
        };
        let (from, mut ready) = (now.max(wrap.from), now.max(wrap.from));
        let facts = [("log_lines", Value::Number(wrap.lines.len() as u64))];
        (hardware.memory).draw_begin(RETIRING, "wrap", from, &facts);
        let mut homes: BTreeMap<LineNumber, Vec<Word>> = BTreeMap::new();
        for logged in &wrap.lines {
            let (bytes, read) = self.bytes_of(hardware, logged, from);
            ready = ready.max(read);
            let line = LogLine::decode(&bytes.0, false).map(|line| line.entry);
            let Some(Entry::Records(records)) = line else {
                continue;
            };
            for record in records {
                let at = (record.address % LINE_BYTES as u64) as usize;
                let (value, number) = (record.value, logged.number);
                let word = Word { at, value, number };
                homes.entry(line_of(record.address)).or_default().push(word);
            }
        }
        self.retiring = Some(Retiring {
            wrap,
            homes,
            ready,
            durable: ready,
        });
    }

    /// Brings one line of a wrap home, and ends the wrap with the last.
    fn bring_line(&mut self, hardware: &mut Hardware, now: Cycles) {
        let Some(mut retiring) = self.retiring.take() else {
            return;
        };
        if let Some((line, words)) = retiring.homes.pop_first() {
            let now = now.max(retiring.ready);
            let durable = self.merge_home(hardware, line, &words, now);
            retiring.durable = retiring.durable.max(durable);
        }
        if retiring.homes.is_empty() {
            self.retire(hardware, &retiring, now);
        } else {
            self.retiring = Some(retiring);
        }
    }

    /// A line at home gets words, and what is held of it those that were recorded later. Returns when they
    /// are durable at home.
    fn merge_home(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        words: &[Word],
        now: Cycles,
    ) -> Cycles {
        self.counters.homes += 1;
        let home = line * LINE_BYTES as u64;
        let Hardware {
            memory, statistics, ..
        } = &mut *hardware;
        let mut inside = memory.inside(self.module, statistics);
        let read = inside.read(home, LINE_BYTES, now);
        let mut bytes = Line::ZERO;
        bytes.0.copy_from_slice(&inside.bytes(home, LINE_BYTES));
        laid_over(&mut bytes, words);
        let done = inside.write(home, &bytes.0, Traffic::Flush, read, 0);
        self.merge_held(hardware, line, words, done.accepted);
        done.durable
    }

    fn merge_held(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        words: &[Word],
        now: Cycles,
    ) {
        let Some(held) = self.victims.get_mut(line) else {
            return;
        };
        let (since, bytes) = (held.since, held.bytes);
        let waits = held.dependences.closed_below > self.retired_count;
        let mut words = words.to_vec();
        words.retain(|word| word.number >= since);
        let skips = self.flaws.does_not_merge || (self.flaws.merges_by_wrap && waits);
        if words.is_empty() || skips {
            return;
        }
        self.counters.merged += words.len() as u64;
        held.not_before = held.not_before.max(now);
        match &mut held.bytes {
            Bytes::Here(bytes) => laid_over(bytes, &words),
            Bytes::Spilled(_) => {
                let (mut bytes, read) = self.held_bytes(hardware, &bytes, now);
                laid_over(&mut bytes, &words);
                if let Some(Bytes::Spilled(slot)) = self.victims.get(line).map(|held| held.bytes) {
                    self.write_slot(hardware, slot, &bytes, read);
                }
            }
        }
    }

    /// All words of a wrap are on their way home, and durable then.
    fn retire(&mut self, hardware: &mut Hardware, retiring: &Retiring, now: Cycles) {
        let before = self.retired.back().copied().unwrap_or(0);
        self.retired.push_back(retiring.durable.max(before));
        self.retired_count += 1;
        self.counters.retired += 1;
        (hardware.memory).draw_end(RETIRING, now.max(retiring.ready), &[]);
        let horizon = hardware.memory.horizon();
        while self.retired.len() > 1 && self.retired[0] <= horizon {
            self.retired.pop_front();
        }
        for logged in &retiring.wrap.lines {
            self.places.is_done(logged.number);
        }
        self.places.is_done(retiring.wrap.record);
        let enough = LINES_PER_HEADER.min(self.layout.lines / 4);
        if self.places.movable() >= enough {
            self.move_head(hardware, now);
        }
    }

    /// Gives the places of wraps up that are home.
    fn move_head(&mut self, hardware: &mut Hardware, now: Cycles) {
        self.counters.headers += 1;
        let home = self.retired.back().copied().unwrap_or(0);
        // One of the two headers is always whole.
        let before = self.places.header_durable;
        let behind = if self.flaws.moves_head_early {
            before
        } else {
            before.max(home)
        };
        let header = self.places.move_head();
        let address = self.layout.header(header.generation) * LINE_BYTES as u64;
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let mut inside = memory.inside(self.module, statistics);
        let done = inside.write(address, &header.encode(), Traffic::Metadata, now, behind);
        let durable = done.durable.max(behind);
        self.places.header_written(durable, memory.horizon());
    }

    /// When so many places of the log are free, for which wraps are brought home if need be. `None` if that
    /// cannot be, as the oldest line is of a wrap that is open.
    pub(super) fn wait_for_place(
        &mut self,
        hardware: &mut Hardware,
        wanted: u64,
        now: Cycles,
    ) -> Option<Cycles> {
        loop {
            if let Some(free) = self.places.free_at(wanted) {
                self.counters.log_waits += u64::from(free > now);
                return Some(if self.flaws.reuses_places {
                    now
                } else {
                    now.max(free)
                });
            }
            if self.places.movable() > 0 {
                self.move_head(hardware, now);
                continue;
            }
            if self.retiring.is_none() {
                self.take_next(hardware, now);
            }
            self.retiring.as_ref()?;
            self.bring_line(hardware, now);
        }
    }
}

// ---- Victims --------------------------------------------------------------------------------

impl Hlog {
    /// The wraps that are open, or closed and not home then.
    fn dependences(&self, now: Cycles) -> Option<Dependences> {
        let open = if self.flaws.depends_on_oldest {
            self.open.keys().take(1).copied().collect()
        } else {
            self.open.keys().copied().collect()
        };
        let all_home = self.retired_by(now) == self.closed_count || self.flaws.forgets_closed;
        if all_home && self.open.is_empty() || self.flaws.writes_victims_home {
            return None;
        }
        let closed_below = if all_home { 0 } else { self.closed_count };
        Some(Dependences { open, closed_below })
    }

    /// A line of a thread's has left the caches: home, or to the victim cache.
    pub(super) fn leaves(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        bytes: &Line,
        now: Cycles,
    ) -> Evicted {
        let now = self.send_records_of(hardware, line, now);
        let Some(dependences) = self.dependences(now) else {
            return self.write_home(hardware, line, bytes, now);
        };
        let address = line * LINE_BYTES as u64;
        let mut accepted = hardware.memory.cross_link(address, LINE_BYTES, now);
        self.counters.victims += 1;
        let older = self.victims.get(line).map(|held| held.bytes);
        self.counters.replaced += u64::from(older.is_some());
        let bytes = match older {
            Some(Bytes::Here(_)) => Bytes::Here(*bytes),
            None if self.has_room(hardware, &mut accepted) => Bytes::Here(*bytes),
            _ => {
                // The slot that it has is given up, and is the next that is taken.
                self.victims.remove(line);
                let Some(slot) = self.victims.take_slot() else {
                    let why = "the spill area is full of lines that wait for wraps to be closed: give a larger hlog.victim_bytes, more nvm.bytes, or shorter wraps, and let every thread close its wraps";
                    hardware.failure.get_or_insert(PolicyFailure(why.into()));
                    return Evicted {
                        accepted,
                        durable: accepted,
                    };
                };
                self.counters.spilled += 1;
                accepted = self.write_slot(hardware, slot, bytes, accepted);
                Bytes::Spilled(slot)
            }
        };
        let held = Held {
            bytes,
            since: self.places.next,
            dependences,
            not_before: accepted,
        };
        self.victims.put(line, held);
        let (here, spilled) = self.victims.filled();
        let level = Track::of_design("victim cache");
        (hardware.memory).draw_level(level, accepted, here);
        self.counters.victims_peak = self.counters.victims_peak.max(here as u64);
        self.counters.spill_peak = self.counters.spill_peak.max(spilled as u64);
        self.wake(hardware, accepted);
        Evicted {
            accepted,
            durable: accepted,
        }
    }

    /// True if a line finds room, perhaps when it has waited for one that may go home.
    fn has_room(&mut self, hardware: &mut Hardware, now: &mut Cycles) -> bool {
        while !self.victims.has_room() {
            let Some((line, from)) = self.next_victim() else {
                return false;
            };
            *now = self.bring_victim(hardware, line, from.max(*now));
        }
        true
    }

    /// The held line that goes home next, and from when on it may.
    fn next_victim(&self) -> Option<(LineNumber, Cycles)> {
        let (line, held) = self.victims.next_home()?;
        let behind = self
            .retired_count
            .checked_sub(held.dependences.closed_below)?;
        // When the last of its dependences was home.
        let home = (self.retired.len() as u64).checked_sub(behind + 1);
        let home = home.and_then(|at| self.retired.get(usize::try_from(at).ok()?));
        Some((line, held.not_before.max(home.copied().unwrap_or(0))))
    }

    /// A held line goes home. Returns when its place is free.
    fn bring_victim(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> Cycles {
        let Some(held) = self.victims.get(line).map(|held| held.bytes) else {
            return now;
        };
        self.counters.drained += 1;
        let (bytes, now) = self.held_bytes(hardware, &held, now);
        let home = line * LINE_BYTES as u64;
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let mut inside = memory.inside(self.module, statistics);
        let done = inside.write(home, &bytes.0, Traffic::WriteBack, now, 0);
        self.victims.remove(line);
        done.accepted
    }

    /// A line that waits for nothing goes home, and what is held of it is of no use.
    pub(super) fn write_home(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        bytes: &Line,
        now: Cycles,
    ) -> Evicted {
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let done = memory.write_line(line, bytes, Traffic::WriteBack, now, 0, statistics);
        self.victims.remove(line);
        done.into()
    }

    /// Bytes of a held line, and when they are at hand in the controller.
    fn held_bytes(&mut self, hardware: &mut Hardware, held: &Bytes, now: Cycles) -> (Line, Cycles) {
        let slot = match held {
            Bytes::Here(bytes) => return (*bytes, now),
            Bytes::Spilled(slot) => self.layout.slot(*slot) * LINE_BYTES as u64,
        };
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let mut inside = memory.inside(self.module, statistics);
        let read = inside.read(slot, LINE_BYTES, now);
        let mut bytes = Line::ZERO;
        bytes.0.copy_from_slice(&inside.bytes(slot, LINE_BYTES));
        (bytes, read)
    }

    /// Bytes go to a slot of the spill area. Returns when they are accepted.
    fn write_slot(
        &mut self,
        hardware: &mut Hardware,
        slot: u32,
        bytes: &Line,
        now: Cycles,
    ) -> Cycles {
        let address = self.layout.slot(slot) * LINE_BYTES as u64;
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let mut inside = memory.inside(self.module, statistics);
        let done = inside.write(address, &bytes.0, Traffic::WriteBack, now, 0);
        done.accepted
    }
}

// ---- When nobody else wants the media -------------------------------------------------------

impl Hlog {
    /// There may be something to do from then on.
    pub(super) fn wake(&mut self, hardware: &mut Hardware, at: Cycles) {
        if !self.awake && (!self.closed.is_empty() || self.next_victim().is_some()) {
            self.awake = true;
            hardware.events.schedule(at, 0);
        }
    }

    /// Brings home what can go, as long as the bank of the next line has nothing to do.
    pub(super) fn work_when_idle(&mut self, hardware: &mut Hardware, now: Cycles) {
        self.awake = false;
        loop {
            if self.retiring.is_none() && self.closed.front().is_some_and(|wrap| wrap.from <= now) {
                self.take_next(hardware, now);
            }
            let victim = self.next_victim();
            let wrap = self.next_line();
            let next = [victim, wrap].into_iter().flatten();
            let Some((line, from)) = next.min_by_key(|&(_, from)| from) else {
                return;
            };
            let home = line * LINE_BYTES as u64;
            let start = hardware.memory.could_start_at(home, now).max(from);
            if start > now {
                self.awake = true;
                hardware.events.schedule(start, 0);
                return;
            }
            if victim.is_some_and(|(_, at)| wrap.is_none_or(|(_, other)| at <= other)) {
                self.bring_victim(hardware, line, now);
            } else {
                self.bring_line(hardware, now);
            }
        }
    }

    /// The line at home that gets words next, and from when on it may.
    fn next_line(&self) -> Option<(LineNumber, Cycles)> {
        if let Some(retiring) = &self.retiring {
            let (&line, _) = retiring.homes.first_key_value()?;
            return Some((line, retiring.ready));
        }
        let wrap = self.closed.front()?;
        Some((self.layout.line(wrap.record), wrap.from))
    }
}
