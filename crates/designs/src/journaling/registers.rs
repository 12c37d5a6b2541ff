//! The journal's registers in NVM: which epoch is committed, and how much of the journal recovery
//! must apply to have it.
//!
//! There are two copies of the record, in different rows. Copy 1 is started when copy 0 is durable,
//! and copy 0 is not overwritten before copy 1 is durable, so one copy is always whole. Nothing is
//! copied home before *both* say that the epoch is committed: damage to one copy after the fact
//! never brings an older state back over memory that has moved on.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::bytes::Sealed;
use crate::copies::CommitRecord;

/// The registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Record {
    /// Counts records; the larger one is the newer.
    pub number: u64,
    /// The newest committed epoch.
    pub epoch: u64,
    /// Blocks of the journal that must be applied to have that epoch at home; 0 once it is there
    /// and the journal is retired.
    pub blocks: u64,
}

impl Sealed for Record {
    const MAGIC: &'static [u8; 8] = b"JOURNREG";
}

impl CommitRecord for Record {
    const DAMAGED: &'static str = "the journal's registers: both copies are damaged";
}
