//! Record locks (`fcntl`): ranges of files that a process, or an open file, holds against others.
//!
//! Always true: the locks of one owner on one file do not overlap, and lie in order; a file
//! without locks has no entry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::InodeId;
use crate::machine::ThreadId;
use crate::process::ProcessId;

/// Who holds a lock: a process, or an open file (`F_OFD_SETLK`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LockOwner(u32);

impl LockOwner {
    /// No process has a number with this bit.
    const FILE: u32 = 1 << 31;

    pub fn process(id: ProcessId) -> Self {
        Self(id.0)
    }

    pub fn open_file(index: u32) -> Self {
        Self(Self::FILE | index)
    }

    pub fn is_open_file(self) -> bool {
        self.0 & Self::FILE != 0
    }

    /// The process, or −1, as `F_GETLK` tells it.
    pub fn number(self) -> u32 {
        if self.is_open_file() {
            u32::MAX
        } else {
            self.0
        }
    }
}

/// Threads that wait for a lock: for which process, and for whom.
pub(crate) type LockWaits = BTreeMap<ThreadId, (LockOwner, LockOwner)>;

/// Record locks that there may be.
pub(crate) const LOCKS_MAX: usize = 8192;

/// Processes in a circle of waiting that is looked for.
const CIRCLE_MAX: usize = 64;

/// True if `obstacle` waits, itself or by others, for `own`.
pub(crate) fn would_deadlock(waits: &LockWaits, own: LockOwner, obstacle: LockOwner) -> bool {
    let mut at = obstacle;
    for _ in 0..CIRCLE_MAX {
        if at == own {
            return true;
        }
        match waits.values().find(|(waiter, _)| *waiter == at) {
            Some(&(_, holder)) => at = holder,
            None => return false,
        }
    }
    false
}

/// A locked range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordLock {
    pub owner: LockOwner,
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

/// How many there are.
pub(crate) fn count(locks: &RecordLocks) -> usize {
    locks.values().map(Vec::len).sum()
}

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

/// Lets go of what somebody holds: of one file, or of all. True if there was something.
pub(crate) fn release(locks: &mut RecordLocks, owner: LockOwner, inode: Option<InodeId>) -> bool {
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
            owner: LockOwner(owner),
            start,
            end,
            exclusive,
        }
    }

    #[test]
    fn circles_are_found() {
        let [a, b, c] = [1, 2, 3].map(LockOwner);
        let mut waits = LockWaits::from([(ThreadId(1), (a, b))]);
        assert!(!would_deadlock(&waits, c, a));
        assert!(would_deadlock(&waits, b, a));
        waits.insert(ThreadId(2), (b, c));
        assert!(would_deadlock(&waits, c, a));
        // A circle that the asker is no part of ends the search all the same.
        waits.insert(ThreadId(3), (c, a));
        assert!(!would_deadlock(&waits, LockOwner(4), a));
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
        release(&mut locks, LockOwner(0), None);
        release(&mut locks, LockOwner(1), Some(FILE));
        release(&mut locks, LockOwner(2), None);
        assert!(locks.is_empty());
    }
}
