//! A recovery, watched: it may find lines in several versions, and which ones is decided when it reads bytes
//! in which they differ.
//!
//! Always true here: the bytes in memory are those of the newest version that is left, where the recovery has
//! not overwritten them; a read gets bytes in which all versions that are left agree.

use std::collections::BTreeMap;
use std::sync::Arc;

use perdure_hardware::line::{LINE_BYTES, pieces};
use perdure_riscv::Mark;

use super::pending::{Version, mask_of};
use crate::functional::{At, Pool, Watcher};
use crate::wholes::Piece;

const LINE: u64 = LINE_BYTES as u64;

/// A line that is not decided.
#[derive(Clone, Debug)]
struct Undecided {
    versions: Arc<Vec<Version>>,
    /// Those that are left, the newest first.
    left: Vec<u16>,
    /// Bytes that have been overwritten.
    written: u64,
}

/// What a read asks: which version it is, as far as these bytes tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    line: u64,
    mask: u64,
}

/// The watcher.
#[derive(Clone, Debug, Default)]
pub struct Uncertain {
    lines: BTreeMap<u64, Undecided>,
    asked: Option<Asked>,
    /// The program has begun operations of its own: what it leaves is no longer what it recovered.
    pub has_gone_on: bool,
}

fn same(one: &Version, other: &Version, mask: u64) -> bool {
    let differ = |place: usize| mask >> place & 1 != 0 && one.bytes[place] != other.bytes[place];
    !(0..LINE_BYTES).any(differ)
}

impl Undecided {
    fn newest(&self) -> &Version {
        &self.versions[usize::from(self.left[0])]
    }

    /// The versions that are left, by what these bytes are in them; the newest first.
    fn classes(&self, mask: u64) -> Vec<Vec<u16>> {
        let mut classes: Vec<Vec<u16>> = Vec::new();
        for &version in &self.left {
            let bytes = &self.versions[usize::from(version)];
            let of = classes
                .iter_mut()
                .find(|class| same(&self.versions[usize::from(class[0])], bytes, mask));
            match of {
                Some(class) => class.push(version),
                None => classes.push(vec![version]),
            }
        }
        classes
    }
}

impl Uncertain {
    /// Lines with their versions, the newest of which is in memory.
    pub fn new(lines: &BTreeMap<u64, Arc<Vec<Version>>>) -> Self {
        let several = lines.iter().filter(|(_, versions)| versions.len() > 1);
        let lines = several.map(|(&line, versions)| {
            let undecided = Undecided {
                versions: Arc::clone(versions),
                left: (0..versions.len() as u16).collect(),
                written: 0,
            };
            (line, undecided)
        });
        Self {
            lines: lines.collect(),
            ..Self::default()
        }
    }

    /// Asks for bytes, as a read would. False if it is to be decided first.
    pub fn ask(&mut self, address: u64, length: usize) -> bool {
        let (line, offset) = (address & !(LINE - 1), (address % LINE) as usize);
        let Some(undecided) = self.lines.get(&line) else {
            return true;
        };
        let mask = mask_of(offset, length) & !undecided.written;
        let newest = undecided.newest();
        let agrees = |version: &u16| same(newest, &undecided.versions[usize::from(*version)], mask);
        if undecided.left.iter().all(agrees) {
            return true;
        }
        self.asked = Some(Asked { line, mask });
        false
    }

    /// Bytes are overwritten, whatever they were.
    pub fn overwrite(&mut self, address: u64, length: usize) {
        for (at, piece) in pieces(address, length) {
            let (line, offset) = (at & !(LINE - 1), (at % LINE) as usize);
            if let Some(undecided) = self.lines.get_mut(&line) {
                undecided.written |= mask_of(offset, piece.len());
            }
        }
    }

    /// What it is to be decided, if anything; then it is for whoever decides.
    pub fn take_asked(&mut self) -> Option<Asked> {
        self.asked.take()
    }

    /// Into how many classes that falls.
    pub fn ways(&self, asked: Asked) -> Vec<Vec<u16>> {
        self.lines[&asked.line].classes(asked.mask)
    }

    /// Decides that it is one of them.
    pub fn decide(&mut self, pool: &mut Pool, asked: Asked, class: Vec<u16>) {
        let Some(undecided) = self.lines.get_mut(&asked.line) else {
            return;
        };
        undecided.left = class;
        let version = undecided.newest();
        for place in (0..LINE_BYTES).filter(|&place| undecided.written >> place & 1 == 0) {
            pool.write(asked.line + place as u64, &version.bytes[place..=place]);
        }
    }

    /// Of each line about which something was decided, the newest version that it can be.
    pub fn decided(&self) -> BTreeMap<u64, usize> {
        let lines = self.lines.iter();
        let decided = lines.filter(|(_, one)| one.left.len() < one.versions.len());
        decided
            .map(|(&line, one)| (line, usize::from(one.left[0])))
            .collect()
    }
}

impl Watcher for Uncertain {
    fn loads(&mut self, _: &Pool, address: u64, length: usize) -> bool {
        self.asked.is_none() && self.ask(address, length)
    }

    fn stores(&mut self, _: &Pool, address: u64, bytes: &[u8], _: &At) {
        self.overwrite(address, bytes.len());
    }

    fn bookkeeping(&mut self, address: u64, bytes: &[u8]) {
        self.overwrite(address, bytes.len());
    }

    fn marks(&mut self, _: &Pool, mark: Mark, _: &[Piece], _: &At) -> bool {
        self.has_gone_on |= matches!(mark, Mark::OperationBegins { .. });
        true
    }

    fn may_stop(&self) -> bool {
        self.lines.values().any(|line| line.left.len() > 1)
    }

    fn has_stopped(&self) -> bool {
        self.asked.is_some()
    }

    fn goes_back(&mut self, before: Self) {
        let asked = self.asked.take();
        *self = before;
        self.asked = asked;
    }
}

/// Comes back before persistent memory is read first.
#[derive(Clone, Debug, Default)]
pub struct Untouched {
    stopped: bool,
    /// What was written until then, whatever was there; by the program, or by the kernel for itself.
    written: Vec<(u64, Vec<u8>)>,
}

impl Untouched {
    /// What was written, in its order.
    pub fn all(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let written = self.written.iter();
        written.map(|(address, bytes)| (*address, bytes.as_slice()))
    }

    /// True if nothing was.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }
}

impl Watcher for Untouched {
    fn loads(&mut self, _: &Pool, _: u64, _: usize) -> bool {
        self.stopped = true;
        false
    }

    fn stores(&mut self, _: &Pool, address: u64, bytes: &[u8], _: &At) {
        self.written.push((address, bytes.to_vec()));
    }

    fn bookkeeping(&mut self, address: u64, bytes: &[u8]) {
        self.written.push((address, bytes.to_vec()));
    }

    fn may_stop(&self) -> bool {
        true
    }

    fn has_stopped(&self) -> bool {
        self.stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash_check::pending::Kept;

    /// Versions of a line by their first two bytes.
    fn lines(versions: &[[u8; 2]]) -> BTreeMap<u64, Arc<Vec<Version>>> {
        let version = |(number, first): (usize, &[u8; 2])| {
            let mut bytes = [0; LINE_BYTES];
            bytes[..2].copy_from_slice(first);
            let kept = Kept::First(versions.len() - number);
            Version { bytes, kept }
        };
        let versions = versions.iter().enumerate().map(version).collect();
        BTreeMap::from([(LINE, Arc::new(versions))])
    }

    #[test]
    fn only_bytes_that_differ_have_to_be_decided() {
        let mut found = Uncertain::new(&lines(&[[1, 2], [1, 0], [0, 0]]));
        assert!(found.ask(LINE + 2, 8), "these are the same in all");
        assert!(found.ask(0, 64), "another line is durable");
        assert!(!found.ask(LINE, 1));
        let asked = found.take_asked().expect("a question");
        assert_eq!(found.ways(asked), [vec![0, 1], vec![2]]);
        assert!(!found.ask(LINE + 1, 1));
        let asked = found.take_asked().expect("a question");
        assert_eq!(found.ways(asked), [vec![0], vec![1, 2]]);
        assert_eq!(found.decided(), BTreeMap::new());
    }

    #[test]
    fn what_is_overwritten_is_not_asked_for() {
        let mut found = Uncertain::new(&lines(&[[1, 2], [0, 0]]));
        found.bookkeeping(LINE - 64, &[0; 65]);
        assert!(found.ask(LINE, 1));
        assert!(!found.ask(LINE + 1, 1));
    }

    #[test]
    fn a_line_of_one_version_is_decided() {
        let mut found = Uncertain::new(&lines(&[[1, 2]]));
        assert!(found.ask(LINE, 64) && !found.may_stop());
    }
}
