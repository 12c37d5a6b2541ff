//! The strand buffer at work (§IV-C): lines arrive, go home when nobody else wants the media, overflow into
//! the log; and what happens when the SGST has no free entry.
//!
//! Always true here: whoever waits, waits for something that comes by itself; nobody waits for another hart.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Evicted, PolicyFailure};
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Track, line_fact};

use super::buffer::{Bytes, Ticket};
use super::log::Log;
use super::sgst::{Short, State, Strand, Strands};
use super::{Order, Spms};

/// One walk over the tags frees so large a part of what is short.
const FREED_BY_A_WALK: usize = 8;

impl Spms {
    /// A line that is no strand's goes home, and what the buffer has of it is of no use.
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
        if self.pool.contains(&(line * LINE_BYTES as u64)) {
            self.buffer.forget(line, done.durable);
        }
        done.into()
    }

    /// A strand's line comes to the module.
    pub(super) fn arrive(
        &mut self,
        hardware: &mut Hardware,
        strand: Strand,
        line: LineNumber,
        bytes: &Line,
        now: Cycles,
    ) -> Evicted {
        self.counters.arrivals += 1;
        let address = line * LINE_BYTES as u64;
        let mut accepted = hardware.memory.cross_link(address, LINE_BYTES, now);
        self.buffer.settle(accepted, hardware.memory.horizon());
        let mut done = accepted;
        if let Some((ticket, held)) = self.buffer.valid(line) {
            self.counters.coalesced += 1;
            let before = held.strand;
            if let Bytes::Logged(slot) = held.bytes {
                done = self.write_slot(hardware, slot, bytes, accepted);
            }
            self.buffer.replace(ticket, bytes, strand);
            if before != strand {
                self.sgst.of_mut(strand).tickets.push(ticket);
            }
        } else if let (true, Some((ticket, _))) = (
            self.flaws.overwrites_committed,
            self.buffer.overwritable(line),
        ) {
            self.buffer.uncommit(ticket, bytes, strand);
            self.sgst.of_mut(strand).tickets.push(ticket);
        } else {
            let held = if self.has_room(hardware, &mut accepted) {
                done = accepted;
                Bytes::Here(*bytes)
            } else {
                let Some((slot, free)) = self.buffer.take_slot() else {
                    let why = format!(
                        "the overflow log is full: strands that are not committed have {} lines in it and {} in the strand buffer; give a larger spms.buffer_bytes, more nvm.bytes, or shorter strands",
                        self.log.slots,
                        self.buffer.filled().here
                    );
                    hardware.failure.get_or_insert(PolicyFailure(why));
                    return Evicted {
                        accepted,
                        durable: accepted,
                    };
                };
                self.counters.log_lines += 1;
                done = self.write_slot(hardware, slot, bytes, accepted.max(free));
                Bytes::Logged(slot)
            };
            let ticket = self.buffer.put(line, held, strand);
            self.sgst.of_mut(strand).tickets.push(ticket);
        }
        let filled = self.buffer.filled();
        let level = Track::of_design("strand buffer");
        (hardware.memory).draw_level(level, accepted, filled.here);
        self.counters.occupied_peak = self.counters.occupied_peak.max(filled.here as u64);
        self.counters.log_peak = self.counters.log_peak.max(filled.logged as u64);
        self.arrived = self.arrived.max(done);
        let durable = done + self.latency;
        Evicted { accepted, durable }
    }

    /// Bytes go to a slot of the log. Returns when they are durable.
    fn write_slot(
        &mut self,
        hardware: &mut Hardware,
        slot: u32,
        bytes: &Line,
        now: Cycles,
    ) -> Cycles {
        let address = self.log.slot(slot) * LINE_BYTES as u64;
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let mut inside = memory.inside(self.module, statistics);
        inside
            .write(address, &bytes.0, Traffic::Log, now, 0)
            .durable
    }

    /// True if a line finds room in the buffer, perhaps when it has waited for a committed one to go home
    /// (*our assumption*: that costs one write, and the log two).
    fn has_room(&mut self, hardware: &mut Hardware, now: &mut Cycles) -> bool {
        if self.buffer.has_room() {
            return true;
        }
        while !self.buffer.has_room() {
            if self.buffer.next_gone().is_none() {
                let Some(ticket) = self.next_home() else {
                    return false;
                };
                self.bring_home(hardware, ticket, *now);
            }
            let Some(gone) = self.buffer.next_gone() else {
                return false;
            };
            *now = gone.max(*now);
            self.buffer.settle(*now, hardware.memory.horizon());
        }
        self.counters.waits += 1;
        true
    }

    fn next_home(&mut self) -> Option<Ticket> {
        let committed = self.buffer.next_home();
        if committed.is_none() && self.flaws.drains_valid {
            return self.buffer.any_valid();
        }
        committed
    }

    /// A line goes home.
    fn bring_home(&mut self, hardware: &mut Hardware, ticket: Ticket, now: Cycles) {
        self.counters.drained += 1;
        let held = self.buffer.held(ticket);
        let committed = if held.committed == Cycles::MAX {
            now
        } else {
            held.committed
        };
        let now = now.max(committed);
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let mut inside = memory.inside(self.module, statistics);
        let (bytes, now) = match held.bytes {
            Bytes::Here(bytes) => (bytes, now),
            Bytes::Logged(slot) => {
                let address = self.log.slot(slot) * LINE_BYTES as u64;
                let read = inside.read(address, LINE_BYTES, now);
                let mut bytes = Line::ZERO;
                bytes.0.copy_from_slice(&inside.bytes(address, LINE_BYTES));
                (bytes, read)
            }
        };
        let home = held.line * LINE_BYTES as u64;
        let done = inside.write(home, &bytes.0, Traffic::WriteBack, now, 0);
        let (when, facts) = ([now, done.durable], [line_fact(held.line)]);
        memory.draw_span(Track::of_design("lines going home"), "line", when, &facts);
        let gone = if self.flaws.forgets_in_flight {
            done.accepted
        } else {
            done.durable
        };
        self.buffer.leaves(ticket, gone);
    }

    /// "The strand buffer flushes committed entries to persistent memory when there is no LLC miss and
    /// writeback to serve": when the bank of the next line has nothing to do.
    pub(super) fn drain_when_idle(&mut self, hardware: &mut Hardware, now: Cycles) {
        self.buffer.settle(now, hardware.memory.horizon());
        self.draining = false;
        while let Some(ticket) = self.buffer.next_home() {
            let held = self.buffer.held(ticket);
            let home = held.line * LINE_BYTES as u64;
            let start = (hardware.memory)
                .could_start_at(home, now)
                .max(held.committed);
            if start > now {
                self.draining = true;
                hardware.memory.arena.prefetch(home);
                hardware.events.schedule(start, 0);
                return;
            }
            self.bring_home(hardware, ticket, now);
        }
    }

    /// What the capacitors would have to write now.
    pub(super) fn note_energy(&mut self) {
        let filled = self.buffer.filled();
        let directory = Log::directory_bytes(filled.committed_logged);
        let bytes = (filled.committed_here * LINE_BYTES) as u64 + directory;
        self.counters.energy_peak_bytes = self.counters.energy_peak_bytes.max(bytes);
    }

    /// §IV-C: "When there's no free SGST entry, we stall memory requests and evict cachelines belonging to a
    /// committing strand to spare free entries for new strands." Returns when there are some; `None` if
    /// that cannot be. One line stays.
    pub(super) fn make_room(
        &mut self,
        hardware: &mut Hardware,
        short: &Short,
        sparing: Option<LineNumber>,
        now: Cycles,
    ) -> Option<Cycles> {
        let range = short.range(self.sgst.identifiers());
        let wanted = (range.len() / FREED_BY_A_WALK).max(1);
        let mut time = self.walk(hardware, now);
        let mut freed = 0;
        for strand in self.sgst.ended(range) {
            if freed >= wanted {
                break;
            }
            // It may have gone with another one of its group.
            if self.sgst.of(strand).state == State::Committing {
                time = self.evict_group(hardware, strand, sparing, time);
                self.fold(hardware, strand, time);
            }
            freed += usize::from(!self.sgst.lives(strand));
        }
        (freed > 0).then_some(time)
    }

    /// Looks at all tags of the caches, side by side. Returns when it has.
    fn walk(&mut self, hardware: &Hardware, now: Cycles) -> Cycles {
        self.counters.forced_walks += 1;
        now + hardware.most_sets() as Cycles
    }

    /// A strand's group and those that have to be committed no later, the earlier ones first.
    fn with_earlier(&self, strand: Strand) -> Strands {
        let mut groups: Strands = self.sgst.groups_before(strand).collect();
        groups.reverse();
        groups
            .into_iter()
            .flat_map(|one| self.sgst.group(one))
            .collect()
    }

    /// Evicts the lines of those strands that have ended, of a group and those before it. Returns when they
    /// are out.
    fn evict_group(
        &mut self,
        hardware: &mut Hardware,
        strand: Strand,
        sparing: Option<LineNumber>,
        now: Cycles,
    ) -> Cycles {
        let mut time = now;
        for strand in self.with_earlier(strand) {
            let entry = self.sgst.of_mut(strand);
            if entry.state != State::Committing || entry.cnt == 0 {
                continue;
            }
            let mut lines = std::mem::take(&mut entry.lines);
            for &line in &lines {
                hardware.prefetch_llc(line);
            }
            for &line in &lines {
                hardware.prefetch_eviction(line);
            }
            for &line in &lines {
                if Some(line) != sparing {
                    self.counters.forced_lines += 1;
                    time = time.max(hardware.replace(self, line, time));
                }
            }
            lines.retain(|&line| Some(line) == sparing);
            self.sgst.of_mut(strand).lines = lines;
        }
        time
    }

    /// A group cannot commit that still has an active strand, or waits for a group that has, and its thread
    /// may be waiting for the one that waits here for an entry. So they all become one group, and strands
    /// of which nothing is in the caches give up their entries: the active one stands for them from now on,
    /// which changes nothing: they can only be committed together (*our assumption*: the paper leaves this
    /// out).
    fn fold(&mut self, hardware: &mut Hardware, strand: Strand, now: Cycles) {
        if !self.sgst.lives(strand) {
            return;
        }
        let group = self.with_earlier(strand);
        let is_active = |strand: &Strand| self.sgst.of(*strand).state == State::Active;
        let has_lines = |strand: &Strand| self.sgst.of(*strand).cnt > 0;
        let mut strands = group.iter().copied();
        // Lines are left where one is spared, because somebody is about to store to it.
        let stays = strands.clone().find(is_active);
        let Some(stays) = stays.or_else(|| strands.find(has_lines)) else {
            return;
        };
        for &strand in &group {
            self.sgst.merge(stays, strand);
        }
        for strand in group {
            let entry = self.sgst.of(strand);
            if entry.state != State::Committing || entry.cnt > 0 {
                continue;
            }
            if let Some(behind) = self.sgst.behind(strand) {
                self.sgst.merge(stays, behind);
            }
            let entry = self.sgst.of_mut(strand);
            if self.flaws.folds_as_committed {
                self.commit(hardware, &[strand], now);
                continue;
            }
            let (names, tickets) = (
                std::mem::take(&mut entry.names),
                std::mem::take(&mut entry.tickets),
            );
            for &ticket in &tickets {
                self.buffer.rename(ticket, stays);
            }
            self.counters.folded += 1;
            for name in &names {
                let thread = self.thread(name.thread);
                thread.last = thread
                    .last
                    .map(|last| if last == strand { stays } else { last });
            }
            let entry = self.sgst.of_mut(stays);
            entry.names.extend(names);
            entry.tickets.extend(tickets);
            self.sgst.free(strand);
            // The module hears of the new name.
            let told = size_of::<[Strand; 2]>();
            hardware.memory.cross_link(self.pool.start, told, now);
        }
    }

    /// Why a strand cannot begin.
    pub(super) fn exhausted(&self, short: &Short) -> String {
        match short {
            Short::Threads(_) => "more threads have strands on one hart than spms.tid_bits names: give more".into(),
            Short::Identifiers(_) => "every identifier of a thread is in use by strands that nobody has ended: spms.sid_bits is too small".into(),
            Short::Entries => format!(
                "all {} entries of the SGST belong to strands that nobody has ended: give more spms.sgst_entries, and let every thread end its strand",
                self.sgst.live()
            ),
        }
    }

    /// True if there is something of a strand, or of one that was folded into it.
    pub(super) fn has_stored(&self, strand: Strand) -> bool {
        let entry = self.sgst.of(strand);
        !entry.lines.is_empty() || !entry.tickets.is_empty() || entry.names.len() > 1
    }

    /// `strand_sync`: ends the thread's strand, if it has stored anything, and evicts what is left of all its
    /// strands, so that their groups are committed unless another thread has yet to end a strand of them.
    /// Answers how many are not, and when the others are.
    pub(super) fn strand_sync(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        now: Cycles,
    ) -> (u64, Cycles) {
        self.counters.sync_waits += 1;
        let current = self.thread_on(hart).strand;
        let ends =
            current.is_some_and(|strand| self.order != Order::Paper || self.has_stored(strand));
        let mut time = if ends {
            self.new_strand(hardware, hart, now)
        } else {
            now
        };
        if self.thread_on(hart).waiting > 0 {
            time = self.walk(hardware, time);
            let number = self.harts[hart].thread;
            for strand in self.sgst.ended(0..self.sgst.identifiers()) {
                let entry = self.sgst.of(strand);
                let own = entry.names.iter().any(|name| name.thread == number);
                if own && entry.state == State::Committing {
                    time = self.evict_group(hardware, strand, None, time);
                }
            }
        }
        let thread = *self.thread_on(hart);
        if !self.flaws.answers_sync_early {
            time = time.max(thread.committed);
        }
        (thread.waiting, time)
    }
}
