//! Recovery: the closed wraps of the log go home in the order in which they were closed.
//!
//! Always true: homes are written before the header that makes the log worthless, which is the last step;
//! until then another recovery does all of it again.

use std::collections::BTreeMap;
use std::ops::Range;

use perdure_hardware::line::{LINE_BYTES, line_of};

use super::bugs::Flaws;
use super::log::{Entry, Header, Layout, LogLine, Record, area};
use crate::bytes::Sealed;
use crate::surviving::{Corruption, Interrupted, Surviving};

const BYTES_OF_LINE: u64 = LINE_BYTES as u64;
/// Bytes of the log that are read at once.
const READ_BYTES: u64 = 2048;

/// A closed wrap.
#[derive(Clone, Copy)]
struct Closed {
    wrap: u32,
    order: u64,
    lines: u64,
    first: u64,
}

/// What the log says of wraps.
#[derive(Default)]
struct Found {
    /// By wrap, its records in their order, with the lines in which they were.
    records: BTreeMap<u32, (u64, Vec<Record>)>,
    closed: Vec<Closed>,
}

/// Brings memory back to where every closed wrap has left it, and empties the log.
pub fn recover(
    image: &mut Surviving,
    region: &Range<u64>,
    flaws: &Flaws,
) -> Result<(), Interrupted> {
    let start = area(region).start;
    let headers = image.read(start, 2 * LINE_BYTES)?.into_owned();
    let (first, second) = headers.split_at(LINE_BYTES);
    let damaged = |what, address| Corruption { what, address };
    let header = Header::newest(first, second);
    let layout = header.and_then(|header| Layout::of(region, &header));
    let (Some(header), Some(layout)) = (header, layout) else {
        return Err(damaged("no header of the log is whole", start).into());
    };
    let mut found = scan(image, &layout, &header, flaws)?;
    // What is written last makes the log worthless.
    let emptied = Header {
        generation: header.generation + 1,
        head: header.head + header.lines,
        ..header
    };
    let place = layout.header(emptied.generation) * BYTES_OF_LINE;
    if flaws.clears_log_first {
        image.write(place, &emptied.encode())?;
    }
    if flaws.applies_open {
        found.closed = every_wrap(&found);
    }
    let words = words_of(&mut found, &header, region, flaws)?;
    write_home(image, &words)?;
    image.write_unless_there(place, &emptied.encode())
}

/// Looks at every line of the log that may count.
fn scan(
    image: &Surviving,
    layout: &Layout,
    header: &Header,
    flaws: &Flaws,
) -> Result<Found, Corruption> {
    let mut lines = Vec::new();
    let counting = header.head..header.head + header.lines;
    let (mut address, end) = (layout.places().start, layout.places().end);
    while address < end {
        let bytes = (READ_BYTES - address % READ_BYTES).min(end - address);
        let read = image.read(address, usize::try_from(bytes).unwrap_or(0))?;
        for (bytes, place) in read.chunks_exact(LINE_BYTES).zip(line_of(address)..) {
            let line = LogLine::decode(bytes, flaws.ignores_checksum);
            let fits = |line: &LogLine| {
                counting.contains(&line.number) && layout.line(line.number) == place
            };
            lines.extend(line.filter(fits));
        }
        address += bytes;
    }
    lines.sort_by_key(|line| line.number);
    let mut found = Found::default();
    for line in lines {
        found.take(line);
    }
    found.closed.sort_by_key(|closed| {
        if flaws.recovers_in_opening_order {
            return u64::from(closed.wrap);
        }
        closed.order
    });
    if flaws.drops_last_closed {
        found.closed.pop();
    }
    Ok(found)
}

impl Found {
    fn take(&mut self, line: LogLine) {
        match line.entry {
            Entry::Records(records) => {
                let of_wrap = self.records.entry(line.wrap).or_default();
                of_wrap.0 += 1;
                of_wrap.1.extend(records);
            }
            Entry::Close {
                order,
                lines,
                first,
            } => self.closed.push(Closed {
                wrap: line.wrap,
                order,
                lines,
                first,
            }),
        }
    }
}

/// Every wrap, closed or not: a planted bug.
fn every_wrap(found: &Found) -> Vec<Closed> {
    let all = found.records.iter().map(|(&wrap, &(lines, _))| Closed {
        wrap,
        order: u64::from(wrap),
        lines,
        first: 0,
    });
    all.collect()
}

/// What words are when every closed wrap has stored its own. All of its lines must be there, but for those
/// that the head has passed: then it is home, and its other lines stand behind one of a wrap that is not.
fn words_of(
    found: &mut Found,
    header: &Header,
    region: &Range<u64>,
    flaws: &Flaws,
) -> Result<BTreeMap<u64, u64>, Corruption> {
    let pool = area(region).end..region.end;
    let mut words = BTreeMap::new();
    for closed in &found.closed {
        let (lines, records) = found.records.remove(&closed.wrap).unwrap_or_default();
        let passed = closed.first < header.head && lines < closed.lines;
        if lines != closed.lines && !passed && !flaws.ignores_checksum {
            return Err(Corruption {
                what: "a closed wrap lacks log lines",
                address: area(region).start,
            });
        }
        for Record { address, value } in records {
            if !address.is_multiple_of(8) || !pool.contains(&address) {
                return Err(Corruption {
                    what: "a log record of what is no word of a pool",
                    address,
                });
            }
            words.insert(address, value);
        }
    }
    Ok(words)
}

/// Writes words where they belong, line by line.
fn write_home(image: &mut Surviving, words: &BTreeMap<u64, u64>) -> Result<(), Interrupted> {
    let mut words = words.iter().peekable();
    while let Some(&(&address, _)) = words.peek() {
        let start = address - address % BYTES_OF_LINE;
        let mut line = image.read(start, LINE_BYTES)?.into_owned();
        while let Some((&address, value)) =
            words.next_if(|&(&address, _)| address < start + BYTES_OF_LINE)
        {
            let at = (address - start) as usize;
            line[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        image.write_unless_there(start, &line)?;
    }
    Ok(())
}
