//! The log's formats, in the first sixteenth of the persistent region.
//!
//! ```text
//! header      at 0 and at 64, in turns; the one with the higher generation counts
//!             "HLOGHEAD"  u64 generation  u64 head  u64 lines of the log  u64 stride  zeros  u64 checksum
//! log line s  at 128 + 64 * (s * stride mod lines)
//!             u64 s << 8 | kind   u32 wrap   u32 checksum of the rest   48 bytes by kind
//!   kind 1 to 3    so many records: u64 address  u64 value
//!   kind 4         a close record: u64 close order  u64 record lines of the wrap  u64 s of the first  zeros
//! victims     64 bytes each, behind the log, of no meaning after a power cut
//! ```
//!
//! Everything is little-endian. A log line is one line of memory and torn by its words of eight bytes: then
//! its checksum does not fit, or it has no number that it could have at its place. Numbers are never used
//! again, not by another life either, so that what is left of older lines is never taken for newer ones.
//!
//! The stride lays lines that follow each other into different rows, and so banks. It has no divisor in
//! common with the length of the log.
//!
//! Always true: lines from the head on, and no further than the log is long, are all that counts.

use std::ops::Range;

use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::bytes::{Sealed, checksum};

const BYTES_OF_LINE: u64 = LINE_BYTES as u64;
/// Records that a log line has room for.
pub const RECORDS: usize = 3;
const CLOSE: u64 = 4;
const WORDS: usize = LINE_BYTES / 8;

/// What says where the log begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Header {
    /// Of two, the one with the higher generation counts.
    pub generation: u64,
    /// The first log line that counts.
    pub head: u64,
    /// How many the log has room for.
    pub lines: u64,
    /// So many places lie between a line and the next.
    pub stride: u64,
}

impl Sealed for Header {
    const MAGIC: &'static [u8; 8] = b"HLOGHEAD";
    const BYTES: usize = LINE_BYTES;
}

impl Header {
    /// The one of two that counts, if any is whole.
    pub fn newest(first: &[u8], second: &[u8]) -> Option<Self> {
        let whole = [first, second].map(|bytes| Self::decode(bytes, false));
        let whole = whole.into_iter().flatten();
        whole.max_by_key(|header| header.generation)
    }
}

/// A word of a wrap, as its transaction leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of eight bytes.
    pub address: u64,
    /// What is there from then on.
    pub value: u64,
}

/// What a log line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// One to three words of a wrap.
    Records(Vec<Record>),
    /// The wrap is closed.
    Close {
        /// Wraps that were closed before it.
        order: u64,
        /// Its log lines with records.
        lines: u64,
        /// The number of the first of them.
        first: u64,
    },
}

/// A log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Its number.
    pub number: u64,
    /// Whose it is.
    pub wrap: u32,
    /// What it says.
    pub entry: Entry,
}

impl LogLine {
    /// Its bytes.
    pub fn encode(&self) -> Line {
        let mut words = [0; WORDS];
        let kind = match &self.entry {
            Entry::Records(records) => {
                for (pair, record) in words[2..].chunks_exact_mut(2).zip(records) {
                    pair.copy_from_slice(&[record.address, record.value]);
                }
                records.len() as u64
            }
            &Entry::Close {
                order,
                lines,
                first,
            } => {
                words[2..5].copy_from_slice(&[order, lines, first]);
                CLOSE
            }
        };
        words[0] = self.number << 8 | kind;
        words[1] = u64::from(self.wrap);
        words[1] |= seal(&words) << 32;
        line(&words)
    }

    /// What a line says; `None` if it was torn or damaged, or is no log line. With `torn_too`, a planted bug,
    /// nobody looks at the checksum.
    pub fn decode(bytes: &[u8], torn_too: bool) -> Option<Self> {
        let (bytes, _) = bytes.as_chunks();
        let words: Vec<u64> = bytes.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut words: [u64; WORDS] = words.try_into().ok()?;
        let found = words[1] >> 32;
        words[1] &= u64::from(u32::MAX);
        if found != seal(&words) && !torn_too {
            return None;
        }
        let entry = match words[0] & 0xff {
            count @ 1..=3 => {
                let pairs = words[2..].chunks_exact(2).take(count as usize);
                let records = pairs.map(|pair| Record {
                    address: pair[0],
                    value: pair[1],
                });
                Entry::Records(records.collect())
            }
            CLOSE => Entry::Close {
                order: words[2],
                lines: words[3],
                first: words[4],
            },
            _ => return None,
        };
        Some(Self {
            number: words[0] >> 8,
            wrap: words[1] as u32,
            entry,
        })
    }
}

fn line(words: &[u64; WORDS]) -> Line {
    let mut line = Line::ZERO;
    for (bytes, word) in line.0.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    line
}

/// A checksum of 32 bits over a line's words, of which the upper half of the second is zero.
fn seal(words: &[u64; WORDS]) -> u64 {
    checksum(&line(words).0) & u64::from(u32::MAX)
}

/// Where everything lies.
#[derive(Clone, Debug)]
pub struct Layout {
    area: Range<u64>,
    /// Lines of the log.
    pub lines: u64,
    stride: u64,
}

/// The part of a persistent region that is the design's.
pub fn area(region: &Range<u64>) -> Range<u64> {
    let bytes = (region.end - region.start) / 16 / 4096 * 4096;
    region.start..region.start + bytes
}

impl Layout {
    /// With a log of so many lines, of which neighbours have so many places between them.
    pub fn new(region: &Range<u64>, lines: u64, stride: u64) -> Self {
        Self {
            area: area(region),
            lines,
            stride,
        }
    }

    /// The same as a header says it, if that is possible.
    pub fn of(region: &Range<u64>, header: &Header) -> Option<Self> {
        let possible = (1..=Self::most_lines(region)).contains(&header.lines)
            && (1..=header.lines).contains(&header.stride)
            && are_coprime(header.stride, header.lines);
        possible.then(|| Self::new(region, header.lines, header.stride))
    }

    /// The stride at which so many lines lie so far apart, or hardly further.
    pub fn stride(lines: u64, wanted: u64) -> u64 {
        let mut far = wanted.min(lines)..=lines;
        far.find(|&stride| are_coprime(stride, lines)).unwrap_or(1)
    }

    /// An empty log's header, of a generation.
    pub fn header_of(&self, generation: u64, head: u64) -> Header {
        Header {
            generation,
            head,
            lines: self.lines,
            stride: self.stride,
        }
    }

    /// The most lines that a log can have in a region: half of the area is for victims.
    pub fn most_lines(region: &Range<u64>) -> u64 {
        let area = area(region);
        ((area.end - area.start) / BYTES_OF_LINE / 2).saturating_sub(2)
    }

    /// The line of the header of a generation.
    pub fn header(&self, generation: u64) -> LineNumber {
        line_of(self.area.start) + generation % 2
    }

    /// Where log lines lie.
    pub fn places(&self) -> Range<u64> {
        let start = self.area.start + 2 * BYTES_OF_LINE;
        start..start + self.lines * BYTES_OF_LINE
    }

    /// The line of a log line.
    pub fn line(&self, number: u64) -> LineNumber {
        line_of(self.area.start) + 2 + number % self.lines * self.stride % self.lines
    }

    /// Lines for victims.
    pub fn slots(&self) -> u32 {
        let all = (self.area.end - self.area.start) / BYTES_OF_LINE;
        u32::try_from(all - 2 - self.lines).unwrap_or(u32::MAX)
    }

    /// The line of one of them.
    pub fn slot(&self, slot: u32) -> LineNumber {
        line_of(self.area.start) + 2 + self.lines + u64::from(slot)
    }
}

fn are_coprime(mut one: u64, mut other: u64) -> bool {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> [LogLine; 2] {
        let record = |word: u64| Record {
            address: 0x1000 + word * 8,
            value: word << 40 | 5,
        };
        let line = |entry| LogLine {
            number: 77,
            wrap: 9,
            entry,
        };
        [
            line(Entry::Records((0..2).map(record).collect())),
            line(Entry::Close {
                order: 3,
                lines: 4,
                first: 70,
            }),
        ]
    }

    #[test]
    fn a_log_line_is_its_number_its_wrap_a_checksum_and_what_it_says() {
        let [records, close] = examples();
        let bytes = records.encode().0;
        assert_eq!(bytes[..8], (77_u64 << 8 | 2).to_le_bytes());
        assert_eq!(bytes[8..12], 9_u32.to_le_bytes());
        assert_eq!(bytes[16..24], 0x1000_u64.to_le_bytes());
        for line in [records, close] {
            assert_eq!(LogLine::decode(&line.encode().0, false), Some(line));
        }
    }

    #[test]
    fn every_line_has_a_place_of_its_own_away_from_the_next() {
        for lines in [8, 48, 66, 1000, 65536] {
            let stride = Layout::stride(lines, 33);
            let layout = Layout::new(&(0..64 << 20), lines, stride);
            let mut places: Vec<_> = (7..7 + lines).map(|number| layout.line(number)).collect();
            // The far way round, too.
            let apart = 32.min(stride).min(lines - stride);
            assert!(
                places[0].abs_diff(places[1]) >= apart,
                "{lines} by {stride}"
            );
            assert!(lines < 100 || apart == 32, "{lines} by {stride}");
            places.sort_unstable();
            assert!(places.into_iter().eq(2..2 + lines), "{lines} by {stride}");
            assert_eq!(layout.slot(0), 2 + lines);
        }
    }

    #[test]
    fn one_that_is_torn_or_damaged_is_none() {
        let [records, close] = examples();
        for whole in [records.encode(), close.encode()] {
            for byte in 0..LINE_BYTES {
                let mut damaged = whole;
                damaged.0[byte] ^= 4;
                assert_eq!(LogLine::decode(&damaged.0, false), None, "byte {byte}");
            }
        }
        // Every mixture of the two by words of eight bytes.
        let (old, new) = (records.encode(), close.encode());
        let mut whole = 0;
        for words in 0..1 << WORDS {
            let mut torn = old;
            for word in (0..WORDS).filter(|word| words >> word & 1 == 1) {
                torn.0[word * 8..][..8].copy_from_slice(&new.0[word * 8..][..8]);
            }
            let same = torn == old || torn == new;
            assert_eq!(LogLine::decode(&torn.0, false).is_some(), same);
            whole += u32::from(same);
        }
        assert!(whole >= 2);
        assert_eq!(LogLine::decode(&[0; LINE_BYTES], false), None);
    }
}
