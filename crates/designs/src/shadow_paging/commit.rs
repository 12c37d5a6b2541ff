//! The commit: the epoch's end, at which the machine stands still (§II-B: the cache flush is
//! synchronous, and Table II denies these designs any overlap with execution).
//!
//! ```text
//! flush    dirty lines go to shadow pages, with copies on write where they miss
//! table    the written pages and the lines kept aside, in blocks of a row
//! commit   the record, copy 0 when all of that is durable, then copy 1
//! home     each written page from its shadow page, each line kept aside to its place
//! retire   the record without table, copy 0 when everything is home, then copy 1
//! ```
//!
//! Everything is given to the controller at once, each step with the time before which the media
//! may not start it; events follow the commit so that output leaves when the record is durable.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::Track;

use super::places::PAGE_BYTES;
use super::records::{Record, encode_block, page_word, table_block_words};
use super::{Entry, ShadowPaging};
use crate::bytes::Sealed;
use crate::copies::COPIES;

/// How far the commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// There is none.
    Executing,
    /// Flushed lines and the table are not durable yet.
    Flushing,
    /// These are; the commit record is not.
    Committing,
    /// The epoch is committed; its pages are not home yet.
    WritingBack,
    /// They are; the record that says so is not durable.
    Retiring,
}

const EVENT_COMMIT_PROCEEDS: u32 = 1;
const EVENT_COMMITTED: u32 = 2;

/// What is written after the flush, each step when everything before it is durable; the first need
/// not wait for the flush.
#[derive(Clone, Copy)]
enum Step {
    Table,
    Commit,
    Home,
    Retire,
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Commit => "commit record",
            Self::Home => "copy home",
            Self::Retire => "retire",
        }
    }
}

impl ShadowPaging {
    /// Ends the executing epoch. Returns when its commit is retired.
    pub(super) fn commit(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        self.stage = Stage::Flushing;
        let table_before = (self.flaws.takes_table_before_flush).then(|| self.table_words());
        let flushed = hardware.flush(self, now);
        // Pages in the order of their shadow pages: neighbours are in different banks.
        let mut written = std::mem::take(&mut self.written);
        written.sort_unstable_by_key(|&slot| self.frame(slot));
        self.written = written;
        let table = table_before.unwrap_or_else(|| self.table_words());
        let record = Record {
            number: self.record.number + 1,
            epoch: self.executing,
            pages: table.pages,
            lines: table.words.len() as u64 - table.pages,
        };
        let mut order = [Step::Table, Step::Commit, Step::Home, Step::Retire];
        self.flaws.disturb(&mut order);
        let commit = Track::of_design("commit");
        (hardware.memory).draw_span(commit, "flush", [now, flushed.ready], &[]);
        let (mut time, mut durable) = (flushed.ready, 0);
        for step in order {
            let (name, from) = (step.name(), durable.max(time));
            time = match step {
                Step::Table => self.write_table(hardware, &record, &table.words, time, durable),
                Step::Commit => write_record(hardware, &record, time, durable),
                Step::Home => self.write_home(hardware, time, durable),
                Step::Retire => write_record(hardware, &record.retired(), time, durable),
            };
            durable = hardware.memory.quiet_at().max(time);
            (hardware.memory).draw_span(commit, name, [from, durable], &[]);
            let event = match step {
                Step::Commit => EVENT_COMMITTED,
                Step::Table | Step::Home | Step::Retire => EVENT_COMMIT_PROCEEDS,
            };
            hardware.events.schedule(durable, event);
        }
        self.record = record.retired();
        self.forget_epoch();
        self.executing += 1;
        durable
    }

    /// What a step wrote is durable.
    pub(super) fn commit_proceeds(&mut self, hardware: &mut Hardware, event: u32) {
        if event == EVENT_COMMITTED {
            self.announced = self.executing - 1;
            hardware.statistics.epochs_persisted += 1;
        }
        self.stage = match self.stage {
            Stage::Flushing => Stage::Committing,
            Stage::Committing => Stage::WritingBack,
            Stage::WritingBack => Stage::Retiring,
            Stage::Retiring | Stage::Executing => Stage::Executing,
        };
    }

    /// What must be copied home.
    fn table_words(&self) -> TableWords {
        let pages = self.written.iter().map(|&slot| {
            let page = self.table.key(slot).expect("a written page has its entry");
            page_word(page, self.frame(slot))
        });
        let aside = if self.flaws.leaves_overflow_out_of_table {
            &[]
        } else {
            &self.overflow.lines[..]
        };
        TableWords {
            pages: self.written.len() as u64,
            words: pages.chain(aside.iter().copied()).collect(),
        }
    }

    /// Writes a record's table; returns when the controller has taken it.
    fn write_table(
        &self,
        hardware: &mut Hardware,
        record: &Record,
        words: &[u64],
        now: Cycles,
        not_before: Cycles,
    ) -> Cycles {
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let metadata = Traffic::Metadata;
        let per_block = table_block_words(self.places.row_bytes) as usize;
        let mut time = now;
        for (index, words) in (0..).zip(words.chunks(per_block)) {
            let block = encode_block(record.number, index, words);
            let address = self.places.table_block(index);
            let done = memory.write_block(address, &block, metadata, time, not_before, statistics);
            time = done.accepted;
        }
        time
    }

    /// Copies everything home; returns when the controller has taken all of it.
    fn write_home(&mut self, hardware: &mut Hardware, now: Cycles, not_before: Cycles) -> Cycles {
        self.counters.pages_written_back += self.written.len() as u64;
        let batch = hardware.specification.nvm.read_queue_entries;
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let flush = Traffic::Flush;
        let mut time = now;
        for &slot in &self.written {
            let page = self.table.key(slot).expect("a written page has its entry");
            let from = self.places.shadow_page(self.frame(slot));
            let (to, length) = (page * PAGE_BYTES, PAGE_BYTES as usize);
            let done = memory.copy_within(from, to, length, flush, time, not_before, statistics);
            time = done.accepted;
        }
        // Lines cross the link, as many at a time as the controller can read.
        let places = (0..).map(|index| self.places.overflow_line(index));
        let aside: Vec<_> = places.zip(&self.overflow.lines).collect();
        for lines in aside.chunks(batch) {
            let asked = time;
            for (place, _) in lines {
                let address = place * LINE_BYTES as u64;
                let arrived = memory.read_block(address, LINE_BYTES, asked, statistics);
                time = time.max(arrived);
            }
            for &(place, &line) in lines {
                let bytes = *memory.arena.line(place * LINE_BYTES as u64);
                let done = memory.write_line(line, &bytes, flush, time, not_before, statistics);
                time = done.accepted;
            }
        }
        time
    }

    /// All pages are retained, no line is kept aside.
    fn forget_epoch(&mut self) {
        for slot in self.written.drain(..) {
            *self.table.value_mut(slot) = Entry::default();
        }
        if !self.flaws.keeps_overflow {
            self.overflow.lines.clear();
            self.overflow.indices.clear();
        }
        self.full_at = None;
    }
}

/// The table's words, and how many of them are pages'.
struct TableWords {
    pages: u64,
    words: Vec<u64>,
}

/// Writes both copies of a record, one after the other; returns when the controller has taken them.
fn write_record(
    hardware: &mut Hardware,
    record: &Record,
    now: Cycles,
    not_before: Cycles,
) -> Cycles {
    let Hardware {
        memory, statistics, ..
    } = hardware;
    let bytes = record.encode();
    let (mut time, mut after) = (now, not_before);
    for copy in COPIES {
        let done = memory.write_block(copy, &bytes, Traffic::Metadata, time, after, statistics);
        (time, after) = (done.accepted, done.durable);
    }
    time
}
