//! State that few programs have.
//!
//! Always true: each part stands at the end of the core section behind its number, in the order of
//! the numbers, and takes no byte while it is empty: a program that never uses it pays for no line
//! of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::asynchronous::Asynchronous;
use crate::futex::Departed;
use crate::jobs::Jobs;
use crate::machine::{SpaceId, ThreadId};
use crate::net::Sockets;
use crate::owners::Owners;
use crate::queues::Queues;
use crate::refusals::Refusals;
use crate::signal::SignalFile;
use crate::syscalls::attributes::Attributes;
use crate::syscalls::preferences::AllWishes;
use crate::system_v::SystemV;
use crate::thread::FutexKey;
use crate::timers::{TimerFile, Timers};
use crate::vfs::InodeId;
use crate::vfs::descriptor::{OpenFiles, Table};
use crate::vfs::locks::LockWaits;
use crate::vfs::pipe::Traits;
use crate::vfs::terminal::Terminal;
use crate::vfs::watch::Watching;

/// The parts of the state that are saved only if there is something in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare {
    /// Part 1.
    pub jobs: Jobs,
    /// Part 3.
    pub timers: Timers,
    /// Part 16.
    pub sockets: Sockets,
    /// Part 20.
    pub refusals: Refusals,
    /// Part 21: threads that are gone, and the locks that they may have held.
    pub departed: Vec<Departed>,
    /// Part 22.
    pub lock_waits: LockWaits,
    /// Part 23: what may not be done any more to files without a name.
    pub seals: BTreeMap<InodeId, u32>,
    /// Part 24.
    pub wishes: AllWishes,
    /// Part 25.
    pub system_v: SystemV,
    /// Part 26.
    pub queues: Queues,
    /// Part 27.
    pub owners: Owners,
    /// Part 30.
    pub asynchronous: Asynchronous,
    /// Part 31.
    pub attributes: BTreeMap<InodeId, Attributes>,
    /// Part 32: the spaces in which what will be mapped is locked.
    pub future_locks: BTreeSet<SpaceId>,
    /// Part 33: what the threads wait for that wait for several futexes.
    pub futex_lists: BTreeMap<ThreadId, Vec<FutexKey>>,
}

/// The rare parts of open files, which stand with their kind.
#[derive(Default)]
pub(crate) struct RareFiles {
    /// Part 2.
    pub traits: Traits,
    /// Part 4.
    pub timers: Table<TimerFile>,
    /// Part 5.
    pub signals: Table<SignalFile>,
    /// Part 6.
    pub terminals: Table<Terminal>,
    /// Part 7.
    pub watching: Watching,
}

/// Appends a part that holds something.
fn append_part(out: &mut Vec<u8>, number: u8, is_empty: bool, part: &impl Serialize) {
    if !is_empty {
        out.push(number);
        crate::save::append(out, part);
    }
}

/// Splits a part off; what follows it.
fn take_part<'a, T: DeserializeOwned>(bytes: &'a [u8], part: &mut T) -> Option<&'a [u8]> {
    let (found, rest) = postcard::take_from_bytes(bytes).ok()?;
    *part = found;
    Some(rest)
}

impl Rare {
    /// Appends every part that holds something.
    pub fn save(&self, open: &OpenFiles, out: &mut Vec<u8>) {
        append_part(out, 1, self.jobs.is_empty(), &self.jobs);
        append_part(out, 2, open.traits.is_empty(), &open.traits);
        append_part(out, 3, self.timers.is_empty(), &self.timers);
        append_part(out, 4, open.timer_files.is_empty(), &open.timer_files);
        append_part(out, 5, open.signal_files.is_empty(), &open.signal_files);
        append_part(out, 6, open.terminals.is_empty(), &open.terminals);
        append_part(out, 7, open.watching.is_empty(), &open.watching);
        append_part(out, 16, self.sockets.is_empty(), &self.sockets);
        append_part(out, 20, self.refusals.is_empty(), &self.refusals);
        append_part(out, 21, self.departed.is_empty(), &self.departed);
        append_part(out, 22, self.lock_waits.is_empty(), &self.lock_waits);
        append_part(out, 23, self.seals.is_empty(), &self.seals);
        append_part(out, 24, self.wishes.is_empty(), &self.wishes);
        append_part(out, 25, self.system_v.is_empty(), &self.system_v);
        append_part(out, 26, self.queues.is_empty(), &self.queues);
        append_part(out, 27, self.owners.is_empty(), &self.owners);
        append_part(out, 30, self.asynchronous.is_empty(), &self.asynchronous);
        append_part(out, 31, self.attributes.is_empty(), &self.attributes);
        append_part(out, 32, self.future_locks.is_empty(), &self.future_locks);
        append_part(out, 33, self.futex_lists.is_empty(), &self.futex_lists);
    }

    /// The parts that stand in bytes; `None` if the bytes are damaged.
    pub fn restore(mut bytes: &[u8]) -> Option<(Self, RareFiles)> {
        let (mut rare, mut files) = (Self::default(), RareFiles::default());
        let mut last = 0;
        while let Some((&number, rest)) = bytes.split_first() {
            if number <= last {
                return None;
            }
            last = number;
            bytes = match number {
                1 => take_part(rest, &mut rare.jobs)?,
                2 => take_part(rest, &mut files.traits)?,
                3 => take_part(rest, &mut rare.timers)?,
                4 => take_part(rest, &mut files.timers)?,
                5 => take_part(rest, &mut files.signals)?,
                6 => take_part(rest, &mut files.terminals)?,
                7 => take_part(rest, &mut files.watching)?,
                16 => {
                    let rest = take_part(rest, &mut rare.sockets)?;
                    rare.sockets.count_held();
                    rest
                }
                20 => take_part(rest, &mut rare.refusals)?,
                21 => take_part(rest, &mut rare.departed)?,
                22 => take_part(rest, &mut rare.lock_waits)?,
                23 => take_part(rest, &mut rare.seals)?,
                24 => take_part(rest, &mut rare.wishes)?,
                25 => take_part(rest, &mut rare.system_v)?,
                26 => take_part(rest, &mut rare.queues)?,
                27 => take_part(rest, &mut rare.owners)?,
                30 => take_part(rest, &mut rare.asynchronous)?,
                31 => take_part(rest, &mut rare.attributes)?,
                32 => take_part(rest, &mut rare.future_locks)?,
                33 => take_part(rest, &mut rare.futex_lists)?,
                _ => return None,
            };
        }
        Some((rare, files))
    }
}
