//! What a verifier gets to see of a run where memory at the ends of epochs is not enough: the events
//! that say which stores and observations came in which order, and what programs asked of the design and
//! of devices.
//! Kept only while somebody verifies, written by the hierarchy and the machine, read by nothing that is
//! part of either.

use crate::line::{Line, LineNumber};
use crate::time::Cycles;

/// Who accesses a module that has a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessor {
    /// The processor.
    Host,
    /// The device, for the command that it knows by this number.
    Device {
        /// The number.
        command: u64,
    },
}

/// One event, in the order of the simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traced {
    /// A sharing group is about to store to a line that was clean there, or of another version than the
    /// sharing group's current one; to any line where the design sees every store.
    Stored {
        /// Who.
        group: usize,
        /// The hart of it that stores.
        hart: usize,
        /// Where.
        line: LineNumber,
        /// The bytes before.
        old: Box<Line>,
    },
    /// A hart has loaded from a line ([`crate::hierarchy::Hardware::hear_loads`]): at least for the first
    /// time since its version changed, or since another hart stored to it.
    Loaded {
        /// Who.
        hart: usize,
        /// Where.
        line: LineNumber,
    },
    /// A hart stores, under a design that sees every store.
    Wrote {
        /// Where.
        line: LineNumber,
        /// The bytes before.
        old: Box<Line>,
        /// The bytes after.
        new: Box<Line>,
    },
    /// A persistence instruction of the design's.
    Instructed {
        /// Who.
        hart: usize,
        /// Which.
        function: u16,
        /// What the design got.
        operands: [u64; 2],
        /// What it answered.
        value: u64,
        /// When the hart went on, and so the program knew.
        done: Cycles,
    },
    /// Another thread begins to run on a hart.
    Ran {
        /// Where.
        hart: usize,
        /// Which.
        thread: u32,
    },
    /// What a hart stores from now on is the system's own, or its thread's again.
    SystemStores {
        /// Who.
        hart: usize,
        /// Which of the two.
        begins: bool,
    },
    /// The design says that a thread's strand, or whatever else is a whole, is committed.
    Committed {
        /// Whose.
        thread: u32,
        /// Those that the thread has begun before it.
        strand: u64,
        /// When.
        at: Cycles,
    },
    /// A sharing group got a line from outside.
    Observed {
        /// Who.
        group: usize,
        /// Which.
        line: LineNumber,
    },
    /// A sharing group goes on in another epoch.
    Advanced {
        /// Who.
        group: usize,
        /// The new epoch.
        epoch: u64,
    },
    /// Bytes were saved past the caches, as of the end of an epoch.
    Saved {
        /// The epoch.
        epoch: u64,
        /// Which line.
        line: LineNumber,
        /// What was there before.
        old: Box<Line>,
        /// What was saved.
        new: Box<Line>,
    },
    /// A hart's persist operation sends a line's bytes, as all harts see them now, to where they survive.
    Persisted {
        /// Who.
        hart: usize,
        /// Which line.
        line: LineNumber,
        /// When it was made.
        at: Cycles,
    },
    /// A hart's fence waited for its persist operations.
    Fenced {
        /// Who.
        hart: usize,
        /// When the hart went on, and so the program knew that the bytes survive.
        done: Cycles,
    },
    /// Somebody accesses the memory of a module that has a device, in the order in which the module hears
    /// of it.
    Accessed {
        /// The module.
        module: usize,
        /// Who.
        by: Accessor,
        /// The first byte.
        address: u64,
        /// How many.
        length: usize,
        /// What was written there, unless it was read.
        wrote: Option<Box<[u8]>>,
        /// From when to when: it does not reach the banks before, and is there, or survives, from then on.
        when: [Cycles; 2],
    },
    /// A device has come to a point of its own in what it does.
    Reached {
        /// Its module.
        module: usize,
        /// Which point.
        point: u16,
        /// Numbers that say of what.
        of: Box<[u64]>,
        /// When.
        at: Cycles,
    },
    /// A hart stored to a device region.
    Commanded {
        /// Who.
        hart: usize,
        /// The first byte's address.
        address: u64,
        /// What it stored.
        bytes: Box<[u8]>,
        /// When the device, or the design in its place, had taken it.
        taken: Cycles,
    },
}
