//! The contract between the substrate and a crash-consistency design.
//!
//! The hierarchy walks its transactions and calls a [`Policy`] at the points where designs differ.
//! A policy gets the hardware to drive: it may read and write memory through the controller, look
//! at and clean cached lines through the ports, schedule its own wake-ups, and delay whoever
//! caused the call by answering with a later time. The common case (a hit, and a store whose line
//! already carries the current version, unless the design sees every store) never gets here, so a policy
//! may be a `dyn Policy`.
//!
//! What the substrate leaves to a design: what a version means and who shares one (PiCL has one
//! version for the whole machine, NVOverlay one for each sharing group, SPMS one for each strand), where
//! a line's home is (`fill` and `evict` may redirect), and what its persistence instructions do.

use crate::cache::Slot;
use crate::hierarchy::Hardware;
use crate::line::{LINE_BYTES, Line, LineNumber, Version};
use crate::memory::Accepted;
use crate::time::Cycles;

/// A write to a line whose version is not the hart's current one, or any write at all if the
/// design sees every store. The line's bytes are still the old.
#[derive(Clone, Copy, Debug)]
pub struct CrossVersionStore<'a> {
    /// The hart that writes.
    pub hart: usize,
    /// Its sharing group.
    pub group: usize,
    /// The line.
    pub line: LineNumber,
    /// The version that the line carries; [`Version::NONE`] if memory has the same bytes.
    pub version: Version,
    /// The bytes before the store.
    pub old: &'a Line,
    /// The bytes after it.
    pub new: &'a Line,
    /// Where in the line it writes.
    pub offset: usize,
    /// How many bytes it writes.
    pub length: usize,
    /// Where the hart's L1D has the line; nothing for a store around the caches.
    pub slot: Option<Slot>,
}

/// Why a line travels to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Replacement in the last-level cache.
    Replacement,
    /// A cache-block instruction of the program.
    CacheBlock,
    /// The design flushes the caches ([`Hardware::flush`]).
    Flush,
}

/// A dirty line on its way to memory.
#[derive(Clone, Copy, Debug)]
pub struct Eviction {
    /// The line.
    pub line: LineNumber,
    /// Its newest bytes.
    pub bytes: Line,
    /// The version it carried.
    pub version: Version,
    /// Why.
    pub cause: Cause,
}

/// A line that moves from one sharing group to another or to the shared cache.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The sharing group that hands it over.
    pub from: usize,
    /// The sharing group that asked; `None` if the shared cache itself did.
    pub to: Option<usize>,
    /// The line.
    pub line: LineNumber,
    /// The version it carried.
    pub version: Version,
}

/// Why a dirty version leaves a sharing group's private caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The L2 needs the room.
    Capacity,
    /// A newer version from the L1 takes its place in the L2.
    StoreEviction,
    /// Another sharing group writes the line.
    Invalidation,
    /// Another sharing group reads the line.
    Downgrade,
    /// A walk over the tags of the L2 ([`Hardware::walk_set`]) found it to be old.
    Walk,
    /// A cache-block instruction.
    CacheBlock,
}

/// A dirty version that leaves a sharing group's private caches, where the last-level cache is not
/// inclusive. Nothing else in the sharing group holds this version afterwards, except clean copies.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// The sharing group.
    pub group: usize,
    /// The line.
    pub line: LineNumber,
    /// Its bytes in this version.
    pub bytes: Line,
    /// The version.
    pub version: Version,
    /// Why.
    pub reason: Reason,
}

/// A hart's access to a device region, before the device has it.
#[derive(Debug)]
pub struct DeviceAccess<'b> {
    /// The hart.
    pub hart: usize,
    /// The first byte's address.
    pub address: u64,
    /// What it asks.
    pub bytes: DeviceBytes<'b>,
}

/// What an access asks of a device.
#[derive(Debug)]
pub enum DeviceBytes<'b> {
    /// These bytes, to be filled in.
    Load(&'b mut [u8]),
    /// To take these.
    Store(&'b [u8]),
}

/// What a design makes of an access to a device region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceAnswer {
    /// It goes on to the device of the region, at that time.
    Admitted {
        /// When.
        at: Cycles,
    },
    /// The design has dealt with it: what was asked for is filled in, and the hart goes on then. The
    /// device never hears of it, unless the design has told it.
    Answered {
        /// When.
        at: Cycles,
    },
}

/// What is committed no later than something that is, beside what it was stored over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// What it has loaded from.
    pub loads: bool,
    /// What its thread did before.
    pub threads: bool,
}

/// What a policy cannot go on from; the run ends with this message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyFailure(pub String);

/// A design's hooks. Every time is in cycles; a returned time is never before `now`.
pub trait Policy {
    /// The version that a store by this hart leaves in its line now. A sharing group has one where its
    /// harts always agree. Where a design sees writes only as they leave the caches, lines need none.
    #[inline(always)]
    fn current_version(&self, _hart: usize) -> Version {
        Version::NONE
    }

    /// Another thread begins to run on a hart. Returns when it may. A version that belongs to threads goes
    /// with them: it is the hart's from then on ([`Hardware::version_changed_of`]).
    #[inline]
    fn thread_runs(
        &mut self,
        _hardware: &mut Hardware,
        _hart: usize,
        _thread: u32,
        now: Cycles,
    ) -> Cycles {
        now
    }

    /// What a hart stores from now on is the system's own bookkeeping and belongs to no program (`begins`),
    /// or is its thread's again. For designs whose versions belong to threads.
    #[inline]
    fn system_stores(&mut self, _hardware: &mut Hardware, _hart: usize, _begins: bool) {}

    /// A store found another version, or the design sees every store. Returns when the store may
    /// complete.
    #[inline]
    fn store(
        &mut self,
        _hardware: &mut Hardware,
        _store: &CrossVersionStore,
        now: Cycles,
    ) -> Cycles {
        now
    }

    /// A hart loads from a line of which somebody has to hear ([`Hardware::hear_loads`]), which carries
    /// that version: at least for the first time since the hart's version changed, or since another hart
    /// stored to the line. Returns when the load may complete. A design that has to hear of loads says so
    /// when it starts; where it has not, a verifier may have, and nothing may come of it.
    #[inline]
    fn load(
        &mut self,
        _hardware: &mut Hardware,
        _hart: usize,
        _loaded: (LineNumber, Version),
        now: Cycles,
    ) -> Cycles {
        now
    }

    /// True if [`Policy::store`] must hear of every store, whatever its line's version. None then hits
    /// the lookaside, which the simulation pays for. Always the same answer.
    #[inline(always)]
    fn sees_every_store(&self) -> bool {
        false
    }

    /// A dirty line leaves the caches. Returns when the way is free again.
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted;

    /// A line is needed from memory. Returns its bytes and when they arrive. The default reads the
    /// home address.
    #[inline(always)]
    fn fill(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        hardware.read_memory(line, now)
    }

    /// The newest bytes of a line outside the caches: those that [`Policy::fill`] would bring, but
    /// at no cost and without any change. For verifiers, output devices and reports.
    #[inline]
    fn peek(&self, hardware: &Hardware, line: LineNumber) -> Line {
        *hardware.memory.arena.line(line * LINE_BYTES as u64)
    }

    /// Shows every line for which [`Policy::peek`] may find bytes elsewhere than at the home
    /// address, each once, in a fixed order.
    fn displaced(&self, _show: &mut dyn FnMut(LineNumber)) {}

    /// Shows what of a line the policy keeps elsewhere than in the caches and at its home address, older
    /// bytes in its logs included, as far as it still knows: each with a name for people. For reports.
    #[inline]
    fn holds(&self, _: &Hardware, _line: LineNumber, _show: &mut dyn FnMut(String, &Line)) {}

    /// A modified line moves between sharing groups. Returns when the transfer may go on.
    #[inline(always)]
    fn transfer(&mut self, _hardware: &mut Hardware, _transfer: &Transfer, now: Cycles) -> Cycles {
        now
    }

    /// True if versions are compared by age and outlive cleaning: clean lines keep theirs, a sharing
    /// group may hold two versions of a line, and a store to a dirty line of another version first moves
    /// that version to the L2. Needs a last-level cache that is not inclusive.
    #[inline(always)]
    fn keeps_versions(&self) -> bool {
        false
    }

    /// A dirty version leaves a sharing group. Returns when whoever caused it may go on.
    #[inline(always)]
    fn depart(&mut self, _hardware: &mut Hardware, _departure: &Departure, now: Cycles) -> Cycles {
        now
    }

    /// Another sharing group takes a dirty line of this version over to write it. True if it may take it
    /// as it is, dirty; otherwise the version departs first.
    #[inline(always)]
    fn passes_dirty(&self, _to: usize, _version: Version) -> bool {
        true
    }

    /// The version under which bytes that have departed are known from then on: in the shared cache,
    /// and in the clean copies that stay. [`Version::NONE`] for designs whose tags end with a sharing
    /// group's private caches. Only where the last-level cache is not inclusive.
    #[inline(always)]
    fn departed_version(&self, version: Version) -> Version {
        version
    }

    /// The version of a line's bytes outside the caches.
    #[inline(always)]
    fn memory_version(&self, _line: LineNumber) -> Version {
        Version::NONE
    }

    /// True if a sharing group that gets a line of this version, to read or to write, must come to a
    /// newer version of its own first (see [`crate::hierarchy::Core::ahead`]).
    #[inline(always)]
    fn is_ahead(&self, _group: usize, _version: Version, _write: bool) -> bool {
        false
    }

    /// A hart accesses a device region: commands may be delayed, answered, or sent on to several devices
    /// ([`crate::memory::Memory::device_store`]). What a module's device makes of accesses to the module's
    /// memory is its own affair ([`crate::device::Device::admit`]).
    #[inline]
    fn device_access(
        &mut self,
        _hardware: &mut Hardware,
        _access: &mut DeviceAccess,
        now: Cycles,
    ) -> DeviceAnswer {
        DeviceAnswer::Admitted { at: now }
    }

    /// For verifiers, of a design that commits strands of threads: in which order it says that it does.
    /// Always the same answer.
    fn commits_behind(&self) -> Behind {
        Behind::default()
    }

    /// One of the policy's own events is due.
    fn fired(&mut self, hardware: &mut Hardware, event: u32, now: Cycles);

    /// True if the first operand of the persistence instruction of that function is an address to which it
    /// stores. The machine translates it, and the program that may not store there has a fault, before
    /// [`Policy::instruction`] gets it as a physical one. Always the same answer.
    #[inline]
    fn takes_address(&self, _function: u16) -> bool {
        false
    }

    /// One of Perdure's persistence instructions; `None` if the design has no such function.
    fn instruction(
        &mut self,
        _hardware: &mut Hardware,
        _hart: usize,
        _function: u16,
        _operands: [u64; 2],
        _now: Cycles,
    ) -> Option<(u64, Cycles)> {
        None
    }
}

/// When an eviction let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The way is free and the requester may go on.
    pub accepted: Cycles,
    /// The bytes are durable, for fences after cache-block instructions.
    pub durable: Cycles,
}

/// A line that has gone to memory, and no further.
impl From<Accepted> for Evicted {
    #[inline(always)]
    fn from(written: Accepted) -> Self {
        Self {
            accepted: written.accepted,
            durable: written.durable,
        }
    }
}
