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

use super::bugs::Bug;
use super::places::PAGE_BYTES;
use super::records::{COPIES, Record, encode_block, page_word, table_block_words};
use super::{Entry, ShadowPaging};

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

impl ShadowPaging {
    /// Ends the executing epoch. Returns when its commit is retired.
    pub(super) fn commit(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        self.stage = Stage::Flushing;
        let table_before = self.table_words();
        let flushed = hardware.flush(self, now);
        // Pages in the order of their shadow pages: neighbours are in different banks.
        let mut written = std::mem::take(&mut self.written);
        written.sort_unstable_by_key(|&slot| self.frame(slot));
        self.written = written;
        let table = match self.bug {
            Some(Bug::TableBeforeFlush) => table_before,
            _ => self.table_words(),
        };
        let record = Record {
            number: self.record.number + 1,
            epoch: self.executing,
            pages: table.pages,
            lines: table.words.len() as u64 - table.pages,
        };
        let mut time = flushed.ready;
        let mut committed = 0;
        if self.bug == Some(Bug::CommitBeforeTable) {
            committed = write_record(hardware, &record, time);
        }
        time = self.write_table(hardware, record.number, &table.words, time);
        if self.bug == Some(Bug::HomeBeforeCommit) {
            time = self.write_home(hardware, time, 0);
        }
        let flush_durable = hardware.memory.quiet_at().max(time);
        if self.bug != Some(Bug::CommitBeforeTable) {
            committed = write_record(hardware, &record, flush_durable);
        }
        let retire_early = self.bug == Some(Bug::RetireBeforeHome);
        if retire_early {
            write_record(hardware, &record.retired(), committed);
        }
        if self.bug != Some(Bug::HomeBeforeCommit) {
            self.write_home(hardware, time, committed);
        }
        let home = hardware.memory.quiet_at().max(committed);
        let retired = if retire_early {
            home
        } else {
            write_record(hardware, &record.retired(), home)
        };
        for time in [flush_durable, committed, home, retired] {
            hardware.events.schedule(time, EVENT_COMMIT_PROCEEDS);
        }
        self.record = record.retired();
        self.forget_epoch();
        self.executing += 1;
        retired
    }

    /// The next stage has begun.
    pub(super) fn commit_proceeds(&mut self, hardware: &mut Hardware) {
        self.stage = match self.stage {
            Stage::Flushing => Stage::Committing,
            Stage::Committing => {
                self.announced = self.executing - 1;
                hardware.statistics.epochs_persisted += 1;
                Stage::WritingBack
            }
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
        let aside = match self.bug {
            Some(Bug::OverflowNotInTable) => &[],
            _ => &self.overflow.lines[..],
        };
        TableWords {
            pages: self.written.len() as u64,
            words: pages.chain(aside.iter().copied()).collect(),
        }
    }

    /// Writes the table; returns when the controller has taken it.
    fn write_table(
        &self,
        hardware: &mut Hardware,
        number: u64,
        words: &[u64],
        now: Cycles,
    ) -> Cycles {
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let per_block = table_block_words(self.places.row_bytes) as usize;
        let mut time = now;
        for (index, words) in (0..).zip(words.chunks(per_block)) {
            let block = encode_block(number, index, words);
            let address = self.places.table_block(index);
            let done = memory.write_block(address, &block, Traffic::Metadata, time, 0, statistics);
            time = done.accepted;
        }
        time
    }

    /// Copies everything home; returns when the controller has taken all of it.
    fn write_home(&self, hardware: &mut Hardware, now: Cycles, not_before: Cycles) -> Cycles {
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
            statistics.shadow_pages_written_back += 1;
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
        if self.bug != Some(Bug::OverflowKept) {
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

/// Writes both copies of a record, no earlier than `not_before`, one after the other; returns when
/// the second is durable.
fn write_record(hardware: &mut Hardware, record: &Record, not_before: Cycles) -> Cycles {
    let Hardware {
        memory, statistics, ..
    } = hardware;
    let bytes = record.encode();
    let mut time = not_before;
    for copy in COPIES {
        let metadata = Traffic::Metadata;
        time = memory
            .write_block(copy, &bytes, metadata, time, time, statistics)
            .durable;
    }
    time
}
