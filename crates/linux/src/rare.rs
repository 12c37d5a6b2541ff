//! State that few programs have.
//!
//! Always true: each part stands at the end of the core section behind its number, in the order of
//! the numbers, and takes no byte while it is empty: a program that never uses it pays for no line
//! of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::affinity::HartSet;
use crate::asynchronous::Asynchronous;
use crate::jobs::Jobs;
use crate::machine::{SpaceId, ThreadId};
use crate::net::Sockets;
use crate::net::arrivals::Arrivals;
use crate::owned_words::Departed;
use crate::owners::Owners;
use crate::process::ProcessId;
use crate::queues::Queues;
use crate::refusals::Refusals;
use crate::restraint::Restraints;
use crate::save::Contents;
use crate::signal::SignalFile;
use crate::syscalls::attributes::Attributes;
use crate::syscalls::epoll::Turns;
use crate::system_v::SystemV;
use crate::thread::FutexKey;
use crate::timers::{TimerFile, Timers};
use crate::vfs::InodeId;
use crate::vfs::descriptor::{OpenFiles, Table};
use crate::vfs::locks::LockWaits;
use crate::vfs::pipe::Traits;
use crate::vfs::terminal::Terminal;
use crate::vfs::watch::Watching;
use crate::wishes::AllWishes;

/// The parts of the state that are saved only if there is something in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare {
    pub jobs: Jobs,
    pub timers: Timers,
    pub sockets: Sockets,
    pub refusals: Refusals,
    /// Threads that are gone, and the locks that they may have held.
    pub departed: Vec<Departed>,
    pub lock_waits: LockWaits,
    /// What may not be done any more to files without a name.
    pub seals: BTreeMap<InodeId, u32>,
    pub wishes: AllWishes,
    pub system_v: SystemV,
    pub queues: Queues,
    pub owners: Owners,
    pub asynchronous: Asynchronous,
    pub attributes: BTreeMap<InodeId, Attributes>,
    /// The spaces in which what will be mapped is locked.
    pub future_locks: BTreeSet<SpaceId>,
    /// What the threads wait for that wait for several futexes.
    pub futex_lists: BTreeMap<ThreadId, Vec<FutexKey>>,
    /// Where the threads may run that may not run everywhere.
    pub affinities: BTreeMap<ThreadId, HartSet>,
    pub restraints: Restraints,
    /// The processes whose children the orphans below them become.
    pub reapers: BTreeSet<ProcessId>,
    pub epoll_turns: Turns,
    pub arrivals: Arrivals,
    /// The spaces that shall have no large pages, where none has (`PR_SET_THP_DISABLE`).
    pub small_pages: BTreeSet<SpaceId>,
    /// The spaces whose threads may ask for barriers among themselves (`membarrier`).
    pub barriers: BTreeSet<SpaceId>,
    /// The zombies whose parents were told otherwise than by SIGCHLD (`__WCLONE`).
    pub clones: BTreeSet<ProcessId>,
    /// How long what is written to files is said to live (`F_SET_RW_HINT`).
    pub lifetimes: BTreeMap<InodeId, u8>,
}

impl Rare {
    /// What a running thread has goes on under another number.
    pub fn renumber(&mut self, old: ThreadId, new: ThreadId) {
        fn renumber<T>(all: &mut BTreeMap<ThreadId, T>, old: ThreadId, new: ThreadId) {
            if let Some(own) = all.remove(&old) {
                all.insert(new, own);
            }
        }
        renumber(&mut self.wishes, old, new);
        renumber(&mut self.affinities, old, new);
        renumber(&mut self.restraints, old, new);
    }
}

/// The rare parts of open files, which stand with their kind.
#[derive(Default)]
pub(crate) struct RareFiles {
    pub traits: Traits,
    pub timer_files: Table<TimerFile>,
    pub signal_files: Table<SignalFile>,
    pub terminals: Table<Terminal>,
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

/// The table of parts: each one's number, place and type.
macro_rules! parts {
    (($rare:ident, $open:ident) $($number:literal $owner:ident.$part:ident: $type:ty),* $(,)?) => {
        impl Rare {
            /// Appends every part that holds something.
            pub fn save(&self, $open: &OpenFiles, out: &mut Vec<u8>) {
                let $rare = self;
                $(append_part(out, $number, $owner.$part.is_empty(), &$owner.$part);)*
            }

            /// The parts that stand in bytes; `None` if the bytes are damaged.
            pub fn restore(mut bytes: &[u8]) -> Option<(Self, RareFiles)> {
                let (mut $rare, mut $open) = (Self::default(), RareFiles::default());
                let mut last = 0;
                while let Some((&number, rest)) = bytes.split_first() {
                    if number <= last {
                        return None;
                    }
                    last = number;
                    bytes = match number {
                        $($number => take_part(rest, &mut $owner.$part)?,)*
                        _ => return None,
                    };
                }
                $rare.sockets.count_held();
                Some(($rare, $open))
            }

            /// What there can be, in the order of the bytes.
            pub fn tell(contents: &mut impl Contents) {
                $(contents.part::<$type>($number, stringify!($part));)*
            }
        }
    };
}

parts! {
    (rare, open)
    1 rare.jobs: Jobs,
    2 open.traits: Traits,
    3 rare.timers: Timers,
    4 open.timer_files: Table<TimerFile>,
    5 open.signal_files: Table<SignalFile>,
    6 open.terminals: Table<Terminal>,
    7 open.watching: Watching,
    16 rare.sockets: Sockets,
    20 rare.refusals: Refusals,
    21 rare.departed: Vec<Departed>,
    22 rare.lock_waits: LockWaits,
    23 rare.seals: BTreeMap<InodeId, u32>,
    24 rare.wishes: AllWishes,
    25 rare.system_v: SystemV,
    26 rare.queues: Queues,
    27 rare.owners: Owners,
    30 rare.asynchronous: Asynchronous,
    31 rare.attributes: BTreeMap<InodeId, Attributes>,
    32 rare.future_locks: BTreeSet<SpaceId>,
    33 rare.futex_lists: BTreeMap<ThreadId, Vec<FutexKey>>,
    34 rare.affinities: BTreeMap<ThreadId, HartSet>,
    35 rare.restraints: Restraints,
    36 rare.reapers: BTreeSet<ProcessId>,
    37 rare.epoll_turns: Turns,
    38 rare.arrivals: Arrivals,
    39 rare.small_pages: BTreeSet<SpaceId>,
    40 rare.lifetimes: BTreeMap<InodeId, u8>,
    41 rare.barriers: BTreeSet<SpaceId>,
    42 rare.clones: BTreeSet<ProcessId>,
}
