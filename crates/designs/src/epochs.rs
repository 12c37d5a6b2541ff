//! Epochs: whether a design has any, whose they are, and what the machine asks of them.
//!
//! A design says by a type what it has ([`Design::Epochs`](crate::Design::Epochs)): [`NoEpochs`],
//! [`OfMachine`] or [`OfGroups`]. That type asks for the protocol which belongs to it, so that a design
//! cannot have epochs and no protocol, or a protocol that nobody calls.
//!
//! Always true here: epochs count from 1, and epoch 0 is the state before the first instruction. A
//! machine whose design has no epochs is in epoch 0 all the time, and epoch 0 is always announced.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{Line, LineNumber, Version};
use perdure_hardware::time::Cycles;
use serde::Serialize;

/// An event that a design schedules for now when it has run out of room: the machine ends the
/// epoch at the next instruction boundary, with [`Urgency::Overflow`]. Evictions go on until then,
/// and also while the kernel finishes what it is at.
pub const END_EPOCH: u32 = 1 << 30;

/// Whose the epochs of a design are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Epochs {
    /// There are none: no epoch ever ends, and output leaves at once.
    None,
    /// All harts are in the same one.
    Machine,
    /// Each sharing group has its own.
    ByGroup,
}

/// How urgent the end of an epoch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// The epoch's length was reached.
    Routine,
    /// Somebody waits for durability (output commit).
    OutputCommit,
    /// The design asked for it ([`END_EPOCH`]).
    Overflow,
}

/// Where a design stands, whoever's its epochs are.
pub trait EpochNumbers {
    /// The epoch that is executing; the newest of those.
    fn executing_epoch(&self) -> u64;

    /// The newest epoch whose output may leave the machine.
    fn announced_epoch(&self) -> u64;
}

/// What a design offers to the machine whose harts are all in the same epoch: when one ends, the machine
/// stores every context, then calls [`Self::end_epoch`].
pub trait MachineEpochs: EpochNumbers {
    /// False while the design cannot take another epoch; the machine then stands still until its
    /// events have changed that.
    fn can_end_epoch(&self) -> bool {
        true
    }

    /// The executing epoch ends; all contexts have been stored. Returns when harts may go on. The
    /// call is made at one moment, but what it writes is durable at the times that the controller
    /// answers: an epoch that is durable only later is announced by an event at that time.
    fn end_epoch(&mut self, hardware: &mut Hardware, urgency: Urgency, now: Cycles) -> Cycles;
}

/// What a design offers to the machine whose sharing groups have an epoch each, in place of one for all.
///
/// The machine ends a sharing group's epoch when it is long enough, when the sharing group is about to
/// see something of a newer epoch ([`Policy::is_ahead`](perdure_hardware::policy::Policy::is_ahead)), and
/// when the design says that it lags too far behind: it saves the contexts of the sharing group's harts as
/// of the epoch's end, then calls [`Self::advance`]. The kernel's state has an epoch, too, the newest in
/// which it was changed; whoever enters the kernel first comes to the newest epoch of all, so a system
/// call is an event that follows from everything before it.
pub trait GroupEpochs: EpochNumbers {
    /// The epoch of a sharing group.
    fn epoch(&self, group: usize) -> u64;

    /// The epoch that a version stands for.
    fn epoch_of(&self, version: Version) -> u64;

    /// True if a sharing group has to advance to the newest epoch now.
    fn lags(&self, group: usize) -> bool;

    /// Saves a line past the caches, as of the end of `epoch`: part of a context or of the kernel's
    /// state. Returns when the sharing group that writes it may go on.
    #[allow(
        clippy::too_many_arguments,
        reason = "one line of one epoch, by a sharing group"
    )]
    fn save(
        &mut self,
        hardware: &mut Hardware,
        group: usize,
        epoch: u64,
        line: LineNumber,
        bytes: &Line,
        now: Cycles,
    ) -> Cycles;

    /// A sharing group, whose contexts were saved, goes on in a newer epoch. Returns when it may.
    fn advance(&mut self, hardware: &mut Hardware, group: usize, epoch: u64, now: Cycles)
    -> Cycles;

    /// Somebody waits for the epochs that have ended.
    fn persist(&mut self, hardware: &mut Hardware, now: Cycles);

    /// The kernel's state as of the end of every epoch before this one is saved.
    fn kernel_advanced(&mut self, hardware: &mut Hardware, epoch: u64, now: Cycles);
}

/// How a design's epochs are reached: [`NoEpochs`], [`OfMachine`] or [`OfGroups`].
pub trait EpochsOf<D> {
    /// Whose they are.
    const WHOSE: Epochs;

    /// Where the design stands, if it has epochs.
    fn numbers(design: &D) -> Option<&dyn EpochNumbers>;

    /// The machine's, if they are its.
    fn of_machine(_design: &mut D) -> Option<&mut dyn MachineEpochs> {
        None
    }

    /// The sharing groups', if they are theirs.
    fn of_groups(_design: &mut D) -> Option<&mut dyn GroupEpochs> {
        None
    }
}

/// The design has no epochs.
pub enum NoEpochs {}

/// The machine has an epoch.
pub enum OfMachine {}

/// Each sharing group has an epoch.
pub enum OfGroups {}

impl<D> EpochsOf<D> for NoEpochs {
    const WHOSE: Epochs = Epochs::None;

    fn numbers(_: &D) -> Option<&dyn EpochNumbers> {
        None
    }
}

impl<D: MachineEpochs> EpochsOf<D> for OfMachine {
    const WHOSE: Epochs = Epochs::Machine;

    fn numbers(design: &D) -> Option<&dyn EpochNumbers> {
        Some(design)
    }

    fn of_machine(design: &mut D) -> Option<&mut dyn MachineEpochs> {
        Some(design)
    }
}

impl<D: GroupEpochs> EpochsOf<D> for OfGroups {
    const WHOSE: Epochs = Epochs::ByGroup;

    fn numbers(design: &D) -> Option<&dyn EpochNumbers> {
        Some(design)
    }

    fn of_groups(design: &mut D) -> Option<&mut dyn GroupEpochs> {
        Some(design)
    }
}
