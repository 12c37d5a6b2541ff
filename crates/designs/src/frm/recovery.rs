//! FRM's recovery: from surviving bytes to the memory of the last committed epoch.
//!
//! 1. Read the boot record and the newest whole commit record.
//! 2. Make both copies of the commit record say the same. From here on no torn write can complete a
//!    newer record that the cut had torn.
//! 3. Read the live records from index 0 to the first one that isn't whole, which the cut has torn or
//!    lost; the line that it protects was not written, because nothing goes in place before its record
//!    is durable. Of the records behind it, those that were durable before it are read, too.
//! 4. Write the old bytes back, newest record first; of several records of one line the oldest is
//!    written last, and wins.
//! 5. Write a commit record of the same epoch and the next generation: the log is empty. Until that
//!    is durable, another recovery starts over with the same log and ends with the same memory.
//!
//! Damage is told from a torn end by what later records say: a record that was issued when the bad
//! one was known to be durable, or that stands further behind it than the *window*, the number of
//! records that may be on their way at once, reaches.

use perdure_hardware::line::{LINE_BYTES, Line};

use super::bugs::Flaws;
use super::log::{Log, Record};
use super::registers::Commit;
use crate::copies::CommitRecord;
use crate::design::Recovered;
use crate::layout::{BootRecord, Layout};
use crate::surviving::{Corruption, Interrupted, Surviving};

/// How far ahead the host is told which lines will be written.
const PREFETCH: usize = 16;

/// How many records behind the first bad one are looked at, at least: damage to fewer in a row is
/// told from a torn end.
const LOOK_AHEAD: u64 = 256;

/// Most entries that the buffer can have.
pub const MOST_BUFFER_ENTRIES: u64 = 1024;

/// Recovers. See the module's documentation.
pub fn recover(image: &mut Surviving, flaws: Flaws) -> Result<Recovered, Interrupted> {
    let boot = BootRecord::read(image)?;
    let [row_bytes, stripe_rows, capacity, window] = boot.design;
    let log = Log::of_numbers(&boot.layout.log_area, [row_bytes, stripe_rows, capacity])
        .filter(|_| (1..=MOST_BUFFER_ENTRIES).contains(&window))
        .ok_or(Corruption {
            what: "boot record: not one of FRM",
            address: 0,
        })?;
    let commit = Commit::read(image, false)?;
    commit.write_both(image)?;
    let records = live_records(image, &log, window, commit.generation, flaws)?;
    let emptied = Commit {
        generation: commit.generation + 1,
        epoch: commit.epoch,
    };
    if flaws.empties_log_first {
        emptied.write_both(image)?;
    }
    if flaws.undoes_forward {
        undo(image, &boot.layout, records.iter())?;
    } else {
        undo(image, &boot.layout, records.iter().rev())?;
    }
    emptied.write_both(image)?;
    Ok(Recovered::at(commit.epoch))
}

/// The whole records of the log's generation, oldest first: a prefix, and what is whole within the
/// window behind it.
fn live_records(
    image: &Surviving,
    log: &Log,
    window: u64,
    generation: u64,
    flaws: Flaws,
) -> Result<Vec<Record>, Corruption> {
    let mut records = Vec::new();
    for index in 0..log.capacity {
        let found = if flaws.accepts_torn_record {
            log.any_record(image, index, true)?
                .filter(|record| record.generation == generation)
        } else if flaws.accepts_stale_record {
            log.any_record(image, index, false)?
                .filter(|record| record.index == index)
        } else {
            log.record(image, index, generation)?
        };
        let Some(record) = found else {
            is_torn_end(image, log, window, generation, index)?;
            for behind in index + 1..(index + window).min(log.capacity) {
                records.extend(log.record(image, behind, generation)?);
            }
            break;
        };
        records.push(record);
    }
    Ok(records)
}

/// Fails if a record behind the first bad one says that the bad one had been durable.
fn is_torn_end(
    image: &Surviving,
    log: &Log,
    window: u64,
    generation: u64,
    end: u64,
) -> Result<(), Corruption> {
    let last = (end + LOOK_AHEAD.max(2 * window)).min(log.capacity - 1);
    for index in end + 1..=last {
        let Some(record) = log.record(image, index, generation)? else {
            continue;
        };
        if record.durable_below > end || index >= end + window {
            return Err(Corruption {
                what: "log: a record that had been durable is damaged",
                address: log.address(end),
            });
        }
    }
    Ok(())
}

fn undo<'a>(
    image: &mut Surviving,
    layout: &Layout,
    records: impl Iterator<Item = &'a Record> + Clone,
) -> Result<(), Interrupted> {
    let mut ahead = records.clone().skip(PREFETCH);
    for record in records {
        if let Some(later) = ahead.next() {
            image.prefetch(later.line.wrapping_mul(LINE_BYTES as u64));
        }
        let address = record.line.checked_mul(LINE_BYTES as u64);
        if !address.is_some_and(|address| layout.protected().contains(&address)) {
            return Err(Corruption {
                what: "log: a record of a line outside memory",
                address: record.line,
            }
            .into());
        }
        image.write_line(record.line, &Line(record.old))?;
    }
    Ok(())
}
