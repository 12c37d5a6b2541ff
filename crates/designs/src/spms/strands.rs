//! Strands and their groups (§IV-A, §IV-B): when one begins, ends, joins others, and is committed.
//!
//! Always true here: a thread has one strand at most that has not ended, wherever the thread runs.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, LineNumber, Version};
use perdure_hardware::policy::{CrossVersionStore, PolicyFailure};
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;

use super::sgst::{Name, State, Strand};
use super::{NO_STRAND, SYSTEM, Spms, Thread};

impl Spms {
    pub(super) fn thread_on(&mut self, hart: usize) -> &mut Thread {
        self.threads.entry(self.harts[hart].thread).or_default()
    }

    /// What a hart's thread stores from now on carries the tag of its strand: there, and where it ran last
    /// and may come back to without anybody's hearing of it.
    pub(super) fn show_version(&mut self, hardware: &mut Hardware, hart: usize) {
        let strand = self.thread_on(hart).strand;
        let thread = self.harts[hart].thread;
        for (hart, running) in self.harts.iter_mut().enumerate() {
            if running.thread != thread {
                continue;
            }
            let version = match strand {
                _ if running.system => SYSTEM,
                Some(strand) => Version(strand),
                None => NO_STRAND,
            };
            if std::mem::replace(&mut running.version, version) != version {
                hardware.version_changed_of(hart);
            }
        }
    }

    /// A cached line carries another tag from now on, or has left.
    pub(super) fn leave_line(&mut self, version: Version) {
        if self.sgst.lives(version.0) {
            let entry = self.sgst.of_mut(version.0);
            entry.cnt = entry.cnt.saturating_sub(1);
        }
    }

    /// The strand of a hart's thread, which begins now if there is none: to store to that line.
    pub(super) fn strand_of(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        line: LineNumber,
        now: Cycles,
    ) -> Option<(Strand, Cycles)> {
        match self.thread_on(hart).strand {
            Some(strand) => Some((strand, now)),
            None => self.begin(hardware, hart, Some(line), now),
        }
    }

    /// A thread begins a strand. If there is no room for it, lines are evicted until there is, except one.
    fn begin(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        sparing: Option<LineNumber>,
        mut now: Cycles,
    ) -> Option<(Strand, Cycles)> {
        let (thread, ordinal) = (self.harts[hart].thread, self.thread_on(hart).begun);
        let name = Name {
            thread,
            ordinal,
            ended: 0,
        };
        let strand = loop {
            let short = match self.sgst.begin(hart, name, self.flaws.reuses_live_ids) {
                Ok(strand) => break strand,
                Err(short) => short,
            };
            let Some(later) = self.make_room(hardware, &short, sparing, now) else {
                let why = self.exhausted(&short);
                hardware.failure.get_or_insert(PolicyFailure(why));
                return None;
            };
            now = later;
        };
        self.counters.strands_begun += 1;
        let thread = self.thread_on(hart);
        thread.strand = Some(strand);
        thread.begun += 1;
        self.show_version(hardware, hart);
        Some((strand, now))
    }

    /// `NewStrand`: "both the end of the former strand and the start of the later".
    pub(super) fn new_strand(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        now: Cycles,
    ) -> Cycles {
        let now = self.end(hardware, hart, now);
        self.begin(hardware, hart, None, now)
            .map_or(now, |(_, now)| now)
    }

    /// A hart's thread ends its strand, if it has one.
    fn end(&mut self, hardware: &mut Hardware, hart: usize, now: Cycles) -> Cycles {
        // What waits to go around the caches was stored before.
        let now = hardware.send_all_combined(self, hart, now);
        let Some(strand) = self.thread_on(hart).strand.take() else {
            return now;
        };
        self.thread_on(hart).waiting += 1;
        let entry = self.sgst.of_mut(strand);
        entry.state = State::Committing;
        if let Some(name) = entry.names.first_mut() {
            name.ended = now;
        }
        if entry.lines.is_empty() && entry.names.len() == 1 {
            self.counters.strands_empty += 1;
        }
        self.show_version(hardware, hart);
        self.commit_if_complete(hardware, strand, now);
        now
    }

    /// §IV-B: "related strands that update the same cacheline are treated as a strand group".
    pub(super) fn join_last_writer(&mut self, store: &CrossVersionStore, strand: Strand) {
        let cached = Some(store.version.0).filter(|&tag| self.sgst.lives(tag));
        let in_buffer = || {
            let (_, held) = self.buffer.valid(store.line)?;
            (!self.flaws.merges_in_caches_only).then_some(held.strand)
        };
        let Some(writer) = cached.or_else(in_buffer) else {
            return;
        };
        if self.flaws.does_not_merge || !self.sgst.merge(writer, strand) {
            return;
        }
        self.counters.merges += 1;
        self.counters.merges_in_buffer += u64::from(cached.is_none());
    }

    /// "A strand group is committed only when all strands belonging to this group are committed."
    pub(super) fn commit_if_complete(
        &mut self,
        hardware: &mut Hardware,
        strand: Strand,
        now: Cycles,
    ) {
        let complete = |strand: Strand| {
            let entry = self.sgst.of(strand);
            let out = entry.cnt == 0 || self.flaws.commits_at_end;
            entry.state == State::Committing && out
        };
        // Most often it is the strand itself that is not.
        if !complete(strand) {
            return;
        }
        let group: Vec<Strand> = if self.flaws.commits_alone {
            vec![strand]
        } else {
            self.sgst.group(strand).collect()
        };
        if group.iter().all(|&strand| complete(strand)) {
            self.commit(hardware, &group, now);
        }
    }

    /// "The IDs of committed strands are transferred to persistent memory with a memory request and then the
    /// corresponding SGST entries are recycled."
    pub(super) fn commit(&mut self, hardware: &mut Hardware, group: &[Strand], now: Cycles) {
        let nothing_sent = |&strand: &Strand| self.sgst.of(strand).tickets.is_empty();
        let at = if self.flaws.commits_ahead || group.iter().all(nothing_sent) {
            now
        } else {
            let requests = size_of_val(group).next_multiple_of(LINE_BYTES);
            let sent = (hardware.memory).cross_link(self.pool.start, requests, now);
            // Lines and requests come in the order in which they were sent, whoever's clock lags behind.
            self.arrived = self.arrived.max(sent);
            self.arrived + self.latency
        };
        let mut strands = 0;
        for &strand in group {
            let entry = self.sgst.of_mut(strand);
            let (names, tickets) = (
                std::mem::take(&mut entry.names),
                std::mem::take(&mut entry.tickets),
            );
            for ticket in tickets {
                if self.buffer.commit(ticket, at) == Some(true) {
                    self.counters.superseded += 1;
                }
            }
            for name in names {
                strands += 1;
                self.committed(hardware, &name, at);
            }
            self.sgst.free(strand);
        }
        self.count_group(strands);
        if let Some(times) = &mut hardware.memory.persistence_times {
            times.push(at);
        }
        self.note_energy();
        if !self.draining && self.buffer.next_home().is_some() {
            self.draining = true;
            hardware.events.schedule(at, 0);
        }
    }

    fn committed(&mut self, hardware: &mut Hardware, name: &Name, at: Cycles) {
        self.lags.add(at.saturating_sub(name.ended));
        let thread = self.threads.entry(name.thread).or_default();
        thread.waiting = thread.waiting.saturating_sub(1);
        thread.committed = thread.committed.max(at);
        if let Some(trace) = &mut hardware.trace {
            trace.push(Traced::Committed {
                thread: name.thread,
                strand: name.ordinal,
                at,
            });
        }
    }

    fn count_group(&mut self, strands: u64) {
        let counters = &mut self.counters;
        counters.strands_committed += strands;
        counters.groups += 1;
        counters.group_largest = counters.group_largest.max(strands);
        *match strands {
            0..=1 => &mut counters.groups_of_1,
            2 => &mut counters.groups_of_2,
            3..=4 => &mut counters.groups_of_4,
            5..=16 => &mut counters.groups_of_16,
            _ => &mut counters.groups_of_more,
        } += 1;
    }
}
