//! Log areas: where undo entries and checkpoints of a thread lie, and their format.
//!
//! An area is whole granules of a pool, or parts of them, and the devices have it to themselves until
//! programs recover. Each device uses what it has of it: a header in its first line, and two halves. A
//! transaction's entries begin at the start of the half that its number's last bit names; so two may be there
//! at once, one that is ending and one that runs, and the half of a third is free when the first one's
//! entries are dead.
//!
//! ```text
//! header  u64 "NPMLOG01"  u64 committed
//! entry   u32 kind  u32 "NPME"  u64 transaction  u64 target, from the pool's start  u64 size  u64 check
//!         then the bytes, padded to 64; begins at a multiple of 64, and lies within a granule
//! ```
//!
//! Always true of what is durable when the devices have recovered: the entries of transaction `committed + 1`
//! are those from the start of each piece of its half on that have its number and fit their check, one behind
//! the other; likewise those of `committed + 2`. Numbers are never used again, so that nothing else fits.

use std::ops::Range;

use super::geometry::Geometry;
use crate::bytes::word;

/// A line, by which entries are aligned.
pub const LINE: u64 = 64;
/// What the header begins with.
pub const HEADER_MAGIC: u64 = u64::from_le_bytes(*b"NPMLOG01");
/// Where the header has the number of the last transaction that has ended.
pub const COMMITTED: u64 = 8;
const ENTRY_MAGIC: u32 = u32::from_le_bytes(*b"NPME");

/// What an entry keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Old data of a transaction.
    Undo = 1,
    /// A page as it was.
    Checkpoint = 2,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        [Self::Undo, Self::Checkpoint]
            .into_iter()
            .find(|kind| *kind as u32 == number)
    }
}

/// The check of an entry: over its other words, and its bytes with zeros behind them to a whole word. Word i
/// goes into lane i % 4, so that whoever makes it works on four at once.
pub fn check(words: &[u64], bytes: &[u8]) -> u64 {
    let mix = |check: u64, word: u64| {
        let check = (check ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        check ^ check >> 29
    };
    let mut lanes = [0x9e37_79b9_7f4a_7c15; 4];
    for (index, &word) in words.iter().enumerate() {
        lanes[index % 4] = mix(lanes[index % 4], word);
    }
    // The bytes go on where the words end.
    lanes.rotate_left(words.len() % 4);
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    for (lane, chunk) in lanes.iter_mut().zip(rest.chunks(8)) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        *lane = mix(*lane, u64::from_le_bytes(word));
    }
    lanes.rotate_right(words.len() % 4);
    lanes.into_iter().reduce(mix).unwrap_or_default()
}

/// An entry's header line.
pub fn header_of(kind: Kind, transaction: u64, target: u64, bytes: &[u8]) -> [u8; LINE as usize] {
    let first = u64::from(kind as u32) | u64::from(ENTRY_MAGIC) << 32;
    let words = [first, transaction, target, bytes.len() as u64];
    let mut line = [0; LINE as usize];
    let all = words.iter().copied().chain([check(&words, bytes)]);
    for (place, word) in line.chunks_exact_mut(8).zip(all) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    line
}

/// An entry that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it keeps.
    pub kind: Kind,
    /// Whose it is.
    pub transaction: u64,
    /// Where its bytes belong, from the pool's start on.
    pub target: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The entry at an address, if there is one that ends by `end`.
pub fn entry_at(
    address: u64,
    end: u64,
    read: &mut dyn FnMut(u64, usize) -> Vec<u8>,
) -> Option<Entry> {
    if address + LINE > end {
        return None;
    }
    let line = read(address, LINE as usize);
    let word = |index| word(&line, index);
    let (first, size) = (word(0), word(3));
    if (first >> 32) as u32 != ENTRY_MAGIC || size > end - address - LINE {
        return None;
    }
    let bytes = read(address + LINE, size as usize);
    let words = [first, word(1), word(2), size];
    (check(&words, &bytes) == word(4)).then_some(Entry {
        kind: Kind::of(first as u32)?,
        transaction: word(1),
        target: word(2),
        bytes,
    })
}

/// What one device has of a log area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its header.
    pub header: u64,
    halves: [Vec<Range<u64>>; 2],
}

impl Area {
    /// A device's share of an area; `None` if that is too little for two halves.
    pub fn new(geometry: &Geometry, device: usize, area: &Range<u64>) -> Option<Self> {
        let mut pieces: Vec<_> = geometry.own(device, area).collect();
        let header = pieces.first()?.start;
        pieces[0].start += LINE;
        let second = pieces.split_off(pieces.len().div_ceil(2));
        let halves = [pieces, second];
        let fits = halves.iter().all(|half| !half.is_empty());
        (fits && header.is_multiple_of(LINE)).then_some(Self { header, halves })
    }

    /// The pieces of a transaction's half.
    pub fn half(&self, transaction: u64) -> &[Range<u64>] {
        &self.halves[(transaction % 2) as usize]
    }

    /// The live entries of a transaction, with where they lie: what software finds.
    #[cfg(test)]
    pub fn entries(
        &self,
        transaction: u64,
        read: &mut dyn FnMut(u64, usize) -> Vec<u8>,
    ) -> Vec<(u64, Entry)> {
        let mut found = Vec::new();
        for piece in self.half(transaction) {
            let mut at = piece.start;
            while let Some(entry) = entry_at(at, piece.end, read)
                && entry.transaction == transaction
            {
                let next = at + LINE + (entry.bytes.len() as u64).next_multiple_of(LINE);
                found.push((at, entry));
                at = next;
            }
        }
        found
    }
}

/// What lays an empty log down.
pub fn reset_writes(area: &Area, committed: u64) -> Vec<(u64, Vec<u8>)> {
    let mut header = vec![0; LINE as usize];
    header[..8].copy_from_slice(&HEADER_MAGIC.to_le_bytes());
    header[8..16].copy_from_slice(&committed.to_le_bytes());
    let firsts = [0, 1].map(|half| (area.half(half)[0].start, vec![0; LINE as usize]));
    firsts.into_iter().chain([(area.header, header)]).collect()
}

/// How far a transaction's half is filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Which piece.
    pub piece: usize,
    /// Bytes of it.
    pub offset: u64,
}

/// A part of an operand that becomes one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The bytes.
    pub data: Range<u64>,
    /// Where the entry begins.
    pub entry: u64,
}

/// Where the entries of an operand go, in a half that is filled so far: as many as granules ask for. `None`
/// if there is no room.
pub fn place(
    geometry: &Geometry,
    device: usize,
    half: &[Range<u64>],
    operand: &Range<u64>,
    fill: &mut Fill,
) -> Option<Vec<Logged>> {
    let mut entries = Vec::new();
    for own in geometry.own(device, operand) {
        let mut at = own.start;
        while at < own.end {
            let piece = half.get(fill.piece)?;
            let start = piece.start + fill.offset;
            let room = piece.end.saturating_sub(start + LINE) / LINE * LINE;
            // A new piece rather than one entry more than there need be.
            let whole = (own.end - at).min(geometry.granule - LINE);
            if room < whole {
                *fill = Fill {
                    piece: fill.piece + 1,
                    offset: 0,
                };
                continue;
            }
            entries.push(Logged {
                data: at..at + whole,
                entry: start,
            });
            at += whole;
            fill.offset += LINE + whole.next_multiple_of(LINE);
        }
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(devices: usize) -> Geometry {
        Geometry {
            region: 0..1 << 24,
            granule: 16 << 10,
            devices,
        }
    }

    #[test]
    fn entries_lie_one_behind_the_other_and_no_granule_is_crossed() {
        for devices in [1, 2, 3] {
            let geometry = geometry(devices);
            let granule = geometry.granule;
            let area = 0..12 * granule;
            for device in 0..devices {
                let own = Area::new(&geometry, device, &area).expect("it is large enough");
                let mut fill = Fill::default();
                let mut last = 0;
                for size in [64, 100, 4096, 3 * granule, 1] {
                    let operand = 100 * granule + 40..100 * granule + 40 + size;
                    let Some(placed) = place(&geometry, device, own.half(4), &operand, &mut fill)
                    else {
                        continue;
                    };
                    for one in placed {
                        let end = one.entry + LINE + (one.data.end - one.data.start);
                        assert!(one.entry >= last && one.entry.is_multiple_of(LINE));
                        assert_eq!(one.entry / granule, (end - 1) / granule);
                        assert_eq!((one.entry / granule) as usize % devices, device);
                        last = end;
                    }
                }
            }
        }
    }

    #[test]
    fn what_was_written_is_found_until_something_does_not_fit() {
        let geometry = geometry(1);
        let area = Area::new(&geometry, 0, &(0..4 * geometry.granule)).expect("an area");
        let mut memory = vec![0; 4 * geometry.granule as usize];
        let mut fill = Fill::default();
        let operand = 1 << 20..(1 << 20) + 20_000;
        let placed = place(&geometry, 0, area.half(5), &operand, &mut fill).expect("there is room");
        // A whole granule does not fit beside its header.
        assert_eq!(placed.len(), 3);
        for (index, one) in placed.iter().enumerate() {
            let bytes = vec![index as u8 + 1; (one.data.end - one.data.start) as usize];
            let header = header_of(Kind::Undo, 5, one.data.start, &bytes);
            memory[one.entry as usize..][..64].copy_from_slice(&header);
            memory[one.entry as usize + 64..][..bytes.len()].copy_from_slice(&bytes);
        }
        let read = |memory: &Vec<u8>| {
            let mut read = |at: u64, length: usize| memory[at as usize..][..length].to_vec();
            area.entries(5, &mut read)
        };
        let found = read(&memory);
        assert_eq!(found.len(), 3);
        assert_eq!(found[1].1.target, placed[1].data.start);
        memory[placed[1].entry as usize + 70] ^= 1;
        assert_eq!(read(&memory).len(), 1);
        memory[placed[0].entry as usize + 8] ^= 1;
        assert_eq!(read(&memory).len(), 0);
    }
}
