//! Persistent data that nobody reads: which bytes are read by whom, and which instruction stored what.
//!
//! Always true here: bytes that were read once, by the program, by what recovers or by what looks at a pool,
//! are never told of, whatever was stored to them.

use std::collections::BTreeMap;

use perdure_hardware::line::{LINE_BYTES, pieces};
use serde::{Deserialize, Serialize};

use super::pending::mask_of;
use crate::functional::{At, Pool, Watcher};

const LINE: u64 = LINE_BYTES as u64;
const PAGE: u64 = 4096;
/// Stores are told apart by these.
const WORD: u64 = 8;

/// The page of an address, and which of its pieces of that size it is in.
fn place_of(address: u64, size: u64) -> (u64, usize) {
    (address / PAGE, (address % PAGE / size) as usize)
}

/// Of a page.
fn no_line() -> Vec<u64> {
    vec![0; (PAGE / LINE) as usize]
}

/// Bytes that were read: by page, a bit for each byte of each line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Read(BTreeMap<u64, Vec<u64>>);

impl Read {
    /// These were.
    pub fn add(&mut self, address: u64, length: usize) {
        for (at, piece) in pieces(address, length) {
            let (page, line) = place_of(at, LINE);
            let masks = self.0.entry(page).or_insert_with(no_line);
            masks[line] |= mask_of((at % LINE) as usize, piece.len());
        }
    }

    /// And all that somebody else has.
    pub fn merge(&mut self, other: &Self) {
        for (&page, others) in &other.0 {
            let masks = self.0.entry(page).or_insert_with(no_line);
            for (mask, other) in masks.iter_mut().zip(others) {
                *mask |= other;
            }
        }
    }

    /// Some of this word was.
    fn has_some_of(&self, address: u64) -> bool {
        let (page, line) = place_of(address, LINE);
        let mask = mask_of((address % LINE) as usize, WORD as usize);
        let masks = self.0.get(&page);
        masks.is_some_and(|masks| masks[line] & mask != 0)
    }
}

/// Reads alone are of interest.
impl Watcher for Read {
    fn loads(&mut self, _: &Pool, address: u64, length: usize) -> bool {
        self.add(address, length);
        true
    }
}

/// An instruction that stores to persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Storing {
    /// Its address.
    pub pc: u64,
    /// What was retired before it did so for the first time.
    pub retired: u64,
}

/// Nobody has stored to a word.
const NOBODY: u32 = u32::MAX;

/// Who has stored to each word last.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    all: Vec<Storing>,
    known: BTreeMap<u64, u32>,
    /// By page, the place in `all` of who stored to each word.
    last: BTreeMap<u64, Box<[u32; (PAGE / WORD) as usize]>>,
}

impl Stored {
    /// These bytes, of one line, are stored.
    pub fn add(&mut self, address: u64, length: usize, at: &At) {
        let who = *self.known.entry(at.pc).or_insert_with(|| {
            let (pc, retired) = (at.pc, at.retired);
            self.all.push(Storing { pc, retired });
            (self.all.len() - 1) as u32
        });
        let (page, first) = place_of(address, WORD);
        let (_, last) = place_of(address + length as u64 - 1, WORD);
        let words = self.last.entry(page);
        let words = words.or_insert_with(|| Box::new([NOBODY; _]));
        words[first..=last].fill(who);
    }

    /// Instructions of whose words none was ever read, each with how many bytes these are.
    pub fn unread(&self, read: &Read) -> BTreeMap<Storing, u64> {
        let words = self.last.iter().flat_map(|(page, words)| {
            let address = move |number: usize| page * PAGE + number as u64 * WORD;
            let words = words.iter().enumerate();
            words.map(move |(number, &who)| (address(number), who))
        });
        let (mut bytes, mut of_use) = (vec![0; self.all.len()], vec![false; self.all.len()]);
        for (address, who) in words.filter(|(_, who)| *who != NOBODY) {
            bytes[who as usize] += WORD;
            of_use[who as usize] |= read.has_some_of(address);
        }
        let all = self.all.iter().zip(bytes).zip(of_use);
        let unread = all.filter(|((_, bytes), of_use)| *bytes > 0 && !of_use);
        unread
            .map(|((&storing, bytes), _)| (storing, bytes))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pc: u64) -> At {
        At {
            thread: perdure_linux::ThreadId(1),
            pc,
            retired: pc,
            by_kernel: false,
        }
    }

    #[test]
    fn an_instruction_of_whose_words_one_is_read_is_of_use() {
        let (mut stored, mut read) = (Stored::default(), Read::default());
        stored.add(0x40, 8, &at(1));
        stored.add(0x80, 4, &at(1));
        stored.add(0xc0, 16, &at(2));
        let all = |read: &Read| stored.unread(read).into_iter().collect::<Vec<_>>();
        let storing = |pc| Storing { pc, retired: pc };
        assert_eq!(all(&read), [(storing(1), 16), (storing(2), 16)]);
        read.add(0x83, 1);
        assert_eq!(all(&read), [(storing(2), 16)]);
        let mut other = Read::default();
        other.add(0xb8, 0x20);
        read.merge(&other);
        assert_eq!(all(&read), []);
    }

    #[test]
    fn what_was_stored_over_is_of_who_stored_last() {
        let mut stored = Stored::default();
        stored.add(0x40, 8, &at(1));
        stored.add(0x40, 8, &at(2));
        let unread = stored.unread(&Read::default());
        assert_eq!(
            unread.into_keys().map(|one| one.pc).collect::<Vec<_>>(),
            [2]
        );
    }
}
