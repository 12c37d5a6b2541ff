//! Wraps: opened, recorded in the log, closed (*our assumption*: a wrap that is opened within another is part
//! of that; a record outside of all is a wrap by itself; a close without an open is nothing).
//!
//! Always true here:
//! - A thread has one open wrap at most, wherever the thread runs.
//! - A close record is durable after every log line of its wrap, and nobody is told of it before.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use perdure_hardware::memory::{Accepted, Traffic};
use perdure_hardware::policy::PolicyFailure;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Track, Value};
use perdure_hardware::trace::Traced;

use super::Hlog;
use super::log::{Entry, LogLine, RECORDS, Record};

/// A log line of a wrap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged {
    pub number: u64,
    /// Its bytes, if the controller's buffer had room.
    pub bytes: Option<Line>,
}

/// An open wrap.
#[derive(Clone, Debug, Default)]
pub(super) struct Wrap {
    pub thread: u32,
    /// Wraps of the thread before it.
    pub ordinal: u64,
    /// Wraps within it that are open.
    inner: u32,
    /// Records on their way to a log line.
    gathered: Vec<Record>,
    pub lines: Vec<Logged>,
    /// When all of them are durable.
    durable: Cycles,
}

impl Wrap {
    pub fn has_records(&self) -> bool {
        !(self.lines.is_empty() && self.gathered.is_empty())
    }
}

/// A closed wrap that is not home.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub lines: Vec<Logged>,
    /// The number of its close record.
    pub record: u64,
    /// When its words may go home.
    pub from: Cycles,
}

/// Where wraps are drawn that are open.
const WRAPS: Track = Track::of_design("wraps");

/// Why a log line is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Full,
    AtClose,
    Early,
}

impl Hlog {
    pub(super) fn wrap_of(&self, thread: u32) -> Option<u32> {
        self.threads.get(&thread)?.wrap
    }

    /// `wrap_open`.
    pub(super) fn open(&mut self, hardware: &mut Hardware, hart: usize, now: Cycles) {
        let number = self.harts[hart].thread;
        let thread = self.threads.entry(number).or_default();
        if let Some(open) = thread.wrap.and_then(|wrap| self.open.get_mut(&wrap)) {
            open.inner += 1;
            return;
        }
        let wrap = Wrap {
            thread: number,
            ordinal: thread.opened,
            ..Wrap::default()
        };
        thread.wrap = Some(self.opened);
        thread.opened += 1;
        self.open.insert(self.opened, wrap);
        let facts = [("thread", Value::Number(number.into()))];
        (hardware.memory).draw_begin((WRAPS, self.opened.into()), "open", now, &facts);
        self.opened += 1;
        self.counters.opened += 1;
    }

    /// `wrap_record`: "through non-temporal instructions […] transfers log records of updates". Returns when
    /// the hart goes on.
    pub(super) fn record(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        record: Record,
        now: Cycles,
    ) -> Cycles {
        if !self.pool.contains(&record.address) {
            return now;
        }
        let thread = self.harts[hart].thread;
        let Some(wrap) = self.wrap_of(thread) else {
            self.open(hardware, hart, now);
            let now = self.record(hardware, hart, record, now);
            return self.close(hardware, hart, now);
        };
        let Some(open) = self.open.get_mut(&wrap) else {
            return now;
        };
        open.gathered.push(record);
        if open.gathered.len() < RECORDS {
            return now;
        }
        self.send(hardware, wrap, Sent::Full, now)
    }

    /// Sends what a wrap has gathered, if anything. Returns when the sender may go on.
    pub(super) fn send(
        &mut self,
        hardware: &mut Hardware,
        wrap: u32,
        why: Sent,
        now: Cycles,
    ) -> Cycles {
        let gathered = match self.open.get_mut(&wrap) {
            Some(open) if !open.gathered.is_empty() => std::mem::take(&mut open.gathered),
            _ => return now,
        };
        *match why {
            Sent::Full => &mut self.counters.lines_full,
            Sent::AtClose => &mut self.counters.lines_at_close,
            Sent::Early => &mut self.counters.lines_early,
        } += 1;
        self.counters.lines += 1;
        self.counters.records += gathered.len() as u64;
        let Some((number, bytes, done)) =
            self.append(hardware, wrap, Entry::Records(gathered), now, 0)
        else {
            return now;
        };
        let kept = self.buffered < self.buffer_lines;
        self.buffered += usize::from(kept);
        self.counters.buffer_peak = self.counters.buffer_peak.max(self.buffered as u64);
        if let Some(open) = self.open.get_mut(&wrap) {
            open.durable = open.durable.max(done.durable);
            let bytes = kept.then_some(bytes);
            open.lines.push(Logged { number, bytes });
        }
        done.accepted
    }

    /// Writes a log line into the next place, when that is free, and no earlier than `not_before`.
    fn append(
        &mut self,
        hardware: &mut Hardware,
        wrap: u32,
        entry: Entry,
        now: Cycles,
        not_before: Cycles,
    ) -> Option<(u64, Line, Accepted)> {
        // Every open wrap can still be closed.
        let spare = match entry {
            Entry::Records(_) => self.open.len() as u64,
            Entry::Close { .. } => 0,
        };
        let Some(now) = self.wait_for_place(hardware, 1 + spare, now) else {
            let why = format!(
                "the log is full, and its oldest line is of a wrap that is open: give a larger hlog.log_bytes ({} lines now), or shorter wraps, and let every thread close its wraps",
                self.layout.lines
            );
            hardware.failure.get_or_insert(PolicyFailure(why));
            return None;
        };
        let number = self.places.take();
        self.counters.log_peak = self.counters.log_peak.max(self.places.used(now));
        let line = LogLine {
            number,
            wrap,
            entry,
        };
        let bytes = line.encode();
        let address = self.layout.line(number) * LINE_BYTES as u64;
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let arrived = memory.cross_link(address, LINE_BYTES, now);
        let mut inside = memory.inside(self.module, statistics);
        let done = inside.write(address, &bytes.0, Traffic::Log, arrived, not_before);
        Some((number, bytes, done))
    }

    /// Records of a line that is leaving the caches go before it, so that the controller knows which of them
    /// the line's bytes have (*our assumption*).
    pub(super) fn send_records_of(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        mut now: Cycles,
    ) -> Cycles {
        let of_line = |wrap: &Wrap| {
            let mut records = wrap.gathered.iter();
            records.any(|record| line_of(record.address) == line)
        };
        let wraps: Vec<u32> = (self.open.iter())
            .filter(|(_, wrap)| of_line(wrap))
            .map(|(&number, _)| number)
            .collect();
        for wrap in wraps {
            now = self.send(hardware, wrap, Sent::Early, now);
        }
        now
    }

    /// `wrap_close`. Returns when the wrap is durable.
    pub(super) fn close(&mut self, hardware: &mut Hardware, hart: usize, now: Cycles) -> Cycles {
        let asked = now;
        // What waits to go around the caches was stored before.
        let now = hardware.send_all_combined(self, hart, now);
        let number = self.harts[hart].thread;
        let Some(wrap) = self.wrap_of(number) else {
            return now;
        };
        if let Some(open) = self.open.get_mut(&wrap).filter(|open| open.inner > 0) {
            open.inner -= 1;
            return now;
        }
        let now = if self.flaws.forgets_gathered {
            now
        } else {
            self.send(hardware, wrap, Sent::AtClose, now)
        };
        self.threads.entry(number).or_default().wrap = None;
        let Some(open) = self.open.remove(&wrap) else {
            return now;
        };
        let lines = [("log_lines", Value::Number(open.lines.len() as u64))];
        (hardware.memory).draw_end((WRAPS, wrap.into()), now, &lines);
        if open.lines.is_empty() {
            self.counters.empty += 1;
            self.victims.closes(wrap, None);
            self.wake(hardware, now);
            return now;
        }
        let done = self.write_close(hardware, wrap, open, now);
        self.counters.close_cycles += done - asked;
        // Others may not see a lock given up that still holds back what they would overwrite.
        hardware.cores[hart].waited = true;
        done
    }

    /// Writes a close record. Returns when the caller may be told.
    fn write_close(
        &mut self,
        hardware: &mut Hardware,
        wrap: u32,
        open: Wrap,
        now: Cycles,
    ) -> Cycles {
        let entry = Entry::Close {
            order: self.closed_count,
            lines: open.lines.len() as u64,
            first: open.lines[0].number,
        };
        let behind = if self.flaws.closes_before_lines {
            0
        } else {
            open.durable
        };
        let Some((record, _, done)) = self.append(hardware, wrap, entry, now, behind) else {
            return now;
        };
        self.closed_count += 1;
        self.counters.closed += 1;
        let below = (!self.flaws.forgets_closed).then_some(self.closed_count);
        self.victims.closes(wrap, below);
        let durable = done.durable;
        let close = Track::of_design("close records");
        (hardware.memory).draw_span(close, "close record", [now, durable], &[]);
        let told = if self.flaws.closes_early {
            now
        } else {
            durable
        };
        if let Some(trace) = &mut hardware.memory.trace {
            trace.push(Traced::Committed {
                thread: open.thread,
                strand: open.ordinal,
                at: told,
            });
        }
        let from = if self.flaws.retires_open {
            now
        } else {
            durable
        };
        self.closed.push_back(Closed {
            lines: open.lines,
            record,
            from,
        });
        self.wake(hardware, from);
        told
    }

    /// Bytes of a wrap's log line: the controller's, or those that are read back from the log. When they are
    /// there, too.
    pub(super) fn bytes_of(
        &mut self,
        hardware: &mut Hardware,
        logged: &Logged,
        now: Cycles,
    ) -> (Line, Cycles) {
        if let Some(bytes) = logged.bytes {
            self.buffered -= 1;
            return (bytes, now);
        }
        self.counters.read_back += 1;
        let address = self.layout.line(logged.number) * LINE_BYTES as u64;
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let mut inside = memory.inside(self.module, statistics);
        let read = inside.read(address, LINE_BYTES, now);
        let mut bytes = Line::ZERO;
        bytes.0.copy_from_slice(&inside.bytes(address, LINE_BYTES));
        (bytes, read)
    }
}
