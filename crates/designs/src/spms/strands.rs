//! Strands and their groups (§IV-A, §IV-B): when one begins, ends, joins others, and is committed.
//!
//! Always true here: a thread has one strand at most that has not ended, wherever the thread runs.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, LineNumber, Version};
use perdure_hardware::policy::PolicyFailure;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Track, Value};
use perdure_hardware::trace::Traced;

use super::sgst::{Name, State, Strand, Strands};
use super::{NO_STRAND, Order, SYSTEM, Spms, Thread};

/// Where strands are drawn: those that have not ended, and those that have and are not committed.
const STRANDS: Track = Track::of_design("strands");
const WAITING: Track = Track::of_design("strands ended, not committed");
/// Where groups are drawn that are committed.
const GROUPS: Track = Track::of_design("groups");

/// What tells a strand from others that are drawn.
const fn which(name: &Name) -> u64 {
    (name.thread as u64) << 40 | name.ordinal
}

fn facts_of(name: &Name) -> [(&'static str, Value); 2] {
    [
        ("thread", Value::Number(name.thread.into())),
        ("strand", Value::Number(name.ordinal)),
    ]
}

impl Spms {
    /// A thread. The kernel counts them up, so that their numbers are small.
    pub(super) fn thread(&mut self, number: u32) -> &mut Thread {
        let number = number as usize;
        if number >= self.threads.len() {
            self.threads.resize(number + 1, Thread::default());
        }
        &mut self.threads[number]
    }

    pub(super) fn thread_on(&mut self, hart: usize) -> &mut Thread {
        self.thread(self.harts[hart].thread)
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
            self.sgst.uncount_line(version.0);
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

    /// Where threads are chained, a strand that begins comes behind its thread's last one, as long as that is
    /// not committed: and joins the one that stands for it, if it was folded into another thread's.
    fn come_behind(&mut self, hart: usize, strand: Strand) {
        let Thread { last, begun, .. } = *self.thread_on(hart);
        let thread = self.harts[hart].thread;
        let Some(last) = last.filter(|&last| self.sgst.lives(last)) else {
            return;
        };
        let mut names = self.sgst.of(last).names.iter();
        let is_it = |name: &Name| name.thread == thread && name.ordinal + 1 == begun;
        match names.position(is_it) {
            Some(0) => self.sgst.chain(last, strand),
            Some(_) => {
                self.sgst.merge(last, strand);
            }
            None => {}
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
        (hardware.memory).draw_begin((STRANDS, which(&name)), "active", now, &facts_of(&name));
        if self.order == Order::Thread && !self.flaws.forgets_chain {
            self.come_behind(hart, strand);
        }
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
        let thread = self.thread_on(hart);
        (thread.waiting, thread.last) = (thread.waiting + 1, Some(strand));
        if hardware.memory.draws() {
            self.draw_ended(hardware, hart, now);
        }
        self.sgst.end(strand, now);
        let entry = self.sgst.of(strand);
        if entry.lines.is_empty() && entry.names.len() == 1 {
            self.counters.strands_empty += 1;
        }
        self.show_version(hardware, hart);
        self.commit_if_complete(hardware, strand, now);
        now
    }

    /// The strand that stored last to a line that carries that tag in the caches, if it is not committed; by
    /// the identifier that the line has in the strand buffer, where it has come back from there.
    pub(super) fn last_writer(&self, line: LineNumber, tag: Version) -> Option<Strand> {
        let in_buffer = || {
            let (_, held) = self.buffer.valid(line)?;
            (!self.flaws.merges_in_caches_only).then_some(held.strand)
        };
        let lives = |strand: &Strand| self.sgst.lives(*strand);
        (Some(tag.0).filter(lives)).or_else(|| in_buffer().filter(lives))
    }

    /// §IV-B: "related strands that update the same cacheline are treated as a strand group".
    pub(super) fn join_last_writer(&mut self, line: LineNumber, tag: Version, strand: Strand) {
        let Some(writer) = self.last_writer(line, tag) else {
            return;
        };
        if self.flaws.does_not_merge || !self.sgst.merge(writer, strand) {
            return;
        }
        self.counters.merges += 1;
        self.counters.merges_in_buffer += u64::from(!self.sgst.lives(tag.0));
    }

    /// "A strand group is committed only when all strands belonging to this group are committed." So are,
    /// then, those that waited for it.
    pub(super) fn commit_if_complete(
        &mut self,
        hardware: &mut Hardware,
        strand: Strand,
        now: Cycles,
    ) {
        let mut complete = self.complete(strand);
        let mut waited = Vec::new();
        while let Some(strands) = complete {
            waited.extend(strands.iter().filter_map(|&one| self.sgst.behind(one)));
            self.commit(hardware, &strands, now);
            complete = std::iter::from_fn(|| waited.pop()).find_map(|one| self.complete(one));
        }
    }

    /// The strands that can be committed together now, if a strand of them can.
    fn complete(&self, strand: Strand) -> Option<Strands> {
        let ended = |strand: Strand| self.sgst.of(strand).state == State::Committing;
        if !self.sgst.lives(strand) {
            return None;
        }
        if self.flaws.commits_alone {
            let alone = ended(strand) && self.sgst.of(strand).cnt == 0;
            return alone.then(|| std::iter::once(strand).collect());
        }
        if self.flaws.commits_at_end {
            return self
                .sgst
                .group(strand)
                .all(ended)
                .then(|| self.sgst.group(strand).collect());
        }
        // Most often it is its own group that is not.
        if !self.sgst.is_complete(strand) {
            return None;
        }
        let mut groups = self.sgst.groups_before(strand);
        if !groups.all(|one| self.sgst.is_complete(one)) {
            return None;
        }
        let groups = self.sgst.groups_before(strand);
        Some(groups.flat_map(|one| self.sgst.group(one)).collect())
    }

    /// "The IDs of committed strands are transferred to persistent memory with a memory request and then the
    /// corresponding SGST entries are recycled."
    pub(super) fn commit(&mut self, hardware: &mut Hardware, group: &[Strand], now: Cycles) {
        // Nobody can tell when; unless it may have loaded what is on its way, or has stored over it, even if
        // nothing came of that because the system stored there, too.
        let did_nothing = |&strand: &Strand| {
            let entry = self.sgst.of(strand);
            self.order == Order::Paper && entry.lines.is_empty() && entry.tickets.is_empty()
        };
        let at = if self.flaws.commits_ahead || group.iter().all(did_nothing) {
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
            let (mut names, mut tickets) = (
                std::mem::take(&mut entry.names),
                std::mem::take(&mut entry.tickets),
            );
            for ticket in tickets.drain(..) {
                if self.buffer.commit(ticket, at) == Some(true) {
                    self.counters.superseded += 1;
                }
            }
            for name in names.drain(..) {
                strands += 1;
                self.committed(hardware, &name, at);
            }
            // Whoever has the entry next finds room in its lists.
            let entry = self.sgst.of_mut(strand);
            (entry.names, entry.tickets) = (names, tickets);
            self.sgst.free(strand);
        }
        let facts = [("strands", Value::Number(strands))];
        (hardware.memory).draw_moment(GROUPS, "group committed", at, &facts);
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

    /// The last strand that a hart's thread has begun has ended.
    fn draw_ended(&mut self, hardware: &mut Hardware, hart: usize, now: Cycles) {
        let name = Name {
            thread: self.harts[hart].thread,
            ordinal: self.thread_on(hart).begun.saturating_sub(1),
            ended: now,
        };
        (hardware.memory).draw_end((STRANDS, which(&name)), now, &[]);
        let (waits, facts) = ((WAITING, which(&name)), facts_of(&name));
        (hardware.memory).draw_begin(waits, "waiting", now, &facts);
    }

    fn committed(&mut self, hardware: &mut Hardware, name: &Name, at: Cycles) {
        (hardware.memory).draw_end((WAITING, which(name)), at, &[]);
        self.lags.add(at.saturating_sub(name.ended));
        let thread = self.thread(name.thread);
        thread.waiting = thread.waiting.saturating_sub(1);
        thread.committed = thread.committed.max(at);
        if let Some(trace) = &mut hardware.memory.trace {
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
