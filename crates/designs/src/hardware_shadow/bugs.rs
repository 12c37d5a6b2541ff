//! Mistakes that one could really make in an overlapped shadow scheme. Each is a switch;
//! verification must catch each.

use crate::design::planted_bugs;

planted_bugs! {
    OldVersionOverwritten, "old-version-overwritten", "a store to a line that the checkpoint under way still needs does not save the line's bytes first";
    OldVersionMisplaced, "old-version-misplaced", "a line of the checkpoint under way that is evicted goes to the executing epoch's place";
    TwoPlaces, "two-places", "the executing epoch's version takes the place of the last checkpoint's, as if the one under way were committed already";
    FillFromCheckpoint, "fill-from-checkpoint", "a miss reads the version that the table names, although a newer one was evicted since";
    WalkEndsEarly, "walk-ends-early", "the walk over the lines to be persisted ends one line early";
    CommitWithTable, "commit-with-table", "the commit record is written when the table is durable, without waiting for the lines";
    CommitBeforeDurable, "commit-before-durable", "the commit record is written when the last line was accepted, not when it is durable";
    AnnounceAtEnd, "announce-at-end", "output leaves the machine when its epoch ends, not when the commit record is durable";
    CopiesTogether, "copies-together", "both copies of the commit record are written at once, so one cut can tear both";
    BeforeForgotten, "before-forgotten", "table words name the home address as the place of the version before, wherever that is";
    PointerForgotten, "pointer-forgotten", "the word that names a new leaf is not written";
    TornRecordAccepted, "torn-record-accepted", "recovery takes a torn commit record for a whole one";
    NewestTaken, "newest-taken", "recovery takes the newest version that the table names, whatever epoch is committed";
    RetiresFirst, "retires-first", "recovery records that every line is at home before it has copied the lines there";
}

/// Of these, the mistakes in the mapping table and in recovery, which a library can make as well:
/// `software-shadow` has bugs of the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Table words name the home address as the place of the version before.
    BeforeForgotten,
    /// The word that names a new leaf is not written.
    PointerForgotten,
    /// Recovery takes a torn record for a whole one.
    TornRecordAccepted,
    /// Recovery takes the newest version, whatever epoch is committed.
    NewestTaken,
    /// Recovery records that lines are at home before it copies them there.
    RetiresFirst,
}

impl Flaw {
    /// By the name of the planted bug.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "before-forgotten" => Some(Self::BeforeForgotten),
            "pointer-forgotten" => Some(Self::PointerForgotten),
            "torn-record-accepted" => Some(Self::TornRecordAccepted),
            "newest-taken" => Some(Self::NewestTaken),
            "retires-first" => Some(Self::RetiresFirst),
            _ => None,
        }
    }
}
