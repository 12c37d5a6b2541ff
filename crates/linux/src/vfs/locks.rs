//! Record locks (`fcntl`): ranges of files that a process holds against others.
//!
//! Always true: the locks of one process on one file do not overlap, and lie in order; a file
//! without locks has no entry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::InodeId;
use crate::process::ProcessId;

/// A locked range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordLock {
    pub owner: ProcessId,
    pub start: u64,
    /// First byte beyond; `u64::MAX` for the end of the file, however far it moves.
    pub end: u64,
    pub exclusive: bool,
}

impl RecordLock {
    /// True if both cannot be held at once.
    fn conflicts(&self, other: &Self) -> bool {
        self.owner != other.owner
            && self.start < other.end
            && other.start < self.end
            && (self.exclusive || other.exclusive)
    }
}

/// All record locks, by file.
pub(crate) type RecordLocks = BTreeMap<InodeId, Vec<RecordLock>>;

/// The first lock that stands against a wished one.
pub(crate) fn obstacle(
    locks: &RecordLocks,
    inode: InodeId,
    wished: &RecordLock,
) -> Option<RecordLock> {
    let held = locks.get(&inode)?;
    held.iter().find(|lock| lock.conflicts(wished)).copied()
}

/// Gives a range of a file to `wished.owner`, or takes it away if not `hold`; what the owner had
/// there before is replaced.
pub(crate) fn set(locks: &mut RecordLocks, inode: InodeId, wished: RecordLock, hold: bool) {
    let mut kept = Vec::new();
    for lock in locks.remove(&inode).unwrap_or_default() {
        if lock.owner != wished.owner || lock.end <= wished.start || wished.end <= lock.start {
            kept.push(lock);
            continue;
        }
        let left = RecordLock {
            end: wished.start,
            ..lock
        };
        let right = RecordLock {
            start: wished.end,
            ..lock
        };
        kept.extend(
            [left, right]
                .into_iter()
                .filter(|part| part.start < part.end),
        );
    }
    if hold {
        kept.push(wished);
    }
    kept.sort_by_key(|lock| (lock.owner, lock.start));
    // Neighbours of one kind are one lock.
    kept.dedup_by(|next, last| {
        let joins =
            last.owner == next.owner && last.exclusive == next.exclusive && last.end == next.start;
        if joins {
            last.end = next.end;
        }
        joins
    });
    if !kept.is_empty() {
        locks.insert(inode, kept);
    }
}

/// Lets go of what a process holds: of one file, or of all. True if there was something.
pub(crate) fn release(locks: &mut RecordLocks, owner: ProcessId, inode: Option<InodeId>) -> bool {
    let mut any = false;
    locks.retain(|id, held| {
        if inode.is_none_or(|inode| inode == *id) {
            let before = held.len();
            held.retain(|lock| lock.owner != owner);
            any |= held.len() != before;
        }
        !held.is_empty()
    });
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(owner: u32, start: u64, end: u64, exclusive: bool) -> RecordLock {
        RecordLock {
            owner: ProcessId(owner),
            start,
            end,
            exclusive,
        }
    }

    /// Every byte of a small file is held as a model that keeps one cell a byte says.
    #[test]
    fn ranges_agree_with_a_byte_by_byte_model() {
        const BYTES: u64 = 24;
        const FILE: InodeId = InodeId(3);
        let mut random = crate::random::Random::new(11);
        let mut locks = RecordLocks::new();
        let mut model = [[None; BYTES as usize]; 3];
        for step in 0..20_000 {
            let (owner, from) = (random.next() % 3, random.next() % BYTES);
            let to = from + 1 + random.next() % (BYTES - from);
            let wished = lock(owner as u32, from, to, random.next().is_multiple_of(2));
            let hold = !random.next().is_multiple_of(3);
            let cells = from as usize..to as usize;
            let blocked = (0..3)
                .filter(|&other| other != owner as usize)
                .any(|other| {
                    model[other][cells.clone()]
                        .iter()
                        .any(|cell| cell.is_some_and(|exclusive| exclusive || wished.exclusive))
                });
            assert_eq!(
                obstacle(&locks, FILE, &wished).is_some(),
                blocked,
                "step {step} of seed 11"
            );
            if hold && blocked {
                continue;
            }
            set(&mut locks, FILE, wished, hold);
            model[owner as usize][cells].fill(hold.then_some(wished.exclusive));
            let held = locks.get(&FILE).map(Vec::as_slice).unwrap_or_default();
            let bytes: u64 = held.iter().map(|lock| lock.end - lock.start).sum();
            let cells = model.as_flattened().iter().flatten().count();
            assert_eq!(bytes, cells as u64, "step {step} of seed 11");
        }
        release(&mut locks, ProcessId(0), None);
        release(&mut locks, ProcessId(1), Some(FILE));
        release(&mut locks, ProcessId(2), None);
        assert!(locks.is_empty());
    }
}
